// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the midlayer's law, Documentation/infiniband/core_locking.rst: methods for any context, callbacks, events. It is
 * C, so that it judges any ib_core and any driver alike.
 *
 * The parameter "device" names the device. Writing the name of a test to the parameter "run" runs it, and logs a line for
 * each result: "pass|NAME" or "fail|NAME|got VALUE". tools/testing/selftests/core/{context,callbacks}.sh do so.
 *
 *	contexts [no-ah] [no-storm-ah]	all methods for any context, in each context; see context.c
 *	dispatch [lossy] [fatal]	events from an interrupt, where memory is short, or of a device that fails
 *	callbacks [no-rearm]		locks and completion handlers; see callbacks.c
 *	listen, unlisten		events of the device are logged, with the state that a handler finds; see events.c
 *	qp-events, drained, last-wqe, srq-limit, cq-error, cq-error-qp
 *					the same for events of objects, each provoked
 */
#include "rules.h"

MODULE_DESCRIPTION("tests of the midlayer's law");
MODULE_LICENSE("GPL");

static char *device = "rxe0";
module_param(device, charp, 0444);
MODULE_PARM_DESC(device, "The device to test");

static struct rules_device tested;

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

static int find(struct ib_device *dev)
{
	if (!strcmp(dev_name(&dev->dev), device) && ib_device_try_get(dev))
		tested.device = dev;
	return 0;
}

static int open_device(struct rules_device *on)
{
	const struct ib_gid_attr *gid = rdma_get_gid_attr(on->device, RULES_PORT, 0);
	int ret;

	if (IS_ERR(gid))
		return PTR_ERR(gid);
	on->gid = gid->gid;
	ret = rdma_read_gid_l2_fields(gid, NULL, on->mac);
	rdma_put_gid_attr(gid);
	if (ret)
		return ret;
	on->pd = ib_alloc_pd(on->device, 0);
	if (IS_ERR(on->pd))
		return PTR_ERR(on->pd);
	on->memory = kzalloc(2 * RULES_SIZE, GFP_KERNEL);
	if (!on->memory) {
		ib_dealloc_pd(on->pd);
		return -ENOMEM;
	}
	on->dma = ib_dma_map_single(on->device, on->memory, 2 * RULES_SIZE, DMA_BIDIRECTIONAL);
	return 0;
}

static int run(const char *value, const struct kernel_param *param)
{
	if (!tested.pd)
		return -ENODEV;
	if (strstarts(value, "contexts"))
		rules_contexts(&tested, value);
	else if (strstarts(value, "dispatch"))
		rules_dispatch(&tested, value);
	else if (strstarts(value, "callbacks"))
		rules_callbacks(&tested, value);
	else if (sysfs_streq(value, "listen"))
		return rules_events_begin(&tested);
	else if (sysfs_streq(value, "unlisten"))
		rules_events_end();
	else if (!rules_object_event(&tested, value))
		return -EINVAL;
	return 0;
}

static const struct kernel_param_ops run_ops = { .set = run };
module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "Runs a test");

static int __init rules_init(void)
{
	struct ib_client finder = { .name = "rules_test", .add = find };
	int ret = ib_register_client(&finder);

	if (ret)
		return ret;
	ib_unregister_client(&finder);
	if (!tested.device)
		return -ENODEV;
	ret = open_device(&tested);
	if (ret)
		ib_device_put(tested.device);
	return ret;
}

static void __exit rules_exit(void)
{
	rules_events_end();
	ib_dma_unmap_single(tested.device, tested.dma, 2 * RULES_SIZE, DMA_BIDIRECTIONAL);
	kfree(tested.memory);
	CHECK_EQ("end", "nobody uses the PD", 0, atomic_read(&tested.pd->usecnt));
	ib_dealloc_pd(tested.pd);
	ib_device_put(tested.device);
}

module_init(rules_init);
module_exit(rules_exit);
