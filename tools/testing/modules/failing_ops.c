// SPDX-License-Identifier: GPL-2.0
/*
 * Lets methods of a driver fail for the objects of verbs_client. It replaces methods in the tables of the devices that there
 * are, so it does that to any driver. It is C, so that it judges any ib_core alike.
 *
 * Each parameter says how many of the next calls fail:
 *
 *	modify_qp			changes of a queue pair to the error state
 *	post_send, post_recv		requests without memory, with which a queue is drained
 *	destroy_qp, destroy_srq
 *	destroy_cq			completion queues that the core does not poll
 *	destroy_polled_cq		those that the core polls: they go when this module does
 *	dereg_mr			regions for fast registration
 *
 * "error" is the errno of these failures, EIO where it is not given.
 *
 * "fail_qp=N" lets the N-th allocation fail of those that a queue pair makes from its change to the error state until it is
 * destroyed, with "skip=M" not of the first M queue pairs; "fail_cq=N" the N-th of those that destroying a completion queue makes.
 * A parameter is 0 again when it has let one fail. They want a kernel with fault injection.
 *
 * "last_wqe_delay" is how many milliseconds IB_EVENT_QP_LAST_WQE_REACHED comes late.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

MODULE_DESCRIPTION("lets methods of a driver fail, for tests of clients");
MODULE_LICENSE("GPL");

#define CLIENT "verbs_client"

static unsigned int modify_qp, post_send, post_recv, destroy_qp, destroy_srq, destroy_cq, destroy_polled_cq, dereg_mr;
static unsigned int fail_qp, fail_cq, skip, last_wqe_delay, error = EIO;
module_param(modify_qp, uint, 0600);
module_param(post_send, uint, 0600);
module_param(post_recv, uint, 0600);
module_param(destroy_qp, uint, 0600);
module_param(destroy_srq, uint, 0600);
module_param(destroy_cq, uint, 0600);
module_param(destroy_polled_cq, uint, 0600);
module_param(dereg_mr, uint, 0600);
module_param(last_wqe_delay, uint, 0600);
module_param(error, uint, 0600);
module_param(fail_qp, uint, 0600);
module_param(fail_cq, uint, 0600);
module_param(skip, uint, 0600);

/* The methods of the driver: all devices are of one. */
static struct ib_device_ops real;

static bool is_client(const struct rdma_restrack_entry *owner)
{
	return owner->kern_name && !strcmp(owner->kern_name, CLIENT);
}

static bool fails(unsigned int *left, const struct rdma_restrack_entry *owner)
{
	if (!READ_ONCE(*left) || !is_client(owner))
		return false;
	WRITE_ONCE(*left, *left - 1);
	return true;
}

/* Completion queues that were not destroyed, although the core has given them up. */
static struct {
	struct mutex lock;
	unsigned int count;
	struct ib_cq *cq[8];
} kept = { .lock = __MUTEX_INITIALIZER(kept.lock) };

static bool keep(struct ib_cq *cq)
{
	bool is_kept;

	mutex_lock(&kept.lock);
	is_kept = kept.count < ARRAY_SIZE(kept.cq) && fails(&destroy_polled_cq, &cq->res);
	if (is_kept)
		kept.cq[kept.count++] = cq;
	mutex_unlock(&kept.lock);
	return is_kept;
}

#ifdef CONFIG_FAULT_INJECTION
/* The queue pair whose allocations may fail: one at a time, all in the task that ends it. */
static struct ib_qp *armed;

static void arm_qp(struct ib_qp *qp)
{
	/* It may be in the error state before its end begins. */
	if (armed == qp && current->fail_nth)
		return;
	if (armed) {
		/* An attempt to end it has failed: so has an allocation. */
		armed = NULL;
		fail_qp = 0;
	}
	if (!fail_qp || !is_client(&qp->pd->res))
		return;
	if (skip) {
		skip--;
		return;
	}
	armed = qp;
	current->fail_nth = fail_qp;
}

static void disarm_qp(const struct ib_qp *qp)
{
	if (armed != qp)
		return;
	armed = NULL;
	if (!current->fail_nth)
		fail_qp = 0;
	current->fail_nth = 0;
}

static int destroy_cq_in_need(struct ib_cq *cq)
{
	int ret;

	if (!fail_cq || !is_client(&cq->res))
		return real.destroy_cq(cq, NULL);
	current->fail_nth = fail_cq;
	ret = real.destroy_cq(cq, NULL);
	if (!current->fail_nth)
		fail_cq = 0;
	current->fail_nth = 0;
	return ret;
}
#else
static void arm_qp(struct ib_qp *qp) {}
static void disarm_qp(const struct ib_qp *qp) {}
static int destroy_cq_in_need(struct ib_cq *cq) { return real.destroy_cq(cq, NULL); }
#endif

/* An event that comes late, of one queue pair at a time. */
static struct {
	struct delayed_work work;
	void (*handler)(struct ib_event *event, void *context);
	struct ib_event event;
	void *context;
} late;

static void tell_late(struct work_struct *work)
{
	late.handler(&late.event, late.context);
}

static void qp_event(struct ib_event *event, void *context)
{
	if (event->event != IB_EVENT_QP_LAST_WQE_REACHED || !last_wqe_delay)
		return late.handler(event, context);
	late.event = *event;
	late.context = context;
	schedule_delayed_work(&late.work, msecs_to_jiffies(last_wqe_delay));
}

static int create_qp_op(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	int ret = real.create_qp(qp, attr, udata);

	if (!ret && last_wqe_delay && qp->event_handler) {
		late.handler = qp->event_handler;
		qp->event_handler = qp_event;
	}
	return ret;
}

static int modify_qp_op(struct ib_qp *qp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	if ((mask & IB_QP_STATE) && attr->qp_state == IB_QPS_ERR) {
		if (fails(&modify_qp, &qp->pd->res))
			return -error;
		arm_qp(qp);
	}
	return real.modify_qp(qp, attr, mask, udata);
}

static int post_send_op(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	if (wr && !wr->num_sge && wr->opcode == IB_WR_RDMA_WRITE && fails(&post_send, &qp->pd->res)) {
		*bad = wr;
		return -error;
	}
	return real.post_send(qp, wr, bad);
}

static int post_recv_op(struct ib_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	if (wr && !wr->num_sge && fails(&post_recv, &qp->pd->res)) {
		*bad = wr;
		return -error;
	}
	return real.post_recv(qp, wr, bad);
}

static int destroy_qp_op(struct ib_qp *qp, struct ib_udata *udata)
{
	int ret;

	if (fails(&destroy_qp, &qp->pd->res))
		return -error;
	if (last_wqe_delay)
		cancel_delayed_work_sync(&late.work);
	ret = real.destroy_qp(qp, udata);
	disarm_qp(qp);
	return ret;
}

static int destroy_srq_op(struct ib_srq *srq, struct ib_udata *udata)
{
	return fails(&destroy_srq, &srq->pd->res) ? -error : real.destroy_srq(srq, udata);
}

static int destroy_cq_op(struct ib_cq *cq, struct ib_udata *udata)
{
	/* The core gives those that it polls for verbs_client no context. */
	if (cq->cq_context ? fails(&destroy_cq, &cq->res) : keep(cq))
		return -error;
	return udata ? real.destroy_cq(cq, udata) : destroy_cq_in_need(cq);
}

static int dereg_mr_op(struct ib_mr *mr, struct ib_udata *udata)
{
	if (mr->type == IB_MR_TYPE_MEM_REG && fails(&dereg_mr, &mr->pd->res))
		return -error;
	return real.dereg_mr(mr, udata);
}

static int add_one(struct ib_device *device)
{
	if (real.create_qp && real.create_qp != device->ops.create_qp)
		return -EOPNOTSUPP;
	real = device->ops;
	device->ops.create_qp = create_qp_op;
	device->ops.modify_qp = modify_qp_op;
	device->ops.post_send = post_send_op;
	device->ops.post_recv = post_recv_op;
	device->ops.destroy_qp = destroy_qp_op;
	device->ops.destroy_srq = destroy_srq_op;
	device->ops.destroy_cq = destroy_cq_op;
	device->ops.dereg_mr = dereg_mr_op;
	return 0;
}

/* The core must not have freed them: the driver reads them here. Their memory is lost, as the core has no use of it any more. */
static void destroy_kept(const struct ib_device *device)
{
	unsigned int i;

	mutex_lock(&kept.lock);
	for (i = 0; i < kept.count; i++) {
		if (!kept.cq[i] || kept.cq[i]->device != device)
			continue;
		WARN_ON(real.destroy_cq(kept.cq[i], NULL));
		kept.cq[i] = NULL;
	}
	mutex_unlock(&kept.lock);
}

static void remove_one(struct ib_device *device, void *data)
{
	destroy_kept(device);
	device->ops.create_qp = real.create_qp;
	device->ops.modify_qp = real.modify_qp;
	device->ops.post_send = real.post_send;
	device->ops.post_recv = real.post_recv;
	device->ops.destroy_qp = real.destroy_qp;
	device->ops.destroy_srq = real.destroy_srq;
	device->ops.destroy_cq = real.destroy_cq;
	device->ops.dereg_mr = real.dereg_mr;
}

static struct ib_client client = { .name = "failing_ops", .add = add_one, .remove = remove_one };

static int __init failing_ops_init(void)
{
	INIT_DELAYED_WORK(&late.work, tell_late);
	return ib_register_client(&client);
}

static void __exit failing_ops_exit(void)
{
	ib_unregister_client(&client);
}

module_init(failing_ops_init);
module_exit(failing_ops_exit);
