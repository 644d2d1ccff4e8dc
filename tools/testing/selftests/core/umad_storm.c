// SPDX-License-Identifier: GPL-2.0
/*
 * Users of user MADs that have much under way, to be killed or to lose their device.
 *
 *   umad_storm serve DEVICE GID_INDEX				answers three of four requests; until it is killed
 *   umad_storm flight DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX	has 100 requests under way, and more; until it is killed
 *   umad_storm unplug DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX	the same, until the device goes; then looks at its file
 *   umad_storm ask DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX	one exchange of each kind with the server
 *
 * The first three print "ready" when they are.
 */
#define _GNU_SOURCE
#include "umad.h"
#include <pthread.h>
#include <signal.h>

enum { FLIGHT = 100, LONG = 10240, V_SERVER = 1, V_CLIENT = 2 };

static struct node here, there;
static char buffer[HEADER + MAD + 2 * LONG];

static int plain, many;		/* agents: one MAD, many segments */

/* Server's agents have methods, clients' do not; several clients may be there. */
static void agents(bool serves)
{
	uint64_t methods = serves ? METHOD(GET) : 0;

	plain = agent(here.fd, (struct wish){ .version = serves ? V_SERVER : V_CLIENT, .methods = { methods } });
	many = agent(here.fd, (struct wish){ .mgmt_class = VENDOR + 1, .version = serves ? V_SERVER : V_CLIENT, .rmpp = 1, .methods = { methods } });
}

static int ask(uint32_t tid, bool is_long)
{
	struct message *request = (void *)buffer;

	*request = message(is_long ? many : plain, &here, &there, GET, tid);
	request->hdr.timeout_ms = 3000;
	request->hdr.retries = 2;
	if (!is_long)
		return put(here.fd, buffer, WHOLE);
	request->mad.mgmt_class = VENDOR + 1;
	request->mad.rmpp_flags = RMPP_ACTIVE;
	return put(here.fd, buffer, HEADER + VENDOR_HEADER + LONG);
}

static void serve(void)
{
	struct message *got = (void *)buffer;
	int size;

	agents(true);
	puts("ready");
	fflush(stdout);
	for (;;) {
		size = take(here.fd, buffer, sizeof(buffer), -1);
		if (size < (int)(HEADER + VENDOR_HEADER) || got->hdr.status || low(&got->mad) % 4 == 3)
			continue;
		answer_to(got, got->hdr.id);
		put(here.fd, buffer, size);
	}
}

/* One of ten has many segments. */
static bool is_long(uint32_t tid) { return tid % 10 == 5; }

/* Keeps so many under way until the file says that it is over. */
static void fly(void)
{
	struct pollfd poller = { .fd = here.fd, .events = POLLIN };
	uint32_t tid = 0;

	agents(false);
	while (tid < FLIGHT) {
		ask(tid, is_long(tid));
		tid++;
	}
	puts("ready");
	fflush(stdout);
	while (poll(&poller, 1, 60000) == 1 && !(poller.revents & POLLERR)) {
		if (read(here.fd, buffer, sizeof(buffer)) < 0)
			continue;
		ask(tid, is_long(tid));
		tid++;
	}
}

static void *waits(void *fd)
{
	return (void *)(uintptr_t)(read((intptr_t)fd, buffer, sizeof(buffer)) < 0 && errno == EIO);
}

static void interrupted(int number) { (void)number; }

/* A second file, whose user is in read() when the device goes. */
static pthread_t start_reader(int *fd)
{
	struct sigaction action = { .sa_handler = interrupted };
	pthread_t thread;

	sigaction(SIGUSR1, &action, NULL);
	*fd = umad_open(here.device, 0);
	agent(*fd, (struct wish){ .version = V_CLIENT + 1 });
	pthread_create(&thread, NULL, waits, (void *)(intptr_t)*fd);
	return thread;
}

/* Stock wakes it, and lets it sleep on, for nothing has come. */
static void reader_ends(pthread_t thread)
{
	struct timespec until;
	void *good = NULL;
	int error;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += paced(2000) / 1000;
	error = pthread_timedjoin_np(thread, &good, &until);
	is_not_on_stock("ib_umad", "a read that waits ends with EIO", !error && good, "it sleeps on");
	if (error) {
		pthread_kill(thread, SIGUSR1);
		pthread_join(thread, &good);
	}
}

static void unplug(void)
{
	struct ib_user_mad_reg_req2 request = { .qpn = 1, .mgmt_class = VENDOR, .mgmt_class_version = 9, .oui = OUI };
	struct pollfd poller = { .fd = here.fd, .events = POLLIN | POLLOUT };
	pthread_t reader;
	int other;

	reader = start_reader(&other);
	fly();
	poll(&poller, 1, 0);
	equal("poll tells that the device is gone", POLLERR, poller.revents);
	is("a read ends with EIO", read(here.fd, buffer, sizeof(buffer)) < 0 && errno == EIO, "it does not");
	equal("so does a write", -EIO, ask(5000, false));
	equal("and a long one", -EIO, ask(5001, true));
	is("no agent can be registered", ioctl(here.fd, IB_USER_MAD_REGISTER_AGENT2, &request) < 0 && errno == EPIPE, "no EPIPE");
	equal("none can go", -EINVAL, agent_gone(here.fd, plain));
	reader_ends(reader);
	close(other);
	is("the file closes", !close(here.fd), "it does not");
}

static bool comes(uint32_t tid, int size)
{
	struct message *got = (void *)buffer;

	return take(here.fd, buffer, sizeof(buffer), paced(5000)) == size && low(&got->mad) == tid && !got->hdr.status;
}

static void exchange(void)
{
	agents(false);
	is("a request is answered", !ask(4, false) && comes(4, WHOLE), "it is not");
	is("a long one too", !ask(5, true) && comes(5, HEADER + VENDOR_HEADER + LONG), "it is not");
}

int main(int argc, char **argv)
{
	if (argc < 4)
		die("usage: serve|flight|unplug|ask DEVICE GID_INDEX [PEER_DEVICE PEER_GID_INDEX]");
	node_open(&here, argv[2], argv[3]);
	if (argc > 5) {
		node_open(&there, argv[4], argv[5]);
		close(there.fd);
	}
	if (!strcmp(argv[1], "serve"))
		serve();
	else if (!strcmp(argv[1], "flight"))
		fly();
	else if (!strcmp(argv[1], "unplug"))
		unplug();
	else
		exchange();
	return all_done();
}
