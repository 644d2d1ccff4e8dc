// SPDX-License-Identifier: GPL-2.0

//! `post_send` and `post_recv`, in any context, including with interrupts disabled.
//!
//! User space has written its requests to the ring already, and `post_send` is only the doorbell; requests of the
//! uverbs command are written to the ring here. Requests of a kernel consumer are copied to an inbox, from which the
//! engine takes them later.
//!
//! A doorbell runs the engine at once if the program has polled all its completions, because it probably waits for this request.
//! The requests of a program that posts faster than it polls are handled together: at once on [another CPU](super::affinity), or
//! on this one [when the program arms its CQ](crate::doorbell).

use super::ops::flow_control;
use super::types::Qp;
use super::Sends;
use crate::cq::{Cq, Pending};
use crate::wqe::{self, Objects};
use core::sync::atomic::Ordering;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::{QpState, RecvWrs, SendWrs};

impl Qp {
    /// Posts send requests, or rings the doorbell for those in a user ring.
    ///
    /// # Errors
    ///
    /// `EINVAL` in a state before RTS, on a target of XRC and for an invalid request, `ENOMEM` when the queue is full. All requests before
    /// the failing one are then posted.
    pub(crate) fn post_send<P: Objects>(self: &Arc<Self>, wrs: &mut SendWrs<'_, P>) -> Result {
        let cq = self.send_cq.as_ref().ok_or(EINVAL)?;
        if self.state() < QpState::Rts {
            return Err(EINVAL);
        }
        if self.user {
            if wrs.is_empty() {
                self.ring(cq);
                return Ok(());
            }
            return self.drive_sends(wrs);
        }
        let posted = self.copy_sends(wrs);
        Self::schedule(self);
        posted
    }

    /// Handles a doorbell. Process context.
    #[inline(never)]
    fn ring(self: &Arc<Self>, cq: &Cq) {
        let (pending, is_busy) = cq.doorbell();
        if is_busy {
            self.affinity.separate_from_program();
        }
        let here = self.affinity.allows_this_cpu();
        let now = match pending {
            Pending::Nothing => true,
            Pending::Notified if here && self.defer(cq) => return,
            Pending::Notified => false,
            Pending::Polled => here,
        };
        if now {
            self.as_arc_borrow().drive_or_schedule();
        } else {
            Self::schedule(self);
        }
    }

    /// The same for user space. Not inlined, so that kernel consumers do not need the engine's stack space.
    #[inline(never)]
    fn drive_sends<P: Objects>(self: &Arc<Self>, wrs: &mut SendWrs<'_, P>) -> Result {
        let mut posted = Ok(());
        self.as_arc_borrow().drive(|engine, _| {
            posted = engine.queues.send.post(wrs);
            Sends::InOrder
        });
        posted
    }

    fn copy_sends<P: Objects>(&self, wrs: &mut SendWrs<'_, P>) -> Result {
        let mut inbox = self.posted_sends.lock();
        for wr in wrs {
            if self.outstanding_sends.load(Ordering::Acquire) >= self.cap.max_send_wr {
                return Err(ENOMEM);
            }
            inbox.push(|place, data| {
                let kind = (self.qp_type, &self.rxe.port(self.home).pkeys);
                wqe::from_kernel(&wr, kind, &self.send_limits, place, data)
            })?;
            self.outstanding_sends.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Posts receive requests.
    ///
    /// # Errors
    ///
    /// `EINVAL` in RESET, on a QP with an SRQ or of XRC and for a list that is too long, `ENOMEM` when the queue is full. All
    /// requests before the failing one are then posted.
    pub(crate) fn post_recv(self: &Arc<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        if self.has_srq || self.state() < QpState::Init {
            return Err(EINVAL);
        }
        if self.user {
            return self.drive_recvs(wrs);
        }
        let had_none = self.outstanding_recvs.load(Ordering::Acquire) == 0;
        let posted = self.copy_recvs(wrs);
        // In ERR they are flushed; a peer that was told that there are none waits for them.
        if self.state() == QpState::Err || (had_none && flow_control()) {
            Self::schedule(self);
        }
        posted
    }

    #[inline(never)]
    fn drive_recvs(self: &Arc<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        let mut posted = Ok(());
        self.as_arc_borrow().drive(|engine, _| {
            posted = engine.queues.recv.post(wrs);
            Sends::InOrder
        });
        posted
    }

    fn copy_recvs(&self, wrs: &mut RecvWrs<'_>) -> Result {
        let mut inbox = self.posted_recvs.lock();
        for wr in wrs {
            if self.outstanding_recvs.load(Ordering::Acquire) >= self.cap.max_recv_wr {
                return Err(ENOMEM);
            }
            inbox.push(|place, data| {
                *place = Some(wqe::recv_from_kernel(&wr, self.cap.max_recv_sge, data)?);
                Ok(())
            })?;
            self.outstanding_recvs.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }
}
