// SPDX-License-Identifier: GPL-2.0

//! Credits for requests and their completion queue entries, so that no completion queue overruns.
//!
//! A request is posted only if its completion queue has a free entry for it, because a lost completion would block the
//! destruction of its queue pair for ever. A queue of a queue pair takes no more requests than its creator asked for, even if
//! the driver has made it larger. One more entry is for the drain request.
//!
//! | user of entries | from | until |
//! |---|---|---|
//! | a request of a queue pair | posting | its completion is polled |
//! | the drain request of each queue of a queue pair | the queue pair is created | it is destroyed |
//! | an SRQ, for all of its requests | the first queue pair with this SRQ and completion queue is created | the last one is destroyed |
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `CqEntries::srqs` | the SRQs that use entries | process | nothing |

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicI32, Ordering},
};

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

/// The number of entries for the drain request of a queue.
pub(super) const DRAIN_REQUESTS: u32 = 1;

/// The free entries of a completion queue.
#[pin_data]
pub(super) struct CqEntries {
    /// The number of free entries. It is negative for a moment when a request for an entry fails.
    free: AtomicI32,
    #[pin]
    srqs: Mutex<KVec<Srq>>,
}

/// An SRQ that uses entries.
struct Srq {
    /// The address, which identifies the SRQ.
    address: usize,
    entries: i32,
    /// The number of queue pairs that use it.
    users: usize,
}

#[inline]
fn take(free: &AtomicI32, count: i32) -> Result {
    if free.fetch_sub(count, Ordering::Relaxed) >= count {
        return Ok(());
    }
    give(free, count);
    Err(ENOMEM)
}

#[inline]
fn give(free: &AtomicI32, count: i32) {
    // The completion was polled before, under the queue's lock, so the next poster finds its entry free.
    free.fetch_add(count, Ordering::Relaxed);
}

impl CqEntries {
    /// Creates the count of `entries` free entries.
    pub(super) fn new(entries: u32) -> Result<Arc<Self>> {
        let free = i32::try_from(entries).unwrap_or(i32::MAX);
        let init = pin_init!(Self {
            free: AtomicI32::new(free),
            srqs <- new_mutex!(KVec::new(), "CqEntries::srqs"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Takes entries for an SRQ of this many requests, unless it has them already.
    fn take_for_srq(&self, address: usize, requests: usize) -> Result {
        let mut srqs = self.srqs.lock();
        if let Some(srq) = srqs.iter_mut().find(|srq| srq.address == address) {
            srq.users = srq.users.saturating_add(1);
            return Ok(());
        }
        let entries = i32::try_from(requests).map_err(|_| ENOMEM)?;
        srqs.reserve(1, GFP_KERNEL)?;
        take(&self.free, entries)?;
        // The capacity was reserved.
        let _ = srqs.push_within_capacity(Srq {
            address,
            entries,
            users: 1,
        });
        Ok(())
    }

    /// Releases the SRQ for a queue pair; the last one gives its entries back.
    fn give_for_srq(&self, address: usize) {
        let mut srqs = self.srqs.lock();
        if let Some(srq) = srqs.iter_mut().find(|srq| srq.address == address) {
            srq.users = srq.users.saturating_sub(1);
            if srq.users == 0 {
                give(&self.free, srq.entries);
            }
        }
        srqs.retain(|srq| srq.users != 0);
    }
}

/// A queue of a queue pair.
pub(super) struct Queue {
    /// The number of requests that may still be posted.
    free: AtomicI32,
    /// The completion queue of its requests.
    entries: Arc<CqEntries>,
}

impl Queue {
    /// Creates the count of a queue of this many requests.
    pub(super) fn new(requests: u32, entries: &Arc<CqEntries>) -> Self {
        Self {
            free: AtomicI32::new(i32::try_from(requests).unwrap_or(i32::MAX)),
            entries: entries.clone(),
        }
    }

    /// Takes a credit for a request and its completion. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if none is left.
    ///
    /// # Safety
    ///
    /// The queue outlives the credit.
    #[inline]
    pub(super) unsafe fn take_credit(&self) -> Result<Credit> {
        take(&self.free, 1)?;
        // INVARIANT: By the safety requirements. If there is no entry for the completion, the credit for the request is given
        // back.
        take(&self.entries.free, 1)
            .inspect_err(|_| give(&self.free, 1))
            .map(|()| Credit(NonNull::from(self)))
    }
}

/// The credit of a request and its completion, from posting until the completion is polled. It may be dropped in any context.
///
/// # Invariants
///
/// The queue is valid, and `self` owns one of its requests and one completion entry.
pub(super) struct Credit(NonNull<Queue>);

// SAFETY: The counts of queues are atomic.
unsafe impl Send for Credit {}
// SAFETY: The counts of queues are atomic.
unsafe impl Sync for Credit {}

impl Drop for Credit {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants the queue is valid.
        let queue = unsafe { self.0.as_ref() };
        give(&queue.entries.free, 1);
        give(&queue.free, 1);
    }
}

/// The entries of a completion queue that a queue pair reserves for its life.
pub(super) struct Reserved {
    entries: Arc<CqEntries>,
    /// The SRQ that the entries are for; `None` for those of a drain request.
    srq: Option<usize>,
}

impl Reserved {
    /// Reserves the entry for the drain request of a queue.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if none is left.
    pub(super) fn drain(entries: &Arc<CqEntries>) -> Result<Self> {
        take(&entries.free, DRAIN_REQUESTS as i32)?;
        Ok(Self {
            entries: entries.clone(),
            srq: None,
        })
    }

    /// Reserves entries for all requests of the SRQ with this address.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if none is left.
    pub(super) fn srq(entries: &Arc<CqEntries>, address: usize, requests: usize) -> Result<Self> {
        entries.take_for_srq(address, requests)?;
        Ok(Self {
            entries: entries.clone(),
            srq: Some(address),
        })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        match self.srq {
            Some(address) => self.entries.give_for_srq(address),
            None => give(&self.entries.free, DRAIN_REQUESTS as i32),
        }
    }
}
