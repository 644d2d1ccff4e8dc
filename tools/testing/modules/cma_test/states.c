// SPDX-License-Identifier: GPL-2.0
/* Each call in each state of an identifier: what it returns where it may not be made. */
#include "cma_test.h"

static struct rt_end end, listener, passive;

/* What an identifier has in a state. */
enum {
	NEW = BIT(0),		/* nothing */
	BOUND = BIT(1),		/* a local address */
	DEVICE = BIT(2),
	RESOLVED = BIT(3),	/* the address of its peer, not the route */
	ROUTED = BIT(4),	/* a route, no connection yet */
	CONNECTED = BIT(5),	/* connected, or on the way there */
	CM = BIT(6),		/* an identifier of ib_cm */
	LISTENS = BIT(7),
};

static int bind(struct rdma_cm_id *id) { return rdma_bind_addr(id, rt_sa(RT_HERE, 0)); }
static int resolve_addr(struct rdma_cm_id *id) { return rdma_resolve_addr(id, NULL, rt_sa(RT_HERE, RT_PORT), 2000); }
static int resolve_addr_from(struct rdma_cm_id *id)
{
	return rdma_resolve_addr(id, rt_sa(RT_HERE, 0), rt_sa(RT_HERE, RT_PORT), 2000);
}
static int resolve_route(struct rdma_cm_id *id) { return rdma_resolve_route(id, 2000); }
static int resolve_route_in_no_time(struct rdma_cm_id *id) { return rdma_resolve_route(id, 0); }
static int listen(struct rdma_cm_id *id) { return rdma_listen(id, 1); }
static int restrict_node(struct rdma_cm_id *id) { return rdma_restrict_node_type(id, RDMA_NODE_IB_CA); }
static int reuse(struct rdma_cm_id *id) { return rdma_set_reuseaddr(id, 1); }
static int no_reuse(struct rdma_cm_id *id) { return rdma_set_reuseaddr(id, 0); }
static int afonly(struct rdma_cm_id *id) { return rdma_set_afonly(id, 1); }
static int join(struct rdma_cm_id *id) { return rdma_join_multicast(id, rt_sa("239.1.2.3", 0), BIT(FULLMEMBER_JOIN), NULL); }
static int notify(struct rdma_cm_id *id) { return rdma_notify(id, IB_EVENT_COMM_EST); }
static int notify_other(struct rdma_cm_id *id) { return rdma_notify(id, IB_EVENT_PATH_MIG_ERR); }
static int reject(struct rdma_cm_id *id) { return rdma_reject(id, NULL, 0, IB_CM_REJ_CONSUMER_DEFINED); }
static int disconnect(struct rdma_cm_id *id) { return rdma_disconnect(id); }

static int connect(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = rt_param(NULL, 0);

	return rdma_connect(id, &param);
}

static int connect_locked(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = rt_param(NULL, 0);
	int ret;

	rdma_lock_handler(id);
	ret = rdma_connect_locked(id, &param);
	rdma_unlock_handler(id);
	return ret;
}

static int connect_ece(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = rt_param(NULL, 0);
	struct rdma_ucm_ece ece = { .vendor_id = 1, .attr_mod = 2 };

	return rdma_connect_ece(id, &param, &ece);
}

static int accept_with(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int ret;

	rdma_lock_handler(id);
	ret = rdma_accept(id, param);
	rdma_unlock_handler(id);
	return ret;
}

static int accept_request(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = rt_param(NULL, 0);

	return accept_with(id, &param);
}

static int accept_answer(struct rdma_cm_id *id) { return accept_with(id, NULL); }

static int accept_ece(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = rt_param(NULL, 0);
	struct rdma_ucm_ece ece = { .vendor_id = 1, .attr_mod = 2 };
	int ret;

	rdma_lock_handler(id);
	ret = rdma_accept_ece(id, &param, &ece);
	rdma_unlock_handler(id);
	return ret;
}

static int set_path(struct rdma_cm_id *id)
{
	static struct sa_path_rec path;

	return rdma_set_ib_path(id, &path);
}

static int resolve_service(struct rdma_cm_id *id)
{
	struct rdma_ucm_ib_service service = { .service_id = 5, .flags = RDMA_USER_CM_IB_SERVICE_FLAG_ID };

	return rdma_resolve_ib_service(id, &service);
}

static int create_qp(struct rdma_cm_id *id)
{
	static struct ib_pd elsewhere = { .device = (struct ib_device *)&elsewhere };
	struct ib_qp_init_attr attr = {};

	return rdma_create_qp(id, &elsewhere, &attr);
}

/* Where a call may be made, and what it returns anywhere else. */
static const struct {
	const char *name;
	int (*call)(struct rdma_cm_id *id);
	int allowed;
	int ret;
} calls[] = {
	{ "bind", bind, NEW, -EINVAL },
	{ "resolve an address", resolve_addr, NEW | BOUND, -EINVAL },
	{ "resolve an address from one", resolve_addr_from, NEW | BOUND, -EINVAL },
	{ "resolve a route", resolve_route, RESOLVED, -EINVAL },
	{ "resolve a route in no time", resolve_route_in_no_time, 0, -EINVAL },
	{ "listen", listen, NEW | BOUND, -EINVAL },
	{ "restrict the device", restrict_node, NEW, -EALREADY },
	{ "reuse of an address", reuse, 0, -EINVAL },
	{ "no reuse", no_reuse, NEW, -EINVAL },
	{ "one family alone", afonly, NEW | BOUND, -EINVAL },
	{ "join", join, 0, -EINVAL },		/* a connection */
	{ "notify", notify, CM, -EINVAL },
	{ "notify another event", notify_other, 0, -EINVAL },
	{ "reject", reject, CM, -EINVAL },
	{ "disconnect", disconnect, CM, -EINVAL },
	{ "connect", connect, ROUTED, -EINVAL },
	{ "connect in the handler", connect_locked, ROUTED, -EINVAL },
	{ "connect with options", connect_ece, ROUTED, -EINVAL },
	{ "accept a request", accept_request, CONNECTED, -EINVAL },
	{ "accept an answer", accept_answer, CONNECTED, -EINVAL },
	{ "accept with options", accept_ece, CONNECTED, -EINVAL },
	{ "set the path", set_path, RESOLVED, -EINVAL },
	{ "a service where there is no subnet administrator", resolve_service, 0, -EINVAL },
	{ "a queue pair of another device", create_qp, 0, -EINVAL },
};

static void check_state(struct rdma_cm_id *id, int has, const char *state)
{
	char what[100];
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(calls); nth++) {
		int wanted = calls[nth].ret;

		if (has & calls[nth].allowed)
			continue;
		if (calls[nth].call == reuse && !(has & LISTENS))
			wanted = 0;
		if (calls[nth].call == resolve_service && (has & BOUND) && (has & DEVICE))
			wanted = -EOPNOTSUPP;
		scnprintf(what, sizeof(what), "%s: %s", state, calls[nth].name);
		CHECK_EQ(what, wanted, calls[nth].call(id));
	}
	rdma_leave_multicast(id, rt_sa("239.1.2.3", 0));	/* of which it is no member */
}

void rt_test_states(void)
{
	rt_up_tcp(&end);
	check_state(end.id, NEW, "new");
	CHECK("as it was", !end.id->device && !end.id->route.addr.src_addr.ss_family);
	rt_down(&end);

	CHECK_EQ("bound", 0, rt_bound(&end, "0.0.0.0", 0));
	check_state(end.id, BOUND, "bound to any");
	rt_down(&end);
	CHECK_EQ("bound", 0, rt_bound(&end, RT_HERE, 0));
	check_state(end.id, BOUND | DEVICE, "bound");
	rt_down(&end);

	rt_up_tcp(&end);
	CHECK_EQ("a peer that does not answer", 0, rdma_resolve_addr(end.id, NULL, rt_sa(RT_NOBODY, RT_PORT), 60000));
	check_state(end.id, 0, "resolves an address");
	CHECK("it is told nothing", rt_quiet(&end));
	rt_down(&end);

	CHECK_EQ("resolved", 0, rt_resolved(&end, RT_HERE, RT_PORT));
	check_state(end.id, RESOLVED | DEVICE, "knows an address");
	rt_down(&end);
	CHECK_EQ("with a route", 0, rt_routed(&end, RT_HERE, RT_PORT));
	check_state(end.id, ROUTED | DEVICE, "knows a route");
	rt_down(&end);

	CHECK_EQ("a listener", 0, rt_listen(&listener, &passive, "0.0.0.0", 0));
	check_state(listener.id, LISTENS, "listens anywhere");
	rt_down(&listener);
	CHECK_EQ("a listener", 0, rt_listen(&listener, &passive, RT_HERE, 0));
	check_state(listener.id, LISTENS | DEVICE | CM, "listens");
	CHECK_EQ("a listener rejects nothing", -EINVAL, reject(listener.id));
	CHECK_EQ("it is not established", -EINVAL, notify(listener.id));
	CHECK_EQ("no error where there is nothing to disconnect", 0, disconnect(listener.id));

	CHECK("a request", rt_ask(&listener, &end, &passive));
	check_state(end.id, CONNECTED | DEVICE | CM, "asks");
	check_state(passive.id, CONNECTED | DEVICE | CM, "is asked");
	CHECK_EQ("an answer", 0, rt_accept(&passive, NULL, 0));
	CHECK("which is told", rt_is_next(&end, RDMA_CM_EVENT_CONNECT_RESPONSE));
	check_state(end.id, CONNECTED | DEVICE | CM, "is answered");
	check_state(passive.id, CONNECTED | DEVICE | CM, "has answered");
	CHECK_EQ("a connection", 0, rt_go(&end));
	CHECK("of both", rt_is_next(&passive, RDMA_CM_EVENT_ESTABLISHED));
	check_state(end.id, CONNECTED | DEVICE | CM, "is connected");
	CHECK_EQ("it is established already", -EISCONN, notify(passive.id));
	CHECK_EQ("a connection is not rejected", -EINVAL, reject(passive.id));
	CHECK_EQ("the end", 0, rdma_disconnect(end.id));
	CHECK("which is told", rt_is_next(&passive, RDMA_CM_EVENT_DISCONNECTED));
	check_state(passive.id, DEVICE | CM, "is disconnected");
	CHECK_EQ("it agrees", 0, rdma_disconnect(passive.id));
	CHECK("which is told", rt_is_next(&end, RDMA_CM_EVENT_DISCONNECTED));
	check_state(end.id, DEVICE | CM, "has disconnected");
	CHECK_EQ("no error when it disconnects again", 0, rdma_disconnect(end.id));
	rt_down(&end);
	rt_down(&passive);
	rt_down(&listener);
}
