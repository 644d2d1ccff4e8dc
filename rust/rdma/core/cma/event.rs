// SPDX-License-Identifier: GPL-2.0

//! Events of identifiers: `struct rdma_cm_event`.
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::marker::PhantomData;

use kernel::ffi::{c_int, c_void};
use kernel_ext::entry::FromC;
use rdma_bindings::{self as bindings, rdma_cm_event, rdma_conn_param, rdma_ud_param};

use crate::core::{address_vector::AddressVector, cm::event::Ece};

/// An event that can be told.
///
/// # Invariants
///
/// The private data is null, or valid for `'a` in its length. The address vector is that of `vector`.
pub struct Event<'a> {
    raw: rdma_cm_event,
    _vector: Option<AddressVector>,
    _data: PhantomData<&'a ()>,
}

/// What a peer says of a connection: `struct rdma_conn_param`.
#[derive(Default)]
pub struct Connection<'a> {
    /// Private data.
    pub private_data: &'a [u8],
    /// READs that the peer may ask for.
    pub responder_resources: u8,
    /// READs that the peer may be asked for.
    pub initiator_depth: u8,
    /// Whether the peer has flow control from end to end.
    pub flow_control: u8,
    /// Retries without an acknowledgement.
    pub retry_count: u8,
    /// Retries without a receive request.
    pub rnr_retry_count: u8,
    /// Whether the peer has an SRQ.
    pub srq: u8,
    /// The number of its queue pair.
    pub qp_num: u32,
    /// The options of the vendor.
    pub ece: Option<Ece>,
}

/// What is known of where datagrams are sent to: `struct rdma_ud_param`.
#[derive(Default)]
pub struct Datagram<'a> {
    /// Private data.
    pub private_data: &'a [u8],
    /// The address.
    pub vector: Option<AddressVector>,
    /// The number of the queue pair.
    pub qp_num: u32,
    /// The Q_Key.
    pub qkey: u32,
}

/// What a client has joined a group with, and finds in the events of it.
#[derive(Clone, Copy)]
pub struct GroupContext(*mut c_void);

// SAFETY: Nobody but the client looks into it.
unsafe impl Send for GroupContext {}
// SAFETY: Nobody but the client looks into it.
unsafe impl Sync for GroupContext {}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for GroupContext {
    type Raw = *mut c_void;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

fn parts(data: &[u8]) -> (*const c_void, u8) {
    match data.is_empty() {
        true => (core::ptr::null(), 0),
        false => (
            data.as_ptr().cast(),
            u8::try_from(data.len()).unwrap_or(u8::MAX),
        ),
    }
}

impl<'a> Event<'a> {
    fn make(kind: u32, status: c_int) -> Self {
        let mut raw: rdma_cm_event = pin_init::zeroed();
        raw.event = kind;
        raw.status = status;
        // INVARIANT: There is no private data and no address vector.
        Self {
            raw,
            _vector: None,
            _data: PhantomData,
        }
    }

    /// An event without parameters, with its kind (`enum rdma_cm_event_type`) and status.
    pub fn plain(kind: u32, status: c_int) -> Self {
        Self::make(kind, status)
    }

    /// An event of a connection.
    pub fn of_connection(kind: u32, status: c_int, connection: &Connection<'a>) -> Self {
        let mut event = Self::make(kind, status);
        let (private_data, private_data_len) = parts(connection.private_data);
        event.raw.param.conn = rdma_conn_param {
            private_data,
            private_data_len,
            responder_resources: connection.responder_resources,
            initiator_depth: connection.initiator_depth,
            flow_control: connection.flow_control,
            retry_count: connection.retry_count,
            rnr_retry_count: connection.rnr_retry_count,
            srq: connection.srq,
            qp_num: connection.qp_num,
            qkey: 0,
        };
        if let Some(ece) = connection.ece {
            event.raw.ece = bindings::rdma_ucm_ece {
                vendor_id: ece.vendor_id,
                attr_mod: ece.attr_mod,
            };
        }
        event
    }

    /// An event of datagrams.
    pub fn of_datagram(kind: u32, status: c_int, datagram: Datagram<'a>) -> Self {
        let mut event = Self::make(kind, status);
        let (private_data, private_data_len) = parts(datagram.private_data);
        event.set_datagram(private_data, private_data_len, datagram);
        event
    }

    /// An event of a group.
    pub fn of_group(
        kind: u32,
        status: c_int,
        context: GroupContext,
        datagram: Datagram<'a>,
    ) -> Self {
        let mut event = Self::make(kind, status);
        event.set_datagram(context.0, 0, datagram);
        event
    }

    fn set_datagram(&mut self, private_data: *const c_void, length: u8, datagram: Datagram<'a>) {
        let mut param: rdma_ud_param = pin_init::zeroed();
        param.private_data = private_data;
        param.private_data_len = length;
        param.qp_num = datagram.qp_num;
        param.qkey = datagram.qkey;
        if let Some(vector) = &datagram.vector {
            param.ah_attr = *vector.raw();
        }
        self.raw.param.ud = param;
        self._vector = datagram.vector;
    }

    /// The kind.
    pub fn kind(&self) -> u32 {
        self.raw.event
    }

    /// The C structure.
    pub(super) fn as_raw(&mut self) -> *mut rdma_cm_event {
        &mut self.raw
    }
}
