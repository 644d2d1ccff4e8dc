// SPDX-License-Identifier: GPL-2.0
/*
 * Commands of a device file at random, from a table of all: what is in their fields, how long they are, which objects they
 * name. The same seed gives the same commands, so that the errnos can be compared with those of another kernel's.
 *
 *   uverbs_fuzz DEVICE ROUNDS [SEED]              each round opens the device file anew
 *   uverbs_fuzz DEVICE CALLS SEED THREADS         several threads on one file, which is closed under them; the device may go
 *                                                 and come again
 *
 * Prints a section for each command, and in it how often it ended how.
 */
#define _GNU_SOURCE
#include "verbs.h"

#include "fuzz_storm.h"
#include "uverbs_raw.h"

#define COMMANDS_PER_ROUND 400
#define LEGACY 64
#define ERRNOS 140

/*
 * A field: P the address of the response, U any 8 bytes, A an address, L a length, h a handle, n a small number, f flags,
 * x any 4 bytes, v a file descriptor or -1, y 0 (4 bytes), w a small number (2 bytes), t a small number (1 byte), b any byte,
 * z 0 (1 byte), g 16 bytes, W work requests and their memory, H more handles, S flow specifications.
 */
struct command {
	uint32_t number;
	bool extended;
	const char *name, *fields;
	size_t response, driver;	/* the room that they need */
};

#define PATH "gxwwbbbtbbtt"
#define MODIFY_QP PATH PATH "hfxxxxfwwttttttttttttttttzz"

static const struct command commands[] = {
	{ IB_USER_VERBS_CMD_GET_CONTEXT, false, "GET_CONTEXT", "P", 8, 0 },
	{ IB_USER_VERBS_CMD_QUERY_DEVICE, false, "QUERY_DEVICE", "P", sizeof(struct ib_uverbs_query_device_resp), 0 },
	{ IB_USER_VERBS_CMD_QUERY_PORT, false, "QUERY_PORT", "Ptzzzzzzz", sizeof(struct ib_uverbs_query_port_resp), 0 },
	{ IB_USER_VERBS_CMD_ALLOC_PD, false, "ALLOC_PD", "P", 4, 0 },
	{ IB_USER_VERBS_CMD_ALLOC_PD, false, "ALLOC_PD", "P", 4, 0 },
	{ IB_USER_VERBS_CMD_DEALLOC_PD, false, "DEALLOC_PD", "h", 0, 0 },
	{ IB_USER_VERBS_CMD_CREATE_AH, false, "CREATE_AH", "PUhygxbbbzwbbbttz", 4, 8 },
	{ IB_USER_VERBS_CMD_DESTROY_AH, false, "DESTROY_AH", "h", 0, 0 },
	{ IB_USER_VERBS_CMD_REG_MR, false, "REG_MR", "PALAhf", sizeof(struct ib_uverbs_reg_mr_resp), 0 },
	{ IB_USER_VERBS_CMD_REREG_MR, false, "REREG_MR", "PhfALAhf", sizeof(struct ib_uverbs_rereg_mr_resp), 0 },
	{ IB_USER_VERBS_CMD_DEREG_MR, false, "DEREG_MR", "h", 0, 0 },
	{ IB_USER_VERBS_CMD_ALLOC_MW, false, "ALLOC_MW", "Phtzzz", sizeof(struct ib_uverbs_alloc_mw_resp), 0 },
	{ IB_USER_VERBS_CMD_DEALLOC_MW, false, "DEALLOC_MW", "h", 0, 0 },
	{ IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, false, "CREATE_COMP_CHANNEL", "P", 4, 0 },
	{ IB_USER_VERBS_CMD_CREATE_CQ, false, "CREATE_CQ", "PUnyvy", sizeof(struct ib_uverbs_create_cq_resp), 16 },
	{ IB_USER_VERBS_CMD_CREATE_CQ, false, "CREATE_CQ", "PUnyvy", sizeof(struct ib_uverbs_create_cq_resp), 16 },
	{ IB_USER_VERBS_CMD_RESIZE_CQ, false, "RESIZE_CQ", "Phn", sizeof(struct ib_uverbs_resize_cq_resp), 16 },
	{ IB_USER_VERBS_CMD_DESTROY_CQ, false, "DESTROY_CQ", "Phy", sizeof(struct ib_uverbs_destroy_cq_resp), 0 },
	{ IB_USER_VERBS_CMD_POLL_CQ, false, "POLL_CQ", "Phn", sizeof(struct ib_uverbs_poll_cq_resp), 0 },
	{ IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, false, "REQ_NOTIFY_CQ", "hy", 0, 0 },
	{ IB_USER_VERBS_CMD_CREATE_QP, false, "CREATE_QP", "PUhhhhnnnnnttzz", sizeof(struct ib_uverbs_create_qp_resp), 32 },
	{ IB_USER_VERBS_CMD_CREATE_QP, false, "CREATE_QP", "PUhhhhnnnnnttzz", sizeof(struct ib_uverbs_create_qp_resp), 32 },
	{ IB_USER_VERBS_CMD_QUERY_QP, false, "QUERY_QP", "Phf", sizeof(struct ib_uverbs_query_qp_resp), 0 },
	{ IB_USER_VERBS_CMD_MODIFY_QP, false, "MODIFY_QP", MODIFY_QP, 0, 0 },
	{ IB_USER_VERBS_CMD_DESTROY_QP, false, "DESTROY_QP", "Phy", sizeof(struct ib_uverbs_destroy_qp_resp), 0 },
	{ IB_USER_VERBS_CMD_POST_SEND, false, "POST_SEND", "PhW", 4, 0 },
	{ IB_USER_VERBS_CMD_POST_RECV, false, "POST_RECV", "PhW", 4, 0 },
	{ IB_USER_VERBS_CMD_POST_SRQ_RECV, false, "POST_SRQ_RECV", "PhW", 4, 0 },
	{ IB_USER_VERBS_CMD_ATTACH_MCAST, false, "ATTACH_MCAST", "ghww", 0, 0 },
	{ IB_USER_VERBS_CMD_DETACH_MCAST, false, "DETACH_MCAST", "ghww", 0, 0 },
	{ IB_USER_VERBS_CMD_CREATE_SRQ, false, "CREATE_SRQ", "PUhnnn", sizeof(struct ib_uverbs_create_srq_resp), 24 },
	{ IB_USER_VERBS_CMD_MODIFY_SRQ, false, "MODIFY_SRQ", "hfnn", 0, 0 },
	{ IB_USER_VERBS_CMD_QUERY_SRQ, false, "QUERY_SRQ", "Phy", sizeof(struct ib_uverbs_query_srq_resp), 0 },
	{ IB_USER_VERBS_CMD_DESTROY_SRQ, false, "DESTROY_SRQ", "Phy", sizeof(struct ib_uverbs_destroy_srq_resp), 0 },
	{ IB_USER_VERBS_CMD_OPEN_XRCD, false, "OPEN_XRCD", "Pvf", sizeof(struct ib_uverbs_open_xrcd_resp), 0 },
	{ IB_USER_VERBS_CMD_CLOSE_XRCD, false, "CLOSE_XRCD", "h", 0, 0 },
	{ IB_USER_VERBS_CMD_CREATE_XSRQ, false, "CREATE_XSRQ", "PUnhnnnnhh", sizeof(struct ib_uverbs_create_srq_resp), 24 },
	{ IB_USER_VERBS_CMD_OPEN_QP, false, "OPEN_QP", "PUhxtzzzzzzz", sizeof(struct ib_uverbs_create_qp_resp), 32 },
	{ IB_USER_VERBS_CMD_MODIFY_AH, false, "MODIFY_AH", "Phyy", 8, 0 },
	{ IB_USER_VERBS_CMD_QUERY_AH, false, "QUERY_AH", "Phyy", 8, 0 },
	{ IB_USER_VERBS_CMD_REG_SMR, false, "REG_SMR", "Phyy", 8, 0 },
	{ IB_USER_VERBS_CMD_QUERY_MR, false, "QUERY_MR", "Phyy", 8, 0 },
	{ IB_USER_VERBS_CMD_BIND_MW, false, "BIND_MW", "Phyy", 8, 0 },
	{ IB_USER_VERBS_CMD_PEEK_CQ, false, "PEEK_CQ", "Phyy", 8, 0 },
	{ 41, false, "none (41)", "Phyy", 8, 0 },
	{ 63, false, "none (63)", "Phyy", 8, 0 },
	{ 200, false, "none (200)", "Phyy", 8, 0 },
	{ 0x40000000, false, "none (0x40000000)", "Phyy", 8, 0 },
	{ IB_USER_VERBS_EX_CMD_QUERY_DEVICE, true, "EX_QUERY_DEVICE", "yy", 304, 0 },
	{ IB_USER_VERBS_EX_CMD_CREATE_CQ, true, "EX_CREATE_CQ", "Unyvyny", sizeof(struct ib_uverbs_ex_create_cq_resp), 16 },
	{ IB_USER_VERBS_EX_CMD_CREATE_QP, true, "EX_CREATE_QP", "UhhhhnnnnnttzzynhyU", sizeof(struct ib_uverbs_ex_create_qp_resp), 32 },
	{ IB_USER_VERBS_EX_CMD_MODIFY_QP, true, "EX_MODIFY_QP", MODIFY_QP "yy", sizeof(struct ib_uverbs_ex_modify_qp_resp), 0 },
	{ IB_USER_VERBS_EX_CMD_CREATE_FLOW, true, "EX_CREATE_FLOW", "yhnwwtzztyS", sizeof(struct ib_uverbs_create_flow_resp), 0 },
	{ IB_USER_VERBS_EX_CMD_DESTROY_FLOW, true, "EX_DESTROY_FLOW", "yh", 0, 0 },
	{ IB_USER_VERBS_EX_CMD_CREATE_WQ, true, "EX_CREATE_WQ", "ynUhhnnyy", sizeof(struct ib_uverbs_ex_create_wq_resp), 0 },
	{ IB_USER_VERBS_EX_CMD_MODIFY_WQ, true, "EX_MODIFY_WQ", "fhnnff", 0, 0 },
	{ IB_USER_VERBS_EX_CMD_DESTROY_WQ, true, "EX_DESTROY_WQ", "yh", sizeof(struct ib_uverbs_ex_destroy_wq_resp), 0 },
	{ IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, true, "EX_CREATE_RWQ_IND_TBL", "ynH", sizeof(struct ib_uverbs_ex_create_rwq_ind_table_resp), 0 },
	{ IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL, true, "EX_DESTROY_RWQ_IND_TBL", "yh", 0, 0 },
	{ IB_USER_VERBS_EX_CMD_MODIFY_CQ, true, "EX_MODIFY_CQ", "hnwwyy", 0, 0 },
	{ 2, true, "EX none (2)", "yy", 0, 0 },
	{ 63, true, "EX none (63)", "yy", 0, 0 },
};

static __thread uint64_t state;
static unsigned int outcomes[ARRAY_SIZE(commands)][ERRNOS], total;
static __thread char *memory;		/* what regions and responses are in */
static const size_t memory_size = 1 << 20;
static __thread char *absent;		/* a page that is not there */

static uint32_t any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 16;
}

static bool one_in(uint32_t n) { return any() % n == 0; }

static uint64_t some_address(void)
{
	switch (any() % 16) {
	case 0: return 0;
	case 1: return (uintptr_t)absent;
	case 2: return 0xffffffff81000000;
	case 3: return (uint64_t)any() << 32 | any();
	default: return (uintptr_t)memory + any() % 64 * 4096;
	}
}

static uint32_t small(void)
{
	static const uint32_t liked[] = { 0, 1, 2, 3, 7, 8, 16, 64, 255, 1024, 65535, 0x7fffffff, 0xffffffff };

	return one_in(3) ? liked[any() % ARRAY_SIZE(liked)] : any() % 33;
}

static uint32_t handle(void) { return one_in(16) ? any() : any() % 24; }

static char *put(char *at, uint64_t value, size_t size)
{
	memcpy(at, &value, size);
	return at + size;
}

/* Work requests and the pieces of memory that they have, and how many there are. */
static char *put_requests(char *at, bool sends)
{
	uint32_t count = one_in(6) ? small() : any() % 4, pieces = one_in(6) ? small() : any() % 8;
	uint32_t size = sends ? sizeof(struct ib_uverbs_send_wr) : sizeof(struct ib_uverbs_recv_wr);
	uint32_t told = one_in(8) ? small() : size;

	at = put(put(put(at, count, 4), pieces, 4), told, 4);
	for (uint32_t i = 0; i < count && i < 8; i++) {
		char *start = at;

		at = put(put(put(at, any(), 8), any() % 3, 4), sends ? any() % 12 : 0, 4);
		while (at < start + size)
			at = put(at, one_in(2) ? handle() : 0, 4);
	}
	for (uint32_t i = 0; i < pieces && i < 16; i++)
		at = put(put(put(at, some_address(), 8), any() % 8192, 4), any(), 4);
	return at;
}

static char *put_specs(char *at)
{
	for (uint32_t n = any() % 4; n; n--) {
		uint32_t size = one_in(4) ? small() % 128 : 8 + any() % 5 * 8;
		char *start = at;

		at = put(put(put(at, one_in(2) ? 0x20 + any() % 0x50 : 0x1000 + any() % 5, 4), size, 2), one_in(16), 2);
		while (at < start + size)
			at = put(at, one_in(4) ? any() : 0, 1);
	}
	return at;
}

static char *put_field(char *at, char field, const struct command *command, uint64_t response)
{
	switch (field) {
	case 'P': return put(at, response, 8);
	case 'U': return put(at, (uint64_t)any() << 32, 8);
	case 'A': return put(at, some_address(), 8);
	case 'L': return put(at, one_in(8) ? (uint64_t)any() << (any() % 32) : any() % 65536, 8);
	case 'h': return put(at, handle(), 4);
	case 'n': return put(at, small(), 4);
	case 'f': return put(at, one_in(3) ? any() : 1u << any() % 8 | (one_in(2) ? 1u << any() % 8 : 0), 4);
	case 'x': return put(at, any(), 4);
	case 'v': return put(at, one_in(2) ? UINT32_MAX : any() % 24, 4);
	case 'y': return put(at, one_in(16) ? any() : 0, 4);
	case 'w': return put(at, small(), 2);
	case 't': return put(at, one_in(8) ? any() : any() % 6, 1);
	case 'b': return put(at, any(), 1);
	case 'z': return put(at, one_in(32) ? any() : 0, 1);
	case 'g':
		at = put(at, one_in(2) ? 0x80feull : 0x1ff, 8);
		return put(at, one_in(2) ? any() : 0, 8);
	case 'W': return put_requests(at, command->number == IB_USER_VERBS_CMD_POST_SEND);
	case 'H':
		for (uint32_t n = any() % 9; n; n--)
			at = put(at, handle(), 4);
		return at;
	case 'S': return put_specs(at);
	}
	return at;
}

static void run(int fd, size_t nth)
{
	const struct command *command = &commands[nth];
	size_t unit = command->extended ? 8 : 4, room = command->response + command->driver, header = 8, length;
	uint64_t response = one_in(12) ? some_address() : (uintptr_t)memory;
	char buffer[8192] = {}, *at;
	uint32_t flag = command->extended ? IB_USER_VERBS_CMD_FLAG_EXTENDED : 0;
	uint16_t in, out, driver_in = 0, driver_out = 0;
	ssize_t done;
	int error;

	if (command->extended)
		header += sizeof(struct ib_uverbs_ex_cmd_hdr);
	at = buffer + header;
	for (const char *field = command->fields; *field; field++)
		at = put_field(at, *field, command, response);
	if (one_in(10))
		at = put(at, one_in(2) ? 0 : any(), 8);
	length = (at - buffer + unit - 1) / unit * unit;
	if (one_in(16))
		length -= unit * (1 + any() % 2);
	in = command->extended ? (length - header) / unit : length / unit;
	out = command->response / unit;
	driver_out = (room + unit - 1) / unit - out;
	if (!command->extended)
		out += driver_out;
	if (one_in(16))
		out = small();
	if (one_in(32))
		in = small();
	if (command->extended) {
		struct ib_uverbs_ex_cmd_hdr more = { room || one_in(8) ? response : 0, driver_in, driver_out, one_in(32) };

		memcpy(buffer + 8, &more, sizeof(more));
	}
	memcpy(buffer, &(struct ib_uverbs_cmd_hdr){ command->number | flag, in, out }, 8);
	done = write(fd, one_in(64) ? absent : buffer, one_in(64) ? any() % 32 : length);
	error = done >= 0 ? 0 : errno < ERRNOS ? errno : ERRNOS - 1;
	__atomic_add_fetch(&total, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&outcomes[nth][error], 1, __ATOMIC_RELAXED);
}

static void print(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		printf("== %s%s\n", commands[i].name, i && !strcmp(commands[i].name, commands[i - 1].name) ? " (again)" : "");
		for (int error = 0; error < ERRNOS; error++)
			if (outcomes[i][error])
				printf("%7u %s\n", outcomes[i][error], error ? strerrorname_np(error) : "ok");
	}
	printf("== calls\n%7u\n", total);
}

static const char *device;
static uint64_t seed;
static volatile int shared = -1;

static void map_memory(void)
{
	memory = mmap(NULL, memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	absent = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* With the files of events that the commands have made. */
static void close_files(void)
{
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
}

static void start_thread(unsigned int thread)
{
	map_memory();
	state = 0x9e3779b97f4a7c15 ^ (seed << 16) ^ thread;
}

static void open_shared(void)
{
	close_files();
	for (int i = 0; i < 3000 && (shared = raw_open(device)) < 0; i++)
		usleep(10000);
	if (shared < 0)
		die("open the device");
	run(shared, 0);
}

static void run_any(void) { run(shared, any() % ARRAY_SIZE(commands)); }

/* How often each errno was the answer. */
static void print_sums(void)
{
	for (int error = 0; error < ERRNOS; error++) {
		unsigned long sum = 0;

		for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
			sum += outcomes[i][error];
		if (sum)
			printf("%9lu %s\n", sum, error ? strerrorname_np(error) : "ok");
	}
}

/* Whether each command was called, and enough of them succeeded. */
static void judge_storm(void)
{
	unsigned int missed = 0, good = 0;
	char why[64];

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		unsigned long calls = 0;

		for (int error = 0; error < ERRNOS; error++)
			calls += outcomes[i][error];
		missed += !calls;
		good += outcomes[i][0];
	}
	printf("%u calls succeeded\n", good);
	snprintf(why, sizeof(why), "%u of %zu were never called", missed, ARRAY_SIZE(commands));
	storm_verdict("each command was called", !missed, why);
	snprintf(why, sizeof(why), "%u of %u", good, total);
	storm_verdict("some succeed", good > total / 100, why);
}

static void compare(unsigned long rounds)
{
	map_memory();
	state = 0x9e3779b97f4a7c15 ^ seed;
	for (unsigned long round = 0; round < rounds; round++) {
		int fd = raw_open(device);

		if (fd < 0)
			die("open the device");
		for (int i = 0; i < COMMANDS_PER_ROUND; i++)
			run(fd, i == 1 ? 0 : any() % ARRAY_SIZE(commands));
		close_files();
	}
	print();
}

int main(int argc, char **argv)
{
	unsigned long times;

	if (argc < 3)
		die("usage: DEVICE ROUNDS [SEED], or DEVICE CALLS SEED THREADS");
	device = argv[1];
	times = strtoul(argv[2], NULL, 0);
	seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	if (argc <= 4) {
		compare(times);
		return 0;
	}
	storm_run((struct storm){ "write", times, strtoul(argv[4], NULL, 0), COMMANDS_PER_ROUND, start_thread, open_shared, run_any });
	close_files();
	print_sums();
	judge_storm();
	return all_done();
}
