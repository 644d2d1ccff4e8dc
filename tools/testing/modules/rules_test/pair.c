// SPDX-License-Identifier: GPL-2.0
/* Pairs of queue pairs on the tested device, their requests, and the lines of results. */
#include "rules.h"

void rules_result(bool ok, const char *test, const char *name, long long got)
{
	if (ok)
		pr_info("pass|%s: %s\n", test, name);
	else
		pr_info("fail|%s: %s|got %lld\n", test, name, got);
}

void rules_path(struct rules_device *on, struct rdma_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->type = rdma_ah_find_type(on->device, RULES_PORT);
	rdma_ah_set_port_num(attr, RULES_PORT);
	rdma_ah_set_grh(attr, &on->gid, 0, 0, 1, 0);
	memcpy(attr->roce.dmac, on->mac, ETH_ALEN);
}

int rules_receive(struct rules_pair *pair, u64 id, struct ib_cqe *cqe)
{
	struct ib_sge sge = {
		.addr = pair->on->dma + RULES_SIZE, .length = RULES_SIZE, .lkey = pair->on->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	if (cqe)
		wr.wr_cqe = cqe;
	if (pair->to->srq)
		return ib_post_srq_recv(pair->to->srq, &wr, NULL);
	return ib_post_recv(pair->to, &wr, NULL);
}

int rules_send(struct rules_pair *pair, u64 id, struct ib_cqe *cqe)
{
	struct ib_sge sge = { .addr = pair->on->dma, .length = RULES_SIZE, .lkey = pair->on->pd->local_dma_lkey };
	struct ib_send_wr wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED,
	};

	if (cqe)
		wr.wr_cqe = cqe;
	return ib_post_send(pair->from, &wr, NULL);
}

static int to_rts(struct rules_device *on, struct ib_qp *qp, u32 peer)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT, .port_num = RULES_PORT, .qp_access_flags = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
		.path_mtu = IB_MTU_1024, .dest_qp_num = peer, .rq_psn = 1, .max_dest_rd_atomic = 1,
		.min_rnr_timer = IB_RNR_TIMER_000_01, .sq_psn = 1, .max_rd_atomic = 1, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7,
	};
	int ret;

	rules_path(on, &attr.ah_attr);
	ret = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	attr.qp_state = IB_QPS_RTR;
	ret = ret ?: ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
					     IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	attr.qp_state = IB_QPS_RTS;
	return ret ?: ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC | IB_QP_TIMEOUT |
					      IB_QP_RETRY_CNT | IB_QP_RNR_RETRY);
}

void rules_disconnect(struct rules_pair *pair)
{
	if (pair->from)
		ib_destroy_qp(pair->from);
	if (pair->to)
		ib_destroy_qp(pair->to);
	pair->from = NULL;
	pair->to = NULL;
}

int rules_connect(struct rules_pair *pair, struct rules_device *on, struct ib_cq *cq, struct ib_srq *srq,
		  void (*event)(struct ib_event *event, void *context), void *context)
{
	struct ib_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .event_handler = event, .qp_context = context,
		/* One more for each queue, with which it is drained. */
		.cap = { .max_send_wr = RULES_DEPTH + 1, .max_recv_wr = RULES_DEPTH + 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_type = IB_SIGNAL_REQ_WR, .qp_type = IB_QPT_RC,
	};
	int ret;

	pair->on = on;
	pair->to = NULL;
	pair->from = ib_create_qp(on->pd, &init);
	if (IS_ERR(pair->from)) {
		ret = PTR_ERR(pair->from);
		pair->from = NULL;
		return ret;
	}
	init.srq = srq;
	if (srq)
		init.cap.max_recv_wr = 0;
	pair->to = ib_create_qp(on->pd, &init);
	if (IS_ERR(pair->to)) {
		ret = PTR_ERR(pair->to);
		pair->to = NULL;
		return ret;
	}
	ret = to_rts(on, pair->to, pair->from->qp_num);
	return ret ?: to_rts(on, pair->from, pair->to->qp_num);
}
