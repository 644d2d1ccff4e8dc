// SPDX-License-Identifier: GPL-2.0

//! Commands of resource tracking: `rdma resource`.
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use core::cell::Cell;

use kernel::prelude::*;
use kernel_ext::{
    bindings as c,
    compat::{limit::Limit, nldev::SUMMARY_ENTRY_MAX},
    error::EMSGSIZE,
    net::netlink::{Dump, Nested, Writer},
};
use rdma::{
    core::{
        comp_cntr,
        object::Tracked,
        restrack::{CmId, Owner},
        Device, Qp, RestrackEntry, Srq,
    },
    MaySleep,
};

use super::{
    command::{kind_of, Command, Query},
    dev::{for_each_device, handle_of},
};
use crate::{netlink::op_of, restrack, verbs};

const PAD: u32 = c::RDMA_NLDEV_ATTR_PAD;

/// An object that a message is written about.
pub(super) struct Entry<'a> {
    pub(super) query: &'a Query<'a>,
    pub(super) res: &'a RestrackEntry,
    pub(super) device: &'a Device,
    admin: bool,
}

pub(super) type Fill = fn(&Entry<'_>, &mut Writer<'_>) -> Result;

/// A kind of objects.
pub(super) struct Kind {
    pub(super) op: u32,
    /// `enum rdma_restrack_type`.
    pub(super) kind: u32,
    /// The attributes of the list, of one entry, and of the object's number.
    pub(super) attrs: [u32; 3],
    /// Whether the objects belong to a port; only these may be requested by port.
    pub(super) per_port: bool,
    pub(super) fill: Fill,
}

const QP: [u32; 3] = [
    c::RDMA_NLDEV_ATTR_RES_QP,
    c::RDMA_NLDEV_ATTR_RES_QP_ENTRY,
    c::RDMA_NLDEV_ATTR_RES_LQPN,
];
const CM_ID: [u32; 3] = [
    c::RDMA_NLDEV_ATTR_RES_CM_ID,
    c::RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
    c::RDMA_NLDEV_ATTR_RES_CM_IDN,
];
const CQ: [u32; 3] = [
    c::RDMA_NLDEV_ATTR_RES_CQ,
    c::RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
    c::RDMA_NLDEV_ATTR_RES_CQN,
];
pub(super) const MR: [u32; 3] = [
    c::RDMA_NLDEV_ATTR_RES_MR,
    c::RDMA_NLDEV_ATTR_RES_MR_ENTRY,
    c::RDMA_NLDEV_ATTR_RES_MRN,
];
const PD: [u32; 3] = [
    c::RDMA_NLDEV_ATTR_RES_PD,
    c::RDMA_NLDEV_ATTR_RES_PD_ENTRY,
    c::RDMA_NLDEV_ATTR_RES_PDN,
];
const CTX: [u32; 3] = [
    c::RDMA_NLDEV_ATTR_RES_CTX,
    c::RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
    c::RDMA_NLDEV_ATTR_RES_CTXN,
];
const SRQ: [u32; 3] = [
    c::RDMA_NLDEV_ATTR_RES_SRQ,
    c::RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
    c::RDMA_NLDEV_ATTR_RES_SRQN,
];

const fn kind(op: u32, kind: u32, attrs: [u32; 3], fill: Fill) -> Kind {
    Kind {
        op,
        kind,
        attrs,
        per_port: matches!(kind, c::RDMA_RESTRACK_QP | c::RDMA_RESTRACK_CM_ID),
        fill,
    }
}

/// The kinds, by command.
const KINDS: &[Kind] = &[
    kind(c::RDMA_NLDEV_CMD_RES_QP_GET, c::RDMA_RESTRACK_QP, QP, qp),
    kind(
        c::RDMA_NLDEV_CMD_RES_CM_ID_GET,
        c::RDMA_RESTRACK_CM_ID,
        CM_ID,
        cm_id,
    ),
    kind(c::RDMA_NLDEV_CMD_RES_CQ_GET, c::RDMA_RESTRACK_CQ, CQ, cq),
    kind(c::RDMA_NLDEV_CMD_RES_MR_GET, c::RDMA_RESTRACK_MR, MR, mr),
    kind(c::RDMA_NLDEV_CMD_RES_PD_GET, c::RDMA_RESTRACK_PD, PD, pd),
    kind(
        c::RDMA_NLDEV_CMD_RES_CTX_GET,
        c::RDMA_RESTRACK_CTX,
        CTX,
        context,
    ),
    kind(
        c::RDMA_NLDEV_CMD_RES_SRQ_GET,
        c::RDMA_RESTRACK_SRQ,
        SRQ,
        srq,
    ),
    kind(
        c::RDMA_NLDEV_CMD_RES_QP_GET_RAW,
        c::RDMA_RESTRACK_QP,
        QP,
        raw,
    ),
    kind(
        c::RDMA_NLDEV_CMD_RES_CQ_GET_RAW,
        c::RDMA_RESTRACK_CQ,
        CQ,
        raw,
    ),
    kind(
        c::RDMA_NLDEV_CMD_RES_MR_GET_RAW,
        c::RDMA_RESTRACK_MR,
        MR,
        raw,
    ),
    kind(
        c::RDMA_NLDEV_CMD_RES_SRQ_GET_RAW,
        c::RDMA_RESTRACK_SRQ,
        SRQ,
        raw,
    ),
];

/// The commands.
pub(super) const COMMANDS: &[Command] = &[
    Command::get_and_dump(c::RDMA_NLDEV_CMD_RES_GET, summary, list_summaries),
    Command::get_and_dump(c::RDMA_NLDEV_CMD_RES_QP_GET, get, list),
    Command::get_and_dump(c::RDMA_NLDEV_CMD_RES_CM_ID_GET, get, list),
    Command::get_and_dump(c::RDMA_NLDEV_CMD_RES_CQ_GET, get, list),
    Command::get_and_dump(c::RDMA_NLDEV_CMD_RES_MR_GET, get, list),
    Command::get_and_dump(c::RDMA_NLDEV_CMD_RES_PD_GET, get, list),
    Command::get_and_dump(c::RDMA_NLDEV_CMD_RES_CTX_GET, get, list),
    Command::get_and_dump(c::RDMA_NLDEV_CMD_RES_SRQ_GET, get, list),
    Command::get_and_dump(c::RDMA_NLDEV_CMD_RES_QP_GET_RAW, get, list).for_admins(),
    Command::get_and_dump(c::RDMA_NLDEV_CMD_RES_CQ_GET_RAW, get, list).for_admins(),
    Command::get_and_dump(c::RDMA_NLDEV_CMD_RES_MR_GET_RAW, get, list).for_admins(),
    Command::get_and_dump(c::RDMA_NLDEV_CMD_RES_SRQ_GET_RAW, get, list).for_admins(),
];

/// The kinds in a summary, in order.
const COUNTED: &[(u32, &CStr)] = &[
    (c::RDMA_RESTRACK_PD, c"pd"),
    (c::RDMA_RESTRACK_CQ, c"cq"),
    (c::RDMA_RESTRACK_QP, c"qp"),
    (c::RDMA_RESTRACK_CM_ID, c"cm_id"),
    (c::RDMA_RESTRACK_MR, c"mr"),
    (c::RDMA_RESTRACK_CTX, c"ctx"),
    (c::RDMA_RESTRACK_SRQ, c"srq"),
];

/// The most objects of a kind; 0 where none is known.
fn most(device: &Device, kind: u32, sleep: &MaySleep) -> u64 {
    let attrs = device.attrs();
    match kind {
        c::RDMA_RESTRACK_QP => attrs.max_qp.most().into(),
        c::RDMA_RESTRACK_CQ => attrs.max_cq.most().into(),
        c::RDMA_RESTRACK_MR => attrs.max_mr.most().into(),
        c::RDMA_RESTRACK_PD => attrs.max_pd.most().into(),
        c::RDMA_RESTRACK_SRQ => attrs.max_srq.most().into(),
        _ if comp_cntr::SUMMARY.iter().any(|(each, _)| *each == kind) => {
            device.max_comp_cntrs(sleep).into()
        }
        _ => 0,
    }
}

fn fill_summary(
    device: &Device,
    details: bool,
    writer: &mut Writer<'_>,
    sleep: &MaySleep,
) -> Result {
    handle_of(device, writer)?;
    writer.nest(c::RDMA_NLDEV_ATTR_RES_SUMMARY, Nested::Plain, |writer| {
        for (kind, name) in [COUNTED, comp_cntr::SUMMARY].into_iter().flatten() {
            let count = restrack::count(device, *kind, details);
            let entry = c::RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY;
            writer.nest(entry, Nested::Plain, |writer| {
                writer.text(c::RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, name)?;
                let attr = c::RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR;
                writer.u64(attr, count.into(), PAD)?;
                match (SUMMARY_ENTRY_MAX, most(device, *kind, sleep)) {
                    (Some(attr), most) if most != 0 => writer.u64(attr, most, PAD),
                    _ => Ok(()),
                }
            })?;
        }
        Ok(())
    })
}

fn summary(query: &Query<'_>, writer: &mut Writer<'_>) -> Result {
    let device = query.device()?;
    fill_summary(&device, query.details(), writer, query.sleep)
}

fn list_summaries(query: &Query<'_>, dump: &mut Dump<'_>) -> Result {
    let op = c::RDMA_NLDEV_CMD_RES_GET;
    for_each_device(query, dump, op, |device, writer| {
        fill_summary(device, false, writer, query.sleep)
    })
}

fn kind_asked(query: &Query<'_>) -> Result<&'static Kind> {
    let op = op_of(query.request.kind());
    KINDS.iter().find(|kind| kind.op == op).ok_or(EINVAL)
}

/// Whether an object belongs to the requested port, if any.
fn is_of(res: &RestrackEntry, port: Option<u32>) -> bool {
    // 0 stands for all ports.
    let Some(port) = port.filter(|&port| port != 0) else {
        return true;
    };
    match res.owner() {
        Some(Owner::Qp(qp)) => qp.port() == port,
        Some(Owner::CmId(id)) => id.port() == port,
        Some(Owner::Counter(counter)) => counter.port() == port,
        _ => true,
    }
}

fn get(query: &Query<'_>, writer: &mut Writer<'_>) -> Result {
    get_one(query, kind_asked(query)?, writer)
}

/// Writes the requested object of a kind.
pub(super) fn get_one(query: &Query<'_>, kind: &Kind, writer: &mut Writer<'_>) -> Result {
    let [_, _, id] = kind.attrs;
    let device = query.device()?;
    let id = query.attrs.u32(id).ok_or(EINVAL)?;
    let port = query.port(&device)?;
    if port.is_some_and(|port| port != 0) != kind.per_port {
        return Err(EINVAL);
    }
    let res = restrack::find(&device, kind.kind, id).ok_or(ENOENT)?;
    handle_of(&device, writer)?;
    if !is_of(&res, port) {
        return Err(EAGAIN);
    }
    let entry = Entry {
        query,
        res: &res,
        device: &device,
        admin: query.request.may_admin(),
    };
    (kind.fill)(&entry, writer)
}

fn list(query: &Query<'_>, dump: &mut Dump<'_>) -> Result {
    list_all(query, kind_asked(query)?, dump)
}

/// Writes all objects of a kind, starting where the last packet ended.
pub(super) fn list_all(query: &Query<'_>, kind: &Kind, dump: &mut Dump<'_>) -> Result {
    let device = query.device()?;
    let port = query.port(&device)?;
    let Ok(from) = u32::try_from(dump.position()) else {
        return Ok(());
    };
    let admin = query.request.may_admin();
    let next = Cell::new(u64::from(from));
    let [table, one, _] = kind.attrs;
    let written = dump.message(kind_of(kind.op), |writer| {
        handle_of(&device, writer)?;
        let mut met = false;
        writer.nest(table, Nested::Plain, |writer| {
            for res in restrack::list(&device, kind.kind, from, query.details()) {
                met = true;
                if is_of(&res, port) {
                    let entry = Entry {
                        query,
                        res: &res,
                        device: &device,
                        admin,
                    };
                    match writer.nest(one, Nested::Plain, |writer| (kind.fill)(&entry, writer)) {
                        // It is the first of the next packet.
                        Err(EMSGSIZE) => return Ok(()),
                        Err(EAGAIN) => {}
                        result => result?,
                    }
                }
                next.set(u64::from(res.id()) + 1);
            }
            Ok(())
        })?;
        // An empty dump has no message.
        if met {
            Ok(())
        } else {
            Err(ENOENT)
        }
    });
    dump.set_position(next.get());
    match written {
        Err(ENOENT) => Ok(()),
        result => result,
    }
}

/// Adds the owner of an object: a kernel module or a process.
pub(super) fn owner(res: &RestrackEntry, writer: &mut Writer<'_>) -> Result {
    if !res.is_user() {
        return writer.text(c::RDMA_NLDEV_ATTR_RES_KERN_NAME, res.kernel_name());
    }
    match res.pid() {
        Some(pid) => writer.u32(c::RDMA_NLDEV_ATTR_RES_PID, pid),
        None => Ok(()),
    }
}

/// Result of an optional driver method; a missing one succeeds.
pub(super) fn optional(told: Option<Result>) -> Result {
    told.unwrap_or(Ok(()))
}

fn qp(entry: &Entry<'_>, writer: &mut Writer<'_>) -> Result {
    let Some(Owner::Qp(qp)) = entry.res.owner() else {
        return Err(EINVAL);
    };
    if qp.port() != 0 {
        writer.u32(c::RDMA_NLDEV_ATTR_PORT_INDEX, qp.port())?;
    }
    writer.u32(c::RDMA_NLDEV_ATTR_RES_LQPN, qp.qp_num())?;
    if let Some(pd) = qp.pd().filter(|_| entry.res.is_user()) {
        writer.u32(c::RDMA_NLDEV_ATTR_RES_PDN, pd.res().id())?;
    }
    owner(entry.res, writer)?;
    qp_state(entry, qp, writer)?;
    optional(qp.driver_fill(writer))
}

/// Adds the state of a queue pair, as queried from the driver.
fn qp_state(entry: &Entry<'_>, qp: &Qp, writer: &mut Writer<'_>) -> Result {
    let mut attr = pin_init::zeroed();
    let mut init = pin_init::zeroed();
    verbs::qp::query(qp, &mut attr, 0, &mut init, entry.query.sleep)?;
    let connected = matches!(qp.kind(), c::IB_QPT_RC | c::IB_QPT_UC);
    if connected {
        writer.u32(c::RDMA_NLDEV_ATTR_RES_RQPN, attr.dest_qp_num)?;
        writer.u32(c::RDMA_NLDEV_ATTR_RES_RQ_PSN, attr.rq_psn)?;
    }
    writer.u32(c::RDMA_NLDEV_ATTR_RES_SQ_PSN, attr.sq_psn)?;
    if connected || matches!(qp.kind(), c::IB_QPT_XRC_INI | c::IB_QPT_XRC_TGT) {
        let state = attr.path_mig_state as u8;
        writer.u8(c::RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, state)?;
    }
    writer.u8(c::RDMA_NLDEV_ATTR_RES_TYPE, qp.kind() as u8)?;
    writer.u8(c::RDMA_NLDEV_ATTR_RES_STATE, attr.qp_state as u8)
}

fn cm_id(entry: &Entry<'_>, writer: &mut Writer<'_>) -> Result {
    let Some(Owner::CmId(id)) = entry.res.owner() else {
        return Err(EINVAL);
    };
    if id.port() != 0 {
        writer.u32(c::RDMA_NLDEV_ATTR_PORT_INDEX, id.port())?;
    }
    if id.qp_num() != 0 {
        writer.u32(c::RDMA_NLDEV_ATTR_RES_LQPN, id.qp_num())?;
        writer.u8(c::RDMA_NLDEV_ATTR_RES_TYPE, id.qp_type() as u8)?;
    }
    writer.u32(c::RDMA_NLDEV_ATTR_RES_PS, id.port_space())?;
    writer.u8(c::RDMA_NLDEV_ATTR_RES_STATE, id.state() as u8)?;
    addresses(id, writer)?;
    writer.u32(c::RDMA_NLDEV_ATTR_RES_CM_IDN, entry.res.id())?;
    owner(entry.res, writer)?;
    optional(id.driver_fill(writer))
}

fn addresses(id: &CmId, writer: &mut Writer<'_>) -> Result {
    let attrs = [
        c::RDMA_NLDEV_ATTR_RES_SRC_ADDR,
        c::RDMA_NLDEV_ATTR_RES_DST_ADDR,
    ];
    for (attr, address) in attrs.into_iter().zip(id.addresses()) {
        if let Some(address) = address {
            writer.bytes(attr, &address)?;
        }
    }
    Ok(())
}

fn cq(entry: &Entry<'_>, writer: &mut Writer<'_>) -> Result {
    let Some(Owner::Cq(cq)) = entry.res.owner() else {
        return Err(EINVAL);
    };
    writer.u32(c::RDMA_NLDEV_ATTR_RES_CQE, cq.cqe())?;
    writer.u64(c::RDMA_NLDEV_ATTR_RES_USECNT, cq.use_count(), PAD)?;
    if !entry.res.is_user() {
        writer.u8(c::RDMA_NLDEV_ATTR_RES_POLL_CTX, cq.poll_ctx() as u8)?;
    }
    writer.u8(c::RDMA_NLDEV_ATTR_DEV_DIM, cq.has_dim().into())?;
    writer.u32(c::RDMA_NLDEV_ATTR_RES_CQN, entry.res.id())?;
    context_of(entry, cq.context_id(), writer)?;
    owner(entry.res, writer)?;
    optional(cq.driver_fill(writer))
}

/// Adds the user context that a user object belongs to.
fn context_of(entry: &Entry<'_>, id: Option<u32>, writer: &mut Writer<'_>) -> Result {
    match id.filter(|_| entry.res.is_user()) {
        Some(id) => writer.u32(c::RDMA_NLDEV_ATTR_RES_CTXN, id),
        None => Ok(()),
    }
}

fn mr(entry: &Entry<'_>, writer: &mut Writer<'_>) -> Result {
    let Some(Owner::Mr(mr)) = entry.res.owner() else {
        return Err(EINVAL);
    };
    if entry.admin {
        writer.u32(c::RDMA_NLDEV_ATTR_RES_RKEY, mr.rkey())?;
        writer.u32(c::RDMA_NLDEV_ATTR_RES_LKEY, mr.lkey())?;
    }
    writer.u64(c::RDMA_NLDEV_ATTR_RES_MRLEN, mr.length(), PAD)?;
    writer.u32(c::RDMA_NLDEV_ATTR_RES_MRN, entry.res.id())?;
    if entry.res.is_user() {
        writer.u32(c::RDMA_NLDEV_ATTR_RES_PDN, mr.pd_id())?;
    }
    owner(entry.res, writer)?;
    optional(mr.driver_fill(writer))
}

fn pd(entry: &Entry<'_>, writer: &mut Writer<'_>) -> Result {
    let Some(Owner::Pd(pd)) = entry.res.owner() else {
        return Err(EINVAL);
    };
    if entry.admin {
        writer.u32(c::RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY, pd.local_dma_lkey())?;
        if let Some(rkey) = pd.global_rkey() {
            writer.u32(c::RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY, rkey)?;
        }
    }
    writer.u64(c::RDMA_NLDEV_ATTR_RES_USECNT, pd.use_count(), PAD)?;
    writer.u32(c::RDMA_NLDEV_ATTR_RES_PDN, entry.res.id())?;
    context_of(entry, pd.context_id(), writer)?;
    owner(entry.res, writer)
}

fn context(entry: &Entry<'_>, writer: &mut Writer<'_>) -> Result {
    if !entry.res.is_user() {
        return Ok(());
    }
    writer.u32(c::RDMA_NLDEV_ATTR_RES_CTXN, entry.res.id())?;
    owner(entry.res, writer)
}

fn srq(entry: &Entry<'_>, writer: &mut Writer<'_>) -> Result {
    let Some(Owner::Srq(srq)) = entry.res.owner() else {
        return Err(EINVAL);
    };
    writer.u32(c::RDMA_NLDEV_ATTR_RES_SRQN, entry.res.id())?;
    writer.u8(c::RDMA_NLDEV_ATTR_RES_TYPE, srq.kind() as u8)?;
    writer.u32(c::RDMA_NLDEV_ATTR_RES_PDN, srq.pd().res().id())?;
    if let Some(cq) = srq.cq().filter(|_| srq.has_cq()) {
        writer.u32(c::RDMA_NLDEV_ATTR_RES_CQN, cq.res().id())?;
    }
    writer.nest(c::RDMA_NLDEV_ATTR_RES_QP, Nested::Flagged, |writer| {
        srq_users(entry, srq, writer)
    })?;
    owner(entry.res, writer)?;
    optional(srq.driver_fill(writer))
}

/// Adds the queue pairs of a shared receive queue, as ranges of numbers.
fn srq_users(entry: &Entry<'_>, srq: &Srq, writer: &mut Writer<'_>) -> Result {
    let mut range: Option<(u32, u32)> = None;
    for res in restrack::list(entry.device, c::RDMA_RESTRACK_QP, 0, true) {
        let Some(Owner::Qp(qp)) = res.owner() else {
            continue;
        };
        if !qp.srq().is_some_and(|of_qp| core::ptr::eq(of_qp, srq)) {
            continue;
        }
        let number = qp.qp_num();
        range = match range {
            Some((first, last)) if number == last.wrapping_add(1) => Some((first, number)),
            other => {
                put_range(other, writer)?;
                Some((number, number))
            }
        };
    }
    put_range(range, writer)
}

fn put_range(range: Option<(u32, u32)>, writer: &mut Writer<'_>) -> Result {
    let Some((first, last)) = range else {
        return Ok(());
    };
    writer.nest(c::RDMA_NLDEV_ATTR_RES_QP_ENTRY, Nested::Flagged, |writer| {
        if first == last {
            return writer.u32(c::RDMA_NLDEV_ATTR_RES_LQPN, first);
        }
        writer.u32(c::RDMA_NLDEV_ATTR_MIN_RANGE, first)?;
        writer.u32(c::RDMA_NLDEV_ATTR_MAX_RANGE, last)
    })
}

/// Adds the raw device state of an object.
fn raw(entry: &Entry<'_>, writer: &mut Writer<'_>) -> Result {
    let told = match entry.res.owner() {
        Some(Owner::Qp(qp)) => qp.driver_fill_raw(writer),
        Some(Owner::Cq(cq)) => cq.driver_fill_raw(writer),
        Some(Owner::Mr(mr)) => mr.driver_fill_raw(writer),
        Some(Owner::Srq(srq)) => srq.driver_fill_raw(writer),
        _ => None,
    };
    told.unwrap_or(Err(EINVAL))
}
