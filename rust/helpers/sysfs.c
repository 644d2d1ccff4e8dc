// SPDX-License-Identifier: GPL-2.0
#include <linux/jiffies.h>
#include <linux/mutex.h>

/* For the core: counters of the hardware, whose lock and times are what macros make of them. */

__rust_helper void rust_helper_rdma_hw_stats_init_lock(struct rdma_hw_stats *stats)
{
	mutex_init(&stats->lock);
}

/* Whether the values are younger than their lifespan. The lock is held. */
__rust_helper bool rust_helper_rdma_hw_stats_fresh(const struct rdma_hw_stats *stats)
{
	return time_is_after_eq_jiffies(stats->timestamp + stats->lifespan);
}

/* The values were brought up to date just now. The lock is held. */
__rust_helper void rust_helper_rdma_hw_stats_touch(struct rdma_hw_stats *stats)
{
	stats->timestamp = jiffies;
}

/* How long the values are good, in milliseconds. The lock is held. */
__rust_helper unsigned int rust_helper_rdma_hw_stats_lifespan(const struct rdma_hw_stats *stats)
{
	return jiffies_to_msecs(stats->lifespan);
}

/* The class of the locks of a file whose attribute is no static. */
__rust_helper void rust_helper_sysfs_attr_init(struct attribute *attr)
{
	sysfs_attr_init(attr);
}
