// SPDX-License-Identifier: GPL-2.0

//! Objects whose last reference may be dropped in any context, while destroying them may sleep: a work queue does that.

use core::{ops::Deref, ptr::NonNull};

use kernel::{prelude::*, sync::Refcount};
use rdma_bindings::{work_struct, workqueue_struct};

use super::{Device, DropsAnywhere};
use crate::event::HandlerWork;

/// A value, counted.
#[pin_data]
struct Counted<T> {
    count: Refcount,
    queue: NonNull<workqueue_struct>,
    #[pin]
    work: HandlerWork,
    value: T,
}

/// A counted reference of a value, which is dropped in process context after the last one.
///
/// # Invariants
///
/// It is one of the references that are counted.
pub(super) struct Deferred<T>(NonNull<Counted<T>>);

// SAFETY: The value is shared, and dropped by another thread.
unsafe impl<T: Send + Sync> Send for Deferred<T> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for Deferred<T> {}

// SAFETY: A work queue drops the value.
unsafe impl<T> DropsAnywhere for Deferred<T> {}

impl<T: Send + Sync> Deferred<T> {
    /// Counts the first reference of a value, which keeps the device. Where that fails the value is dropped: so, from a place
    /// where that may not sleep, only with `flags` for there, and a value that may be dropped there.
    pub(super) fn new(device: &Device<'_>, value: T, flags: kernel::alloc::Flags) -> Result<Self> {
        let queue = device.scope.queue;
        let init = pin_init!(Counted {
            count: Refcount::new(1),
            queue,
            work <- HandlerWork::new(drop_last::<T>, kernel::static_lock_class!()),
            value,
        });
        let counted = KBox::pin_init(init, flags)?;
        // SAFETY: It stays where it is until `drop_last`.
        let counted = KBox::leak(unsafe { Pin::into_inner_unchecked(counted) });
        // INVARIANT: The first reference was just counted.
        Ok(Self(NonNull::from(counted)))
    }
}

impl<T> Deferred<T> {
    fn counted(&self) -> &Counted<T> {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Clone for Deferred<T> {
    fn clone(&self) -> Self {
        self.counted().count.inc();
        // INVARIANT: It was just counted.
        Self(self.0)
    }
}

impl<T> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T> Drop for Deferred<T> {
    fn drop(&mut self) {
        let counted = self.counted();
        if counted.count.dec_and_test() {
            // SAFETY: The queue goes after all handles of the device, and the value has one.
            unsafe { counted.work.queue(counted.queue.as_ptr()) };
        }
    }
}

/// Drops a value that has no reference any more.
///
/// # Safety
///
/// `work` is that of a `Counted<T>` without references; this is called once.
unsafe extern "C" fn drop_last<T>(work: *mut work_struct) {
    let work: *mut HandlerWork = work.cast();
    // SAFETY: By the safety requirements; it was allocated by `KBox`.
    drop(unsafe {
        let counted: *const Counted<T> = kernel::container_of!(work, Counted<T>, work);
        KBox::from_raw(counted.cast_mut())
    });
}
