// SPDX-License-Identifier: GPL-2.0

//! The core's data of a device's ports: `ib_query_port` and `ib_device_get_netdev` of `include/rdma/ib_verbs.h`.

use kernel::{error::to_result, prelude::*, sync::aref::ARef};
use kernel_ext::net::device::NetDevice;
use rdma_bindings as bindings;

use crate::{abi::port::PortAttr, Device, MaySleep};

impl<P> Device<P> {
    /// Queries the attributes of a port from the core; for a RoCE port they include its GID prefix.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown port, and those of the driver.
    pub fn query_port(&self, port_num: u32, _sleep: &MaySleep) -> Result<PortAttr> {
        let mut attr: PortAttr = pin_init::zeroed();
        // SAFETY: `self` is a valid device; `attr` is valid for writes.
        to_result(unsafe { bindings::ib_query_port(self.as_raw(), port_num, &mut attr) })?;
        Ok(attr)
    }

    /// The net device of a port.
    pub fn netdev(&self, port_num: u32, _sleep: &MaySleep) -> Option<ARef<NetDevice>> {
        // SAFETY: `self` is a valid device.
        let raw = unsafe { bindings::ib_device_get_netdev(self.as_raw(), port_num) };
        let raw = core::ptr::NonNull::new(raw.cast::<NetDevice>())?;
        // SAFETY: By the header the core has taken a reference for the result.
        Some(unsafe { ARef::from_raw(raw) })
    }

    /// Clears the net device of a port, to which the core gives its reference up: it is being unregistered. May be called with the
    /// RTNL held.
    pub fn clear_netdev(&self, port_num: u32, _sleep: &MaySleep) {
        // SAFETY: `self` is a valid device; null stands for no net device. It fails for an unknown port alone, which has none.
        unsafe {
            bindings::ib_device_set_netdev(self.as_raw(), core::ptr::null_mut(), port_num);
        }
    }

    /// The speed and the width of a port, as its net device reports them.
    ///
    /// The first is `enum ib_port_speed`, the second `enum ib_port_width`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port that is not Ethernet, `ENODEV` for one without a net device.
    pub fn eth_speed(&self, port_num: u32, _sleep: &MaySleep) -> Result<(u16, u8)> {
        let (mut speed, mut width) = (0, 0);
        // SAFETY: `self` is a valid device; both results are valid for writes.
        to_result(unsafe {
            bindings::ib_get_eth_speed(self.as_raw(), port_num, &mut speed, &mut width)
        })?;
        Ok((speed, width))
    }
}
