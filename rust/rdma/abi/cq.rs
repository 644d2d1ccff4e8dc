// SPDX-License-Identifier: GPL-2.0

//! Flags of completion queues: `enum ib_cq_notify_flags` of `include/rdma/ib_verbs.h`, `enum ib_uverbs_ex_create_cq_flags`
//! of `include/uapi/rdma/ib_user_verbs.h`.

use rdma_bindings as bindings;

c_flags! {
    /// The event that a CQ is armed for: `enum ib_cq_notify_flags`.
    pub struct NotifyFlags(u32) {
        /// The next solicited completion, or one in error.
        SOLICITED = bindings::IB_CQ_SOLICITED;
        /// The next completion.
        NEXT_COMP = bindings::IB_CQ_NEXT_COMP;
        /// The method returns whether completions may have been missed.
        REPORT_MISSED_EVENTS = bindings::IB_CQ_REPORT_MISSED_EVENTS;
    }
}

c_flags! {
    /// The creation flags of a CQ: `enum ib_uverbs_ex_create_cq_flags`.
    pub struct CqCreateFlags(u32) {
        /// Completions carry a time stamp.
        TIMESTAMP_COMPLETION = bindings::IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
        /// The CQ may overrun.
        IGNORE_OVERRUN = bindings::IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
    }
}
