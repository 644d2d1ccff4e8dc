// SPDX-License-Identifier: GPL-2.0

//! The send queue of a queue pair: requests of a program's ring, or of a kernel consumer, that are not complete.

use super::{attr, Qp};
use crate::limits;
use crate::ring::Consumer;
use crate::wqe::{self, Limits, Objects, SendWqe, Slots, UserSend};
use core::sync::atomic::Ordering;
use kernel::prelude::*;
use rdma::SendWrs;
use roce::state::WcStatus;

/// Requests that are looked at before the oldest of them is complete, whatever a program's queue holds: the
/// copies are memory of the kernel's. More than that are never under way, as each takes a packet at least, but
/// for those that stay at home.
const LOOKAHEAD: u32 = 1024;
const _: () = assert!(LOOKAHEAD >= 2 * attr::WINDOW);

/// Requests that were read from the ring, or taken from what a kernel consumer posted, and are not
/// complete. Guarded by the engine's lock.
pub(crate) struct SendQueue {
    /// The ring that a program posts to.
    ring: Option<Consumer>,
    slots: Slots<SendWqe>,
    limits: Limits,
    /// The oldest request that is not complete.
    first: u32,
    /// The first request that was not read yet.
    next: u32,
}

impl SendQueue {
    /// Makes a queue for the requests of `ring`, or for `capacity` of a kernel consumer. Sleeps.
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

    /// What the queue allows of its requests.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Forgets all requests; the next one has number 0.
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

    /// Puts requests that a program posts through the kernel into its ring.
    ///
    /// # Errors
    ///
    /// `EINVAL` for what a program cannot post so, `ENOMEM` when the ring is full.
    pub(super) fn post<P: Objects>(&mut self, wrs: &mut SendWrs<'_, P>) -> Result {
        let ring = self.ring.as_mut().ok_or(EINVAL)?;
        wrs.try_for_each(|wr| wqe::post_send(&wr, &self.limits, ring))
    }

    /// The list or inline data of request number `index`.
    pub(super) fn data(&self, index: u32) -> &[u8] {
        self.slots.data(index)
    }

    /// Request number `index`, read if it was posted meanwhile.
    pub(super) fn look(&mut self, qp: &Qp, index: u32) -> Option<&SendWqe> {
        if index == self.next {
            if !self.fetch(qp) {
                return None;
            }
            self.next = self.next.wrapping_add(1);
        }
        self.get(index)
    }

    /// Request number `index`, if it was read and is not complete.
    pub(super) fn get(&self, index: u32) -> Option<&SendWqe> {
        let known = index.wrapping_sub(self.first) < self.next.wrapping_sub(self.first);
        if known {
            self.slots.get(index)
        } else {
            None
        }
    }

    /// Reads request number `next`; says whether there is one.
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

    /// Copies a program's request, once, and checks the copy.
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
                user.build(limits, data, |number| qp.rxe.ahs.find(number, qp.pd))
            })
            .unwrap_or_else(|status| SendWqe::invalid(wr_id, status))
    }

    /// Takes the oldest request out, and lets its poster use the place again.
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
