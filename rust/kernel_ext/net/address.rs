// SPDX-License-Identifier: GPL-2.0

//! IP addresses of net devices, and notification of their changes.
//!
//! C headers: `include/linux/inetdevice.h`, `include/net/addrconf.h`, `include/net/if_inet6.h`.

use super::{
    chain::{Chain, Change, NotifierBlock},
    device::NetDevice,
    ns::NetNamespace,
};
use crate::{bindings, context::MaySleep};
use core::{ffi::c_void, marker::PhantomData, pin::Pin, ptr::NonNull};
use kernel::{
    ffi::c_ulong,
    prelude::*,
    sync::{rcu, Arc},
};

/// An IP address, in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpAddress {
    /// IP version 4.
    V4([u8; 4]),
    /// IP version 6.
    V6([u8; 16]),
}

impl NetDevice {
    /// Returns the device's IPv4 addresses, in the order of its list. Not for hard interrupts.
    ///
    /// For an address with a peer, it is the peer's.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn ipv4_addresses(&self) -> Result<KVec<IpAddress>> {
        // SAFETY: The device is valid; the callback gets a `__be32`.
        self.collect(|to| unsafe {
            bindings::netdev_walk_inet(
                self.as_raw(),
                Some(Collected::push::<4>),
                (&raw mut *to).cast(),
            )
        })
    }

    /// Returns the device's IPv6 addresses, in the order of its list. Not for hard interrupts.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn ipv6_addresses(&self) -> Result<KVec<IpAddress>> {
        // SAFETY: The device is valid; the callback gets an `in6_addr`.
        self.collect(|to| unsafe {
            bindings::netdev_walk_inet6(
                self.as_raw(),
                Some(Collected::push::<16>),
                (&raw mut *to).cast(),
            )
        })
    }

    /// Returns the modified EUI-64 of the device's MAC address, which is the lower half of its link-local address.
    /// `None` for a device whose addresses do not have 6 bytes.
    ///
    /// Reference: RFC 4291, appendix A; devices that share their MAC address (`dev_id`) have that ID instead of 0xfffe
    /// (`net/addrconf.h`).
    pub fn interface_id(&self) -> Option<[u8; 8]> {
        let device = self.as_raw();
        // SAFETY: The device is valid, and any values of the members are valid.
        let (length, number) = unsafe {
            (
                (&raw const (*device).addr_len).read_volatile(),
                (&raw const (*device).dev_id).read_volatile(),
            )
        };
        let [a, b, c, d, e, f] = self.address();
        if usize::from(length) != size_of::<super::device::MacAddress>() {
            return None;
        }
        if number == 0 {
            return Some([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
        }
        let [high, low] = number.to_be_bytes();
        Some([a, b, c, high, low, d, e, f])
    }

    fn collect(&self, walk: impl FnOnce(&mut Collected)) -> Result<KVec<IpAddress>> {
        let mut to = Collected {
            addresses: KVec::new(),
            complete: true,
        };
        walk(&mut to);
        if to.complete {
            Ok(to.addresses)
        } else {
            Err(ENOMEM)
        }
    }

    /// Finds the device of a namespace with a local address. Not for hard interrupts.
    pub fn by_address_rcu<'g>(
        net: &NetNamespace,
        address: &IpAddress,
        _guard: &'g rcu::Guard,
    ) -> Option<&'g Self> {
        // SAFETY: The namespace and the address are valid, and the guard is the required read-side critical section.
        let device = unsafe {
            match address {
                IpAddress::V4(address) => {
                    bindings::netdev_of_inet_rcu(net.as_raw(), u32::from_ne_bytes(*address))
                }
                IpAddress::V6(address) => {
                    let address = bindings::in6_addr {
                        in6_u: bindings::in6_addr__bindgen_ty_1 { u6_addr8: *address },
                    };
                    bindings::netdev_of_inet6_rcu(net.as_raw(), &address)
                }
            }
        };
        // SAFETY: A device that an RCU reader finds is valid until the critical section ends.
        NonNull::new(device).map(|device| unsafe { Self::from_raw(device.as_ptr()) })
    }
}

/// Result of iterating over addresses.
struct Collected {
    addresses: KVec<IpAddress>,
    complete: bool,
}

impl Collected {
    /// Adds an address of `N` bytes.
    ///
    /// # Safety
    ///
    /// `this` is a `Collected` with exclusive access, and `address` is valid for reads of `N` bytes. Atomic context.
    unsafe extern "C" fn push<const N: usize>(this: *mut c_void, address: *const c_void) {
        // SAFETY: By the safety requirements.
        let (this, bytes) = unsafe {
            (
                &mut *this.cast::<Self>(),
                address.cast::<[u8; N]>().read_unaligned(),
            )
        };
        let Some(address) = ip_address(&bytes) else {
            return;
        };
        this.complete &= this.addresses.push(address, GFP_ATOMIC).is_ok();
    }
}

/// Converts an address of 4 or 16 bytes.
fn ip_address(bytes: &[u8]) -> Option<IpAddress> {
    match bytes.len() {
        4 => bytes.try_into().ok().map(IpAddress::V4),
        16 => bytes.try_into().ok().map(IpAddress::V6),
        _ => None,
    }
}

/// A listener for changes of IP addresses.
pub trait AddressListener: Send + Sync + 'static {
    /// An address was added to a device (`added`) or removed. Must not sleep.
    fn address(&self, device: &NetDevice, address: IpAddress, added: bool);
}

/// Calls a listener for an added or removed address.
///
/// # Safety
///
/// `device` is valid.
unsafe fn notify<T: AddressListener>(
    listener: &T,
    event: c_ulong,
    device: *mut bindings::net_device,
    address: IpAddress,
) {
    let added = match event as bindings::netdev_cmd {
        bindings::NETDEV_UP => true,
        bindings::NETDEV_DOWN => false,
        _ => return,
    };
    // SAFETY: By the safety requirements.
    listener.address(unsafe { NetDevice::from_raw(device) }, address, added);
}

/// The notifier chain of IPv4 addresses.
struct Inet<T>(PhantomData<T>);

// SAFETY: The two functions change the IPv4 chain, and unregistering waits for calls; an address and its device are
// valid during the call.
unsafe impl<T: AddressListener> Chain for Inet<T> {
    type Listener = Arc<T>;
    const REGISTER: Change = bindings::register_inetaddr_notifier;
    const UNREGISTER: Change = bindings::unregister_inetaddr_notifier;

    unsafe fn notify(listener: &Arc<T>, event: c_ulong, address: *mut c_void) {
        let address: *mut bindings::in_ifaddr = address.cast();
        // SAFETY: By the safety requirements.
        unsafe {
            let bytes = (*address).ifa_address.to_ne_bytes();
            let device = (*(*address).ifa_dev).dev;
            notify(&**listener, event, device, IpAddress::V4(bytes));
        }
    }
}

/// The notifier chain of IPv6 addresses.
struct Inet6<T>(PhantomData<T>);

// SAFETY: The two functions change the IPv6 chain, and unregistering waits for calls; an address and its device are
// valid during the call.
unsafe impl<T: AddressListener> Chain for Inet6<T> {
    type Listener = Arc<T>;
    const REGISTER: Change = bindings::register_inet6addr_notifier;
    const UNREGISTER: Change = bindings::unregister_inet6addr_notifier;

    unsafe fn notify(listener: &Arc<T>, event: c_ulong, address: *mut c_void) {
        let address: *mut bindings::inet6_ifaddr = address.cast();
        // SAFETY: By the safety requirements.
        unsafe {
            let bytes = (*address).addr.in6_u.u6_addr8;
            let device = (*(*address).idev).dev;
            notify(&**listener, event, device, IpAddress::V6(bytes));
        }
    }
}

/// A listener for the addresses of all devices in all namespaces. Dropping it unregisters it, and may sleep.
#[pin_data]
pub struct AddressRegistration<T: AddressListener> {
    #[pin]
    inet: NotifierBlock<Inet<T>>,
    #[pin]
    inet6: NotifierBlock<Inet6<T>>,
}

impl<T: AddressListener> AddressRegistration<T> {
    /// Registers a listener.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(listener: T, may_sleep: &MaySleep) -> Result<Pin<KBox<Self>>> {
        let listener = Arc::new(listener, GFP_KERNEL)?;
        KBox::try_pin_init(
            try_pin_init!(Self {
                inet <- NotifierBlock::init(listener.clone(), may_sleep),
                inet6 <- NotifierBlock::init(listener, may_sleep),
            }? Error),
            GFP_KERNEL,
        )
    }
}
