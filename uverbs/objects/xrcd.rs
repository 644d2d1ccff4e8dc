// SPDX-License-Identifier: GPL-2.0

//! XRC domains.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{self as c, ib_device_ops};
use rdma::{
    view::{uobject::RemoveReason, AttrBundle, Xrcd},
    MaySleep,
};
use rdma_uverbs::{
    destroy,
    table::{Attr, Definition, IdrType, Method, Object},
    uevent::XrcdObject,
};

use crate::commands;

fn destroy(
    object: &XrcdObject,
    _why: RemoveReason,
    command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    destroy::xrcd(object, |xrcd| commands::xrcd::dealloc(xrcd, command, sleep))
}

static TYPE: IdrType = IdrType::new::<Xrcd, _>(destroy);

static DESTROY: Method = Method::destroy(
    c::UVERBS_METHOD_XRCD_DESTROY,
    &[&Attr::destroyed(
        c::UVERBS_ATTR_DESTROY_XRCD_HANDLE,
        c::UVERBS_OBJECT_XRCD,
    )],
);

static OBJECT: Object = Object::idr(c::UVERBS_OBJECT_XRCD, &TYPE, &[&DESTROY]);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, dealloc_xrcd)),
    Definition::END,
];
