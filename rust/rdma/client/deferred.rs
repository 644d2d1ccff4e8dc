// SPDX-License-Identifier: GPL-2.0

//! Ownership of a device's objects, which a work item or their owner destroys.
//!
//! | type | destroyed by |
//! |---|---|
//! | [`Deferred`] | a work item, after the last reference is dropped, in any context |
//! | [`Owned`] | the owner that drops it, in process context |
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

/// An object of a device.
pub(super) trait Object: Send + Sync {
    /// The name of the object type, for messages.
    const WHAT: &'static str;

    /// Lets the driver destroy the object. `self` owns all that the driver may still use, and is dropped only after a success.
    /// After an error this may be called again.
    fn destroy(&self, sleep: &MaySleep) -> Result;
}

/// A reference-counted object. It holds a handle of the device, which stays registered as long.
#[pin_data]
struct Counted<T: Object> {
    count: Refcount,
    scope: Arc<Scope>,
    link: Link,
    #[pin]
    work: HandlerWork,
    value: T,
}

// SAFETY: `OFFSET` is the offset of the member `work`.
unsafe impl<T: Object> HandlerOwner for Counted<T> {
    const OFFSET: usize = offset_of!(Self, work);

    /// Destroys the object, which has no references any more.
    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: By the safety requirements; the item was queued once, after the last reference was dropped. Work items run in
        // process context.
        unsafe { destroy(this, &MaySleep::assume()) };
    }
}

/// Memory for an object that is about to be created, so that nothing fails after its creation.
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
            // SAFETY: The object is not moved until it is destroyed.
            Ok(counted) => NonNull::from(KBox::leak(unsafe { Pin::into_inner_unchecked(counted) })),
            Err(never) => match never {},
        }
    }

    /// Initialises an object that a work item destroys after its last reference.
    pub(super) fn deferred(self, device: &Device<'_>, value: T) -> Deferred<T> {
        // INVARIANT: The first reference was just counted.
        Deferred(self.fill(device, value))
    }

    /// Initialises an object with one owner.
    pub(super) fn owned(self, device: &Device<'_>, value: T) -> Owned<T> {
        // INVARIANT: The object was just initialised.
        Owned(self.fill(device, value))
    }
}

/// A counted reference to an object, which is destroyed in process context after the last one is dropped.
///
/// # Invariants
///
/// `self` is one of the counted references.
pub(super) struct Deferred<T: Object>(NonNull<Counted<T>>);

// SAFETY: `Object` requires `Send` and `Sync`: the object is shared, and a work item destroys it.
unsafe impl<T: Object> Send for Deferred<T> {}
// SAFETY: `Object` requires `Send` and `Sync`: the object is shared, and a work item destroys it.
unsafe impl<T: Object> Sync for Deferred<T> {}

// SAFETY: A work item destroys the object, so that dropping a reference does not wait.
unsafe impl<T: Object> DropsAnywhere for Deferred<T> {}

impl<T: Object> Deferred<T> {
    fn counted(&self) -> &Counted<T> {
        // SAFETY: By the type invariants the object has a reference, and so is valid.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Object> Clone for Deferred<T> {
    fn clone(&self) -> Self {
        self.counted().count.inc();
        // INVARIANT: The reference was just counted.
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
            // SAFETY: The work queue outlives all handles of the device, and the object holds one. The pointer has the provenance
            // of the object's box, which the work item frees.
            unsafe { HandlerWork::queue(self.0, counted.scope.queue.as_ptr()) };
        }
    }
}

/// An object with one owner. Dropping it, in process context, destroys the object.
///
/// # Invariants
///
/// The object is valid, and only the holder of this value destroys it.
pub(super) struct Owned<T: Object>(NonNull<Counted<T>>);

// SAFETY: `Object` requires `Send` and `Sync`.
unsafe impl<T: Object> Send for Owned<T> {}
// SAFETY: `Object` requires `Send` and `Sync`.
unsafe impl<T: Object> Sync for Owned<T> {}

impl<T: Object> !DropsAnywhere for Owned<T> {}

impl<T: Object> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the type invariants the object is valid.
        &unsafe { self.0.as_ref() }.value
    }
}

impl<T: Object> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. The type is not `DropsAnywhere`, so that handlers cannot own it: it is dropped in
        // process context.
        unsafe { destroy(self.0, &MaySleep::assume()) };
    }
}

/// Destroys an object, or puts it on the retry list where the driver fails.
///
/// # Safety
///
/// The object is valid, and the caller has exclusive access, which it gives up.
unsafe fn destroy<T: Object>(counted: NonNull<Counted<T>>, sleep: &MaySleep) {
    // SAFETY: By the safety requirements.
    let object = unsafe { counted.as_ref() };
    let Err(error) = object.value.destroy(sleep) else {
        // SAFETY: By the safety requirements; the object was allocated by `KBox`.
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
    // SAFETY: By the safety requirements. The object holds a handle of the device, for which the unregistration of the client
    // waits. The pointer has the provenance of the whole object, to which `destroy_again` goes back.
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
    // SAFETY: By the safety requirements; the pointer has the provenance of the whole object.
    unsafe {
        let counted: *const Counted<T> = kernel::container_of!(link.as_ptr(), Counted<T>, link);
        destroy(NonNull::new_unchecked(counted.cast_mut()), sleep);
    }
}
