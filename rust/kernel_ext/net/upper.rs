// SPDX-License-Identifier: GPL-2.0

//! Upper and lower net devices: VLANs, bonds; iteration over all net devices.
//!
//! C headers: `include/linux/netdevice.h`, `include/net/bonding.h`.

use super::device::NetDevice;
use crate::{bindings, context::MaySleep};
use core::{ffi::c_void, ptr::NonNull};
use kernel::{
    ffi::c_int,
    prelude::*,
    sync::{aref::ARef, rcu},
};

impl NetDevice {
    /// Whether this is a port of a bond.
    pub fn is_bond_port(&self) -> bool {
        // SAFETY: The device is valid.
        unsafe { bindings::netif_is_bond_slave(self.as_raw()) }
    }

    /// Returns the active port of a bond; `None` if this is not a bond, or its mode has no active port.
    pub fn bond_active_port<'g>(&self, _guard: &'g rcu::Guard) -> Option<&'g Self> {
        if !self.is_bond() {
            return None;
        }
        // SAFETY: The device is a bond, and the guard is the required read-side critical section.
        let port = unsafe { bindings::bond_active_port_rcu(self.as_raw()) };
        // SAFETY: A device that an RCU reader finds is valid until the critical section ends.
        NonNull::new(port).map(|port| unsafe { Self::from_raw(port.as_ptr()) })
    }

    /// Returns the VLAN ID of the VLAN device directly below this device, if there is one.
    pub fn lower_vlan_id(&self, _guard: &rcu::Guard) -> Option<u16> {
        // SAFETY: The device is valid, and the guard is the required read-side critical section.
        let id = unsafe { bindings::netdev_lower_vlan_id_rcu(self.as_raw()) };
        u16::try_from(id).ok()
    }

    /// Returns all upper devices, at any level, from the lowest one up.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn uppers(&self) -> Result<KVec<ARef<Self>>> {
        let mut to = Uppers {
            devices: KVec::new(),
            complete: true,
        };
        let _guard = rcu::read_lock();
        let mut private = bindings::netdev_nested_priv {
            flags: 0,
            data: (&raw mut to).cast(),
        };
        // SAFETY: The device is valid, the guard is the required read-side critical section, and the callback gets
        // `to`.
        unsafe {
            bindings::netdev_walk_all_upper_dev_rcu(self.as_raw(), Some(Uppers::push), &mut private)
        };
        if to.complete {
            Ok(to.devices)
        } else {
            Err(ENOMEM)
        }
    }

    /// Calls `f` with each net device of each namespace, in order, under RTNL: devices and their addresses do not
    /// change meanwhile.
    ///
    /// Not to be called under RTNL.
    pub fn for_each<F: FnMut(&Self)>(mut f: F, _may_sleep: &MaySleep) {
        /// # Safety
        ///
        /// `f` is an `F` with exclusive access, and `device` is valid.
        unsafe extern "C" fn call<F: FnMut(&NetDevice)>(
            f: *mut c_void,
            device: *mut bindings::net_device,
        ) {
            // SAFETY: By the safety requirements.
            unsafe { (*f.cast::<F>())(NetDevice::from_raw(device)) }
        }
        // SAFETY: The token proves that the context may sleep; `call` gets `f`.
        unsafe { bindings::netdev_walk_all(Some(call::<F>), (&raw mut f).cast()) };
    }
}

/// Result of iterating over the upper devices.
struct Uppers {
    devices: KVec<ARef<NetDevice>>,
    complete: bool,
}

impl Uppers {
    /// # Safety
    ///
    /// `upper` is a valid device, and `private` has an `Uppers` with exclusive access. Atomic context.
    unsafe extern "C" fn push(
        upper: *mut bindings::net_device,
        private: *mut bindings::netdev_nested_priv,
    ) -> c_int {
        // SAFETY: By the safety requirements.
        let (this, upper) = unsafe {
            (
                &mut *(*private).data.cast::<Self>(),
                NetDevice::from_raw(upper),
            )
        };
        this.complete &= this.devices.push(upper.into(), GFP_ATOMIC).is_ok();
        0
    }
}
