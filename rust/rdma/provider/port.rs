// SPDX-License-Identifier: GPL-2.0

//! What the core knows of a device's ports: `ib_query_port` and `ib_device_get_netdev` of `include/rdma/ib_verbs.h`.

use kernel::{error::to_result, prelude::*, sync::aref::ARef};
use kernel_ext::net::device::NetDevice;
use rdma_bindings as bindings;

use crate::{abi::port::PortAttr, Device, MaySleep};

impl<P> Device<P> {
    /// What a port is, asked of the core; for a port of RoCE that includes its GID prefix.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port that the device lacks, or what the driver answers.
    pub fn query_port(&self, port_num: u32, _sleep: &MaySleep) -> Result<PortAttr> {
        let mut attr: PortAttr = pin_init::zeroed();
        // SAFETY: `self` is a device; `attr` is valid for writes.
        to_result(unsafe { bindings::ib_query_port(self.as_raw(), port_num, &mut attr) })?;
        Ok(attr)
    }

    /// The net device of a port.
    pub fn netdev(&self, port_num: u32, _sleep: &MaySleep) -> Option<ARef<NetDevice>> {
        // SAFETY: `self` is a device.
        let raw = unsafe { bindings::ib_device_get_netdev(self.as_raw(), port_num) };
        let raw = core::ptr::NonNull::new(raw.cast::<NetDevice>())?;
        // SAFETY: The core has taken a reference for us.
        Some(unsafe { ARef::from_raw(raw) })
    }

    /// Speed and width of a port by what its net device says.
    ///
    /// The first is `enum ib_port_speed`, the second `enum ib_port_width`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port that is not Ethernet, `ENODEV` for one without a net device.
    pub fn eth_speed(&self, port_num: u32, _sleep: &MaySleep) -> Result<(u16, u8)> {
        let (mut speed, mut width) = (0, 0);
        // SAFETY: `self` is a device; both are valid for writes.
        to_result(unsafe {
            bindings::ib_get_eth_speed(self.as_raw(), port_num, &mut speed, &mut width)
        })?;
        Ok((speed, width))
    }
}
