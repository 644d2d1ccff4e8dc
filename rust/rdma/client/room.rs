// SPDX-License-Identifier: GPL-2.0

//! Credits: a request is posted only if its completion queue has a free entry for it, so that no completion queue
//! overruns. A lost completion would block the destruction of its queue pair for ever. A queue of a queue pair takes no
//! more requests than were asked for, even if the driver has made it larger; one entry more is for draining.
//!
//! | what takes room | from | until |
//! |---|---|---|
//! | a request of a queue pair | it is posted | its completion is taken from the queue |
//! | the last request of each queue of a queue pair | it is made | it is destroyed |
//! | an SRQ, for all of its requests at once | the first queue pair that has both is made | the last one is destroyed |
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Room::srqs` | which SRQs take room | process | nothing |

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicI32, Ordering},
};

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};

/// What a queue is drained with takes room for a request.
pub(super) const DRAIN_REQUESTS: u32 = 1;

/// The room of a completion queue.
#[pin_data]
pub(super) struct Room {
    /// How many completions more there is room for. Less than none for a moment, where somebody asks in vain.
    free: AtomicI32,
    #[pin]
    srqs: Mutex<KVec<Srq>>,
}

/// An SRQ that takes room.
struct Srq {
    /// Says which it is.
    address: usize,
    room: i32,
    /// How many queue pairs have it.
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
    // A completion was taken from its queue before, with the lock held: who posts next finds it gone.
    free.fetch_add(count, Ordering::Relaxed);
}

impl Room {
    /// Room for `entries` completions.
    pub(super) fn new(entries: u32) -> Result<Arc<Self>> {
        let free = i32::try_from(entries).unwrap_or(i32::MAX);
        let init = pin_init!(Self {
            free: AtomicI32::new(free),
            srqs <- new_mutex!(KVec::new(), "Room::srqs"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Takes room for an SRQ of so many requests, unless it has some.
    fn take_for_srq(&self, address: usize, requests: usize) -> Result {
        let mut srqs = self.srqs.lock();
        if let Some(srq) = srqs.iter_mut().find(|srq| srq.address == address) {
            srq.users = srq.users.saturating_add(1);
            return Ok(());
        }
        let room = i32::try_from(requests).map_err(|_| ENOMEM)?;
        srqs.reserve(1, GFP_KERNEL)?;
        take(&self.free, room)?;
        // There is room for it.
        let _ = srqs.push_within_capacity(Srq {
            address,
            room,
            users: 1,
        });
        Ok(())
    }

    /// A queue pair does not have the SRQ any more.
    fn give_of_srq(&self, address: usize) {
        let mut srqs = self.srqs.lock();
        if let Some(srq) = srqs.iter_mut().find(|srq| srq.address == address) {
            srq.users = srq.users.saturating_sub(1);
            if srq.users == 0 {
                give(&self.free, srq.room);
            }
        }
        srqs.retain(|srq| srq.users != 0);
    }
}

/// A queue of a queue pair.
pub(super) struct Queue {
    /// How many more requests there may be.
    free: AtomicI32,
    /// Where they are completed.
    room: Arc<Room>,
}

impl Queue {
    /// A queue of so many requests, which are completed there.
    pub(super) fn new(requests: u32, room: &Arc<Room>) -> Self {
        Self {
            free: AtomicI32::new(i32::try_from(requests).unwrap_or(i32::MAX)),
            room: room.clone(),
        }
    }

    /// Takes room for a request and its completion. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where there is none.
    ///
    /// # Safety
    ///
    /// The queue stays longer than the credit.
    #[inline]
    pub(super) unsafe fn take_credit(&self) -> Result<Credit> {
        take(&self.free, 1)?;
        // INVARIANT: By the safety requirements. Where there is no room for the completion, that for the request is given back.
        take(&self.room.free, 1)
            .inspect_err(|_| give(&self.free, 1))
            .map(|()| Credit(NonNull::from(self)))
    }
}

/// The room of a request and its completion, from the post until that is taken from the queue. Any context may drop it.
///
/// # Invariants
///
/// The queue is there, and what is taken of its room is to be given back.
pub(super) struct Credit(NonNull<Queue>);

// SAFETY: Queues are for all threads.
unsafe impl Send for Credit {}
// SAFETY: As above.
unsafe impl Sync for Credit {}

impl Drop for Credit {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        let queue = unsafe { self.0.as_ref() };
        give(&queue.room.free, 1);
        give(&queue.free, 1);
    }
}

/// What a queue of a queue pair takes of a completion queue, as long as the queue pair is there.
pub(super) struct Reserved {
    room: Arc<Room>,
    /// Of an SRQ; else there is room for the last request.
    srq: Option<usize>,
}

impl Reserved {
    /// Room for the last request of a queue.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where there is none.
    pub(super) fn drain(room: &Arc<Room>) -> Result<Self> {
        take(&room.free, DRAIN_REQUESTS as i32)?;
        Ok(Self {
            room: room.clone(),
            srq: None,
        })
    }

    /// Room for the requests of the SRQ with this address.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where there is none.
    pub(super) fn srq(room: &Arc<Room>, address: usize, requests: usize) -> Result<Self> {
        room.take_for_srq(address, requests)?;
        Ok(Self {
            room: room.clone(),
            srq: Some(address),
        })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        match self.srq {
            Some(address) => self.room.give_of_srq(address),
            None => give(&self.room.free, DRAIN_REQUESTS as i32),
        }
    }
}
