// SPDX-License-Identifier: GPL-2.0

//! The retry list: objects that their driver has failed to destroy.
//!
//! They stay allocated, with all objects that they use, since the driver may still access them. The removal of the device or the
//! client repeats the destruction until the driver succeeds.

use core::{
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};

use crate::MaySleep;

/// The list node in an object.
pub(super) struct Link {
    next: AtomicPtr<Link>,
    destroy: unsafe fn(NonNull<Link>, &MaySleep),
}

impl Link {
    /// A link in no list. `destroy` destroys the object that contains the link, or adds it to the list again.
    pub(super) const fn new(destroy: unsafe fn(NonNull<Link>, &MaySleep)) -> Self {
        Self {
            next: AtomicPtr::new(null_mut()),
            destroy,
        }
    }
}

/// A list of objects that were not destroyed. Objects may be added from any context.
///
/// # Invariants
///
/// The links are members of valid objects that are owned by the list.
pub(super) struct RetryList {
    first: AtomicPtr<Link>,
    is_told: AtomicBool,
}

impl RetryList {
    /// An empty list.
    pub(super) const fn new() -> Self {
        Self {
            first: AtomicPtr::new(null_mut()),
            is_told: AtomicBool::new(false),
        }
    }

    /// Adds an object.
    ///
    /// # Safety
    ///
    /// The link is in no list, and is a member of an object whose ownership passes to the list. Its function may be called with
    /// it.
    pub(super) unsafe fn add(&self, link: NonNull<Link>) {
        // INVARIANT: By the safety requirements.
        let _ = self
            .first
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |first| {
                // SAFETY: By the safety requirements the object is valid, and it is not in the list yet.
                unsafe { link.as_ref() }
                    .next
                    .store(first, Ordering::Relaxed);
                Some(link.as_ptr())
            });
    }

    /// Returns true for the first call only.
    pub(super) fn is_first_time(&self) -> bool {
        !self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Destroys all objects that are in the list now. Those that the driver fails to destroy are added again.
    pub(super) fn destroy(&self, sleep: &MaySleep) {
        let mut next = self.first.swap(null_mut(), Ordering::AcqRel);
        while let Some(link) = NonNull::new(next) {
            // SAFETY: By the type invariants the object is valid. It was removed from the list, and its function may free it.
            unsafe {
                let Link {
                    next: after,
                    destroy,
                } = link.as_ref();
                next = after.load(Ordering::Relaxed);
                destroy(link, sleep);
            }
        }
    }
}
