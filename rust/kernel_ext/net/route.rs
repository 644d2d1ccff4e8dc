// SPDX-License-Identifier: GPL-2.0

//! Routes of IPv4 and IPv6 packets to a destination: `struct dst_entry`.
//!
//! C headers: `include/net/route.h`, `include/net/ip6_route.h`, `include/net/dst.h`.

use super::{
    device::NetDevice,
    header::{Be16, Ipv4Header},
    ns::NetNamespace,
};
use crate::{bindings, error::EHOSTUNREACH};
use core::ptr::NonNull;
use kernel::{error::from_err_ptr, prelude::*, sync::aref::ARef, sync::rcu};

/// The key of an IPv4 route lookup for a UDP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow4 {
    /// The index of the egress device; 0: any.
    pub device: u32,
    /// Source address.
    pub source: [u8; 4],
    /// Destination address.
    pub destination: [u8; 4],
    /// DSCP and ECN.
    pub tos: u8,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

/// The key of an IPv6 route lookup for a UDP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow6 {
    /// The index of the egress device; 0: any. Required for link-local addresses.
    pub device: u32,
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

/// The priority of packets with a type of service, as the kernel's sockets and routers set it: one of `TC_PRIO_*`, 0 for best
/// effort.
pub fn priority_of(tos: u8) -> u32 {
    // SAFETY: The function reads a constant table, for any argument.
    unsafe { bindings::rt_tos2priority(tos) }
}

/// A counted reference to a cached route, and one to the loopback device of its namespace.
///
/// The namespace's counters of IPv6 and IPsec routes must exist until the route is released. A reference to the namespace
/// itself would prevent its deletion, and so that of its devices. The loopback device never leaves the namespace, whose
/// deletion first unregisters its devices, and waits for their references.
///
/// # Invariants
///
/// `dst` is valid, and `self` owns one reference to it.
struct Dst {
    dst: NonNull<bindings::dst_entry>,
    loopback: ARef<NetDevice>,
}

impl Dst {
    /// Executes a lookup.
    ///
    /// # Safety
    ///
    /// `lookup` returns an `ERR_PTR`, or a route whose reference it hands over.
    unsafe fn lookup(
        net: &NetNamespace,
        lookup: impl FnOnce(*mut bindings::net) -> *mut bindings::dst_entry,
    ) -> Result<Self> {
        // This reference is needed until the loopback device is referenced.
        let net = net.get().ok_or(EHOSTUNREACH)?;
        let dst = NonNull::new(from_err_ptr(lookup(net.as_raw()))?).ok_or(EHOSTUNREACH)?;
        // SAFETY: A namespace that is not taken down has its loopback device.
        let loopback = unsafe { NetDevice::from_raw(bindings::net_loopback_dev(net.as_raw())) };
        // INVARIANT: By the safety requirements.
        Ok(Self {
            dst,
            loopback: loopback.into(),
        })
    }

    #[inline]
    fn raw(&self) -> *mut bindings::dst_entry {
        self.dst.as_ptr()
    }
}

impl Clone for Dst {
    fn clone(&self) -> Self {
        // SAFETY: The route is valid.
        unsafe { bindings::dst_hold(self.raw()) };
        Self {
            dst: self.dst,
            loopback: self.loopback.clone(),
        }
    }
}

impl Drop for Dst {
    fn drop(&mut self) {
        // SAFETY: `self` owns the reference. The loopback device is released after it.
        unsafe { bindings::dst_release(self.raw()) };
    }
}

// SAFETY: Routes may be used from any thread.
unsafe impl Send for Dst {}
// SAFETY: Routes may be used from several threads at once.
unsafe impl Sync for Dst {}

/// A counted reference to an IPv4 route. May be cached; see [`Route4::is_valid`].
///
/// The deletion of its namespace waits for it: cached routes must be dropped when the device is unregistered.
#[derive(Clone)]
pub struct Route4(Dst);

impl Route4 {
    /// Looks up a route. Any context but hard interrupts.
    ///
    /// # Errors
    ///
    /// Routing errors such as `ENETUNREACH`, `EHOSTUNREACH`, `EACCES`.
    pub fn lookup(net: &NetNamespace, flow: &Flow4) -> Result<Self> {
        // SAFETY: The arguments are valid; the function returns a counted reference or an errno.
        let dst = unsafe {
            Dst::lookup(net, |net| {
                bindings::udp_route4(
                    net,
                    flow.device as i32,
                    u32::from_ne_bytes(flow.source),
                    u32::from_ne_bytes(flow.destination),
                    flow.tos,
                    flow.source_port.to_be(),
                    flow.destination_port.to_be(),
                )
            })
        }?;
        Ok(Self(dst))
    }

    /// Whether a new lookup would return the same route.
    #[inline]
    pub fn is_valid(&self) -> bool {
        // SAFETY: The route is valid.
        unsafe { !bindings::dst_check(self.0.raw(), 0).is_null() }
    }
}

/// A counted reference to an IPv6 route. May be cached; see [`Route6::is_valid`].
///
/// The deletion of its namespace waits for it, as for a [`Route4`].
#[derive(Clone)]
pub struct Route6 {
    dst: Dst,
    cookie: u32,
}

impl Route6 {
    /// Looks up a route. Any context but hard interrupts.
    ///
    /// # Errors
    ///
    /// Routing errors such as `ENETUNREACH`, `EHOSTUNREACH`, `EACCES`.
    pub fn lookup(net: &NetNamespace, flow: &Flow6) -> Result<Self> {
        // SAFETY: The addresses are valid, and need no alignment; the function returns a counted reference or an errno.
        let dst = unsafe {
            Dst::lookup(net, |net| {
                bindings::udp_route6(
                    net,
                    flow.device as i32,
                    flow.source.as_ptr().cast(),
                    flow.destination.as_ptr().cast(),
                    flow.traffic_class,
                    flow.source_port.to_be(),
                    flow.destination_port.to_be(),
                )
            })
        }?;
        // SAFETY: The route is of IPv6.
        let cookie = unsafe { bindings::route6_cookie(dst.raw()) };
        Ok(Self { dst, cookie })
    }

    /// Whether a new lookup would return the same route.
    #[inline]
    pub fn is_valid(&self) -> bool {
        // SAFETY: The route is valid.
        unsafe { !bindings::dst_check(self.dst.raw(), self.cookie).is_null() }
    }
}

/// Common methods of IPv4 and IPv6 routes.
///
/// # Safety
///
/// `as_raw` returns a route that is valid as long as `self`.
pub unsafe trait Route {
    #[doc(hidden)]
    fn as_raw(&self) -> *mut bindings::dst_entry;

    /// Returns the MTU of this route, in bytes, including the IP header.
    fn mtu(&self) -> u32 {
        // SAFETY: The route is valid.
        unsafe { bindings::dst_mtu(self.as_raw()) }
    }

    /// Returns the egress device.
    fn device(&self) -> ARef<NetDevice> {
        let _guard = rcu::read_lock();
        // SAFETY: The route is valid, so that it has a device, which RCU readers may use.
        unsafe { NetDevice::from_raw(bindings::dst_dev_rcu(self.as_raw())) }.into()
    }
}

// SAFETY: A `Route4` owns a reference to its route.
unsafe impl Route for Route4 {
    fn as_raw(&self) -> *mut bindings::dst_entry {
        self.0.raw()
    }
}

// SAFETY: A `Route6` owns a reference to its route.
unsafe impl Route for Route6 {
    fn as_raw(&self) -> *mut bindings::dst_entry {
        self.dst.raw()
    }
}

/// Returns the first of `segments` successive IPv4 identifications for packets between two addresses. Any context.
///
/// A packet that will be segmented needs one per segment; others need 1.
pub fn ipv4_identification(
    net: &NetNamespace,
    source: [u8; 4],
    destination: [u8; 4],
    protocol: u8,
    segments: u16,
) -> Be16 {
    /// The header with the alignment that C requires.
    #[repr(C, align(4))]
    struct Aligned(Ipv4Header);

    let mut header = Aligned(Ipv4Header {
        source,
        destination,
        protocol,
        ..Default::default()
    });
    // SAFETY: The namespace and the header are valid; the kernel reads addresses and protocol, and writes the field.
    unsafe {
        bindings::__ip_select_ident(net.as_raw(), (&raw mut header).cast(), segments.into());
    }
    header.0.identification
}
