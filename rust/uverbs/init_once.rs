// SPDX-License-Identifier: GPL-2.0

//! Values in the memory of an object that are initialised in place, once.

use core::{
    cell::UnsafeCell,
    mem::MaybeUninit,
    pin::Pin,
    sync::atomic::{AtomicU8, Ordering},
};

use kernel::prelude::*;
use kernel_ext::compat::pin_init::initialize;

const INITIALISING: u8 = 1;
const INITIALISED: u8 = 2;

/// A value that is not initialised at first, and never dropped.
///
/// There is no constructor: it is a member of the memory of an object, which is zeroed at first and does not move.
///
/// # Invariants
///
/// `state` is 0 at first. After `state` is `INITIALISED`, `value` is initialised, and does not move. While it is
/// `INITIALISING`, only the thread that has set it uses `value`.
#[repr(C)]
pub struct InitOnce<T> {
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: One thread writes `value` before `state` publishes it; after that only `&T` are given out.
unsafe impl<T: Send + Sync> Send for InitOnce<T> {}
// SAFETY: One thread writes `value` before `state` publishes it; after that only `&T` are given out.
unsafe impl<T: Send + Sync> Sync for InitOnce<T> {}

impl<T> InitOnce<T> {
    /// Initialises the value, and calls `finish` with it before others see it. Later calls do nothing.
    pub fn init(&self, init: impl PinInit<T>, finish: impl FnOnce(Pin<&T>)) {
        let begun =
            self.state
                .compare_exchange(0, INITIALISING, Ordering::Acquire, Ordering::Relaxed);
        if begun.is_err() {
            return;
        }
        let value = self.value.get().cast::<T>();
        // SAFETY: By the type invariants only this thread uses the value, which does not move.
        let value = unsafe {
            let Ok(()) = initialize(value, init);
            Pin::new_unchecked(&*value)
        };
        finish(value);
        // INVARIANT: The value was initialised above.
        self.state.store(INITIALISED, Ordering::Release);
    }

    /// The value, if it is initialised.
    #[inline]
    pub fn get(&self) -> Option<Pin<&T>> {
        let ready = self.state.load(Ordering::Acquire) == INITIALISED;
        // SAFETY: By the type invariants the value is initialised, and does not move.
        ready.then(|| unsafe { Pin::new_unchecked(&*self.value.get().cast::<T>()) })
    }
}
