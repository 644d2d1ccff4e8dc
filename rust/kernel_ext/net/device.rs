// SPDX-License-Identifier: GPL-2.0

//! Net devices: `struct net_device`, found by index, name or address, and their attributes.
//!
//! C header: `include/linux/netdevice.h`.

use super::ns::{NetNamespace, NetRef};
use crate::{
    bindings,
    context::MaySleep,
    entry::{IntoC, View},
};
use core::ptr::{null_mut, NonNull};
use kernel::{
    error::to_result,
    prelude::*,
    sync::{
        aref::{ARef, AlwaysRefCounted},
        rcu,
    },
    types::Opaque,
};

/// A net device. [`ARef<NetDevice>`] is a counted reference.
///
/// References must be dropped when the device is unregistered (see [`notifier`](super::notifier)): unregistering waits
/// for all of them, and so does the deletion of the device's namespace.
#[repr(transparent)]
pub struct NetDevice(Opaque<bindings::net_device>);

// SAFETY: Devices may be used from any thread.
unsafe impl Send for NetDevice {}
// SAFETY: The methods read members that C code reads without a lock too, or take the necessary locks.
unsafe impl Sync for NetDevice {}

// SAFETY: `dev_hold` and `dev_put` count references; a device lives until its count is zero.
unsafe impl AlwaysRefCounted for NetDevice {
    fn inc_ref(&self) {
        // SAFETY: The device is valid, as `self` is.
        unsafe { bindings::dev_hold(self.as_raw()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: By the safety requirements of the trait a reference is given up.
        unsafe { bindings::dev_put(obj.cast().as_ptr()) };
    }
}

// SAFETY: The type is a transparent wrapper of an `Opaque` `struct net_device`.
unsafe impl View for NetDevice {
    type C = bindings::net_device;
}

impl IntoC for Option<ARef<NetDevice>> {
    type Raw = *mut bindings::net_device;

    /// Passes the reference to C.
    fn into_c(self) -> Self::Raw {
        match self {
            Some(ndev) => ARef::into_raw(ndev).as_ptr().cast(),
            None => null_mut(),
        }
    }
}

/// A MAC address, in network byte order.
pub type MacAddress = [u8; 6];

/// Reads a field of the C structure once (`READ_ONCE()`): another CPU may be writing it.
macro_rules! read {
    ($dev:expr, $member:ident) => {{
        let dev: *mut bindings::net_device = $dev.as_raw();
        // SAFETY: The device is valid, as the reference to it is; any value of the member's type is valid.
        unsafe { (&raw const (*dev).$member).read_volatile() }
    }};
}

impl NetDevice {
    /// Borrows a device from its C pointer.
    ///
    /// # Safety
    ///
    /// `ptr` is a valid device throughout `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::net_device) -> &'a Self {
        // SAFETY: By the safety requirements; `NetDevice` is transparent.
        unsafe { &*ptr.cast() }
    }

    /// Takes over a counted reference from C. `None` for null.
    ///
    /// # Safety
    ///
    /// `ptr` is null, or a device of which the caller hands over a reference.
    pub unsafe fn from_counted(ptr: *mut bindings::net_device) -> Option<ARef<Self>> {
        let ptr = NonNull::new(ptr)?;
        // SAFETY: By the safety requirements; `NetDevice` is transparent.
        Some(unsafe { ARef::from_raw(ptr.cast()) })
    }

    /// Returns the C pointer.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    /// Finds a device of a namespace by its index. Any context but hard interrupts.
    pub fn by_index(net: &NetNamespace, index: u32) -> Option<ARef<Self>> {
        let index = i32::try_from(index).ok()?;
        // SAFETY: The namespace is valid; the function returns a counted reference.
        unsafe { Self::from_counted(bindings::dev_get_by_index(net.as_raw(), index)) }
    }

    /// Like [`NetDevice::by_index`], without taking a reference.
    pub fn by_index_rcu<'g>(
        net: &NetNamespace,
        index: u32,
        _guard: &'g rcu::Guard,
    ) -> Option<&'g Self> {
        let index = i32::try_from(index).ok()?;
        // SAFETY: The namespace is valid, and the guard is the required read-side critical section.
        let dev = NonNull::new(unsafe { bindings::dev_get_by_index_rcu(net.as_raw(), index) })?;
        // SAFETY: A device that an RCU reader finds is valid until the critical section ends.
        Some(unsafe { Self::from_raw(dev.as_ptr()) })
    }

    /// Finds a device of a namespace by its name, or one of its alternative names. Any context but hard interrupts.
    pub fn by_name(net: &NetNamespace, name: &CStr) -> Option<ARef<Self>> {
        // SAFETY: The namespace and the name are valid; the function returns a counted reference.
        unsafe { Self::from_counted(bindings::dev_get_by_name(net.as_raw(), name.as_char_ptr())) }
    }

    /// Returns the device's index in its namespace; never 0.
    #[inline]
    pub fn index(&self) -> u32 {
        read!(self, ifindex).unsigned_abs()
    }

    /// Returns the device's name. During a rename the result may be mixed.
    pub fn name(&self) -> DeviceName {
        DeviceName(read!(self, name))
    }

    /// Returns the MTU, in bytes, without the link-layer header.
    #[inline]
    pub fn mtu(&self) -> u32 {
        read!(self, mtu)
    }

    /// Returns the device's flags, `IFF_*` of `netdevice(7)`.
    #[inline]
    pub fn flags(&self) -> u32 {
        read!(self, flags)
    }

    /// Adds an Ethernet multicast address (`dev_mc_add()`); calls are counted.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` for a device without Ethernet addresses.
    pub fn add_multicast(&self, address: &MacAddress, _may_sleep: &MaySleep) -> Result {
        self.check_ethernet()?;
        // SAFETY: The device is valid, and its addresses have 6 bytes, as checked above.
        to_result(unsafe { bindings::dev_mc_add(self.as_raw(), address.as_ptr()) })
    }

    /// Reverts one call of [`Self::add_multicast`]. A surplus call has no effect.
    pub fn remove_multicast(&self, address: &MacAddress, _may_sleep: &MaySleep) {
        if self.check_ethernet().is_ok() {
            // SAFETY: The device is valid, and its addresses have 6 bytes, as checked above. The only error is that the
            // address was not added.
            unsafe { bindings::dev_mc_del(self.as_raw(), address.as_ptr()) };
        }
    }

    fn check_ethernet(&self) -> Result {
        if usize::from(read!(self, addr_len)) != size_of::<MacAddress>() {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Whether the device is administratively up (`IFF_UP`).
    pub fn is_up(&self) -> bool {
        self.flags() & bindings::IFF_UP != 0
    }

    /// Whether this is a loopback device (`IFF_LOOPBACK`).
    #[inline]
    pub fn is_loopback(&self) -> bool {
        self.flags() & bindings::IFF_LOOPBACK != 0
    }

    /// Returns the link type.
    pub fn link_type(&self) -> LinkType {
        LinkType(read!(self, type_))
    }

    /// Returns the first 6 bytes of the hardware address; a shorter one is padded with zeros. During a change the
    /// result may be mixed.
    pub fn address(&self) -> MacAddress {
        let address = read!(self, dev_addr).cast::<MacAddress>();
        // SAFETY: A device has an array of `MAX_ADDR_LEN` (32) bytes for its address until it is freed.
        unsafe { address.read_volatile() }
    }

    /// Whether the device is running (`netif_running()`).
    pub fn is_running(&self) -> bool {
        // SAFETY: The device is valid.
        unsafe { bindings::netif_running(self.as_raw()) }
    }

    /// Whether the device has a carrier.
    pub fn has_carrier(&self) -> bool {
        // SAFETY: The device is valid.
        unsafe { bindings::netif_carrier_ok(self.as_raw()) }
    }

    /// Whether the operational state (RFC 2863) is up or unknown.
    pub fn is_operational(&self) -> bool {
        // SAFETY: The device is valid.
        unsafe { bindings::netif_oper_up(self.as_raw()) }
    }

    /// Whether the device is registered, and not being unregistered.
    pub fn is_registered(&self) -> bool {
        u32::from(read!(self, reg_state)) == bindings::NETREG_REGISTERED
    }

    /// Whether this is a VLAN device.
    pub fn is_vlan(&self) -> bool {
        // SAFETY: The device is valid.
        unsafe { bindings::is_vlan_dev(self.as_raw()) }
    }

    /// Returns the VLAN ID, 0 to 4095, of a VLAN device.
    pub fn vlan_id(&self) -> Option<u16> {
        if !self.is_vlan() {
            return None;
        }
        // SAFETY: The device is a VLAN.
        Some(unsafe { bindings::vlan_dev_vlan_id(self.as_raw()) })
    }

    /// Returns the real device below all VLANs, if this is a VLAN device.
    pub fn vlan_real_device(&self) -> Option<ARef<Self>> {
        if !self.is_vlan() {
            return None;
        }
        // SAFETY: The device is a VLAN. It holds a reference to the device below until it is freed itself, and so do
        // VLANs below it.
        Some(unsafe { Self::from_raw(bindings::vlan_dev_real_dev(self.as_raw())) }.into())
    }

    /// Whether this is a bond.
    pub fn is_bond(&self) -> bool {
        // SAFETY: The device is valid.
        unsafe { bindings::netif_is_bond_master(self.as_raw()) }
    }

    /// Returns the bond, bridge or team that this device is a port of.
    pub fn master(&self) -> Option<ARef<Self>> {
        let _guard = rcu::read_lock();
        // SAFETY: The device is valid, and the guard is the required read-side critical section.
        let master = unsafe { bindings::netdev_master_upper_dev_get_rcu(self.as_raw()) };
        let master = NonNull::new(master)?;
        // SAFETY: A device that an RCU reader finds is valid until the critical section ends.
        Some(unsafe { Self::from_raw(master.as_ptr()) }.into())
    }

    /// Whether `upper` is an upper device of this one, at any level (a VLAN, a bond, a macvlan …).
    pub fn has_upper(&self, upper: &Self, _guard: &rcu::Guard) -> bool {
        // SAFETY: Both devices are valid, and the guard is the required read-side critical section.
        unsafe { bindings::netdev_has_upper_dev_all_rcu(self.as_raw(), upper.as_raw()) }
    }

    /// Calls `f` with the device's namespace, which exists during the call. `f` must not sleep.
    ///
    /// `None` for a device that was unregistered; not yet during the notification of that.
    pub fn with_namespace<R>(&self, f: impl FnOnce(&NetNamespace) -> R) -> Option<R> {
        let _guard = rcu::read_lock();
        if u32::from(read!(self, reg_state)) >= bindings::NETREG_UNREGISTERED {
            return None;
        }
        // SAFETY: The device is valid. A namespace is taken down after its devices were unregistered or moved, both of
        // which wait for RCU readers, as `dev_net_rcu` requires.
        Some(f(unsafe {
            NetNamespace::from_raw(bindings::dev_net_rcu(self.as_raw()))
        }))
    }

    /// Returns a counted reference to the device's namespace, unless that is being deleted.
    pub fn namespace(&self) -> Option<NetRef> {
        self.with_namespace(NetNamespace::get)?
    }
}

impl PartialEq for NetDevice {
    /// Whether both are the same device.
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for NetDevice {}

/// Link type: `ARPHRD_*` of `<linux/if_arp.h>`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet.
    pub const ETHER: Self = Self(1);
    /// IP over InfiniBand.
    pub const INFINIBAND: Self = Self(32);
    /// A loopback device.
    pub const LOOPBACK: Self = Self(772);
    /// No link-layer header: a tunnel.
    pub const NONE: Self = Self(0xfffe);
}

const NAME_SIZE: usize = bindings::IFNAMSIZ as usize;

/// A device's name: at most 15 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DeviceName([u8; NAME_SIZE]);

impl DeviceName {
    /// Returns the name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or(&[])
    }
}

impl kernel::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        kernel::fmt::Display::fmt(kernel::str::BStr::from_bytes(self.as_bytes()), f)
    }
}
