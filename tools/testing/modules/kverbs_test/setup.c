// SPDX-License-Identifier: GPL-2.0
/* What the tests have of the device, its queue pairs and their requests, and the lines of results. */
#include "kverbs.h"

void kv_result(bool ok, const char *name, long long got)
{
	if (ok)
		pr_info("pass|%s\n", name);
	else
		pr_info("fail|%s|got %lld\n", name, got);
}

void kv_known(const char *name, long long got)
{
	pr_info("known|%s|got %lld\n", name, got);
}

int kv_post_recv(struct kv *kv, struct ib_qp *qp, int side, u64 id)
{
	struct ib_sge sge = { .addr = kv->dma[side], .length = KV_SIZE, .lkey = kv->pd->local_dma_lkey };
	struct ib_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(qp, &wr, NULL);
}

int kv_post_send(struct kv *kv, struct ib_qp *qp, int side, u64 id, u32 length)
{
	struct ib_sge sge = { .addr = kv->dma[side], .length = length, .lkey = kv->pd->local_dma_lkey };
	struct ib_send_wr wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED,
	};

	return ib_post_send(qp, &wr, NULL);
}

/* From or to the memory of side 0. */
int kv_post_rdma(struct kv *kv, enum ib_wr_opcode opcode, u64 addr, u32 rkey, u32 length)
{
	struct ib_sge sge = { .addr = kv->dma[0], .length = length, .lkey = kv->pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IB_SEND_SIGNALED },
		.remote_addr = addr,
		.rkey = rkey,
	};

	return ib_post_send(kv->qp[0], &wr.wr, NULL);
}

int kv_post_datagram(struct kv *kv, struct ib_qp *qp, struct ib_ah *ah, u32 peer)
{
	struct ib_sge sge = { .addr = kv->dma[0], .length = 64, .lkey = kv->pd->local_dma_lkey };
	struct ib_ud_wr wr = {
		.wr = { .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED },
		.ah = ah,
		.remote_qpn = peer,
		.remote_qkey = 0x11111111,
	};

	return ib_post_send(qp, &wr.wr, NULL);
}

int kv_wait(struct ib_cq *cq, struct ib_wc *wc)
{
	unsigned long end = jiffies + 3 * HZ;

	do {
		if (ib_poll_cq(cq, 1, wc) == 1)
			return 0;
		usleep_range(200, 1000);
	} while (time_before(jiffies, end));
	return -ETIMEDOUT;
}

void kv_drop_completions(struct ib_cq *cq)
{
	struct ib_wc wc;

	while (ib_poll_cq(cq, 1, &wc) == 1)
		;
}

struct ib_qp *kv_qp(struct kv *kv, enum ib_qp_type type, struct ib_srq *srq)
{
	struct ib_qp_init_attr init = {
		.send_cq = kv->cq,
		.recv_cq = kv->cq,
		.srq = srq,
		.cap = { .max_send_wr = 64, .max_recv_wr = srq ? 0 : 64, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = type,
		.port_num = KV_PORT,
	};

	return ib_create_qp(kv->pd, &init);
}

/* The path from the device to itself. */
void kv_path(struct kv *kv, struct rdma_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->type = rdma_ah_find_type(kv->device, KV_PORT);
	rdma_ah_set_port_num(attr, KV_PORT);
	rdma_ah_set_grh(attr, &kv->gid, 0, 0, 1, 0);
	memcpy(attr->roce.dmac, kv->mac, ETH_ALEN);
}

int kv_to_init(struct ib_qp *qp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = KV_PORT,
		.qkey = 0x11111111,
		.qp_access_flags = IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_LOCAL_WRITE,
	};
	int mask = IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT;

	return ib_modify_qp(qp, &attr, mask | (qp->qp_type == IB_QPT_UD ? IB_QP_QKEY : IB_QP_ACCESS_FLAGS));
}

int kv_to_rtr(struct kv *kv, struct ib_qp *qp, u32 peer)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = peer,
		.rq_psn = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = IB_RNR_TIMER_000_01,
	};

	if (qp->qp_type == IB_QPT_UD)
		return ib_modify_qp(qp, &attr, IB_QP_STATE);
	kv_path(kv, &attr.ah_attr);
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
				       IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
}

int kv_to_rts(struct ib_qp *qp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS, .sq_psn = 1, .max_rd_atomic = 1, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
	};

	if (qp->qp_type == IB_QPT_UD)
		return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN);
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC | IB_QP_TIMEOUT |
				       IB_QP_RETRY_CNT | IB_QP_RNR_RETRY);
}

int kv_to(struct ib_qp *qp, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return ib_modify_qp(qp, &attr, IB_QP_STATE);
}

void kv_disconnect(struct kv *kv)
{
	int side;

	for (side = 0; side < 2; side++) {
		if (kv->qp[side])
			ib_destroy_qp(kv->qp[side]);
		kv->qp[side] = NULL;
	}
	kv_drop_completions(kv->cq);
}

int kv_connect(struct kv *kv)
{
	int side, ret = 0;

	kv_disconnect(kv);
	for (side = 0; side < 2; side++) {
		struct ib_qp *qp = kv_qp(kv, IB_QPT_RC, NULL);

		if (IS_ERR(qp))
			return PTR_ERR(qp);
		kv->qp[side] = qp;
		ret = ret ?: kv_to_init(qp);
	}
	for (side = 0; side < 2; side++)
		ret = ret ?: kv_to_rtr(kv, kv->qp[side], kv->qp[!side]->qp_num);
	for (side = 0; side < 2; side++)
		ret = ret ?: kv_to_rts(kv->qp[side]);
	return ret;
}

/* The tests poll. */
static void announced(struct ib_cq *cq, void *context)
{
}

int kv_open(struct kv *kv, struct ib_device *device)
{
	struct ib_cq_init_attr attr = { .cqe = 256 };
	const struct ib_gid_attr *gid;
	int side, ret;

	kv->device = device;
	gid = rdma_get_gid_attr(device, KV_PORT, 0);
	if (IS_ERR(gid))
		return PTR_ERR(gid);
	kv->gid = gid->gid;
	ret = rdma_read_gid_l2_fields(gid, NULL, kv->mac);
	rdma_put_gid_attr(gid);
	if (ret)
		return ret;
	kv->pd = ib_alloc_pd(device, IB_PD_UNSAFE_GLOBAL_RKEY);
	if (IS_ERR(kv->pd)) {
		ret = PTR_ERR(kv->pd);
		kv->pd = NULL;
		return ret;
	}
	kv->cq = ib_create_cq(device, announced, NULL, NULL, &attr);
	if (IS_ERR(kv->cq)) {
		ret = PTR_ERR(kv->cq);
		kv->cq = NULL;
		return ret;
	}
	for (side = 0; side < 2; side++) {
		kv->memory[side] = kzalloc(KV_SIZE, GFP_KERNEL);
		if (!kv->memory[side])
			return -ENOMEM;
		kv->dma[side] = ib_dma_map_single(device, kv->memory[side], KV_SIZE, DMA_BIDIRECTIONAL);
		CHECK("ib_dma_map_single", !ib_dma_mapping_error(device, kv->dma[side]));
	}
	return kv_connect(kv);
}

void kv_close(struct kv *kv)
{
	int side;

	if (kv->cq)
		kv_disconnect(kv);
	for (side = 0; side < 2; side++) {
		if (!kv->memory[side])
			continue;
		ib_dma_unmap_single(kv->device, kv->dma[side], KV_SIZE, DMA_BIDIRECTIONAL);
		kfree(kv->memory[side]);
	}
	if (kv->cq) {
		CHECK_EQ("nobody uses the CQ at the end", 0, atomic_read(&kv->cq->usecnt));
		ib_destroy_cq(kv->cq);
	}
	if (kv->pd) {
		CHECK_EQ("nobody uses the PD at the end", 0, atomic_read(&kv->pd->usecnt));
		ib_dealloc_pd(kv->pd);
	}
}
