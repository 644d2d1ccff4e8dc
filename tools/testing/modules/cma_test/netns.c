// SPDX-License-Identifier: GPL-2.0
/*
 * Network namespaces: addresses, ports and listeners of each. The hosts are those of lib.sh: A has 10.0.0.1, B has 10.0.0.2. A test
 * runs in the namespace of who writes its name.
 */
#include "cma_test.h"

#define OF_A "10.0.0.1"
#define OF_B "10.0.0.2"

static struct rt_end of_a, child_of_a, of_b, of_none, other, active, passive;

/* In A: a listener that stays. */
void rt_test_host_a(void)
{
	CHECK_EQ("a listener of any address", 0, rt_listen(&of_a, &child_of_a, "0.0.0.0", RT_PORT));
	CHECK("its namespace", of_a.id->route.addr.dev_addr.net == current->nsproxy->net_ns);
	CHECK_EQ("its port is taken", -EADDRNOTAVAIL, rt_bound(&other, OF_A, RT_PORT));
	rt_down(&other);
	CHECK_EQ("the address of the other is not here", -EADDRNOTAVAIL, rt_bound(&other, OF_B, 0));
	rt_down(&other);
}

/* In the first namespace, which has neither address: its port is another one. */
void rt_test_host_none(void)
{
	CHECK_EQ("a listener of the same port", 0, rt_listen(&of_none, &passive, "0.0.0.0", RT_PORT));
	CHECK_EQ("and of one that nobody else has", 0, rt_listen(&other, &passive, "0.0.0.0", RT_PORT + 1));
	CHECK_EQ("no address of a host", -EADDRNOTAVAIL, rt_bound(&active, OF_A, 0));
	rt_down(&active);
}

static int reason_of(u16 port)
{
	struct rt_event *told;
	int ret = rt_routed(&active, OF_A, port) ?: rt_connect(&active, NULL, 0);

	if (ret)
		return ret;
	told = rt_next(&active);
	return told && told->event.event == RDMA_CM_EVENT_REJECTED ? told->event.status : -ENOENT;
}

/* In B: who is reached, and a connection that stays. */
void rt_test_host_b(void)
{
	CHECK_EQ("the same port", 0, rt_bound(&of_b, "0.0.0.0", RT_PORT));
	rt_down(&of_b);
	CHECK_EQ("a port that the first namespace alone has", IB_CM_REJ_CONSUMER_DEFINED, reason_of(RT_PORT + 1));
	rt_down(&active);
	CHECK_EQ("a port that nobody has", IB_CM_REJ_INVALID_SERVICE_ID, reason_of(RT_PORT + 2));
	rt_down(&active);

	rt_forget(&child_of_a);
	of_a.for_child = &child_of_a;
	CHECK_EQ("the port of A", 0, rt_routed(&of_b, OF_A, RT_PORT) ?: rt_connect(&of_b, "hello", 6));
	CHECK("A is told", rt_is_next(&child_of_a, RDMA_CM_EVENT_CONNECT_REQUEST));
	if (!child_of_a.id)
		return;
	CHECK("in its namespace", child_of_a.id->route.addr.dev_addr.net == of_a.id->route.addr.dev_addr.net);
	CHECK("which is another", child_of_a.id->route.addr.dev_addr.net != current->nsproxy->net_ns);
	CHECK("on its device", child_of_a.id->device != of_b.id->device);
	CHECK("at its address", rt_is(&child_of_a.id->route.addr.src_addr, OF_A));
	CHECK("from the address of B", rt_is(&child_of_a.id->route.addr.dst_addr, OF_B));
	CHECK("the first namespace is not told", !passive.told);
	CHECK_EQ("an answer", 0, rt_accept(&child_of_a, NULL, 0));
	CHECK("which is told", rt_is_next(&of_b, RDMA_CM_EVENT_CONNECT_RESPONSE));
	CHECK_EQ("a connection", 0, rt_go(&of_b));
	CHECK("of both", rt_is_next(&child_of_a, RDMA_CM_EVENT_ESTABLISHED));
}

/* In A, where devices are of one namespace alone, and are of the first. */
void rt_test_host_exclusive(void)
{
	CHECK_EQ("no device for an address", -ENODEV, rt_bound(&active, OF_A, 0));
	rt_down(&active);
	rt_up_tcp(&active);
	CHECK_EQ("nor for one to be resolved", 0, rdma_resolve_addr(active.id, NULL, rt_sa(OF_A, 1), 1000));
	CHECK("which is told", rt_is_next(&active, RDMA_CM_EVENT_ADDR_ERROR));
	CHECK_EQ("the errno", -ENODEV, active.events[0].event.status);
	rt_down(&active);
}

void rt_test_host_shared(void)
{
	CHECK_EQ("a device for an address", 0, rt_bound(&active, OF_A, 0));
	rt_down(&active);
}

/* The names of A and B have gone; the connection is there. */
void rt_test_host_gone(void)
{
	CHECK_EQ("the end of the connection", 0, rdma_disconnect(of_b.id));
	CHECK("is told to A", rt_is_next(&child_of_a, RDMA_CM_EVENT_DISCONNECTED));
	CHECK_EQ("which agrees", 0, rdma_disconnect(child_of_a.id));
	CHECK("is told to B", rt_is_next(&of_b, RDMA_CM_EVENT_DISCONNECTED));
	rt_down(&of_b);
	rt_down(&child_of_a);
	rt_down(&of_a);
	rt_down(&other);
	rt_down(&of_none);
}
