// SPDX-License-Identifier: GPL-2.0
/*
 * Directed routes (InfiniBand specification, 14.2.2): hop pointer and hop count of what a channel adapter sends, answers itself,
 * receives, and does not take.
 */
#include "mad_test.h"

#define GET IB_MGMT_METHOD_GET
#define RESPONSE IB_MGMT_METHOD_GET_RESP
#define LONG_MS 60000
#define PERMISSIVE 0xffff

static struct mt_agent agent;
static struct fake_ib_packet packet;

static struct ib_smp *smp_of(struct fake_ib_packet *of)
{
	return (struct ib_smp *)of->mad;
}

/* What is the same of all of them: both ends of the route are where directed routing begins and ends. */
static void fill(struct ib_smp *smp, bool response, u8 pointer, u8 count)
{
	smp->mgmt_class = IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE;
	smp->method = response ? RESPONSE : GET;
	smp->status = response ? IB_SMP_DIRECTION : 0;
	smp->hop_ptr = pointer;
	smp->hop_cnt = count;
	smp->attr_id = IB_SMP_ATTR_NODE_INFO;
	smp->attr_mod = 0;
	smp->mkey = 0;
	smp->dr_slid = IB_LID_PERMISSIVE;
	smp->dr_dlid = IB_LID_PERMISSIVE;
	memset(smp->initial_path, 0, sizeof(smp->initial_path));
	memset(smp->return_path, 0, sizeof(smp->return_path));
}

static struct ib_mad_send_buf *make(bool response, u8 pointer, u8 count, unsigned int timeout_ms)
{
	struct ib_mad_send_buf *send = mt_mad(&agent, PERMISSIVE, IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE, GET, timeout_ms, 0);

	fill(send->mad, response, pointer, count);
	return send;
}

/* Sending */

enum { SENT, LOCAL, REFUSED };

/* What is sent: its end of the route (LIDs), the port in its path; what becomes of it, and its hop pointer. */
static const struct {
	const char *name;
	bool response;
	u8 pointer, count;
	u8 path_index, path_port;
	bool slid, dlid;		/* permissive */
	int fate;
	u8 after;
} sends[] = {
	/* C14-9, on the way there. */
	{ "to the next node", false, 0, 1, 1, 1, true, true, SENT, 1 },
	{ "over several hops", false, 0, 5, 1, 1, true, true, SENT, 1 },
	{ "over 63 hops", false, 0, 63, 1, 1, true, true, SENT, 1 },
	{ "over 64 hops", false, 0, 64, 1, 1, true, true, REFUSED, 0 },
	{ "over 255 hops", false, 0, 255, 1, 1, true, true, REFUSED, 0 },
	{ "through another port", false, 0, 1, 1, 2, true, true, REFUSED, 0 },
	{ "through no port", false, 0, 2, 1, 0, true, true, REFUSED, 0 },
	{ "at an intermediate hop", false, 1, 2, 2, 1, true, true, REFUSED, 0 },
	{ "at the last but one", false, 4, 5, 5, 1, true, true, REFUSED, 0 },
	{ "to itself", false, 0, 0, 0, 0, true, true, LOCAL, 1 },
	{ "to itself, and on by LID", false, 0, 0, 0, 0, true, false, REFUSED, 0 },
	{ "at its end", false, 3, 3, 0, 0, true, true, LOCAL, 4 },
	{ "at its end, and on by LID", false, 3, 3, 0, 0, true, false, REFUSED, 0 },
	{ "behind its end", false, 2, 1, 0, 0, true, true, LOCAL, 2 },
	{ "for itself, behind its end", false, 1, 0, 0, 0, true, true, LOCAL, 1 },
	{ "far behind its end", false, 3, 1, 0, 0, true, true, REFUSED, 0 },
	{ "with pointer 255", false, 255, 1, 0, 0, true, true, REFUSED, 0 },
	{ "for itself, with pointer 2", false, 2, 0, 0, 0, true, true, REFUSED, 0 },
	/* It is routed by LID at first: nothing is changed. */
	{ "by LID at first", false, 0, 2, 1, 2, false, true, SENT, 0 },
	/* C14-13, on the way back. */
	{ "back to the next node", true, 2, 1, 1, 1, true, true, SENT, 1 },
	{ "back over several hops", true, 6, 5, 5, 1, true, true, SENT, 5 },
	{ "back through another port", true, 2, 1, 1, 2, true, true, REFUSED, 0 },
	{ "back over 64 hops", true, 65, 64, 63, 1, true, true, REFUSED, 0 },
	{ "back at an intermediate hop", true, 2, 2, 1, 1, true, true, REFUSED, 0 },
	{ "back, far behind its end", true, 4, 2, 2, 1, true, true, REFUSED, 0 },
	{ "back at its end, and on by LID", true, 1, 3, 0, 0, false, true, REFUSED, 0 },
	{ "back by LID at first", true, 2, 1, 1, 2, true, false, SENT, 2 },
};

static void check_send(int nth)
{
	const char *name = sends[nth].name;
	struct ib_mad_send_buf *send = make(sends[nth].response, sends[nth].pointer, sends[nth].count, 0);
	struct ib_smp *smp = send->mad;
	struct fake_ib_packet *sent;
	struct mt_event *event;
	__be64 tid = mt_tid(send);
	int ret;

	smp->dr_slid = sends[nth].slid ? IB_LID_PERMISSIVE : cpu_to_be16(5);
	smp->dr_dlid = sends[nth].dlid ? IB_LID_PERMISSIVE : cpu_to_be16(6);
	(sends[nth].response ? smp->return_path : smp->initial_path)[sends[nth].path_index] = sends[nth].path_port;
	ret = mt_post(send);
	CHECK_EQ(sends[nth].fate == REFUSED ? -EINVAL : 0, ret, "%s", name);
	if (!ret)
		CHECK(mt_wait_sent(&agent, 1, 5000) && mt_sent(&agent, 0)->status == IB_WC_SUCCESS,
		      "%s: it comes to its end", name);
	CHECK(mt_fence(1, 0), "%s: the port goes on", name);
	sent = mt_wire_packet(1, tid, 0);
	CHECK_EQ(sends[nth].fate == SENT, !!sent, "%s: whether it is sent", name);
	if (sent) {
		CHECK_EQ(sends[nth].after, smp_of(sent)->hop_ptr, "%s: its hop pointer", name);
		CHECK_EQ(sends[nth].count, smp_of(sent)->hop_cnt, "%s: its hop count", name);
		CHECK(sent->dlid == PERMISSIVE && sent->src_qpn == 0 && sent->dest_qpn == 0 && sent->qkey == 0,
		      "%s: from QP0 to QP0", name);
	}
	event = mt_received(&agent, 0);
	CHECK_EQ(sends[nth].fate == LOCAL, !!event, "%s: whether it is answered by the port", name);
	if (event) {
		smp = (struct ib_smp *)event->mad->recv_buf.mad;
		CHECK(smp->method == RESPONSE && smp->status == IB_SMP_DIRECTION && smp->data[3] == FAKE_IB_PORTS,
		      "%s: with NodeInfo", name);
		CHECK_EQ(sends[nth].after, smp->hop_ptr, "%s: the hop pointer that the port has seen", name);
		CHECK(event->send == send && agent.events[0].received, "%s: for its request, before the end of that", name);
		CHECK(event->wc.slid == PERMISSIVE && event->wc.src_qp == 0 && event->wc.port_num == 1 &&
		      event->wc.byte_len == 296 && !event->wc.wc_flags && event->wc.status == IB_WC_SUCCESS,
		      "%s: from itself", name);
		CHECK_EQ(256, event->length, "%s: its length", name);
		CHECK(list_is_singular(&event->mad->rmpp_list), "%s: one segment", name);
	}
	mt_forget(&agent);
}

static int result;
static atomic_t processed;

static int process(u32 port, const struct ib_wc *wc, const struct ib_mad *in, struct ib_mad *out)
{
	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE)
		return -1;
	atomic_inc(&processed);
	memcpy(out, in, sizeof(*out));
	out->mad_hdr.method = RESPONSE;
	out->mad_hdr.status = IB_SMP_DIRECTION;
	return result;
}

/* What the driver makes of a packet to the port itself. */
static void test_local(void)
{
	static const struct {
		const char *name;
		int result;
		int ret, received;
	} results[] = {
		{ "the driver answers", IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY, 0, 1 },
		{ "the driver keeps it", IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_CONSUMED, 0, 0 },
		{ "the driver does nothing", IB_MAD_RESULT_SUCCESS, 0, 0 },
		{ "the driver fails", IB_MAD_RESULT_FAILURE, -EINVAL, 0 },
	};
	int nth;

	/* What the tests before have sent is on its way still, or waits at the other port: it does not count here. */
	fake_ib_settle();
	CHECK(mt_fence(1, 0) && mt_fence(2, 0), "both ports go on");
	fake_ib_process(process);
	for (nth = 0; nth < ARRAY_SIZE(results); nth++) {
		atomic_set(&processed, 0);
		result = results[nth].result;
		CHECK_EQ(results[nth].ret, mt_post(make(false, 0, 0, 100)), "%s: posted", results[nth].name);
		if (!results[nth].ret)
			CHECK(mt_wait_sent(&agent, 1, 5000) && !mt_sent(&agent, 0)->status,
			      "%s: it comes to its end", results[nth].name);
		CHECK(mt_fence(1, 0), "%s: the port goes on", results[nth].name);
		CHECK_EQ(results[nth].received, agent.received, "%s: responses", results[nth].name);
		CHECK_EQ(1, atomic_read(&processed), "%s: it is asked once", results[nth].name);
		mt_forget(&agent);
	}
	fake_ib_process(NULL);
}

/* Nobody answers for the port: it is for the agent of the class, if there is one. */
static void test_local_agent(void)
{
	struct mt_request wanted = { .port = 1, .type = IB_QPT_SMI, .class = IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE, .version = 1,
				     .methods = MT_METHODS(GET) };
	struct mt_agent manager;
	struct ib_mad_send_buf *send;

	if (mt_open(&manager, &wanted))
		return CHECK(false, "an agent for directed routes");
	send = make(false, 0, 0, 0);
	((struct ib_smp *)send->mad)->attr_id = cpu_to_be16(0xff42);
	CHECK_EQ(0, mt_post(send), "what the driver does not know, to the port itself");
	CHECK(mt_wait_received(&manager, 1, 5000), "is for the agent of the class");
	CHECK(manager.received && manager.events[0].hdr.attr_id == cpu_to_be16(0xff42) && manager.events[0].hdr.method == GET,
	      "as it was sent");
	CHECK(mt_wait_sent(&agent, 1, 5000) && !agent.received, "the sender's part has come to its end");
	mt_forget(&agent);
	mt_close(&manager);
}

/* Receiving */

/* Requests from the other port: -1: not taken, else the status of the answer. */
static const struct {
	const char *name;
	u8 pointer, count;
	bool dlid;
	int answer;
	u16 attribute;
} requests[] = {
	{ "at its end", 1, 1, true, 0x8000, 0x11 },
	{ "at its end, after several hops", 5, 5, true, 0x8000, 0x11 },
	{ "at its end, after 63 hops", 63, 63, true, 0x8000, 0x11 },
	{ "at its end, after 64 hops", 64, 64, true, -1, 0x11 },
	{ "at its end, and on by LID", 1, 1, false, -1, 0x11 },
	{ "at its end, for what there is not", 1, 1, true, 0x800c, 0xff42 },
	{ "behind its end", 2, 1, true, 0x8000, 0x11 },
	{ "far behind its end", 3, 1, true, -1, 0x11 },
	{ "with pointer 0", 0, 1, true, -1, 0x11 },
	{ "at an intermediate hop", 1, 2, true, -1, 0x11 },
	{ "at the last but one", 4, 5, true, -1, 0x11 },
};

static void check_request(int nth)
{
	static u64 tid = 0xd1eec70000000000ULL;
	const char *name = requests[nth].name;
	u8 pointer = requests[nth].pointer, count = requests[nth].count;
	struct fake_ib_packet *answer;

	mt_make(&packet, 1, 0, IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE, 1, GET, ++tid);
	fill(smp_of(&packet), false, pointer, count);
	smp_of(&packet)->attr_id = cpu_to_be16(requests[nth].attribute);
	smp_of(&packet)->dr_dlid = requests[nth].dlid ? IB_LID_PERMISSIVE : cpu_to_be16(6);
	/* Behind the end the last hop has been noted by somebody else. */
	if (pointer == count + 1)
		smp_of(&packet)->return_path[count] = 1;
	packet.slid = PERMISSIVE;
	CHECK(!fake_ib_deliver(&packet) && mt_fence(1, 0), "a request %s", name);
	answer = mt_wire_packet(1, cpu_to_be64(tid), 0);
	CHECK_EQ(requests[nth].answer, answer ? be16_to_cpu(smp_of(answer)->status) : -1, "a request %s: answer", name);
	if (!answer || requests[nth].answer < 0)
		return;
	CHECK(smp_of(answer)->method == RESPONSE && smp_of(answer)->hop_cnt == count, "a request %s: a response", name);
	CHECK_EQ(count, smp_of(answer)->hop_ptr, "a request %s: it goes back from its end", name);
	CHECK_EQ(1, smp_of(answer)->return_path[count], "a request %s: the way back is noted", name);
	CHECK(answer->dlid == PERMISSIVE && answer->dest_qpn == 0 && answer->src_qpn == 0,
	      "a request %s: to the next node", name);
}

/* Responses to a request that waits; whether it takes them. */
static const struct {
	const char *name;
	u8 pointer, count;
	u8 path_port;
	bool slid;
	bool taken;
	u8 after;
} responses[] = {
	{ "at its end", 1, 1, 1, true, true, 0 },
	{ "at its end, after several hops", 1, 5, 1, true, true, 0 },
	{ "at its end, and on by LID", 1, 1, 1, false, false, 0 },
	{ "with pointer 0", 0, 1, 1, true, true, 0 },
	{ "that has not begun", 2, 1, 1, true, true, 1 },
	{ "that has not begun, at another port", 2, 1, 2, true, false, 0 },
	{ "at an intermediate hop", 2, 2, 1, true, false, 0 },
	{ "far behind its beginning", 4, 2, 1, true, false, 0 },
	{ "after 64 hops", 1, 64, 1, true, false, 0 },
};

static void check_response(int nth)
{
	const char *name = responses[nth].name;
	struct ib_mad_send_buf *send = make(false, 0, 1, LONG_MS);
	struct ib_smp *smp = send->mad;
	__be64 tid = mt_tid(send);

	smp->initial_path[1] = 1;
	fake_ib_process(NULL);
	CHECK_EQ(0, mt_post(send), "a request (%s)", name);
	CHECK(mt_wire_wait(1, tid, 1, 5000), "is sent (%s)", name);
	mt_make(&packet, 1, 0, IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE, 1, RESPONSE, be64_to_cpu(tid));
	fill(smp_of(&packet), true, responses[nth].pointer, responses[nth].count);
	smp_of(&packet)->dr_slid = responses[nth].slid ? IB_LID_PERMISSIVE : cpu_to_be16(5);
	smp_of(&packet)->initial_path[1] = 1;
	smp_of(&packet)->return_path[1] = responses[nth].path_port;
	packet.slid = PERMISSIVE;
	CHECK(!fake_ib_deliver(&packet) && mt_fence(1, 0), "a response %s", name);
	/* What comes back after several hops is matched by its transaction alone. */
	CHECK_EQ(responses[nth].taken, agent.received, "a response %s: whether it is taken", name);
	if (agent.received) {
		CHECK(agent.events[0].send == send, "a response %s: for its request", name);
		CHECK_EQ(responses[nth].after, ((struct ib_smp *)agent.events[0].mad->recv_buf.mad)->hop_ptr,
			 "a response %s: hop pointer", name);
		CHECK(mt_wait_sent(&agent, 1, 5000) && !mt_sent(&agent, 0)->status,
		      "a response %s: the request has succeeded", name);
	} else {
		CHECK_EQ(0, ib_modify_mad(send, 0), "a response %s: the request still waits", name);
		CHECK(mt_wait_sent(&agent, 1, 5000), "a response %s: it is cancelled", name);
	}
	mt_forget(&agent);
}

static enum fake_ib_fate lose_requests(struct fake_ib_packet *packet, int nth)
{
	return packet->port == 1 && smp_of(packet)->method == GET ? FAKE_IB_LOSE : FAKE_IB_PASS;
}

/* There and back. */
static void test_exchange(void)
{
	struct ib_mad_send_buf *send = make(false, 0, 1, LONG_MS);
	struct fake_ib_packet *there, *back;
	__be64 tid = mt_tid(send);
	struct ib_smp *smp = send->mad;

	smp->initial_path[1] = 1;
	CHECK_EQ(0, mt_post(send), "NodeInfo of the node behind port 1");
	CHECK(mt_wait_sent(&agent, 1, 5000), "comes to its end");
	CHECK_EQ(1, agent.received, "with an answer");
	if (agent.received) {
		smp = (struct ib_smp *)agent.events[0].mad->recv_buf.mad;
		CHECK(smp->status == IB_SMP_DIRECTION && smp->data[3] == FAKE_IB_PORTS && smp->data[36] == 2, "from port 2");
		CHECK(smp->hop_ptr == 0 && smp->hop_cnt == 1 && smp->return_path[1] == 2, "over its way back");
	}
	there = mt_wire_packet(1, tid, 0);
	back = mt_wire_packet(2, tid, 0);
	CHECK(there && back, "two packets");
	if (there && back)
		CHECK(smp_of(there)->hop_ptr == 1 && smp_of(back)->hop_ptr == 1 && smp_of(back)->return_path[1] == 2,
		      "with their hop pointers");
	mt_forget(&agent);
}

static void test_timeout(void)
{
	struct ib_mad_send_buf *send = make(false, 0, 1, 50);
	__be64 tid = mt_tid(send);
	int nth, same = 0;

	((struct ib_smp *)send->mad)->initial_path[1] = 1;
	send->retries = 2;
	CHECK_EQ(0, mt_post(send), "a request that is lost");
	CHECK(mt_wait_sent(&agent, 1, 5000), "comes to its end");
	CHECK_EQ(IB_WC_RESP_TIMEOUT_ERR, mt_sent(&agent, 0) ? mt_sent(&agent, 0)->status : -1, "with a timeout");
	CHECK_EQ(3, mt_wire_count(1, tid), "it was sent three times");
	for (nth = 0; nth < 3 && mt_wire_packet(1, tid, nth); nth++)
		same += smp_of(mt_wire_packet(1, tid, nth))->hop_ptr == 1;
	CHECK_EQ(3, same, "each time as the first one");
	mt_forget(&agent);
}

static void test_sends(void)
{
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(sends); nth++)
		check_send(nth);
}

static void test_requests(void)
{
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(requests); nth++)
		check_request(nth);
}

static void test_responses(void)
{
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(responses); nth++)
		check_response(nth);
}

void mt_test_smi(void)
{
	struct mt_request wanted = { .port = 1, .type = IB_QPT_SMI };

	if (mt_open(&agent, &wanted))
		return CHECK(false, "an agent of QP0");
	mt_wire_begin(lose_requests);
	MT_CASE(test_sends());
	MT_CASE(test_local());
	MT_CASE(test_local_agent());
	MT_CASE(test_requests());
	MT_CASE(test_responses());
	MT_CASE(test_timeout());
	mt_wire_begin(NULL);
	MT_CASE(test_exchange());
	mt_close(&agent);
}
