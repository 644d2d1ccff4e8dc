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

use crate::{core::Device, MaySleep};

/// The room for a firmware's version: `IB_FW_VERSION_NAME_MAX`.
pub const FW_VERSION_MAX: usize = rdma_bindings::IB_FW_VERSION_NAME_MAX as usize;

impl Device {
    /// Asks what the device can.
    pub fn driver_query_device(&self, attr: &mut ib_device_attr, _sleep: &MaySleep) -> Result {
        let call = op!(self, query_device).ok_or(EOPNOTSUPP)?;
        // SAFETY: The driver fills in the attributes of its device; the core asks without user data.
        to_result(unsafe { call(self.as_raw(), attr, core::ptr::null_mut()) })
    }

    /// Asks what of a port never changes.
    pub fn driver_port_immutable(
        &self,
        port: u32,
        immutable: &mut ib_port_immutable,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self, get_port_immutable).ok_or(EOPNOTSUPP)?;
        // SAFETY: The driver fills in what it knows of a port of its device.
        to_result(unsafe { call(self.as_raw(), port, immutable) })
    }

    /// Asks for the attributes of a port, some of which the core has filled in.
    pub fn driver_query_port(
        &self,
        port: u32,
        attr: &mut ib_port_attr,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self, query_port).ok_or(EOPNOTSUPP)?;
        // SAFETY: The driver fills in the attributes of a port of its device.
        to_result(unsafe { call(self.as_raw(), port, attr) })
    }

    /// Asks for an entry of a port's P_Key table.
    pub fn driver_query_pkey(&self, port: u32, index: u16, _sleep: &MaySleep) -> Result<u16> {
        let call = op!(self, query_pkey).ok_or(EOPNOTSUPP)?;
        let mut pkey = 0;
        // SAFETY: The driver fills in an entry of its device's table, or says that there is none.
        to_result(unsafe { call(self.as_raw(), port, index, &mut pkey) })?;
        Ok(pkey)
    }

    /// Asks for an entry of a port's GID table. `None` where the core has the table.
    pub fn driver_query_gid(
        &self,
        port: u32,
        index: i32,
        _sleep: &MaySleep,
    ) -> Option<Result<ib_gid>> {
        let call = op!(self, query_gid)?;
        let mut gid = pin_init::zeroed();
        // SAFETY: The driver fills in an entry of its device's table, or says that there is none.
        let ret = unsafe { call(self.as_raw(), port, index, &mut gid) };
        Some(to_result(ret).map(|()| gid))
    }

    /// Asks what carries a port's packets. `None` where the node's type tells. Any context.
    pub fn driver_link_layer(&self, port: u32) -> Option<u32> {
        let call = op!(self, get_link_layer)?;
        // SAFETY: The driver is asked of a port of its device.
        Some(unsafe { call(self.as_raw(), port) })
    }

    /// Whether the driver says itself which net device a port has.
    pub fn has_get_netdev(&self) -> bool {
        op!(self, get_netdev).is_some()
    }

    /// Asks which net device a port has. Any context.
    pub fn driver_get_netdev(&self, port: u32) -> Option<ARef<NetDevice>> {
        let call = op!(self, get_netdev)?;
        // SAFETY: The driver is asked of a port of its device, and counts a reference for us.
        unsafe { NetDevice::from_counted(call(self.as_raw(), port).cast()) }
    }

    /// Changes attributes of the device.
    pub fn driver_modify_device(
        &self,
        mask: c_int,
        attr: &mut ib_device_modify,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self, modify_device).ok_or(EOPNOTSUPP)?;
        // SAFETY: The driver reads what the mask tells of.
        to_result(unsafe { call(self.as_raw(), mask, attr) })
    }

    /// Changes attributes of a port. `None` where the driver cannot.
    pub fn driver_modify_port(
        &self,
        port: u32,
        mask: c_int,
        attr: &mut ib_port_modify,
        _sleep: &MaySleep,
    ) -> Option<Result> {
        let call = op!(self, modify_port)?;
        // SAFETY: The driver reads what the mask tells of.
        Some(to_result(unsafe { call(self.as_raw(), port, mask, attr) }))
    }

    /// Asks for the version of the firmware. `None` where the driver does not know.
    pub fn driver_fw_str(&self, text: &mut [u8; FW_VERSION_MAX]) -> Option<()> {
        let call = op!(self, get_dev_fw_str)?;
        // SAFETY: The driver writes a string that ends within the room.
        unsafe { call(self.as_raw(), text.as_mut_ptr()) };
        Some(())
    }

    /// Tells the driver that the device is registered now.
    pub fn driver_enable(&self, _sleep: &MaySleep) -> Result {
        match op!(self, enable_driver) {
            // SAFETY: The driver is told once for each registration.
            Some(call) => to_result(unsafe { call(self.as_raw()) }),
            None => Ok(()),
        }
    }

    /// Whether the driver lets the core deallocate its devices.
    pub fn has_dealloc_driver(&self) -> bool {
        op!(self, dealloc_driver).is_some()
    }

    /// Tells the driver to let go of what it has of the device: the last call of a method.
    ///
    /// # Safety
    ///
    /// The device is not registered, and nobody calls a method of it any more.
    pub unsafe fn driver_dealloc(&self, _sleep: &MaySleep) {
        if let Some(call) = op!(self, dealloc_driver) {
            // SAFETY: By the safety requirements.
            unsafe { call(self.as_raw()) };
        }
    }

    /// Whether programs can be taken off the device while they use it.
    pub fn has_disassociate(&self) -> bool {
        op!(self, disassociate_ucontext).is_some()
    }

    /// Tells the driver of an event of a port's net device. `None` where the core sees to it.
    pub fn driver_report_port_event(
        &self,
        ndev: &NetDevice,
        event: usize,
        _sleep: &MaySleep,
    ) -> Option<()> {
        let call = op!(self, report_port_event)?;
        // SAFETY: Both devices are there.
        unsafe { call(self.as_raw(), ndev.as_raw().cast(), event) };
        Some(())
    }

    /// Whether the device can have sub-devices.
    pub fn has_sub_devices(&self) -> bool {
        op!(self, add_sub_dev).is_some() && op!(self, del_sub_dev).is_some()
    }

    /// Makes a sub-device: a device of its own, registered, that the driver takes back with the call below.
    pub fn driver_add_sub_dev(
        &self,
        sub_type: u32,
        name: &CStr,
        _sleep: &MaySleep,
    ) -> Result<NonNull<Device>> {
        let call = op!(self, add_sub_dev).ok_or(EOPNOTSUPP)?;
        // SAFETY: The device is registered.
        let raw = from_err_ptr(unsafe { call(self.as_raw(), sub_type, name.as_char_ptr()) })?;
        NonNull::new(raw.cast()).ok_or(EINVAL)
    }

    /// Unregisters and deallocates a sub-device of this device.
    pub fn driver_del_sub_dev(&self, sub: &Device, _sleep: &MaySleep) {
        if let Some(call) = op!(self, del_sub_dev) {
            // SAFETY: The sub-device is one that the driver made for this device, and is taken back once.
            unsafe { call(sub.as_raw()) };
        }
    }
}
