// SPDX-License-Identifier: GPL-2.0
/*
 * User MADs of many segments (RMPP, IBTA volume 1, 13.6): sent and put together by the kernel, and segment by segment against a
 * program that does its own, as a well-behaved peer and as others.
 *
 *   umad_rmpp DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX [GID_INDEX PEER_GID_INDEX]
 *
 * The other GIDs belong to another IP version. Without them only some whole messages are sent, for a network that loses packets.
 */
#define _GNU_SOURCE
#include "umad.h"

#define LONGEST (300 * 216)
#define SEGMENT (MAD - VENDOR_HEADER)
#define FRESH 1000
#define ACK_2_SECONDS 2500	/* a time-out for the answer that leaves 2 s to an ACK */
#define ACK_MS 2000
#define WINDOW 64		/* the receive queue's 512 by 8 */
enum { BAD_SEGMENT = 120, BAD_TYPE, WINDOW_TOO_SMALL, SEGMENT_TOO_BIG, BAD_STATUS, BAD_VERSION };

/* Agents of the same class differ by its version. */
enum { V_SERVER = 1, V_CLIENT, V_RAW, V_RAW_SERVER, V_CLASSES };

static struct node client, server;
static int asks, serves, raw, raw_serves;	/* the raw ones see segments */
static char out[HEADER + MAD + LONGEST], in[HEADER + MAD + LONGEST];

static size_t header_of(uint8_t class) { return class == SUBN_ADM ? SA_HEADER : class == DEVICE_MGMT ? DEVICE_HEADER : VENDOR_HEADER; }

static uint8_t content(uint32_t tid, size_t at) { return tid * 5 + at * 3 + (at >> 8); }

/* A whole message from an agent. */
static int send_long(const struct node *from, const struct node *to, const struct message *head, size_t size)
{
	size_t header = header_of(head->mad.mgmt_class);
	char *data = out + HEADER + header;

	memset(out, 0, HEADER + header);
	memcpy(out, head, HEADER + VENDOR_HEADER);
	((struct message *)out)->mad.rmpp_flags = RMPP_ACTIVE;
	((struct message *)out)->mad.rmpp_version = 1;
	(void)to;
	for (size_t at = 0; at < size; at++)
		data[at] = content(low(&head->mad), at);
	return put(from->fd, out, HEADER + header + size);
}

static bool right_content(uint8_t class, uint32_t tid, size_t size)
{
	const char *data = in + HEADER + header_of(class);

	for (size_t at = 0; at < size; at++)
		if (data[at] != (char)content(tid, at))
			return false;
	return true;
}

/* The next whole message of a file, which has so many bytes of data. */
static const char *whole(int fd, uint8_t class, uint32_t tid, size_t size, int ms)
{
	struct message *got = (void *)in;
	int length = take(fd, in, sizeof(in), paced(ms)), wanted = HEADER + header_of(class) + size;
	static char why[80];

	if (length != wanted) {
		snprintf(why, sizeof(why), "wanted %d bytes, got %d", wanted, length);
		return why;
	}
	if (got->hdr.status || got->hdr.length != (uint32_t)wanted || low(&got->mad) != tid || got->mad.mgmt_class != class)
		return "the header differs";
	return right_content(class, tid, size) ? NULL : "the content differs";
}

static struct message head(int agent, uint8_t class, uint8_t version, uint8_t method, uint32_t tid, uint32_t timeout)
{
	struct message head = message(agent, &client, &server, method, tid);

	head.mad.mgmt_class = class;
	head.mad.class_version = version;
	head.hdr.timeout_ms = timeout;
	head.hdr.retries = 10;
	return head;
}

/* An answer of so many bytes to what is in `in`. */
static int answer_long(int agent, size_t size)
{
	struct message back = *(struct message *)in;

	answer_to(&back, agent);
	back.hdr.timeout_ms = 0;
	back.hdr.retries = 10;
	return send_long(&server, &client, &back, size);
}

static void there_and_back(const char *name, int from, int to, uint8_t class, uint8_t version, size_t size)
{
	static uint32_t tid = 1;
	struct message request = head(from, class, version, GET, ++tid, paced(50000));
	const char *why = "it is not taken";

	if (!send_long(&client, &server, &request, size))
		why = whole(server.fd, class, tid, size, 25000);
	if (!why) {
		why = "the answer is not taken";
		if (!answer_long(to, size))
			why = whole(client.fd, class, tid, size, 25000);
	}
	is(name, !why, why);
	drain(client.fd);
	drain(server.fd);
}

static void sizes(void)
{
	static const size_t table[] = { 0, 1, 215, 216, 217, 432, 433, 10240, WINDOW * SEGMENT, (WINDOW + 1) * SEGMENT, (WINDOW + 1) * SEGMENT + 1,
					LONGEST };
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		snprintf(name, sizeof(name), "%zu bytes there and back", table[i]);
		there_and_back(name, asks, serves, VENDOR, V_SERVER, table[i]);
	}
}

/* Classes whose headers are longer. */
static void classes(void)
{
	static const uint8_t table[] = { SUBN_ADM, DEVICE_MGMT };
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		int from = agent(client.fd, (struct wish){ .mgmt_class = table[i], .version = V_CLASSES + 1, .rmpp = 1 });
		int to = agent(server.fd, (struct wish){ .mgmt_class = table[i], .version = V_CLASSES, .rmpp = 1, .methods = { METHOD(GET) } });

		for (size_t size = 199; size <= 10240; size += 5000) {
			snprintf(name, sizeof(name), "class 0x%02x, %zu bytes", table[i], size);
			there_and_back(name, from, to, table[i], V_CLASSES, size);
		}
		agent_gone(client.fd, from);
		agent_gone(server.fd, to);
	}
}

/* A message that does not fit tells its length, and waits. */
static void short_reads(void)
{
	struct message request = head(asks, VENDOR, V_SERVER, GET, 500, 0), *got = (void *)in;
	const int length = HEADER + VENDOR_HEADER + 10240;

	send_long(&client, &server, &request, 10240);
	readable(server.fd, paced(5000));
	memset(in, 0, WHOLE);
	equal("a read of one segment", -ENOSPC, take(server.fd, in, WHOLE, 0));
	equal("tells the length", length, got->hdr.length);
	is("and has the segment", low(&got->mad) == 500 && right_content(VENDOR, 500, SEGMENT), "it differs");
	equal("a read of less", -EINVAL, take(server.fd, in, WHOLE - 1, 0));
	equal("a read of one byte less than all", -ENOSPC, take(server.fd, in, length - 1, 0));
	is("a read of all", !whole(server.fd, VENDOR, 500, 10240, 0), "it differs");
	is("there is no more", silent(server.fd), "something");
}

static void mixed(void)
{
	struct message request = head(asks, VENDOR, V_SERVER, GET_TABLE, 510, paced(3000)), got;

	put_message(client.fd, &request);
	is("a request of one MAD", take(server.fd, in, sizeof(in), paced(2000)) == WHOLE, "nothing comes");
	answer_long(serves, 10240);
	equal("has a long answer, which does not fit", -ENOSPC, take(client.fd, in, WHOLE, paced(5000)));
	is("and then fits", !whole(client.fd, VENDOR, 510, 10240, 5000), "it differs");
	request.mad.tid = htobe64(511);
	send_long(&client, &server, &request, 10240);
	is("a long request", !whole(server.fd, VENDOR, 511, 10240, 5000), "it differs");
	got = *(struct message *)in;
	answer_to(&got, serves);
	got.mad.rmpp_flags = 0;
	put_message(server.fd, &got);
	is("has an answer of one MAD", take_message(client.fd, &got, paced(3000)) == WHOLE && low(&got.mad) == 511 && !got.hdr.status, "nothing comes");
}

static bool times_out(int fd, uint32_t tid)
{
	struct message got;

	return take_message(fd, &got, paced(8000)) == HEADER + MAD_HEADER && got.hdr.status == ETIMEDOUT && low(&got.mad) == tid;
}

static void refused(void)
{
	struct message request = head(asks, VENDOR, V_SERVER, GET, 520, 100);
	long began;

	memcpy(out, &request, WHOLE);
	equal("257 bytes without RMPP", -EINVAL, put(client.fd, out, WHOLE + 1));
	request.mad.mgmt_class = VENDOR_OLD;
	equal("a class without RMPP, from an agent with it", -EINVAL, put_message(client.fd, &request));
	request.mad.mgmt_class = VENDOR;
	inet_pton(AF_INET6, "fd00::99", request.hdr.gid);
	request.hdr.retries = 2;
	began = now_ms();
	equal("10 KiB to a dead peer", 0, send_long(&client, &server, &request, 10240));
	equal("the same TID meanwhile", -EINVAL, send_long(&client, &server, &request, 10240));
	is("time out", times_out(client.fd, 520), "no time-out");
	is("after all retries", now_ms() - began >= 250, "too early");
	request = message(serves, &server, &client, GET_RESPONSE, 0);
	request.mad.tid = htobe64(0x7654321000000209ull);
	request.hdr.timeout_ms = 200;
	send_long(&server, &client, &request, 10240);
	is("nobody takes a long answer without a request", times_out(server.fd, 0x209), "no time-out");
	is("nor tells of it", silent(client.fd), "something");
}

/* Many messages without answers that are under way at once, of the same agent; how many come whole. */
static int at_once(uint32_t count, size_t size)
{
	static bool seen[200];
	struct message request, *got = (void *)in;
	int good = 0;

	/* A receiver remembers the TIDs of messages for a while. */
	for (uint32_t tid = FRESH; tid < FRESH + count; tid++) {
		request = head(asks, VENDOR, V_SERVER, GET, tid, 0);
		request.hdr.retries = 50;
		if (send_long(&client, &server, &request, size))
			return -1;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (take(server.fd, in, sizeof(in), paced(25000)) != (int)(HEADER + VENDOR_HEADER + size))
			break;
		good += !seen[low(&got->mad) % count] && right_content(VENDOR, low(&got->mad), size);
		seen[low(&got->mad) % count] = true;
	}
	poll(NULL, 0, paced(300));
	return good;
}

/* One segment of the raw agent. */
static struct message segment(uint32_t tid, uint32_t number, uint8_t flags, uint32_t length)
{
	struct message message = head(raw, VENDOR, V_SERVER, SET, tid, 0);

	message.hdr.retries = 0;
	message.mad.rmpp_version = 1;
	message.mad.rmpp_type = RMPP_DATA;
	message.mad.rmpp_flags = RMPP_ACTIVE | flags;
	message.mad.segment = htonl(number);
	message.mad.length = htonl(length);
	for (size_t at = 0; at < SEGMENT; at++)
		message.mad.data[at] = content(tid, (number - 1) * SEGMENT + at);
	return message;
}

static void give(uint32_t tid, uint32_t number, uint8_t flags, uint32_t length)
{
	struct message message = segment(tid, number, flags, length);

	put_message(client.fd, &message);
}

/* What comes back to the raw agent: a type and, for an ACK, segment and window, else the status. */
static bool back(uint8_t type, uint32_t tid, uint32_t number, uint32_t window)
{
	struct message got;

	if (take_message(client.fd, &got, paced(2000)) != WHOLE || got.hdr.id != (uint32_t)raw || low(&got.mad) != tid || got.mad.rmpp_type != type ||
	    !(got.mad.rmpp_flags & RMPP_ACTIVE) || !(got.mad.method & RESPONSE))
		return false;
	if (type == RMPP_ACK)
		return ntohl(got.mad.segment) == number && ntohl(got.mad.length) == window;
	return got.mad.rmpp_status == number;
}

static bool acked(uint32_t tid, uint32_t number, uint32_t window) { return back(RMPP_ACK, tid, number, window); }
static bool aborted(uint32_t tid, uint8_t status) { return back(RMPP_ABORT, tid, status, 0); }

/* Three segments; the last has 100 bytes of data. */
static bool three_come(uint32_t tid) { return !whole(server.fd, VENDOR, tid, 2 * SEGMENT + 100, 2000); }
static void last_of_three(uint32_t tid) { give(tid, 3, RMPP_LAST, 104); }

static void receiver(void)
{
	give(600, 1, RMPP_FIRST, 3 * 220);
	is("the first segment is acknowledged, with a window", acked(600, 1, 1 + WINDOW), "another answer");
	give(600, 2, 0, 0);
	is("the second is not", silent(client.fd), "something");
	is("nothing is received yet", silent(server.fd), "something");
	last_of_three(600);
	is("the last is", acked(600, 3, 1 + WINDOW), "another answer");
	is("the message is whole", three_come(600), "it differs");
	last_of_three(600);
	is("the last again is acknowledged again", acked(600, 3, 1 + WINDOW), "another answer");
	is("but not received again", silent(server.fd), "something");
	give(601, 1, RMPP_FIRST, 0);
	acked(601, 1, 1 + WINDOW);
	give(601, 1, RMPP_FIRST, 0);
	is("the first again is acknowledged again", acked(601, 1, 1 + WINDOW), "another answer");
	give(601, 2 + WINDOW, 0, 0);
	is("a segment beyond the window is dropped", silent(client.fd), "something");
	last_of_three(601);
	is("out of order: it waits", silent(server.fd), "something");
	last_of_three(601);
	give(601, 2, 0, 0);
	is("and is whole", acked(601, 3, 1 + WINDOW) && three_come(601), "it is not");
	give(602, 1, RMPP_FIRST | RMPP_LAST, 4 + 33);
	is("a message of one segment", acked(602, 1, 1) && !whole(server.fd, VENDOR, 602, 33, 2000), "it differs");
}

static void hostile_sender(void)
{
	struct message bad;

	give(610, 1, 0, 0);
	is("the first without its flag: ABORT", aborted(610, BAD_SEGMENT), "none");
	give(611, 2, RMPP_FIRST, 0);
	is("another with the flag: ABORT", aborted(611, BAD_SEGMENT), "none");
	bad = segment(612, 1, RMPP_FIRST, 0);
	bad.mad.rmpp_version = 2;
	put_message(client.fd, &bad);
	is("another version: ABORT", aborted(612, BAD_VERSION), "none");
	bad = segment(613, 1, RMPP_FIRST, 0);
	bad.mad.rmpp_type = 9;
	put_message(client.fd, &bad);
	is("an unknown type: ABORT", aborted(613, BAD_TYPE), "none");
	bad = segment(614, 1, RMPP_FIRST, 0);
	bad.mad.rmpp_status = 5;
	put_message(client.fd, &bad);
	is("data with a status: ABORT", aborted(614, BAD_STATUS), "none");
	give(615, 0, 0, 0);
	give(616, 7, RMPP_LAST, 0);
	give(617, 0xffffffff, RMPP_LAST, 0);
	is("segments of nothing are dropped", silent(server.fd), "something");
	drain(client.fd);
	give(618, 1, RMPP_FIRST, 0);
	is("and the next message is taken", acked(618, 1, 1 + WINDOW), "it is not");
	give(618, 2, 0, 0);
	last_of_three(618);
	is("whole", acked(618, 3, 1 + WINDOW) && three_come(618), "it is not");
}

/* A message of ten segments from the kernel to the raw server, which sees segments. */
static void begin_ten(uint32_t tid, uint32_t timeout)
{
	struct message request = head(asks, VENDOR, V_RAW_SERVER, GET, tid, timeout);

	send_long(&client, &server, &request, 9 * SEGMENT + 50);
}

/* Takes a segment of a transaction; 0 if something else comes, or nothing. */
static uint32_t take_segment(uint32_t tid, struct message *got, int ms)
{
	bool is_one = take_message(server.fd, got, ms) == WHOLE && got->hdr.id == (uint32_t)raw_serves && low(&got->mad) == tid &&
		      got->mad.rmpp_type == RMPP_DATA;

	return is_one ? ntohl(got->mad.segment) : 0;
}

/* A segment comes. Earlier ones may come again before, for the machine may be slower than their time-out. */
static bool comes(uint32_t tid, uint32_t number, uint8_t flags, struct message *got)
{
	uint32_t segment;

	do {
		segment = take_segment(tid, got, paced(2000));
	} while (segment && segment < number);
	return segment == number && (got->mad.rmpp_flags & 7) == (RMPP_ACTIVE | flags);
}

/* Each of some segments comes once more within some time, in any order. */
static bool repeated(uint32_t tid, uint32_t from, uint32_t to, int ms)
{
	long until = now_ms() + ms;
	uint32_t missing = (1u << (to + 1)) - (1u << from);
	struct message got;

	while (missing && now_ms() < until) {
		uint32_t segment = take_segment(tid, &got, until - now_ms());

		if (segment < from || segment > to)
			return false;
		missing &= ~(1u << segment);
	}
	return !missing;
}

static void control(const struct message *segment, uint8_t type, uint8_t status, uint32_t number, uint32_t window)
{
	struct message message = *segment;

	answer_to(&message, raw_serves);
	message.mad.rmpp_type = type;
	message.mad.rmpp_status = status;
	message.mad.rmpp_flags = RMPP_ACTIVE;
	message.mad.segment = htonl(number);
	message.mad.length = htonl(window);
	put_message(server.fd, &message);
}

/* An ACK, and what comes after it. It is said again as a receiver does, for it or what it brings may be lost. */
static bool acknowledged(const struct message *segment, uint32_t number, uint32_t window, uint8_t type, uint32_t next, struct message *got)
{
	for (int tries = 0; tries < 5; tries++) {
		control(segment, RMPP_ACK, 0, number, window);
		while (take_message(server.fd, got, paced(1500)) == WHOLE && low(&got->mad) == low(&segment->mad))
			if (got->mad.rmpp_type == type && ntohl(got->mad.segment) == next)
				return true;
			else if (got->mad.rmpp_type != RMPP_DATA || ntohl(got->mad.segment) > number)
				break;
	}
	return false;
}

/* All of some segments come, in any order: one that was lost comes again later. `got` is the last of them. */
static bool run_of(uint32_t tid, uint32_t from, uint32_t to, struct message *got)
{
	uint32_t missing = (1u << (to + 1)) - (1u << from);
	struct message segment;

	while (missing) {
		uint32_t number = take_segment(tid, &segment, paced(3000));

		if (!number || number > to)
			return false;
		if (number < from)
			continue;
		if ((segment.mad.rmpp_flags & 7) != (RMPP_ACTIVE | (number == 10 ? RMPP_LAST : 0)))
			return false;
		missing &= ~(1u << number);
		if (number == to)
			*got = segment;
	}
	return true;
}

/* Stock takes the time at which an ACK is due for the time from then on, where the request's own time-out is 2 s or less. */
static void quick_sender(void)
{
	struct message got, segment;

	begin_ten(701, 1000);
	comes(701, 1, RMPP_FIRST, &segment);
	control(&segment, RMPP_ACK, 0, 1, 4);
	run_of(701, 2, 4, &got);
	is_not_on_stock("ib_core", "what is not acknowledged comes again in the time that was asked for", repeated(701, 2, 4, paced(6000)),
			"it does not");
	control(&segment, RMPP_ABORT, 118, 0, 0);
	drain(server.fd);
}

/* Whether no segment comes; those to the last one that was sent may come again when the time of their ACK is over. */
static bool nothing_new(uint32_t tid, uint32_t last, long sent_ms)
{
	struct message got;

	while (readable(server.fd, paced(200))) {
		uint32_t segment = take_segment(tid, &got, 0);

		if (!segment || segment > last || now_ms() - sent_ms < ACK_MS)
			return false;
	}
	return true;
}

static void sender(void)
{
	struct message got, segment;
	long sent_ms;

	begin_ten(700, ACK_2_SECONDS);
	is("one segment is sent first", comes(700, 1, RMPP_FIRST, &segment), "another");
	equal("which tells the length of all", 9 * 220 + 50 + 4, ntohl(segment.mad.length));
	is("and no more", silent(server.fd), "more");
	sent_ms = now_ms();
	is("then what the window allows", acknowledged(&segment, 1, 4, RMPP_DATA, 2, &got) && run_of(700, 3, 4, &got), "others");
	is("and no more", nothing_new(700, 4, sent_ms), "more");
	control(&segment, RMPP_ACK, 0, 1, 4);
	is("an old ACK moves nothing", nothing_new(700, 4, sent_ms), "more");
	readable(server.fd, paced(4000));
	is("what is not acknowledged comes again", run_of(700, 2, 4, &got), "others");
	drain(server.fd);
	is("then the rest", acknowledged(&segment, 4, 100, RMPP_DATA, 5, &got) && run_of(700, 6, 10, &got), "others");
	equal("the last tells its length", 54, ntohl(got.mad.length));
	is("the direction is turned by an ACK of nothing",
	   acknowledged(&segment, 10, 100, RMPP_ACK, 0, &got) && ntohl(got.mad.length) == 1, "another");
	answer_to(&segment, raw_serves);
	segment.mad.rmpp_flags = 0;
	put_message(server.fd, &segment);
	is("the answer comes", take_message(client.fd, &got, paced(3000)) == WHOLE && low(&got.mad) == 700 && !got.hdr.status, "nothing");
	is("and nothing after it", silent(server.fd), "something");
}

/* The kernel's answer to what a receiver should not say; the message ends with it. */
static void hostile_receiver(uint32_t tid, const char *name, uint8_t type, uint8_t status, uint32_t number, uint32_t window, uint8_t wanted)
{
	struct message got, segment;
	char what[100];

	drain(server.fd);
	begin_ten(tid, paced(400));
	if (!comes(tid, 1, RMPP_FIRST, &segment)) {
		is(name, false, "no segment comes");
		return;
	}
	control(&segment, type, status, number, window);
	if (wanted) {
		bool good = take_message(server.fd, &got, paced(2000)) == WHOLE && got.mad.rmpp_type == RMPP_ABORT && got.mad.rmpp_status == wanted &&
			    low(&got.mad) == tid;

		is(name, good, "no such ABORT");
	}
	poll(NULL, 0, paced(600));
	snprintf(what, sizeof(what), "%s: no more is sent", name);
	is(what, silent(server.fd) && silent(client.fd), "something comes");
}

static void hostile_receivers(void)
{
	struct message request = head(asks, VENDOR, V_RAW_SERVER, GET, 715, 0), got;

	hostile_receiver(710, "ACK of what was not sent", RMPP_ACK, 0, 9, 20, SEGMENT_TOO_BIG);
	hostile_receiver(711, "ACK of more than there is", RMPP_ACK, 0, 1000, 2000, SEGMENT_TOO_BIG);
	hostile_receiver(712, "ACK of a segment above all", RMPP_ACK, 0, 0x7fffffff, 0x7fffffff, SEGMENT_TOO_BIG);
	hostile_receiver(713, "a window before the segment", RMPP_ACK, 0, 1, 0, WINDOW_TOO_SMALL);
	hostile_receiver(714, "ACK with a status", RMPP_ACK, 3, 1, 4, BAD_STATUS);
	hostile_receiver(715, "STOP", RMPP_STOP, 1, 0, 0, 0);
	hostile_receiver(716, "STOP with another status", RMPP_STOP, 9, 0, 0, BAD_STATUS);
	hostile_receiver(717, "ABORT", RMPP_ABORT, 118, 0, 0, 0);
	hostile_receiver(718, "ABORT with another status", RMPP_ABORT, 9, 0, 0, BAD_STATUS);
	equal("its TID is free then", 0, put_message(client.fd, &request));
	is("and used", take_message(server.fd, &got, paced(2000)) == WHOLE && low(&got.mad) == 715, "nothing");
}

/* The segments of two senders do not belong together, whatever their TIDs are. */
static void two_senders(const struct node *client_other, const struct node *server_other)
{
	struct message second = segment(800, 2, 0, 0), last = segment(800, 3, RMPP_LAST, 104);

	second.hdr.gid_index = last.hdr.gid_index = client_other->gid_index;
	memcpy(second.hdr.gid, server_other->gid.raw, 16);
	memcpy(last.hdr.gid, server_other->gid.raw, 16);
	give(800, 1, RMPP_FIRST, 3 * 220);
	acked(800, 1, 1 + WINDOW);
	put_message(client.fd, &second);
	put_message(client.fd, &last);
	is_not_on_stock("ib_core", "segments of another sender are not put into a message", silent(server.fd), "they were");
	drain(client.fd);
	drain(server.fd);
}

/* What comes to one device is not for the agents of another one. */
static void two_devices(void)
{
	struct message got = {}, forged;

	if (!strcmp(client.device, server.device))
		return;
	give(810, 1, RMPP_FIRST | RMPP_LAST, 10);
	is("a message tells the upper half of a TID", !whole(server.fd, VENDOR, 810, 6, 2000), "it differs");
	got = *(struct message *)in;
	drain(client.fd);
	/* From the device of the raw agent to the other one, an answer with the raw agent's upper half of the TID. */
	forged = segment(811, 1, RMPP_FIRST | RMPP_LAST, 10);
	forged.mad.method = GET_RESPONSE;
	forged.mad.tid = htobe64((uint64_t)high(&got.mad) << 32 | 811);
	forged.hdr.id = raw;
	put_message(client.fd, &forged);
	is("an answer to another device does not come to an agent", silent(client.fd), "it does");
	drain(client.fd);
}

int main(int argc, char **argv)
{
	struct node client_other, server_other;

	if (argc < 5)
		die("usage: DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX [GID_INDEX PEER_GID_INDEX]");
	node_open(&client, argv[1], argv[2]);
	node_open(&server, argv[3], argv[4]);
	serves = agent(server.fd, (struct wish){ .rmpp = 1, .methods = { METHOD(GET) | METHOD(SET) | METHOD(GET_TABLE) } });
	asks = agent(client.fd, (struct wish){ .version = V_CLIENT, .rmpp = 1 });
	if (argc < 7) {
		equal("20 messages of 40 segments at once", 20, at_once(20, 40 * SEGMENT));
		drain(client.fd);
		there_and_back("10 KiB there and back", asks, serves, VENDOR, V_SERVER, 10240);
		return all_done();
	}
	raw = agent(client.fd, (struct wish){ .version = V_RAW, .rmpp = 1, .flags = IB_USER_MAD_USER_RMPP });
	raw_serves = agent(server.fd, (struct wish){ .version = V_RAW_SERVER, .rmpp = 1, .flags = IB_USER_MAD_USER_RMPP, .methods = { METHOD(GET) } });
	node_open(&client_other, argv[1], argv[5]);
	node_open(&server_other, argv[3], argv[6]);
	sizes();
	classes();
	short_reads();
	mixed();
	refused();
	equal("200 messages of 5 segments at once", 200, at_once(200, 5 * SEGMENT));
	drain(client.fd);
	receiver();
	hostile_sender();
	sender();
	quick_sender();
	hostile_receivers();
	two_senders(&client_other, &server_other);
	two_devices();
	return all_done();
}
