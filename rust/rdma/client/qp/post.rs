// SPDX-License-Identifier: GPL-2.0

//! Posting requests to a queue pair in any context: `ib_post_send`, `ib_post_recv`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::null_mut;

use kernel::{error::to_result, prelude::*};
use rdma_bindings as bindings;

use super::{
    shared::QpRef,
    state::{CanReceive, CanSend},
    transport::Transport,
};
use crate::client::{
    request::{ReceiveSlot, SendSlot},
    resources::Resources,
    work::{Handler, PostError, Posted, Work},
};

impl<'d, T: Transport, S: CanSend> QpRef<'d, T, S> {
    /// Fills in a send request, and hands its work over.
    #[inline]
    pub(in crate::client) fn prepare_send<H: Handler<'d>>(
        &self,
        slot: &mut SendSlot<'d>,
        work: Pin<KBox<Work<'d, H>>>,
        op: T::Op<'_, 'd>,
    ) -> Result<Posted<'d, H>, PostError<'d, H>> {
        let credit = self.shared.take_credit(&self.shared.sends);
        let (credit, resources) = match credit.and_then(|credit| Ok((credit, slot.ask(op)?))) {
            Ok(taken) => taken,
            Result::Err(error) => return Result::Err(PostError { error, work }),
        };
        let posted = work.hand_over(resources, Some(credit), self.shared.count());
        slot.fill(&posted, self.shared.lkey);
        Ok(posted)
    }

    /// Posts a send request for the work's memory. Any context.
    ///
    /// # Errors
    ///
    /// `ESHUTDOWN` while the queue pair is being destroyed or reset, `ENOMEM` if the send queue or the completion queue is
    /// full, `EBUSY` for a region in another state, and those of the driver.
    pub fn post_send<H: Handler<'d>>(
        &self,
        work: Pin<KBox<Work<'d, H>>>,
        op: T::Op<'_, 'd>,
    ) -> Result<(), PostError<'d, H>> {
        let mut slot = SendSlot::new();
        let posted = self.prepare_send(&mut slot, work, op)?;
        let ret = self.guarded(|raw| {
            let request = slot.link(core::ptr::null());
            // SAFETY: By the type invariants. The driver copies the request; the work is valid until its completion.
            to_result(unsafe { bindings::ib_post_send(raw, request, null_mut()) })
        });
        posted.outcome(ret)
    }
}

impl<'d, T: Transport, S: CanReceive> QpRef<'d, T, S> {
    /// Fills in a receive request, and hands its work over.
    pub(in crate::client) fn prepare_receive<H: Handler<'d>>(
        &self,
        work: Pin<KBox<Work<'d, H>>>,
    ) -> Result<(ReceiveSlot, Posted<'d, H>), PostError<'d, H>> {
        let credit = match self.shared.take_credit(&self.shared.receives) {
            Ok(credit) => credit,
            Result::Err(error) => return Result::Err(PostError { error, work }),
        };
        let posted = work.hand_over(Resources::Nothing, Some(credit), self.shared.count());
        Ok((ReceiveSlot::new(&posted, self.shared.lkey), posted))
    }

    /// Posts a receive request for all of the work's memory. Any context.
    ///
    /// # Errors
    ///
    /// As for [`Self::post_send`]; `EINVAL` for a queue pair with an SRQ.
    pub fn post_receive<H: Handler<'d>>(
        &self,
        work: Pin<KBox<Work<'d, H>>>,
    ) -> Result<(), PostError<'d, H>> {
        let (mut slot, posted) = self.prepare_receive(work)?;
        let ret = self.guarded(|raw| {
            // SAFETY: By the type invariants. The driver copies the request; the work is valid until its completion.
            to_result(unsafe { bindings::ib_post_recv(raw, slot.raw(), null_mut()) })
        });
        posted.outcome(ret)
    }
}
