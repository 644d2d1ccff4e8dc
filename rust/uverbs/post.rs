// SPDX-License-Identifier: GPL-2.0

//! Chains of work requests that user space posts through the kernel (`ib_post_send`, `ib_post_recv`, `ib_post_srq_recv`).
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{mem::offset_of, ops::Range, ptr::null_mut};

use kernel::prelude::*;
use rdma::core::{driver::user::PolledWc, Ah, Qp, Srq};
use rdma_bindings::{self as c, ib_recv_wr, ib_send_wr, ib_sge};

use crate::lookup::ReadLocked;

/// The members of a send request that depend on its opcode.
pub enum SendKind<'a> {
    /// None.
    Send,
    /// `struct ib_rdma_wr`.
    Rdma {
        /// The remote address.
        remote_addr: u64,
        /// The remote key.
        rkey: u32,
    },
    /// `struct ib_atomic_wr`.
    Atomic {
        /// The remote address.
        remote_addr: u64,
        /// The value to compare with, or to add.
        compare_add: u64,
        /// The value to swap.
        swap: u64,
        /// The remote key.
        rkey: u32,
    },
    /// `struct ib_ud_wr`.
    Datagram {
        /// The address handle, locked as long as the chain.
        ah: ReadLocked<'a, Ah>,
        /// The remote QP number.
        remote_qpn: u32,
        /// The remote Q_Key.
        remote_qkey: u32,
    },
}

/// The remote address and key of a request of user space.
pub fn rdma(request: &c::ib_uverbs_send_wr) -> SendKind<'static> {
    // SAFETY: All members of the union are numbers, of which any value is valid.
    let rdma = unsafe { &request.wr.rdma };
    SendKind::Rdma {
        remote_addr: rdma.remote_addr,
        rkey: rdma.rkey,
    }
}

/// The members of an atomic request of user space.
pub fn atomic(request: &c::ib_uverbs_send_wr) -> SendKind<'static> {
    // SAFETY: All members of the union are numbers, of which any value is valid.
    let atomic = unsafe { &request.wr.atomic };
    SendKind::Atomic {
        remote_addr: atomic.remote_addr,
        compare_add: atomic.compare_add,
        swap: atomic.swap,
        rkey: atomic.rkey,
    }
}

/// The handle of the address handle, the remote QP number and the remote Q_Key of a UD request of user space.
pub fn datagram(request: &c::ib_uverbs_send_wr) -> (u32, u32, u32) {
    // SAFETY: All members of the union are numbers, of which any value is valid.
    let ud = unsafe { &request.wr.ud };
    (ud.ah, ud.remote_qpn, ud.remote_qkey)
}

/// The immediate data of a request of user space, big endian, or the key to be invalidated.
pub fn extra(request: &c::ib_uverbs_send_wr) -> u32 {
    // SAFETY: Both members of the union are numbers, of which any value is valid.
    unsafe { request.ex.invalidate_rkey }
}

/// Sets the members of a completion for user space that are unions in `struct ib_wc`: the identifier of the request, the QP
/// number and the immediate data.
pub fn fill_wc(user: &mut c::ib_uverbs_wc, polled: &PolledWc) {
    let wc = polled.wc();
    // SAFETY: Requests of user space have a number in `wr_id`; immediate data and keys are numbers too.
    unsafe {
        user.wr_id = wc.__bindgen_anon_1.wr_id;
        user.ex.imm_data = wc.ex.imm_data;
    }
    user.qp_num = polled.qp_num();
}

/// A send request.
pub struct Send<'a> {
    /// The identifier of user space.
    pub wr_id: u64,
    /// `enum ib_wr_opcode`, which matches `kind`.
    pub opcode: u32,
    /// `enum ib_send_flags`.
    pub flags: u32,
    /// Immediate data, big endian, or a key to be invalidated.
    pub extra: u32,
    /// Its SGEs: a range of the chain's.
    pub sges: Range<usize>,
    /// The members that depend on the opcode.
    pub kind: SendKind<'a>,
}

/// A send request of any kind: all begin with `struct ib_send_wr`.
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

/// A chain of send requests.
///
/// # Invariants
///
/// The requests refer to elements of `sges`, which is not changed, and to address handles of `handles`.
pub struct SendChain<'a> {
    requests: KVec<AnySend>,
    sges: KVec<ib_sge>,
    handles: KVec<ReadLocked<'a, Ah>>,
}

/// The error of posting a chain: the requests before the `nth` were posted.
pub struct NotPosted {
    /// The position of the first request that was not posted, from 1.
    pub nth: u32,
    /// The error.
    pub error: Error,
}

impl<'a> SendChain<'a> {
    /// Allocates an empty chain for `count` requests with these SGEs.
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

    /// Appends a request.
    ///
    /// # Errors
    ///
    /// `EINVAL` for SGEs outside the chain's, `ENOMEM`.
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
        // INVARIANT: The SGEs are elements of `sges`, and the handle was just added.
        self.requests.push(any, GFP_KERNEL)?;
        Ok(())
    }

    /// Posts the chain.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn post(mut self, qp: &Qp) -> Result<(), NotPosted> {
        let mut first: *mut ib_send_wr = null_mut();
        for request in self.requests.iter_mut().rev() {
            let raw = core::ptr::from_mut(request).cast::<ib_send_wr>();
            // SAFETY: All members of the union begin with an `ib_send_wr`.
            unsafe { (*raw).next = first };
            first = raw;
        }
        // SAFETY: By the type invariants the requests and what they refer to are valid.
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

/// Rings the doorbell of a queue pair whose queues are mapped into user space: posts a chain without requests.
///
/// # Errors
///
/// Those of the driver.
pub fn ring_doorbell(qp: &Qp) -> Result<(), NotPosted> {
    // SAFETY: There are no requests.
    let rung = unsafe { qp.real().driver_post_user_sends(core::ptr::null()) };
    rung.map_err(|(error, _)| NotPosted { nth: 0, error })
}

/// The position of a request from 1; the number of all, if it is none of them.
fn nth(count: usize, index: Option<usize>) -> u32 {
    index.map_or(count, |index| index + 1) as u32
}

/// A chain of receive requests.
///
/// # Invariants
///
/// The requests refer to elements of `sges`, which is not changed.
pub struct RecvChain {
    requests: KVec<ib_recv_wr>,
    sges: KVec<ib_sge>,
}

impl RecvChain {
    /// Allocates an empty chain for `count` requests with these SGEs.
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

    /// Appends a request.
    ///
    /// # Errors
    ///
    /// `EINVAL` for SGEs outside the chain's, `ENOMEM`.
    pub fn push(&mut self, wr_id: u64, sges: Range<usize>) -> Result {
        let sges = self.sges.get_mut(sges).ok_or(EINVAL)?;
        let mut request: ib_recv_wr = pin_init::zeroed();
        request.__bindgen_anon_1.wr_id = wr_id;
        request.num_sge = sges.len() as i32;
        if !sges.is_empty() {
            request.sg_list = sges.as_mut_ptr();
        }
        // INVARIANT: The SGEs are elements of `sges`.
        self.requests.push(request, GFP_KERNEL)?;
        Ok(())
    }

    /// Links the requests, and returns the first, or null.
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
    /// Those of the driver.
    pub fn post(mut self, qp: &Qp) -> Result<(), NotPosted> {
        let first = self.link();
        // SAFETY: By the type invariants the requests and what they refer to are valid.
        let posted = unsafe { qp.real().driver_post_user_recvs(first) };
        posted.map_err(|failed| self.not_posted(failed))
    }

    /// Posts the chain to a shared receive queue; it may be empty.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn post_srq(mut self, srq: &Srq) -> Result<(), NotPosted> {
        let first = self.link();
        // SAFETY: By the type invariants the requests and what they refer to are valid.
        let posted = unsafe { srq.driver_post_user_recvs(first) };
        posted.map_err(|failed| self.not_posted(failed))
    }
}
