// SPDX-License-Identifier: GPL-2.0

//! Queries to the SA: one request, whose response may be an RMPP message.
//!
//! IBTA specification, volume 1, section 15.2: the SA header, after that of RMPP.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{bindings as c, sync::new_spinlock_irq};
use rdma::{
    core::mad::{recv::RecvMad, send::SendFlags},
    MaySleep,
};

use super::state::{Query, QueryHandler, QueryState, SaPort, ADMINISTRATION};
use crate::mad::{
    build::{self, SendBufAttr},
    header::{class, Header, MAD_HEADER},
    post,
    state::{MadClient, Origin, SendMad},
};

/// Length of the headers, in bytes.
pub(super) const SA_HEADER: usize = c::IB_MGMT_SA_HDR as usize;
/// Length of the record in a MAD, in bytes.
pub(super) const SA_DATA: usize = c::IB_MGMT_SA_DATA as usize;
/// Offset of the component mask.
const MASK_AT: usize = 48;
/// The version of the class.
const CLASS_VERSION: u8 = 2;
/// The class version and MAD version of Omni-Path.
const OPA_VERSION: u8 = 0x80;
/// Number of retries within the timeout.
const RETRIES: u32 = 10;

/// SA attributes.
pub(super) mod attribute {
    pub(in super::super) const CLASS_PORT_INFO: u16 = 0x01;
    pub(in super::super) const GUID_INFO: u16 = 0x30;
    pub(in super::super) const SERVICE: u16 = 0x31;
    pub(in super::super) const PATH: u16 = 0x35;
    pub(in super::super) const MC_MEMBER: u16 = 0x38;
}

/// Arguments of a query.
pub(super) struct SaRequest<'a> {
    pub(super) port: Arc<SaPort>,
    /// Whether it is for an Omni-Path SA.
    pub(super) is_opa: bool,
    pub(super) method: u8,
    pub(super) attribute: u16,
    /// The component mask, big endian as in C.
    pub(super) mask: u64,
    pub(super) record: &'a [u8],
    /// Timeout, in milliseconds.
    pub(super) timeout_ms: usize,
    pub(super) handler: KBox<dyn QueryHandler>,
}

/// Divides a timeout into the timeout of one attempt and the number of retries.
fn divide_time(timeout_ms: usize) -> (u32, u32) {
    let timeout_ms = u32::try_from(timeout_ms).unwrap_or(u32::MAX);
    match timeout_ms / RETRIES {
        0 => (1, timeout_ms),
        once => (once, RETRIES),
    }
}

/// The headers of a query.
fn headers(request: &SaRequest<'_>, hi_tid: u32, id: u32) -> [u8; SA_HEADER] {
    let mut bytes = [0; SA_HEADER];
    let (base, version) = match request.is_opa {
        true => (OPA_VERSION, OPA_VERSION),
        false => (1, CLASS_VERSION),
    };
    let tid = u64::from(hi_tid) << 32 | u64::from(id);
    let mut put = |at: usize, from: &[u8]| {
        let place = bytes.get_mut(at..at.saturating_add(from.len()));
        if let Some(place) = place {
            place.copy_from_slice(from);
        }
    };
    put(0, &[base, class::SUBN_ADM, version, request.method]);
    put(8, &tid.to_be_bytes());
    put(16, &request.attribute.to_be_bytes());
    put(MASK_AT, &request.mask.to_ne_bytes());
    bytes
}

/// Makes a query, without sending it.
///
/// # Errors
///
/// `EAGAIN` while the SA's address is not known, `ENOMEM`.
pub(super) fn new(request: SaRequest<'_>, flags: &SendFlags<'_>) -> Result<Arc<Query>> {
    let port = &request.port;
    let address = port.address.lock().clone().ok_or(EAGAIN)?;
    if !address.is_valid {
        return Err(EAGAIN);
    }
    let wanted = SendBufAttr {
        remote_qpn: 1,
        pkey_index: address.pkey_index,
        rmpp: false,
        header: SA_HEADER,
        data: SA_DATA,
        opa: request.is_opa,
    };
    let ah = Some(address.ah.clone());
    let send = build::new(&port.agent, &wanted, ah, flags.get()).map_err(|_| ENOMEM)?;
    let id = ADMINISTRATION.lock().new_id();
    send.body
        .write(0, &headers(&request, port.agent.body.hi_tid(), id));
    send.body.write(SA_HEADER, request.record);
    let (timeout_ms, retries) = divide_time(request.timeout_ms);
    send.body.set_timeout_ms(timeout_ms);
    send.body.set_retries(retries);
    Arc::pin_init(
        pin_init!(Query {
            id,
            is_opa: request.is_opa,
            handler: request.handler,
            send,
            _address: address,
            port: request.port,
            state <- new_spinlock_irq!(QueryState::default(), "Query::state"),
        }),
        flags.get(),
    )
}

/// Assigns a query its ID.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn add(query: &Arc<Query>) -> Result {
    ADMINISTRATION.lock().add(query)
}

/// Posts the MAD of a query.
///
/// # Errors
///
/// Those of posting a MAD.
pub(super) fn post(query: &Query) -> Result {
    post::post(Origin::Core(query.send.clone()))
}

/// Sends a query. Unless this fails, it completes later.
///
/// # Errors
///
/// `ENOMEM`, and those of posting a MAD.
pub(super) fn send(query: &Arc<Query>) -> Result {
    add(query)?;
    post(query).inspect_err(|_| forget(query))
}

/// Releases the ID of a query.
pub(super) fn forget(query: &Query) {
    let taken = ADMINISTRATION.lock().remove(query.id);
    drop(taken);
}

/// Completes a query with a status, unless it was completed before.
pub(super) fn finish(query: &Query, status: Result, sleep: &MaySleep) {
    let was_answered = core::mem::replace(&mut query.state.lock().answered, true);
    if !was_answered && status.is_err() {
        query.handler.answered(query, status, None, sleep);
    }
    forget(query);
}

/// Result of a query by the status of its MAD, `enum ib_wc_status`.
fn end_of(status: u32) -> Result {
    match status {
        c::IB_WC_SUCCESS => Ok(()),
        c::IB_WC_RESP_TIMEOUT_ERR => Err(ETIMEDOUT),
        c::IB_WC_WR_FLUSH_ERR => Err(EINTR),
        _ => Err(EIO),
    }
}

/// The query of a MAD.
fn query_of(send: &Arc<SendMad>) -> Option<Arc<Query>> {
    // The ID is the lower half of the transaction ID.
    let id = send.header().tid as u32;
    let query = ADMINISTRATION.lock().find(id)?;
    Arc::ptr_eq(&query.send, send).then_some(query)
}

/// The client of the ports' agents.
pub(super) struct SaMadClient;

impl MadClient for SaMadClient {
    fn sent(&self, send: &Arc<SendMad>, status: u32, sleep: &MaySleep) {
        if let Some(query) = query_of(send) {
            finish(&query, end_of(status), sleep);
        }
    }

    fn received(&self, request: Option<&Arc<SendMad>>, mad: RecvMad, sleep: &MaySleep) {
        let Some(query) = request.and_then(query_of) else {
            return;
        };
        let header = Header::parse(&mad.bytes::<MAD_HEADER>(0));
        let status = if header.status == 0 {
            Ok(())
        } else {
            Err(EINVAL)
        };
        let was_answered = core::mem::replace(&mut query.state.lock().answered, true);
        if !was_answered {
            query.handler.answered(&query, status, Some(&mad), sleep);
        }
    }
}

/// The cookie that C has for a query.
pub(super) fn cookie_of(query: &Arc<Query>) -> usize {
    Arc::as_ptr(query).addr()
}

/// The query with this ID, if it has this cookie.
pub(super) fn find(id: u32, cookie: usize) -> Option<Arc<Query>> {
    let query = ADMINISTRATION.lock().find(id)?;
    (cookie_of(&query) == cookie).then_some(query)
}

/// The first `N` bytes of the record in a response.
pub(super) fn record_of<const N: usize>(answer: &RecvMad) -> [u8; N] {
    answer.bytes(SA_HEADER)
}
