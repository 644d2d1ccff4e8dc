// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_DM`: device memory.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::{
    bindings::{self as c, ib_device_ops},
    error::EOPNOTSUPP,
};
use rdma::{
    core::{AttrBundle, Dm},
    MaySleep,
};
use rdma_uverbs::{
    attrs::Attributes,
    destroy, dm,
    table::{Access, Attr, Definition, IdrType, Method, Object, Size},
};

fn alloc(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let object = command.new_object::<Dm>(c::UVERBS_ATTR_ALLOC_DM_HANDLE)?;
    if !object.context()?.device().has_alloc_dm() {
        return Err(EOPNOTSUPP);
    }
    let length = command.structure(c::UVERBS_ATTR_ALLOC_DM_LENGTH)?;
    let alignment = command.structure(c::UVERBS_ATTR_ALLOC_DM_ALIGNMENT)?;
    let dm = dm::alloc_dm(command, object.link(), length, alignment, sleep)?;
    object.complete(dm);
    Ok(())
}

static TYPE: IdrType = IdrType::new::<Dm, _>(destroy::dm);

static ALLOC: Method = Method::new(
    c::UVERBS_METHOD_DM_ALLOC,
    alloc,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_ALLOC_DM_HANDLE,
            c::UVERBS_OBJECT_DM,
            Access::New,
        )
        .mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_ALLOC_DM_LENGTH, Size::of::<u64>()).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_ALLOC_DM_ALIGNMENT, Size::of::<u32>()).mandatory(),
    ],
);

static FREE: Method = Method::destroy(
    c::UVERBS_METHOD_DM_FREE,
    &[&Attr::destroyed(
        c::UVERBS_ATTR_FREE_DM_HANDLE,
        c::UVERBS_OBJECT_DM,
    )],
);

static OBJECT: Object = Object::idr(c::UVERBS_OBJECT_DM, &TYPE, &[&ALLOC, &FREE]);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, dealloc_dm)),
    Definition::END,
];
