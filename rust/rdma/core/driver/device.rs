// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver about the device and its ports: `query_device`, `query_port` and so on.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::NonNull;

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
    sync::aref::ARef,
};
use kernel_ext::{error::EOPNOTSUPP, net::device::NetDevice};
use rdma_bindings::{
    ib_device_attr, ib_device_modify, ib_gid, ib_port_attr, ib_port_immutable, ib_port_modify,
};

use crate::{
    core::{
        device::{NewlyRegistered, Registered},
        Device,
    },
    MaySleep,
};

/// The size of a firmware version in bytes, NUL included: `IB_FW_VERSION_NAME_MAX`.
pub const FW_VERSION_MAX: usize = rdma_bindings::IB_FW_VERSION_NAME_MAX as usize;

impl Device {
    /// Queries the attributes of the device.
    pub fn driver_query_device(&self, attr: &mut ib_device_attr, _sleep: &MaySleep) -> Result {
        let call = op!(self, query_device).ok_or(EOPNOTSUPP)?;
        // SAFETY: `self` and `attr` are valid; a null `udata` is a query of the kernel.
        to_result(unsafe { call(self.as_raw(), attr, core::ptr::null_mut()) })
    }

    /// Queries the immutable data of a port.
    pub fn driver_port_immutable(
        &self,
        port: u32,
        immutable: &mut ib_port_immutable,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self, get_port_immutable).ok_or(EOPNOTSUPP)?;
        // SAFETY: `self` and `immutable` are valid during the call.
        to_result(unsafe { call(self.as_raw(), port, immutable) })
    }

    /// Queries the attributes of a port. The core has filled in some of them before.
    pub fn driver_query_port(
        &self,
        port: u32,
        attr: &mut ib_port_attr,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self, query_port).ok_or(EOPNOTSUPP)?;
        // SAFETY: `self` and `attr` are valid during the call.
        to_result(unsafe { call(self.as_raw(), port, attr) })
    }

    /// Queries an entry of a port's P_Key table.
    pub fn driver_query_pkey(&self, port: u32, index: u16, _sleep: &MaySleep) -> Result<u16> {
        let call = op!(self, query_pkey).ok_or(EOPNOTSUPP)?;
        let mut pkey = 0;
        // SAFETY: `self` and the result's memory are valid during the call; the driver checks the index.
        to_result(unsafe { call(self.as_raw(), port, index, &mut pkey) })?;
        Ok(pkey)
    }

    /// Queries an entry of a port's GID table. `None` where the driver lacks the method: the core keeps the
    /// table.
    pub fn driver_query_gid(
        &self,
        port: u32,
        index: i32,
        _sleep: &MaySleep,
    ) -> Option<Result<ib_gid>> {
        let call = op!(self, query_gid)?;
        let mut gid = pin_init::zeroed();
        // SAFETY: `self` and the result's memory are valid during the call; the driver checks the index.
        let ret = unsafe { call(self.as_raw(), port, index, &mut gid) };
        Some(to_result(ret).map(|()| gid))
    }

    /// Queries the link layer of a port. `None` where the driver lacks the method: the node type determines
    /// it. Any context.
    pub fn driver_link_layer(&self, port: u32) -> Option<u32> {
        let call = op!(self, get_link_layer)?;
        // SAFETY: `self` is a valid device.
        Some(unsafe { call(self.as_raw(), port) })
    }

    /// Whether the driver has `get_netdev`.
    pub fn has_get_netdev(&self) -> bool {
        op!(self, get_netdev).is_some()
    }

    /// Queries the net device of a port. Any context.
    pub fn driver_get_netdev(&self, port: u32) -> Option<ARef<NetDevice>> {
        let call = op!(self, get_netdev)?;
        // SAFETY: `self` is a valid device; by the header the result is null or a counted reference.
        unsafe { NetDevice::from_counted(call(self.as_raw(), port).cast()) }
    }

    /// Modifies attributes of the device.
    pub fn driver_modify_device(
        &self,
        mask: c_int,
        attr: &mut ib_device_modify,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self, modify_device).ok_or(EOPNOTSUPP)?;
        // SAFETY: `self` and `attr` are valid during the call, and all of `attr` is initialised.
        to_result(unsafe { call(self.as_raw(), mask, attr) })
    }

    /// Modifies attributes of a port. `None` where the driver lacks the method.
    pub fn driver_modify_port(
        &self,
        port: u32,
        mask: c_int,
        attr: &mut ib_port_modify,
        _sleep: &MaySleep,
    ) -> Option<Result> {
        let call = op!(self, modify_port)?;
        // SAFETY: `self` and `attr` are valid during the call, and all of `attr` is initialised.
        Some(to_result(unsafe { call(self.as_raw(), port, mask, attr) }))
    }

    /// Queries the firmware version. `None` where the driver lacks the method.
    pub fn driver_fw_str(&self, text: &mut [u8; FW_VERSION_MAX]) -> Option<()> {
        let call = op!(self, get_dev_fw_str)?;
        // SAFETY: By the header the driver writes a NUL-terminated string of at most `FW_VERSION_MAX`
        // bytes.
        unsafe { call(self.as_raw(), text.as_mut_ptr()) };
        Some(())
    }

    /// Whether the driver has `dealloc_driver`, and so lets the core deallocate its devices.
    pub fn has_dealloc_driver(&self) -> bool {
        op!(self, dealloc_driver).is_some()
    }

    /// Calls the driver's `dealloc_driver`, the last call of a method.
    ///
    /// # Safety
    ///
    /// The device is not registered, and no method of it is called concurrently or later.
    pub unsafe fn driver_dealloc(&self, _sleep: &MaySleep) {
        if let Some(call) = op!(self, dealloc_driver) {
            // SAFETY: By the safety requirements.
            unsafe { call(self.as_raw()) };
        }
    }

    /// Whether user contexts can be disassociated from the device (`disassociate_ucontext`).
    pub fn has_disassociate(&self) -> bool {
        op!(self, disassociate_ucontext).is_some()
    }

    /// Reports an event of a port's net device to the driver. `None` where the driver lacks the method: the
    /// core handles the event.
    pub fn driver_report_port_event(
        &self,
        ndev: &NetDevice,
        event: usize,
        _sleep: &MaySleep,
    ) -> Option<()> {
        let call = op!(self, report_port_event)?;
        // SAFETY: `self` and `ndev` are valid during the call.
        unsafe { call(self.as_raw(), ndev.as_raw().cast(), event) };
        Some(())
    }

    /// Whether the device can have sub-devices.
    pub fn has_sub_devices(&self) -> bool {
        op!(self, add_sub_dev).is_some() && op!(self, del_sub_dev).is_some()
    }
}

impl NewlyRegistered<'_> {
    /// Calls the driver's `enable_driver`, once for each registration.
    pub fn driver_enable(self, _sleep: &MaySleep) -> Result {
        let device = self.into_device();
        match op!(device, enable_driver) {
            // SAFETY: By the invariants of `self`, which is consumed.
            Some(call) => to_result(unsafe { call(device.as_raw()) }),
            None => Ok(()),
        }
    }
}

impl Registered {
    /// Lets the driver add a sub-device, a registered device of its own, which [`Self::driver_del_sub_dev`]
    /// deletes.
    pub(in crate::core) fn driver_add_sub_dev(
        &self,
        sub_type: u32,
        name: &CStr,
        _sleep: &MaySleep,
    ) -> Result<NonNull<Device>> {
        let call = op!(self, add_sub_dev).ok_or(EOPNOTSUPP)?;
        // SAFETY: By the type invariants the device is registered, and the name is a string.
        let raw = from_err_ptr(unsafe { call(self.as_raw(), sub_type, name.as_char_ptr()) })?;
        NonNull::new(raw.cast()).ok_or(EINVAL)
    }

    /// Unregisters and deallocates a sub-device of this device.
    ///
    /// # Safety
    ///
    /// The driver has added the sub-device to this device, and it is deleted once.
    pub(in crate::core) unsafe fn driver_del_sub_dev(
        &self,
        sub: NonNull<Device>,
        _sleep: &MaySleep,
    ) {
        if let Some(call) = op!(self, del_sub_dev) {
            // SAFETY: By the safety requirements.
            unsafe { call(sub.as_ptr().cast()) };
        }
    }
}
