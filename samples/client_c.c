// SPDX-License-Identifier: GPL-2.0
/*
 * The smallest client: on each RoCE device it connects a queue pair to itself, and sends a message to it.
 *
 * samples/client_rust.rs is the same in Rust. Built with FERROBAND_TESTS=m; then "modprobe client_c", and see dmesg.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

MODULE_DESCRIPTION("The smallest RDMA client, in C");
MODULE_LICENSE("GPL");

#define PORT 1
#define MESSAGE "hello"

struct hello {
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct ib_cqe sent, received;
	/* The device reads "out" and writes "in": each has cache lines of its own. */
	char out[64] ____cacheline_aligned, in[64] ____cacheline_aligned;
	u64 dma_out ____cacheline_aligned, dma_in;
};

static void sent(struct ib_cq *cq, struct ib_wc *wc)
{
}

static void received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct hello *hello = container_of(wc->wr_cqe, struct hello, received);

	if (wc->status == IB_WC_SUCCESS)
		pr_info("client_c: received: %.*s\n", (int)wc->byte_len, hello->in);
}

/* Connects the queue pair to itself: the path is from the device to itself. */
static int connect(struct hello *hello, struct ib_device *device)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT, .port_num = PORT, .qp_access_flags = IB_ACCESS_LOCAL_WRITE,
		.path_mtu = IB_MTU_1024, .dest_qp_num = hello->qp->qp_num, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
	};
	const struct ib_gid_attr *gid = rdma_get_gid_attr(device, PORT, 0);
	int ret;

	if (IS_ERR(gid))
		return PTR_ERR(gid);
	attr.ah_attr.type = rdma_ah_find_type(device, PORT);
	rdma_ah_set_port_num(&attr.ah_attr, PORT);
	rdma_ah_set_grh(&attr.ah_attr, (union ib_gid *)&gid->gid, 0, 0, 1, 0);
	ret = rdma_read_gid_l2_fields(gid, NULL, attr.ah_attr.roce.dmac);
	rdma_put_gid_attr(gid);
	ret = ret ?: ib_modify_qp(hello->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	attr.qp_state = IB_QPS_RTR;
	ret = ret ?: ib_modify_qp(hello->qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN |
						    IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	attr.qp_state = IB_QPS_RTS;
	return ret ?: ib_modify_qp(hello->qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC |
						     IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY);
}

static int post(struct hello *hello)
{
	struct ib_sge in = { .addr = hello->dma_in, .length = sizeof(hello->in), .lkey = hello->pd->local_dma_lkey };
	struct ib_sge out = { .addr = hello->dma_out, .length = strlen(MESSAGE), .lkey = hello->pd->local_dma_lkey };
	struct ib_recv_wr recv = { .wr_cqe = &hello->received, .sg_list = &in, .num_sge = 1 };
	struct ib_send_wr send = {
		.wr_cqe = &hello->sent, .sg_list = &out, .num_sge = 1, .opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	hello->sent.done = sent;
	hello->received.done = received;
	strscpy(hello->out, MESSAGE);
	return ib_post_recv(hello->qp, &recv, NULL) ?: ib_post_send(hello->qp, &send, NULL);
}

static void part(struct hello *hello, struct ib_device *device)
{
	if (!IS_ERR_OR_NULL(hello->qp)) {
		ib_drain_qp(hello->qp);
		ib_destroy_qp(hello->qp);
	}
	if (!IS_ERR_OR_NULL(hello->cq))
		ib_free_cq(hello->cq);
	if (!IS_ERR_OR_NULL(hello->pd))
		ib_dealloc_pd(hello->pd);
	ib_dma_unmap_single(device, hello->dma_out, sizeof(hello->out), DMA_TO_DEVICE);
	ib_dma_unmap_single(device, hello->dma_in, sizeof(hello->in), DMA_FROM_DEVICE);
	kfree(hello);
}

static struct ib_client client;

static int add(struct ib_device *device)
{
	struct ib_qp_init_attr init = {
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IB_QPT_RC,
	};
	struct hello *hello;
	int ret;

	if (!rdma_protocol_roce(device, PORT))
		return -ENODEV;
	hello = kzalloc(sizeof(*hello), GFP_KERNEL);
	if (!hello)
		return -ENOMEM;
	hello->dma_out = ib_dma_map_single(device, hello->out, sizeof(hello->out), DMA_TO_DEVICE);
	hello->dma_in = ib_dma_map_single(device, hello->in, sizeof(hello->in), DMA_FROM_DEVICE);
	hello->pd = ib_alloc_pd(device, 0);
	hello->cq = ib_alloc_cq(device, NULL, 4, 0, IB_POLL_WORKQUEUE);
	ret = PTR_ERR_OR_ZERO(hello->pd) ?: PTR_ERR_OR_ZERO(hello->cq);
	if (!ret) {
		init.send_cq = init.recv_cq = hello->cq;
		hello->qp = ib_create_qp(hello->pd, &init);
		ret = PTR_ERR_OR_ZERO(hello->qp) ?: connect(hello, device) ?: post(hello);
	}
	if (ret)
		part(hello, device);
	else
		ib_set_client_data(device, &client, hello);
	return ret;
}

static void remove(struct ib_device *device, void *hello)
{
	part(hello, device);
}

static struct ib_client client = { .name = "client_c", .add = add, .remove = remove };

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
