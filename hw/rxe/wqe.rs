// SPDX-License-Identifier: GPL-2.0

//! Work requests, looked at once.
//!
//! A program writes its work requests as `struct rxe_send_wqe` and `struct rxe_recv_wqe` into rings
//! that it shares with the kernel, and may change them at any moment. So each is copied into kernel
//! memory once, checked there, and never looked at again: what is here works on the copies. A kernel
//! consumer's requests become the same values.
//!
//! Of a program's request only what it means is believed. Lengths are summed over the scatter/gather
//! list, because `dma.length` is wrong in libraries before rdma-core 64; inline data has no list,
//! so its length is the field's. The fields in which the stock driver keeps its progress are ignored.

use crate::ah::Av;
use crate::device::Driver;
use crate::limits;
use crate::mr::Mr;
use core::mem::{offset_of, size_of};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::bindings;
use rdma::wr::Remote;
use rdma::{QpType, Sge};
use roce::memory::{AtomicOp, SendExtra, SendOp, SendWr, UdDest};
use roce::state::{Service, WcOpcode, WcStatus};
use roce::wire::Qpn;

/// `IB_WR_*` and `IB_SEND_*`: the numbers are the same for programs and for kernel consumers.
pub(crate) mod code {
    use super::bindings as c;

    pub(crate) const WRITE: u32 = c::IB_WR_RDMA_WRITE as u32;
    pub(crate) const WRITE_IMM: u32 = c::IB_WR_RDMA_WRITE_WITH_IMM as u32;
    pub(crate) const SEND: u32 = c::IB_WR_SEND as u32;
    pub(crate) const SEND_IMM: u32 = c::IB_WR_SEND_WITH_IMM as u32;
    pub(crate) const SEND_INV: u32 = c::IB_WR_SEND_WITH_INV as u32;
    pub(crate) const READ: u32 = c::IB_WR_RDMA_READ as u32;
    pub(crate) const READ_INV: u32 = c::IB_WR_RDMA_READ_WITH_INV as u32;
    pub(crate) const CMP_SWAP: u32 = c::IB_WR_ATOMIC_CMP_AND_SWP as u32;
    pub(crate) const FETCH_ADD: u32 = c::IB_WR_ATOMIC_FETCH_AND_ADD as u32;
    pub(crate) const LOCAL_INV: u32 = c::IB_WR_LOCAL_INV as u32;

    pub(crate) const FENCE: u32 = c::IB_SEND_FENCE as u32;
    pub(crate) const SIGNALED: u32 = c::IB_SEND_SIGNALED as u32;
    pub(crate) const SOLICITED: u32 = c::IB_SEND_SOLICITED as u32;
    pub(crate) const INLINE: u32 = c::IB_SEND_INLINE as u32;
}

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

/// What a local operation does; see [`roce::memory::SendPort::local`].
pub(crate) enum Local {
    /// Nothing: the request goes out.
    None,
    /// Invalidates a key.
    Invalidate(u32),
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
            code::SEND | code::SEND_IMM | code::WRITE | code::WRITE_IMM | code::LOCAL_INV => {
                connected(request)
            }
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
        _ => Local::None,
    }
}

/// Checks how long the data of an operation is.
///
/// # Errors
///
/// `LocLenErr`.
pub(crate) fn check_length(op: &SendOp, length: u64) -> Result<u32, WcStatus> {
    let length = u32::try_from(length).map_err(|_| WcStatus::LocLenErr)?;
    let fits = match op {
        SendOp::Atomic { .. } => length == 8,
        _ => length <= limits::MAX_MESSAGE,
    };
    if fits {
        Ok(length)
    } else {
        Err(WcStatus::LocLenErr)
    }
}

/// Whether an operation may carry its data inline: what only sends.
pub(crate) fn may_inline(op: &SendOp) -> bool {
    matches!(
        op,
        SendOp::Send { .. } | SendOp::SendUd { .. } | SendOp::Write { .. }
    )
}

/// Integers at fixed places of a request that was copied out of a ring.
///
/// A place beyond the bytes reads as 0; the places here are constants within the structures' sizes.
struct Raw<'a>(&'a [u8]);

impl Raw<'_> {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        at.checked_add(N)
            .and_then(|end| self.0.get(at..end))
            .and_then(|bytes| bytes.try_into().ok())
            .unwrap_or([0; N])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.array(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }
}

/// Element number `nth` of a list in kernel memory.
#[inline]
pub(crate) fn sge(list: &[u8], nth: u32) -> Sge {
    let at = nth as usize * limits::SGE;
    let raw = Raw(list.get(at..).unwrap_or(&[]));
    Sge {
        addr: raw.u64(offset_of!(bindings::rxe_sge, addr)),
        length: raw.u32(offset_of!(bindings::rxe_sge, length)),
        lkey: raw.u32(offset_of!(bindings::rxe_sge, lkey)),
    }
}

/// Writes element number `nth` of a list, if there is room.
pub(crate) fn put_sge(list: &mut [u8], nth: u32, sge: &Sge) {
    let at = nth as usize * limits::SGE;
    let Some(bytes) = list
        .get_mut(at..)
        .and_then(|rest| rest.get_mut(..limits::SGE))
    else {
        return;
    };
    let fields = [
        (
            offset_of!(bindings::rxe_sge, addr),
            &sge.addr.to_ne_bytes()[..],
        ),
        (
            offset_of!(bindings::rxe_sge, length),
            &sge.length.to_ne_bytes()[..],
        ),
        (
            offset_of!(bindings::rxe_sge, lkey),
            &sge.lkey.to_ne_bytes()[..],
        ),
    ];
    for (at, value) in fields {
        if let Some(field) = bytes
            .get_mut(at..)
            .and_then(|rest| rest.get_mut(..value.len()))
        {
            field.copy_from_slice(value);
        }
    }
}

/// Iterates over the memory behind bytes `offset..offset + len` of a list of `count` elements, in pieces
/// that lie in one element each.
///
/// It ends early where the list describes less.
#[inline]
pub(crate) fn parts(
    list: &[u8],
    count: u32,
    offset: u32,
    len: u32,
) -> impl Iterator<Item = Sge> + '_ {
    let mut skip = offset;
    let mut left = len;
    (0..count).filter_map(move |nth| {
        if left == 0 {
            return None;
        }
        let whole = sge(list, nth);
        let Some(rest) = whole.length.checked_sub(skip) else {
            skip -= whole.length;
            return None;
        };
        let length = rest.min(left);
        let addr = whole.addr.saturating_add(skip.into());
        skip = 0;
        left -= length;
        (length != 0).then_some(Sge {
            addr,
            length,
            lkey: whole.lkey,
        })
    })
}

/// The bytes that `count` elements describe.
pub(crate) fn list_length(list: &[u8], count: u32) -> u64 {
    (0..count).fold(0, |sum: u64, nth| {
        sum.saturating_add(sge(list, nth).length.into())
    })
}

/// Where the fields of `struct rxe_send_wqe` are.
mod send_layout {
    use super::{bindings as c, offset_of};
    type Wr = c::rxe_send_wr;
    type Rdma = c::rxe_send_wr__bindgen_ty_2__bindgen_ty_2;
    type Atomic = c::rxe_send_wr__bindgen_ty_2__bindgen_ty_3;
    type Ud = c::rxe_send_wr__bindgen_ty_2__bindgen_ty_4;

    pub(super) const WR_ID: usize = offset_of!(Wr, wr_id);
    pub(super) const OPCODE: usize = offset_of!(Wr, opcode);
    pub(super) const FLAGS: usize = offset_of!(Wr, send_flags);
    pub(super) const EX: usize = offset_of!(Wr, ex);
    const UNION: usize = offset_of!(Wr, wr);
    pub(super) const REMOTE_ADDR: usize = UNION + offset_of!(Rdma, remote_addr);
    pub(super) const RKEY: usize = UNION + offset_of!(Rdma, rkey);
    pub(super) const COMPARE_ADD: usize = UNION + offset_of!(Atomic, compare_add);
    pub(super) const SWAP: usize = UNION + offset_of!(Atomic, swap);
    pub(super) const ATOMIC_RKEY: usize = UNION + offset_of!(Atomic, rkey);
    pub(super) const REMOTE_QPN: usize = UNION + offset_of!(Ud, remote_qpn);
    pub(super) const REMOTE_QKEY: usize = UNION + offset_of!(Ud, remote_qkey);
    pub(super) const AH_NUM: usize = UNION + offset_of!(Ud, ah_num);
    const DMA: usize = offset_of!(c::rxe_send_wqe, dma);
    pub(super) const LENGTH: usize = DMA + offset_of!(c::rxe_dma_info, length);
    pub(super) const NUM_SGE: usize = DMA + offset_of!(c::rxe_dma_info, num_sge);
    // The data follows at once.
    const _: () = assert!(DMA + core::mem::size_of::<c::rxe_dma_info>() == super::limits::SEND_WQE);
}

/// A program's send request as it was found in its ring, its data not yet read.
pub(crate) struct UserSend {
    wr_id: u64,
    request: Request,
    ah_num: u32,
    inline_len: u32,
    num_sge: u32,
}

impl UserSend {
    /// Reads the fixed part of a request.
    pub(crate) fn parse(bytes: &[u8; limits::SEND_WQE]) -> Self {
        use send_layout as at;
        let raw = Raw(bytes);
        let opcode = raw.u32(at::OPCODE);
        let rkey_at = match opcode {
            code::CMP_SWAP | code::FETCH_ADD => at::ATOMIC_RKEY,
            _ => at::RKEY,
        };
        Self {
            wr_id: raw.u64(at::WR_ID),
            request: Request {
                opcode,
                flags: raw.u32(at::FLAGS),
                imm: u32::from_be_bytes(raw.array(at::EX)),
                invalidate_rkey: raw.u32(at::EX),
                remote_addr: raw.u64(at::REMOTE_ADDR),
                rkey: raw.u32(rkey_at),
                compare_add: raw.u64(at::COMPARE_ADD),
                swap: raw.u64(at::SWAP),
                remote_qpn: raw.u32(at::REMOTE_QPN),
                remote_qkey: raw.u32(at::REMOTE_QKEY),
            },
            ah_num: raw.u32(at::AH_NUM),
            inline_len: raw.u32(at::LENGTH),
            num_sge: raw.u32(at::NUM_SGE),
        }
    }

    /// The number that its completion carries.
    pub(crate) fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// How many bytes of data there are to read after the fixed part.
    ///
    /// # Errors
    ///
    /// The status that the request fails with, where that is more than `limits` allow.
    pub(crate) fn data_len(&self, limits: &Limits) -> Result<usize, WcStatus> {
        if self.request.flags & code::INLINE != 0 {
            if self.inline_len > limits.max_inline {
                return Err(WcStatus::LocLenErr);
            }
            return Ok(self.inline_len as usize);
        }
        if self.num_sge > limits.max_sge {
            return Err(WcStatus::LocQpOpErr);
        }
        Ok(self.num_sge as usize * limits::SGE)
    }

    /// Makes the request out of the fixed part and its data.
    ///
    /// # Errors
    ///
    /// The status that the request fails with.
    pub(crate) fn build(
        self,
        limits: &Limits,
        data: &[u8],
        find_ah: impl FnOnce(u32) -> Option<Arc<Av>>,
    ) -> Result<SendWqe, WcStatus> {
        let request = &self.request;
        let op = operation(limits.service, request)?;
        let inline = request.flags & code::INLINE != 0;
        if inline && !may_inline(&op) {
            return Err(WcStatus::LocQpOpErr);
        }
        let (place, length) = if inline {
            (Data::Inline, self.inline_len.into())
        } else {
            (Data::List(self.num_sge), list_length(data, self.num_sge))
        };
        let length = match op {
            SendOp::Local { .. } => 0,
            _ => check_length(&op, length)?,
        };
        let av = match op {
            SendOp::SendUd { .. } => Some(find_ah(self.ah_num).ok_or(WcStatus::LocQpOpErr)?),
            _ => None,
        };
        Ok(SendWqe {
            wr_id: self.wr_id,
            wr: send_wr(op, length, request.flags),
            data: place,
            av,
            local: local_part(&op, request),
        })
    }
}

/// What the protocol sees of a request.
pub(crate) fn send_wr(op: SendOp, length: u32, flags: u32) -> SendWr {
    SendWr {
        op,
        length,
        signaled: flags & code::SIGNALED != 0,
        solicited: flags & code::SOLICITED != 0,
        fence: flags & code::FENCE != 0,
    }
}

/// Makes a request out of what a kernel consumer posts, and puts its list or inline data into `data`.
///
/// Any context.
///
/// # Errors
///
/// `EINVAL` for what the QP cannot do, and beyond its limits.
pub(crate) fn from_kernel(
    wr: &rdma::SendWr<'_, Driver>,
    qp_type: QpType,
    limits: &Limits,
    data: &mut [u8],
) -> Result<SendWqe> {
    let (request, local) = kernel_request(wr)?;
    let mut op = match &local {
        Local::Register { .. } => SendOp::Local {
            opcode: WcOpcode::RegMr,
            wait_all: false,
        },
        _ => operation(limits.service, &request).map_err(|_| EINVAL)?,
    };
    let av = match wr.ud() {
        Some(ud) => {
            name_destination(&mut op, &ud, qp_type);
            Some(ud.ah.av())
        }
        None if limits.service == Service::Ud => return Err(EINVAL),
        None => None,
    };
    let sg_list = wr.sg_list();
    if sg_list.len() > limits.max_sge as usize {
        return Err(EINVAL);
    }
    let length = sg_list
        .iter()
        .fold(0, |sum: u64, sge| sum.saturating_add(sge.length.into()));
    let (place, length) = match op {
        SendOp::Local { .. } => (Data::List(0), 0),
        _ => {
            let length = check_length(&op, length).map_err(|_| EINVAL)?;
            (copy_data(wr, limits, may_inline(&op), data)?, length)
        }
    };
    Ok(SendWqe {
        wr_id: wr.wr_id(),
        wr: send_wr(op, length, request.flags),
        data: place,
        av,
        local,
    })
}

/// The fields of a kernel consumer's request, and what it does at home.
fn kernel_request(wr: &rdma::SendWr<'_, Driver>) -> Result<(Request, Local)> {
    use rdma::SendOp as Op;
    let mut request = Request {
        flags: wr.flags().bits(),
        ..Request::default()
    };
    let mut local = Local::None;
    let mut remote = Remote::default();
    request.opcode = match wr.op()? {
        Op::Send => code::SEND,
        Op::SendImm(imm) => {
            request.imm = u32::from_be_bytes(imm);
            code::SEND_IMM
        }
        Op::SendInv(rkey) => {
            request.invalidate_rkey = rkey;
            code::SEND_INV
        }
        Op::Write(to) => {
            remote = to;
            code::WRITE
        }
        Op::WriteImm(to, imm) => {
            remote = to;
            request.imm = u32::from_be_bytes(imm);
            code::WRITE_IMM
        }
        Op::Read(from) => {
            remote = from;
            code::READ
        }
        Op::ReadInv(from, rkey) => {
            remote = from;
            request.invalidate_rkey = rkey;
            local = Local::Invalidate(rkey);
            code::READ_INV
        }
        Op::CompareSwap {
            remote: at,
            compare,
            swap,
        } => {
            remote = at;
            (request.compare_add, request.swap) = (compare, swap);
            code::CMP_SWAP
        }
        Op::FetchAdd { remote: at, add } => {
            remote = at;
            request.compare_add = add;
            code::FETCH_ADD
        }
        Op::LocalInv(rkey) => {
            local = Local::Invalidate(rkey);
            code::LOCAL_INV
        }
        Op::RegMr { mr, key, access } => {
            local = Local::Register {
                mr: mr.data().clone(),
                key,
                access,
                iova: mr.base().iova(),
            };
            code::LOCAL_INV
        }
    };
    (request.remote_addr, request.rkey) = (remote.addr, remote.rkey);
    Ok((request, local))
}

/// Fills in where a kernel consumer's datagram goes. A request on QP1 names its P_Key; there is one.
fn name_destination(op: &mut SendOp, ud: &rdma::wr::UdSend<'_, Driver>, qp_type: QpType) {
    if let SendOp::SendUd { dest, .. } = op {
        let qkey = match qp_type {
            QpType::Gsi => crate::qp::attr::GSI_QKEY,
            _ => ud.remote_qkey,
        };
        *dest = UdDest {
            qpn: Qpn::new(ud.remote_qpn),
            qkey,
            pkey: None,
        };
    }
}

/// Copies a kernel consumer's list, or the data that it describes.
fn copy_data(
    wr: &rdma::SendWr<'_, Driver>,
    limits: &Limits,
    may_inline: bool,
    data: &mut [u8],
) -> Result<Data> {
    let sg_list = wr.sg_list();
    let Some(memory) = wr.inline_data() else {
        for (nth, sge) in sg_list.iter().enumerate() {
            put_sge(data, nth as u32, sge);
        }
        return Ok(Data::List(sg_list.len() as u32));
    };
    if !may_inline {
        return Err(EINVAL);
    }
    let mut room = data.get_mut(..limits.max_inline as usize).ok_or(EINVAL)?;
    for sge in sg_list {
        let (part, rest) = room
            .split_at_mut_checked(sge.length as usize)
            .ok_or(EINVAL)?;
        memory.read(sge.addr, part)?;
        room = rest;
    }
    Ok(Data::Inline)
}

/// A receive request in kernel memory.
pub(crate) struct RecvWqe {
    /// What the completion carries.
    pub(crate) wr_id: u64,
    /// The elements' number, or why the request makes no sense.
    pub(crate) num_sge: Result<u32, WcStatus>,
}

/// Reads the fixed part of a program's receive request.
pub(crate) fn parse_recv(bytes: &[u8; limits::RECV_WQE], max_sge: u32) -> RecvWqe {
    const DMA: usize = offset_of!(bindings::rxe_recv_wqe, dma);
    const NUM_SGE: usize = DMA + offset_of!(bindings::rxe_dma_info, num_sge);
    // The list follows at once.
    const _: () = assert!(DMA + size_of::<bindings::rxe_dma_info>() == limits::RECV_WQE);

    let raw = Raw(bytes);
    let num_sge = raw.u32(NUM_SGE);
    RecvWqe {
        wr_id: raw.u64(offset_of!(bindings::rxe_recv_wqe, wr_id)),
        num_sge: if num_sge <= max_sge {
            Ok(num_sge)
        } else {
            Err(WcStatus::LocQpOpErr)
        },
    }
}

/// Places for as many requests as a queue holds, each with room for its list or inline data.
///
/// A request is named by a number that counts on and wraps; a place is free when its request is
/// taken out.
pub(crate) struct Slots<T> {
    requests: KVVec<Option<T>>,
    data: KVVec<u8>,
    data_len: usize,
    mask: u32,
}

impl<T> Slots<T> {
    /// Makes room for at least `count` requests with `data_len` bytes of data each. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` where the sizes overflow, `ENOMEM`.
    pub(crate) fn new(count: u32, data_len: usize) -> Result<Self> {
        let count = count.max(1).checked_next_power_of_two().ok_or(EINVAL)?;
        let bytes = data_len.checked_mul(count as usize).ok_or(EINVAL)?;
        let mut requests = KVVec::with_capacity(count as usize, GFP_KERNEL)?;
        for _ in 0..count {
            requests.push(None, GFP_KERNEL)?;
        }
        let data = KVVec::from_elem(0, bytes, GFP_KERNEL)?;
        Ok(Self {
            requests,
            data,
            data_len,
            mask: count - 1,
        })
    }

    /// How many requests there is room for.
    pub(crate) fn capacity(&self) -> u32 {
        self.mask + 1
    }

    fn place(&self, index: u32) -> usize {
        (index & self.mask) as usize
    }

    /// Request number `index`.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.requests.get(self.place(index))?.as_ref()
    }

    /// The data's room of request number `index`.
    #[inline]
    pub(crate) fn data(&self, index: u32) -> &[u8] {
        let from = self.place(index) * self.data_len;
        self.data.get(from..from + self.data_len).unwrap_or(&[])
    }

    /// The data's room of request number `index`, to fill.
    #[inline]
    pub(crate) fn data_mut(&mut self, index: u32) -> &mut [u8] {
        let from = self.place(index) * self.data_len;
        self.data
            .get_mut(from..from + self.data_len)
            .unwrap_or(&mut [])
    }

    /// Puts request number `index` in its place.
    #[inline]
    pub(crate) fn put(&mut self, index: u32, request: T) {
        let place = self.place(index);
        if let Some(slot) = self.requests.get_mut(place) {
            *slot = Some(request);
        }
    }

    /// Takes request number `index` out.
    #[inline]
    pub(crate) fn take(&mut self, index: u32) -> Option<T> {
        let place = self.place(index);
        self.requests.get_mut(place)?.take()
    }
}
