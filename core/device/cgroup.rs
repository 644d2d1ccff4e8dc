// SPDX-License-Identifier: GPL-2.0

//! The rdma cgroup controller: accounting and limits of handles and objects.
//!
//! C header: `include/linux/cgroup_rdma.h`.

use kernel::prelude::*;
use kernel_ext::{bindings, export::export};
use rdma::{
    core::{cgroup::CgroupObject, Device},
    MaySleep,
};

/// Registers a device with the controller, under its name.
pub(crate) fn register(device: &Device, sleep: &MaySleep) -> Result {
    device.register_cgroup(sleep);
    Ok(())
}

/// Unregisters a device; remaining charges are dropped.
pub(crate) fn unregister(device: &Device, sleep: &MaySleep) {
    device.unregister_cgroup(sleep);
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
