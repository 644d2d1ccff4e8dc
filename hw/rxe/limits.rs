// SPDX-License-Identifier: GPL-2.0

//! Limits of a device, as reported by `ibv_query_device` (`struct ib_device_attr`) and enforced by the verbs.
//!
//! They equal those of the C driver where it has the feature, because applications depend on them.

use kernel_ext::bindings;
use kernel_ext::compat::limit::limit;
use rdma::abi::device::{cap, DeviceAttr};

/// Size of the fixed part of a send WQE: `struct rxe_send_wqe`.
pub(crate) const SEND_WQE: usize = size_of::<kernel_ext::bindings::rxe_send_wqe>();

/// Size of the fixed part of a receive WQE: `struct rxe_recv_wqe`.
pub(crate) const RECV_WQE: usize = size_of::<kernel_ext::bindings::rxe_recv_wqe>();

/// Size of a scatter/gather element in a WQE: `struct rxe_sge`.
pub(crate) const SGE: usize = size_of::<kernel_ext::bindings::rxe_sge>();

/// Scatter/gather elements of a work request.
pub(crate) const MAX_SGE: u32 = 32;

/// Bytes of inline data: the size of a full scatter/gather list.
pub(crate) const MAX_INLINE: u32 = MAX_SGE * SGE as u32;

/// Work requests in a queue.
pub(crate) const MAX_QP_WR: u32 = 1 << 20;

/// Bytes of a message (IBTA vol. 1, 9.7.2).
pub(crate) const MAX_MESSAGE: u32 = 1 << 31;

/// Entries of a CQ.
pub(crate) const MAX_CQE: u32 = (1 << 15) - 1;

/// CQs of a device.
pub(crate) const MAX_CQ: u32 = 1 << 20;

/// Protection domains of a device.
pub(crate) const MAX_PD: u32 = 1 << 20;

/// QP numbers; 0 and 1 are QP0 and QP1, those up to 16 are unused.
pub(crate) const QP_NUMBERS: core::ops::RangeInclusive<u32> = 17..=(1 << 20);

/// QPs of a device, as reported by the C driver.
pub(crate) const MAX_QP: u32 = (1 << 20) - 16;

/// SRQ numbers.
pub(crate) const SRQ_NUMBERS: core::ops::RangeInclusive<u32> = 0x2_0001..=(1 << 20);

/// Shared receive queues of a device, as reported by the C driver.
pub(crate) const MAX_SRQ: u32 = (1 << 20) - 0x2_0001;

/// Work requests in a shared receive queue.
pub(crate) const MAX_SRQ_WR: u32 = 1 << 20;

/// Scatter/gather elements of a work request in a shared receive queue.
pub(crate) const MAX_SRQ_SGE: u32 = 27;

/// Multicast groups of a device.
pub(crate) const MAX_MCAST_GROUPS: u32 = 8192;

/// QPs in a multicast group.
pub(crate) const MAX_MCAST_ATTACH: u32 = 56;

/// QPs in all multicast groups of a device.
pub(crate) const MAX_TOTAL_MCAST_ATTACH: u32 = 0x7_0000;

/// Indices of memory regions, the upper 24 bits of their keys.
pub(crate) const MR_INDICES: core::ops::RangeInclusive<u32> = 1..=(1 << 19);

/// Memory regions of a device.
pub(crate) const MAX_MR: u32 = (1 << 19) - 1;

/// Indices of memory windows, the upper 24 bits of their keys.
pub(crate) const MW_INDICES: core::ops::RangeInclusive<u32> = (1 << 19) + 1..=(1 << 20);

/// Memory windows of a device.
pub(crate) const MAX_MW: u32 = (1 << 20) - ((1 << 19) + 1);

/// Numbers of address handles.
pub(crate) const AH_NUMBERS: core::ops::RangeInclusive<u32> = 1..=MAX_AH;

/// Address handles of a device.
pub(crate) const MAX_AH: u32 = (1 << 15) - 1;

/// Outstanding RDMA READs and atomics of a QP, on either side.
pub(crate) const MAX_RD_ATOM: u32 = 128;

/// RDMA READs and atomics that a device can serve at a time.
pub(crate) const MAX_RES_RD_ATOM: u32 = 0x3f000;

/// Pages of a fast registration memory region.
pub(crate) const MAX_FAST_REG_PAGES: u32 = 512;

/// P_Keys of a port; it has one of them by default.
pub(crate) const MAX_PKEYS: u16 = 64;

/// The exponent of the maximum ACK delay: 4.096 µs · 2^15.
pub(crate) const LOCAL_CA_ACK_DELAY: u8 = 15;

/// The speed and the width of a port without a net device: those of the core for a net device that says nothing.
pub(crate) const LOWEST_SPEED: (u16, u8) =
    (bindings::IB_SPEED_SDR as u16, bindings::IB_WIDTH_1X as u8);

/// Entries of a port's GID table.
pub(crate) const GID_TABLE: u32 = 1024;

/// The vendor ID of devices without one (IBTA vol. 1, A3.3.1).
pub(crate) const VENDOR_ID: u32 = 0xff_ffff;

/// Maximum length of the headers and trailers of a packet.
///
/// `RXE_MAX_HDR_LENGTH` of the C driver. The path MTU is derived from the net device's MTU minus this, so both ends
/// must use the same value.
pub(crate) const MAX_HEADERS: u32 = 80;

/// Fills in the attributes of `query_device`, except for the GUID.
pub(crate) fn describe(attr: &mut DeviceAttr) {
    attr.vendor_id = VENDOR_ID;
    attr.max_mr_size = u64::MAX;
    attr.page_size_cap = 0xffff_f000;
    attr.device_cap_flags = (cap::IB_DEVICE_AUTO_PATH_MIG
        | cap::IB_DEVICE_BAD_PKEY_CNTR
        | cap::IB_DEVICE_BAD_QKEY_CNTR
        | cap::IB_DEVICE_CHANGE_PHY_PORT
        | cap::IB_DEVICE_UD_AV_PORT_ENFORCE
        | cap::IB_DEVICE_PORT_ACTIVE_EVENT
        | cap::IB_DEVICE_SYS_IMAGE_GUID
        | cap::IB_DEVICE_RC_RNR_NAK_GEN
        | cap::IB_DEVICE_SRQ_RESIZE
        | cap::IB_DEVICE_MEM_MGT_EXTENSIONS
        | cap::IB_DEVICE_XRC
        | cap::IB_DEVICE_MEM_WINDOW
        | cap::IB_DEVICE_MEM_WINDOW_TYPE_2B) as u64;
    attr.device_cap_flags |= (cap::IB_DEVICE_ATOMIC_WRITE
        | cap::IB_DEVICE_FLUSH_GLOBAL
        | cap::IB_DEVICE_FLUSH_PERSISTENT) as u64;
    attr.kernel_cap_flags = u64::from(cap::IBK_ALLOW_USER_UNREG);
    if cfg!(CONFIG_INFINIBAND_ON_DEMAND_PAGING) {
        describe_odp(attr);
    }
    attr.max_qp = limit(MAX_QP);
    attr.max_qp_wr = limit(MAX_QP_WR);
    attr.max_send_sge = limit(MAX_SGE);
    attr.max_recv_sge = limit(MAX_SGE);
    attr.max_sge_rd = limit(MAX_SGE);
    attr.max_cq = limit(MAX_CQ);
    attr.max_cqe = limit(MAX_CQE);
    attr.max_mr = limit(MAX_MR);
    attr.max_mw = limit(MAX_MW);
    attr.max_pd = limit(MAX_PD);
    attr.max_qp_rd_atom = limit(MAX_RD_ATOM);
    attr.max_qp_init_rd_atom = limit(MAX_RD_ATOM);
    attr.max_res_rd_atom = limit(MAX_RES_RD_ATOM);
    attr.atomic_cap = cap::IB_ATOMIC_HCA;
    attr.max_srq = limit(MAX_SRQ);
    attr.max_srq_wr = limit(MAX_SRQ_WR);
    attr.max_srq_sge = limit(MAX_SRQ_SGE);
    attr.max_mcast_grp = limit(MAX_MCAST_GROUPS);
    attr.max_mcast_qp_attach = limit(MAX_MCAST_ATTACH);
    attr.max_total_mcast_qp_attach = limit(MAX_TOTAL_MCAST_ATTACH);
    attr.max_ah = limit(MAX_AH);
    attr.max_fast_reg_page_list_len = MAX_FAST_REG_PAGES;
    attr.max_pkeys = MAX_PKEYS;
    attr.local_ca_ack_delay = LOCAL_CA_ACK_DELAY;
    attr.cq_caps.max_cq_moderation_count = u16::MAX;
    attr.cq_caps.max_cq_moderation_period = u16::MAX;
}

/// Fills in the attributes for on-demand paging.
fn describe_odp(attr: &mut DeviceAttr) {
    const DATAGRAMS: u32 =
        cap::IB_ODP_SUPPORT_SEND | cap::IB_ODP_SUPPORT_RECV | cap::IB_ODP_SUPPORT_SRQ_RECV;
    attr.kernel_cap_flags |= u64::from(cap::IBK_ON_DEMAND_PAGING);
    attr.odp_caps.general_caps = u64::from(cap::IB_ODP_SUPPORT);
    let services = &mut attr.odp_caps.per_transport_caps;
    services.ud_odp_caps = DATAGRAMS;
    services.rc_odp_caps = DATAGRAMS
        | cap::IB_ODP_SUPPORT_WRITE
        | cap::IB_ODP_SUPPORT_READ
        | cap::IB_ODP_SUPPORT_ATOMIC
        | cap::IB_ODP_SUPPORT_FLUSH
        | cap::IB_ODP_SUPPORT_ATOMIC_WRITE;
    services.xrc_odp_caps = services.rc_odp_caps;
}
