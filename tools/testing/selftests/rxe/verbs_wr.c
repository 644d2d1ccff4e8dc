// SPDX-License-Identifier: GPL-2.0
/*
 * Work requests of the extended interface: each ibv_wr_* and each way to give it data, over RC, UC and UD.
 *
 * librxe of rdma-core 56 takes the length of the first element of a list for that of each, sends nothing of ibv_wr_set_inline_data_list,
 * and knows inline data by its flag alone. So pieces are equally long here, the flag is set, and the last one is left out.
 *
 *   verbs_wr DEVICE GID_INDEX
 */
#include "verbs.h"
#include <arpa/inet.h>

#define IMMEDIATE 0x12345678
#define INLINE 128
#define DEPTH 16
#define UC_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define RC_OPS (UC_OPS | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
		IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define UD_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)

static struct end a, b;
static struct ibv_qp_ex *qa, *qb;
static struct ibv_cq_ex *cq_b;

/* The end gets a QP of the extended interface in place of the one that it has. */
static struct ibv_qp_ex *extended(struct end *end, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type, .send_cq = end->cq, .recv_cq = end->cq, .pd = pd, .send_ops_flags = ops,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .cap = { DEPTH, 64, 8, 8, INLINE },
	};

	ibv_destroy_qp(end->qp);
	end->qp = ibv_create_qp_ex(context, &init);
	if (!end->qp)
		die("ibv_create_qp_ex");
	return ibv_qp_to_qp_ex(end->qp);
}

static void both(enum ibv_qp_type type, uint64_t ops)
{
	struct setup setup = { .type = type };
	struct ibv_cq_init_attr_ex attr = { .cqe = 64, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM };

	end_init(&a, &setup);
	cq_b = ibv_create_cq_ex(context, &attr);
	if (!cq_b)
		die("ibv_create_cq_ex");
	b.channel = NULL;
	b.cq = ibv_cq_ex_to_cq(cq_b);
	end_on_cq(&b, &setup);
	qa = extended(&a, type, ops);
	qb = extended(&b, type, ops);
	pair_connect(&a, &b, &setup);
	fill_pattern(a.buffer, BUFFER, 0);
}

static void none(void)
{
	end_destroy(&a);
	end_destroy(&b);
}

static void begin(struct ibv_qp_ex *qp, uint64_t id)
{
	ibv_wr_start(qp);
	qp->wr_id = id;
	qp->wr_flags = IBV_SEND_SIGNALED;
}

static bool completes(struct end *end, uint64_t id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = wait_wc(end, 3000);

	return !wc.status && wc.wr_id == id && wc.opcode == opcode;
}

/* B's receive completed with so many bytes, which are those of A's buffer, and with the immediate or without. */
static const char *received(uint32_t length, uint32_t skip, bool immediate)
{
	struct ibv_wc wc = wait_wc(&b, 3000);

	if (wc.status || wc.wr_id != 88 || wc.byte_len != length + skip)
		return "the receiver's completion";
	if (!!(wc.wc_flags & IBV_WC_WITH_IMM) != immediate || (immediate && wc.imm_data != htonl(IMMEDIATE)))
		return "the immediate";
	if (skip && !(wc.wc_flags & IBV_WC_GRH))
		return "the GRH";
	return memcmp(a.buffer, b.buffer + skip, length) ? "data" : NULL;
}

static uint64_t there(uint32_t offset) { return (uintptr_t)b.buffer + offset; }

static bool is_there(uint32_t offset, const void *bytes, size_t length)
{
	return bytes_arrive(b.buffer + offset, bytes, length, a.qp->qp_type);
}

static void sge(struct ibv_qp_ex *qp, uint32_t length) { ibv_wr_set_sge(qp, a.mr->lkey, (uintptr_t)a.buffer, length); }

static const char *sent(void)
{
	post_receive(&b, 88, 0, 8192);
	begin(qa, 1);
	ibv_wr_send(qa);
	sge(qa, 3001);
	if (ibv_wr_complete(qa) || !completes(&a, 1, IBV_WC_SEND))
		return "the sender's completion";
	return received(3001, 0, false);
}

static const char *sent_with_imm(void)
{
	post_receive(&b, 88, 0, 8192);
	begin(qa, 2);
	ibv_wr_send_imm(qa, htonl(IMMEDIATE));
	sge(qa, 3001);
	if (ibv_wr_complete(qa) || !completes(&a, 2, IBV_WC_SEND))
		return "the sender's completion";
	return received(3001, 0, true);
}

static const char *written(void)
{
	begin(qa, 3);
	ibv_wr_rdma_write(qa, b.mr->rkey, there(64));
	sge(qa, 5001);
	if (ibv_wr_complete(qa) || !completes(&a, 3, IBV_WC_RDMA_WRITE))
		return "completion";
	return !is_there(64, a.buffer, 5001) || b.buffer[63] || b.buffer[64 + 5001] ? "data" : NULL;
}

static const char *written_with_imm(void)
{
	post_receive(&b, 88, 0, 0);
	begin(qa, 4);
	ibv_wr_rdma_write_imm(qa, b.mr->rkey, there(0), htonl(IMMEDIATE));
	sge(qa, 5001);
	if (ibv_wr_complete(qa) || !completes(&a, 4, IBV_WC_RDMA_WRITE))
		return "completion";
	return received(5001, 0, true);
}

static const char *read_back(void)
{
	for (int i = 0; i < 3000; i++)
		b.buffer[4096 + i] = i * 5 + 1;
	begin(qa, 5);
	ibv_wr_rdma_read(qa, b.mr->rkey, there(4096));
	sge(qa, 3000);
	if (ibv_wr_complete(qa) || !completes(&a, 5, IBV_WC_RDMA_READ))
		return "completion";
	return memcmp(a.buffer, b.buffer + 4096, 3000) ? "data" : NULL;
}

static const char *atomics(void)
{
	volatile uint64_t *target = (uint64_t *)b.buffer, *old = (uint64_t *)a.buffer;

	*target = 40;
	begin(qa, 6);
	ibv_wr_atomic_fetch_add(qa, b.mr->rkey, there(0), 2);
	sge(qa, 8);
	if (ibv_wr_complete(qa) || !completes(&a, 6, IBV_WC_FETCH_ADD) || *old != 40 || *target != 42)
		return "fetch and add";
	begin(qa, 7);
	ibv_wr_atomic_cmp_swp(qa, b.mr->rkey, there(0), 42, 7);
	sge(qa, 8);
	if (ibv_wr_complete(qa) || !completes(&a, 7, IBV_WC_COMP_SWAP) || *old != 42 || *target != 7)
		return "compare and swap";
	return NULL;
}

/* A list of pieces of an odd length, from the end of the buffer to its start. */
static const char *sge_list(void)
{
	struct ibv_sge list[8];
	char wanted[8 * 512];
	uint32_t total = 0;

	for (int i = 0; i < 8; i++) {
		list[i] = (struct ibv_sge){ (uintptr_t)a.buffer + (8 - i) * 1001, 333, a.mr->lkey };
		memcpy(wanted + total, (char *)(uintptr_t)list[i].addr, list[i].length);
		total += list[i].length;
	}
	begin(qa, 8);
	ibv_wr_rdma_write(qa, b.mr->rkey, there(0));
	ibv_wr_set_sge_list(qa, 8, list);
	if (ibv_wr_complete(qa) || !completes(&a, 8, IBV_WC_RDMA_WRITE))
		return "completion";
	return is_there(0, wanted, total) ? NULL : "data";
}

/* Inline data is taken at once, from memory of no region. */
static const char *inline_data(void)
{
	char text[INLINE];

	memset(text, 0x41, sizeof(text));
	begin(qa, 9);
	qa->wr_flags |= IBV_SEND_INLINE;
	ibv_wr_rdma_write(qa, b.mr->rkey, there(0));
	ibv_wr_set_inline_data(qa, text, sizeof(text));
	memset(text, 0x42, sizeof(text));
	if (ibv_wr_complete(qa) || !completes(&a, 9, IBV_WC_RDMA_WRITE))
		return "completion";
	memset(text, 0x41, sizeof(text));
	return is_there(0, text, sizeof(text)) ? NULL : "data";
}

/* A failure shows in ibv_wr_complete alone, and none of the requests of the batch is posted. */
static const char *refused_whole(void)
{
	static const char long_text[INLINE + 4096];
	struct ibv_sge list[64] = { 0 };

	memset(b.buffer, 0, 64);
	begin(qa, 11);
	ibv_wr_rdma_write(qa, b.mr->rkey, there(0));
	sge(qa, 64);
	qa->wr_flags |= IBV_SEND_INLINE;
	ibv_wr_rdma_write(qa, b.mr->rkey, there(0));
	ibv_wr_set_inline_data(qa, (void *)long_text, sizeof(long_text));
	if (!ibv_wr_complete(qa))
		return "too much inline data is taken";
	begin(qa, 12);
	ibv_wr_rdma_write(qa, b.mr->rkey, there(0));
	sge(qa, 64);
	ibv_wr_rdma_write(qa, b.mr->rkey, there(0));
	ibv_wr_set_sge_list(qa, 64, list);
	if (!ibv_wr_complete(qa))
		return "too many elements are taken";
	begin(qa, 13);
	for (int i = 0; i < 1000; i++) {
		ibv_wr_rdma_write(qa, b.mr->rkey, there(0));
		sge(qa, 64);
	}
	if (!ibv_wr_complete(qa))
		return "more requests than the queue holds are taken";
	if ((int)wait_wc(&a, 100).status != -1 || b.buffer[1])
		return "part of a batch was posted";
	return NULL;
}

/* What was begun and aborted has no effect; the queue goes on. */
static const char *aborted(void)
{
	memset(b.buffer, 0, 64);
	begin(qa, 14);
	for (int i = 0; i < DEPTH; i++) {
		ibv_wr_rdma_write(qa, b.mr->rkey, there(0));
		sge(qa, 64);
	}
	ibv_wr_abort(qa);
	if ((int)wait_wc(&a, 100).status != -1 || b.buffer[1])
		return "an aborted request was posted";
	begin(qa, 15);
	for (int i = 0; i < DEPTH; i++) {
		qa->wr_flags = i == DEPTH - 1 ? IBV_SEND_SIGNALED : 0;
		ibv_wr_rdma_write(qa, b.mr->rkey, there(0));
		sge(qa, 64);
	}
	if (ibv_wr_complete(qa) || !completes(&a, 15, IBV_WC_RDMA_WRITE) || !is_there(0, a.buffer, 64))
		return "the batch after it";
	return NULL;
}

/* A window of B, bound by B's own queue. */
static struct ibv_mw *window(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, b.buffer, BUFFER, ACCESS_ALL | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = { mr, (uintptr_t)b.buffer, BUFFER, IBV_ACCESS_REMOTE_WRITE };
	uint32_t key;

	if (!mr || !mw)
		die("a region and a window");
	key = ibv_inc_rkey(mw->rkey);
	begin(qb, 20);
	ibv_wr_bind_mw(qb, mw, key, &info);
	if (ibv_wr_complete(qb) || !completes(&b, 20, IBV_WC_BIND_MW))
		die("ibv_wr_bind_mw");
	mw->rkey = key;
	return mw;
}

static int write_by(uint32_t key)
{
	begin(qa, 21);
	ibv_wr_rdma_write(qa, key, there(0));
	sge(qa, 64);
	return ibv_wr_complete(qa) ? -2 : (int)wait_wc(&a, 3000).status;
}

static const char *invalidated_from_there(void)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_mw *mw = window();
	long until = now_ms() + 3000;
	bool told;

	if (write_by(mw->rkey))
		return "a write through the window";
	post_receive(&b, 88, 0, 8192);
	begin(qa, 22);
	ibv_wr_send_inv(qa, mw->rkey);
	sge(qa, 100);
	if (ibv_wr_complete(qa) || !completes(&a, 22, IBV_WC_SEND))
		return "the sender's completion";
	while (ibv_start_poll(cq_b, &attr))
		if (now_ms() > until)
			return "no completion at the receiver";
	told = !cq_b->status && cq_b->wr_id == 88 && ibv_wc_read_opcode(cq_b) == IBV_WC_RECV && ibv_wc_read_byte_len(cq_b) == 100 &&
	       ibv_wc_read_wc_flags(cq_b) & IBV_WC_WITH_INV && ibv_wc_read_invalidated_rkey(cq_b) == mw->rkey;
	ibv_end_poll(cq_b);
	if (write_by(mw->rkey) != IBV_WC_REM_ACCESS_ERR)
		return "the key still works";
	return told ? NULL : "the receiver is not told the key";
}

static const char *invalidated_here(void)
{
	struct ibv_mw *mw = window();

	begin(qb, 23);
	ibv_wr_local_inv(qb, mw->rkey);
	if (ibv_wr_complete(qb) || !completes(&b, 23, IBV_WC_LOCAL_INV))
		return "completion";
	return write_by(mw->rkey) == IBV_WC_REM_ACCESS_ERR ? NULL : "the key still works";
}

/* UD: the same, to an address. */
static struct ibv_ah *ah;

static void datagram(uint64_t id, bool immediate, bool in_line)
{
	post_receive(&b, 88, 0, 8192);
	begin(qa, id);
	qa->wr_flags |= in_line ? IBV_SEND_INLINE : 0;
	if (immediate)
		ibv_wr_send_imm(qa, htonl(IMMEDIATE));
	else
		ibv_wr_send(qa);
	ibv_wr_set_ud_addr(qa, ah, b.qp->qp_num, QKEY);
}

static const char *datagrams(void)
{
	struct ibv_ah_attr attr = address();
	struct ibv_sge list[2] = { { (uintptr_t)a.buffer, 277, a.mr->lkey }, { (uintptr_t)a.buffer + 277, 277, a.mr->lkey } };

	ah = ibv_create_ah(pd, &attr);
	if (!ah)
		return "ibv_create_ah";
	for (int way = 0; way < 3; way++) {
		static const uint32_t lengths[] = { 1000, 554, INLINE };
		const char *why;

		datagram(30 + way, way & 1, way == 2);
		if (way == 0)
			sge(qa, 1000);
		else if (way == 1)
			ibv_wr_set_sge_list(qa, 2, list);
		else
			ibv_wr_set_inline_data(qa, a.buffer, INLINE);
		if (ibv_wr_complete(qa) || !completes(&a, 30 + way, IBV_WC_SEND))
			return "the sender's completion";
		why = received(lengths[way], 40, way & 1);
		if (why)
			return why;
	}
	ibv_destroy_ah(ah);
	return NULL;
}

/* The device segments no packets of a program, so there is no ibv_wr_send_tso. */
static void no_segmentation(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	static const struct setup usual;

	end_init(&a, &usual);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct ibv_qp_init_attr_ex init = {
			.qp_type = types[i], .send_cq = a.cq, .recv_cq = a.cq, .pd = pd, .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO,
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .cap = { 8, 8, 1, 1, 0 },
		};
		struct ibv_qp *qp;

		errno = 0;
		qp = ibv_create_qp_ex(context, &init);
		verdict("ibv_wr_send_tso: EOPNOTSUPP", !qp && errno == EOPNOTSUPP, false, qp ? "created" : strerror(errno));
	}
	end_destroy(&a);
}

static const struct {
	const char *name;
	const char *(*tell)(void);
	enum ibv_qp_type type;
	bool known;
} cases[] = {
	{ "RC: ibv_wr_send", sent, IBV_QPT_RC },
	{ "RC: ibv_wr_send_imm", sent_with_imm, IBV_QPT_RC },
	{ "RC: ibv_wr_rdma_write", written, IBV_QPT_RC },
	{ "RC: ibv_wr_rdma_write_imm", written_with_imm, IBV_QPT_RC },
	{ "RC: ibv_wr_rdma_read", read_back, IBV_QPT_RC },
	{ "RC: ibv_wr_atomic_*", atomics, IBV_QPT_RC },
	{ "RC: ibv_wr_set_sge_list", sge_list, IBV_QPT_RC },
	{ "RC: ibv_wr_set_inline_data", inline_data, IBV_QPT_RC },
	{ "RC: a batch with an error", refused_whole, IBV_QPT_RC },
	{ "RC: ibv_wr_abort", aborted, IBV_QPT_RC },
	{ "RC: ibv_wr_send_inv, ibv_wc_read_invalidated_rkey", invalidated_from_there, IBV_QPT_RC, true },
	{ "RC: ibv_wr_bind_mw, ibv_wr_local_inv", invalidated_here, IBV_QPT_RC },
	{ "UC: ibv_wr_send", sent, IBV_QPT_UC },
	{ "UC: ibv_wr_send_imm", sent_with_imm, IBV_QPT_UC },
	{ "UC: ibv_wr_rdma_write", written, IBV_QPT_UC },
	{ "UC: ibv_wr_rdma_write_imm", written_with_imm, IBV_QPT_UC },
	{ "UC: ibv_wr_set_sge_list", sge_list, IBV_QPT_UC },
	{ "UC: ibv_wr_set_inline_data", inline_data, IBV_QPT_UC },
	{ "UC: ibv_wr_abort", aborted, IBV_QPT_UC },
	{ "UD: ibv_wr_send*, each way to give it data", datagrams, IBV_QPT_UD },
};

int main(int argc, char **argv)
{
	open_device(argc, argv);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		enum ibv_qp_type type = cases[i].type;
		const char *why;

		both(type, type == IBV_QPT_RC ? RC_OPS : type == IBV_QPT_UC ? UC_OPS : UD_OPS);
		why = cases[i].tell();
		verdict(cases[i].name, !why, cases[i].known, why);
		none();
	}
	no_segmentation();
	return all_done();
}
