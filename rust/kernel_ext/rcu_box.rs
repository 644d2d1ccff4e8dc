// SPDX-License-Identifier: GPL-2.0

//! Values that RCU readers may still be looking at when their owner lets go of them.
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

/// A box whose value is dropped a grace period after the box is: RCU readers who found the value before that go on using
/// it.
///
/// The box may be dropped in any context. The value is dropped in softirq context, or in a kernel thread with softirqs
/// off: its `drop` must not sleep. A module that has such boxes calls [`barrier`] before it goes.
pub struct RcuBox<T: Send + 'static>(ManuallyDrop<KBox<Inner<T>>>);

// SAFETY: The value may be used and dropped on any thread; the head is used by RCU alone.
unsafe impl<T: Send> Send for RcuBox<T> {}
// SAFETY: A shared reference gives the value alone.
unsafe impl<T: Send + Sync> Sync for RcuBox<T> {}

impl<T: Send + 'static> RcuBox<T> {
    /// Puts a value into a box.
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
        // SAFETY: `head` is the first member of an `Inner<T>` from `KBox::into_raw`, which is ours again.
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
        // SAFETY: The head comes first, and is used for this alone; `free` takes the allocation back.
        unsafe { bindings::call_rcu(inner.cast(), Some(Self::free)) };
    }
}

/// Waits until the values of all boxes that have been dropped are dropped.
pub fn barrier(_may_sleep: &MaySleep) {
    // SAFETY: The token shows that it may sleep.
    unsafe { bindings::rcu_barrier() };
}
