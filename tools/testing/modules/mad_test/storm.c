// SPDX-License-Identifier: GPL-2.0
/*
 * Everything at once, by several threads: agents come and go, requests and transfers are cancelled, queries, groups, events, and
 * packets of any content, over a network that loses, doubles and delays. Whatever was begun comes to its end once.
 */
#include <linux/kthread.h>
#include <linux/random.h>
#include "rmpp_packets.h"
#include "sa.h"

#define GET IB_MGMT_METHOD_GET
#define SEND IB_MGMT_METHOD_SEND

static int storm_ms = 2000;
module_param(storm_ms, int, 0644);
MODULE_PARM_DESC(storm_ms, "How long the storm lasts");

static atomic_t begun, ended, asked, answered, wrong;
static struct ib_mad_agent *servers[FAKE_IB_PORTS + 1];

static bool one_in(u32 chances)
{
	return !get_random_u32_below(chances);
}

static enum fake_ib_fate fate(struct fake_ib_packet *packet, int nth)
{
	if (one_in(12))
		return FAKE_IB_LOSE;
	packet->delay_ms = one_in(4) ? get_random_u32_below(5) : 0;
	return one_in(12) ? FAKE_IB_TWICE : FAKE_IB_PASS;
}

static void on_sent(struct ib_mad_agent *agent, struct ib_mad_send_wc *wc)
{
	atomic_inc(&ended);
	ib_free_send_mad(wc->send_buf);
}

static void on_received(struct ib_mad_agent *agent, struct ib_mad_send_buf *send, struct ib_mad_recv_wc *mad)
{
	ib_free_recv_mad(mad);
}

/* Answers of a server are not counted: it may be asked by packets that nobody has begun. */
static void on_answered(struct ib_mad_agent *agent, struct ib_mad_send_wc *wc)
{
	rdma_destroy_ah(wc->send_buf->ah, RDMA_DESTROY_AH_SLEEPABLE);
	ib_free_send_mad(wc->send_buf);
}

static void on_asked(struct ib_mad_agent *agent, struct ib_mad_send_buf *unused, struct ib_mad_recv_wc *mad)
{
	struct ib_mad_send_buf *send = NULL;
	struct ib_ah *ah = ib_create_ah_from_wc(agent->qp->pd, mad->wc, mad->recv_buf.grh, agent->port_num);

	if (IS_ERR(ah))
		goto free;
	send = ib_create_send_mad(agent, mad->wc->src_qp, 0, 0, IB_MGMT_MAD_HDR, IB_MGMT_MAD_DATA, GFP_KERNEL,
				  IB_MGMT_BASE_VERSION);
	if (IS_ERR(send)) {
		rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
		goto free;
	}
	memcpy(send->mad, mad->recv_buf.mad, IB_MGMT_MAD_SIZE);
	((struct ib_mad_hdr *)send->mad)->method |= IB_MGMT_METHOD_RESP;
	send->ah = ah;
	if (ib_post_send_mad(send, NULL)) {
		rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
		ib_free_send_mad(send);
	}
free:
	ib_free_recv_mad(mad);
}

static struct ib_mad_agent *serve(u32 port)
{
	struct ib_mad_reg_req req;

	mt_fill_request(&req, &(struct mt_request){ .class = MT_CLASS, .version = 1, .methods = MT_METHODS(GET, SEND) });
	return ib_register_mad_agent(mt_device, port, IB_QPT_GSI, &req, 0, on_answered, on_asked, NULL, 0);
}

static struct ib_mad_send_buf *make(struct ib_mad_agent *agent, bool transfer)
{
	u32 length = transfer ? get_random_u32_below(20000) : IB_MGMT_MAD_DATA;
	int header = transfer ? IB_MGMT_VENDOR_HDR : IB_MGMT_MAD_HDR;
	static atomic_t last;
	struct ib_mad_send_buf *send;
	struct ib_mad_hdr *hdr;

	send = ib_create_send_mad(agent, 1, 0, transfer, header, length, GFP_KERNEL, IB_MGMT_BASE_VERSION);
	if (IS_ERR(send))
		return NULL;
	hdr = send->mad;
	hdr->base_version = IB_MGMT_BASE_VERSION;
	hdr->mgmt_class = transfer ? MT_OUI_CLASS : MT_CLASS;
	hdr->class_version = 1;
	hdr->method = one_in(2) ? GET : SEND;
	hdr->tid = cpu_to_be64((u64)agent->hi_tid << 32 | atomic_inc_return(&last));
	if (transfer)
		put_unaligned_be24(RMPP_OUI, ((struct ib_vendor_mad *)hdr)->oui);
	send->ah = mt_ah(agent, one_in(4) ? MT_FAR_LID : fake_ib_ports[1 + one_in(2)].lid);
	send->timeout_ms = get_random_u32_below(20);
	send->retries = get_random_u32_below(3);
	return send;
}

/* Requests, or transfers, of an agent that comes and goes. */
static void round_of_sends(u32 port, bool transfers)
{
	struct ib_mad_agent *agent;
	struct ib_mad_reg_req req;
	struct ib_mad_send_buf *send;
	int nth;

	mt_fill_request(&req, &(struct mt_request){ .class = MT_OUI_CLASS, .version = 1, .oui = RMPP_OUI,
						     .methods = MT_METHODS(GET, SEND) });
	agent = ib_register_mad_agent(mt_device, port, IB_QPT_GSI, transfers ? &req : NULL, transfers, on_sent, on_received, NULL, 0);
	if (IS_ERR(agent)) {
		atomic_inc(&wrong);
		return;
	}
	for (nth = 0; nth < 20; nth++) {
		send = make(agent, transfers);
		if (!send)
			break;
		atomic_inc(&begun);
		if (ib_post_send_mad(send, NULL)) {
			atomic_dec(&begun);
			ib_free_send_mad(send);
			atomic_inc(&wrong);
		}
		if (one_in(5))
			usleep_range(100, 3000);
	}
	ib_unregister_mad_agent(agent);
}

static int send_thread(void *port)
{
	while (!kthread_should_stop())
		round_of_sends((unsigned long)port, false);
	return 0;
}

static int transfer_thread(void *port)
{
	while (!kthread_should_stop())
		round_of_sends((unsigned long)port, true);
	return 0;
}

/* Queries */

static void on_path(int status, struct sa_path_rec *rec, unsigned int count, void *context)
{
	atomic_inc(&answered);
	/* Whatever was delivered as a response: one of these. */
	if (status && status != -EINTR && status != -ETIMEDOUT && status != -EINVAL)
		atomic_inc(&wrong);
}

static void ask(void)
{
	struct sa_path_rec path;
	struct ib_sa_query *query;
	int id;

	mt_path(&path);
	atomic_inc(&asked);
	id = ib_sa_path_rec_get(&mt_sa_client, mt_device, 1 + one_in(2), &path, IB_SA_PATH_REC_DGID | IB_SA_PATH_REC_SGID,
				1 + get_random_u32_below(100), GFP_KERNEL, on_path, NULL, &query);
	if (id < 0) {
		atomic_dec(&asked);
		atomic_add(id != -EAGAIN, &wrong);
	} else if (one_in(2)) {
		usleep_range(1, 2000);
		ib_sa_cancel_query(id, query);
	}
}

static int query_thread(void *unused)
{
	while (!kthread_should_stop()) {
		ask();
		if (one_in(3))
			usleep_range(100, 1000);
	}
	return 0;
}

static int on_joined(int status, struct ib_sa_multicast *multicast)
{
	return 0;
}

static int group_thread(void *unused)
{
	struct ib_sa_multicast *members[8] = {};
	struct ib_sa_mcmember_rec rec = {};
	u32 nth;

	while (!kthread_should_stop()) {
		nth = get_random_u32_below(ARRAY_SIZE(members));
		if (members[nth]) {
			ib_sa_free_multicast(members[nth]);
			members[nth] = NULL;
			continue;
		}
		rec.mgid = (union ib_gid){ .raw = { 0xff, 0x12, [15] = 1 + get_random_u32_below(3) } };
		rec.port_gid = fake_ib_ports[1].gids[0];
		rec.join_state = 1 << get_random_u32_below(4);
		members[nth] = ib_sa_join_multicast(&mt_sa_client, mt_device, 1, &rec, IB_SA_MCMEMBER_REC_MGID |
						    IB_SA_MCMEMBER_REC_PORT_GID | IB_SA_MCMEMBER_REC_JOIN_STATE, GFP_KERNEL,
						    on_joined, NULL);
		if (IS_ERR(members[nth])) {
			members[nth] = NULL;
			atomic_inc(&wrong);
		}
		usleep_range(100, 2000);
	}
	for (nth = 0; nth < ARRAY_SIZE(members); nth++)
		if (members[nth])
			ib_sa_free_multicast(members[nth]);
	return 0;
}

/* What happens to a port, and what comes from outside. */

static void inject(struct fake_ib_packet *packet)
{
	static const u8 classes[] = { 0x01, 0x81, 0x03, 0x04, 0x07, MT_CLASS, MT_OUI_CLASS, 0x31 };
	u32 port = 1 + one_in(2), qpn = one_in(4) ? 0 : 1;
	u8 flags = get_random_u8();

	mt_make(packet, port, qpn, classes[get_random_u32_below(ARRAY_SIZE(classes))], 1 + one_in(4), get_random_u8(), 0);
	get_random_bytes(packet->mad + 24, 232);
	fake_ib_hdr(packet)->tid = cpu_to_be64((u64)get_random_u32_below(500) << 32 | get_random_u32_below(1000));
	/* Often enough they are to be understood. */
	if (one_in(2)) {
		*rmpp(packet) = (struct rmpp_header){ 1, 1 + get_random_u32_below(4), flags & 7, 0,
						       cpu_to_be32(get_random_u32_below(100)), cpu_to_be32(get_random_u32_below(300)) };
		put_unaligned_be24(RMPP_OUI, packet->mad + 37);
	}
	if (fake_ib_hdr(packet)->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE) {
		packet->mad[6] = get_random_u32_below(4);
		packet->mad[7] = get_random_u32_below(4);
		packet->mad[4] = one_in(2) ? 0x80 : 0;
	}
	fake_ib_deliver(packet);
}

static int weather_thread(void *unused)
{
	static const enum ib_event_type events[] = { IB_EVENT_SM_CHANGE, IB_EVENT_LID_CHANGE, IB_EVENT_PORT_ERR,
						     IB_EVENT_PORT_ACTIVE, IB_EVENT_PKEY_CHANGE, IB_EVENT_CLIENT_REREGISTER };
	struct fake_ib_packet *packet = kmalloc_obj(*packet);

	while (!kthread_should_stop()) {
		if (packet)
			inject(packet);
		if (one_in(50))
			fake_ib_event(1 + one_in(2), events[get_random_u32_below(ARRAY_SIZE(events))]);
		usleep_range(100, 500);
	}
	kfree(packet);
	return 0;
}

static void test_storm(void)
{
	static int (*const works[])(void *) = { send_thread, send_thread, transfer_thread, transfer_thread, query_thread, group_thread,
						weather_thread };
	struct task_struct *threads[ARRAY_SIZE(works)];
	int nth, started = 0;

	atomic_set(&begun, 0);
	atomic_set(&ended, 0);
	atomic_set(&asked, 0);
	atomic_set(&answered, 0);
	atomic_set(&wrong, 0);
	mt_wire_begin(fate);
	for (nth = 0; nth < ARRAY_SIZE(works); nth++) {
		threads[nth] = kthread_run(works[nth], (void *)(1UL + nth % 2), "mad_storm%d", nth);
		started += !IS_ERR(threads[nth]);
	}
	CHECK_EQ(ARRAY_SIZE(works), started, "all threads have begun");
	msleep(storm_ms);
	mt_wire_begin(NULL);
	for (nth = 0; nth < ARRAY_SIZE(works); nth++)
		if (!IS_ERR(threads[nth]))
			kthread_stop(threads[nth]);
}

static void test_afterwards(void)
{
	unsigned long end = jiffies + 10 * HZ * mt_slowness;

	while ((atomic_read(&begun) != atomic_read(&ended) || atomic_read(&asked) > atomic_read(&answered)) && time_before(jiffies, end))
		msleep(20);
	pr_info("storm: %d sends, %d queries\n", atomic_read(&begun), atomic_read(&asked));
	CHECK(atomic_read(&begun) > 100 && atomic_read(&asked) > 50, "much was begun");
	CHECK_EQ(atomic_read(&begun), atomic_read(&ended), "all sends have come to their end");
	/* The stock core tells an end twice where a query is cancelled between its answer and the completion of its send. */
	if (mt_strict)
		CHECK_EQ(atomic_read(&asked), atomic_read(&answered), "all queries, too");
	else
		CHECK(atomic_read(&asked) <= atomic_read(&answered), "all queries, too");
	CHECK_EQ(0, atomic_read(&wrong), "nothing ended as it must not");
	CHECK(mt_fence(1, 1), "port 1, QP1 works");
	CHECK(mt_fence(2, 1), "port 2, QP1 works");
	CHECK(mt_fence(1, 0), "port 1, QP0 works");
	CHECK(mt_fence(2, 0), "port 2, QP0 works");
}

void mt_test_storm(void)
{
	servers[1] = serve(1);
	servers[2] = serve(2);
	if (IS_ERR(servers[1]) || IS_ERR(servers[2]))
		return CHECK(false, "servers");
	ib_sa_register_client(&mt_sa_client);
	MT_CASE(test_storm());
	MT_CASE(test_afterwards());
	ib_sa_unregister_client(&mt_sa_client);
	ib_unregister_mad_agent(servers[1]);
	ib_unregister_mad_agent(servers[2]);
	fake_ib_sa_forget();
}
