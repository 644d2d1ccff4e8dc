// SPDX-License-Identifier: GPL-2.0

//! The ports of a device: `struct ib_port_data`, which inline functions of the header read.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use kernel_ext::net::device::NetDevice;
use rdma_bindings as bindings;

use super::{Device, DeviceMemory};
use crate::{
    abi::port::{Mtu, PortImmutable},
    MaySleep,
};

/// The `struct ib_port_data` of all ports of a device, indexed by port number.
pub struct PortArray(KVec<bindings::ib_port_data>);

// SAFETY: The array is plain memory, and its elements have their own locks.
unsafe impl Send for PortArray {}
// SAFETY: The array is plain memory, and its elements have their own locks.
unsafe impl Sync for PortArray {}

impl PortArray {
    /// Allocates the data for the ports of `device`, whose number is set.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a device without a port, or one with 2^32 - 1, `ENOMEM`.
    pub fn new(device: &DeviceMemory, _sleep: &MaySleep) -> Result<Self> {
        let count = device.phys_port_cnt();
        if count == 0 || count == u32::MAX {
            return Err(EINVAL);
        }
        let last = *device.ports().end() as usize;
        let mut array = KVec::with_capacity(last + 1, GFP_KERNEL)?;
        for _ in 0..=last {
            array.push(pin_init::zeroed::<bindings::ib_port_data>(), GFP_KERNEL)?;
        }
        for port in array.iter_mut() {
            // SAFETY: The vector owns the array, which is not moved any more.
            unsafe { bindings::ib_port_data_init_members(port, device.as_raw()) };
        }
        Ok(Self(array))
    }

    /// Sets the array in the device, where the header's functions read it.
    ///
    /// # Safety
    ///
    /// The array is valid as long as the device.
    pub unsafe fn publish(&self, device: &DeviceMemory) {
        // SAFETY: The device is not registered yet, and the caller is the only one that sets the field.
        unsafe { (*device.as_raw()).port_data = self.0.as_ptr().cast_mut() };
    }
}

impl Device {
    /// Queries the immutable data of each port from the driver, and stores it. Called during registration.
    ///
    /// # Errors
    ///
    /// Those of the driver; `EINVAL` for a port whose maximum MAD size contradicts its capabilities.
    ///
    /// # Safety
    ///
    /// The device is being made or registered by this thread alone, and no other code reads the members that are set here
    /// yet.
    pub unsafe fn fill_immutables(&self, sleep: &MaySleep) -> Result {
        for port in self.ports() {
            let data = self.port_data(port).ok_or(EINVAL)?;
            // SAFETY: By the safety requirements.
            let immutable: &mut PortImmutable = unsafe { &mut (*data.as_ptr()).immutable };
            self.driver_port_immutable(port, immutable, sleep)?;
            let has_mad = immutable.core_cap_flags & bindings::RDMA_CORE_CAP_IB_MAD != 0;
            if !has_mad && immutable.max_mad_size != 0 {
                return Err(EINVAL);
            }
        }
        Ok(())
    }

    /// Stores the state of a port, and returns whether it has changed.
    pub fn port_state_changed(&self, port: u32, state: u32, _sleep: &MaySleep) -> bool {
        if self.port_data(port).is_none() {
            return false;
        }
        // SAFETY: The port was checked; the token proves process context, with interrupts enabled.
        unsafe { bindings::ib_port_state_changed(self.as_raw(), port, state) }
    }
}

/// Sets the MTU and the state of an iWARP port in `attr`, as those of its net device.
pub fn fill_from_netdev(ndev: &NetDevice, attr: &mut bindings::ib_port_attr) {
    attr.max_mtu = bindings::IB_MTU_4096;
    attr.active_mtu = Mtu::fitting(ndev.mtu()) as u32;
    (attr.state, attr.phys_state) = if !ndev.has_carrier() {
        (
            bindings::IB_PORT_DOWN,
            bindings::IB_PORT_PHYS_STATE_DISABLED as u8,
        )
    } else if has_ipv4(ndev) {
        (
            bindings::IB_PORT_ACTIVE,
            bindings::IB_PORT_PHYS_STATE_LINK_UP as u8,
        )
    } else {
        (
            bindings::IB_PORT_INIT,
            bindings::IB_PORT_PHYS_STATE_PORT_CONFIGURATION_TRAINING as u8,
        )
    };
}

/// Whether a net device has an IPv4 address.
fn has_ipv4(ndev: &NetDevice) -> bool {
    // SAFETY: `ndev` is a valid net device.
    unsafe { bindings::netdev_has_ipv4(ndev.as_raw().cast()) }
}

/// The port state that follows from the net device: `IB_PORT_ACTIVE` or `IB_PORT_DOWN`.
pub fn netdev_port_state(ndev: &NetDevice) -> u32 {
    // SAFETY: `ndev` is a valid net device.
    unsafe { bindings::ib_get_curr_port_state(ndev.as_raw().cast()) }
}

/// Whether a net device is a bond or team, or a port of one.
pub fn is_lag(ndev: &NetDevice) -> bool {
    // SAFETY: `ndev` is a valid net device.
    unsafe { bindings::netdev_is_lag(ndev.as_raw().cast()) }
}

/// The pointer to the immutable data of a port, for the header's functions; null for an unknown port.
pub fn immutable_ptr(device: &Device, port: u32) -> *const PortImmutable {
    match device.port_data(port) {
        // SAFETY: `data` is a valid element of the port array.
        Some(data) => unsafe { &raw const (*data.as_ptr()).immutable },
        None => core::ptr::null(),
    }
}

/// The speed of a net device in Mbit/s, if it is known, and the number of its lanes, 0 if unknown. `None` where the net
/// device cannot be queried. Takes RTNL.
///
/// # Errors
///
/// `ENODEV` if the net device is being unregistered.
pub fn netdev_speed(ndev: &NetDevice, _sleep: &MaySleep) -> Result<Option<(Option<u32>, u32)>> {
    let (mut speed, mut lanes) = (0, 0);
    // SAFETY: `ndev` is a valid net device, and the token proves that the context may sleep.
    let ret = unsafe { bindings::netdev_speed(ndev.as_raw().cast(), &mut speed, &mut lanes) };
    match ret {
        0 => Ok(Some(((speed != u32::MAX).then_some(speed), lanes))),
        _ if ret == ENODEV.to_errno() => Err(ENODEV),
        _ => Ok(None),
    }
}
