// SPDX-License-Identifier: GPL-2.0

//! Memory windows.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{self as c, ib_device_ops};
use rdma::{
    view::{uobject::RemoveReason, AttrBundle, Mw, Uobject},
    MaySleep,
};
use rdma_uverbs::{
    destroy,
    table::{Attr, Definition, IdrType, Method, Object},
};

fn destroy(
    object: &Uobject,
    _why: RemoveReason,
    _command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    destroy::mw(object, sleep)
}

static TYPE: IdrType = IdrType::new::<Mw, _>(destroy);

static DESTROY: Method = Method::destroy(
    c::UVERBS_METHOD_MW_DESTROY,
    &[&Attr::destroyed(
        c::UVERBS_ATTR_DESTROY_MW_HANDLE,
        c::UVERBS_OBJECT_MW,
    )],
);

static OBJECT: Object = Object::idr(c::UVERBS_OBJECT_MW, &TYPE, &[&DESTROY]);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, dealloc_mw)),
    Definition::END,
];
