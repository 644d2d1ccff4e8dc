// SPDX-License-Identifier: GPL-2.0

//! The send queue of a queue pair: incomplete requests of a user ring or of a kernel consumer.

use super::{attr, Qp};
use crate::limits;
use crate::ring::Consumer;
use crate::wqe::{self, Limits, Objects, SendWqe, Slots, UserSend};
use core::sync::atomic::Ordering;
use kernel::prelude::*;
use rdma::SendWrs;
use roce::state::WcStatus;

/// Maximum number of requests read ahead of the oldest incomplete one, regardless of the size of a user ring: the
/// copies take kernel memory. More are never in flight, since each takes at least one packet, except for local
/// operations.
const LOOKAHEAD: u32 = 1024;
const _: () = assert!(LOOKAHEAD >= 2 * attr::WINDOW);

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
        let capacity = ring.as_ref().map_or(capacity, Consumer::capacity);
        let slots = Slots::new(capacity.min(LOOKAHEAD), limits.data_len())?;
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

    /// Request `index`, which is read first if necessary.
    pub(super) fn look(&mut self, qp: &Qp, index: u32) -> Option<&SendWqe> {
        if index == self.next {
            if !self.fetch(qp) {
                return None;
            }
            self.next = self.next.wrapping_add(1);
        }
        self.get(index)
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
    fn fetch(&mut self, qp: &Qp) -> bool {
        let outstanding = self.next.wrapping_sub(self.first);
        if outstanding >= self.slots.capacity() {
            return false;
        }
        match &self.ring {
            Some(ring) => {
                if outstanding >= ring.available() {
                    return false;
                }
                let wqe = Self::read(
                    &mut self.slots,
                    ring,
                    &self.limits,
                    qp,
                    outstanding,
                    self.next,
                );
                self.slots.put(self.next, wqe);
                true
            }
            None => qp.posted_sends.lock().move_to(&mut self.slots, self.next),
        }
    }

    /// Copies a user request, once, and validates the copy.
    fn read(
        slots: &mut Slots<SendWqe>,
        ring: &Consumer,
        limits: &Limits,
        qp: &Qp,
        nth: u32,
        index: u32,
    ) -> SendWqe {
        let mut fixed = [0; limits::SEND_WQE];
        ring.read(nth, 0, &mut fixed);
        let user = UserSend::parse(&fixed);
        let wr_id = user.wr_id();
        let room = slots.data_mut(index);
        user.data_len(limits)
            .and_then(|len| room.get_mut(..len).ok_or(WcStatus::LocQpOpErr))
            .and_then(|data| {
                ring.read(nth, limits::SEND_WQE, data);
                user.build(limits, data, |number| match number {
                    0 => qp.rxe.av(wqe::parse_av(&fixed)),
                    number => qp.rxe.ahs.find(number, qp.pd),
                })
            })
            .unwrap_or_else(|status| SendWqe::invalid(wr_id, status))
    }

    /// Removes the oldest request, and frees its slot.
    pub(super) fn retire(&mut self, qp: &Qp, index: u32) -> Option<SendWqe> {
        let wqe = self.slots.take(index);
        self.first = index.wrapping_add(1);
        match &mut self.ring {
            Some(ring) => ring.advance(1),
            None => {
                qp.outstanding_sends.fetch_sub(1, Ordering::AcqRel);
            }
        }
        wqe
    }
}
