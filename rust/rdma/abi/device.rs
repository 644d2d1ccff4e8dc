// SPDX-License-Identifier: GPL-2.0

//! Attributes of devices: `struct ib_device_attr` of `include/rdma/ib_verbs.h`.

use rdma_bindings as bindings;

/// The attributes of a device: `struct ib_device_attr`.
pub use rdma_bindings::ib_device_attr as DeviceAttr;

/// The values of `device_cap_flags` and similar members, with the names of the header:
/// `rdma_bindings::IB_DEVICE_*`, `IBK_*`, `IB_ODP_*`, `IB_ATOMIC_*` are re-exported here.
pub mod cap {
    pub use rdma_bindings::{
        IBK_ALLOW_USER_UNREG, IBK_LOCAL_DMA_LKEY, IBK_ON_DEMAND_PAGING, IBK_SG_GAPS_REG,
        IB_ATOMIC_GLOB, IB_ATOMIC_HCA, IB_ATOMIC_NONE, IB_DEVICE_ATOMIC_WRITE,
        IB_DEVICE_AUTO_PATH_MIG, IB_DEVICE_BAD_PKEY_CNTR, IB_DEVICE_BAD_QKEY_CNTR,
        IB_DEVICE_CHANGE_PHY_PORT, IB_DEVICE_CURR_QP_STATE_MOD, IB_DEVICE_FLUSH_GLOBAL,
        IB_DEVICE_FLUSH_PERSISTENT, IB_DEVICE_MEM_MGT_EXTENSIONS, IB_DEVICE_MEM_WINDOW,
        IB_DEVICE_MEM_WINDOW_TYPE_2A, IB_DEVICE_MEM_WINDOW_TYPE_2B, IB_DEVICE_N_NOTIFY_CQ,
        IB_DEVICE_PORT_ACTIVE_EVENT, IB_DEVICE_RC_RNR_NAK_GEN, IB_DEVICE_RESIZE_MAX_WR,
        IB_DEVICE_SHUTDOWN_PORT, IB_DEVICE_SRQ_RESIZE, IB_DEVICE_SYS_IMAGE_GUID,
        IB_DEVICE_UD_AV_PORT_ENFORCE, IB_DEVICE_XRC, IB_ODP_SUPPORT, IB_ODP_SUPPORT_ATOMIC,
        IB_ODP_SUPPORT_ATOMIC_WRITE, IB_ODP_SUPPORT_FLUSH, IB_ODP_SUPPORT_IMPLICIT,
        IB_ODP_SUPPORT_READ, IB_ODP_SUPPORT_RECV, IB_ODP_SUPPORT_SEND, IB_ODP_SUPPORT_SRQ_RECV,
        IB_ODP_SUPPORT_WRITE,
    };
}

/// The identifier of a driver for user space: `enum rdma_driver_id`.
///
/// # Invariants
///
/// The drivers of this identifier have `dealloc_driver`, so that the core may unregister all their devices.
#[derive(Clone, Copy)]
pub struct DriverId(u32);

impl DriverId {
    // INVARIANT: Software RoCE is the only driver of this identifier in the kernel, and has the method.
    /// Software RoCE: `RDMA_DRIVER_RXE`.
    pub const RXE: Self = Self(bindings::RDMA_DRIVER_RXE);

    // INVARIANT: The kernel has no driver of this identifier any more.
    /// For tests: `RDMA_DRIVER_NES`.
    pub const TEST: Self = Self(bindings::RDMA_DRIVER_NES);

    /// The identifier of another driver.
    ///
    /// # Safety
    ///
    /// All drivers of this identifier have `dealloc_driver`.
    pub const unsafe fn new(number: u32) -> Self {
        // INVARIANT: By the safety requirements.
        Self(number)
    }

    /// The value of the header's enumeration.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// Node type of a channel adapter, for InfiniBand and RoCE: `RDMA_NODE_IB_CA`.
pub const NODE_IB_CA: u8 = bindings::RDMA_NODE_IB_CA as u8;

/// The `write()` commands that a device may support besides those of all devices: `enum
/// ib_uverbs_write_cmds`.
pub mod uverbs_cmd {
    use rdma_bindings as bindings;

    /// Posting to the send queue, or ringing its doorbell.
    pub const POST_SEND: u64 = 1 << bindings::IB_USER_VERBS_CMD_POST_SEND;
    /// Posting to the receive queue.
    pub const POST_RECV: u64 = 1 << bindings::IB_USER_VERBS_CMD_POST_RECV;
    /// Posting to an SRQ.
    pub const POST_SRQ_RECV: u64 = 1 << bindings::IB_USER_VERBS_CMD_POST_SRQ_RECV;
    /// Arming a CQ.
    pub const REQ_NOTIFY_CQ: u64 = 1 << bindings::IB_USER_VERBS_CMD_REQ_NOTIFY_CQ;
    /// Polling a CQ.
    pub const POLL_CQ: u64 = 1 << bindings::IB_USER_VERBS_CMD_POLL_CQ;
}
