// SPDX-License-Identifier: GPL-2.0

//! Protection domains: `struct ib_pd`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::{null_mut, NonNull};

use kernel::{error::to_result, prelude::*};
use rdma_bindings::{self as bindings, ib_pd};

use super::{
    deferred::{Deferred, Object, UninitObject},
    device::made,
    Device,
};
use crate::MaySleep;

/// A reference-counted protection domain. It may be dropped in any context, and is destroyed later, after its
/// last user.
#[derive(Clone)]
pub struct Pd<'d>(Deferred<Inner<'d>>);

/// # Invariants
///
/// `self` owns the protection domain.
struct Inner<'d> {
    raw: NonNull<ib_pd>,
    device: Device<'d>,
}

// SAFETY: Protection domains may be used from any thread.
unsafe impl Send for Inner<'_> {}
// SAFETY: Protection domains may be used from any thread.
unsafe impl Sync for Inner<'_> {}

impl<'d> Pd<'d> {
    /// Creates a protection domain.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the driver.
    pub fn new(device: &Device<'d>, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        let blank = UninitObject::new(GFP_KERNEL)?;
        // SAFETY: The device is registered; the name is constant.
        let raw = made(unsafe {
            bindings::__ib_alloc_pd(device.as_raw(), 0, device.owner().as_char_ptr())
        })?;
        // INVARIANT: The protection domain was just created.
        let inner = Inner {
            raw,
            device: device.clone(),
        };
        Ok(Self(blank.deferred(device, inner)))
    }

    /// The device.
    pub fn device(&self) -> &Device<'d> {
        &self.0.device
    }

    pub(super) fn as_raw(&self) -> *mut ib_pd {
        self.0.raw.as_ptr()
    }

    /// The local key of kernel memory that is mapped for DMA.
    pub(super) fn lkey(&self) -> u32 {
        // SAFETY: By the type invariants; the member is constant.
        unsafe { (*self.as_raw()).local_dma_lkey }
    }
}

impl Object for Inner<'_> {
    const WHAT: &'static str = "a protection domain";

    fn destroy(&self, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants `self` owns the domain; its users hold references, so none is left.
        to_result(unsafe { bindings::ib_dealloc_pd_user(self.raw.as_ptr(), null_mut()) })
    }
}
