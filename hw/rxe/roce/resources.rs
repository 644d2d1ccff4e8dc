// SPDX-License-Identifier: GPL-2.0

//! Responder resources: the READs and ATOMICs that a responder executes and remembers (IBTA volume 1, 9.4.4, 9.4.5 and
//! 9.7.5.1).
//!
//! They form a queue in the order of the requests. An entry is answered packet by packet, and then kept for the replay
//! of duplicate requests until a newer one replaces it.

use core::ops::DerefMut;

use crate::mtu::Mtu;
use crate::opcode::{Kind, Opcode, Position};
use crate::psn::{Msn, Psn};
use crate::wire::{Aeth, AtomicAckEth, Parts, Reth, Syndrome};

/// The response to a request.
#[derive(Debug)]
pub(crate) enum Answer<R> {
    /// A range of memory, with the requested range.
    Read(Reth, Option<R>),
    /// The old value of an atomic operation.
    Atomic(u64),
    /// An empty READ response: FLUSH and ATOMIC WRITE.
    Empty,
}

/// The packets of a response that remain to be sent.
#[derive(Clone, Copy, Debug)]
struct Sending {
    /// The first packet of this transmission.
    start: u32,
    /// The next packet.
    next: u32,
    /// The end, after the last packet.
    end: u32,
}

/// A request and its response.
#[derive(Debug)]
pub(crate) struct Resource<R> {
    /// Position of its first PSN, as a number that does not wrap.
    first: u64,
    psn: Psn,
    /// Number of sequence numbers of the response.
    count: u32,
    msn: Msn,
    answer: Answer<R>,
    sending: Option<Sending>,
    /// Whether the response was sent completely at least once.
    answered: bool,
}

/// A run of response packets, with the region that the payload comes from, and the offset there.
pub(crate) struct Response<'a, R> {
    pub(crate) opcode: Opcode,
    pub(crate) psn: Psn,
    pub(crate) count: u32,
    pub(crate) parts: Parts,
    pub(crate) len: u32,
    pub(crate) data: Option<(&'a R, u32)>,
}

impl<R> Resource<R> {
    /// A request at `first` (`psn` on the wire), to be answered by `count` packets.
    pub(crate) fn new(first: u64, psn: Psn, count: u32, msn: Msn, answer: Answer<R>) -> Self {
        let sending = Some(Sending {
            start: 0,
            next: 0,
            end: count,
        });
        Self {
            first,
            psn,
            count,
            msn,
            answer,
            sending,
            answered: false,
        }
    }

    /// Whether `max_dest_rd_atomic` limits it; as for peers, it does not limit FLUSH and ATOMIC WRITE.
    fn is_limited(&self) -> bool {
        !matches!(self.answer, Answer::Empty)
    }

    /// Whether it was answered before, so that this is a replay.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// Cancels a replay.
    pub(crate) fn cancel(&mut self) {
        self.sending = None;
    }

    /// Whether more than one packet of the response is to be sent.
    #[inline]
    pub(crate) fn has_many(&self) -> bool {
        let left = self
            .sending
            .map(|sending| sending.end.saturating_sub(sending.next));
        left > Some(1)
    }

    /// The next packets of the response, at most `longest`.
    pub(crate) fn response(&self, mtu: Mtu, longest: u32) -> Option<Response<'_, R>> {
        let Sending { start, next, end } = self.sending?;
        let count = end.saturating_sub(next).min(longest).max(1);
        let aeth = Aeth {
            syndrome: Syndrome::ACK,
            msn: self.msn,
        };
        let mut parts = Parts {
            aeth,
            ..Parts::default()
        };
        let at = Position::of(next == start, next.saturating_add(count) >= end);
        let mut opcode = Opcode::read_response(at);
        let (mut len, mut data) = (0, None);
        match &self.answer {
            Answer::Read(reth, region) => {
                let offset = next << mtu.shift();
                len = reth.length.saturating_sub(offset).min(count << mtu.shift());
                let base = start << mtu.shift();
                data = region
                    .as_ref()
                    .map(|region| (region, offset.saturating_sub(base)));
            }
            Answer::Atomic(original) => {
                opcode = Opcode::RcAtomicAcknowledge;
                parts.atomic_ack = AtomicAckEth {
                    original: *original,
                };
            }
            Answer::Empty => {}
        }
        Some(Response {
            opcode,
            psn: self.psn.add(next),
            count,
            parts,
            len,
            data,
        })
    }

    /// Records that the next `count` packets were sent. Releases the memory after the last one.
    pub(crate) fn sent(&mut self, count: u32) {
        let Some(sending) = &mut self.sending else {
            return;
        };
        sending.next = sending.next.saturating_add(count);
        if sending.next < sending.end {
            return;
        }
        self.sending = None;
        self.answered = true;
        if let Answer::Read(_, region) = &mut self.answer {
            *region = None;
        }
    }

    /// Replays the remembered response for a duplicate request.
    pub(crate) fn replay(&mut self, kind: Kind) {
        let same = match self.answer {
            Answer::Read(..) => false,
            Answer::Atomic(_) => matches!(kind, Kind::CompareSwap | Kind::FetchAdd),
            Answer::Empty => matches!(kind, Kind::Flush | Kind::AtomicWrite),
        };
        if same && self.sending.is_none() {
            self.sending = Some(Sending {
                start: 0,
                next: 0,
                end: self.count,
            });
        }
    }

    /// Whether `again`, a READ request whose first response is at `position`, requests a part of this READ that is not
    /// being sent already.
    pub(crate) fn wants_read(&self, position: u64, again: &Reth, mtu: Mtu) -> bool {
        let Answer::Read(reth, _) = &self.answer else {
            return false;
        };
        let Some((start, end)) = self.range(position, again, mtu) else {
            return false;
        };
        let offset = start << mtu.shift();
        let same = again.rkey == reth.rkey
            && again.va == reth.va.wrapping_add(u64::from(offset))
            && again.length <= reth.length.saturating_sub(offset);
        let coming = match self.sending {
            Some(sending) => sending.next <= start || end < sending.end,
            None => false,
        };
        same && end <= self.count && !coming
    }

    /// Replays the part of a READ that [`wants_read`](Self::wants_read) has accepted.
    pub(crate) fn replay_read(&mut self, position: u64, again: &Reth, mtu: Mtu, memory: Option<R>) {
        let Some((start, end)) = self.range(position, again, mtu) else {
            return;
        };
        if let Answer::Read(_, region) = &mut self.answer {
            *region = memory;
            self.sending = Some(Sending {
                start,
                next: start,
                end,
            });
        }
    }

    /// First packet and end of the part that a duplicate READ request asks for.
    fn range(&self, position: u64, again: &Reth, mtu: Mtu) -> Option<(u32, u32)> {
        let start = u32::try_from(position.checked_sub(self.first)?).ok()?;
        let end = start.checked_add(mtu.packets(again.length))?;
        (start < self.count).then_some((start, end))
    }
}

/// Memory for one request and its response. The driver allocates an array of them per queue pair.
#[derive(Debug)]
pub struct Slot<R>(Option<Resource<R>>);

impl<R> Slot<R> {
    /// A free slot.
    #[inline]
    pub const fn new() -> Self {
        Self(None)
    }
}

impl<R> Default for Slot<R> {
    fn default() -> Self {
        Self::new()
    }
}

/// The resources of one queue pair: a ring in slots that the driver provides.
#[derive(Debug)]
pub(crate) struct Resources<S> {
    slots: S,
    /// Slot of the oldest resource.
    head: usize,
    len: usize,
    /// How many after the oldest one is the first that may be being sent.
    next: usize,
}

impl<R, S: DerefMut<Target = [Slot<R>]>> Resources<S> {
    pub(crate) const fn new(slots: S) -> Self {
        Self {
            slots,
            head: 0,
            len: 0,
            next: 0,
        }
    }

    /// Number of slots.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Moves the requests to more slots; returns those that are not needed any more. `slots` are free.
    pub(crate) fn grow(&mut self, mut slots: S) -> S {
        if slots.len() <= self.capacity() {
            return slots;
        }
        for (new, old) in slots.iter_mut().zip(self.occupied()) {
            core::mem::swap(new, old);
        }
        self.head = 0;
        core::mem::replace(&mut self.slots, slots)
    }

    /// Drops all requests.
    pub(crate) fn clear(&mut self) {
        for slot in self.occupied() {
            slot.0 = None;
        }
        self.head = 0;
        self.len = 0;
        self.next = 0;
    }

    /// The slots with requests, from the oldest to the newest.
    fn occupied<'a>(&'a mut self) -> impl Iterator<Item = &'a mut Slot<R>>
    where
        R: 'a,
    {
        let (head, len) = (self.head, self.len);
        let (late, early) = self.slots.split_at_mut_checked(head).unwrap_or_default();
        early.iter_mut().chain(late).take(len)
    }

    /// Adds a request, in place of the oldest one where all slots are used.
    ///
    /// # Errors
    /// The request, where `limit` READs and ATOMICs, or all slots, are unanswered. A peer that respects the limit
    /// cannot cause that, since it has received the responses.
    pub(crate) fn admit(&mut self, limit: u8, resource: Resource<R>) -> Result<(), Resource<R>> {
        if resource.is_limited() && self.unanswered() >= usize::from(limit) {
            return Err(resource);
        }
        if self.len >= self.capacity() {
            let oldest = self.slots.get(self.head).and_then(|slot| slot.0.as_ref());
            if oldest.is_none_or(|oldest| !oldest.answered) {
                return Err(resource);
            }
            self.drop_oldest();
        }
        let tail = self.place(self.len);
        let Some(slot) = self.slots.get_mut(tail) else {
            return Err(resource);
        };
        slot.0 = Some(resource);
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// Sets the response of the newest request, which has been executed.
    pub(crate) fn answer_newest(&mut self, answer: Answer<R>) {
        if let Some(Slot(Some(newest))) = self.newest() {
            newest.answer = answer;
        }
    }

    /// Removes the newest request.
    pub(crate) fn drop_newest(&mut self) {
        if let Some(slot) = self.newest() {
            slot.0 = None;
            self.len = self.len.saturating_sub(1);
            self.next = self.next.min(self.len);
        }
    }

    fn newest(&mut self) -> Option<&mut Slot<R>> {
        let last = self.len.checked_sub(1)?;
        let place = self.place(last);
        self.slots.get_mut(place)
    }

    /// The slot `distance` after the oldest request's.
    fn place(&self, distance: usize) -> usize {
        let place = self.head.wrapping_add(distance);
        place.checked_rem(self.capacity()).unwrap_or(0)
    }

    /// Number of unanswered requests under the limit.
    fn unanswered(&mut self) -> usize {
        let requests = self.occupied().filter_map(|slot| slot.0.as_ref());
        let waiting = |r: &&Resource<R>| r.is_limited() && !r.answered;
        requests
            .filter(waiting)
            .fold(0, |count: usize, _| count.wrapping_add(1))
    }

    fn drop_oldest(&mut self) {
        if let Some(slot) = self.slots.get_mut(self.head) {
            slot.0 = None;
        }
        self.head = self.place(1);
        self.len = self.len.saturating_sub(1);
        self.next = self.next.saturating_sub(1);
    }

    /// The request with the sequence number at `position`. The caller may have it replayed.
    pub(crate) fn find(&mut self, position: u64) -> Option<&mut Resource<R>> {
        self.next = 0;
        let mut requests = self.occupied().filter_map(|slot| slot.0.as_mut());
        requests.find(|resource| {
            let end = resource.first.saturating_add(u64::from(resource.count));
            (resource.first..end).contains(&position)
        })
    }

    /// The oldest request with a response to send.
    #[inline]
    pub(crate) fn sending(&mut self) -> Option<&mut Resource<R>> {
        let is_sending = |distance: &usize| {
            let slot = self.slots.get(self.place(*distance));
            let request = slot.and_then(|slot| slot.0.as_ref());
            request.is_some_and(|request| request.sending.is_some())
        };
        let found = (self.next..self.len).find(is_sending);
        self.next = found.unwrap_or(self.len);
        let place = self.place(found?);
        self.slots.get_mut(place)?.0.as_mut()
    }
}
