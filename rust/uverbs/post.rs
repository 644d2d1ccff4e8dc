// SPDX-License-Identifier: GPL-2.0

//! Chains of requests for sending and receiving that user space posts through the kernel.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{mem::offset_of, ops::Range, ptr::null_mut};

use kernel::prelude::*;
use rdma::{
    driver::user::PolledWc,
    view::{Ah, Qp, Srq},
};
use rdma_bindings::{self as c, ib_recv_wr, ib_send_wr, ib_sge};

use crate::lookup::ReadLocked;

/// What a request for sending has beyond what all have.
pub enum SendKind<'a> {
    /// Nothing.
    Send,
    /// Memory of the peer.
    Rdma {
        /// Where it begins.
        remote_addr: u64,
        /// Its key.
        rkey: u32,
    },
    /// A word of the peer's memory.
    Atomic {
        /// Where it is.
        remote_addr: u64,
        /// What it is compared with, or what is added to it.
        compare_add: u64,
        /// What it becomes.
        swap: u64,
        /// The key of the memory.
        rkey: u32,
    },
    /// A datagram.
    Datagram {
        /// Where it goes. It stays as long as the chain.
        ah: ReadLocked<'a, Ah>,
        /// The peer's queue pair.
        remote_qpn: u32,
        /// The peer's Q_Key.
        remote_qkey: u32,
    },
}

/// What a request of user space says of the peer's memory.
pub fn rdma(request: &c::ib_uverbs_send_wr) -> SendKind<'static> {
    // SAFETY: All forms are numbers: any value is valid.
    let rdma = unsafe { &request.wr.rdma };
    SendKind::Rdma {
        remote_addr: rdma.remote_addr,
        rkey: rdma.rkey,
    }
}

/// What a request of user space says of a word of the peer's memory.
pub fn atomic(request: &c::ib_uverbs_send_wr) -> SendKind<'static> {
    // SAFETY: As in `rdma`.
    let atomic = unsafe { &request.wr.atomic };
    SendKind::Atomic {
        remote_addr: atomic.remote_addr,
        compare_add: atomic.compare_add,
        swap: atomic.swap,
        rkey: atomic.rkey,
    }
}

/// Where a request of user space sends a datagram: the handle of an address handle, the peer's queue pair, its Q_Key.
pub fn datagram(request: &c::ib_uverbs_send_wr) -> (u32, u32, u32) {
    // SAFETY: As in `rdma`.
    let ud = unsafe { &request.wr.ud };
    (ud.ah, ud.remote_qpn, ud.remote_qkey)
}

/// The immediate data of a request of user space, in the order of the wire, or the key to be invalidated.
pub fn extra(request: &c::ib_uverbs_send_wr) -> u32 {
    // SAFETY: Both forms are numbers.
    unsafe { request.ex.invalidate_rkey }
}

/// Fills in what of a completion has several forms: what the request is called, which queue pair it was of, and what came
/// along with the data.
pub fn fill_wc(user: &mut c::ib_uverbs_wc, polled: &PolledWc) {
    let wc = polled.wc();
    // SAFETY: Requests of user space have a number, and immediate data and keys are numbers.
    unsafe {
        user.wr_id = wc.__bindgen_anon_1.wr_id;
        user.ex.imm_data = wc.ex.imm_data;
    }
    user.qp_num = polled.qp_num();
}

/// A request for sending.
pub struct Send<'a> {
    /// What user space calls it.
    pub wr_id: u64,
    /// `enum ib_wr_opcode`; it goes with the kind.
    pub opcode: u32,
    /// `enum ib_send_flags`.
    pub flags: u32,
    /// Immediate data in the order of the wire, or a key to be invalidated.
    pub extra: u32,
    /// What is sent: so many of the chain's pieces of memory.
    pub sges: Range<usize>,
    /// What it has beyond that.
    pub kind: SendKind<'a>,
}

/// A request in the largest form that it may have. All forms begin with what all have.
#[repr(C)]
union AnySend {
    common: core::mem::ManuallyDrop<ib_send_wr>,
    rdma: core::mem::ManuallyDrop<c::ib_rdma_wr>,
    atomic: core::mem::ManuallyDrop<c::ib_atomic_wr>,
    ud: core::mem::ManuallyDrop<c::ib_ud_wr>,
}

const _: () = {
    assert!(offset_of!(c::ib_rdma_wr, wr) == 0);
    assert!(offset_of!(c::ib_atomic_wr, wr) == 0);
    assert!(offset_of!(c::ib_ud_wr, wr) == 0);
};

/// A chain of requests for sending, which is being made.
///
/// # Invariants
///
/// The requests refer to pieces of `sges`, which is not changed, and to address handles of `handles`.
pub struct SendChain<'a> {
    requests: KVec<AnySend>,
    sges: KVec<ib_sge>,
    handles: KVec<ReadLocked<'a, Ah>>,
}

/// The first requests of a chain were posted, and one was not: its number counted from 1, and why.
pub struct NotPosted {
    /// The number.
    pub nth: u32,
    /// Why.
    pub error: Error,
}

impl<'a> SendChain<'a> {
    /// Room for `count` requests, for these pieces of memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(count: usize, sges: KVec<ib_sge>) -> Result<Self> {
        Ok(Self {
            requests: KVec::with_capacity(count, GFP_KERNEL)?,
            sges,
            handles: KVec::new(),
        })
    }

    /// Adds a request at the end.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are no such pieces of memory, `ENOMEM`.
    pub fn push(&mut self, send: Send<'a>) -> Result {
        let sges = self.sges.get_mut(send.sges).ok_or(EINVAL)?;
        let mut common: ib_send_wr = pin_init::zeroed();
        common.__bindgen_anon_1.wr_id = send.wr_id;
        common.num_sge = sges.len() as i32;
        if !sges.is_empty() {
            common.sg_list = sges.as_mut_ptr();
        }
        common.opcode = send.opcode;
        common.send_flags = send.flags as i32;
        common.ex.invalidate_rkey = send.extra;
        let mut any: AnySend = AnySend {
            ud: core::mem::ManuallyDrop::new(pin_init::zeroed()),
        };
        match send.kind {
            SendKind::Send => any.common = core::mem::ManuallyDrop::new(common),
            SendKind::Rdma { remote_addr, rkey } => {
                let mut rdma: c::ib_rdma_wr = pin_init::zeroed();
                rdma.wr = common;
                rdma.remote_addr = remote_addr;
                rdma.rkey = rkey;
                any.rdma = core::mem::ManuallyDrop::new(rdma);
            }
            SendKind::Atomic {
                remote_addr,
                compare_add,
                swap,
                rkey,
            } => {
                let mut atomic: c::ib_atomic_wr = pin_init::zeroed();
                atomic.wr = common;
                atomic.remote_addr = remote_addr;
                atomic.compare_add = compare_add;
                atomic.swap = swap;
                atomic.rkey = rkey;
                any.atomic = core::mem::ManuallyDrop::new(atomic);
            }
            SendKind::Datagram {
                ah,
                remote_qpn,
                remote_qkey,
            } => {
                let mut ud: c::ib_ud_wr = pin_init::zeroed();
                ud.wr = common;
                ud.ah = ah.as_raw();
                ud.remote_qpn = remote_qpn;
                ud.remote_qkey = remote_qkey;
                self.handles.push(ah, GFP_KERNEL)?;
                any.ud = core::mem::ManuallyDrop::new(ud);
            }
        }
        // INVARIANT: The pieces are the chain's, and the handle was just added.
        self.requests.push(any, GFP_KERNEL)?;
        Ok(())
    }

    /// Posts the chain, which may be empty.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    pub fn post(mut self, qp: &Qp) -> Result<(), NotPosted> {
        let mut first: *mut ib_send_wr = null_mut();
        for request in self.requests.iter_mut().rev() {
            let raw = core::ptr::from_mut(request).cast::<ib_send_wr>();
            // SAFETY: All forms begin with what all have.
            unsafe { (*raw).next = first };
            first = raw;
        }
        // SAFETY: By the type invariants what the requests refer to is there, as they are.
        let posted = unsafe { qp.real().driver_post_user_sends(first) };
        posted.map_err(|(error, bad)| {
            let is_bad = |request: &AnySend| core::ptr::from_ref(request).cast() == bad;
            NotPosted {
                nth: nth(self.requests.len(), self.requests.iter().position(is_bad)),
                error,
            }
        })
    }
}

/// The number of a request counted from 1; of all, if it is none of them.
fn nth(count: usize, index: Option<usize>) -> u32 {
    index.map_or(count, |index| index + 1) as u32
}

/// A chain of requests for receiving.
///
/// # Invariants
///
/// The requests refer to pieces of `sges`, which is not changed.
pub struct RecvChain {
    requests: KVec<ib_recv_wr>,
    sges: KVec<ib_sge>,
}

impl RecvChain {
    /// Room for `count` requests, for these pieces of memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(count: usize, sges: KVec<ib_sge>) -> Result<Self> {
        Ok(Self {
            requests: KVec::with_capacity(count, GFP_KERNEL)?,
            sges,
        })
    }

    /// Adds a request at the end.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are no such pieces of memory, `ENOMEM`.
    pub fn push(&mut self, wr_id: u64, sges: Range<usize>) -> Result {
        let sges = self.sges.get_mut(sges).ok_or(EINVAL)?;
        let mut request: ib_recv_wr = pin_init::zeroed();
        request.__bindgen_anon_1.wr_id = wr_id;
        request.num_sge = sges.len() as i32;
        if !sges.is_empty() {
            request.sg_list = sges.as_mut_ptr();
        }
        // INVARIANT: The pieces are the chain's.
        self.requests.push(request, GFP_KERNEL)?;
        Ok(())
    }

    /// Links the requests; the first, or null.
    fn link(&mut self) -> *const ib_recv_wr {
        let mut first: *mut ib_recv_wr = null_mut();
        for request in self.requests.iter_mut().rev() {
            request.next = first;
            first = request;
        }
        first
    }

    fn not_posted(&self, (error, bad): (Error, *const ib_recv_wr)) -> NotPosted {
        let is_bad = |request: &ib_recv_wr| core::ptr::eq(request, bad);
        NotPosted {
            nth: nth(self.requests.len(), self.requests.iter().position(is_bad)),
            error,
        }
    }

    /// Posts the chain to a queue pair; it may be empty.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    pub fn post(mut self, qp: &Qp) -> Result<(), NotPosted> {
        let first = self.link();
        // SAFETY: By the type invariants what the requests refer to is there, as they are.
        let posted = unsafe { qp.real().driver_post_user_recvs(first) };
        posted.map_err(|failed| self.not_posted(failed))
    }

    /// Posts the chain to a shared receive queue; it may be empty.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    pub fn post_srq(mut self, srq: &Srq) -> Result<(), NotPosted> {
        let first = self.link();
        // SAFETY: By the type invariants what the requests refer to is there, as they are.
        let posted = unsafe { srq.driver_post_user_recvs(first) };
        posted.map_err(|failed| self.not_posted(failed))
    }
}
