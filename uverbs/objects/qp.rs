// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_QP`: queue pairs.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{self as c, ib_device_ops, ib_uverbs_destroy_qp_resp, ib_uverbs_qp_cap};
use rdma::{
    core::{AttrBundle, Cq, Pd, Qp, RwqIndTable, Srq, Xrcd},
    MaySleep,
};
use rdma_uverbs::{
    attrs::Attributes,
    qp::{self, QpDomain, QpSpec},
    table::{structure, Access, Attr, Definition, IdrType, Method, Object, Size},
    verbs::has_raw_cap,
};

use super::attrs::{async_file, optional};

const SQ_SIG_ALL: u32 = c::IB_UVERBS_QP_CREATE_SQ_SIG_ALL;

/// The flags of raw packet queue pairs.
const RAW_FLAGS: u32 = c::IB_UVERBS_QP_CREATE_SCATTER_FCS | c::IB_UVERBS_QP_CREATE_CVLAN_STRIPPING;

/// `enum ib_uverbs_qp_create_flags`: the known flags.
const FLAGS: u32 = c::IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK
    | RAW_FLAGS
    | c::IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING
    | SQ_SIG_ALL;

/// The domain of a queue pair, and the objects that it uses.
#[derive(Clone, Copy)]
struct Links<'a> {
    domain: QpDomain<'a>,
    send_cq: Option<&'a Cq>,
    recv_cq: Option<&'a Cq>,
    rwq_ind_table: Option<&'a RwqIndTable>,
}

/// The domain of an XRC target queue pair, which uses no other objects.
fn links_of_target(command: &AttrBundle) -> Result<Links<'_>> {
    let others = [
        c::UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE,
        c::UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE,
        c::UVERBS_ATTR_CREATE_QP_PD_HANDLE,
        c::UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE,
    ];
    if others.into_iter().any(|id| command.has(id)) {
        return Err(EINVAL);
    }
    Ok(Links {
        domain: QpDomain::Xrcd(command.memory::<Xrcd>(c::UVERBS_ATTR_CREATE_QP_XRCD_HANDLE)?),
        send_cq: None,
        recv_cq: None,
        rwq_ind_table: None,
    })
}

/// The domain and objects of a queue pair with an indirection table: it receives into the work queues of the table, and need not
/// send.
fn links_of_table<'a>(
    command: &'a AttrBundle,
    pd: &'a Pd,
    table: &'a RwqIndTable,
    cap: &ib_uverbs_qp_cap,
) -> Result<Links<'a>> {
    let receives = cap.max_recv_wr != 0
        || cap.max_recv_sge != 0
        || command.has(c::UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE)
        || command.has(c::UVERBS_ATTR_CREATE_QP_SRQ_HANDLE);
    if receives {
        return Err(EINVAL);
    }
    let send_cq = match cap.max_send_wr {
        0 => None,
        _ => Some(command.object(c::UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE)?),
    };
    Ok(Links {
        domain: QpDomain::Pd(pd),
        send_cq,
        recv_cq: None,
        rwq_ind_table: Some(table),
    })
}

fn links_of<'a>(command: &'a AttrBundle, kind: u32, cap: &ib_uverbs_qp_cap) -> Result<Links<'a>> {
    let initiates = kind == c::IB_UVERBS_QPT_XRC_INI;
    match kind {
        c::IB_UVERBS_QPT_XRC_TGT => return links_of_target(command),
        c::IB_UVERBS_QPT_RAW_PACKET if !has_raw_cap(command) => return Err(EPERM),
        c::IB_UVERBS_QPT_RAW_PACKET
        | c::IB_UVERBS_QPT_RC
        | c::IB_UVERBS_QPT_UC
        | c::IB_UVERBS_QPT_UD
        | c::IB_UVERBS_QPT_XRC_INI
        | c::IB_UVERBS_QPT_DRIVER => {}
        _ => return Err(EINVAL),
    }
    let with_srq = command.has(c::UVERBS_ATTR_CREATE_QP_SRQ_HANDLE);
    if command.has(c::UVERBS_ATTR_CREATE_QP_XRCD_HANDLE) || (initiates && with_srq) {
        return Err(EINVAL);
    }
    let pd = command.object(c::UVERBS_ATTR_CREATE_QP_PD_HANDLE)?;
    let table = command.object(c::UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE);
    if let Some(table) = optional(table)? {
        return links_of_table(command, pd, table, cap);
    }
    let send_cq = Some(command.object(c::UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE)?);
    let recv_cq = if initiates {
        None
    } else {
        Some(command.object(c::UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE)?)
    };
    Ok(Links {
        domain: QpDomain::Pd(pd),
        send_cq,
        recv_cq,
        rwq_ind_table: None,
    })
}

/// Checks the flags against the type of a queue pair.
fn check_flags(kind: u32, flags: u32) -> Result {
    let flags = flags & !SQ_SIG_ALL;
    let allowed = match kind {
        c::IB_UVERBS_QPT_DRIVER | c::IB_UVERBS_QPT_RAW_PACKET => FLAGS,
        c::IB_UVERBS_QPT_UD => FLAGS & !RAW_FLAGS,
        _ => 0,
    };
    if flags & !allowed != 0 {
        return Err(EINVAL);
    }
    Ok(())
}

/// The shared receive queue: an XRC one for an XRC target queue pair, and no XRC one for others.
fn srq_of(command: &AttrBundle, kind: u32) -> Result<Option<&Srq>> {
    let srq = optional(command.object::<Srq>(c::UVERBS_ATTR_CREATE_QP_SRQ_HANDLE))?;
    let is_target = kind == c::IB_UVERBS_QPT_XRC_TGT;
    if srq.is_some_and(|srq| (srq.kind() == c::IB_SRQT_XRC) != is_target) {
        return Err(EINVAL);
    }
    Ok(srq)
}

fn create(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let object = command.new_object::<Qp>(c::UVERBS_ATTR_CREATE_QP_HANDLE)?;
    let cap: ib_uverbs_qp_cap = command.structure_or_more(c::UVERBS_ATTR_CREATE_QP_CAP)?;
    let user_handle = command.structure(c::UVERBS_ATTR_CREATE_QP_USER_HANDLE)?;
    let kind = command.number(c::UVERBS_ATTR_CREATE_QP_TYPE)?;
    let links = links_of(command, kind, &cap)?;
    let flags = command.flags(c::UVERBS_ATTR_CREATE_QP_FLAGS, FLAGS.into())? as u32;
    check_flags(kind, flags)?;
    let source_qpn = optional(command.structure(c::UVERBS_ATTR_CREATE_QP_SOURCE_QPN))?;
    let mut create_flags = flags & !SQ_SIG_ALL;
    if source_qpn.is_some() {
        create_flags |= c::IB_QP_CREATE_SOURCE_QPN as u32;
    }
    let spec = QpSpec {
        kind,
        domain: links.domain,
        send_cq: links.send_cq,
        recv_cq: links.recv_cq,
        srq: srq_of(command, kind)?,
        rwq_ind_table: links.rwq_ind_table,
        cap,
        create_flags,
        source_qpn: source_qpn.unwrap_or(0),
        sq_sig_all: flags & SQ_SIG_ALL != 0,
        user_handle,
        async_file: async_file(command, c::UVERBS_ATTR_CREATE_QP_EVENT_FD)?,
    };
    let new = qp::create(command, &object, spec, sleep)?;
    let number = new.qp.qp_num();
    object.complete(new.qp);
    command.put_or_zero(c::UVERBS_ATTR_CREATE_QP_RESP_CAP, &new.cap)?;
    command.put(c::UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &number)
}

/// Writes the response: the number of events that user space has read. libibverbs waits until as many are acknowledged.
fn destroyed(command: &AttrBundle, _sleep: &MaySleep) -> Result {
    let object = command.memory::<Qp>(c::UVERBS_ATTR_DESTROY_QP_HANDLE)?;
    let response = ib_uverbs_destroy_qp_resp {
        events_reported: object.events_reported(),
    };
    command.put(c::UVERBS_ATTR_DESTROY_QP_RESP, &response)
}

static TYPE: IdrType = IdrType::new::<Qp, _>(qp::destroy);

static CREATE: Method = Method::new(
    c::UVERBS_METHOD_QP_CREATE,
    create,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_QP_HANDLE,
            c::UVERBS_OBJECT_QP,
            Access::New,
        )
        .mandatory(),
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_QP_XRCD_HANDLE,
            c::UVERBS_OBJECT_XRCD,
            Access::Read,
        ),
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_QP_PD_HANDLE,
            c::UVERBS_OBJECT_PD,
            Access::Read,
        ),
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_QP_SRQ_HANDLE,
            c::UVERBS_OBJECT_SRQ,
            Access::Read,
        ),
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE,
            c::UVERBS_OBJECT_CQ,
            Access::Read,
        ),
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE,
            c::UVERBS_OBJECT_CQ,
            Access::Read,
        ),
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE,
            c::UVERBS_OBJECT_RWQ_IND_TBL,
            Access::Read,
        ),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_QP_USER_HANDLE, Size::of::<u64>()).mandatory(),
        &Attr::ptr_in(
            c::UVERBS_ATTR_CREATE_QP_CAP,
            structure!(ib_uverbs_qp_cap, max_inline_data),
        )
        .mandatory(),
        &Attr::const_in(c::UVERBS_ATTR_CREATE_QP_TYPE).mandatory(),
        &Attr::flags_in(c::UVERBS_ATTR_CREATE_QP_FLAGS),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_QP_SOURCE_QPN, Size::of::<u32>()),
        &Attr::fd(
            c::UVERBS_ATTR_CREATE_QP_EVENT_FD,
            c::UVERBS_OBJECT_ASYNC_EVENT,
            Access::Read,
        ),
        &Attr::ptr_out(
            c::UVERBS_ATTR_CREATE_QP_RESP_CAP,
            structure!(ib_uverbs_qp_cap, max_inline_data),
        )
        .mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, Size::of::<u32>()).mandatory(),
        &Attr::umem(c::UVERBS_ATTR_CREATE_QP_BUF_UMEM),
        &Attr::umem(c::UVERBS_ATTR_CREATE_QP_RQ_BUF_UMEM),
        &Attr::umem(c::UVERBS_ATTR_CREATE_QP_SQ_BUF_UMEM),
        &Attr::UHW_IN,
        &Attr::UHW_OUT,
    ],
);

static DESTROY: Method = Method::new(
    c::UVERBS_METHOD_QP_DESTROY,
    destroyed,
    &[
        &Attr::destroyed(c::UVERBS_ATTR_DESTROY_QP_HANDLE, c::UVERBS_OBJECT_QP),
        &Attr::ptr_out(
            c::UVERBS_ATTR_DESTROY_QP_RESP,
            Size::of::<ib_uverbs_destroy_qp_resp>(),
        )
        .mandatory(),
    ],
);

static OBJECT: Object = Object::idr(
    c::UVERBS_OBJECT_QP,
    &TYPE,
    &[
        &CREATE,
        &DESTROY,
        #[cfg(has_comp_cntr)]
        &super::comp_cntr::ATTACH,
    ],
);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, destroy_qp)),
    Definition::END,
];
