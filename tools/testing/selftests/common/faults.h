/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the faults_*.c programs share: a call in which the n-th allocation fails, for each n until none does
 * (/proc/thread-self/fail-nth: Documentation/fault-injection/fault-injection.rst in the kernel's source).
 *
 * Whatever the call makes of it, nothing may be left behind: the devices are those that there were, each with as many
 * objects, the process has its file descriptors and pinned pages, and the same call works at once. A call that has
 * succeeded nevertheless is undone. One line of output per call (see verbs.h), and at the end one
 * "total|CALLS|FAULTS|FAILED|SUCCEEDED".
 */
#ifndef FAULTS_H
#define FAULTS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "told.h"

#define NEVER 1000000000u
#define ERRNOS 600

/* A call under test. What returns an int returns an errno, 0 for none; all but `call` may be absent. */
struct call {
	const char *name;
	int (*before)(void);	/* makes what the call needs */
	int (*call)(void);
	void (*undo)(void);	/* removes what a call that succeeded has made */
	void (*after)(void);	/* removes what `before` has made */
	unsigned int slow;	/* of a call that takes long, so many allocations at either end and between them */
	bool costly;		/* it works after an error: that is seen at the end alone */
};

/* What there is while no call is under way, as lines of text. */
struct state {
	size_t length;
	char text[8192];
};

static struct { unsigned int calls, faults, failed, succeeded; } total;
static const char *only;	/* of a name: the calls that are made */
static int fail_nth = -1, nldev = -1;
/* Those whose entries must be the same, too. */
static const char *directories[4];
/* Of a call with many allocations the first and the last of these fail, and of the others every so-many-th one. */
static unsigned int dense = 100, stride = 29;
static bool all;	/* none is left out */

/* Netlink
 * ------------------------------------------------------------------------------------------------------------------ */

struct message {
	struct nlmsghdr header;
	char attrs[512];
};

static inline void message_init(struct message *message, int command, int flags)
{
	memset(message, 0, sizeof(*message));
	message->header.nlmsg_len = NLMSG_HDRLEN;
	message->header.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command);
	message->header.nlmsg_flags = NLM_F_REQUEST | flags;
}

static inline void message_add(struct message *message, int type, const void *data, size_t length)
{
	struct nlattr *attr = (void *)((char *)message + NLMSG_ALIGN(message->header.nlmsg_len));

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + length;
	memcpy((char *)attr + NLA_HDRLEN, data, length);
	message->header.nlmsg_len = NLMSG_ALIGN(message->header.nlmsg_len) + NLA_ALIGN(attr->nla_len);
}

static inline void message_text(struct message *message, int type, const char *text)
{
	message_add(message, type, text, strlen(text) + 1);
}

static inline void message_u32(struct message *message, int type, uint32_t value)
{
	message_add(message, type, &value, sizeof(value));
}

/* A socket that has been asked nothing yet, in place of the one that has. */
static inline void nldev_open(void)
{
	const struct timeval limit = { .tv_sec = 10 };
	int fresh = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);

	if (nldev < 0) {
		nldev = fresh;
	} else if (fresh >= 0) {
		dup3(fresh, nldev, O_CLOEXEC);
		close(fresh);
	}
	setsockopt(nldev, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

/* Sends it and hands each answer to `each`, until the last has come. Returns an errno. */
static inline int ask(struct message *message, void (*each)(const struct nlmsghdr *, void *), void *argument)
{
	static char answer[1 << 16] __attribute__((aligned(8)));
	static unsigned int sequence;
	const struct nlmsghdr *header;
	ssize_t got;
	int error;

	message->header.nlmsg_seq = ++sequence;
	if (send(nldev, message, message->header.nlmsg_len, 0) < 0)
		return errno;
	for (;;) {
		got = recv(nldev, answer, sizeof(answer), 0);
		if (got < 0) {
			error = errno;
			nldev_open();	/* the rest of the answer may still come to the old one */
			return error;
		}
		for (header = (void *)answer; NLMSG_OK(header, (size_t)got); header = NLMSG_NEXT(header, got)) {
			if (header->nlmsg_seq != sequence)
				continue;
			if (header->nlmsg_type == NLMSG_ERROR || header->nlmsg_type == NLMSG_DONE)
				return -*(const int *)NLMSG_DATA(header);
			if (each)
				each(header, argument);
		}
	}
}

/* The next attribute behind `attr`, or the first of `start`; NULL behind the last. */
static inline const struct nlattr *attr_next(const void *start, size_t length, const struct nlattr *attr)
{
	const char *next = attr ? (const char *)attr + NLA_ALIGN(attr->nla_len) : start;

	if (next + NLA_HDRLEN > (const char *)start + length)
		return NULL;
	return (const void *)next;
}

#define attr_type(attr) ((attr)->nla_type & NLA_TYPE_MASK)
#define attr_data(attr) ((const char *)(attr) + NLA_HDRLEN)
#define attr_each(attr, start, length) \
	for (const struct nlattr *attr = attr_next(start, length, NULL); attr; attr = attr_next(start, length, attr))

/* State
 * ------------------------------------------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3)))
static inline void say(struct state *state, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	state->length += vsnprintf(state->text + state->length, sizeof(state->text) - state->length, format, list);
	va_end(list);
	if (state->length >= sizeof(state->text))
		abort();
}

/* A line for each device: its name, and how many objects of each kind it has. */
static inline void say_objects(const struct nlmsghdr *header, void *argument)
{
	struct state *state = argument;

	attr_each(attr, NLMSG_DATA(header), header->nlmsg_len - NLMSG_HDRLEN) {
		if (attr_type(attr) == RDMA_NLDEV_ATTR_DEV_NAME)
			say(state, "%s:", attr_data(attr));
		if (attr_type(attr) != RDMA_NLDEV_ATTR_RES_SUMMARY)
			continue;
		attr_each(entry, attr_data(attr), attr->nla_len - NLA_HDRLEN) {
			attr_each(field, attr_data(entry), entry->nla_len - NLA_HDRLEN) {
				if (attr_type(field) == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)
					say(state, " %s", attr_data(field));
				if (attr_type(field) == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR)
					say(state, " %llu", *(const unsigned long long *)attr_data(field));
			}
		}
	}
	say(state, "\n");
}

static inline int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static inline void say_directory(struct state *state, const char *path)
{
	struct dirent **entries;
	int count = scandir(path, &entries, NULL, by_name);

	say(state, "%s:", path);
	for (int i = 0; i < count; i++) {
		if (*entries[i]->d_name != '.')
			say(state, " %s", entries[i]->d_name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	say(state, "\n");
}

static inline void state_of(struct state *state)
{
	struct message all;
	char line[128];
	FILE *status;
	int error;

	state->length = 0;
	if (nldev >= 0) {
		message_init(&all, RDMA_NLDEV_CMD_RES_GET, NLM_F_DUMP);
		error = ask(&all, say_objects, state);
		if (error)
			say(state, "objects: %s\n", strerrorname_np(error));
	}
	for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]) && directories[i]; i++)
		say_directory(state, directories[i]);
	say(state, "files:");
	for (int fd = 0; fd < 48; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			say(state, " %d", fd);
	say(state, "\n");
	status = fopen("/proc/self/status", "r");
	while (status && fgets(line, sizeof(line), status))
		if (!strncmp(line, "VmPin", 5)) {
			say(state, "%s", line);
			break;
		}
	if (status)
		fclose(status);
}

/* All is as it was; waits a little for what the kernel does later, then prints the lines that differ. */
static inline bool as_it_was(const struct state *before)
{
	static struct state now;
	char *a, *b, *rest_a, *rest_b, *line_a, *line_b;

	for (int i = 0; i < 40; i++) {
		state_of(&now);
		if (!strcmp(before->text, now.text))
			return true;
		usleep(i * 5000);
	}
	a = rest_a = strdup(before->text);
	b = rest_b = strdup(now.text);
	do {
		line_a = strsep(&rest_a, "\n");
		line_b = strsep(&rest_b, "\n");
		if (strcmp(line_a ?: "-", line_b ?: "-"))
			printf("before: %s\nnow:    %s\n", line_a ?: "-", line_b ?: "-");
	} while (line_a && line_b);
	free(a);
	free(b);
	return false;
}

/* Faults
 * ------------------------------------------------------------------------------------------------------------------ */

/* The n-th allocation of this thread from now on fails. */
static inline void arm(unsigned int n)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", n);

	if (pwrite(fail_nth, text, length, 0) != length)
		abort();
}

/* No allocation fails any more. Returns how many had still to come before one fails: 0 if it has. */
static inline unsigned int disarm(void)
{
	char text[16] = "";

	if (pread(fail_nth, text, sizeof(text) - 1, 0) <= 0)
		abort();
	arm(0);
	return strtoul(text, NULL, 10);
}

static inline bool wrong(const struct call *call, unsigned int n, int error, const char *why)
{
	printf("fail|%s|allocation %u, %s: %s\n", call->name, n, strerrorname_np(error) ?: "no error", why);
	fflush(stdout);
	return false;
}

/* Calls once, with the n-th allocation failing. `error` gets its errno, `lacking` how many allocations were too few for that. */
static inline bool call_with_fault(const struct call *call, unsigned int n, int *error, unsigned int *lacking)
{
	static struct state start, ready;
	int again;

	state_of(&start);
	*error = call->before ? call->before() : 0;
	*lacking = n;
	if (*error)
		return wrong(call, n, *error, "what it needs cannot be made");
	state_of(&ready);
	arm(n);
	*error = call->call();
	*lacking = disarm();
	if (*error && *lacking)
		return wrong(call, n, *error, "it fails without a fault");
	if (*error) {
		if (!as_it_was(&ready))
			return wrong(call, n, *error, "something is left or lost");
		if (!call->costly && (again = call->call()))
			return wrong(call, n, again, "it does not work after an error");
	}
	if (call->undo && (!*error || !call->costly))
		call->undo();
	if (call->after)
		call->after();
	return as_it_was(&start) || wrong(call, n, *error, "something is left in the end");
}

/* How many allocations it has; -1 if it fails without any fault. */
static inline int count_allocations(const struct call *call)
{
	unsigned int left;
	int error = call->before ? call->before() : 0;

	if (error) {
		wrong(call, 0, error, "what it needs cannot be made");
		return -1;
	}
	arm(NEVER);
	error = call->call();
	left = disarm();
	if (error)
		printf("%s|%s|%s without a fault\n", error == EOPNOTSUPP || error == EINVAL ? "skip" : "fail", call->name,
		       strerrorname_np(error) ?: "an error");
	else if (call->undo)
		call->undo();
	if (call->after)
		call->after();
	return error ? -1 : (int)(NEVER - left);
}

/* The allocation after the n-th that is to fail: see `dense`. */
static inline unsigned int following(const struct call *call, unsigned int n, unsigned int count)
{
	unsigned int ends = call->slow && !all ? call->slow : dense;
	unsigned int step = call->slow && !all ? count / call->slow + 1 : stride;
	unsigned int last = count > ends ? count - ends : 0;	/* from here on each one */

	if (n < ends || n >= last)
		return n + 1;
	return n + step < last ? n + step : last;
}

/* One call, with each of its allocations failing in turn. */
static inline void each_allocation(const struct call *call)
{
	unsigned int errors[ERRNOS] = { 0 }, n = 1, failed = 0, lacking, faults = 0, succeeded = 0;
	int error, count;
	bool good = true;

	if (only && strcmp(call->name, only))
		return;
	count = count_allocations(call);
	if (count < 0)
		return;
	while (good && failed < n) {
		good = call_with_fault(call, n, &error, &lacking);
		if (lacking) {
			/* There are fewer than at first. Those at the end are not left out. */
			count = n - lacking;
			n = failed < (unsigned int)count ? following(call, failed, count) : failed;
			continue;
		}
		faults++;
		succeeded += !error;
		errors[error < ERRNOS ? error : 0]++;
		failed = n;
		n = following(call, n, count);
	}
	total.calls++;
	total.faults += faults;
	total.succeeded += succeeded;
	total.failed += faults - succeeded;
	printf("%s: %d allocations, %u failed, despite which it succeeded %u times", call->name, count, faults, succeeded);
	for (error = 1; error < ERRNOS; error++)
		if (errors[error])
			printf(", %s %u", strerrorname_np(error) ?: "other", errors[error]);
	printf("\n");
	if (good)
		printf("pass|%s\n", call->name);
	fflush(stdout);
}

/* Opens what the others use. FAULTS_ONLY names the one call to be made; FAULTS_ALL leaves no allocation out. */
static inline void faults_init(void)
{
	only = getenv("FAULTS_ONLY");
	all = getenv("FAULTS_ALL");
	if (all)
		dense = NEVER / 2;
	fail_nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (fail_nth < 0) {
		printf("fail|fail-nth|%s\n", strerror(errno));
		exit(1);
	}
	setvbuf(stdout, NULL, _IOLBF, 1 << 12);
}

static inline void faults_done(void)
{
	printf("total|%u|%u|%u|%u\n", total.calls, total.faults, total.failed, total.succeeded);
}

#endif
