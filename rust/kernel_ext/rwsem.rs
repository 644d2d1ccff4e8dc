// SPDX-License-Identifier: GPL-2.0

//! Reader-writer semaphores (`struct rw_semaphore`), as statics of a module or as members of C structures.
//!
//! C header: `include/linux/rwsem.h`.

use crate::{bindings, context::MaySleep};
use kernel::types::{NotThreadSafe, Opaque};

/// A semaphore that many tasks hold to read, or one to write.
#[repr(transparent)]
pub struct RwSem(Opaque<bindings::rw_semaphore>);

// SAFETY: A semaphore may be used from any thread.
unsafe impl Send for RwSem {}
// SAFETY: As above.
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

    /// Initialises it.
    ///
    /// # Safety
    ///
    /// It is called once.
    pub unsafe fn init(&'static self) {
        // SAFETY: By the safety requirements nobody uses it yet; a static is not moved.
        unsafe { bindings::init_rwsem(self.0.get()) };
    }

    /// A semaphore of a C structure.
    ///
    /// # Safety
    ///
    /// `raw` is an initialised semaphore, and stays for `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(raw: *mut bindings::rw_semaphore) -> &'a Self {
        // SAFETY: By the safety requirements; the type is a transparent wrapper.
        unsafe { &*raw.cast() }
    }

    /// Takes it to read. Sleeps while a task has it to write.
    pub fn read(&self, _sleep: &MaySleep) -> ReadGuard<'_> {
        // SAFETY: It was initialised, and the token shows that it may sleep.
        unsafe { bindings::down_read(self.0.get()) };
        // INVARIANT: It was just taken.
        ReadGuard(self, NotThreadSafe)
    }

    /// Takes it to read without waiting. `None` if a task has it to write, or waits for that.
    pub fn try_read(&self) -> Option<ReadGuard<'_>> {
        // SAFETY: It was initialised.
        let taken = unsafe { bindings::down_read_trylock(self.0.get()) };
        // INVARIANT: It was just taken.
        (taken == 1).then(|| ReadGuard(self, NotThreadSafe))
    }

    /// The guard of a semaphore that is held to read, after [`core::mem::forget`] of the one that took it.
    ///
    /// # Safety
    ///
    /// The semaphore is held to read, and the caller gives that up to the guard.
    pub unsafe fn assume_read(&self) -> ReadGuard<'_> {
        // INVARIANT: By the safety requirements.
        ReadGuard(self, NotThreadSafe)
    }

    /// Takes it to write. Sleeps while other tasks have it.
    pub fn write(&self, _sleep: &MaySleep) -> WriteGuard<'_> {
        // SAFETY: It was initialised, and the token shows that it may sleep.
        unsafe { bindings::down_write(self.0.get()) };
        // INVARIANT: It was just taken.
        WriteGuard(self, NotThreadSafe)
    }
}

/// The semaphore is held to read. Dropping the guard releases it.
///
/// # Invariants
///
/// As the type says.
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
        // SAFETY: By the type invariants.
        unsafe { bindings::up_read(self.0 .0.get()) };
    }
}

/// The semaphore is held to write. Dropping the guard releases it.
///
/// # Invariants
///
/// As the type says.
#[must_use]
pub struct WriteGuard<'a>(&'a RwSem, NotThreadSafe);

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::up_write(self.0 .0.get()) };
    }
}
