// SPDX-License-Identifier: GPL-2.0

//! Resolving IP addresses to hardware addresses: routes for packets of any protocol, and neighbours.
//!
//! C headers: `include/net/route.h`, `include/net/ip6_route.h`, `include/net/neighbour.h`, `include/net/netevent.h`.

use super::{
    address::IpAddress,
    chain::{Chain, Change, NotifierBlock},
    device::NetDevice,
    ns::{NetNamespace, NetRef},
};
use crate::{bindings, context::MaySleep, error::EHOSTUNREACH};
use core::{ffi::c_void, marker::PhantomData, ptr::NonNull};
use kernel::{
    error::{from_err_ptr, to_result},
    ffi::{c_int, c_ulong},
    prelude::*,
    sync::rcu,
};

/// The hardware address of any kind of device, padded with zeros.
pub type HardwareAddress = [u8; bindings::MAX_ADDR_LEN as usize];

impl NetDevice {
    /// Returns the whole hardware address. During a change the result may be mixed.
    pub fn hardware_address(&self) -> HardwareAddress {
        // SAFETY: The device is valid; it has an array of `MAX_ADDR_LEN` bytes for its address until it is freed.
        unsafe {
            let address = (&raw const (*self.as_raw()).dev_addr).read_volatile();
            address.cast::<HardwareAddress>().read_volatile()
        }
    }

    /// Returns the number of bytes of the hardware address.
    pub fn hardware_address_len(&self) -> usize {
        // SAFETY: The device is valid.
        unsafe { (&raw const (*self.as_raw()).addr_len).read_volatile() }.into()
    }

    /// Returns the broadcast address.
    pub fn broadcast_address(&self) -> HardwareAddress {
        // SAFETY: The device is valid.
        unsafe { (&raw const (*self.as_raw()).broadcast).read_volatile() }
    }
}

/// A route to a destination, as a counted reference, and one to its namespace.
///
/// # Invariants
///
/// `dst` is valid, and `self` owns one reference to it.
pub struct Path {
    dst: NonNull<bindings::dst_entry>,
    destination: IpAddress,
    _net: NetRef,
}

impl Path {
    /// Looks up a route; returns it with the source address, which the route chooses if `source` is unspecified (all
    /// zeros). Any context but hard interrupts.
    ///
    /// `device` is the index of the egress device; 0: any.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an IPv4 and an IPv6 address; routing errors such as `ENETUNREACH`, `EHOSTUNREACH`.
    pub fn lookup(
        net: &NetNamespace,
        device: i32,
        source: IpAddress,
        destination: IpAddress,
    ) -> Result<(Self, IpAddress)> {
        let net = net.get().ok_or(EHOSTUNREACH)?;
        // SAFETY: The namespace and the addresses are valid; the function returns a counted reference to a route.
        let (dst, source) = unsafe {
            match (source, destination) {
                (IpAddress::V4(source), IpAddress::V4(to)) => {
                    let mut chosen = u32::from_ne_bytes(source);
                    let to = u32::from_ne_bytes(to);
                    let dst = bindings::any_route4(net.as_raw(), device, &mut chosen, to);
                    (dst, IpAddress::V4(chosen.to_ne_bytes()))
                }
                (IpAddress::V6(mut source), IpAddress::V6(to)) => {
                    let (chosen, to) = (source.as_mut_ptr().cast(), to.as_ptr().cast());
                    let dst = bindings::any_route6(net.as_raw(), device, chosen, to);
                    (dst, IpAddress::V6(source))
                }
                _ => return Err(EINVAL),
            }
        };
        let dst = NonNull::new(from_err_ptr(dst)?).ok_or(EHOSTUNREACH)?;
        // INVARIANT: The function has returned a counted reference.
        let path = Self {
            dst,
            destination,
            _net: net,
        };
        Ok((path, source))
    }

    /// Returns the hop limit of the route.
    pub fn hop_limit(&self) -> c_int {
        // SAFETY: By the type invariants the route is valid.
        unsafe { bindings::dst_hop_limit(self.dst.as_ptr()) }
    }

    /// Whether the destination is a local address.
    pub fn is_local(&self) -> bool {
        // SAFETY: By the type invariants the route is valid.
        unsafe { bindings::dst_is_local(self.dst.as_ptr()) }
    }

    /// Whether the route has a gateway.
    pub fn has_gateway(&self) -> bool {
        // SAFETY: By the type invariants the route is valid.
        unsafe { bindings::dst_has_gateway(self.dst.as_ptr()) }
    }

    /// Returns the egress device.
    pub fn device<'g>(&self, _guard: &'g rcu::Guard) -> &'g NetDevice {
        // SAFETY: By the type invariants, and the guard is the required read-side critical section; a route always has
        // a device, at least the loopback device of its namespace.
        unsafe { NetDevice::from_raw(bindings::dst_dev_rcu(self.dst.as_ptr()).cast()) }
    }

    /// Returns the hardware address of the next hop.
    ///
    /// # Errors
    ///
    /// `ENODATA` while it is being resolved, see [`NeighbourListener`].
    pub fn next_hop_address(&self, _may_sleep: &MaySleep) -> Result<HardwareAddress> {
        let destination: *const c_void = match &self.destination {
            IpAddress::V4(address) => address.as_ptr().cast(),
            IpAddress::V6(address) => address.as_ptr().cast(),
        };
        let mut address = HardwareAddress::default();
        // SAFETY: By the type invariants; the destination has the route's IP version, and the result has room for any
        // hardware address.
        to_result(unsafe {
            bindings::dst_next_hop_address(self.dst.as_ptr(), destination, address.as_mut_ptr())
        })?;
        Ok(address)
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        // SAFETY: `self` owns the reference.
        unsafe { bindings::dst_release(self.dst.as_ptr()) };
    }
}

/// A listener for hardware addresses of neighbours.
pub trait NeighbourListener: Send + Sync + 'static {
    /// The hardware address of any neighbour was resolved or has changed. Must not sleep.
    fn neighbour_known(&self);
}

/// The notifier chain of network events.
pub struct NetEvents<T>(PhantomData<T>);

// SAFETY: The two functions change the chain of network events, and unregistering waits for calls; the data of an
// event is valid during the call.
unsafe impl<T: NeighbourListener> Chain for NetEvents<T> {
    type Listener = T;
    const REGISTER: Change = bindings::netevent_register;
    const UNREGISTER: Change = bindings::netevent_unregister;

    unsafe fn notify(listener: &T, event: c_ulong, of: *mut c_void) {
        // SAFETY: By the safety requirements.
        if unsafe { bindings::netevent_is_neigh_valid(event, of) } {
            listener.neighbour_known();
        }
    }
}

/// A listener for the neighbours of all namespaces. Dropping it unregisters it, and may sleep.
pub type NeighbourRegistration<T> = NotifierBlock<NetEvents<T>>;

/// A neighbour that has changed.
pub struct Neighbour {
    /// Its address.
    pub address: IpAddress,
    /// The cookie of the namespace, see [`NetNamespace::cookie`].
    pub net: u64,
    /// The index of the net device in that.
    pub device: u32,
    /// Its hardware address.
    pub hardware: HardwareAddress,
    /// The number of bytes of that.
    pub hardware_len: u8,
}

/// A listener for neighbours, whose state or hardware address has changed.
pub trait NeighbourUpdate: Send + Sync + 'static {
    /// A neighbour has changed. Must not sleep.
    fn updated(&self, neighbour: &Neighbour);
}

/// The notifier chain of network events, of which changed neighbours are passed on.
pub struct Updates<T>(PhantomData<T>);

// SAFETY: The two functions change the chain of network events, and unregistering waits for calls; the data of an
// event is valid during the call.
unsafe impl<T: NeighbourUpdate> Chain for Updates<T> {
    type Listener = T;
    const REGISTER: Change = bindings::netevent_register;
    const UNREGISTER: Change = bindings::netevent_unregister;

    unsafe fn notify(listener: &T, event: c_ulong, of: *mut c_void) {
        let (mut address, mut net, mut index, mut hardware_len) = ([0u8; 16], 0, 0, 0);
        let mut hardware = HardwareAddress::default();
        // SAFETY: By the safety requirements; there is room for any address.
        let family = unsafe {
            bindings::netevent_neighbour(
                event,
                of,
                address.as_mut_ptr().cast(),
                &mut net,
                &mut index,
                hardware.as_mut_ptr().cast(),
                &mut hardware_len,
            )
        };
        let address = match family.unsigned_abs() {
            bindings::AF_INET => IpAddress::V4(address.first_chunk().copied().unwrap_or_default()),
            bindings::AF_INET6 => IpAddress::V6(address),
            _ => return,
        };
        listener.updated(&Neighbour {
            address,
            net,
            device: index.unsigned_abs(),
            hardware,
            hardware_len,
        });
    }
}

/// A listener for changes of the neighbours of all namespaces. Dropping it unregisters it, and may sleep.
pub type NeighbourUpdates<T> = NotifierBlock<Updates<T>>;
