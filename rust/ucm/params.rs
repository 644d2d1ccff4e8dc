// SPDX-License-Identifier: GPL-2.0

//! What a program passes with its calls.
//!
//! C headers: `include/rdma/rdma_cm.h`, `include/uapi/rdma/rdma_user_cm.h`.

use rdma::bindings::{self, rdma_conn_param, rdma_ucm_ece, rdma_ucm_ib_service};

/// The parameters of a connection: `struct rdma_ucm_conn_param`.
pub struct ConnParam {
    /// The number of the queue pair, of which 24 bits count.
    pub qp_num: u32,
    /// The Q_Key; for identifiers with an address of the family `AF_IB`.
    pub qkey: u32,
    /// The private data.
    pub private_data: [u8; bindings::RDMA_MAX_PRIVATE_DATA as usize],
    /// How many bytes of it are for the peer.
    pub private_data_len: u8,
    /// Whether the queue pair has a shared receive queue.
    pub srq: u8,
    /// The number of RDMA READs and atomics that the peer may have outstanding.
    pub responder_resources: u8,
    /// The number of RDMA READs and atomics that this side may have outstanding.
    pub initiator_depth: u8,
    /// Whether the hardware has flow control.
    pub flow_control: u8,
    /// The number of retries of an unacknowledged packet.
    pub retry_count: u8,
    /// The number of retries after an RNR NAK.
    pub rnr_retry_count: u8,
}

impl ConnParam {
    /// The C structure, which refers to the private data of `self`.
    pub(crate) fn to_raw(&self, has_qkey: bool) -> rdma_conn_param {
        rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: self.private_data_len,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: self.flow_control,
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            srq: self.srq,
            qp_num: self.qp_num & 0xff_ffff,
            qkey: if has_qkey { self.qkey } else { 0 },
        }
    }
}

/// Enhanced connection establishment: options of a vendor, which both sides negotiate.
#[derive(Clone, Copy, Default)]
pub struct Ece {
    /// The vendor.
    pub vendor_id: u32,
    /// What it means is the vendor's matter.
    pub attr_mod: u32,
}

impl Ece {
    pub(crate) fn to_raw(self) -> rdma_ucm_ece {
        rdma_ucm_ece {
            vendor_id: self.vendor_id,
            attr_mod: self.attr_mod,
        }
    }
}

/// An option of an identifier.
#[derive(Clone, Copy)]
pub enum Setting {
    /// The type of service of its packets.
    Tos(u8),
    /// Whether the port may be in use by another identifier that allows it, too.
    ReuseAddr(bool),
    /// Whether a wildcard address means its own family alone.
    AfOnly(bool),
    /// The timeout for acknowledgements: an exponent, in units of 4.096 microseconds.
    AckTimeout(u8),
}

/// A service of an InfiniBand fabric that is looked up: `struct rdma_ucm_ib_service`.
#[derive(Clone, Copy)]
pub struct IbService {
    /// Its ID.
    pub service_id: u64,
    /// Its name.
    pub service_name: [u8; bindings::RDMA_USER_CM_IB_SERVICE_NAME_SIZE as usize],
    /// Which of the two count, `RDMA_USER_CM_IB_SERVICE_FLAG_*`.
    pub flags: u32,
}

impl IbService {
    pub(crate) fn to_raw(self) -> rdma_ucm_ib_service {
        rdma_ucm_ib_service {
            service_id: self.service_id,
            service_name: self.service_name,
            flags: self.flags,
            reserved: 0,
        }
    }
}
