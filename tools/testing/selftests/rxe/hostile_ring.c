// SPDX-License-Identifier: GPL-2.0
/*
 * A user that writes into the rings that it shares with the driver while the driver reads them: requests of which some fields
 * are wrong, indices, rubbish; and rings doorbells, posts, polls and changes states meanwhile, in several threads.
 * Each round is a child of its own: it may die, the kernel may not. Memory of the process that is not registered stays as it
 * is, and a process with a connection of its own on the device works on undisturbed.
 *
 *   hostile_ring DEVICE GID_INDEX WRITES [SEED [FIRST_ROUND]]
 *
 * ends when it has written into the rings so often.
 */
#define _GNU_SOURCE
#include "fuzz.h"
#include "fuzz_bystander.h"

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAIRS 4
#define RINGERS 2
#define SECONDS 60	/* that a round may take */
#define REGION_AT (4096 + 72)
#define REGION 131072
#define ARENA (REGION_AT + REGION + 4096)
#define FENCE 0xa7

/* A mapping of the device: a queue. Its slots may be requests to send, to receive, or completions. */
struct ring {
	struct rxe_queue_buf *queue;
	size_t words;
	uint32_t slot, mask;
};

struct pair {
	enum ibv_qp_type type;
	bool shared;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
};

/* What the rounds have done, for the parent. */
static struct { uint64_t doorbells, calls, written, good, bad, rebuilt; } *totals;

static struct pair pairs[PAIRS] = { { .type = IBV_QPT_RC }, { .type = IBV_QPT_UC }, { .type = IBV_QPT_UD }, { .type = IBV_QPT_RC, .shared = true } };
static struct ring rings[64];
static size_t ring_count;
static struct ibv_srq *srq;
static struct ibv_mr *region;
static struct ibv_mw *window;
static struct ibv_ah *ah;
static uint32_t ah_number;
static uint8_t *arena;
static volatile bool stop;
static uint64_t round_seed, round_doorbells;

static void add(uint64_t *counter, uint64_t value) { __atomic_fetch_add(counter, value, __ATOMIC_RELAXED); }

static void find_rings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char line[512];

	ring_count = 0;
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "uverbs") && sscanf(line, "%lx-%lx", &start, &end) == 2 && ring_count < ARRAY_SIZE(rings)) {
			struct rxe_queue_buf *queue = (void *)start;

			rings[ring_count++] = (struct ring){ queue, (end - start) / 4, 1u << (queue->log2_elem_size & 15), queue->index_mask };
		}
	if (maps)
		fclose(maps);
}

/* Somewhere in the region, mostly. */
static uint64_t some_address(uint32_t length)
{
	if (one_in(24))
		return one_in(2) ? odd_number() : any64();
	return (uintptr_t)arena + REGION_AT + below(length < REGION && !one_in(24) ? REGION - length + 1 : REGION);
}

static uint32_t some_key(void)
{
	switch (below(16)) {
	case 0: return any();
	case 1: return window->rkey;
	case 2: return region->lkey ^ 1u << below(32);
	default: return region->lkey;
	}
}

static void put_list(struct rxe_dma_info *dma, uint32_t most)
{
	uint32_t count = one_in(16) ? odd_number() : below(5), length = 0;

	for (uint32_t i = 0; i < count && i < most; i++) {
		uint32_t size = one_in(24) ? odd_number() : one_in(8) ? below(3000) : below(200);

		dma->sge[i] = (struct rxe_sge){ some_address(size), size, some_key() };
		length += size;
	}
	dma->num_sge = count;
	dma->cur_sge = one_in(8) ? odd_number() : 0;
	dma->sge_offset = one_in(8) ? odd_number() : 0;
	dma->length = one_in(8) ? odd_number() : length;
	dma->resid = one_in(8) ? odd_number() : length;
}

static void put_send(struct rxe_send_wqe *wqe, uint32_t room)
{
	const struct pair *pair = &pairs[below(PAIRS)];

	wqe->wr.wr_id = any64();
	wqe->wr.opcode = one_in(24) ? odd_number() : below(18);
	wqe->wr.send_flags = one_in(4) ? any() : IBV_SEND_SIGNALED;
	wqe->wr.ex.imm_data = one_in(2) ? any() : some_key();
	wqe->wr.wr.rdma.remote_addr = some_address(3000);
	wqe->wr.wr.rdma.rkey = some_key();
	if (wqe->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wqe->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wqe->wr.wr.atomic.rkey = some_key();
	if (one_in(3)) {
		wqe->wr.wr.ud.remote_qpn = one_in(8) ? any() : pair->qp[below(2)]->qp_num;
		wqe->wr.wr.ud.remote_qkey = one_in(8) ? any() : QKEY;
		wqe->wr.wr.ud.ah_num = one_in(8) ? odd_number() : ah_number;
	}
	if (wqe->wr.opcode == IBV_WR_BIND_MW) {
		wqe->wr.wr.mw.addr = some_address(3000);
		wqe->wr.wr.mw.length = one_in(8) ? any64() : below(8000);
		wqe->wr.wr.mw.mr_lkey = some_key();
		wqe->wr.wr.mw.mw_rkey = one_in(8) ? some_key() : window->rkey;
		wqe->wr.wr.mw.rkey = one_in(8) ? any() : window->rkey + below(4);
		wqe->wr.wr.mw.access = any();
	}
	put_list(&wqe->dma, (room - sizeof(*wqe)) / sizeof(struct rxe_sge));
	if (wqe->wr.send_flags & IBV_SEND_INLINE)
		wqe->dma.length = one_in(4) ? odd_number() : below(300);
}

static void put_recv(struct rxe_recv_wqe *wqe, uint32_t room)
{
	wqe->wr_id = any64();
	put_list(&wqe->dma, (room - sizeof(*wqe)) / sizeof(struct rxe_sge));
}

/* A request that makes sense but for some of its fields, and the index that says so. */
static void write_request(struct ring *ring)
{
	uint32_t producer = __atomic_load_n(&ring->queue->producer_index, __ATOMIC_RELAXED), ahead = one_in(8) ? odd_number() : 1;
	void *slot = ring->queue->data + (size_t)(producer & ring->mask) * ring->slot;

	if (ring->slot >= 512)
		put_send(slot, ring->slot);
	else if (ring->slot == 256)
		put_recv(slot, ring->slot);
	else
		__atomic_store_n(&ring->queue->consumer_index, one_in(4) ? odd_number() : producer, __ATOMIC_RELEASE);
	if (ring->slot >= 256)
		/* An index beyond the ring ends a shared receive queue. */
		__atomic_store_n(&ring->queue->producer_index, one_in(200) ? producer + ahead : (producer + ahead) & ring->mask, __ATOMIC_RELEASE);
}

/* Anywhere in the rings; the words of the indices and of the first slots more often. */
static void write_rubbish(struct ring *ring)
{
	uint32_t n = below(8);
	size_t at = n == 0 ? 32 : n == 1 ? 64 : n < 6 ? 96 + below(512) : below(ring->words);

	if (at < ring->words)
		((volatile uint32_t *)ring->queue)[at] = odd_number();
}

static void write_ring(void)
{
	struct ring *ring = &rings[below(ring_count)];

	if (one_in(3))
		write_rubbish(ring);
	else
		write_request(ring);
}

static void *writer(void *number)
{
	uint64_t written = 0;

	fuzz_seed(round_seed, 1000 + (uintptr_t)number);
	for (; !stop; written++) {
		write_ring();
		/* A few at a time, so that requests that make sense are seen too. */
		if (written % 8 == 0)
			usleep(below(200));
	}
	add(&totals->written, written);
	return NULL;
}

/* A command of the device file, without a library that could be confused by the rings. */
static bool command(uint32_t number, void *request, size_t length, size_t room)
{
	static __thread uint8_t answer[4096];
	struct { struct ib_uverbs_cmd_hdr header; uint8_t request[1024]; } all = { { number, (8 + length) / 4, room / 4 } };

	*(uint64_t *)request = (uintptr_t)answer;
	memcpy(all.request, request, length);
	return write(context->cmd_fd, &all, 8 + length) > 0;
}

static void count(bool good)
{
	add(good ? &totals->good : &totals->bad, 1);
	add(&totals->calls, 1);
}

/* The device works on what is in the ring, of which other threads write more meanwhile. */
static void doorbell(struct ibv_qp *qp)
{
	struct ib_uverbs_post_send request = { .qp_handle = qp->handle, .wqe_size = sizeof(struct ib_uverbs_send_wr) };

	count(command(IB_USER_VERBS_CMD_POST_SEND, &request, sizeof(request), sizeof(struct ib_uverbs_post_send_resp)));
	add(&totals->doorbells, 1);
}

/* Requests that the kernel is to put into the rings by itself. */
static void post_through_kernel(struct ibv_qp *qp, bool sends)
{
	struct {
		struct ib_uverbs_post_send head;
		struct ib_uverbs_send_wr wr;
		struct ib_uverbs_sge list[4];
	} send = { { .qp_handle = qp->handle, .wr_count = 1, .sge_count = below(5), .wqe_size = sizeof(struct ib_uverbs_send_wr) } };
	struct {
		struct ib_uverbs_post_recv head;
		struct ib_uverbs_recv_wr wr;
		struct ib_uverbs_sge list[4];
	} receive = { { .qp_handle = qp->handle, .wr_count = 1, .sge_count = below(5), .wqe_size = sizeof(struct ib_uverbs_recv_wr) } };

	for (int i = 0; i < 4; i++)
		send.list[i] = receive.list[i] = (struct ib_uverbs_sge){ some_address(2000), below(2000), some_key() };
	send.wr.num_sge = send.head.sge_count;
	send.wr.opcode = below(14);
	send.wr.send_flags = any() & 0x1f;
	send.wr.wr.rdma.remote_addr = some_address(2000);
	send.wr.wr.rdma.rkey = some_key();
	receive.wr.num_sge = receive.head.sge_count;
	if (sends)
		count(command(IB_USER_VERBS_CMD_POST_SEND, &send, sizeof(send), 4));
	else
		count(command(IB_USER_VERBS_CMD_POST_RECV, &receive, sizeof(receive), 4));
}

static void poll_through_kernel(struct ibv_cq *cq)
{
	struct ib_uverbs_poll_cq request = { .cq_handle = cq->handle, .ne = below(20) };

	count(command(IB_USER_VERBS_CMD_POLL_CQ, &request, sizeof(request), 8 + 20 * sizeof(struct ib_uverbs_wc)));
}

static void change_shared(void)
{
	struct ibv_srq_attr attr = { .srq_limit = below(40) };

	count(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
}

/* Up again, or down. */
static void change_state(struct pair *pair, int end)
{
	struct setup setup = { .type = pair->type };
	struct ibv_qp *qp = pair->qp[end];
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (one_in(32))
		count(!move(qp, one_in(2) ? IBV_QPS_ERR : IBV_QPS_SQD));
	if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) || attr.qp_state == IBV_QPS_RTS)
		return;
	move(qp, IBV_QPS_RESET);
	count(!climb(qp, IBV_QPS_RTS, &setup, pair->qp[!end]->qp_num));
	add(&totals->rebuilt, 1);
}

static void *ringer(void *number)
{
	fuzz_seed(round_seed, (uintptr_t)number);
	for (uint64_t i = 0; i < round_doorbells / RINGERS; i++) {
		struct pair *pair = &pairs[below(PAIRS)];
		int end = below(2);

		write_ring();
		add(&totals->written, 1);
		doorbell(pair->qp[end]);
		switch (below(32)) {
		case 0: ibv_req_notify_cq(pair->cq[end], below(2)); break;
		case 1: poll_through_kernel(pair->cq[end]); break;
		case 2: post_through_kernel(pair->qp[end], one_in(2)); break;
		case 3: case 4: case 5: case 6: case 7: case 8: change_state(pair, end); break;
		case 9: if (one_in(8)) change_shared(); break;
		}
	}
	return NULL;
}

static void make_pair(struct pair *pair)
{
	struct ibv_qp_init_attr init = { .qp_type = pair->type, .srq = pair->shared ? srq : NULL,
					 .cap = { .max_send_wr = 30, .max_recv_wr = 30, .max_send_sge = 16, .max_recv_sge = 8, .max_inline_data = 200 } };
	struct setup setup = { .type = pair->type };

	for (int end = 0; end < 2; end++) {
		init.send_cq = init.recv_cq = pair->cq[end] = ibv_create_cq(context, 100, NULL, NULL, 0);
		pair->qp[end] = pair->cq[end] ? ibv_create_qp(pd, &init) : NULL;
		if (!pair->qp[end])
			die("make a QP");
	}
	for (int end = 0; end < 2; end++)
		if (climb(pair->qp[end], IBV_QPS_RTS, &setup, pair->qp[!end]->qp_num))
			die("connect two QPs");
}

/* What number the driver gave it only the library knows: they begin at 1, so it is one of these, or somebody else's. */
static void make_address(void)
{
	struct ibv_ah_attr attr = address();

	ah = ibv_create_ah(pd, &attr);
	ah_number = 1 + below(8);
}

static void make_all(int argc, char **argv)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 30, .max_sge = 8 } };

	open_device(argc, argv);
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(arena, FENCE, ARENA);
	memset(arena + REGION_AT, 0, REGION);
	region = ibv_reg_mr(pd, arena + REGION_AT, REGION, ACCESS_ALL | IBV_ACCESS_MW_BIND);
	window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	srq = ibv_create_srq(pd, &init);
	make_address();
	if (!region || !window || !srq || !ah)
		die("make the objects of a round");
	for (int i = 0; i < PAIRS; i++)
		make_pair(&pairs[i]);
}

static bool fence_stands(void)
{
	for (size_t at = 0; at < ARENA; at++)
		if ((at < REGION_AT || at >= REGION_AT + REGION) && arena[at] != FENCE)
			return false;
	return true;
}

/* In some rounds one by one, in others the end of the process does it. */
static void destroy_all(void)
{
	for (int i = 0; i < PAIRS; i++)
		for (int end = 0; end < 2; end++) {
			ibv_resize_cq(pairs[i].cq[end], 200);
			ibv_destroy_qp(pairs[i].qp[end]);
			ibv_destroy_cq(pairs[i].cq[end]);
		}
	ibv_destroy_srq(srq);
	ibv_dealloc_mw(window);
	ibv_dereg_mr(region);
}

static void round_of(uint64_t number, int argc, char **argv)
{
	pthread_t writers[1], ringers[RINGERS];

	alarm(SECONDS);
	fuzz_seed(round_seed, 2000 + number);
	round_seed += number << 16;
	make_all(argc, argv);
	find_rings();
	if (!ring_count)
		_exit(3);
	pthread_create(writers, NULL, writer, (void *)0);
	for (uintptr_t i = 0; i < RINGERS; i++)
		pthread_create(&ringers[i], NULL, ringer, (void *)i);
	for (int i = 0; i < RINGERS; i++)
		pthread_join(ringers[i], NULL);
	stop = true;
	pthread_join(writers[0], NULL);
	if (!fence_stands())
		_exit(4);
	if (number % 2)
		destroy_all();
	_exit(0);
}

/* A process that only uses the device. Ends on request; its status says whether all it saw was right. */
static struct bystander bystander;

static void stop_bystander(int signal)
{
	(void)signal;
	bystander.stop = true;
}

static pid_t start_bystander(int argc, char **argv)
{
	static const struct setup setup = { 0 };
	pid_t child = fork();

	if (child)
		return child;
	signal(SIGTERM, stop_bystander);
	open_device(argc, argv);
	for (int end = 0; end < 2; end++)
		end_init(&bystander.ends[end], &setup);
	for (int end = 0; end < 2; end++)
		bystander_connect(&bystander.ends[end], &bystander.ends[!end]);
	exchanges(&bystander);
	printf("%lu exchanges of the process beside it\n", (unsigned long)bystander.messages);
	fflush(stdout);
	_exit(bystander.failed || !bystander.messages);
}

int main(int argc, char **argv)
{
	uint64_t wanted, number, hung = 0, blind = 0, breached = 0, died = 0, rounds = 0;
	int status;
	pid_t other;

	if (argc < 4)
		die("usage: DEVICE GID_INDEX WRITES [SEED [FIRST_ROUND]]");
	wanted = strtoull(argv[3], NULL, 0);
	round_seed = argc > 4 ? strtoull(argv[4], NULL, 0) : 1;
	number = argc > 5 ? strtoull(argv[5], NULL, 0) : 0;
	totals = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	round_doorbells = wanted < 400000 ? 500 : 5000;
	printf("seed %lu\n", (unsigned long)round_seed);
	fflush(stdout);
	other = start_bystander(3, argv);
	for (; totals->written < wanted && rounds < 4 * wanted / round_doorbells + 10; number++, rounds++) {
		pid_t child = fork();

		if (!child)
			round_of(number, argc, argv);
		waitpid(child, &status, 0);
		died += WIFSIGNALED(status);
		hung += WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
		blind += WIFEXITED(status) && WEXITSTATUS(status) == 3;
		breached += WIFEXITED(status) && WEXITSTATUS(status) == 4;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 4)
			printf("round %lu broke out\n", (unsigned long)number);
	}
	printf("%lu writes into rings, %lu doorbells, %lu calls in all (%lu good, %lu refused), %lu QPs brought up again, %lu rounds, %lu died\n",
	       (unsigned long)totals->written, (unsigned long)totals->doorbells, (unsigned long)totals->calls, (unsigned long)totals->good,
	       (unsigned long)totals->bad, (unsigned long)totals->rebuilt, (unsigned long)rounds, (unsigned long)died);
	verdict("rubbish in the rings: every round ends", !hung, false, "a round had to be stopped");
	verdict("rubbish in the rings: the rings were found", !blind, false, "nothing of the device is mapped");
	verdict("rubbish in the rings: as many writes as wanted", totals->written >= wanted, false, "rounds died early");
	verdict("rubbish in the rings: calls that are good, and calls that are refused", totals->good > rounds && totals->bad > rounds, false,
		"too few");
	verdict("rubbish in the rings: QPs that failed are brought up again", totals->rebuilt > rounds, false, "too few");
	verdict("rubbish in the rings: memory that is not registered stays as it is", !breached, false, "it was written to");
	kill(other, SIGTERM);
	waitpid(other, &status, 0);
	verdict("the process beside it goes on", WIFEXITED(status) && !WEXITSTATUS(status), false, "a wrong completion or wrong data");
	return all_done();
}
