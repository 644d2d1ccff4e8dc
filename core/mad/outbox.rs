// SPDX-License-Identifier: GPL-2.0

//! The send queue of a special queue pair: MADs that wait for room in it, and the number that is posted.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Outbox` | the MADs of a queue pair that wait to be sent | any context | `SpecialQp::open`, what drivers take |
//!
//! C header: `include/rdma/ib_mad.h`.

use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
};
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use rdma::core::mad::send::Addressed;

use super::state::SendMad;

/// Data that the MAD layer keeps with a special queue pair.
#[pin_data]
pub(crate) struct Queue {
    pub(crate) port_num: u32,
    #[pin]
    pub(crate) outbox: SpinLockIrq<Outbox>,
}

impl Queue {
    /// An empty queue; at most `limit` MADs are posted at once.
    pub(crate) fn new(port_num: u32, limit: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            port_num,
            outbox <- new_spinlock_irq!(Outbox::new(limit), "Outbox"),
        })
    }
}

/// MADs that wait for room in a queue pair's send queue, and the number posted.
pub(crate) struct Outbox {
    pub(crate) in_flight: u32,
    pub(crate) limit: u32,
    waiting: RBTree<u64, Addressed<SendMad>>,
    next_number: u64,
    /// The sequence number of the next MAD that is posted.
    pub(crate) next_sequence: u64,
    /// MADs with earlier sequence numbers are posted again if they were flushed: another one had failed.
    pub(crate) repost_before: u64,
}

impl Outbox {
    /// An empty outbox; at most `limit` MADs are posted at once.
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            in_flight: 0,
            limit,
            waiting: RBTree::new(),
            next_number: 0,
            next_sequence: 1,
            repost_before: 0,
        }
    }

    /// Queues a MAD.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn push(&mut self, send: Addressed<SendMad>) -> Result {
        let node = RBTreeNode::new(self.next_number, send, GFP_ATOMIC)?;
        self.next_number = self.next_number.wrapping_add(1);
        self.waiting.insert(node);
        Ok(())
    }

    /// The oldest MAD.
    pub(crate) fn pop(&mut self) -> Option<Addressed<SendMad>> {
        let cursor = self.waiting.cursor_front_mut()?;
        let (_, node) = cursor.remove_current();
        Some(node.to_key_value().1)
    }
}
