/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the verbs_*.c programs share: one line of output per case (verbs.sh makes KTAP of it), and two QPs of one
 * device that are connected to each other.
 *
 * A line is "pass|NAME", "fail|NAME|WHY", or "known|NAME|WHY" for a failure that the stock driver is known to have
 * ("known MODULE|NAME|WHY": that another stock module has).
 */
#ifndef VERBS_H
#define VERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "told.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define ACCESS_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define BUFFER (256 * 1024)
#define QKEY 0x11111111

/* The device, and what every case uses of it. */
static struct ibv_context *context;
static struct ibv_pd *pd;
static union ibv_gid gid;
static int gid_index, port_number = 1;

/* One end of a connection; its buffer is registered with all rights. */
struct end {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buffer;
};

/* What a pair of ends is like; zero means the usual. */
struct setup {
	enum ibv_qp_type type;
	int access;		/* of the QPs: qp_access_flags + 1 */
	int mtu, psn, rnr_retry_zero, min_rnr_timer, cqe, timeout;
};

static inline void verdict(const char *name, bool good, bool known, const char *why)
{
	if (good)
		printf("pass|%s\n", name);
	else
		printf("%s|%s|%s\n", known ? "known" : "fail", name, why);
	fflush(stdout);
}

static inline void number_is(const char *name, long wanted, long got)
{
	char why[100];

	snprintf(why, sizeof(why), "wanted %ld, got %ld", wanted, got);
	verdict(name, wanted == got, false, why);
}

static inline void die(const char *what)
{
	printf("fail|%s|%s\n", what, strerror(errno));
	exit(1);
}

static inline void open_device(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (argc < 3)
		die("usage: DEVICE GID_INDEX");
	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			context = ibv_open_device(list[i]);
	if (!context)
		die("open the device");
	gid_index = atoi(argv[2]);
	pd = ibv_alloc_pd(context);
	if (!pd || ibv_query_gid(context, 1, gid_index, &gid))
		die("PD and GID");
}

/* The rest of an end that has a CQ. */
static inline void end_on_cq(struct end *end, const struct setup *setup)
{
	struct ibv_qp_init_attr init = {
		.qp_type = setup->type ? setup->type : IBV_QPT_RC,
		.sq_sig_all = 0,
		.cap = { 64, 64, 32, 32, 64 },
	};

	end->buffer = aligned_alloc(4096, BUFFER);
	memset(end->buffer, 0, BUFFER);
	end->mr = ibv_reg_mr(pd, end->buffer, BUFFER, ACCESS_ALL);
	init.send_cq = init.recv_cq = end->cq;
	end->qp = end->cq ? ibv_create_qp(pd, &init) : NULL;
	if (!end->mr || !end->qp)
		die("create the objects of a case");
}

static inline void end_init(struct end *end, const struct setup *setup)
{
	end->channel = ibv_create_comp_channel(context);
	end->cq = ibv_create_cq(context, setup->cqe ? setup->cqe : 256, NULL, end->channel, 0);
	end_on_cq(end, setup);
}

static inline void end_destroy(struct end *end)
{
	ibv_destroy_qp(end->qp);
	ibv_destroy_cq(end->cq);
	if (end->channel)
		ibv_destroy_comp_channel(end->channel);
	ibv_dereg_mr(end->mr);
	free(end->buffer);
}

static inline struct ibv_ah_attr address(void)
{
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = port_number };

	ah.grh.dgid = gid;
	ah.grh.sgid_index = gid_index;
	ah.grh.hop_limit = 64;
	return ah;
}

/* The attributes and mask of each step from RESET to RTS, for a QP that talks to `peer`. */
static inline int step(enum ibv_qp_state to, const struct setup *setup, uint32_t peer, struct ibv_qp_attr *attr)
{
	enum ibv_qp_type type = setup->type ? setup->type : IBV_QPT_RC;

	*attr = (struct ibv_qp_attr){
		.qp_state = to, .port_num = port_number, .qkey = QKEY, .dest_qp_num = peer, .rq_psn = setup->psn, .sq_psn = setup->psn,
		.path_mtu = setup->mtu ? setup->mtu : IBV_MTU_1024, .max_rd_atomic = 4, .max_dest_rd_atomic = 4,
		.min_rnr_timer = setup->min_rnr_timer ? setup->min_rnr_timer : 1, .timeout = setup->timeout ? setup->timeout : 14, .retry_cnt = 3,
		.rnr_retry = setup->rnr_retry_zero ? 0 : 7, .ah_attr = address(),
		.qp_access_flags = setup->access ? setup->access - 1 : ACCESS_ALL,
	};
	switch (to) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTR:
		if (type == IBV_QPT_UD)
			return IBV_QP_STATE;
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			(type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN |
			(type == IBV_QPT_RC ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0);
	default:
		return IBV_QP_STATE;
	}
}

/* Takes a QP from RESET up to a state. Returns an errno value. */
static inline int climb(struct ibv_qp *qp, enum ibv_qp_state to, const struct setup *setup, uint32_t peer)
{
	struct ibv_qp_attr attr;

	for (int state = IBV_QPS_INIT; state <= (int)to; state++) {
		int mask = step(state, setup, peer, &attr);
		int error = ibv_modify_qp(qp, &attr, mask);

		if (error)
			return error;
	}
	return 0;
}

static inline int move(struct ibv_qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = { .qp_state = to };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static inline enum ibv_qp_state qp_state_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) ? IBV_QPS_UNKNOWN : attr.qp_state;
}

static inline void pair_connect(struct end *a, struct end *b, const struct setup *setup)
{
	if (climb(a->qp, IBV_QPS_RTS, setup, b->qp->qp_num) || climb(b->qp, IBV_QPS_RTS, setup, a->qp->qp_num))
		die("connect two QPs");
}

static inline void pair_init(struct end *a, struct end *b, const struct setup *setup)
{
	end_init(a, setup);
	end_init(b, setup);
	pair_connect(a, b, setup);
}

static inline long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What was sent and completed is there: over UC within three seconds, for nobody acknowledges it, else at once. */
static inline bool bytes_arrive(const void *at, const void *bytes, size_t length, enum ibv_qp_type type)
{
	long until = now_ms() + (type == IBV_QPT_UC ? 3000 : 0);

	while (memcmp(at, bytes, length)) {
		if (now_ms() >= until)
			return false;
		usleep(200);
	}
	return true;
}

/* One completion within so many milliseconds; a status of -1 when there was none. */
static inline struct ibv_wc wait_wc(struct end *end, int ms)
{
	struct ibv_wc wc;
	long until = now_ms() + ms;

	do {
		if (ibv_poll_cq(end->cq, 1, &wc) > 0)
			return wc;
		usleep(200);
	} while (now_ms() < until);
	memset(&wc, 0, sizeof(wc));
	wc.status = -1;
	return wc;
}

/* One asynchronous event within so many milliseconds, acknowledged; -1 when there was none. */
static inline int wait_event(int ms)
{
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	int type = -1;

	if (poll(&fd, 1, ms) == 1 && !ibv_get_async_event(context, &event)) {
		type = event.event_type;
		ibv_ack_async_event(&event);
	}
	return type;
}

/* A certain event among those that come within so many milliseconds. */
static inline bool event_comes(int wanted, int ms)
{
	long until = now_ms() + ms;
	int type;

	while ((type = wait_event(until > now_ms() ? until - now_ms() : 0)) != -1)
		if (type == wanted)
			return true;
	return false;
}

static inline int post_receive(struct end *end, uint64_t id, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)end->buffer + offset, length, end->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(end->qp, &wr, &bad);
}

/* A send request: signaled, one element, and the peer's memory at `there`. */
static inline struct ibv_send_wr request_at(enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t there, uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = opcode, .sg_list = sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = there;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = there;
		wr.wr.rdma.rkey = rkey;
	}
	return wr;
}

/* The same from the start of the buffer to the start of the peer's; the length is the caller's. */
static inline struct ibv_send_wr request(struct end *from, struct end *to, enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
	sge->addr = (uintptr_t)from->buffer;
	sge->lkey = from->mr->lkey;
	return request_at(opcode, sge, (uintptr_t)to->buffer, to->mr->rkey);
}

/* Bytes that tell their place, and which time they were made. */
static inline void fill_pattern(char *at, size_t length, int seed)
{
	for (size_t i = 0; i < length; i++)
		at[i] = (char)(i * 7 + i / 256 + seed);
}

/* How many users an address has that a network device listens for, in the form of /proc/net/dev_mcast. */
static inline int mcast_users(const char *mac)
{
	char line[200], address[64];
	FILE *file = fopen("/proc/net/dev_mcast", "r");
	int count, total = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%*d %*s %d %*d %63s", &count, address) == 2 && !strcmp(address, mac))
			total += count;
	if (file)
		fclose(file);
	return total;
}

static inline int post(struct end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(end->qp, wr, &bad);
}

#endif
