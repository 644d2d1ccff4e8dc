// SPDX-License-Identifier: GPL-2.0

//! Work requests as drivers read them: `struct ib_send_wr`, `struct ib_recv_wr`. They are on the stack of the caller that
//! posts: a request may be completed and its memory be freed before the driver follows the link to the next one of a
//! chain.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::null_mut;

use kernel::prelude::*;
use rdma_bindings::{ib_recv_wr, ib_send_wr, ib_sge};

use super::{
    fill::{Fill, Filled},
    resources::Resources,
    work::{Handler, Posted, MAX_PIECES},
};

/// A request to send, with its memory list.
pub(super) struct SendSlot<'d> {
    request: Filled<'d>,
    list: [ib_sge; MAX_PIECES],
}

impl<'d> SendSlot<'d> {
    /// A request for nothing yet.
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            request: Filled::new(),
            list: [pin_init::zeroed(); MAX_PIECES],
        }
    }

    /// Fills in what is asked for, where the request is new. Returns what it needs until it is completed.
    #[inline]
    pub(super) fn ask(&mut self, op: impl Fill<'d>) -> Result<Resources<'d>> {
        op.fill(&mut self.request)
    }

    /// Fills in the rest, for work that was handed over.
    #[inline]
    pub(super) fn fill<H: Handler<'d>>(&mut self, posted: &Posted<'d, H>, lkey: u32) {
        let count = match self.request.has_memory {
            true => posted.fill(&mut self.list, lkey, false),
            false => 0,
        };
        let wr = self.request.wr.send();
        wr.__bindgen_anon_1.wr_cqe = posted.cqe();
        wr.num_sge = count;
        wr.send_flags = posted.flags().bits() as i32;
    }

    /// The request, which is followed by `next`. It points to parts of the slot.
    pub(super) fn link(&mut self, next: *const ib_send_wr) -> *const ib_send_wr {
        let list = self.list.as_mut_ptr();
        let wr = self.request.wr.send();
        wr.sg_list = list;
        wr.next = next.cast_mut();
        wr
    }

    /// Where the request is.
    pub(super) fn address(&self) -> *const ib_send_wr {
        (&raw const self.request.wr).cast()
    }
}

/// A request to receive, with its memory list.
pub(super) struct ReceiveSlot {
    wr: ib_recv_wr,
    list: [ib_sge; MAX_PIECES],
}

impl ReceiveSlot {
    /// The request for work that was handed over.
    pub(super) fn new<'d, H: Handler<'d>>(posted: &Posted<'d, H>, lkey: u32) -> Self {
        let mut slot = Self {
            wr: pin_init::zeroed(),
            list: [pin_init::zeroed(); MAX_PIECES],
        };
        slot.wr.__bindgen_anon_1.wr_cqe = posted.cqe();
        slot.wr.num_sge = posted.fill(&mut slot.list, lkey, true);
        slot
    }

    /// The request, which is followed by `next`. It points to parts of the slot.
    pub(super) fn link(&mut self, next: *const ib_recv_wr) -> *const ib_recv_wr {
        self.wr.sg_list = self.list.as_mut_ptr();
        self.wr.next = next.cast_mut();
        &self.wr
    }

    /// Where the request is.
    pub(super) fn address(&self) -> *const ib_recv_wr {
        &self.wr
    }

    /// The request alone.
    pub(super) fn raw(&mut self) -> *const ib_recv_wr {
        self.link(null_mut())
    }
}
