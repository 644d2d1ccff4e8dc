// SPDX-License-Identifier: GPL-2.0
/* Identifiers that are new: what they show, what may be set. Names of events and reasons, numbers of services. */
#include "cma_test.h"

static struct rt_end end, other;

static const char *const events[] = {
	[RDMA_CM_EVENT_ADDR_RESOLVED] = "address resolved",
	[RDMA_CM_EVENT_ADDR_ERROR] = "address error",
	[RDMA_CM_EVENT_ROUTE_RESOLVED] = "route resolved ",	/* with a blank at its end */
	[RDMA_CM_EVENT_ROUTE_ERROR] = "route error",
	[RDMA_CM_EVENT_CONNECT_REQUEST] = "connect request",
	[RDMA_CM_EVENT_CONNECT_RESPONSE] = "connect response",
	[RDMA_CM_EVENT_CONNECT_ERROR] = "connect error",
	[RDMA_CM_EVENT_UNREACHABLE] = "unreachable",
	[RDMA_CM_EVENT_REJECTED] = "rejected",
	[RDMA_CM_EVENT_ESTABLISHED] = "established",
	[RDMA_CM_EVENT_DISCONNECTED] = "disconnected",
	[RDMA_CM_EVENT_DEVICE_REMOVAL] = "device removal",
	[RDMA_CM_EVENT_MULTICAST_JOIN] = "multicast join",
	[RDMA_CM_EVENT_MULTICAST_ERROR] = "multicast error",
	[RDMA_CM_EVENT_ADDR_CHANGE] = "address change",
	[RDMA_CM_EVENT_TIMEWAIT_EXIT] = "timewait exit",
};

void rt_test_names(void)
{
	static const char *const unknown = "unrecognized event";
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(events); nth++)
		CHECK(events[nth], !strcmp(rdma_event_msg(nth), events[nth]));
	CHECK("the event of an address of a service has none", !strcmp(rdma_event_msg(RDMA_CM_EVENT_ADDRINFO_RESOLVED), unknown));
	CHECK("nor has that of an error of it", !strcmp(rdma_event_msg(RDMA_CM_EVENT_ADDRINFO_ERROR), unknown));
	CHECK("nor the event of a user", !strcmp(rdma_event_msg(RDMA_CM_EVENT_USER), unknown));
	CHECK("nor one that is not there", !strcmp(rdma_event_msg(1000), unknown));
	CHECK("nor a negative one", !strcmp(rdma_event_msg(-1), unknown));

	CHECK_EQ("bound to the device", 0, rt_bound(&end, RT_HERE, 0));
	CHECK("a reason", !strcmp(rdma_reject_msg(end.id, IB_CM_REJ_CONSUMER_DEFINED), "consumer defined"));
	CHECK("another", !strcmp(rdma_reject_msg(end.id, IB_CM_REJ_INVALID_SERVICE_ID), "invalid service ID"));
	CHECK("none", !strcmp(rdma_reject_msg(end.id, 0), "unrecognized reason"));
	CHECK("nor a negative one", !strcmp(rdma_reject_msg(end.id, -ECONNREFUSED), "unrecognized reason"));
	CHECK("nothing of iWARP", !rdma_iw_cm_id(end.id));
	{
		struct rdma_cm_event event = {
			.event = RDMA_CM_EVENT_REJECTED, .status = IB_CM_REJ_CONSUMER_DEFINED,
			.param.conn = { .private_data = events, .private_data_len = 17 },
		};
		u8 length = 99;

		CHECK("data of the consumer", rdma_consumer_reject_data(end.id, &event, &length) == events);
		CHECK_EQ("its length", 17, length);
		event.status = IB_CM_REJ_STALE_CONN;
		CHECK("none for another reason", !rdma_consumer_reject_data(end.id, &event, &length));
		CHECK_EQ("its length", 0, length);
		event.status = -ECONNREFUSED;
		length = 99;
		CHECK("none for an errno", !rdma_consumer_reject_data(end.id, &event, &length));
		CHECK_EQ("its length", 0, length);
	}
	rt_down(&end);
}

static void created(enum rdma_ucm_port_space ps, enum ib_qp_type type, const char *what)
{
	CHECK_EQ(what, 0, rt_up(&end, ps, type));
	if (!end.id)
		return;
	CHECK_EQ("its port space", ps, end.id->ps);
	CHECK_EQ("its kind of queue pair", type, end.id->qp_type);
	rt_down(&end);
}

static void fresh(void)
{
	union ib_gid local, peer;
	static const union ib_gid none;

	CHECK_EQ("created", 0, rt_up_tcp(&end));
	CHECK("its context", end.id->context == &end);
	CHECK("its handler", end.id->event_handler == rt_handler_of());
	CHECK("no device", !end.id->device);
	CHECK("no queue pair", !end.id->qp);
	CHECK_EQ("no port", 0, end.id->port_num);
	CHECK("no path", !end.id->route.path_rec && !end.id->route.num_pri_alt_paths);
	CHECK_EQ("no address", 0, end.id->route.addr.src_addr.ss_family);
	CHECK_EQ("nor that of a peer", 0, end.id->route.addr.dst_addr.ss_family);
	CHECK("its namespace", end.id->route.addr.dev_addr.net == current->nsproxy->net_ns);
	memset(&local, 1, 16);
	memset(&peer, 1, 16);
	rdma_read_gids(end.id, &local, &peer);
	CHECK("no GIDs", !memcmp(&local, &none, 16) && !memcmp(&peer, &none, 16));
	rdma_read_gids(end.id, NULL, NULL);
	CHECK_EQ("another", 0, rt_up_tcp(&other));
	CHECK("it is another", other.id != end.id);
	rt_down(&other);
	rt_down(&end);
	created(RDMA_PS_TCP, IB_QPT_RC, "of TCP");
	created(RDMA_PS_UDP, IB_QPT_UD, "of UDP");
	created(RDMA_PS_IPOIB, IB_QPT_UD, "of IPoIB");
	created(RDMA_PS_IB, IB_QPT_RC, "of IB");
	created(RDMA_PS_TCP, IB_QPT_UC, "of UC");
	created(0, 0, "of no port space");

	rt_forget(&end);
	end.id = rdma_create_user_id(rt_handler_of(), &end, RDMA_PS_UDP, IB_QPT_UD);
	CHECK("that of a user", !IS_ERR(end.id));
	if (IS_ERR(end.id))
		return;
	CHECK("its context", end.id->context == &end);
	CHECK_EQ("its port space", RDMA_PS_UDP, end.id->ps);
	CHECK_EQ("its kind of queue pair", IB_QPT_UD, end.id->qp_type);
	CHECK("its namespace", end.id->route.addr.dev_addr.net == current->nsproxy->net_ns);
	rt_down(&end);
}

/* Options, of kinds of queue pairs. */
static void options(void)
{
	rt_up_tcp(&end);
	CHECK_EQ("a time-out", 0, rdma_set_ack_timeout(end.id, 0));
	CHECK_EQ("the most", 0, rdma_set_ack_timeout(end.id, 255));
	CHECK_EQ("a time without a receive", 0, rdma_set_min_rnr_timer(end.id, 0));
	CHECK_EQ("the most", 0, rdma_set_min_rnr_timer(end.id, 31));
	CHECK_EQ("no more", -EINVAL, rdma_set_min_rnr_timer(end.id, 32));
	CHECK_EQ("nor the most of 8 bits", -EINVAL, rdma_set_min_rnr_timer(end.id, 255));
	rdma_set_service_type(end.id, 0x1ff);
	CHECK_EQ("reuse", 0, rdma_set_reuseaddr(end.id, 1));
	CHECK_EQ("none", 0, rdma_set_reuseaddr(end.id, 0));
	CHECK_EQ("one family alone", 0, rdma_set_afonly(end.id, 1));
	CHECK_EQ("or not", 0, rdma_set_afonly(end.id, 0));
	CHECK_EQ("a switch is no kind of node", -EINVAL, rdma_restrict_node_type(end.id, RDMA_NODE_IB_SWITCH));
	CHECK_EQ("nor is usNIC", -EINVAL, rdma_restrict_node_type(end.id, RDMA_NODE_USNIC_UDP));
	CHECK_EQ("nor is 255", -EINVAL, rdma_restrict_node_type(end.id, 255));
	CHECK_EQ("iWARP is", 0, rdma_restrict_node_type(end.id, RDMA_NODE_RNIC));
	CHECK_EQ("InfiniBand is", 0, rdma_restrict_node_type(end.id, RDMA_NODE_IB_CA));
	CHECK_EQ("any is", 0, rdma_restrict_node_type(end.id, RDMA_NODE_UNSPECIFIED));
	rt_down(&end);
	rt_up_udp(&end);
	CHECK_EQ("no time-out of datagrams", -EINVAL, rdma_set_ack_timeout(end.id, 14));
	rt_down(&end);
	rt_up(&end, RDMA_PS_TCP, IB_QPT_UC);
	CHECK_EQ("nor of UC", -EINVAL, rdma_set_ack_timeout(end.id, 14));
	rt_down(&end);
	rt_up(&end, RDMA_PS_TCP, IB_QPT_XRC_INI);
	CHECK_EQ("but of XRC that sends", 0, rdma_set_ack_timeout(end.id, 14));
	rt_down(&end);
	rt_up(&end, RDMA_PS_TCP, IB_QPT_XRC_TGT);
	CHECK_EQ("not of XRC that receives", -EINVAL, rdma_set_ack_timeout(end.id, 14));
	CHECK_EQ("that has the other time", 0, rdma_set_min_rnr_timer(end.id, 14));
	rt_down(&end);
}

/* Which devices an identifier may have. */
static void restricted(void)
{
	rt_up_tcp(&end);
	rdma_restrict_node_type(end.id, RDMA_NODE_RNIC);
	CHECK_EQ("no device of that kind", -ENODEV, rdma_bind_addr(end.id, rt_sa(RT_HERE, 0)));
	CHECK_EQ("another kind", 0, rdma_restrict_node_type(end.id, RDMA_NODE_IB_CA));
	CHECK_EQ("one of that kind", 0, rdma_bind_addr(end.id, rt_sa(RT_HERE, 0)));
	CHECK_EQ("then it is late", -EALREADY, rdma_restrict_node_type(end.id, RDMA_NODE_UNSPECIFIED));
	CHECK_EQ("what is no kind is seen first", -EINVAL, rdma_restrict_node_type(end.id, 77));
	rt_down(&end);
	rt_up_tcp(&end);
	rdma_restrict_node_type(end.id, RDMA_NODE_RNIC);
	CHECK_EQ("an address", 0, rdma_resolve_addr(end.id, NULL, rt_sa(RT_HERE, RT_PORT), 2000));
	{
		struct rt_event *told = rt_next(&end);

		CHECK("it has no device", told && told->event.event == RDMA_CM_EVENT_ADDR_ERROR);
		CHECK_EQ("the errno", -ENODEV, told ? told->event.status : 0);
	}
	rt_down(&end);
}

static void services(void)
{
	struct sockaddr *ib = rt_sib(0x1122334455667788ULL, 0, "::");

	rt_up_tcp(&end);
	CHECK_EQ("of TCP", 0x01061d2f, be64_to_cpu(rdma_get_service_id(end.id, rt_sa(RT_HERE, RT_PORT))));
	CHECK_EQ("of IPv6", 0x01061d2f, be64_to_cpu(rdma_get_service_id(end.id, rt_sa(RT_HERE6, RT_PORT))));
	CHECK_EQ("of no port", 0x01060000, be64_to_cpu(rdma_get_service_id(end.id, rt_sa(RT_HERE, 0))));
	CHECK_EQ("of the last port", 0x0106ffff, be64_to_cpu(rdma_get_service_id(end.id, rt_sa(RT_HERE, 65535))));
	CHECK_EQ("that of IB is given", 0x1122334455667788LL, be64_to_cpu(rdma_get_service_id(end.id, ib)));
	rt_down(&end);
	rt_up_udp(&end);
	CHECK_EQ("of UDP", 0x01111d2f, be64_to_cpu(rdma_get_service_id(end.id, rt_sa(RT_HERE, RT_PORT))));
	rt_down(&end);
	rt_up(&end, RDMA_PS_IPOIB, IB_QPT_UD);
	CHECK_EQ("of IPoIB", 0x00021d2f, be64_to_cpu(rdma_get_service_id(end.id, rt_sa(RT_HERE, RT_PORT))));
	rt_down(&end);
	rt_up(&end, RDMA_PS_IB, IB_QPT_RC);
	CHECK_EQ("of IB", 0x013f1d2f, be64_to_cpu(rdma_get_service_id(end.id, rt_sa(RT_HERE, RT_PORT))));
	rt_down(&end);
}

void rt_test_ids(void)
{
	fresh();
	options();
	restricted();
	services();
}
