// SPDX-License-Identifier: GPL-2.0

//! Execution contexts as types: [`MaySleep`] is the proof that the current context may sleep.
//!
//! A function that may sleep takes `&MaySleep`. The token is made only in functions that C calls in process context,
//! without a spinlock held and outside of read-side critical sections. It cannot be stored, sent to another thread or
//! made by safe code. So code in softirq context, or under a spinlock that C code has taken, has no token, and a call
//! of a function that sleeps does not compile.
//!
//! The type does not cover locks that safe code itself takes while it has a token: a debug kernel
//! (`DEBUG_ATOMIC_SLEEP`, lockdep) finds such bugs in the tests.
//!
//! Reference: `Documentation/infiniband/core_locking.rst`.

#[cfg(CONFIG_KUNIT = "y")]
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

/// Proof that the current context is process context and may sleep.
///
/// Functions take it by reference, so that it lives no longer than the call for which it was made.
///
/// # Invariants
///
/// While a value exists, its thread is in process context, and its maker holds no lock that forbids sleeping.
pub struct MaySleep(NotThreadSafe);

impl MaySleep {
    /// States that the caller may sleep.
    ///
    /// Only for functions that C calls, or in which a thread or work item of the kernel starts.
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

    /// The context of a KUnit test, which runs in the current kernel thread.
    ///
    /// # Errors
    ///
    /// `EPERM` outside of a test.
    #[cfg(CONFIG_KUNIT = "y")]
    pub fn of_test() -> Result<Self> {
        if !kernel::kunit::in_kunit_test() {
            return Err(EPERM);
        }
        // INVARIANT: KUnit calls a test in process context, without locks.
        Ok(Self(NotThreadSafe))
    }

    /// Declares to a debug kernel that the following code may sleep, as C's `might_sleep()`.
    #[inline(always)]
    #[track_caller]
    pub fn check(&self) {
        kernel::task::might_sleep();
    }

    /// Sleeps for at least `ms` milliseconds: `msleep()`.
    pub fn sleep_ms(&self, ms: u32) {
        // SAFETY: The token proves that the context may sleep.
        unsafe { crate::bindings::msleep(ms) };
    }

    /// Yields the CPU to other tasks if necessary: `cond_resched()`.
    pub fn cond_resched(&self) {
        // SAFETY: The token proves that the context may sleep.
        unsafe { crate::bindings::schedule() };
    }
}
