// SPDX-License-Identifier: GPL-2.0
/* Datagrams: who has which queue pair, and multicast groups. */
#include <linux/igmp.h>
#include <linux/rtnetlink.h>

#include "cma_test.h"

#define REQUEST_DATA (IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE - 36)

static struct rt_end listener, active, passive;
static u8 data[256];

static bool ask(int length)
{
	rt_forget(&passive);
	listener.for_child = &passive;
	return !rt_routed_udp(&active, RT_HERE, rt_port(listener.id)) && !rt_connect(&active, data, length);
}

static bool asked(void)
{
	return ask(0) && rt_is_next(&passive, RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void over(void)
{
	rt_down(&active);
	rt_down(&passive);
}

static int accept_key(u32 qkey)
{
	struct rdma_conn_param param = { .private_data = data, .private_data_len = 11, .qp_num = 0x4321, .qkey = qkey };
	int ret;

	rdma_lock_handler(passive.id);
	ret = rdma_accept(passive.id, &param);
	rdma_unlock_handler(passive.id);
	return ret;
}

static struct rt_event *not_reached(int status)
{
	struct rt_event *told = rt_next(&active);

	CHECK("it is not reached", told && told->event.event == RDMA_CM_EVENT_UNREACHABLE);
	CHECK_EQ("the status", status, told ? told->event.status : -1);
	return told;
}

static void answered(void)
{
	struct rdma_ud_param *param;
	struct rt_event *told;

	CHECK("a request", ask(20));
	told = rt_next(&passive);
	CHECK("the peer is told", told && told->event.event == RDMA_CM_EVENT_CONNECT_REQUEST);
	if (!told)
		return;
	param = &told->event.param.ud;
	CHECK_EQ("the length of private data", REQUEST_DATA, param->private_data_len);
	CHECK("private data", !memcmp(told->data, data, 20) && !told->data[20]);
	CHECK_EQ("the port space", RDMA_PS_UDP, passive.id->ps);
	CHECK_EQ("the kind of queue pair", IB_QPT_UD, passive.id->qp_type);
	CHECK("the address of here", rt_is(&passive.id->route.addr.src_addr, RT_HERE));
	CHECK("that of the peer", rt_is(&passive.id->route.addr.dst_addr, RT_HERE));
	CHECK_EQ("an answer", 0, accept_key(0));
	told = rt_next(&active);
	CHECK("the other is told", told && told->event.event == RDMA_CM_EVENT_ESTABLISHED);
	if (!told)
		return;
	param = &told->event.param.ud;
	CHECK_EQ("no errno", 0, told->event.status);
	CHECK_EQ("the queue pair", 0x4321, param->qp_num);
	CHECK_EQ("its key, the usual one", RDMA_UDP_QKEY, param->qkey);
	CHECK_EQ("the length of private data", IB_CM_SIDR_REP_PRIVATE_DATA_SIZE, param->private_data_len);
	CHECK("private data", !memcmp(told->data, data, 11) && !told->data[11]);
	CHECK_EQ("the kind of address", RDMA_AH_ATTR_TYPE_ROCE, param->ah_attr.type);
	CHECK_EQ("its port", 1, param->ah_attr.port_num);
	CHECK("its GID", !memcmp(&param->ah_attr.grh.dgid, &active.id->route.path_rec->dgid, 16));
	CHECK("the peer is not told", rt_quiet(&passive));
	CHECK_EQ("it is answered once", -EINVAL, accept_key(0));
	CHECK_EQ("nor is it refused", -EINVAL, rdma_reject(passive.id, NULL, 0, 0));
	CHECK_EQ("no error where there is nothing to disconnect", 0, rdma_disconnect(active.id));
	CHECK_EQ("it asks once", -EINVAL, rt_connect(&active, NULL, 0));
	over();
	CHECK("a request", asked());
	CHECK_EQ("an answer without data", 0, rt_go(&passive));
	told = rt_next(&active);
	CHECK("which is told", told && told->event.event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK_EQ("with the usual key", RDMA_UDP_QKEY, told ? told->event.param.ud.qkey : 0);
	over();
	CHECK("a request", asked());
	CHECK_EQ("an answer with a key", 0, accept_key(0x55));
	told = rt_next(&active);
	CHECK("which is told", told && told->event.event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK_EQ("that key", 0x55, told ? told->event.param.ud.qkey : 0);
	over();
}

/* The key of a queue pair that is there already. */
static void other_key(void)
{
	struct rt_queues queues;
	struct rt_event *told;

	CHECK_EQ("a route", 0, rt_routed_udp(&active, RT_HERE, rt_port(listener.id)));
	CHECK_EQ("queues", 0, rt_queues_up(&queues, active.id->device));
	CHECK_EQ("a queue pair", 0, rt_create_qp(&active, &queues));
	rt_forget(&passive);
	CHECK_EQ("a request", 0, rt_connect(&active, NULL, 0));
	CHECK("which is told", rt_is_next(&passive, RDMA_CM_EVENT_CONNECT_REQUEST));
	CHECK_EQ("an answer with another key", 0, accept_key(0x55));
	told = rt_next(&active);
	CHECK("is an error", told && told->event.event == RDMA_CM_EVENT_ADDR_ERROR);
	CHECK_EQ("the errno", -EINVAL, told ? told->event.status : 0);
	rdma_destroy_qp(active.id);
	over();
	rt_queues_down(&queues);
}

static void refused(void)
{
	struct rt_event *told;

	CHECK_EQ("nobody listens", 0, rt_routed_udp(&active, RT_HERE, 1));
	CHECK_EQ("who is asked", 0, rt_connect(&active, NULL, 0));
	not_reached(IB_SIDR_UNSUPPORTED);
	over();
	CHECK("a request", asked());
	CHECK_EQ("too much data in a refusal", -EINVAL, rdma_reject(passive.id, data, IB_CM_SIDR_REP_PRIVATE_DATA_SIZE + 1, 0));
	CHECK_EQ("a refusal", 0, rdma_reject(passive.id, data, 7, 0));
	told = not_reached(IB_SIDR_REJECT);
	CHECK("private data", told && !memcmp(told->data, data, 7) && !told->data[7]);
	over();
	CHECK("a request", asked());
	rt_down(&passive);
	not_reached(IB_SIDR_REJECT);
	over();
	listener.for_child = NULL;
	CHECK_EQ("a handler that refuses", 0, rt_routed_udp(&active, RT_HERE, rt_port(listener.id)));
	CHECK_EQ("is asked", 0, rt_connect(&active, NULL, 0));
	not_reached(IB_SIDR_REJECT);
	over();
	CHECK("a request", asked());
	rt_down(&active);
	CHECK("who has asked has gone", rt_quiet(&passive));
	over();
	CHECK_EQ("a route", 0, rt_routed_udp(&active, RT_HERE, rt_port(listener.id)));
	listener.for_child = &passive;
	rt_forget(&passive);
	CHECK_EQ("a byte too much", -EINVAL, rt_connect(&active, data, REQUEST_DATA + 1));
	CHECK_EQ("the most that is too much", -EINVAL, rt_connect(&active, data, 255));
	CHECK_EQ("the most that is not", 0, rt_connect(&active, data, REQUEST_DATA));
	told = rt_next(&passive);
	CHECK("which comes", told && !memcmp(told->data, data, REQUEST_DATA));
	over();
}

void rt_test_datagram(void)
{
	int nth;

	for (nth = 0; nth < sizeof(data); nth++)
		data[nth] = nth + 1;
	CHECK_EQ("a listener", 0, rt_listen_udp(&listener, &passive, "0.0.0.0", 0));
	answered();
	other_key();
	refused();
	rt_down(&listener);
}

/* Groups */

#define GROUP "239.1.2.3"

/* Whether the network device is a member. */
static bool is_member(const char *netdev, const char *group)
{
	struct net_device *dev = dev_get_by_name(current->nsproxy->net_ns, netdev);
	struct in_device *in_dev;
	struct ip_mc_list *mc;
	bool found = false;

	if (!dev)
		return false;
	rtnl_lock();
	in_dev = __in_dev_get_rtnl(dev);
	for (mc = in_dev ? rtnl_dereference(in_dev->mc_list) : NULL; mc; mc = rtnl_dereference(mc->next_rcu)) {
		if (mc->multiaddr == ((struct sockaddr_in *)rt_sa(group, 0))->sin_addr.s_addr)
			found = true;
	}
	rtnl_unlock();
	dev_put(dev);
	return found;
}

static int join(const char *group, u8 state, void *context)
{
	return rdma_join_multicast(active.id, rt_sa(group, 0), state, context);
}

static int bound_udp(const char *text)
{
	return rt_up_udp(&active) ?: rdma_bind_addr(active.id, rt_sa(text, 0));
}

static void joined(const char *group, void *context)
{
	struct rt_event *told = rt_next(&active);
	struct rdma_ud_param *param;
	union ib_gid wanted;

	CHECK("it is told", told && told->event.event == RDMA_CM_EVENT_MULTICAST_JOIN);
	if (!told)
		return;
	param = &told->event.param.ud;
	rdma_ip2gid(rt_sa(group, 0), &wanted);
	CHECK_EQ("no errno", 0, told->event.status);
	CHECK("the context", param->private_data == context);
	CHECK_EQ("the queue pair of all", 0xffffff, param->qp_num);
	CHECK_EQ("the usual key", RDMA_UDP_QKEY, param->qkey);
	CHECK_EQ("the kind of address", RDMA_AH_ATTR_TYPE_ROCE, param->ah_attr.type);
	CHECK_EQ("with a route", IB_AH_GRH, param->ah_attr.ah_flags);
	CHECK("the group", !memcmp(param->ah_attr.grh.dgid.raw + 12, wanted.raw + 12, 4));
	CHECK_EQ("which is one of IPv4", 0xffff, param->ah_attr.grh.dgid.raw[10] << 8 | param->ah_attr.grh.dgid.raw[11]);
	CHECK_EQ("the hop limit", 64, param->ah_attr.grh.hop_limit);
}

void rt_test_groups(void)
{
	int context;

	rt_up_udp(&active);
	CHECK_EQ("where it is not bound", -EINVAL, join(GROUP, BIT(FULLMEMBER_JOIN), NULL));
	rt_down(&active);
	CHECK_EQ("bound to any", 0, bound_udp("0.0.0.0"));
	CHECK_EQ("no device", -EINVAL, join(GROUP, BIT(FULLMEMBER_JOIN), NULL));
	rt_down(&active);
	CHECK_EQ("a route", 0, rt_routed_udp(&active, RT_HERE, RT_PORT));
	CHECK_EQ("too late", -EINVAL, join(GROUP, BIT(FULLMEMBER_JOIN), NULL));
	rt_down(&active);
	rt_up_udp(&active);
	CHECK_EQ("the loopback address", 0, rdma_resolve_addr(active.id, NULL, rt_sa("127.0.0.1", 1), 1000));
	CHECK("which is found", rt_is_next(&active, RDMA_CM_EVENT_ADDR_RESOLVED));
	CHECK_EQ("no network device", -ENODEV, join(GROUP, BIT(FULLMEMBER_JOIN), NULL));
	rt_down(&active);

	CHECK_EQ("bound", 0, bound_udp(RT_HERE));
	CHECK_EQ("no address", -EINVAL, join("0.0.0.0", BIT(FULLMEMBER_JOIN), NULL));
	CHECK_EQ("a group of IPv6", -ENOTSUPP, join("ff0e::1:2", BIT(FULLMEMBER_JOIN), NULL));
	CHECK("no member", !is_member("left", GROUP));
	CHECK_EQ("a group", 0, join(GROUP, BIT(FULLMEMBER_JOIN), &context));
	joined(GROUP, &context);
	CHECK("a member", is_member("left", GROUP));
	CHECK_EQ("another group", 0, join("239.1.2.4", BIT(FULLMEMBER_JOIN), &active));
	joined("239.1.2.4", &active);
	CHECK("a member", is_member("left", "239.1.2.4"));
	CHECK_EQ("for sending alone", 0, join("239.1.2.5", BIT(SENDONLY_FULLMEMBER_JOIN), NULL));
	joined("239.1.2.5", NULL);
	CHECK("no member", !is_member("left", "239.1.2.5"));
	rdma_leave_multicast(active.id, rt_sa(GROUP, 0));
	CHECK("it leaves one", !is_member("left", GROUP));
	CHECK("not the other", is_member("left", "239.1.2.4"));
	rdma_leave_multicast(active.id, rt_sa(GROUP, 0));
	rdma_leave_multicast(active.id, rt_sa("239.1.2.5", 0));
	CHECK_EQ("it may come back", 0, join(GROUP, BIT(FULLMEMBER_JOIN), &context));
	joined(GROUP, &context);
	rt_down(&active);
	CHECK("it leaves all when it goes", !is_member("left", GROUP) && !is_member("left", "239.1.2.4"));

	rt_up_udp(&active);
	CHECK_EQ("an address", 0, rdma_resolve_addr(active.id, NULL, rt_sa(RT_HERE, 1), 1000));
	CHECK("which is found", rt_is_next(&active, RDMA_CM_EVENT_ADDR_RESOLVED));
	CHECK_EQ("a group, then", 0, join(GROUP, BIT(FULLMEMBER_JOIN), &context));
	joined(GROUP, &context);
	rt_down(&active);
	CHECK_EQ("bound for RC", 0, rt_bound(&active, RT_HERE, 0));
	CHECK_EQ("no group", -EINVAL, join(GROUP, BIT(FULLMEMBER_JOIN), NULL));
	rt_down(&active);
	/* It goes before it is told. */
	CHECK_EQ("bound", 0, bound_udp(RT_HERE));
	CHECK_EQ("a group", 0, join(GROUP, BIT(FULLMEMBER_JOIN), NULL));
	rt_down(&active);
	CHECK("it has left", !is_member("left", GROUP));
}
