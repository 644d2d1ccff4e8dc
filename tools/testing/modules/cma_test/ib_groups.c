// SPDX-License-Identifier: GPL-2.0
/*
 * Multicast groups on InfiniBand: those that the subnet administrator lets a port join, and those that it refuses. The addresses are
 * on a network device as IPoIB has it, whose broadcast group the test joins as IPoIB does. It moves no packets.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/rtnetlink.h>
#include <rdma/ib_sa.h>

#include "cma_test.h"

#define HARDWARE 20		/* the length of a hardware address: flags and queue pair, GID */
#define HERE "10.3.0.1"		/* the address that the script gives it */
#define GROUP "239.1.2.3"

static const u8 broadcast_address[HARDWARE] = {
	0, 0xff, 0xff, 0xff, 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
};

static struct ib_sa_client sa_client;
static struct net_device *netdev;
static struct ib_sa_multicast *broadcast;
static DECLARE_COMPLETION(broadcast_told);
static int broadcast_status;
static struct rt_end end;

static netdev_tx_t lose(struct sk_buff *skb, struct net_device *dev)
{
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops ops = { .ndo_start_xmit = lose };

static void setup(struct net_device *dev)
{
	dev->netdev_ops = &ops;
	dev->type = ARPHRD_INFINIBAND;
	dev->addr_len = HARDWARE;
	dev->mtu = 2044;
	dev->tx_queue_len = 16;
	dev->flags = IFF_BROADCAST | IFF_MULTICAST | IFF_NOARP;
	memcpy(dev->broadcast, broadcast_address, HARDWARE);
}

/* A network device at the first port. */
void rt_test_ib_net_device(void)
{
	u8 hardware[HARDWARE] = { 0, 0, 0, 1 };
	int ret = -ENOMEM;

	CHECK("the GID of the port", in6_pton(rt_ib_gid(1), -1, hardware + 4, -1, NULL));
	netdev = alloc_netdev(0, "likeipoib", NET_NAME_UNKNOWN, setup);
	if (netdev) {
		dev_addr_set(netdev, hardware);
		ret = register_netdev(netdev);
	}
	CHECK_EQ("a network device of InfiniBand", 0, ret);
	if (ret && netdev)
		free_netdev(netdev);
	if (ret)
		netdev = NULL;
	ib_sa_register_client(&sa_client);
}

static int on_broadcast(int status, struct ib_sa_multicast *multicast)
{
	broadcast_status = status;
	complete_all(&broadcast_told);
	return 0;
}

static int join_broadcast(void)
{
	struct ib_sa_mcmember_rec rec = { .join_state = BIT(FULLMEMBER_JOIN), .pkey = cpu_to_be16(0xffff), .qkey = cpu_to_be32(0xb1b) };

	memcpy(rec.mgid.raw, broadcast_address + 4, 16);
	memcpy(rec.port_gid.raw, netdev->dev_addr + 4, 16);
	broadcast = ib_sa_join_multicast(&sa_client, end.id->device, 1, &rec,
					 IB_SA_MCMEMBER_REC_MGID | IB_SA_MCMEMBER_REC_PORT_GID | IB_SA_MCMEMBER_REC_PKEY |
					 IB_SA_MCMEMBER_REC_QKEY | IB_SA_MCMEMBER_REC_JOIN_STATE, GFP_KERNEL, on_broadcast, NULL);
	if (IS_ERR(broadcast))
		return PTR_ERR(broadcast);
	wait_for_completion(&broadcast_told);
	return broadcast_status;
}

static int join(void *context)
{
	return rdma_join_multicast(end.id, rt_sa(GROUP, 0), BIT(FULLMEMBER_JOIN), context);
}

/* The event of a join. */
static struct rt_event *next(enum rdma_cm_event_type type, int status, void *context)
{
	struct rt_event *told = rt_next(&end);

	CHECK_EQ("it is told", type, told ? told->event.event : -1);
	CHECK_EQ("the status", status, told ? told->event.status : 1);
	CHECK("the context", told && told->event.param.ud.private_data == context);
	return told;
}

static void joined(void *context)
{
	static const u8 group[16] = { 0xff, 0x12, 0x40, 1, 0xff, 0xff, [12] = 0xf, 1, 2, 3 };
	struct rt_event *told = next(RDMA_CM_EVENT_MULTICAST_JOIN, 0, context);
	struct rdma_ud_param *param;

	if (!told)
		return;
	param = &told->event.param.ud;
	CHECK_EQ("the queue pair of all", 0xffffff, param->qp_num);
	CHECK_EQ("the usual key", RDMA_UDP_QKEY, param->qkey);
	CHECK_EQ("the kind of address", RDMA_AH_ATTR_TYPE_IB, param->ah_attr.type);
	CHECK_EQ("its port", 1, param->ah_attr.port_num);
	CHECK("its LID is one of groups", rdma_ah_get_dlid(&param->ah_attr) >= 0xc000);
	CHECK("the group", !memcmp(param->ah_attr.grh.dgid.raw, group, 16));
}

static int bound(void)
{
	return rt_up_udp(&end) ?: rdma_bind_addr(end.id, rt_sa(HERE, 0));
}

void rt_test_ib_groups(void)
{
	int context;

	CHECK_EQ("bound", 0, bound());
	CHECK("to a device of InfiniBand", end.id->device && rdma_protocol_ib(end.id->device, 1));
	if (!end.id->device)
		return;
	CHECK_EQ("by the network device", netdev->ifindex, end.id->route.addr.dev_addr.bound_dev_if);
	CHECK_EQ("nobody is in the broadcast group", -EADDRNOTAVAIL, join(&context));
	CHECK_EQ("who is", 0, join_broadcast());
	CHECK_EQ("a group", 0, join(&context));
	joined(&context);
	rdma_leave_multicast(end.id, rt_sa(GROUP, 0));
	CHECK_EQ("again", 0, join(&end));
	joined(&end);
	rt_down(&end);
}

/* The administrator refuses now. */
void rt_test_no_ib_groups(void)
{
	int context;

	CHECK_EQ("bound", 0, bound());
	CHECK_EQ("a group", 0, join(&context));
	next(RDMA_CM_EVENT_MULTICAST_ERROR, -EINVAL, &context);
	rdma_leave_multicast(end.id, rt_sa(GROUP, 0));
	CHECK_EQ("it may ask again", 0, join(&end));
	next(RDMA_CM_EVENT_MULTICAST_ERROR, -EINVAL, &end);
	CHECK("nothing more", rt_quiet(&end));
	rt_down(&end);
}

/* It does not any more. */
void rt_test_ib_groups_again(void)
{
	CHECK_EQ("bound", 0, bound());
	CHECK_EQ("a group", 0, join(NULL));
	joined(NULL);
	rt_down(&end);
	if (!IS_ERR_OR_NULL(broadcast))
		ib_sa_free_multicast(broadcast);
	ib_sa_unregister_client(&sa_client);
	if (netdev) {
		unregister_netdev(netdev);
		free_netdev(netdev);
	}
	netdev = NULL;
}
