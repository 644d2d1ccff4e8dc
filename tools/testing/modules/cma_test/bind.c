// SPDX-License-Identifier: GPL-2.0
/* Local addresses and ports: who may have which. */
#include "cma_test.h"

static struct rt_end first, second, third;

static int bind(struct rt_end *end, const char *text, u16 port)
{
	return rdma_bind_addr(end->id, rt_sa(text, port));
}

static void addresses(void)
{
	union ib_gid local, peer, wanted;

	CHECK_EQ("an address of the device", 0, rt_bound(&first, RT_HERE, 0));
	CHECK("the device", first.id->device && rdma_protocol_roce(first.id->device, 1));
	CHECK_EQ("its port", 1, first.id->port_num);
	CHECK("the address", rt_is(&first.id->route.addr.src_addr, RT_HERE));
	CHECK_EQ("a port is chosen", 1, rt_port(first.id) >= 1024);
	CHECK_EQ("the family of the peer", AF_INET, first.id->route.addr.dst_addr.ss_family);
	CHECK_EQ("its network device", rt_ifindex("left"), first.id->route.addr.dev_addr.bound_dev_if);
	CHECK_EQ("its transport", RDMA_TRANSPORT_IB, first.id->route.addr.dev_addr.transport);
	CHECK("its GID", first.id->route.addr.dev_addr.sgid_attr);
	rdma_read_gids(first.id, &local, &peer);
	ipv6_addr_set_v4mapped(((struct sockaddr_in *)rt_sa(RT_HERE, 0))->sin_addr.s_addr, (struct in6_addr *)&wanted);
	CHECK("the local GID", !memcmp(&local, &wanted, 16));
	ipv6_addr_set_v4mapped(0, (struct in6_addr *)&wanted);
	CHECK("that of no peer", !memcmp(&peer, &wanted, 16));
	CHECK_EQ("it is bound", -EINVAL, bind(&first, RT_HERE, 0));
	CHECK_EQ("another port is chosen", 0, rt_bound(&second, RT_HERE, 0));
	CHECK("which is another", rt_port(first.id) != rt_port(second.id));
	rt_down(&second);
	rt_down(&first);

	CHECK_EQ("of IPv6", 0, rt_bound(&first, RT_HERE6, 0));
	CHECK("the device", first.id->device);
	CHECK("the address", rt_is(&first.id->route.addr.src_addr, RT_HERE6));
	CHECK_EQ("the family of the peer", AF_INET6, first.id->route.addr.dst_addr.ss_family);
	CHECK_EQ("a port is chosen", 1, rt_port(first.id) >= 1024);
	rt_down(&first);

	CHECK_EQ("any", 0, rt_bound(&first, "0.0.0.0", 0));
	CHECK("no device", !first.id->device);
	CHECK_EQ("a port is chosen", 1, rt_port(first.id) >= 1024);
	rt_down(&first);
	CHECK_EQ("any of IPv6", 0, rt_bound(&first, "::", 0));
	CHECK("no device", !first.id->device);
	rt_down(&first);
	CHECK_EQ("the loopback address is any", 0, rt_bound(&first, "127.0.0.1", 0));
	CHECK("no device", !first.id->device);
	CHECK("the address", rt_is(&first.id->route.addr.src_addr, "127.0.0.1"));
	rt_down(&first);
	CHECK_EQ("that of IPv6 too", 0, rt_bound(&first, "::1", 0));
	CHECK("no device", !first.id->device);
	rt_down(&first);
	CHECK_EQ("another of net 0 is not", -EADDRNOTAVAIL, rt_bound(&first, "0.1.2.3", 0));
	rt_down(&first);
}

static void errors(void)
{
	struct sockaddr_storage wrong = { .ss_family = AF_UNIX };

	rt_up_tcp(&first);
	CHECK_EQ("a family that is none", -EAFNOSUPPORT, rdma_bind_addr(first.id, (struct sockaddr *)&wrong));
	wrong.ss_family = AF_UNSPEC;
	CHECK_EQ("no family", -EAFNOSUPPORT, rdma_bind_addr(first.id, (struct sockaddr *)&wrong));
	CHECK_EQ("nobody's address", -EADDRNOTAVAIL, bind(&first, RT_NOBODY, 0));
	CHECK_EQ("nobody's of IPv6", -EADDRNOTAVAIL, bind(&first, "fd01::77", 0));
	CHECK_EQ("of a network device without RDMA", -ENODEV, bind(&first, RT_PLAIN, 0));
	CHECK("no device", !first.id->device);
	CHECK_EQ("a link-local one of no interface", -EINVAL, bind(&first, RT_LINK_LOCAL, 0));
	CHECK_EQ("a GID, of a device that has none of InfiniBand", -ENODEV,
		 rdma_bind_addr(first.id, rt_sib(RDMA_IB_IP_PS_TCP, RDMA_IB_IP_PS_MASK, RT_LINK_LOCAL)));
	/* Stock looks for the device of an address at the network device of one that failed. */
	if (rt_strict) {
		CHECK_EQ("then one that is right", 0, bind(&first, RT_HERE, 0));
		CHECK("the device", first.id->device);
	}
	rt_down(&first);
	rt_up_tcp(&first);
	CHECK_EQ("nobody's address", -EADDRNOTAVAIL, bind(&first, RT_NOBODY, 0));
	CHECK_EQ("then one that is right", 0, bind(&first, RT_HERE, 0));
	CHECK("the device", first.id->device);
	rt_down(&first);

	rt_up_tcp(&first);
	CHECK_EQ("a link-local one", 0, rdma_bind_addr(first.id, rt_sa_on(RT_LINK_LOCAL, 0, rt_ifindex("left"))));
	CHECK("the device", first.id->device);
	CHECK_EQ("its network device", rt_ifindex("left"), first.id->route.addr.dev_addr.bound_dev_if);
	rt_down(&first);
	rt_up_tcp(&first);
	CHECK_EQ("one of another interface", -ENODEV, rdma_bind_addr(first.id, rt_sa_on(RT_LINK_LOCAL, 0, rt_ifindex("plain"))));
	rt_down(&first);
	rt_up_tcp(&first);
	CHECK_EQ("one of an interface that is not there", -ENODEV, rdma_bind_addr(first.id, rt_sa_on(RT_LINK_LOCAL, 0, 9999)));
	rt_down(&first);

	rt_up(&first, 0, IB_QPT_RC);
	CHECK_EQ("no port space", -EPROTONOSUPPORT, bind(&first, RT_HERE, 0));
	CHECK("no device", !first.id->device);
	CHECK_EQ("nor for any address", -EPROTONOSUPPORT, bind(&first, "0.0.0.0", 0));
	rt_down(&first);
	rt_up(&first, RDMA_PS_IPOIB, IB_QPT_UD);
	CHECK_EQ("IPoIB is not for Ethernet", -EINVAL, bind(&first, RT_HERE, 0));
	CHECK_EQ("but any address will do", 0, bind(&first, "0.0.0.0", 0));
	rt_down(&first);
}

/* Two identifiers that want a port: what the second gets. */
static void conflict(const char *what, const char *one, const char *two, int ret)
{
	CHECK_EQ("the first", 0, rt_bound(&first, one, RT_PORT));
	CHECK_EQ("its port", RT_PORT, rt_port(first.id));
	rt_up_tcp(&second);
	CHECK_EQ(what, ret, bind(&second, two, RT_PORT));
	if (ret) {
		CHECK_EQ("another port", 0, bind(&second, two, RT_PORT + 1));
		CHECK_EQ("it is that", RT_PORT + 1, rt_port(second.id));
	}
	rt_down(&second);
	rt_down(&first);
}

static void ports(void)
{
	conflict("the same address", RT_HERE, RT_HERE, -EADDRINUSE);
	conflict("another address", RT_HERE, RT_HERE6, 0);
	conflict("any after one", RT_HERE, "0.0.0.0", -EADDRNOTAVAIL);
	conflict("one after any", "0.0.0.0", RT_HERE, -EADDRNOTAVAIL);
	conflict("any twice", "0.0.0.0", "0.0.0.0", -EADDRNOTAVAIL);
	conflict("any of IPv6 after any of IPv4", "0.0.0.0", "::", -EADDRNOTAVAIL);
	conflict("any of IPv4 after any of IPv6", "::", "0.0.0.0", -EADDRNOTAVAIL);
	conflict("the same of IPv6", RT_HERE6, RT_HERE6, -EADDRINUSE);
	conflict("loopback after any", "0.0.0.0", "127.0.0.1", -EADDRNOTAVAIL);

	CHECK_EQ("of TCP", 0, rt_bound(&first, "0.0.0.0", RT_PORT));
	rt_up_udp(&second);
	CHECK_EQ("the same of UDP", 0, bind(&second, "0.0.0.0", RT_PORT));
	rt_up(&third, RDMA_PS_IB, IB_QPT_RC);
	CHECK_EQ("and of IB", 0, bind(&third, "0.0.0.0", RT_PORT));
	rt_down(&third);
	rt_up(&third, RDMA_PS_IPOIB, IB_QPT_UD);
	CHECK_EQ("and of IPoIB", 0, bind(&third, "0.0.0.0", RT_PORT));
	rt_down(&third);
	rt_down(&second);
	rt_up(&second, RDMA_PS_TCP, IB_QPT_UC);
	CHECK_EQ("the kind of queue pair makes no difference", -EADDRNOTAVAIL, bind(&second, "0.0.0.0", RT_PORT));
	rt_down(&first);
	CHECK_EQ("it is free when the first has gone", 0, bind(&second, "0.0.0.0", RT_PORT));
	rt_down(&second);
	CHECK_EQ("a port below 1024", 0, rt_bound(&first, RT_HERE, 80));
	rt_down(&first);
}

static int reusable(struct rt_end *end, const char *text, u16 port)
{
	rt_up_tcp(end);
	return rdma_set_reuseaddr(end->id, 1) ?: bind(end, text, port);
}

static void reuse(void)
{
	CHECK_EQ("a port that may be reused", 0, reusable(&first, RT_HERE, RT_PORT));
	CHECK_EQ("not by one that does not say so", -EADDRINUSE, rt_bound(&second, RT_HERE, RT_PORT));
	CHECK_EQ("it says so", 0, rdma_set_reuseaddr(second.id, 1));
	CHECK_EQ("then it may", 0, bind(&second, RT_HERE, RT_PORT));
	CHECK_EQ("so may any address", 0, reusable(&third, "0.0.0.0", RT_PORT));
	CHECK_EQ("it cannot be taken back", -EINVAL, rdma_set_reuseaddr(second.id, 0));
	CHECK_EQ("nobody listens there", -EADDRNOTAVAIL, rdma_listen(first.id, 1));
	rt_down(&third);
	CHECK_EQ("nor while another has it", -EADDRINUSE, rdma_listen(first.id, 1));
	rt_down(&second);
	CHECK_EQ("alone it may", 0, rdma_listen(first.id, 1));
	CHECK_EQ("then nobody may reuse it", -EADDRINUSE, reusable(&second, RT_HERE, RT_PORT));
	rt_down(&second);
	CHECK_EQ("nor may it be said", -EINVAL, rdma_set_reuseaddr(first.id, 1));
	rt_down(&first);
}

/* One family alone: IPv4 always is, unless it is said; IPv6 is not, unless it is said or the sysctl says so. */
static void families(void)
{
	rt_up_tcp(&first);
	CHECK_EQ("IPv6 alone", 0, rdma_set_afonly(first.id, 1));
	CHECK_EQ("any of it", 0, bind(&first, "::", RT_PORT));
	CHECK_EQ("any of IPv4", 0, rt_bound(&second, "0.0.0.0", RT_PORT));
	CHECK_EQ("both listen", 0, rdma_listen(first.id, 1) ?: rdma_listen(second.id, 1));
	CHECK_EQ("then it cannot be said", -EINVAL, rdma_set_afonly(first.id, 0));
	rt_down(&second);
	rt_up_tcp(&second);
	CHECK_EQ("IPv4 with IPv6", 0, rdma_set_afonly(second.id, 0));
	CHECK_EQ("is in the way", -EADDRNOTAVAIL, bind(&second, "0.0.0.0", RT_PORT));
	rt_down(&second);
	rt_down(&first);

	CHECK_EQ("bound", 0, rt_bound(&first, "::", RT_PORT));
	CHECK_EQ("it may be said then", 0, rdma_set_afonly(first.id, 1));
	CHECK_EQ("any of IPv4", 0, rt_bound(&second, "0.0.0.0", RT_PORT));
	rt_down(&second);
	rt_down(&first);
}

/* AF_IB: a service and its mask, in place of a port. */
static void services(void)
{
	struct sockaddr_ib *ib;

	rt_up(&first, RDMA_PS_TCP, IB_QPT_RC);
	CHECK_EQ("any GID, a port of TCP", 0,
		 rdma_bind_addr(first.id, rt_sib(RDMA_IB_IP_PS_TCP | RT_PORT, ~0ULL, "::")));
	ib = (struct sockaddr_ib *)&first.id->route.addr.src_addr;
	CHECK_EQ("the service", RDMA_IB_IP_PS_TCP | RT_PORT, be64_to_cpu(ib->sib_sid));
	CHECK("its mask", ib->sib_sid_mask == cpu_to_be64(~0ULL));
	CHECK("no device", !first.id->device);
	rt_up_tcp(&second);
	CHECK_EQ("it is a port of TCP", -EADDRNOTAVAIL, bind(&second, "0.0.0.0", RT_PORT));
	rt_down(&second);
	rt_down(&first);

	rt_up(&first, RDMA_PS_IB, IB_QPT_RC);
	CHECK_EQ("any service", 0, rdma_bind_addr(first.id, rt_sib(0, 0, "::")));
	ib = (struct sockaddr_ib *)&first.id->route.addr.src_addr;
	CHECK_EQ("is one of IB", RDMA_IB_IP_PS_IB >> 16, be64_to_cpu(ib->sib_sid) >> 16);
	CHECK("with a port", be64_to_cpu(ib->sib_sid) & 0xffff);
	rt_down(&first);
	rt_up(&first, RDMA_PS_IB, IB_QPT_RC);
	CHECK_EQ("IB has those of UDP", 0, rdma_bind_addr(first.id, rt_sib(RDMA_IB_IP_PS_UDP | RT_PORT, ~0ULL, "::")));
	rt_up_udp(&second);
	CHECK_EQ("it is a port of UDP", -EADDRNOTAVAIL, bind(&second, "0.0.0.0", RT_PORT));
	rt_down(&second);
	rt_down(&first);
	rt_up(&first, RDMA_PS_TCP, IB_QPT_RC);
	CHECK_EQ("TCP has none of UDP", -EPROTONOSUPPORT,
		 rdma_bind_addr(first.id, rt_sib(RDMA_IB_IP_PS_UDP | RT_PORT, ~0ULL, "::")));
	CHECK_EQ("nor of another prefix", -EPROTONOSUPPORT,
		 rdma_bind_addr(first.id, rt_sib(0x5500000000000000ULL | RT_PORT, ~0ULL, "::")));
	rt_down(&first);
}

void rt_test_bind(void)
{
	addresses();
	errors();
	ports();
	reuse();
	families();
	services();
}

static struct rt_end later;

void rt_test_bound_later(void)
{
	static struct rt_end first;

	CHECK_EQ("who is first", 0, rt_bound(&first, RT_HERE, RT_PORT + 18));
	CHECK_EQ("it has the port", -EADDRINUSE, rt_bound(&later, RT_HERE, RT_PORT + 18));
	CHECK("no device", !later.id->device);
	CHECK_EQ("another port", 0, rdma_bind_addr(later.id, rt_sa(RT_HERE, RT_PORT + 19)));
	rt_down(&first);
}

void rt_test_bound_no_more(void)
{
	CHECK_EQ("its port", RT_PORT + 19, rt_port(later.id));
	rt_down(&later);
}
