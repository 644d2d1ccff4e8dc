// SPDX-License-Identifier: GPL-2.0

//! Events of connections: `struct ib_cm_event`.
//!
//! An event is made by the function that is named after it, of what the message brings. Private data and further information are parts of
//! the message, in their full length, so that a client may read as much as the header says.
//!
//! C header: `include/rdma/ib_cm.h`.

use core::{marker::PhantomData, ptr::null_mut};

use kernel::{ffi::c_void, sync::Arc};
use rdma_bindings::{
    self as bindings, ib_cm_event, ib_cm_rep_event_param, ib_cm_req_event_param, rdma_ucm_ece,
};

use super::id::IdBody;
use crate::core::{
    address_vector::Sgid,
    mad::{c_pointer, Embeds},
    path::Path,
};

/// The lengths of private data in bytes: `enum ib_cm_data_size`.
pub mod length {
    use rdma_bindings as bindings;

    /// Of a REQ.
    pub const REQ: usize = bindings::IB_CM_REQ_PRIVATE_DATA_SIZE as usize;
    /// Of an MRA.
    pub const MRA: usize = bindings::IB_CM_MRA_PRIVATE_DATA_SIZE as usize;
    /// Of a REJ.
    pub const REJ: usize = bindings::IB_CM_REJ_PRIVATE_DATA_SIZE as usize;
    /// Of a REP.
    pub const REP: usize = bindings::IB_CM_REP_PRIVATE_DATA_SIZE as usize;
    /// Of an RTU.
    pub const RTU: usize = bindings::IB_CM_RTU_PRIVATE_DATA_SIZE as usize;
    /// Of a DREQ.
    pub const DREQ: usize = bindings::IB_CM_DREQ_PRIVATE_DATA_SIZE as usize;
    /// Of a DREP.
    pub const DREP: usize = bindings::IB_CM_DREP_PRIVATE_DATA_SIZE as usize;
    /// Of a LAP.
    pub const LAP: usize = bindings::IB_CM_LAP_PRIVATE_DATA_SIZE as usize;
    /// Of an APR.
    pub const APR: usize = bindings::IB_CM_APR_PRIVATE_DATA_SIZE as usize;
    /// Of a SIDR_REQ.
    pub const SIDR_REQ: usize = bindings::IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE as usize;
    /// Of a SIDR_REP.
    pub const SIDR_REP: usize = bindings::IB_CM_SIDR_REP_PRIVATE_DATA_SIZE as usize;
    /// Of the further information of a REJ, an APR and a SIDR_REP.
    pub const INFO: usize = bindings::IB_CM_REJ_ARI_LENGTH as usize;
}

/// An event that can be told.
///
/// # Invariants
///
/// The pointers of the structure are null or valid for `'a`, the private data for as many bytes as the header says.
pub struct Event<'a> {
    raw: ib_cm_event,
    _message: PhantomData<&'a ()>,
}

/// The options of the vendor: `struct rdma_ucm_ece`.
#[derive(Clone, Copy)]
pub struct Ece {
    /// The vendor.
    pub vendor_id: u32,
    /// Its options.
    pub attr_mod: u32,
}

impl Ece {
    fn to_raw(self) -> rdma_ucm_ece {
        rdma_ucm_ece {
            vendor_id: self.vendor_id,
            attr_mod: self.attr_mod,
        }
    }
}

/// What a request for a connection says: `struct ib_cm_req_event_param`.
pub struct Request<'a> {
    /// The partition key of the datagram, 0 if it is unknown.
    pub bth_pkey: u16,
    /// The port.
    pub port: u8,
    /// The paths from here to who asks.
    pub primary_path: &'a Path,
    /// The other one, if there is one.
    pub alternate_path: Option<&'a Path>,
    /// The local GID.
    pub sgid: Option<Sgid<'a>>,
    /// Who asks, in network byte order.
    pub remote_ca_guid: u64,
    /// The Q_Key of its queue pair.
    pub remote_qkey: u32,
    /// The number of its queue pair.
    pub remote_qpn: u32,
    /// The type of that: `enum ib_qp_type`.
    pub qp_type: u32,
    /// Its first PSN.
    pub starting_psn: u32,
    /// READs that the peer may ask for.
    pub responder_resources: u8,
    /// READs that it may be asked for.
    pub initiator_depth: u8,
    /// How long the client may take: 4.096 µs × 2^n.
    pub local_cm_response_timeout: u8,
    /// How long the peer takes.
    pub remote_cm_response_timeout: u8,
    /// Whether the peer has flow control from end to end.
    pub flow_control: bool,
    /// Retries without an acknowledgement.
    pub retry_count: u8,
    /// Retries without a receive request.
    pub rnr_retry_count: u8,
    /// Whether the peer has an SRQ.
    pub srq: bool,
    /// The options of the vendor.
    pub ece: Ece,
}

/// What a reply says: `struct ib_cm_rep_event_param`.
pub struct Reply {
    /// Who answers, in network byte order.
    pub remote_ca_guid: u64,
    /// The Q_Key of its queue pair.
    pub remote_qkey: u32,
    /// The number of its queue pair.
    pub remote_qpn: u32,
    /// Its first PSN.
    pub starting_psn: u32,
    /// READs that the peer may ask for.
    pub responder_resources: u8,
    /// READs that it may be asked for.
    pub initiator_depth: u8,
    /// How long it takes to acknowledge: 4.096 µs × 2^n.
    pub target_ack_delay: u8,
    /// Whether it takes the alternate path: 0 is yes.
    pub failover_accepted: u8,
    /// Whether the peer has flow control from end to end.
    pub flow_control: bool,
    /// Retries without a receive request.
    pub rnr_retry_count: u8,
    /// Whether the peer has an SRQ.
    pub srq: bool,
    /// The options of the vendor.
    pub ece: Ece,
}

/// A message that was not answered in time, or could not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// A REQ.
    Req,
    /// A REP.
    Rep,
    /// A DREQ.
    Dreq,
    /// A LAP.
    Lap,
    /// A SIDR_REQ.
    SidrReq,
}

/// An answer to a SIDR_REQ: `struct ib_cm_sidr_rep_event_param`.
pub struct Resolved<'a> {
    /// `enum ib_cm_sidr_status`.
    pub status: u32,
    /// The Q_Key.
    pub qkey: u32,
    /// The number of the queue pair.
    pub qpn: u32,
    /// Further information, and how many bytes of it are meant.
    pub info: &'a [u8; length::INFO],
    /// See `info`.
    pub info_length: u8,
    /// The local GID.
    pub sgid: Option<Sgid<'a>>,
}

/// A request for a service: `struct ib_cm_sidr_req_event_param`.
pub struct Asked<'a> {
    /// The service, in network byte order.
    pub service_id: u64,
    /// The local GID.
    pub sgid: Option<Sgid<'a>>,
    /// The partition key of the datagram, 0 if it is unknown.
    pub bth_pkey: u16,
    /// The port.
    pub port: u8,
    /// The partition key that is asked for.
    pub pkey: u16,
}

fn gid(sgid: Option<Sgid<'_>>) -> *const bindings::ib_gid_attr {
    sgid.map_or(core::ptr::null(), Sgid::as_raw)
}

/// A path for a client, which does not write to it.
fn path(path: &Path) -> *mut bindings::sa_path_rec {
    core::ptr::from_ref(path.raw()).cast_mut()
}

impl<'a> Event<'a> {
    fn new(kind: bindings::ib_cm_event_type, data: *const c_void) -> Self {
        let mut raw: ib_cm_event = pin_init::zeroed();
        raw.event = kind;
        raw.private_data = data.cast_mut();
        // INVARIANT: The caller, a function below, passes null or the private data of the event.
        Self {
            raw,
            _message: PhantomData,
        }
    }

    fn with_data<const N: usize>(kind: bindings::ib_cm_event_type, data: &'a [u8; N]) -> Self {
        Self::new(kind, data.as_ptr().cast())
    }

    /// The C structure.
    pub(super) fn as_raw(&self) -> *const ib_cm_event {
        &self.raw
    }

    /// A peer asks a listener for a connection.
    pub fn req<T: Embeds<Body = IdBody>>(
        listener: &'a Arc<T>,
        request: &Request<'a>,
        data: &'a [u8; length::REQ],
    ) -> Self {
        let mut event = Self::with_data(bindings::IB_CM_REQ_RECEIVED, data);
        let mut param: ib_cm_req_event_param = pin_init::zeroed();
        param.listen_id = c_pointer(listener);
        param.bth_pkey = request.bth_pkey;
        param.port = request.port;
        param.primary_path = path(request.primary_path);
        param.alternate_path = request.alternate_path.map_or(null_mut(), path);
        param.ppath_sgid_attr = gid(request.sgid);
        param.remote_ca_guid = request.remote_ca_guid;
        param.remote_qkey = request.remote_qkey;
        param.remote_qpn = request.remote_qpn;
        param.qp_type = request.qp_type;
        param.starting_psn = request.starting_psn;
        param.responder_resources = request.responder_resources;
        param.initiator_depth = request.initiator_depth;
        param.set_local_cm_response_timeout(request.local_cm_response_timeout.into());
        param.set_flow_control(request.flow_control.into());
        param.set_remote_cm_response_timeout(request.remote_cm_response_timeout.into());
        param.set_retry_count(request.retry_count.into());
        // SAFETY: The structure is valid: it is a variable of this function.
        unsafe { bindings::cm_set_req_retries(&mut param, request.rnr_retry_count, request.srq) };
        param.ece = request.ece.to_raw();
        event.raw.param.req_rcvd = param;
        event
    }

    /// A peer has agreed.
    pub fn rep(reply: &Reply, data: &'a [u8; length::REP]) -> Self {
        let mut event = Self::with_data(bindings::IB_CM_REP_RECEIVED, data);
        let mut param: ib_cm_rep_event_param = pin_init::zeroed();
        param.remote_ca_guid = reply.remote_ca_guid;
        param.remote_qkey = reply.remote_qkey;
        param.remote_qpn = reply.remote_qpn;
        param.starting_psn = reply.starting_psn;
        param.responder_resources = reply.responder_resources;
        param.initiator_depth = reply.initiator_depth;
        param.set_target_ack_delay(reply.target_ack_delay.into());
        param.set_failover_accepted(reply.failover_accepted.into());
        param.set_flow_control(reply.flow_control.into());
        param.set_rnr_retry_count(reply.rnr_retry_count.into());
        param.set_srq(reply.srq.into());
        param.ece = reply.ece.to_raw();
        event.raw.param.rep_rcvd = param;
        event
    }

    /// The peer is ready: the connection is there.
    pub fn rtu(data: &'a [u8; length::RTU]) -> Self {
        Self::with_data(bindings::IB_CM_RTU_RECEIVED, data)
    }

    /// The connection is there, as the client has said.
    pub fn user_established() -> Self {
        Self::new(bindings::IB_CM_USER_ESTABLISHED, null_mut())
    }

    /// The peer disconnects.
    pub fn dreq(data: &'a [u8; length::DREQ]) -> Self {
        Self::with_data(bindings::IB_CM_DREQ_RECEIVED, data)
    }

    /// The peer has agreed to disconnect.
    pub fn drep(data: &'a [u8; length::DREP]) -> Self {
        Self::with_data(bindings::IB_CM_DREP_RECEIVED, data)
    }

    /// The time has passed in which datagrams of the connection may come.
    pub fn timewait_exit() -> Self {
        Self::new(bindings::IB_CM_TIMEWAIT_EXIT, null_mut())
    }

    /// The peer needs more time: 4.096 µs × 2^n.
    pub fn mra(service_timeout: u8, data: &'a [u8; length::MRA]) -> Self {
        let mut event = Self::with_data(bindings::IB_CM_MRA_RECEIVED, data);
        event.raw.param.mra_rcvd.service_timeout = service_timeout;
        event
    }

    /// The peer has refused: `enum ib_cm_rej_reason`, further information, and how many bytes of that are meant.
    pub fn rej(
        reason: u16,
        info: &'a [u8; length::INFO],
        info_length: u8,
        data: &'a [u8; length::REJ],
    ) -> Self {
        let mut event = Self::with_data(bindings::IB_CM_REJ_RECEIVED, data);
        event.raw.param.rej_rcvd = bindings::ib_cm_rej_event_param {
            reason: reason.into(),
            ari: info.as_ptr().cast_mut().cast(),
            ari_length: info_length,
        };
        event
    }

    /// The peer offers an alternate path.
    pub fn lap(alternate_path: &'a Path, data: &'a [u8; length::LAP]) -> Self {
        let mut event = Self::with_data(bindings::IB_CM_LAP_RECEIVED, data);
        event.raw.param.lap_rcvd.alternate_path = path(alternate_path);
        event
    }

    /// The peer has answered an alternate path: `enum ib_cm_apr_status`, further information, and how many bytes of that are meant.
    pub fn apr(
        status: u8,
        info: &'a [u8; length::INFO],
        info_length: u8,
        data: &'a [u8; length::APR],
    ) -> Self {
        let mut event = Self::with_data(bindings::IB_CM_APR_RECEIVED, data);
        event.raw.param.apr_rcvd = bindings::ib_cm_apr_event_param {
            ap_status: status.into(),
            apr_info: info.as_ptr().cast_mut().cast(),
            info_len: info_length,
        };
        event
    }

    /// A peer asks a listener for the queue pair of a service.
    pub fn sidr_req<T: Embeds<Body = IdBody>>(
        listener: &'a Arc<T>,
        asked: &Asked<'a>,
        data: &'a [u8; length::SIDR_REQ],
    ) -> Self {
        let mut event = Self::with_data(bindings::IB_CM_SIDR_REQ_RECEIVED, data);
        event.raw.param.sidr_req_rcvd = bindings::ib_cm_sidr_req_event_param {
            listen_id: c_pointer(listener),
            service_id: asked.service_id,
            sgid_attr: gid(asked.sgid),
            bth_pkey: asked.bth_pkey,
            port: asked.port,
            pkey: asked.pkey,
        };
        event
    }

    /// The peer has answered which queue pair a service has.
    pub fn sidr_rep(resolved: &Resolved<'a>, data: &'a [u8; length::SIDR_REP]) -> Self {
        let mut event = Self::with_data(bindings::IB_CM_SIDR_REP_RECEIVED, data);
        event.raw.param.sidr_rep_rcvd = bindings::ib_cm_sidr_rep_event_param {
            status: resolved.status,
            qkey: resolved.qkey,
            qpn: resolved.qpn,
            info: resolved.info.as_ptr().cast_mut().cast(),
            sgid_attr: gid(resolved.sgid),
            info_len: resolved.info_length,
        };
        event
    }

    /// A message was not answered, or could not be sent: `enum ib_wc_status`.
    pub fn unanswered(message: Unanswered, status: u32) -> Self {
        let kind = match message {
            Unanswered::Req => bindings::IB_CM_REQ_ERROR,
            Unanswered::Rep => bindings::IB_CM_REP_ERROR,
            Unanswered::Dreq => bindings::IB_CM_DREQ_ERROR,
            Unanswered::Lap => bindings::IB_CM_LAP_ERROR,
            Unanswered::SidrReq => bindings::IB_CM_SIDR_REQ_ERROR,
        };
        let mut event = Self::new(kind, null_mut());
        event.raw.param.send_status = status;
        event
    }
}
