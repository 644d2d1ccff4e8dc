// SPDX-License-Identifier: GPL-2.0

/* Addresses of devices, how devices stand on each other, and resolving addresses. */
#include <net/arp.h>
#include <net/bonding.h>
#include <net/neighbour.h>
#include <net/netevent.h>

__rust_helper bool rust_helper_netif_is_bond_slave(const struct net_device *dev)
{
	return netif_is_bond_slave(dev);
}

__rust_helper struct net_device *rust_helper_bond_active_port_rcu(const struct net_device *bond)
{
	return bond_option_active_slave_get_rcu(netdev_priv(bond));
}

/* Calls back with each IPv4 address of a device, in the order of the device's list. */
__rust_helper void rust_helper_netdev_walk_inet(struct net_device *dev,
						void (*found)(void *to, const void *address),
						void *to)
{
	const struct in_ifaddr *ifa;
	struct in_device *in_dev;

	rcu_read_lock();
	in_dev = __in_dev_get_rcu(dev);
	if (in_dev) {
		in_dev_for_each_ifa_rcu(ifa, in_dev)
			found(to, &ifa->ifa_address);
	}
	rcu_read_unlock();
}

/* The same for IPv6. */
__rust_helper void rust_helper_netdev_walk_inet6(struct net_device *dev,
						 void (*found)(void *to, const void *address),
						 void *to)
{
	struct inet6_dev *in6_dev = in6_dev_get(dev);
	struct inet6_ifaddr *ifa;

	if (!in6_dev)
		return;
	read_lock_bh(&in6_dev->lock);
	list_for_each_entry(ifa, &in6_dev->addr_list, if_list)
		found(to, &ifa->addr);
	read_unlock_bh(&in6_dev->lock);
	in6_dev_put(in6_dev);
}

/* Calls back with each device of each namespace. Devices neither come, go nor move meanwhile. */
__rust_helper void rust_helper_netdev_walk_all(void (*found)(void *to, struct net_device *dev),
					       void *to)
{
	struct net_device *dev;
	struct net *net;

	rtnl_lock();
	down_read(&net_rwsem);
	for_each_net(net)
		for_each_netdev(net, dev)
			found(to, dev);
	up_read(&net_rwsem);
	rtnl_unlock();
}

/* The VLAN's number if the device right below the given one is a VLAN. */
static int rust_lower_vlan(struct net_device *lower, struct netdev_nested_priv *priv)
{
	if (is_vlan_dev(lower))
		*(int *)priv->data = vlan_dev_vlan_id(lower);
	return 1;
}

__rust_helper int rust_helper_netdev_lower_vlan_id_rcu(struct net_device *dev)
{
	int id = -1;
	struct netdev_nested_priv priv = { .data = &id };

	netdev_walk_all_lower_dev_rcu(dev, rust_lower_vlan, &priv);
	return id;
}

__rust_helper bool
rust_helper_netdev_changeupper_linking(const struct netdev_notifier_changeupper_info *info)
{
	return info->linking;
}

__rust_helper struct net_device *
rust_helper_netdev_changeupper_dev(const struct netdev_notifier_changeupper_info *info)
{
	return info->upper_dev;
}

/* The device of a namespace that has an address as its own. */
__rust_helper struct net_device *rust_helper_netdev_of_inet_rcu(struct net *net, __be32 address)
{
	return __ip_dev_find(net, address, false);
}

__rust_helper struct net_device *rust_helper_netdev_of_inet6_rcu(struct net *net,
								 const struct in6_addr *address)
{
	struct net_device *dev;

	for_each_netdev_rcu(net, dev)
		if (ipv6_chk_addr(net, address, dev, 1))
			return dev;
	return NULL;
}

/*
 * A route for packets of any protocol, with a reference, or an ERR_PTR. The source, where it is not given, becomes the
 * one that was chosen.
 */
__rust_helper struct dst_entry *rust_helper_any_route4(struct net *net, int oif, __be32 *saddr,
						       __be32 daddr)
{
	struct flowi4 fl4 = {
		.flowi4_oif = oif,
		.saddr = *saddr,
		.daddr = daddr,
	};
	struct rtable *rt = ip_route_output_key(net, &fl4);

	if (IS_ERR(rt))
		return ERR_CAST(rt);
	*saddr = fl4.saddr;
	return &rt->dst;
}

__rust_helper struct dst_entry *rust_helper_any_route6(struct net *net, int oif, void *source,
						       const void *destination)
{
	struct in6_addr *saddr = source;
	struct flowi6 fl6 = {
		.flowi6_oif = oif,
		.saddr = *saddr,
		.daddr = *(const struct in6_addr *)destination,
	};
	struct dst_entry *dst = ip6_dst_lookup_flow(net, NULL, &fl6, NULL);

	if (!IS_ERR(dst) && ipv6_addr_any(saddr))
		*saddr = fl6.saddr;
	return dst;
}

__rust_helper int rust_helper_dst_hop_limit(const struct dst_entry *dst)
{
	if (dst->ops->family == AF_INET6)
		return ip6_dst_hoplimit((struct dst_entry *)dst);
	return ip4_dst_hoplimit(dst);
}

/* Whether the destination is this machine. */
__rust_helper bool rust_helper_dst_is_local(const struct dst_entry *dst)
{
	if (dst->ops->family == AF_INET6)
		return dst_rt6_info(dst)->rt6i_flags & RTF_LOCAL;
	return dst_rtable(dst)->rt_type == RTN_LOCAL;
}

__rust_helper bool rust_helper_dst_has_gateway(const struct dst_entry *dst)
{
	if (dst->ops->family == AF_INET6)
		return dst_rt6_info(dst)->rt6i_flags & RTF_GATEWAY;
	return dst_rtable(dst)->rt_uses_gateway;
}

/*
 * The hardware address of the next hop to a destination, MAX_ADDR_LEN bytes. -ENODATA where it is not known yet: then it
 * is being asked for.
 */
__rust_helper int rust_helper_dst_next_hop_address(const struct dst_entry *dst, const void *daddr,
						   u8 *address)
{
	struct neighbour *n = dst_neigh_lookup(dst, daddr);
	bool known;

	if (!n)
		return -ENODATA;
	read_lock_bh(&n->lock);
	known = n->nud_state & NUD_VALID;
	if (known)
		neigh_ha_snapshot(address, n, n->dev);
	read_unlock_bh(&n->lock);
	if (!known)
		neigh_event_send(n, NULL);
	neigh_release(n);
	return known ? 0 : -ENODATA;
}

__rust_helper int rust_helper_netevent_register(struct notifier_block *block)
{
	return register_netevent_notifier(block);
}

__rust_helper int rust_helper_netevent_unregister(struct notifier_block *block)
{
	return unregister_netevent_notifier(block);
}

/* Whether an event says that the hardware address of a neighbour is known now. */
__rust_helper bool rust_helper_netevent_is_neigh_valid(unsigned long event, const void *of)
{
	const struct neighbour *n = of;

	return event == NETEVENT_NEIGH_UPDATE && n->nud_state & NUD_VALID;
}
