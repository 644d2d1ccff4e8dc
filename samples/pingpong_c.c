// SPDX-License-Identifier: GPL-2.0
/*
 * A client that plays ping-pong with itself: on each RoCE device it connects two queue pairs to each other, which have a completion
 * queue and a shared receive queue in common, and sends back what either of them receives.
 *
 * The completion queue tells that it has completions; a work item drains it. The shared receive queue tells once that few receives are
 * left; from then on each buffer is given back to it. The event may come late, so they are given back anyway when half of them were used.
 *
 * samples/pingpong_rust.rs is the same in Rust. Built with FERROBAND_TESTS=m; then "modprobe pingpong_c", and see dmesg.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

MODULE_DESCRIPTION("A client that plays ping-pong with itself, in C");
MODULE_LICENSE("GPL");

#define PORT 1
#define MESSAGE "ping"
#define MESSAGES 200
#define RECEIVES 64
#define LIMIT 48	/* few receives are left: fewer than that */
#define SIZE 64

/* A buffer, and the request that it is posted with. */
struct ball {
	char *bytes;
	u64 dma;
};

struct game {
	struct ib_device *device;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_srq *srq;
	struct ib_qp *qp[2];
	struct work_struct drain;
	char *memory;
	u64 dma;
	/* The first one begins, the others receive. */
	struct ball balls[1 + RECEIVES];
	int received;		/* by the work item alone */
	bool is_low;
};

static int give(struct game *game, struct ball *ball)
{
	struct ib_sge sge = { .addr = ball->dma, .length = SIZE, .lkey = game->pd->local_dma_lkey };
	struct ib_recv_wr wr = { .wr_id = (uintptr_t)ball, .sg_list = &sge, .num_sge = 1 };

	return ib_post_srq_recv(game->srq, &wr, NULL);
}

static int send(struct game *game, struct ib_qp *qp, struct ball *ball, u32 length)
{
	struct ib_sge sge = { .addr = ball->dma, .length = length, .lkey = game->pd->local_dma_lkey };
	struct ib_send_wr wr = {
		.wr_id = (uintptr_t)ball, .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED,
	};

	return ib_post_send(qp, &wr, NULL);
}

/* What came is sent back. */
static void received(struct game *game, struct ball *ball, const struct ib_wc *wc)
{
	if (++game->received < MESSAGES) {
		send(game, wc->qp, ball, wc->byte_len);
		return;
	}
	ib_dma_sync_single_for_cpu(game->device, ball->dma, SIZE, DMA_BIDIRECTIONAL);
	pr_info("pingpong_c: %.*s, %d times\n", (int)wc->byte_len, ball->bytes, MESSAGES);
}

static void completed(struct game *game, const struct ib_wc *wc)
{
	struct ball *ball = (void *)(uintptr_t)wc->wr_id;

	if (wc->status != IB_WC_SUCCESS)
		return;
	if (wc->opcode == IB_WC_RECV)
		received(game, ball, wc);
	else if (READ_ONCE(game->is_low) || game->received >= RECEIVES / 2)
		give(game, ball);
}

/* Takes completions until there are none, and asks to be told of the next one; what came in between is taken at once. */
static void drain(struct work_struct *work)
{
	struct game *game = container_of(work, struct game, drain);
	struct ib_wc wc[8];
	int count, nth;

	do {
		while ((count = ib_poll_cq(game->cq, ARRAY_SIZE(wc), wc)) > 0)
			for (nth = 0; nth < count; nth++)
				completed(game, &wc[nth]);
	} while (ib_req_notify_cq(game->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0);
}

/* In any context. */
static void has_completions(struct ib_cq *cq, void *context)
{
	struct game *game = context;

	schedule_work(&game->drain);
}

/* In any context. */
static void srq_event(struct ib_event *event, void *context)
{
	struct game *game = context;

	if (event->event != IB_EVENT_SRQ_LIMIT_REACHED)
		return;
	pr_info("pingpong_c: few receives are left\n");
	WRITE_ONCE(game->is_low, true);
}

/* From RESET to INIT, RTR and RTS. The path is from the device to itself. */
static int connect(struct game *game, struct ib_qp *qp, u32 peer)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT, .port_num = PORT, .qp_access_flags = IB_ACCESS_LOCAL_WRITE,
		.path_mtu = IB_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
	};
	const struct ib_gid_attr *gid = rdma_get_gid_attr(game->device, PORT, 0);
	int ret;

	if (IS_ERR(gid))
		return PTR_ERR(gid);
	attr.ah_attr.type = rdma_ah_find_type(game->device, PORT);
	rdma_ah_set_port_num(&attr.ah_attr, PORT);
	rdma_ah_set_grh(&attr.ah_attr, (union ib_gid *)&gid->gid, 0, 0, 1, 0);
	ret = rdma_read_gid_l2_fields(gid, NULL, attr.ah_attr.roce.dmac);
	rdma_put_gid_attr(gid);
	ret = ret ?: ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	attr.qp_state = IB_QPS_RTR;
	ret = ret ?: ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
					     IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	attr.qp_state = IB_QPS_RTS;
	return ret ?: ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC | IB_QP_TIMEOUT |
					      IB_QP_RETRY_CNT | IB_QP_RNR_RETRY);
}

static int make_queues(struct game *game)
{
	struct ib_srq_init_attr srq = {
		.event_handler = srq_event, .srq_context = game, .srq_type = IB_SRQT_BASIC, .attr = { .max_wr = RECEIVES, .max_sge = 1 },
	};
	struct ib_qp_init_attr qp = { .qp_type = IB_QPT_RC, .cap = { .max_send_wr = 4, .max_send_sge = 1 } };
	struct ib_cq_init_attr cq = { .cqe = 2 * RECEIVES };
	int nth;

	game->pd = ib_alloc_pd(game->device, 0);
	if (IS_ERR(game->pd))
		return PTR_ERR(game->pd);
	game->cq = ib_create_cq(game->device, has_completions, NULL, game, &cq);
	if (IS_ERR(game->cq))
		return PTR_ERR(game->cq);
	game->srq = ib_create_srq(game->pd, &srq);
	if (IS_ERR(game->srq))
		return PTR_ERR(game->srq);
	qp.send_cq = qp.recv_cq = game->cq;
	qp.srq = game->srq;
	for (nth = 0; nth < 2; nth++) {
		game->qp[nth] = ib_create_qp(game->pd, &qp);
		if (IS_ERR(game->qp[nth]))
			return PTR_ERR(game->qp[nth]);
	}
	return 0;
}

static int begin(struct game *game)
{
	struct ib_srq_attr limit = { .srq_limit = LIMIT };
	int nth, ret = 0;

	for (nth = 0; nth <= RECEIVES; nth++) {
		struct ball *ball = &game->balls[nth];

		ball->bytes = game->memory + nth * SIZE;
		ball->dma = game->dma + nth * SIZE;
		if (nth > 0)
			ret = ret ?: give(game, ball);
	}
	ret = ret ?: ib_modify_srq(game->srq, &limit, IB_SRQ_LIMIT);
	for (nth = 0; nth < 2; nth++)
		ret = ret ?: connect(game, game->qp[nth], game->qp[!nth]->qp_num);
	if (ret)
		return ret;
	pr_info("pingpong_c: connected\n");
	ret = ib_req_notify_cq(game->cq, IB_CQ_NEXT_COMP);
	return ret ?: send(game, game->qp[0], &game->balls[0], strlen(MESSAGE));
}

/* The queue pairs first: when they are gone, nothing completes any more. */
static void end(struct game *game)
{
	int nth;

	for (nth = 0; nth < 2; nth++)
		if (!IS_ERR_OR_NULL(game->qp[nth]))
			ib_destroy_qp(game->qp[nth]);
	disable_work_sync(&game->drain);
	if (!IS_ERR_OR_NULL(game->srq))
		ib_destroy_srq(game->srq);
	if (!IS_ERR_OR_NULL(game->cq))
		ib_destroy_cq(game->cq);
	if (!IS_ERR_OR_NULL(game->pd))
		ib_dealloc_pd(game->pd);
	ib_dma_unmap_single(game->device, game->dma, (1 + RECEIVES) * SIZE, DMA_BIDIRECTIONAL);
	kfree(game->memory);
	kfree(game);
}

static struct ib_client client;

static int add(struct ib_device *device)
{
	struct game *game;
	int ret;

	if (!rdma_protocol_roce(device, PORT))
		return -ENODEV;
	game = kzalloc(sizeof(*game), GFP_KERNEL);
	if (!game)
		return -ENOMEM;
	game->device = device;
	INIT_WORK(&game->drain, drain);
	game->memory = kcalloc(1 + RECEIVES, SIZE, GFP_KERNEL);
	if (!game->memory) {
		kfree(game);
		return -ENOMEM;
	}
	memcpy(game->memory, MESSAGE, strlen(MESSAGE));
	game->dma = ib_dma_map_single(device, game->memory, (1 + RECEIVES) * SIZE, DMA_BIDIRECTIONAL);
	ret = make_queues(game) ?: begin(game);
	if (ret)
		end(game);
	else
		ib_set_client_data(device, &client, game);
	return ret;
}

static void remove(struct ib_device *device, void *game)
{
	end(game);
}

static struct ib_client client = { .name = "pingpong_c", .add = add, .remove = remove };

static int __init sample_init(void)
{
	return ib_register_client(&client);
}

static void __exit sample_exit(void)
{
	ib_unregister_client(&client);
}

module_init(sample_init);
module_exit(sample_exit);
