// SPDX-License-Identifier: GPL-2.0

//! Charging objects to the rdma cgroup.
//!
//! C header: `include/linux/cgroup_rdma.h`.

use kernel::{error::to_result, prelude::*};
use kernel_ext::door::view_of;
use rdma_bindings as bindings;

use super::Device;
use crate::MaySleep;

view_of! {
    /// What an object has charged: `struct ib_rdmacg_object`.
    pub struct CgroupObject(bindings::ib_rdmacg_object);
}

impl CgroupObject {
    /// Charges the present process's cgroup for one resource of a device, and remembers the cgroup.
    pub fn try_charge(&self, device: &Device, resource: u32) -> Result {
        // SAFETY: The object is being made by its only owner; the device is registered with the cgroup.
        to_result(unsafe {
            bindings::rdmacg_try_charge(
                &raw mut (*self.as_raw()).cg,
                &raw mut (*device.as_raw()).cg_device,
                resource,
            )
        })
    }

    /// Gives back what was charged.
    pub fn uncharge(&self, device: &Device, resource: u32) {
        // SAFETY: The object was charged for the resource, and has remembered the cgroup.
        unsafe {
            bindings::rdmacg_uncharge(
                (*self.as_raw()).cg,
                &raw mut (*device.as_raw()).cg_device,
                resource,
            )
        };
    }
}

impl Device {
    /// Lets the cgroup account for the device.
    pub fn register_cgroup(&self, _sleep: &MaySleep) {
        // SAFETY: The device is being registered; its name is where it is as long as the device.
        unsafe {
            (*self.as_raw()).cg_device.name = (&raw mut (*self.as_raw()).name).cast();
            bindings::rdmacg_register_device(&raw mut (*self.as_raw()).cg_device);
        }
    }

    /// Ends that.
    pub fn unregister_cgroup(&self, _sleep: &MaySleep) {
        // SAFETY: The device is registered with the cgroup.
        unsafe { bindings::rdmacg_unregister_device(&raw mut (*self.as_raw()).cg_device) };
    }
}
