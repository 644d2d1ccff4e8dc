// SPDX-License-Identifier: GPL-2.0

//! The transports RC, UC and UD as types: the attributes that each needs to change state, and the operations that it has.
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
    /// The service.
    const TYPE: QpType;
    /// What a queue pair is initialised with.
    type Init;
    /// Whom it receives from.
    type Peer;
    /// How it sends.
    type Sending;
    /// What a request to send may ask for.
    type Op<'a, 'd: 'a>: Fill<'d>;

    /// Fills in what the change to `Init` sets. Returns what that is.
    fn fill_init(init: &Self::Init, attr: &mut ib_qp_attr) -> QpAttrMask;
    /// As above, for the change to `Rtr`.
    fn fill_peer(peer: &Self::Peer, attr: &mut ib_qp_attr) -> QpAttrMask;
    /// As above, for the change to `Rts`.
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

/// What a queue pair of a connection is initialised with.
#[derive(Clone, Copy, Debug)]
pub struct ConnectedInit {
    /// The port, from 1.
    pub port: u32,
    /// The index of the P_Key; 0 for RoCE.
    pub pkey_index: u16,
    /// What the peer may do with regions that allow it too.
    pub access: Access,
}

/// What a queue pair for datagrams is initialised with.
#[derive(Clone, Copy, Debug)]
pub struct DatagramInit {
    /// The port, from 1.
    pub port: u32,
    /// The index of the P_Key; 0 for RoCE.
    pub pkey_index: u16,
    /// Its Q_Key, which senders must know.
    pub qkey: u32,
}

/// The other end of a reliable connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The path to it, for RoCE.
    pub path: AhFields,
    /// The MTU of the path.
    pub mtu: Mtu,
    /// The number of its queue pair, 24 bits.
    pub qp_num: u32,
    /// The number of the first packet that it sends, 24 bits.
    pub psn: u32,
    /// How many of its RDMA READs and atomic operations may be under way: up to the device's `max_qp_rd_atom`.
    pub reads: u8,
    /// How long it waits when there is no request to receive: `enum ib_rnr_timeout`, 0 to 31.
    pub rnr_timer: u8,
}

/// How a reliable connection sends.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// The number of the first packet, 24 bits.
    pub psn: u32,
    /// How many RDMA READs and atomic operations may be under way: up to the peer's [`Peer::reads`].
    pub reads: u8,
    /// How long an acknowledgement is waited for: 4.096 microseconds times two to the power of this, up to 31; 0: for ever.
    pub timeout: u8,
    /// How often a packet is sent again that is not acknowledged, up to 7.
    pub retries: u8,
    /// How often one is for which the peer was not ready, up to 6; 7: for ever.
    pub rnr_retries: u8,
}

/// The other end of an unreliable connection.
#[derive(Clone, Copy, Debug)]
pub struct UcPeer {
    /// The path to it, for RoCE.
    pub path: AhFields,
    /// The MTU of the path.
    pub mtu: Mtu,
    /// The number of its queue pair, 24 bits.
    pub qp_num: u32,
    /// The number of the first packet that it sends, 24 bits.
    pub psn: u32,
}

/// How an unreliable connection sends.
#[derive(Clone, Copy, Debug)]
pub struct UcSending {
    /// The number of the first packet, 24 bits.
    pub psn: u32,
}

/// How a queue pair for datagrams sends.
#[derive(Clone, Copy, Debug)]
pub struct UdSending {
    /// The number of the first packet, 24 bits.
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
