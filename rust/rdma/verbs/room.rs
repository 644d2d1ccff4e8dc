// SPDX-License-Identifier: GPL-2.0

//! Room in completion queues. A request is posted only where there is room for its completion, so that no queue overruns: a
//! completion that is lost would be waited for for ever when its queue pair is destroyed.
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

use super::qp::DRAIN_REQUESTS;

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

    #[inline]
    fn take(&self, count: i32) -> Result {
        if self.free.fetch_sub(count, Ordering::Relaxed) >= count {
            return Ok(());
        }
        self.give(count);
        Err(ENOMEM)
    }

    #[inline]
    fn give(&self, count: i32) {
        // A completion was taken from the queue before, with its lock held: who posts next finds it gone.
        self.free.fetch_add(count, Ordering::Relaxed);
    }

    /// Takes room for the completion of a request. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where there is none.
    ///
    /// # Safety
    ///
    /// The room stays longer than the place.
    #[inline]
    pub(super) unsafe fn place(&self) -> Result<Place> {
        self.take(1)?;
        // INVARIANT: By the safety requirements.
        Ok(Place(NonNull::from(self)))
    }

    /// Takes room for an SRQ of so many requests, unless it has some.
    fn take_for_srq(&self, address: usize, requests: u32) -> Result {
        let mut srqs = self.srqs.lock();
        if let Some(srq) = srqs.iter_mut().find(|srq| srq.address == address) {
            srq.users = srq.users.saturating_add(1);
            return Ok(());
        }
        let room = i32::try_from(requests).map_err(|_| ENOMEM)?;
        srqs.reserve(1, GFP_KERNEL)?;
        self.take(room)?;
        let users = 1;
        // There is room for it.
        let _ = srqs.push_within_capacity(Srq {
            address,
            room,
            users,
        });
        Ok(())
    }

    /// A queue pair does not have the SRQ any more.
    fn give_of_srq(&self, address: usize) {
        let mut srqs = self.srqs.lock();
        if let Some(srq) = srqs.iter_mut().find(|srq| srq.address == address) {
            srq.users = srq.users.saturating_sub(1);
            if srq.users == 0 {
                self.give(srq.room);
            }
        }
        srqs.retain(|srq| srq.users != 0);
    }
}

/// The room of a completion, from the post until it is taken from the queue. Any context may drop it.
///
/// # Invariants
///
/// The room is there.
pub(super) struct Place(NonNull<Room>);

// SAFETY: Room is for all threads.
unsafe impl Send for Place {}
// SAFETY: As above.
unsafe impl Sync for Place {}

impl Drop for Place {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }.give(1);
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
    pub(super) fn last(room: &Arc<Room>) -> Result<Self> {
        room.take(DRAIN_REQUESTS as i32)?;
        let (room, srq) = (room.clone(), None);
        Ok(Self { room, srq })
    }

    /// Room for the requests of an SRQ.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where there is none.
    pub(super) fn srq(room: &Arc<Room>, srq: &super::Srq<'_>) -> Result<Self> {
        let address = srq.as_raw().addr();
        room.take_for_srq(address, srq.max_receives())?;
        let (room, srq) = (room.clone(), Some(address));
        Ok(Self { room, srq })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        match self.srq {
            Some(address) => self.room.give_of_srq(address),
            None => self.room.give(DRAIN_REQUESTS as i32),
        }
    }
}
