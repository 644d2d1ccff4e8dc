// SPDX-License-Identifier: GPL-2.0
#include <linux/anon_inodes.h>

/* For the crate rdma_uverbs: what headers make of files and objects of user space. */

/* The members of a zeroed file but for its device; one reference is the caller's. */
__rust_helper void rust_helper_ib_uverbs_file_init_members(struct ib_uverbs_file *file)
{
	kref_init(&file->ref);
	mutex_init(&file->ucontext_lock);
	INIT_LIST_HEAD(&file->list);
	init_rwsem(&file->hw_destroy_rwsem);
	spin_lock_init(&file->uobjects_lock);
	INIT_LIST_HEAD(&file->uobjects);
	mutex_init(&file->umap_lock);
	INIT_LIST_HEAD(&file->umaps);
}

__rust_helper void rust_helper_ib_uobject_free_rcu(struct ib_uobject *uobject)
{
	kfree_rcu(uobject, rcu);
}

/* The file of a new object that is known by a file descriptor. */
__rust_helper struct file *rust_helper_uverbs_fd_type_file(const struct uverbs_obj_fd_type *type)
{
	return anon_inode_getfile(type->name, type->fops, NULL, type->flags);
}

/* The number of a new entry that reads as NULL. */
__rust_helper int rust_helper_xa_alloc_reserved(struct xarray *xa, u32 *id, gfp_t gfp)
{
	return xa_alloc(xa, id, NULL, xa_limit_32b, gfp);
}

/* Reserves the place of an entry again; false if there was another one. */
__rust_helper bool rust_helper_xa_reserve_again(struct xarray *xa, unsigned long index, void *entry,
						gfp_t gfp)
{
	return xa_cmpxchg(xa, index, entry, XA_ZERO_ENTRY, gfp) == entry;
}

__rust_helper u32 rust_helper_uapi_key_obj(u32 id)
{
	return uapi_key_obj(id);
}

__rust_helper void rust_helper_uverbs_free_page(struct page *page)
{
	__free_pages(page, 0);
}
