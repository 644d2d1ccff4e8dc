// SPDX-License-Identifier: GPL-2.0

//! Sub-devices: devices that a driver creates from another device, such as the SMI device of a multi-plane device.
//!
//! A sub-device has a registration reference to its parent. Unregistering the parent deletes the sub-devices first, in
//! reverse order.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `SubDevices::list` | the sub-devices of a device | process context | the allocator |
//!
//! C header: `include/rdma/ib_verbs.h` (`ib_add_sub_device`).

use kernel::prelude::*;
use kernel_ext::error::EOPNOTSUPP;
use rdma::{
    core::{
        device::{Registered, SubDevice},
        Device, DeviceMemory,
    },
    MaySleep,
};

use crate::private::DeviceExt;

/// Creates a sub-device.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, `EINVAL` where the parent is not registered, `ENOMEM`, and errors of the
/// driver.
pub(crate) fn add(parent: &Device, sub_type: u32, name: &CStr, sleep: &MaySleep) -> Result {
    if !parent.has_sub_devices() {
        return Err(EOPNOTSUPP);
    }
    let registered = parent.try_get().ok_or(EINVAL)?;
    let sub = SubDevice::add(registered, sub_type, name, sleep)?;
    let mut list = parent.core().subdevices.list.lock();
    if list.reserve(1, GFP_KERNEL).is_err() {
        drop(list);
        drop(sub.delete(sleep));
        return Err(ENOMEM);
    }
    Ok(list.push(sub, GFP_KERNEL)?)
}

/// Deletes a sub-device, and drops the caller's registration reference.
///
/// # Errors
///
/// `EOPNOTSUPP` for a device that is no sub-device; `ENODEV` where it is being deleted concurrently.
pub(crate) fn delete(sub: Registered, sleep: &MaySleep) -> Result {
    let parent = sub.parent().ok_or(EOPNOTSUPP)?;
    let mut list = parent.core().subdevices.list.lock();
    let at = list
        .iter()
        .position(|listed| listed.is(&sub))
        .ok_or(ENODEV)?;
    let listed = list.remove(at).map_err(|_| ENODEV)?;
    drop(list);
    drop(sub);
    drop(listed.delete(sleep));
    Ok(())
}

/// Deletes all sub-devices of a device.
pub(crate) fn remove_all(parent: &DeviceMemory, sleep: &MaySleep) {
    loop {
        let last = parent.core().subdevices.list.lock().pop();
        let Some(last) = last else {
            return;
        };
        drop(last.delete(sleep));
    }
}
