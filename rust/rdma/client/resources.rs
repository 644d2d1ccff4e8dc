// SPDX-License-Identifier: GPL-2.0

//! The resources that a posted work request uses until its completion: an address handle, a memory region, a slot of an
//! SRQ.

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{ah::Ah, mr, slots::Slot};

/// The resources of a work request.
#[allow(
    unreachable_pub,
    private_interfaces,
    reason = "a part of a sealed public trait, which newer compilers see"
)]
pub enum Resources<'d> {
    /// None besides its memory.
    Nothing,
    /// The destination of a datagram.
    Address {
        /// The address handle.
        _ah: Ah<'d>,
    },
    /// The region that is registered.
    Register(mr::Shared<'d>),
    /// The region that is invalidated.
    Invalidate(mr::Shared<'d>),
    /// Its slot in an SRQ.
    Srq(Slot),
}

impl Resources<'_> {
    /// Releases the resources of a request that is completed or was not posted; `is_done` if it was executed.
    pub(super) fn release(self, is_done: bool) {
        match self {
            Self::Register(mr) if !is_done => mr.undo_register(),
            Self::Invalidate(mr) => mr.end_invalidate(is_done),
            Self::Srq(slot) => slot.free(),
            _ => {}
        }
    }
}

/// Counts a posted request until its completion is handled, for queue pairs that cannot be drained by a drain request.
///
/// # Invariants
///
/// The counter is valid as long as it is not zero.
pub(super) struct Outstanding(NonNull<AtomicUsize>);

// SAFETY: The counter is atomic.
unsafe impl Send for Outstanding {}
// SAFETY: The counter is atomic.
unsafe impl Sync for Outstanding {}

impl Outstanding {
    /// Counts one more request.
    ///
    /// # Safety
    ///
    /// The counter is valid as long as it is not zero.
    pub(super) unsafe fn new(counter: &AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        // INVARIANT: By the safety requirements.
        Self(NonNull::from(counter))
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; the counter includes `self`, and so is not zero.
        unsafe { self.0.as_ref() }.fetch_sub(1, Ordering::Release);
    }
}
