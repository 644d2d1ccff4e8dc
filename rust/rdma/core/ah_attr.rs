// SPDX-License-Identifier: GPL-2.0

//! Address vectors that own a reference to their source GID: `struct rdma_ah_attr` as the core hands it around.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::{null, NonNull};

use kernel_ext::entry::FromC;
use rdma_bindings::{self as bindings, rdma_ah_attr};

use super::gid::{BorrowedGid, GidRef};
use crate::Gid;

/// An address vector. It owns a reference to the entry of a GID table that it names, if it names one.
///
/// Where C passes one to be changed, it is filled in or zeroed.
///
/// # Invariants
///
/// `grh.sgid_attr` is null, or from [`GidRef::into_raw`].
#[repr(transparent)]
pub struct AhVector(rdma_ah_attr);

impl AhVector {
    /// An address vector that names nothing.
    pub fn zeroed() -> Self {
        // INVARIANT: It is null.
        Self(pin_init::zeroed())
    }

    /// The C structure. Its `grh.sgid_attr` is not for changing.
    #[inline]
    pub fn raw(&self) -> &rdma_ah_attr {
        &self.0
    }

    /// Calls `f` with the C structure for changing; what it does to `grh.sgid_attr` is undone.
    pub fn modify(&mut self, f: impl FnOnce(&mut rdma_ah_attr)) {
        let sgid = self.0.grh.sgid_attr;
        f(&mut self.0);
        self.0.grh.sgid_attr = sgid;
    }

    /// The source: an entry of a GID table.
    #[inline]
    pub fn sgid(&self) -> Option<BorrowedGid<'_>> {
        let raw = NonNull::new(self.0.grh.sgid_attr.cast_mut())?;
        // SAFETY: By the type invariants the entry is referenced.
        Some(unsafe { BorrowedGid::from_raw(raw.as_ptr()) })
    }

    /// Takes the source out.
    #[inline]
    pub fn take_sgid(&mut self) -> Option<GidRef> {
        let raw = core::mem::replace(&mut self.0.grh.sgid_attr, null());
        // SAFETY: By the type invariants the reference was ours.
        (!raw.is_null()).then(|| unsafe { GidRef::from_raw(raw) })
    }

    /// Puts a source in.
    #[inline]
    pub fn set_sgid(&mut self, sgid: GidRef) {
        drop(self.take_sgid());
        self.0.grh.sgid_attr = sgid.into_raw();
    }

    /// Moves the address vector out; what stays behind is the same without a source.
    pub fn take(&mut self) -> Self {
        let mut taken = Self(self.0);
        // INVARIANT: The reference has moved.
        self.0.grh.sgid_attr = null();
        // The port of an address vector without a route may be read on.
        taken.0.grh.sgid_index = self.0.grh.sgid_index;
        taken
    }

    /// Makes the address vector one with a global route from `sgid`. A source that it had is forgotten, not dropped: C
    /// code need not have filled it in.
    pub fn set_route(&mut self, route: &Route, sgid: GidRef) {
        self.0.ah_flags = bindings::IB_AH_GRH as u8;
        if let Some(dgid) = route.dgid {
            self.0.grh.dgid = dgid.to_raw();
        }
        self.0.grh.flow_label = route.flow_label;
        self.0.grh.sgid_index = sgid.index() as u8;
        self.0.grh.hop_limit = route.hop_limit;
        self.0.grh.traffic_class = route.traffic_class;
        self.0.grh.sgid_attr = sgid.into_raw();
    }
}

/// A global route without its source.
pub struct Route {
    /// The destination; `None` leaves the one that is there.
    pub dgid: Option<Gid>,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// The hop limit.
    pub hop_limit: u8,
    /// The traffic class.
    pub traffic_class: u8,
}

impl Clone for AhVector {
    fn clone(&self) -> Self {
        let mut copy = Self(self.0);
        // INVARIANT: The copy gets a reference of its own.
        copy.0.grh.sgid_attr = self.sgid().map_or(null(), |sgid| sgid.hold().into_raw());
        copy
    }
}

impl Drop for AhVector {
    fn drop(&mut self) {
        drop(self.take_sgid());
    }
}

// SAFETY: A transparent wrapper.
unsafe impl FromC for &AhVector {
    type Raw = *const rdma_ah_attr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the address vector is there, and names an entry that is referenced.
        unsafe { &*raw.cast() }
    }
}

// SAFETY: A transparent wrapper.
unsafe impl FromC for &mut AhVector {
    type Raw = *mut rdma_ah_attr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: As above; the caller lends it for changing.
        unsafe { &mut *raw.cast() }
    }
}

/// Where C wants an address vector to be put. What is there at first may be anything.
pub struct AhAttrOut<'a>(&'a mut core::mem::MaybeUninit<AhVector>);

impl AhAttrOut<'_> {
    /// Puts an address vector there; C owns its reference from now on.
    pub fn set(self, vector: AhVector) {
        self.0.write(vector);
    }
}

// SAFETY: A transparent wrapper, in memory of any content.
unsafe impl FromC for AhAttrOut<'_> {
    type Raw = *mut rdma_ah_attr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements there is a place.
        Self(unsafe { &mut *raw.cast() })
    }
}
