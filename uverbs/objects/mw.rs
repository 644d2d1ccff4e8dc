// SPDX-License-Identifier: GPL-2.0

//! Memory windows.

use kernel::prelude::*;
use rdma::{
    core::{uobject::RemoveReason, AttrBundle, Mw, Uobject},
    MaySleep,
};
use rdma_uverbs::destroy;

fn destroy(
    object: &Uobject,
    _why: RemoveReason,
    _command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    destroy::mw(object, sleep)
}

destroy_only! {
    Mw: UVERBS_OBJECT_MW, destroy,
    UVERBS_METHOD_MW_DESTROY(UVERBS_ATTR_DESTROY_MW_HANDLE),
    needs dealloc_mw
}
