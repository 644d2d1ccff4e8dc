// SPDX-License-Identifier: GPL-2.0
/*
 * The queue pairs that the completions of a shared queue name, where the kernel polls it for the program (POLL_CQ): two queue
 * pairs on one completion queue, two threads that poll it, and completions that are polled after their queue pair was destroyed.
 *
 *   uverbs_poll DEVICE GID_INDEX
 */
#define _GNU_SOURCE
#include "verbs.h"
#include <pthread.h>
#include <stdatomic.h>

#include "uverbs_raw.h"

#define ROUNDS 100		/* how often both threads poll what has completed by then */
#define DEPTH 32		/* requests of each queue pair in a round */
#define EACH (ROUNDS * DEPTH)
#define LEFT 16			/* completions that stay when a queue pair goes */

static const struct setup usual;
static struct end ends[2];
static struct ibv_cq *cq;
static uint32_t numbers[2];

static atomic_uint completed[2], seen[2][EACH], wrong_number, wrong_status, unknown, refused;
static pthread_barrier_t begin, end;

/* A request says in its ID which queue pair it is of, and which request. */
static uint64_t id_of(int which, unsigned int nth) { return (uint64_t)which << 32 | nth; }

static void note(const struct ib_uverbs_wc *wc)
{
	unsigned int which = wc->wr_id >> 32, nth = (uint32_t)wc->wr_id;

	if (which > 1 || nth >= EACH) {
		unknown++;
		return;
	}
	wrong_number += wc->qp_num != numbers[which];
	wrong_status += wc->status != IBV_WC_SUCCESS;
	seen[which][nth]++;
	completed[which]++;
}

/* Polls at most `most` completions, and notes them. Returns their number. */
static unsigned int poll_kernel(unsigned int most)
{
	struct { struct ib_uverbs_poll_cq_resp head; struct ib_uverbs_wc wc[2 * DEPTH]; } response;
	struct ib_uverbs_poll_cq request = { .cq_handle = cq->handle, .ne = most };

	if (raw_write(context->cmd_fd, IB_USER_VERBS_CMD_POLL_CQ, &request, sizeof(request), &response, sizeof(response))) {
		refused++;
		return 0;
	}
	for (unsigned int i = 0; i < response.head.count && i < most; i++)
		note(&response.wc[i]);
	return response.head.count;
}

/* Polls in each round until all requests of the round have completed: as many at once as there may be, so that both threads are in
 * the kernel at the same time. */
static void *poller(void *unused)
{
	(void)unused;
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		pthread_barrier_wait(&begin);
		for (int idle = 0; completed[0] + completed[1] < 2 * DEPTH * round && idle < 10000; idle++)
			if (poll_kernel(2 * DEPTH))
				idle = 0;
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static int post_write(int which, unsigned int nth)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&ends[which], &ends[!which], IBV_WR_RDMA_WRITE, &sge);

	sge.length = 8;
	wr.wr.rdma.remote_addr += 8;
	wr.wr_id = id_of(which, nth);
	return post(&ends[which], &wr);
}

static void pair(void)
{
	for (int i = 0; i < 2; i++) {
		ends[i].cq = cq;
		end_on_cq(&ends[i], &usual);
		numbers[i] = ends[i].qp->qp_num;
	}
	pair_connect(&ends[0], &ends[1], &usual);
}

static void forget(void)
{
	memset(seen, 0, sizeof(seen));
	completed[0] = completed[1] = wrong_number = wrong_status = unknown = refused = 0;
}

/* What was noted is that each queue pair has completed so many requests, once each. */
static void judge(const char *name, unsigned int first, unsigned int second)
{
	unsigned int wanted[2] = { first, second }, not_once = 0;
	char why[160];

	for (int which = 0; which < 2; which++)
		for (unsigned int nth = 0; nth < wanted[which]; nth++)
			not_once += seen[which][nth] != 1;
	snprintf(why, sizeof(why), "%u and %u completed, %u not once; %u with another number, %u failed, %u unknown; %u calls refused",
		 completed[0], completed[1], not_once, wrong_number, wrong_status, unknown, refused);
	verdict(name, completed[0] == first && completed[1] == second && !not_once && !wrong_number && !wrong_status && !unknown && !refused,
		false, why);
}

/* Posts the requests of a round, one after the other, of each queue pair in turn: so their completions are in this order. */
static void post_round(unsigned int round)
{
	for (unsigned int nth = 0; nth < 2 * DEPTH; nth++) {
		unsigned int which = nth % 2, request = round * DEPTH + nth / 2;
		volatile uint64_t *arrived = (uint64_t *)ends[!which].buffer + 1;
		long until = now_ms() + 2000;

		*(uint64_t *)ends[which].buffer = request + 1;
		if (post_write(which, request))
			die("post");
		while (*arrived != request + 1 && now_ms() < until)
			;
	}
}

static void two_threads(void)
{
	pthread_t threads[2];

	pthread_barrier_init(&begin, NULL, 3);
	pthread_barrier_init(&end, NULL, 3);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, poller, NULL))
			die("a thread");
	for (unsigned int round = 0; round < ROUNDS; round++) {
		post_round(round);
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&end);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	judge("two threads poll one queue of two queue pairs: each completion names its own", EACH, EACH);
}

static void poll_rest(unsigned int wanted)
{
	long until = now_ms() + 2000;

	while (completed[0] + completed[1] < wanted && now_ms() < until)
		if (!poll_kernel(5))
			usleep(200);
}

/* The completions are in the queue when the last WRITE of each queue pair has arrived, or soon after. */
static void after_destroy(void)
{
	volatile uint64_t *arrived = (uint64_t *)ends[1].buffer + 1;
	long until = now_ms() + 2000;

	forget();
	*(uint64_t *)ends[0].buffer = 0x1234;
	for (unsigned int nth = 0; nth < LEFT; nth++)
		if (post_write(0, nth))
			die("post");
	while (*arrived != 0x1234 && now_ms() < until)
		usleep(100);
	usleep(200000);
	/* One is polled while the queue pair is there. */
	poll_kernel(1);
	if (ibv_destroy_qp(ends[0].qp))
		die("destroy a queue pair");
	poll_rest(LEFT);
	judge("completions of a queue pair that was destroyed name it", LEFT, 0);
}

/* No completion is polled before its queue pair is destroyed, and others are there by then. */
static void after_others(void)
{
	struct end others[2];

	forget();
	pair();
	for (unsigned int nth = 0; nth < LEFT; nth++)
		if (post_write(0, nth) || post_write(1, nth))
			die("post");
	usleep(300000);
	for (int i = 0; i < 2; i++)
		if (ibv_destroy_qp(ends[i].qp))
			die("destroy a queue pair");
	for (int i = 0; i < 2; i++) {
		others[i].cq = cq;
		end_on_cq(&others[i], &usual);
	}
	poll_rest(2 * LEFT);
	judge("the same of two that have gone, and others are there", LEFT, LEFT);
	for (int i = 0; i < 2; i++)
		ibv_destroy_qp(others[i].qp);
}

int main(int argc, char **argv)
{
	open_device(argc, argv);
	cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
	if (!cq)
		die("a completion queue");
	pair();
	two_threads();
	after_destroy();
	ibv_destroy_qp(ends[1].qp);
	after_others();
	verdict("the queue goes", !ibv_destroy_cq(cq), false, strerror(errno));
	return all_done();
}
