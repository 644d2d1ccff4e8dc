// SPDX-License-Identifier: GPL-2.0

//! Attributes of shared receive queues: `struct ib_srq_attr` of `include/rdma/ib_verbs.h`.

use rdma_bindings as bindings;

/// The sizes and the limit of an SRQ: `struct ib_srq_attr`.
pub use rdma_bindings::ib_srq_attr as SrqAttr;

c_enum! {
    /// The type of an SRQ: `enum ib_srq_type`.
    pub enum SrqType {
        /// For the QPs of a PD.
        Basic = bindings::IB_SRQT_BASIC,
        /// For extended reliable connections.
        Xrc = bindings::IB_SRQT_XRC,
        /// With tag matching.
        Tm = bindings::IB_SRQT_TM,
    }
}

c_flags! {
    /// The mask of `modify_srq`: `enum ib_srq_attr_mask`.
    pub struct SrqAttrMask(u32) {
        /// The number of work requests.
        MAX_WR = bindings::IB_SRQ_MAX_WR;
        /// The limit.
        LIMIT = bindings::IB_SRQ_LIMIT;
    }
}
