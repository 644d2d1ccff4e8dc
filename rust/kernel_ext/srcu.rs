// SPDX-License-Identifier: GPL-2.0

//! Sleepable RCU (SRCU): read-side critical sections that may sleep, of a `struct srcu_struct` in a C structure.
//!
//! C header: `include/linux/srcu.h`.

use kernel::{error::to_result, ffi::c_int, prelude::*, types::NotThreadSafe};

use crate::{bindings, context::MaySleep, entry::view_of};

view_of! {
    /// An SRCU domain in a C structure.
    ///
    /// # Invariants
    ///
    /// The domain is initialised.
    pub struct Srcu(bindings::srcu_struct);
}

/// Initialises a domain; [`cleanup`] must be called at the end.
///
/// # Errors
///
/// `ENOMEM`.
///
/// # Safety
///
/// `domain` is valid, not used yet, and not moved from now on.
pub unsafe fn init(domain: *mut bindings::srcu_struct) -> Result {
    // SAFETY: By the safety requirements.
    to_result(unsafe { bindings::srcu_struct_init(domain) })
}

/// Cleans up a domain.
///
/// # Safety
///
/// The domain was initialised, has no readers, and is not used any more.
pub unsafe fn cleanup(domain: *mut bindings::srcu_struct, _sleep: &MaySleep) {
    // SAFETY: By the safety requirements.
    unsafe { bindings::cleanup_srcu_struct(domain) };
}

impl Srcu {
    /// Borrows a domain.
    ///
    /// # Safety
    ///
    /// The domain is initialised, and not cleaned up during `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(domain: *mut bindings::srcu_struct) -> &'a Self {
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        // INVARIANT: By the safety requirements.
        unsafe { &*domain.cast() }
    }

    /// Enters a read-side critical section, which may sleep. Not in interrupts.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_> {
        ReadGuard {
            srcu: self,
            // SAFETY: By the type invariants.
            index: unsafe { bindings::srcu_read_lock(self.as_raw()) },
            _not_send: NotThreadSafe,
        }
    }

    /// Waits for all current readers. The caller is not one of them.
    pub fn synchronize(&self, _sleep: &MaySleep) {
        // SAFETY: By the type invariants; the token proves that the context may sleep.
        unsafe { bindings::synchronize_srcu(self.as_raw()) };
    }
}

/// A read-side critical section.
pub struct ReadGuard<'a> {
    srcu: &'a Srcu,
    index: c_int,
    _not_send: NotThreadSafe,
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: `index` is the result of `srcu_read_lock` in this task.
        unsafe { bindings::srcu_read_unlock(self.srcu.as_raw(), self.index) };
    }
}
