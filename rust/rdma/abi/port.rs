// SPDX-License-Identifier: GPL-2.0

//! Ports: `struct ib_port_attr` and related types of `include/rdma/ib_verbs.h`.

use kernel_ext::net::device::NetDevice;
use rdma_bindings as bindings;

/// The attributes of a port: `struct ib_port_attr`.
pub use rdma_bindings::ib_port_attr as PortAttr;

/// The immutable data of a port: `struct ib_port_immutable`.
pub use rdma_bindings::ib_port_immutable as PortImmutable;

/// The changes of `modify_port`: `struct ib_port_modify`.
pub use rdma_bindings::ib_port_modify as PortModify;

/// `core_cap_flags` of a port for RoCE version 2: `RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP`.
pub const CORE_PORT_IBA_ROCE_UDP_ENCAP: u32 = bindings::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP
    | bindings::RDMA_CORE_CAP_IB_MAD
    | bindings::RDMA_CORE_CAP_IB_CM
    | bindings::RDMA_CORE_CAP_AF_IB
    | bindings::RDMA_CORE_CAP_ETH_AH;

c_enum! {
    /// The MTU, the maximum payload of a packet: `enum ib_mtu`.
    pub enum Mtu {
        /// 256 bytes.
        B256 = bindings::IB_MTU_256,
        /// 512 bytes.
        B512 = bindings::IB_MTU_512,
        /// 1024 bytes.
        B1024 = bindings::IB_MTU_1024,
        /// 2048 bytes.
        B2048 = bindings::IB_MTU_2048,
        /// 4096 bytes.
        B4096 = bindings::IB_MTU_4096,
    }
}

impl Mtu {
    /// The size in bytes.
    #[inline]
    pub const fn bytes(self) -> u32 {
        128 << (self as u32)
    }

    /// The largest MTU that is at most `bytes`; the smallest one if there is none.
    pub const fn fitting(bytes: u32) -> Self {
        match bytes {
            4096.. => Self::B4096,
            2048.. => Self::B2048,
            1024.. => Self::B1024,
            512.. => Self::B512,
            _ => Self::B256,
        }
    }
}

c_enum! {
    /// The logical state of a port: `enum ib_port_state`.
    pub enum PortState {
        /// No change.
        Nop = bindings::IB_PORT_NOP,
        /// Down.
        Down = bindings::IB_PORT_DOWN,
        /// Initialising.
        Init = bindings::IB_PORT_INIT,
        /// Armed.
        Armed = bindings::IB_PORT_ARMED,
        /// Active.
        Active = bindings::IB_PORT_ACTIVE,
        /// Active, with the physical link in error recovery.
        ActiveDefer = bindings::IB_PORT_ACTIVE_DEFER,
    }
}

c_enum! {
    /// The physical state of a port: `enum ib_port_phys_state`.
    pub enum PhysState {
        /// Asleep.
        Sleep = bindings::IB_PORT_PHYS_STATE_SLEEP,
        /// Polling for a link partner.
        Polling = bindings::IB_PORT_PHYS_STATE_POLLING,
        /// Disabled.
        Disabled = bindings::IB_PORT_PHYS_STATE_DISABLED,
        /// In training.
        Training = bindings::IB_PORT_PHYS_STATE_PORT_CONFIGURATION_TRAINING,
        /// Up.
        LinkUp = bindings::IB_PORT_PHYS_STATE_LINK_UP,
        /// Recovering from an error.
        LinkErrorRecovery = bindings::IB_PORT_PHYS_STATE_LINK_ERROR_RECOVERY,
        /// Under test.
        PhyTest = bindings::IB_PORT_PHYS_STATE_PHY_TEST,
    }
}

c_enum! {
    /// The link layer of a port: `enum rdma_link_layer`.
    pub enum LinkLayer {
        /// Unspecified.
        Unspecified = bindings::IB_LINK_LAYER_UNSPECIFIED,
        /// InfiniBand.
        InfiniBand = bindings::IB_LINK_LAYER_INFINIBAND,
        /// Ethernet.
        Ethernet = bindings::IB_LINK_LAYER_ETHERNET,
    }
}

c_flags! {
    /// The mask of `modify_port`: `enum ib_port_modify_flags`.
    pub struct PortModifyMask(u32) {
        /// Shut the port down.
        SHUTDOWN = bindings::IB_PORT_SHUTDOWN;
        /// Set the type of initialisation.
        INIT_TYPE = bindings::IB_PORT_INIT_TYPE;
        /// Reset the counter of Q_Key violations.
        RESET_QKEY_CNTR = bindings::IB_PORT_RESET_QKEY_CNTR;
        /// Omni-Path.
        OPA_MASK_CHG = bindings::IB_PORT_OPA_MASK_CHG;
    }
}

/// The state of a port on `ndev`: active while the net device is running with a carrier, else down.
pub fn state_of(ndev: &NetDevice) -> PortState {
    // SAFETY: `ndev` is a valid net device.
    let raw = unsafe { bindings::ib_get_curr_port_state(ndev.as_raw().cast()) };
    PortState::try_from(raw).unwrap_or(PortState::Down)
}
