// SPDX-License-Identifier: GPL-2.0

//! The transports RC, UC and UD as types, with their operations and the attributes of their state changes.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::ffi::c_int;
use rdma_bindings::ib_qp_attr;

use super::state::Sealed;
use crate::{
    abi::qp::QpAttrMask,
    client::{
        fill::Fill,
        op::{RcOp, UcOp, UdOp},
    },
    Access, AhFields, Mtu, QpType,
};

/// A transport service, as a type.
pub trait Transport: Sealed + Send + Sync + 'static {
    /// The transport service type.
    const TYPE: QpType;
    /// The attributes of the change to `Init`.
    type Init;
    /// The attributes of the change to `Rtr`.
    type Peer;
    /// The attributes of the change to `Rts`.
    type Sending;
    /// The operations of send requests.
    type Op<'a, 'd: 'a>: Fill<'d>;

    /// Fills in the attributes of the change to `Init`, and returns their mask.
    fn fill_init(init: &Self::Init, attr: &mut ib_qp_attr) -> QpAttrMask;
    /// Fills in the attributes of the change to `Rtr`, and returns their mask.
    fn fill_peer(peer: &Self::Peer, attr: &mut ib_qp_attr) -> QpAttrMask;
    /// Fills in the attributes of the change to `Rts`, and returns their mask.
    fn fill_sending(sending: &Self::Sending, attr: &mut ib_qp_attr) -> QpAttrMask;
}

/// Reliable connection.
pub struct Rc;
/// Unreliable connection.
pub struct Uc;
/// Unreliable datagram.
pub struct Ud;

impl Sealed for Rc {}
impl Sealed for Uc {}
impl Sealed for Ud {}

/// The attributes of a connected queue pair's change to `Init`.
#[derive(Clone, Copy, Debug)]
pub struct ConnectedInit {
    /// The port, from 1.
    pub port: u32,
    /// The index of the P_Key; 0 for RoCE.
    pub pkey_index: u16,
    /// The access that the peer has to regions that permit it too.
    pub access: Access,
}

/// The attributes of a datagram queue pair's change to `Init`.
#[derive(Clone, Copy, Debug)]
pub struct DatagramInit {
    /// The port, from 1.
    pub port: u32,
    /// The index of the P_Key; 0 for RoCE.
    pub pkey_index: u16,
    /// The Q_Key, which senders must know.
    pub qkey: u32,
}

/// The remote end of a reliable connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The path to the peer, for RoCE.
    pub path: AhFields,
    /// The MTU of the path.
    pub mtu: Mtu,
    /// The number of the peer's queue pair, 24 bits.
    pub qp_num: u32,
    /// The initial PSN of the peer, 24 bits.
    pub psn: u32,
    /// The number of RDMA READs and atomics that the peer may have outstanding, at most the device's `max_qp_rd_atom`.
    pub reads: u8,
    /// The minimum RNR NAK timer: `enum ib_rnr_timeout`, 0 to 31.
    pub rnr_timer: u8,
}

/// The sending attributes of a reliable connection.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// The initial PSN, 24 bits.
    pub psn: u32,
    /// The number of RDMA READs and atomics that this side may have outstanding, at most the peer's [`Peer::reads`].
    pub reads: u8,
    /// The acknowledgement timeout: 4.096 microseconds times two to the power of this value, up to 31; 0 for no timeout.
    pub timeout: u8,
    /// The number of retries of an unacknowledged packet, up to 7.
    pub retries: u8,
    /// The number of retries after an RNR NAK, up to 6; 7 for unlimited.
    pub rnr_retries: u8,
}

/// The remote end of an unreliable connection.
#[derive(Clone, Copy, Debug)]
pub struct UcPeer {
    /// The path to the peer, for RoCE.
    pub path: AhFields,
    /// The MTU of the path.
    pub mtu: Mtu,
    /// The number of the peer's queue pair, 24 bits.
    pub qp_num: u32,
    /// The initial PSN of the peer, 24 bits.
    pub psn: u32,
}

/// The sending attributes of an unreliable connection.
#[derive(Clone, Copy, Debug)]
pub struct UcSending {
    /// The initial PSN, 24 bits.
    pub psn: u32,
}

/// The sending attributes of a datagram queue pair.
#[derive(Clone, Copy, Debug)]
pub struct UdSending {
    /// The initial PSN, 24 bits.
    pub psn: u32,
}

fn fill_connected(init: &ConnectedInit, attr: &mut ib_qp_attr) -> QpAttrMask {
    attr.port_num = init.port;
    attr.pkey_index = init.pkey_index;
    attr.qp_access_flags = init.access.bits() as c_int;
    QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS
}

fn fill_uc_peer(peer: &UcPeer, attr: &mut ib_qp_attr) -> QpAttrMask {
    attr.ah_attr = peer.path.to_raw();
    attr.path_mtu = peer.mtu.as_raw();
    attr.dest_qp_num = peer.qp_num;
    attr.rq_psn = peer.psn;
    QpAttrMask::AV | QpAttrMask::PATH_MTU | QpAttrMask::DEST_QPN | QpAttrMask::RQ_PSN
}

fn fill_psn(psn: u32, attr: &mut ib_qp_attr) -> QpAttrMask {
    attr.sq_psn = psn;
    QpAttrMask::SQ_PSN
}

impl Transport for Rc {
    const TYPE: QpType = QpType::Rc;
    type Init = ConnectedInit;
    type Peer = Peer;
    type Sending = Sending;
    type Op<'a, 'd: 'a> = RcOp<'a, 'd>;

    fn fill_init(init: &ConnectedInit, attr: &mut ib_qp_attr) -> QpAttrMask {
        fill_connected(init, attr)
    }

    fn fill_peer(peer: &Peer, attr: &mut ib_qp_attr) -> QpAttrMask {
        attr.max_dest_rd_atomic = peer.reads;
        attr.min_rnr_timer = peer.rnr_timer;
        let same = UcPeer {
            path: peer.path,
            mtu: peer.mtu,
            qp_num: peer.qp_num,
            psn: peer.psn,
        };
        fill_uc_peer(&same, attr) | QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER
    }

    fn fill_sending(sending: &Sending, attr: &mut ib_qp_attr) -> QpAttrMask {
        attr.max_rd_atomic = sending.reads;
        attr.timeout = sending.timeout;
        attr.retry_cnt = sending.retries;
        attr.rnr_retry = sending.rnr_retries;
        fill_psn(sending.psn, attr)
            | QpAttrMask::MAX_QP_RD_ATOMIC
            | QpAttrMask::TIMEOUT
            | QpAttrMask::RETRY_CNT
            | QpAttrMask::RNR_RETRY
    }
}

impl Transport for Uc {
    const TYPE: QpType = QpType::Uc;
    type Init = ConnectedInit;
    type Peer = UcPeer;
    type Sending = UcSending;
    type Op<'a, 'd: 'a> = UcOp<'a, 'd>;

    fn fill_init(init: &ConnectedInit, attr: &mut ib_qp_attr) -> QpAttrMask {
        fill_connected(init, attr)
    }

    fn fill_peer(peer: &UcPeer, attr: &mut ib_qp_attr) -> QpAttrMask {
        fill_uc_peer(peer, attr)
    }

    fn fill_sending(sending: &UcSending, attr: &mut ib_qp_attr) -> QpAttrMask {
        fill_psn(sending.psn, attr)
    }
}

impl Transport for Ud {
    const TYPE: QpType = QpType::Ud;
    type Init = DatagramInit;
    type Peer = ();
    type Sending = UdSending;
    type Op<'a, 'd: 'a> = UdOp<'a, 'd>;

    fn fill_init(init: &DatagramInit, attr: &mut ib_qp_attr) -> QpAttrMask {
        attr.port_num = init.port;
        attr.pkey_index = init.pkey_index;
        attr.qkey = init.qkey;
        QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::QKEY
    }

    fn fill_peer(_peer: &(), _attr: &mut ib_qp_attr) -> QpAttrMask {
        QpAttrMask::empty()
    }

    fn fill_sending(sending: &UdSending, attr: &mut ib_qp_attr) -> QpAttrMask {
        fill_psn(sending.psn, attr)
    }
}
