// SPDX-License-Identifier: GPL-2.0

/* For the crate rdma_uverbs: the character device of a device, and the mappings of its files. */

/* The members of a zeroed structure that are no links to others. */
__rust_helper void rust_helper_ib_uverbs_device_init_members(struct ib_uverbs_device *device)
{
	refcount_set(&device->refcount, 1);
	init_completion(&device->comp);
	device->xrcd_tree = RB_ROOT;
	mutex_init(&device->xrcd_tree_mutex);
	mutex_init(&device->lists_mutex);
	INIT_LIST_HEAD(&device->uverbs_file_list);
}

__rust_helper struct net *rust_helper_current_net(void)
{
	return current->nsproxy->net_ns;
}

__rust_helper bool rust_helper_ib_safe_file_access(struct file *file)
{
	return ib_safe_file_access(file);
}

__rust_helper struct page *rust_helper_zero_page(unsigned long address)
{
	return ZERO_PAGE(address);
}

__rust_helper void rust_helper_get_page(struct page *page)
{
	get_page(page);
}

__rust_helper bool rust_helper_refcount_inc_not_zero(refcount_t *count)
{
	return refcount_inc_not_zero(count);
}
