// SPDX-License-Identifier: GPL-2.0

//! Attributes of the queue pair on its way to RTS (`ib_cm_init_qp_attr()`).
//!
//! Address vectors, P_Key indices and ports are the caller's: the masks tell which of them are wanted.
//!
//! IBTA volume 1, 12.10; C header: `include/rdma/ib_verbs.h`, `enum ib_qp_attr_mask`.

use crate::{
    connection::Connection,
    states::{LapState, State},
    transport::Transport,
};

/// Bits of `enum ib_qp_attr_mask`.
pub mod mask {
    #![allow(missing_docs, reason = "names of the header")]
    pub const STATE: u32 = 1;
    pub const ACCESS_FLAGS: u32 = 1 << 3;
    pub const PKEY_INDEX: u32 = 1 << 4;
    pub const PORT: u32 = 1 << 5;
    pub const AV: u32 = 1 << 7;
    pub const PATH_MTU: u32 = 1 << 8;
    pub const TIMEOUT: u32 = 1 << 9;
    pub const RETRY_CNT: u32 = 1 << 10;
    pub const RNR_RETRY: u32 = 1 << 11;
    pub const RQ_PSN: u32 = 1 << 12;
    pub const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    pub const ALT_PATH: u32 = 1 << 14;
    pub const MIN_RNR_TIMER: u32 = 1 << 15;
    pub const SQ_PSN: u32 = 1 << 16;
    pub const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub const PATH_MIG_STATE: u32 = 1 << 18;
    pub const DEST_QPN: u32 = 1 << 20;
}

/// The state does not have the attributes (`-EINVAL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNow;

/// For INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    /// Which are set.
    pub mask: u32,
    /// The peer may read and use atomics, and flush on devices that can; it may write in any case.
    pub serves_reads: bool,
}

/// For RTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtr {
    /// Which are set. The smallest RNR timer is 0.
    pub mask: u32,
    /// MTU, encoded.
    pub path_mtu: u8,
    /// The peer's queue pair.
    pub dest_qp_num: u32,
    /// PSN of the peer's first packet.
    pub rq_psn: u32,
    /// RDMA reads and atomics of the peer at once.
    pub max_dest_rd_atomic: u8,
    /// Timeout of the alternate path.
    pub alt_timeout: u8,
}

/// For RTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rts {
    /// Which are set. The migration state is "rearm".
    pub mask: u32,
    /// PSN of the first packet.
    pub sq_psn: u32,
    /// Retries.
    pub retry_cnt: u8,
    /// Retries when the peer is not ready.
    pub rnr_retry: u8,
    /// RDMA reads and atomics at once.
    pub max_rd_atomic: u8,
    /// Timeout of the primary path.
    pub timeout: u8,
    /// Timeout of the alternate path.
    pub alt_timeout: u8,
}

/// The caller's alternate address vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alternate {
    /// It has a destination LID.
    pub has_dlid: bool,
    /// It has a port.
    pub has_port: bool,
}

/// A connection that is there or on its way, as the side that asks sees it at first.
const fn has_begun(state: State) -> bool {
    matches!(state, State::ReqSent | State::MraReqRcvd) || has_peer(state)
}

/// The peer's queue pair is known.
const fn has_peer(state: State) -> bool {
    use State::*;
    matches!(
        state,
        ReqRcvd | MraReqSent | RepRcvd | MraRepSent | RepSent | MraRepRcvd | Established
    )
}

/// Attributes for INIT.
///
/// # Errors
///
/// There is no connection, and none on its way.
pub const fn init(connection: &Connection) -> Result<Init, NotNow> {
    if !has_begun(connection.state()) {
        return Err(NotNow);
    }
    let mask = mask::STATE | mask::ACCESS_FLAGS | mask::PKEY_INDEX | mask::PORT;
    Ok(Init {
        mask,
        serves_reads: connection.responder_resources != 0,
    })
}

/// Attributes for RTR.
///
/// # Errors
///
/// The peer is unknown.
pub const fn rtr(connection: &Connection, alternate: Alternate) -> Result<Rtr, NotNow> {
    if !has_peer(connection.state()) {
        return Err(NotNow);
    }
    let mut mask = mask::STATE | mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
    if matches!(connection.transport, Transport::Rc | Transport::XrcTarget) {
        mask |= mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER;
    }
    if alternate.has_dlid && alternate.has_port {
        mask |= mask::ALT_PATH;
    }
    Ok(Rtr {
        mask,
        path_mtu: connection.path_mtu,
        dest_qp_num: connection.remote_qpn,
        rq_psn: connection.rq_psn,
        max_dest_rd_atomic: connection.responder_resources,
        alt_timeout: connection.alternate_ack_timeout,
    })
}

/// Attributes for RTS; after a LAP, those that load the alternate path.
///
/// # Errors
///
/// The peer is unknown.
pub const fn rts(connection: &Connection, alternate: Alternate) -> Result<Rts, NotNow> {
    if !has_peer(connection.state()) {
        return Err(NotNow);
    }
    let mask = match connection.lap_state() {
        LapState::Uninit => first_rts(connection.transport, alternate),
        _ => mask::ALT_PATH | mask::PATH_MIG_STATE,
    };
    Ok(Rts {
        mask,
        sq_psn: connection.sq_psn,
        retry_cnt: connection.retry_count,
        rnr_retry: connection.rnr_retry_count,
        max_rd_atomic: connection.initiator_depth,
        timeout: connection.ack_timeout,
        alt_timeout: connection.alternate_ack_timeout,
    })
}

const fn first_rts(transport: Transport, alternate: Alternate) -> u32 {
    let initiator = mask::RETRY_CNT | mask::RNR_RETRY | mask::MAX_QP_RD_ATOMIC;
    let service = match transport {
        Transport::Rc | Transport::XrcInitiator => initiator | mask::TIMEOUT,
        Transport::XrcTarget => mask::TIMEOUT,
        Transport::Uc | Transport::Unknown => 0,
    };
    let migration = if alternate.has_dlid {
        mask::PATH_MIG_STATE
    } else {
        0
    };
    mask::STATE | mask::SQ_PSN | service | migration
}
