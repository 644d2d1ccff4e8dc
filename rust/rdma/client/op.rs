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

/// The operations of a reliable connection.
#[derive(Clone, Copy)]
pub enum RcOp<'a, 'd> {
    /// Sends a message.
    Send,
    /// Sends a message with immediate data, in wire order.
    SendImm([u8; 4]),
    /// Sends a message, and invalidates the remote region with this key.
    SendInv(u32),
    /// Writes the bytes to remote memory.
    Write(Remote),
    /// Writes the bytes to remote memory, with immediate data, which consumes a receive request of the peer.
    WriteImm(Remote, [u8; 4]),
    /// Reads remote memory into that of the work.
    Read(Remote),
    /// Reads eight bytes of remote memory, and writes `swap` there if they equal `compare`. The values are in CPU byte
    /// order.
    CompareSwap {
        /// The remote address, a multiple of 8, and its key.
        remote: Remote,
        /// The value to compare with.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Reads eight bytes of remote memory, and adds `add` to them.
    FetchAdd {
        /// The remote address, a multiple of 8, and its key.
        remote: Remote,
        /// The value to add.
        add: u64,
    },
    /// Registers a region, which makes its key valid. The work's memory is not used.
    RegMr {
        /// The region, with mapped pages.
        mr: &'a Mr<'d>,
        /// The permitted access.
        access: Access,
    },
    /// Invalidates a registered region. The work's memory is not used.
    LocalInv(&'a Mr<'d>),
}

/// The operations of an unreliable connection: see [`RcOp`].
#[derive(Clone, Copy)]
pub enum UcOp<'a, 'd> {
    /// Sends a message.
    Send,
    /// Sends a message with immediate data.
    SendImm([u8; 4]),
    /// Writes the bytes to remote memory.
    Write(Remote),
    /// Writes the bytes to remote memory, with immediate data.
    WriteImm(Remote, [u8; 4]),
    /// Registers a region.
    RegMr {
        /// The region.
        mr: &'a Mr<'d>,
        /// The permitted access.
        access: Access,
    },
    /// Invalidates a region.
    LocalInv(&'a Mr<'d>),
}

/// A datagram.
#[derive(Clone, Copy)]
pub struct UdOp<'a, 'd> {
    /// The destination.
    pub ah: &'a Ah<'d>,
    /// The number of the remote queue pair.
    pub qp_num: u32,
    /// The remote Q_Key; with the high bit set, the local queue pair's Q_Key is used.
    pub qkey: u32,
    /// Immediate data, in wire order.
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

/// Fills in a request that registers a region, and changes the region's state.
fn register<'d>(request: &mut Filled<'d>, mr: &Mr<'d>, access: Access) -> Result<Resources<'d>> {
    request.opcode(bindings::IB_WR_REG_MR);
    request.has_memory = false;
    let mr = mr.shared();
    let key = mr.begin_register(access)?;
    // SAFETY: The request is zeroed, except for the `ib_send_wr` at the beginning, which all members of the union share.
    let reg = unsafe { &mut *request.wr.reg };
    reg.mr = mr.as_raw();
    reg.key = key;
    reg.access = access.bits() as i32;
    Ok(Resources::Register(mr))
}

/// Fills in a request that invalidates a region, and changes the region's state.
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
        // SAFETY: The request is zeroed, except for the `ib_send_wr` at the beginning, which all members of the union
        // share.
        let ud = unsafe { &mut *request.wr.ud };
        ud.ah = self.ah.as_raw();
        ud.remote_qpn = self.qp_num;
        ud.remote_qkey = self.qkey;
        let _ah = self.ah.clone();
        Ok(Resources::Address { _ah })
    }
}
