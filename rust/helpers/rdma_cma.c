// SPDX-License-Identifier: GPL-2.0

/* For rdma_cm: its identifiers, and what it asks the network. */
#include <linux/capability.h>
#include <linux/igmp.h>
#include <net/ip_fib.h>
#include <net/neighbour.h>
#include <net/netevent.h>

__rust_helper void rust_helper_cma_init_locks(struct rdma_id_private *id)
{
	mutex_init(&id->handler_mutex);
	INIT_LIST_HEAD(&id->device_item);
	INIT_LIST_HEAD(&id->listen_item);
	INIT_LIST_HEAD(&id->id_list_entry);
	INIT_LIST_HEAD(&id->mc_list);
}

__rust_helper void rust_helper_cma_lock_nested(struct mutex *mutex)
{
	mutex_lock_nested(mutex, SINGLE_DEPTH_NESTING);
}

__rust_helper bool rust_helper_may_bind_service(void)
{
	return capable(CAP_NET_BIND_SERVICE);
}

__rust_helper bool rust_helper_net_bindv6only(const struct net *net)
{
#if IS_ENABLED(CONFIG_IPV6)
	return net->ipv6.sysctl.bindv6only;
#else
	return false;
#endif
}

__rust_helper void rust_helper_rdma_addr_set_sgid(struct rdma_dev_addr *addr, union ib_gid *gid)
{
	rdma_addr_set_sgid(addr, gid);
}

__rust_helper void rust_helper_rdma_addr_set_dgid(struct rdma_dev_addr *addr, union ib_gid *gid)
{
	rdma_addr_set_dgid(addr, gid);
}

__rust_helper void rust_helper_ib_addr_set_pkey(struct rdma_dev_addr *addr, u16 pkey)
{
	ib_addr_set_pkey(addr, pkey);
}

__rust_helper void rust_helper_ib_addr_get_mgid(struct rdma_dev_addr *addr, union ib_gid *gid)
{
	ib_addr_get_mgid(addr, gid);
}

/* These members begin a word of their own, which bindgen does not see. */
__rust_helper void rust_helper_cm_get_req_retries(const struct ib_cm_req_event_param *param,
						  u8 *rnr_retry_count, bool *srq)
{
	*rnr_retry_count = param->rnr_retry_count;
	*srq = param->srq;
}

static int rust_first_lower(struct net_device *lower, struct netdev_nested_priv *priv)
{
	*(struct net_device **)priv->data = lower;
	return 1;
}

/* The service level of a type of service: the traffic class that a device, or the first one below it, gives to the priority. */
__rust_helper int rust_helper_netdev_service_level(struct net_device *dev, int tos)
{
	int prio = rt_tos2priority(tos), level = 0;
	struct net_device *lower = NULL, *real;
	struct netdev_nested_priv priv = { .data = &lower };

	rcu_read_lock();
	if (!is_vlan_dev(dev))
		netdev_walk_all_lower_dev_rcu(dev, rust_first_lower, &priv);
	if (lower)
		dev = lower;
	real = is_vlan_dev(dev) ? vlan_dev_real_dev(dev) : dev;
	if (real->num_tc)
		level = netdev_get_prio_tc_map(real, prio);
	else if (real != dev)
		level = (vlan_dev_get_egress_qos_mask(dev, prio) & VLAN_PRIO_MASK) >> VLAN_PRIO_SHIFT;
	rcu_read_unlock();
	return level;
}

/* Whether packets to an address would leave by the device. */
__rust_helper bool rust_helper_netdev_routes4(struct net_device *dev, __be32 to, __be32 from)
{
	struct flowi4 flow = { .flowi4_oif = dev->ifindex, .daddr = to, .saddr = from };
	struct fib_result found;
	bool leaves;

	rcu_read_lock();
	leaves = !fib_lookup(dev_net_rcu(dev), &flow, &found, 0) && FIB_RES_DEV(found) == dev;
	rcu_read_unlock();
	return leaves;
}

__rust_helper bool rust_helper_netdev_routes6(struct net_device *dev, const struct in6_addr *to,
					      const struct in6_addr *from)
{
#if IS_ENABLED(CONFIG_IPV6)
	bool is_local = ipv6_addr_type(to) & IPV6_ADDR_LINKLOCAL, leaves = false;
	struct rt6_info *route;

	rcu_read_lock();
	route = rt6_lookup(dev_net_rcu(dev), to, from, dev->ifindex, NULL, is_local);
	if (route) {
		leaves = route->rt6i_idev->dev == dev;
		ip6_rt_put(route);
	}
	rcu_read_unlock();
	return leaves;
#else
	return false;
#endif
}

/* Joins a group of IPv4, or leaves it; whether the device has IPv4. */
__rust_helper bool rust_helper_netdev_igmp(struct net_device *dev, __be32 group, bool join)
{
	struct in_device *in_dev;

	rtnl_lock();
	in_dev = __in_dev_get_rtnl(dev);
	if (in_dev && join)
		ip_mc_inc_group(in_dev, group);
	else if (in_dev)
		ip_mc_dec_group(in_dev, group);
	rtnl_unlock();
	return in_dev;
}

/* What an event says of a neighbour: family, address, namespace and net device, hardware address. 0: it is no such event. */
__rust_helper int rust_helper_netevent_neighbour(unsigned long event, const void *of, void *address,
						 u64 *net, int *ifindex, void *hardware, u8 *hardware_len)
{
	const struct neighbour *neigh = of;

	if (event != NETEVENT_NEIGH_UPDATE)
		return 0;
	if (neigh->tbl->family != AF_INET && neigh->tbl->family != AF_INET6)
		return 0;
	memcpy(address, neigh->primary_key, neigh->tbl->family == AF_INET ? 4 : 16);
	*net = dev_net(neigh->dev)->net_cookie;
	*ifindex = neigh->dev->ifindex;
	*hardware_len = min_t(u8, neigh->dev->addr_len, MAX_ADDR_LEN);
	memcpy(hardware, neigh->ha, *hardware_len);
	return neigh->tbl->family;
}

/* The ports of a namespace that one is taken of which is not named. */
__rust_helper void rust_helper_net_port_range(const struct net *net, int *low, int *high)
{
	inet_get_local_port_range(net, low, high);
}
