// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_CQ`: completion queues.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::{
    bindings::{self as c, ib_device_ops, ib_uverbs_destroy_cq_resp},
    error::EOPNOTSUPP,
};
use rdma::{
    core::{AttrBundle, Cq},
    MaySleep,
};
use rdma_uverbs::{
    attrs::Attributes,
    cq::{self, CqSpec},
    event::CompletionChannel,
    node::Node,
    table::{Access, Attr, Definition, IdrType, Method, Object, Size},
};

use super::attrs::{async_file, optional};

/// `enum ib_uverbs_ex_create_cq_flags`: the known flags.
const FLAGS: u32 =
    c::IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | c::IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;

fn create(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let object = command.new_object::<Cq>(c::UVERBS_ATTR_CREATE_CQ_HANDLE)?;
    if !object.context()?.device().has_user_cq() {
        return Err(EOPNOTSUPP);
    }
    let comp_vector = command.structure(c::UVERBS_ATTR_CREATE_CQ_COMP_VECTOR)?;
    let cqe = command.structure(c::UVERBS_ATTR_CREATE_CQ_CQE)?;
    if cqe == 0 {
        return Err(EINVAL);
    }
    let user_handle = command.structure(c::UVERBS_ATTR_CREATE_CQ_USER_HANDLE)?;
    let flags = command.flags(c::UVERBS_ATTR_CREATE_CQ_FLAGS, FLAGS.into())? as u32;
    let channel = command.memory::<CompletionChannel>(c::UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL);
    let spec = CqSpec {
        cqe,
        comp_vector,
        flags,
        user_handle,
        channel: optional(channel)?.map(Into::into),
        async_file: async_file(command, c::UVERBS_ATTR_CREATE_CQ_EVENT_FD)?,
    };
    if comp_vector >= Node::of(command.file()).comp_vectors() {
        return Err(EINVAL);
    }
    let cq = cq::create(command, &object, spec, sleep)?;
    let cqe = cq.cqe();
    object.complete(cq);
    command.put(c::UVERBS_ATTR_CREATE_CQ_RESP_CQE, &cqe)
}

/// Writes the response: the numbers of events that user space has read. libibverbs waits until as many are acknowledged.
fn destroyed(command: &AttrBundle, _sleep: &MaySleep) -> Result {
    let object = command.memory::<Cq>(c::UVERBS_ATTR_DESTROY_CQ_HANDLE)?;
    let response = ib_uverbs_destroy_cq_resp {
        comp_events_reported: object.completions_reported(),
        async_events_reported: object.events_reported(),
    };
    command.put(c::UVERBS_ATTR_DESTROY_CQ_RESP, &response)
}

static TYPE: IdrType = IdrType::new::<Cq, _>(cq::destroy);

static CREATE: Method = Method::new(
    c::UVERBS_METHOD_CQ_CREATE,
    create,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_CREATE_CQ_HANDLE,
            c::UVERBS_OBJECT_CQ,
            Access::New,
        )
        .mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_CQ_CQE, Size::of::<u32>()).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_CQ_USER_HANDLE, Size::of::<u64>()).mandatory(),
        &Attr::fd(
            c::UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL,
            c::UVERBS_OBJECT_COMP_CHANNEL,
            Access::Read,
        ),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, Size::of::<u32>()).mandatory(),
        &Attr::flags_in(c::UVERBS_ATTR_CREATE_CQ_FLAGS),
        &Attr::ptr_out(c::UVERBS_ATTR_CREATE_CQ_RESP_CQE, Size::of::<u32>()).mandatory(),
        &Attr::fd(
            c::UVERBS_ATTR_CREATE_CQ_EVENT_FD,
            c::UVERBS_OBJECT_ASYNC_EVENT,
            Access::Read,
        ),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_CQ_BUFFER_VA, Size::of::<u64>()),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH, Size::of::<u64>()),
        &Attr::raw_fd(c::UVERBS_ATTR_CREATE_CQ_BUFFER_FD),
        &Attr::ptr_in(c::UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET, Size::of::<u64>()),
        &Attr::umem(c::UVERBS_ATTR_CREATE_CQ_BUF_UMEM),
        &Attr::UHW_IN,
        &Attr::UHW_OUT,
    ],
);

static DESTROY: Method = Method::new(
    c::UVERBS_METHOD_CQ_DESTROY,
    destroyed,
    &[
        &Attr::destroyed(c::UVERBS_ATTR_DESTROY_CQ_HANDLE, c::UVERBS_OBJECT_CQ),
        &Attr::ptr_out(
            c::UVERBS_ATTR_DESTROY_CQ_RESP,
            Size::of::<ib_uverbs_destroy_cq_resp>(),
        )
        .mandatory(),
    ],
);

static OBJECT: Object = Object::idr(c::UVERBS_OBJECT_CQ, &TYPE, &[&CREATE, &DESTROY]);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, destroy_cq)),
    Definition::END,
];
