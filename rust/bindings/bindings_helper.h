/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The headers that bindgen reads for the crate rdma_bindings; the C helpers include it too. What Rust gets of them is
 * said in rust/bindgen_parameters.
 *
 * Sorted alphabetically.
 */
#include <linux/cc_platform.h>
#include <linux/cdev.h>
#include <linux/cgroup_rdma.h>
#include <linux/completion.h>
#include <linux/crc32.h>
#include <linux/dim.h>
#include <linux/dma-buf-mapping.h>
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/highmem.h>
#include <linux/hmm.h>
#include <linux/hrtimer.h>
#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/ioport.h>
#include <linux/irq_poll.h>
#include <linux/libnvdimm.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <linux/pagemap.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/rtnetlink.h>
#include <linux/sched/mm.h>
#include <linux/security.h>
#include <linux/skbuff.h>
#include <linux/skbuff_ref.h>
#include <linux/sysctl.h>
#include <linux/uaccess.h>
#include <linux/udp.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/addrconf.h>
#include <net/dst.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/netlink.h>
#include <net/netns/generic.h>
#include <net/route.h>
#include <net/sock.h>
#include <net/udp_tunnel.h>
#include <net/xfrm.h>
#include <rdma/ib.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_hdrs.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_marshall.h>
#include <rdma/ib_pack.h>
#include <rdma/ib_sa.h>
#include <rdma/ib_sysfs.h>
#include <rdma/ib_ucaps.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>
#include <rdma/ib_verbs.h>
#include <rdma/iter.h>
#include <rdma/iw_cm.h>
#include <rdma/iw_portmap.h>
#include <rdma/lag.h>
#include <rdma/mr_pool.h>
#include <rdma/rdma_cm.h>
#include <rdma/rdma_cm_ib.h>
#include <rdma/rdma_counter.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>
#include <rdma/rw.h>
#include <rdma/signature.h>
#include <rdma/uverbs_ioctl.h>
/* The header of the names wants the name of a module, and gives it to what Rust does not use. */
#define UVERBS_MODULE_NAME rdma_bindings
#include <rdma/uverbs_named_ioctl.h>
#include <rdma/uverbs_std_types.h>
#include <rdma/uverbs_types.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/rdma_user_rxe.h>

#include "core_private.h"

/* What a declaration in the headers has for a type, which is another one since 7.3. */
typedef typeof(rdma_restrack_count(NULL, RDMA_RESTRACK_PD, false)) rdma_restrack_count_t;
