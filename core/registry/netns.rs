// SPDX-License-Identifier: GPL-2.0

//! Access to devices by network namespaces.
//!
//! In shared mode, the default, all namespaces have access; in exclusive mode only the one that the device is in.
//!
//! C header: `include/rdma/ib_verbs.h` (`rdma_dev_access_netns`).

use core::sync::atomic::{AtomicBool, Ordering};

use kernel_ext::{entry::Const, export::export, net::ns::NetNamespace, param::bool_param};
use rdma::core::{Device, DeviceMemory};

/// Whether the mode is shared.
static SHARED: AtomicBool = AtomicBool::new(true);

bool_param!(
    c"netns_mode",
    SHARED,
    b"parmtype=netns_mode:bool\0parm=netns_mode:Share device among net namespaces; default=1 (shared)\0"
);

/// Whether the mode is shared.
pub(crate) fn is_shared() -> bool {
    SHARED.load(Ordering::Acquire)
}

/// Sets the mode.
pub(crate) fn set_shared(shared: bool) {
    SHARED.store(shared, Ordering::Release);
}

/// Whether a network namespace has access to a device.
pub(crate) fn may_access(device: &DeviceMemory, net: &NetNamespace) -> bool {
    is_shared() || device.is_in(net)
}

/// Returns whether a network namespace has access to a device. Any context.
///
/// C header: `include/rdma/ib_verbs.h`.
#[export]
fn rdma_dev_access_netns(device: Const<'_, Device>, net: Const<'_, NetNamespace>) -> bool {
    may_access(&device, &net)
}

/// Returns whether the current process may use raw packets on a device: whether it has `CAP_NET_RAW` in the user
/// namespace of the device's network namespace, or of the initial one in shared mode.
#[export]
fn rdma_dev_has_raw_cap(dev: Const<'_, Device>) -> bool {
    has_raw_cap(&dev)
}

/// As `rdma_dev_has_raw_cap`, for the core.
pub(crate) fn has_raw_cap(device: &Device) -> bool {
    if is_shared() {
        return rdma::core::device::has_raw_cap(NetNamespace::init());
    }
    device.with_namespace(rdma::core::device::has_raw_cap)
}
