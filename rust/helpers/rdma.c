// SPDX-License-Identifier: GPL-2.0
/* For the crate rdma: inline functions of <rdma/...>. */
#include <linux/hmm.h>

__rust_helper struct ib_ucontext *rust_helper_rdma_udata_to_ucontext(struct ib_udata *udata)
{
	return rdma_udata_to_uverbs_attr_bundle(udata)->context;
}

__rust_helper struct ib_device *rust_helper_rdma_device_to_ibdev(struct device *device)
{
	return rdma_device_to_ibdev(device);
}

__rust_helper bool rust_helper_ib_device_try_get(struct ib_device *device)
{
	return ib_device_try_get(device);
}

__rust_helper enum ib_port_state rust_helper_ib_get_curr_port_state(struct net_device *ndev)
{
	return ib_get_curr_port_state(ndev);
}

__rust_helper struct ib_umem *rust_helper_ib_umem_get_va(struct ib_device *device,
							 unsigned long addr, size_t size,
							 int access)
{
	return ib_umem_get_va(device, addr, size, access);
}

__rust_helper bool rust_helper_ib_umem_writable(const struct ib_umem *umem)
{
	return umem->writable;
}

/* The addresses of a region's pages in the kernel's direct map; how many there are. */
__rust_helper size_t rust_helper_ib_umem_page_addresses(struct ib_umem *umem, void **addresses,
							size_t room)
{
	struct sg_page_iter iter;
	size_t count = 0;

	for_each_sgtable_page(&umem->sgt_append.sgt, &iter, 0) {
		if (count == room)
			break;
		addresses[count++] = page_address(sg_page_iter_page(&iter));
	}
	return count;
}

/* Whether all of a region is persistent memory, of which the caches of the processors are written back. */
__rust_helper bool rust_helper_ib_umem_is_persistent(struct ib_umem *umem)
{
	struct scatterlist *sg;
	unsigned int i;

	for_each_sgtable_sg(&umem->sgt_append.sgt, sg, i) {
		if (region_intersects(page_to_phys(sg_page(sg)), PAGE_ALIGN(sg->offset + sg->length),
				      IORESOURCE_MEM, IORES_DESC_PERSISTENT_MEMORY) != REGION_INTERSECTS)
			return false;
	}
	return true;
}

__rust_helper void rust_helper_rdma_wb_cache_pmem(void *address, size_t len)
{
	arch_wb_cache_pmem(address, len);
}

__rust_helper struct page *rust_helper_rdma_virt_to_page(const void *address)
{
	return virt_to_page(address);
}

/* An ODP region is locked from ib_umem_odp_map_dma_and_lock() on. */
__rust_helper void rust_helper_ib_umem_odp_lock(struct ib_umem_odp *odp)
{
	mutex_lock(&odp->umem_mutex);
}

__rust_helper void rust_helper_ib_umem_odp_unlock(struct ib_umem_odp *odp)
{
	mutex_unlock(&odp->umem_mutex);
}

__rust_helper u64 rust_helper_ib_umem_odp_write_access(void)
{
	return HMM_PFN_WRITE;
}

/* The address of a page that is there, and may be written to if that is asked for; else NULL. */
__rust_helper void *rust_helper_ib_umem_odp_page_address(struct ib_umem_odp *odp, size_t index,
							 bool write)
{
	unsigned long wanted = HMM_PFN_VALID | (write ? HMM_PFN_WRITE : 0);
	unsigned long pfn;

	if (index >= ib_umem_odp_num_pages(odp))
		return NULL;
	pfn = odp->map.pfn_list[index];
	return (pfn & wanted) == wanted ? page_address(hmm_pfn_to_page(pfn)) : NULL;
}

/* Marks a page as written to. As the core does, without its lock. */
__rust_helper void rust_helper_rdma_set_page_dirty(void *address)
{
	set_page_dirty(compound_head(virt_to_page(address)));
}
