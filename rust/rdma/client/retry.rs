// SPDX-License-Identifier: GPL-2.0

//! Objects that their driver failed to destroy. They stay, with all that they use, since the driver may still use them. When the
//! device or the client goes, they are destroyed again, until the driver succeeds.

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
    /// A link in no list. `destroy` destroys the object that it is a part of, or puts it on the list again.
    pub(super) const fn new(destroy: unsafe fn(NonNull<Link>, &MaySleep)) -> Self {
        Self {
            next: AtomicPtr::new(null_mut()),
            destroy,
        }
    }
}

/// Objects that were not destroyed. They may be added from any context.
///
/// # Invariants
///
/// The links are those of objects that were not destroyed.
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
    /// The link is that of an object that nobody else destroys, and is in no list. Its function may be called with it.
    pub(super) unsafe fn add(&self, link: NonNull<Link>) {
        // INVARIANT: By the safety requirements.
        let _ = self
            .first
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |first| {
                // SAFETY: By the safety requirements the object is there, as nobody finds it in the list yet.
                unsafe { link.as_ref() }
                    .next
                    .store(first, Ordering::Relaxed);
                Some(link.as_ptr())
            });
    }

    /// Says whether this is asked for the first time.
    pub(super) fn is_first_time(&self) -> bool {
        !self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Destroys all that is in the list now. What the driver does not destroy is in the list again.
    pub(super) fn destroy(&self, sleep: &MaySleep) {
        let mut next = self.first.swap(null_mut(), Ordering::AcqRel);
        while let Some(link) = NonNull::new(next) {
            // SAFETY: By the type invariants the object is there. It is in no list now, and may go in its function.
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
