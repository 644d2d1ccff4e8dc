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

/// The shortest interval of a timer in nanoseconds. A timer that expires immediately, again and again, would monopolise its CPU.
pub const MIN_INTERVAL: u64 = 1_000;

/// The handler of a timer.
pub trait OnTick: Send + DropsAnywhere {
    /// Called when the timer expires, one call at a time. Returns the time to the next expiry in nanoseconds, at least
    /// [`MIN_INTERVAL`], or `None` for no further expiry; a concurrent [`Timer::start`] stays effective.
    ///
    /// It runs in the context of the timer: it must not sleep, but may post and poll.
    fn tick(&mut self) -> Option<u64>;
}

/// A timer of a client. Dropping it, in process context, cancels the timer, waits for its handler, and drops the handler.
///
/// # Invariants
///
/// The timer is initialised.
pub struct Timer<'d, T: OnTick + 'd> {
    inner: Pin<KBox<Inner<T>>>,
    _device: Device<'d>,
}

#[pin_data]
struct Inner<T> {
    #[pin]
    timer: Opaque<hrtimer>,
    context: Context,
    /// The handler, which only the expiry function uses.
    call: UnsafeCell<T>,
}

impl<T: OnTick> !DropsAnywhere for Timer<'_, T> {}

// SAFETY: Timers may be used from any thread, and the handler is `Send`.
unsafe impl<T: OnTick> Send for Timer<'_, T> {}
// SAFETY: Timers may be used from any thread, and only the expiry function, one call at a time, refers to the handler.
unsafe impl<T: OnTick> Sync for Timer<'_, T> {}

impl<'d, T: OnTick + 'd> Timer<'d, T> {
    /// Creates a timer that is not started yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(device: &Device<'d>, context: Context, call: T) -> Result<Self> {
        let init = pin_init!(Inner {
            // SAFETY: `slot` is valid for writes, and the timer is pinned from here on.
            timer <- Opaque::ffi_init(|slot| unsafe {
                let clock = bindings::CLOCK_MONOTONIC as bindings::clockid_t;
                bindings::hrtimer_setup(slot, Some(expired::<T>), clock, context.mode());
            }),
            context,
            call: UnsafeCell::new(call),
        });
        // INVARIANT: The timer was just initialised.
        Ok(Self {
            inner: KBox::pin_init(init, GFP_KERNEL)?,
            _device: device.clone(),
        })
    }

    /// Starts the timer, which expires after this many nanoseconds, at least [`MIN_INTERVAL`], in place of a former expiry. Any
    /// context. During a call of the handler the later one of this and the handler's return value is effective.
    pub fn start(&self, nanoseconds: u64) {
        // SAFETY: By the type invariants the timer is initialised.
        unsafe { Inner::start(&raw const *self.inner, nanoseconds) };
    }

    /// Stops the timer, and waits for its handler.
    pub fn stop(&self, sleep: &MaySleep) {
        sleep.check();
        // SAFETY: By the type invariants the timer is initialised.
        unsafe { bindings::hrtimer_cancel(self.inner.timer.get()) };
    }
}

impl<T: OnTick> Drop for Timer<'_, T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the timer is initialised.
        unsafe { bindings::hrtimer_cancel(self.inner.timer.get()) };
    }
}

impl<T> Inner<T> {
    /// Starts the timer, which expires after this many nanoseconds.
    ///
    /// # Safety
    ///
    /// The timer of `this` is initialised. `this` has the provenance of the whole structure, to which the expiry function goes
    /// back.
    unsafe fn start(this: *const Self, nanoseconds: u64) {
        let time = ktime_t::try_from(nanoseconds.max(MIN_INTERVAL)).unwrap_or(ktime_t::MAX);
        // SAFETY: By the safety requirements. The kernel does not run two calls of one timer concurrently.
        unsafe {
            let timer = Opaque::cast_into(&raw const (*this).timer);
            bindings::hrtimer_start_range_ns(timer, time, 0, (*this).context.mode());
        }
    }
}

/// The C entry point of the expiry.
///
/// # Safety
///
/// C calls it with the timer of a valid `Inner<T>`, not concurrently for one timer.
unsafe extern "C" fn expired<T: OnTick>(timer: *mut hrtimer) -> hrtimer_restart {
    // SAFETY: By the safety requirements there is no other reference to the handler. Another thread may have started the timer
    // concurrently, so it must not be forwarded, but it may be started.
    unsafe {
        let inner: *const Inner<T> =
            kernel::container_of!(Opaque::cast_from(timer), Inner<T>, timer);
        let next = (*(*inner).call.get()).tick();
        if let Some(next) = next {
            Inner::start(inner, next);
        }
    }
    bindings::HRTIMER_NORESTART
}
