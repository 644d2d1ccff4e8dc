// SPDX-License-Identifier: GPL-2.0
/*
 * Messages of 64 KiB into memory windows: their contents, and windows that end while such messages are written.
 *
 *   verbs_window DEVICE GID_INDEX ROUNDS
 */
#include <pthread.h>
#include "verbs.h"

#define WINDOW_AT 8192
#define WINDOW (128 * 1024)
#define MESSAGE (64 * 1024)
#define WRITES 4
#define RW (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* How a window ends. */
enum end_of { LOCAL_INVALIDATE, DEALLOC, BIND_ANEW };

static const struct setup rc = { 0 };
/* A writes into the windows of B's region; C binds windows of type 1 anew. */
static struct end a, b, c, d;
static struct ibv_mr *region;
static struct ibv_mw *mw;
static unsigned long written;

static struct ibv_mw_bind_info part(uint64_t at, uint64_t length)
{
	return (struct ibv_mw_bind_info){ region, (uintptr_t)b.buffer + at, length, RW };
}

static int bind(struct end *end, uint64_t at, uint64_t length)
{
	struct ibv_mw_bind one = { .send_flags = IBV_SEND_SIGNALED, .bind_info = part(at, length) };
	struct ibv_send_wr two = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
	int status;

	if (mw->type == IBV_MW_TYPE_1)
		return ibv_bind_mw(end->qp, mw, &one) ? -2 : (int)wait_wc(end, 3000).status;
	two.bind_mw.mw = mw;
	two.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	two.bind_mw.bind_info = part(at, length);
	status = post(end, &two) ? -2 : (int)wait_wc(end, 3000).status;
	mw->rkey = two.bind_mw.rkey;
	return status;
}

static void setup(enum ibv_mw_type type)
{
	pair_init(&a, &b, &rc);
	region = ibv_reg_mr(pd, b.buffer, BUFFER, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(pd, type);
	if (!region || !mw || bind(&b, WINDOW_AT, WINDOW))
		die("bind a window");
}

static void teardown(void)
{
	if (mw)
		ibv_dealloc_mw(mw);
	end_destroy(&a);
	ibv_dereg_mr(region);
	end_destroy(&b);
}

static int post_message(enum ibv_wr_opcode opcode, uint32_t rkey, uint32_t from, uint32_t at)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&a, &b, opcode, &sge);

	sge.addr += from;
	sge.length = MESSAGE;
	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer + WINDOW_AT + at;
	wr.wr.rdma.rkey = rkey;
	return post(&a, &wr);
}

/* At the beginning, at odd places, at the end of the window. */
static void contents(const char *name, enum ibv_mw_type type)
{
	static const uint32_t places[] = { 0, 1, 4095, 12345, WINDOW - MESSAGE };
	bool good = true;

	setup(type);
	for (int i = 0; i < MESSAGE; i++)
		a.buffer[i] = i * 7 + i / 251;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		char *to = b.buffer + WINDOW_AT + places[i];

		memset(b.buffer, 0x5a, BUFFER);
		memset(a.buffer + MESSAGE, 0, MESSAGE);
		good &= !post_message(IBV_WR_RDMA_WRITE, mw->rkey, 0, places[i]) && !wait_wc(&a, 3000).status;
		good &= !memcmp(to, a.buffer, MESSAGE) && to[-1] == 0x5a && to[MESSAGE] == 0x5a;
		good &= !post_message(IBV_WR_RDMA_READ, mw->rkey, MESSAGE, places[i]) && !wait_wc(&a, 3000).status;
		good &= !memcmp(a.buffer + MESSAGE, a.buffer, MESSAGE);
	}
	verdict(name, good, false, "other bytes");
	teardown();
}

/* Writes two patterns in turn until one is refused; returns its status. */
static void *writer(void *arg)
{
	unsigned long posted = 0, done = 0;
	uint32_t rkey = *(uint32_t *)arg;

	for (;; done++) {
		struct ibv_wc wc;

		for (; posted - done < WRITES; posted++)
			if (post_message(IBV_WR_RDMA_WRITE, rkey, posted % 2 * MESSAGE, 0))
				return (void *)-2L;
		wc = wait_wc(&a, 3000);
		if (wc.status)
			return (void *)(long)wc.status;
		__atomic_add_fetch(&written, 1, __ATOMIC_RELAXED);
	}
}

/* Returns 0, or a status: no byte may be written any more. */
static int end_window(enum end_of how)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = mw->rkey };
	struct ibv_mw *old = mw;

	switch (how) {
	case LOCAL_INVALIDATE:
		return post(&b, &wr) ? -2 : (int)wait_wc(&b, 3000).status;
	case BIND_ANEW:
		return bind(&c, BUFFER - 4096, 4096);
	default:
		mw = NULL;
		return ibv_dealloc_mw(old);
	}
}

static void ends(const char *name, enum ibv_mw_type type, enum end_of how, int rounds)
{
	static char seen[MESSAGE];
	int good = 0, status = 0;
	unsigned long before = written;
	void *result = NULL;
	char why[120];

	for (int i = 0; i < rounds; i++) {
		pthread_t thread;
		uint32_t rkey;
		unsigned long start;
		long until = now_ms() + 3000;

		setup(type);
		rkey = mw->rkey;
		memset(a.buffer, 0x11, MESSAGE);
		memset(a.buffer + MESSAGE, 0x22, MESSAGE);
		start = __atomic_load_n(&written, __ATOMIC_RELAXED);
		pthread_create(&thread, NULL, writer, &rkey);
		while (__atomic_load_n(&written, __ATOMIC_RELAXED) < start + 3 + i % 5 && now_ms() < until)
			;
		status = end_window(how);
		memcpy(seen, b.buffer + WINDOW_AT, MESSAGE);
		pthread_join(thread, &result);
		good += !status && (long)result == IBV_WC_REM_ACCESS_ERR && !memcmp(seen, b.buffer + WINDOW_AT, MESSAGE);
		teardown();
	}
	snprintf(why, sizeof(why), "%d of %d rounds, %lu messages; the last statuses are %d and %ld", good, rounds, written - before, status,
		 (long)result);
	puts(why);
	/* The stock driver does not wait for a write that runs. */
	verdict(name, good == rounds, true, why);
}

int main(int argc, char **argv)
{
	int rounds;

	if (argc < 4)
		die("usage: DEVICE GID_INDEX ROUNDS");
	open_device(argc, argv);
	rounds = atoi(argv[3]);
	pair_init(&c, &d, &rc);
	contents("64 KiB, a window of type 1", IBV_MW_TYPE_1);
	contents("64 KiB, a window of type 2", IBV_MW_TYPE_2);
	ends("type 1 is bound anew under writes", IBV_MW_TYPE_1, BIND_ANEW, rounds);
	ends("type 1 is deallocated under writes", IBV_MW_TYPE_1, DEALLOC, rounds);
	ends("type 2 is invalidated under writes", IBV_MW_TYPE_2, LOCAL_INVALIDATE, rounds);
	ends("type 2 is deallocated under writes", IBV_MW_TYPE_2, DEALLOC, rounds);
	end_destroy(&c);
	end_destroy(&d);
	return all_done();
}
