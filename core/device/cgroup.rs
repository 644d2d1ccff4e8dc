// SPDX-License-Identifier: GPL-2.0

//! The rdma cgroup controller: accounting and limits of handles and objects.
//!
//! C header: `include/linux/cgroup_rdma.h`.

use kernel::prelude::*;
use kernel_ext::{bindings, export::export};
use rdma::{
    core::{cgroup::CgroupObject, class::Registering, Device},
    MaySleep,
};

use crate::private::DeviceExt;

/// Registers a device with the controller, under its name.
pub(super) fn register(device: &mut Registering<'_>, sleep: &MaySleep) -> Result {
    let entry = device.register_cgroup(sleep)?;
    *device.core().lifecycle.cgroup.lock() = Some(entry);
    Ok(())
}

/// Unregisters a device; remaining charges are dropped.
pub(super) fn unregister(device: &Device, sleep: &MaySleep) {
    let entry = device.core().lifecycle.cgroup.lock().take();
    if let Some(entry) = entry {
        entry.remove(sleep);
    }
}

/// Charges one resource of a device to the current process's cgroup. Process context.
///
/// # Errors
///
/// `EAGAIN` at the limit, `ENOMEM`, `EINVAL`.
#[export]
fn ib_rdmacg_try_charge(
    cg_obj: &CgroupObject,
    device: &Device,
    resource_index: bindings::rdmacg_resource_type,
    _sleep: &MaySleep,
) -> Result {
    cg_obj.try_charge(device, resource_index)
}

/// Returns a charge. Process context.
#[export]
fn ib_rdmacg_uncharge(
    cg_obj: &CgroupObject,
    device: &Device,
    resource_index: bindings::rdmacg_resource_type,
    _sleep: &MaySleep,
) {
    cg_obj.uncharge(device, resource_index);
}
