// SPDX-License-Identifier: GPL-2.0

//! Access that can be taken away from all who have it.
//!
//! As [`kernel::revocable`], but taking away hurries: the kernel's waits for an ordinary grace period, which takes tens
//! of milliseconds, too long for what a process does thousands of times.

use core::sync::atomic::{AtomicBool, Ordering};

use kernel::{prelude::*, sync::rcu};

use crate::{context::MaySleep, sync};

/// An object that can be withdrawn: dropped while others still hold a reference to this wrapper.
///
/// # Invariants
///
/// Who gets at the object has found `gone` unset inside of an RCU read-side critical section, and stays in it.
#[pin_data]
pub struct Revocable<T> {
    gone: AtomicBool,
    #[pin]
    inner: kernel::revocable::Revocable<T>,
}

impl<T> Revocable<T> {
    /// Returns an initialiser of an object that is accessible.
    pub fn new<E>(object: impl PinInit<T, E>) -> impl PinInit<Self, Error>
    where
        Error: From<E>,
    {
        try_pin_init!(Self {
            gone: AtomicBool::new(false),
            inner <- kernel::revocable::Revocable::new(object),
        })
    }

    /// Calls `f` with the object; `None` once it is withdrawn. Any context.
    ///
    /// `f` runs in an RCU read-side critical section, so it must not sleep.
    #[inline]
    pub fn access<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        let guard = rcu::read_lock();
        if self.gone.load(Ordering::Relaxed) {
            return None;
        }
        self.inner.try_access_with_guard(&guard).map(f)
    }

    /// Withdraws the object: when this returns, it is dropped and nobody uses it.
    ///
    /// Tens of microseconds. Returns at once where somebody else has begun to withdraw it, and may not be done.
    pub fn revoke(&self, may_sleep: &MaySleep) {
        if self.gone.swap(true, Ordering::Relaxed) {
            return;
        }
        sync::rcu::synchronize_expedited(may_sleep);
        // SAFETY: By the type invariants: who uses the object found `gone` unset, so began before the grace period, and
        // has ended with it.
        unsafe { self.inner.revoke_nosync() };
    }
}
