// SPDX-License-Identifier: GPL-2.0

//! Read-write semaphores in statics of a module.
//!
//! C header: `include/linux/rwsem.h`.

use crate::{bindings, context::MaySleep};
use kernel::types::Opaque;

/// A read-write semaphore.
pub struct RwSem(Opaque<bindings::rw_semaphore>);

// SAFETY: Semaphores are for all threads.
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

    /// Locks for reading.
    pub fn read(&self, _sleep: &MaySleep) -> ReadGuard<'_> {
        // SAFETY: It was initialised, and the token shows that it may sleep.
        unsafe { bindings::down_read(self.0.get()) };
        ReadGuard(self)
    }

    /// Locks for writing.
    pub fn write(&self, _sleep: &MaySleep) -> WriteGuard<'_> {
        // SAFETY: It was initialised, and the token shows that it may sleep.
        unsafe { bindings::down_write(self.0.get()) };
        WriteGuard(self)
    }
}

/// The semaphore is locked for reading.
pub struct ReadGuard<'a>(&'a RwSem);

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: It is held.
        unsafe { bindings::up_read(self.0 .0.get()) };
    }
}

/// The semaphore is locked for writing.
pub struct WriteGuard<'a>(&'a RwSem);

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: It is held.
        unsafe { bindings::up_write(self.0 .0.get()) };
    }
}
