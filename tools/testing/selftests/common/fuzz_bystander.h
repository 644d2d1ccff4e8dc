/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection between two devices that nobody attacks, over the same wire: what it carries must stay right.
 */
#ifndef FUZZ_BYSTANDER_H
#define FUZZ_BYSTANDER_H

#include "verbs.h"
#include <pthread.h>

#define MESSAGE 3001

struct bystander {
	struct end ends[2];		/* on the device under attack, and on the other one */
	pthread_t thread;
	volatile bool stop;
	const char *failed;
	uint64_t messages;
};

/* How the last completion ended. */
static int bystander_status;

/* A QP up to RTS that waits long for its peer: the machine may be busy with its enemies. */
static inline void bystander_connect(struct end *end, const struct end *peer)
{
	static const struct setup setup = { .psn = 77 };
	struct ibv_qp_attr attr;

	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		int mask = step(state, &setup, peer->qp->qp_num, &attr);

		attr.timeout = 18;
		attr.retry_cnt = 7;
		if (ibv_modify_qp(end->qp, &attr, mask))
			die("connect the bystander");
	}
}

static uint8_t told(uint64_t message, size_t at) { return message * 31 + at * 7 + (at >> 8); }

/* One completion of a kind, and a good one. */
static bool completes(struct end *end)
{
	struct ibv_wc wc;
	long until = now_ms() + 60000;

	bystander_status = -1;
	while (ibv_poll_cq(end->cq, 1, &wc) == 0) {
		if (now_ms() > until)
			return false;
		usleep(500);
	}
	bystander_status = wc.status;
	return wc.status == IBV_WC_SUCCESS;
}

static bool sends(struct bystander *bystander, struct end *from, struct end *to)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(from, to, IBV_WR_SEND, &sge);

	sge.length = MESSAGE;
	for (size_t at = 0; at < MESSAGE; at++)
		from->buffer[at] = told(bystander->messages, at);
	memset(to->buffer + 8192, 0, MESSAGE);
	if (post_receive(to, 1, 8192, MESSAGE) || post(from, &wr) || !completes(from) || !completes(to))
		return false;
	return !memcmp(from->buffer, to->buffer + 8192, MESSAGE);
}

static bool reads(struct end *from, struct end *to, enum ibv_wr_opcode opcode, const void *source, void *target)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(from, to, opcode, &sge);

	sge.length = MESSAGE;
	sge.addr = (uintptr_t)from->buffer + (opcode == IBV_WR_RDMA_READ ? 16384 : 0);
	wr.wr.rdma.remote_addr += opcode == IBV_WR_RDMA_READ ? 0 : 24576;
	memset(target, 0, MESSAGE);
	return !post(from, &wr) && completes(from) && !memcmp(source, target, MESSAGE);
}

static bool adds(struct bystander *bystander, struct end *from, struct end *to)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(from, to, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);

	sge.length = 8;
	sge.addr = (uintptr_t)from->buffer + 32768;
	wr.wr.atomic.remote_addr += 40960;
	wr.wr.atomic.compare_add = 1;
	if (post(from, &wr) || !completes(from))
		return false;
	return *(uint64_t *)(from->buffer + 32768) == bystander->messages / 2 && *(uint64_t *)(to->buffer + 40960) == bystander->messages / 2 + 1;
}

static const char *exchange(struct bystander *bystander, struct end *from, struct end *to)
{
	if (!sends(bystander, from, to))
		return "a SEND";
	if (!reads(from, to, IBV_WR_RDMA_WRITE, from->buffer, to->buffer + 24576))
		return "a WRITE";
	if (!reads(from, to, IBV_WR_RDMA_READ, to->buffer, from->buffer + 16384))
		return "a READ";
	return adds(bystander, from, to) ? NULL : "an ATOMIC";
}

static void *exchanges(void *data)
{
	struct bystander *bystander = data;

	while (!bystander->stop && !bystander->failed) {
		bool turn = bystander->messages & 1;

		bystander->failed = exchange(bystander, &bystander->ends[turn], &bystander->ends[!turn]);
		if (bystander->failed)
			printf("exchange %lu: %s failed, its last completion was: %s\n", (unsigned long)bystander->messages, bystander->failed,
			       bystander_status < 0 ? "none" : ibv_wc_status_str(bystander_status));
		bystander->messages += !bystander->failed;
		usleep(10000);
	}
	return NULL;
}

static inline void bystander_stop(struct bystander *bystander)
{
	bystander->stop = true;
	pthread_join(bystander->thread, NULL);
}

#endif
