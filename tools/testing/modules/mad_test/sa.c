// SPDX-License-Identifier: GPL-2.0
/* The client of the subnet administrator: what its queries look like on the wire, and how they end. */
#include <rdma/ib_sa.h>
#include "sa.h"

#define LONG_MS 60000

struct ib_sa_client mt_sa_client;

/* Queries */

void mt_ask(struct mt_query *query)
{
	memset(query, 0, sizeof(*query));
	init_completion(&query->done);
	query->id = -1;
}

bool mt_answered(struct mt_query *query)
{
	return wait_for_completion_timeout(&query->done, msecs_to_jiffies(10000 * mt_slowness));
}

static void on_path(int status, struct sa_path_rec *rec, unsigned int count, void *context)
{
	struct mt_query *query = context;

	query->status = status;
	query->count = count;
	if (!status && count)
		query->path = *rec;
	atomic_inc(&query->calls);
	complete(&query->done);
}

static void on_services(int status, struct sa_service_rec *rec, unsigned int count, void *context)
{
	struct mt_query *query = context;
	u8 wanted[176], got[176];
	u32 nth;

	query->status = status;
	query->count = count;
	for (nth = 0; !status && nth < count; nth++) {
		fake_ib_sa_service(nth, wanted);
		memset(got, 0xff, sizeof(got));
		ib_sa_pack_service(&rec[nth], got);
		query->wrong += memcmp(wanted, got, sizeof(got)) != 0 || rec[nth].id != cpu_to_be64(0x1000 + nth);
	}
	atomic_inc(&query->calls);
	complete(&query->done);
}

static void on_guids(int status, struct ib_sa_guidinfo_rec *rec, void *context)
{
	struct mt_query *query = context;

	query->status = status;
	if (!status && rec)
		query->guids = *rec;
	atomic_inc(&query->calls);
	complete(&query->done);
}

/* From port 1 to port 2, with all fields. */
void mt_path(struct sa_path_rec *path)
{
	memset(path, 0, sizeof(*path));
	path->rec_type = SA_PATH_REC_TYPE_IB;
	path->service_id = cpu_to_be64(0x0102030405060708ULL);
	path->dgid = fake_ib_ports[2].gids[0];
	path->sgid = fake_ib_ports[1].gids[0];
	path->ib.dlid = cpu_to_be16(0x1122);
	path->ib.slid = cpu_to_be16(0x3344);
	path->ib.raw_traffic = 1;
	path->flow_label = cpu_to_be32(0xabcde);
	path->hop_limit = 0x3f;
	path->traffic_class = 0x5a;
	path->reversible = 1;
	path->numb_path = 0x55;
	path->pkey = cpu_to_be16(0x8001);
	path->qos_class = cpu_to_be16(0xabc);
	path->sl = 0xd;
	path->mtu_selector = 2;
	path->mtu = 4;
	path->rate_selector = 1;
	path->rate = 0x12;
	path->packet_life_time_selector = 3;
	path->packet_life_time = 0x15;
	path->preference = 7;
}

/* The same as it stands in a MAD. */
static const u8 path_bytes[64] = {
	0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
	0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x02, 0xc9, 0x03, 0, 0, 0, 0x12,
	0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x02, 0xc9, 0x03, 0, 0, 0, 0x11,
	0x11, 0x22, 0x33, 0x44,
	0x8a, 0xbc, 0xde, 0x3f,
	0x5a, 0xd5, 0x80, 0x01,
	0xab, 0xcd, 0x84, 0x52,
	0xd5, 0x07, 0, 0, 0, 0, 0, 0,
};

int mt_query_path(struct mt_query *query, unsigned int timeout_ms)
{
	struct sa_path_rec path;

	mt_ask(query);
	mt_path(&path);
	query->id = ib_sa_path_rec_get(&mt_sa_client, mt_device, 1, &path, IB_SA_PATH_REC_DGID | IB_SA_PATH_REC_SGID |
				       IB_SA_PATH_REC_NUMB_PATH | IB_SA_PATH_REC_REVERSIBLE, timeout_ms, GFP_KERNEL, on_path,
				       query, &query->query);
	return min(query->id, 0);
}

/* While the core does not know its subnet manager yet, it says so. */
int mt_query_path_soon(struct mt_query *query, unsigned int timeout_ms)
{
	unsigned long end = jiffies + 5 * HZ * mt_slowness;
	int ret;

	do {
		ret = mt_query_path(query, timeout_ms);
		if (ret != -EAGAIN)
			break;
		usleep_range(500, 1000);
	} while (time_before(jiffies, end));
	return ret;
}

/* The nth request of an attribute that port 1 has sent; an ACK of an answer in segments looks like one, but for RMPP. */
struct fake_ib_packet *mt_sa_request(u16 attribute, u8 method, int nth)
{
	struct fake_ib_packet *sent;
	int this;

	for (this = 0; (sent = mt_wire_packet(1, 0, this)); this++)
		if (fake_ib_hdr(sent)->mgmt_class == IB_MGMT_CLASS_SUBN_ADM && fake_ib_hdr(sent)->method == method && !sent->mad[25] &&
		    fake_ib_hdr(sent)->attr_id == cpu_to_be16(attribute) && !(sent->mad[26] & 1) && !nth--)
			return sent;
	return NULL;
}

int mt_sa_requests(u16 attribute, u8 method)
{
	int count = 0;

	while (mt_sa_request(attribute, method, count))
		count++;
	return count;
}

bool mt_wait_request(u16 attribute, u8 method, int count, unsigned int ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(ms * mt_slowness);

	while (mt_sa_requests(attribute, method) < count) {
		if (time_after(jiffies, end))
			return false;
		usleep_range(500, 1000);
	}
	return true;
}

/* All of a request but its data. */
void mt_check_request(struct fake_ib_packet *sent, u16 attribute, u8 method, u64 mask, const char *name)
{
	u8 wanted[56] = { 1, 3, 2, method };

	if (!sent)
		return CHECK(false, "%s is sent", name);
	memcpy(wanted + 8, sent->mad + 8, 8);
	put_unaligned_be16(attribute, wanted + 16);
	put_unaligned_be64(mask, wanted + 48);
	CHECK(!memcmp(sent->mad, wanted, sizeof(wanted)), "%s: the header", name);
	CHECK(sent->dlid == fake_ib_ports[1].sm_lid && sent->dest_qpn == 1 && sent->qkey == IB_QP1_QKEY,
	      "%s: to the subnet manager", name);
	CHECK(sent->pkey == 0xffff && !sent->has_grh && sent->length == 256, "%s: with the default P_Key", name);
}

/* The answer that a test wants, instead of the administrator's. */
static u8 ready_answer[200];

static enum fake_ib_fate answer_ready(struct fake_ib_packet *packet, int nth)
{
	struct fake_ib_packet *copy;

	if (packet->port != 1 || fake_ib_hdr(packet)->mgmt_class != IB_MGMT_CLASS_SUBN_ADM)
		return FAKE_IB_PASS;
	copy = kmemdup(packet, sizeof(*packet), GFP_KERNEL);
	if (!copy)
		return FAKE_IB_PASS;
	fake_ib_turn(copy);
	fake_ib_hdr(copy)->method |= IB_MGMT_METHOD_RESP;
	memcpy(copy->mad + 56, ready_answer, sizeof(ready_answer));
	fake_ib_send(copy);
	kfree(copy);
	return FAKE_IB_LOSE;
}

static void check_path(const struct sa_path_rec *got, const char *name)
{
	struct sa_path_rec want;

	mt_path(&want);
	CHECK(got->service_id == want.service_id && !memcmp(&got->dgid, &want.dgid, 16) && !memcmp(&got->sgid, &want.sgid, 16),
	      "%s: service and GIDs", name);
	CHECK(got->ib.dlid == want.ib.dlid && got->ib.slid == want.ib.slid && got->ib.raw_traffic == 1, "%s: LIDs", name);
	CHECK(got->flow_label == want.flow_label && got->hop_limit == 0x3f && got->traffic_class == 0x5a, "%s: route", name);
	CHECK(got->reversible == 1 && got->numb_path == 0x55 && got->pkey == want.pkey, "%s: P_Key", name);
	CHECK(got->qos_class == want.qos_class && got->sl == 0xd, "%s: class and level of service", name);
	CHECK(got->mtu_selector == 2 && got->mtu == 4 && got->rate_selector == 1 && got->rate == 0x12, "%s: MTU and rate", name);
	CHECK(got->packet_life_time_selector == 3 && got->packet_life_time == 0x15 && got->preference == 7,
	      "%s: life time", name);
}

static void test_packing(void)
{
	struct sa_path_rec path;
	u8 bytes[64];

	memset(bytes, 0xff, sizeof(bytes));
	mt_path(&path);
	ib_sa_pack_path(&path, bytes);
	CHECK(!memcmp(bytes, path_bytes, sizeof(bytes)), "a path is packed");
	memset(&path, 0, sizeof(path));
	ib_sa_unpack_path((void *)path_bytes, &path);
	check_path(&path, "a path is unpacked");
}

static void test_path(void)
{
	struct mt_query query;
	struct fake_ib_packet *sent;

	memcpy(ready_answer, path_bytes, sizeof(path_bytes));
	mt_wire_begin(answer_ready);
	CHECK_EQ(0, mt_query_path(&query, LONG_MS), "a path is asked for");
	CHECK(mt_answered(&query), "and answered");
	sent = mt_sa_request(0x35, 1, 0);
	mt_check_request(sent, 0x35, 1, BIT(2) | BIT(3) | BIT(11) | BIT(12), "a path query");
	if (sent) {
		CHECK(!memcmp(sent->mad + 56, path_bytes, sizeof(path_bytes)), "the path query: the record");
		CHECK(!memchr_inv(sent->mad + 120, 0, 136), "the path query: nothing behind it");
	}
	CHECK_EQ(0, query.status, "it succeeds");
	CHECK_EQ(1, query.count, "with one path");
	CHECK_EQ(SA_PATH_REC_TYPE_IB, query.path.rec_type, "of InfiniBand");
	check_path(&query.path, "its answer");
	msleep(20);
	CHECK_EQ(1, atomic_read(&query.calls), "its owner is called once");

	mt_wire_begin(NULL);
	CHECK_EQ(0, mt_query_path(&query, LONG_MS), "the administrator is asked");
	CHECK(mt_answered(&query) && !query.status, "and answers");
	CHECK_EQ(fake_ib_ports[2].lid, be16_to_cpu(query.path.ib.dlid), "with the LID of the other port");
}

static void test_refused(void)
{
	struct mt_query query;
	struct sa_path_rec path;

	fake_ib_sa_status(0x0300);
	CHECK_EQ(0, mt_query_path(&query, LONG_MS), "a path that there is not");
	CHECK(mt_answered(&query), "is answered");
	CHECK_EQ(-EINVAL, query.status, "with an error");
	fake_ib_sa_status(0);

	fake_ib_refuse_send(1, 1, 1, -EIO);
	CHECK_EQ(-EIO, mt_query_path(&query, LONG_MS), "the driver refuses to send");
	CHECK(!query.query, "there is no query");
	msleep(20);
	CHECK_EQ(0, atomic_read(&query.calls), "nobody is called");

	mt_path(&path);
	path.rec_type = SA_PATH_REC_TYPE_ROCE_V2;
	CHECK_EQ(-EINVAL, ib_sa_path_rec_get(&mt_sa_client, mt_device, 1, &path, IB_SA_PATH_REC_DGID, 100, GFP_KERNEL, on_path,
					     &query, &query.query), "a path of RoCE");
	CHECK_EQ(-EINVAL, ib_sa_guid_info_rec_query(&mt_sa_client, mt_device, 1, &query.guids, 0, 0x12, 100, GFP_KERNEL,
						    on_guids, &query, &query.query), "a method that is not for GUIDs");
}

static void test_timeouts(void)
{
	struct mt_query query;
	unsigned long begin = jiffies;
	s64 ms;

	fake_ib_administrate(false);
	mt_wire_begin(NULL);
	CHECK_EQ(0, mt_query_path(&query, 400), "nobody answers");
	CHECK(mt_answered(&query), "the query comes to its end");
	ms = mt_ms_since(begin);
	CHECK_EQ(-ETIMEDOUT, query.status, "with a timeout");
	CHECK_EQ(0, query.count, "without a path");
	CHECK_EQ(11, mt_sa_requests(0x35, 1), "after ten retries");
	mt_result(ms >= 390 && ms < 440 + 600 * mt_slowness, ms, "in ten parts of its time and one more");
	mt_wire_begin(NULL);
	CHECK_EQ(0, mt_query_path(&query, 5), "a time of 5 ms");
	CHECK(mt_answered(&query) && query.status == -ETIMEDOUT, "is over");
	CHECK_EQ(6, mt_sa_requests(0x35, 1), "after five retries");
	fake_ib_administrate(true);
}

static void test_cancel(void)
{
	struct mt_query query, other;

	fake_ib_administrate(false);
	mt_wire_begin(NULL);
	CHECK(!mt_query_path(&query, LONG_MS) && !mt_query_path(&other, LONG_MS), "two queries");
	CHECK(query.id != other.id && query.id >= 0 && other.id >= 0, "have numbers");
	CHECK(query.query && other.query, "and are told");
	CHECK(mt_wait_request(0x35, 1, 2, 5000), "both are sent");
	ib_sa_cancel_query(other.id, query.query);
	msleep(30);
	CHECK_EQ(0, atomic_read(&query.calls) + atomic_read(&other.calls), "a wrong number cancels nothing");
	ib_sa_cancel_query(query.id, query.query);
	CHECK(mt_answered(&query), "a cancelled query comes to its end");
	CHECK_EQ(-EINTR, query.status, "as an interrupted one");
	ib_sa_cancel_query(query.id, query.query);
	CHECK_EQ(0, atomic_read(&other.calls), "the other one goes on");
	ib_sa_cancel_query(other.id, other.query);
	CHECK(mt_answered(&other) && other.status == -EINTR, "until it is cancelled, too");
	msleep(20);
	CHECK(atomic_read(&query.calls) == 1 && atomic_read(&other.calls) == 1, "each is told once");
	fake_ib_administrate(true);
}

/* The answer has come, but the completion of the send has not: a query that is cancelled then has no second callback. */
static void test_cancel_answered(void)
{
	struct mt_query query;

	fake_ib_hold(1, 1, FAKE_IB_HOLD_COMPLETIONS);
	CHECK_EQ(0, mt_query_path(&query, LONG_MS), "a query");
	CHECK(mt_answered(&query) && !query.status, "is answered");
	ib_sa_cancel_query(query.id, query.query);
	fake_ib_hold(1, 1, 0);
	fake_ib_settle();
	CHECK(mt_fence(1, 1), "its send is completed");
	msleep(20);
	CHECK_EQ(1, atomic_read(&query.calls), "it has come to its end once");
	CHECK_EQ(0, query.status, "well");
}

static void test_atomic(void)
{
	static DEFINE_SPINLOCK(lock);
	struct mt_query query;
	struct sa_path_rec path;

	mt_ask(&query);
	mt_path(&path);
	spin_lock_irq(&lock);
	query.id = ib_sa_path_rec_get(&mt_sa_client, mt_device, 1, &path, IB_SA_PATH_REC_DGID | IB_SA_PATH_REC_SGID, LONG_MS,
				      GFP_ATOMIC, on_path, &query, &query.query);
	spin_unlock_irq(&lock);
	CHECK(query.id >= 0, "a query under a lock");
	CHECK(query.id >= 0 && mt_answered(&query) && !query.status, "is answered");
}

/* More queries at a time than may wait for responses. */
static void test_many(void)
{
	static struct mt_query queries[150];
	int nth, started = 0, answered = 0;

	fake_ib_administrate(false);
	mt_wire_begin(NULL);
	for (nth = 0; nth < ARRAY_SIZE(queries); nth++)
		started += !mt_query_path(&queries[nth], LONG_MS);
	CHECK_EQ(ARRAY_SIZE(queries), started, "many queries");
	CHECK(mt_wait_request(0x35, 1, 128, 5000), "128 are sent");
	msleep(50);
	CHECK_EQ(128, mt_sa_requests(0x35, 1), "no more");
	for (nth = 100; nth < ARRAY_SIZE(queries); nth++)
		ib_sa_cancel_query(queries[nth].id, queries[nth].query);
	for (nth = 100; nth < ARRAY_SIZE(queries); nth++)
		answered += mt_answered(&queries[nth]) && queries[nth].status == -EINTR;
	CHECK_EQ(50, answered, "those that are cancelled come to their end, sent or not");
	for (nth = 0; nth < 100; nth++)
		ib_sa_cancel_query(queries[nth].id, queries[nth].query);
	for (nth = 0; nth < 100; nth++)
		answered += mt_answered(&queries[nth]) && queries[nth].status == -EINTR;
	CHECK_EQ(150, answered, "all the others, too");
	fake_ib_administrate(true);
}

/* Service records, which come in segments. */
static void test_services(void)
{
	static const u32 counts[] = { 1, 2, 3, 40, 100 };
	struct sa_service_rec record = { .id = cpu_to_be64(0xa1a2a3a4a5a6a7a8ULL), .pkey = cpu_to_be16(0x8765),
					 .lease = cpu_to_be32(0x11223344), .name = "name", .data_16 = { cpu_to_be16(0x1234) } };
	struct fake_ib_packet *sent;
	struct mt_query query;
	u8 wanted[200] = {};
	int nth;

	memset(record.gid, 0xcc, 16);
	memset(record.key, 0xdd, 16);
	put_unaligned_be64(0xa1a2a3a4a5a6a7a8ULL, wanted);
	memset(wanted + 8, 0xcc, 16);
	put_unaligned_be16(0x8765, wanted + 24);
	put_unaligned_be32(0x11223344, wanted + 28);
	memset(wanted + 32, 0xdd, 16);
	memcpy(wanted + 48, "name", 4);
	put_unaligned_be16(0x1234, wanted + 128);
	for (nth = 0; nth < ARRAY_SIZE(counts); nth++) {
		fake_ib_sa_services(counts[nth]);
		mt_wire_begin(NULL);
		mt_ask(&query);
		query.id = ib_sa_service_rec_get(&mt_sa_client, mt_device, 1, &record, IB_SA_SERVICE_REC_SERVICE_NAME, LONG_MS,
						 GFP_KERNEL, on_services, &query, &query.query);
		CHECK(query.id >= 0 && mt_answered(&query), "%u services are asked for", counts[nth]);
		CHECK_EQ(0, query.status, "%u services: status", counts[nth]);
		CHECK_EQ(counts[nth], query.count, "%u services: how many", counts[nth]);
		CHECK_EQ(0, query.wrong, "%u services: what they are", counts[nth]);
	}
	sent = mt_sa_request(0x31, 0x12, 0);
	mt_check_request(sent, 0x31, 0x12, BIT(6), "a query for services");
	if (sent)
		CHECK(!memcmp(sent->mad + 56, wanted, sizeof(wanted)), "a query for services: the record");
	fake_ib_sa_services(0);
	mt_ask(&query);
	query.id = ib_sa_service_rec_get(&mt_sa_client, mt_device, 1, &record, 0, LONG_MS, GFP_KERNEL, on_services, &query,
					 &query.query);
	CHECK(query.id >= 0 && mt_answered(&query), "there is no service");
	CHECK_EQ(-ENODATA, query.status, "that is told");
	CHECK_EQ(1, atomic_read(&query.calls), "once");
	fake_ib_sa_status(0x0300);
	mt_ask(&query);
	query.id = ib_sa_service_rec_get(&mt_sa_client, mt_device, 1, &record, 0, LONG_MS, GFP_KERNEL, on_services, &query,
					 &query.query);
	CHECK(query.id >= 0 && mt_answered(&query) && query.status == -EINVAL, "services are refused");
	fake_ib_sa_status(0);
	fake_ib_administrate(false);
	mt_ask(&query);
	query.id = ib_sa_service_rec_get(&mt_sa_client, mt_device, 1, &record, 0, LONG_MS, GFP_KERNEL, on_services, &query,
					 &query.query);
	ib_sa_cancel_query(query.id, query.query);
	CHECK(query.id >= 0 && mt_answered(&query) && query.status == -EINTR, "a query for services is cancelled");
	fake_ib_administrate(true);
}

static void test_guids(void)
{
	struct ib_sa_guidinfo_rec record = { .lid = cpu_to_be16(0x1234), .block_num = 5 };
	struct fake_ib_packet *sent;
	struct mt_query query;
	u8 wanted[200] = { 0x12, 0x34, 5 };
	int nth;

	for (nth = 0; nth < 64; nth++)
		record.guid_info_list[nth] = wanted[8 + nth] = 0x40 + nth;
	mt_wire_begin(NULL);
	mt_ask(&query);
	query.id = ib_sa_guid_info_rec_query(&mt_sa_client, mt_device, 1, &record,
					     IB_SA_GUIDINFO_REC_LID | IB_SA_GUIDINFO_REC_GID3, IB_MGMT_METHOD_SET, LONG_MS,
					     GFP_KERNEL, on_guids, &query, &query.query);
	CHECK(query.id >= 0 && mt_answered(&query), "GUIDs are set");
	CHECK_EQ(0, query.status, "well");
	sent = mt_sa_request(0x30, 2, 0);
	mt_check_request(sent, 0x30, 2, BIT(0) | BIT(7), "a Set of GUIDs");
	if (sent)
		CHECK(!memcmp(sent->mad + 56, wanted, sizeof(wanted)), "a Set of GUIDs: the record");
	CHECK(query.guids.lid == record.lid && query.guids.block_num == 5 &&
	      !memcmp(query.guids.guid_info_list, record.guid_info_list, 64), "the answer is unpacked");
}

static void unregister_work(struct work_struct *work)
{
	ib_sa_unregister_client(&mt_sa_client);
}

static void test_unregister(void)
{
	struct work_struct work;
	struct mt_query query;

	INIT_WORK_ONSTACK(&work, unregister_work);
	fake_ib_administrate(false);
	CHECK_EQ(0, mt_query_path(&query, LONG_MS), "a query");
	queue_work(system_dfl_wq, &work);
	msleep(100);
	CHECK(work_busy(&work) && !atomic_read(&query.calls), "its client waits for it");
	ib_sa_cancel_query(query.id, query.query);
	flush_work(&work);
	destroy_work_on_stack(&work);
	CHECK_EQ(1, atomic_read(&query.calls), "until it has come to its end");
	fake_ib_administrate(true);
	ib_sa_register_client(&mt_sa_client);
}

static void test_ah_attr(void)
{
	struct rdma_ah_attr attr;
	struct sa_path_rec path;

	mt_path(&path);
	CHECK_EQ(0, ib_init_ah_attr_from_path(mt_device, 1, &path, &attr, NULL), "an address of a path");
	CHECK(attr.type == RDMA_AH_ATTR_TYPE_IB && rdma_ah_get_dlid(&attr) == 0x1122 && attr.sl == 0xd && attr.port_num == 1 &&
	      attr.static_rate == 0x12, "its fields");
	CHECK_EQ(0, rdma_ah_get_path_bits(&attr), "its path bits, where a port has one LID");
	CHECK(rdma_ah_get_ah_flags(&attr) == IB_AH_GRH && attr.grh.hop_limit == 0x3f && attr.grh.flow_label == 0xabcde &&
	      attr.grh.traffic_class == 0x5a && !memcmp(&attr.grh.dgid, &path.dgid, 16), "its route");
	CHECK(attr.grh.sgid_attr && !memcmp(&attr.grh.sgid_attr->gid, &path.sgid, 16), "the GID that it is from");
	rdma_destroy_ah_attr(&attr);
	path.hop_limit = 0;
	CHECK_EQ(0, ib_init_ah_attr_from_path(mt_device, 1, &path, &attr, NULL), "a path within the subnet");
	CHECK_EQ(0, rdma_ah_get_ah_flags(&attr), "has no route");
	rdma_destroy_ah_attr(&attr);
	path.hop_limit = 1;
	path.sgid.raw[15] = 0x99;
	CHECK(ib_init_ah_attr_from_path(mt_device, 1, &path, &attr, NULL) < 0, "from a GID that the port does not have");
}

static void test_roce(void)
{
	struct ib_sa_mcmember_rec member = {};
	struct sa_service_rec service = {};
	struct sa_path_rec path = {};
	struct mt_query query;
	union ib_gid gid = {};

	if (!mt_roce)
		return CHECK(false, "there is a RoCE device");
	CHECK_EQ(-ENODEV, ib_sa_path_rec_get(&mt_sa_client, mt_roce, 1, &path, 0, 100, GFP_KERNEL, on_path, &query, &query.query),
		 "RoCE has no administrator for paths");
	CHECK_EQ(-ENODEV, ib_sa_service_rec_get(&mt_sa_client, mt_roce, 1, &service, 0, 100, GFP_KERNEL, on_services, &query,
						&query.query), "nor for services");
	CHECK_EQ(-ENODEV, ib_sa_guid_info_rec_query(&mt_sa_client, mt_roce, 1, &query.guids, 0, 1, 100, GFP_KERNEL, on_guids,
						    &query, &query.query), "nor for GUIDs");
	CHECK_EQ(-ENODEV, PTR_ERR_OR_ZERO(ib_sa_join_multicast(&mt_sa_client, mt_roce, 1, &member, 0, GFP_KERNEL, NULL, NULL)),
		 "nor for multicast groups");
	CHECK_EQ(-ENODEV, ib_sa_get_mcmember_rec(mt_roce, 1, &gid, &member), "nor what is known of one");
}

void mt_test_sa(void)
{
	ib_sa_register_client(&mt_sa_client);
	MT_FRESH(test_packing());
	MT_FRESH(test_path());
	MT_FRESH(test_refused());
	MT_FRESH(test_timeouts());
	MT_FRESH(test_cancel());
	if (mt_strict)
		MT_FRESH(test_cancel_answered());
	MT_FRESH(test_atomic());
	MT_FRESH(test_many());
	MT_FRESH(test_services());
	MT_FRESH(test_guids());
	MT_FRESH(test_unregister());
	MT_FRESH(test_ah_attr());
	MT_FRESH(test_roce());
	ib_sa_unregister_client(&mt_sa_client);
}
