// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_FLOW_ACTION`: flow actions. Drivers have the methods that create them.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use rdma::core::FlowAction;
use rdma_uverbs::destroy;

destroy_only! {
    FlowAction: UVERBS_OBJECT_FLOW_ACTION, destroy::flow_action,
    UVERBS_METHOD_FLOW_ACTION_DESTROY(UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE),
    needs destroy_flow_action
}
