// SPDX-License-Identifier: GPL-2.0

//! Ownership of a device's objects: which are destroyed by a work item, and which by their owner.
//!
//! | | is destroyed |
//! |---|---|
//! | [`Deferred`] | by a work queue, after the last reference was dropped: any context may drop it |
//! | [`Owned`] | by who drops it, in process context |
//!
//! An object whose driver fails to destroy it goes to the [list for another attempt](super::retry).

use core::{
    mem::{offset_of, MaybeUninit},
    ops::Deref,
    ptr::NonNull,
};

use kernel::{
    prelude::*,
    sync::{Arc, Refcount},
};

use super::{device::Scope, retry::Link, Device, DropsAnywhere};
use crate::{
    handler::{HandlerOwner, HandlerWork},
    MaySleep,
};

/// An object of the device.
pub(super) trait Object: Send + Sync {
    /// What it is, for messages.
    const WHAT: &'static str;

    /// Has the driver destroy it. What the driver may use is a part of `self`, which is dropped only after a success. After an
    /// error this may be called again.
    fn destroy(&self, sleep: &MaySleep) -> Result;
}

/// An object, counted. It has a handle of the device, so that is there.
#[pin_data]
struct Counted<T: Object> {
    count: Refcount,
    scope: Arc<Scope>,
    link: Link,
    #[pin]
    work: HandlerWork,
    value: T,
}

// SAFETY: The work item is the member `work`.
unsafe impl<T: Object> HandlerOwner for Counted<T> {
    const OFFSET: usize = offset_of!(Self, work);

    /// Destroys the object, which has no reference any more.
    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: By the safety requirements: it was queued once, after the last reference. Work items run in process context.
        unsafe { destroy(this, &MaySleep::assume()) };
    }
}

/// Memory for an object that is about to be made: so nothing can fail when it is there.
pub(super) struct UninitObject<T: Object>(KBox<MaybeUninit<Counted<T>>>);

impl<T: Object> UninitObject<T> {
    /// Allocates the memory.
    pub(super) fn new(flags: kernel::alloc::Flags) -> Result<Self> {
        Ok(Self(KBox::new_uninit(flags)?))
    }

    fn fill(self, device: &Device<'_>, value: T) -> NonNull<Counted<T>> {
        let init = pin_init!(Counted {
            count: Refcount::new(1),
            scope: device.scope.clone(),
            link: Link::new(destroy_again::<T>),
            work <- HandlerWork::new::<Counted<T>>(kernel::static_lock_class!()),
            value,
        });
        match self.0.write_pin_init(init) {
            // SAFETY: It stays where it is until it is destroyed.
            Ok(counted) => NonNull::from(KBox::leak(unsafe { Pin::into_inner_unchecked(counted) })),
            Err(never) => match never {},
        }
    }

    /// An object that is dropped later, after its last reference.
    pub(super) fn deferred(self, device: &Device<'_>, value: T) -> Deferred<T> {
        // INVARIANT: The first reference was just counted.
        Deferred(self.fill(device, value))
    }

    /// An object with an owner.
    pub(super) fn owned(self, device: &Device<'_>, value: T) -> Owned<T> {
        // INVARIANT: It was just made.
        Owned(self.fill(device, value))
    }
}

/// A counted reference of an object, which is destroyed in process context after the last one.
///
/// # Invariants
///
/// It is one of the references that are counted.
pub(super) struct Deferred<T: Object>(NonNull<Counted<T>>);

// SAFETY: The object is shared, and dropped by another thread.
unsafe impl<T: Object> Send for Deferred<T> {}
// SAFETY: As above.
unsafe impl<T: Object> Sync for Deferred<T> {}

// SAFETY: A work queue destroys the object.
unsafe impl<T: Object> DropsAnywhere for Deferred<T> {}

impl<T: Object> Deferred<T> {
    fn counted(&self) -> &Counted<T> {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Object> Clone for Deferred<T> {
    fn clone(&self) -> Self {
        self.counted().count.inc();
        // INVARIANT: It was just counted.
        Self(self.0)
    }
}

impl<T: Object> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T: Object> Drop for Deferred<T> {
    fn drop(&mut self) {
        let counted = self.counted();
        if counted.count.dec_and_test() {
            // SAFETY: The queue goes after all handles of the device, and the object has one. The work item destroys the object:
            // the pointer is that of its box.
            unsafe { HandlerWork::queue(self.0, counted.scope.queue.as_ptr()) };
        }
    }
}

/// An object with one owner, who destroys it by dropping this, in process context.
///
/// # Invariants
///
/// The object is there, and nobody else destroys it.
pub(super) struct Owned<T: Object>(NonNull<Counted<T>>);

// SAFETY: The object is for all threads.
unsafe impl<T: Object> Send for Owned<T> {}
// SAFETY: As above.
unsafe impl<T: Object> Sync for Owned<T> {}

impl<T: Object> !DropsAnywhere for Owned<T> {}

impl<T: Object> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the type invariants.
        &unsafe { self.0.as_ref() }.value
    }
}

impl<T: Object> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. It is dropped in process context: handlers cannot own it.
        unsafe { destroy(self.0, &MaySleep::assume()) };
    }
}

/// Destroys an object, or puts it on the retry list where the driver fails.
///
/// # Safety
///
/// The object is there, nobody else uses it or destroys it, and it is not used by the caller any more.
unsafe fn destroy<T: Object>(counted: NonNull<Counted<T>>, sleep: &MaySleep) {
    // SAFETY: By the safety requirements.
    let object = unsafe { counted.as_ref() };
    let Err(error) = object.value.destroy(sleep) else {
        // SAFETY: By the safety requirements; it was allocated by `KBox`.
        return drop(unsafe { KBox::from_raw(counted.as_ptr()) });
    };
    let scope = &object.scope;
    if scope.retry.is_first_time() {
        pr_warn!(
            "{}: {} of {} is not destroyed, and stays: {}\n",
            scope.device.name(),
            T::WHAT,
            scope.owner,
            error.to_errno()
        );
    }
    // SAFETY: By the safety requirements. The device's client does not go before the object has, which has a handle. The pointer is
    // made of the whole object, to which `destroy_again` goes back.
    unsafe {
        let link = &raw mut (*counted.as_ptr()).link;
        scope.retry.add(NonNull::new_unchecked(link));
    }
}

/// Destroys an object that was on the retry list.
///
/// # Safety
///
/// As for [`destroy`]; `link` is that of a `Counted<T>`.
unsafe fn destroy_again<T: Object>(link: NonNull<Link>, sleep: &MaySleep) {
    // SAFETY: By the safety requirements. The pointer was made of the whole object.
    unsafe {
        let counted: *const Counted<T> = kernel::container_of!(link.as_ptr(), Counted<T>, link);
        destroy(NonNull::new_unchecked(counted.cast_mut()), sleep);
    }
}
