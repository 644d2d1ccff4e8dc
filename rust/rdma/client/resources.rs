// SPDX-License-Identifier: GPL-2.0

//! What a posted work request uses until it is completed: an address handle, a memory region, a slot of an SRQ.

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{ah::Ah, mr, slots::Slot};

/// What a work request uses until it is completed.
#[expect(unreachable_pub, reason = "a part of a sealed public trait")]
pub enum Resources<'d> {
    /// Nothing but its memory.
    Nothing,
    /// Where the datagram goes.
    Address {
        /// The handle stays until then.
        _ah: Ah<'d>,
    },
    /// The region that is registered.
    Register(mr::Shared<'d>),
    /// The region that is invalidated.
    Invalidate(mr::Shared<'d>),
    /// Its place in an SRQ.
    Srq(Slot),
}

impl Resources<'_> {
    /// The request is completed, or was not posted.
    pub(super) fn release(self, is_done: bool) {
        match self {
            Self::Register(mr) if !is_done => mr.undo_register(),
            Self::Invalidate(mr) => mr.end_invalidate(is_done),
            Self::Srq(slot) => slot.free(),
            _ => {}
        }
    }
}

/// Counts a request that is posted, until its completion is handled: where the queue pair cannot be asked for its last one.
///
/// # Invariants
///
/// The counter is there as long as it is not zero.
pub(super) struct Outstanding(NonNull<AtomicUsize>);

// SAFETY: The counter is for all threads.
unsafe impl Send for Outstanding {}
// SAFETY: As above.
unsafe impl Sync for Outstanding {}

impl Outstanding {
    /// Counts one more.
    ///
    /// # Safety
    ///
    /// The counter stays as long as it is not zero.
    pub(super) unsafe fn new(counter: &AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        // INVARIANT: By the safety requirements.
        Self(NonNull::from(counter))
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; it is not zero.
        unsafe { self.0.as_ref() }.fetch_sub(1, Ordering::Release);
    }
}
