// SPDX-License-Identifier: GPL-2.0

//! Protection domains of clients.

use core::ptr::{null_mut, NonNull};

use kernel::{prelude::*, sync::Arc};
use rdma_bindings::{self as bindings, ib_pd};

use super::{made, Device};
use crate::MaySleep;

/// A protection domain. Dropping it may sleep.
///
/// # Invariants
///
/// The protection domain is ours.
pub struct Pd {
    raw: NonNull<ib_pd>,
    device: Device,
}

// SAFETY: Protection domains may be used from any thread.
unsafe impl Send for Pd {}
// SAFETY: As above.
unsafe impl Sync for Pd {}

impl Pd {
    /// Makes a protection domain.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what the driver answers.
    pub fn new(device: &Device, sleep: &MaySleep) -> Result<Arc<Self>> {
        sleep.check();
        // SAFETY: The device is registered; the name is constant.
        let raw = made(unsafe {
            bindings::__ib_alloc_pd(device.as_raw(), 0, device.owner.as_char_ptr())
        })?;
        // INVARIANT: It was just made.
        let pd = Self {
            raw,
            device: device.clone(),
        };
        Ok(Arc::new(pd, GFP_KERNEL)?)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn as_raw(&self) -> *mut ib_pd {
        self.raw.as_ptr()
    }

    /// The key for memory of the kernel that is mapped for DMA.
    pub(super) fn lkey(&self) -> u32 {
        // SAFETY: By the type invariants; the member is constant.
        unsafe { (*self.as_raw()).local_dma_lkey }
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; what uses it has a reference to this.
        let ret = unsafe { bindings::ib_dealloc_pd_user(self.as_raw(), null_mut()) };
        if ret != 0 {
            pr_warn!(
                "a protection domain of {} cannot be destroyed: {ret}\n",
                self.device.owner
            );
        }
    }
}
