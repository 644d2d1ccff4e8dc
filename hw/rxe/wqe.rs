// SPDX-License-Identifier: GPL-2.0

//! Work requests, parsed once: those of user space, `<rdma/rdma_user_rxe.h>`, and those of kernel consumers.
//!
//! User space writes its work requests as `struct rxe_send_wqe` and `struct rxe_recv_wqe` to rings that it shares with
//! the kernel, and may change them at any time. So each is copied to kernel memory once, and validated there; all code
//! here works on the copies. Requests of a kernel consumer are converted to the same types.
//!
//! Redundant fields of a user request are ignored. Lengths are summed over the scatter/gather list, because
//! `dma.length` is wrong in libraries before rdma-core 64; inline data has no list, so its length is the field's. The
//! fields in which the C driver keeps its progress are ignored.

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
use rdma::ProviderData;
use roce::memory::{AtomicOp, SendExtra, SendOp, SendWr, UdDest};
use roce::state::{Service, WcOpcode, WcStatus};
use roce::wire::{Feth, Qpn};
pub(crate) use slots::Slots;
pub(crate) use user::{parse_av, take_recv, UserSend};

/// `IB_WR_*` and `IB_SEND_*`: user space and kernel consumers use the same numbers.
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

/// A driver whose memory regions and address handles are those of this device; its consumers' requests refer to them.
pub(crate) trait Objects: ProviderData<Mr = Arc<Mr>, Ah = Arc<Ah>> {}

impl<P: ProviderData<Mr = Arc<Mr>, Ah = Arc<Ah>>> Objects for P {}

/// Limits of a queue's requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The transport service.
    pub(crate) service: Service,
    /// Maximum number of scatter/gather elements.
    pub(crate) max_sge: u32,
    /// Maximum length of inline data, in bytes.
    pub(crate) max_inline: u32,
}

impl Limits {
    /// Maximum size of the list or inline data of a request, in bytes.
    pub(crate) fn data_len(&self) -> usize {
        (self.max_sge as usize * limits::SGE).max(self.max_inline as usize)
    }
}

/// The local part of an operation; see [`roce::memory::SendOps::local`].
pub(crate) enum Local {
    /// None: the request is sent.
    None,
    /// Invalidates a key.
    Invalidate(u32),
    /// Binds a memory window.
    Bind(BindInfo),
    /// Registers a fast registration region of a kernel consumer with a new key.
    Register {
        /// The region.
        mr: Arc<Mr>,
        /// Its new key.
        key: u32,
        /// Access flags of the key.
        access: rdma::Access,
        /// The address of its first byte.
        iova: u64,
    },
}

/// Location of a send request's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// Inline data.
    Inline,
    /// A list of this many elements.
    List(u32),
}

/// A send request in kernel memory. [`Slots`] has its list or inline data.
pub(crate) struct SendWqe {
    /// The ID in its completion.
    pub(crate) wr_id: u64,
    /// The request for the protocol.
    pub(crate) wr: SendWr,
    /// Location of the data.
    pub(crate) data: Data,
    /// Destination of a datagram.
    pub(crate) av: Option<Arc<Av>>,
    /// Local part of the operation.
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

/// The fields of a send request, from either kind of consumer.
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
    /// Address at the peer.
    pub(crate) remote_addr: u64,
    /// The key of the peer's memory.
    pub(crate) rkey: u32,
    /// The compare or add operand.
    pub(crate) compare_add: u64,
    /// The swap operand.
    pub(crate) swap: u64,
    /// The destination QPN of a datagram.
    pub(crate) remote_qpn: u32,
    /// The queue key of a datagram.
    pub(crate) remote_qkey: u32,
    /// Arguments of a memory window bind.
    pub(crate) bind: BindInfo,
    /// Placement type and selectivity of a flush.
    pub(crate) flush: Feth,
}

/// The operation of a request.
///
/// # Errors
///
/// `LocQpOpErr` where the transport service does not support it (table of opcodes by service, IBTA volume 1, section
/// 10.7.2.2).
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

/// The local part of an operation.
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

/// Checks the length of an operation's data.
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

/// Whether an operation supports inline data: those that only send.
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

/// The request for the protocol.
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
    /// The ID in its completion.
    pub(crate) wr_id: u64,
    /// Number of elements, or the status of an invalid request.
    pub(crate) num_sge: Result<u32, WcStatus>,
}
