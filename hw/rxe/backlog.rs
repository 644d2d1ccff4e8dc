// SPDX-License-Identifier: GPL-2.0

//! The packets of a device to itself, which are delivered in softirq context: the receive path is never called from the
//! transmit path.
//!
//! There are as many of them as its queue pairs may have [in flight](crate::tx::Flight), so that none is ever dropped.

use kernel::prelude::*;
use kernel_ext::net::skb::{SkBuff, SkbQueue};

/// A packet that waits; it begins with its IP header.
pub(crate) struct Waiting {
    pub(crate) skb: SkBuff,
    /// The number of the queue pair that it is for.
    pub(crate) qpn: u32,
}

impl Waiting {
    fn into_noted(mut self) -> SkBuff {
        self.skb.set_note(self.qpn);
        self.skb
    }

    fn from_noted(skb: SkBuff) -> Self {
        let qpn = skb.note();
        Self { skb, qpn }
    }
}

/// The packets of one device to itself. Its work item delivers them.
#[pin_data]
pub(crate) struct Backlog {
    #[pin]
    queue: SkbQueue,
}

impl Backlog {
    /// An empty backlog.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queue <- SkbQueue::new(),
        })
    }

    /// Adds a packet. Softirq or process context.
    pub(crate) fn push(&self, packet: Waiting) {
        self.queue.push_back(packet.into_noted());
    }

    /// Takes the oldest packet.
    pub(crate) fn pop(&self) -> Option<Waiting> {
        self.queue.pop_front().map(Waiting::from_noted)
    }

    /// Takes the oldest packet, if it is for this queue pair. Only the work item takes packets.
    pub(crate) fn pop_for(&self, qpn: u32) -> Option<Waiting> {
        let next = self.pop()?;
        if next.qpn == qpn {
            return Some(next);
        }
        self.queue.push_front(next.into_noted());
        None
    }

    /// Drops all packets.
    pub(crate) fn clear(&self) {
        self.queue.purge();
    }
}
