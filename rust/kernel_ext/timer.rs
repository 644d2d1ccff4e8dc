// SPDX-License-Identifier: GPL-2.0

//! One-shot timers that own a reference to their object while they are armed.
//!
//! A [`Timer`] is a field of an object in an [`Arc`]. [`Timer::arm`] schedules a call of [`OnTimer::expired`], in
//! softirq context, with a reference to the object: so the object outlives its timer, and the callback may drop the
//! last reference.
//!
//! An object may have several timers, which differ by `ID`.
//!
//! ```
//! # use kernel::{prelude::*, sync::Arc};
//! # use kernel_ext::timer::{impl_has_timer, now_ns, OnTimer, Timer};
//! #[pin_data]
//! struct Qp {
//!     #[pin]
//!     retry: Timer<Qp>,
//! }
//!
//! impl_has_timer! { impl HasTimer<0> for Qp { self.retry } }
//!
//! impl OnTimer for Qp {
//!     fn expired(this: Arc<Self>) {
//!         this.retransmit();
//!     }
//! }
//! # impl Qp {
//! #     fn retransmit(&self) {}
//! # }
//!
//! fn wait(qp: &Arc<Qp>, timeout_ns: u64) {
//!     Timer::arm(qp, now_ns().saturating_add(timeout_ns));
//! }
//! ```
//!
//! C header: `include/linux/hrtimer.h`.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Timer::state` | whether the timer is armed | any, interrupts off | the timer base's |

use crate::{
    bindings,
    context::MaySleep,
    sync::{new_spinlock_irq, SpinLockIrq},
};
use core::marker::PhantomData;
use kernel::{
    prelude::*,
    sync::Arc,
    time::{delay::fsleep, Delta},
    types::Opaque,
};

/// Returns the monotonic time since boot, in nanoseconds, without time in suspend.
#[inline]
pub fn now_ns() -> u64 {
    // SAFETY: No requirements. The clock starts at 0, so that it is not negative.
    unsafe { bindings::ktime_get() as u64 }
}

/// The callback of a timer.
pub trait OnTimer<const ID: u64 = 0>: HasTimer<ID> + Send + Sync + Sized + 'static {
    /// Called in softirq context, at the deadline or a little later. It may arm the timer again.
    fn expired(this: Arc<Self>);
}

/// A type with a field of type [`Timer`]. Implemented by [`impl_has_timer!`](crate::impl_has_timer).
///
/// # Safety
///
/// `raw_timer` returns a pointer to the `Timer<Self, ID>` field of `*this`, and `container_of` is its reverse.
pub unsafe trait HasTimer<const ID: u64>: Sized {
    /// Returns a pointer to the timer.
    ///
    /// # Safety
    ///
    /// `this` points to an allocation for a `Self`.
    unsafe fn raw_timer(this: *const Self) -> *const Timer<Self, ID>;

    /// Returns a pointer to the object that the timer is a field of.
    ///
    /// # Safety
    ///
    /// `timer` points to the timer field of a `Self`.
    unsafe fn container_of(timer: *const Timer<Self, ID>) -> *const Self;
}

/// Implements [`HasTimer`] for a type: see the example [there](self).
#[macro_export]
macro_rules! impl_has_timer {
    (impl HasTimer<$id:literal> for $self:ty { self.$field:ident }) => {
        // SAFETY: Both functions use the same field, whose type the compiler checks.
        unsafe impl $crate::timer::HasTimer<$id> for $self {
            #[inline]
            unsafe fn raw_timer(this: *const Self) -> *const $crate::timer::Timer<Self, $id> {
                // SAFETY: The field is inside the allocation.
                unsafe { &raw const (*this).$field }
            }

            #[inline]
            unsafe fn container_of(timer: *const $crate::timer::Timer<Self, $id>) -> *const Self {
                // SAFETY: By the safety requirements.
                unsafe { ::kernel::container_of!(timer, Self, $field) }
            }
        }
    };
}
pub use impl_has_timer;

/// State of a timer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not armed.
    Idle,
    /// Armed with this deadline; the timer owns a reference to its object.
    Armed(u64),
    /// Shut down: it is never armed again.
    ShutDown,
}

/// A one-shot timer, a field of the `T` that it calls.
///
/// # Invariants
///
/// The state is `Armed` if and only if the C timer is queued, is about to call `callback`, or is in it before the lock
/// is taken. Then the timer owns a reference to the object. The C timer is queued only with the lock held.
#[pin_data]
pub struct Timer<T, const ID: u64 = 0> {
    #[pin]
    state: SpinLockIrq<State>,
    #[pin]
    hrtimer: Opaque<bindings::hrtimer>,
    _object: PhantomData<fn(T)>,
}

// SAFETY: The C timer may be used from any thread.
unsafe impl<T, const ID: u64> Send for Timer<T, ID> {}
// SAFETY: The C timer has its own lock.
unsafe impl<T, const ID: u64> Sync for Timer<T, ID> {}

impl<T: OnTimer<ID>, const ID: u64> Timer<T, ID> {
    /// Returns an initialiser of a timer that is not armed.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_spinlock_irq!(State::Idle, "Timer::state"),
            // SAFETY: `slot` is valid for writes; the value is pinned from here on.
            hrtimer <- Opaque::ffi_init(|slot| unsafe {
                bindings::hrtimer_setup(
                    slot,
                    Some(Self::callback),
                    bindings::CLOCK_MONOTONIC as bindings::clockid_t,
                    bindings::hrtimer_mode_HRTIMER_MODE_ABS_SOFT,
                )
            }),
            _object: PhantomData,
        })
    }

    fn of(object: &Arc<T>) -> &Self {
        // SAFETY: The timer is a field of the object, which the reference keeps.
        unsafe { &*T::raw_timer(Arc::as_ptr(object)) }
    }

    /// Arms the timer for `deadline_ns` (by [`now_ns`]), or earlier; a past deadline expires at once. Any context.
    ///
    /// A timer that is armed for an earlier deadline is unchanged. After [`Timer::shut_down`] this has no effect.
    pub fn arm(object: &Arc<T>, deadline_ns: u64) {
        let timer = Self::of(object);
        let deadline_ns = deadline_ns.min(i64::MAX as u64);
        let mut state = timer.state.lock();
        match *state {
            State::ShutDown => return,
            State::Armed(earlier) if earlier <= deadline_ns => return,
            // The timer owns a reference already.
            State::Armed(_) => {}
            State::Idle => {
                let _ = Arc::into_raw(object.clone());
            }
        }
        // INVARIANT: The C timer is queued below, with the lock held, and with a reference.
        *state = State::Armed(deadline_ns);
        // SAFETY: The C timer was initialised.
        unsafe {
            bindings::hrtimer_start_range_ns(
                timer.hrtimer.get(),
                deadline_ns as bindings::ktime_t,
                0,
                bindings::hrtimer_mode_HRTIMER_MODE_ABS_SOFT,
            )
        };
    }

    /// Whether the timer is armed and has not begun to expire.
    pub fn is_armed(&self) -> bool {
        matches!(*self.state.lock(), State::Armed(_))
    }

    /// Cancels the timer, if it has not begun to expire; returns whether it did. Any context.
    ///
    /// When this returns `false`, [`OnTimer::expired`] may still be running, or about to run.
    pub fn cancel(object: &Arc<T>) -> bool {
        matches!(Self::try_cancel(object, State::Idle), Cancelled::Taken)
    }

    /// Cancels the timer and waits until [`OnTimer::expired`] is not running.
    ///
    /// The timer must not be armed concurrently, or it may be armed when this returns; [`Timer::shut_down`] prevents
    /// that. Not from within the callback.
    pub fn cancel_sync(object: &Arc<T>, may_sleep: &MaySleep) {
        Self::stop(object, State::Idle, may_sleep);
    }

    /// Like [`Timer::cancel_sync`], and the timer cannot be armed any more.
    pub fn shut_down(object: &Arc<T>, may_sleep: &MaySleep) {
        Self::stop(object, State::ShutDown, may_sleep);
    }

    fn stop(object: &Arc<T>, next: State, _may_sleep: &MaySleep) {
        // `fsleep` spins for 10 us or less.
        const PAUSE: Delta = Delta::from_micros(20);
        while matches!(Self::try_cancel(object, next), Cancelled::Running) {
            // The callback runs in a softirq of another CPU, or, with PREEMPT_RT, in a thread that this one preempted.
            fsleep(PAUSE);
        }
    }

    /// Tries once to change the timer to state `next`.
    fn try_cancel(object: &Arc<T>, next: State) -> Cancelled {
        let timer = Self::of(object);
        let mut state = timer.state.lock();
        // SAFETY: The C timer was initialised.
        let tried = unsafe { bindings::hrtimer_try_to_cancel(timer.hrtimer.get()) };
        let cancelled = match tried {
            0 => Cancelled::NotArmed,
            1 => Cancelled::Taken,
            _ => Cancelled::Running,
        };
        match (cancelled, *state) {
            // The callback has taken the reference, or will take it; but the timer cannot be armed any more.
            (Cancelled::Running, State::Idle) if next == State::ShutDown => *state = next,
            (Cancelled::Running, _) => {}
            // INVARIANT: The C timer is neither queued nor in its callback.
            (_, State::Idle) => *state = next,
            (_, State::Armed(_)) => {
                *state = next;
                drop(state);
                // SAFETY: The armed timer owned this reference, and will not call its callback.
                drop(unsafe { Arc::from_raw(Arc::as_ptr(object)) });
            }
            (_, State::ShutDown) => {}
        }
        cancelled
    }

    /// The callback of the C timer.
    ///
    /// # Safety
    ///
    /// `hrtimer` is the C timer of a `Self` that [`Timer::new`] set up and [`Timer::arm`] armed.
    unsafe extern "C" fn callback(hrtimer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
        let hrtimer = Opaque::cast_from(hrtimer);
        // SAFETY: By the safety requirements; the C timer is a field of `Self`, which is a field of a `T`.
        let timer: *const Self = unsafe { kernel::container_of!(hrtimer, Self, hrtimer) };
        // SAFETY: By the safety requirements the callback of `timer` runs; an armed timer owns a reference to the
        // object.
        if let Some(object) = unsafe { Self::take_expired(timer) } {
            T::expired(object);
        }
        bindings::HRTIMER_NORESTART
    }

    /// Takes the reference of an expired timer, unless it was armed again concurrently.
    ///
    /// # Safety
    ///
    /// `timer` is the timer whose callback runs.
    unsafe fn take_expired(timer: *const Self) -> Option<Arc<T>> {
        // SAFETY: The armed timer owns a reference to the object that it is a field of. If another CPU has armed it
        // again, it owns a new one, which cannot be taken before the lock is released below.
        let this = unsafe { &*timer };
        let mut state = this.state.lock();
        // SAFETY: The C timer was initialised.
        if unsafe { bindings::hrtimer_is_queued(this.hrtimer.get()) } {
            return None;
        }
        if !matches!(*state, State::Armed(_)) {
            return None;
        }
        // INVARIANT: The C timer is not queued, and its callback is past the lock.
        *state = State::Idle;
        drop(state);
        // SAFETY: The timer was armed, so it owned a reference, which this function takes over.
        Some(unsafe { Arc::from_raw(T::container_of(timer)) })
    }
}

/// Result of [`Timer::try_cancel`].
#[derive(Clone, Copy)]
enum Cancelled {
    /// The timer was not armed.
    NotArmed,
    /// The timer was canceled.
    Taken,
    /// The callback is running on another CPU.
    Running,
}
