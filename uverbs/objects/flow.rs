// SPDX-License-Identifier: GPL-2.0

//! Flow steering rules.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{self as c, ib_device_ops};
use rdma::{
    view::{uobject::RemoveReason, AttrBundle, Flow},
    MaySleep,
};
use rdma_uverbs::{
    destroy::{self, FlowObject},
    table::{Attr, Definition, IdrType, Method, Object},
};

fn destroy(
    object: &FlowObject,
    _why: RemoveReason,
    _command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    destroy::flow(object, sleep)
}

static TYPE: IdrType = IdrType::new::<Flow, _>(destroy);

static DESTROY: Method = Method::destroy(
    c::UVERBS_METHOD_FLOW_DESTROY,
    &[&Attr::destroyed(
        c::UVERBS_ATTR_DESTROY_FLOW_HANDLE,
        c::UVERBS_OBJECT_FLOW,
    )],
);

static OBJECT: Object = Object::idr(c::UVERBS_OBJECT_FLOW, &TYPE, &[&DESTROY]);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, destroy_flow)),
    Definition::END,
];
