// SPDX-License-Identifier: GPL-2.0

//! Objects whose access can be revoked.
//!
//! As [`kernel::revocable`], but revocation uses an expedited grace period: an ordinary one takes tens of milliseconds,
//! too long for a frequent operation.

use core::sync::atomic::{AtomicBool, Ordering};

use kernel::{prelude::*, sync::rcu};

use crate::{context::MaySleep, sync};

/// An object that can be revoked: it is dropped while references to this wrapper still exist.
///
/// # Invariants
///
/// The object is accessed only within an RCU read-side critical section in which `gone` was found unset.
#[pin_data]
pub struct Revocable<T> {
    gone: AtomicBool,
    #[pin]
    inner: kernel::revocable::Revocable<T>,
}

impl<T> Revocable<T> {
    /// Returns an initialiser of an accessible object.
    pub fn new<E>(object: impl PinInit<T, E>) -> impl PinInit<Self, Error>
    where
        Error: From<E>,
    {
        try_pin_init!(Self {
            gone: AtomicBool::new(false),
            inner <- kernel::revocable::Revocable::new(object),
        })
    }

    /// Calls `f` with the object; `None` once it is revoked. Any context.
    ///
    /// `f` runs in an RCU read-side critical section, so it must not sleep.
    #[inline]
    pub fn access<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        let guard = rcu::read_lock();
        self.borrow(&guard).map(f)
    }

    /// Borrows the object for the rest of a critical section; `None` once it is revoked. Any context.
    #[inline]
    pub fn borrow<'a>(&'a self, guard: &'a rcu::Guard) -> Option<&'a T> {
        if self.gone.load(Ordering::Relaxed) {
            return None;
        }
        self.inner.try_access_with_guard(guard)
    }

    /// Revokes the object: when this returns, it is dropped and not accessed any more.
    ///
    /// Takes tens of microseconds. Returns at once if another thread is revoking it, which may not have finished.
    pub fn revoke(&self, may_sleep: &MaySleep) {
        if self.gone.swap(true, Ordering::Relaxed) {
            return;
        }
        sync::rcu::synchronize_expedited(may_sleep);
        // SAFETY: By the type invariants a user of the object has found `gone` unset, so its critical section has begun
        // before the grace period, and has ended with it.
        unsafe { self.inner.revoke_nosync() };
    }
}
