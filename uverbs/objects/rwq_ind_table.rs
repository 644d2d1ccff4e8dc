// SPDX-License-Identifier: GPL-2.0

//! Tables of receive work queues.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{self as c, ib_device_ops};
use rdma::{
    view::{uobject::RemoveReason, AttrBundle, RwqIndTable, Uobject},
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
    destroy::rwq_ind_table(object, sleep)
}

static TYPE: IdrType = IdrType::new::<RwqIndTable, _>(destroy);

static DESTROY: Method = Method::destroy(
    c::UVERBS_METHOD_RWQ_IND_TBL_DESTROY,
    &[&Attr::destroyed(
        c::UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE,
        c::UVERBS_OBJECT_RWQ_IND_TBL,
    )],
);

static OBJECT: Object = Object::idr(c::UVERBS_OBJECT_RWQ_IND_TBL, &TYPE, &[&DESTROY]);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, destroy_rwq_ind_table)),
    Definition::END,
];
