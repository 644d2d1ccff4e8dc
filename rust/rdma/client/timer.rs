// SPDX-License-Identifier: GPL-2.0

//! Timers whose handlers may post and poll.
//!
//! ```
//! use kernel::prelude::*;
//! use rdma::client::{
//!     op::RcOp,
//!     qp::{QpHandle, Rc, Rts},
//!     timer::{Context, OnTick, Timer},
//!     work::Handler,
//!     Device, Work,
//! };
//!
//! /// Sends a message from an interrupt, once.
//! struct Late<'d, H: Handler<'d>>(QpHandle<'d, Rc, Rts>, Option<Pin<KBox<Work<'d, H>>>>);
//!
//! impl<'d, H: Handler<'d>> OnTick for Late<'d, H> {
//!     fn tick(&mut self) -> Option<u64> {
//!         let _ = self.0.post_send(self.1.take()?, RcOp::Send);
//!         None
//!     }
//! }
//!
//! fn begin<'d, H: Handler<'d>>(
//!     device: &Device<'d>,
//!     late: Late<'d, H>,
//! ) -> Result<Timer<'d, Late<'d, H>>> {
//!     let timer = Timer::new(device, Context::Hard, late)?;
//!     timer.start(1_000_000);
//!     Ok(timer)
//! }
//! ```
//!
//! C header: `include/linux/hrtimer.h`.

use core::cell::UnsafeCell;

use kernel::{prelude::*, types::Opaque};
use rdma_bindings::{self as bindings, hrtimer, hrtimer_restart, ktime_t};

use super::{Device, DropsAnywhere};
use crate::MaySleep;

pub use kernel_ext::interrupt::Context;

/// The shortest time, in nanoseconds, after which a timer calls: one that is due at once, again and again, would not let go of
/// its CPU.
pub const MIN_INTERVAL: u64 = 1_000;

/// What a timer does.
pub trait OnTick: Send + DropsAnywhere {
    /// The time has come. Returns after how many nanoseconds, at least [`MIN_INTERVAL`], the next is to come; `None` for no next
    /// one but that of a [`Timer::start`] meanwhile. One call at a time.
    ///
    /// In the context of the timer: it must not sleep, but may post and poll.
    fn tick(&mut self) -> Option<u64>;
}

/// A timer of a client. Dropping it, in process context, waits until it does not call, and then drops what it calls.
///
/// # Invariants
///
/// The timer was set up.
pub struct Timer<'d, T: OnTick + 'd> {
    inner: Pin<KBox<Inner<T>>>,
    _device: Device<'d>,
}

#[pin_data]
struct Inner<T> {
    #[pin]
    timer: Opaque<hrtimer>,
    context: Context,
    /// For the timer's call alone.
    call: UnsafeCell<T>,
}

impl<T: OnTick> !DropsAnywhere for Timer<'_, T> {}

// SAFETY: Timers may be used from any thread; what is called goes from one to another.
unsafe impl<T: OnTick> Send for Timer<'_, T> {}
// SAFETY: As above; nobody but the timer's call has a reference to what is called.
unsafe impl<T: OnTick> Sync for Timer<'_, T> {}

impl<'d, T: OnTick + 'd> Timer<'d, T> {
    /// Makes a timer, which does not run yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(device: &Device<'d>, context: Context, call: T) -> Result<Self> {
        let init = pin_init!(Inner {
            // SAFETY: There is room for a timer, which stays where it is.
            timer <- Opaque::ffi_init(|slot| unsafe {
                let clock = bindings::CLOCK_MONOTONIC as bindings::clockid_t;
                bindings::hrtimer_setup(slot, Some(expired::<T>), clock, context.mode());
            }),
            context,
            call: UnsafeCell::new(call),
        });
        // INVARIANT: It was just set up.
        Ok(Self {
            inner: KBox::pin_init(init, GFP_KERNEL)?,
            _device: device.clone(),
        })
    }

    /// Has the timer call in so many nanoseconds, at least [`MIN_INTERVAL`], whatever was to be before. Any context. While the timer
    /// calls, what comes later counts: this, or what the call returns.
    pub fn start(&self, nanoseconds: u64) {
        // SAFETY: By the type invariants.
        unsafe { Inner::start(&raw const *self.inner, nanoseconds) };
    }

    /// Stops the timer, and waits until it does not call.
    pub fn stop(&self, sleep: &MaySleep) {
        sleep.check();
        // SAFETY: By the type invariants.
        unsafe { bindings::hrtimer_cancel(self.inner.timer.get()) };
    }
}

impl<T: OnTick> Drop for Timer<'_, T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::hrtimer_cancel(self.inner.timer.get()) };
    }
}

impl<T> Inner<T> {
    /// Has the timer call in so many nanoseconds.
    ///
    /// # Safety
    ///
    /// The timer of `this` was set up. `this` is a pointer to the whole structure, to which the call goes back.
    unsafe fn start(this: *const Self, nanoseconds: u64) {
        let time = ktime_t::try_from(nanoseconds.max(MIN_INTERVAL)).unwrap_or(ktime_t::MAX);
        // SAFETY: By the safety requirements. The kernel lets no two calls of a timer run at once.
        unsafe {
            let timer = Opaque::cast_into(&raw const (*this).timer);
            bindings::hrtimer_start_range_ns(timer, time, 0, (*this).context.mode());
        }
    }
}

/// A C entry point: the time has come.
///
/// # Safety
///
/// C calls it with the timer of an `Inner<T>`, not twice at once.
unsafe extern "C" fn expired<T: OnTick>(timer: *mut hrtimer) -> hrtimer_restart {
    // SAFETY: By the safety requirements: there is no other reference to what is called. Another thread may have started the timer
    // meanwhile, so that it must not be moved on; but it may be started.
    unsafe {
        let inner: *const Inner<T> =
            kernel::container_of!(Opaque::cast_from(timer), Inner<T>, timer);
        let next = (*(*inner).call.get()).tick();
        if let Some(next) = next {
            Inner::start(inner, next);
        }
    }
    bindings::hrtimer_restart_HRTIMER_NORESTART
}
