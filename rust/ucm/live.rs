// SPDX-License-Identifier: GPL-2.0

//! An identifier that is in use, and therefore not destroyed: what may be asked of it at any time.
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{prelude::*, types::NotThreadSafe};
use rdma::{
    bindings::{self, rdma_cm_id},
    core::Device,
    MaySleep,
};

/// An identifier that is not destroyed for `'a`.
///
/// # Invariants
///
/// As above.
#[derive(Clone, Copy)]
pub(crate) struct Live<'a>(NonNull<rdma_cm_id>, PhantomData<&'a rdma_cm_id>);

impl<'a> Live<'a> {
    /// # Safety
    ///
    /// The identifier is not destroyed for `'a`.
    pub(crate) unsafe fn new(raw: NonNull<rdma_cm_id>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw, PhantomData)
    }

    pub(crate) fn raw(self) -> *mut rdma_cm_id {
        self.0.as_ptr()
    }

    /// The device, if the identifier has one: it has it until it is destroyed.
    pub(crate) fn device(self) -> Option<&'a Device> {
        // SAFETY: The identifier is valid. The pointer is set once; the device stays registered until the identifier is destroyed. A
        // view is a transparent wrapper.
        unsafe {
            let device = (&raw const (*self.raw()).device).read_volatile();
            device.cast::<Device>().as_ref()
        }
    }

    /// The identifier, if it has a device.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has none.
    pub(crate) fn bound(self) -> Result<*mut rdma_cm_id> {
        self.device().map(|_| self.raw()).ok_or(EINVAL)
    }

    /// The number of its port; of no meaning without a device.
    pub(crate) fn port(self) -> u32 {
        // SAFETY: The identifier is valid.
        unsafe { (&raw const (*self.raw()).port_num).read_volatile() }
    }

    /// Waits for its handlers, and lets none run until the result is dropped.
    pub(crate) fn quiet(self, _sleep: &MaySleep) -> Quiet<'a> {
        // SAFETY: The identifier is valid.
        // INVARIANT: The lock was just taken.
        unsafe { bindings::rdma_lock_handler(self.raw()) };
        Quiet(self, NotThreadSafe)
    }
}

/// The handler lock of an identifier: no handler of it runs.
///
/// # Invariants
///
/// The lock is held, by this task.
pub struct Quiet<'a>(Live<'a>, NotThreadSafe);

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_unlock_handler(self.0.raw()) };
    }
}
