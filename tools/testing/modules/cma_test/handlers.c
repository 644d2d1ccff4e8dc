// SPDX-License-Identifier: GPL-2.0
/* What handlers do: calls in them, identifiers that they give up, who waits for whom. Many connections at once. */
#include "cma_test.h"

static struct rt_end listener, active, passive, other;

/* A port is free some time after its identifier was given up. */
static bool is_free(u16 port)
{
	int tries, ret = -1;

	for (tries = 0; tries < 500 && ret; tries++) {
		ret = rt_bound(&other, "0.0.0.0", port);
		rt_down(&other);
		if (ret)
			msleep(10);
	}
	return !ret;
}

static void gives_up(const char *what, enum rdma_cm_event_type event, struct rt_end *end)
{
	CHECK(what, rt_is_next(end, event));
	CHECK("it is told nothing more", rt_quiet(end));
}

static bool ask(int active_fails, int passive_fails)
{
	rt_forget(&passive);
	passive.fails_at = passive_fails;
	listener.for_child = &passive;
	if (rt_routed(&active, RT_HERE, rt_port(listener.id)))
		return false;
	if (active_fails)
		active.fails_at = active.told + active_fails;
	return !rt_connect(&active, NULL, 0);
}

/*
 * Stock remembers an identifier for the news of its neighbour after it has queued the event of its route: one that its handler gives up
 * before that is used after it was freed. The lock of the handler keeps the event back until the call has returned.
 */
static int resolve_route(struct rdma_cm_id *id)
{
	int ret;

	if (rt_strict)
		return rdma_resolve_route(id, 1000);
	rdma_lock_handler(id);
	ret = rdma_resolve_route(id, 1000);
	rdma_unlock_handler(id);
	return ret;
}

static void given_up(void)
{
	u16 port;

	CHECK_EQ("bound", 0, rt_bound(&active, RT_HERE, RT_PORT));
	active.fails_at = 1;
	CHECK_EQ("an address", 0, rdma_resolve_addr(active.id, NULL, rt_sa(RT_HERE, 1), 1000));
	gives_up("an address", RDMA_CM_EVENT_ADDR_RESOLVED, &active);
	CHECK("its port is free", is_free(RT_PORT));
	CHECK_EQ("bound", 0, rt_bound(&active, RT_HERE, RT_PORT));
	active.fails_at = 1;
	CHECK_EQ("nobody's address", 0, rdma_resolve_addr(active.id, NULL, rt_sa(RT_NOBODY, 1), 100));
	gives_up("which is not found", RDMA_CM_EVENT_ADDR_ERROR, &active);
	CHECK("its port is free", is_free(RT_PORT));
	CHECK_EQ("an address", 0, rt_resolved(&active, RT_HERE, RT_PORT));
	port = rt_port(active.id);
	active.fails_at = 2;
	CHECK_EQ("a route", 0, resolve_route(active.id));
	gives_up("a route", RDMA_CM_EVENT_ROUTE_RESOLVED, &active);
	CHECK("its port is free", is_free(port));

	CHECK("a request", ask(0, 1));
	gives_up("the request", RDMA_CM_EVENT_CONNECT_REQUEST, &passive);
	CHECK("is refused by that", rt_is_next(&active, RDMA_CM_EVENT_REJECTED));
	rt_down(&active);
	CHECK("a request", ask(1, 0));
	port = rt_port(active.id);
	CHECK("which is told", rt_is_next(&passive, RDMA_CM_EVENT_CONNECT_REQUEST));
	CHECK_EQ("a refusal", 0, rdma_reject(passive.id, NULL, 0, IB_CM_REJ_CONSUMER_DEFINED));
	gives_up("the refusal", RDMA_CM_EVENT_REJECTED, &active);
	CHECK("its port is free", is_free(port));
	rt_down(&passive);
	CHECK("a request", ask(1, 0));
	CHECK("which is told", rt_is_next(&passive, RDMA_CM_EVENT_CONNECT_REQUEST));
	CHECK_EQ("an answer", 0, rt_accept(&passive, NULL, 0));
	gives_up("the answer", RDMA_CM_EVENT_CONNECT_RESPONSE, &active);
	CHECK("is refused by that", rt_is_next(&passive, RDMA_CM_EVENT_REJECTED));
	rt_down(&passive);
	CHECK("a request", ask(0, 2));
	CHECK("which is told", rt_is_next(&passive, RDMA_CM_EVENT_CONNECT_REQUEST));
	CHECK_EQ("an answer", 0, rt_accept(&passive, NULL, 0));
	CHECK("which is told", rt_is_next(&active, RDMA_CM_EVENT_CONNECT_RESPONSE));
	CHECK_EQ("a connection", 0, rt_go(&active));
	gives_up("the connection", RDMA_CM_EVENT_ESTABLISHED, &passive);
	CHECK("ends by that", rt_is_next(&active, RDMA_CM_EVENT_DISCONNECTED));
	rt_down(&active);
	CHECK("a connection", rt_join(&listener, &active, &passive));
	passive.fails_at = passive.told + 1;
	CHECK_EQ("its end", 0, rdma_disconnect(active.id));
	gives_up("the end", RDMA_CM_EVENT_DISCONNECTED, &passive);
	CHECK("is agreed to by that", rt_is_next(&active, RDMA_CM_EVENT_DISCONNECTED));
	rt_down(&active);
	CHECK("a connection", rt_join(&listener, &active, &passive));
	CHECK_EQ("its end", 0, rdma_disconnect(active.id));
	CHECK("which is told", rt_is_next(&passive, RDMA_CM_EVENT_DISCONNECTED));
	CHECK_EQ("it agrees", 0, rdma_disconnect(passive.id));
	CHECK("which is told", rt_is_next(&active, RDMA_CM_EVENT_DISCONNECTED));
	active.fails_at = active.told + 1;
	port = rt_port(active.id);
	gives_up("that it has waited", RDMA_CM_EVENT_TIMEWAIT_EXIT, &active);
	CHECK("its port is free", is_free(port));
	rt_down(&passive);
}

/* Everything in handlers, from the first call on. */
static int goes_on(struct rt_end *end, struct rdma_cm_event *event)
{
	struct rdma_conn_param param = rt_param("data", 5);

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return rdma_resolve_route(end->id, 1000);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return rdma_connect_locked(end->id, &param);
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return rdma_accept(end->id, &param);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		return rdma_accept(end->id, NULL);
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_DISCONNECTED:
		return rdma_disconnect(end->id);
	default:
		return 0;
	}
}

static void inside(void)
{
	static const enum rdma_cm_event_type wanted[] = {
		RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_TIMEWAIT_EXIT,
	}, wanted_of_peer[] = {
		RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_TIMEWAIT_EXIT,
	};
	int nth;

	rt_forget(&passive);
	passive.act = goes_on;
	listener.for_child = &passive;
	rt_up_tcp(&active);
	active.act = goes_on;
	CHECK_EQ("it begins", 0, rdma_resolve_addr(active.id, NULL, rt_sa(RT_HERE, rt_port(listener.id)), 1000));
	for (nth = 0; nth < ARRAY_SIZE(wanted); nth++)
		CHECK(rdma_event_msg(wanted[nth]), rt_is_next(&active, wanted[nth]));
	for (nth = 0; nth < ARRAY_SIZE(wanted_of_peer); nth++)
		CHECK(rdma_event_msg(wanted_of_peer[nth]), rt_is_next(&passive, wanted_of_peer[nth]));
	CHECK_EQ("no call fails", 0, active.acted | passive.acted);
	CHECK_EQ("handlers come one at a time", 1, atomic_read(&active.most_inside));
	CHECK_EQ("so do those of the peer", 1, atomic_read(&passive.most_inside));
	rt_down(&active);
	rt_down(&passive);
}

/* An event is told when nobody holds the lock of the handler. */
static void locked(void)
{
	CHECK_EQ("an address", 0, rt_resolved(&active, RT_HERE, RT_PORT));
	rdma_lock_handler(active.id);
	CHECK_EQ("a route", 0, rdma_resolve_route(active.id, 1000));
	CHECK("it is not told meanwhile", rt_quiet(&active));
	rdma_unlock_handler(active.id);
	CHECK("it is told then", rt_is_next(&active, RDMA_CM_EVENT_ROUTE_RESOLVED));
	rt_down(&active);
}

static int destroy_other(void *end)
{
	rt_down(end);
	return 0;
}

/* Destroying waits for a handler that runs. */
static void waiting(void)
{
	struct task_struct *task;
	struct completion go;

	init_completion(&go);
	CHECK("a connection", rt_join(&listener, &active, &passive));
	passive.wait_for = &go;
	rdma_disconnect(active.id);
	CHECK("a handler that waits", rt_is_next(&passive, RDMA_CM_EVENT_DISCONNECTED));
	task = kthread_create(destroy_other, &passive, "cma_test");
	if (IS_ERR(task))
		return;
	get_task_struct(task);
	wake_up_process(task);
	msleep(200);
	CHECK("destroying waits for it", READ_ONCE(passive.id));
	complete_all(&go);
	kthread_stop(task);
	put_task_struct(task);
	CHECK("until it has returned", !passive.id && !atomic_read(&passive.inside));
	rt_down(&active);
}

static void destroy_later(struct work_struct *work)
{
	rt_down(&passive);
}

static DECLARE_WORK(later, destroy_later);

static int leaves_it_to_work(struct rt_end *end, struct rdma_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_DISCONNECTED)
		schedule_work(&later);
	return 0;
}

/* A handler does not destroy its own identifier: a work item does, after it. */
static void by_work(void)
{
	CHECK("a connection", rt_join(&listener, &active, &passive));
	passive.act = leaves_it_to_work;
	CHECK_EQ("its end", 0, rdma_disconnect(active.id));
	CHECK("a handler that queues a work item", rt_is_next(&passive, RDMA_CM_EVENT_DISCONNECTED));
	flush_work(&later);
	CHECK("which destroys the identifier", !passive.id && !atomic_read(&passive.inside));
	CHECK("the peer is told", rt_is_next(&active, RDMA_CM_EVENT_DISCONNECTED));
	rt_down(&active);
}

/* Identifiers that go while something is under way for them. */
static void early(void)
{
	int nth, many = 0;

	for (nth = 0; nth < 40; nth++) {
		if (rt_up_tcp(&active))
			break;
		if (rdma_resolve_addr(active.id, NULL, rt_sa(nth % 2 ? RT_HERE : "127.0.0.1", 1), 1000))
			break;
		if (nth % 4 == 3)
			usleep_range(100, 1000);
		rt_down(&active);
		many += active.told <= 1;
	}
	CHECK_EQ("an address is looked for", 40, many);
	for (many = 0, nth = 0; nth < 40; nth++) {
		if (rt_resolved(&active, RT_HERE, 1) || rdma_resolve_route(active.id, 1000))
			break;
		if (nth % 4 == 3)
			usleep_range(100, 1000);
		rt_down(&active);
		many += active.told <= 2;
	}
	CHECK_EQ("a route is", 40, many);
	rt_down(&active);
}

void rt_test_handlers(void)
{
	CHECK_EQ("a listener", 0, rt_listen(&listener, &passive, "0.0.0.0", 0));
	given_up();
	inside();
	locked();
	waiting();
	by_work();
	early();
	rt_down(&listener);
}

/* Many connections that begin, end, and are given up at any point. */

#define STORM 100

struct stormer {
	struct rdma_cm_id *id;
	struct completion ended;
	int dies_at;		/* the number of its event after which it does nothing more */
	int told;
};

static atomic_t peers, accepted;
static struct completion last_peer;

static int storm_peer(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct rdma_conn_param param = rt_param(NULL, 0);

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (rdma_accept(id, &param))
			return -EIO;
		atomic_inc(&accepted);
		atomic_inc(&peers);
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		return 0;
	default:
		break;
	}
	/* It has ended: the identifier is given up. */
	if (atomic_dec_and_test(&peers))
		complete(&last_peer);
	return 1;
}

static int storm_client(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct stormer *stormer = id->context;
	struct rdma_conn_param param = rt_param("x", 1);
	int ret = 1;

	if (++stormer->told != stormer->dies_at) {
		switch (event->event) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			ret = rdma_resolve_route(id, 1000);
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			ret = rdma_connect_locked(id, &param);
			break;
		case RDMA_CM_EVENT_CONNECT_RESPONSE:
			ret = rdma_accept(id, NULL) ?: rdma_disconnect(id);
			break;
		default:
			break;
		}
	}
	if (ret)
		complete(&stormer->ended);
	return 0;
}

void rt_test_storm(void)
{
	struct stormer *stormers = kcalloc(STORM, sizeof(*stormers), GFP_KERNEL);
	struct rdma_cm_id *listen;
	int nth, made = 0, ended = 0;
	u16 port;

	if (!stormers)
		return;
	init_completion(&last_peer);
	atomic_set(&peers, 1);
	atomic_set(&accepted, 0);
	listen = rdma_create_id(current->nsproxy->net_ns, storm_peer, NULL, RDMA_PS_TCP, IB_QPT_RC);
	CHECK_EQ("a listener", 0, PTR_ERR_OR_ZERO(listen) ?: rdma_bind_addr(listen, rt_sa("0.0.0.0", 0)) ?: rdma_listen(listen, STORM));
	port = rt_port(listen);
	for (nth = 0; nth < STORM; nth++) {
		struct stormer *stormer = &stormers[nth];

		init_completion(&stormer->ended);
		stormer->dies_at = nth % 6;
		stormer->id = rdma_create_id(current->nsproxy->net_ns, storm_client, stormer, RDMA_PS_TCP, IB_QPT_RC);
		if (!IS_ERR(stormer->id) && !rdma_resolve_addr(stormer->id, NULL, rt_sa(RT_HERE, port), 5000))
			made++;
		if (nth % 7 == 0)
			complete(&stormer->ended);
		if (nth % 16 == 15)
			msleep(20);
	}
	CHECK_EQ("identifiers", STORM, made);
	for (nth = 0; nth < STORM; nth++) {
		ended += wait_for_completion_timeout(&stormers[nth].ended, 30 * HZ) != 0;
		if (!IS_ERR(stormers[nth].id))
			rdma_destroy_id(stormers[nth].id);
	}
	CHECK_EQ("all end", STORM, ended);
	CHECK("some were connected", atomic_read(&accepted) >= STORM / 4);
	if (atomic_dec_and_test(&peers))
		complete(&last_peer);
	CHECK("so do their peers", wait_for_completion_timeout(&last_peer, 60 * HZ));
	rdma_destroy_id(listen);
	kfree(stormers);
}
