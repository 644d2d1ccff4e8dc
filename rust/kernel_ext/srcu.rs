// SPDX-License-Identifier: GPL-2.0

//! Sleepable RCU (SRCU).
//!
//! C header: `include/linux/srcu.h`.

use kernel::{error::to_result, ffi::c_int, prelude::*, types::NotThreadSafe};

use crate::{bindings, context::MaySleep, entry::view_of};

view_of! {
    /// An SRCU domain in a C structure.
    pub struct Srcu(bindings::srcu_struct);
}

impl Srcu {
    /// Initialises a domain; [`cleanup`](Self::cleanup) must be called at the end.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The domain is not used yet, and is not moved from now on.
    pub unsafe fn init(&self) -> Result {
        // SAFETY: By the safety requirements.
        to_result(unsafe { bindings::srcu_struct_init(self.as_raw()) })
    }

    /// Cleans up a domain.
    ///
    /// # Safety
    ///
    /// The domain was initialised, has no readers, and is not used any more.
    pub unsafe fn cleanup(&self, _sleep: &MaySleep) {
        // SAFETY: By the safety requirements.
        unsafe { bindings::cleanup_srcu_struct(self.as_raw()) };
    }

    /// Enters a read-side critical section, which may sleep. Not in interrupts.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_> {
        ReadGuard {
            srcu: self,
            // SAFETY: A domain is initialised before safe code gets a reference to it.
            index: unsafe { bindings::srcu_read_lock(self.as_raw()) },
            _not_send: NotThreadSafe,
        }
    }

    /// Waits for all current readers. The caller is not one of them.
    pub fn synchronize(&self, _sleep: &MaySleep) {
        // SAFETY: The domain is initialised; the token proves that the context may sleep.
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
