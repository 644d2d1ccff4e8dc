// SPDX-License-Identifier: GPL-2.0

//! Work requests, looked at once: those of programs, `<rdma/rdma_user_rxe.h>`, and those of kernel consumers.
//!
//! A program writes its work requests as `struct rxe_send_wqe` and `struct rxe_recv_wqe` into rings
//! that it shares with the kernel, and may change them at any moment. So each is copied into kernel
//! memory once, checked there, and never looked at again: what is here works on the copies. A kernel
//! consumer's requests become the same values.
//!
//! Of a program's request only what it means is believed. Lengths are summed over the scatter/gather
//! list, because `dma.length` is wrong in libraries before rdma-core 64; inline data has no list,
//! so its length is the field's. The fields in which the stock driver keeps its progress are ignored.

mod cmd_post;
mod inbox;
mod kernel_wr;
mod list;
mod slots;
mod user;

use crate::ah::{Ah, Av};
use crate::limits;
use crate::mr::Mr;
use crate::mw::BindInfo;
pub(crate) use cmd_post::{post_recv, post_send};
pub(crate) use inbox::Inbox;
use kernel::sync::Arc;
pub(crate) use kernel_wr::{from_kernel, recv_from_kernel};
pub(crate) use list::{list_length, parts, put_sge};
use rdma::Provider;
use roce::memory::{AtomicOp, SendExtra, SendOp, SendWr, UdDest};
use roce::state::{Service, WcOpcode, WcStatus};
use roce::wire::{Feth, Qpn};
pub(crate) use slots::Slots;
pub(crate) use user::{take_recv, UserSend};

/// `IB_WR_*` and `IB_SEND_*`: the numbers are the same for programs and for kernel consumers.
pub(crate) mod code {
    use kernel_ext::bindings as c;

    pub(crate) const WRITE: u32 = c::IB_WR_RDMA_WRITE;
    pub(crate) const WRITE_IMM: u32 = c::IB_WR_RDMA_WRITE_WITH_IMM;
    pub(crate) const SEND: u32 = c::IB_WR_SEND;
    pub(crate) const SEND_IMM: u32 = c::IB_WR_SEND_WITH_IMM;
    pub(crate) const SEND_INV: u32 = c::IB_WR_SEND_WITH_INV;
    pub(crate) const READ: u32 = c::IB_WR_RDMA_READ;
    pub(crate) const READ_INV: u32 = c::IB_WR_RDMA_READ_WITH_INV;
    pub(crate) const CMP_SWAP: u32 = c::IB_WR_ATOMIC_CMP_AND_SWP;
    pub(crate) const FETCH_ADD: u32 = c::IB_WR_ATOMIC_FETCH_AND_ADD;
    pub(crate) const LOCAL_INV: u32 = c::IB_WR_LOCAL_INV;
    pub(crate) const FLUSH: u32 = c::IB_WR_FLUSH;
    pub(crate) const BIND_MW: u32 = c::IB_WR_BIND_MW;
    pub(crate) const ATOMIC_WRITE: u32 = c::IB_WR_ATOMIC_WRITE;

    pub(crate) const FENCE: u32 = c::IB_SEND_FENCE as u32;
    pub(crate) const SIGNALED: u32 = c::IB_SEND_SIGNALED as u32;
    pub(crate) const SOLICITED: u32 = c::IB_SEND_SOLICITED as u32;
    pub(crate) const INLINE: u32 = c::IB_SEND_INLINE as u32;
}

/// A driver whose memory regions and address handles are those of this device: its consumers' requests name them.
pub(crate) trait Objects: Provider<Mr = Arc<Mr>, Ah = Arc<Ah>> {}

impl<P: Provider<Mr = Arc<Mr>, Ah = Arc<Ah>>> Objects for P {}

/// What a queue allows of its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The transport service.
    pub(crate) service: Service,
    /// Elements of a list.
    pub(crate) max_sge: u32,
    /// Bytes of inline data.
    pub(crate) max_inline: u32,
}

impl Limits {
    /// The bytes that the list or the inline data of a request take.
    pub(crate) fn data_len(&self) -> usize {
        (self.max_sge as usize * limits::SGE).max(self.max_inline as usize)
    }
}

/// What a local operation does; see [`roce::memory::SendOps::local`].
pub(crate) enum Local {
    /// Nothing: the request goes out.
    None,
    /// Invalidates a key.
    Invalidate(u32),
    /// Binds a memory window.
    Bind(BindInfo),
    /// Registers a fast memory region of a kernel consumer under a new key.
    Register {
        /// The region.
        mr: Arc<Mr>,
        /// Its new key.
        key: u32,
        /// What the key allows.
        access: rdma::Access,
        /// The address of its first byte.
        iova: u64,
    },
}

/// Where the data of a send request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// In the request itself.
    Inline,
    /// In this many elements.
    List(u32),
}

/// A send request in kernel memory. Its list or inline data lie beside it, in [`Slots`].
pub(crate) struct SendWqe {
    /// What the completion carries.
    pub(crate) wr_id: u64,
    /// What the protocol sees.
    pub(crate) wr: SendWr,
    /// Where the data is.
    pub(crate) data: Data,
    /// Where a datagram goes.
    pub(crate) av: Option<Arc<Av>>,
    /// What is done at home.
    pub(crate) local: Local,
}

impl SendWqe {
    /// A request that fails with `status`.
    pub(crate) fn invalid(wr_id: u64, status: WcStatus) -> Self {
        Self {
            wr_id,
            wr: SendWr {
                op: SendOp::Invalid(status),
                length: 0,
                signaled: true,
                solicited: false,
                fence: false,
            },
            data: Data::List(0),
            av: None,
            local: Local::None,
        }
    }
}

/// The fields of a send request that do not depend on who posted it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request {
    /// `IB_WR_*`.
    pub(crate) opcode: u32,
    /// `IB_SEND_*`.
    pub(crate) flags: u32,
    /// Immediate data as a number.
    pub(crate) imm: u32,
    /// The key to invalidate.
    pub(crate) invalidate_rkey: u32,
    /// The peer's memory.
    pub(crate) remote_addr: u64,
    /// The key of the peer's memory.
    pub(crate) rkey: u32,
    /// What to compare with, or to add.
    pub(crate) compare_add: u64,
    /// What to swap in.
    pub(crate) swap: u64,
    /// The peer's QP, for a datagram.
    pub(crate) remote_qpn: u32,
    /// The peer's queue key, for a datagram.
    pub(crate) remote_qkey: u32,
    /// How a memory window is to be bound.
    pub(crate) bind: BindInfo,
    /// How many bytes to flush.
    pub(crate) flush_length: u32,
    /// How far to flush them.
    pub(crate) flush: Feth,
}

/// Says which operation a request asks for.
///
/// # Errors
///
/// `LocQpOpErr` where the transport service has no such operation (the table of opcodes by service,
/// IBTA volume 1, section 10.7.2.2).
pub(crate) fn operation(service: Service, request: &Request) -> Result<SendOp, WcStatus> {
    match service {
        Service::Ud => datagram(request),
        Service::Uc => match request.opcode {
            code::SEND | code::SEND_IMM | code::WRITE | code::WRITE_IMM => connected(request),
            code::LOCAL_INV | code::BIND_MW => connected(request),
            _ => Err(WcStatus::LocQpOpErr),
        },
        Service::Rc => connected(request),
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

/// What an operation does at home.
pub(crate) fn local_part(op: &SendOp, request: &Request) -> Local {
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

/// Checks how long the data of an operation is.
///
/// # Errors
///
/// `LocLenErr`.
#[inline]
pub(crate) fn check_length(op: &SendOp, length: u64) -> Result<u32, WcStatus> {
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

/// Whether an operation may carry its data inline: what only sends.
#[inline]
pub(crate) fn may_inline(op: &SendOp) -> bool {
    matches!(
        op,
        SendOp::Send { .. }
            | SendOp::SendUd { .. }
            | SendOp::Write { .. }
            | SendOp::AtomicWrite { .. }
    )
}

/// What the protocol sees of a request.
#[inline]
pub(crate) fn send_wr(op: SendOp, length: u32, flags: u32) -> SendWr {
    SendWr {
        op,
        length,
        signaled: flags & code::SIGNALED != 0,
        solicited: flags & code::SOLICITED != 0,
        fence: flags & code::FENCE != 0,
    }
}

/// A receive request in kernel memory.
pub(crate) struct RecvWqe {
    /// What the completion carries.
    pub(crate) wr_id: u64,
    /// The elements' number, or why the request makes no sense.
    pub(crate) num_sge: Result<u32, WcStatus>,
}
