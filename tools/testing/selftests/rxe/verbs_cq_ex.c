// SPDX-License-Identifier: GPL-2.0
/*
 * Extended completion queues: ibv_start_poll, ibv_next_poll, ibv_end_poll, and each ibv_wc_read_* of a device without LIDs, for what
 * two queue pairs of one device complete. See verbs.h.
 */
#include "verbs.h"
#include <arpa/inet.h>

#define IMMEDIATE 0x12345678
#define ALL (IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | \
	     IBV_WC_EX_WITH_SL | IBV_WC_EX_WITH_DLID_PATH_BITS)

/* Everything that a completion tells. */
struct told {
	uint64_t wr_id;
	int status, opcode;
	uint32_t vendor_err, byte_len, imm, qp_num, src_qp, slid;
	unsigned int flags;
	uint8_t sl, path_bits;
};

static struct end a, b;
static struct ibv_cq_ex *cq_a, *cq_b;

static struct ibv_cq_ex *make(struct end *end, const struct setup *setup)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 64, .wc_flags = ALL };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

	if (!cq)
		die("ibv_create_cq_ex");
	end->cq = ibv_cq_ex_to_cq(cq);
	end_on_cq(end, setup);
	return cq;
}

static void both(enum ibv_qp_type type)
{
	struct setup setup = { .type = type };

	cq_a = make(&a, &setup);
	cq_b = make(&b, &setup);
	pair_connect(&a, &b, &setup);
}

static void none(void)
{
	end_destroy(&a);
	end_destroy(&b);
}

static struct told read_all(struct ibv_cq_ex *cq)
{
	return (struct told){
		.wr_id = cq->wr_id, .status = cq->status, .opcode = ibv_wc_read_opcode(cq), .vendor_err = ibv_wc_read_vendor_err(cq),
		.byte_len = ibv_wc_read_byte_len(cq), .imm = ntohl(ibv_wc_read_imm_data(cq)), .qp_num = ibv_wc_read_qp_num(cq),
		.src_qp = ibv_wc_read_src_qp(cq), .flags = ibv_wc_read_wc_flags(cq), .slid = ibv_wc_read_slid(cq),
		.sl = ibv_wc_read_sl(cq), .path_bits = ibv_wc_read_dlid_path_bits(cq),
	};
}

/* Waits until a poll begins; an errno. */
static int start(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };
	long until = now_ms() + 3000;
	int error;

	while ((error = ibv_start_poll(cq, &attr)) == ENOENT && now_ms() < until)
		usleep(200);
	return error;
}

/* One completion, and none behind it. */
static struct told one(struct ibv_cq_ex *cq)
{
	struct told told = { .status = -1 };

	if (start(cq))
		return told;
	told = read_all(cq);
	if (ibv_next_poll(cq) != ENOENT)
		told.status = -2;
	ibv_end_poll(cq);
	return told;
}

static void is(const char *name, bool good, const struct told *told)
{
	char why[256];

	snprintf(why, sizeof(why), "id %llx status %d opcode %d vendor %u length %u imm %x qp %u src %u flags %x slid %u sl %u bits %u",
		 (unsigned long long)told->wr_id, told->status, told->opcode, told->vendor_err, told->byte_len, told->imm, told->qp_num,
		 told->src_qp, told->flags, told->slid, told->sl, told->path_bits);
	verdict(name, good, false, why);
}

static bool is_plain(const struct told *told, uint64_t wr_id, enum ibv_wc_opcode opcode, const struct end *end)
{
	return told->status == IBV_WC_SUCCESS && told->wr_id == wr_id && told->opcode == (int)opcode && told->qp_num == end->qp->qp_num &&
	       !told->vendor_err && !told->slid && !told->sl && !told->path_bits;
}

static void ask(enum ibv_wr_opcode opcode, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = { .length = length };
	struct ibv_send_wr wr = request(&a, &b, opcode, &sge);

	wr.wr_id = wr_id;
	wr.imm_data = htonl(IMMEDIATE);
	if (post(&a, &wr))
		die("post a request");
}

static void requester(void)
{
	static const struct { const char *name; enum ibv_wr_opcode opcode; enum ibv_wc_opcode told; uint32_t length, bytes; } cases[] = {
		{ "an RDMA WRITE", IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, 3000, 0 },
		{ "an RDMA READ", IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, 3000, 3000 },
		{ "a compare and swap", IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, 8, 8 },
		{ "a fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, 8, 8 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct told told;

		ask(cases[i].opcode, cases[i].length, 0x100 + i);
		told = one(cq_a);
		is(cases[i].name, is_plain(&told, 0x100 + i, cases[i].told, &a) && (!cases[i].bytes || told.byte_len == cases[i].bytes), &told);
	}
}

static void receiver(void)
{
	struct told told;

	post_receive(&b, 0x201, 0, 4096);
	ask(IBV_WR_SEND_WITH_IMM, 300, 0x200);
	told = one(cq_a);
	is("a SEND with immediate", is_plain(&told, 0x200, IBV_WC_SEND, &a), &told);
	told = one(cq_b);
	is("its receive", is_plain(&told, 0x201, IBV_WC_RECV, &b) && told.byte_len == 300 && told.flags & IBV_WC_WITH_IMM && told.imm == IMMEDIATE,
	   &told);
	post_receive(&b, 0x203, 0, 4096);
	ask(IBV_WR_RDMA_WRITE_WITH_IMM, 500, 0x202);
	told = one(cq_a);
	is("a WRITE with immediate", is_plain(&told, 0x202, IBV_WC_RDMA_WRITE, &a), &told);
	told = one(cq_b);
	is("its receive: written, with immediate", is_plain(&told, 0x203, IBV_WC_RECV_RDMA_WITH_IMM, &b) && told.byte_len == 500 &&
	   told.flags & IBV_WC_WITH_IMM && told.imm == IMMEDIATE, &told);
}

/* Several completions in one poll come in their order; those that were not read stay. */
static void several(void)
{
	struct told told = { 0 };
	bool in_order = true;

	for (uint64_t id = 1; id <= 5; id++)
		ask(IBV_WR_RDMA_WRITE, 64, id);
	usleep(300000);
	for (uint64_t id = 1; id <= 3; id++) {
		if (id == 1 ? start(cq_a) : ibv_next_poll(cq_a))
			in_order = false;
		told = read_all(cq_a);
		in_order = in_order && is_plain(&told, id, IBV_WC_RDMA_WRITE, &a);
	}
	ibv_end_poll(cq_a);
	is("three of five in one poll", in_order, &told);
	in_order = !start(cq_a);
	told = read_all(cq_a);
	is("the fourth begins the next poll", in_order && told.wr_id == 4, &told);
	in_order = !ibv_next_poll(cq_a);
	told = read_all(cq_a);
	is("the fifth follows", in_order && told.wr_id == 5, &told);
	is("and nothing more", ibv_next_poll(cq_a) == ENOENT, &told);
	ibv_end_poll(cq_a);
}

static void failed(void)
{
	struct ibv_sge sge = { .length = 64 };
	struct ibv_send_wr wr = request(&a, &b, IBV_WR_RDMA_WRITE, &sge);
	struct told told;

	wr.wr_id = 0x300;
	wr.wr.rdma.rkey ^= 0x5500;
	if (post(&a, &wr))
		die("post a request");
	told = one(cq_a);
	is("a request that fails", told.status == IBV_WC_REM_ACCESS_ERR && told.wr_id == 0x300 && told.qp_num == a.qp->qp_num, &told);
}

static void datagram(void)
{
	struct ibv_ah_attr attr = address();
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_sge sge = { (uintptr_t)a.buffer, 100, a.mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 0x400, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { ah, b.qp->qp_num, QKEY },
	};
	struct told told;
	uint8_t sl;

	post_receive(&b, 0x401, 0, 4096);
	if (!ah || post(&a, &wr))
		die("post a datagram");
	told = one(cq_a);
	is("a datagram", is_plain(&told, 0x400, IBV_WC_SEND, &a) && !(told.flags & IBV_WC_WITH_IMM), &told);
	told = one(cq_b);
	/* verbs_ud.c says what it is. */
	sl = told.sl;
	told.sl = 0;
	is("its receive: the sender, and a GRH", (!sl || sl == 10) && is_plain(&told, 0x401, IBV_WC_RECV, &b) && told.byte_len == 140 && told.src_qp == a.qp->qp_num &&
	   told.flags & IBV_WC_GRH, &told);
	ibv_destroy_ah(ah);
}

int main(int argc, char **argv)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct told nothing = { 0 };

	open_device(argc, argv);
	both(IBV_QPT_RC);
	is("an empty queue", ibv_start_poll(cq_a, &attr) == ENOENT, &nothing);
	requester();
	receiver();
	several();
	failed();
	none();
	both(IBV_QPT_UD);
	datagram();
	none();
	verdict("extended completions: the end", true, false, "");
	return all_done();
}
