// SPDX-License-Identifier: GPL-2.0
/*
 * Single user MADs between two devices, or from a device to itself: requests and answers, transaction IDs, time-outs and
 * retries, what is answered without an agent and what is dropped, reading and waiting, both layouts of a file.
 *
 *   umad_send DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX
 *
 * fd00::99 must have a neighbour entry and not exist, fd00::98 must have none. With IPv4 only what the stock core can do.
 */
#define _GNU_SOURCE
#include "umad.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/select.h>

/* The client's agent receives only answers, the server's is for requests. */
static struct node client, server;
static int asks, serves;

static int ask(uint8_t method, uint32_t tid, uint32_t timeout, uint32_t retries)
{
	struct message request = message(asks, &client, &server, method, tid);

	request.hdr.timeout_ms = timeout;
	request.hdr.retries = retries;
	return put_message(client.fd, &request);
}

/* The server's next message. */
static bool served(struct message *got) { return take_message(server.fd, got, paced(2000)) == WHOLE; }

/* The server's message with a TID, behind others that are late. */
static bool served_at_last(struct message *got, uint32_t tid)
{
	while (served(got))
		if (low(&got->mad) == tid)
			return true;
	return false;
}

/* The client's next message, which is an answer. */
static bool answered(struct message *got, uint32_t tid)
{
	return take_message(client.fd, got, paced(2000)) == WHOLE && got->hdr.status == 0 && low(&got->mad) == tid;
}

static bool timed_out(struct message *got, uint32_t tid, int ms)
{
	int size = take_message(client.fd, got, paced(ms));

	return size == HEADER + MAD_HEADER && got->hdr.status == ETIMEDOUT && low(&got->mad) == tid;
}

static void reply(struct message *got)
{
	answer_to(got, serves);
	put_message(server.fd, got);
}

static void calm(void)
{
	drain(client.fd);
	drain(server.fd);
}

static void received_header(const struct message *got)
{
	equal("status", 0, got->hdr.status);
	equal("length", WHOLE, got->hdr.length);
	equal("QP of the sender", 1, ntohl(got->hdr.qpn));
	is("LID, SL and path bits", !got->hdr.lid && !got->hdr.sl && !got->hdr.path_bits, "not 0");
	equal("P_Key index", 0, got->hdr.pkey_index);
	equal("GRH", 1, got->hdr.grh_present);
	is("GID of the sender", !memcmp(got->hdr.gid, client.gid.raw, 16), "another");
	equal("index of the own GID", server.gid_index, got->hdr.gid_index);
	is("hop limit", got->hdr.hop_limit > 1, "too small");
}

static void request_arrives(struct message *got)
{
	equal("a request is taken", 0, ask(GET, 1, 5000, 0));
	is("it arrives", served(got), "nothing comes");
	is("whole", got->hdr.id == (uint32_t)serves && got->mad.method == GET && got->mad.oui == htonl(OUI) && low(&got->mad) == 1, "it differs");
	received_header(got);
}

/* The stock core takes a part of the IPv4 header for the GID that an answer went to, so that none ever does. */
static void four(void)
{
	struct message got = {};

	request_arrives(&got);
	answer_to(&got, serves);
	equal("the answer is taken", 0, put_message(server.fd, &got));
	is_not_on_stock("ib_core", "an answer arrives over IPv4", answered(&got, 1), "nothing comes");
	calm();
	ask(GET, 2, 100, 1);
	drain(client.fd);
	is("without an answer a request times out", timed_out(&got, 2, 10000) || timed_out(&got, 2, 10000), "no time-out");
}

static void echo(void)
{
	struct message got = {}, sent;
	uint32_t upper;

	request_arrives(&got);
	upper = high(&got.mad);
	answer_to(&got, serves);
	got.mad.data[5] = 99;
	sent = got;
	equal("the answer is taken", 0, put_message(server.fd, &got));
	is("and arrives", answered(&got, 1), "nothing comes");
	is("whole", got.hdr.id == (uint32_t)asks && got.mad.data[5] == 99 && got.mad.method == GET_RESPONSE && high(&got.mad) == upper, "it differs");
	put_message(server.fd, &sent);
	is("a second answer is dropped", silent(client.fd), "it came");
	ask(SET, 2, 0, 0);
	is("another method", served(&got) && got.mad.method == SET && high(&got.mad) == upper, "wrong");
	calm();
}

/* The upper half of a TID belongs to the agent, whatever the program writes. */
static void transaction_ids(void)
{
	int other = agent(client.fd, (struct wish){ .send_only = true });
	struct message request = message(asks, &client, &server, GET, 0), got = {};
	uint32_t upper;

	request.mad.tid = htobe64(0xdeadbeef00000010ull);
	put_message(client.fd, &request);
	is("the lower half of a TID is kept", served(&got) && low(&got.mad) == 0x10, "lost");
	upper = high(&got.mad);
	is("the upper half is overwritten", upper != 0xdeadbeef, "kept");
	request.hdr.id = other;
	put_message(client.fd, &request);
	is("and is another agent's own", served(&got) && high(&got.mad) != upper, "the same");
	request.hdr.timeout_ms = 3000;
	put_message(client.fd, &request);
	served(&got);
	reply(&got);
	is("an answer comes to the agent that asked", answered(&got, 0x10) && got.hdr.id == (uint32_t)other, "elsewhere");
	agent_gone(client.fd, other);
	request.hdr.id = asks;
	request.hdr.timeout_ms = 0;
	request.mad.method = GET_RESPONSE;
	request.mad.tid = htobe64(0x1234567800000001ull);
	equal("an answer that nobody waits for is taken", 0, put_message(client.fd, &request));
	is("and dropped", silent(server.fd), "it came");
	calm();
}

/* A request waits for its answer, and for no other. */
static void wrong_answers(void)
{
	struct message right, wrong, got;

	ask(GET, 20, 10000, 0);
	served(&right);
	answer_to(&right, serves);
	wrong = right;
	wrong.mad.tid = htobe64(be64toh(right.mad.tid) + 1);
	put_message(server.fd, &wrong);
	wrong = right;
	wrong.mad.tid ^= htobe64(1ull << 40);
	put_message(server.fd, &wrong);
	is("an answer with another TID is dropped", silent(client.fd), "it came");
	wrong = right;
	wrong.mad.mgmt_class = VENDOR + 1;
	put_message(server.fd, &wrong);
	is("an answer of another class is dropped", silent(client.fd), "it came");
	wrong = right;
	wrong.mad.method = TRAP_REPRESS;
	right.mad.status = htons(0x1c);
	put_message(server.fd, &right);
	is("the right one comes still, with its status", answered(&got, 20) && got.mad.status == htons(0x1c), "nothing");
	ask(TRAP, 21, 10000, 0);
	is("nobody has the method of this one", silent(server.fd), "it came");
	wrong.mad.tid = htobe64((uint64_t)high(&wrong.mad) << 32 | 21);
	put_message(server.fd, &wrong);
	is("TRAP REPRESS is an answer", answered(&got, 21) && got.mad.method == TRAP_REPRESS, "nothing");
	calm();
}

static void time_outs(void)
{
	struct message got = {};
	long began = now_ms(), took;
	char buffer[HEADER + MAD_HEADER];

	ask(GET, 30, 200, 2);
	is("without an answer a request times out", timed_out(&got, 30, 5000), "no time-out");
	took = now_ms() - began;
	is("after all retries, not earlier", took >= 550, "too early");
	is("and not much later", took < paced(3000), "too late");
	is("at the agent that asked", got.hdr.id == (uint32_t)asks && got.mad.method == GET && high(&got.mad), "elsewhere");
	equal("the request was sent so often", 3, drain(server.fd));
	ask(GET, 31, 100, 0);
	is("no retries", timed_out(&got, 31, 3000), "no time-out");
	equal("it was sent once", 1, drain(server.fd));
	ask(GET, 32, 0, 5);
	is("without a time-out nothing is told", silent(client.fd), "something");
	equal("and nothing repeated", 1, drain(server.fd));
	ask(GET, 33, 50, 0);
	readable(client.fd, paced(2000));
	equal("a time-out has no room", -EINVAL, take(client.fd, buffer, sizeof(buffer) - 1, 0));
	equal("and waits", sizeof(buffer), take(client.fd, buffer, sizeof(buffer), 0));
	calm();
	ask(GET, 34, 100, 0);
	served(&got);
	answer_to(&got, serves);
	readable(client.fd, paced(2000));
	put_message(server.fd, &got);
	is("what was late", timed_out(&got, 34, 1000), "no time-out");
	is("is dropped", silent(client.fd), "it came");
	calm();
}

static void retried(void)
{
	struct message got = {}, second = {};

	ask(GET, 36, paced(300), 3);
	is("a retry is the same request", served(&got) && served(&second) && got.mad.tid == second.mad.tid, "another");
	reply(&second);
	is("its answer is taken", answered(&got, 36), "nothing comes");
	drain(server.fd);
	poll(NULL, 0, paced(400));
	is("and ends the retries", silent(server.fd) && silent(client.fd), "another");
	calm();
}

/* The first to end is the first to be told. */
static void order(void)
{
	static const uint32_t times[] = { 900, 300, 600, 1200 }, wanted[] = { 41, 42, 40, 43 };
	struct message got;
	bool good = true;

	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		ask(GET, 40 + i, paced(times[i]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		good = timed_out(&got, wanted[i], 4000) && good;
	is("time-outs come in their order", good, "another order");
	ask(GET, 44, 60000, 0);
	ask(GET, 45, 100, 0);
	is("a short one behind a long one", timed_out(&got, 45, 3000), "it waits");
	equal("the longest one", 0, ask(GET, 46, 0x7fffffff, 10));
	ask(GET, 47, 100, 0);
	is("and a short one again", timed_out(&got, 47, 3000), "it waits");
	calm();
}

/* The answer is read before the request is quite done. */
static int ask_at_last(uint32_t tid)
{
	int error = -EINVAL;

	for (int i = 0; i < 100 && error == -EINVAL; i++) {
		error = ask(GET, tid, 0, 0);
		poll(NULL, 0, error ? 20 : 0);
	}
	return error;
}

static void duplicates(void)
{
	struct message request, got;

	equal("a request", 0, ask(GET, 50, 10000, 0));
	equal("the same TID meanwhile", -EINVAL, ask(GET, 50, 10000, 0));
	equal("and with another method", -EINVAL, ask(SET, 50, 10000, 0));
	request = message(asks, &client, &server, SEND, 50);
	request.mad.mgmt_class = VENDOR + 1;
	equal("another class has its own", 0, put_message(client.fd, &request));
	served(&got);
	is("it was sent once", silent(server.fd), "twice");
	reply(&got);
	is("the answer", answered(&got, 50), "nothing comes");
	equal("then the TID is free", 0, ask_at_last(50));
	ask(GET, 51, 50, 0);
	is("a time-out", timed_out(&got, 51, 3000), "nothing comes");
	equal("frees it too", 0, ask_at_last(51));
	calm();
}

/* What a device answers to a request; 0 for nothing. */
static uint16_t status_of(uint8_t class, uint8_t version, uint8_t method, uint16_t attribute, uint8_t base)
{
	static uint32_t tid = 1000;
	struct message request = message(asks, &client, &server, method, ++tid), got;

	request.mad.base_version = base;
	request.mad.mgmt_class = class;
	request.mad.class_version = version;
	request.mad.attribute = htons(attribute);
	request.mad.data[100] = 0x77;
	request.hdr.timeout_ms = paced(300);
	put_message(client.fd, &request);
	if (take_message(client.fd, &got, paced(3000)) != WHOLE || got.hdr.status)
		return 0;
	if (got.mad.method != GET_RESPONSE || got.mad.tid == 0 || low(&got.mad) != tid || got.mad.data[100] != 0x77 ||
	    got.mad.attribute != htons(attribute))
		return 0xffff;
	return ntohs(got.mad.status);
}

/* No agent takes these. */
static void unmatched(void)
{
	static const struct { const char *name; uint8_t class, version, method; uint16_t attribute; uint8_t base; uint16_t status; } table[] = {
		{ "GET of an unknown class", 0x0a, 1, GET, 1, 1, UNSUPPORTED },
		{ "SET of an unknown class", 0x0a, 1, SET, 1, 1, UNSUPPORTED },
		{ "GET of a vendor's class", VENDOR + 2, 1, GET, 1, 1, UNSUPPORTED },
		{ "GET of a class above all", 0x60, 1, GET, 1, 1, UNSUPPORTED },
		{ "GET of another class version", VENDOR, 7, GET, 1, 1, UNSUPPORTED },
		{ "GET of a class version above all", VENDOR, 0xfe, GET, 1, 1, UNSUPPORTED },
		{ "GET of subnet administration", SUBN_ADM, 2, GET, 0x35, 1, UNSUPPORTED },
		{ "ClassPortInfo of the CM", CM, 2, GET, 1, 1, UNSUPPORTED },
		{ "SEND of an unknown class", 0x0a, 1, SEND, 1, 1, 0 },
		{ "TRAP of an unknown class", 0x0a, 1, TRAP, 1, 1, 0 },
		{ "GET TABLE of subnet administration", SUBN_ADM, 2, GET_TABLE, 1, 1, 0 },
		{ "an unknown base version", 0x0a, 1, GET, 1, 2, 0 },
		{ "no base version", 0x0a, 1, GET, 1, 0, 0 },
		{ "subnet management at QP 1", SUBN_LID, 1, GET, 0x11, 1, 0 },
		{ "subnet management by directed route at QP 1", SUBN_DIRECTED, 1, GET, 0x11, 1, 0 },
		{ "GET of something else of the CM", CM, 2, GET, 0x10, 1, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		equal(table[i].name, table[i].status,
		      status_of(table[i].class, table[i].version, table[i].method, table[i].attribute, table[i].base));
	calm();
}

/* An attribute of the port's counters; its bytes begin at 64 in the MAD. */
static bool counters(uint16_t attribute, struct message *got)
{
	struct message request = message(asks, &client, &server, GET, 2000 + attribute);

	request.mad.mgmt_class = PERFORMANCE;
	request.mad.attribute = htons(attribute);
	request.mad.data[64 - VENDOR_HEADER + 1] = 1;
	request.hdr.timeout_ms = paced(500);
	put_message(client.fd, &request);
	return take_message(client.fd, got, paced(3000)) == WHOLE && !got->hdr.status && got->mad.method == GET_RESPONSE && !got->mad.status &&
	       got->mad.mgmt_class == PERFORMANCE && got->mad.base_version == 1 && got->mad.attribute == htons(attribute);
}

/*
 * The driver answers these. Stock's answer has a header of zeros, which no one takes for an answer; and it takes an answer
 * that comes for a request, and answers it so.
 */
static void performance(void)
{
	struct message got = {};
	const uint8_t *bytes = (void *)&got.mad;
	uint64_t packets;

	is_not_on_stock("rdma_rxe", "ClassPortInfo of the counters", counters(0x01, &got) && bytes[64 + 2] & 0x02, "no such answer");
	is_not_on_stock("rdma_rxe", "PortCounters", counters(0x12, &got), "no such answer");
	is_not_on_stock("rdma_rxe", "PortCountersExtended", counters(0x1d, &got), "no such answer");
	memcpy(&packets, bytes + 64 + 24, 8);
	is_not_on_stock("rdma_rxe", "packets were sent", be64toh(packets) > 10, "no");
	is_not_on_stock("rdma_rxe", "an unknown attribute of the counters", status_of(PERFORMANCE, 1, GET, 0x7777, 1) == UNSUPPORTED, "no such answer");
	calm();
}

/* The end of memory that has nothing behind it. */
static char *edge(void)
{
	static char *memory;

	if (!memory) {
		memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(memory + 4096, 4096);
	}
	return memory + 4096;
}

/* No memory; the compiler would warn if it knew. */
static void *volatile nowhere = (void *)16;

static void write_errors(void)
{
	struct message good = message(asks, &client, &server, GET, 60), bad = good, got;
	static char large[WHOLE + 1];

	equal("too short", -EINVAL, put(client.fd, &good, HEADER + RMPP_HEADER - 1));
	equal("shorter than the header of its class", -EINVAL, put(client.fd, &good, HEADER + VENDOR_HEADER - 1));
	memcpy(large, &good, WHOLE);
	equal("too long", -EINVAL, put(client.fd, large, WHOLE + 1));
	bad.hdr.id = AGENTS;
	equal("an agent that there is not", -EINVAL, put_message(client.fd, &bad));
	bad.hdr.id = 20;
	equal("an agent that was never", -EIO, put_message(client.fd, &bad));
	bad = good;
	bad.hdr.grh_present = 0;
	equal("no GRH", -EINVAL, put_message(client.fd, &bad));
	bad = good;
	bad.hdr.gid_index = 255;
	is("no such GID", put_message(client.fd, &bad) < 0, "it is taken");
	bad = good;
	inet_pton(AF_INET6, "fd00::98", bad.hdr.gid);
	is("nobody knows the peer", put_message(client.fd, &bad) < 0, "it is taken");
	equal("no memory", -EFAULT, put(client.fd, nowhere, WHOLE));
	memcpy(edge() - HEADER - RMPP_HEADER, &good, HEADER + RMPP_HEADER);
	equal("not all of it", -EFAULT, put(client.fd, edge() - HEADER - RMPP_HEADER, WHOLE));
	is("none of these was sent", silent(server.fd), "something");
	equal("a good one with the same TID", 0, put_message(client.fd, &good));
	is("arrives", served(&got), "nothing comes");
	good.mad.mgmt_class = VENDOR_OLD;
	good.mad.method = SEND;
	equal("a short one of a class with a short header", 0, put(client.fd, &good, HEADER + RMPP_HEADER));
	calm();
}

static void read_errors(void)
{
	struct message got;
	static char large[4096];

	ask(GET, 70, 0, 0);
	is("a message", readable(server.fd, paced(2000)), "nothing comes");
	equal("less than a header", -EINVAL, take(server.fd, large, HEADER - 1, 0));
	equal("less than the message", -EINVAL, take(server.fd, large, WHOLE - 1, 0));
	equal("no memory", -EFAULT, take(server.fd, nowhere, WHOLE, 0));
	equal("not all of it", -EFAULT, take(server.fd, edge() - HEADER - 8, WHOLE, 0));
	equal("more", WHOLE, take(server.fd, large, sizeof(large), 0));
	ask(GET, 71, 0, 0);
	ask(GET, 72, 0, 0);
	poll(NULL, 0, paced(200));
	take(server.fd, large, WHOLE - 1, 2000);
	is("what was not read stays the first", served(&got) && low(&got.mad) == 71 && served(&got) && low(&got.mad) == 72, "another");
	calm();
}

static void *reads(void *got) { return (void *)(uintptr_t)(read(server.fd, got, WHOLE) == WHOLE); }
static void interrupted(int number) { (void)number; }

static void *is_interrupted(void *unused)
{
	struct message got;

	(void)unused;
	return (void *)(uintptr_t)(read(server.fd, &got, WHOLE) < 0 && errno == EINTR);
}

static void blocking(void)
{
	struct sigaction action = { .sa_handler = interrupted };
	pthread_t thread;
	struct message got;
	void *good;

	pthread_create(&thread, NULL, reads, &got);
	poll(NULL, 0, 200);
	ask(GET, 80, 0, 0);
	pthread_join(thread, &good);
	is("a read waits", good && low(&got.mad) == 80, "wrong");
	sigaction(SIGUSR1, &action, NULL);
	pthread_create(&thread, NULL, is_interrupted, NULL);
	poll(NULL, 0, 200);
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, &good);
	is("a signal ends it", good, "it does not");
}

static void waiting(void)
{
	struct pollfd poller = { .fd = server.fd, .events = POLLIN | POLLOUT };
	struct timeval zero = {};
	struct message got;
	fd_set set;

	poll(&poller, 1, 0);
	equal("poll: can be written", POLLOUT, poller.revents);
	fcntl(server.fd, F_SETFL, O_NONBLOCK);
	is("a read without waiting", read(server.fd, &got, WHOLE) < 0 && errno == EAGAIN, "no EAGAIN");
	ask(GET, 81, 0, 0);
	readable(server.fd, paced(2000));
	poll(&poller, 1, 0);
	equal("poll: can be read", POLLIN | POLLOUT, poller.revents);
	FD_ZERO(&set);
	FD_SET(server.fd, &set);
	equal("select", 1, select(server.fd + 1, &set, NULL, NULL, &zero));
	is("a read", read(server.fd, &got, WHOLE) == WHOLE, "nothing");
	equal("select: no more", 0, select(server.fd + 1, &set, NULL, NULL, &zero));
	fcntl(server.fd, F_SETFL, 0);
	blocking();
}

/* A program that never heard of P_Key indices. */
static void old_layout(void)
{
	int fd = umad_open(client.device, 0);
	struct ib_user_mad_reg_req request = { .qpn = 1, .mgmt_class = VENDOR, .mgmt_class_version = 2, .oui = { OUI >> 16, OUI >> 8 & 0xff, OUI & 0xff } };
	struct message sent = message(0, &client, &server, GET, 90), got;
	char old[OLD_HEADER + MAD];
	struct ib_user_mad_hdr_old *header = (void *)old;

	is("an agent of the old layout", !ioctl(fd, IB_USER_MAD_REGISTER_AGENT, &request), "refused");
	sent.hdr.id = request.id;
	sent.hdr.timeout_ms = 5000;
	memcpy(old, &sent.hdr, OLD_HEADER);
	memcpy(old + OLD_HEADER, &sent.mad, MAD);
	equal("the old layout: a request", 0, put(fd, old, sizeof(old)));
	is("arrives", served(&got) && low(&got.mad) == 90 && !memcmp(got.hdr.gid, client.gid.raw, 16), "nothing comes");
	got.mad.data[7] = 7;
	reply(&got);
	equal("its answer is short of the layout", -EINVAL, take(fd, old, sizeof(old) - 1, paced(2000)));
	equal("and comes", sizeof(old), take(fd, old, sizeof(old), 0));
	is("whole", header->status == 0 && header->length == sizeof(old) && header->grh_present && !memcmp(header->gid, server.gid.raw, 16) &&
	   old[OLD_HEADER + VENDOR_HEADER + 7] == 7, "it differs");
	close(fd);
}

/* An agent of version 2 has the new layout unasked. */
static void new_layout(void)
{
	int fd = umad_open(client.device, 0), id = agent(fd, (struct wish){ .version = 2 });
	struct message sent = message(id, &client, &server, GET, 91), got;

	sent.hdr.timeout_ms = 5000;
	equal("the new layout: a request", 0, put_message(fd, &sent));
	is("arrives", served(&got) && low(&got.mad) == 91, "nothing comes");
	reply(&got);
	equal("its answer", WHOLE, take_message(fd, &got, paced(2000)));
	is("whole", got.hdr.pkey_index == 0 && low(&got.mad) == 91, "it differs");
	close(fd);
}

static void dead_peer(void)
{
	struct message request = message(asks, &client, &server, GET, 95), got;

	inet_pton(AF_INET6, "fd00::99", request.hdr.gid);
	request.hdr.timeout_ms = 100;
	request.hdr.retries = 1;
	equal("a request to a dead peer is taken", 0, put_message(client.fd, &request));
	is("and times out", timed_out(&got, 95, 5000), "no time-out");
}

/* Sends that are under way when their agent, or its file, goes. */
static void goes(const char *what, bool close_file)
{
	int fd = umad_open(client.device, 0), id = agent(fd, (struct wish){ .version = 3 });
	struct message request = message(id, &client, &server, GET, 0), got[3];
	char name[100];
	long began;

	request.hdr.timeout_ms = 100000;
	for (uint32_t tid = 0; tid < 100; tid++) {
		request.mad.tid = htobe64(tid);
		put_message(fd, &request);
	}
	for (int i = 0; i < 3; i++)
		served(&got[i]);
	reply(&got[0]);
	began = now_ms();
	if (close_file)
		close(fd);
	else
		agent_gone(fd, id);
	snprintf(name, sizeof(name), "%s goes at once", what);
	is(name, now_ms() - began < paced(3000), "it waits");
	reply(&got[1]);
	reply(&got[2]);
	if (!close_file) {
		drain(fd);
		is("no answer comes any more", silent(fd), "something");
		id = agent(fd, (struct wish){ .version = 3 });
		request.hdr.id = id;
		equal("the TIDs are free", 0, put_message(fd, &request));
		close(fd);
	}
	poll(NULL, 0, paced(100));
	calm();
	ask(GET, 999, paced(3000), 0);
	is("others go on", served_at_last(&got[0], 999), "they do not");
	reply(&got[0]);
	is("and have answers", answered(&got[0], 999), "they have not");
	calm();
}

static volatile bool done;

static void *serve(void *unused)
{
	struct message got;

	(void)unused;
	while (!done)
		if (take_message(server.fd, &got, 100) == WHOLE)
			reply(&got);
	return NULL;
}

/* Asks one after the other on a file of its own. */
static void *asker(void *number)
{
	int fd = umad_open(client.device, 0), id = agent(fd, (struct wish){ .version = 4 + (uintptr_t)number }), good = 0;
	struct message request, got;

	for (uint32_t tid = 1; tid <= 50; tid++) {
		request = message(id, &client, &server, GET, tid);
		request.hdr.timeout_ms = paced(3000);
		request.mad.data[9] = tid * 3 + (uintptr_t)number;
		if (put_message(fd, &request) || take_message(fd, &got, paced(4000)) != WHOLE || got.hdr.status)
			break;
		good += low(&got.mad) == tid && got.mad.data[9] == request.mad.data[9];
	}
	close(fd);
	return (void *)(uintptr_t)good;
}

static void threads(void)
{
	pthread_t server_thread, askers[4];
	long good = 0;
	void *each;

	pthread_create(&server_thread, NULL, serve, NULL);
	for (uintptr_t i = 0; i < ARRAY_SIZE(askers); i++)
		pthread_create(&askers[i], NULL, asker, (void *)i);
	for (size_t i = 0; i < ARRAY_SIZE(askers); i++) {
		pthread_join(askers[i], &each);
		good += (uintptr_t)each;
	}
	done = true;
	pthread_join(server_thread, NULL);
	equal("four programs ask 50 times each", 200, good);
}

int main(int argc, char **argv)
{
	if (argc < 5)
		die("usage: DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX");
	node_open(&client, argv[1], argv[2]);
	node_open(&server, argv[3], argv[4]);
	serves = agent(server.fd, (struct wish){ .methods = { METHOD(GET) | METHOD(SET) | METHOD(SEND) } });
	asks = agent(client.fd, (struct wish){ .version = 2 });
	if (!memcmp(client.gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12)) {
		four();
		return all_done();
	}
	echo();
	transaction_ids();
	wrong_answers();
	time_outs();
	retried();
	order();
	duplicates();
	unmatched();
	performance();
	write_errors();
	read_errors();
	waiting();
	old_layout();
	new_layout();
	dead_peer();
	goes("an agent", false);
	goes("a file", true);
	threads();
	return all_done();
}
