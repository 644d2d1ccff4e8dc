// SPDX-License-Identifier: GPL-2.0

//! Data of a device in sysfs: its ports in each namespace.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_core_device`).

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};
use kernel_ext::sysfs::{Directory, RawGroups};
use rdma::core::{stats::DeviceCounters, sysfs::PortDirectory};

/// Data of a device in sysfs.
#[pin_data]
pub(crate) struct DeviceState {
    #[pin]
    pub(super) trees: Mutex<KVec<Tree>>,
}

impl DeviceState {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            trees <- new_mutex!(KVec::new(), "DeviceState::trees"),
        })
    }
}

/// The directories of a port. They are dropped in this order.
pub(super) struct Port {
    pub(super) _gid_attrs: PortDirectory,
    pub(super) own: PortDirectory,
    pub(super) counters: Option<Arc<DeviceCounters>>,
}

/// `ports/` in one namespace.
pub(super) struct Tree {
    /// Address of the device or compat device, which outlives it.
    pub(super) seen_as: usize,
    /// The driver's groups in the directory of each port, in the device's own namespace. The driver is there as long as the tree.
    pub(super) drivers: Option<RawGroups>,
    pub(super) ports: KVec<Port>,
    pub(super) _top: Directory,
}
