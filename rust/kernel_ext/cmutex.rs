// SPDX-License-Identifier: GPL-2.0

//! Mutexes that are members of C structures.
//!
//! C header: `include/linux/mutex.h`.

use crate::{bindings, context::MaySleep, entry::view_of};
use kernel::types::NotThreadSafe;

view_of! {
    /// A `struct mutex` that C code locks too. The structure that contains it defines what it protects.
    pub struct CMutex(bindings::mutex);
}

impl CMutex {
    /// Borrows a mutex of a C structure.
    ///
    /// # Safety
    ///
    /// `raw` is an initialised mutex that is valid for `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(raw: *mut bindings::mutex) -> &'a Self {
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        unsafe { &*raw.cast() }
    }

    /// Locks the mutex. Sleeps while another task holds it.
    #[inline]
    pub fn lock(&self, _sleep: &MaySleep) -> CMutexGuard<'_> {
        // SAFETY: The mutex is initialised, and the token proves that the context may sleep.
        unsafe { bindings::mutex_lock(self.as_raw()) };
        // INVARIANT: The mutex was just locked.
        CMutexGuard(self, NotThreadSafe)
    }

    /// The guard of a mutex that this task has locked.
    ///
    /// # Safety
    ///
    /// This task holds the mutex as long as the guard is used, and dropping the guard gives it up.
    #[inline]
    pub unsafe fn assume_locked(&self) -> CMutexGuard<'_> {
        // INVARIANT: By the safety requirements.
        CMutexGuard(self, NotThreadSafe)
    }
}

/// A [`CMutex`] that is locked. Dropping the guard unlocks it.
///
/// # Invariants
///
/// This task has locked the mutex.
#[must_use]
pub struct CMutexGuard<'a>(&'a CMutex, NotThreadSafe);

impl Drop for CMutexGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants this task holds the mutex.
        unsafe { bindings::mutex_unlock(self.0.as_raw()) };
    }
}
