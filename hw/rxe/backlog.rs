// SPDX-License-Identifier: GPL-2.0

//! The queue of packets from a device to itself, which wait for softirq: receiving never happens inside sending.

use kernel::prelude::*;
use kernel_ext::error::ENOBUFS;
use kernel_ext::net::skb::SkBuff;
use kernel_ext::sync::{new_spinlock_bh, SpinLockBh};

use crate::ring::Queue;

/// The packets of one device. Its work item delivers them.
#[pin_data]
pub(crate) struct Backlog {
    #[pin]
    queue: SpinLockBh<Queue<SkBuff>>,
}

/// Packets that a backlog holds at most; more are lost, as on the wire. Twice what a QP has under way.
const BACKLOG: u32 = 4096;

impl Backlog {
    /// An empty backlog.
    pub(crate) fn new() -> Result<impl PinInit<Self>> {
        let queue = Queue::new(BACKLOG)?;
        Ok(pin_init!(Self {
            queue <- new_spinlock_bh!(queue, "rxe_backlog::queue"),
        }))
    }

    /// Adds a packet that begins with its IP header. Softirq or process context.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` where the backlog is full; the packet is lost then.
    pub(crate) fn push(&self, skb: SkBuff) -> Result {
        self.queue.lock().push(skb).map_err(|_| ENOBUFS)
    }

    /// Takes the oldest packet.
    pub(crate) fn pop(&self) -> Option<SkBuff> {
        self.queue.lock().pop()
    }
}
