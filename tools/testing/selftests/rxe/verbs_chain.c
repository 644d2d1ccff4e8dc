// SPDX-License-Identifier: GPL-2.0
/*
 * A chain of queue pairs of one device: each is connected to the next one, the last one to the first. A queue pair answers READs of
 * the one before it to the one behind it, whose requests have the same PSNs: a responder sends to its own peer, and a requester looks
 * at addresses and PSNs. Each gets more READs than it has resources, so that it answers while it takes packets.
 *
 *   verbs_chain DEVICE NETNS NETDEV GID_INDEX PEER_NETNS PEER_NETDEV ROUNDS
 *
 * In each round two threads post READs on all of them. Then as many come from the wire, with the device's own address, while softirqs
 * are held (../modules/hold_bh.c) on the processor on which the queue pairs run: when these begin, each has READs in its backlog.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include "fuzz_wire.h"

#define QPS 128
#define READS 20
#define LENGTH 64
#define HOLD_MS 200
#define LAST 1

static struct ibv_qp *chain[QPS];
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static pthread_barrier_t begun;
static char memory[2 * LENGTH];
static int ended, good, statuses;

/* Takes what is complete; counts the last requests. */
static void take(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0) {
		__sync_fetch_and_or(&statuses, 1 << wc.status);
		if (wc.wr_id == LAST) {
			__sync_fetch_and_add(&good, !wc.status);
			__sync_fetch_and_add(&ended, 1);
		}
	}
}

static void on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Half of them, downwards: a queue pair has its requests posted before the one behind it is asked, which sends it the responses. */
static void *post_half(void *arg)
{
	struct ibv_sge sge = { (uintptr_t)memory, LENGTH, mr->lkey };
	struct ibv_send_wr wrs[READS], *bad;
	long half = (long)arg;

	for (int i = 0; i < READS; i++) {
		wrs[i] = (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1 };
		wrs[i].wr.rdma.remote_addr = (uintptr_t)memory + LENGTH;
		wrs[i].wr.rdma.rkey = mr->rkey;
		wrs[i].next = i + 1 < READS ? &wrs[i + 1] : NULL;
	}
	wrs[READS - 1].send_flags = IBV_SEND_SIGNALED;
	wrs[READS - 1].wr_id = LAST;
	on_cpu(half);
	pthread_barrier_wait(&begun);
	for (int i = 0; i < QPS / 2; i++) {
		take();
		if (ibv_post_send(chain[(2 - half) * QPS / 2 - 1 - i], wrs, &bad))
			die("post READs");
	}
	return NULL;
}

/* Returns whether all queue pairs have completed their last request. */
static bool post_all(void)
{
	pthread_t threads[2];
	long until;

	take();
	ended = 0;
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, post_half, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	until = now_ms() + 10000;
	while (ended < QPS && now_ms() < until)
		take();
	return ended == QPS;
}

/* On the processor of the CQ's vector, on which busy queue pairs run. */
static void *hold(void *arg)
{
	int fd = open("/sys/module/hold_bh/parameters/hold", O_WRONLY);

	on_cpu(1);
	pthread_barrier_wait(&begun);
	if (fd < 0 || dprintf(fd, "%d", HOLD_MS) < 0)
		die("hold softirqs");
	close(fd);
	return NULL;
}

static uint32_t expected_psn(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(qp, &attr, IBV_QP_RQ_PSN, &init))
		die("query a QP");
	return attr.rq_psn;
}

/* Returns how many queue pairs have answered all their READs from the wire. */
static int answer_all(void)
{
	struct names names = { (uintptr_t)memory + LENGTH, mr->rkey, LENGTH };
	uint32_t before[QPS];
	struct packet packet;
	pthread_t holder;
	int answered = 0;

	for (int i = 0; i < QPS; i++)
		before[i] = expected_psn(chain[i]);
	on_cpu(0);
	pthread_create(&holder, NULL, hold, NULL);
	pthread_barrier_wait(&begun);
	usleep(10000);
	for (int i = 0; i < QPS * READS; i++) {
		begin(&packet, READ_REQUEST, chain[i / READS]->qp_num, before[i / READS] + i % READS, false);
		append_names(&packet, &names);
		wrap_as(&frames[frame_count++], &paths[1], &packet, true, 0, 0xc000);
		if (frame_count == BATCH)
			flush();
	}
	flush();
	pthread_join(holder, NULL);
	/* A slow machine works off for seconds what was held. */
	for (long until = now_ms() + 500; answered < QPS && now_ms() < until;) {
		int now = 0;

		for (int i = 0; i < QPS; i++)
			now += expected_psn(chain[i]) == before[i] + READS;
		if (now > answered)
			until = now_ms() + 500;
		answered = now;
	}
	return answered;
}

static void connect_all(void)
{
	static const struct setup usual;
	struct ibv_qp_attr attr;

	for (int i = 0; i < QPS; i++)
		move(chain[i], IBV_QPS_RESET);
	for (int i = 0; i < QPS; i++)
		for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
			int mask = step(state, &usual, chain[(i + 1) % QPS]->qp_num, &attr);

			attr.max_rd_atomic = READS;
			attr.max_dest_rd_atomic = 1;
			if (ibv_modify_qp(chain[i], &attr, mask))
				die("connect the chain");
		}
}

static void create_all(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { READS, 1, 1, 1, 0 } };

	mr = ibv_reg_mr(pd, memory, sizeof(memory), ACCESS_ALL);
	cq = ibv_create_cq(context, QPS * READS, NULL, NULL, 1);
	if (!mr || !cq)
		die("create a CQ");
	init.send_cq = init.recv_cq = cq;
	for (int i = 0; i < QPS; i++) {
		chain[i] = ibv_create_qp(pd, &init);
		if (!chain[i])
			die("create a QP");
	}
}

int main(int argc, char **argv)
{
	bool holds = !access("/sys/module/hold_bh", F_OK);
	union ibv_gid gids[2][2];
	int rounds, whole = 0, answered = 0;
	char why[120];

	if (argc < 8)
		die("usage: DEVICE NETNS NETDEV GID_INDEX PEER_NETNS PEER_NETDEV ROUNDS");
	open_device(3, (char *[]){ argv[0], argv[1], argv[4] });
	for (int i = 0; i < 4; i++)
		gids[i / 2][i % 2] = gid;
	wire_init(&argv[2], &argv[5], gids);
	rounds = atoi(argv[7]);
	create_all();
	pthread_barrier_init(&begun, NULL, 2);
	for (int i = 0; i < rounds; i++) {
		connect_all();
		whole += post_all();
		connect_all();
		answered += holds ? answer_all() : QPS;
	}
	snprintf(why, sizeof(why), "%d of %d rounds ended; %d of %d queue pairs had responses, %d answered READs of the wire; statuses %x", whole,
		 rounds, good, rounds * QPS, answered, statuses);
	puts(why);
	verdict("all queue pairs of a chain have completions", whole == rounds, false, why);
	verdict("most of them have responses", good > rounds * QPS / 2, false, why);
	/* One that runs out of room for packets may refuse what is more than its resources. */
	verdict("many of them answer READs from the wire", answered > rounds * QPS / 4, false, why);
	for (int i = 0; i < QPS; i++)
		ibv_destroy_qp(chain[i]);
	ibv_destroy_cq(cq);
	ibv_dereg_mr(mr);
	return all_done();
}
