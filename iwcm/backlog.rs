// SPDX-License-Identifier: GPL-2.0

//! The events of an identifier that wait for its work item: their memory is allocated before the driver may tell any.
//!
//! C header: `include/rdma/iw_cm.h`.

use kernel::{alloc::flags::GFP_KERNEL, prelude::*};
use rdma::core::iw::event::Event;

/// The events that wait, oldest first.
///
/// `slots` is a ring. Its boxes are there from [`Room`] on, so that a driver in atomic context allocates nothing but private data.
pub(crate) struct Backlog {
    slots: KVec<KBox<Option<Event>>>,
    first: usize,
    count: usize,
}

/// Memory for events, which no backlog has yet.
pub(crate) struct Room(KVec<KBox<Option<Event>>>);

impl Room {
    /// Memory for so many events.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(count: usize) -> Result<Self> {
        let mut slots = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            slots.push(KBox::new(None, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(Self(slots))
    }
}

impl Backlog {
    /// A backlog without room.
    pub(crate) const fn new() -> Self {
        Self {
            slots: KVec::new(),
            first: 0,
            count: 0,
        }
    }

    /// Takes the room, unless events wait. Returns the memory that it does not need, to be freed without locks.
    pub(crate) fn set_room(&mut self, room: Room) -> Room {
        if self.count != 0 {
            return room;
        }
        self.first = 0;
        Room(core::mem::replace(&mut self.slots, room.0))
    }

    /// The place of the `nth` event, in the ring.
    fn place(&self, nth: usize) -> usize {
        let place = self.first.wrapping_add(nth);
        place.checked_rem(self.slots.len()).unwrap_or(0)
    }

    /// Adds an event. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where the room is used up.
    pub(crate) fn push(&mut self, event: Event) -> Result {
        if self.count >= self.slots.len() {
            return Err(ENOMEM);
        }
        let place = self.place(self.count);
        let slot = self.slots.get_mut(place).ok_or(ENOMEM)?;
        **slot = Some(event);
        self.count = self.count.wrapping_add(1);
        Ok(())
    }

    /// Takes the oldest event.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.count = self.count.checked_sub(1)?;
        let taken = self.slots.get_mut(self.first).and_then(|slot| slot.take());
        self.first = self.place(1);
        taken
    }

    /// Whether no event waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}
