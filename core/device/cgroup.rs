// SPDX-License-Identifier: GPL-2.0

//! The rdma cgroup: handles and objects that processes use are counted and limited.
//!
//! C header: `include/linux/cgroup_rdma.h`.

use kernel::prelude::*;
use kernel_ext::{bindings, export::export};
use rdma::{
    core::{cgroup::CgroupObject, Device},
    MaySleep,
};

/// Lets the cgroup account for a device, under the device's name.
pub(crate) fn register(device: &Device, sleep: &MaySleep) -> Result {
    device.register_cgroup(sleep);
    Ok(())
}

/// Ends that; what is still charged is forgotten.
pub(crate) fn unregister(device: &Device, sleep: &MaySleep) {
    device.unregister_cgroup(sleep);
}

/// Charges the present process's cgroup for one resource of a device. Process context.
///
/// # Errors
///
/// `EAGAIN` where the limit is reached, `ENOMEM`, `EINVAL`.
#[export]
fn ib_rdmacg_try_charge(
    cg_obj: &CgroupObject,
    device: &Device,
    resource_index: bindings::rdmacg_resource_type,
    _sleep: &MaySleep,
) -> Result {
    cg_obj.try_charge(device, resource_index)
}

/// Gives back what was charged. Process context.
#[export]
fn ib_rdmacg_uncharge(
    cg_obj: &CgroupObject,
    device: &Device,
    resource_index: bindings::rdmacg_resource_type,
    _sleep: &MaySleep,
) {
    cg_obj.uncharge(device, resource_index);
}
