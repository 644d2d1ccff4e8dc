// SPDX-License-Identifier: GPL-2.0

//! Locks for softirq and interrupt context, completions, and waiting for RCU readers.
//!
//! | data is used in | lock |
//! |---|---|
//! | process context only | `kernel::sync::{Mutex, SpinLock}` |
//! | softirq too (packets, timers, BH work) | [`SpinLockBh`] |
//! | any context, or under a lock of C with interrupts disabled (`post_send`, `poll_cq`) | [`SpinLockIrq`] |
//!
//! C headers: `include/linux/spinlock.h`, `include/linux/completion.h`, `include/linux/rcupdate.h`.

use crate::{bindings, context::MaySleep};
use kernel::{
    ffi::{c_char, c_ulong},
    prelude::*,
    sync::lock::{Backend, Guard, Lock},
    types::{NotThreadSafe, Opaque},
};

// `try_lock` of a spinlock that is held succeeds there.
#[cfg(not(CONFIG_SMP))]
compile_error!("CONFIG_SMP is not set: spinlocks are empty on a kernel without SMP");

/// The backend of [`SpinLockBh`].
pub struct BhBackend;

/// A spinlock that disables softirqs on this CPU.
///
/// Not for code that may run with interrupts disabled: unlocking would run softirqs. Made by [`new_spinlock_bh!`].
///
/// [`new_spinlock_bh!`]: crate::new_spinlock_bh
pub type SpinLockBh<T> = Lock<T, BhBackend>;

/// Guard of [`SpinLockBh::lock`](Lock::lock).
pub type SpinLockBhGuard<'a, T> = Guard<'a, T, BhBackend>;

// SAFETY: `spinlock_t` provides mutual exclusion; the default `relock` is `lock`.
unsafe impl Backend for BhBackend {
    type State = bindings::spinlock_t;
    type GuardState = ();

    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: By the safety requirements of the trait.
        unsafe { bindings::__spin_lock_init(ptr, name, key) };
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: The lock was initialised, by the safety requirements of the trait.
        unsafe { bindings::spin_lock_bh(ptr) };
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        // SAFETY: The lock was initialised, by the safety requirements of the trait.
        let taken = unsafe { bindings::spin_trylock_bh(ptr) };
        (taken != 0).then_some(())
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, _state: &Self::GuardState) {
        // SAFETY: By the safety requirements of the trait the lock is held.
        unsafe { bindings::spin_unlock_bh(ptr) };
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // Without lockdep the check does nothing.
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: The lock was initialised, by the safety requirements of the trait.
            unsafe { bindings::spin_assert_is_held(ptr) };
        }
    }
}

/// The backend of [`SpinLockIrq`].
pub struct IrqBackend;

/// A spinlock that disables interrupts on this CPU, and restores their state.
///
/// Usable in any context but NMI. Made by [`new_spinlock_irq!`].
///
/// [`new_spinlock_irq!`]: crate::new_spinlock_irq
pub type SpinLockIrq<T> = Lock<T, IrqBackend>;

/// Guard of [`SpinLockIrq::lock`](Lock::lock).
pub type SpinLockIrqGuard<'a, T> = Guard<'a, T, IrqBackend>;

// SAFETY: `spinlock_t` provides mutual exclusion; the default `relock` is `lock`.
unsafe impl Backend for IrqBackend {
    type State = bindings::spinlock_t;
    type GuardState = c_ulong;

    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: By the safety requirements of the trait.
        unsafe { bindings::__spin_lock_init(ptr, name, key) };
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: The lock was initialised, by the safety requirements of the trait.
        unsafe { bindings::spin_lock_irqsave(ptr) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        let mut flags = 0;
        // SAFETY: The lock was initialised, by the safety requirements of the trait.
        let taken = unsafe { bindings::spin_trylock_irqsave(ptr, &mut flags) };
        taken.then_some(flags)
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, flags: &Self::GuardState) {
        // SAFETY: By the safety requirements of the trait the lock is held, and `flags` are those of `lock`.
        unsafe { bindings::spin_unlock_irqrestore(ptr, *flags) };
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // Without lockdep the check does nothing.
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: The lock was initialised, by the safety requirements of the trait.
            unsafe { bindings::spin_assert_is_held(ptr) };
        }
    }
}

/// The name of a lock class with a unique address: lockdep treats equal names at different addresses as different.
///
/// A class is a static, but a string literal is instantiated in each crate that a generic or inlined function is
/// compiled into. So code that makes locks for other crates names them by this macro, and uses [`new_mutex!`] of this
/// module.
///
/// [`new_mutex!`]: crate::new_mutex
#[doc(hidden)]
#[macro_export]
macro_rules! class_name {
    ($($name:literal)?) => {{
        static NAME: &::kernel::str::CStr = ::kernel::optional_name!($($name)?);
        NAME
    }};
}

/// Returns an initialiser of a [`SpinLockBh`], with its own lock class.
///
/// ```
/// # use kernel::{prelude::*, sync::Arc};
/// # use kernel_ext::sync::{new_spinlock_bh, SpinLockBh};
/// #[pin_data]
/// struct Queue {
///     #[pin]
///     items: SpinLockBh<KVec<u32>>,
/// }
///
/// fn queue() -> Result<Arc<Queue>> {
///     let init = pin_init!(Queue {
///         items <- new_spinlock_bh!(KVec::new(), "Queue::items"),
///     });
///     Arc::pin_init(init, GFP_KERNEL)
/// }
/// ```
///
/// [`SpinLockBh`]: crate::sync::SpinLockBh
#[macro_export]
macro_rules! new_spinlock_bh {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::SpinLockBh::new(
            $inner, $crate::class_name!($($name)?), ::kernel::static_lock_class!())
    };
}
pub use new_spinlock_bh;

/// Returns an initialiser of a [`SpinLockIrq`], with its own lock class.
///
/// [`SpinLockIrq`]: crate::sync::SpinLockIrq
#[macro_export]
macro_rules! new_spinlock_irq {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::SpinLockIrq::new(
            $inner, $crate::class_name!($($name)?), ::kernel::static_lock_class!())
    };
}
pub use new_spinlock_irq;

/// Returns an initialiser of a `kernel::sync::Mutex`, with its own lock class; also in code for other crates.
#[macro_export]
macro_rules! new_mutex {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        ::kernel::sync::Mutex::new(
            $inner, $crate::class_name!($($name)?), ::kernel::static_lock_class!())
    };
}
pub use new_mutex;

/// A completion.
///
/// Unlike `kernel::sync::Completion` it can be signalled for one waiter, has a wait with a timeout, and requires the
/// token for sleeping.
#[pin_data]
pub struct Completion {
    #[pin]
    inner: Opaque<bindings::completion>,
}

// SAFETY: A `struct completion` may be used from any task.
unsafe impl Send for Completion {}
// SAFETY: A `struct completion` may be used from several tasks at once.
unsafe impl Sync for Completion {}

impl Completion {
    /// Returns an initialiser of an incomplete completion.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes; the value is pinned from here on.
            inner <- Opaque::ffi_init(|slot| unsafe { bindings::init_completion(slot) }),
        })
    }

    /// Wakes one waiter, a present or future one. Any context.
    #[inline]
    pub fn complete(&self) {
        // SAFETY: `inner` was initialised.
        unsafe { bindings::complete(self.inner.get()) };
    }

    /// Wakes all present and future waiters. Any context.
    #[inline]
    pub fn complete_all(&self) {
        // SAFETY: `inner` was initialised.
        unsafe { bindings::complete_all(self.inner.get()) };
    }

    /// Waits until it is complete, uninterruptibly.
    pub fn wait(&self, _may_sleep: &MaySleep) {
        // SAFETY: `inner` was initialised, and the token proves that the context may sleep.
        unsafe { bindings::wait_for_completion(self.inner.get()) };
    }

    /// Waits until it is complete or `milliseconds` have passed; returns whether it is complete.
    #[must_use]
    pub fn wait_timeout(&self, milliseconds: u32, _may_sleep: &MaySleep) -> bool {
        let jiffies = kernel::time::msecs_to_jiffies(milliseconds);
        // SAFETY: `inner` was initialised, and the token proves that the context may sleep.
        unsafe { bindings::wait_for_completion_timeout(self.inner.get(), jiffies) != 0 }
    }
}

/// A guard that disables softirqs on this CPU. The code must not sleep while it exists.
pub struct SoftirqsOff(NotThreadSafe);

impl SoftirqsOff {
    /// Disables softirqs.
    #[inline]
    pub fn new(_may_sleep: &MaySleep) -> Self {
        // SAFETY: The token proves process context, and the guard is not `Send`, so that its task drops it.
        unsafe { bindings::local_bh_disable() };
        Self(NotThreadSafe)
    }
}

impl Drop for SoftirqsOff {
    fn drop(&mut self) {
        // SAFETY: `new` has disabled softirqs, in this task.
        unsafe { bindings::local_bh_enable() };
    }
}

/// Waiting for RCU readers; the guards are those of `kernel::sync::rcu`.
pub mod rcu {
    use super::*;

    /// Waits for all current readers: `synchronize_rcu()`. Takes milliseconds to tens of milliseconds.
    pub fn synchronize(_may_sleep: &MaySleep) {
        // SAFETY: The token proves that the context may sleep, so that it is not a reader itself.
        unsafe { bindings::synchronize_rcu() };
    }

    /// Like [`synchronize`], but expedited: takes tens of microseconds, and interrupts the other CPUs.
    pub fn synchronize_expedited(_may_sleep: &MaySleep) {
        // SAFETY: The token proves that the context may sleep, so that it is not a reader itself.
        unsafe { bindings::synchronize_rcu_expedited() };
    }

    /// Waits until each task has voluntarily left the code that it is executing; interrupt handlers and softirqs have
    /// then left, too: `synchronize_rcu_tasks()`. For code that is about to be unloaded. Takes up to seconds.
    pub fn synchronize_tasks(_may_sleep: &MaySleep) {
        // SAFETY: The token proves that the context may sleep.
        unsafe {
            bindings::synchronize_rcu_tasks();
            bindings::synchronize_rcu();
        }
    }

    /// Waits for all packets in the receive path: `synchronize_net()`.
    pub fn synchronize_net(_may_sleep: &MaySleep) {
        // SAFETY: The token proves that the context may sleep, so that it is not a reader itself.
        unsafe { bindings::synchronize_net() };
    }
}
