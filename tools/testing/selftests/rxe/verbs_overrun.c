// SPDX-License-Identifier: GPL-2.0
/*
 * A completion queue that overruns: its event, and what becomes of the queue pairs that use it.
 *
 *   verbs_overrun DEVICE GID_INDEX
 */
#include "verbs.h"

#define ROOM 16
#define MESSAGES 60

/* The first three use the queue that overruns: one receives, one has it for what it sends, one does nothing. */
enum { RECEIVES, SENDS, IDLE, SENDER, OTHER, ENDS };

static struct end ends[ENDS];
static const struct setup rc = { 0 };

static void send_messages(struct end *from, struct end *to, int count)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(from, to, IBV_WR_SEND, &sge);

	sge.length = 8;
	while (count-- > 0)
		post(from, &wr);
}

/* What comes within three seconds: how often the queue's event, and which queue pairs' (bits). */
static int events(int *of_cq)
{
	struct ibv_async_event event;
	long until = now_ms() + 3000;
	int fatal = 0;

	*of_cq = 0;
	while (now_ms() < until && (*of_cq < 1 || fatal != (1 << RECEIVES | 1 << SENDS | 1 << IDLE))) {
		struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };

		if (poll(&fd, 1, 100) != 1 || ibv_get_async_event(context, &event))
			continue;
		if (event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == ends[RECEIVES].cq)
			++*of_cq;
		for (int i = 0; i < ENDS; i++)
			if (event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == ends[i].qp)
				fatal |= 1 << i;
		ibv_ack_async_event(&event);
	}
	return fatal;
}

int main(int argc, char **argv)
{
	struct end *receives = &ends[RECEIVES], *sends = &ends[SENDS], *idle = &ends[IDLE], *sender = &ends[SENDER], *other = &ends[OTHER];
	int of_cq, fatal, completions = 0;
	struct ibv_wc wc;

	open_device(argc, argv);
	end_init(receives, &(struct setup){ .cqe = ROOM });
	sends->cq = idle->cq = receives->cq;
	end_on_cq(sends, &rc);
	end_on_cq(idle, &rc);
	end_init(sender, &rc);
	end_init(other, &rc);
	pair_connect(receives, sender, &rc);
	pair_connect(sends, other, &rc);
	climb(idle->qp, IBV_QPS_INIT, &rc, 0);
	post_receive(idle, 1, 0, 64);
	for (int i = 0; i < MESSAGES; i++)
		post_receive(receives, i, 0, 64);
	send_messages(sender, receives, MESSAGES);
	fatal = events(&of_cq);
	verdict("the queue's event comes", of_cq == 1, false, "none, or several");
	verdict("QP_FATAL for the queue pair whose completion is lost", fatal & 1 << RECEIVES, true, "none");
	verdict("and for the others that use the queue", (fatal & (1 << SENDS | 1 << IDLE)) == (1 << SENDS | 1 << IDLE), true, "not for all");
	verdict("for no other one", !(fatal & (1 << SENDER | 1 << OTHER)), false, "for one");
	verdict("all of them are in error", qp_state_of(receives->qp) == IBV_QPS_ERR && qp_state_of(sends->qp) == IBV_QPS_ERR &&
		qp_state_of(idle->qp) == IBV_QPS_ERR, true, "not all");
	verdict("no other one is", qp_state_of(other->qp) == IBV_QPS_RTS, false, "one is");
	while (ibv_poll_cq(receives->cq, 1, &wc) == 1 && completions <= receives->cq->cqe)
		completions += !wc.status;
	verdict("what was in the queue is there", completions >= ROOM && completions <= receives->cq->cqe, false, "more or fewer");

	/* What has polled the queue may go on with it. */
	move(sends->qp, IBV_QPS_RESET);
	move(other->qp, IBV_QPS_RESET);
	pair_connect(sends, other, &rc);
	post_receive(other, 1, 0, 64);
	while (ibv_poll_cq(sends->cq, 1, &wc) == 1)
		;
	send_messages(sends, other, 1);
	wc = wait_wc(sends, 3000);
	verdict("a queue pair that is reset can use the queue again", wc.status == IBV_WC_SUCCESS && wc.qp_num == sends->qp->qp_num, false,
		"no completion");
	for (int i = 0; i < ENDS; i++)
		ibv_destroy_qp(ends[i].qp);
	verdict("the queue goes", !ibv_destroy_cq(receives->cq), false, "it stays");
	return all_done();
}
