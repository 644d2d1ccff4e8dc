// SPDX-License-Identifier: GPL-2.0
/*
 * Inline functions and macros of the C interface, as functions for Rust: one small file for each subject. A function
 * `rust_helper_NAME` is `NAME` in the crate rdma_bindings. What the kernel's own helpers (rust/helpers/ there) have is
 * not repeated here, but for slab.c; vmlinux exports it.
 *
 * Sorted alphabetically.
 */
#include "../bindings/bindings_helper.h"

#define __rust_helper

#include "address.c"
#include "config.c"
#include "crc32.c"
#include "fasync.c"
#include "hrtimer.c"
#include "irqflags.c"
#include "mad.c"
#include "mm.c"
#include "net_namespace.c"
#include "netdevice.c"
#include "netlink.c"
#include "rdma.c"
#include "rdma_client.c"
#include "rdma_cm.c"
#include "rdma_cma.c"
#include "rdma_counters.c"
#include "rdma_device.c"
#include "rdma_umem.c"
#include "rdma_user.c"
#include "rdma_verbs.c"
#include "route.c"
#include "skbuff.c"
#include "slab.c"
#include "softirq.c"
#include "spinlock.c"
#include "srcu.c"
#include "sysfs.c"
#include "udp_tunnel.c"
#include "uverbs.c"
#include "uverbs_objects.c"
#include "uverbs_node.c"
#include "workqueue.c"
#include "xarray.c"
