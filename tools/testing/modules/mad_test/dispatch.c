// SPDX-License-Identifier: GPL-2.0
/* Which agent gets what, and what becomes of datagrams that nobody wants. */
#include "mad_test.h"

#define GET IB_MGMT_METHOD_GET
#define SET IB_MGMT_METHOD_SET
#define SEND IB_MGMT_METHOD_SEND

static struct fake_ib_packet packet;
static atomic_t last_tid;

static u64 new_tid(void)
{
	return 0xd15b000000000000ULL + atomic_inc_return(&last_tid);
}

/* A datagram for a class of QP1, which is delivered by the caller. */
static __be64 make(u8 class, u8 version, u8 method)
{
	u64 tid = new_tid();

	mt_make(&packet, 1, 1, class, version, method, tid);
	return cpu_to_be64(tid);
}

static void make_oui(u32 oui, u8 method)
{
	make(MT_OUI_CLASS, 1, method);
	put_unaligned_be24(oui, packet.mad + 37);
}

enum { ONE, OTHER_VERSION, OUI, OTHER_OUI, CM, AGENTS };

static const struct mt_request requests[AGENTS] = {
	[ONE] = { .port = 1, .type = IB_QPT_GSI, .class = MT_CLASS, .version = 1, .methods = MT_METHODS(GET, SET, SEND) },
	[OTHER_VERSION] = { .port = 1, .type = IB_QPT_GSI, .class = MT_CLASS, .version = 2, .methods = MT_METHODS(GET, 5) },
	[OUI] = { .port = 1, .type = IB_QPT_GSI, .class = MT_OUI_CLASS, .version = 1, .oui = 0x001405, .rmpp = 1,
		  .methods = MT_METHODS(GET, SEND) },
	[OTHER_OUI] = { .port = 1, .type = IB_QPT_GSI, .class = MT_OUI_CLASS, .version = 1, .oui = 0x001406,
			.methods = MT_METHODS(GET) },
	[CM] = { .port = 1, .type = IB_QPT_GSI, .class = IB_MGMT_CLASS_CM, .version = 2, .methods = MT_METHODS(SEND) },
};
static struct mt_agent agents[AGENTS];

/* The response that was sent to it, if any. */
static struct fake_ib_packet *find_answer(__be64 tid)
{
	struct fake_ib_packet *sent;
	int nth;

	for (nth = 0; (sent = mt_wire_packet(1, tid, nth)); nth++)
		if (fake_ib_hdr(sent)->method & IB_MGMT_METHOD_RESP)
			return sent;
	return NULL;
}

/* It is for this agent alone, -1: for none; and it is answered with that status, -1: not at all. */
static void expect(int agent, int status, const char *name)
{
	int nth, wrong = 0, ret = fake_ib_deliver(&packet);
	struct fake_ib_packet *answer;

	CHECK(!ret && mt_fence(1, 1), "%s: the port goes on", name);
	for (nth = 0; nth < AGENTS; nth++)
		wrong |= (agents[nth].received != (nth == agent)) << nth;
	CHECK_EQ(0, wrong, "%s: the agents that are to get it", name);
	if (agent >= 0 && !wrong)
		CHECK(!memcmp(mt_received(&agents[agent], 0)->mad->recv_buf.mad, packet.mad, IB_MGMT_MAD_SIZE),
		      "%s: all bytes", name);
	answer = find_answer(fake_ib_hdr(&packet)->tid);
	CHECK_EQ(status, answer ? be16_to_cpu(fake_ib_hdr(answer)->status) : -1, "%s: answer", name);
	for (nth = 0; nth < AGENTS; nth++)
		mt_forget(&agents[nth]);
}

static void test_requests(void)
{
	make(MT_CLASS, 1, GET);
	expect(ONE, -1, "a Get");
	make(MT_CLASS, 1, SET);
	expect(ONE, -1, "a Set");
	make(MT_CLASS, 1, SEND);
	expect(ONE, -1, "a Send");
	make(MT_CLASS, 2, GET);
	expect(OTHER_VERSION, -1, "another class version");
	make(MT_CLASS, 2, 5);
	expect(OTHER_VERSION, -1, "a Trap");
	make_oui(0x001405, GET);
	expect(OUI, -1, "an OUI");
	make_oui(0x001406, GET);
	expect(OTHER_OUI, -1, "another OUI");
	make(IB_MGMT_CLASS_CM, 2, SEND);
	expect(CM, -1, "connection management");
}

static void test_unmatched(void)
{
	make(MT_CLASS, 3, GET);
	expect(-1, 0xc, "a class version of nobody");
	make(MT_CLASS, 2, SET);
	expect(-1, 0xc, "a method of nobody");
	make(MT_CLASS, 0x82, GET);
	expect(-1, 0xc, "the last class version");
	make(MT_CLASS, 0x83, GET);
	expect(-1, 0xc, "the next one");
	make(MT_CLASS, 0xff, SET);
	expect(-1, 0xc, "the very last one");
	make(MT_CLASS + 1, 1, GET);
	expect(-1, 0xc, "a class of nobody");
	make(80, 1, GET);
	expect(-1, 0xc, "a class behind the table");
	make(0x80, 1, SET);
	expect(-1, 0xc, "class 0x80");
	make(0xff, 1, SET);
	expect(-1, 0xc, "class 0xff");
	make_oui(0x001407, GET);
	expect(-1, 0xc, "an OUI of nobody");
	make_oui(0, GET);
	expect(-1, 0xc, "OUI 0");
	make_oui(0x001406, SET);
	expect(-1, 0xc, "a method of nobody with this OUI");
	make(MT_CLASS + 1, 1, SEND);
	expect(-1, -1, "a Send for nobody");
	make(MT_CLASS + 1, 1, 5);
	expect(-1, -1, "a Trap for nobody");
	make(MT_CLASS + 1, 1, 6);
	expect(-1, -1, "a Report for nobody");
	make(MT_CLASS + 1, 1, 0x12);
	expect(-1, -1, "a GetTable for nobody");
	make(MT_CLASS + 1, 1, 0);
	expect(-1, -1, "method 0");
	make(MT_CLASS + 1, 1, 0x7f);
	expect(-1, -1, "method 0x7f");
}

static void test_invalid(void)
{
	make(MT_CLASS, 1, GET);
	fake_ib_hdr(&packet)->base_version = 2;
	expect(-1, -1, "base version 2");
	make(MT_CLASS, 1, GET);
	fake_ib_hdr(&packet)->base_version = 0x80;
	expect(-1, -1, "the base version of Omni-Path");
	make(IB_MGMT_CLASS_SUBN_LID_ROUTED, 1, GET);
	expect(-1, -1, "subnet management on QP1");
	make(IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE, 1, GET);
	expect(-1, -1, "a directed route on QP1");
	make(IB_MGMT_CLASS_CM, 2, GET);
	expect(-1, -1, "a Get of connection management");
	make(IB_MGMT_CLASS_CM, 2, SET);
	expect(-1, -1, "a Set of connection management");
	make(IB_MGMT_CLASS_CM, 2, GET);
	fake_ib_hdr(&packet)->attr_id = IB_MGMT_CLASSPORTINFO_ATTR_ID;
	expect(-1, 0xc, "a Get of its ClassPortInfo");
	make(IB_MGMT_CLASS_CM, 2, IB_MGMT_METHOD_GET_RESP);
	expect(-1, -1, "a response of connection management");
}

/* A response goes to the agent that has sent the request; without a request it is dropped. */
static void test_responses(void)
{
	__be32 *tid = (__be32 *)&fake_ib_hdr(&packet)->tid;

	make(MT_CLASS, 1, IB_MGMT_METHOD_GET_RESP);
	expect(-1, -1, "a response for nobody");
	make(MT_CLASS, 1, IB_MGMT_METHOD_GET_RESP);
	*tid = cpu_to_be32(agents[ONE].agent->hi_tid);
	expect(-1, -1, "a response without a request");
	make(MT_CLASS, 1, IB_MGMT_METHOD_TRAP_REPRESS);
	*tid = cpu_to_be32(agents[ONE].agent->hi_tid);
	expect(-1, -1, "a TrapRepress without a request");
	make(MT_CLASS, 1, 0xff);
	*tid = cpu_to_be32(~0);
	expect(-1, -1, "the last method and the last transaction");
	make(IB_MGMT_CLASS_BM, 1, SEND);
	fake_ib_hdr(&packet)->attr_mod = IB_BM_ATTR_MOD_RESP;
	expect(-1, -1, "a response of baseboard management");
}

/* A response whose request waits: to whom it goes, whatever class and method others are registered for. */
static void test_matching(void)
{
	struct mt_request wanted = MT_SEND_ONLY(1);
	struct ib_mad_send_buf *send;
	struct mt_agent agent;
	struct ib_mad_hdr *header = fake_ib_hdr(&packet);
	__be64 tid;

	if (mt_open(&agent, &wanted))
		return;
	send = mt_mad(&agent, MT_FAR_LID, MT_CLASS, GET, 20000, 0);
	tid = mt_tid(send);
	CHECK_EQ(0, mt_post(send), "a request");
	mt_wire_wait(1, tid, 1, 5000);
	mt_make(&packet, 1, 1, MT_CLASS + 1, 1, 0x81, be64_to_cpu(tid));
	expect(-1, -1, "a response of another class");
	mt_make(&packet, 1, 1, MT_CLASS, 1, 0x81, be64_to_cpu(tid) + 1);
	expect(-1, -1, "of another transaction");
	mt_make(&packet, 1, 1, MT_CLASS, 1, 0x01, be64_to_cpu(tid));
	expect(ONE, -1, "a request with the same transaction");
	CHECK_EQ(0, agent.count, "none of them is for who waits");
	/* Neither its class version nor its method or attribute has to be that of the request. */
	mt_make(&packet, 1, 1, MT_CLASS, 9, 0xf3, be64_to_cpu(tid));
	header->attr_id = cpu_to_be16(0x1234);
	CHECK_EQ(0, fake_ib_deliver(&packet), "its response");
	CHECK(mt_wait_sent(&agent, 1, 5000), "comes to its end");
	CHECK_EQ(1, agent.received, "and is received");
	if (agent.received == 1) {
		CHECK(mt_received(&agent, 0)->send == send, "with its request");
		CHECK(!memcmp(mt_received(&agent, 0)->mad->recv_buf.mad, packet.mad, IB_MGMT_MAD_SIZE), "all bytes of it");
		CHECK_EQ(IB_WC_SUCCESS, mt_sent(&agent, 0)->status, "the request has succeeded");
		CHECK(agent.events[0].received, "the response comes before the end of the request");
	}
	mt_make(&packet, 1, 1, MT_CLASS, 1, 0x81, be64_to_cpu(tid));
	expect(-1, -1, "the same response once more");
	CHECK_EQ(2, agent.count, "is for nobody");
	mt_close(&agent);
}

static int process_result;
static atomic_t processed;

static int process(u32 port, const struct ib_wc *wc, const struct ib_mad *in, struct ib_mad *out)
{
	if (in->mad_hdr.class_version == MT_FENCE_VERSION)
		return IB_MAD_RESULT_SUCCESS;
	atomic_inc(&processed);
	if (process_result & IB_MAD_RESULT_REPLY) {
		memcpy(out, in, sizeof(*out));
		out->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
		out->mad_hdr.status = cpu_to_be16(0x1c);
		out->data[100] = wc->slid;
	}
	return process_result;
}

/* What the driver does with a datagram goes before everything else. */
static void test_driver(void)
{
	static const struct {
		const char *name;
		int result, agent, status, unmatched;
	} results[] = {
		{ "the driver does nothing", IB_MAD_RESULT_SUCCESS, ONE, -1, 0xc },
		{ "the driver answers", IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY, -1, 0x1c, 0x1c },
		{ "the driver keeps it", IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_CONSUMED, -1, -1, -1 },
		{ "the driver keeps it and would answer", IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY | IB_MAD_RESULT_CONSUMED,
		  -1, -1, -1 },
		{ "the driver fails", IB_MAD_RESULT_FAILURE, ONE, -1, -1 },
	};
	struct fake_ib_packet *answer;
	char name[80];
	__be64 tid;
	int nth;

	fake_ib_process(process);
	for (nth = 0; nth < ARRAY_SIZE(results); nth++) {
		process_result = results[nth].result;
		tid = make(MT_CLASS, 1, GET);
		expect(results[nth].agent, results[nth].status, results[nth].name);
		answer = mt_wire_packet(1, tid, 0);
		if (answer)
			CHECK_EQ(MT_FAR_LID, answer->mad[24 + 100], "the driver's answer is sent as it is");
		snprintf(name, sizeof(name), "%s, for nobody", results[nth].name);
		make(MT_CLASS, 4, GET);
		expect(-1, results[nth].unmatched, name);
	}
	/* What is not valid does not come so far. */
	atomic_set(&processed, 0);
	process_result = IB_MAD_RESULT_SUCCESS;
	make(IB_MGMT_CLASS_SUBN_LID_ROUTED, 1, GET);
	expect(-1, -1, "the driver does not see subnet management on QP1");
	make(MT_CLASS, 1, GET);
	fake_ib_hdr(&packet)->base_version = 0;
	expect(-1, -1, "nor base version 0");
	CHECK_EQ(0, atomic_read(&processed), "it was not asked");
	fake_ib_process(NULL);
}

/* The origin of a datagram as an agent sees it; how an unmatched one is answered. */
static void test_headers(void)
{
	struct fake_ib_packet *answer;
	struct mt_event *event;
	__be64 tid;

	fake_ib_ports[1].lmc = 2;
	make(MT_CLASS, 1, GET);
	packet.to_port = 0;
	packet.dlid = fake_ib_ports[1].lid + 3;
	packet.slid = 0x1234;
	packet.src_qpn = 0x4567;
	packet.sl = 5;
	packet.pkey = 0x8001;
	packet.has_grh = true;
	packet.grh.version_tclass_flow = cpu_to_be32(6 << 28 | 0x55 << 20 | 0x12345);
	packet.grh.next_hdr = 0x1b;
	packet.grh.hop_limit = 9;
	packet.grh.sgid = fake_ib_ports[2].gids[0];
	packet.grh.dgid = fake_ib_ports[1].gids[0];
	CHECK_EQ(0, fake_ib_deliver(&packet), "a datagram with a GRH");
	CHECK(mt_wait_received(&agents[ONE], 1, 5000), "is received");
	event = mt_received(&agents[ONE], 0);
	if (event) {
		CHECK_EQ(0x1234, event->wc.slid, "from a LID");
		CHECK_EQ(0x4567, event->wc.src_qp, "from a queue pair");
		CHECK_EQ(5, event->wc.sl, "with a service level");
		CHECK_EQ(3, event->wc.dlid_path_bits, "for path bits");
		CHECK_EQ(1, event->wc.pkey_index, "with an index of a P_Key");
		CHECK_EQ(1, event->wc.port_num, "at a port");
		CHECK_EQ(296, event->wc.byte_len, "so many bytes");
		CHECK(event->wc.wc_flags & IB_WC_GRH, "with a GRH");
		CHECK(!memcmp(event->mad->recv_buf.grh, &packet.grh, sizeof(packet.grh)), "this one");
		CHECK_EQ(256, event->length, "its length");
		CHECK_EQ(256, event->mad->mad_seg_size, "the size of its segment");
		CHECK(!event->send, "nobody has asked for it");
		CHECK(list_is_singular(&event->mad->rmpp_list), "it is one segment");
	}
	/* Nobody wants the same with another version. */
	fake_ib_hdr(&packet)->class_version = 5;
	fake_ib_hdr(&packet)->tid = tid = cpu_to_be64(new_tid());
	fake_ib_deliver(&packet);
	mt_wire_wait(1, tid, 1, 5000);
	answer = mt_wire_packet(1, tid, 0);
	CHECK(answer, "an unmatched one is answered");
	if (answer) {
		CHECK_EQ(0x1234, answer->dlid, "to its LID");
		CHECK_EQ(fake_ib_ports[1].lid + 3, answer->slid, "from the LID that it was for");
		CHECK_EQ(0x4567, answer->dest_qpn, "to its queue pair");
		CHECK_EQ(1, answer->src_qpn, "from QP1");
		CHECK_EQ(IB_QP1_QKEY, answer->qkey, "with the Q_Key of QP1");
		CHECK_EQ(5, answer->sl, "its service level");
		CHECK_EQ(0x8001, answer->pkey, "its P_Key");
		CHECK(answer->has_grh, "with a GRH");
		CHECK(!memcmp(&answer->grh.dgid, &packet.grh.sgid, 16), "to its GID");
		CHECK(!memcmp(&answer->grh.sgid, &packet.grh.dgid, 16), "from the GID that it was for");
		CHECK_EQ(0x65512345, be32_to_cpu(answer->grh.version_tclass_flow), "traffic class and flow");
		fake_ib_hdr(&packet)->method = IB_MGMT_METHOD_GET_RESP;
		fake_ib_hdr(&packet)->status = cpu_to_be16(0xc);
		CHECK(!memcmp(answer->mad, packet.mad, IB_MGMT_MAD_SIZE), "and all else as it was");
	}
	fake_ib_ports[1].lmc = 0;
	mt_forget(&agents[ONE]);
}

/* QP0 is for subnet management alone. */
static void test_qp0(void)
{
	struct mt_request wanted = { .port = 1, .type = IB_QPT_SMI, .class = IB_MGMT_CLASS_SUBN_LID_ROUTED, .version = 1,
				     .methods = MT_METHODS(GET, 5) };
	struct fake_ib_packet *answer;
	struct mt_agent agent;
	u64 tid = new_tid();

	if (mt_open(&agent, &wanted))
		return;
	mt_make(&packet, 1, 0, MT_CLASS, 1, GET, tid);
	fake_ib_deliver(&packet);
	CHECK(mt_fence(1, 0), "a class of QP1 on QP0");
	CHECK(!mt_wire_packet(1, cpu_to_be64(tid), 0) && !agents[ONE].received, "is for nobody");
	mt_make(&packet, 1, 0, IB_MGMT_CLASS_SUBN_LID_ROUTED, 1, 5, tid);
	fake_ib_deliver(&packet);
	CHECK(mt_wait_received(&agent, 1, 5000), "a Trap is for the subnet manager");
	mt_make(&packet, 1, 0, IB_MGMT_CLASS_SUBN_LID_ROUTED, 1, GET, tid);
	fake_ib_hdr(&packet)->attr_id = IB_SMP_ATTR_NODE_INFO;
	fake_ib_deliver(&packet);
	CHECK(mt_wire_wait(1, cpu_to_be64(tid), 1, 5000), "NodeInfo is answered by the driver");
	answer = mt_wire_packet(1, cpu_to_be64(tid), 0);
	if (answer) {
		CHECK_EQ(0, answer->src_qpn, "from QP0");
		CHECK_EQ(0, answer->qkey, "with Q_Key 0");
		CHECK_EQ(FAKE_IB_PORTS, answer->mad[64 + 3], "with the number of ports");
	}
	CHECK_EQ(1, agent.received, "and is not for the subnet manager");
	mt_close(&agent);
}

static void test_refill(void)
{
	fake_ib_settle();
	CHECK(mt_fence(1, 1) && mt_fence(1, 0), "both queue pairs go on");
	msleep(20);
	CHECK_EQ(512, fake_ib_receives(1, 1), "QP1 has all its receive requests");
	CHECK_EQ(512, fake_ib_receives(1, 0), "QP0, too");
}

void mt_test_dispatch(void)
{
	int nth, opened = 0;

	for (nth = 0; nth < AGENTS; nth++)
		opened += !mt_open(&agents[nth], &requests[nth]);
	CHECK_EQ(AGENTS, opened, "agents of several classes");
	if (opened == AGENTS) {
		MT_CASE(test_requests());
		MT_CASE(test_unmatched());
		MT_CASE(test_invalid());
		MT_CASE(test_responses());
		MT_CASE(test_matching());
		MT_CASE(test_driver());
		MT_CASE(test_headers());
		MT_CASE(test_qp0());
		MT_CASE(test_refill());
	}
	for (nth = 0; nth < AGENTS; nth++)
		mt_close(&agents[nth]);
}
