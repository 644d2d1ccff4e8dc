// SPDX-License-Identifier: GPL-2.0

//! The C work requests that drivers read: `struct ib_send_wr`, `struct ib_recv_wr`.
//!
//! They are on the stack of the posting function, since a work may be completed and freed before the driver follows the link to
//! the next request of a chain.
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

/// A send request with its scatter/gather list.
pub(super) struct SendSlot<'d> {
    request: Filled<'d>,
    list: [ib_sge; MAX_PIECES],
}

impl<'d> SendSlot<'d> {
    /// A zeroed request.
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            request: Filled::new(),
            list: [pin_init::zeroed(); MAX_PIECES],
        }
    }

    /// Fills in the operation of a new request. Returns the resources that it needs until its completion.
    #[inline]
    pub(super) fn ask(&mut self, op: impl Fill<'d>) -> Result<Resources<'d>> {
        op.fill(&mut self.request)
    }

    /// Fills in the scatter/gather list and the handler of a work that was handed over.
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

    /// Links the request to `next`, and returns it. It points to other members of the slot.
    pub(super) fn link(&mut self, next: *const ib_send_wr) -> *const ib_send_wr {
        let list = self.list.as_mut_ptr();
        let wr = self.request.wr.send();
        wr.sg_list = list;
        wr.next = next.cast_mut();
        wr
    }

    /// The address of the request.
    pub(super) fn address(&self) -> *const ib_send_wr {
        (&raw const self.request.wr).cast()
    }
}

/// A receive request with its scatter/gather list.
pub(super) struct ReceiveSlot {
    wr: ib_recv_wr,
    list: [ib_sge; MAX_PIECES],
}

impl ReceiveSlot {
    /// Fills in the request for a work that was handed over.
    pub(super) fn new<'d, H: Handler<'d>>(posted: &Posted<'d, H>, lkey: u32) -> Self {
        let mut slot = Self {
            wr: pin_init::zeroed(),
            list: [pin_init::zeroed(); MAX_PIECES],
        };
        slot.wr.__bindgen_anon_1.wr_cqe = posted.cqe();
        slot.wr.num_sge = posted.fill(&mut slot.list, lkey, true);
        slot
    }

    /// Links the request to `next`, and returns it. It points to other members of the slot.
    pub(super) fn link(&mut self, next: *const ib_recv_wr) -> *const ib_recv_wr {
        self.wr.sg_list = self.list.as_mut_ptr();
        self.wr.next = next.cast_mut();
        &self.wr
    }

    /// The address of the request.
    pub(super) fn address(&self) -> *const ib_recv_wr {
        &self.wr
    }

    /// The request, without a next one.
    pub(super) fn raw(&mut self) -> *const ib_recv_wr {
        self.link(null_mut())
    }
}
