// SPDX-License-Identifier: GPL-2.0
/* Chains of sends, more of them than the send queue takes, flow control, and sends that fail. */
#include "mad_test.h"

#define GET IB_MGMT_METHOD_GET
#define SEND IB_MGMT_METHOD_SEND
#define LONG_MS 60000
#define QUEUE 128		/* the core's send queue */
#define MANY 40

static struct mt_agent client;
static struct fake_ib_packet packet;
static struct ib_mad_send_buf *sends[300];
static __be64 tids[300];

static struct ib_mad_send_buf *datagram(void)
{
	return mt_mad(&client, MT_FAR_LID, MT_CLASS, SEND, 0, 0);
}

static int status_of(int nth)
{
	struct mt_event *event = mt_sent(&client, nth);

	return event ? event->status : -1;
}

/* What was posted comes to its end in this order; how many do not. */
static int out_of_order(int count)
{
	int nth, wrong = 0;

	for (nth = 0; nth < count; nth++)
		wrong += !mt_sent(&client, nth) || mt_sent(&client, nth)->send != sends[nth];
	return wrong;
}

/* Chains */

/* Three, of which the second one is bad. */
static void make_chain(void)
{
	int nth;

	for (nth = 0; nth < 3; nth++) {
		sends[nth] = datagram();
		if (nth)
			sends[nth - 1]->next = sends[nth];
	}
	sends[2]->next = NULL;
}

static void end_chain(struct ib_mad_send_buf *bad, int ret, int error, const char *why)
{
	CHECK_EQ(error, ret, "a chain is posted as far as the one %s", why);
	CHECK(bad == sends[1], "which is told");
	CHECK(mt_wait_sent(&client, 1, 5000), "the first one is sent");
	fake_ib_settle();
	CHECK_EQ(1, mt_wire_count(1, 0), "and nothing else");
	CHECK_EQ(1, client.sent, "nobody is told of the others");
	ib_free_send_mad(sends[1]);
	ib_free_send_mad(sends[2]);
	mt_forget(&client);
}

static void test_chains(void)
{
	struct ib_mad_send_buf *bad = NULL;
	int ret;

	make_chain();
	CHECK_EQ(0, ib_post_send_mad(sends[0], &bad), "a chain of three");
	CHECK(mt_wait_sent(&client, 3, 5000), "is sent");
	CHECK_EQ(0, out_of_order(3), "in order");
	CHECK(!bad, "nothing is bad");
	mt_forget(&client);

	mt_wire_begin(NULL);
	make_chain();
	fake_ib_refuse_send(1, 1, 2, -EIO);
	ret = ib_post_send_mad(sends[0], &bad);
	end_chain(bad, ret, -EIO, "that the driver refuses");
}

static void test_chain_rmpp(void)
{
	struct mt_request wanted = { .port = 1, .type = IB_QPT_GSI, .rmpp = 1 };
	struct ib_mad_send_buf *bad = NULL;
	int ret, nth;

	mt_wire_begin(NULL);
	mt_close(&client);
	if (mt_open(&client, &wanted))
		return;
	make_chain();
	/* An agent with RMPP sends nothing of a class without it. */
	for (nth = 0; nth < 3; nth += 2)
		((struct ib_mad_hdr *)sends[nth]->mad)->mgmt_class = MT_OUI_CLASS;
	ret = ib_post_send_mad(sends[0], &bad);
	end_chain(bad, ret, -EINVAL, "of a class without RMPP");
	CHECK_EQ(-EINVAL, mt_post(datagram()), "such a datagram alone");
}

static void discard(struct ib_mad_agent *agent, struct ib_mad_send_buf *send, struct ib_mad_recv_wc *mad)
{
	ib_free_recv_mad(mad);
}

static void test_no_handler(void)
{
	struct ib_mad_agent *agent;
	struct ib_mad_reg_req req;
	struct ib_mad_send_buf *send;

	mt_fill_request(&req, &(struct mt_request){ .class = MT_CLASS, .version = 1, .methods = MT_METHODS(0x7f) });
	agent = ib_register_mad_agent(mt_device, 1, IB_QPT_GSI, &req, 0, NULL, discard, NULL, 0);
	if (IS_ERR(agent))
		return CHECK(false, "an agent without a send handler");
	send = ib_create_send_mad(agent, 1, 0, 0, IB_MGMT_MAD_HDR, IB_MGMT_MAD_DATA, GFP_KERNEL, IB_MGMT_BASE_VERSION);
	if (!IS_ERR(send)) {
		send->ah = mt_ah(agent, MT_FAR_LID);
		((struct ib_mad_hdr *)send->mad)->mgmt_class = MT_CLASS;
		CHECK_EQ(-EINVAL, ib_post_send_mad(send, NULL), "who has no send handler sends nothing");
		ib_free_send_mad(send);
	}
	ib_unregister_mad_agent(agent);
}

/* More than the send queue takes */

static void post_many(int count)
{
	int nth, ret = 0;

	for (nth = 0; nth < count; nth++)
		sends[nth] = datagram();
	for (nth = 0; nth < count; nth++)
		ret = ret ?: ib_post_send_mad(sends[nth], NULL);
	CHECK_EQ(0, ret, "%d datagrams are posted", count);
}

static void test_overflow(void)
{
	int nth, wrong = 0, count = ARRAY_SIZE(sends);
	u32 most;

	mt_wire_begin(NULL);
	fake_ib_hold(1, 1, FAKE_IB_HOLD_SENDS);
	fake_ib_queued(1, 1, &most);
	post_many(count);
	for (nth = 0; nth < count; nth++)
		tids[nth] = mt_tid(sends[nth]);
	CHECK_EQ(QUEUE, fake_ib_queued(1, 1, NULL), "as many as there is room for are in the send queue");
	CHECK_EQ(0, client.count, "none has come to its end");
	fake_ib_hold(1, 1, 0);
	CHECK(mt_wait_sent(&client, count, 10000), "all do");
	fake_ib_queued(1, 1, &most);
	CHECK_EQ(QUEUE, most, "there were never more");
	CHECK_EQ(0, out_of_order(count), "in order");
	for (nth = 0; nth < count; nth++) {
		struct fake_ib_packet *sent = mt_wire_packet(1, 0, nth);

		wrong += !sent || fake_ib_hdr(sent)->tid != tids[nth];
	}
	CHECK_EQ(0, wrong, "in the order of their sending, too");
	CHECK_EQ(count, mt_wire_count(1, 0), "each once");
	mt_forget(&client);
}

/* One that had to wait is refused when its turn comes. */
static void test_overflow_refused(void)
{
	int nth, failed = 0;

	mt_wire_begin(NULL);
	fake_ib_hold(1, 1, FAKE_IB_HOLD_SENDS);
	post_many(QUEUE + 2);
	fake_ib_refuse_send(1, 1, 1, -EIO);
	fake_ib_hold(1, 1, 0);
	CHECK(mt_wait_sent(&client, QUEUE + 2, 5000), "all come to their end");
	for (nth = 0; nth < QUEUE + 2; nth++) {
		struct mt_event *event = mt_sent(&client, nth);

		if (event && event->status) {
			failed++;
			CHECK_EQ(IB_WC_LOC_QP_OP_ERR, event->status, "one that was refused later");
			CHECK(event->send == sends[QUEUE], "the first one that had to wait");
		}
	}
	CHECK_EQ(1, failed, "no other fails");
	CHECK_EQ(QUEUE + 1, mt_wire_count(1, 0), "all others are sent");
	mt_forget(&client);
}

static void test_overflow_cancelled(void)
{
	mt_wire_begin(NULL);
	fake_ib_hold(1, 1, FAKE_IB_HOLD_SENDS);
	post_many(QUEUE + 2);
	CHECK_EQ(0, ib_modify_mad(sends[QUEUE], 0), "one that waits for room is cancelled");
	fake_ib_hold(1, 1, 0);
	CHECK(mt_wait_sent(&client, QUEUE + 2, 5000), "all come to their end");
	CHECK_EQ(0, out_of_order(QUEUE + 2), "in order");
	CHECK_EQ(IB_WC_WR_FLUSH_ERR, status_of(QUEUE), "the cancelled one as such");
	CHECK_EQ(IB_WC_SUCCESS, status_of(QUEUE + 1), "the next one well");
	mt_forget(&client);
}

/* Flow control of requests */

static void reply_to(__be64 tid, u8 class)
{
	mt_make(&packet, 1, 1, class, 2, 0x81, be64_to_cpu(tid));
	CHECK_EQ(0, fake_ib_deliver(&packet), "a response arrives");
}

static void post_requests(int count, u8 class, unsigned int timeout_ms, int retries)
{
	int nth, ret = 0;

	for (nth = 0; nth < count; nth++) {
		sends[nth] = mt_mad(&client, MT_FAR_LID, class, GET, timeout_ms, retries);
		tids[nth] = mt_tid(sends[nth]);
	}
	for (nth = 0; nth < count; nth++)
		ret = ret ?: ib_post_send_mad(sends[nth], NULL);
	CHECK_EQ(0, ret, "%d requests are posted", count);
}

static bool on_wire_in_order(int count)
{
	int nth;

	for (nth = 0; nth < count; nth++) {
		struct fake_ib_packet *sent = mt_wire_packet(1, 0, nth);

		if (!sent || fake_ib_hdr(sent)->tid != tids[nth])
			return false;
	}
	return true;
}

/* How many requests of a class may wait for a response at a time, 0: any number. */
static void check_limit(const struct mt_request *as, u8 class, int limit, const char *who)
{
	int count = limit ? limit + 5 : QUEUE + 50, seen = limit ?: count, nth, before;

	mt_wire_begin(NULL);
	mt_close(&client);
	if (mt_open(&client, as))
		return CHECK(false, "%s is registered", who);
	post_requests(count, class, LONG_MS, 0);
	CHECK(mt_wire_wait(1, 0, seen, 5000), "%s: %d requests are sent", who, seen);
	msleep(50);
	CHECK_EQ(seen, mt_wire_count(1, 0), "%s: no more before one is answered", who);
	/* What needs no response is not held up. */
	before = mt_wire_count(1, 0);
	CHECK_EQ(0, mt_post(mt_mad(&client, MT_FAR_LID, class, SEND, 0, 0)), "%s: a datagram", who);
	CHECK(mt_wait_sent(&client, 1, 5000) && mt_wire_count(1, 0) == before + 1, "%s: passes them", who);
	if (limit) {
		reply_to(tids[7], class);
		CHECK(mt_wire_wait(1, tids[limit], 1, 5000), "%s: one answered, the next one is sent", who);
		CHECK_EQ(0, mt_wire_count(1, tids[limit + 1]), "%s: and no other", who);
	}
	for (nth = 0; nth < count; nth++) {
		mt_wire_wait(1, tids[nth], 1, 5000);
		if (!limit || nth != 7)
			reply_to(tids[nth], class);
	}
	CHECK(mt_wait_sent(&client, count + 1, 5000), "%s: all come to their end", who);
	CHECK_EQ(count, client.received, "%s: each with a response", who);
	CHECK_EQ(count + 1, mt_wire_count(1, 0), "%s: each is sent once", who);
	mt_forget(&client);
}

static void test_limits(void)
{
	struct mt_request sa = { .port = 1, .type = IB_QPT_GSI, .class = IB_MGMT_CLASS_SUBN_ADM, .version = 2,
				 .methods = MT_METHODS(0x7f) };
	struct mt_request cm = { .port = 1, .type = IB_QPT_GSI, .class = IB_MGMT_CLASS_CM, .version = 2,
				 .methods = MT_METHODS(0x7f) };
	struct mt_request own = { .port = 1, .type = IB_QPT_GSI, .class = MT_CLASS, .version = 1, .methods = MT_METHODS(0x7f) };

	check_limit(&sa, IB_MGMT_CLASS_SUBN_ADM, 16, "subnet administration");
	check_limit(&cm, IB_MGMT_CLASS_SUBN_ADM, 128, "connection management");
	check_limit(&MT_SEND_ONLY(1), IB_MGMT_CLASS_SUBN_ADM, 128, "who has no class");
	check_limit(&MT_SEND_ONLY(1), MT_CLASS, 0, "a class of vendors");
	check_limit(&own, IB_MGMT_CLASS_SUBN_ADM, 0, "who has a class of vendors");
}

static bool open_sa(void)
{
	struct mt_request sa = { .port = 1, .type = IB_QPT_GSI, .class = IB_MGMT_CLASS_SUBN_ADM, .version = 2,
				 .methods = MT_METHODS(0x7f) };

	mt_wire_begin(NULL);
	mt_close(&client);
	return !mt_open(&client, &sa);
}

static void test_backlog(void)
{
	int nth, flushed = 0;

	if (!open_sa())
		return;
	post_requests(MANY, IB_MGMT_CLASS_SUBN_ADM, LONG_MS, 0);
	CHECK(mt_wire_wait(1, 0, 16, 5000), "sixteen are sent");
	CHECK_EQ(0, ib_modify_mad(sends[17], 0), "one of the others is cancelled");
	CHECK(mt_wait_sent(&client, 1, 5000), "and comes to its end");
	CHECK(mt_sent(&client, 0)->send == sends[17] && status_of(0) == IB_WC_WR_FLUSH_ERR, "as a cancelled one");
	CHECK_EQ(0, ib_modify_mad(sends[18], 100), "one gets a short timeout");
	msleep(200);
	CHECK_EQ(1, client.sent, "which does not begin before it is sent");
	CHECK_EQ(0, ib_modify_mad(sends[2], 0), "one that was sent is cancelled");
	CHECK(mt_wait_sent(&client, 2, 5000), "and comes to its end");
	CHECK(mt_wire_wait(1, tids[16], 1, 5000), "in its place another one is sent");
	reply_to(tids[0], IB_MGMT_CLASS_SUBN_ADM);
	CHECK(mt_wire_wait(1, tids[18], 1, 5000), "then the one with a short timeout");
	CHECK(mt_wait_sent(&client, 4, 5000), "it comes to its end");
	CHECK_EQ(IB_WC_RESP_TIMEOUT_ERR, status_of(3), "as a timeout");
	CHECK(mt_sent(&client, 3) && mt_sent(&client, 3)->send == sends[18], "that one");
	CHECK(mt_wire_wait(1, tids[19], 1, 5000), "in its place another one is sent");
	mt_unregister(&client);
	CHECK_EQ(MANY, client.sent, "all come to their end with their agent");
	for (nth = 0; nth < MANY; nth++)
		flushed += status_of(nth) == IB_WC_WR_FLUSH_ERR;
	CHECK_EQ(MANY - 2, flushed, "those that wait as cancelled ones");
	CHECK_EQ(0, mt_wire_count(1, tids[17]), "the cancelled one was never sent");
	CHECK_EQ(0, mt_wire_count(1, tids[MANY - 1]), "nor was the last one");
}

/* Nobody answers: the others have their turn all the same, before those that have had it. */
static void test_backlog_timeouts(void)
{
	int nth, timeouts = 0;

	if (!open_sa())
		return;
	post_requests(MANY, IB_MGMT_CLASS_SUBN_ADM, 60, 1);
	CHECK(mt_wait_sent(&client, MANY, 10000), "all come to their end");
	for (nth = 0; nth < MANY; nth++)
		timeouts += status_of(nth) == IB_WC_RESP_TIMEOUT_ERR;
	CHECK_EQ(MANY, timeouts, "as timeouts");
	CHECK_EQ(2 * MANY, mt_wire_count(1, 0), "each is sent twice");
	CHECK(on_wire_in_order(17), "none a second time before another one waits no more");
}

/* More of a chain than may wait for responses; the stock core forgets those behind the first one that has to wait. */
static void test_backlog_chain(void)
{
	int nth;

	if (!open_sa())
		return;
	for (nth = 0; nth < MANY; nth++) {
		sends[nth] = mt_mad(&client, MT_FAR_LID, IB_MGMT_CLASS_SUBN_ADM, GET, LONG_MS, 0);
		tids[nth] = mt_tid(sends[nth]);
		if (nth)
			sends[nth - 1]->next = sends[nth];
	}
	CHECK_EQ(0, ib_post_send_mad(sends[0], NULL), "a chain of %d requests", MANY);
	for (nth = 0; nth < MANY; nth++) {
		CHECK(mt_wire_wait(1, tids[nth], 1, 5000), "number %d is sent", nth);
		reply_to(tids[nth], IB_MGMT_CLASS_SUBN_ADM);
	}
	CHECK(mt_wait_sent(&client, MANY, 5000), "all come to their end");
	CHECK(on_wire_in_order(MANY), "in order");
	mt_forget(&client);
}

/* Sends that fail */

static void test_errors(void)
{
	int nth;

	mt_wire_begin(NULL);
	mt_close(&client);
	if (mt_open(&client, &MT_SEND_ONLY(1)))
		return;
	fake_ib_hold(1, 1, FAKE_IB_HOLD_SENDS);
	post_many(6);
	fake_ib_fail_send(1, 1, 2, IB_WC_LOC_PROT_ERR);
	fake_ib_hold(1, 1, 0);
	CHECK(mt_wait_sent(&client, 6, 5000), "all come to their end where one fails");
	for (nth = 0; nth < 6; nth++) {
		struct mt_event *event = mt_sent(&client, nth);

		if (event && event->send == sends[1])
			CHECK_EQ(IB_WC_LOC_PROT_ERR, event->status, "that one with its error");
		else
			CHECK_EQ(IB_WC_SUCCESS, event ? event->status : -1, "the others well");
	}
	CHECK_EQ(5, mt_wire_count(1, 0), "each other one is sent");
	mt_forget(&client);
	CHECK_EQ(0, mt_post(datagram()), "one more datagram");
	CHECK(mt_wait_sent(&client, 1, 5000) && status_of(0) == IB_WC_SUCCESS, "is sent: the queue pair works again");
	mt_forget(&client);

	fake_ib_refuse_send(1, 1, 1, -EIO);
	CHECK_EQ(-EIO, mt_post(datagram()), "one that the driver refuses at once");
	fake_ib_settle();
	CHECK_EQ(0, client.count, "comes to no end");
	CHECK_EQ(0, mt_post(datagram()), "the next one is sent");
	CHECK(mt_wait_sent(&client, 1, 5000), "well");
	mt_forget(&client);
}

static void test_failed_request(void)
{
	struct ib_mad_send_buf *send = mt_mad(&client, MT_FAR_LID, MT_CLASS, GET, LONG_MS, 3);

	mt_wire_begin(NULL);
	fake_ib_fail_send(1, 1, 1, IB_WC_LOC_QP_OP_ERR);
	CHECK_EQ(0, mt_post(send), "a request whose send fails");
	/* It is not lost: its time runs, and it is sent again. */
	CHECK(!mt_wait_sent(&client, 1, 50), "waits");
	CHECK_EQ(0, ib_modify_mad(send, 60), "its timeout is short now");
	CHECK(mt_wait_sent(&client, 1, 5000), "it comes to its end");
	CHECK_EQ(IB_WC_RESP_TIMEOUT_ERR, status_of(0), "as a timeout");
	CHECK_EQ(3, mt_wire_count(1, 0), "its retries were sent");
	mt_forget(&client);

	send = mt_mad(&client, MT_FAR_LID, MT_CLASS, GET, 60, 3);
	mt_wire_begin(NULL);
	CHECK_EQ(0, mt_post(send), "a request");
	CHECK(mt_wire_wait(1, 0, 1, 5000), "is sent");
	fake_ib_refuse_send(1, 1, 1, -EIO);
	CHECK(mt_wait_sent(&client, 1, 5000), "its retry is refused");
	CHECK_EQ(IB_WC_RESP_TIMEOUT_ERR, status_of(0), "that is a timeout");
	CHECK_EQ(1, mt_wire_count(1, 0), "it is not sent again");
	mt_forget(&client);
}

void mt_test_queues(void)
{
	if (mt_open(&client, &MT_SEND_ONLY(1)))
		return CHECK(false, "an agent is registered");
	MT_CASE(test_chains());
	MT_CASE(test_chain_rmpp());
	MT_CASE(test_no_handler());
	mt_close(&client);
	if (mt_open(&client, &MT_SEND_ONLY(1)))
		return;
	MT_CASE(test_overflow());
	MT_CASE(test_overflow_refused());
	MT_CASE(test_overflow_cancelled());
	MT_CASE(test_limits());
	MT_CASE(test_backlog());
	MT_CASE(test_backlog_timeouts());
	if (mt_strict)
		MT_CASE(test_backlog_chain());
	MT_CASE(test_errors());
	MT_CASE(test_failed_request());
	mt_close(&client);
}
