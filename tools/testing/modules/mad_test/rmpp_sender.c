// SPDX-License-Identifier: GPL-2.0
/* The sender of a transfer, whose receiver is played by the test. */
#include "rmpp_packets.h"

#define SEND IB_MGMT_METHOD_SEND
#define BACK (SEND | IB_MGMT_METHOD_RESP)	/* of what the receiver sends */

static struct mt_agent agent;
static struct ib_mad_send_buf *send;
static u64 tid;

static void begin(u32 length, unsigned int timeout_ms, int retries)
{
	mt_forget(&agent);
	mt_wire_begin(NULL);
	send = rmpp_send(&agent, MT_FAR_LID, SEND, length, 0, timeout_ms, retries);
	if (!send)
		return;
	tid = be64_to_cpu(mt_tid(send));
	CHECK_EQ(0, mt_post(send), "%u bytes are sent", length);
}

static void ack(u32 segment, u32 window)
{
	rmpp_deliver(tid, BACK, ACK, ACTIVE, segment, window);
}

/* So many segments were sent, and no more are sent. */
static void expect_sent(int count, const char *when)
{
	CHECK(rmpp_wait(DATA, count, 5000), "%d segments are sent %s", count, when);
	fake_ib_settle();
	CHECK_EQ(count, rmpp_count(DATA), "and no more (%s)", when);
}

static void expect_end(int status, u32 vendor_err, const char *name)
{
	struct mt_event *event;

	CHECK(mt_wait_sent(&agent, 1, 5000), "%s: it comes to its end", name);
	event = mt_sent(&agent, 0);
	if (!event)
		return;
	CHECK_EQ(status, event->status, "%s: status", name);
	if (status == IB_WC_REM_ABORT_ERR)
		CHECK_EQ(vendor_err, event->vendor_err, "%s: reason", name);
	CHECK_EQ(0, agent.received, "%s: nothing is received", name);
}

static void expect_segment(int nth, u8 flags, u32 segment, u32 length)
{
	struct fake_ib_packet *sent = rmpp_sent(DATA, nth);

	if (!sent)
		return CHECK(false, "datagram %d is sent", nth);
	CHECK(rmpp(sent)->version == 1 && rmpp(sent)->type == DATA && !rmpp(sent)->status, "datagram %d: its type", nth);
	CHECK_EQ(flags, rmpp(sent)->flags, "datagram %d: its flags", nth);
	CHECK_EQ(segment, be32_to_cpu(rmpp(sent)->segment), "datagram %d: its number", nth);
	CHECK_EQ(length, be32_to_cpu(rmpp(sent)->length), "datagram %d: its length", nth);
	CHECK(fake_ib_hdr(sent)->method == SEND && fake_ib_hdr(sent)->tid == cpu_to_be64(tid) && sent->length == 256,
	      "datagram %d: its header", nth);
	CHECK_EQ(rmpp_byte(0, (segment - 1) * RMPP_SEGMENT), sent->mad[40], "datagram %d: its data", nth);
}

static void test_send_one(void)
{
	struct fake_ib_packet *sent;

	begin(100, 0, 3);
	expect_sent(1, "at first");
	expect_segment(0, ACTIVE | FIRST | LAST, 1, 104);
	sent = rmpp_sent(DATA, 0);
	CHECK(sent && !memchr_inv(sent->mad + 140, 0, 116), "behind its end it is empty");
	CHECK_EQ(0, agent.count, "it waits for its ACK");
	ack(1, 1);
	expect_end(IB_WC_SUCCESS, 0, "one segment");
}

static void test_send_window(void)
{
	begin(3 * RMPP_SEGMENT - 10, 0, 3);
	expect_sent(1, "at first");
	expect_segment(0, ACTIVE | FIRST, 1, 3 * 220 - 10);
	ack(1, 2);
	expect_sent(2, "after the first ACK");
	expect_segment(1, ACTIVE, 2, 0);
	ack(2, 66);
	expect_sent(3, "after the second one");
	expect_segment(2, ACTIVE | LAST, 3, 210);
	CHECK_EQ(0, agent.count, "the last one waits for its ACK");
	ack(3, 66);
	expect_end(IB_WC_SUCCESS, 0, "three segments");

	begin(200 * RMPP_SEGMENT, 0, 3);
	expect_sent(1, "at first");
	ack(1, 65);
	expect_sent(65, "within the window");
	ack(1, 65);
	ack(30, 65);
	expect_sent(65, "after an ACK that does not open it");
	ack(65, 129);
	expect_sent(129, "after one that does");
	/* Old ones. */
	ack(64, 129);
	ack(65, 100);
	expect_sent(129, "after old ACKs");
	ack(129, 500);
	expect_sent(200, "with a window for all");
	ack(200, 500);
	expect_end(IB_WC_SUCCESS, 0, "200 segments");
}

static void test_send_no_ack(void)
{
	begin(3 * RMPP_SEGMENT, 80 * mt_slowness, 2);
	expect_end(IB_WC_RESP_TIMEOUT_ERR, 0, "no ACK");
	CHECK_EQ(3, rmpp_count(DATA), "the first segment was sent three times");
	expect_segment(2, ACTIVE | FIRST, 1, 3 * 220);
	CHECK_EQ(2, agent.count ? agent.events[0].retries : -1, "after two retries");
}

/* Retries are counted anew for each window, and begin behind what was acknowledged. timeout 0: an ACK may take 2 s. */
static void test_send_retries(unsigned int timeout)
{
	unsigned long begun;
	s64 ms;

	begin(4 * RMPP_SEGMENT, timeout, 1);
	expect_sent(1, "at first");
	begun = jiffies;
	ack(1, 3);
	CHECK(mt_wait_sent(&agent, 1, 20000), "one ACK");
	ms = mt_ms_since(begun);
	expect_end(IB_WC_RESP_TIMEOUT_ERR, 0, "one ACK");
	mt_result(ms >= 2 * (timeout ?: 2000) - 20, ms, "two times are over");
	CHECK_EQ(1 + 2 * 2, rmpp_count(DATA), "the second and third segments were sent twice");
	expect_segment(1, ACTIVE, 2, 0);
	expect_segment(2, ACTIVE, 3, 0);
	expect_segment(3, ACTIVE, 2, 0);
	expect_segment(4, ACTIVE, 3, 0);

	begin(3 * RMPP_SEGMENT, timeout, 2);
	expect_sent(1, "at first");
	ack(1, 65);
	CHECK(rmpp_wait(DATA, 3, 5000), "within the window");
	ack(2, 65);
	CHECK(rmpp_wait(DATA, 4, 20000), "the last one is sent again");
	expect_segment(3, ACTIVE | LAST, 3, 220);
	ack(3, 65);
	expect_end(timeout ? IB_WC_RESP_TIMEOUT_ERR : IB_WC_SUCCESS, 0, "an ACK for all");
	CHECK_EQ(4, rmpp_count(DATA), "nothing else is sent again");
}

/* What the receiver may send, what the sender makes of it, and tells: 0: nothing. */
static const struct {
	const char *name;
	u8 version, type, status;
	u32 segment, window;
	u8 reason, told;
} answers[] = {
	{ "a STOP", 1, STOP, 1, 0, 0, 1, 0 },
	{ "a STOP with status 0", 1, STOP, 0, 0, 0, 124, 124 },
	{ "a STOP with status 118", 1, STOP, 118, 0, 0, 124, 124 },
	{ "an ABORT, too long", 1, ABORT, 118, 0, 0, 118, 0 },
	{ "an ABORT, bad length", 1, ABORT, 119, 0, 0, 119, 0 },
	{ "an ABORT, too many retries", 1, ABORT, 126, 0, 0, 126, 0 },
	{ "an ABORT for no reason", 1, ABORT, 127, 0, 0, 127, 0 },
	{ "an ABORT with status 117", 1, ABORT, 117, 0, 0, 124, 124 },
	{ "an ABORT with status 128", 1, ABORT, 128, 0, 0, 124, 124 },
	{ "an ACK with a status", 1, ACK, 1, 1, 65, 124, 124 },
	{ "an ACK whose window is behind it", 1, ACK, 0, 2, 1, 122, 122 },
	{ "an ACK of what was not sent", 1, ACK, 0, 2, 65, 123, 123 },
	{ "an ACK behind the end", 1, ACK, 0, 9, 65, 123, 123 },
	{ "type 0", 1, 0, 0, 1, 65, 121, 121 },
	{ "type 5", 1, 5, 0, 1, 65, 121, 121 },
	{ "type 255", 1, 255, 0, 1, 65, 121, 121 },
	{ "version 0", 0, ACK, 0, 1, 65, 125, 125 },
	{ "version 2", 2, ACK, 0, 1, 65, 125, 125 },
};

static void check_answer(int nth)
{
	const char *name = answers[nth].name;
	struct fake_ib_packet *packet = kmalloc_obj(*packet), *sent;

	if (!packet)
		return;
	begin(4 * RMPP_SEGMENT, 0, 3);
	CHECK(rmpp_wait(DATA, 1, 5000), "%s: one segment is sent", name);
	fake_ib_settle();
	/* Its completion comes before the next one. */
	CHECK(mt_fence(1, 1), "%s: and completed", name);
	rmpp_make(packet, tid, BACK, answers[nth].type, ACTIVE, answers[nth].segment, answers[nth].window);
	rmpp(packet)->version = answers[nth].version;
	rmpp(packet)->status = answers[nth].status;
	fake_ib_deliver(packet);
	expect_end(IB_WC_REM_ABORT_ERR, answers[nth].reason, name);
	CHECK(mt_fence(1, 1), "%s: the port goes on", name);
	CHECK_EQ(!!answers[nth].told, rmpp_count(ABORT), "%s: ABORTs are sent", name);
	sent = rmpp_sent(ABORT, 0);
	if (sent) {
		CHECK_EQ(answers[nth].told, rmpp(sent)->status, "%s: with a status", name);
		CHECK(rmpp(sent)->version == 1 && !rmpp(sent)->segment && !rmpp(sent)->length && rmpp(sent)->flags == ACTIVE,
		      "%s: RMPP header", name);
		CHECK(fake_ib_hdr(sent)->method == SEND && fake_ib_hdr(sent)->tid == cpu_to_be64(tid) &&
		      sent->dlid == MT_FAR_LID && sent->dest_qpn == 1, "%s: to the receiver", name);
		CHECK(get_unaligned_be24(sent->mad + 37) == RMPP_OUI && !memchr_inv(sent->mad + 40, 0, 216),
		      "%s: without data", name);
	}
	CHECK_EQ(1, rmpp_count(DATA), "%s: no more segments", name);
	kfree(packet);
}

/* The receiver gives up before the segment's completion: that is no success, though the stock core tells it as one. */
static void test_send_early_abort(void)
{
	struct fake_ib_packet *packet = kmalloc_obj(*packet);

	if (!packet)
		return;
	fake_ib_hold(1, 1, FAKE_IB_HOLD_COMPLETIONS);
	begin(4 * RMPP_SEGMENT, 0, 3);
	CHECK(rmpp_wait(DATA, 1, 5000), "one segment is sent");
	rmpp_make(packet, tid, BACK, ABORT, ACTIVE, 0, 0);
	rmpp(packet)->status = 126;
	fake_ib_deliver(packet);
	msleep(50);
	CHECK_EQ(0, agent.count, "it is not completed");
	fake_ib_hold(1, 1, 0);
	expect_end(IB_WC_REM_ABORT_ERR, 126, "an early ABORT");
	CHECK_EQ(1, rmpp_count(DATA), "no more segments");
	kfree(packet);
}

static void test_send_cancel(void)
{
	begin(100 * RMPP_SEGMENT, 0, 3);
	CHECK(rmpp_wait(DATA, 1, 5000), "a transfer has begun");
	msleep(20);
	CHECK_EQ(0, ib_modify_mad(send, 0), "it is cancelled");
	expect_end(IB_WC_WR_FLUSH_ERR, 0, "a cancelled transfer");
	ack(1, 65);
	CHECK(mt_fence(1, 1), "an ACK comes too late");
	CHECK_EQ(1, rmpp_count(DATA), "no more is sent");
}

/* The answer may come in segments, too: then the sender acknowledges the last ACK. */
static void test_send_answer(void)
{
	struct fake_ib_packet *sent;

	begin(2 * RMPP_SEGMENT, 10000 * mt_slowness, 3);
	expect_sent(1, "at first");
	ack(1, 65);
	expect_sent(2, "within the window");
	ack(2, 66);
	CHECK(rmpp_wait(ACK, 1, 5000), "the last ACK is acknowledged");
	sent = rmpp_sent(ACK, 0);
	CHECK(sent && !rmpp(sent)->segment && rmpp(sent)->length == cpu_to_be32(1) && fake_ib_hdr(sent)->method == SEND,
	      "with a window for the answer");
	CHECK_EQ(0, agent.count, "the answer is waited for");
	ack(2, 66);
	CHECK(rmpp_wait(ACK, 2, 5000), "the same ACK, the same answer to it");
	rmpp_deliver(tid, BACK, DATA, ACTIVE | FIRST, 1, 2 * 220 - 6);
	CHECK(rmpp_wait(ACK, 3, 5000), "the answer's first segment is acknowledged");
	rmpp_deliver(tid, BACK, DATA, ACTIVE | LAST, 2, 214);
	CHECK(mt_wait_sent(&agent, 1, 5000), "the answer has come");
	CHECK(agent.count == 2 && agent.events[0].received && agent.events[0].send == send, "for the request");
	CHECK(rmpp_is(mt_received(&agent, 0), 2 * RMPP_SEGMENT - 6, 0), "all of it");
	CHECK_EQ(IB_WC_SUCCESS, agent.count == 2 ? agent.events[1].status : -1, "the request has succeeded");
	CHECK(rmpp_wait(ACK, 4, 5000), "all of it is acknowledged");
	sent = rmpp_sent(ACK, 3);
	CHECK(sent && rmpp(sent)->segment == cpu_to_be32(2), "its last segment is acknowledged");
	fake_ib_settle();
	CHECK_EQ(2, rmpp_count(DATA), "no segment was sent twice");
}

static void test_send_short_answer(void)
{
	begin(2 * RMPP_SEGMENT, 10000 * mt_slowness, 3);
	expect_sent(1, "at first");
	ack(1, 65);
	expect_sent(2, "within the window");
	ack(2, 66);
	CHECK(rmpp_wait(ACK, 1, 5000), "the last ACK is acknowledged");
	rmpp_deliver(tid, BACK, 0, 0, 0, 0);
	CHECK(mt_wait_sent(&agent, 1, 5000), "an answer without RMPP");
	CHECK(agent.count == 2 && agent.events[0].received && agent.events[0].send == send && agent.events[0].length == 256 &&
	      !agent.events[1].status, "ends the request");
}

static void test_send_unmatched(void)
{
	mt_forget(&agent);
	mt_wire_begin(NULL);
	tid = (u64)agent.agent->hi_tid << 32 | 0x7777;
	rmpp_deliver(tid, BACK, ACK, ACTIVE, 1, 65);
	rmpp_deliver(tid, BACK, STOP, ACTIVE, 0, 0);
	rmpp_deliver(tid, BACK, DATA, ACTIVE | FIRST | LAST, 1, 220);
	rmpp_deliver(tid, BACK, DATA, ACTIVE | FIRST, 1, 2200);
	rmpp_deliver(tid, BACK, DATA, ACTIVE, 2, 0);
	CHECK(mt_fence(1, 1), "what belongs to no transfer");
	CHECK_EQ(0, agent.count, "is for nobody");
	CHECK_EQ(0, rmpp_count(ACK), "and not acknowledged");
}

static void test_send_answers(void)
{
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(answers); nth++)
		check_answer(nth);
}

void rmpp_test_sender(void)
{
	if (rmpp_open(&agent, 1, 0))
		return CHECK(false, "an agent with RMPP");
	MT_CASE(test_send_one());
	MT_CASE(test_send_window());
	MT_CASE(test_send_no_ack());
	MT_CASE(test_send_retries(0));
	/* The stock core's timer of the second window is wrong where there is a time for an answer of up to 2 s. */
	if (mt_strict)
		MT_CASE(test_send_retries(80 * mt_slowness));
	MT_CASE(test_send_answers());
	if (mt_strict)
		MT_CASE(test_send_early_abort());
	MT_CASE(test_send_cancel());
	MT_CASE(test_send_answer());
	MT_CASE(test_send_short_answer());
	MT_CASE(test_send_unmatched());
	mt_close(&agent);
}
