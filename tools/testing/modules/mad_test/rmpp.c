// SPDX-License-Identifier: GPL-2.0
/* Transfers in segments (RMPP) between both ports; rmpp_sender.c and rmpp_receiver.c look at each end by itself. */
#include "rmpp_packets.h"

#define SEND IB_MGMT_METHOD_SEND

static struct mt_agent client, server;

static int status_of(struct mt_agent *agent)
{
	struct mt_event *event = mt_sent(agent, 0);

	return event ? event->status : -1;
}

static void check_transfer(u32 length, u32 seed)
{
	u32 segments = max(DIV_ROUND_UP(length, RMPP_SEGMENT), 1);
	int data = 0, nth;

	mt_wire_begin(NULL);
	CHECK_EQ(0, mt_post(rmpp_send(&client, fake_ib_ports[2].lid, SEND, length, seed, 0, 3)), "%u bytes are sent", length);
	CHECK(mt_wait_sent(&client, 1, 20000), "%u bytes: the transfer comes to its end", length);
	CHECK_EQ(IB_WC_SUCCESS, status_of(&client), "%u bytes: well", length);
	CHECK(mt_wait_received(&server, 1, 5000) && server.received == 1, "%u bytes: they are received", length);
	CHECK(rmpp_is(mt_received(&server, 0), length, seed), "%u bytes: all of them", length);
	for (nth = 0; mt_wire_packet(1, 0, nth); nth++)
		data += rmpp(mt_wire_packet(1, 0, nth))->type == DATA;
	CHECK_EQ(segments, data, "%u bytes: each segment is sent once", length);
	mt_forget(&client);
	mt_forget(&server);
}

static void test_lengths(void)
{
	static const u32 lengths[] = {
		0, 1, 215, 216, 217, 432, 64 * 216, 64 * 216 + 1, 65 * 216, 66 * 216 - 5, 129 * 216, 130 * 216, 300 * 216 - 100,
	};
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(lengths); nth++)
		check_transfer(lengths[nth], nth);
}

static struct {
	u32 length;
} answering;

/* A server that answers a transfer by a transfer. */
static void answer(struct mt_agent *agent, const struct ib_mad_recv_wc *mad)
{
	struct ib_mad_send_buf *send = rmpp_send(agent, mad->wc->slid, SEND | IB_MGMT_METHOD_RESP, answering.length, 99, 0, 3);

	if (!send)
		return;
	((struct ib_mad_hdr *)send->mad)->tid = mad->recv_buf.mad->mad_hdr.tid;
	CHECK_EQ(0, mt_post(send), "the server answers");
}

static void check_exchange(u32 length, u32 back)
{
	struct ib_mad_send_buf *send;

	answering.length = back;
	server.on_receive = answer;
	send = rmpp_send(&client, fake_ib_ports[2].lid, SEND, length, 5, 5000 * mt_slowness, 3);
	CHECK_EQ(0, mt_post(send), "%u bytes are sent, %u are to come back", length, back);
	CHECK(mt_wait_sent(&client, 1, 20000), "%u and %u: the exchange comes to its end", length, back);
	CHECK_EQ(IB_WC_SUCCESS, status_of(&client), "%u and %u: well", length, back);
	/* The answer may be there before the server's handler has ended. */
	CHECK(mt_wait_received(&server, 1, 5000), "%u and %u: the server receives", length, back);
	CHECK(rmpp_is(mt_received(&server, 0), length, 5), "%u and %u: the server gets it", length, back);
	CHECK_EQ(1, client.received, "%u and %u: there is one answer", length, back);
	CHECK(rmpp_is(mt_received(&client, 0), back, 99), "%u and %u: this one", length, back);
	CHECK(client.count == 2 && client.events[0].received && client.events[0].send == send, "%u and %u: it is the request's",
	      length, back);
	CHECK(mt_wait_sent(&server, 1, 5000) && !status_of(&server), "%u and %u: the server is done", length, back);
	mt_forget(&client);
	mt_forget(&server);
	server.on_receive = NULL;
}

static void test_exchanges(void)
{
	check_exchange(100, 100);
	check_exchange(100, 5000);
	check_exchange(5000, 100);
	check_exchange(65 * 216, 300 * 216);
}

/* Transfers at a time, each of which the network does something to: to this one of its datagrams, from 0 on. */
static const u64 losses[] = { 0, BIT(0), BIT(1), BIT(2), BIT(3), BIT(4), BIT(6), BIT(0) | BIT(1), BIT(2) | BIT(4) };
static struct {
	__be64 tid;
	int seen;
} transfers[ARRAY_SIZE(losses)];

static enum fake_ib_fate lose(struct fake_ib_packet *packet, int nth)
{
	int this;

	for (this = 0; this < ARRAY_SIZE(losses); this++)
		if (transfers[this].tid == fake_ib_hdr(packet)->tid)
			return losses[this] & BIT_ULL(transfers[this].seen++) ? FAKE_IB_LOSE : FAKE_IB_PASS;
	return FAKE_IB_PASS;
}

/* A time for answers of up to 2 s makes the stock core wait for ever for ACKs of all windows but the first one. */
static unsigned int ack_timeout(void)
{
	return mt_strict ? 100 * mt_slowness : 0;
}

static void test_losses(void)
{
	int nth, right = 0;

	fake_ib_hold(1, 1, FAKE_IB_HOLD_SENDS);
	for (nth = 0; nth < ARRAY_SIZE(losses); nth++) {
		struct ib_mad_send_buf *send = rmpp_send(&client, fake_ib_ports[2].lid, SEND, 4 * RMPP_SEGMENT, 7, 0, 5);

		transfers[nth].tid = mt_tid(send);
		transfers[nth].seen = 0;
		CHECK_EQ(0, mt_post(send), "a transfer that loses datagrams %llx", losses[nth]);
	}
	mt_wire_begin(lose);
	fake_ib_hold(1, 1, 0);
	CHECK(mt_wait_received(&server, ARRAY_SIZE(losses), 20000), "all are received");
	CHECK(mt_wait_sent(&client, ARRAY_SIZE(losses), 20000), "and come to their end");
	for (nth = 0; nth < ARRAY_SIZE(losses); nth++) {
		right += rmpp_is(mt_received(&server, nth), 4 * RMPP_SEGMENT, 7);
		CHECK_EQ(IB_WC_SUCCESS, mt_sent(&client, nth) ? mt_sent(&client, nth)->status : -1, "end %d", nth);
	}
	CHECK_EQ(ARRAY_SIZE(losses), right, "as they were sent");
	CHECK_EQ(ARRAY_SIZE(losses), server.received, "once");
	mt_wire_begin(NULL);
	mt_forget(&client);
	mt_forget(&server);
}

static enum fake_ib_fate lose_often(struct fake_ib_packet *packet, int nth)
{
	return nth % 11 == 3 ? FAKE_IB_LOSE : FAKE_IB_PASS;
}

static enum fake_ib_fate double_all(struct fake_ib_packet *packet, int nth)
{
	return FAKE_IB_TWICE;
}

/* Every fifth one is later than those behind it. */
static enum fake_ib_fate reorder(struct fake_ib_packet *packet, int nth)
{
	packet->delay_ms = nth % 5 == 2 ? 20 : 0;
	return FAKE_IB_PASS;
}

static void check_faulty(enum fake_ib_fate (*fate)(struct fake_ib_packet *packet, int nth), u32 segments, const char *name)
{
	u32 length = segments * RMPP_SEGMENT - 3;
	unsigned int timeout = ack_timeout();

	mt_wire_begin(fate);
	CHECK_EQ(0, mt_post(rmpp_send(&client, fake_ib_ports[2].lid, SEND, length, 7, timeout, 10)), "%s: a transfer", name);
	CHECK(mt_wait_received(&server, 1, 20000), "%s: it is received", name);
	CHECK(rmpp_is(mt_received(&server, 0), length, 7), "%s: all of it", name);
	/* Where there is a time for an answer, it comes to its end with that. */
	CHECK(mt_wait_sent(&client, 1, 20000), "%s: it comes to its end", name);
	CHECK_EQ(timeout ? IB_WC_RESP_TIMEOUT_ERR : IB_WC_SUCCESS, status_of(&client), "%s: as it should", name);
	CHECK_EQ(1, server.received, "%s: it was received once", name);
	mt_wire_begin(NULL);
	mt_forget(&client);
	mt_forget(&server);
}

static void test_faults(void)
{
	test_losses();
	check_faulty(double_all, 200, "all come twice");
	check_faulty(reorder, 100, "some are late");
	check_faulty(lose_often, mt_strict ? 200 : 20, "many are lost");
}

/* Several at a time, both ways. */
static void test_parallel(void)
{
	int nth, right = 0;

	for (nth = 0; nth < 20; nth++) {
		mt_post(rmpp_send(&client, fake_ib_ports[2].lid, SEND, 10000, 3, 0, 3));
		mt_post(rmpp_send(&server, fake_ib_ports[1].lid, SEND, 10000, 3, 0, 3));
	}
	CHECK(mt_wait_sent(&client, 20, 20000) && mt_wait_sent(&server, 20, 20000), "many transfers at a time");
	CHECK(mt_wait_received(&client, 20, 5000) && mt_wait_received(&server, 20, 5000), "all are received");
	for (nth = 0; nth < 20; nth++)
		right += rmpp_is(mt_received(&client, nth), 10000, 3) + rmpp_is(mt_received(&server, nth), 10000, 3);
	CHECK_EQ(40, right, "well");
	mt_forget(&client);
	mt_forget(&server);
}

/* Agents go in the middle of transfers. */
static void test_unregister(void)
{
	int nth;

	fake_ib_watch(NULL, NULL);
	for (nth = 0; nth < 10; nth++)
		mt_post(rmpp_send(&client, fake_ib_ports[2].lid, SEND, 100000, 3, 0, 3));
	mt_wait_received(&server, 1, 5000);
	mt_close(&server);
	mt_unregister(&client);
	CHECK_EQ(10, client.sent, "all transfers come to their end with their agent");
	mt_close(&client);
}

void mt_test_rmpp(void)
{
	rmpp_test_sender();
	rmpp_test_receiver();
	if (rmpp_open(&client, 1, 0) || rmpp_open(&server, 2, 0))
		return CHECK(false, "agents with RMPP");
	MT_CASE(test_lengths());
	MT_CASE(test_exchanges());
	MT_CASE(test_faults());
	MT_CASE(test_parallel());
	MT_CASE(test_unregister());
}
