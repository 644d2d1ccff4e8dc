// SPDX-License-Identifier: GPL-2.0

//! Requests of kernel consumers.

use super::{
    check_length, code, may_inline, operation, put_sge, send_wr, Data, Limits, Local, RecvWqe,
    Request, SendWqe,
};
use crate::device::Driver;
use crate::limits;
use kernel::prelude::*;
use rdma::wr::Remote;
use rdma::QpType;
use roce::memory::{SendOp, UdDest};
use roce::state::{Service, WcOpcode};
use roce::wire::Qpn;

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

/// The fields of a request that was posted through the kernel, and what it does at home.
pub(super) fn kernel_request(wr: &rdma::SendWr<'_, Driver>) -> Result<(Request, Local)> {
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

/// Makes a request out of what a kernel consumer posts to receive, and puts its list into `data`.
///
/// Any context.
///
/// # Errors
///
/// `EINVAL` for a list of more than `max_sge` elements.
pub(crate) fn recv_from_kernel(
    wr: &rdma::wr::RecvWr<'_>,
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

/// A kernel consumer's lists fit into the room that a queue gives them.
const _: () = assert!(limits::SGE == size_of::<rdma::Sge>());
