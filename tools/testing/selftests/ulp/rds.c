// SPDX-License-Identifier: GPL-2.0
/*
 * Talks RDS over RDMA between two addresses, as rds-stress does, which Debian does not have.
 *
 *	rds messages A B	of many sizes, both ways, one at a time and many in flight
 *	rds stress A B		processes with several requests each in flight, answered by others
 *	rds rdma A B		RDMA writes and reads in and out of registered memory, with notifications
 *	rds congestion A B	a receiver that is full, and then is not
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <linux/rds.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "told.h"

#define PORT 4000
#define LONGEST (1 << 20)
#define PROCESSES 4
#define DEPTH 8
#define REQUESTS 400
#define REGION (256 << 10)

static unsigned char sent[LONGEST], received[LONGEST];

static struct sockaddr_in address(const char *text, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, text, &to.sin_addr) != 1)
		errx(2, "no address: %s", text);
	return to;
}

/* Over RDMA or not at all. */
static int bound(const char *text, int port)
{
	struct sockaddr_in own = address(text, port);
	int transport = RDS_TRANS_IB, room = 4 << 20, fd = socket(AF_RDS, SOCK_SEQPACKET, 0);
	struct timeval patience = { .tv_sec = 20 };

	if (fd < 0)
		err(1, "socket");
	if (setsockopt(fd, SOL_RDS, SO_RDS_TRANSPORT, &transport, sizeof(transport)))
		err(1, "transport");
	if (bind(fd, (struct sockaddr *)&own, sizeof(own)))
		err(1, "bind to %s", text);
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) || setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)))
		err(1, "options");
	return fd;
}

static void fill(unsigned char *at, size_t size, unsigned int seed)
{
	for (size_t i = 0; i < size; i++)
		at[i] = (seed = seed * 1103515245 + 12345) >> 16;
}

static void send_to(int fd, struct sockaddr_in to, const void *data, size_t size)
{
	if (sendto(fd, data, size, 0, (struct sockaddr *)&to, sizeof(to)) != (ssize_t)size)
		err(1, "send %zu bytes", size);
}

/* The message that was filled with the seed. */
static void expect(int fd, size_t size, unsigned int seed, struct sockaddr_in from)
{
	struct sockaddr_in who;
	socklen_t length = sizeof(who);
	ssize_t got = recvfrom(fd, received, sizeof(received), 0, (struct sockaddr *)&who, &length);

	if (got != (ssize_t)size)
		err(1, "receive: %zd bytes, not %zu", got, size);
	if (who.sin_addr.s_addr != from.sin_addr.s_addr || who.sin_port != from.sin_port)
		errx(1, "a message of somebody else");
	fill(sent, size, seed);
	if (memcmp(sent, received, size))
		errx(1, "the content of %zu bytes is wrong", size);
}

static void messages(const char *a, const char *b)
{
	static const size_t sizes[] = { 0, 1, 48, 63, 64, 65, 512, 4047, 4048, 4095, 4096, 4097, 8192, 12289, 25500, 65536, 262145, LONGEST };
	struct sockaddr_in to_a = address(a, PORT), to_b = address(b, PORT);
	int at_a = bound(a, PORT), at_b = bound(b, PORT);
	unsigned int seed = 0, count = sizeof(sizes) / sizeof(sizes[0]);

	for (unsigned int i = 0; i < count; i++) {
		fill(sent, sizes[i], ++seed);
		send_to(at_a, to_b, sent, sizes[i]);
		expect(at_b, sizes[i], seed, to_a);
		fill(sent, sizes[i], ++seed);
		send_to(at_b, to_a, sent, sizes[i]);
		expect(at_a, sizes[i], seed, to_b);
	}
	/* All but the longest, in flight at once; they come in their order. */
	for (int round = 0; round < 10; round++) {
		for (unsigned int i = 0; i < count - 2; i++) {
			fill(sent, sizes[i], i);
			send_to(at_a, to_b, sent, sizes[i]);
		}
		for (unsigned int i = 0; i < count - 2; i++)
			expect(at_b, sizes[i], i, to_a);
	}
	printf("%u messages\n", 2 * count + 10 * (count - 2));
}

/* Requests of 4096 bytes, answers of 256. */
static void requester(int fd, struct sockaddr_in to)
{
	unsigned int out = 0, back = 0;

	while (back < REQUESTS) {
		for (; out < REQUESTS && out - back < DEPTH; out++) {
			fill(sent, 4096, out);
			send_to(fd, to, sent, 4096);
		}
		expect(fd, 256, back++ + 1000000, to);
	}
}

static void answerer(int fd, struct sockaddr_in to)
{
	for (unsigned int i = 0; i < REQUESTS; i++) {
		expect(fd, 4096, i, to);
		fill(sent, 256, i + 1000000);
		send_to(fd, to, sent, 256);
	}
}

static void stress(const char *a, const char *b)
{
	int status, failed = 0, fds[2 * PROCESSES];

	/* All are bound before anybody sends. */
	for (int i = 0; i < 2 * PROCESSES; i++)
		fds[i] = bound(i % 2 ? a : b, PORT + i);
	for (int i = 0; i < 2 * PROCESSES; i++) {
		pid_t child = fork();

		if (child < 0)
			err(1, "fork");
		if (!child) {
			if (i % 2)
				requester(fds[i], address(b, PORT + i - 1));
			else
				answerer(fds[i], address(a, PORT + i + 1));
			exit(0);
		}
	}
	while (wait(&status) > 0)
		failed |= status;
	if (failed)
		errx(1, "a process failed");
	printf("%d requests\n", PROCESSES * REQUESTS);
}

/* A message with a piece of control data. */
static void send_control(int fd, struct sockaddr_in to, const void *data, size_t size, int type, const void *control, size_t length)
{
	union {
		char room[CMSG_SPACE(256)];
		struct cmsghdr header;
	} buffer = {};
	struct iovec part = { .iov_base = (void *)data, .iov_len = size };
	struct msghdr message = {
		.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &part, .msg_iovlen = 1,
		.msg_control = &buffer, .msg_controllen = CMSG_SPACE(length),
	};

	buffer.header.cmsg_level = SOL_RDS;
	buffer.header.cmsg_type = type;
	buffer.header.cmsg_len = CMSG_LEN(length);
	memcpy(CMSG_DATA(&buffer.header), control, length);
	if (sendmsg(fd, &message, 0) != (ssize_t)size)
		err(1, "send with control data");
}

/* How an operation went that was sent with RDS_RDMA_NOTIFY_ME. */
static void notified(int fd, uint64_t token)
{
	char control[CMSG_SPACE(256)];
	struct pollfd wait_for = { .fd = fd, .events = POLLIN };

	for (;;) {
		struct msghdr message = { .msg_control = control, .msg_controllen = sizeof(control) };
		struct rds_rdma_notify *notify;
		struct cmsghdr *header;

		if (poll(&wait_for, 1, 20000) != 1)
			errx(1, "no notification");
		if (recvmsg(fd, &message, MSG_DONTWAIT) < 0) {
			if (errno == EAGAIN)
				continue;
			err(1, "notification");
		}
		header = CMSG_FIRSTHDR(&message);
		if (!header || header->cmsg_type != RDS_CMSG_RDMA_STATUS)
			errx(1, "a message, no notification");
		notify = (struct rds_rdma_notify *)CMSG_DATA(header);
		if (notify->user_token != token || notify->status != RDS_RDMA_SUCCESS)
			errx(1, "token %lu, status %d", (unsigned long)notify->user_token, notify->status);
		return;
	}
}

/* The cookie of the memory that came with a message. */
static rds_rdma_cookie_t offered(int fd)
{
	char control[CMSG_SPACE(256)];
	struct iovec part = { .iov_base = received, .iov_len = sizeof(received) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *header;
	rds_rdma_cookie_t cookie;

	if (recvmsg(fd, &message, 0) < 0)
		err(1, "offer");
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_type != RDS_CMSG_RDMA_DEST)
		errx(1, "a message without memory");
	memcpy(&cookie, CMSG_DATA(header), sizeof(cookie));
	return cookie;
}

/*
 * Like this rds-stress moves its data: whose memory it is offers it with a message, the other reads and writes. (RDS_GET_MR is
 * not for memory of who only has fast registration, which needs the queue pair that a message is for.)
 */
static void rdma(const char *a, const char *b)
{
	static const size_t sizes[] = { 8, 100, 4096, 4097, 65536, 100001, REGION };
	struct sockaddr_in to_a = address(a, PORT), to_b = address(b, PORT);
	int at_a = bound(a, PORT), at_b = bound(b, PORT), count = 0;
	unsigned char *region = aligned_alloc(4096, REGION), *local = aligned_alloc(4096, REGION);

	/* A connection must be there, both ways. */
	send_to(at_b, to_a, "", 1);
	recv(at_a, received, 1, 0);
	send_to(at_a, to_b, "", 1);
	recv(at_b, received, 1, 0);
	for (unsigned int i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t size = sizes[i / 2];
		bool write = i % 2;
		rds_rdma_cookie_t cookie;
		struct rds_get_mr_args map = {
			.vec = { (uintptr_t)region, size }, .cookie_addr = (uintptr_t)&cookie, .flags = RDS_RDMA_READWRITE,
		};
		struct rds_iovec part = { (uintptr_t)local, size };
		struct rds_rdma_args args = {
			.remote_vec = { 0, size }, .local_vec_addr = (uintptr_t)&part, .nr_local = 1, .user_token = i + 1,
			.flags = RDS_RDMA_NOTIFY_ME | (write ? RDS_RDMA_READWRITE : 0),
		};
		struct rds_free_mr_args unmap = { .flags = RDS_RDMA_INVALIDATE };

		fill(region, REGION, i);
		fill(local, REGION, i + 100);
		send_control(at_b, to_a, "offer", 5, RDS_CMSG_RDMA_MAP, &map, sizeof(map));
		args.cookie = offered(at_a);
		if (args.cookie != cookie)
			errx(1, "another cookie arrives");
		/* The message that comes with it arrives when the data is there. */
		send_control(at_a, to_b, &i, sizeof(i), RDS_CMSG_RDMA_ARGS, &args, sizeof(args));
		notified(at_a, i + 1);
		if (recv(at_b, received, sizeof(received), 0) != sizeof(i) || memcmp(received, &i, sizeof(i)))
			errx(1, "the message of %s of %zu bytes", write ? "a write" : "a read", size);
		if (memcmp(region, local, size))
			errx(1, "%s of %zu bytes: wrong data", write ? "write" : "read", size);
		fill(sent, REGION, write ? i + 100 : i);
		if (memcmp(region, sent, size) || (size < REGION && !memcmp(region + size, local + size, REGION - size)))
			errx(1, "%s of %zu bytes: the wrong way, or too much", write ? "write" : "read", size);
		unmap.cookie = cookie;
		if (setsockopt(at_b, SOL_RDS, RDS_FREE_MR, &unmap, sizeof(unmap)))
			err(1, "free %zu bytes", size);
		count++;
	}
	printf("%d reads and writes\n", count);
}

static void congestion(const char *a, const char *b)
{
	struct sockaddr_in to_a = address(a, PORT), to_b = address(b, PORT);
	int at_a = bound(a, PORT), at_b = bound(b, PORT), room = 64 << 10;
	unsigned int out, refused = 0;
	struct pollfd writable = { .fd = at_a, .events = POLLOUT };

	if (setsockopt(at_b, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)))
		err(1, "receive buffer");
	for (out = 0; !refused && out < 2000; out++) {
		fill(sent, 4096, out);
		if (sendto(at_a, sent, 4096, MSG_DONTWAIT, (struct sockaddr *)&to_b, sizeof(to_b)) < 0) {
			if (errno != ENOBUFS && errno != EAGAIN)
				err(1, "send to who is full");
			refused = errno;
			break;
		}
		usleep(2000);
	}
	if (!refused)
		errx(1, "nobody was told that the receiver is full");
	for (unsigned int i = 0; i < out; i++)
		expect(at_b, 4096, i, to_a);
	/* The other end hears that there is room again. */
	for (int tries = 0; sendto(at_a, sent, 1, MSG_DONTWAIT, (struct sockaddr *)&to_b, sizeof(to_b)) < 0; tries++) {
		if ((errno != ENOBUFS && errno != EAGAIN) || tries == 200)
			err(1, "send to who has room again");
		poll(&writable, 1, 100);
		usleep(100000);
	}
	if (recv(at_b, received, sizeof(received), 0) != 1)
		err(1, "receive");
	printf("%u messages until errno was %u\n", out, refused);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(const char *a, const char *b);
	} parts[] = { { "messages", messages }, { "stress", stress }, { "rdma", rdma }, { "congestion", congestion } };

	for (unsigned int i = 0; argc == 4 && i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strcmp(argv[1], parts[i].name))
			continue;
		parts[i].run(argv[2], argv[3]);
		return all_done();
	}
	errx(2, "usage: rds messages|stress|rdma|congestion A B");
}
