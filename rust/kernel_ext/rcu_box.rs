// SPDX-License-Identifier: GPL-2.0

//! Boxes whose value is dropped after an RCU grace period.
//!
//! C header: `include/linux/rcupdate.h`.

use crate::{bindings, context::MaySleep};
use core::{mem::ManuallyDrop, ops::Deref};
use kernel::{alloc::Flags, prelude::*, types::Opaque};

#[repr(C)]
struct Inner<T> {
    head: Opaque<bindings::callback_head>,
    value: T,
}

/// A box whose value is dropped an RCU grace period after the box, so that RCU readers can continue to use it.
///
/// The box may be dropped in any context. The value is dropped in softirq context, or in a kernel thread with softirqs
/// disabled: its `drop` must not sleep. A module with such boxes calls [`barrier`] before it is unloaded.
pub struct RcuBox<T: Send + 'static>(ManuallyDrop<KBox<Inner<T>>>);

// SAFETY: The value may be used and dropped on any thread; only RCU uses the head.
unsafe impl<T: Send> Send for RcuBox<T> {}
// SAFETY: A shared reference gives access to the value alone.
unsafe impl<T: Send + Sync> Sync for RcuBox<T> {}

impl<T: Send + 'static> RcuBox<T> {
    /// Allocates a box.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(value: T, flags: Flags) -> Result<Self> {
        let inner = KBox::new(
            Inner {
                head: Opaque::uninit(),
                value,
            },
            flags,
        )?;
        Ok(Self(ManuallyDrop::new(inner)))
    }

    /// Drops the value.
    ///
    /// # Safety
    ///
    /// RCU calls it, a grace period after `drop` handed the allocation over.
    unsafe extern "C" fn free(head: *mut bindings::callback_head) {
        // SAFETY: `head` is the first member of an `Inner<T>` from `KBox::into_raw`, whose ownership RCU returns.
        drop(unsafe { KBox::from_raw(head.cast::<Inner<T>>()) });
    }
}

impl<T: Send> Deref for RcuBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Send + 'static> Drop for RcuBox<T> {
    fn drop(&mut self) {
        // SAFETY: The box is not used again.
        let inner = KBox::into_raw(unsafe { ManuallyDrop::take(&mut self.0) });
        // SAFETY: The head is the first member, and only used here; `free` takes the allocation back.
        unsafe { bindings::call_rcu(inner.cast(), Some(Self::free)) };
    }
}

/// Waits until the values of all dropped boxes are dropped.
pub fn barrier(_may_sleep: &MaySleep) {
    // SAFETY: The token proves that the context may sleep.
    unsafe { bindings::rcu_barrier() };
}
