// SPDX-License-Identifier: GPL-2.0
/* The receiver of a transfer, whose sender is played by the test. */
#include "rmpp_packets.h"

#define SEND IB_MGMT_METHOD_SEND
#define BACK (SEND | IB_MGMT_METHOD_RESP)

static struct mt_agent agent;
static u64 tid = 0x5e6d000000000000ULL;

static void begin(void)
{
	mt_forget(&agent);
	mt_wire_begin(NULL);
	tid++;
}

static void data(u8 flags, u32 segment, u32 length)
{
	rmpp_deliver(tid, SEND, DATA, ACTIVE | flags, segment, length);
}

/* So many ACKs were sent; the last one is of this segment, with this window. */
static void expect_acks(int count, u32 segment, u32 window, const char *when)
{
	struct fake_ib_packet *sent;

	CHECK(!count || rmpp_wait(ACK, count, 5000), "%d ACKs %s", count, when);
	CHECK(mt_fence(1, 1), "the port goes on %s", when);
	CHECK_EQ(count, rmpp_count(ACK), "no more %s", when);
	sent = count ? rmpp_sent(ACK, count - 1) : NULL;
	if (!sent)
		return;
	CHECK_EQ(segment, be32_to_cpu(rmpp(sent)->segment), "the ACK's number %s", when);
	CHECK_EQ(window, be32_to_cpu(rmpp(sent)->length), "its window %s", when);
	CHECK(rmpp(sent)->version == 1 && !rmpp(sent)->status && rmpp(sent)->flags == ACTIVE, "its RMPP header %s", when);
	CHECK(fake_ib_hdr(sent)->method == BACK && fake_ib_hdr(sent)->tid == cpu_to_be64(tid) && sent->dlid == MT_FAR_LID &&
	      sent->dest_qpn == 1 && get_unaligned_be24(sent->mad + 37) == RMPP_OUI, "its header %s", when);
	CHECK(!memchr_inv(sent->mad + 40, 0, 216), "it has no data %s", when);
}

static void expect_received(u32 length, const char *name)
{
	CHECK(mt_wait_received(&agent, 1, 5000) && agent.received == 1, "%s: it is received", name);
	CHECK(rmpp_is(mt_received(&agent, 0), length, 0), "%s: all of it", name);
}

static void test_receive_one(void)
{
	static const struct {
		u32 payload, length;
	} payloads[] = { { 220, 216 }, { 219, 215 }, { 5, 1 }, { 4, 0 }, { 221, 216 }, { 0xffffffff, 216 } };
	char name[40];
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(payloads); nth++) {
		begin();
		snprintf(name, sizeof(name), "a payload of %u", payloads[nth].payload);
		data(FIRST | LAST, 1, payloads[nth].payload);
		expect_received(payloads[nth].length, name);
		expect_acks(1, 1, 1, "of one segment");
	}
}

static void test_receive_windows(void)
{
	u32 segment;

	begin();
	data(FIRST, 1, 0);
	expect_acks(1, 1, 65, "after the first segment");
	for (segment = 2; segment < 65; segment++)
		data(0, segment, 0);
	expect_acks(1, 1, 65, "within the window");
	data(0, 65, 0);
	expect_acks(2, 65, 129, "at the end of the window");
	for (segment = 66; segment < 70; segment++)
		data(0, segment, 0);
	CHECK_EQ(0, agent.count, "nobody is told yet");
	data(LAST, 70, 100);
	expect_acks(3, 70, 129, "at the end");
	expect_received(70 * RMPP_SEGMENT - 120, "70 segments");
	/* The end is not heard: the sender asks once more. */
	data(LAST, 70, 100);
	expect_acks(4, 70, 129, "at the end once more");
	data(FIRST, 1, 0);
	expect_acks(5, 70, 129, "after all of it");
	CHECK_EQ(1, agent.received, "it is received once");
}

static void test_receive_disorder(void)
{
	begin();
	data(0, 2, 0);
	expect_acks(0, 0, 0, "before the first segment");
	data(FIRST, 1, 0);
	expect_acks(1, 1, 65, "after the first segment");
	data(0, 66, 0);
	data(0, 1000, 0);
	data(LAST, 0x7fffffff, 220);
	expect_acks(1, 1, 65, "behind the window");
	data(LAST, 5, 220);
	data(0, 3, 0);
	data(0, 3, 0);
	data(0, 4, 0);
	expect_acks(1, 1, 65, "with a hole");
	CHECK_EQ(0, agent.count, "nobody is told yet");
	data(FIRST, 1, 0);
	expect_acks(2, 1, 65, "after the first one, twice");
	data(0, 2, 0);
	expect_acks(3, 5, 65, "without the hole");
	expect_received(5 * RMPP_SEGMENT, "out of order");
}

/* Faults of a segment, and the status that the sender gets. */
static const struct {
	const char *name;
	u8 version, type, flags, status;
	u32 segment;
	u8 reason;
} wrong[] = {
	{ "the first one does not say so", 1, DATA, ACTIVE, 0, 1, 120 },
	{ "the second one says that it is the first", 1, DATA, ACTIVE | FIRST, 0, 2, 120 },
	{ "number 0 says so", 1, DATA, ACTIVE | FIRST, 0, 0, 120 },
	{ "a status", 1, DATA, ACTIVE | FIRST, 1, 1, 124 },
	{ "version 0", 0, DATA, ACTIVE | FIRST, 0, 1, 125 },
	{ "version 2", 2, DATA, ACTIVE | FIRST, 0, 1, 125 },
	{ "type 0", 1, 0, ACTIVE | FIRST, 0, 1, 121 },
	{ "type 5", 1, 5, ACTIVE | FIRST, 0, 1, 121 },
};

static void test_receive_wrong(void)
{
	struct fake_ib_packet *packet = kmalloc_obj(*packet), *sent;
	int nth;

	if (!packet)
		return;
	for (nth = 0; nth < ARRAY_SIZE(wrong); nth++) {
		begin();
		rmpp_make(packet, tid, SEND, wrong[nth].type, wrong[nth].flags, wrong[nth].segment, 1000);
		rmpp(packet)->version = wrong[nth].version;
		rmpp(packet)->status = wrong[nth].status;
		fake_ib_deliver(packet);
		CHECK(rmpp_wait(ABORT, 1, 5000) && mt_fence(1, 1), "%s: the sender is told", wrong[nth].name);
		CHECK_EQ(1, rmpp_count(ABORT), "%s: once", wrong[nth].name);
		sent = rmpp_sent(ABORT, 0);
		CHECK_EQ(wrong[nth].reason, sent ? rmpp(sent)->status : -1, "%s: why", wrong[nth].name);
		CHECK(sent && fake_ib_hdr(sent)->method == BACK && rmpp(sent)->version == 1 &&
		      !rmpp(sent)->segment && !rmpp(sent)->length,
		      "%s: in an ABORT", wrong[nth].name);
		CHECK(!agent.count && !rmpp_count(ACK), "%s: nothing else happens", wrong[nth].name);
	}
	kfree(packet);
}

/* Transfers are distinguished by their transaction and their sender. */
static void test_receive_interleaved(void)
{
	struct fake_ib_packet *packet = kmalloc_obj(*packet);
	u32 segment, from;

	if (!packet)
		return;
	begin();
	for (segment = 1; segment <= 3; segment++) {
		for (from = 0; from < 4; from++) {
			rmpp_make(packet, tid + (from & 1) * 0x10000, SEND, DATA,
				  ACTIVE | (segment == 1 ? FIRST : segment == 3 ? LAST : 0), segment, 220);
			packet->slid += from >> 1;
			fake_ib_deliver(packet);
			mt_fence(1, 1);
		}
	}
	CHECK(mt_wait_received(&agent, 4, 5000) && agent.received == 4, "four transfers at a time");
	for (from = 0; from < 4; from++)
		CHECK(rmpp_is(mt_received(&agent, from), 3 * RMPP_SEGMENT, 0), "number %u", from);
	kfree(packet);
}

/* What has no RMPP is received as it is; all segments are, where RMPP is the user's. */
static void test_receive_user(void)
{
	begin();
	rmpp_deliver(tid, SEND, 0, 0, 0, 0);
	CHECK(mt_wait_received(&agent, 1, 5000), "a datagram without RMPP is received");
	CHECK(agent.count && agent.events[0].length == 256 && list_is_singular(&agent.events[0].mad->rmpp_list), "as one");
	mt_close(&agent);
	if (rmpp_open(&agent, 1, IB_MAD_USER_RMPP))
		return CHECK(false, "an agent with RMPP of the user");
	begin();
	data(FIRST, 1, 0);
	data(LAST, 2, 220);
	rmpp_deliver(tid, SEND, ACK, ACTIVE, 1, 65);
	CHECK(mt_wait_received(&agent, 3, 5000), "who has RMPP of its own gets every segment");
	CHECK(mt_fence(1, 1) && !rmpp_count(ACK) && !rmpp_count(ABORT), "and nobody acknowledges them");
	/* Without a request, too. */
	rmpp_deliver((u64)agent.agent->hi_tid << 32 | 0x7777, BACK, DATA, ACTIVE | FIRST, 1, 220);
	CHECK(mt_wait_received(&agent, 4, 5000), "a segment of a response");
	CHECK(mt_received(&agent, 3) && !mt_received(&agent, 3)->send, "whatever it is a response to");
	mt_close(&agent);
}

/* It goes in the middle of a transfer, and after one. */
static void test_receive_unfinished(void)
{
	begin();
	data(FIRST, 1, 0);
	data(0, 2, 0);
	CHECK(mt_fence(1, 1), "a transfer that does not come to its end");
	mt_close(&agent);
	CHECK(mt_fence(1, 1), "its receiver goes");
}

void rmpp_test_receiver(void)
{
	if (rmpp_open(&agent, 1, 0))
		return CHECK(false, "an agent with RMPP");
	MT_CASE(test_receive_one());
	MT_CASE(test_receive_windows());
	MT_CASE(test_receive_disorder());
	MT_CASE(test_receive_wrong());
	MT_CASE(test_receive_interleaved());
	MT_CASE(test_receive_user());
	if (rmpp_open(&agent, 1, 0))
		return;
	MT_CASE(test_receive_unfinished());
}

/* The sender goes silent: it gets an ABORT after 40 seconds. */
void mt_test_rmpp_timeout(void)
{
	struct fake_ib_packet *sent;
	unsigned long begun;
	s64 ms;

	if (rmpp_open(&agent, 1, 0))
		return CHECK(false, "an agent with RMPP");
	begin();
	begun = jiffies;
	data(FIRST, 1, 0);
	CHECK(rmpp_wait(ABORT, 1, 60000), "a transfer that does not go on is ended");
	ms = mt_ms_since(begun);
	sent = rmpp_sent(ABORT, 0);
	CHECK_EQ(118, sent ? rmpp(sent)->status : -1, "because it takes too long");
	mt_result(ms >= 39900 && ms < 41000 + 5000 * mt_slowness, ms, "after 40 s");
	data(0, 2, 0);
	CHECK(mt_fence(1, 1) && !agent.count, "what comes then is for nobody");
	mt_close(&agent);
}
