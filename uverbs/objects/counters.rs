// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_COUNTERS`: flow counters.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::{
    bindings::{self as c, ib_device_ops},
    error::EOPNOTSUPP,
    zeroed::zeroed,
};
use rdma::{
    core::{AttrBundle, Counters},
    MaySleep,
};
use rdma_uverbs::{
    attrs::Attributes,
    counters, destroy,
    table::{Access, Attr, Definition, IdrType, Method, Object, Size},
};

fn create(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let object = command.new_object::<Counters>(c::UVERBS_ATTR_CREATE_COUNTERS_HANDLE)?;
    if !object.context()?.device().has_create_counters() {
        return Err(EOPNOTSUPP);
    }
    let counters = counters::create(command, object.link(), sleep)?;
    object.complete(counters);
    Ok(())
}

fn read(command: &AttrBundle, sleep: &MaySleep) -> Result {
    const FLAGS: u64 = c::IB_UVERBS_READ_COUNTERS_PREFER_CACHED as u64;
    const BUFFER: u32 = c::UVERBS_ATTR_READ_COUNTERS_BUFF;
    let counters = command.object::<Counters>(c::UVERBS_ATTR_READ_COUNTERS_HANDLE)?;
    if !counters.has_read() {
        return Err(EOPNOTSUPP);
    }
    if !counters.uses().is_used() {
        return Err(EINVAL);
    }
    let flags = command.flags(c::UVERBS_ATTR_READ_COUNTERS_FLAGS, FLAGS)? as u32;
    let count = command.size(BUFFER)? / size_of::<u64>();
    let mut values: KVVec<u64> = zeroed(count, GFP_KERNEL)?;
    counters.driver_read(&mut values, flags, command, sleep)?;
    command.put_slice(BUFFER, &values)
}

static TYPE: IdrType = IdrType::new::<Counters, _>(destroy::counters);

static CREATE: Method = Method::new(
    c::UVERBS_METHOD_COUNTERS_CREATE,
    create,
    &[&Attr::idr(
        c::UVERBS_ATTR_CREATE_COUNTERS_HANDLE,
        c::UVERBS_OBJECT_COUNTERS,
        Access::New,
    )
    .mandatory()],
);

static DESTROY: Method = Method::destroy(
    c::UVERBS_METHOD_COUNTERS_DESTROY,
    &[&Attr::destroyed(
        c::UVERBS_ATTR_DESTROY_COUNTERS_HANDLE,
        c::UVERBS_OBJECT_COUNTERS,
    )],
);

static READ: Method = Method::new(
    c::UVERBS_METHOD_COUNTERS_READ,
    read,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_READ_COUNTERS_HANDLE,
            c::UVERBS_OBJECT_COUNTERS,
            Access::Read,
        )
        .mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_READ_COUNTERS_BUFF, Size::at_least(0)).mandatory(),
        &Attr::flags_in(c::UVERBS_ATTR_READ_COUNTERS_FLAGS),
    ],
);

static OBJECT: Object = Object::idr(
    c::UVERBS_OBJECT_COUNTERS,
    &TYPE,
    &[&CREATE, &DESTROY, &READ],
);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, destroy_counters)),
    Definition::END,
];
