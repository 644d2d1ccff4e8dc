// SPDX-License-Identifier: GPL-2.0
/*
 * Every operation between two QPs of one device, and every completion status that a program can provoke.
 *
 *   verbs_traffic DEVICE GID_INDEX
 */
#include "verbs.h"

#define NO_WC (-1)

/* A single request from A to B, and how it must end at both. */
struct single {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t length;
	int at_sender, at_receiver;	/* status; NO_WC */
	uint32_t receive;		/* bytes that B has posted, + 1; 0: nothing */
	struct setup setup;
	int mr_access;			/* B's target has only these rights, + 1 */
	int64_t shift;			/* of the remote address */
	uint64_t remote;		/* remote address, where not zero */
	uint32_t rkey_xor, lkey_xor;
	uint32_t local_shift;
	bool peer_in_error;
	bool known;			/* stock fails here */
};

#define W IBV_WR_RDMA_WRITE
#define R IBV_WR_RDMA_READ
#define S IBV_WR_SEND
#define FA IBV_WR_ATOMIC_FETCH_AND_ADD
#define OK IBV_WC_SUCCESS
#define ACCESS IBV_WC_REM_ACCESS_ERR
#define INVALID IBV_WC_REM_INV_REQ_ERR
#define PROT IBV_WC_LOC_PROT_ERR
#define LW IBV_ACCESS_LOCAL_WRITE

static const struct single singles[] = {
	{ "send", S, 3000, OK, OK, 4001 },
	{ "send, nothing in it", S, 0, OK, OK, 1 },
	{ "send with immediate", IBV_WR_SEND_WITH_IMM, 3000, OK, OK, 4001 },
	{ "send, exactly as long as the receive", S, 3001, OK, OK, 3002 },
	{ "write", W, 3001, OK, NO_WC },
	{ "write, nothing in it", W, 0, OK, NO_WC },
	{ "write with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, 3001, OK, OK, 1 },
	{ "write of 200 KiB, MTU 256", W, 200 * 1024, OK, NO_WC, .setup.mtu = IBV_MTU_256 },
	{ "read", R, 3001, OK, NO_WC },
	{ "read, nothing in it", R, 0, OK, NO_WC },
	{ "read of 200 KiB, MTU 256", R, 200 * 1024, OK, NO_WC, .setup.mtu = IBV_MTU_256 },
	{ "write to the last byte", W, 100, OK, NO_WC, .shift = BUFFER - 100 },
	{ "PSNs wrap in a write", W, 65536, OK, NO_WC, .setup = { .mtu = IBV_MTU_256, .psn = 0xfffff0 } },
	{ "PSNs wrap in a read", R, 65536, OK, NO_WC, .setup = { .mtu = IBV_MTU_256, .psn = 0xfffff0 } },
	{ "fetch and add", FA, 8, OK, NO_WC },
	{ "UC send", S, 3000, OK, OK, 4001, .setup.type = IBV_QPT_UC },
	{ "UC send with immediate", IBV_WR_SEND_WITH_IMM, 3000, OK, OK, 4001, .setup.type = IBV_QPT_UC },
	{ "UC write", W, 3000, OK, NO_WC, .setup.type = IBV_QPT_UC },
	{ "UC write with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, 3000, OK, OK, 1, .setup.type = IBV_QPT_UC },
	{ "UC send without a receive is lost", S, 100, OK, NO_WC, .setup.type = IBV_QPT_UC },
	{ "UC write with a bad key is lost", W, 100, OK, NO_WC, .rkey_xor = 0x5500, .setup.type = IBV_QPT_UC },

	{ "LOC_QP_OP_ERR: UC read", R, 100, IBV_WC_LOC_QP_OP_ERR, NO_WC, .setup.type = IBV_QPT_UC, .known = true },
	{ "LOC_QP_OP_ERR: UC atomic", FA, 8, IBV_WC_LOC_QP_OP_ERR, NO_WC, .setup.type = IBV_QPT_UC, .known = true },
	{ "LOC_PROT_ERR: send with a bad key", S, 100, PROT, NO_WC, 1001, .lkey_xor = 0x5500, .known = true },
	{ "LOC_PROT_ERR: write beyond the region", W, 100, PROT, NO_WC, .local_shift = BUFFER - 99, .known = true },
	{ "LOC_PROT_ERR: read with a bad key", R, 100, PROT, NO_WC, .lkey_xor = 0x5500 },
	{ "REM_INV_REQ_ERR and LOC_LEN_ERR: short receive", S, 3000, INVALID, IBV_WC_LOC_LEN_ERR, 1001, .known = true },
	{ "REM_INV_REQ_ERR: short receive", S, 3000, INVALID, -2, 1001, .known = true },
	{ "REM_ACCESS_ERR: write with a bad key", W, 100, ACCESS, NO_WC, .rkey_xor = 0x5500 },
	{ "REM_ACCESS_ERR: write before the region", W, 100, ACCESS, NO_WC, .shift = -1 },
	{ "REM_ACCESS_ERR: write one byte too far", W, 100, ACCESS, NO_WC, .shift = BUFFER - 99 },
	{ "REM_ACCESS_ERR: write, address wraps", W, 100, ACCESS, NO_WC, .remote = UINT64_MAX - 10 },
	{ "REM_ACCESS_ERR: read, address wraps", R, 100, ACCESS, NO_WC, .remote = UINT64_MAX - 10 },
	{ "REM_ACCESS_ERR: read with a bad key", R, 100, ACCESS, NO_WC, .rkey_xor = 0x5500 },
	{ "REM_ACCESS_ERR: read one byte too far", R, 100, ACCESS, NO_WC, .shift = BUFFER - 99 },
	{ "REM_ACCESS_ERR: atomic with a bad key", FA, 8, ACCESS, NO_WC, .rkey_xor = 0x5500 },
	{ "REM_ACCESS_ERR: region without REMOTE_WRITE", W, 100, ACCESS, NO_WC, .mr_access = 1 + (LW | IBV_ACCESS_REMOTE_READ) },
	{ "REM_ACCESS_ERR: region without REMOTE_READ", R, 100, ACCESS, NO_WC, .mr_access = 1 + (LW | IBV_ACCESS_REMOTE_WRITE) },
	{ "REM_ACCESS_ERR: region without REMOTE_ATOMIC", FA, 8, ACCESS, NO_WC, .mr_access = 1 + (LW | IBV_ACCESS_REMOTE_WRITE) },
	{ "REM_INV_REQ_ERR: QP without REMOTE_WRITE", W, 100, INVALID, NO_WC, .setup.access = 1 + IBV_ACCESS_REMOTE_READ },
	{ "REM_INV_REQ_ERR: QP without REMOTE_READ", R, 100, INVALID, NO_WC, .setup.access = 1 + IBV_ACCESS_REMOTE_WRITE },
	{ "REM_INV_REQ_ERR: QP without REMOTE_ATOMIC", FA, 8, INVALID, NO_WC, .setup.access = 1 + IBV_ACCESS_REMOTE_WRITE },
	{ "RNR_RETRY_EXC_ERR", S, 100, IBV_WC_RNR_RETRY_EXC_ERR, NO_WC, .setup.rnr_retry_zero = 1 },
	{ "RNR_RETRY_EXC_ERR: write with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, 100, IBV_WC_RNR_RETRY_EXC_ERR, NO_WC,
	  .setup.rnr_retry_zero = 1 },
	{ "RETRY_EXC_ERR: the peer is in ERR", W, 100, IBV_WC_RETRY_EXC_ERR, NO_WC, .peer_in_error = true },
};

static enum ibv_wc_opcode sender_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_SEND;
	}
}

/* What successful completions and the memory must say. */
static const char *check_success(const struct single *t, struct end *a, struct end *b, struct ibv_wc *ac, struct ibv_wc *bc,
				 int64_t offset)
{
	bool imm = t->opcode == IBV_WR_SEND_WITH_IMM || t->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool lost = t->setup.type == IBV_QPT_UC && (t->rkey_xor || (t->opcode == IBV_WR_SEND && !t->receive));

	if (ac->opcode != sender_opcode(t->opcode) || ac->wr_id != 77)
		return "sender's opcode or wr_id";
	if (t->opcode == FA) {
		uint64_t old, new;

		memcpy(&old, a->buffer, 8);
		memcpy(&new, b->buffer, 8);
		return old == 0x0202020202020202 && new == old + 5 ? NULL : "values";
	}
	if (!lost && !bytes_arrive(b->buffer + offset, a->buffer, t->length, t->setup.type))
		return "data";
	if (lost && t->length && !memcmp(a->buffer, b->buffer + offset, t->length))
		return "data arrived";
	if (t->at_receiver != OK)
		return NULL;
	if (bc->wr_id != 88 || bc->byte_len != t->length || bc->qp_num != b->qp->qp_num)
		return "receiver's wr_id, byte_len or qp_num";
	if (bc->opcode != (t->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV))
		return "receiver's opcode";
	if (!!(bc->wc_flags & IBV_WC_WITH_IMM) != imm || (imm && bc->imm_data != htobe32(0xfeedbeef)))
		return "immediate data";
	return NULL;
}

static void run_single(const struct single *t)
{
	struct end a, b;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_wc ac, bc = { .status = NO_WC };
	struct ibv_mr *target;
	const char *why = NULL;
	char text[128];
	uint64_t remote;
	uint32_t rkey;
	bool good;

	pair_init(&a, &b, &t->setup);
	target = t->mr_access ? ibv_reg_mr(pd, b.buffer, BUFFER, t->mr_access - 1) : b.mr;
	memset(a.buffer, t->opcode == R ? 3 : 1, BUFFER);
	memset(b.buffer, 2, BUFFER);
	if (t->receive)
		post_receive(&b, 88, 0, t->receive - 1);
	if (t->peer_in_error)
		move(b.qp, IBV_QPS_ERR);

	sge = (struct ibv_sge){ (uintptr_t)a.buffer + t->local_shift, t->length, a.mr->lkey ^ t->lkey_xor };
	remote = t->remote ? t->remote : (uintptr_t)b.buffer + t->shift;
	rkey = target->rkey ^ t->rkey_xor;
	wr = request_at(t->opcode, &sge, remote, rkey);
	wr.wr_id = 77;
	if (t->opcode == FA)
		wr.wr.atomic.compare_add = 5;
	wr.imm_data = htobe32(0xfeedbeef);
	if (post(&a, &wr))
		why = "post_send failed";
	ac = wait_wc(&a, 5000);
	if (t->at_receiver != NO_WC)
		bc = wait_wc(&b, 5000);
	good = !why && (int)ac.status == t->at_sender && (t->at_receiver == -2 || (int)bc.status == t->at_receiver);
	if (!good)
		snprintf(text, sizeof(text), "sender %s, receiver %s%s", (int)ac.status < 0 ? "none" : ibv_wc_status_str(ac.status),
			 (int)bc.status < 0 ? "none" : ibv_wc_status_str(bc.status), why ? why : "");
	else if (t->at_sender == OK) {
		usleep(t->setup.type == IBV_QPT_UC ? 50000 : 0);
		why = check_success(t, &a, &b, &ac, &bc, t->shift);
		good = !why;
		snprintf(text, sizeof(text), "wrong: %s", why ? why : "");
	}
	verdict(t->name, good, t->known, text);
	if (target != b.mr)
		ibv_dereg_mr(target);
	end_destroy(&a);
	end_destroy(&b);
}

/* Longer stories: each returns NULL, or what was wrong. */

static const char *compare_and_swap(struct end *a, struct end *b)
{
	static const struct { uint64_t before, compare, swap, after; } t[] = { { 7, 7, 9, 9 }, { 7, 8, 9, 7 } };
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(a, b, IBV_WR_ATOMIC_CMP_AND_SWP, &sge);

	sge.length = 8;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct ibv_wc wc;

		*(volatile uint64_t *)b->buffer = t[i].before;
		wr.wr.atomic.compare_add = t[i].compare;
		wr.wr.atomic.swap = t[i].swap;
		if (post(a, &wr))
			return "post";
		wc = wait_wc(a, 2000);
		if (wc.status || wc.opcode != IBV_WC_COMP_SWAP)
			return "completion";
		if (*(volatile uint64_t *)a->buffer != t[i].before || *(volatile uint64_t *)b->buffer != t[i].after)
			return "values";
	}
	return NULL;
}

static const char *scatter_gather(struct end *a, struct end *b)
{
	struct ibv_sge out[32], in[32];
	struct ibv_send_wr wr = request(a, b, IBV_WR_SEND, out), *bad;
	struct ibv_recv_wr receive = { .sg_list = in, .num_sge = 32 }, *bad_receive;
	uint32_t total = 0, received = 0, at = 0;
	char sent[32768], got[32768];

	for (int i = 0; i < 32; i++) {
		out[i] = (struct ibv_sge){ (uintptr_t)a->buffer + i * 2000 + i, 37 * i + 1, a->mr->lkey };
		in[i] = (struct ibv_sge){ (uintptr_t)b->buffer + i * 2000 + 7, 700 + i, b->mr->lkey };
		for (uint32_t j = 0; j < out[i].length; j++)
			((char *)(uintptr_t)out[i].addr)[j] = sent[total++] = rand();
	}
	wr.num_sge = 32;
	if (ibv_post_recv(b->qp, &receive, &bad_receive) || ibv_post_send(a->qp, &wr, &bad))
		return "post";
	if (wait_wc(a, 2000).status || wait_wc(b, 2000).byte_len != total)
		return "completion";
	while (received < total) {
		uint32_t n = in[at].length < total - received ? in[at].length : total - received;

		memcpy(got + received, (char *)(uintptr_t)in[at++].addr, n);
		received += n;
	}
	return memcmp(sent, got, total) ? "data" : NULL;
}

static const char *inline_data(struct end *a, struct end *b)
{
	char text[] = "on the stack, in no memory region";
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(a, b, IBV_WR_SEND, &sge);

	sge = (struct ibv_sge){ (uintptr_t)text, sizeof(text), 0 };
	wr.send_flags |= IBV_SEND_INLINE;
	if (post_receive(b, 1, 0, 100) || post(a, &wr))
		return "post";
	memset(text, 'x', sizeof(text) - 1);
	if (wait_wc(a, 2000).status || wait_wc(b, 2000).byte_len != sizeof(text))
		return "completion";
	return strcmp(b->buffer, "on the stack, in no memory region") ? "data" : NULL;
}

static const char *first_error_then_flush(struct end *a, struct end *b)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(a, b, IBV_WR_RDMA_WRITE, &sge);
	struct ibv_wc wc;

	sge.length = 64;
	post_receive(a, 100, 0, 64);
	wr.wr.rdma.rkey ^= 0x5500;
	wr.send_flags = 0; /* an error completes all the same */
	for (int i = 0; i < 4; i++, wr.wr.rdma.rkey = b->mr->rkey) {
		wr.wr_id = i;
		if (post(a, &wr))
			return "post";
	}
	wc = wait_wc(a, 2000);
	if (wc.status != IBV_WC_REM_ACCESS_ERR || wc.wr_id != 0)
		return "the first completion";
	for (int i = 0; i < 4; i++) {
		wc = wait_wc(a, 2000);
		if (wc.status != IBV_WC_WR_FLUSH_ERR)
			return "a later completion is not a flush";
	}
	return (int)wait_wc(a, 50).status == -1 ? NULL : "too many completions";
}

static const char *flush_by_modify(struct end *a, struct end *b)
{
	(void)b;
	for (int i = 0; i < 10; i++)
		post_receive(a, i, 0, 64);
	if (move(a->qp, IBV_QPS_ERR))
		return "modify";
	for (int i = 0; i < 10; i++) {
		struct ibv_wc wc = wait_wc(a, 2000);

		if (wc.status != IBV_WC_WR_FLUSH_ERR || wc.wr_id != (uint64_t)i)
			return "status or order";
	}
	return NULL;
}

static const char *late_receive(struct end *a, struct end *b)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(a, b, IBV_WR_SEND, &sge);

	struct ibv_wc wc;

	sge.length = 5000;
	if (post(a, &wr))
		return "post";
	wc = wait_wc(a, 50);
	if ((int)wc.status != -1)
		return ibv_wc_status_str(wc.status);
	post_receive(b, 1, 0, 5000);
	wc = wait_wc(a, 5000);
	if (wc.status)
		return (int)wc.status == -1 ? "it never completes" : ibv_wc_status_str(wc.status);
	return wait_wc(b, 1000).byte_len == 5000 ? NULL : "the receiver's completion";
}

static const char *selective_signaling(struct end *a, struct end *b)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(a, b, IBV_WR_RDMA_WRITE, &sge);

	sge.length = 100;
	for (int i = 0; i < 200; i++) { /* more than the queue holds: unsignaled ones are taken back too */
		wr.wr_id = i;
		wr.send_flags = i % 8 == 7 ? IBV_SEND_SIGNALED : 0;
		if (post(a, &wr))
			return "post";
		if (i % 8 == 7 && wait_wc(a, 2000).wr_id != (uint64_t)i)
			return "completion";
	}
	return (int)wait_wc(a, 20).status == -1 ? NULL : "too many completions";
}

static const char *full_queues(struct end *a, struct end *b)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(a, b, IBV_WR_SEND, &sge);
	int sends = 0, receives = 0;

	sge.length = 8;
	while (sends < 10000 && !post(a, &wr))
		sends++;
	while (receives < 10000 && !post_receive(b, receives, 0, 8))
		receives++;
	if (sends < 64 || sends == 10000 || receives < 64 || receives == 10000)
		return "queues are not bounded by their size";
	for (int i = 0; i < sends && i < receives; i++) {
		struct ibv_wc wc = wait_wc(a, 2000);

		if (wc.status)
			return (int)wc.status == -1 ? "too few completions" : ibv_wc_status_str(wc.status);
		if (wait_wc(b, 2000).wr_id != (uint64_t)i)
			return "completions of receives";
	}
	return NULL;
}

static const char *bad_request_in_a_list(struct end *a, struct end *b)
{
	struct ibv_sge sge[5];
	struct ibv_send_wr wr[5], *bad = NULL;

	for (int i = 0; i < 5; i++) {
		wr[i] = request(a, b, IBV_WR_RDMA_WRITE, &sge[i]);
		sge[i].length = 8;
		wr[i].wr_id = i;
		wr[i].next = i < 4 ? &wr[i + 1] : NULL;
	}
	wr[2].num_sge = 100;
	if (!ibv_post_send(a->qp, wr, &bad))
		return "the list was taken";
	if (bad != &wr[2])
		return "bad_wr";
	if (wait_wc(a, 2000).wr_id != 0 || wait_wc(a, 2000).wr_id != 1)
		return "the requests before it";
	return (int)wait_wc(a, 50).status == -1 ? NULL : "too many completions";
}

static bool notified(struct end *end, int ms)
{
	struct pollfd fd = { .fd = end->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *cq_context;

	if (poll(&fd, 1, ms) != 1 || ibv_get_cq_event(end->channel, &cq, &cq_context))
		return false;
	ibv_ack_cq_events(cq, 1);
	return true;
}

static const char *solicited(struct end *a, struct end *b)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(a, b, IBV_WR_SEND, &sge);

	sge.length = 8;
	for (int i = 0; i < 5; i++)
		post_receive(b, i, 0, 8);
	if (ibv_req_notify_cq(b->cq, 1) || post(a, &wr) || wait_wc(a, 2000).status)
		return "post";
	if (notified(b, 100))
		return "an event for an unsolicited completion";
	wr.send_flags |= IBV_SEND_SOLICITED;
	if (post(a, &wr) || !notified(b, 2000))
		return "no event for a solicited completion";
	if (post(a, &wr) || notified(b, 100))
		return "an event without a request for it";
	if (ibv_req_notify_cq(b->cq, 0) || post(a, &wr) || !notified(b, 2000))
		return "no event for the next completion";
	/* A request for any completion is not narrowed by one for solicited ones. */
	wr.send_flags &= ~IBV_SEND_SOLICITED;
	if (ibv_req_notify_cq(b->cq, 0) || ibv_req_notify_cq(b->cq, 1) || post(a, &wr) || !notified(b, 2000))
		return "no event for the next completion, when solicited ones were asked for after it";
	return NULL;
}

static const char *access_event(struct end *a, struct end *b)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(a, b, IBV_WR_RDMA_WRITE, &sge);

	sge.length = 8;
	wr.wr.rdma.rkey ^= 0x5500;
	if (post(a, &wr) || wait_wc(a, 2000).status != IBV_WC_REM_ACCESS_ERR)
		return "completion";
	return event_comes(IBV_EVENT_QP_ACCESS_ERR, 1000) ? NULL : "no event";
}

static const char *cq_overflow(struct end *a, struct end *b)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(a, b, IBV_WR_RDMA_WRITE, &sge);

	sge.length = 8;
	for (int i = 0; i < 60; i++) /* the CQ has room for 2 (up to 15 when rounded up) */
		if (post(a, &wr))
			return "post";
	return event_comes(IBV_EVENT_CQ_ERR, 2000) ? NULL : "no CQ_ERR";
}

static const char *many_in_flight(struct end *a, struct end *b)
{
	struct ibv_sge sge;
	uint64_t sum;

	memset(b->buffer, 0, 8);
	for (int i = 0; i < 600; i++) { /* more reads and atomics than max_rd_atomic at a time */
		struct ibv_send_wr wr = request(a, b, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);

		sge.addr += 4096;
		sge.length = i % 2 ? 3000 : 8;
		if (i % 2 == 0)
			wr.wr.atomic.compare_add = 1;
		if (post(a, &wr))
			return "post";
		if (i >= 32 && wait_wc(a, 2000).status)
			return "completion";
	}
	for (int i = 0; i < 32; i++)
		if (wait_wc(a, 2000).status)
			return "completion at the end";
	memcpy(&sum, b->buffer, 8);
	return sum == 300 ? NULL : "an atomic was lost or done twice";
}

static const char *fence(struct end *a, struct end *b)
{
	struct ibv_sge in, out;
	struct ibv_send_wr read = request(a, b, IBV_WR_RDMA_READ, &in), send = request(a, b, IBV_WR_SEND, &out);

	memset(b->buffer, 5, 32768);
	in.length = out.length = 32768;
	send.send_flags |= IBV_SEND_FENCE;
	read.next = &send;
	if (post_receive(b, 1, 65536, 32768) || post(a, &read))
		return "post";
	if (wait_wc(a, 2000).status || wait_wc(a, 2000).status || wait_wc(b, 2000).status)
		return "completion";
	return memcmp(b->buffer, b->buffer + 65536, 32768) ? "the send carried old data" : NULL;
}

static const char *unregistered_later(struct end *a, struct end *b)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(a, b, IBV_WR_RDMA_WRITE, &sge);
	struct ibv_mr *mr = ibv_reg_mr(pd, b->buffer, 4096, ACCESS_ALL);

	wr.wr.rdma.rkey = mr->rkey;
	sge.length = 8;
	if (post(a, &wr) || wait_wc(a, 2000).status)
		return "before";
	ibv_dereg_mr(mr);
	if (post(a, &wr) || wait_wc(a, 2000).status != IBV_WC_REM_ACCESS_ERR)
		return "the old key still works";
	return NULL;
}

static const char *reuse(struct end *a, struct end *b)
{
	static const struct setup usual;
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(a, b, IBV_WR_SEND, &sge);

	sge.length = 3000;
	for (int i = 0; i < 1000; i++) {
		if (move(a->qp, IBV_QPS_RESET) || move(b->qp, IBV_QPS_RESET) ||
		    climb(a->qp, IBV_QPS_RTS, &usual, b->qp->qp_num) || climb(b->qp, IBV_QPS_RTS, &usual, a->qp->qp_num))
			return "modify";
		if (post_receive(b, i, 0, 3000) || post(a, &wr))
			return "post";
		if (wait_wc(a, 2000).status || wait_wc(b, 2000).wr_id != (uint64_t)i)
			return "traffic";
	}
	return NULL;
}

static const char *drain(struct end *a, struct end *b)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_qp_init_attr init;
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(a, b, IBV_WR_RDMA_WRITE, &sge);

	sge.length = 65536;
	for (int i = 0; i < 8; i++)
		if (post(a, &wr))
			return "post";
	if (ibv_modify_qp(a->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY))
		return "modify to SQD";
	if (!event_comes(IBV_EVENT_SQ_DRAINED, 3000))
		return "no SQ_DRAINED";
	if (ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init) || attr.qp_state != IBV_QPS_SQD || attr.sq_draining)
		return "query says that it is not drained";
	if (move(a->qp, IBV_QPS_RTS))
		return "modify back to RTS";
	for (int i = 0; i < 8; i++) {
		struct ibv_wc wc = wait_wc(a, 3000);

		if (wc.status)
			return (int)wc.status == -1 ? "too few completions" : ibv_wc_status_str(wc.status);
	}
	return NULL;
}

static const struct story {
	const char *name;
	const char *(*tell)(struct end *a, struct end *b);
	struct setup setup;
	bool known;
} stories[] = {
	{ "compare and swap", compare_and_swap },
	{ "scatter and gather lists of odd lengths", scatter_gather },
	{ "inline data of no region, reusable at once", inline_data },
	{ "first error, then flushes, signaled or not", first_error_then_flush },
	{ "WR_FLUSH_ERR by modify to ERR", flush_by_modify },
	{ "RNR: a late receive is waited for", late_receive, { .min_rnr_timer = 12 } },
	{ "selective signaling", selective_signaling },
	{ "full queues refuse", full_queues, { .min_rnr_timer = 12 } },
	{ "bad request in the middle of a list", bad_request_in_a_list },
	{ "CQ armed for solicited completions", solicited },
	{ "more reads and atomics than max_rd_atomic", many_in_flight },
	{ "fence", fence },
	{ "a key is dead after dereg_mr", unregistered_later },
	{ "QP_ACCESS_ERR at the responder", access_event, .known = true },
	{ "CQ_ERR when a CQ overflows", cq_overflow, { .cqe = 2 } },
	{ "SQD drains and goes on", drain, .known = true },
	{ "1,000 lives of two QPs", reuse },
};

/* UD: one QP that talks to itself. */
static void datagrams(void)
{
	static const struct setup ud = { .type = IBV_QPT_UD };
	struct ibv_ah_attr attr = address();
	struct ibv_ah *ah;
	struct ibv_port_attr port;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_wc wc;
	struct end a;

	end_init(&a, &ud);
	if (climb(a.qp, IBV_QPS_RTS, &ud, 0))
		die("UD to RTS");
	ah = ibv_create_ah(pd, &attr);
	verdict("UD: AH", ah, false, strerror(errno));
	if (!ah)
		return;
	wr = request(&a, &a, IBV_WR_SEND_WITH_IMM, &sge);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = a.qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	wr.imm_data = 5;
	sge.length = 1000;
	memset(a.buffer, 9, 1000);
	post_receive(&a, 1, 4096, 1040);
	post(&a, &wr);
	wc = wait_wc(&a, 2000);
	if (wc.opcode != IBV_WC_RECV)
		wc = wait_wc(&a, 2000);
	else
		wait_wc(&a, 2000);
	verdict("UD: 40 bytes of GRH before the data", wc.status == IBV_WC_SUCCESS && wc.byte_len == 1040 && wc.src_qp == a.qp->qp_num &&
		wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM) && wc.imm_data == 5 && !wc.pkey_index && !wc.slid && !wc.dlid_path_bits &&
		!memcmp(a.buffer, a.buffer + 4096 + 40, 1000),
		false, ibv_wc_status_str(wc.status));

	post_receive(&a, 2, 4096, 1040);
	wr.wr.ud.remote_qkey = QKEY + 1;
	post(&a, &wr);
	wc = wait_wc(&a, 2000);
	verdict("UD: a wrong Q_Key is dropped", wc.opcode == IBV_WC_SEND && !wc.status && (int)wait_wc(&a, 100).status == -1, false, "delivered");

	ibv_query_port(context, 1, &port);
	wr.wr.ud.remote_qkey = QKEY;
	sge.length = (128 << port.active_mtu) + 1;
	wc.status = IBV_WC_LOC_LEN_ERR;
	if (!post(&a, &wr))
		wc = wait_wc(&a, 1000);
	verdict("UD: LOC_LEN_ERR beyond the MTU", wc.status == IBV_WC_LOC_LEN_ERR, true,
		(int)wc.status < 0 ? "none" : ibv_wc_status_str(wc.status));
	ibv_destroy_ah(ah);
	end_destroy(&a);
}

/* Sets the MTU of the net device, and waits until the port has followed. */
static void set_mtu(const char *netdev, int mtu, enum ibv_mtu active)
{
	struct ibv_port_attr port;
	long until = now_ms() + 5000;
	char command[80];

	snprintf(command, sizeof(command), "ip link set %s mtu %d", netdev, mtu);
	if (system(command))
		die(command);
	while (ibv_query_port(context, 1, &port) || port.active_mtu != active) {
		if (now_ms() > until)
			die("the port follows its net device");
		usleep(1000);
	}
}

/* A datagram may be as long as the port's MTU is now, whatever it was when the QP was made. */
static void datagrams_after_mtu(const char *netdev)
{
	static const struct setup ud = { .type = IBV_QPT_UD };
	struct ibv_ah_attr attr = address();
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct end a;
	int nth;

	set_mtu(netdev, 1500, IBV_MTU_1024);
	end_init(&a, &ud);
	if (climb(a.qp, IBV_QPS_RTS, &ud, 0))
		die("UD to RTS");
	ah = ibv_create_ah(pd, &attr);
	if (!ah)
		die("UD: AH");
	set_mtu(netdev, 4200, IBV_MTU_4096);
	wr = request(&a, &a, IBV_WR_SEND, &sge);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = a.qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	sge.length = 4096;
	memset(a.buffer, 7, 4096);
	post_receive(&a, 1, 8192, 4096 + 40);
	post(&a, &wr);
	for (nth = 0; nth < 2; nth++) {
		wc = wait_wc(&a, 2000);
		verdict("UD: sent and received at a larger MTU", wc.status == IBV_WC_SUCCESS, false, (int)wc.status < 0 ? "no completion" : ibv_wc_status_str(wc.status));
	}
	verdict("UD: all of it", !memcmp(a.buffer, a.buffer + 8192 + 40, 4096), false, "other bytes");
	ibv_destroy_ah(ah);
	end_destroy(&a);
}

/* A request of a QP whose address is not that of the peer is dropped: B's peer has the IPv6 address of this device, A sends by IPv4. */
static void other_address(void)
{
	static const struct setup rc = { 0 };
	union ibv_gid usual = gid;
	int usual_index = gid_index;
	struct ibv_gid_entry entry;
	struct end a, b;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	end_init(&a, &rc);
	end_init(&b, &rc);
	if (climb(a.qp, IBV_QPS_RTS, &rc, b.qp->qp_num))
		die("connect A");
	for (int i = 0; i < 16; i++) /* the address fd00::1 */
		if (!ibv_query_gid_ex(context, 1, i, &entry, 0) && entry.gid.raw[0] == 0xfd)
			gid = entry.gid, gid_index = i;
	if (gid_index == usual_index || climb(b.qp, IBV_QPS_RTS, &rc, a.qp->qp_num))
		die("connect B");
	gid = usual;
	gid_index = usual_index;
	memset(a.buffer, 1, 4096);
	wr = request(&a, &b, IBV_WR_RDMA_WRITE, &sge);
	sge.length = 4096;
	wc.status = -1;
	if (!post(&a, &wr))
		wc = wait_wc(&a, 5000);
	verdict("RETRY_EXC_ERR: the peer's peer has another address", wc.status == IBV_WC_RETRY_EXC_ERR && !b.buffer[0] && !b.buffer[4095], false,
		(int)wc.status < 0 ? "none" : ibv_wc_status_str(wc.status));
	end_destroy(&a);
	end_destroy(&b);
}

int main(int argc, char **argv)
{
	open_device(argc, argv);
	if (argc < 4)
		die("usage: DEVICE GID_INDEX NETDEV");
	for (size_t i = 0; i < ARRAY_SIZE(singles); i++)
		run_single(&singles[i]);
	for (size_t i = 0; i < ARRAY_SIZE(stories); i++) {
		struct end a, b;
		const char *why;

		pair_init(&a, &b, &stories[i].setup);
		while (wait_event(0) != -1)
			;
		why = stories[i].tell(&a, &b);
		verdict(stories[i].name, !why, stories[i].known, why);
		end_destroy(&a);
		end_destroy(&b);
	}
	other_address();
	datagrams();
	datagrams_after_mtu(argv[3]);
	return all_done();
}
