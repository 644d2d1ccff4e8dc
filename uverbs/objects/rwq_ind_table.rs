// SPDX-License-Identifier: GPL-2.0

//! Tables of receive work queues.

use kernel::prelude::*;
use rdma::{
    core::{uobject::RemoveReason, AttrBundle, RwqIndTable, Uobject},
    MaySleep,
};
use rdma_uverbs::destroy;

fn destroy(
    object: &Uobject,
    _why: RemoveReason,
    _command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    destroy::rwq_ind_table(object, sleep)
}

destroy_only! {
    RwqIndTable: UVERBS_OBJECT_RWQ_IND_TBL, destroy,
    UVERBS_METHOD_RWQ_IND_TBL_DESTROY(UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE),
    needs destroy_rwq_ind_table
}
