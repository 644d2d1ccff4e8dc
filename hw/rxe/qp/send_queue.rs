// SPDX-License-Identifier: GPL-2.0

//! The send queue of a queue pair: incomplete requests of a user ring or of a kernel consumer.

use super::attr;
use crate::ah::Av;
use crate::limits;
use crate::ring::Consumer;
use crate::wqe::{self, Inbox, Limits, Objects, SendWqe, Slots, UserSend};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::room::Room;
use kernel_ext::sync::SpinLockIrq;
use rdma::SendWrs;
use roce::state::WcStatus;

/// Maximum number of requests read ahead of the oldest incomplete one, regardless of the size of a user ring: the
/// copies take kernel memory. More are never in flight, since each takes at least one packet, except for local
/// operations.
const LOOKAHEAD: u32 = 256;
const _: () = assert!(LOOKAHEAD >= 2 * attr::WINDOW);

/// Slots of a new queue for a user ring. Few programs have more requests under way; their queues grow.
const FIRST_SLOTS: u32 = 4;

/// Requests that were read from the ring, or taken from the inbox, and are incomplete. Protected by the engine's lock.
pub(crate) struct SendQueue {
    /// The user ring.
    ring: Option<Consumer>,
    slots: Slots<SendWqe>,
    limits: Limits,
    /// Index of the oldest incomplete request.
    first: u32,
    /// Index of the next request to read.
    next: u32,
}

impl SendQueue {
    /// Creates a queue for the requests in `ring`, or for `capacity` requests of a kernel consumer. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENOMEM`.
    pub(crate) fn new(ring: Option<Consumer>, capacity: u32, limits: Limits) -> Result<Self> {
        let capacity = match &ring {
            Some(ring) => ring.capacity().min(FIRST_SLOTS),
            None => capacity,
        };
        let slots = Slots::new(capacity, limits.data_len(), GFP_KERNEL_ACCOUNT)?;
        Ok(Self {
            ring,
            slots,
            limits,
            first: 0,
            next: 0,
        })
    }

    /// Limits of the queue's requests.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Drops all requests; the next one has index 0.
    pub(crate) fn reset(&mut self) {
        while self.first != self.next {
            drop(self.slots.take(self.first));
            self.first = self.first.wrapping_add(1);
        }
        if let Some(ring) = &mut self.ring {
            ring.clear();
        }
        (self.first, self.next) = (0, 0);
    }

    /// Writes requests of the uverbs command to the user ring.
    ///
    /// # Errors
    ///
    /// `EINVAL` for requests that the command does not support, `ENOMEM` when the ring is full.
    pub(super) fn post<P: Objects>(&mut self, wrs: &mut SendWrs<'_, P>) -> Result {
        let ring = self.ring.as_mut().ok_or(EINVAL)?;
        wrs.try_for_each(|wr| wqe::post_send(&wr, &self.limits, ring))
    }

    /// The list or inline data of request `index`.
    pub(super) fn data(&self, index: u32) -> &[u8] {
        self.slots.data(index)
    }

    /// Request `index`, which is read first if necessary: from those that a kernel consumer has `posted`, or from the
    /// ring, where `find_ah` gives the address vector of an address handle's number, or, for the number 0, of the
    /// request itself. `inject` is called once for each request that is read, and gives the status that it fails with, if it does.
    pub(super) fn look(
        &mut self,
        index: u32,
        posted: &SpinLockIrq<Inbox<SendWqe>>,
        find_ah: impl FnOnce(u32, &[u8; limits::SEND_WQE]) -> Option<Arc<Av>>,
        inject: impl FnOnce() -> Option<WcStatus>,
    ) -> Option<&SendWqe> {
        if index == self.next {
            if !self.fetch(posted, find_ah) {
                return None;
            }
            if let Some(status) = inject() {
                self.fail(index, status);
            }
            self.next = self.next.wrapping_add(1);
        }
        self.get(index)
    }

    #[cold]
    fn fail(&mut self, index: u32, status: WcStatus) {
        if let Some(wqe) = self.slots.get_mut(index) {
            wqe.fail(status);
        }
    }

    /// Request `index`, if it was read and is incomplete.
    pub(super) fn get(&self, index: u32) -> Option<&SendWqe> {
        let known = index.wrapping_sub(self.first) < self.next.wrapping_sub(self.first);
        if known {
            self.slots.get(index)
        } else {
            None
        }
    }

    /// Reads request `next`; returns whether there is one.
    fn fetch(
        &mut self,
        posted: &SpinLockIrq<Inbox<SendWqe>>,
        find_ah: impl FnOnce(u32, &[u8; limits::SEND_WQE]) -> Option<Arc<Av>>,
    ) -> bool {
        let outstanding = self.next.wrapping_sub(self.first);
        if self
            .ring
            .as_ref()
            .is_some_and(|ring| outstanding >= ring.available())
        {
            return false;
        }
        if outstanding >= self.slots.capacity() && !self.grow() {
            return false;
        }
        let Some(ring) = &self.ring else {
            return posted.lock().move_to(&mut self.slots, self.next);
        };
        let at = (outstanding, self.next);
        Self::read(&mut self.slots, ring, &self.limits, at, find_ah).is_some()
    }

    /// Doubles the slots of a user ring; returns whether it did. If memory is short, further requests wait until others have completed.
    #[cold]
    fn grow(&mut self) -> bool {
        // The memory is charged to the process if the process runs the engine.
        let flags = GFP_ATOMIC | __GFP_NOWARN | (GFP_KERNEL_ACCOUNT & !GFP_KERNEL);
        let count = self.slots.capacity().saturating_mul(2);
        if self.ring.is_none() || count > LOOKAHEAD {
            return false;
        }
        let Ok(mut slots) = Slots::new(count, self.limits.data_len(), flags) else {
            return false;
        };
        let mut index = self.first;
        while index != self.next {
            slots.move_from(&mut self.slots, index);
            index = index.wrapping_add(1);
        }
        self.slots = slots;
        true
    }

    /// Copies user request `nth` in the ring, once, to slot `index`, and validates the copy. `None` if there is no such slot, or
    /// no such element of the ring.
    fn read(
        slots: &mut Slots<SendWqe>,
        ring: &Consumer,
        limits: &Limits,
        (nth, index): (u32, u32),
        find_ah: impl FnOnce(u32, &[u8; limits::SEND_WQE]) -> Option<Arc<Av>>,
    ) -> Option<()> {
        let (slot, room) = slots.place_mut(index)?;
        // It is large enough that clearing it first would be felt.
        let mut fixed = [const { MaybeUninit::uninit() }; limits::SEND_WQE];
        let mut fixed = Room::new(&mut fixed);
        let bytes = ring.bytes(nth, 0, limits::SEND_WQE)?;
        fixed.write_shared(bytes).ok()?;
        let fixed = fixed.bytes().first_chunk()?;
        let user = UserSend::parse(fixed);
        let wr_id = user.wr_id();
        let data = match user.data_len(limits) {
            Ok(len) => room.get_mut(..len).ok_or(WcStatus::LocQpOpErr),
            Err(status) => Err(status),
        };
        // The request is large: it is built in its slot.
        *slot = match data {
            Ok(data) => {
                ring.read(nth, limits::SEND_WQE, data);
                match user.build(limits, data, |number| find_ah(number, fixed)) {
                    Ok(wqe) => Some(wqe),
                    Err(status) => Some(SendWqe::invalid(wr_id, status)),
                }
            }
            Err(status) => Some(SendWqe::invalid(wr_id, status)),
        };
        Some(())
    }

    /// Removes the oldest request, and frees its slot. For a kernel consumer it decrements `outstanding`.
    pub(super) fn retire(&mut self, index: u32, outstanding: &AtomicU32) -> Option<SendWqe> {
        let wqe = self.slots.take(index);
        self.first = index.wrapping_add(1);
        match &mut self.ring {
            Some(ring) => ring.advance(1),
            None => {
                outstanding.fetch_sub(1, Ordering::AcqRel);
            }
        }
        wqe
    }
}
