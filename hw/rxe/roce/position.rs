// SPDX-License-Identifier: GPL-2.0

//! Positions of a requester in its sequence of packets (IBTA volume 1, 9.7.2).

use crate::memory::{SendOps, SendWr};
use crate::psn::{Msn, Psn};

/// A position in the sequence of packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    /// The work request.
    pub(crate) index: u32,
    /// PSN of its first packet.
    pub(crate) first: Psn,
    /// Number of its packets before this position.
    pub(crate) packet: u32,
    /// Number of messages before it: its own number (SSN) is the next one (IBTA volume 1, 9.7.7.2.1).
    pub(crate) messages: Msn,
    /// The work request itself, once it was read.
    pub(crate) wr: Option<SendWr>,
}

impl Cursor {
    pub(crate) const fn at(index: u32, first: Psn, messages: Msn) -> Self {
        Self {
            index,
            first,
            packet: 0,
            messages,
            wr: None,
        }
    }

    /// PSN of the next packet.
    #[inline]
    pub(crate) const fn psn(&self) -> Psn {
        self.first.add(self.packet)
    }

    /// The work request at this position, if it is posted.
    #[inline]
    pub(crate) fn wr<O: SendOps>(&mut self, ops: &mut O) -> Option<SendWr> {
        if self.wr.is_none() {
            self.wr = ops.wr(self.index);
        }
        self.wr
    }

    /// Advances by `packets` in a work request of `total` packets, at its end to the next one.
    #[inline]
    pub(crate) fn advance(&mut self, packets: u32, total: u32) {
        self.packet = self.packet.saturating_add(packets);
        if self.packet >= total {
            self.finish(total);
        }
    }

    /// Advances to the end of a work request of `total` packets.
    #[inline]
    pub(crate) fn finish(&mut self, total: u32) {
        let messages = self.messages.add((total != 0).into());
        *self = Self::at(self.index.wrapping_add(1), self.first.add(total), messages);
    }

    /// Whether a PSN is that of a packet of this work request before this position.
    #[inline]
    pub(crate) fn has_passed(&self, psn: Psn) -> bool {
        psn.is_within(self.first, self.packet)
    }

    /// Whether this position is before `other`.
    #[inline]
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        precedes(self.index, other.index)
            || (self.index == other.index && self.packet < other.packet)
    }
}

/// Whether work request `a` is before `b`. Queues are far shorter than half of the range of indices.
#[inline]
pub(crate) const fn precedes(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
