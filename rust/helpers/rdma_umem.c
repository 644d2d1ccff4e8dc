// SPDX-License-Identifier: GPL-2.0
/* For the core: inline functions for memory of user space, and for what user space sends along. */
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

/* Pinned memory. */
__rust_helper unsigned long rust_helper_rdma_memlock_limit(void)
{
	return rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
}

__rust_helper u64 rust_helper_mm_add_pinned(struct mm_struct *mm, u64 pages)
{
	return atomic64_add_return(pages, &mm->pinned_vm);
}

__rust_helper void rust_helper_mm_sub_pinned(struct mm_struct *mm, u64 pages)
{
	atomic64_sub(pages, &mm->pinned_vm);
}

__rust_helper struct page *rust_helper_rdma_sg_page(struct scatterlist *sg)
{
	return sg_page(sg);
}

__rust_helper unsigned int rust_helper_ib_dma_max_seg_size(struct ib_device *device)
{
	return ib_dma_max_seg_size(device);
}

__rust_helper int rust_helper_ib_umem_map_dma(struct ib_umem *umem)
{
	return ib_dma_map_sgtable_attrs(umem->ibdev, &umem->sgt_append.sgt, DMA_BIDIRECTIONAL,
					umem->dma_attrs);
}

__rust_helper void rust_helper_ib_umem_unmap_dma(struct ib_umem *umem)
{
	ib_dma_unmap_sgtable_attrs(umem->ibdev, &umem->sgt_append.sgt, DMA_BIDIRECTIONAL,
				   umem->dma_attrs);
}

__rust_helper void rust_helper_rdma_cond_resched(void)
{
	cond_resched();
}

/* On demand paging. */
__rust_helper void rust_helper_ib_umem_odp_init_lock(struct ib_umem_odp *odp)
{
	mutex_init(&odp->umem_mutex);
}

__rust_helper bool rust_helper_mmu_interval_read_retry(struct mmu_interval_notifier *notifier,
						       unsigned long seq)
{
	return mmu_interval_read_retry(notifier, seq);
}

__rust_helper void rust_helper_hmm_pfn_set_dirty(unsigned long pfn)
{
	set_page_dirty(compound_head(hmm_pfn_to_page(pfn)));
}

__rust_helper struct pid *rust_helper_get_pid(struct pid *pid)
{
	return get_pid(pid);
}

__rust_helper unsigned int rust_helper_rdma_huge_page_shift(void)
{
#ifdef CONFIG_HUGETLB_PAGE
	return HPAGE_SHIFT;
#else
	return PAGE_SHIFT;
#endif
}

__rust_helper unsigned long rust_helper_hmm_range_timeout(void)
{
	return msecs_to_jiffies(HMM_RANGE_DEFAULT_TIMEOUT);
}

/* Attributes and data of commands. */
__rust_helper const struct uverbs_attr *
rust_helper_uverbs_attr_get(const struct uverbs_attr_bundle *bundle, u16 id)
{
	return uverbs_attr_get(bundle, id);
}

__rust_helper int rust_helper__uverbs_copy_from(void *to, const struct uverbs_attr_bundle *bundle,
						size_t id, size_t size)
{
	return _uverbs_copy_from(to, bundle, id, size);
}

__rust_helper u32 rust_helper_uverbs_attr_index(u16 id)
{
	return uapi_bkey_attr(uapi_key_attr(id));
}

__rust_helper int rust_helper_copy_struct_from_user(void *to, size_t room, const void __user *from,
						    size_t len)
{
	return copy_struct_from_user(to, room, from, len);
}

__rust_helper unsigned long rust_helper_clear_user(void __user *to, unsigned long len)
{
	return clear_user(to, len);
}

/* Memory that user space maps. */
__rust_helper void rust_helper_rdma_user_mmap_entry_init(struct rdma_user_mmap_entry *entry)
{
	kref_init(&entry->ref);
	INIT_LIST_HEAD(&entry->dmabufs);
	mutex_init(&entry->dmabufs_lock);
}

__rust_helper bool rust_helper_kref_get_unless_zero(struct kref *kref)
{
	return kref_get_unless_zero(kref);
}

__rust_helper int rust_helper_io_remap_pfn_range(struct vm_area_struct *vma, unsigned long addr,
						 unsigned long pfn, unsigned long size, pgprot_t prot)
{
	return io_remap_pfn_range(vma, addr, pfn, size, prot);
}
