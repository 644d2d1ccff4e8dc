// SPDX-License-Identifier: GPL-2.0

//! Contexts as types.
//!
//! A function that may sleep takes `&MaySleep`. The token exists only at doors that C calls in process context, with no
//! spin lock held and no read-side critical section entered; it cannot be stored, sent to another thread or made by safe
//! code. So what runs in softirq context, or under a spin lock that C code took, cannot call what sleeps: it has no
//! token to hand on, and does not compile.
//!
//! What the type does not see is a lock that safe code itself takes while it has a token: a debug kernel
//! (`DEBUG_ATOMIC_SLEEP`, lockdep) catches that in the tests.
//!
//! Reference: `Documentation/infiniband/core_locking.rst`.

#[cfg(CONFIG_KUNIT = "y")]
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

/// Proof that the current context is process context and may sleep.
///
/// Functions take it by reference, so that it lives no longer than the call that the door made it for.
///
/// # Invariants
///
/// While a value exists, its thread is in process context, and whoever made it holds nothing that forbids sleeping.
pub struct MaySleep(NotThreadSafe);

impl MaySleep {
    /// States that the caller may sleep.
    ///
    /// For doors alone: the functions that C calls, or that a thread or work queue of the kernel starts with.
    ///
    /// # Safety
    ///
    /// The caller runs in process context, and no spin lock, RCU read-side critical section or disabled preemption
    /// surrounds any use of the returned value.
    #[inline(always)]
    pub unsafe fn assume() -> Self {
        // INVARIANT: By the safety requirements.
        Self(NotThreadSafe)
    }

    /// The context of a KUnit test, which runs in a thread of its own: of the present one.
    ///
    /// # Errors
    ///
    /// `EPERM` outside of a test.
    #[cfg(CONFIG_KUNIT = "y")]
    pub fn of_test() -> Result<Self> {
        if !kernel::kunit::in_kunit_test() {
            return Err(EPERM);
        }
        // INVARIANT: KUnit's threads hold nothing while they call a test.
        Ok(Self(NotThreadSafe))
    }

    /// Tells a debug kernel that the code that follows may sleep, as C's `might_sleep()`.
    #[inline(always)]
    #[track_caller]
    pub fn check(&self) {
        kernel::task::might_sleep();
    }

    /// Lets other tasks of this CPU run, if there are any.
    pub fn cond_resched(&self) {
        // SAFETY: The token shows that it may sleep.
        unsafe { crate::bindings::schedule() };
    }
}
