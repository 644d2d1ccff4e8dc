// SPDX-License-Identifier: GPL-2.0
/* For the core's verbs: locks, lists and work items in the objects that it allocates. */
#include <rdma/lag.h>

/* The members of a zeroed queue pair that are not zero. */
__rust_helper void rust_helper_ib_qp_init_members(struct ib_qp *qp)
{
	spin_lock_init(&qp->mr_lock);
	INIT_LIST_HEAD(&qp->rdma_mrs);
	INIT_LIST_HEAD(&qp->sig_mrs);
	INIT_LIST_HEAD(&qp->open_list);
	init_completion(&qp->srq_completion);
}

__rust_helper void rust_helper_ib_work_init(struct work_struct *work, work_func_t function)
{
	INIT_WORK(work, function);
}

/* Frees an object after the RCU readers that may have it. Its first two words are used for that. */
__rust_helper void rust_helper_rdma_object_free_rcu(void *object)
{
	struct {
		struct rcu_head rcu;
	} *dead = object;

	kfree_rcu(dead, rcu);
}

/* The members of a zeroed XRC domain that are not zero. */
__rust_helper void rust_helper_ib_xrcd_init_members(struct ib_xrcd *xrcd)
{
	init_rwsem(&xrcd->tgt_qps_rwsem);
	xa_init(&xrcd->tgt_qps);
}

__rust_helper bool rust_helper_ib_xrcd_is_empty(struct ib_xrcd *xrcd)
{
	return xa_empty(&xrcd->tgt_qps);
}

__rust_helper struct ib_qp *rust_helper_ib_xrcd_target(struct ib_xrcd *xrcd, u32 qp_num)
{
	return xa_load(&xrcd->tgt_qps, qp_num);
}

__rust_helper int rust_helper_ib_xrcd_publish(struct ib_xrcd *xrcd, struct ib_qp *qp)
{
	return xa_err(xa_store(&xrcd->tgt_qps, qp->qp_num, qp, GFP_KERNEL));
}

__rust_helper void rust_helper_ib_xrcd_erase(struct ib_xrcd *xrcd, u32 qp_num)
{
	xa_erase(&xrcd->tgt_qps, qp_num);
}

__rust_helper struct ib_udata *rust_helper_rdma_driver_udata(struct uverbs_attr_bundle *attrs)
{
	return &attrs->driver_udata;
}

__rust_helper unsigned int rust_helper_num_online_cpus(void)
{
	return num_online_cpus();
}

/* The device of a bond that a packet would leave through, referenced. */
__rust_helper struct net_device *rust_helper_rdma_slave_of_bond(struct ib_device *device,
								struct net_device *bond,
								struct sk_buff *skb)
{
	bool all_slaves = device->lag_flags & RDMA_LAG_FLAGS_HASH_ALL_SLAVES;
	struct net_device *slave;
	bool is_ipv4;

	if (!pskb_may_pull(skb, ETH_HLEN + sizeof(struct iphdr) + sizeof(struct udphdr)))
		return NULL;
	skb->dev = bond;
	skb_reset_mac_header(skb);
	skb->protocol = eth_hdr(skb)->h_proto;
	is_ipv4 = skb->protocol == htons(ETH_P_IP);
	skb_set_network_header(skb, ETH_HLEN);
	skb_set_transport_header(skb, ETH_HLEN + (is_ipv4 ? sizeof(struct iphdr) :
						  sizeof(struct ipv6hdr)));
	rcu_read_lock();
	slave = netdev_get_xmit_slave(bond, skb, all_slaves);
	dev_hold(slave);
	rcu_read_unlock();
	return slave;
}

/* Mapping for DMA: devices that the CPU stands in for have virtual addresses. */
__rust_helper int rust_helper_ib_dma_map_sgtable(struct ib_device *device, struct sg_table *table,
						 enum dma_data_direction direction)
{
	return ib_dma_map_sgtable_attrs(device, table, direction, 0);
}

__rust_helper void rust_helper_ib_dma_unmap_sgtable(struct ib_device *device,
						    struct sg_table *table,
						    enum dma_data_direction direction)
{
	ib_dma_unmap_sgtable_attrs(device, table, direction, 0);
}

/* The next piece of an array of pages; false at its end. */
__rust_helper bool rust_helper_rdma_bvec_next(const struct bio_vec *bvecs, struct bvec_iter *iter,
					      struct bio_vec *piece)
{
	if (!iter->bi_size)
		return false;
	*piece = mp_bvec_iter_bvec(bvecs, *iter);
	return bvec_iter_advance(bvecs, iter, piece->bv_len);
}

__rust_helper phys_addr_t rust_helper_rdma_bvec_phys(const struct bio_vec *piece)
{
	return bvec_phys(piece);
}

/* Maps a piece; false if that fails. */
__rust_helper bool rust_helper_rdma_bvec_map(struct ib_device *device, struct bio_vec *piece,
					     enum dma_data_direction direction, u64 *address)
{
	*address = ib_dma_map_bvec(device, piece, direction);
	return !ib_dma_mapping_error(device, *address);
}

__rust_helper void rust_helper_rdma_bvec_unmap(struct ib_device *device, u64 address, size_t size,
					       enum dma_data_direction direction)
{
	ib_dma_unmap_bvec(device, address, size, direction);
}

__rust_helper void rust_helper_rdma_sg_set(struct scatterlist *sg, const struct bio_vec *piece)
{
	sg_set_page(sg, piece->bv_page, piece->bv_len, piece->bv_offset);
}

__rust_helper void rust_helper_rdma_sg_end(struct scatterlist *sg)
{
	sg_mark_end(sg);
}
