// SPDX-License-Identifier: GPL-2.0

//! Parsing requests of kernel consumers: `struct ib_send_wr` and `struct ib_recv_wr` of `<rdma/ib_verbs.h>`.

use super::list::put_sge;
use super::operation::{check_length, code, may_inline, send_wr, Request};
use super::types::{Data, Limits, Local, Objects, RecvWqe, SendWqe};
use crate::ids::GSI_QKEY;
use crate::limits;
use crate::pkeys::Pkeys;
use kernel::prelude::*;
use kernel_ext::room::Room;
use rdma::abi::wr::Remote;
use rdma::{QpType, Sge, VirtDma};
use roce::memory::{AtomicOp, SendExtra, SendOp, UdDest};
use roce::state::{Service, WcOpcode};
use roce::wire::Qpn;

/// Converts a send request of a kernel consumer to `place`, with its list or inline data in `data`.
///
/// Any context.
///
/// # Errors
///
/// `EINVAL` for operations that the QP does not support, and beyond its limits; for all of XRC, because `struct ib_send_wr` has no
/// field for the shared receive queue. `place` is then empty.
#[inline]
pub(crate) fn from_kernel<P: Objects>(
    wr: &rdma::SendWr<'_, P>,
    (qp_type, pkeys): (QpType, &Pkeys),
    limits: &Limits,
    place: &mut Option<SendWqe>,
    data: &mut [u8],
) -> Result {
    use rdma::SendOp as Op;
    if limits.service.is_xrc() {
        return Err(EINVAL);
    }
    if limits.service == Service::Ud {
        return datagram(wr, (qp_type, pkeys), limits, place, data);
    }
    // The common operations are separate, so that their fields are written directly to `place`.
    match wr.op()? {
        Op::Send => {
            let extra = SendExtra::None;
            fill(wr, limits, place, data, SendOp::Send { extra })
        }
        Op::Write(Remote { addr: va, rkey }) => {
            let imm = None;
            fill(wr, limits, place, data, SendOp::Write { va, rkey, imm })
        }
        op => {
            let (op, local) = rarer_op(op, limits.service)?;
            fill_any(wr, limits, place, data, op)?;
            if let Some(wqe) = place {
                wqe.local = local;
            }
            Ok(())
        }
    }
}

/// As [`fill`], not specialized for an operation.
#[inline(never)]
fn fill_any<P: Objects>(
    wr: &rdma::SendWr<'_, P>,
    limits: &Limits,
    place: &mut Option<SendWqe>,
    data: &mut [u8],
    op: SendOp,
) -> Result {
    fill(wr, limits, place, data, op)
}

/// Fills in a request for an operation.
#[inline(always)]
fn fill<P: Objects>(
    wr: &rdma::SendWr<'_, P>,
    limits: &Limits,
    place: &mut Option<SendWqe>,
    data: &mut [u8],
    op: SendOp,
) -> Result {
    let (kind, length) = match op {
        SendOp::Local { .. } => (Data::List(0), 0),
        _ => {
            let (kind, length) = copy_data(wr, limits, may_inline(&op), data)?;
            (kind, check_length(&op, length).map_err(|_| EINVAL)?)
        }
    };
    *place = Some(SendWqe {
        wr_id: wr.wr_id(),
        wr: send_wr(op, length, wr.flags().bits()),
        data: kind,
        av: None,
        local: Local::None,
    });
    Ok(())
}

/// As [`from_kernel`], for a datagram.
fn datagram<P: Objects>(
    wr: &rdma::SendWr<'_, P>,
    (qp_type, pkeys): (QpType, &Pkeys),
    limits: &Limits,
    place: &mut Option<SendWqe>,
    data: &mut [u8],
) -> Result {
    use rdma::SendOp as Op;
    let imm = match wr.op()? {
        Op::Send => None,
        Op::SendImm(imm) => Some(u32::from_be_bytes(imm)),
        _ => return Err(EINVAL),
    };
    let ud = wr.ud().ok_or(EINVAL)?;
    let dest = destination(&ud, qp_type, pkeys)?;
    fill_any(wr, limits, place, data, SendOp::SendUd { imm, dest })?;
    if let Some(wqe) = place {
        wqe.av = Some(ud.ah.av());
    }
    Ok(())
}

/// The operation of a connected QP's request, and its local part.
///
/// # Errors
///
/// `EINVAL` where the transport service does not support it: see [`super::operation::operation`].
fn rarer_op<P: Objects>(op: rdma::SendOp<'_, P>, service: Service) -> Result<(SendOp, Local)> {
    use rdma::SendOp as Op;
    let local = |opcode, wait_all| SendOp::Local { opcode, wait_all };
    let write = |Remote { addr: va, rkey }, imm| SendOp::Write { va, rkey, imm };
    match op {
        Op::Send => {
            let extra = SendExtra::None;
            return Ok((SendOp::Send { extra }, Local::None));
        }
        Op::SendImm(imm) => {
            let extra = SendExtra::Imm(u32::from_be_bytes(imm));
            return Ok((SendOp::Send { extra }, Local::None));
        }
        Op::Write(to) => return Ok((write(to, None), Local::None)),
        Op::WriteImm(to, imm) => {
            let imm = Some(u32::from_be_bytes(imm));
            return Ok((write(to, imm), Local::None));
        }
        Op::LocalInv(rkey) => {
            let op = local(WcOpcode::LocalInv, true);
            return Ok((op, Local::Invalidate(rkey)));
        }
        Op::RegMr { mr, key, access } => {
            let register = Local::Register {
                mr: mr.data().clone(),
                key,
                access,
                iova: mr.base().iova(),
            };
            return Ok((local(WcOpcode::RegMr, false), register));
        }
        _ if service != Service::Rc => return Err(EINVAL),
        _ => {}
    }
    let read = |Remote { addr: va, rkey }, invalidate| SendOp::Read {
        va,
        rkey,
        invalidate,
    };
    let atomic = |Remote { addr: va, rkey }, op| SendOp::Atomic { va, rkey, op };
    let on_wire = match op {
        Op::SendInv(key) => SendOp::Send {
            extra: SendExtra::Invalidate(key),
        },
        Op::Read(from) => read(from, false),
        Op::ReadInv(from, key) => return Ok((read(from, true), Local::Invalidate(key))),
        Op::CompareSwap {
            remote,
            compare,
            swap,
        } => atomic(remote, AtomicOp::CmpSwap { compare, swap }),
        Op::FetchAdd { remote, add } => atomic(remote, AtomicOp::FetchAdd { add }),
        _ => return Err(EINVAL),
    };
    Ok((on_wire, Local::None))
}

/// The fields of a request that user space posts by a uverbs command.
///
/// # Errors
///
/// `EINVAL` for local invalidation and registration: user space writes such requests to its ring itself.
pub(super) fn kernel_request<P: Objects>(wr: &rdma::SendWr<'_, P>) -> Result<Request> {
    use rdma::SendOp as Op;
    let mut request = Request {
        flags: wr.flags().bits(),
        ..Request::default()
    };
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
        Op::ReadInv(..) | Op::LocalInv(_) | Op::RegMr { .. } => return Err(EINVAL),
    };
    (request.remote_addr, request.rkey) = (remote.addr, remote.rkey);
    Ok(request)
}

/// The destination of a kernel consumer's datagram. A request on QP1 has the index of its P_Key.
///
/// # Errors
///
/// `EINVAL` for an index beyond the table.
fn destination<P: Objects>(
    ud: &rdma::provider::wr::UdSend<'_, P>,
    qp_type: QpType,
    pkeys: &Pkeys,
) -> Result<UdDest> {
    let (qkey, pkey) = match qp_type {
        QpType::Gsi => (GSI_QKEY, Some(pkeys.get(ud.pkey_index).ok_or(EINVAL)?)),
        _ => (ud.remote_qkey, None),
    };
    Ok(UdDest {
        qpn: Qpn::new(ud.remote_qpn),
        qkey,
        pkey,
    })
}

/// Copies a kernel consumer's list, or the data that it refers to. Returns the location and the length.
///
/// # Errors
///
/// `EINVAL` for a list that is too long, and for data that is too long for inline or must not be inline.
#[inline]
fn copy_data<P: Objects>(
    wr: &rdma::SendWr<'_, P>,
    limits: &Limits,
    may_inline: bool,
    data: &mut [u8],
) -> Result<(Data, u64)> {
    let sg_list = wr.sg_list();
    if sg_list.len() > limits.max_sge as usize {
        return Err(EINVAL);
    }
    if let Some(memory) = wr.inline_data() {
        return match may_inline {
            true => copy_inline(memory, sg_list, limits, data),
            false => Err(EINVAL),
        };
    }
    let mut length = 0u64;
    for (nth, sge) in sg_list.iter().enumerate() {
        put_sge(data, nth as u32, sge);
        length = length.saturating_add(sge.length.into());
    }
    Ok((Data::List(sg_list.len() as u32), length))
}

/// Copies a kernel consumer's data.
fn copy_inline(
    memory: VirtDma,
    sg_list: &[Sge],
    limits: &Limits,
    data: &mut [u8],
) -> Result<(Data, u64)> {
    let mut room = Room::over(data.get_mut(..limits.max_inline as usize).ok_or(EINVAL)?);
    for sge in sg_list {
        memory.read(sge.addr, sge.length as usize, &mut room)?;
    }
    Ok((Data::Inline, room.written() as u64))
}

/// Converts a receive request of a kernel consumer, with its list in `data`.
///
/// Any context.
///
/// # Errors
///
/// `EINVAL` for a list of more than `max_sge` elements.
pub(crate) fn recv_from_kernel(
    wr: &rdma::provider::wr::RecvWr<'_>,
    max_sge: u32,
    data: &mut [u8],
) -> Result<RecvWqe> {
    let sg_list = wr.sg_list();
    if sg_list.len() > max_sge as usize {
        return Err(EINVAL);
    }
    for (nth, sge) in sg_list.iter().enumerate() {
        put_sge(data, nth as u32, sge);
    }
    Ok(RecvWqe {
        wr_id: wr.wr_id(),
        num_sge: Ok(sg_list.len() as u32),
    })
}

/// The lists of kernel consumers have the size of a queue's lists.
const _: () = assert!(limits::SGE == size_of::<rdma::Sge>());
