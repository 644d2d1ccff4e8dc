// SPDX-License-Identifier: GPL-2.0

//! Arguments of C: addresses, parameters of connections, namespaces.
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::marker::PhantomData;

use kernel::prelude::*;
use kernel_ext::{
    entry::FromC,
    net::ns::{NetNamespace, NetRef},
};
use rdma_bindings::{
    self as bindings, rdma_cm_event, rdma_conn_param, rdma_ucm_ece, rdma_ucm_ib_service,
    sa_path_rec, sockaddr,
};

use crate::core::{
    addr::size_of_family,
    cm::event::Ece,
    connection::PrivateData,
    iw::address::{SockAddr, SIZE},
    path::Path,
};

/// Copies an address of C, as far as its family says.
///
/// # Safety
///
/// The pointer is null, or an address.
unsafe fn copy(raw: *const sockaddr) -> Option<SockAddr> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: All addresses begin with their family.
    let family = unsafe { raw.cast::<u16>().read_unaligned() };
    let size = size_of_family(family).max(size_of::<u16>()).min(SIZE);
    let mut bytes = [0; SIZE];
    // SAFETY: The family determines the size of the address, for which there is room.
    unsafe { core::ptr::copy_nonoverlapping(raw.cast(), bytes.as_mut_ptr(), size) };
    Some(SockAddr::from_bytes(bytes))
}

/// An address that C passes, or null.
pub struct AddressArg(pub Option<SockAddr>);

/// An address that C passes with `const`, or null.
pub struct ConstAddressArg(pub Option<SockAddr>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for AddressArg {
    type Raw = *mut sockaddr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements.
        Self(unsafe { copy(raw) })
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for ConstAddressArg {
    type Raw = *const sockaddr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements.
        Self(unsafe { copy(raw) })
    }
}

/// A namespace that C passes: a reference to it, unless it is being deleted.
pub struct NetArg(pub Option<NetRef>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for NetArg {
    type Raw = *mut bindings::net;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the namespace is valid.
        Self(unsafe { NetNamespace::from_raw(raw.cast()) }.get())
    }
}

/// The namespace of the current process.
pub fn current_net() -> Option<NetRef> {
    // SAFETY: A process that calls into the kernel has a namespace, which stays during the call.
    unsafe { NetNamespace::from_raw(bindings::current_net().cast()) }.get()
}

/// Whether the current process may have a privileged port.
pub fn may_bind_service() -> bool {
    // SAFETY: The function may be called in process context, in which exported functions run.
    unsafe { bindings::may_bind_service() }
}

/// Whether addresses of IPv6 are of that family alone, unless their owner says otherwise.
pub fn is_v6_only(net: &NetRef) -> bool {
    // SAFETY: The namespace is valid.
    unsafe { bindings::net_bindv6only(net.as_raw().cast()) }
}

/// The ports of a namespace that one is taken of which is not named: the lowest and the highest one.
pub fn port_range(net: &NetRef) -> (u16, u16) {
    let (mut low, mut high) = (0, 0);
    // SAFETY: All are valid during the call.
    unsafe { bindings::net_port_range(net.as_raw().cast(), &mut low, &mut high) };
    let port = |value| u16::try_from(value).unwrap_or(u16::MAX);
    (port(low), port(high))
}

/// The parameters of a connection that C passes, or none.
///
/// # Invariants
///
/// The structure is filled in, with private data that is null or valid for `'a`.
#[derive(Clone, Copy)]
pub struct ConnParam<'a>(*const rdma_conn_param, PhantomData<&'a ()>);

/// An optional [`ConnParam`].
pub struct ConnParamArg<'a>(pub Option<ConnParam<'a>>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for ConnParamArg<'_> {
    type Raw = *mut rdma_conn_param;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the header the parameters are filled in.
        Self((!raw.is_null()).then_some(ConnParam(raw, PhantomData)))
    }
}

impl<'a> ConnParam<'a> {
    fn raw(self) -> &'a rdma_conn_param {
        // SAFETY: By the type invariants; nobody writes to the structure during the call.
        unsafe { &*self.0 }
    }

    /// The private data for the peer.
    pub fn private_data(self) -> PrivateData<'a> {
        // SAFETY: By the type invariants.
        unsafe { PrivateData::from_raw(self.raw().private_data, self.raw().private_data_len) }
    }

    /// The length of the private data, which C may pass without any.
    pub fn private_data_len(self) -> u8 {
        self.raw().private_data_len
    }

    /// READs that the peer may ask for.
    pub fn responder_resources(self) -> u8 {
        self.raw().responder_resources
    }

    /// READs that the peer is asked for.
    pub fn initiator_depth(self) -> u8 {
        self.raw().initiator_depth
    }

    /// Whether there is flow control from end to end.
    pub fn flow_control(self) -> u8 {
        self.raw().flow_control
    }

    /// Retries without an acknowledgement.
    pub fn retry_count(self) -> u8 {
        self.raw().retry_count
    }

    /// Retries without a receive request.
    pub fn rnr_retry_count(self) -> u8 {
        self.raw().rnr_retry_count
    }

    /// Whether the queue pair has an SRQ.
    pub fn srq(self) -> u8 {
        self.raw().srq
    }

    /// The number of the queue pair.
    pub fn qp_num(self) -> u32 {
        self.raw().qp_num
    }

    /// The Q_Key.
    pub fn qkey(self) -> u32 {
        self.raw().qkey
    }
}

/// The options of the vendor, which C passes.
pub struct EceArg(pub Ece);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for EceArg {
    type Raw = *mut rdma_ucm_ece;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the structure is valid.
        let raw = unsafe { &*raw };
        Self(Ece {
            vendor_id: raw.vendor_id,
            attr_mod: raw.attr_mod,
        })
    }
}

/// A path that C passes, copied.
pub struct PathArg(pub Path);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for PathArg {
    type Raw = *mut sa_path_rec;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the path is valid; the wrapper is transparent.
        Self(unsafe { &*raw.cast::<Path>() }.duplicate())
    }
}

/// A service that is looked up: `struct rdma_ucm_ib_service`.
pub struct ServiceArg<'a>(pub &'a rdma_ucm_ib_service);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for ServiceArg<'_> {
    type Raw = *mut rdma_ucm_ib_service;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the structure is valid, and not changed during the call.
        Self(unsafe { &*raw })
    }
}

/// An event that C has been told.
///
/// # Invariants
///
/// It is one of this module, and its handler has not returned.
pub struct EventArg<'a>(*const rdma_cm_event, PhantomData<&'a ()>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for EventArg<'_> {
    type Raw = *mut rdma_cm_event;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the header C passes an event that it has been told.
        Self(raw, PhantomData)
    }
}

impl EventArg<'_> {
    /// The status.
    pub fn status(&self) -> i32 {
        // SAFETY: By the type invariants.
        unsafe { (*self.0).status }
    }

    /// The private data of a refusal, and its length.
    pub fn private_data(&self) -> (*const kernel::ffi::c_void, u8) {
        // SAFETY: By the type invariants; any bytes are a pointer that is only passed on.
        unsafe {
            (
                (*self.0).param.conn.private_data,
                (*self.0).param.conn.private_data_len,
            )
        }
    }
}
