// SPDX-License-Identifier: GPL-2.0
/* Identifiers in each state when their device goes; neighbours that move. */
#include <linux/workqueue.h>

#include "cma_test.h"

/* An end that is destroyed outside of its handler, as soon as that is told of the removal. */
struct leaver {
	struct rt_end end;
	struct rt_queues queues;
	bool has_queues;
	struct work_struct work;
};

static struct leaver bound, resolving, resolved, routed, listening, asking, asked, connected, accepted, member, datagram, disconnected;
static struct rt_end gives_up, any, any_listener, nobody;
static DECLARE_WAIT_QUEUE_HEAD(freed);

static const struct {
	const char *name;
	struct leaver *leaver;
} leavers[] = {
	{ "bound", &bound }, { "resolves an address", &resolving }, { "knows an address", &resolved }, { "knows a route", &routed },
	{ "listens", &listening }, { "asks", &asking }, { "is asked", &asked }, { "is connected", &connected },
	{ "has accepted", &accepted }, { "is member of a group", &member }, { "asks for a datagram", &datagram },
	{ "has disconnected", &disconnected },
};

static void leave(struct work_struct *work)
{
	struct leaver *leaver = container_of(work, struct leaver, work);

	if (leaver->end.id->qp)
		rdma_destroy_qp(leaver->end.id);
	if (leaver->has_queues)
		rt_queues_down(&leaver->queues);
	leaver->has_queues = false;
	rt_down(&leaver->end);
	wake_up_all(&freed);
}

/* What an identifier may be asked for when its device goes: nothing. */
static int asks(struct rt_end *end)
{
	struct rdma_conn_param param = rt_param(NULL, 0);
	int wrong = 0;

	wrong += rdma_resolve_route(end->id, 1000) != -EINVAL;
	wrong += rdma_connect_locked(end->id, &param) != -EINVAL;
	wrong += rdma_accept(end->id, &param) != -EINVAL;
	wrong += rdma_bind_addr(end->id, rt_sa(RT_HERE, 0)) != -EINVAL;
	wrong += rdma_listen(end->id, 1) != -EINVAL;
	wrong += rdma_restrict_node_type(end->id, RDMA_NODE_IB_CA) != -EALREADY;
	return wrong;
}

static int leaves(struct rt_end *end, struct rdma_cm_event *event)
{
	struct leaver *leaver = container_of(end, struct leaver, end);

	if (event->event != RDMA_CM_EVENT_DEVICE_REMOVAL)
		return 0;
	INIT_WORK(&leaver->work, leave);
	schedule_work(&leaver->work);
	return asks(end);
}

static void will_leave(struct leaver *leaver, const char *what, int ret)
{
	CHECK_EQ(what, 0, ret);
	leaver->end.act = leaves;
}

static int resolve_nobody(struct rt_end *end)
{
	return rt_bound(end, RT_HERE, 0) ?: rdma_resolve_addr(end->id, NULL, rt_sa(RT_NOBODY, RT_PORT), 100000);
}

static int join(struct rt_end *end)
{
	int ret = rt_up_udp(end) ?: rdma_bind_addr(end->id, rt_sa(RT_HERE, 0)) ?:
		  rdma_join_multicast(end->id, rt_sa("239.1.2.6", 0), BIT(FULLMEMBER_JOIN), NULL);

	return ret ?: rt_is_next(end, RDMA_CM_EVENT_MULTICAST_JOIN) ? 0 : -ENOENT;
}

static int answered_datagram(struct rt_end *end)
{
	static struct rt_end listener, child;
	int ret = rt_listen_udp(&listener, &child, RT_HERE, 0) ?: rt_routed_udp(end, RT_HERE, rt_port(listener.id)) ?:
		  rt_connect(end, NULL, 0);

	if (!ret && !(rt_is_next(&child, RDMA_CM_EVENT_CONNECT_REQUEST) && !rt_go(&child) &&
		      rt_is_next(end, RDMA_CM_EVENT_ESTABLISHED)))
		ret = -ENOENT;
	rt_down(&child);
	rt_down(&listener);
	return ret;
}

/* A connection of two queue pairs. */
static int connect(void)
{
	int ret = rt_routed(&connected.end, RT_HERE, rt_port(listening.end.id)) ?:
		  rt_queues_up(&connected.queues, connected.end.id->device);

	if (ret)
		return ret;
	connected.has_queues = true;
	rt_forget(&accepted.end);
	listening.end.for_child = &accepted.end;
	ret = rt_create_qp(&connected.end, &connected.queues) ?: rt_connect(&connected.end, NULL, 0);
	if (!ret && !rt_is_next(&accepted.end, RDMA_CM_EVENT_CONNECT_REQUEST))
		ret = -ENOENT;
	ret = ret ?: rt_queues_up(&accepted.queues, accepted.end.id->device);
	if (ret)
		return ret;
	accepted.has_queues = true;
	ret = rt_create_qp(&accepted.end, &accepted.queues) ?: rt_accept(&accepted.end, NULL, 0);
	if (!ret && !(rt_is_next(&connected.end, RDMA_CM_EVENT_ESTABLISHED) && rt_is_next(&accepted.end, RDMA_CM_EVENT_ESTABLISHED)))
		ret = -ENOENT;
	return ret;
}

void rt_test_leave(void)
{
	static struct rt_end peer;
	bool ok;

	will_leave(&bound, "one that is bound", rt_bound(&bound.end, RT_HERE, 0));
	will_leave(&resolving, "one that resolves an address", resolve_nobody(&resolving.end));
	will_leave(&resolved, "one that knows an address", rt_resolved(&resolved.end, RT_HERE, RT_PORT));
	will_leave(&routed, "one that knows a route", rt_routed(&routed.end, RT_HERE, RT_PORT));
	will_leave(&listening, "one that listens", rt_listen(&listening.end, &asked.end, RT_HERE, RT_PORT));
	ok = rt_join(&listening.end, &disconnected.end, &peer) && !rdma_disconnect(disconnected.end.id) &&
	     rt_is_next(&peer, RDMA_CM_EVENT_DISCONNECTED) && !rdma_disconnect(peer.id) &&
	     rt_is_next(&disconnected.end, RDMA_CM_EVENT_DISCONNECTED);
	rt_down(&peer);
	will_leave(&disconnected, "one that has disconnected", ok ? 0 : -ENOENT);
	will_leave(&connected, "one that is connected", connect());
	accepted.end.act = leaves;
	ok = rt_ask(&listening.end, &asking.end, &asked.end);
	will_leave(&asking, "one that asks", ok ? 0 : -ENOENT);
	asked.end.act = leaves;
	will_leave(&member, "one that is member of a group", join(&member.end));
	will_leave(&datagram, "one that has asked for a datagram", answered_datagram(&datagram.end));
	CHECK_EQ("one that gives up", 0, rt_bound(&gives_up, RT_HERE, RT_PORT + 1));
	gives_up.fails_at = 1;
	CHECK_EQ("one of any address", 0, rt_bound(&any, "0.0.0.0", 0));
	CHECK_EQ("one that listens at any address", 0, rt_listen(&any_listener, &nobody, "0.0.0.0", 0));
}

/* How often an end was told of the removal. */
static int removals(struct rt_end *end)
{
	int nth, count = 0;

	for (nth = 0; nth < end->told && nth < RT_EVENTS; nth++)
		count += end->events[nth].event.event == RDMA_CM_EVENT_DEVICE_REMOVAL;
	return count;
}

static void check_left(struct leaver *leaver, const char *name)
{
	struct rt_event *last = &leaver->end.events[max(leaver->end.told - 1, 0) % RT_EVENTS];

	pr_info("one that %s\n", name);
	CHECK_EQ("is told once", 1, removals(&leaver->end));
	CHECK_EQ("and nothing after that", RDMA_CM_EVENT_DEVICE_REMOVAL, last->event.event);
	CHECK("it has its device then", last->device);
	CHECK_EQ("no errno", 0, last->event.status);
	CHECK_EQ("it may ask for nothing", 0, leaver->end.acted);
	CHECK("it is destroyed", wait_event_timeout(freed, !READ_ONCE(leaver->end.id), 5 * HZ));
}

void rt_test_left(void)
{
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(leavers); nth++)
		check_left(leavers[nth].leaver, leavers[nth].name);
	CHECK_EQ("one that gives up is told", 1, removals(&gives_up));
	CHECK("it is destroyed", !gives_up.id);
	CHECK_EQ("its port is free", 0, rt_bound(&gives_up, "0.0.0.0", RT_PORT + 1));
	rt_down(&gives_up);
	CHECK_EQ("one of any address is not told", 0, any.told);
	CHECK_EQ("it finds no device", 0, rdma_resolve_addr(any.id, NULL, rt_sa(RT_HERE, 1), 1000));
	{
		struct rt_event *told = rt_next(&any);

		CHECK("which is told", told && told->event.event == RDMA_CM_EVENT_ADDR_ERROR);
		CHECK_EQ("the errno", -ENODEV, told ? told->event.status : 0);
	}
	rt_down(&any);
	CHECK_EQ("nor is one that listens at any", 0, any_listener.told);
	CHECK_EQ("no device for an address", -ENODEV, rt_bound(&any, RT_HERE, 0));
	rt_down(&any);
	rt_up_tcp(&any);
	CHECK_EQ("nor for the loopback address", -ENODEV, rdma_resolve_addr(any.id, NULL, rt_sa("127.0.0.1", 1), 1000));
	rt_down(&any);
	/* The listener stays, for a device that comes. */
	CHECK_EQ("it listens still", -EINVAL, rdma_listen(any_listener.id, 1));
}

void rt_test_back(void)
{
	static struct rt_end active, passive;

	CHECK("who listened at any is reached when it comes back", rt_ask(&any_listener, &active, &passive));
	rt_down(&active);
	rt_down(&passive);
	rt_down(&any_listener);
}

/* A neighbour that moves: who has a route to it is told. */

static struct rt_end near_one, near_two, far;

void rt_test_neighbour(void)
{
	CHECK_EQ("a route to a neighbour", 0, rt_routed(&near_one, RT_NEIGHBOUR, RT_PORT));
	CHECK_EQ("another", 0, rt_routed(&near_two, RT_NEIGHBOUR, RT_PORT));
	near_two.fails_at = near_two.told + 1;
	CHECK_EQ("a route to somebody else", 0, rt_routed(&far, RT_HERE, RT_PORT));
	CHECK("no news", rt_quiet(&near_one));
}

void rt_test_moved(void)
{
	struct rt_event *told = rt_next(&near_one);

	CHECK("one is told", told && told->event.event == RDMA_CM_EVENT_UNREACHABLE);
	CHECK_EQ("the errno", -ETIMEDOUT, told ? told->event.status : 0);
	CHECK("the other too", rt_is_next(&near_two, RDMA_CM_EVENT_UNREACHABLE));
	CHECK("which gives up", !near_two.id && rt_quiet(&near_two));
	CHECK("who has another peer is not told", rt_quiet(&far));
	rt_down(&near_one);
	rt_down(&far);
	CHECK_EQ("a route as it is now", 0, rt_routed(&near_one, RT_NEIGHBOUR, RT_PORT));
	CHECK_EQ("the MAC address", 0x51, near_one.id->route.path_rec->roce.dmac[5]);
	rt_down(&near_one);
}
