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

/// What a timer does.
pub trait OnTick: Send + DropsAnywhere {
    /// The time has come. Returns after how many nanoseconds the next is to come; `None` for no next one. One call at a time.
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
    context: Context,
    _device: Device<'d>,
}

#[pin_data]
struct Inner<T> {
    #[pin]
    timer: Opaque<hrtimer>,
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
            call: UnsafeCell::new(call),
        });
        // INVARIANT: It was just set up.
        Ok(Self {
            inner: KBox::pin_init(init, GFP_KERNEL)?,
            context,
            _device: device.clone(),
        })
    }

    /// Has the timer call in so many nanoseconds, whatever was to be before. Any context.
    pub fn start(&self, nanoseconds: u64) {
        let time = ktime_t::try_from(nanoseconds).unwrap_or(ktime_t::MAX);
        // SAFETY: By the type invariants.
        unsafe {
            let timer = self.inner.timer.get();
            bindings::hrtimer_start_range_ns(timer, time, 0, self.context.mode());
        }
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

/// A door: the time has come.
///
/// # Safety
///
/// C calls it with the timer of an `Inner<T>`, not twice at once.
unsafe extern "C" fn expired<T: OnTick>(timer: *mut hrtimer) -> hrtimer_restart {
    // SAFETY: By the safety requirements: there is no other reference to what is called.
    let next = unsafe {
        let inner: *const Inner<T> =
            kernel::container_of!(Opaque::cast_from(timer), Inner<T>, timer);
        (*(*inner).call.get()).tick()
    };
    let Some(next) = next else {
        return bindings::hrtimer_restart_HRTIMER_NORESTART;
    };
    // A timer that were due at once would never let go of its CPU.
    let interval = ktime_t::try_from(next.max(1)).unwrap_or(ktime_t::MAX);
    // SAFETY: The timer is in its call, where it may be moved on.
    unsafe { bindings::hrtimer_forward(timer, bindings::ktime_get(), interval) };
    bindings::hrtimer_restart_HRTIMER_RESTART
}
