// SPDX-License-Identifier: GPL-2.0
/*
 * A user that makes system calls at random on a device file: ioctl() with methods and attributes from a table, commands of
 * write() through both doors, with sizes at every limit, wrong handles, and pointers to nowhere.
 *
 *   hostile_verbs DEVICE_FILE TABLE SEED CALLS [-v]
 *   hostile_verbs DEVICE TABLE SEED CALLS THREADS
 *
 * The table is what tools/ferroband/uverbs_tables.py prints. The calls depend on the seed, and on what the kernel has
 * answered before: so two kernels that answer alike are asked alike. After each EPISODE calls the file is closed and opened
 * again, so that one different answer does not make all that follow different. Prints for each method which errors there
 * were, how often, and a digest of their order; with -v each call.
 *
 * With several threads on one file, which is closed under them, nothing is compared; and the device may go and come again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "fuzz_storm.h"
#include "told.h"

enum { EPISODE = 300, CLASSES = 64, METHODS = 64, ATTRS = 32, HANDLES = 64, ERRORS = 256, DRIVER = 1 << 12 };
enum { OBJECT_PD = 1, OBJECT_COMP_CHANNEL, OBJECT_CQ, OBJECT_QP, OBJECT_SRQ, OBJECT_AH, OBJECT_MR, OBJECT_MW, OBJECT_FLOW,
       OBJECT_XRCD, OBJECT_RWQ_IND_TBL, OBJECT_WQ };
enum kind { IN, OUT, IDR, FD, RAW_FD, ENUM, IDRS };
enum access { READ, WRITE, NEW, DESTROY };
enum door { IOCTL, INVOKE_WRITE, WRITE_CALL, DOORS };

struct attr {
	unsigned int id, min, max, class;
	enum kind kind;
	enum access access;
	bool mandatory, zero_trailing;
};

struct method {
	unsigned int class, id, count;
	struct attr attrs[ATTRS];
};

struct command {
	unsigned int class, number, request, response;
	bool extended, has_response, has_udata;
};

struct outcome {
	unsigned int errors[ERRORS];
	uint64_t digest;
};

static struct method methods[METHODS];
static struct command commands[METHODS];
static unsigned int method_count, command_count;
static struct outcome outcomes[DOORS][METHODS];

/* What user space has: handles and file descriptors, by class; some are stale. */
static volatile struct { uint32_t handle[HANDLES]; unsigned int count; } live[CLASSES];

/* Memory that is valid, whatever size a request has; where responses go; and memory that is not mapped. */
static __thread uint8_t *memory, *out, *edge;
static const char *device_file;
static volatile int file = -1;
static bool verbose;
/* The device may be away for a while. */
static bool patient;
static unsigned long storm_seed;
/* The present call is well-formed, but for what it asks for. */
static __thread bool polite;

static bool oddly(uint32_t count) { return one_in(count) && !polite; }

static uint64_t number(void)
{
	static const uint64_t liked[] = { 0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 63, 64, 127, 255, 256, 4095, 4096, 65535, 65536,
					  0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32, 1ull << 63, ~0ull };

	if (polite && !one_in(6))
		return below(4);
	switch (below(4)) {
	case 0: return liked[below(sizeof(liked) / sizeof(liked[0]))];
	case 1: return 1ull << below(64);
	case 2: return below(16);
	default: return one_in(4) ? (uint64_t)any() << 32 | any() : below(4);
	}
}

/* Where data is, or goes: what the kernel has written is not sent again, for it may be random. */
static uint64_t pointer(const uint8_t *good)
{
	switch (below(polite ? 400 : 40)) {
	case 0: return 0;
	case 1: return 0xffffffff81000000ull;
	case 2: return 0xdead0000dead0000ull;
	case 3: return (uintptr_t)edge - below(16);
	case 4: return (uintptr_t)edge;
	case 5: return ~0ull;
	default: return (uintptr_t)good + 8 * below(2048);
	}
}

static uint32_t handle(unsigned int class)
{
	unsigned int other = below(OBJECT_WQ + 1), count = live[class % CLASSES].count;

	if (count && !one_in(polite ? 40 : 6))
		return live[class % CLASSES].handle[below(count) % HANDLES];
	count = live[other].count;
	if (count && one_in(2))
		return live[other].handle[below(count) % HANDLES];
	return one_in(3) ? (uint32_t)number() : below(8);
}

static void keep(unsigned int class, uint32_t value)
{
	/* Other threads may be here too. */
	unsigned int at = class < CLASSES ? live[class].count : HANDLES;

	if (at < HANDLES) {
		live[class].handle[at] = value;
		live[class].count = at + 1;
	}
}

/* Bytes that a kernel may take for something: numbers, handles, zeros. */
static void scribble(uint8_t *to, size_t size)
{
	unsigned int style = below(4);
	uint32_t word;

	for (size_t at = 0; at + 4 <= size; at += 4) {
		word = style == 0 ? 0 : style == 1 ? (uint32_t)number() : one_in(2) ? 0 : handle(1 + below(OBJECT_WQ));
		memcpy(to + at, &word, 4);
	}
}

/* The requests of commands that make what others need, word by word: see fill(). */
static const struct { unsigned int number; bool extended; const char *words; } requests[] = {
	{ 0, false, "Q" }, { 1, false, "Q" }, { 2, false, "Q10" }, { 3, false, "Q" }, { 4, false, "p" }, { 5, false, "Qnnp0rrrrn1rh" },
	{ 8, false, "a" }, { 9, false, "QALApf" }, { 11, false, "QmnALApf" }, { 13, false, "m" }, { 14, false, "Qpn" },
	{ 16, false, "w" }, { 17, false, "Q" }, { 18, false, "Qnnsve0" }, { 19, false, "Qcs" }, { 20, false, "Qc0" },
	{ 21, false, "Qcs" }, { 23, false, "cn" }, { 24, false, "Qnnpccbssnnnt" }, { 25, false, "Qqn" }, { 27, false, "Qq0" },
	{ 28, false, "Qqnnn" }, { 29, false, "Qqnnn" }, { 30, false, "rrrrq0" }, { 31, false, "rrrrq0" }, { 32, false, "Qnnpsnn" },
	{ 33, false, "bnsn" }, { 34, false, "Qb0" }, { 35, false, "Qb0" }, { 36, false, "Qbnnn" }, { 37, false, "Qno" },
	{ 38, false, "x" }, { 39, false, "Qnnnpsnnnxc" }, { 40, false, "Qnnxqn" }, { 18, true, "nnsve0n0" },
	{ 24, true, "nnpccbssnnnt0000" }, { 52, true, "0npcnnss0" }, { 57, true, "cnn" },
};

static void fill(uint8_t *to, size_t size, const char *words)
{
	static const char letters[] = "pecqbamw xri";
	static const unsigned int classes[] = { OBJECT_PD, OBJECT_COMP_CHANNEL, OBJECT_CQ, OBJECT_QP, OBJECT_SRQ, OBJECT_AH, OBJECT_MR,
						OBJECT_MW, OBJECT_FLOW, OBJECT_XRCD, OBJECT_RWQ_IND_TBL, OBJECT_WQ };
	uint64_t value;

	for (size_t at = 0; *words && at + 4 <= size; words++) {
		size_t width = 4;
		const char *letter = strchr(letters, *words);

		switch (*words) {
		case 'Q': value = pointer(out); width = 8; break;                     /* where the response goes */
		case 'A': value = (uintptr_t)memory + 4096 * below(4); width = 8; break;
		case 'L': value = one_in(8) ? number() : 4096 * below(5); width = 8; break;
		case 's': value = one_in(8) ? number() : 1 + below(32); break;    /* a size */
		case 'v': value = one_in(8) ? number() : 0; break;                /* a vector */
		case 'e': value = one_in(3) ? handle(OBJECT_COMP_CHANNEL) : ~0u; break;
		case 'f': value = one_in(4) ? number() : below(8); break;         /* access flags */
		case 't': value = oddly(4) ? any() : (2 + below(3)) << 8 | below(2); break; /* a type of QP */
		case 'o': value = O_CREAT; break;
		case 'h': value = 1 | 1 << 8 | below(2) << 16; break;
		case 'n': value = number(); break;
		case 'r': value = any(); break;
		case '0': value = one_in(20) ? number() : 0; break;
		case '1': value = one_in(10) ? number() : 1; break;
		default: value = letter ? handle(classes[letter - letters]) : 0;
		}
		if (at + width > size)
			break;
		memcpy(to + at, &value, width);
		at += width;
	}
}

static void request_of(const struct command *command, uint8_t *to, size_t size)
{
	scribble(to, size);
	if (oddly(3))
		return;
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		if (requests[i].number == command->number && requests[i].extended == command->extended)
			fill(to, size, requests[i].words);
}

/* A size near what a table says. */
static unsigned int size_near(unsigned int min, unsigned int max)
{
	static const unsigned int liked[] = { 0, 1, 4, 8, 9, 16, 64, 4096, 65535 };

	switch (polite ? 5 + below(2) : below(10)) {
	case 0: return min ? min - 1 : 0;
	case 1: return max < 65535 ? max + 1 : 65535;
	case 2: return max < 65520 ? max + 8 : 65535;
	case 3: return liked[below(sizeof(liked) / sizeof(liked[0]))];
	case 4: case 5: return min;
	default: return max < 65535 ? max : min + 8 * below(16);
	}
}

/* What a call sends, for -v: it is printed after the call, which may have changed it. */
static __thread char detail[2048];

static void describe(const char *what, const void *bytes, size_t size)
{
	size_t at = strlen(detail);

	if (!verbose)
		return;
	at += snprintf(detail + at, sizeof(detail) - at, " %s[%zu]", what, size);
	for (size_t i = 0; i < size && i < 128 && at + 4 < sizeof(detail); i++)
		at += sprintf(detail + at, "%s%02x", i % 4 ? "" : " ", ((const uint8_t *)bytes)[i]);
}

static void record(enum door door, unsigned int which, int error, const char *what, unsigned int a, unsigned int b)
{
	struct outcome *outcome = &outcomes[door][which];

	if (verbose)
		printf("# %s %u %u: %s\n#  %s\n", what, a, b, error ? strerrorname_np(error) : "0", detail);
	*detail = 0;
	__atomic_add_fetch(&outcome->errors[error % ERRORS], 1, __ATOMIC_RELAXED);
	outcome->digest = (outcome->digest ^ error) * 0x100000001b3ull;
}

static void set_object(struct ib_uverbs_attr *to, const struct attr *attr)
{
	if (attr->access == NEW)
		to->data = number();
	else if (attr->kind == FD)
		to->data_s64 = one_in(4) ? (int)below(8) - 2 : (int)handle(attr->class);
	else
		to->data = one_in(20) ? number() : handle(attr->class);
}

static void set_data(struct ib_uverbs_attr *to, const struct attr *attr)
{
	static __thread unsigned int next;
	uint8_t *bytes = memory + 4096 * 8 + 256 * (next++ % 64);

	to->len = size_near(attr->min, attr->max);
	if (attr->kind == ENUM)
		to->attr_data.enum_data.elem_id = below(attr->max + 2);
	if (attr->kind == IDRS)
		to->len = 4 * below(4);
	scribble(bytes, 256);
	if (attr->kind == IDRS)
		for (unsigned int i = 0; i < 4; i++)
			memcpy(bytes + 4 * i, &(uint32_t){ handle(attr->class) }, 4);
	if (to->len <= 8 && attr->kind != OUT)
		to->data = attr->kind == IDRS ? handle(attr->class) | (uint64_t)handle(attr->class) << 32 : number();
	else
		to->data = attr->kind == OUT ? pointer(out) : oddly(3) ? pointer(memory) : (uintptr_t)bytes;
}

static void set_attr(struct ib_uverbs_attr *to, const struct attr *attr)
{
	*to = (struct ib_uverbs_attr){ .attr_id = attr->id, .flags = one_in(3) ? 0 : UVERBS_ATTR_F_MANDATORY };
	if (attr->kind == IDR || attr->kind == FD)
		set_object(to, attr);
	else if (attr->kind == RAW_FD)
		to->data = one_in(2) ? number() : (uint64_t)(int64_t)((int)below(6) - 1);
	else
		set_data(to, attr);
	if (oddly(40))
		to->attr_data.reserved = any();
	if (oddly(40) && (attr->kind == IDR || attr->kind == FD || attr->kind == RAW_FD))
		to->len = number();
	if (oddly(50))
		to->attr_id = one_in(2) ? any() : below(34) | (one_in(2) ? DRIVER : 0);
}

static __thread struct { struct ib_uverbs_ioctl_hdr head; struct ib_uverbs_attr attrs[300]; } call;

static int call_ioctl(unsigned int count)
{
	call.head.length = sizeof(call.head) + count * sizeof(call.attrs[0]);
	call.head.num_attrs = count;
	if (oddly(100))
		call.head.length = number();
	if (oddly(100))
		call.head.num_attrs = below(300);
	call.head.driver_id = oddly(100) ? number() : RDMA_DRIVER_RXE;
	call.head.reserved1 = oddly(100) ? number() : 0;
	call.head.reserved2 = oddly(100) ? any() : 0;
	describe("call", &call, sizeof(call.head) + count * sizeof(call.attrs[0]));
	return ioctl(file, oddly(150) ? any() : RDMA_VERBS_IOCTL, oddly(150) ? (void *)pointer(memory) : &call) ? errno : 0;
}

/* What the call has made, and what it has destroyed. */
static void learn(const struct method *method, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		for (unsigned int j = 0; j < method->count; j++)
			if (method->attrs[j].id == call.attrs[i].attr_id && method->attrs[j].access == NEW &&
			    (method->attrs[j].kind == IDR || method->attrs[j].kind == FD))
				keep(method->attrs[j].class, call.attrs[i].data);
}

static void fuzz_ioctl(void)
{
	unsigned int which = below(method_count), count = 0;
	const struct method *method = &methods[which];
	int error;

	memset(&call, 0, sizeof(call));
	for (unsigned int i = 0; i < method->count; i++) {
		if (method->attrs[i].mandatory ? !oddly(8) : one_in(2))
			set_attr(&call.attrs[count++], &method->attrs[i]);
		if (oddly(50))
			set_attr(&call.attrs[count++], &method->attrs[i]);
	}
	if (oddly(20))
		call.attrs[count++] = (struct ib_uverbs_attr){ .attr_id = any() & 0x1fff, .flags = below(2), .data = number() };
	call.head.object_id = oddly(80) ? number() : method->class;
	call.head.method_id = oddly(80) ? number() : method->id;
	error = call_ioctl(count);
	if (!error && call.head.object_id == method->class && call.head.method_id == method->id)
		learn(method, count);
	record(IOCTL, which, error, "ioctl", method->class, method->id);
}

/* The handle that a command has made is the first or the third word of its response. */
static void learn_command(const struct command *command)
{
	static const struct { unsigned int number, class; } makes[] = {
		{ 3, OBJECT_PD }, { 5, OBJECT_AH }, { 9, OBJECT_MR }, { 14, OBJECT_MW }, { 17, OBJECT_COMP_CHANNEL }, { 18, OBJECT_CQ },
		{ 24, OBJECT_QP }, { 32, OBJECT_SRQ }, { 37, OBJECT_XRCD }, { 39, OBJECT_SRQ }, { 40, OBJECT_QP }, { 0, 16 },
	};
	uint32_t made;

	memcpy(&made, out + (command->extended && command->number >= 50 ? 8 : 0), 4);
	for (size_t i = 0; i < sizeof(makes) / sizeof(makes[0]); i++)
		if (makes[i].number == command->number)
			keep(makes[i].class, made);
}

static void fuzz_invoke(unsigned int which)
{
	const struct command *command = &commands[which];
	unsigned int request = command->request ? command->request : 8 + 8 * below(16);
	unsigned int response = command->response ? command->response : 8 * below(8);
	uint8_t bytes[512] __attribute__((aligned(8))) = {};
	int error;

	memset(&call, 0, sizeof(call));
	memset(out, 0, 64);
	if (oddly(4))
		request = size_near(request, request);
	if (oddly(4))
		response = size_near(response, response);
	request_of(command, bytes, request < sizeof(bytes) ? request : sizeof(bytes));
	memcpy(memory + 4096 * 12, bytes, sizeof(bytes));
	describe("request", bytes, request < sizeof(bytes) ? request : sizeof(bytes));
	call.head.object_id = 0;
	call.head.method_id = 0;
	call.attrs[0] = (struct ib_uverbs_attr){ .attr_id = 2, .len = 8, .flags = 1,
						 .data = command->number | (command->extended ? IB_USER_VERBS_CMD_FLAG_EXTENDED : 0) };
	call.attrs[1] = (struct ib_uverbs_attr){ .attr_id = 0, .len = request, .flags = 1, .data = (uintptr_t)memory + 4096 * 12 };
	if (request <= 8)
		memcpy(&call.attrs[1].data, bytes, 8);
	call.attrs[2] = (struct ib_uverbs_attr){ .attr_id = 1, .len = response, .flags = 1,
						 .data = oddly(15) ? pointer(out) : (uintptr_t)out };
	call.attrs[3] = (struct ib_uverbs_attr){ .attr_id = DRIVER, .len = 8 * below(5), .flags = 1,
						 .data = (uintptr_t)memory };
	call.attrs[4] = (struct ib_uverbs_attr){ .attr_id = DRIVER + 1, .len = polite ? 64 : 8 * below(9), .flags = 1,
						 .data = (uintptr_t)out + 4096 * 20 };
	if (oddly(20))
		call.attrs[0].data = number() | (uint64_t)below(2) << 31;
	error = call_ioctl(!response ? 2 : polite ? 5 : 3 + 2 * below(2));
	if (!error)
		learn_command(command);
	record(INVOKE_WRITE, which, error, command->extended ? "invoke extended" : "invoke", command->class, command->number);
}

static void fuzz_write(void)
{
	unsigned int which = below(command_count);
	const struct command *command = &commands[which];
	struct ib_uverbs_cmd_hdr *head = (void *)(memory + 4096 * 13);
	struct ib_uverbs_ex_cmd_hdr *more = (void *)(head + 1);
	uint8_t *body = (uint8_t *)(head + 1) + (command->extended ? sizeof(*more) : 0);
	unsigned int request = command->request ? command->request : 8 + 8 * below(16);
	unsigned int tail = command->has_udata ? 8 * below(5) : 0;
	unsigned int room = command->response + (!command->has_udata ? 0 : polite ? 64 : 8 * below(9));
	size_t length;
	int error;

	memset(out, 0, 64);
	memset(head, 0, 1024);
	request_of(command, body, request);
	if (command->has_response && !oddly(10))
		memcpy(body, &(uint64_t){ (uintptr_t)out }, 8);
	length = sizeof(*head) + request + tail;
	*head = (struct ib_uverbs_cmd_hdr){ .command = command->number, .in_words = length / 4, .out_words = room / 4 };
	if (command->extended) {
		head->command |= IB_USER_VERBS_CMD_FLAG_EXTENDED;
		head->in_words = request / 8;
		room = 8 * below(32);
		head->out_words = room / 8;
		more->response = room && !oddly(10) ? (uintptr_t)out : 0;
		more->provider_in_words = tail / 8;
		length += sizeof(*more);
	}
	if (oddly(10))
		head->in_words = number();
	if (oddly(10))
		head->out_words = number();
	if (oddly(15))
		head->command = number();
	if (oddly(10))
		length = below(length + 16);
	describe("write", head, length);
	error = write(file, oddly(50) ? (void *)pointer(memory) : head, length) < 0 ? errno : 0;
	if (!error)
		learn_command(command);
	record(WRITE_CALL, which, error, command->extended ? "write extended" : "write", command->class, command->number);
}

static void close_files(void)
{
	if (file >= 0)
		close(file);
	for (int fd = 3; fd < 128; fd++)
		close(fd);
}

/* The device file of a device that is named, which may be another one when it comes again; or the one that is given. */
static int open_file(void)
{
	char path[128], name[64];

	if (*device_file == '/')
		return open(device_file, O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 16; i++) {
		FILE *line;

		snprintf(path, sizeof(path), "/sys/class/infiniband_verbs/uverbs%d/ibdev", i);
		line = fopen(path, "re");
		*name = 0;
		if (line) {
			if (fscanf(line, "%63s", name) != 1)
				*name = 0;
			fclose(line);
		}
		snprintf(path, sizeof(path), "/dev/infiniband/uverbs%d", i);
		if (!strcmp(name, device_file))
			return open(path, O_RDWR | O_CLOEXEC);
	}
	return -1;
}

/* A new file, and mostly a context, with something of each class. */
static void begin_episode(void)
{
	/* A completion channel, protection domains, completion queues, a shared receive queue, memory, queue pairs. */
	static const unsigned int first[] = { 17, 3, 3, 18, 18, 18, 32, 32, 9, 9, 24, 24, 24 };

	close_files();
	for (unsigned int class = 0; class < CLASSES; class++)
		live[class].count = 0;
	file = open_file();
	for (int i = 0; file < 0 && patient && i < 3000; i++) {
		usleep(10000);
		file = open_file();
	}
	if (file < 0) {
		perror(device_file);
		exit(1);
	}
	polite = true;
	if (one_in(10))
		return;
	memset(&call, 0, sizeof(call));
	call.head = (struct ib_uverbs_ioctl_hdr){ .length = sizeof(call.head), .object_id = 0, .method_id = 3,
						  .driver_id = RDMA_DRIVER_RXE };
	if (ioctl(file, RDMA_VERBS_IOCTL, &call) && !patient)
		printf("# no context: %s\n", strerror(errno));
	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		for (unsigned int which = 0; which < command_count; which++)
			if (commands[which].number == first[i] && !commands[which].extended)
				fuzz_invoke(which);
}

static enum kind kind_of(const char *word)
{
	static const char *const words[] = { "in", "out", "idr", "fd", "raw_fd", "enum", "idrs" };
	enum kind kind = 0;

	while (kind < IDRS && strcmp(word, words[kind]))
		kind++;
	return kind;
}

static enum access access_of(const char *word)
{
	return *word == 'r' ? READ : *word == 'w' ? WRITE : *word == 'n' ? NEW : DESTROY;
}

static void read_attr(const char *line)
{
	struct method *method = &methods[method_count - 1];
	struct attr *attr = &method->attrs[method->count];
	char kind[16], need[16], word[16] = "", more[16] = "";
	unsigned int first = 0;

	if (method->count == ATTRS || sscanf(line, "attr %*u %*u %u %15s %15s %u %15s %15s", &attr->id, kind, need, &first, word, more) < 3)
		exit(1);
	method->count++;
	attr->kind = kind_of(kind);
	attr->mandatory = *need == 'm';
	attr->access = READ;
	if (attr->kind == IN || attr->kind == OUT) {
		attr->min = first;
		attr->max = strtoul(word, NULL, 10);
	} else if (attr->kind == ENUM) {
		attr->max = first;
	} else if (attr->kind != RAW_FD) {
		attr->class = first;
		attr->access = access_of(word);
	}
}

static void read_table(const char *name)
{
	FILE *table = fopen(name, "r");
	char line[256];

	while (table && fgets(line, sizeof(line), table)) {
		struct method *method = &methods[method_count];
		struct command *command = &commands[command_count];

		if (sscanf(line, "method %u %u", &method->class, &method->id) == 2 && method_count < METHODS - 1)
			method_count++;
		else if (!strncmp(line, "attr ", 5))
			read_attr(line);
		else if (sscanf(line, "write %u %u %u %u", &command->class, &command->number, &command->request, &command->response) == 4 &&
			 command_count < METHODS - 1) {
			command->extended = strstr(line, " extended");
			command->has_response = strstr(line, " response");
			command->has_udata = strstr(line, " udata");
			command_count++;
		}
	}
	if (!table || !method_count || !command_count) {
		fprintf(stderr, "%s: no table\n", name);
		exit(1);
	}
	fclose(table);
}

static void print_outcome(const char *title, unsigned int class, unsigned int id, const struct outcome *outcome)
{
	printf("== %s %u %u\n", title, class, id);
	for (int error = 0; error < ERRORS; error++)
		if (outcome->errors[error])
			printf("%s %u\n", error ? strerrorname_np(error) ?: "?" : "success", outcome->errors[error]);
	printf("digest %016llx\n", (unsigned long long)outcome->digest);
}

static void print_outcomes(void)
{
	static const char *const doors[] = { "invoke", "write" };

	for (unsigned int i = 0; i < method_count; i++)
		print_outcome("ioctl", methods[i].class, methods[i].id, &outcomes[IOCTL][i]);
	for (unsigned int door = 0; door < 2; door++)
		for (unsigned int i = 0; i < command_count; i++) {
			char title[32];

			snprintf(title, sizeof(title), "%s%s", doors[door], commands[i].extended ? " extended" : "");
			print_outcome(title, commands[i].class, commands[i].number, &outcomes[INVOKE_WRITE + door][i]);
		}
}

/* Memory of a thread: at a place that is always the same, for what is written there is random. */
static bool map_memory(unsigned int thread)
{
	memory = mmap((void *)(0x10000000ul + 0x1000000ul * thread), 4096 * 97, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	out = memory + 4096 * 32;
	edge = memory + 4096 * 96;
	return memory != MAP_FAILED && !munmap(edge, 4096);
}

static void fuzz_any(void)
{
	unsigned int what = below(20);

	polite = one_in(2);
	if (what < 10)
		fuzz_ioctl();
	else if (what < 16)
		/* Not the first: stock takes the number of GET_CONTEXT for a list of capabilities. */
		fuzz_invoke(1 + below(command_count - 1));
	else
		fuzz_write();
}

static void start_thread(unsigned int thread)
{
	if (!map_memory(thread))
		exit(1);
	fuzz_seed(storm_seed, thread);
}

/* How often each errno was the answer, through all doors. */
static void print_sums(void)
{
	unsigned long sums[ERRORS] = {};

	for (unsigned int door = 0; door < DOORS; door++)
		for (unsigned int i = 0; i < METHODS; i++)
			for (int error = 0; error < ERRORS; error++)
				sums[error] += outcomes[door][i].errors[error];
	for (int error = 0; error < ERRORS; error++)
		if (sums[error])
			printf("%9lu %s\n", sums[error], error ? strerrorname_np(error) ?: "?" : "success");
}

/* Whether each method and command was called through its doors, and each door let enough calls pass. */
static void judge_storm(void)
{
	static const char *const doors[] = { "ioctl", "commands by ioctl", "write" };
	char what[64], why[96];

	for (unsigned int door = 0; door < DOORS; door++) {
		unsigned int count = door == IOCTL ? method_count : command_count, missed = 0;
		unsigned long all = 0, good = 0;

		for (unsigned int i = 0; i < count; i++) {
			unsigned long calls = 0;

			for (int error = 0; error < ERRORS; error++)
				calls += outcomes[door][i].errors[error];
			/* fuzz_any() leaves the first out. */
			missed += !calls && (door != INVOKE_WRITE || i);
			all += calls;
			good += outcomes[door][i].errors[0];
		}
		printf("%s: %lu calls, of which %lu succeeded\n", doors[door], all, good);
		snprintf(what, sizeof(what), "all of its kinds by the door \"%s\"", doors[door]);
		snprintf(why, sizeof(why), "%u of %u were never called", missed, count);
		storm_verdict(what, !missed, why);
		snprintf(what, sizeof(what), "some succeed by the door \"%s\"", doors[door]);
		snprintf(why, sizeof(why), "%lu of %lu", good, all);
		storm_verdict(what, good > all / 100, why);
	}
}

static void compare(unsigned long seed, unsigned long calls)
{
	unsigned long done = 0;

	for (unsigned long episode = 0; done < calls; episode++) {
		fuzz_state = (seed << 32 | episode) * 0x9e3779b97f4a7c15ull | 1;
		any();
		if (verbose)
			printf("# episode %lu\n", episode);
		begin_episode();
		for (unsigned int i = 0; i < EPISODE && done < calls; i++, done++)
			fuzz_any();
	}
	close_files();
	print_outcomes();
	printf("# calls: %lu\n", done);
}

int main(int argc, char **argv)
{
	unsigned long calls, seed;

	if (argc < 5) {
		fprintf(stderr, "usage: %s DEVICE_FILE TABLE SEED CALLS [-v | THREADS]\n", argv[0]);
		return 2;
	}
	device_file = argv[1];
	read_table(argv[2]);
	seed = strtoul(argv[3], NULL, 10);
	calls = strtoul(argv[4], NULL, 10);
	verbose = argc > 5 && !strcmp(argv[5], "-v");
	if (argc > 5 && !verbose) {
		patient = true;
		storm_seed = seed;
		storm_run((struct storm){ "ioctl and write", calls, strtoul(argv[5], NULL, 10), EPISODE, start_thread, begin_episode, fuzz_any });
		close_files();
		print_sums();
		judge_storm();
		return all_done();
	}
	if (!map_memory(0))
		return 1;
	compare(seed, calls);
	return 0;
}
