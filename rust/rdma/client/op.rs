// SPDX-License-Identifier: GPL-2.0

//! The operations of send requests: send, RDMA read and write, atomics, registration and invalidation, by transport.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use rdma_bindings as bindings;

use super::{
    ah::Ah,
    fill::{Fill, Filled},
    mr::Mr,
    resources::Resources,
};
use crate::{abi::wr::Remote, Access};

/// What a reliable connection asks of the peer, or of the device.
#[derive(Clone, Copy)]
pub enum RcOp<'a, 'd> {
    /// A message.
    Send,
    /// A message, and immediate data in the order of the wire.
    SendImm([u8; 4]),
    /// A message, and a region of the peer's with this key is invalidated.
    SendInv(u32),
    /// The bytes are written to the peer's memory.
    Write(Remote),
    /// So they are, and immediate data tells the peer, who must have posted a request to receive.
    WriteImm(Remote, [u8; 4]),
    /// The peer's memory is read into that of the work.
    Read(Remote),
    /// Eight bytes of the peer's memory are read, and `swap` written there if they are `compare`. Bytes are in the order of
    /// the machine.
    CompareSwap {
        /// Where: a multiple of 8.
        remote: Remote,
        /// What must be there.
        compare: u64,
        /// What to put there.
        swap: u64,
    },
    /// Eight bytes of the peer's memory are read, and `add` is added there.
    FetchAdd {
        /// Where: a multiple of 8.
        remote: Remote,
        /// How much.
        add: u64,
    },
    /// A region is registered, so that it can be reached. The work's memory has no part in it.
    RegMr {
        /// The region, to which pages are mapped.
        mr: &'a Mr<'d>,
        /// What may be done with it.
        access: Access,
    },
    /// A region that is registered is invalidated. The work's memory has no part in it.
    LocalInv(&'a Mr<'d>),
}

/// What an unreliable connection asks of the peer, or of the device: see [`RcOp`].
#[derive(Clone, Copy)]
pub enum UcOp<'a, 'd> {
    /// A message.
    Send,
    /// A message, and immediate data.
    SendImm([u8; 4]),
    /// The bytes are written to the peer's memory.
    Write(Remote),
    /// So they are, and immediate data tells the peer.
    WriteImm(Remote, [u8; 4]),
    /// A region is registered.
    RegMr {
        /// The region.
        mr: &'a Mr<'d>,
        /// What may be done with it.
        access: Access,
    },
    /// A region is invalidated.
    LocalInv(&'a Mr<'d>),
}

/// A datagram.
#[derive(Clone, Copy)]
pub struct UdOp<'a, 'd> {
    /// Where it goes.
    pub ah: &'a Ah<'d>,
    /// The number of the peer's queue pair.
    pub qp_num: u32,
    /// Its Q_Key; with the high bit set, the own queue pair's is used.
    pub qkey: u32,
    /// Immediate data, in the order of the wire.
    pub immediate: Option<[u8; 4]>,
}

impl<'d> Fill<'d> for RcOp<'_, 'd> {
    #[inline]
    fn fill(self, request: &mut Filled<'d>) -> Result<Resources<'d>> {
        match self {
            Self::Send => request.opcode(bindings::IB_WR_SEND),
            Self::SendImm(data) => {
                request.opcode(bindings::IB_WR_SEND_WITH_IMM);
                request.immediate(data);
            }
            Self::SendInv(key) => {
                request.opcode(bindings::IB_WR_SEND_WITH_INV);
                request.invalidate(key);
            }
            Self::Write(to) => {
                request.opcode(bindings::IB_WR_RDMA_WRITE);
                request.remote(to);
            }
            Self::WriteImm(to, data) => {
                request.opcode(bindings::IB_WR_RDMA_WRITE_WITH_IMM);
                request.remote(to);
                request.immediate(data);
            }
            Self::Read(from) => {
                request.opcode(bindings::IB_WR_RDMA_READ);
                request.remote(from);
            }
            Self::CompareSwap {
                remote,
                compare,
                swap,
            } => {
                request.opcode(bindings::IB_WR_ATOMIC_CMP_AND_SWP);
                request.atomic(remote, compare, swap);
            }
            Self::FetchAdd { remote, add } => {
                request.opcode(bindings::IB_WR_ATOMIC_FETCH_AND_ADD);
                request.atomic(remote, add, 0);
            }
            Self::RegMr { mr, access } => return register(request, mr, access),
            Self::LocalInv(mr) => return invalidate(request, mr),
        }
        Ok(Resources::Nothing)
    }
}

/// A request to register a region, whose state says so from now on.
fn register<'d>(request: &mut Filled<'d>, mr: &Mr<'d>, access: Access) -> Result<Resources<'d>> {
    request.opcode(bindings::IB_WR_REG_MR);
    request.has_memory = false;
    let mr = mr.shared();
    let key = mr.begin_register(access)?;
    // SAFETY: The request is zeroed, but for its first part, which all forms have.
    let reg = unsafe { &mut *request.wr.reg };
    reg.mr = mr.as_raw();
    reg.key = key;
    reg.access = access.bits() as i32;
    Ok(Resources::Register(mr))
}

/// A request to invalidate a region, whose state says so from now on.
fn invalidate<'d>(request: &mut Filled<'d>, mr: &Mr<'d>) -> Result<Resources<'d>> {
    request.opcode(bindings::IB_WR_LOCAL_INV);
    request.has_memory = false;
    let mr = mr.shared();
    request.invalidate(mr.begin_invalidate()?);
    Ok(Resources::Invalidate(mr))
}

impl<'d> Fill<'d> for UcOp<'_, 'd> {
    #[inline]
    fn fill(self, request: &mut Filled<'d>) -> Result<Resources<'d>> {
        let same = match self {
            Self::Send => RcOp::Send,
            Self::SendImm(data) => RcOp::SendImm(data),
            Self::Write(to) => RcOp::Write(to),
            Self::WriteImm(to, data) => RcOp::WriteImm(to, data),
            Self::RegMr { mr, access } => RcOp::RegMr { mr, access },
            Self::LocalInv(mr) => RcOp::LocalInv(mr),
        };
        same.fill(request)
    }
}

impl<'d> Fill<'d> for UdOp<'_, 'd> {
    #[inline]
    fn fill(self, request: &mut Filled<'d>) -> Result<Resources<'d>> {
        match self.immediate {
            None => request.opcode(bindings::IB_WR_SEND),
            Some(data) => {
                request.opcode(bindings::IB_WR_SEND_WITH_IMM);
                request.immediate(data);
            }
        }
        // SAFETY: The request is zeroed, but for its first part, which all forms have.
        let ud = unsafe { &mut *request.wr.ud };
        ud.ah = self.ah.as_raw();
        ud.remote_qpn = self.qp_num;
        ud.remote_qkey = self.qkey;
        let _ah = self.ah.clone();
        Ok(Resources::Address { _ah })
    }
}
