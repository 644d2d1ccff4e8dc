// SPDX-License-Identifier: GPL-2.0

//! Operations of send requests: `enum ib_wr_opcode` of `<rdma/ib_verbs.h>`, which service supports which, and the
//! lengths of their data.

use super::types::Local;
use crate::limits;
use crate::mw::BindInfo;
use roce::memory::{AtomicOp, SendExtra, SendOp, SendWr, UdDest};
use roce::state::{Service, WcOpcode, WcStatus};
use roce::wire::{Feth, Qpn, Srqn};

/// `IB_WR_*` and `IB_SEND_*`: user space and kernel consumers use the same numbers.
pub(super) mod code {
    use kernel_ext::bindings as c;

    pub(in crate::wqe) const WRITE: u32 = c::IB_WR_RDMA_WRITE;
    pub(in crate::wqe) const WRITE_IMM: u32 = c::IB_WR_RDMA_WRITE_WITH_IMM;
    pub(in crate::wqe) const SEND: u32 = c::IB_WR_SEND;
    pub(in crate::wqe) const SEND_IMM: u32 = c::IB_WR_SEND_WITH_IMM;
    pub(in crate::wqe) const SEND_INV: u32 = c::IB_WR_SEND_WITH_INV;
    pub(in crate::wqe) const READ: u32 = c::IB_WR_RDMA_READ;
    pub(in crate::wqe) const READ_INV: u32 = c::IB_WR_RDMA_READ_WITH_INV;
    pub(in crate::wqe) const CMP_SWAP: u32 = c::IB_WR_ATOMIC_CMP_AND_SWP;
    pub(in crate::wqe) const FETCH_ADD: u32 = c::IB_WR_ATOMIC_FETCH_AND_ADD;
    pub(in crate::wqe) const LOCAL_INV: u32 = c::IB_WR_LOCAL_INV;
    pub(in crate::wqe) const FLUSH: u32 = c::IB_WR_FLUSH;
    pub(in crate::wqe) const BIND_MW: u32 = c::IB_WR_BIND_MW;
    pub(in crate::wqe) const ATOMIC_WRITE: u32 = c::IB_WR_ATOMIC_WRITE;

    pub(in crate::wqe) const FENCE: u32 = c::IB_SEND_FENCE as u32;
    pub(in crate::wqe) const SIGNALED: u32 = c::IB_SEND_SIGNALED as u32;
    pub(in crate::wqe) const SOLICITED: u32 = c::IB_SEND_SOLICITED as u32;
    pub(in crate::wqe) const INLINE: u32 = c::IB_SEND_INLINE as u32;
}

/// The fields of a send request, from either kind of consumer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Request {
    /// `IB_WR_*`.
    pub(super) opcode: u32,
    /// `IB_SEND_*`.
    pub(super) flags: u32,
    /// Immediate data as a number.
    pub(super) imm: u32,
    /// The key to invalidate.
    pub(super) invalidate_rkey: u32,
    /// Address at the peer.
    pub(super) remote_addr: u64,
    /// The key of the peer's memory.
    pub(super) rkey: u32,
    /// The compare or add operand.
    pub(super) compare_add: u64,
    /// The swap operand.
    pub(super) swap: u64,
    /// The destination QPN of a datagram.
    pub(super) remote_qpn: u32,
    /// The queue key of a datagram.
    pub(super) remote_qkey: u32,
    /// Arguments of a memory window bind.
    pub(super) bind: BindInfo,
    /// Placement type and selectivity of a flush.
    pub(super) flush: Feth,
    /// The shared receive queue of the peer, of a request of XRC.
    pub(super) srq_num: u32,
}

/// The operation of a request.
///
/// # Errors
///
/// `LocQpOpErr` where the transport service does not support it (table of opcodes by service, IBTA volume 1, section
/// 10.7.2.2).
#[inline]
pub(super) fn operation(service: Service, request: &Request) -> Result<SendOp, WcStatus> {
    match service {
        Service::Ud => datagram(request),
        Service::Uc => match request.opcode {
            code::SEND | code::SEND_IMM | code::WRITE | code::WRITE_IMM => connected(request),
            code::LOCAL_INV | code::BIND_MW => connected(request),
            _ => Err(WcStatus::LocQpOpErr),
        },
        Service::Rc | Service::XrcIni => connected(request),
        Service::XrcTgt => Err(WcStatus::LocQpOpErr),
    }
}

/// The shared receive queue that a request is for, which only one of XRC names.
///
/// # Errors
///
/// `LocQpOpErr` for a number of more than 24 bits.
#[inline]
pub(super) fn srqn(service: Service, request: &Request) -> Result<Srqn, WcStatus> {
    match service {
        Service::XrcIni => Srqn::checked(request.srq_num).ok_or(WcStatus::LocQpOpErr),
        _ => Ok(Srqn::default()),
    }
}

fn datagram(request: &Request) -> Result<SendOp, WcStatus> {
    let imm = match request.opcode {
        code::SEND => None,
        code::SEND_IMM => Some(request.imm),
        _ => return Err(WcStatus::LocQpOpErr),
    };
    let dest = UdDest {
        qpn: Qpn::new(request.remote_qpn),
        qkey: request.remote_qkey,
        pkey: None,
    };
    Ok(SendOp::SendUd { imm, dest })
}

/// Inline: a request is read from its copy when it is known what it has.
#[inline]
fn connected(request: &Request) -> Result<SendOp, WcStatus> {
    let (va, rkey) = (request.remote_addr, request.rkey);
    Ok(match request.opcode {
        code::SEND => SendOp::Send {
            extra: SendExtra::None,
        },
        code::SEND_IMM => SendOp::Send {
            extra: SendExtra::Imm(request.imm),
        },
        code::SEND_INV => SendOp::Send {
            extra: SendExtra::Invalidate(request.invalidate_rkey),
        },
        code::WRITE => SendOp::Write {
            va,
            rkey,
            imm: None,
        },
        code::WRITE_IMM => SendOp::Write {
            va,
            rkey,
            imm: Some(request.imm),
        },
        code::READ => SendOp::Read {
            va,
            rkey,
            invalidate: false,
        },
        code::READ_INV => SendOp::Read {
            va,
            rkey,
            invalidate: true,
        },
        code::CMP_SWAP => {
            let op = AtomicOp::CmpSwap {
                compare: request.compare_add,
                swap: request.swap,
            };
            SendOp::Atomic { va, rkey, op }
        }
        code::ATOMIC_WRITE => SendOp::AtomicWrite { va, rkey },
        code::FLUSH => SendOp::Flush {
            va,
            rkey,
            feth: request.flush,
        },
        code::FETCH_ADD => SendOp::Atomic {
            va,
            rkey,
            op: AtomicOp::FetchAdd {
                add: request.compare_add,
            },
        },
        code::LOCAL_INV => SendOp::Local {
            opcode: WcOpcode::LocalInv,
            wait_all: true,
        },
        code::BIND_MW => SendOp::Local {
            opcode: WcOpcode::BindMw,
            wait_all: false,
        },
        _ => return Err(WcStatus::LocQpOpErr),
    })
}

/// The local part of an operation.
#[inline]
pub(super) fn local_part(op: &SendOp, request: &Request) -> Local {
    match op {
        SendOp::Local {
            opcode: WcOpcode::LocalInv,
            ..
        }
        | SendOp::Read {
            invalidate: true, ..
        } => Local::Invalidate(request.invalidate_rkey),
        SendOp::Local {
            opcode: WcOpcode::BindMw,
            ..
        } => Local::Bind(request.bind),
        _ => Local::None,
    }
}

/// Checks the length of an operation's data.
///
/// # Errors
///
/// `LocLenErr`.
#[inline]
pub(super) fn check_length(op: &SendOp, length: u64) -> Result<u32, WcStatus> {
    let length = u32::try_from(length).map_err(|_| WcStatus::LocLenErr)?;
    let fits = match op {
        SendOp::Atomic { .. } | SendOp::AtomicWrite { .. } => length == 8,
        _ => length <= limits::MAX_MESSAGE,
    };
    if fits {
        Ok(length)
    } else {
        Err(WcStatus::LocLenErr)
    }
}

/// Whether an operation supports inline data: those that only send.
#[inline]
pub(super) fn may_inline(op: &SendOp) -> bool {
    matches!(
        op,
        SendOp::Send { .. }
            | SendOp::SendUd { .. }
            | SendOp::Write { .. }
            | SendOp::AtomicWrite { .. }
    )
}

/// The request for the protocol, of another service than XRC.
#[inline]
pub(super) fn send_wr(op: SendOp, length: u32, flags: u32) -> SendWr {
    SendWr {
        op,
        length,
        signaled: flags & code::SIGNALED != 0,
        solicited: flags & code::SOLICITED != 0,
        fence: flags & code::FENCE != 0,
        srqn: Srqn::default(),
    }
}
