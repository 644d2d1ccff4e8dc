// SPDX-License-Identifier: GPL-2.0

//! Address handles, and the address vectors of AHs and QPs: `struct ib_ah`, `struct rdma_ah_attr`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::marker::PhantomData;

use kernel::sync::aref::ARef;
use rdma_bindings::{self as bindings, ib_ah, rdma_ah_attr};

use crate::{
    abi::{ah::AhFields, gid::GidAttr},
    provider::{
        data::ProviderData,
        object::{Base, Object},
    },
    Device, Pd,
};

/// An address handle of a device of `P`.
pub type Ah<P> = Object<ib_ah, P, <P as ProviderData>::Ah>;

/// The core's part of an AH.
pub type AhBase<P> = Base<ib_ah, P>;

impl<P: ProviderData> Base<ib_ah, P> {
    /// The device that the AH belongs to.
    #[inline]
    pub fn device(&self) -> &Device<P> {
        // SAFETY: The core has set `device`, which outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// The PD that the AH belongs to.
    #[inline]
    pub fn pd(&self) -> &Pd<P> {
        // SAFETY: The core has set `pd`, which outlives the AHs in it.
        unsafe { Pd::from_raw((*self.as_raw()).pd) }
    }
}

/// An address vector that the core passes to a method.
///
/// # Invariants
///
/// The structure is valid for `'a`, and so is its source GID entry, if any.
#[derive(Clone, Copy)]
pub struct AhAttr<'a>(&'a rdma_ah_attr);

impl<'a> AhAttr<'a> {
    /// Borrows an address vector.
    ///
    /// # Safety
    ///
    /// If `raw` has a source GID entry, the entry must be referenced during `'a`.
    #[inline]
    pub unsafe fn from_raw(raw: &'a rdma_ah_attr) -> Self {
        Self(raw)
    }

    /// A copy of the address vector, without its source GID entry.
    pub fn fields(&self) -> AhFields {
        AhFields::from_raw(self.0)
    }

    /// Whether the address vector has a GRH.
    #[inline]
    pub fn has_grh(&self) -> bool {
        u32::from(self.0.ah_flags) & bindings::IB_AH_GRH != 0
    }

    /// Whether this is an address vector of RoCE.
    #[inline]
    pub fn is_roce(&self) -> bool {
        self.0.type_ == bindings::RDMA_AH_ATTR_TYPE_ROCE
    }

    /// The source GID entry. The core sets it for RoCE.
    #[inline]
    pub fn sgid_attr(&self) -> Option<&'a GidAttr> {
        let raw = self.0.grh.sgid_attr;
        if !self.has_grh() || raw.is_null() {
            return None;
        }
        // SAFETY: By the type invariants the entry is valid for `'a`.
        Some(unsafe { GidAttr::from_raw(raw) })
    }

    /// A copy with its own reference to the source GID entry.
    #[inline]
    pub fn to_owned(&self) -> OwnedAhAttr {
        OwnedAhAttr {
            fields: self.fields(),
            sgid_attr: self.sgid_attr().map(ARef::from),
        }
    }
}

/// An address vector with a reference to its source GID entry.
#[derive(Clone)]
pub struct OwnedAhAttr {
    /// The address vector.
    pub fields: AhFields,
    /// The source GID entry.
    pub sgid_attr: Option<ARef<GidAttr>>,
}

/// The output argument for an address vector.
pub struct AhAttrOut<'a> {
    raw: *mut rdma_ah_attr,
    _raw: PhantomData<&'a mut rdma_ah_attr>,
}

impl AhAttrOut<'_> {
    /// Writes to `raw`.
    ///
    /// # Safety
    ///
    /// `raw` must be valid for writes as long as the result exists.
    #[inline]
    pub(crate) unsafe fn new(raw: *mut rdma_ah_attr) -> Self {
        Self {
            raw,
            _raw: PhantomData,
        }
    }

    /// Writes an address vector of RoCE.
    pub fn set(&mut self, fields: &AhFields) {
        // SAFETY: By the safety requirements of `new`.
        unsafe { self.raw.write(fields.to_raw()) };
    }
}
