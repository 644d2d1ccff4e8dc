// SPDX-License-Identifier: GPL-2.0
/*
 * Connects and disconnects without end, several connections at a time.
 *
 *   cm_churn serve ADDRESS COUNTERS SECONDS
 *   cm_churn ask ADDRESS COUNTERS SECONDS
 *   cm_churn wait CONNECTIONS COUNTERS SECONDS
 *
 * COUNTERS is a file of 64-bit numbers, which all programs count up; the last form waits for so many more connections. A program that is
 * told to end (SIGTERM), or whose device goes, begins nothing more, and ends when all that is under way has come to its end. None of it may
 * wait longer than so many seconds for its next event.
 */
#define _GNU_SOURCE
#include "verbs.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <sys/mman.h>

#define PORT 7700
#define WIDTH 8
#define MOST 4096
/* Before the next try where one has failed. */
#define PAUSE_MS 100

enum { ASKED, CONNECTED, ENDED, REFUSED, FAILED, REMOVED, COUNTERS };

/* A connection on its way, and when it came to where it is. */
struct slot {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	bool is_connected;
	long since;
};
static struct slot slots[MOST];
static uint64_t *counters;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *listening;
static struct sockaddr_in there;
static char message[64];
static bool asks;
static long next_try;
static volatile sig_atomic_t is_leaving;

static void leave(int signal)
{
	is_leaving = 1;
}

static void count(int which)
{
	__atomic_add_fetch(&counters[which], 1, __ATOMIC_RELAXED);
}

static struct slot *slot_of(const struct rdma_cm_id *id)
{
	for (int i = 0; i < MOST; i++)
		if (slots[i].id == id)
			return &slots[i];
	return NULL;
}

static int used(void)
{
	int number = 0;

	for (int i = 0; i < MOST; i++)
		number += !!slots[i].id;
	return number;
}

static struct rdma_cm_id *new_id(void)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	return id;
}

static bool keep(struct rdma_cm_id *id)
{
	struct slot *slot = slot_of(NULL);

	if (slot)
		*slot = (struct slot){ .id = id, .since = now_ms() };
	return slot;
}

static void drop(struct rdma_cm_id *id)
{
	struct slot *slot = slot_of(id);

	if (id->qp)
		rdma_destroy_qp(id);
	if (slot && slot->mr)
		rdma_dereg_mr(slot->mr);
	if (slot)
		slot->id = NULL;
	if (rdma_destroy_id(id))
		die("rdma_destroy_id");
}

/* A QP that waits for a message. */
static bool give_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct slot *slot = slot_of(id);

	if (rdma_create_qp(id, NULL, &init))
		return false;
	slot->mr = rdma_reg_msgs(id, message, sizeof(message));
	return slot->mr && !rdma_post_recv(id, NULL, message, sizeof(message), slot->mr);
}

static void begin(void)
{
	struct rdma_cm_id *id = new_id();

	if (keep(id) && !rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 2000))
		return;
	drop(id);
	next_try = now_ms() + PAUSE_MS;
}

/* As many connections are under way as there shall be. */
static void fill(void)
{
	for (int i = used(); i < WIDTH && now_ms() >= next_try; i++)
		begin();
}

static bool ask(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };

	count(ASKED);
	return give_qp(id) && !rdma_connect(id, &param);
}

static bool answer(struct rdma_cm_id *id)
{
	if (rand() % 32 == 0) {
		rdma_reject(id, NULL, 0);
		return false;
	}
	return keep(id) && give_qp(id) && !rdma_accept(id, NULL);
}

/* Who asks sends a message, and ends the connection, sometimes without a word. */
static bool connected(struct rdma_cm_id *id)
{
	struct slot *slot = slot_of(id);

	slot->is_connected = true;
	if (!asks)
		return true;
	count(CONNECTED);
	return !rdma_post_send(id, NULL, message, sizeof(message), slot->mr, 0) && rand() % 8 && !rdma_disconnect(id);
}

static bool failed(int which)
{
	count(which);
	next_try = now_ms() + PAUSE_MS;
	return false;
}

/* One event: whether its identifier stays. */
static bool goes_on(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return !rdma_resolve_route(id, 2000);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return ask(id);
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return answer(id);
	case RDMA_CM_EVENT_ESTABLISHED:
		return connected(id);
	case RDMA_CM_EVENT_DISCONNECTED:
		if (asks)
			count(ENDED);
		else
			rdma_disconnect(id);
		return false;
	case RDMA_CM_EVENT_REJECTED:
		return failed(REFUSED);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		is_leaving = 1;
		return failed(REMOVED);
	default:
		return failed(FAILED);
	}
}

/* The next event within a moment. */
static void handle_event(void)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	struct slot *slot;

	if (poll(&fd, 1, 50) != 1 || rdma_get_cm_event(channel, &event))
		return;
	id = event->id;
	type = event->event;
	rdma_ack_cm_event(event);
	slot = slot_of(id);
	if (slot)
		slot->since = now_ms();
	if (type == RDMA_CM_EVENT_TIMEWAIT_EXIT || goes_on(id, type))
		return;
	if (id == listening)
		listening = NULL;
	drop(id);
}

/*
 * A server listens no more. A connection may have lost the word of its other end that it is over; one that is not there yet would ask
 * that end for a minute, and who asks has ended before.
 */
static void close_all(void)
{
	if (listening)
		rdma_destroy_id(listening);
	listening = NULL;
	for (int i = 0; i < MOST; i++) {
		if (asks || !slots[i].id)
			continue;
		slots[i].since = now_ms();
		if (!slots[i].is_connected || rdma_disconnect(slots[i].id))
			drop(slots[i].id);
	}
}

/* A server's connection waits for its other end, as long as that one likes. */
static void none_hangs(long seconds, bool is_closing)
{
	long time = now_ms();

	for (int i = 0; i < MOST; i++) {
		long waits = (time - slots[i].since) / 1000;

		if (!slots[i].id || (slots[i].is_connected && !asks && !is_closing) || waits < seconds)
			continue;
		printf("fail|%s hangs for %ld s|id %p, %s, connected %d, leaving %d\n", asks ? "who asks" : "who serves", waits, slots[i].id,
		       slots[i].id->qp ? "QP" : "no QP", slots[i].is_connected, is_closing);
		fflush(stdout);
		_exit(2);
	}
}

static void begin_to_listen(void)
{
	listening = new_id();
	if (rdma_bind_addr(listening, (struct sockaddr *)&there) || rdma_listen(listening, 64))
		die("rdma_listen");
}

static void map_counters(const char *file)
{
	int fd = open(file, O_RDWR);

	counters = fd < 0 ? MAP_FAILED : mmap(NULL, COUNTERS * sizeof(*counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counters == MAP_FAILED)
		die(file);
}

static int wait_for(uint64_t connections, long seconds)
{
	uint64_t wanted = counters[CONNECTED] + connections;
	long end = now_ms() + seconds * 1000;

	while (__atomic_load_n(&counters[CONNECTED], __ATOMIC_RELAXED) < wanted) {
		if (now_ms() > end)
			die("no more connections");
		usleep(50000);
	}
	return 0;
}

int main(int argc, char **argv)
{
	bool is_closing = false;

	if (argc != 5)
		die("usage: serve|ask|wait ADDRESS|CONNECTIONS COUNTERS SECONDS");
	map_counters(argv[3]);
	if (!strcmp(argv[1], "wait"))
		return wait_for(strtoull(argv[2], NULL, 10), atol(argv[4]));
	asks = !strcmp(argv[1], "ask");
	there = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(PORT) };
	inet_pton(AF_INET, argv[2], &there.sin_addr);
	srand(getpid());
	signal(SIGTERM, leave);
	channel = rdma_create_event_channel();
	/* The library drops events of what it cannot set up, and reads the next one. */
	if (!channel || fcntl(channel->fd, F_SETFL, O_NONBLOCK))
		die("rdma_create_event_channel");
	if (!asks)
		begin_to_listen();
	puts("pass|begin");
	fflush(stdout);
	while (!is_leaving || used()) {
		if (is_leaving && !is_closing) {
			is_closing = true;
			close_all();
		}
		if (asks && !is_leaving)
			fill();
		handle_event();
		none_hangs(atol(argv[4]), is_closing);
	}
	if (listening)
		rdma_destroy_id(listening);
	rdma_destroy_event_channel(channel);
	return all_done();
}
