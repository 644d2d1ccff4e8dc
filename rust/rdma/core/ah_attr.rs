// SPDX-License-Identifier: GPL-2.0

//! Address vectors that own a reference to their source GID entry: `struct rdma_ah_attr`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::{null, NonNull};

use kernel_ext::entry::FromC;
use rdma_bindings::{self as bindings, rdma_ah_attr};

use super::gid::{BorrowedGid, GidRef};
use crate::Gid;

/// An address vector, which owns a reference to its source GID entry, if it has one.
///
/// C passes one for writing filled in or zeroed.
///
/// # Invariants
///
/// `grh.sgid_attr` is null, or from [`GidRef::into_raw`].
#[repr(transparent)]
pub struct AhVector(rdma_ah_attr);

impl AhVector {
    /// A zeroed address vector.
    pub fn zeroed() -> Self {
        // INVARIANT: The pointer is null.
        Self(pin_init::zeroed())
    }

    /// The C structure.
    #[inline]
    pub fn raw(&self) -> &rdma_ah_attr {
        &self.0
    }

    /// Calls `f` with the C structure. Changes of `f` to `grh.sgid_attr` are reverted.
    pub fn modify(&mut self, f: impl FnOnce(&mut rdma_ah_attr)) {
        let sgid = self.0.grh.sgid_attr;
        f(&mut self.0);
        self.0.grh.sgid_attr = sgid;
    }

    /// The source GID entry.
    #[inline]
    pub fn sgid(&self) -> Option<BorrowedGid<'_>> {
        let raw = NonNull::new(self.0.grh.sgid_attr.cast_mut())?;
        // SAFETY: By the type invariants the address vector holds a reference to the entry.
        Some(unsafe { BorrowedGid::from_raw(raw.as_ptr()) })
    }

    /// Takes the source GID entry out of the address vector.
    #[inline]
    pub fn take_sgid(&mut self) -> Option<GidRef> {
        let raw = core::mem::replace(&mut self.0.grh.sgid_attr, null());
        // SAFETY: By the type invariants the address vector owned the reference, which was just removed.
        (!raw.is_null()).then(|| unsafe { GidRef::from_raw(raw) })
    }

    /// Sets the source GID entry, and drops the former one.
    #[inline]
    pub fn set_sgid(&mut self, sgid: GidRef) {
        drop(self.take_sgid());
        self.0.grh.sgid_attr = sgid.into_raw();
    }

    /// Moves the address vector out. A copy without the source stays behind.
    pub fn take(&mut self) -> Self {
        let mut taken = Self(self.0);
        // INVARIANT: The reference has moved to `taken`.
        self.0.grh.sgid_attr = null();
        // The other members of the copy stay readable.
        taken.0.grh.sgid_index = self.0.grh.sgid_index;
        taken
    }

    /// Sets a GRH with the source `sgid`. The former source is overwritten without being dropped, since C code need
    /// not have filled it in.
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

/// The members of a GRH, without its source.
pub struct Route {
    /// The destination GID; `None` leaves it as it is.
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
        // INVARIANT: The copy has its own counted reference.
        copy.0.grh.sgid_attr = self.sgid().map_or(null(), |sgid| sgid.hold().into_raw());
        copy
    }
}

impl Drop for AhVector {
    fn drop(&mut self) {
        drop(self.take_sgid());
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for &AhVector {
    type Raw = *const rdma_ah_attr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the address vector is valid, and by the header its source is null or
        // referenced; the wrapper is transparent.
        unsafe { &*raw.cast() }
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for &mut AhVector {
    type Raw = *mut rdma_ah_attr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the address vector is valid and lent for writing; the wrapper is
        // transparent.
        unsafe { &mut *raw.cast() }
    }
}

/// The output argument for an address vector. Its memory need not be initialised.
pub struct AhAttrOut<'a>(&'a mut core::mem::MaybeUninit<AhVector>);

impl AhAttrOut<'_> {
    /// Writes the address vector. C owns its reference from now on.
    pub fn set(self, vector: AhVector) {
        self.0.write(vector);
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for AhAttrOut<'_> {
    type Raw = *mut rdma_ah_attr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the memory is valid for writes.
        Self(unsafe { &mut *raw.cast() })
    }
}
