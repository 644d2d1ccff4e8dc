// SPDX-License-Identifier: GPL-2.0
/*
 * The time of a message over TCP between two network namespaces, to be compared with bench_verbs: one thread has both ends.
 *
 *   bench_tcp stream|pingpong SIZE COUNT CLIENT_NAMESPACE SERVER_NAMESPACE ADDRESS
 *
 * stream: the client writes COUNT messages, as many as fit are under way. pingpong: the ends write one in turn, COUNT in all.
 * ADDRESS is the server's. Prints nanoseconds per message.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT 18540

static int size, count;
static char *out, *in;

static void enter(const char *namespace)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", namespace);
	fd = open(path, O_RDONLY);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		err(1, "%s", path);
	close(fd);
}

static int new_socket(const char *namespace)
{
	int fd, one = 1;

	enter(namespace);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		err(1, "socket");
	return fd;
}

/* Connects the two ends. */
static void open_ends(const char *client, const char *server, const char *address, int *a, int *b)
{
	struct sockaddr_in where = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int listening = new_socket(server), one = 1;

	if (inet_pton(AF_INET, address, &where.sin_addr) != 1)
		errx(2, "%s is no address", address);
	if (bind(listening, (struct sockaddr *)&where, sizeof(where)) || listen(listening, 1))
		err(1, "listen");
	*a = new_socket(client);
	if (connect(*a, (struct sockaddr *)&where, sizeof(where)))
		err(1, "connect");
	*b = accept(listening, NULL, NULL);
	if (*b < 0 || setsockopt(*b, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		err(1, "accept");
	close(listening);
}

/* What a call moved; nothing where it would have to wait. */
static long long moved(ssize_t n, const char *call)
{
	if (n > 0)
		return n;
	if (!n || errno != EAGAIN)
		err(1, "%s", call);
	return 0;
}

static void stream(int a, int b)
{
	long long all = (long long)size * count, sent = 0, got = 0;

	while (got < all) {
		long long n = 0, m;

		if (sent < all)
			n = moved(send(a, out, size - sent % size, MSG_DONTWAIT | MSG_NOSIGNAL), "send");
		m = moved(recv(b, in, size, MSG_DONTWAIT), "recv");
		sent += n;
		got += m;
		if (!n && !m) {
			struct pollfd files[] = { { a, sent < all ? POLLOUT : 0 }, { b, POLLIN } };

			if (poll(files, 2, -1) < 0)
				err(1, "poll");
		}
	}
}

static void pingpong(int a, int b)
{
	for (int i = 0; i < count; i++) {
		if (send(i % 2 ? b : a, out, size, MSG_NOSIGNAL) != size)
			err(1, "send");
		if (recv(i % 2 ? a : b, in, size, MSG_WAITALL) != size)
			err(1, "recv");
	}
}

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

int main(int argc, char **argv)
{
	long long begin, end;
	int a, b;

	if (argc != 7)
		errx(2, "see the head of bench_tcp.c");
	size = atoi(argv[2]);
	count = atoi(argv[3]);
	if (size < 1 || count < 1)
		errx(2, "a number is out of its range");
	out = calloc(1, size);
	in = calloc(1, size);
	if (!out || !in)
		err(1, "calloc");
	open_ends(argv[4], argv[5], argv[6], &a, &b);
	begin = now();
	(strcmp(argv[1], "stream") ? pingpong : stream)(a, b);
	end = now();
	printf("%lld\n", (end - begin) / count);
	return 0;
}
