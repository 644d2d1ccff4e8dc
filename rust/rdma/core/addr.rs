// SPDX-License-Identifier: GPL-2.0

//! Socket addresses, and the results of resolving them: `struct rdma_dev_addr`.
//!
//! C header: `include/rdma/ib_addr.h`.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{
    error::Result,
    ffi::{c_int, c_void},
};
use kernel_ext::{
    entry::{view_of, FromC},
    net::{
        address::IpAddress,
        device::NetDevice,
        ns::{NetNamespace, NetRef},
        resolve::HardwareAddress,
    },
};
use rdma_bindings::{
    self as bindings, __kernel_sockaddr_storage, rdma_dev_addr, sockaddr, sockaddr_ib, sockaddr_in,
    sockaddr_in6,
};

use super::gid::BorrowedGid;

view_of! {
    /// The parameters and results of an address resolution.
    pub struct DevAddr(rdma_dev_addr);
}

/// A [`DevAddr`] with exclusive access, during one call of C or until the callback of the resolution.
///
/// # Invariants
///
/// The structure is valid, and nobody else uses it as long as this value exists.
pub struct DevAddrMut<'a>(&'a DevAddr);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for DevAddrMut<'_> {
    type Raw = *mut rdma_dev_addr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the structure is valid; a view is a transparent wrapper.
        // INVARIANT: By the header only the resolver uses the structure, until it answers.
        Self(unsafe { &*raw.cast() })
    }
}

/// `AF_INET`.
const INET: u16 = bindings::AF_INET as u16;
/// `AF_INET6`.
const INET6: u16 = bindings::AF_INET6 as u16;
/// `AF_IB`.
const IB: u16 = bindings::AF_IB as u16;

/// The size in bytes of a socket address of a family; 0 for an unsupported family.
pub const fn size_of_family(family: u16) -> usize {
    match family {
        INET => size_of::<sockaddr_in>(),
        INET6 => size_of::<sockaddr_in6>(),
        IB => size_of::<sockaddr_ib>(),
        _ => 0,
    }
}

/// A socket address that C lends for a call, as a pointer to `T`. Its family determines its size.
pub struct Sockaddr<'a, T = sockaddr>(NonNull<T>, PhantomData<&'a T>);

impl<T> Sockaddr<'_, T> {
    /// `AF_*`.
    #[inline]
    pub fn family(&self) -> u16 {
        // SAFETY: All socket addresses begin with their family.
        unsafe { self.0.cast::<u16>().as_ptr().read() }
    }

    /// A copy.
    pub fn to_storage(&self) -> Storage {
        let mut storage = Storage::of_family(self.family());
        let size = size_of_family(self.family());
        // SAFETY: The family determines the size of the address, and `Storage` has room for all families.
        unsafe {
            core::ptr::copy_nonoverlapping(
                self.0.as_ptr().cast::<u8>(),
                (&raw mut storage.0).cast(),
                size,
            )
        };
        storage
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for Sockaddr<'_> {
    type Raw = *const sockaddr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the address is valid.
        let raw = unsafe { NonNull::new_unchecked(raw.cast_mut()) };
        Self(raw, PhantomData)
    }
}

/// A socket address that C passes without `const`, and that may be null.
pub struct SockaddrArgument<'a, T = sockaddr>(pub Option<Sockaddr<'a, T>>);

// SAFETY: `Raw` is the pointer type in the header; null is no address.
unsafe impl<T> FromC for SockaddrArgument<'_, T> {
    type Raw = *mut T;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(NonNull::new(raw).map(|raw| Sockaddr(raw, PhantomData)))
    }
}

/// A socket address of any family.
#[derive(Clone, Copy)]
pub struct Storage(__kernel_sockaddr_storage);

// SAFETY: An address is plain data: the pointer in the C type only sets its alignment.
unsafe impl Send for Storage {}
// SAFETY: An address is plain data: the pointer in the C type only sets its alignment.
unsafe impl Sync for Storage {}

impl Storage {
    /// An address that is unspecified.
    pub fn of_family(family: u16) -> Self {
        let mut raw: __kernel_sockaddr_storage = pin_init::zeroed();
        // SAFETY: All socket addresses begin with their family.
        unsafe { (&raw mut raw).cast::<u16>().write(family) };
        Self(raw)
    }

    /// `AF_*`.
    pub fn family(&self) -> u16 {
        // SAFETY: All socket addresses begin with their family.
        unsafe { (&raw const self.0).cast::<u16>().read() }
    }

    /// The IP address; `None` for another family.
    pub fn ip(&self) -> Option<IpAddress> {
        let raw = &raw const self.0;
        // SAFETY: The storage has room for an address of either kind, and any bytes are one.
        unsafe {
            match self.family() {
                INET => Some(IpAddress::V4(
                    (*raw.cast::<sockaddr_in>()).sin_addr.s_addr.to_ne_bytes(),
                )),
                INET6 => Some(IpAddress::V6(
                    (*raw.cast::<sockaddr_in6>()).sin6_addr.in6_u.u6_addr8,
                )),
                _ => None,
            }
        }
    }

    /// Sets the IP address of a socket address of the same family; does nothing for another family.
    pub fn set_ip(&mut self, address: IpAddress) {
        let raw = &raw mut self.0;
        // SAFETY: The storage has room for an address of either kind, and any bytes are one.
        unsafe {
            match (self.family(), address) {
                (INET, IpAddress::V4(address)) => {
                    (*raw.cast::<sockaddr_in>()).sin_addr.s_addr = u32::from_ne_bytes(address)
                }
                (INET6, IpAddress::V6(address)) => {
                    (*raw.cast::<sockaddr_in6>()).sin6_addr.in6_u.u6_addr8 = address
                }
                _ => {}
            }
        }
    }
}

/// The link-layer properties of a net device that resolutions report.
#[derive(Clone, Copy)]
pub struct SourceL2 {
    /// The hardware address.
    pub address: HardwareAddress,
    /// The broadcast hardware address.
    pub broadcast: HardwareAddress,
    /// The link type, `ARPHRD_*`.
    pub link_type: u16,
    /// The index of the net device.
    pub ifindex: u32,
}

impl SourceL2 {
    /// The properties of `ndev`.
    pub fn of(ndev: &NetDevice) -> Self {
        Self {
            address: ndev.hardware_address(),
            broadcast: ndev.broadcast_address(),
            link_type: ndev.link_type().0,
            ifindex: ndev.index(),
        }
    }
}

impl DevAddrMut<'_> {
    fn as_raw(&self) -> *mut rdma_dev_addr {
        self.0.as_raw()
    }

    /// The namespace to resolve in; `None` if C named none, or it is being taken down.
    pub fn net(&self) -> Option<NetRef> {
        // SAFETY: C sets the member before it starts the resolution, and holds the namespace during it.
        unsafe {
            let net = NonNull::new((*self.as_raw()).net)?;
            NetNamespace::from_raw(net.as_ptr().cast()).get()
        }
    }

    /// The index of the outgoing net device; 0 for any.
    pub fn bound_device(&self) -> c_int {
        // SAFETY: By the type invariants.
        unsafe { (*self.as_raw()).bound_dev_if }
    }

    /// The source GID entry, for a resolution by source GID.
    pub fn sgid(&self) -> Option<BorrowedGid<'_>> {
        // SAFETY: By the type invariants; C holds a reference to the entry during the resolution.
        unsafe {
            let raw = (*self.as_raw()).sgid_attr;
            (!raw.is_null()).then(|| BorrowedGid::from_raw(raw))
        }
    }

    /// Sets the properties of the source net device.
    pub fn set_source(&mut self, source: &SourceL2) {
        let raw = self.as_raw();
        // SAFETY: By the type invariants, and `self` is borrowed mutably.
        unsafe {
            (*raw).src_dev_addr = source.address;
            (*raw).broadcast = source.broadcast;
            (*raw).dev_type = source.link_type;
            (*raw).bound_dev_if = source.ifindex as c_int;
        }
    }

    /// Sets the network type (`enum rdma_network_type`) and the hop limit of the route.
    pub fn set_route(&mut self, network: u32, hop_limit: c_int) {
        let raw = self.as_raw();
        // SAFETY: By the type invariants, and `self` is borrowed mutably.
        unsafe {
            (*raw).network = network;
            (*raw).hoplimit = hop_limit;
        }
    }

    /// Sets the hardware address of the next hop.
    pub fn set_destination(&mut self, address: &HardwareAddress) {
        // SAFETY: By the type invariants, and `self` is borrowed mutably.
        unsafe { (*self.as_raw()).dst_dev_addr = *address };
    }

    /// Resets the net device and the namespace, after a resolution by source GID.
    pub fn forget_device(&mut self) {
        let raw = self.as_raw();
        // SAFETY: By the type invariants, and `self` is borrowed mutably.
        unsafe {
            (*raw).net = NetNamespace::init().as_raw().cast();
            (*raw).bound_dev_if = 0;
        }
    }
}

/// The C callback of a resolution.
type Callback = unsafe extern "C" fn(c_int, *mut sockaddr, *mut rdma_dev_addr, *mut c_void);

/// A callback as an argument of C.
pub struct CallbackArgument(Option<Callback>);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for CallbackArgument {
    type Raw = Option<Callback>;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

/// A request of a C consumer to resolve an address. Its callback is called once, or the request is cancelled and dropped.
///
/// # Invariants
///
/// `addr` is lent until the callback is called, or until `rdma_addr_cancel` has returned, which drops the
/// request.
pub struct ResolveRequest {
    addr: NonNull<DevAddr>,
    callback: CallbackArgument,
    context: *mut c_void,
}

// SAFETY: The callback may be called on any thread.
unsafe impl Send for ResolveRequest {}
// SAFETY: A shared reference gives access to `addr` alone, which may be used from any thread.
unsafe impl Sync for ResolveRequest {}

impl ResolveRequest {
    /// A request for `addr`.
    ///
    /// # Safety
    ///
    /// `addr` is valid until the callback is called or the request is dropped. The callback may be called with `context`, in
    /// process context.
    pub unsafe fn new(
        addr: DevAddrMut<'_>,
        callback: CallbackArgument,
        context: *mut c_void,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            addr: addr.0.into(),
            callback,
            context,
        }
    }

    /// The structure that the resolution fills in.
    pub fn addr(&self) -> &DevAddr {
        // SAFETY: By the type invariants `addr` is valid.
        unsafe { self.addr.as_ref() }
    }

    /// The structure, for writing.
    pub fn addr_mut(&mut self) -> DevAddrMut<'_> {
        // SAFETY: By the type invariants `addr` is valid.
        // INVARIANT: `self` is borrowed mutably, and by the type invariants nobody else uses the structure.
        DevAddrMut(unsafe { self.addr.as_ref() })
    }

    /// Completes the request: calls the callback with the result and the source address.
    pub fn complete(self, result: Result, mut source: Storage) {
        let status = result.err().map_or(0, |error| error.to_errno());
        if let Some(callback) = self.callback.0 {
            // SAFETY: By the type invariants `addr` is valid; the request is consumed, so the callback is
            // called once.
            unsafe {
                callback(
                    status,
                    (&raw mut source.0).cast(),
                    self.addr.as_ptr().cast(),
                    self.context,
                )
            };
        }
    }
}
