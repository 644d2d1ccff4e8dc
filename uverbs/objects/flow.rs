// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_FLOW`: flow steering rules.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use rdma::core::Flow;
use rdma_uverbs::flow;

destroy_only! {
    Flow: UVERBS_OBJECT_FLOW, flow::destroy,
    UVERBS_METHOD_FLOW_DESTROY(UVERBS_ATTR_DESTROY_FLOW_HANDLE),
    needs destroy_flow
}
