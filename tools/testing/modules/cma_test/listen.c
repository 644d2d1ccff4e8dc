// SPDX-License-Identifier: GPL-2.0
/* Listeners: at which addresses, who reaches them, devices that come later. */
#include "cma_test.h"

static struct rt_end listener, other, active, passive;

/* Somebody asks for an address: 0 where the listener is told, the reason where that is refused. */
static int asked(enum ib_qp_type type, const char *text, u16 port)
{
	int ret = -ETIMEDOUT, nth;

	rt_forget(&passive);
	listener.for_child = &passive;
	ret = rt_up(&active, RDMA_PS_TCP, type) ?: rdma_resolve_addr(active.id, NULL, rt_sa(text, port), 2000);
	if (!ret && rt_is_next(&active, RDMA_CM_EVENT_ADDR_RESOLVED))
		ret = rdma_resolve_route(active.id, 2000);
	if (!ret && rt_is_next(&active, RDMA_CM_EVENT_ROUTE_RESOLVED))
		ret = rt_connect(&active, NULL, 0);
	for (nth = 0; !ret && nth < 2000; nth++) {
		if (smp_load_acquire(&passive.told))
			break;
		if (smp_load_acquire(&active.told) > active.taken) {
			struct rt_event *told = rt_next(&active);

			ret = told->event.event == RDMA_CM_EVENT_REJECTED ? told->event.status : -EPROTO;
		}
		msleep(10);
	}
	if (!ret && passive.told)
		CHECK_EQ("of a request", RDMA_CM_EVENT_CONNECT_REQUEST, passive.events[0].event.event);
	return ret;
}

static void over(void)
{
	rt_down(&active);
	rt_down(&passive);
}

static void reached(const char *what, int reason, const char *text)
{
	CHECK_EQ(what, reason, asked(IB_QPT_RC, text, rt_port(listener.id)));
	over();
}

/* A listener of an address, whom IPv4, and IPv6 can reach. */
static void listens(const char *what, const char *text, int afonly, int ipv4, int ipv6)
{
	u16 port;

	rt_up_tcp(&listener);
	if (afonly >= 0)
		CHECK_EQ("one family alone", 0, rdma_set_afonly(listener.id, afonly));
	CHECK_EQ(what, 0, rdma_bind_addr(listener.id, rt_sa(text, 0)) ?: rdma_listen(listener.id, 0));
	reached("by IPv4", ipv4, RT_HERE);
	reached("by IPv6", ipv6, RT_HERE6);
	CHECK_EQ("it is told nothing itself", 0, listener.told);
	port = rt_port(listener.id);
	rt_down(&listener);
	CHECK_EQ("it listens no more", IB_CM_REJ_INVALID_SERVICE_ID, asked(IB_QPT_RC, RT_HERE, port));
	over();
}

static void addresses(void)
{
	const int no = IB_CM_REJ_CONSUMER_DEFINED;

	listens("an address", RT_HERE, -1, 0, no);
	listens("one of IPv6", RT_HERE6, -1, no, 0);
	listens("any", "0.0.0.0", -1, 0, no);
	listens("any, and IPv6", "0.0.0.0", 0, 0, 0);
	listens("any of IPv6, and IPv4", "::", -1, 0, 0);
	listens("any of IPv6 alone", "::", 1, no, 0);
	listens("the loopback address, which is any", "127.0.0.1", -1, 0, no);
	listens("that of IPv6", "::1", -1, 0, 0);

	rt_up_tcp(&listener);
	CHECK_EQ("where it is not bound", 0, rdma_listen(listener.id, 5));
	CHECK("it is bound to any", rt_is(&listener.id->route.addr.src_addr, "0.0.0.0"));
	CHECK_EQ("a port is chosen", 1, rt_port(listener.id) >= 1024);
	CHECK("no device", !listener.id->device);
	reached("by IPv4", 0, RT_HERE);
	rt_down(&listener);
}

/* What the identifier of a request is. */
static void check_child(const char *text, bool any)
{
	struct rt_event *told = &passive.events[0];
	struct rdma_route *route;

	if (!passive.id)
		return;
	route = &passive.id->route;
	CHECK("its own identifier", told->id == passive.id && passive.id != listener.id);
	CHECK("the device", passive.id->device && passive.id->device == active.id->device);
	CHECK("which is known then", told->device == passive.id->device);
	CHECK_EQ("the port of the device", 1, passive.id->port_num);
	CHECK_EQ("the port space", RDMA_PS_TCP, passive.id->ps);
	CHECK_EQ("the kind of queue pair", IB_QPT_RC, passive.id->qp_type);
	CHECK("no queue pair", !passive.id->qp);
	CHECK("the handler", passive.id->event_handler == rt_handler_of());
	CHECK("the address of here", rt_is(&route->addr.src_addr, text));
	CHECK_EQ("its port", rt_port(listener.id), rt_port(passive.id));
	CHECK("the address of the peer", rt_is(&route->addr.dst_addr, text));
	CHECK_EQ("the network device", rt_ifindex("left"), route->addr.dev_addr.bound_dev_if);
	CHECK("the namespace", route->addr.dev_addr.net == current->nsproxy->net_ns);
	CHECK_EQ("a path", 1, route->num_pri_alt_paths);
	CHECK("its GIDs", route->path_rec && !memcmp(&route->path_rec->sgid, &route->path_rec->dgid, 16));
	CHECK("the GID", route->addr.dev_addr.sgid_attr);
	CHECK_EQ("who listens has a device", !any, !!listener.id->device);
	if (route->addr.dst_addr.ss_family == AF_INET)
		CHECK_EQ("the port of the peer", rt_port(active.id),
			 ntohs(((struct sockaddr_in *)&route->addr.dst_addr)->sin_port));
}

static void children(void)
{
	CHECK_EQ("a listener", 0, rt_listen(&listener, &passive, RT_HERE, 0));
	CHECK_EQ("who is reached", 0, asked(IB_QPT_RC, RT_HERE, rt_port(listener.id)));
	check_child(RT_HERE, false);
	over();
	rt_down(&listener);
	CHECK_EQ("of any address", 0, rt_listen(&listener, &passive, "0.0.0.0", 0));
	CHECK_EQ("who is reached", 0, asked(IB_QPT_RC, RT_HERE, rt_port(listener.id)));
	check_child(RT_HERE, true);
	over();
	rt_down(&listener);
	CHECK_EQ("of IPv6", 0, rt_listen(&listener, &passive, RT_HERE6, 0));
	CHECK_EQ("who is reached", 0, asked(IB_QPT_RC, RT_HERE6, rt_port(listener.id)));
	check_child(RT_HERE6, false);
	over();
	rt_down(&listener);
	/* A child lives longer than its listener. */
	CHECK_EQ("a listener that goes", 0, rt_listen(&listener, &passive, "0.0.0.0", 0));
	CHECK_EQ("who is reached", 0, asked(IB_QPT_RC, RT_HERE, rt_port(listener.id)));
	rt_down(&listener);
	CHECK_EQ("the request is answered", 0, rt_accept(&passive, NULL, 0));
	CHECK("which is told", rt_is_next(&active, RDMA_CM_EVENT_CONNECT_RESPONSE));
	over();
}

/* Which kinds of queue pairs a listener is for. */
static void kinds(void)
{
	const int no = IB_CM_REJ_CONSUMER_DEFINED;

	rt_up(&listener, RDMA_PS_TCP, IB_QPT_UC);
	CHECK_EQ("for UC", 0, rdma_bind_addr(listener.id, rt_sa(RT_HERE, 0)) ?: rdma_listen(listener.id, 1));
	CHECK_EQ("not RC", no, asked(IB_QPT_RC, RT_HERE, rt_port(listener.id)));
	over();
	CHECK_EQ("but UC", 0, asked(IB_QPT_UC, RT_HERE, rt_port(listener.id)));
	CHECK_EQ("which it has", IB_QPT_UC, passive.id ? passive.id->qp_type : -1);
	over();
	rt_down(&listener);
	rt_up(&listener, RDMA_PS_TCP, 0);
	CHECK_EQ("for all kinds", 0, rdma_bind_addr(listener.id, rt_sa(RT_HERE, 0)) ?: rdma_listen(listener.id, 1));
	CHECK_EQ("RC", 0, asked(IB_QPT_RC, RT_HERE, rt_port(listener.id)));
	over();
	CHECK_EQ("UC", 0, asked(IB_QPT_UC, RT_HERE, rt_port(listener.id)));
	over();
	rt_down(&listener);
	CHECK_EQ("datagrams", 0, rt_listen_udp(&listener, &passive, RT_HERE, 0));
	CHECK_EQ("are another port", IB_CM_REJ_INVALID_SERVICE_ID, asked(IB_QPT_RC, RT_HERE, rt_port(listener.id)));
	over();
	rt_down(&listener);
}

/* Two who listen at one port, of different addresses: each has his own. */
static void shared(void)
{
	static struct rt_end second;

	CHECK_EQ("one", 0, rt_listen(&listener, &passive, RT_HERE, RT_PORT));
	CHECK_EQ("another of IPv6", 0, rt_listen(&other, &second, RT_HERE6, RT_PORT));
	reached("the one by IPv4", 0, RT_HERE);
	CHECK_EQ("the other is not told", 0, second.told);
	rt_forget(&second);
	other.for_child = &second;
	CHECK_EQ("an address", 0, rt_routed(&active, RT_HERE6, RT_PORT));
	CHECK_EQ("which is asked for", 0, rt_connect(&active, NULL, 0));
	CHECK("the other by IPv6", rt_is_next(&second, RDMA_CM_EVENT_CONNECT_REQUEST));
	rt_down(&active);
	rt_down(&second);
	rt_down(&other);
	reached("IPv6 no more", IB_CM_REJ_CONSUMER_DEFINED, RT_HERE6);
	reached("IPv4 as before", 0, RT_HERE);
	rt_down(&listener);

	/* AF_IB: a service of its own. */
	rt_up(&other, RDMA_PS_IB, IB_QPT_RC);
	CHECK_EQ("a service of IB", 0, rdma_bind_addr(other.id, rt_sib(RDMA_IB_IP_PS_IB | RT_PORT, ~0ULL, "::")));
	CHECK_EQ("which is listened for", 0, rdma_listen(other.id, 1));
	rt_down(&other);
}

void rt_test_listen(void)
{
	addresses();
	children();
	kinds();
	shared();
}

/* Devices that come later, and go: a listener of any address hears of requests to each. */

static struct rt_end early, early_child;

void rt_test_early(void)
{
	CHECK_EQ("a listener of any address", 0, rt_listen(&early, &early_child, "0.0.0.0", RT_PORT));
	CHECK("no device", !early.id->device);
}

static bool reaches_early(const char *text)
{
	bool reached;

	rt_forget(&early_child);
	early.for_child = &early_child;
	reached = !rt_routed(&active, text, RT_PORT) && !rt_connect(&active, NULL, 0) &&
		  rt_is_next(&early_child, RDMA_CM_EVENT_CONNECT_REQUEST) && early_child.id->device == active.id->device;
	rt_down(&active);
	rt_down(&early_child);
	return reached;
}

void rt_test_second(void)
{
	CHECK("a device that came later", reaches_early(RT_SECOND));
	CHECK("the first one", reaches_early(RT_HERE));
}

void rt_test_only(void)
{
	CHECK("a device that is left", reaches_early(RT_HERE));
	CHECK_EQ("no device for the address of the other", -ENODEV, rt_bound(&other, RT_SECOND, 0));
	rt_down(&other);
}

void rt_test_late(void)
{
	CHECK_EQ("it was told nothing itself", 0, early.told);
	rt_down(&early);
	CHECK_EQ("its port is free", 0, rt_bound(&other, "0.0.0.0", RT_PORT));
	rt_down(&other);
}
