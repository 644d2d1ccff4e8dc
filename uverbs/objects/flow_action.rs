// SPDX-License-Identifier: GPL-2.0

//! Actions of flows. Drivers have the methods that make them.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{self as c, ib_device_ops};
use rdma::{
    view::{uobject::RemoveReason, AttrBundle, FlowAction, Uobject},
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
    destroy::flow_action(object, sleep)
}

static TYPE: IdrType = IdrType::new::<FlowAction, _>(destroy);

static DESTROY: Method = Method::destroy(
    c::UVERBS_METHOD_FLOW_ACTION_DESTROY,
    &[&Attr::destroyed(
        c::UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE,
        c::UVERBS_OBJECT_FLOW_ACTION,
    )],
);

static OBJECT: Object = Object::idr(c::UVERBS_OBJECT_FLOW_ACTION, &TYPE, &[&DESTROY]);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, destroy_flow_action)),
    Definition::END,
];
