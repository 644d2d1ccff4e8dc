// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_COMP_CNTR`: completion counters, for kernels whose headers have them.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::{
    bindings::{self as c, ib_device_ops},
    error::EOPNOTSUPP,
};
use rdma::{
    core::{comp_cntr::CompCntr, AttrBundle, Qp},
    MaySleep,
};
use rdma_uverbs::{
    attrs::Attributes,
    comp_cntr,
    table::{Access, Attr, Definition, IdrType, Method, Object, Size},
};

/// `enum ib_uverbs_qp_attach_comp_cntr_op`: the known operations.
const OPS: u32 = c::IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND
    | c::IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV
    | c::IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ
    | c::IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ
    | c::IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE
    | c::IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE;

fn create(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let object = command.new_object::<CompCntr>(c::UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE)?;
    let counter = comp_cntr::create(command, object.link(), sleep)?;
    object.complete(counter);
    Ok(())
}

fn modify(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let counter = command.object::<CompCntr>(c::UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE)?;
    if !counter.can_modify() {
        return Err(EOPNOTSUPP);
    }
    let entry = command.number(c::UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY)?;
    let op = command.number(c::UVERBS_ATTR_MODIFY_COMP_CNTR_OP)?;
    let value = command.structure(c::UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE)?;
    counter.modify(entry, op, value, sleep)
}

fn read(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let counter = command.object::<CompCntr>(c::UVERBS_ATTR_READ_COMP_CNTR_HANDLE)?;
    if !counter.can_read() {
        return Err(EOPNOTSUPP);
    }
    let entry = command.number(c::UVERBS_ATTR_READ_COMP_CNTR_ENTRY)?;
    let value = counter.read(entry, sleep)?;
    command.put(c::UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, &value)
}

/// Attaches a counter to a queue pair.
fn attach(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let qp = command.object::<Qp>(c::UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE)?;
    let counter = command.object(c::UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE)?;
    if qp.device().ops().qp_attach_comp_cntr.is_none() {
        return Err(EOPNOTSUPP);
    }
    if qp.is_handle() {
        return Err(EINVAL);
    }
    let ops = command.flags(c::UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, OPS.into())?;
    qp.attach_comp_cntr(counter, ops as u32, sleep)
}

/// The capabilities of a device.
fn query_caps(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let device = command.ucontext()?.device();
    let caps = device.comp_cntr_caps(Some(command), sleep)?;
    command.put_if_wanted(
        c::UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS,
        &caps.max_counters,
    )?;
    command.put_if_wanted(
        c::UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE,
        &caps.max_value,
    )?;
    command.put_if_wanted(
        c::UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS,
        &caps.supported_qp_attach_ops,
    )
}

static TYPE: IdrType = IdrType::new::<CompCntr, _>(comp_cntr::end);

static CREATE: Method = Method::new(
    c::UVERBS_METHOD_COMP_CNTR_CREATE,
    create,
    &[&Attr::idr(
        c::UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE,
        c::UVERBS_OBJECT_COMP_CNTR,
        Access::New,
    )
    .mandatory()],
);

static DESTROY: Method = Method::destroy(
    c::UVERBS_METHOD_COMP_CNTR_DESTROY,
    &[&Attr::destroyed(
        c::UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE,
        c::UVERBS_OBJECT_COMP_CNTR,
    )],
);

static MODIFY: Method = Method::new(
    c::UVERBS_METHOD_COMP_CNTR_MODIFY,
    modify,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE,
            c::UVERBS_OBJECT_COMP_CNTR,
            Access::Write,
        )
        .mandatory(),
        &Attr::const_in(c::UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY).mandatory(),
        &Attr::const_in(c::UVERBS_ATTR_MODIFY_COMP_CNTR_OP).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, Size::of::<u64>()).mandatory(),
    ],
);

static READ: Method = Method::new(
    c::UVERBS_METHOD_COMP_CNTR_READ,
    read,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_READ_COMP_CNTR_HANDLE,
            c::UVERBS_OBJECT_COMP_CNTR,
            Access::Read,
        )
        .mandatory(),
        &Attr::const_in(c::UVERBS_ATTR_READ_COMP_CNTR_ENTRY).mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, Size::of::<u64>()).mandatory(),
    ],
);

/// A method of queue pairs.
pub(super) static ATTACH: Method = Method::new(
    c::UVERBS_METHOD_QP_ATTACH_COMP_CNTR,
    attach,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE,
            c::UVERBS_OBJECT_QP,
            Access::Write,
        )
        .mandatory(),
        &Attr::idr(
            c::UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE,
            c::UVERBS_OBJECT_COMP_CNTR,
            Access::Read,
        )
        .mandatory(),
        &Attr::flags_in(c::UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK).mandatory(),
    ],
);

/// A method of devices.
pub(super) static QUERY_CAPS: Method = Method::new(
    c::UVERBS_METHOD_QUERY_COMP_CNTR_CAPS,
    query_caps,
    &[
        &Attr::ptr_out(
            c::UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS,
            Size::of::<u32>(),
        ),
        &Attr::ptr_out(
            c::UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE,
            Size::of::<u64>(),
        ),
        &Attr::ptr_out(
            c::UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS,
            Size::of::<u32>(),
        ),
    ],
);

static OBJECT: Object = Object::idr(
    c::UVERBS_OBJECT_COMP_CNTR,
    &TYPE,
    &[&CREATE, &DESTROY, &MODIFY, &READ],
);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, destroy_comp_cntr)),
    Definition::END,
];
