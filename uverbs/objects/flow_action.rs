// SPDX-License-Identifier: GPL-2.0

//! Actions of flows. Drivers have the methods that make them.

use kernel::prelude::*;
use rdma::{
    core::{uobject::RemoveReason, AttrBundle, FlowAction, Uobject},
    MaySleep,
};
use rdma_uverbs::destroy;

fn destroy(
    object: &Uobject,
    _why: RemoveReason,
    _command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    destroy::flow_action(object, sleep)
}

destroy_only! {
    FlowAction: UVERBS_OBJECT_FLOW_ACTION, destroy,
    UVERBS_METHOD_FLOW_ACTION_DESTROY(UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE),
    needs destroy_flow_action
}
