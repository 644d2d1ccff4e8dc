// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: `struct ib_srq`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::sync::Arc;
use rdma_bindings::{ib_srq, ib_srq_init_attr};

use crate::{
    abi::srq::{SrqAttr, SrqType},
    provider::{
        data::ProviderData,
        object::{Base, Object},
    },
    Device, Pd, SrqHandle,
};

/// A shared receive queue of a device of `P`.
pub type Srq<P> = Object<ib_srq, P, <P as ProviderData>::Srq, Arc<SrqHandle>>;

/// The core's part of an SRQ.
pub type SrqBase<P> = Base<ib_srq, P>;

/// The attributes of an SRQ that is to be created: `struct ib_srq_init_attr`. The core reports the
/// driver's changes to [`attr`](Self::attr) to the user.
pub struct SrqInitAttr<'a>(&'a mut ib_srq_init_attr);

impl<'a> SrqInitAttr<'a> {
    #[inline]
    pub(crate) fn new(raw: &'a mut ib_srq_init_attr) -> Self {
        Self(raw)
    }

    /// The SRQ type; `None` for one that is not in the header.
    #[inline]
    pub fn srq_type(&self) -> Option<SrqType> {
        SrqType::try_from(self.0.srq_type).ok()
    }

    /// The sizes and the limit.
    #[inline]
    pub fn attr(&mut self) -> &mut SrqAttr {
        &mut self.0.attr
    }
}

impl<P: ProviderData> Base<ib_srq, P> {
    /// The device that the SRQ belongs to.
    #[inline]
    pub fn device(&self) -> &Device<P> {
        // SAFETY: The core has set `device`, which outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// The PD that the SRQ belongs to.
    #[inline]
    pub fn pd(&self) -> &Pd<P> {
        // SAFETY: The core has set `pd`, which outlives the SRQs in it.
        unsafe { Pd::from_raw((*self.as_raw()).pd) }
    }

    /// Whether the SRQ belongs to user space.
    #[inline]
    pub fn is_user(&self) -> bool {
        // SAFETY: By the type invariants; the field is constant, and set before the create method.
        unsafe { !(*self.as_raw()).uobject.is_null() }
    }
}
