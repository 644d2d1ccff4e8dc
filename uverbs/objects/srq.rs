// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_SRQ`: shared receive queues.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{self as c, ib_device_ops, ib_uverbs_destroy_srq_resp};
use rdma::{
    core::{AttrBundle, Cq, Pd, Srq, Xrcd},
    MaySleep,
};
use rdma_uverbs::{
    attrs::Attributes,
    srq::{self, SrqKind, SrqSpec},
    table::{Access, Attr, Definition, IdrType, Method, Object, Size},
};

use super::attrs::async_file;

/// The attributes of a type.
fn kind_of(command: &AttrBundle, kind: u32) -> Result<SrqKind<'_>> {
    let cq = || command.object::<Cq>(c::UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE);
    match kind {
        c::IB_UVERBS_SRQT_BASIC => Ok(SrqKind::Basic),
        c::IB_UVERBS_SRQT_XRC => Ok(SrqKind::Xrc(
            cq()?,
            command.memory::<Xrcd>(c::UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE)?,
        )),
        c::IB_UVERBS_SRQT_TM => Ok(SrqKind::TagMatching(
            cq()?,
            command.structure(c::UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS)?,
        )),
        _ => Err(EINVAL),
    }
}

fn create(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let object = command.new_object::<Srq>(c::UVERBS_ATTR_CREATE_SRQ_HANDLE)?;
    let pd = command.object::<Pd>(c::UVERBS_ATTR_CREATE_SRQ_PD_HANDLE)?;
    let max_sge = command.structure(c::UVERBS_ATTR_CREATE_SRQ_MAX_SGE)?;
    let max_wr = command.structure(c::UVERBS_ATTR_CREATE_SRQ_MAX_WR)?;
    let limit = command.structure(c::UVERBS_ATTR_CREATE_SRQ_LIMIT)?;
    let user_handle = command.structure(c::UVERBS_ATTR_CREATE_SRQ_USER_HANDLE)?;
    let kind = command.number(c::UVERBS_ATTR_CREATE_SRQ_TYPE)?;
    let spec = SrqSpec {
        kind: kind_of(command, kind)?,
        max_wr,
        max_sge,
        limit,
        user_handle,
        async_file: async_file(command, c::UVERBS_ATTR_CREATE_SRQ_EVENT_FD)?,
    };
    let new = srq::create(command, &object, pd, spec, sleep)?;
    object.complete(new.srq);
    command.put(c::UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &new.max_wr)?;
    command.put(c::UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &new.max_sge)?;
    match new.number {
        Some(number) => command.put(c::UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &number),
        None => Ok(()),
    }
}

/// Writes the response: the number of events that user space has read. libibverbs waits until as many are acknowledged.
fn destroyed(command: &AttrBundle, _sleep: &MaySleep) -> Result {
    let object = command.memory::<Srq>(c::UVERBS_ATTR_DESTROY_SRQ_HANDLE)?;
    let response = ib_uverbs_destroy_srq_resp {
        events_reported: object.events_reported(),
    };
    command.put(c::UVERBS_ATTR_DESTROY_SRQ_RESP, &response)
}

static TYPE: IdrType = IdrType::new::<Srq, _>(srq::destroy);

static CREATE: Method = Method::new(
    c::UVERBS_METHOD_SRQ_CREATE,
    create,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_SRQ_HANDLE,
            c::UVERBS_OBJECT_SRQ,
            Access::New,
        )
        .mandatory(),
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_SRQ_PD_HANDLE,
            c::UVERBS_OBJECT_PD,
            Access::Read,
        )
        .mandatory(),
        &Attr::const_in(c::UVERBS_ATTR_CREATE_SRQ_TYPE).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, Size::of::<u64>()).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_SRQ_MAX_WR, Size::of::<u32>()).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_SRQ_MAX_SGE, Size::of::<u32>()).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_SRQ_LIMIT, Size::of::<u32>()).mandatory(),
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE,
            c::UVERBS_OBJECT_XRCD,
            Access::Read,
        ),
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE,
            c::UVERBS_OBJECT_CQ,
            Access::Read,
        ),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, Size::of::<u32>()),
        &Attr::fd(
            c::UVERBS_ATTR_CREATE_SRQ_EVENT_FD,
            c::UVERBS_OBJECT_ASYNC_EVENT,
            Access::Read,
        ),
        &Attr::ptr_out(c::UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, Size::of::<u32>()).mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, Size::of::<u32>()).mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, Size::of::<u32>()),
        #[cfg(has_srq_buf_umem)]
        &Attr::umem(c::UVERBS_ATTR_CREATE_SRQ_BUF_UMEM),
        &Attr::UHW_IN,
        &Attr::UHW_OUT,
    ],
);

static DESTROY: Method = Method::new(
    c::UVERBS_METHOD_SRQ_DESTROY,
    destroyed,
    &[
        &Attr::destroyed(c::UVERBS_ATTR_DESTROY_SRQ_HANDLE, c::UVERBS_OBJECT_SRQ),
        &Attr::ptr_out(
            c::UVERBS_ATTR_DESTROY_SRQ_RESP,
            Size::of::<ib_uverbs_destroy_srq_resp>(),
        )
        .mandatory(),
    ],
);

static OBJECT: Object = Object::idr(c::UVERBS_OBJECT_SRQ, &TYPE, &[&CREATE, &DESTROY]);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, destroy_srq)),
    Definition::END,
];
