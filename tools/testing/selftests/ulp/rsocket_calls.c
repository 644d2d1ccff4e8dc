// SPDX-License-Identifier: GPL-2.0
/*
 * rsockets call by call: streams between two ends of one program. (Not datagrams: librdmacm makes address handles without a GRH for
 * them, which RoCE refuses.)
 *
 *   rsocket_calls ADDRESS
 */
#define _GNU_SOURCE
#include "told.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define PORT 7950
#define LARGE (1 << 20)

static struct sockaddr_in here;

static bool is(const char *name, bool good)
{
	if (good)
		printf("pass|%s\n", name);
	else
		printf("fail|%s|%s\n", name, strerror(errno));
	fflush(stdout);
	return good;
}

static struct sockaddr_in at(uint16_t port)
{
	struct sockaddr_in address = here;

	address.sin_port = htons(port);
	return address;
}

/* The end that listens accepts in a thread of its own. */
static struct sockaddr_in accepted_from;

static void *accepts(void *listening)
{
	socklen_t length = sizeof(accepted_from);

	return (void *)(intptr_t)raccept((intptr_t)listening, (struct sockaddr *)&accepted_from, &length);
}

/* All of it, however it comes. */
static bool reads_all(int socket, char *to, size_t length)
{
	for (ssize_t got; length; to += got, length -= got) {
		got = rread(socket, to, length);
		if (got <= 0)
			return false;
	}
	return true;
}

/* The socket has something to read, and an ordinary file beside it has not. */
static bool is_readable(int socket, int seconds)
{
	struct timeval limit = { seconds };
	int idle[2], ready, most;
	fd_set set;

	if (pipe(idle))
		return false;
	most = socket > idle[0] ? socket : idle[0];
	FD_ZERO(&set);
	FD_SET(socket, &set);
	FD_SET(idle[0], &set);
	ready = rselect(most + 1, &set, NULL, NULL, &limit);
	close(idle[0]);
	close(idle[1]);
	return ready == 1 && FD_ISSET(socket, &set) && !FD_ISSET(idle[0], &set);
}

static void names(int client, int server)
{
	struct sockaddr_in own = { 0 }, peer = { 0 };
	socklen_t size = sizeof(own);

	is("rgetsockname", !rgetsockname(client, (struct sockaddr *)&own, &size) && own.sin_addr.s_addr == here.sin_addr.s_addr && own.sin_port);
	size = sizeof(peer);
	is("rgetpeername", !rgetpeername(client, (struct sockaddr *)&peer, &size) && peer.sin_port == htons(PORT) &&
	   peer.sin_addr.s_addr == here.sin_addr.s_addr);
	size = sizeof(peer);
	is("the other end's peer is this one", !rgetpeername(server, (struct sockaddr *)&peer, &size) && peer.sin_port == own.sin_port &&
	   accepted_from.sin_port == own.sin_port);
}

static void options(int socket)
{
	int value = 1 << 18, got = 0;
	socklen_t size = sizeof(got);

	is("rsetsockopt", !rsetsockopt(socket, SOL_SOCKET, SO_SNDBUF, &value, sizeof(value)));
	is("rgetsockopt", !rgetsockopt(socket, SOL_SOCKET, SO_SNDBUF, &got, &size) && got >= value);
	value = 1;
	is("rsetsockopt of TCP", !rsetsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &value, sizeof(value)));
	is("an option that there is not", rsetsockopt(socket, SOL_SOCKET, 9999, &value, sizeof(value)) && errno == ENOTSUP);
}

/* What has come by one call, and the rest of it. */
static bool is_rest(int socket, const char *part, ssize_t got, const char *text)
{
	char rest[64] = { 0 };
	size_t length = strlen(text);

	return got > 0 && (size_t)got <= length && !memcmp(part, text, got) && reads_all(socket, rest, length - got) && !strcmp(rest, text + got);
}

static void texts(int from, int to)
{
	char one[8] = { 0 }, two[8] = { 0 }, buffer[64] = { 0 };
	struct iovec out[] = { { "gather", 6 }, { "scatter", 7 } }, in[] = { { one, 6 }, { two, 7 } };
	struct msghdr sends = { .msg_iov = out, .msg_iovlen = 2 }, receives = { .msg_iov = in, .msg_iovlen = 1 };
	struct sockaddr_in peer = { 0 };
	socklen_t size = sizeof(peer);

	is("rwrite and rread", rwrite(from, "write", 5) == 5 && reads_all(to, buffer, 5) && !memcmp(buffer, "write", 5));
	is("rsend and rrecv", rsend(from, "send", 4, 0) == 4 && rrecv(to, buffer, 4, MSG_WAITALL) == 4 && !memcmp(buffer, "send", 4));
	is("rsendto and rrecvfrom", rsendto(from, "to", 2, 0, NULL, 0) == 2 &&
	   rrecvfrom(to, buffer, 2, MSG_WAITALL, (struct sockaddr *)&peer, &size) == 2 && !memcmp(buffer, "to", 2) &&
	   peer.sin_addr.s_addr == here.sin_addr.s_addr);
	/* The library fills the first part alone. */
	is("rwritev and rreadv", rwritev(from, out, 2) == 13 && is_rest(to, one, rreadv(to, in, 1), "gatherscatter"));
	is("rsendmsg and rrecvmsg", rsendmsg(from, &sends, 0) == 13 && is_rest(to, one, rrecvmsg(to, &receives, 0), "gatherscatter"));
	is("a peek leaves it", rwrite(from, "peek", 4) == 4 && is_readable(to, 5) && rrecv(to, buffer, 4, MSG_PEEK) == 4 &&
	   rrecv(to, buffer + 8, 4, 0) == 4 && !memcmp(buffer + 8, "peek", 4));
	is("rselect: nothing is there", !is_readable(to, 0));
}

static void *writes_large(void *socket)
{
	char *bytes = malloc(LARGE);
	size_t done = 0;

	for (size_t i = 0; i < LARGE; i++)
		bytes[i] = i * 7 + i / 251;
	while (done < LARGE) {
		ssize_t sent = rwrite((intptr_t)socket, bytes + done, LARGE - done);

		if (sent <= 0)
			break;
		done += sent;
	}
	free(bytes);
	return (void *)done;
}

static void large(int from, int to)
{
	char *bytes = malloc(LARGE);
	pthread_t thread;
	void *done;
	bool same;

	pthread_create(&thread, NULL, writes_large, (void *)(intptr_t)from);
	same = reads_all(to, bytes, LARGE);
	for (size_t i = 0; same && i < LARGE; i++)
		same = bytes[i] == (char)(i * 7 + i / 251);
	pthread_join(thread, &done);
	is("a mebibyte", same && (size_t)done == LARGE);
	free(bytes);
}

static void modes(int from, int to)
{
	char byte;

	is("rfcntl: non-blocking", !rfcntl(to, F_SETFL, O_NONBLOCK) && rfcntl(to, F_GETFL, 0) & O_NONBLOCK);
	is("nothing to read", rread(to, &byte, 1) == -1 && errno == EAGAIN);
	is("rfcntl: blocking", !rfcntl(to, F_SETFL, 0) && !(rfcntl(to, F_GETFL, 0) & O_NONBLOCK));
	is("and something", rwrite(from, "x", 1) == 1 && rread(to, &byte, 1) == 1 && byte == 'x');
	is("rshutdown: the other end reads the end", !rshutdown(from, SHUT_WR) && rread(to, &byte, 1) == 0);
}

static void streams(void)
{
	int listening = rsocket(AF_INET, SOCK_STREAM, 0), client = rsocket(AF_INET, SOCK_STREAM, 0), on = 1, server;
	struct sockaddr_in address = at(PORT);
	pthread_t thread;
	void *accepted;

	is("rsocket", listening >= 0 && client >= 0);
	rsetsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	is("rbind", !rbind(listening, (struct sockaddr *)&address, sizeof(address)));
	is("rlisten", !rlisten(listening, 4));
	options(client);
	pthread_create(&thread, NULL, accepts, (void *)(intptr_t)listening);
	is("rconnect", !rconnect(client, (struct sockaddr *)&address, sizeof(address)));
	pthread_join(thread, &accepted);
	server = (intptr_t)accepted;
	if (!is("raccept", server >= 0))
		return;
	names(client, server);
	texts(client, server);
	texts(server, client);
	large(client, server);
	modes(client, server);
	is("rclose", !rclose(server) && !rclose(client) && !rclose(listening));
	client = rsocket(AF_INET, SOCK_STREAM, 0);
	is("rconnect to nobody", rconnect(client, (struct sockaddr *)&address, sizeof(address)) && errno == ECONNREFUSED);
	rclose(client);
}

int main(int argc, char **argv)
{
	here.sin_family = AF_INET;
	if (argc < 2 || inet_pton(AF_INET, argv[1], &here.sin_addr) != 1)
		return 2;
	streams();
	return all_done();
}
