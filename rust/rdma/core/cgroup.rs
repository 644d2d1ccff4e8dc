// SPDX-License-Identifier: GPL-2.0

//! Charging objects to the rdma cgroup.
//!
//! C header: `include/linux/cgroup_rdma.h`.

use core::{
    mem::ManuallyDrop,
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

use kernel::{error::to_result, prelude::*, sync::aref::ARef};
use kernel_ext::entry::view_of;
use rdma_bindings as bindings;

use super::{class::Registering, Device, DeviceMemory};
use crate::MaySleep;

view_of! {
    /// The cgroup charge of an object: `struct ib_rdmacg_object`.
    pub struct CgroupObject(bindings::ib_rdmacg_object);
}

impl CgroupObject {
    fn cgroup(&self) -> &AtomicPtr<bindings::rdma_cgroup> {
        // SAFETY: The member is a pointer that is valid as long as the object, and that is accessed atomically.
        unsafe { AtomicPtr::from_ptr(&raw mut (*self.as_raw()).cg) }
    }

    /// Charges the cgroup of the current process for one resource of a device (`enum rdmacg_resource_type`), and stores the
    /// cgroup.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown resource, or a device that is not registered with the controller; `ENODEV` for a device that is being
    /// unregistered; `EAGAIN` at the limit, `ENOMEM`.
    pub fn try_charge(&self, device: &Device, resource: u32) -> Result {
        // A pool that is made after the end of the device's `CgroupEntry` would stay in the cgroup's list.
        let device = device.try_get().ok_or(ENODEV)?;
        // SAFETY: The member exists as long as the device.
        let accounting = unsafe { &raw mut (*device.as_raw()).cg_device };
        // SAFETY: The device is registered, and the list was set up before that, if the device is registered with the controller.
        let is_accounted = unsafe { !(*accounting).rpools.next.is_null() };
        if resource >= bindings::RDMACG_RESOURCE_MAX || !is_accounted {
            return Err(EINVAL);
        }
        let mut cgroup = null_mut();
        // SAFETY: The device is registered with the controller: it leaves it after the last `Registered` is dropped, which the core
        // waits for. The resource is a known one.
        to_result(unsafe { bindings::rdmacg_try_charge(&mut cgroup, accounting, resource) })?;
        self.cgroup().store(cgroup, Ordering::Release);
        Ok(())
    }

    /// Reverts the charge, if there is one.
    pub fn uncharge(&self, device: &Device, resource: u32) {
        let cgroup = self.cgroup().swap(null_mut(), Ordering::AcqRel);
        if cgroup.is_null() || resource >= bindings::RDMACG_RESOURCE_MAX {
            return;
        }
        // SAFETY: The cgroup was stored with a reference, which the exchange has returned; `device` is a valid device.
        unsafe {
            let device = &raw mut (*device.as_raw()).cg_device;
            bindings::rdmacg_uncharge(cgroup, device, resource);
        }
    }
}

impl Registering<'_> {
    /// Registers the device with the rdma cgroup controller, under its current name.
    ///
    /// # Errors
    ///
    /// `EEXIST` if it was registered before.
    pub fn register_cgroup(&mut self, _sleep: &MaySleep) -> Result<CgroupEntry> {
        if self.in_cgroup {
            return Err(EEXIST);
        }
        let raw = self.as_raw();
        // SAFETY: By the type invariants the device is not registered with the controller; its name lies in the device, and so is
        // valid as long.
        unsafe {
            (*raw).cg_device.name = (&raw mut (*raw).name).cast();
            bindings::rdma_cgroup_set_index(raw);
            bindings::rdmacg_register_device(&raw mut (*raw).cg_device);
        }
        self.in_cgroup = true;
        // INVARIANT: The device was just registered.
        Ok(CgroupEntry(ManuallyDrop::new(self.hold())))
    }
}

/// The registration of a device with the controller. If it is dropped instead of [removed](Self::remove), the device stays
/// registered for good.
///
/// # Invariants
///
/// The device is registered with the controller as long as this value exists.
#[must_use = "it is removed, or stays for good"]
pub struct CgroupEntry(ManuallyDrop<ARef<DeviceMemory>>);

impl CgroupEntry {
    /// Ends the registration; remaining charges are dropped.
    pub fn remove(self, _sleep: &MaySleep) {
        let device = ManuallyDrop::into_inner(self.0);
        // SAFETY: By the type invariants the device is registered; the entry is consumed, so it is unregistered once.
        unsafe { bindings::rdmacg_unregister_device(&raw mut (*device.as_raw()).cg_device) };
    }
}
