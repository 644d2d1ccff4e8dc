// SPDX-License-Identifier: GPL-2.0

//! Events of an identifier, with what each of them carries: `struct rdma_cm_event`.
//!
//! C header: `include/rdma/rdma_cm.h`.

use kernel::{error::to_result, prelude::*};
use rdma::{
    bindings::{self, ib_qp_type, rdma_cm_event, rdma_conn_param, rdma_ud_param},
    client::{Ah, Pd},
    AhFields, MaySleep,
};

use crate::{Ece, Reason};

/// An event: `enum rdma_cm_event_type`. `RDMA_CM_EVENT_INTERNAL` is told to nobody.
#[derive(Debug)]
pub enum Event {
    /// The address is resolved: the identifier has a device.
    AddrResolved,
    /// The address is not resolved.
    AddrError(Error),
    /// The route is resolved.
    RouteResolved,
    /// The route is not resolved.
    RouteError(Error),
    /// A peer asks for a connection, with these parameters.
    ConnectRequest(Offer),
    /// A peer asks for the queue pair of a service of datagrams: the private data.
    Lookup(KVec<u8>),
    /// The peer has replied, with these parameters.
    ConnectResponse(Offer),
    /// The connection failed on this side.
    ConnectError(Error),
    /// The peer does not reply; or the service of datagrams is not to be had.
    Unreachable(Unreachable),
    /// The peer rejects the connection.
    Rejected(Rejection),
    /// The connection is established, with the private data of the peer.
    Established(KVec<u8>),
    /// The peer of datagrams has replied: the queue pair to send to, and the private data.
    Found(Remote, KVec<u8>),
    /// The connection is closed.
    Disconnected,
    /// The device is being removed: the identifier has to go. Told to listeners of [`any_device`](crate::any_device) alone, because the
    /// identifiers of a device are gone before: a client leaves it earlier than the connection manager, which was there first.
    DeviceRemoval,
    /// A multicast group is joined: where to send to, and the number that it was joined with.
    MulticastJoin(Remote, usize),
    /// A multicast group is not joined, or is lost; with its number.
    MulticastError(Error, usize),
    /// The address has moved to another net device, as in a bond.
    AddrChange,
    /// The queue pair of a closed connection may be used again.
    TimewaitExit,
    /// A service of the fabric is resolved.
    AddrInfoResolved,
    /// A service of the fabric is not resolved.
    AddrInfoError(Error),
    /// An event that its user has written, with a number.
    User(u64),
}

/// The parameters of a connection that a peer asks for, or replies with: `struct rdma_conn_param`.
#[derive(Debug, Default)]
pub struct Offer {
    /// The private data, padded at the end.
    pub private_data: KVec<u8>,
    /// The number of RDMA READs and atomics that this side may accept.
    pub responder_resources: u8,
    /// The number of RDMA READs and atomics that this side may have outstanding.
    pub initiator_depth: u8,
    /// Whether the peer has flow control.
    pub flow_control: bool,
    /// The number of retries of an unacknowledged packet; requests only.
    pub retries: u8,
    /// The number of retries after an RNR NAK; 7 for unlimited.
    pub rnr_retries: u8,
    /// Whether the queue pair of the peer has an SRQ.
    pub has_srq: bool,
    /// The number of the queue pair of the peer.
    pub qp_num: u32,
    /// The options of its device's vendor.
    pub ece: Ece,
}

/// A destination of datagrams: a queue pair, or a multicast group.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// The path.
    pub path: AhFields,
    /// The number of the queue pair; 0xffffff for a group.
    pub qp_num: u32,
    /// The Q_Key of the queue pair, or of the group.
    pub qkey: u32,
}

impl Remote {
    /// Creates the address handle.
    ///
    /// # Errors
    ///
    /// Those of [`Ah::new`].
    pub fn ah<'d>(&self, pd: &Pd<'d>, sleep: &MaySleep) -> Result<Ah<'d>> {
        Ah::new(pd, &self.path, sleep)
    }
}

/// Why there is no reply.
#[derive(Debug)]
pub enum Unreachable {
    /// An error of this side, such as `ETIMEDOUT`.
    Error(Error),
    /// The peer has refused to tell the queue pair of a service of datagrams: `enum ib_cm_sidr_status`, and the private data.
    Refused(u32, KVec<u8>),
}

/// A rejection of a connection.
#[derive(Debug)]
pub struct Rejection {
    /// The reason; `None` for iWARP, which has none.
    pub reason: Option<Reason>,
    /// The private data, padded at the end.
    pub private_data: KVec<u8>,
}

/// `ECONNREFUSED`.
pub(crate) fn refused() -> Error {
    Error::from_errno(-(bindings::ECONNREFUSED as i32))
}

/// The error of a status.
fn error(status: i32) -> Error {
    to_result(status).err().unwrap_or(ETIMEDOUT)
}

impl Event {
    /// What the event says to who waits for another one: an error, or nothing.
    pub(crate) fn failure(&self) -> Option<Error> {
        match self {
            Self::Rejected(_)
            | Self::Unreachable(Unreachable::Refused(..))
            | Self::Disconnected
            | Self::DeviceRemoval => Some(refused()),
            Self::AddrError(error)
            | Self::RouteError(error)
            | Self::ConnectError(error)
            | Self::MulticastError(error, _)
            | Self::Unreachable(Unreachable::Error(error)) => Some(*error),
            _ => None,
        }
    }

    /// The event; `None` for a type that is not known.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The connection manager tells the event to an identifier of this type of queue pair.
    pub(crate) unsafe fn from_raw(
        event: &rdma_cm_event,
        qp_type: ib_qp_type,
    ) -> Result<Option<Self>> {
        let is_ud = qp_type == bindings::IB_QPT_UD;
        let (status, param) = (event.status, &event.param);
        let ece = Ece::from_raw(&event.ece);
        // SAFETY: By the safety requirements: the types of the event and of the queue pair select the member of the union, and with
        // it private data of this length.
        let event = unsafe {
            match event.event {
                bindings::RDMA_CM_EVENT_ADDR_RESOLVED => Self::AddrResolved,
                bindings::RDMA_CM_EVENT_ADDR_ERROR => Self::AddrError(error(status)),
                bindings::RDMA_CM_EVENT_ROUTE_RESOLVED => Self::RouteResolved,
                bindings::RDMA_CM_EVENT_ROUTE_ERROR => Self::RouteError(error(status)),
                bindings::RDMA_CM_EVENT_CONNECT_REQUEST if is_ud => {
                    Self::Lookup(ud_data(&param.ud)?)
                }
                bindings::RDMA_CM_EVENT_CONNECT_REQUEST => {
                    Self::ConnectRequest(Offer::from_raw(&param.conn, ece)?)
                }
                bindings::RDMA_CM_EVENT_CONNECT_RESPONSE => {
                    Self::ConnectResponse(Offer::from_raw(&param.conn, ece)?)
                }
                bindings::RDMA_CM_EVENT_CONNECT_ERROR => Self::ConnectError(error(status)),
                bindings::RDMA_CM_EVENT_UNREACHABLE => Self::Unreachable(match status {
                    1.. if is_ud => Unreachable::Refused(status as u32, ud_data(&param.ud)?),
                    _ => Unreachable::Error(error(status)),
                }),
                bindings::RDMA_CM_EVENT_REJECTED => Self::Rejected(Rejection {
                    reason: Reason::of_status(status),
                    private_data: conn_data(&param.conn)?,
                }),
                bindings::RDMA_CM_EVENT_ESTABLISHED if is_ud => {
                    Self::Found(Remote::from_raw(&param.ud), ud_data(&param.ud)?)
                }
                bindings::RDMA_CM_EVENT_ESTABLISHED => Self::Established(conn_data(&param.conn)?),
                bindings::RDMA_CM_EVENT_DISCONNECTED => Self::Disconnected,
                bindings::RDMA_CM_EVENT_DEVICE_REMOVAL => Self::DeviceRemoval,
                bindings::RDMA_CM_EVENT_MULTICAST_JOIN => {
                    Self::MulticastJoin(Remote::from_raw(&param.ud), group(&param.ud))
                }
                bindings::RDMA_CM_EVENT_MULTICAST_ERROR => {
                    Self::MulticastError(error(status), group(&param.ud))
                }
                bindings::RDMA_CM_EVENT_ADDR_CHANGE => Self::AddrChange,
                bindings::RDMA_CM_EVENT_TIMEWAIT_EXIT => Self::TimewaitExit,
                bindings::RDMA_CM_EVENT_ADDRINFO_RESOLVED => Self::AddrInfoResolved,
                bindings::RDMA_CM_EVENT_ADDRINFO_ERROR => Self::AddrInfoError(error(status)),
                bindings::RDMA_CM_EVENT_USER => Self::User(param.arg),
                _ => return Ok(None),
            }
        };
        Ok(Some(event))
    }
}

impl Offer {
    /// # Safety
    ///
    /// The parameters are those of an event.
    unsafe fn from_raw(raw: &rdma_conn_param, ece: Ece) -> Result<Self> {
        Ok(Self {
            // SAFETY: By the safety requirements.
            private_data: unsafe { conn_data(raw) }?,
            responder_resources: raw.responder_resources,
            initiator_depth: raw.initiator_depth,
            flow_control: raw.flow_control != 0,
            retries: raw.retry_count,
            rnr_retries: raw.rnr_retry_count,
            has_srq: raw.srq != 0,
            qp_num: raw.qp_num,
            ece,
        })
    }
}

impl Remote {
    fn from_raw(raw: &rdma_ud_param) -> Self {
        Self {
            path: AhFields::from_raw(&raw.ah_attr),
            qp_num: raw.qp_num,
            qkey: raw.qkey,
        }
    }
}

/// The number of a group: in the place of private data is what it was joined with.
fn group(raw: &rdma_ud_param) -> usize {
    raw.private_data.addr()
}

/// # Safety
///
/// The parameters are those of an event.
unsafe fn conn_data(raw: &rdma_conn_param) -> Result<KVec<u8>> {
    // SAFETY: By the safety requirements.
    unsafe { copy(raw.private_data.cast(), raw.private_data_len) }
}

/// # Safety
///
/// The parameters are those of an event that is not about a multicast group.
unsafe fn ud_data(raw: &rdma_ud_param) -> Result<KVec<u8>> {
    // SAFETY: By the safety requirements.
    unsafe { copy(raw.private_data.cast(), raw.private_data_len) }
}

/// # Safety
///
/// `from` is valid for reads of `length` bytes, or null.
unsafe fn copy(from: *const u8, length: u8) -> Result<KVec<u8>> {
    let mut bytes = KVec::new();
    if !from.is_null() && length != 0 {
        // SAFETY: By the safety requirements.
        let data = unsafe { core::slice::from_raw_parts(from, length.into()) };
        bytes.extend_from_slice(data, GFP_KERNEL)?;
    }
    Ok(bytes)
}
