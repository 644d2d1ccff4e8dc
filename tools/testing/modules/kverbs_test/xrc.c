// SPDX-License-Identifier: GPL-2.0
/*
 * XRC in the kernel: domains, shared receive queues in them, targets that several users hold, and initiators. A request of the kernel
 * has no field for the shared receive queue that it is for, so an initiator of the kernel sends nothing.
 */
#include "kverbs.h"

struct ib_xrcd *ib_alloc_xrcd_user(struct ib_device *device, struct inode *inode, struct ib_udata *udata);
int ib_dealloc_xrcd_user(struct ib_xrcd *xrcd, struct ib_udata *udata);
struct ib_qp *ib_create_qp_user(struct ib_device *device, struct ib_pd *pd, struct ib_qp_init_attr *attr,
				struct uverbs_attr_bundle *uattrs, struct ib_uqp_object *uobj, const char *caller);

static struct ib_srq *make_srq(struct kv *kv, struct ib_xrcd *xrcd)
{
	struct ib_srq_init_attr init = {
		.attr = { .max_wr = 4, .max_sge = 1 },
		.srq_type = IB_SRQT_XRC,
		.ext = { .cq = kv->cq, .xrc = { .xrcd = xrcd } },
	};

	return ib_create_srq(kv->pd, &init);
}

static struct ib_qp *make_target(struct kv *kv, struct ib_xrcd *xrcd)
{
	struct ib_qp_init_attr init = { .qp_type = IB_QPT_XRC_TGT, .xrcd = xrcd, .sq_sig_type = IB_SIGNAL_REQ_WR };

	return ib_create_qp_user(kv->device, NULL, &init, NULL, NULL, KBUILD_MODNAME);
}

static struct ib_qp *make_initiator(struct kv *kv)
{
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_XRC_INI,
		.send_cq = kv->cq,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 },
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};

	return ib_create_qp(kv->pd, &init);
}

static int to_rtr(struct kv *kv, struct ib_qp *qp, u32 peer, bool target)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR, .path_mtu = IB_MTU_1024, .dest_qp_num = peer, .rq_psn = 1, .max_dest_rd_atomic = 1,
		.min_rnr_timer = IB_RNR_TIMER_000_01,
	};
	int mask = IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN;

	kv_path(kv, &attr.ah_attr);
	return ib_modify_qp(qp, &attr, mask | (target ? IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER : 0));
}

static int to_rts(struct ib_qp *qp, bool target)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS, .sq_psn = 1, .max_rd_atomic = 1, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
	};
	int mask = IB_QP_STATE | IB_QP_SQ_PSN | IB_QP_TIMEOUT;

	return ib_modify_qp(qp, &attr, mask | (target ? 0 : IB_QP_MAX_QP_RD_ATOMIC | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY));
}

/* What the driver is asked of the queue pair itself, of which the caller has a handle. */
static enum ib_qp_state state_of(struct ib_qp *qp)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	return ib_query_qp(qp, &attr, IB_QP_STATE, &init) ? IB_QPS_ERR : attr.qp_state;
}

static void ends(struct kv *kv, struct ib_xrcd *xrcd)
{
	struct ib_qp_open_attr open = { .qp_type = IB_QPT_XRC_TGT };
	struct ib_qp *target = make_target(kv, xrcd), *again, *initiator = make_initiator(kv);
	struct ib_sge sge = { .addr = kv->dma[1], .length = 64, .lkey = kv->pd->local_dma_lkey };
	struct ib_recv_wr recv = { .sg_list = &sge, .num_sge = 1 };

	CHECK("XRC: a target", !IS_ERR(target));
	CHECK("XRC: an initiator", !IS_ERR(initiator));
	if (IS_ERR(target) || IS_ERR(initiator))
		goto out;
	CHECK("XRC: a target has no PD and no queues", !target->real_qp->pd && !target->real_qp->send_cq && !target->real_qp->srq);
	open.qp_num = target->qp_num;
	again = ib_open_qp(xrcd, &open);
	CHECK("XRC: a target is opened again by its number", !IS_ERR(again) && again != target && again->real_qp == target->real_qp);
	open.qp_num = initiator->qp_num;
	CHECK("XRC: an initiator is not", IS_ERR(ib_open_qp(xrcd, &open)));

	CHECK_EQ("XRC: both ends go to INIT", 0, kv_to_init(target) ?: kv_to_init(initiator));
	CHECK_EQ("XRC: to RTR", 0, to_rtr(kv, target, initiator->qp_num, true) ?: to_rtr(kv, initiator, target->qp_num, false));
	CHECK_EQ("XRC: to RTS", 0, to_rts(target, true) ?: to_rts(initiator, false));
	CHECK("XRC: another handle is of the same queue pair", !IS_ERR(again) && state_of(again) == IB_QPS_RTS);
	CHECK_EQ("XRC: no request of the kernel says which queue it is for", -EINVAL, kv_post_send(kv, initiator, 0, 1, 8));
	CHECK_EQ("XRC: an initiator has no receives", -EINVAL, ib_post_recv(initiator, &recv, NULL));
	CHECK_EQ("XRC: nor has a target", -EINVAL, ib_post_recv(target->real_qp, &recv, NULL));
	CHECK_EQ("XRC: which sends nothing", -EINVAL, kv_post_send(kv, target->real_qp, 0, 1, 8));
	if (IS_ERR(again))
		goto out;
	CHECK_EQ("XRC: a handle is closed", 0, ib_close_qp(target));
	target = again;
	CHECK("XRC: the queue pair stays for the other one", state_of(target) == IB_QPS_RTS);
	CHECK_EQ("XRC: a domain with a target is not deallocated", -EBUSY, ib_dealloc_xrcd_user(xrcd, NULL));
	open.qp_num = target->qp_num;
	CHECK_EQ("XRC: the last handle destroys the target", 0, ib_destroy_qp(target));
	target = ERR_PTR(-ENOENT);
	CHECK("XRC: which is not found any more", IS_ERR(ib_open_qp(xrcd, &open)));
out:
	if (!IS_ERR(target))
		ib_destroy_qp(target);
	if (!IS_ERR(initiator))
		ib_destroy_qp(initiator);
}

void kv_test_xrc(struct kv *kv)
{
	struct ib_xrcd *xrcd = ib_alloc_xrcd_user(kv->device, NULL, NULL);
	bool told = kv->device->attrs.device_cap_flags & IB_DEVICE_XRC;
	struct ib_recv_wr recv = { .wr_id = 1 };
	struct ib_srq *srq, *other;
	u32 number;

	if (IS_ERR(xrcd)) {
		CHECK_EQ("XRC domains are there, or not supported", -EOPNOTSUPP, PTR_ERR(xrcd));
		CHECK("a device without them says so", !told);
		return;
	}
	CHECK("XRC: the device says that it has it", told);
	srq = make_srq(kv, xrcd);
	other = make_srq(kv, xrcd);
	CHECK("XRC: shared receive queues of a domain", !IS_ERR(srq) && !IS_ERR(other));
	if (IS_ERR(srq) || IS_ERR(other))
		goto out;
	number = srq->ext.xrc.srq_num;
	CHECK("XRC: have numbers of 24 bits", number && number >> 24 == 0 && other->ext.xrc.srq_num >> 24 == 0);
	CHECK("XRC: each its own", number != other->ext.xrc.srq_num);
	CHECK_EQ("XRC: and count for the domain", 2, atomic_read(&xrcd->usecnt));
	CHECK_EQ("XRC: which is not deallocated then", -EBUSY, ib_dealloc_xrcd_user(xrcd, NULL));
	CHECK_EQ("XRC: receives are posted to them", 0, ib_post_srq_recv(srq, &recv, NULL));
	CHECK("XRC: not without a domain", IS_ERR(make_srq(kv, NULL)));
	ends(kv, xrcd);
out:
	if (!IS_ERR(srq))
		ib_destroy_srq(srq);
	if (!IS_ERR(other))
		ib_destroy_srq(other);
	CHECK_EQ("XRC: nobody uses the domain at the end", 0, atomic_read(&xrcd->usecnt));
	CHECK_EQ("XRC: it goes", 0, ib_dealloc_xrcd_user(xrcd, NULL));
}
