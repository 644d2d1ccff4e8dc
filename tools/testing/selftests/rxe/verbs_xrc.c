// SPDX-License-Identifier: GPL-2.0
/*
 * XRC by raw commands (xrc.h): two processes share a domain by a file, and a target by its number; each has a shared receive queue with
 * its own completion queue, PD and memory. A third one has the initiator, whose requests name one queue or the other. Then what the ends
 * refuse, and queues that are destroyed while messages come.
 *
 *   verbs_xrc DEVICE GID_INDEX TARGET_DEVICE TARGET_GID_INDEX FILE [MESSAGES]
 *
 * The initiator is of the first device, all else of the second one, which may be the same.
 */
#define _GNU_SOURCE
#include "xrc.h"
#include <sys/wait.h>

#define DEPTH 32		/* receives of a queue */
#define LONGEST 9000		/* bytes of a message */
#define BATCH 8			/* requests under way */
#define STREAM 24		/* messages to a queue that goes, and four behind them */
#define SOON 5000		/* ms for what happens at once */
#define UNKNOWN 0x12345

/* What the processes tell each other. */
static struct shared {
	volatile int stage;	/* 1: traffic, 2: the first server ends, 3: the second one, too */
	volatile uint32_t target, initiator;
	struct {
		volatile uint32_t queue, key;
		volatile uint64_t memory, received, wrong;
		volatile bool ready;
	} server[2];
} *shared;

static char **arguments;
static char why[200];

static bool comes(const volatile uint32_t *value)
{
	for (long until = now_ms() + SOON; !*value && now_ms() < until; usleep(500))
		;
	return *value;
}

static void expect(const char *name, int wanted, int got)
{
	snprintf(why, sizeof(why), "wanted %s, got %s", strerrorname_np(wanted) ?: "0", strerrorname_np(got) ?: "0");
	verdict(name, wanted == got, false, why);
}

static void expect_status(const char *name, int wanted, struct ibv_wc wc)
{
	snprintf(why, sizeof(why), "wanted %s, got %s", ibv_wc_status_str(wanted), (int)wc.status == -1 ? "nothing" : ibv_wc_status_str(wc.status));
	verdict(name, wanted == (int)wc.status, false, why);
}

/* A NAK that is lost is not sent again, because the target has failed: then the sender's retries say it. */
static bool may_be_lost(bool loses, const struct ibv_wc *wc) { return loses && wc->status == IBV_WC_RETRY_EXC_ERR; }

static void open_end(int which)
{
	char *args[] = { "", arguments[1 + 2 * which], arguments[2 + 2 * which] };

	context = NULL;
	open_device(3, args);
}

/* The GID of the other device. */
static union ibv_gid gid_of(int which)
{
	struct ibv_context *own = context;
	struct ibv_pd *own_pd = pd;
	union ibv_gid own_gid = gid, other;
	int own_index = gid_index;

	open_end(which);
	other = gid;
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	context = own;
	pd = own_pd;
	gid = own_gid;
	gid_index = own_index;
	return other;
}

static uint8_t pattern(uint64_t seq, uint32_t at) { return seq * 31 + at * 7 + (at >> 8); }

static void fill(uint8_t *to, uint64_t seq, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		to[i] = pattern(seq, i);
}

static bool is_filled(const uint8_t *from, uint64_t seq, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		if (from[i] != pattern(seq, i))
			return false;
	return true;
}

/* Servers
 * ---------------------------------------------------------------------------------------------------------------------- */

/* The `seq`-th message for this queue. */
static bool is_right(const struct ibv_wc *wc, const uint8_t *data, uint64_t seq)
{
	return wc->status == IBV_WC_SUCCESS && wc->qp_num == shared->target && wc->src_qp == shared->initiator &&
		wc->wc_flags & IBV_WC_WITH_IMM && wc->imm_data == (uint32_t)seq && is_filled(data, seq, wc->byte_len);
}

static int server(int nth)
{
	uint32_t domain, other;
	struct xrc_qp target = { 0 };
	struct xrc_srq srq;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *memory;
	union ibv_gid to;
	int file = open(arguments[5], O_RDWR | O_CREAT, 0600), fd;

	open_end(1);
	to = gid_of(0);
	fd = context->cmd_fd;
	if (nth == 0) {
		expect("a domain of a file: the first process makes it", 0, xrc_open(fd, file, O_CREAT | O_EXCL, &domain));
	} else {
		if (!comes(&shared->target))
			die("the first server");
		expect("a domain of a file: O_EXCL fails for the second process", EINVAL, xrc_open(fd, file, O_CREAT | O_EXCL, &other));
		expect("a domain of a file: which opens it", 0, xrc_open(fd, file, 0, &domain));
	}
	cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0);
	memory = aligned_alloc(4096, (DEPTH + 1) * 16384);
	memset(memory, 0, (DEPTH + 1) * 16384);
	mr = ibv_reg_mr(pd, memory, (DEPTH + 1) * 16384, ACCESS_ALL);
	if (!cq || !mr || xrc_create_srq(pd, cq, domain, DEPTH, &srq))
		die("a queue of a server");
	for (int i = 0; i < DEPTH; i++)
		xrc_post_recv(&srq, i, memory + i * 16384, LONGEST, mr->lkey);
	shared->server[nth].queue = srq.number;
	shared->server[nth].key = mr->rkey;
	shared->server[nth].memory = (uintptr_t)memory + DEPTH * 16384;
	if (nth == 0) {
		if (xrc_create_qp(fd, XRC_TGT, domain, 0, &target))
			die("a target");
		shared->target = target.number;
	} else {
		expect("a target that there is not is not opened", EINVAL, xrc_open_qp(fd, domain, 1, &target));
		expect("a target is opened by its number", 0, xrc_open_qp(fd, domain, shared->target, &target));
		if (!comes(&shared->initiator))
			die("the initiator");
		expect("a target is connected by the process that has opened it", 0,
		       xrc_connect(&target, true, shared->initiator, &to, gid_index, 0));
	}
	shared->server[nth].ready = true;
	for (uint64_t seq = 0; shared->stage < 2 + nth;) {
		struct ibv_wc wc;

		if (ibv_poll_cq(cq, 1, &wc) != 1) {
			usleep(100);
			continue;
		}
		shared->server[nth].wrong += !is_right(&wc, memory + wc.wr_id * 16384, seq++);
		xrc_post_recv(&srq, wc.wr_id, memory + wc.wr_id * 16384, LONGEST, mr->lkey);
		shared->server[nth].received++;
	}
	if (nth == 0)
		return 0;
	/* Its queue is there; that of the first process is not any more, and a request has named it. */
	verdict("the target has gone to the error state", xrc_state(&target) == IBV_QPS_ERR, false, "another one");
	expect("a domain that is used is not closed", EBUSY, xrc_close(fd, domain));
	xrc_destroy_srq(&srq);
	xrc_destroy_qp(&target);
	expect("a domain that is not used is closed", 0, xrc_close(fd, domain));
	return 0;
}

/* The initiator
 * ---------------------------------------------------------------------------------------------------------------------- */

static struct xrc_qp initiator;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t *memory;

static void make_initiator(void)
{
	memory = aligned_alloc(4096, BATCH * 16384);
	mr = ibv_reg_mr(pd, memory, BATCH * 16384, ACCESS_ALL);
	cq = ibv_create_cq(context, 256, NULL, NULL, 0);
	if (!mr || !cq || xrc_create_qp(context->cmd_fd, XRC_INI, pd->handle, cq->handle, &initiator))
		die("an initiator");
}

static struct ibv_wc sent(const struct xrc_request *request)
{
	xrc_post_send(&initiator, request);
	if (xrc_doorbell(&initiator))
		die("the doorbell");
	return xrc_wait(cq, SOON);
}

/* A batch of messages for either queue; what each has got before is in `seq`. */
static bool send_batch(uint64_t seq[2], unsigned int *seed)
{
	bool good = true;

	for (int i = 0; i < BATCH; i++) {
		int to = rand_r(seed) & 1;
		uint32_t length = rand_r(seed) % 3 ? rand_r(seed) % 200 : rand_r(seed) % LONGEST;
		struct xrc_request request = {
			IBV_WR_SEND_WITH_IMM, shared->server[to].queue, .imm = seq[to], .length = length, .lkey = mr->lkey, .id = i,
			.at = memory + i * 16384,
		};

		fill(memory + i * 16384, seq[to]++, length);
		xrc_post_send(&initiator, &request);
	}
	if (xrc_doorbell(&initiator))
		die("the doorbell");
	for (int i = 0; i < BATCH; i++) {
		struct ibv_wc wc = xrc_wait(cq, SOON);

		good &= wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)i;
	}
	return good;
}

/* WRITE, READ and FETCH AND ADD of the memory of the server whose queue is named. */
static bool memory_of(int to, unsigned int *seed)
{
	uint32_t length = 1 + rand_r(seed) % LONGEST, srq = shared->server[to].queue, rkey = shared->server[to].key;
	uint64_t remote = shared->server[to].memory, before, tag = rand_r(seed);
	struct xrc_request write = { IBV_WR_RDMA_WRITE, srq, 0, length, mr->lkey, rkey, 1, remote + 8, .at = memory };
	struct xrc_request read = { IBV_WR_RDMA_READ, srq, 0, length, mr->lkey, rkey, 2, remote + 8, .at = memory + 16384 };
	struct xrc_request add = { IBV_WR_ATOMIC_FETCH_AND_ADD, srq, 0, 8, mr->lkey, rkey, 3, remote, 1, memory + 2 * 16384 };
	static uint64_t added[2];

	fill(memory, tag, length);
	memset(memory + 16384, 0, length);
	if (sent(&write).status || sent(&read).status || sent(&add).status)
		return false;
	memcpy(&before, memory + 2 * 16384, 8);
	return is_filled(memory + 16384, tag, length) && before == added[to]++;
}

static void traffic(int messages)
{
	uint64_t seq[2] = { 0, 0 };
	unsigned int seed = 1;
	bool good = true;

	for (int i = 0; i < messages / BATCH && good; i++) {
		good = send_batch(seq, &seed);
		if (i % 4 == 0)
			good &= memory_of(i / 4 & 1, &seed);
	}
	verdict("messages to two queues, WRITEs, READs and atomics by one connection", good, false, "a request has failed, or read something else");
	for (int i = 0; i < 2; i++) {
		for (long until = now_ms() + SOON; shared->server[i].received < seq[i] && now_ms() < until; usleep(500))
			;
		snprintf(why, sizeof(why), "%llu of %llu, %llu wrong", (unsigned long long)shared->server[i].received, (unsigned long long)seq[i],
			 (unsigned long long)shared->server[i].wrong);
		verdict(i ? "the second process has received its own, in order, intact" : "the first process has received its own, in order, intact",
			seq[i] > 0 && shared->server[i].received == seq[i] && !shared->server[i].wrong, false, why);
	}
}

static void processes(int messages, bool loses)
{
	pid_t pids[2];
	union ibv_gid to;
	int status[2];

	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (!pids[i])
			exit(server(i));
	}
	open_end(0);
	to = gid_of(1);
	make_initiator();
	shared->initiator = initiator.number;
	if (!comes(&shared->target))
		die("no target");
	expect("an initiator is connected", 0, xrc_connect(&initiator, false, shared->target, &to, gid_index, 7));
	for (long until = now_ms() + SOON; !(shared->server[0].ready && shared->server[1].ready) && now_ms() < until; usleep(500))
		;
	shared->stage = 1;
	traffic(messages);
	shared->stage = 2;
	waitpid(pids[0], &status[0], 0);
	{
		uint64_t before = shared->server[1].received;
		struct xrc_request last = { IBV_WR_SEND_WITH_IMM, shared->server[1].queue, .imm = before, .lkey = mr->lkey, .at = memory };
		struct xrc_request gone = { IBV_WR_SEND, shared->server[0].queue, .length = 8, .lkey = mr->lkey, .at = memory };
		struct ibv_wc wc;

		expect_status("the process that has made the target ends: the other one still has it", IBV_WC_SUCCESS, sent(&last));
		wc = sent(&gone);
		expect_status("its queue is gone", may_be_lost(loses, &wc) ? IBV_WC_RETRY_EXC_ERR : IBV_WC_REM_ACCESS_ERR, wc);
		for (long until = now_ms() + SOON; shared->server[1].received == before && now_ms() < until; usleep(500))
			;
		verdict("what came before has arrived", shared->server[1].received == before + 1 && !shared->server[1].wrong, false, "it has not");
	}
	shared->stage = 3;
	waitpid(pids[1], &status[1], 0);
	verdict("both processes end well", !status[0] && !status[1], false, "they do not");
	xrc_destroy_qp(&initiator);
}

/* Refusals
 * ---------------------------------------------------------------------------------------------------------------------- */

/* An event of a target within so many milliseconds; the library would look for a queue pair of its own. */
static bool told_of(int async_fd, uint32_t wanted)
{
	struct pollfd fd = { .fd = async_fd, .events = POLLIN };
	struct ib_uverbs_async_event_desc event;

	while (poll(&fd, 1, SOON) == 1 && read(async_fd, &event, sizeof(event)) == sizeof(event))
		if (event.event_type == wanted)
			return true;
	return false;
}

/* What a connection needs at the target's device. */
static struct ibv_context *far;
static struct ibv_pd *far_pd[2];
static struct ibv_cq *far_cq;
static struct ibv_mr *far_mr[2];
static uint8_t *far_memory;
static uint32_t domains[2];
static struct xrc_srq queues[3];	/* of both PDs in the first domain, and of the second one */
static struct xrc_qp target;
static union ibv_gid near_gid, far_gid;
static int near_index, far_index;

static void make_far(void)
{
	near_gid = gid;
	near_index = gid_index;
	far_memory = aligned_alloc(4096, 65536);
	{
		struct ibv_context *own = context;
		struct ibv_pd *own_pd = pd;

		open_end(1);
		far = context;
		far_pd[0] = pd;
		far_pd[1] = ibv_alloc_pd(far);
		far_gid = gid;
		far_index = gid_index;
		context = own;
		pd = own_pd;
		gid = near_gid;
		gid_index = near_index;
	}
	far_cq = ibv_create_cq(far, 256, NULL, NULL, 0);
	for (int i = 0; i < 2; i++) {
		far_mr[i] = ibv_reg_mr(far_pd[i], far_memory, 65536, ACCESS_ALL);
		if (xrc_open(far->cmd_fd, -1, O_CREAT, &domains[i]))
			die("a domain without a file");
	}
	for (int i = 0; i < 3; i++)
		if (xrc_create_srq(far_pd[i == 1], far_cq, domains[i == 2], DEPTH, &queues[i]))
			die("a queue");
}

static void connect_anew(int rnr_retry)
{
	struct ibv_wc wc;

	if (target.handle)
		xrc_destroy_qp(&target);
	if (initiator.handle)
		xrc_destroy_qp(&initiator);
	while (ibv_poll_cq(cq, 1, &wc) == 1)
		;
	while (ibv_poll_cq(far_cq, 1, &wc) == 1)
		;
	if (xrc_create_qp(context->cmd_fd, XRC_INI, pd->handle, cq->handle, &initiator) ||
	    xrc_create_qp(far->cmd_fd, XRC_TGT, domains[0], 0, &target) ||
	    xrc_connect(&initiator, false, target.number, &far_gid, near_index, rnr_retry) ||
	    xrc_connect(&target, true, initiator.number, &near_gid, far_index, 0))
		die("connect");
}

static void refused(const char *name, int wanted, struct xrc_request request)
{
	connect_anew(0);
	request.at = memory;
	request.lkey = mr->lkey;
	request.length = 8;
	expect_status(name, wanted, sent(&request));
}

static void requests(void)
{
	uint64_t at = (uintptr_t)far_memory;
	struct ibv_srq_init_attr basic = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *other = ibv_create_srq(far_pd[0], &basic);
	struct xrc_request send = { IBV_WR_SEND }, write = { IBV_WR_RDMA_WRITE, .remote = at };
	uint32_t number = 0;

	/* The library tells the number of a basic one, too. */
	if (!other || ibv_get_srq_num(other, &number))
		number = queues[2].number + 1;
	send.srq = UNKNOWN;
	refused("a queue that there is not", IBV_WC_REM_ACCESS_ERR, send);
	verdict("of which the target's user is told", told_of(far->async_fd, IBV_EVENT_QP_ACCESS_ERR), false, "not told");
	send.srq = 0;
	refused("no queue", IBV_WC_REM_ACCESS_ERR, send);
	send.srq = queues[2].number;
	refused("a queue of another domain", IBV_WC_REM_ACCESS_ERR, send);
	send.srq = number;
	refused("a queue that is of no domain", IBV_WC_REM_ACCESS_ERR, send);
	send.srq = queues[0].number | 1 << 24;
	refused("a number of 25 bits is refused where it is posted", IBV_WC_LOC_QP_OP_ERR, send);
	send.srq = queues[0].number;
	refused("a queue without receives", IBV_WC_RNR_RETRY_EXC_ERR, send);
	for (int queue = 0; queue < 2; queue++)
		for (int key = 0; key < 2; key++) {
			write.srq = queues[queue].number;
			write.rkey = far_mr[key]->rkey;
			refused(queue == key ? "a key of the PD of the queue" : "a key of another PD than the queue's",
				queue == key ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR, write);
		}
	write.srq = queues[2].number;
	write.rkey = far_mr[0]->rkey;
	refused("a WRITE that names a queue of another domain", IBV_WC_REM_ACCESS_ERR, write);
	if (other)
		ibv_destroy_srq(other);
}

static void commands(void)
{
	struct ib_uverbs_send_wr wr = { .opcode = IBV_WR_SEND };
	struct { struct ib_uverbs_post_send head; struct ib_uverbs_send_wr wr; } send = {
		{ .qp_handle = initiator.handle, .wr_count = 1, .wqe_size = sizeof(wr) }, wr,
	};
	struct { struct ib_uverbs_post_recv head; struct ib_uverbs_recv_wr wr; } recv = {
		{ .qp_handle = target.handle, .wr_count = 1, .wqe_size = sizeof(struct ib_uverbs_recv_wr) }, { .wr_id = 1 },
	};
	struct ib_uverbs_post_send_resp response;
	struct xrc_srq srq;
	struct xrc_qp qp;

	connect_anew(0);
	send.head.qp_handle = initiator.handle;
	expect("POST_SEND of a request has no place for the queue", EINVAL,
	       raw_write(context->cmd_fd, IB_USER_VERBS_CMD_POST_SEND, &send, sizeof(send), &response, sizeof(response)));
	recv.head.qp_handle = initiator.handle;
	expect("POST_RECV of an initiator", EINVAL,
	       raw_write(context->cmd_fd, IB_USER_VERBS_CMD_POST_RECV, &recv, sizeof(recv), &response, sizeof(response)));
	recv.head.qp_handle = target.handle;
	expect("POST_RECV of a target", EINVAL,
	       raw_write(far->cmd_fd, IB_USER_VERBS_CMD_POST_RECV, &recv, sizeof(recv), &response, sizeof(response)));
	expect("a target of a domain that there is not", EINVAL, xrc_create_qp(far->cmd_fd, XRC_TGT, 4711, 0, &qp));
	expect("an initiator without a completion queue", ENOENT, xrc_create_qp(far->cmd_fd, XRC_INI, far_pd[0]->handle, 4711, &qp));
	expect("an initiator is not opened by its number", EINVAL, xrc_open_qp(far->cmd_fd, domains[0], initiator.number, &qp));
	expect("a target is not opened in another domain", EINVAL, xrc_open_qp(far->cmd_fd, domains[1], target.number, &qp));
	expect("a queue of a domain that there is not", EINVAL, xrc_create_srq(far_pd[0], far_cq, 4711, 4, &srq));
}

/* A queue goes while messages come to it: what was received is right, the sender learns it, and nothing comes afterwards. */
static void destroyed_under_traffic(bool loses)
{
	bool good = true, quiet = true, tells;
	int learned = 0;

	for (int round = 0; round < 12; round++) {
		struct xrc_srq srq;
		struct ibv_wc wc;

		connect_anew(7);
		if (xrc_create_srq(far_pd[0], far_cq, domains[0], DEPTH, &srq))
			die("a queue");
		for (int i = 0; i < DEPTH; i++)
			xrc_post_recv(&srq, i, far_memory, 65536, far_mr[0]->lkey);
		for (int i = 0; i < STREAM + 4; i++) {
			struct xrc_request request = {
				IBV_WR_SEND, srq.number, .length = 60000, .lkey = mr->lkey, .id = i, .at = memory,
			};

			/* On one device all that is posted may have arrived when the doorbell has rung. */
			if (i == STREAM) {
				xrc_doorbell(&initiator);
				usleep(round * 150);
				xrc_destroy_srq(&srq);
			}
			xrc_post_send(&initiator, &request);
		}
		xrc_doorbell(&initiator);
		while (ibv_poll_cq(far_cq, 1, &wc) == 1)
			good &= wc.status == IBV_WC_SUCCESS && wc.qp_num == target.number && wc.byte_len == 60000;
		for (int i = 0; i < STREAM + 4; i++) {
			wc = xrc_wait(cq, SOON);
			tells = wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR ||
				may_be_lost(loses, &wc);
			good &= tells || wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_WR_FLUSH_ERR;
			learned += tells;
		}
		quiet &= ibv_poll_cq(far_cq, 1, &wc) == 0;
	}
	verdict("queues are destroyed while messages come to them", good, false, "a completion is wrong");
	verdict("without completions afterwards", quiet, false, "there was one");
	snprintf(why, sizeof(why), "%d of 12", learned);
	verdict("which the sender has learned", learned == 12, false, why);
}

int main(int argc, char **argv)
{
	if (argc < 6)
		die("usage: DEVICE GID_INDEX TARGET_DEVICE TARGET_GID_INDEX FILE [MESSAGES [loses]]");
	arguments = argv;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	processes(argc > 6 ? atoi(argv[6]) : 400, argc > 7);
	initiator = (struct xrc_qp){ 0 };
	make_far();
	/* Each of them is refused by one NAK. */
	if (argc < 8)
		requests();
	commands();
	destroyed_under_traffic(argc > 7);
	unlink(argv[5]);
	return all_done();
}
