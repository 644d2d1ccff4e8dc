// SPDX-License-Identifier: GPL-2.0

//! IP addresses of devices, and hearing of those that come and go.
//!
//! C headers: `include/linux/inetdevice.h`, `include/net/addrconf.h`, `include/net/if_inet6.h`.

use super::{device::NetDevice, ns::NetNamespace};
use crate::{bindings, context::MaySleep};
use core::{ffi::c_void, pin::Pin, ptr::NonNull};
use kernel::{
    error::to_result,
    ffi::{c_int, c_ulong},
    prelude::*,
    sync::rcu,
    types::Opaque,
};

/// An IP address, in the order of the wire.
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
    /// For an address with a peer it is the peer's.
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

    /// Returns the modified EUI-64 of the device's Ethernet address, which is the lower half of its link-local address.
    /// `None` for a device whose addresses are not of 6 bytes.
    ///
    /// Reference: RFC 4291, appendix A; devices that share their address with other machines have a number instead of
    /// the 0xfffe (`net/addrconf.h`).
    pub fn interface_id(&self) -> Option<[u8; 8]> {
        let device = self.as_raw();
        // SAFETY: The device is valid; any values of the members are.
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

    /// Finds the device of a namespace that has an address as its own. Not for hard interrupts.
    pub fn by_address_rcu<'g>(
        net: &NetNamespace,
        address: &IpAddress,
        _guard: &'g rcu::Guard,
    ) -> Option<&'g Self> {
        // SAFETY: The namespace and the address are valid, and the guard is the read-side critical section that is
        // asked for.
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

/// What the walks over addresses fill.
struct Collected {
    addresses: KVec<IpAddress>,
    complete: bool,
}

impl Collected {
    /// Takes an address of `N` bytes.
    ///
    /// # Safety
    ///
    /// `this` is a `Collected` that nobody else uses, `address` is valid for `N` bytes; atomic context.
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

/// Makes an address of 4 or 16 bytes.
fn ip_address(bytes: &[u8]) -> Option<IpAddress> {
    match bytes.len() {
        4 => bytes.try_into().ok().map(IpAddress::V4),
        16 => bytes.try_into().ok().map(IpAddress::V6),
        _ => None,
    }
}

/// What hears of addresses of devices.
pub trait AddressListener: Send + Sync + 'static {
    /// An address has come to a device (`added`), or has gone from it. It must not sleep.
    fn address(&self, device: &NetDevice, address: IpAddress, added: bool);
}

/// A listener that hears of the addresses of the devices of all namespaces. Dropping it ends that, and may sleep.
#[pin_data(PinnedDrop)]
pub struct AddressRegistration<T: AddressListener> {
    #[pin]
    inet: Opaque<bindings::notifier_block>,
    #[pin]
    inet6: Opaque<bindings::notifier_block>,
    listener: T,
}

// SAFETY: The registration may be dropped on any thread.
unsafe impl<T: AddressListener> Send for AddressRegistration<T> {}
// SAFETY: A shared reference gives the listener alone, which is `Sync`.
unsafe impl<T: AddressListener> Sync for AddressRegistration<T> {}

/// A block for a notifier chain.
fn block(
    call: unsafe extern "C" fn(*mut bindings::notifier_block, c_ulong, *mut c_void) -> c_int,
) -> bindings::notifier_block {
    bindings::notifier_block {
        notifier_call: Some(call),
        ..pin_init::zeroed()
    }
}

impl<T: AddressListener> AddressRegistration<T> {
    /// Registers a listener.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(listener: T, _may_sleep: &MaySleep) -> Result<Pin<KBox<Self>>> {
        KBox::try_pin_init(
            try_pin_init!(Self {
                listener,
                inet <- Opaque::try_ffi_init(|slot: *mut bindings::notifier_block| {
                    // SAFETY: `slot` is valid for writes, and pinned until `drop` unregisters it; the listener is set
                    // already. Registering cannot fail, so that nothing is to be undone for the second one.
                    unsafe {
                        slot.write(block(Self::inet_event));
                        to_result(bindings::register_inetaddr_notifier(slot))
                    }
                }),
                inet6 <- Opaque::try_ffi_init(|slot: *mut bindings::notifier_block| {
                    // SAFETY: As above.
                    unsafe {
                        slot.write(block(Self::inet6_event));
                        to_result(bindings::register_inet6addr_notifier(slot))
                    }
                }),
            }? Error),
            GFP_KERNEL,
        )
    }

    fn tell(&self, device: *mut bindings::net_device, address: IpAddress, event: c_ulong) -> c_int {
        let added = match event as bindings::netdev_cmd {
            bindings::NETDEV_UP => true,
            bindings::NETDEV_DOWN => false,
            _ => return bindings::NOTIFY_DONE as c_int,
        };
        // SAFETY: The callers pass the device of an address, which is there during the call.
        let device = unsafe { NetDevice::from_raw(device) };
        self.listener.address(device, address, added);
        bindings::NOTIFY_DONE as c_int
    }

    /// # Safety
    ///
    /// The kernel calls it, with the block that `new` registered and an address.
    unsafe extern "C" fn inet_event(
        block: *mut bindings::notifier_block,
        event: c_ulong,
        address: *mut c_void,
    ) -> c_int {
        let address: *mut bindings::in_ifaddr = address.cast();
        // SAFETY: The block is a field of `Self`, which lives until it is unregistered; the address and its device are
        // valid during the call.
        unsafe {
            let this = kernel::container_of!(Opaque::cast_from(block), Self, inet);
            let bytes = (*address).ifa_address.to_ne_bytes();
            (*this).tell((*(*address).ifa_dev).dev, IpAddress::V4(bytes), event)
        }
    }

    /// # Safety
    ///
    /// As for [`Self::inet_event`].
    unsafe extern "C" fn inet6_event(
        block: *mut bindings::notifier_block,
        event: c_ulong,
        address: *mut c_void,
    ) -> c_int {
        let address: *mut bindings::inet6_ifaddr = address.cast();
        // SAFETY: As above.
        unsafe {
            let this = kernel::container_of!(Opaque::cast_from(block), Self, inet6);
            let bytes = (*address).addr.in6_u.u6_addr8;
            (*this).tell((*(*address).idev).dev, IpAddress::V6(bytes), event)
        }
    }
}

#[pinned_drop]
impl<T: AddressListener> PinnedDrop for AddressRegistration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `new` registered the blocks.
        unsafe {
            bindings::unregister_inet6addr_notifier(self.inet6.get());
            bindings::unregister_inetaddr_notifier(self.inet.get());
        }
    }
}
