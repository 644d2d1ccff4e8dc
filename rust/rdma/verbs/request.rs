// SPDX-License-Identifier: GPL-2.0

//! Requests as drivers read them. They lie on the stack of who posts them: a request may be completed, and its work be gone,
//! before the driver looks for the next one of a chain.

use core::{
    mem::ManuallyDrop,
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicUsize, Ordering},
};

use kernel::prelude::*;
use rdma_bindings::{
    ib_atomic_wr, ib_rdma_wr, ib_recv_wr, ib_reg_wr, ib_send_wr, ib_sge, ib_ud_wr,
};

use super::{
    ah::Ah,
    mr,
    srq::Slot,
    work::{Handler, Posted, MAX_PIECES},
    Brand,
};
use crate::wr::Remote;

/// Any request to send.
#[repr(C)]
pub(super) union AnySend {
    send: ManuallyDrop<ib_send_wr>,
    pub(super) rdma: ManuallyDrop<ib_rdma_wr>,
    pub(super) atomic: ManuallyDrop<ib_atomic_wr>,
    pub(super) ud: ManuallyDrop<ib_ud_wr>,
    pub(super) reg: ManuallyDrop<ib_reg_wr>,
}

impl AnySend {
    pub(super) fn send(&mut self) -> &mut ib_send_wr {
        // SAFETY: All forms begin with this one, and any bytes that were zero, or set by members, are one.
        unsafe { &mut self.send }
    }
}

/// What a request needs until it is completed.
#[expect(unreachable_pub, reason = "a part of a sealed public trait")]
pub enum Held<'d> {
    /// Nothing but its memory.
    Nothing,
    /// Where the datagram goes.
    Address {
        /// Only held.
        _ah: Ah<'d>,
    },
    /// The region that is registered.
    Register(mr::Shared<'d>),
    /// The region that is invalidated.
    Invalidate(mr::Shared<'d>),
    /// Its place in an SRQ.
    Srq(Slot),
}

impl Held<'_> {
    /// The request is completed, or was not posted.
    pub(super) fn release(self, is_done: bool) {
        match self {
            Self::Register(mr) if !is_done => mr.undo_register(),
            Self::Invalidate(mr) => mr.end_invalidate(is_done),
            Self::Srq(slot) => slot.free(),
            _ => {}
        }
    }
}

/// Counts a request that is posted, until its completion is handled: where the queue pair cannot be asked for its last one.
///
/// # Invariants
///
/// The counter is there as long as it is not zero.
pub(super) struct Outstanding(NonNull<AtomicUsize>);

// SAFETY: The counter is for all threads.
unsafe impl Send for Outstanding {}
// SAFETY: As above.
unsafe impl Sync for Outstanding {}

impl Outstanding {
    /// Counts one more.
    ///
    /// # Safety
    ///
    /// The counter stays as long as it is not zero.
    pub(super) unsafe fn new(counter: &AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        // INVARIANT: By the safety requirements.
        Self(NonNull::from(counter))
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; it is not zero.
        unsafe { self.0.as_ref() }.fetch_sub(1, Ordering::Release);
    }
}

/// What is asked for by a type of queue pair.
#[expect(unreachable_pub, reason = "a part of a sealed public trait")]
pub trait Fill<'d> {
    /// Fills in a request that is new. Returns what it needs until it is completed.
    fn fill(self, request: &mut Filled<'d>) -> Result<Held<'d>>;
}

/// A request but for its memory.
#[expect(unreachable_pub, reason = "a part of a sealed public trait")]
pub struct Filled<'d> {
    pub(super) wr: AnySend,
    /// It is about memory of the work.
    pub(super) has_memory: bool,
    _device: Brand<'d>,
}

impl Filled<'_> {
    /// A request for nothing yet.
    #[inline]
    fn new() -> Self {
        Self {
            // SAFETY: Zeroes are a value of each form.
            wr: unsafe { core::mem::zeroed() },
            has_memory: true,
            _device: core::marker::PhantomData,
        }
    }

    #[inline]
    pub(super) fn opcode(&mut self, opcode: u32) {
        self.wr.send().opcode = opcode;
    }

    #[inline]
    pub(super) fn immediate(&mut self, data: [u8; 4]) {
        self.wr.send().ex.imm_data = u32::from_ne_bytes(data);
    }

    #[inline]
    pub(super) fn invalidate(&mut self, key: u32) {
        self.wr.send().ex.invalidate_rkey = key;
    }

    #[inline]
    pub(super) fn remote(&mut self, remote: Remote) {
        // SAFETY: The request is zeroed, but for its first part, which all forms have.
        let rdma = unsafe { &mut *self.wr.rdma };
        rdma.remote_addr = remote.addr;
        rdma.rkey = remote.rkey;
    }

    #[inline]
    pub(super) fn atomic(&mut self, remote: Remote, compare_add: u64, swap: u64) {
        // SAFETY: As above.
        let atomic = unsafe { &mut *self.wr.atomic };
        atomic.remote_addr = remote.addr;
        atomic.rkey = remote.rkey;
        atomic.compare_add = compare_add;
        atomic.swap = swap;
    }
}

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
    pub(super) fn ask(&mut self, op: impl Fill<'d>) -> Result<Held<'d>> {
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
