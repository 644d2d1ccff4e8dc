// SPDX-License-Identifier: GPL-2.0

//! Reader-writer semaphores (`struct rw_semaphore`), as statics of a module or as members of C structures.
//!
//! C header: `include/linux/rwsem.h`.

use crate::{bindings, context::MaySleep};
use kernel::types::{NotThreadSafe, Opaque};

/// A semaphore that many tasks hold for reading, or one for writing.
#[repr(transparent)]
pub struct RwSem(Opaque<bindings::rw_semaphore>);

// SAFETY: A semaphore may be used from any thread.
unsafe impl Send for RwSem {}
// SAFETY: A semaphore may be used from any thread.
unsafe impl Sync for RwSem {}

impl RwSem {
    /// A semaphore in a static.
    ///
    /// # Safety
    ///
    /// [`Self::init`] is called before any other method.
    pub const unsafe fn new() -> Self {
        Self(Opaque::zeroed())
    }

    /// Initialises the semaphore.
    ///
    /// # Safety
    ///
    /// It is called once.
    pub unsafe fn init(&'static self) {
        // SAFETY: By the safety requirements it is not used yet; a static is not moved.
        unsafe { bindings::init_rwsem(self.0.get()) };
    }

    /// Borrows a semaphore of a C structure.
    ///
    /// # Safety
    ///
    /// `raw` is an initialised semaphore that is valid for `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(raw: *mut bindings::rw_semaphore) -> &'a Self {
        // SAFETY: By the safety requirements; the type is a transparent wrapper.
        unsafe { &*raw.cast() }
    }

    /// Takes it for reading. Sleeps while a task holds it for writing.
    pub fn read(&self, _sleep: &MaySleep) -> ReadGuard<'_> {
        // SAFETY: The semaphore is initialised, and the token proves that the context may sleep.
        unsafe { bindings::down_read(self.0.get()) };
        // INVARIANT: The semaphore was just taken.
        ReadGuard(self, NotThreadSafe)
    }

    /// Takes it for reading without waiting. `None` if a task holds it for writing, or waits for that.
    pub fn try_read(&self) -> Option<ReadGuard<'_>> {
        // SAFETY: The semaphore is initialised.
        let taken = unsafe { bindings::down_read_trylock(self.0.get()) };
        // INVARIANT: The semaphore was just taken.
        (taken == 1).then(|| ReadGuard(self, NotThreadSafe))
    }

    /// The guard of a semaphore that is held for reading, after [`core::mem::forget`] of the former guard.
    ///
    /// # Safety
    ///
    /// The semaphore is held for reading, and the caller gives that up to the guard.
    pub unsafe fn assume_read(&self) -> ReadGuard<'_> {
        // INVARIANT: By the safety requirements.
        ReadGuard(self, NotThreadSafe)
    }

    /// Takes it for writing. Sleeps while other tasks hold it.
    pub fn write(&self, _sleep: &MaySleep) -> WriteGuard<'_> {
        // SAFETY: The semaphore is initialised, and the token proves that the context may sleep.
        unsafe { bindings::down_write(self.0.get()) };
        // INVARIANT: The semaphore was just taken.
        WriteGuard(self, NotThreadSafe)
    }
}

/// A guard of a semaphore that is held for reading. Dropping it releases the semaphore.
///
/// # Invariants
///
/// The semaphore is held for reading.
#[must_use]
pub struct ReadGuard<'a>(&'a RwSem, NotThreadSafe);

impl<'a> ReadGuard<'a> {
    /// The semaphore.
    pub fn semaphore(&self) -> &'a RwSem {
        self.0
    }
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the semaphore is held for reading.
        unsafe { bindings::up_read(self.0 .0.get()) };
    }
}

/// A guard of a semaphore that is held for writing. Dropping it releases the semaphore.
///
/// # Invariants
///
/// The semaphore is held for writing.
#[must_use]
pub struct WriteGuard<'a>(&'a RwSem, NotThreadSafe);

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the semaphore is held for writing.
        unsafe { bindings::up_write(self.0 .0.get()) };
    }
}
