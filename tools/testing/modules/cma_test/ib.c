// SPDX-License-Identifier: GPL-2.0
/*
 * A device of InfiniBand with two ports: GIDs for addresses (AF_IB), paths and services that the subnet administrator knows. The
 * script says which GIDs the ports have.
 */
#include "cma_test.h"

#define SERVICE (RDMA_IB_IP_PS_IB | 7)

static char *gids[2] = { "", "" };
module_param_array(gids, charp, NULL, 0644);
MODULE_PARM_DESC(gids, "The GIDs of the ports of a device of InfiniBand");

static struct rt_end listener, active, passive;
static u8 data[256];

const char *rt_ib_gid(int port)
{
	return gids[port - 1];
}

static bool has_gid(const void *gid, int port)
{
	struct in6_addr wanted;

	return in6_pton(gids[port - 1], -1, wanted.s6_addr, -1, NULL) && !memcmp(gid, &wanted, 16);
}

static void bound(void)
{
	union ib_gid local, peer;

	rt_up(&active, RDMA_PS_IB, IB_QPT_RC);
	CHECK_EQ("a GID", 0, rdma_bind_addr(active.id, rt_sib(SERVICE, ~0ULL, gids[1])));
	CHECK("a device of InfiniBand", active.id->device && rdma_protocol_ib(active.id->device, 1));
	CHECK_EQ("the port that has it", 2, active.id->port_num);
	CHECK_EQ("no network device", 0, active.id->route.addr.dev_addr.bound_dev_if);
	rdma_read_gids(active.id, &local, &peer);
	CHECK("the GID of here", has_gid(&local, 2));
	rt_up(&passive, RDMA_PS_IB, IB_QPT_RC);
	CHECK_EQ("the service is taken at that GID", -EADDRINUSE, rdma_bind_addr(passive.id, rt_sib(SERVICE, ~0ULL, gids[1])));
	CHECK_EQ("not at another", 0, rdma_bind_addr(passive.id, rt_sib(SERVICE, ~0ULL, gids[0])));
	CHECK_EQ("its port", 1, passive.id->port_num);
	rt_down(&passive);
	rt_down(&active);
	rt_up(&active, RDMA_PS_IB, IB_QPT_RC);
	CHECK_EQ("nobody's GID", -ENODEV, rdma_bind_addr(active.id, rt_sib(SERVICE, ~0ULL, "fe80::99")));
	rt_down(&active);
}

static int routed(void)
{
	int ret = rt_up(&active, RDMA_PS_IB, IB_QPT_RC) ?:
		  rdma_resolve_addr(active.id, rt_sib(0, 0, gids[0]), rt_sib(SERVICE, ~0ULL, gids[1]), 2000);

	if (ret)
		return ret;
	if (!rt_is_next(&active, RDMA_CM_EVENT_ADDR_RESOLVED))
		return -ENOENT;
	ret = rdma_resolve_route(active.id, 2000);
	return ret ?: rt_is_next(&active, RDMA_CM_EVENT_ROUTE_RESOLVED) ? 0 : -ENOENT;
}

static void connected(void)
{
	struct sa_path_rec *path;
	struct rt_event *told;

	rt_up(&listener, RDMA_PS_IB, IB_QPT_RC);
	CHECK_EQ("a listener", 0, rdma_bind_addr(listener.id, rt_sib(SERVICE, ~0ULL, gids[1])) ?: rdma_listen(listener.id, 1));
	rt_forget(&passive);
	listener.for_child = &passive;
	CHECK_EQ("a route", 0, routed());
	path = active.id->route.path_rec;
	CHECK_EQ("of the port", 1, active.id->port_num);
	CHECK_EQ("one path", 1, active.id->route.num_pri_alt_paths);
	if (!path)
		return;
	CHECK_EQ("its kind", SA_PATH_REC_TYPE_IB, path->rec_type);
	CHECK("from where", has_gid(&path->sgid, 1));
	CHECK("to where", has_gid(&path->dgid, 2));
	CHECK_EQ("a byte too much", -EINVAL, rt_connect(&active, data, IB_CM_REQ_PRIVATE_DATA_SIZE + 1));
	CHECK_EQ("all of the private data", 0, rt_connect(&active, data, IB_CM_REQ_PRIVATE_DATA_SIZE));
	told = rt_next(&passive);
	CHECK("the peer is told", told && told->event.event == RDMA_CM_EVENT_CONNECT_REQUEST);
	if (!told)
		return;
	CHECK_EQ("its length", IB_CM_REQ_PRIVATE_DATA_SIZE, told->event.param.conn.private_data_len);
	/* There is no room for addresses in it, but for the version that they would have: 0. */
	CHECK_EQ("its version", 0, told->data[0]);
	CHECK("its private data", !memcmp(told->data + 1, data + 1, IB_CM_REQ_PRIVATE_DATA_SIZE - 1));
	CHECK_EQ("the family", AF_IB, passive.id->route.addr.src_addr.ss_family);
	CHECK("the GID of here", has_gid(&((struct sockaddr_ib *)&passive.id->route.addr.src_addr)->sib_addr, 2));
	CHECK("that of the peer", has_gid(&((struct sockaddr_ib *)&passive.id->route.addr.dst_addr)->sib_addr, 1));
	CHECK_EQ("its port", 2, passive.id->port_num);
	CHECK_EQ("an answer", 0, rt_accept(&passive, data, 3));
	CHECK("which is told", rt_is_next(&active, RDMA_CM_EVENT_CONNECT_RESPONSE));
	CHECK_EQ("a connection", 0, rt_go(&active));
	CHECK("of both", rt_is_next(&passive, RDMA_CM_EVENT_ESTABLISHED));
	CHECK_EQ("its end", 0, rdma_disconnect(active.id));
	CHECK("which is told", rt_is_next(&passive, RDMA_CM_EVENT_DISCONNECTED));
	rt_down(&active);
	rt_down(&passive);
	rt_down(&listener);
}

static int bind(void)
{
	return rt_up(&active, RDMA_PS_IB, IB_QPT_RC) ?: rdma_bind_addr(active.id, rt_sib(0, 0, gids[0]));
}

/* Services that the administrator has records of: the script has told it of two. */
void rt_test_services(void)
{
	struct rdma_ucm_ib_service service = { .service_name = "service 0", .flags = RDMA_USER_CM_IB_SERVICE_FLAG_NAME };
	struct rt_event *told;

	CHECK_EQ("bound", 0, bind());
	CHECK_EQ("services", 0, rdma_resolve_ib_service(active.id, &service));
	CHECK_EQ("once at a time", -EINVAL, rdma_resolve_ib_service(active.id, &service));
	told = rt_next(&active);
	CHECK("they are told", told && told->event.event == RDMA_CM_EVENT_ADDRINFO_RESOLVED);
	CHECK_EQ("no errno", 0, told ? told->event.status : -1);
	CHECK_EQ("how many", 2, active.id->route.num_service_recs);
	if (active.id->route.service_recs) {
		CHECK("the first", !strcmp(active.id->route.service_recs[0].name, "service 0"));
		CHECK("the second", !strcmp(active.id->route.service_recs[1].name, "service 1"));
	}
	CHECK_EQ("the peer is that of the first", AF_IB, active.id->route.addr.dst_addr.ss_family);
	CHECK("its service", active.id->route.service_recs &&
	      ((struct sockaddr_ib *)&active.id->route.addr.dst_addr)->sib_sid == active.id->route.service_recs[0].id);
	CHECK_EQ("not again", -EINVAL, rdma_resolve_ib_service(active.id, &service));
	rt_down(&active);
}

/* Now it has none. */
void rt_test_no_services(void)
{
	struct rdma_ucm_ib_service service = { .service_id = 5, .flags = RDMA_USER_CM_IB_SERVICE_FLAG_ID };
	struct rt_event *told;

	CHECK_EQ("bound", 0, bind());
	CHECK_EQ("services", 0, rdma_resolve_ib_service(active.id, &service));
	told = rt_next(&active);
	CHECK("there are none", told && told->event.event == RDMA_CM_EVENT_ADDRINFO_ERROR);
	CHECK("an errno", told && told->event.status < 0);
	CHECK("no record", !active.id->route.service_recs);
	CHECK_EQ("it may ask again", 0, rdma_resolve_ib_service(active.id, &service));
	CHECK("there are none still", rt_is_next(&active, RDMA_CM_EVENT_ADDRINFO_ERROR));
	rt_down(&active);
}

/* Now it has no paths. */
void rt_test_no_paths(void)
{
	struct rt_event *told;

	rt_up(&active, RDMA_PS_IB, IB_QPT_RC);
	CHECK_EQ("an address", 0, rdma_resolve_addr(active.id, NULL, rt_sib(SERVICE, ~0ULL, gids[1]), 2000));
	CHECK("which is found", rt_is_next(&active, RDMA_CM_EVENT_ADDR_RESOLVED));
	CHECK_EQ("a route", 0, rdma_resolve_route(active.id, 2000));
	told = rt_next(&active);
	CHECK("there is none", told && told->event.event == RDMA_CM_EVENT_ROUTE_ERROR);
	CHECK_EQ("the errno", -EINVAL, told ? told->event.status : 0);
	CHECK_EQ("it may ask again", 0, rdma_resolve_route(active.id, 2000));
	CHECK("there is none still", rt_is_next(&active, RDMA_CM_EVENT_ROUTE_ERROR));
	CHECK_EQ("a third time, and go", 0, rdma_resolve_route(active.id, 60000));
	rt_down(&active);
}

void rt_test_ib(void)
{
	int nth;

	for (nth = 0; nth < sizeof(data); nth++)
		data[nth] = nth + 1;
	bound();
	connected();
}
