// SPDX-License-Identifier: GPL-2.0
/*
 * Events come after the state that they announce: a handler that looks finds that state. What it finds of the device is logged
 * as "event|WHAT STATE"; the parameter "gid" says for which GID it looks. Of objects each event is provoked that a software
 * device raises without a forged packet, but for IB_EVENT_COMM_EST (verbs_client).
 */
#include <linux/completion.h>
#include <linux/inet.h>
#include "rules.h"

static struct rules_device *listening;
static struct ib_event_handler handler;

static union ib_gid sought;

static int set_gid(const char *value, const struct kernel_param *param)
{
	return in6_pton(value, -1, sought.raw, '\n', NULL) == 1 ? 0 : -EINVAL;
}

static const struct kernel_param_ops gid_ops = { .set = set_gid };
module_param_cb(gid, &gid_ops, NULL, 0200);
MODULE_PARM_DESC(gid, "The GID for which a handler looks when the table has changed, as an IPv6 address");

static void on_port(struct ib_device *device, u32 port, const char *what)
{
	enum ib_port_state cached = IB_PORT_NOP;
	struct ib_port_attr attr = {};

	if (ib_query_port(device, port, &attr) || ib_get_cached_port_state(device, port, &cached))
		pr_info("event|%s unknown\n", what);
	else if (attr.state != cached)
		pr_info("event|%s %d but cached %d\n", what, attr.state, cached);
	else
		pr_info("event|%s %s\n", what, attr.state == IB_PORT_ACTIVE ? "active" : "not-active");
}

static void on_gid(struct ib_device *device)
{
	const struct ib_gid_attr *found = rdma_find_gid(device, &sought, IB_GID_TYPE_ROCE_UDP_ENCAP, NULL);

	pr_info("event|gid %s\n", IS_ERR(found) ? "absent" : "present");
	if (!IS_ERR(found))
		rdma_put_gid_attr(found);
}

static void on_event(struct ib_event_handler *handler, struct ib_event *event)
{
	/* Asking for the state of a port may sleep. */
	if (!in_task() || irqs_disabled())
		pr_info("event|%s in the wrong context\n", ib_event_msg(event->event));
	else if (event->event == IB_EVENT_PORT_ACTIVE)
		on_port(event->device, event->element.port_num, "port-active");
	else if (event->event == IB_EVENT_PORT_ERR)
		on_port(event->device, event->element.port_num, "port-error");
	else if (event->event == IB_EVENT_GID_CHANGE)
		on_gid(event->device);
	else if (event->event == IB_EVENT_DEVICE_FATAL)
		pr_info("event|device-fatal of %s\n", dev_name(&event->device->dev));
}

int rules_events_begin(struct rules_device *on)
{
	if (listening)
		return -EBUSY;
	INIT_IB_EVENT_HANDLER(&handler, on->device, on_event);
	ib_register_event_handler(&handler);
	listening = on;
	return 0;
}

void rules_events_end(void)
{
	if (listening)
		ib_unregister_event_handler(&handler);
	listening = NULL;
}

/* A wait for one of some events of an object, and a look at the object then. */
struct watch {
	u32 wanted;			/* a bit for each event */
	int (*look)(struct watch *watch);
	atomic_t looked;		/* at the first of them, or nobody is to look any more */
	struct ib_event event;
	struct rules_pair pair;
	struct ib_cq *cq;
	struct ib_srq *srq;
	struct completion told;
	struct work_struct work;
	int seen;
};

static int state_of(struct ib_qp *qp, bool *draining)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr = {};
	int ret = ib_query_qp(qp, &attr, IB_QP_STATE, &init);

	*draining = attr.sq_draining;
	return ret ?: attr.qp_state;
}

/* The state of the queue pair that the event is of; a drained one has nothing to drain any more. */
static int look_at_qp(struct watch *watch)
{
	bool draining;
	int state = state_of(watch->event.element.qp, &draining);

	return draining ? -EINPROGRESS : state;
}

/* How many queue pairs of the completion queue are in error. */
static int look_at_cq(struct watch *watch)
{
	bool draining;

	if (watch->event.element.cq != watch->cq)
		return -EINVAL;
	return (state_of(watch->pair.from, &draining) == IB_QPS_ERR) + (state_of(watch->pair.to, &draining) == IB_QPS_ERR);
}

/* The limit that is left. */
static int look_at_srq(struct watch *watch)
{
	struct ib_srq_attr attr = {};

	if (watch->event.element.srq != watch->srq)
		return -EINVAL;
	return ib_query_srq(watch->srq, &attr) ?: attr.srq_limit;
}

/* In process context: either in the handler itself or, where that may not sleep, as soon as possible after it. */
static void look(struct work_struct *work)
{
	struct watch *watch = container_of(work, struct watch, work);

	watch->seen = watch->look(watch);
	complete(&watch->told);
}

static void on_object_event(struct ib_event *event, void *context)
{
	struct watch *watch = context;

	if (!(watch->wanted & BIT(event->event)) || atomic_xchg(&watch->looked, 1))
		return;
	watch->event = *event;
	if (in_task() && !irqs_disabled() && !in_atomic())
		look(&watch->work);
	else
		queue_work(system_highpri_wq, &watch->work);
}

static void announced(struct ib_cq *cq, void *context)
{
}

/* Two queue pairs with a CQ, and an SRQ at the receiving end if there is to be one. */
static int prepare(struct watch *watch, struct rules_device *on, int entries, bool has_srq)
{
	struct ib_srq_init_attr srq = {
		.event_handler = on_object_event, .srq_context = watch,
		.attr = { .max_wr = RULES_DEPTH, .max_sge = 1 }, .srq_type = IB_SRQT_BASIC,
	};
	struct ib_cq_init_attr cq = { .cqe = entries };

	init_completion(&watch->told);
	INIT_WORK(&watch->work, look);
	watch->cq = ib_create_cq(on->device, announced, on_object_event, watch, &cq);
	if (IS_ERR(watch->cq))
		return PTR_ERR(watch->cq);
	if (has_srq)
		watch->srq = ib_create_srq(on->pd, &srq);
	if (IS_ERR(watch->srq))
		return PTR_ERR(watch->srq);
	return rules_connect(&watch->pair, on, watch->cq, watch->srq, on_object_event, watch);
}

static void finish(struct watch *watch)
{
	atomic_set(&watch->looked, 1);
	flush_work(&watch->work);
	rules_disconnect(&watch->pair);
	if (!IS_ERR_OR_NULL(watch->srq))
		ib_destroy_srq(watch->srq);
	if (!IS_ERR_OR_NULL(watch->cq))
		ib_destroy_cq(watch->cq);
	kfree(watch);
}

/* The peer's memory is written with a key that there is not. */
static int write_without_key(struct watch *watch)
{
	struct rules_device *on = watch->pair.on;
	struct ib_sge sge = { .addr = on->dma, .length = RULES_SIZE, .lkey = on->pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr = { .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_RDMA_WRITE, .send_flags = IB_SEND_SIGNALED },
		.remote_addr = on->dma,
		.rkey = 0xdead00,
	};

	return ib_post_send(watch->pair.from, &wr.wr, NULL);
}

static int messages(struct watch *watch, int count)
{
	int i, ret = 0;

	for (i = 0; !ret && i < count; i++)
		ret = rules_receive(&watch->pair, i, NULL) ?: rules_send(&watch->pair, i, NULL);
	return ret;
}

static int too_many_messages(struct watch *watch)
{
	return messages(watch, RULES_DEPTH / 2);
}

static int drain(struct watch *watch)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_SQD, .en_sqd_async_notify = 1 };
	int ret = messages(watch, 4);

	return ret ?: ib_modify_qp(watch->pair.from, &attr, IB_QP_STATE | IB_QP_EN_SQD_ASYNC_NOTIFY);
}

static int put_in_error(struct watch *watch)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	return ib_modify_qp(watch->pair.to, &attr, IB_QP_STATE);
}

static int take_below_limit(struct watch *watch)
{
	struct ib_srq_attr attr = { .srq_limit = 1 };
	int ret = rules_receive(&watch->pair, 0, NULL);

	ret = ret ?: ib_modify_srq(watch->srq, &attr, IB_SRQ_LIMIT);
	return ret ?: rules_send(&watch->pair, 0, NULL);
}

/* What is done, of which event that tells, and what is seen then. */
static const struct object_event {
	const char *command, *name;
	int entries;
	bool has_srq;
	int (*provoke)(struct watch *watch);
	u32 wanted;
	int (*look)(struct watch *watch);
	int least, most;
} object_events[] = {
	/* Of the two queue pairs it is the responder that is refused something. */
	{ "qp-events", "a peer has no right", 4 * RULES_DEPTH, false, write_without_key,
	  BIT(IB_EVENT_QP_ACCESS_ERR) | BIT(IB_EVENT_QP_FATAL), look_at_qp, IB_QPS_ERR, IB_QPS_ERR },
	{ "drained", "a send queue is drained", 4 * RULES_DEPTH, false, drain,
	  BIT(IB_EVENT_SQ_DRAINED), look_at_qp, IB_QPS_SQD, IB_QPS_SQD },
	{ "last-wqe", "a queue pair takes no more of an SRQ", 4 * RULES_DEPTH, true, put_in_error,
	  BIT(IB_EVENT_QP_LAST_WQE_REACHED), look_at_qp, IB_QPS_ERR, IB_QPS_ERR },
	{ "srq-limit", "the limit of an SRQ is reached", 4 * RULES_DEPTH, true, take_below_limit,
	  BIT(IB_EVENT_SRQ_LIMIT_REACHED), look_at_srq, 0, 0 },
	{ "cq-error", "a CQ overruns", 4, false, too_many_messages,
	  BIT(IB_EVENT_CQ_ERR), look_at_cq, 1, 2 },
	{ "cq-error-qp", "a completion of a queue pair is lost", 4, false, too_many_messages,
	  BIT(IB_EVENT_QP_FATAL), look_at_qp, IB_QPS_ERR, IB_QPS_ERR },
};

static void watch_one(struct rules_device *on, const struct object_event *one)
{
	struct watch *watch = kzalloc(sizeof(*watch), GFP_KERNEL);
	int ret;

	if (!watch)
		return;
	watch->wanted = one->wanted;
	watch->look = one->look;
	ret = prepare(watch, on, one->entries, one->has_srq) ?: one->provoke(watch);
	CHECK_EQ(one->name, "that is done", 0, ret);
	if (!ret) {
		CHECK(one->name, "the owner is told", wait_for_completion_timeout(&watch->told, 5 * HZ));
		rules_result(watch->seen >= one->least && watch->seen <= one->most, one->name,
			     "and finds that it is so", watch->seen);
	}
	finish(watch);
}

bool rules_object_event(struct rules_device *on, const char *command)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(object_events); i++) {
		if (sysfs_streq(command, object_events[i].command)) {
			watch_one(on, &object_events[i]);
			return true;
		}
	}
	return false;
}
