// SPDX-License-Identifier: GPL-2.0

//! The queue of loopback packets, which are delivered in softirq context: the receive path is never called from the
//! transmit path.

use kernel::prelude::*;
use kernel_ext::error::ENOBUFS;
use kernel_ext::net::skb::SkBuff;
use kernel_ext::sync::{new_spinlock_bh, SpinLockBh};

use crate::ring::Queue;

/// The loopback packets of one device. Its work item delivers them.
#[pin_data]
pub(crate) struct Backlog {
    #[pin]
    queue: SpinLockBh<Queue<SkBuff>>,
}

/// Maximum number of packets in a backlog; further ones are dropped. Twice the number that a QP may have in flight.
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
    /// `ENOBUFS` where the backlog is full; the packet is dropped.
    pub(crate) fn push(&self, skb: SkBuff) -> Result {
        self.queue.lock().push(skb).map_err(|_| ENOBUFS)
    }

    /// Takes the oldest packet.
    pub(crate) fn pop(&self) -> Option<SkBuff> {
        self.queue.lock().pop()
    }
}
