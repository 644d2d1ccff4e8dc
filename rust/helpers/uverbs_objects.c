// SPDX-License-Identifier: GPL-2.0
/* For the objects of ib_uverbs. */
#include <linux/cpumask.h>
#include <linux/sched.h>

/* Whether a CPU is one, and the present process may run on it: 0, -EINVAL, -EPERM. */
__rust_helper int rust_helper_uverbs_cpu_allowed(u32 cpu)
{
	if (cpu >= nr_cpu_ids)
		return -EINVAL;
	return cpumask_test_cpu(cpu, current->cpus_ptr) ? 0 : -EPERM;
}

/* The members of a zeroed file that are not zero. */
__rust_helper void rust_helper_uverbs_dmabuf_init_members(struct ib_uverbs_dmabuf_file *file)
{
	kref_init(&file->kref);
	init_completion(&file->comp);
	INIT_LIST_HEAD(&file->dmabufs_elm);
#ifdef HAS_DMABUF_RELEASE_LOCK
	mutex_init(&file->dmabuf_release_lock);
#endif
}

/* Keeps the buffer of a file from being released, where there is a lock for that. It is NULL if it was released. */
__rust_helper struct dma_buf *rust_helper_uverbs_dmabuf_hold(struct ib_uverbs_dmabuf_file *file)
{
#ifdef HAS_DMABUF_RELEASE_LOCK
	mutex_lock(&file->dmabuf_release_lock);
#endif
	return file->dmabuf;
}

__rust_helper void rust_helper_uverbs_dmabuf_let_go(struct ib_uverbs_dmabuf_file *file)
{
#ifdef HAS_DMABUF_RELEASE_LOCK
	mutex_unlock(&file->dmabuf_release_lock);
#endif
}

/* The buffer is released. */
__rust_helper void rust_helper_uverbs_dmabuf_released(struct ib_uverbs_dmabuf_file *file)
{
#ifdef HAS_DMABUF_RELEASE_LOCK
	mutex_lock(&file->dmabuf_release_lock);
	file->dmabuf = NULL;
	mutex_unlock(&file->dmabuf_release_lock);
#endif
}
