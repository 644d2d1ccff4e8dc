// SPDX-License-Identifier: GPL-2.0

//! Work requests of clients in the kernel: `struct ib_send_wr`, `struct ib_recv_wr`.
//!
//! `post_send` and `post_recv` get a chain, from which they take one request after the other. When
//! such a method fails, the request taken last is reported as the bad one. So a request must be
//! taken only after all earlier ones are posted.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{marker::PhantomData, ptr};

use kernel::prelude::*;
use rdma_bindings::{
    self as bindings, ib_atomic_wr, ib_rdma_wr, ib_recv_wr, ib_reg_wr, ib_send_wr, ib_sge, ib_ud_wr,
};

use crate::{
    abi::{
        access::Access,
        qp::QpType,
        wr::{Remote, SendFlags, Sge},
    },
    provider::data::ProviderData,
    Ah, Mr, VirtDma,
};

/// The scatter list of `count` entries at `first`.
///
/// # Safety
///
/// `first` must be valid for reads of `count` entries during `'a`, if `count` is positive.
#[inline]
pub(crate) unsafe fn sge_list<'a>(first: *const ib_sge, count: i32) -> &'a [Sge] {
    match usize::try_from(count) {
        Ok(count) if count > 0 && !first.is_null() => {
            // SAFETY: By the safety requirements; `Sge` has the layout of `ib_sge`.
            unsafe { core::slice::from_raw_parts(first.cast(), count) }
        }
        _ => &[],
    }
}

/// The destination of a datagram: `struct ib_ud_wr`.
pub struct UdSend<'a, P: ProviderData> {
    /// The address handle.
    pub ah: &'a Ah<P>,
    /// The number of the remote QP.
    pub remote_qpn: u32,
    /// The remote Q_Key; with the high bit set, the QP's own Q_Key is used.
    pub remote_qkey: u32,
    /// The P_Key index; for QP1 only.
    pub pkey_index: u16,
}

/// The operation of a send request.
pub enum SendOp<'a, P: ProviderData> {
    /// Send.
    Send,
    /// Send with immediate data, four bytes in wire order.
    SendImm([u8; 4]),
    /// Send, and invalidate a remote key.
    SendInv(u32),
    /// Write to remote memory.
    Write(Remote),
    /// Write to remote memory, with immediate data.
    WriteImm(Remote, [u8; 4]),
    /// Read from remote memory.
    Read(Remote),
    /// Read from remote memory, then invalidate a local key.
    ReadInv(Remote, u32),
    /// Compare and swap eight bytes of remote memory.
    CompareSwap {
        /// The remote address and key.
        remote: Remote,
        /// The value to compare with.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Add to eight bytes of remote memory.
    FetchAdd {
        /// The remote address and key.
        remote: Remote,
        /// The value to add.
        add: u64,
    },
    /// Invalidate a local key.
    LocalInv(u32),
    /// Register an MR with the pages that were mapped to it.
    RegMr {
        /// The MR.
        mr: &'a Mr<P>,
        /// The new key of the MR.
        key: u32,
        /// The permitted access.
        access: Access,
    },
}

/// A send request.
///
/// # Invariants
///
/// The request is valid for `'a`, in the structure that its opcode and the type of the QP select.
#[derive(Clone, Copy)]
pub struct SendWr<'a, P> {
    raw: &'a ib_send_wr,
    qp_type: QpType,
    /// Whether a program has posted it, through ib_uverbs.
    of_user: bool,
    _provider: PhantomData<fn() -> P>,
}

impl<'a, P: ProviderData> SendWr<'a, P> {
    /// The identifier of the request.
    #[inline]
    pub fn wr_id(&self) -> u64 {
        // SAFETY: Both members of the union have 64 bits, of which any value is a valid number.
        unsafe { self.raw.__bindgen_anon_1.wr_id }
    }

    /// The flags of the request.
    #[inline]
    pub fn flags(&self) -> SendFlags {
        SendFlags::from_bits(self.raw.send_flags as u32)
    }

    /// The scatter/gather list of local memory.
    #[inline]
    pub fn sg_list(&self) -> &'a [Sge] {
        // SAFETY: By the type invariants the request is valid, with its list.
        unsafe { sge_list(self.raw.sg_list, self.raw.num_sge) }
    }

    /// The right to copy the data of a request with [`INLINE`](SendFlags::INLINE), whose list has
    /// kernel addresses and no valid keys. Requests of programs have no such right.
    #[inline]
    pub fn inline_data(&self) -> Option<VirtDma> {
        if self.of_user || !self.flags().contains(SendFlags::INLINE) {
            return None;
        }
        // SAFETY: A client in the kernel has posted the request, and guarantees its addresses.
        Some(unsafe { VirtDma::new() })
    }

    /// The destination, on a datagram QP.
    pub fn ud(&self) -> Option<UdSend<'a, P>> {
        if !self.qp_type.is_datagram() {
            return None;
        }
        // SAFETY: By the type invariants the request of a datagram QP is an `ib_ud_wr`.
        let raw = unsafe { &*ptr::from_ref(self.raw).cast::<ib_ud_wr>() };
        if raw.ah.is_null() {
            return None;
        }
        Some(UdSend {
            // SAFETY: By the header the AH is valid until the request completes.
            ah: unsafe { Ah::from_raw(raw.ah) },
            remote_qpn: raw.remote_qpn,
            remote_qkey: raw.remote_qkey,
            pkey_index: raw.pkey_index,
        })
    }

    /// The operation.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an opcode that the type of the QP excludes, or that clients in the kernel
    /// cannot post.
    #[inline]
    pub fn op(&self) -> Result<SendOp<'a, P>> {
        let op = match self.raw.opcode {
            bindings::IB_WR_SEND => SendOp::Send,
            bindings::IB_WR_SEND_WITH_IMM => SendOp::SendImm(self.imm()),
            _ if self.qp_type.is_datagram() => return Err(EINVAL),
            bindings::IB_WR_SEND_WITH_INV => SendOp::SendInv(self.invalidate_rkey()),
            bindings::IB_WR_RDMA_WRITE => SendOp::Write(self.remote()),
            bindings::IB_WR_RDMA_WRITE_WITH_IMM => SendOp::WriteImm(self.remote(), self.imm()),
            bindings::IB_WR_RDMA_READ => SendOp::Read(self.remote()),
            bindings::IB_WR_RDMA_READ_WITH_INV => {
                SendOp::ReadInv(self.remote(), self.invalidate_rkey())
            }
            bindings::IB_WR_ATOMIC_CMP_AND_SWP => {
                let (remote, compare, swap) = self.atomic();
                SendOp::CompareSwap {
                    remote,
                    compare,
                    swap,
                }
            }
            bindings::IB_WR_ATOMIC_FETCH_AND_ADD => {
                let (remote, add, _) = self.atomic();
                SendOp::FetchAdd { remote, add }
            }
            bindings::IB_WR_LOCAL_INV => SendOp::LocalInv(self.invalidate_rkey()),
            bindings::IB_WR_REG_MR if !self.of_user => self.reg_mr()?,
            _ => return Err(EINVAL),
        };
        Ok(op)
    }

    #[inline]
    fn imm(&self) -> [u8; 4] {
        // SAFETY: The opcode selects the member of the union; any bytes are valid.
        unsafe { self.raw.ex.imm_data }.to_ne_bytes()
    }

    #[inline]
    fn invalidate_rkey(&self) -> u32 {
        // SAFETY: The opcode selects the member of the union; any number is valid.
        unsafe { self.raw.ex.invalidate_rkey }
    }

    /// The remote address and key, for the opcodes of RDMA READ and WRITE.
    #[inline]
    fn remote(&self) -> Remote {
        // SAFETY: By the type invariants the request of such an opcode is an `ib_rdma_wr`.
        let raw = unsafe { &*ptr::from_ref(self.raw).cast::<ib_rdma_wr>() };
        Remote {
            addr: raw.remote_addr,
            rkey: raw.rkey,
        }
    }

    /// The remote address and key and the operands, for the opcodes of atomics.
    #[inline]
    fn atomic(&self) -> (Remote, u64, u64) {
        // SAFETY: By the type invariants the request of such an opcode is an `ib_atomic_wr`.
        let raw = unsafe { &*ptr::from_ref(self.raw).cast::<ib_atomic_wr>() };
        (
            Remote {
                addr: raw.remote_addr,
                rkey: raw.rkey,
            },
            raw.compare_add,
            raw.swap,
        )
    }

    /// The operation of a fast registration.
    fn reg_mr(&self) -> Result<SendOp<'a, P>> {
        // SAFETY: By the type invariants the request of such an opcode is an `ib_reg_wr`.
        let raw = unsafe { &*ptr::from_ref(self.raw).cast::<ib_reg_wr>() };
        if raw.mr.is_null() {
            return Err(EINVAL);
        }
        Ok(SendOp::RegMr {
            // SAFETY: By the header the MR belongs to the QP's device, and is valid until the
            // request completes.
            mr: unsafe { Mr::from_raw(raw.mr) },
            key: raw.key,
            access: Access::from_bits(raw.access as u32),
        })
    }
}

/// A chain of send requests.
///
/// # Invariants
///
/// All requests are valid for `'a`; `taken` is the request taken last, or the first one if none was
/// taken, or null for an empty chain.
pub struct SendWrs<'a, P> {
    next: *const ib_send_wr,
    taken: *const ib_send_wr,
    qp_type: QpType,
    of_user: bool,
    _chain: PhantomData<&'a ib_send_wr>,
    _provider: PhantomData<fn() -> P>,
}

impl<'a, P: ProviderData> SendWrs<'a, P> {
    /// The chain that begins with `first`.
    ///
    /// # Safety
    ///
    /// The chain must be for a QP of type `qp_type` of a device of `P`, and be valid during `'a`.
    /// `of_user` must be true if ib_uverbs has made it.
    #[inline]
    pub(crate) unsafe fn new(first: *const ib_send_wr, qp_type: QpType, of_user: bool) -> Self {
        Self {
            next: first,
            taken: first,
            qp_type,
            of_user,
            _chain: PhantomData,
            _provider: PhantomData,
        }
    }

    /// The request that is reported to C when the method fails.
    #[inline]
    pub(crate) fn bad(&self) -> *const ib_send_wr {
        self.taken
    }

    /// Whether there are no more requests.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next.is_null()
    }
}

impl<'a, P: ProviderData> Iterator for SendWrs<'a, P> {
    type Item = SendWr<'a, P>;

    #[inline]
    fn next(&mut self) -> Option<SendWr<'a, P>> {
        // SAFETY: By the type invariants `next` is null or a valid request.
        let raw = unsafe { self.next.as_ref() }?;
        self.taken = self.next;
        self.next = raw.next;
        Some(SendWr {
            raw,
            qp_type: self.qp_type,
            of_user: self.of_user,
            _provider: PhantomData,
        })
    }
}

/// A receive request.
///
/// # Invariants
///
/// The request is valid for `'a`.
#[derive(Clone, Copy)]
pub struct RecvWr<'a>(&'a ib_recv_wr);

impl<'a> RecvWr<'a> {
    /// The identifier of the request.
    #[inline]
    pub fn wr_id(&self) -> u64 {
        // SAFETY: Both members of the union have 64 bits, of which any value is a valid number.
        unsafe { self.0.__bindgen_anon_1.wr_id }
    }

    /// The scatter/gather list of local memory.
    #[inline]
    pub fn sg_list(&self) -> &'a [Sge] {
        // SAFETY: By the type invariants the request is valid, with its list.
        unsafe { sge_list(self.0.sg_list, self.0.num_sge) }
    }
}

/// A chain of receive requests.
///
/// # Invariants
///
/// As for [`SendWrs`].
pub struct RecvWrs<'a> {
    next: *const ib_recv_wr,
    taken: *const ib_recv_wr,
    _chain: PhantomData<&'a ib_recv_wr>,
}

impl RecvWrs<'_> {
    /// The chain that begins with `first`.
    ///
    /// # Safety
    ///
    /// The chain must be valid as long as the result exists.
    #[inline]
    pub(crate) unsafe fn new(first: *const ib_recv_wr) -> Self {
        Self {
            next: first,
            taken: first,
            _chain: PhantomData,
        }
    }

    /// The request that is reported to C when the method fails.
    #[inline]
    pub(crate) fn bad(&self) -> *const ib_recv_wr {
        self.taken
    }
}

impl<'a> Iterator for RecvWrs<'a> {
    type Item = RecvWr<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecvWr<'a>> {
        // SAFETY: By the type invariants `next` is null or a valid request.
        let raw = unsafe { self.next.as_ref() }?;
        self.taken = self.next;
        self.next = raw.next;
        Some(RecvWr(raw))
    }
}
