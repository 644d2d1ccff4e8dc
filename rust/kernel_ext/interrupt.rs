// SPDX-License-Identifier: GPL-2.0

//! Synchronous calls in softirq or hard interrupt context, to measure and test functions that support any context.
//!
//! ```
//! # use kernel::prelude::*;
//! # use kernel_ext::{
//! #     context::MaySleep,
//! #     interrupt::{Context, Interrupter},
//! # };
//! fn from_interrupt(post: impl Fn() -> Result + Sync, sleep: &MaySleep) -> Result {
//!     let mut interrupter = Interrupter::new(sleep)?;
//!     interrupter.call(Context::Hard, || post(), sleep).ok_or(EIO)?
//! }
//! ```
//!
//! C header: `include/linux/hrtimer.h`.

use core::{cell::Cell, ptr::null_mut};

use kernel::{ffi::c_void, prelude::*, types::Opaque};

use crate::{bindings, context::MaySleep, sync::Completion};

/// A context in which nothing may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A softirq.
    Soft,
    /// A hard interrupt: that of the timer. With `PREEMPT_RT` it is a softirq, since spinlocks must be usable.
    Hard,
}

impl Context {
    /// The mode of a timer whose callback runs in this context.
    pub fn mode(self) -> bindings::hrtimer_mode {
        match self {
            Self::Soft => bindings::hrtimer_mode_HRTIMER_MODE_REL_SOFT,
            Self::Hard => bindings::hrtimer_mode_HRTIMER_MODE_REL,
        }
    }
}

/// The closure to call.
#[derive(Clone, Copy)]
struct Job {
    run: unsafe fn(*mut c_void),
    closure: *mut c_void,
}

impl Job {
    const NONE: Self = Self {
        run: |_| {},
        closure: null_mut(),
    };
}

/// # Invariants
///
/// Outside [`Interrupter::call`] the timer is not queued, and its callback does not run. The job changes only while the timer is
/// idle.
#[pin_data]
struct Inner {
    #[pin]
    timer: Opaque<bindings::hrtimer>,
    #[pin]
    done: Completion,
    job: Cell<Job>,
}

/// Calls closures in interrupt context.
pub struct Interrupter(Pin<KBox<Inner>>);

// SAFETY: A timer may be used from any thread; only `call` uses the job, with exclusive access to the value.
unsafe impl Send for Interrupter {}

impl Interrupter {
    /// Creates the timer.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(_sleep: &MaySleep) -> Result<Self> {
        let inner = KBox::pin_init(
            pin_init!(Inner {
                timer: Opaque::zeroed(),
                done <- Completion::new(),
                job: Cell::new(Job::NONE),
            }),
            GFP_KERNEL,
        )?;
        // INVARIANT: The timer is not initialised yet, and so idle.
        Ok(Self(inner))
    }

    /// Calls `f` in this context, waits for it, and returns its result.
    pub fn call<R: Send, F: FnOnce() -> R + Send>(
        &mut self,
        context: Context,
        f: F,
        sleep: &MaySleep,
    ) -> Option<R> {
        sleep.check();
        let mut closure = (Some(f), None);
        let timer = self.0.timer.get();
        // INVARIANT: The timer is not queued.
        self.0.job.set(Job {
            run: run::<R, F>,
            closure: (&raw mut closure).cast(),
        });
        // SAFETY: By the type invariants the timer is idle, so it may be initialised again and started; it is pinned.
        unsafe {
            let clock = bindings::CLOCK_MONOTONIC as bindings::clockid_t;
            bindings::hrtimer_setup(timer, Some(expired), clock, context.mode());
            bindings::hrtimer_start_range_ns(timer, 0, 0, context.mode());
        }
        self.0.done.wait(sleep);
        // INVARIANT: The function waits for the callback.
        // SAFETY: The timer was initialised.
        unsafe { bindings::hrtimer_cancel(timer) };
        self.0.job.set(Job::NONE);
        closure.1
    }
}

/// Calls the closure.
///
/// # Safety
///
/// `closure` points to a closure and its result, with exclusive access during the call.
unsafe fn run<R, F: FnOnce() -> R>(closure: *mut c_void) {
    // SAFETY: By the safety requirements.
    let (f, result) = unsafe { &mut *closure.cast::<(Option<F>, Option<R>)>() };
    *result = f.take().map(|f| f());
}

/// Callback of the timer.
///
/// # Safety
///
/// The timer is that of an `Inner` which is in a call.
unsafe extern "C" fn expired(timer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
    // SAFETY: By the safety requirements; `Opaque` is transparent. `call` waits for the completion, so the closure is valid.
    let inner = unsafe {
        let inner = kernel::container_of!(Opaque::cast_from(timer), Inner, timer);
        let job = (*inner).job.get();
        (job.run)(job.closure);
        &*inner
    };
    inner.done.complete();
    bindings::HRTIMER_NORESTART
}
