// SPDX-License-Identifier: GPL-2.0
/*
 * Events come after the state that they announce: a handler that looks finds that state. What it finds of the device is logged
 * as "event|WHAT STATE"; the parameter "gid" says for which GID it looks.
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

struct qp_events {
	struct completion told;
	struct work_struct work;
	struct ib_qp *qp;
	enum ib_event_type event;
	bool may_sleep;
	int state;
};

/* In process context: either in the handler itself or, where that may not sleep, as soon as possible after it. */
static void look(struct qp_events *events)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr = {};
	int ret = ib_query_qp(events->qp, &attr, IB_QP_STATE, &init);

	events->state = ret ?: attr.qp_state;
	complete(&events->told);
}

static void look_later(struct work_struct *work)
{
	look(container_of(work, struct qp_events, work));
}

static void on_qp_event(struct ib_event *event, void *context)
{
	struct qp_events *events = context;

	/* Of the two queue pairs it is the responder that is refused something. */
	if (event->event != IB_EVENT_QP_ACCESS_ERR && event->event != IB_EVENT_QP_FATAL)
		return;
	events->qp = event->element.qp;
	events->event = event->event;
	events->may_sleep = in_task() && !irqs_disabled() && !in_atomic();
	if (events->may_sleep)
		look(events);
	else
		queue_work(system_highpri_wq, &events->work);
}

static void announced(struct ib_cq *cq, void *context)
{
}

/* The peer's memory is written with a key that there is not. */
static int write_without_key(struct rules_pair *pair)
{
	struct ib_sge sge = { .addr = pair->on->dma, .length = RULES_SIZE, .lkey = pair->on->pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr = { .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_RDMA_WRITE, .send_flags = IB_SEND_SIGNALED },
		.remote_addr = pair->on->dma,
		.rkey = 0xdead00,
	};

	return ib_post_send(pair->from, &wr.wr, NULL);
}

void rules_qp_events(struct rules_device *on)
{
	struct qp_events *events = kzalloc(sizeof(*events), GFP_KERNEL);
	struct ib_cq_init_attr attr = { .cqe = 4 * RULES_DEPTH };
	struct rules_pair pair = {};
	struct ib_cq *cq;
	int ret;

	if (!events)
		return;
	init_completion(&events->told);
	INIT_WORK(&events->work, look_later);
	cq = ib_create_cq(on->device, announced, NULL, NULL, &attr);
	ret = PTR_ERR_OR_ZERO(cq) ?: rules_connect(&pair, on, cq, NULL, on_qp_event, events);
	ret = ret ?: write_without_key(&pair);
	CHECK_EQ("events of a queue pair", "memory is written without the right", 0, ret);
	if (!ret) {
		CHECK("events of a queue pair", "the owner is told", wait_for_completion_timeout(&events->told, 5 * HZ));
		CHECK_EQ("events of a queue pair", "and finds that it has failed", IB_QPS_ERR, events->state);
	}
	rules_disconnect(&pair);
	flush_work(&events->work);
	if (!IS_ERR(cq))
		ib_destroy_cq(cq);
	kfree(events);
}
