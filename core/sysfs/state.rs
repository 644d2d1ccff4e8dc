// SPDX-License-Identifier: GPL-2.0

//! What a device has in sysfs: its files, and its ports for each namespace.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};
use kernel_ext::sysfs::Directory;
use rdma::core::{
    stats::HwCounters,
    sysfs::{DeviceFiles, PortDirectory},
};

/// What a device has in sysfs.
#[pin_data]
pub(crate) struct DeviceState {
    #[pin]
    pub(super) files: Mutex<Option<DeviceFiles>>,
    #[pin]
    pub(super) trees: Mutex<KVec<Tree>>,
}

impl DeviceState {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            files <- new_mutex!(None, "DeviceState::files"),
            trees <- new_mutex!(KVec::new(), "DeviceState::trees"),
        })
    }
}

/// A port's directories. They go in this order.
pub(super) struct Port {
    pub(super) _gid_attrs: PortDirectory,
    pub(super) own: PortDirectory,
    pub(super) counters: Option<Arc<HwCounters>>,
}

/// `ports/`, as one namespace sees it.
pub(super) struct Tree {
    /// Where the device of the namespace is in memory: it goes after its tree.
    pub(super) seen_as: usize,
    pub(super) is_own: bool,
    pub(super) ports: KVec<Port>,
    pub(super) _top: Directory,
}
