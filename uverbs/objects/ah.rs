// SPDX-License-Identifier: GPL-2.0

//! Address handles.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{self as c, ib_device_ops};
use rdma::{
    view::{uobject::RemoveReason, Ah, AttrBundle, Uobject},
    MaySleep,
};
use rdma_uverbs::{
    destroy,
    table::{Attr, Definition, IdrType, Method, Object},
};

fn destroy(object: &Uobject, _why: RemoveReason, command: &AttrBundle, sleep: &MaySleep) -> Result {
    destroy::ah(object, command, sleep)
}

static TYPE: IdrType = IdrType::new::<Ah, _>(destroy);

static DESTROY: Method = Method::destroy(
    c::UVERBS_METHOD_AH_DESTROY,
    &[&Attr::destroyed(
        c::UVERBS_ATTR_DESTROY_AH_HANDLE,
        c::UVERBS_OBJECT_AH,
    )],
);

static OBJECT: Object = Object::idr(c::UVERBS_OBJECT_AH, &TYPE, &[&DESTROY]);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, destroy_ah)),
    Definition::END,
];
