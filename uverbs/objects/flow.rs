// SPDX-License-Identifier: GPL-2.0

//! Flow steering rules.

use kernel::prelude::*;
use rdma::{
    core::{uobject::RemoveReason, AttrBundle, Flow},
    MaySleep,
};
use rdma_uverbs::destroy::{self, FlowObject};

fn destroy(
    object: &FlowObject,
    _why: RemoveReason,
    _command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    destroy::flow(object, sleep)
}

destroy_only! {
    Flow: UVERBS_OBJECT_FLOW, destroy,
    UVERBS_METHOD_FLOW_DESTROY(UVERBS_ATTR_DESTROY_FLOW_HANDLE),
    needs destroy_flow
}
