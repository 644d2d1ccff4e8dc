// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_WQ`: work queues.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{self as c, ib_device_ops};
use rdma::{
    core::{AttrBundle, Cq, Pd, Wq},
    MaySleep,
};
use rdma_uverbs::{
    attrs::Attributes,
    table::{Access, Attr, Definition, IdrType, Method, Object, Size},
    wq::{self, WqSpec},
};

use super::attrs::async_file;

/// `enum ib_uverbs_wq_flags`: the known flags.
const FLAGS: u32 = c::IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING
    | c::IB_UVERBS_WQ_FLAGS_SCATTER_FCS
    | c::IB_UVERBS_WQ_FLAGS_DELAY_DROP
    | c::IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING;

fn create(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let object = command.new_object::<Wq>(c::UVERBS_ATTR_CREATE_WQ_HANDLE)?;
    let pd = command.object::<Pd>(c::UVERBS_ATTR_CREATE_WQ_PD_HANDLE)?;
    let cq = command.object::<Cq>(c::UVERBS_ATTR_CREATE_WQ_CQ_HANDLE)?;
    let create_flags = command.flags(c::UVERBS_ATTR_CREATE_WQ_FLAGS, FLAGS.into())? as u32;
    let max_sge = command.structure(c::UVERBS_ATTR_CREATE_WQ_MAX_SGE)?;
    let max_wr = command.structure(c::UVERBS_ATTR_CREATE_WQ_MAX_WR)?;
    let user_handle = command.structure(c::UVERBS_ATTR_CREATE_WQ_USER_HANDLE)?;
    let kind = command.number(c::UVERBS_ATTR_CREATE_WQ_TYPE)?;
    if kind != c::IB_WQT_RQ {
        return Err(EINVAL);
    }
    let spec = WqSpec {
        kind,
        max_wr,
        max_sge,
        create_flags,
        user_handle,
        async_file: async_file(command, c::UVERBS_ATTR_CREATE_WQ_EVENT_FD)?,
    };
    let new = wq::create(command, &object, pd, cq, spec, sleep)?;
    object.complete(new.wq);
    command.put(c::UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, &new.max_wr)?;
    command.put(c::UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, &new.max_sge)?;
    command.put(c::UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, &new.number)
}

/// Writes the response: the number of events that user space has read. libibverbs waits until as many are acknowledged.
fn destroyed(command: &AttrBundle, _sleep: &MaySleep) -> Result {
    let object = command.memory::<Wq>(c::UVERBS_ATTR_DESTROY_WQ_HANDLE)?;
    let reported = object.events_reported();
    command.put(c::UVERBS_ATTR_DESTROY_WQ_RESP, &reported)
}

static TYPE: IdrType = IdrType::new::<Wq, _>(wq::destroy);

static CREATE: Method = Method::new(
    c::UVERBS_METHOD_WQ_CREATE,
    create,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_WQ_HANDLE,
            c::UVERBS_OBJECT_WQ,
            Access::New,
        )
        .mandatory(),
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_WQ_PD_HANDLE,
            c::UVERBS_OBJECT_PD,
            Access::Read,
        )
        .mandatory(),
        &Attr::const_in(c::UVERBS_ATTR_CREATE_WQ_TYPE).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_WQ_USER_HANDLE, Size::of::<u64>()).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_WQ_MAX_WR, Size::of::<u32>()).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_WQ_MAX_SGE, Size::of::<u32>()).mandatory(),
        &Attr::flags_in(c::UVERBS_ATTR_CREATE_WQ_FLAGS).mandatory(),
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_WQ_CQ_HANDLE,
            c::UVERBS_OBJECT_CQ,
            Access::Read,
        ),
        &Attr::fd(
            c::UVERBS_ATTR_CREATE_WQ_EVENT_FD,
            c::UVERBS_OBJECT_ASYNC_EVENT,
            Access::Read,
        ),
        &Attr::ptr_out(c::UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, Size::of::<u32>()).mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, Size::of::<u32>()).mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, Size::of::<u32>()),
        &Attr::UHW_IN,
        &Attr::UHW_OUT,
    ],
);

static DESTROY: Method = Method::new(
    c::UVERBS_METHOD_WQ_DESTROY,
    destroyed,
    &[
        &Attr::destroyed(c::UVERBS_ATTR_DESTROY_WQ_HANDLE, c::UVERBS_OBJECT_WQ),
        &Attr::ptr_out(c::UVERBS_ATTR_DESTROY_WQ_RESP, Size::of::<u32>()).mandatory(),
    ],
);

static OBJECT: Object = Object::idr(c::UVERBS_OBJECT_WQ, &TYPE, &[&CREATE, &DESTROY]);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, destroy_wq)),
    Definition::END,
];
