// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: `struct ib_srq`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::marker::PhantomData;

use kernel::sync::Arc;
use rdma_bindings::{ib_srq, ib_srq_init_attr};

use crate::{
    abi::srq::{SrqAttr, SrqType},
    provider::{
        data::ProviderData,
        object::{Base, Object},
        xrcd::Xrcd,
    },
    Cq, Device, Pd, SrqHandle,
};

/// A shared receive queue of a device of `P`.
pub type Srq<P> = Object<ib_srq, P, <P as ProviderData>::Srq, Arc<SrqHandle>>;

/// The core's part of an SRQ.
pub type SrqBase<P> = Base<ib_srq, P>;

/// The attributes of an SRQ that is to be created: `struct ib_srq_init_attr`. The core reports the
/// driver's changes to [`attr`](Self::attr) to the user.
pub struct SrqInitAttr<'a, P> {
    raw: &'a mut ib_srq_init_attr,
    _provider: PhantomData<fn() -> P>,
}

impl<'a, P: ProviderData> SrqInitAttr<'a, P> {
    /// Borrows the attributes.
    ///
    /// # Safety
    ///
    /// The objects that `raw` refers to must belong to devices of `P`, and be valid for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: &'a mut ib_srq_init_attr) -> Self {
        Self {
            raw,
            _provider: PhantomData,
        }
    }

    /// The SRQ type; `None` for one that is not in the header.
    #[inline]
    pub fn srq_type(&self) -> Option<SrqType> {
        SrqType::try_from(self.raw.srq_type).ok()
    }

    /// The sizes and the limit.
    #[inline]
    pub fn attr(&mut self) -> &mut SrqAttr {
        &mut self.raw.attr
    }

    /// The CQ of an SRQ of a type that has one: `None` for [`SrqType::Basic`].
    #[inline]
    pub fn cq(&self) -> Option<&'a Cq<P>> {
        if !matches!(self.srq_type(), Some(SrqType::Xrc | SrqType::Tm)) {
            return None;
        }
        let raw = self.raw.ext.cq;
        // SAFETY: By the safety requirements of `from_raw`; the type says that there is a CQ.
        (!raw.is_null()).then(|| unsafe { Cq::from_raw(raw) })
    }

    /// The domain of an SRQ for extended reliable connections.
    #[inline]
    pub fn xrcd(&self) -> Option<&'a Xrcd<P>> {
        if self.srq_type() != Some(SrqType::Xrc) {
            return None;
        }
        // SAFETY: The type says which member of the union there is.
        let raw = unsafe { self.raw.ext.__bindgen_anon_1.xrc.xrcd };
        // SAFETY: By the safety requirements of `from_raw`.
        (!raw.is_null()).then(|| unsafe { Xrcd::from_raw(raw) })
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

    /// Sets the number of an SRQ for extended reliable connections, 24 bits: requests name it.
    ///
    /// The create method of such an SRQ calls it. The number is not read before, and never of an SRQ of another type.
    #[inline]
    pub fn set_xrc_number(&self, number: u32) {
        // SAFETY: By the type invariants the SRQ is valid; any value is valid.
        unsafe {
            let raw = &raw mut (*self.as_raw()).ext.__bindgen_anon_1.xrc.srq_num;
            raw.write_volatile(number);
        }
    }

    /// Whether the SRQ belongs to user space.
    #[inline]
    pub fn is_user(&self) -> bool {
        // SAFETY: By the type invariants; the field is constant, and set before the create method.
        unsafe { !(*self.as_raw()).uobject.is_null() }
    }
}
