// SPDX-License-Identifier: GPL-2.0
/* Ends of connections: what they ask for, and what they are told. */
#include "cma_test.h"

static DECLARE_WAIT_QUEUE_HEAD(told);

/* The identifiers that are there, so that none is left when the module goes. */
static DEFINE_XARRAY(alive);

static void is_alive(struct rdma_cm_id *id)
{
	xa_store(&alive, (unsigned long)id, id, GFP_KERNEL);
}

static void is_gone(struct rdma_cm_id *id)
{
	xa_erase(&alive, (unsigned long)id);
}

bool rt_destroy_rest(void)
{
	struct rdma_cm_id *id;
	unsigned long index;
	bool any = false;

	xa_for_each(&alive, index, id) {
		any = true;
		is_gone(id);
		rdma_destroy_id(id);
	}
	return any;
}

static void copy_event(struct rt_event *copy, struct rdma_cm_id *id, const struct rdma_cm_event *event)
{
	memset(copy, 0, sizeof(*copy));
	copy->event = *event;
	copy->id = id;
	copy->device = id->device;
	/* What a join has for its context is no data. */
	if (event->event == RDMA_CM_EVENT_MULTICAST_JOIN || event->event == RDMA_CM_EVENT_MULTICAST_ERROR)
		return;
	if (!event->param.conn.private_data)
		return;
	copy->has_data = true;
	memcpy(copy->data, event->param.conn.private_data, event->param.conn.private_data_len);
}

static int handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct rt_end *end = id->context;
	struct completion *wait_for;
	int ret = 0, inside;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		end = end->for_child;
		if (!end)
			return -ECONNREFUSED;
		id->context = end;
		end->id = id;
		is_alive(id);
	}
	inside = atomic_inc_return(&end->inside);
	if (inside > atomic_read(&end->most_inside))
		atomic_set(&end->most_inside, inside);
	if (end->told < RT_EVENTS)
		copy_event(&end->events[end->told], id, event);
	if (end->act) {
		int acted = end->act(end, event);

		end->acted = end->acted ?: acted;
	}
	if (end->told + 1 == end->fails_at) {
		ret = -EPIPE;
		end->id = NULL;
		is_gone(id);
	}
	/* Who is told may set another one for the next event. */
	wait_for = end->wait_for;
	smp_store_release(&end->told, end->told + 1);
	wake_up_all(&told);
	if (wait_for)
		wait_for_completion(wait_for);
	atomic_dec(&end->inside);
	return ret;
}

rdma_cm_event_handler rt_handler_of(void)
{
	return handler;
}

void rt_forget(struct rt_end *end)
{
	memset(end, 0, sizeof(*end));
}

int rt_up(struct rt_end *end, enum rdma_ucm_port_space ps, enum ib_qp_type type)
{
	struct rdma_cm_id *id;

	rt_forget(end);
	id = rdma_create_id(current->nsproxy->net_ns, handler, end, ps, type);
	if (IS_ERR(id))
		return PTR_ERR(id);
	end->id = id;
	is_alive(id);
	return 0;
}

void rt_down(struct rt_end *end)
{
	if (end->id) {
		is_gone(end->id);
		rdma_destroy_id(end->id);
	}
	end->id = NULL;
}

struct rt_event *rt_next(struct rt_end *end)
{
	int nth = end->taken;

	if (!wait_event_timeout(told, smp_load_acquire(&end->told) > nth, 20 * HZ) || nth >= RT_EVENTS)
		return NULL;
	end->taken = nth + 1;
	return &end->events[nth];
}

bool rt_is_next(struct rt_end *end, enum rdma_cm_event_type type)
{
	struct rt_event *event = rt_next(end);

	if (event && event->event.event != type)
		pr_info("event %d, not %d\n", event->event.event, type);
	return event && event->event.event == type;
}

bool rt_quiet(struct rt_end *end)
{
	msleep(300);
	return smp_load_acquire(&end->told) == end->taken;
}

int rt_bound(struct rt_end *end, const char *text, u16 port)
{
	return rt_up_tcp(end) ?: rdma_bind_addr(end->id, rt_sa(text, port));
}

static int listen_on(struct rt_end *listener, struct rt_end *child, const char *text, u16 port)
{
	rt_forget(child);
	listener->for_child = child;
	return rdma_bind_addr(listener->id, rt_sa(text, port)) ?: rdma_listen(listener->id, 10);
}

int rt_listen(struct rt_end *listener, struct rt_end *child, const char *text, u16 port)
{
	return rt_up_tcp(listener) ?: listen_on(listener, child, text, port);
}

int rt_listen_udp(struct rt_end *listener, struct rt_end *child, const char *text, u16 port)
{
	return rt_up_udp(listener) ?: listen_on(listener, child, text, port);
}

static int resolve(struct rt_end *end, const char *text, u16 port)
{
	int ret = rdma_resolve_addr(end->id, NULL, rt_sa(text, port), 5000);

	if (ret)
		return ret;
	return rt_is_next(end, RDMA_CM_EVENT_ADDR_RESOLVED) ? 0 : -ENOENT;
}

static int route(struct rt_end *end)
{
	int ret = rdma_resolve_route(end->id, 5000);

	if (ret)
		return ret;
	return rt_is_next(end, RDMA_CM_EVENT_ROUTE_RESOLVED) ? 0 : -ENOENT;
}

int rt_resolved(struct rt_end *end, const char *text, u16 port)
{
	return rt_up_tcp(end) ?: resolve(end, text, port);
}

int rt_routed(struct rt_end *end, const char *text, u16 port)
{
	return rt_resolved(end, text, port) ?: route(end);
}

int rt_routed_udp(struct rt_end *end, const char *text, u16 port)
{
	return rt_up_udp(end) ?: resolve(end, text, port) ?: route(end);
}

struct rdma_conn_param rt_param(const void *data, u8 length)
{
	return (struct rdma_conn_param) {
		.private_data = data,
		.private_data_len = length,
		.responder_resources = 3,
		.initiator_depth = 5,
		.flow_control = 1,
		.retry_count = 6,
		.rnr_retry_count = 7,
		.srq = 1,
		.qp_num = atomic_inc_return(&rt_qpn),
	};
}

int rt_connect(struct rt_end *end, const void *data, u8 length)
{
	struct rdma_conn_param param = rt_param(data, length);

	return rdma_connect(end->id, &param);
}

int rt_accept(struct rt_end *end, const void *data, u8 length)
{
	struct rdma_conn_param param = rt_param(data, length);
	int ret;

	param.responder_resources = 2;
	param.initiator_depth = 4;
	param.rnr_retry_count = 5;
	rdma_lock_handler(end->id);
	ret = rdma_accept(end->id, &param);
	rdma_unlock_handler(end->id);
	return ret;
}

int rt_go(struct rt_end *end)
{
	int ret;

	rdma_lock_handler(end->id);
	ret = rdma_accept(end->id, NULL);
	rdma_unlock_handler(end->id);
	return ret;
}

bool rt_ask(struct rt_end *listener, struct rt_end *active, struct rt_end *passive)
{
	rt_forget(passive);
	listener->for_child = passive;
	return !rt_routed(active, RT_HERE, rt_port(listener->id)) && !rt_connect(active, NULL, 0) &&
	       rt_is_next(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
}

bool rt_join(struct rt_end *listener, struct rt_end *active, struct rt_end *passive)
{
	return rt_ask(listener, active, passive) && !rt_accept(passive, NULL, 0) &&
	       rt_is_next(active, RDMA_CM_EVENT_CONNECT_RESPONSE) && !rt_go(active) &&
	       rt_is_next(passive, RDMA_CM_EVENT_ESTABLISHED);
}

int rt_mask(struct rdma_cm_id *id, enum ib_qp_state state, struct ib_qp_attr *attr)
{
	int ret, mask = 0;

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	ret = rdma_init_qp_attr(id, attr, &mask);
	return ret ?: mask;
}
