// SPDX-License-Identifier: GPL-2.0
#include <linux/cc_platform.h>
#include <linux/ethtool.h>

/* For the core: what headers make of a device by macros and inline functions. */

/* This machine is a guest whose memory its host, and so devices, cannot read. */
__rust_helper bool rust_helper_rdma_memory_is_encrypted(void)
{
	return cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT);
}

/* The members of a zeroed device that inline functions and drivers use. */
__rust_helper void rust_helper_ib_device_init_members(struct ib_device *device, struct net *net)
{
	int pool;

	device->coredev.owner = device;
	INIT_LIST_HEAD(&device->coredev.port_list);
	write_pnet(&device->coredev.rdma_net, net);
	INIT_LIST_HEAD(&device->event_handler_list);
	init_rwsem(&device->event_handler_rwsem);
	spin_lock_init(&device->qp_open_list_lock);
	init_rwsem(&device->client_data_rwsem);
	xa_init_flags(&device->client_data, XA_FLAGS_ALLOC);
	mutex_init(&device->unregistration_lock);
	rwlock_init(&device->cache_lock);
	spin_lock_init(&device->cq_pools_lock);
	for (pool = 0; pool < ARRAY_SIZE(device->cq_pools); pool++)
		INIT_LIST_HEAD(&device->cq_pools[pool]);
	init_completion(&device->unreg_completion);
	mutex_init(&device->compat_devs_mutex);
	xa_init_flags(&device->compat_devs, XA_FLAGS_ALLOC);
	mutex_init(&device->subdev_lock);
	INIT_LIST_HEAD(&device->subdev_list_head);
	INIT_LIST_HEAD(&device->subdev_list);
}

__rust_helper void rust_helper_ib_port_data_init_members(struct ib_port_data *port,
							 struct ib_device *device)
{
	port->ib_dev = device;
	spin_lock_init(&port->pkey_list_lock);
	spin_lock_init(&port->netdev_lock);
	INIT_LIST_HEAD(&port->pkey_list);
	INIT_HLIST_NODE(&port->ndev_hash_link);
}

__rust_helper void rust_helper_ib_core_device_set_net(struct ib_core_device *device, struct net *net)
{
	write_pnet(&device->rdma_net, net);
}

/* The namespace of a device, for sysfs. */
__rust_helper const struct ns_common *rust_helper_ib_core_device_ns(const struct device *device)
{
	struct net *net = read_pnet(&container_of(device, struct ib_core_device, dev)->rdma_net);

	return net ? to_ns_common(net) : NULL;
}

__rust_helper void rust_helper_dev_set_uevent_suppress(struct device *device, int suppress)
{
	dev_set_uevent_suppress(device, suppress);
}

/* Remembers a port's state; whether it was another one before. */
__rust_helper bool rust_helper_ib_port_state_changed(struct ib_device *device, u32 port,
						     enum ib_port_state state)
{
	enum ib_port_state last;

	write_lock_irq(&device->cache_lock);
	last = device->port_data[port].cache.last_port_state;
	device->port_data[port].cache.last_port_state = state;
	write_unlock_irq(&device->cache_lock);
	return last != state;
}

/* Whether a net device has an IPv4 address. */
__rust_helper bool rust_helper_netdev_has_ipv4(const struct net_device *ndev)
{
	const struct in_device *in_dev;
	bool has;

	rcu_read_lock();
	in_dev = __in_dev_get_rcu(ndev);
	has = in_dev && rcu_access_pointer(in_dev->ifa_list);
	rcu_read_unlock();
	return has;
}

__rust_helper struct net *rust_helper_sock_net_of(const struct sk_buff *skb)
{
	return sock_net(skb->sk);
}

__rust_helper bool rust_helper_net_raw_capable(const struct net *net)
{
	return ns_capable(net->user_ns, CAP_NET_RAW);
}

__rust_helper bool rust_helper_netdev_is_lag(const struct net_device *ndev)
{
	return netif_is_lag_master(ndev) || netif_is_lag_port(ndev);
}

__rust_helper int rust_helper_xa_reserve_entry(struct xarray *xa, unsigned long index, gfp_t gfp)
{
	return xa_reserve(xa, index, gfp);
}

/* -ENODEV where the device goes; other errors where it cannot be asked. */
__rust_helper int rust_helper_netdev_speed(struct net_device *ndev, u32 *speed, u32 *lanes)
{
	struct ethtool_link_ksettings settings = {};
	int ret = -ENODEV;

	rtnl_lock();
	if (READ_ONCE(ndev->reg_state) == NETREG_REGISTERED) {
		ret = __ethtool_get_link_ksettings(ndev, &settings);
		if (ret == -ENODEV)
			ret = -EOPNOTSUPP;
	}
	rtnl_unlock();
	*speed = settings.base.speed;
	*lanes = settings.lanes;
	return ret;
}

/* The "addresses" of a device that the CPU does the DMA for are the kernel's. */
__rust_helper void rust_helper_ib_dma_map_sg_to_virtual(struct scatterlist *sg, int nents)
{
	struct scatterlist *s;
	int i;

	for_each_sg(sg, s, nents, i) {
		sg_dma_address(s) = (uintptr_t)sg_virt(s);
		sg_dma_len(s) = s->length;
	}
}

/* The number of a device for the rdma cgroup controller, where that has one. */
__rust_helper void rust_helper_rdma_cgroup_set_index(struct ib_device *device)
{
#ifdef HAS_CGROUP_INDEX
	device->cg_device.index = device->index;
#endif
}
