// SPDX-License-Identifier: GPL-2.0
/* Requests, their responses, timeouts and retries; what is cancelled or modified in which state. */
#include "mad_test.h"

#define GET IB_MGMT_METHOD_GET
#define SEND IB_MGMT_METHOD_SEND
/* Longer than any test waits. */
#define LONG_MS 60000

static struct mt_agent client, server;
static struct fake_ib_packet packet;

static u16 server_lid(void)
{
	return fake_ib_ports[2].lid;
}

static void answer(struct mt_agent *agent, const struct ib_mad_recv_wc *mad)
{
	mt_answer(agent, mad);
}

static bool open_both(void)
{
	struct mt_request wanted = { .port = 2, .type = IB_QPT_GSI, .class = MT_CLASS, .version = 1,
				     .methods = MT_METHODS(GET, SEND) };

	if (mt_open(&client, &MT_SEND_ONLY(1)))
		return false;
	if (!mt_open(&server, &wanted)) {
		server.on_receive = answer;
		return true;
	}
	mt_close(&client);
	return false;
}

static void close_both(void)
{
	fake_ib_hold(1, 1, 0);
	mt_close(&client);
	mt_close(&server);
}

static void forget_both(void)
{
	mt_forget(&client);
	mt_forget(&server);
}

static struct ib_mad_send_buf *request(u16 lid, unsigned int timeout_ms, int retries)
{
	return mt_mad(&client, lid, MT_CLASS, GET, timeout_ms, retries);
}

static int status_of(struct mt_agent *agent, int nth)
{
	struct mt_event *event = mt_sent(agent, nth);

	return event ? event->status : -1;
}

static s64 ms_between(struct fake_ib_packet *first, struct fake_ib_packet *second)
{
	return jiffies_to_msecs(second->time - first->time);
}

static void test_response(void)
{
	struct ib_mad_send_buf *send = mt_mad_pkey(&client, server_lid(), MT_CLASS, GET, LONG_MS, 3, 1);
	struct fake_ib_packet *asked, *answered;
	__be64 tid = mt_tid(send);
	u8 bytes[IB_MGMT_MAD_SIZE];

	memcpy(bytes, send->mad, sizeof(bytes));
	CHECK_EQ(0, mt_post(send), "a request is sent");
	CHECK(mt_wait_sent(&client, 1, 5000), "and comes to its end");
	CHECK_EQ(2, client.count, "with one response");
	if (client.count != 2)
		return;
	CHECK(client.events[0].received && !client.events[1].received, "the response comes first");
	CHECK(client.events[0].send == send && client.events[1].send == send, "both with the request");
	CHECK_EQ(IB_WC_SUCCESS, client.events[1].status, "the request has succeeded");
	CHECK_EQ(0, client.events[1].retries, "without a retry");
	CHECK_EQ(IB_MGMT_METHOD_GET_RESP, client.events[0].hdr.method, "the response is one");
	CHECK_EQ(server_lid(), client.events[0].wc.slid, "from the server");
	CHECK_EQ(1, client.events[0].wc.pkey_index, "with the P_Key");
	CHECK_EQ(256, client.events[0].length, "of its length");
	asked = mt_wire_packet(1, tid, 0);
	answered = mt_wire_packet(2, tid, 0);
	CHECK(asked && answered && mt_wire_count(0, tid) == 2, "two datagrams are sent");
	if (!asked || !answered)
		return;
	CHECK(asked->length == 256 && !memcmp(asked->mad, bytes, sizeof(bytes)), "the request as it was made");
	CHECK_EQ(fake_ib_ports[1].lid, asked->slid, "from the port's LID");
	CHECK_EQ(server_lid(), asked->dlid, "to the LID of the address handle");
	CHECK_EQ(1, asked->dest_qpn, "to QP1");
	CHECK_EQ(IB_QP1_QKEY, asked->qkey, "with the Q_Key of QP1");
	CHECK_EQ(IB_QP_SET_QKEY, asked->wr_qkey, "which the queue pair knows");
	CHECK(asked->pkey_index == 1 && asked->pkey == 0x8001, "with the P_Key");
	CHECK(answered->pkey_index == 1 && answered->pkey == 0x8001, "the response, too");
	CHECK(!asked->has_grh, "without a GRH");
	forget_both();
}

static void test_without_response(void)
{
	struct ib_mad_send_buf *send = request(MT_FAR_LID, 0, 5);
	__be64 tid = mt_tid(send);

	CHECK_EQ(0, mt_post(send), "a datagram without a response");
	CHECK(mt_wait_sent(&client, 1, 5000), "has come to its end when it is sent");
	CHECK_EQ(IB_WC_SUCCESS, status_of(&client, 0), "well");
	msleep(30);
	CHECK_EQ(1, mt_wire_count(1, tid), "it is sent once");
	forget_both();
}

static void test_timeout(void)
{
	struct ib_mad_send_buf *send = request(MT_FAR_LID, 60, 3);
	__be64 tid = mt_tid(send);
	unsigned long begin = jiffies;
	int nth;
	s64 ms;

	CHECK_EQ(0, mt_post(send), "a request that nobody answers");
	CHECK(mt_wait_sent(&client, 1, 5000), "comes to its end");
	ms = mt_ms_since(begin);
	CHECK_EQ(IB_WC_RESP_TIMEOUT_ERR, status_of(&client, 0), "with a timeout");
	CHECK_EQ(0, client.received, "without a response");
	CHECK_EQ(3, client.count ? client.events[0].retries : -1, "after three retries");
	CHECK_EQ(4, mt_wire_count(1, tid), "it was sent four times");
	/* A timer may be early by the tick in which it was started. */
	mt_result(ms >= 220 && ms < 240 + 400 * mt_slowness, ms, "it has taken four times its timeout");
	for (nth = 1; nth < 4 && mt_wire_packet(1, tid, nth); nth++) {
		struct fake_ib_packet *before = mt_wire_packet(1, tid, nth - 1), *after = mt_wire_packet(1, tid, nth);

		mt_result(ms_between(before, after) >= 52, ms_between(before, after), "retry %d comes after the timeout", nth);
		CHECK(!memcmp(before->mad, after->mad, IB_MGMT_MAD_SIZE), "and is the same datagram");
	}
	/* Its response comes too late. */
	mt_make(&packet, 1, 1, MT_CLASS, 1, 0x81, be64_to_cpu(tid));
	fake_ib_deliver(&packet);
	CHECK(mt_fence(1, 1), "a late response");
	CHECK_EQ(1, client.count, "is for nobody");
	forget_both();
}

/* The first two datagrams of the client. */
static enum fake_ib_fate lose_two(struct fake_ib_packet *packet, int nth)
{
	return nth < 2 ? FAKE_IB_LOSE : FAKE_IB_PASS;
}

static enum fake_ib_fate double_all(struct fake_ib_packet *packet, int nth)
{
	return FAKE_IB_TWICE;
}

static void test_retry(void)
{
	mt_wire_begin(lose_two);
	CHECK_EQ(0, mt_post(request(server_lid(), 50 * mt_slowness, 7)), "a request that is lost twice");
	CHECK(mt_wait_sent(&client, 1, 5000), "comes to its end");
	CHECK_EQ(IB_WC_SUCCESS, status_of(&client, 0), "well");
	CHECK_EQ(1, client.received, "with one response");
	CHECK_EQ(2, client.count == 2 ? client.events[1].retries : -1, "after two retries");
	CHECK_EQ(3, mt_wire_count(1, 0), "it was sent three times");
	forget_both();
	mt_wire_begin(double_all);
	CHECK_EQ(0, mt_post(request(server_lid(), LONG_MS, 0)), "everything arrives twice");
	CHECK(mt_wait_sent(&client, 1, 5000), "the request comes to its end");
	fake_ib_settle();
	mt_wire_begin(NULL);
	CHECK(mt_fence(1, 1) && mt_fence(2, 1), "all has arrived");
	CHECK_EQ(2, server.received, "the server is asked twice");
	CHECK(client.received == 1 && client.sent == 1, "the client gets one response");
	forget_both();
}

/* A server that is busy answers so: that is a response like any other; the client tries again. */
static void test_busy(void)
{
	struct ib_mad_send_buf *send = request(MT_FAR_LID, 100, 5);
	__be64 tid = mt_tid(send);

	CHECK_EQ(0, mt_post(send), "a request");
	CHECK(mt_wire_wait(1, tid, 1, 5000), "is sent");
	mt_make(&packet, 1, 1, MT_CLASS, 1, 0x81, be64_to_cpu(tid));
	fake_ib_hdr(&packet)->status = cpu_to_be16(IB_MGMT_MAD_STATUS_BUSY);
	fake_ib_deliver(&packet);
	CHECK(mt_wait_sent(&client, 1, 5000), "and answered: busy");
	CHECK_EQ(IB_WC_SUCCESS, status_of(&client, 0), "that is its end");
	CHECK(client.received == 1 && client.events[0].hdr.status == cpu_to_be16(IB_MGMT_MAD_STATUS_BUSY), "the client sees it");
	msleep(250);
	CHECK_EQ(1, mt_wire_count(1, tid), "it is not sent again");
	forget_both();
}

/* A response has no GRH where the request had none, and is for the path that the request came from. */
static void test_paths(void)
{
	struct ib_mad_send_buf *send = request(MT_FAR_LID, LONG_MS, 0);
	__be64 tid = mt_tid(send);

	CHECK_EQ(0, mt_post(send), "a request without a GRH");
	CHECK(mt_wire_wait(1, tid, 1, 5000), "is sent");
	mt_make(&packet, 1, 1, MT_CLASS, 1, 0x81, be64_to_cpu(tid));
	packet.has_grh = true;
	packet.grh.dgid = fake_ib_ports[1].gids[0];
	packet.grh.sgid = fake_ib_ports[2].gids[0];
	fake_ib_deliver(&packet);
	CHECK(mt_fence(1, 1) && !client.count, "a response with one is for nobody");
	packet.has_grh = false;
	fake_ib_deliver(&packet);
	CHECK(mt_wait_sent(&client, 1, 5000) && client.received == 1, "one without is the response");
	forget_both();
}

static void test_early_response(void)
{
	struct ib_mad_send_buf *send = request(server_lid(), LONG_MS, 0);

	fake_ib_hold(1, 1, FAKE_IB_HOLD_COMPLETIONS);
	CHECK_EQ(0, mt_post(send), "a request whose completion is late");
	CHECK(mt_wait_received(&client, 1, 5000), "the response comes before");
	CHECK(mt_received(&client, 0) && mt_received(&client, 0)->send == send, "with the request");
	mt_make(&packet, 1, 1, MT_CLASS, 1, 0x81, be64_to_cpu(client.events[0].hdr.tid));
	fake_ib_deliver(&packet);
	msleep(50);
	CHECK(client.received == 1 && client.sent == 0, "once, and the request has not come to its end");
	fake_ib_hold(1, 1, 0);
	CHECK(mt_wait_sent(&client, 1, 5000), "it does after its completion");
	CHECK_EQ(IB_WC_SUCCESS, status_of(&client, 0), "well");
	forget_both();
}

static void test_cancel_waiting(void)
{
	struct ib_mad_send_buf *send = request(MT_FAR_LID, LONG_MS, 3), *other = request(MT_FAR_LID, 1000, 0);
	__be64 tid = mt_tid(send);

	CHECK(!mt_post(send) && !mt_post(other), "two requests that wait for responses");
	CHECK(mt_wire_wait(1, 0, 2, 5000), "are sent");
	msleep(20);
	CHECK_EQ(0, ib_modify_mad(send, 0), "one is cancelled");
	CHECK(mt_wait_sent(&client, 1, 5000), "and comes to its end");
	CHECK_EQ(IB_WC_WR_FLUSH_ERR, status_of(&client, 0), "as a cancelled one");
	CHECK(client.count && client.events[0].send == send, "that one");
	mt_make(&packet, 1, 1, MT_CLASS, 1, 0x81, be64_to_cpu(tid));
	fake_ib_deliver(&packet);
	CHECK(mt_wait_sent(&client, 2, 5000), "the other one goes on to wait");
	CHECK_EQ(IB_WC_RESP_TIMEOUT_ERR, status_of(&client, 1), "for its timeout");
	CHECK_EQ(0, client.received, "the response of the cancelled one is for nobody");
	CHECK_EQ(1, mt_wire_count(1, tid), "which was not sent again");
	forget_both();
}

static void test_cancel_sending(void)
{
	struct ib_mad_send_buf *send = request(server_lid(), LONG_MS, 3);

	fake_ib_hold(1, 1, FAKE_IB_HOLD_SENDS);
	CHECK_EQ(0, mt_post(send), "a request that is in the send queue");
	CHECK_EQ(0, ib_modify_mad(send, 0), "is cancelled");
	CHECK_EQ(-EINVAL, ib_modify_mad(send, 0), "and no second time");
	CHECK_EQ(-EINVAL, ib_modify_mad(send, 100), "nor can it be modified");
	msleep(50);
	CHECK_EQ(0, client.count, "the driver still has it");
	fake_ib_hold(1, 1, 0);
	CHECK(mt_wait_sent(&client, 1, 5000), "it comes to its end when the driver has done with it");
	CHECK_EQ(IB_WC_WR_FLUSH_ERR, status_of(&client, 0), "as a cancelled one");
	fake_ib_settle();
	CHECK(mt_fence(1, 1) && !client.received, "its response is for nobody");
	forget_both();
}

static void test_cancel_answered(void)
{
	struct ib_mad_send_buf *send = request(server_lid(), LONG_MS, 3);

	fake_ib_hold(1, 1, FAKE_IB_HOLD_COMPLETIONS);
	CHECK_EQ(0, mt_post(send), "a request that is answered before its completion");
	CHECK(mt_wait_received(&client, 1, 5000), "its response is there");
	ib_cancel_mad(send);
	fake_ib_hold(1, 1, 0);
	CHECK(mt_wait_sent(&client, 1, 5000), "cancelled, it comes to its end");
	msleep(20);
	CHECK(client.sent == 1 && client.received == 1, "once");
	forget_both();
}

static void test_cancel_nothing(void)
{
	struct ib_mad_send_buf *send = request(server_lid(), LONG_MS, 3);

	CHECK_EQ(-EINVAL, ib_modify_mad(NULL, 0), "nothing is cancelled");
	CHECK_EQ(-EINVAL, ib_modify_mad(send, 0), "what was not sent is cancelled");
	CHECK_EQ(-EINVAL, ib_modify_mad(send, 10), "or modified");
	ib_free_send_mad(send);
	CHECK_EQ(0, client.count, "nobody is told");
}

static void test_modify(void)
{
	struct ib_mad_send_buf *send = request(MT_FAR_LID, LONG_MS, 0);
	unsigned long begin = jiffies;
	s64 ms;

	CHECK_EQ(0, mt_post(send), "a request with a long timeout");
	CHECK(mt_wire_wait(1, mt_tid(send), 1, 5000), "is sent");
	msleep(20);
	CHECK_EQ(0, ib_modify_mad(send, 50), "it gets a short one");
	CHECK(mt_wait_sent(&client, 1, 5000), "which comes");
	CHECK_EQ(IB_WC_RESP_TIMEOUT_ERR, status_of(&client, 0), "as a timeout");
	forget_both();

	send = request(MT_FAR_LID, 400, 0);
	begin = jiffies;
	CHECK_EQ(0, mt_post(send), "a request with a short timeout");
	CHECK(mt_wire_wait(1, mt_tid(send), 1, 5000), "is sent");
	CHECK_EQ(0, ib_modify_mad(send, 900), "it gets a longer one");
	CHECK(mt_wait_sent(&client, 1, 10000), "which comes");
	ms = mt_ms_since(begin);
	mt_result(ms >= 890, ms, "after its time");
	forget_both();

	send = request(MT_FAR_LID, LONG_MS, 0);
	fake_ib_hold(1, 1, FAKE_IB_HOLD_SENDS);
	CHECK_EQ(0, mt_post(send), "a request in the send queue");
	CHECK_EQ(0, ib_modify_mad(send, 100), "gets a short timeout");
	msleep(200);
	CHECK_EQ(0, client.count, "which does not begin before it is sent");
	fake_ib_hold(1, 1, 0);
	CHECK(mt_wait_sent(&client, 1, 5000), "then it does");
	CHECK_EQ(IB_WC_RESP_TIMEOUT_ERR, status_of(&client, 0), "and is a timeout");
	forget_both();
}

/* A short timeout is not behind a long one. */
static void test_timers(void)
{
	struct ib_mad_send_buf *sends[4];
	int timeouts[4] = { 400, 200, 100, 300 }, order[4] = { 2, 1, 3, 0 }, nth;

	for (nth = 0; nth < 4; nth++)
		sends[nth] = request(MT_FAR_LID, timeouts[nth] * mt_slowness, 0);
	for (nth = 0; nth < 4; nth++)
		CHECK_EQ(0, mt_post(sends[nth]), "a timeout of %d ms", timeouts[nth]);
	CHECK(mt_wait_sent(&client, 4, 5000), "all come");
	for (nth = 0; nth < 4 && client.count == 4; nth++)
		CHECK(client.events[nth].send == sends[order[nth]], "that of %d ms as number %d", timeouts[order[nth]], nth);
	forget_both();
}

/* Unregistering ends all that is under way. */
static void unregister_work(struct work_struct *work)
{
	mt_unregister(&client);
}

static void test_unregister(void)
{
	int nth;

	if (!open_both())
		return;
	for (nth = 0; nth < 5; nth++)
		CHECK_EQ(0, mt_post(request(MT_FAR_LID, LONG_MS, 3)), "a request that waits");
	CHECK(mt_wire_wait(1, 0, 5, 5000), "all are sent");
	msleep(20);
	client.sleep_ms = 50;
	mt_unregister(&client);
	CHECK_EQ(5, client.sent, "all have come to their end when their agent goes");
	for (nth = 0; nth < 5; nth++)
		CHECK_EQ(IB_WC_WR_FLUSH_ERR, status_of(&client, nth), "as cancelled ones");
	close_both();
}

static void test_unregister_sending(void)
{
	struct work_struct work;
	int before;

	if (!open_both())
		return;
	INIT_WORK_ONSTACK(&work, unregister_work);
	fake_ib_hold(1, 1, FAKE_IB_HOLD_COMPLETIONS);
	CHECK_EQ(0, mt_post(request(MT_FAR_LID, LONG_MS, 3)), "a request that the driver has");
	CHECK_EQ(0, mt_post(request(MT_FAR_LID, 0, 0)), "a datagram that the driver has");
	CHECK(mt_wire_wait(1, 0, 2, 5000), "both are sent");
	queue_work(system_dfl_wq, &work);
	msleep(100);
	before = client.sent;
	CHECK(work_busy(&work), "their agent waits for them");
	fake_ib_hold(1, 1, 0);
	flush_work(&work);
	destroy_work_on_stack(&work);
	CHECK_EQ(0, before, "they had not come to their end");
	CHECK_EQ(2, client.sent, "they have");
	CHECK_EQ(IB_WC_WR_FLUSH_ERR, status_of(&client, 0), "the request as a cancelled one");
	close_both();
}

/* An agent that gets requests while it is unregistered: its handler is not called afterwards, and the requests are freed. */
static void test_unregister_server(void)
{
	int round, nth;

	for (round = 0; round < 20; round++) {
		if (!open_both())
			return;
		for (nth = 0; nth < 20; nth++)
			mt_post(request(server_lid(), LONG_MS, 3));
		mt_close(&server);
		mt_unregister(&client);
		if (client.sent != 20)
			break;
		close_both();
	}
	CHECK_EQ(20, round, "agents go under traffic");
	close_both();
}

void mt_test_sends(void)
{
	if (!open_both())
		return CHECK(false, "agents are registered");
	MT_FRESH(test_response());
	MT_FRESH(test_without_response());
	MT_FRESH(test_timeout());
	MT_FRESH(test_retry());
	MT_FRESH(test_busy());
	MT_FRESH(test_paths());
	MT_FRESH(test_early_response());
	MT_FRESH(test_cancel_waiting());
	MT_FRESH(test_cancel_sending());
	MT_FRESH(test_cancel_answered());
	MT_FRESH(test_cancel_nothing());
	MT_FRESH(test_modify());
	MT_FRESH(test_timers());
	close_both();
	MT_FRESH(test_unregister());
	MT_FRESH(test_unregister_sending());
	MT_FRESH(test_unregister_server());
}
