// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use kernel::prelude::*;
use rdma::{
    core::{uobject::RemoveReason, AttrBundle, Pd, Uobject},
    MaySleep,
};
use rdma_uverbs::destroy;

fn destroy(object: &Uobject, _why: RemoveReason, command: &AttrBundle, sleep: &MaySleep) -> Result {
    destroy::pd(object, command, sleep)
}

destroy_only! {
    Pd: UVERBS_OBJECT_PD, destroy,
    UVERBS_METHOD_PD_DESTROY(UVERBS_ATTR_DESTROY_PD_HANDLE),
    needs dealloc_pd
}
