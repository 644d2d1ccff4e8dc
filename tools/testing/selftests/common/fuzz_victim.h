/* SPDX-License-Identifier: GPL-2.0 */
/*
 * QPs that fuzz_packets.c sends to. Each is connected to a peer that does not exist: the fuzzer is the peer, and sees all that
 * the QP sends. Their memory lies between bytes that nobody has a right to.
 */
#ifndef FUZZ_VICTIM_H
#define FUZZ_VICTIM_H

#include "fuzz_packet.h"
#include "xrc.h"
#include <sys/mman.h>

#define PEER 0x00f00000		/* the first number of the fuzzer's own QPs */
#define PITCH 3200		/* from one receive to the next */
#define RECEIVES 16
#define SENDS 8
#define ASKED 16
#define SECRET 0x5ec4e7fbc0ffee11ull

/* Ranges of the arena that are registered, in bytes; all others, and the rest of their pages, are nobody's. */
enum { OPEN_AT = 4096 + 100, OPEN_SIZE = 65536 + 333, FIXED_AT = 81920 + 8, FIXED_SIZE = 16384 + 77, LAND_AT = 106496 + 24, LAND_SIZE = 32768 + 5,
       RECV_AT = 147456 + 16 };

struct victim {
	enum ibv_qp_type type;
	enum ibv_mtu mtu;
	bool six, shared, grouped, xrc;
	uint32_t number;		/* which victim */
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct xrc_qp target;		/* that of XRC; only the number of `qp` is right then */
	struct ibv_mw *mw;
	uint32_t expected;		/* PSN of the next request to it */
	uint32_t sent;			/* PSN after its last request */
	struct { uint32_t psn, length; uint8_t opcode; } asked[ASKED];	/* its requests that were seen */
	uint32_t asked_count, send_count;
	bool broken;			/* a completion said so */
	uint64_t rebuilt, received, done;
};

#define RC(m, ...) { .type = IBV_QPT_RC, .mtu = IBV_MTU_##m, __VA_ARGS__ }
static struct victim victims[] = {
	RC(1024), RC(256), RC(4096, .six = true), RC(1024, .shared = true), RC(512), RC(2048, .six = true, .shared = true),
	{ .type = IBV_QPT_UC, .mtu = IBV_MTU_1024 }, { .type = IBV_QPT_UC, .mtu = IBV_MTU_256, .six = true },
	{ .type = IBV_QPT_UD, .mtu = IBV_MTU_4096 }, { .type = IBV_QPT_UD, .mtu = IBV_MTU_4096, .six = true },
	{ .type = XRC_TGT, .mtu = IBV_MTU_1024, .xrc = true },
	{ .type = IBV_QPT_UD, .mtu = IBV_MTU_4096, .grouped = true },
};
#undef RC
#define VICTIMS ARRAY_SIZE(victims)

static uint8_t *arena;
static size_t arena_size;
static struct ibv_mr *open_mr, *fixed_mr, *land_mr, *recv_mr;
static struct ibv_srq *srq;
/* For the target of XRC: a domain with two queues, and one of another domain. */
static uint32_t domains[2];
static struct xrc_srq queues[3];
static struct ibv_cq *queue_cq;
static union ibv_gid peer_gid[2], groups[2];	/* by IP version */
static int gid_indices[2];
static uint64_t completions[IBV_WC_TM_RNDV_INCOMPLETE + 1], events;

/* How long the receive with this number is; the rest up to the next one is not the device's to write. */
static uint32_t receive_size(uint32_t id) { return 64 + id * 97 % (PITCH - 128); }
static size_t receive_at(uint32_t id) { return RECV_AT + (size_t)id * PITCH; }
static uint32_t receive_count(void) { return (VICTIMS + 1) * RECEIVES; }

static struct ibv_mr *registered(size_t at, size_t size, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, arena + at, size, access);

	if (!mr)
		die("register memory");
	return mr;
}

/* Under the packets that are on their way to it. */
static void register_open(void)
{
	for (size_t i = 0; i < VICTIMS; i++) {
		if (victims[i].mw && ibv_dealloc_mw(victims[i].mw))
			die("free a memory window");
		victims[i].mw = NULL;
	}
	if (open_mr && ibv_dereg_mr(open_mr))
		die("deregister memory");
	open_mr = registered(OPEN_AT, OPEN_SIZE, ACCESS_ALL | IBV_ACCESS_MW_BIND);
}

static void arena_init(void)
{
	arena_size = (receive_at(receive_count()) + 2 * 4096) & -4096;
	arena = mmap(NULL, arena_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t at = 0; at < arena_size; at += 8)
		memcpy(arena + at, &(uint64_t){ SECRET }, 8);
	memset(arena + OPEN_AT, 0, OPEN_SIZE);
	memset(arena + FIXED_AT, 0x33, FIXED_SIZE);
	memset(arena + LAND_AT, 0, LAND_SIZE);
	for (uint32_t id = 0; id < receive_count(); id++)
		memset(arena + receive_at(id), 0, receive_size(id));
	register_open();
	fixed_mr = registered(FIXED_AT, FIXED_SIZE, IBV_ACCESS_REMOTE_READ);
	land_mr = registered(LAND_AT, LAND_SIZE, IBV_ACCESS_LOCAL_WRITE);
	recv_mr = registered(RECV_AT, (size_t)receive_count() * PITCH, IBV_ACCESS_LOCAL_WRITE);
}

/* Whether bytes are as the fuzzer left them. */
static bool untouched(size_t from, size_t to)
{
	for (; from < to && from % 8; from++)
		if (arena[from] != (uint8_t)(SECRET >> from % 8 * 8))
			return false;
	for (; from + 8 <= to; from += 8)
		if (memcmp(arena + from, &(uint64_t){ SECRET }, 8))
			return false;
	for (; from < to; from++)
		if (arena[from] != (uint8_t)(SECRET >> from % 8 * 8))
			return false;
	return true;
}

/* What was written to without a right; NULL for nothing. */
static const char *damage(void)
{
	if (!untouched(0, OPEN_AT))
		return "in front of the open region";
	if (!untouched(OPEN_AT + OPEN_SIZE, FIXED_AT))
		return "behind the open region";
	for (size_t at = FIXED_AT; at < FIXED_AT + FIXED_SIZE; at++)
		if (arena[at] != 0x33)
			return "in the region that is only to be read";
	if (!untouched(FIXED_AT + FIXED_SIZE, LAND_AT))
		return "behind the region that is only to be read";
	if (!untouched(LAND_AT + LAND_SIZE, RECV_AT))
		return "behind the region that READs go to";
	for (uint32_t id = 0; id < receive_count(); id++)
		if (!untouched(receive_at(id) + receive_size(id), receive_at(id + 1)))
			return "behind a receive";
	return untouched(receive_at(receive_count()), arena_size) ? NULL : "behind the receives";
}

static void give_receive(struct victim *victim, uint32_t id)
{
	struct ibv_sge sge = { (uintptr_t)arena + receive_at(id), receive_size(id), recv_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (victim->xrc)
		xrc_post_recv(&queues[id % 2], id, arena + receive_at(id), receive_size(id), recv_mr->lkey);
	else if (victim->shared ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(victim->qp, &wr, &bad))
		victim->broken = true;
}

/* Some address in a range, mostly with room for `length`. */
static uint64_t somewhere(uint64_t base, uint32_t size, uint32_t length)
{
	uint32_t room = length < size && !one_in(16) ? size - length : size;
	uint64_t at = base + below(room + 1);

	return one_in(32) ? base + odd_number() : one_in(64) ? any64() : at;
}

/* A request of any kind that the victim's service has; whom it is for does not exist, so the fuzzer answers. */
static void some_send(struct victim *victim, struct ibv_ah *ah, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	static const enum ibv_wr_opcode reliable[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
						       IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV };
	uint32_t kinds = victim->type == IBV_QPT_RC ? ARRAY_SIZE(reliable) : victim->type == IBV_QPT_UC ? 4 : 2;
	bool atomic, lands;

	*wr = (struct ibv_send_wr){ .wr_id = 1000, .sg_list = sge, .num_sge = 1, .opcode = reliable[below(kinds)] };
	wr->send_flags = (one_in(4) ? 0 : IBV_SEND_SIGNALED) | (one_in(6) ? IBV_SEND_FENCE : 0);
	atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	lands = atomic || wr->opcode == IBV_WR_RDMA_READ;
	sge->length = atomic ? 8 : victim->type == IBV_QPT_UD ? below(600) : one_in(4) ? below(6000) : below(600);
	sge->lkey = lands ? land_mr->lkey : open_mr->lkey;
	sge->addr = (uintptr_t)arena + (lands ? LAND_AT + below(LAND_SIZE - sge->length) : OPEN_AT + below(OPEN_SIZE - sge->length));
	if (victim->type == IBV_QPT_UD) {
		wr->wr.ud.ah = ah;
		wr->wr.ud.remote_qpn = PEER + victim->number;
		wr->wr.ud.remote_qkey = QKEY;
	} else if (atomic) {
		wr->wr.atomic.remote_addr = any64() & ~7;
		wr->wr.atomic.rkey = any();
	} else {
		wr->wr.rdma.remote_addr = any64();
		wr->wr.rdma.rkey = any();
	}
	if (wr->opcode == IBV_WR_SEND_WITH_INV || wr->opcode == IBV_WR_SEND_WITH_IMM)
		wr->imm_data = any();
}

/* As many requests, at one doorbell. */
static void give_sends(struct victim *victim, uint32_t count, struct ibv_ah *ah)
{
	struct ibv_send_wr wrs[SENDS], *bad;
	struct ibv_sge list[SENDS];

	if (victim->xrc)
		return;
	for (uint32_t i = 0; i < count; i++) {
		some_send(victim, ah, &wrs[i], &list[i]);
		wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
	}
	if (count && !ibv_post_send(victim->qp, wrs, &bad))
		victim->send_count += count;
}

static void bind_window(struct victim *victim)
{
	struct ibv_send_wr wr = { .wr_id = 2000, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;

	/* One that was bound would have to be invalidated first. */
	if (victim->mw && ibv_dealloc_mw(victim->mw))
		die("free a memory window");
	victim->mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	if (!victim->mw)
		die("allocate a memory window");
	wr.bind_mw.mw = victim->mw;
	wr.bind_mw.rkey = ibv_inc_rkey(victim->mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ open_mr, (uintptr_t)arena + OPEN_AT + 100, 8000, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };
	if (!ibv_post_send(victim->qp, &wr, &bad))
		victim->send_count++;
	victim->mw->rkey = wr.bind_mw.rkey;
}

static struct ibv_ah_attr to_peer(const struct victim *victim)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	attr.grh.dgid = peer_gid[victim->six];
	attr.grh.sgid_index = gid_indices[victim->six];
	attr.grh.hop_limit = 64;
	return attr;
}

static uint32_t some_psn(void)
{
	static const uint32_t liked[] = { 0, 0xffffff, 0xfffff0, 0x7fffff, 0x800000, 0x7ffff8 };

	return one_in(2) ? liked[below(ARRAY_SIZE(liked))] : any() & 0xffffff;
}

static enum ibv_qp_state state_of(const struct victim *victim)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (victim->xrc)
		return xrc_state(&victim->target);
	if (ibv_query_qp(victim->qp, &attr, IBV_QP_STATE, &init))
		die("query a QP");
	return attr.qp_state;
}

static int modify_victim(const struct victim *victim, struct ibv_qp_attr *attr, int mask)
{
	if (!victim->xrc)
		return ibv_modify_qp(victim->qp, attr, mask);
	if (attr->qp_state == IBV_QPS_RTR)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return xrc_modify(&victim->target, attr, attr->qp_state == IBV_QPS_RTS ? mask | IBV_QP_TIMEOUT : mask);
}

/* False if a packet that was under way to the QP has failed it in RTR. */
static bool connect_victim(struct victim *victim)
{
	struct setup setup = { .type = victim->type, .mtu = victim->mtu, .min_rnr_timer = 1 + below(3) };
	struct ibv_qp_attr attr;

	victim->expected = some_psn();
	victim->sent = some_psn();
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		int mask = step(state, &setup, PEER + victim->number, &attr);

		attr.ah_attr = to_peer(victim);
		attr.rq_psn = victim->expected;
		attr.sq_psn = victim->sent;
		attr.timeout = one_in(8) ? 8 + below(6) : 15 + below(3);
		attr.retry_cnt = 1 + below(7);
		attr.rnr_retry = 1 + below(7);
		attr.max_dest_rd_atomic = below(5);
		attr.max_rd_atomic = below(5);
		attr.qp_access_flags = one_in(8) ? below(16) & ~IBV_ACCESS_MW_BIND : ACCESS_ALL;
		if (modify_victim(victim, &attr, mask)) {
			if (state != IBV_QPS_RTS || state_of(victim) != IBV_QPS_ERR)
				die("bring a QP up");
			return false;
		}
	}
	return true;
}

static void drain(struct victim *victim)
{
	struct ibv_wc wc[16];
	int count;

	while ((count = ibv_poll_cq(victim->cq, 16, wc)) > 0)
		for (int i = 0; i < count; i++) {
			bool good = wc[i].status == IBV_WC_SUCCESS, receive = wc[i].wr_id < 1000;

			completions[wc[i].status < ARRAY_SIZE(completions) ? wc[i].status : 0]++;
			victim->broken |= !good;
			victim->received += good && receive;
			victim->done += good && !receive;
			if (receive && (good || victim->shared || victim->xrc))
				give_receive(victim, wc[i].wr_id);
			if (!receive && victim->send_count)
				victim->send_count--;
		}
}

static void make_victim(struct victim *victim)
{
	struct ibv_qp_init_attr init = { .qp_type = victim->type, .srq = victim->shared ? srq : NULL,
					 .cap = { .max_send_wr = 2 * SENDS, .max_recv_wr = 2 * RECEIVES, .max_send_sge = 1, .max_recv_sge = 1 } };

	if (victim->xrc) {
		static struct ibv_qp qp;

		if (xrc_create_qp(context->cmd_fd, XRC_TGT, domains[0], 0, &victim->target))
			die("make a target of XRC");
		qp.qp_num = victim->target.number;
		victim->qp = &qp;
		victim->cq = queue_cq;
		return;
	}
	victim->cq = ibv_create_cq(context, one_in(8) ? 20 : 128, NULL, NULL, 0);
	init.send_cq = init.recv_cq = victim->cq;
	victim->qp = victim->cq ? ibv_create_qp(pd, &init) : NULL;
	if (!victim->qp)
		die("make a QP");
}

static void unmake_victim(struct victim *victim)
{
	if (victim->grouped)
		for (int six = 0; six < 2; six++)
			ibv_detach_mcast(victim->qp, &groups[six], 0);
	if (victim->xrc ? xrc_destroy_qp(&victim->target) : ibv_destroy_qp(victim->qp))
		die("destroy a QP");
	drain(victim);
	if (!victim->xrc && ibv_destroy_cq(victim->cq))
		die("destroy a CQ");
}

/* A QP in RTS with receives, and requests under way. */
static void build(struct victim *victim, struct ibv_ah *ah)
{
	bool anew = !victim->qp || one_in(12);

	if (victim->qp && anew)
		unmake_victim(victim);
	if (anew)
		make_victim(victim);
	do {
		if (modify_victim(victim, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE))
			die("reset a QP");
		drain(victim);
	} while (!connect_victim(victim));
	if (victim->grouped && anew)
		for (int six = 0; six < 2; six++)
			if (ibv_attach_mcast(victim->qp, &groups[six], 0))
				die("attach to a group");
	victim->asked_count = victim->send_count = 0;
	if (!victim->shared && !victim->xrc)
		for (uint32_t i = 0; i < RECEIVES; i++)
			give_receive(victim, victim->number * RECEIVES + i);
	if (victim->type == IBV_QPT_RC && one_in(2))
		bind_window(victim);
	give_sends(victim, SENDS / 2, ah);
	victim->broken = false;
	victim->rebuilt++;
}

#endif
