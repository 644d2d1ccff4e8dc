// SPDX-License-Identifier: GPL-2.0

//! GIDs and the entries of GID tables: `union ib_gid` and `struct ib_gid_attr` of `include/rdma/ib_verbs.h`.

use core::ptr::NonNull;

use kernel::{
    error::{from_err_ptr, to_result},
    prelude::*,
    sync::{aref::ARef, aref::AlwaysRefCounted, rcu},
    types::Opaque,
};
use kernel_ext::net::{device::NetDevice, ns::NetRef};
use rdma_bindings::{self as bindings, ib_gid, ib_gid_attr};

/// A global identifier: 16 bytes in wire order. For RoCE it is an IPv6 address, or an IPv4 address mapped
/// into one.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The GID as the C type.
    #[inline]
    pub fn to_raw(self) -> ib_gid {
        ib_gid { raw: self.0 }
    }

    /// Creates the GID of a subnet prefix and an interface ID.
    pub fn from_parts(prefix: [u8; 8], id: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = prefix;
        let [i, j, k, l, m, n, o, p] = id.to_be_bytes();
        Self([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
    }

    /// Creates the GID from the C type.
    #[inline]
    pub fn from_raw(raw: &ib_gid) -> Self {
        // SAFETY: All bytes of the union are always initialised.
        Self(unsafe { raw.raw })
    }

    /// Whether all bytes are zero.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }

    /// Whether this is a multicast GID (first byte `0xff`), or an IPv4 multicast address.
    #[inline]
    pub fn is_multicast(&self) -> bool {
        match self.ipv4() {
            Some([first, ..]) => first & 0xf0 == 0xe0,
            None => self.0[0] == 0xff,
        }
    }

    /// The IPv4 address that is mapped into the GID, in wire order.
    #[inline]
    pub fn ipv4(&self) -> Option<[u8; 4]> {
        let [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] = self.0 else {
            return None;
        };
        Some([a, b, c, d])
    }

    /// The GID to which an IPv4 address is mapped.
    #[inline]
    pub const fn from_ipv4(addr: [u8; 4]) -> Self {
        let [a, b, c, d] = addr;
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }
}

c_enum! {
    /// The type of a GID: `enum ib_gid_type`.
    pub enum GidType {
        /// InfiniBand.
        Ib = bindings::IB_GID_TYPE_IB,
        /// RoCE version 1, over Ethernet.
        RoceV1 = bindings::IB_GID_TYPE_ROCE,
        /// RoCE version 2, over UDP.
        RoceV2 = bindings::IB_GID_TYPE_ROCE_UDP_ENCAP,
    }
}

/// An entry of a port's GID table: `struct ib_gid_attr`.
///
/// The entry is reference-counted: an [`ARef`] keeps the entry valid, and its index is not reused meanwhile.
/// References may be taken and dropped in any context.
///
/// # Invariants
///
/// The entry belongs to a GID table and is referenced.
#[repr(transparent)]
pub struct GidAttr(Opaque<ib_gid_attr>);

// SAFETY: Entries may be used from any thread.
unsafe impl Send for GidAttr {}

// SAFETY: Entries may be used from any thread; the member that changes is read under RCU.
unsafe impl Sync for GidAttr {}

// SAFETY: The core counts the references, and keeps the entry until the last one is dropped.
unsafe impl AlwaysRefCounted for GidAttr {
    fn inc_ref(&self) {
        // SAFETY: By the type invariants the entry is referenced.
        unsafe { bindings::rdma_hold_gid_attr(self.as_raw()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: By the safety requirements of the trait.
        unsafe { bindings::rdma_put_gid_attr(obj.cast().as_ptr()) };
    }
}

impl GidAttr {
    /// Borrows an entry.
    ///
    /// # Safety
    ///
    /// `raw` must be a referenced entry of a GID table during `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(raw: *const ib_gid_attr) -> &'a Self {
        // SAFETY: By the safety requirements; `Self` is a transparent wrapper.
        unsafe { &*raw.cast() }
    }

    /// The C structure.
    #[inline]
    pub fn as_raw(&self) -> *mut ib_gid_attr {
        self.0.get()
    }

    /// The GID.
    #[inline]
    pub fn gid(&self) -> Gid {
        // SAFETY: By the type invariants; the field is constant.
        Gid::from_raw(unsafe { &(*self.as_raw()).gid })
    }

    /// The type of the GID.
    #[inline]
    pub fn gid_type(&self) -> GidType {
        // SAFETY: By the type invariants; the field is constant.
        let raw = unsafe { (*self.as_raw()).gid_type };
        GidType::try_from(raw).unwrap_or(GidType::Ib)
    }

    /// The index in the port's GID table.
    #[inline]
    pub fn index(&self) -> u16 {
        // SAFETY: By the type invariants; the field is constant.
        unsafe { (*self.as_raw()).index }
    }

    /// The port.
    #[inline]
    pub fn port_num(&self) -> u32 {
        // SAFETY: By the type invariants; the field is constant.
        unsafe { (*self.as_raw()).port_num }
    }

    /// The net device that the GID belongs to.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none, or if the entry is being removed.
    pub fn ndev<'a>(&self, _rcu: &'a rcu::Guard) -> Result<&'a NetDevice> {
        // SAFETY: By the type invariants; the guard proves an RCU read-side critical section.
        let raw = unsafe { bindings::rdma_read_gid_attr_ndev_rcu(self.as_raw()) };
        let raw = from_err_ptr(raw)?;
        // SAFETY: The net device is valid until the critical section ends.
        Ok(unsafe { NetDevice::from_raw(raw.cast()) })
    }

    /// The network namespace of the net device that the GID belongs to. Any context.
    ///
    /// # Errors
    ///
    /// `ENODEV` for a net device that goes, and those of [`Self::ndev`].
    pub fn namespace(&self) -> Result<NetRef> {
        self.ndev(&rcu::read_lock())?.namespace().ok_or(ENODEV)
    }

    /// The Ethernet address of the net device that the GID belongs to. Any context.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none, or if the entry is being removed.
    pub fn mac(&self) -> Result<[u8; 6]> {
        let mut mac = [0; 6];
        let no_vlan = core::ptr::null_mut();
        // SAFETY: By the type invariants; the result has room for an address.
        to_result(unsafe {
            bindings::rdma_read_gid_l2_fields(self.as_raw(), no_vlan, mac.as_mut_ptr())
        })?;
        Ok(mac)
    }
}

/// Takes over the reference or the errno that C has returned.
///
/// # Safety
///
/// `raw` is an errno, null, or a counted reference to an entry, which is given up.
pub(crate) unsafe fn owned_gid_attr(raw: *const ib_gid_attr) -> Result<ARef<GidAttr>> {
    let raw = from_err_ptr(raw.cast_mut())?;
    let raw = NonNull::new(raw.cast::<GidAttr>()).ok_or(ENOENT)?;
    // SAFETY: By the safety requirements.
    Ok(unsafe { ARef::from_raw(raw) })
}
