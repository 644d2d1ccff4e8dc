// SPDX-License-Identifier: GPL-2.0
#include <linux/sched.h>
#include <rdma/rdma_counter.h>

/* For the core: counters that queue pairs are bound to. */

/* The members of a zeroed counter that drivers use. */
__rust_helper void rust_helper_rdma_counter_init_members(struct rdma_counter *counter)
{
	kref_init(&counter->kref);
	mutex_init(&counter->lock);
}

/* The number that the process of an object has in the whole machine, ended or not; 0 for none. */
__rust_helper u32 rust_helper_restrack_task_nr(const struct rdma_restrack_entry *entry)
{
	return entry->task ? task_pid_nr(entry->task) : 0;
}

__rust_helper int rust_helper_ib_check_mr_access(struct ib_device *device, unsigned int flags)
{
	return ib_check_mr_access(device, flags);
}
