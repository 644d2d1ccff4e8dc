// SPDX-License-Identifier: GPL-2.0
/*
 * The time of a message between two sets of RC queue pairs, as a program sees it that waits for completion events, or polls.
 * One thread has both ends: a message is under way until it is complete at both.
 *
 *   bench_verbs events|poll send|write|read SIZE DEPTH QPS COUNT DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX
 *
 * DEPTH requests are under way on each of QPS queue pairs; COUNT messages are sent on each. Both devices may be the same.
 * Prints nanoseconds per message, and how many completions and events there were.
 */
#include <infiniband/verbs.h>
#include <err.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_QPS 256

struct end {
	struct ibv_context *device;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[MAX_QPS];
	char *buffer;
	union ibv_gid gid;
	int gid_index;
};

static enum ibv_wr_opcode opcode;
static int size, depth, qps, count;
static bool polls;
static long long completions, events;

static void end_open(struct end *end, const char *name, int gid_index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_pd *pd;

	for (; list && *list && strcmp(ibv_get_device_name(*list), name); list++)
		;
	end->device = list && *list ? ibv_open_device(*list) : NULL;
	if (!end->device)
		errx(1, "%s cannot be opened", name);
	end->gid_index = gid_index;
	pd = ibv_alloc_pd(end->device);
	end->channel = polls ? NULL : ibv_create_comp_channel(end->device);
	end->cq = ibv_create_cq(end->device, qps * 2 * depth, NULL, end->channel, 0);
	end->buffer = aligned_alloc(4096, (size + 4095) & ~4095);
	if (!pd || !(polls || end->channel) || !end->cq || !end->buffer || ibv_query_gid(end->device, 1, gid_index, &end->gid))
		err(1, "%s", name);
	memset(end->buffer, 1, size);
	end->mr = ibv_reg_mr(pd, end->buffer, size,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!end->mr)
		err(1, "ibv_reg_mr");
	for (int i = 0; i < qps; i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
			.cap = { .max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1 },
		};

		end->qp[i] = ibv_create_qp(pd, &attr);
		if (!end->qp[i])
			err(1, "ibv_create_qp");
	}
}

static void connect_qp(struct end *end, struct end *peer, int i)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = peer->qp[i]->qp_num,
		.max_dest_rd_atomic = 16, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = peer->gid, .sgid_index = end->gid_index, .hop_limit = 64 } },
	};
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 16 };

	if (ibv_modify_qp(end->qp[i], &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
	    ibv_modify_qp(end->qp[i], &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ||
	    ibv_modify_qp(end->qp[i], &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			  IBV_QP_MAX_QP_RD_ATOMIC))
		err(1, "ibv_modify_qp");
}

static void post_receive(struct end *end, int i)
{
	struct ibv_sge sge = { (uintptr_t)end->buffer, size, end->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(end->qp[i], &wr, &bad))
		err(1, "ibv_post_recv");
}

static void post_request(struct end *end, struct end *peer, int i)
{
	struct ibv_sge sge = { (uintptr_t)end->buffer, size, end->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
		.wr.rdma = { (uintptr_t)peer->buffer, peer->mr->rkey },
	}, *bad;

	if (ibv_post_send(end->qp[i], &wr, &bad))
		err(1, "ibv_post_send");
}

/* Messages sent, and completions to come, on each queue pair. */
static int sent[MAX_QPS], open_at_sender[MAX_QPS], open_at_receiver[MAX_QPS];
static long long left;

static void send_more(struct end *a, struct end *b, int i)
{
	while (sent[i] < count && open_at_sender[i] < depth && open_at_receiver[i] < depth) {
		sent[i]++;
		open_at_sender[i]++;
		open_at_receiver[i] += opcode == IBV_WR_SEND;
		post_request(a, b, i);
	}
}

/* Handles the completions that there are, and sends as many messages; returns how many there were. */
static int handle(struct end *a, struct end *b)
{
	struct ibv_wc wc[32];
	int n = ibv_poll_cq(a->cq, 16, wc), all = n + ibv_poll_cq(b->cq, 16, wc + n);

	for (int k = 0; k < all; k++) {
		if (wc[k].status)
			errx(1, "completion with %s", ibv_wc_status_str(wc[k].status));
		if (k < n) {
			open_at_sender[wc[k].wr_id]--;
			left--;
		} else {
			open_at_receiver[wc[k].wr_id]--;
			post_receive(b, wc[k].wr_id);
		}
	}
	for (int k = 0; k < all; k++)
		send_more(a, b, wc[k].wr_id);
	completions += all;
	return all;
}

/* Passes over an event, if there is one. */
static void take_event(struct end *end, bool is_there)
{
	struct ibv_cq *cq;
	void *context;

	if (!is_there)
		return;
	if (ibv_get_cq_event(end->channel, &cq, &context))
		err(1, "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	events++;
}

/* Waits for an event of one of them, unless a completion came before they were armed. */
static void wait_for(struct end *a, struct end *b)
{
	struct pollfd files[] = { { a->channel->fd, POLLIN }, { b->channel->fd, POLLIN } };

	if (ibv_req_notify_cq(a->cq, 0) || ibv_req_notify_cq(b->cq, 0))
		err(1, "ibv_req_notify_cq");
	if (handle(a, b))
		return;
	if (poll(files, 2, -1) < 0)
		err(1, "poll");
	take_event(a, files[0].revents);
	take_event(b, files[1].revents);
}

/* Polling on the only CPU yields to the kernel's threads: otherwise the scheduler's tick would be measured. */
static void poll_again(void)
{
	static long processors;

	if (!processors)
		processors = sysconf(_SC_NPROCESSORS_ONLN);
	if (processors == 1)
		sched_yield();
}

static void run(struct end *a, struct end *b)
{
	left = (long long)qps * count;
	for (int i = 0; i < qps; i++)
		send_more(a, b, i);
	while (left) {
		if (handle(a, b))
			continue;
		if (polls)
			poll_again();
		else
			wait_for(a, b);
	}
}

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

int main(int argc, char **argv)
{
	static struct end a, b;
	long long begin, end;

	if (argc != 11)
		errx(2, "see the head of bench_verbs.c");
	polls = !strcmp(argv[1], "poll");
	opcode = !strcmp(argv[2], "send") ? IBV_WR_SEND : !strcmp(argv[2], "read") ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	size = atoi(argv[3]);
	depth = atoi(argv[4]);
	qps = atoi(argv[5]);
	count = atoi(argv[6]);
	if (size < 1 || depth < 1 || qps < 1 || qps > MAX_QPS || count < 1)
		errx(2, "a number is out of its range");
	end_open(&a, argv[7], atoi(argv[8]));
	end_open(&b, argv[9], atoi(argv[10]));
	for (int i = 0; i < qps; i++) {
		connect_qp(&b, &a, i);
		connect_qp(&a, &b, i);
		for (int d = 0; opcode == IBV_WR_SEND && d < depth; d++)
			post_receive(&b, i);
	}
	begin = now();
	run(&a, &b);
	end = now();
	printf("%lld %lld %lld\n", (end - begin) / ((long long)qps * count), completions, events);
	return 0;
}
