// SPDX-License-Identifier: GPL-2.0
/* Addresses and routes of peers: who is found where, and who is not. */
#include "cma_test.h"

static struct rt_end end;

static int resolve(const char *from, const char *to, int timeout_ms)
{
	return rdma_resolve_addr(end.id, from ? rt_sa(from, 0) : NULL, rt_sa(to, RT_PORT), timeout_ms);
}

static void failed(int status)
{
	struct rt_event *told = rt_next(&end);

	CHECK("it is not found", told && told->event.event == RDMA_CM_EVENT_ADDR_ERROR);
	CHECK_EQ("the errno", status, told ? told->event.status : 0);
	CHECK("no device", told && !told->device);
}

static void found(const char *from, const char *to)
{
	struct rt_event *told = rt_next(&end);
	const struct rdma_addr *addr = &end.id->route.addr;

	CHECK("it is found", told && told->event.event == RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ("no errno", 0, told ? told->event.status : -1);
	CHECK("the device is known then", told && told->device && told->device == end.id->device);
	CHECK_EQ("its port", 1, end.id->port_num);
	CHECK("from where", rt_is(&addr->src_addr, from));
	CHECK("to where", rt_is(&addr->dst_addr, to));
	CHECK_EQ("by which network device", rt_ifindex("left"), addr->dev_addr.bound_dev_if);
	CHECK("the GID", addr->dev_addr.sgid_attr);
}

static void here(const char *from, const char *at, const char *to)
{
	union ib_gid local, peer, wanted;

	rt_up_tcp(&end);
	CHECK_EQ("an address", 0, resolve(from, to, 5000));
	found(at, to);
	CHECK_EQ("a port is chosen", 1, rt_port(end.id) >= 1024);
	CHECK_EQ("a second time", -EINVAL, resolve(NULL, to, 1000));
	rdma_read_gids(end.id, &local, &peer);
	rdma_ip2gid(rt_sa(at, 0), &wanted);
	CHECK("the GID of here", !memcmp(&local, &wanted, 16));
	rdma_ip2gid(rt_sa(to, 0), &wanted);
	CHECK("the GID of the peer", !memcmp(&peer, &wanted, 16));
	rt_down(&end);
}

static void addresses(void)
{
	here(NULL, RT_HERE, RT_HERE);
	here("0.0.0.0", RT_HERE, RT_HERE);
	here(RT_HERE, RT_HERE, RT_HERE);
	here(RT_HERE, RT_HERE, RT_NEIGHBOUR);
	here(NULL, RT_HERE, RT_NEIGHBOUR);
	here(NULL, RT_HERE6, RT_HERE6);
	here(RT_HERE6, RT_HERE6, RT_HERE6);

	CHECK_EQ("from where it is bound", 0, rt_bound(&end, RT_HERE, RT_PORT + 7));
	CHECK_EQ("another source is ignored", 0, resolve(RT_PLAIN, RT_NEIGHBOUR, 5000));
	found(RT_HERE, RT_NEIGHBOUR);
	CHECK_EQ("its port stays", RT_PORT + 7, rt_port(end.id));
	rt_down(&end);
	CHECK_EQ("bound to any", 0, rt_bound(&end, "0.0.0.0", RT_PORT + 7));
	CHECK_EQ("the source is found", 0, resolve(NULL, RT_HERE, 5000));
	found(RT_HERE, RT_HERE);
	rt_down(&end);
}

static void link_local(void)
{
	int ifindex = rt_ifindex("left");

	rt_up_tcp(&end);
	CHECK_EQ("a link-local one", 0,
		 rdma_resolve_addr(end.id, NULL, rt_sa_on(RT_LINK_LOCAL, RT_PORT, ifindex), 5000));
	CHECK("it is found", rt_is_next(&end, RDMA_CM_EVENT_ADDR_RESOLVED));
	CHECK("from where", rt_is(&end.id->route.addr.src_addr, RT_LINK_LOCAL));
	CHECK_EQ("by which network device", ifindex, end.id->route.addr.dev_addr.bound_dev_if);
	rt_down(&end);
}

static void errors(void)
{
	struct sockaddr_storage wrong = { .ss_family = AF_UNIX };

	rt_up_tcp(&end);
	CHECK_EQ("a route that says no", -EHOSTUNREACH, resolve(NULL, RT_UNREACHABLE, 1000));
	CHECK("no device", !end.id->device);
	CHECK_EQ("it may try again", -EHOSTUNREACH, resolve(NULL, RT_UNREACHABLE, 1000));
	CHECK_EQ("another", 0, resolve(NULL, RT_HERE, 1000));
	found(RT_HERE, RT_HERE);
	rt_down(&end);
	rt_up_tcp(&end);
	CHECK_EQ("no device there", 0, resolve(NULL, RT_NEAR_PLAIN, 1000));
	failed(-ENODEV);
	CHECK_EQ("it is bound", -EINVAL, rdma_bind_addr(end.id, rt_sa(RT_HERE, 0)));
	rt_down(&end);
	rt_up_tcp(&end);
	CHECK_EQ("nobody there", 0, resolve(NULL, RT_NOBODY, 200));
	failed(-ETIMEDOUT);
	CHECK_EQ("nor later", 0, resolve(NULL, RT_NOBODY, 200));
	failed(-ETIMEDOUT);
	CHECK_EQ("then one that is there", 0, resolve(NULL, RT_NEIGHBOUR, 1000));
	found(RT_HERE, RT_NEIGHBOUR);
	rt_down(&end);

	rt_up_tcp(&end);
	CHECK_EQ("a family that is none", -EAFNOSUPPORT, rdma_resolve_addr(end.id, NULL, (struct sockaddr *)&wrong, 1000));
	CHECK_EQ("from one", -EAFNOSUPPORT, rdma_resolve_addr(end.id, (struct sockaddr *)&wrong, rt_sa(RT_HERE, 1), 1000));
	CHECK_EQ("from nobody's address", -EADDRNOTAVAIL, resolve(RT_NOBODY, RT_HERE, 1000));
	CHECK_EQ("from one without a device", -ENODEV, resolve(RT_PLAIN, RT_HERE, 1000));
	if (rt_strict) {
		CHECK_EQ("then from one that is right", 0, resolve(RT_HERE, RT_HERE, 1000));
		found(RT_HERE, RT_HERE);
	}
	rt_down(&end);
	CHECK_EQ("bound to IPv4", 0, rt_bound(&end, RT_HERE, 0));
	CHECK_EQ("no peer of IPv6", -EINVAL, resolve(NULL, RT_HERE6, 1000));
	CHECK_EQ("but one of IPv4", 0, resolve(NULL, RT_HERE, 1000));
	CHECK("it is found", rt_is_next(&end, RDMA_CM_EVENT_ADDR_RESOLVED));
	rt_down(&end);
	rt_up_tcp(&end);
	CHECK_EQ("a GID of no subnet of here", -ENODEV,
		 rdma_resolve_addr(end.id, NULL, rt_sib(RDMA_IB_IP_PS_TCP | RT_PORT, ~0ULL, "2001:db8::1"), 1000));
	CHECK("no device", !end.id->device);
	CHECK_EQ("a GID", 0, rdma_resolve_addr(end.id, NULL, rt_sib(RDMA_IB_IP_PS_TCP | RT_PORT, ~0ULL, RT_LINK_LOCAL), 1000));
	CHECK("it is found", rt_is_next(&end, RDMA_CM_EVENT_ADDR_RESOLVED));
	CHECK("a device", end.id->device);
	CHECK_EQ("without a network device there is no route", -ENODEV, rdma_resolve_route(end.id, 1000));
	rt_down(&end);

	rt_up_tcp(&end);
	CHECK_EQ("nobody there, for a long time", 0, resolve(NULL, RT_NOBODY, 100000));
	rt_down(&end);
	CHECK_EQ("it is told nothing", 0, end.told);
}

/* The loopback address stands for the first device: without a network device, and without a route. */
static void loopback(void)
{
	rt_up_tcp(&end);
	CHECK_EQ("the loopback address", 0, resolve(NULL, "127.0.0.1", 1000));
	CHECK("it is found", rt_is_next(&end, RDMA_CM_EVENT_ADDR_RESOLVED));
	CHECK("a device", end.id->device);
	CHECK("from where", rt_is(&end.id->route.addr.src_addr, "127.0.0.1"));
	CHECK_EQ("no network device", 0, end.id->route.addr.dev_addr.bound_dev_if);
	CHECK_EQ("so no route", -ENODEV, rdma_resolve_route(end.id, 1000));
	CHECK("no path", !end.id->route.path_rec && !end.id->route.num_pri_alt_paths);
	CHECK_EQ("again", -ENODEV, rdma_resolve_route(end.id, 1000));
	rt_down(&end);
	CHECK_EQ("from here", 0, rt_bound(&end, RT_HERE, 0));
	CHECK_EQ("the loopback address", 0, resolve(NULL, "127.0.0.1", 1000));
	CHECK("it is found", rt_is_next(&end, RDMA_CM_EVENT_ADDR_RESOLVED));
	CHECK_EQ("then there is a route", 0, rdma_resolve_route(end.id, 1000));
	CHECK("it is told", rt_is_next(&end, RDMA_CM_EVENT_ROUTE_RESOLVED));
	rt_down(&end);
}

/* The path to a neighbour, with nothing set. */
static void neighbour_route(void)
{
	int error = rt_routed(&end, RT_NEIGHBOUR, RT_PORT);
	struct sa_path_rec *path = end.id->route.path_rec;
	union ib_gid wanted;

	CHECK_EQ("without options", 0, error);
	if (!error && path) {
		CHECK_EQ("the usual life time", 16, path->packet_life_time);
		CHECK_EQ("the usual service type", 0, path->traffic_class);
		CHECK("the MAC address", !memcmp(path->roce.dmac, end.id->route.addr.dev_addr.dst_dev_addr, ETH_ALEN));
		CHECK_EQ("which is that of the neighbour", 0x50, path->roce.dmac[5]);
		rdma_ip2gid(rt_sa(RT_HERE, 0), &wanted);
		CHECK("from where", !memcmp(&path->sgid, &wanted, 16));
		rdma_ip2gid(rt_sa(RT_NEIGHBOUR, 0), &wanted);
		CHECK("to where", !memcmp(&path->dgid, &wanted, 16));
	}
	rt_down(&end);
}

static void route6(void)
{
	int error = rt_routed(&end, RT_HERE6, RT_PORT);
	struct sa_path_rec *path = end.id->route.path_rec;
	union ib_gid wanted;

	CHECK_EQ("of IPv6", 0, error);
	if (!error && path) {
		CHECK_EQ("its kind", SA_PATH_REC_TYPE_ROCE_V2, path->rec_type);
		rdma_ip2gid(rt_sa(RT_HERE6, 0), &wanted);
		CHECK("to where", !memcmp(&path->dgid, &wanted, 16));
	}
	rt_down(&end);
}

static void routes(void)
{
	struct sa_path_rec *path;
	union ib_gid wanted;
	struct rt_event *told;

	CHECK_EQ("an address", 0, rt_resolved(&end, RT_HERE, RT_PORT));
	rdma_set_service_type(end.id, 0x48);
	CHECK_EQ("a time-out", 0, rdma_set_ack_timeout(end.id, 13));
	CHECK_EQ("in no time", -EINVAL, rdma_resolve_route(end.id, 0));
	CHECK_EQ("a route", 0, rdma_resolve_route(end.id, 1000));
	told = rt_next(&end);
	CHECK("it is told", told && told->event.event == RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_EQ("no errno", 0, told ? told->event.status : -1);
	CHECK_EQ("one path", 1, end.id->route.num_pri_alt_paths);
	path = end.id->route.path_rec;
	CHECK("it is there", path);
	if (path) {
		rdma_ip2gid(rt_sa(RT_HERE, 0), &wanted);
		CHECK("from where", !memcmp(&path->sgid, &wanted, 16));
		CHECK("to where", !memcmp(&path->dgid, &wanted, 16));
		CHECK_EQ("its kind", SA_PATH_REC_TYPE_ROCE_V2, path->rec_type);
		CHECK_EQ("the route is known", 1, path->roce.route_resolved);
		CHECK("the MAC address", !memcmp(path->roce.dmac, end.id->route.addr.dev_addr.src_dev_addr, ETH_ALEN));
		CHECK_EQ("the partition", 0xffff, be16_to_cpu(path->pkey));
		CHECK_EQ("the MTU", IB_MTU_1024, path->mtu);
		CHECK_EQ("that MTU", IB_SA_EQ, path->mtu_selector);
		CHECK_EQ("the rate of the port", IB_RATE_PORT_CURRENT, path->rate);
		CHECK_EQ("that rate", IB_SA_EQ, path->rate_selector);
		CHECK_EQ("the service type", 0x48, path->traffic_class);
		CHECK_EQ("the life time, of the time-out", 12, path->packet_life_time);
		CHECK_EQ("that time", IB_SA_EQ, path->packet_life_time_selector);
		CHECK_EQ("the hop limit", 64, path->hop_limit);
		CHECK_EQ("it can be used both ways", 1, path->reversible);
		CHECK_EQ("the flow label, of the ports", ((u32)rt_port(end.id) * 31 + RT_PORT) & 0xfffff,
			 be32_to_cpu(path->flow_label));
	}
	CHECK_EQ("a second time", -EINVAL, rdma_resolve_route(end.id, 1000));
	rt_down(&end);

	neighbour_route();
	route6();
}

/* A path that the client has, in place of a route. */
static void given(void)
{
	struct sa_path_rec path = {
		.rec_type = SA_PATH_REC_TYPE_IB, .mtu = IB_MTU_512, .packet_life_time = 9, .traffic_class = 7, .hop_limit = 3,
	};
	struct sa_path_rec *has;

	CHECK_EQ("an address", 0, rt_resolved(&end, RT_HERE, RT_PORT));
	CHECK_EQ("a path", 0, rdma_set_ib_path(end.id, &path));
	has = end.id->route.path_rec;
	CHECK("it is copied", has && has != &path);
	CHECK_EQ("one path", 1, end.id->route.num_pri_alt_paths);
	if (has) {
		CHECK_EQ("its MTU", IB_MTU_512, has->mtu);
		CHECK_EQ("its life time", 9, has->packet_life_time);
		CHECK_EQ("its traffic class", 7, has->traffic_class);
		CHECK_EQ("its hop limit", 3, has->hop_limit);
		CHECK_EQ("its kind is set", SA_PATH_REC_TYPE_ROCE_V2, has->rec_type);
		CHECK_EQ("the route is known", 1, has->roce.route_resolved);
		CHECK("the MAC address", !memcmp(has->roce.dmac, end.id->route.addr.dev_addr.dst_dev_addr, ETH_ALEN));
	}
	CHECK_EQ("then no other route", -EINVAL, rdma_resolve_route(end.id, 1000));
	CHECK_EQ("nor another path", -EINVAL, rdma_set_ib_path(end.id, &path));
	CHECK("it is told nothing", rt_quiet(&end));
	rt_down(&end);
	rt_up_tcp(&end);
	CHECK_EQ("the loopback address", 0, resolve(NULL, "127.0.0.1", 1000));
	CHECK("it is found", rt_is_next(&end, RDMA_CM_EVENT_ADDR_RESOLVED));
	CHECK_EQ("no network device for a path", -ENODEV, rdma_set_ib_path(end.id, &path));
	CHECK("no path", !end.id->route.path_rec);
	rt_down(&end);
}

void rt_test_resolve(void)
{
	addresses();
	link_local();
	errors();
	loopback();
	routes();
	given();
}
