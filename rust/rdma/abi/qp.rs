// SPDX-License-Identifier: GPL-2.0

//! Types, states and attributes of queue pairs: `enum ib_qp_type`, `ib_qp_state` and `ib_qp_attr_mask` of
//! `include/rdma/ib_verbs.h`.

use core::ptr;

use rdma_bindings::{self as bindings, ib_qp};

/// The sizes of a QP: `struct ib_qp_cap`.
pub use rdma_bindings::ib_qp_cap as QpCap;

c_enum! {
    /// The transport service type: `enum ib_qp_type`.
    pub enum QpType {
        /// QP 0.
        Smi = bindings::IB_QPT_SMI,
        /// QP 1.
        Gsi = bindings::IB_QPT_GSI,
        /// Reliable connection.
        Rc = bindings::IB_QPT_RC,
        /// Unreliable connection.
        Uc = bindings::IB_QPT_UC,
        /// Unreliable datagram.
        Ud = bindings::IB_QPT_UD,
        /// Raw IPv6 datagram.
        RawIpv6 = bindings::IB_QPT_RAW_IPV6,
        /// Raw Ethertype datagram.
        RawEthertype = bindings::IB_QPT_RAW_ETHERTYPE,
        /// Raw Ethernet packet.
        RawPacket = bindings::IB_QPT_RAW_PACKET,
        /// The initiator of an extended reliable connection (XRC).
        XrcIni = bindings::IB_QPT_XRC_INI,
        /// The target of an extended reliable connection (XRC).
        XrcTgt = bindings::IB_QPT_XRC_TGT,
        /// A driver-specific type.
        Driver = bindings::IB_QPT_DRIVER,
    }
}

impl QpType {
    /// Whether each work request has its own destination.
    #[inline]
    pub const fn is_datagram(self) -> bool {
        matches!(self, Self::Ud | Self::Gsi | Self::Smi)
    }
}

c_enum! {
    /// The state of a QP: `enum ib_qp_state`.
    pub enum QpState {
        /// Reset.
        Reset = bindings::IB_QPS_RESET,
        /// Initialised.
        Init = bindings::IB_QPS_INIT,
        /// Ready to receive.
        Rtr = bindings::IB_QPS_RTR,
        /// Ready to send.
        Rts = bindings::IB_QPS_RTS,
        /// Send queue drain.
        Sqd = bindings::IB_QPS_SQD,
        /// Send queue error.
        Sqe = bindings::IB_QPS_SQE,
        /// Error.
        Err = bindings::IB_QPS_ERR,
    }
}

impl QpState {
    /// Whether a QP of type `qp_type` may go from this state to `next` with the attributes in `mask`: the core's table of the
    /// specification (IBTA volume 1, section 10.3).
    pub fn may_become(self, next: Self, qp_type: QpType, mask: QpAttrMask) -> bool {
        // SAFETY: The function only reads a constant table.
        unsafe {
            bindings::ib_modify_qp_is_ok(
                self.as_raw(),
                next.as_raw(),
                qp_type.as_raw(),
                mask.bits(),
            )
        }
    }
}

c_enum! {
    /// The state of path migration: `enum ib_mig_state`.
    pub enum MigState {
        /// Migrated.
        Migrated = bindings::IB_MIG_MIGRATED,
        /// About to be armed.
        Rearm = bindings::IB_MIG_REARM,
        /// Armed.
        Armed = bindings::IB_MIG_ARMED,
    }
}

c_flags! {
    /// A mask of QP attributes: `enum ib_qp_attr_mask`.
    pub struct QpAttrMask(u32) {
        /// The next state.
        STATE = bindings::IB_QP_STATE;
        /// The state that the caller assumes.
        CUR_STATE = bindings::IB_QP_CUR_STATE;
        /// Whether the event `IB_EVENT_SQ_DRAINED` is raised.
        EN_SQD_ASYNC_NOTIFY = bindings::IB_QP_EN_SQD_ASYNC_NOTIFY;
        /// The access that the remote QP has.
        ACCESS_FLAGS = bindings::IB_QP_ACCESS_FLAGS;
        /// The P_Key index.
        PKEY_INDEX = bindings::IB_QP_PKEY_INDEX;
        /// The port.
        PORT = bindings::IB_QP_PORT;
        /// The Q_Key.
        QKEY = bindings::IB_QP_QKEY;
        /// The address vector of the primary path.
        AV = bindings::IB_QP_AV;
        /// The path MTU.
        PATH_MTU = bindings::IB_QP_PATH_MTU;
        /// The acknowledgement timeout.
        TIMEOUT = bindings::IB_QP_TIMEOUT;
        /// The number of retries.
        RETRY_CNT = bindings::IB_QP_RETRY_CNT;
        /// The number of retries after an RNR NAK.
        RNR_RETRY = bindings::IB_QP_RNR_RETRY;
        /// The initial PSN of the receive queue.
        RQ_PSN = bindings::IB_QP_RQ_PSN;
        /// The number of RDMA READs and atomics that this side may have outstanding.
        MAX_QP_RD_ATOMIC = bindings::IB_QP_MAX_QP_RD_ATOMIC;
        /// The alternate path.
        ALT_PATH = bindings::IB_QP_ALT_PATH;
        /// The minimum RNR NAK timer.
        MIN_RNR_TIMER = bindings::IB_QP_MIN_RNR_TIMER;
        /// The initial PSN of the send queue.
        SQ_PSN = bindings::IB_QP_SQ_PSN;
        /// The number of RDMA READs and atomics that the remote QP may have outstanding.
        MAX_DEST_RD_ATOMIC = bindings::IB_QP_MAX_DEST_RD_ATOMIC;
        /// The state of path migration.
        PATH_MIG_STATE = bindings::IB_QP_PATH_MIG_STATE;
        /// The sizes.
        CAP = bindings::IB_QP_CAP;
        /// The number of the remote QP.
        DEST_QPN = bindings::IB_QP_DEST_QPN;
        /// The rate limit.
        RATE_LIMIT = bindings::IB_QP_RATE_LIMIT;
        /// All attributes of the specification.
        STANDARD_BITS = bindings::IB_QP_ATTR_STANDARD_BITS;
    }
}

/// The QP of a completion: an identity, not a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpId {
    /// The pointer is never dereferenced here.
    raw: *mut ib_qp,
    number: u32,
}

// SAFETY: The pointer is an identity, and is not dereferenced.
unsafe impl Send for QpId {}

// SAFETY: The pointer is an identity, and is not dereferenced.
unsafe impl Sync for QpId {}

impl QpId {
    /// No QP.
    pub const NONE: Self = Self {
        raw: ptr::null_mut(),
        number: 0,
    };

    /// The identity of the QP at `raw`.
    ///
    /// # Safety
    ///
    /// `raw` is a QP of the driver, which completes requests of it only as long as it is there.
    #[inline]
    pub(crate) const unsafe fn new(raw: *mut ib_qp, number: u32) -> Self {
        Self { raw, number }
    }

    /// The QP's number.
    #[inline]
    pub const fn number(self) -> u32 {
        self.number
    }

    pub(crate) const fn as_raw(self) -> *mut ib_qp {
        self.raw
    }
}
