// SPDX-License-Identifier: GPL-2.0
/*
 * A completion queue is a FIFO: completions come out in the order in which their requests complete, which is the order in which they
 * were posted, on both sides of a connection, however many there are.
 *
 *   verbs_order DEVICE GID_INDEX MESSAGES
 */
#include "verbs.h"
#include <arpa/inet.h>

enum { BATCH = 32, DEPTH = 128, LENGTH = 32 };

static struct end sender, receiver;
static uint64_t posted, received_posted, sent, arrived;
static const char *broken;

static void give_receives(void)
{
	struct ibv_recv_wr wrs[BATCH], *bad;
	struct ibv_sge sge = { (uintptr_t)receiver.buffer, LENGTH, receiver.mr->lkey };

	while (received_posted - arrived <= DEPTH - BATCH) {
		for (int i = 0; i < BATCH; i++)
			wrs[i] = (struct ibv_recv_wr){ .wr_id = received_posted++, .sg_list = &sge, .num_sge = 1,
						       .next = i + 1 < BATCH ? &wrs[i + 1] : NULL };
		if (ibv_post_recv(receiver.qp, wrs, &bad))
			die("post receives");
	}
}

static void give_sends(uint64_t messages)
{
	struct ibv_send_wr wrs[BATCH], *bad;
	struct ibv_sge sge = { (uintptr_t)sender.buffer, LENGTH, sender.mr->lkey };
	int count = messages - posted < BATCH ? messages - posted : BATCH;

	if (!count || posted - sent > DEPTH - BATCH)
		return;
	for (int i = 0; i < count; i++, posted++)
		wrs[i] = (struct ibv_send_wr){ .wr_id = posted, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
					       .send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(posted), .next = i + 1 < count ? &wrs[i + 1] : NULL };
	if (ibv_post_send(sender.qp, wrs, &bad))
		die("post sends");
}

/* Takes what is there; the next number of a side must be next in its queue. */
static void take(struct end *end, uint64_t *next, bool receives)
{
	struct ibv_wc wcs[BATCH];
	int count = ibv_poll_cq(end->cq, BATCH, wcs);

	for (int i = 0; i < count && !broken; i++, (*next)++)
		if (wcs[i].status != IBV_WC_SUCCESS)
			broken = "a request failed";
		else if (wcs[i].wr_id != *next)
			broken = receives ? "a receive is out of order" : "a send is out of order";
		else if (receives && ntohl(wcs[i].imm_data) != (uint32_t)*next)
			broken = "a message is out of order";
	if (count < 0)
		broken = "the queue cannot be polled";
}

static void queue(struct end *end)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, 0 } };

	end->cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0);
	end->buffer = aligned_alloc(4096, 4096);
	memset(end->buffer, 0, 4096);
	end->mr = ibv_reg_mr(pd, end->buffer, 4096, IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = end->cq;
	end->qp = end->cq ? ibv_create_qp(pd, &init) : NULL;
	if (!end->mr || !end->qp)
		die("make a queue pair");
}

int main(int argc, char **argv)
{
	static const struct setup setup = { .psn = 0xfffff0 };
	uint64_t messages = argc > 3 ? strtoull(argv[3], NULL, 0) : 1000;
	uint64_t last = 0;
	long until = 0;

	open_device(argc, argv);
	queue(&sender);
	queue(&receiver);
	pair_connect(&sender, &receiver, &setup);
	while (!broken && (sent < messages || arrived < messages)) {
		give_receives();
		give_sends(messages);
		take(&sender, &sent, false);
		take(&receiver, &arrived, true);
		if (sent + arrived != last || !until)
			until = now_ms() + 60000;
		else if (now_ms() > until)
			broken = "nothing comes any more";
		last = sent + arrived;
	}
	printf("%llu sends and %llu receives of %llu\n", (unsigned long long)sent, (unsigned long long)arrived, (unsigned long long)messages);
	verdict("completions come in the order of their requests", !broken && messages && sent == messages && arrived == messages, false,
		broken ?: "too few");
	return all_done();
}
