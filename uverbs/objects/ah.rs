// SPDX-License-Identifier: GPL-2.0

//! Address handles.

use kernel::prelude::*;
use rdma::{
    core::{uobject::RemoveReason, Ah, AttrBundle, Uobject},
    MaySleep,
};
use rdma_uverbs::destroy;

fn destroy(object: &Uobject, _why: RemoveReason, command: &AttrBundle, sleep: &MaySleep) -> Result {
    destroy::ah(object, command, sleep)
}

destroy_only! {
    Ah: UVERBS_OBJECT_AH, destroy,
    UVERBS_METHOD_AH_DESTROY(UVERBS_ATTR_DESTROY_AH_HANDLE),
    needs destroy_ah
}
