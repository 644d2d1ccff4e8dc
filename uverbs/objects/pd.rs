// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{self as c, ib_device_ops};
use rdma::{
    view::{uobject::RemoveReason, AttrBundle, Pd, Uobject},
    MaySleep,
};
use rdma_uverbs::{
    destroy,
    table::{Attr, Definition, IdrType, Method, Object},
};

fn destroy(object: &Uobject, _why: RemoveReason, command: &AttrBundle, sleep: &MaySleep) -> Result {
    destroy::pd(object, command, sleep)
}

static TYPE: IdrType = IdrType::new::<Pd, _>(destroy);

static DESTROY: Method = Method::destroy(
    c::UVERBS_METHOD_PD_DESTROY,
    &[&Attr::destroyed(
        c::UVERBS_ATTR_DESTROY_PD_HANDLE,
        c::UVERBS_OBJECT_PD,
    )],
);

static OBJECT: Object = Object::idr(c::UVERBS_OBJECT_PD, &TYPE, &[&DESTROY]);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, dealloc_pd)),
    Definition::END,
];
