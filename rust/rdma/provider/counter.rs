// SPDX-License-Identifier: GPL-2.0

//! Counters that queue pairs are bound to: `struct rdma_counter`.
//!
//! A counter has the values of [`PORT_STATS`](crate::Provider::PORT_STATS), which its QPs count there instead of in the port's. The
//! core adds them to the port's, and keeps those of a counter that goes.
//!
//! The core makes the C structure before it knows whether the driver has a counter, and frees it without the driver if the first QP
//! cannot be bound. So the driver's part is made by the first binding.
//!
//! C header: `include/rdma/rdma_counter.h`.

use core::num::NonZeroU32;

use kernel::prelude::*;
use rdma_bindings::rdma_counter;

use crate::{
    provider::{
        data::ProviderData,
        object::{Base, Object},
    },
    Device,
};

/// A counter of a device of `P`.
pub type Counter<P> = Object<rdma_counter, P, <P as ProviderData>::Counter>;

/// The driver's part of a new counter.
pub struct NewCounter<D> {
    /// The number, which no other counter of the device has.
    pub number: NonZeroU32,
    /// The driver's data.
    pub data: D,
}

impl<P: ProviderData> Base<rdma_counter, P> {
    /// The device that the counter belongs to.
    #[inline]
    pub fn device(&self) -> &Device<P> {
        // SAFETY: By the type invariants; the core has set `device`, which outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// The number of the counter.
    #[inline]
    pub fn number(&self) -> u32 {
        // SAFETY: By the type invariants the counter is valid; any value is valid, and a concurrent writer uses a single store.
        unsafe { (&raw const (*self.as_raw()).id).read_volatile() }
    }
}

impl<P: ProviderData> Counter<P> {
    /// Borrows a counter, whose driver's part is made if the counter has no number yet.
    ///
    /// # Errors
    ///
    /// Those of `make`; nothing is made then.
    ///
    /// # Safety
    ///
    /// `raw` must be a counter of a device of `P`, allocated and zeroed at [`Object::SIZE`], that the caller has locked and that is
    /// not freed within `'a`.
    pub(crate) unsafe fn bound<'a>(
        raw: *mut rdma_counter,
        make: impl FnOnce(&Device<P>) -> Result<NewCounter<P::Counter>>,
    ) -> Result<&'a Self> {
        // SAFETY: By the safety requirements.
        let base = unsafe { Base::<rdma_counter, P>::from_raw(raw) };
        if base.number() == 0 {
            let new = make(base.device())?;
            // SAFETY: By the safety requirements. Without a number nothing was made, and nobody uses the driver's part.
            unsafe { Self::create(raw, (), |_| Ok(new.data), |()| {}) }?;
            // SAFETY: By the safety requirements the counter is valid; any value is valid.
            unsafe { (&raw mut (*raw).id).write_volatile(new.number.get()) };
        }
        // SAFETY: By the safety requirements; the driver's part was made by this call or by the one that has set the number.
        Ok(unsafe { Self::from_raw(raw) })
    }
}
