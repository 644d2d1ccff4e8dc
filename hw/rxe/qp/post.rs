// SPDX-License-Identifier: GPL-2.0

//! `post_send` and `post_recv`: any context, interrupts off included.
//!
//! A program's requests are in its ring already, and `post_send` is only the doorbell. A kernel
//! consumer's requests are copied into an inbox, from where the engine takes them later.

use super::Qp;
use crate::device::Driver;
use crate::limits;
use crate::wqe::{self, RecvWqe, SendWqe, Slots};
use core::sync::atomic::Ordering;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::{QpState, RecvWrs, SendWrs};

/// What kernel consumers posted and the engine has not taken yet.
pub(super) struct Inbox<T> {
    slots: Slots<T>,
    first: u32,
    next: u32,
}

impl<T> Inbox<T> {
    /// Makes an inbox for `capacity` requests with `data_len` bytes of data each. Sleeps.
    pub(super) fn new(capacity: u32, data_len: usize) -> Result<Self> {
        Ok(Self {
            slots: Slots::new(capacity, data_len)?,
            first: 0,
            next: 0,
        })
    }

    fn is_empty(&self) -> bool {
        self.first == self.next
    }

    /// Adds what `make` makes with room for its data. The caller has counted that there is room.
    fn push(&mut self, make: impl FnOnce(&mut [u8]) -> Result<T>) -> Result {
        let request = make(self.slots.data_mut(self.next))?;
        self.slots.put(self.next, request);
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// Drops all requests.
    pub(super) fn clear(&mut self) {
        while !self.is_empty() {
            drop(self.slots.take(self.first));
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Takes the oldest request and copies its data to the front of `data`.
    pub(super) fn take(&mut self, data: &mut [u8]) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let request = self.slots.take(self.first);
        let from = self.slots.data(self.first);
        for (to, from) in data.chunks_mut(from.len().max(1)).zip([from]) {
            to.copy_from_slice(from);
        }
        self.first = self.first.wrapping_add(1);
        request
    }

    /// Moves the oldest request to place `index` of other slots; says whether there was one.
    pub(super) fn move_to(&mut self, to: &mut Slots<T>, index: u32) -> bool {
        match self.take(to.data_mut(index)) {
            Some(request) => {
                to.put(index, request);
                true
            }
            None => false,
        }
    }
}

impl Qp {
    /// Posts requests to send, or rings the bell for those in a program's ring.
    ///
    /// # Errors
    ///
    /// `EINVAL` in a state before RTS and for a request that makes no sense, `ENOMEM` when the queue is
    /// full. The requests taken from `wrs` before the last one are posted then.
    pub(crate) fn post_send(self: &Arc<Self>, wrs: &mut SendWrs<'_, Driver>) -> Result {
        if self.state() < QpState::Rts {
            return Err(EINVAL);
        }
        if self.user {
            self.as_arc_borrow().drive(|_, _| {});
            return Ok(());
        }
        let posted = self.copy_sends(wrs);
        Self::schedule(self);
        posted
    }

    fn copy_sends(&self, wrs: &mut SendWrs<'_, Driver>) -> Result {
        let mut inbox = self.posted_sends.lock();
        for wr in wrs {
            if self.outstanding_sends.load(Ordering::Acquire) >= self.cap.max_send_wr {
                return Err(ENOMEM);
            }
            inbox.push(|data| wqe::from_kernel(&wr, self.qp_type, &self.send_limits, data))?;
            self.outstanding_sends.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Posts requests to receive.
    ///
    /// # Errors
    ///
    /// `EINVAL` in RESET, on a program's QP and for a list that is too long, `ENOMEM` when the queue is
    /// full. The requests taken from `wrs` before the last one are posted then.
    pub(crate) fn post_recv(self: &Arc<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        if self.user || self.state() < QpState::Init {
            return Err(EINVAL);
        }
        let posted = self.copy_recvs(wrs);
        if self.state() == QpState::Err {
            Self::schedule(self);
        }
        posted
    }

    fn copy_recvs(&self, wrs: &mut RecvWrs<'_>) -> Result {
        let mut inbox = self.posted_recvs.lock();
        for wr in wrs {
            if self.outstanding_recvs.load(Ordering::Acquire) >= self.cap.max_recv_wr {
                return Err(ENOMEM);
            }
            let sg_list = wr.sg_list();
            if sg_list.len() > self.cap.max_recv_sge as usize {
                return Err(EINVAL);
            }
            inbox.push(|data| {
                for (nth, sge) in sg_list.iter().enumerate() {
                    wqe::put_sge(data, nth as u32, sge);
                }
                Ok(RecvWqe {
                    wr_id: wr.wr_id(),
                    num_sge: Ok(sg_list.len() as u32),
                })
            })?;
            self.outstanding_recvs.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }
}

/// A kernel consumer's lists fit into the room that a queue gives them.
const _: () = assert!(limits::SGE == size_of::<rdma::Sge>());
const _: fn(SendWqe) = |_| {};
