// SPDX-License-Identifier: GPL-2.0

//! Asking the subnet administrator: one request, whose answer may be a message of several MADs.
//!
//! IBTA specification, volume 1, section 15.2: the header of subnet administration behind that of RMPP.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{bindings as c, sync::new_spinlock_irq};
use rdma::{
    core::{
        mad::{recv::RecvMad, send::SendFlags},
        sa::SaClientUse,
    },
    MaySleep,
};

use super::state::{OnAnswer, Query, QueryState, SaPort, ADMINISTRATION};
use crate::mad::{
    build::{self, Wanted},
    header::{class, Header, MAD_HEADER},
    post,
    state::{MadClient, Origin, SendMad},
};

/// How many bytes the headers have.
pub(super) const SA_HEADER: usize = c::IB_MGMT_SA_HDR as usize;
/// How many bytes of a record are in a MAD.
pub(super) const SA_DATA: usize = c::IB_MGMT_SA_DATA as usize;
/// Where the mask is that says which members of a record count.
const MASK_AT: usize = 48;
/// The version of the class.
const CLASS_VERSION: u8 = 2;
/// That of Omni-Path, and of its MADs.
const OPA_VERSION: u8 = 0x80;
/// How often a question is asked again within its time.
const RETRIES: u32 = 10;

/// Attributes of subnet administration.
pub(super) mod attribute {
    pub(in super::super) const CLASS_PORT_INFO: u16 = 0x01;
    pub(in super::super) const GUID_INFO: u16 = 0x30;
    pub(in super::super) const SERVICE: u16 = 0x31;
    pub(in super::super) const PATH: u16 = 0x35;
    pub(in super::super) const MC_MEMBER: u16 = 0x38;
}

/// What is asked.
pub(super) struct Question<'a> {
    pub(super) port: Arc<SaPort>,
    pub(super) client: Option<SaClientUse>,
    /// The administrator is one of Omni-Path.
    pub(super) is_opa: bool,
    pub(super) method: u8,
    pub(super) attribute: u16,
    /// Which members of the record count, as C has it: in the order of the wire.
    pub(super) mask: u64,
    pub(super) record: &'a [u8],
    /// How long an answer is awaited, in milliseconds.
    pub(super) timeout_ms: usize,
    pub(super) on_answer: KBox<dyn OnAnswer>,
}

/// Divides the time that an answer is awaited: how long once, and how often again.
fn divide_time(timeout_ms: usize) -> (u32, u32) {
    let timeout_ms = u32::try_from(timeout_ms).unwrap_or(u32::MAX);
    match timeout_ms / RETRIES {
        0 => (1, timeout_ms),
        once => (once, RETRIES),
    }
}

/// The headers of a question.
fn headers(question: &Question<'_>, hi_tid: u32, id: u32) -> [u8; SA_HEADER] {
    let mut bytes = [0; SA_HEADER];
    let (base, version) = match question.is_opa {
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
    put(0, &[base, class::SUBN_ADM, version, question.method]);
    put(8, &tid.to_be_bytes());
    put(16, &question.attribute.to_be_bytes());
    put(MASK_AT, &question.mask.to_ne_bytes());
    bytes
}

/// Makes a question, which is not asked yet.
///
/// # Errors
///
/// `EAGAIN` where the administrator is not known, `ENOMEM`.
pub(super) fn new(question: Question<'_>, flags: &SendFlags<'_>) -> Result<Arc<Query>> {
    let port = &question.port;
    let address = port.address.lock().clone().ok_or(EAGAIN)?;
    if !address.is_valid {
        return Err(EAGAIN);
    }
    let wanted = Wanted {
        remote_qpn: 1,
        pkey_index: address.pkey_index,
        rmpp: false,
        header: SA_HEADER,
        data: SA_DATA,
        opa: question.is_opa,
    };
    let ah = Some(address.ah.clone());
    let send = build::new(&port.agent, &wanted, ah, flags.get()).map_err(|_| ENOMEM)?;
    let id = ADMINISTRATION.lock().new_id();
    send.body
        .write(0, &headers(&question, port.agent.body.hi_tid(), id));
    send.body.write(SA_HEADER, question.record);
    let (timeout_ms, retries) = divide_time(question.timeout_ms);
    send.body.set_timeout_ms(timeout_ms);
    send.body.set_retries(retries);
    Arc::pin_init(
        pin_init!(Query {
            id,
            is_opa: question.is_opa,
            on_answer: question.on_answer,
            send,
            _address: address,
            _client: question.client,
            port: question.port,
            state <- new_spinlock_irq!(QueryState::default(), "Query::state"),
        }),
        flags.get(),
    )
}

/// Lets a question be found by its number.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn add(query: &Arc<Query>) -> Result {
    ADMINISTRATION.lock().add(query)
}

/// Sends a question to the administrator.
///
/// # Errors
///
/// As posting a MAD.
pub(super) fn send(query: &Query) -> Result {
    post::post(Origin::Core(query.send.clone()))
}

/// Asks: the answer comes later, unless this fails.
///
/// # Errors
///
/// `ENOMEM`, and as posting a MAD.
pub(super) fn ask(query: &Arc<Query>) -> Result {
    add(query)?;
    send(query).inspect_err(|_| forget(query))
}

/// Lets a question not be found any more.
pub(super) fn forget(query: &Query) {
    let taken = ADMINISTRATION.lock().remove(query.id);
    drop(taken);
}

/// A question has ended: without an answer, if none was told of.
pub(super) fn finish(query: &Query, status: Result, sleep: &MaySleep) {
    let was_answered = core::mem::replace(&mut query.state.lock().answered, true);
    if !was_answered && status.is_err() {
        query.on_answer.answered(query, status, None, sleep);
    }
    forget(query);
}

/// How a question has ended whose MAD is done: `enum ib_wc_status`.
fn end_of(status: u32) -> Result {
    match status {
        c::IB_WC_SUCCESS => Ok(()),
        c::IB_WC_RESP_TIMEOUT_ERR => Err(ETIMEDOUT),
        c::IB_WC_WR_FLUSH_ERR => Err(EINTR),
        _ => Err(EIO),
    }
}

/// The question of a MAD.
fn query_of(send: &Arc<SendMad>) -> Option<Arc<Query>> {
    // The number is the lower half of the transaction ID.
    let id = send.header().tid as u32;
    let query = ADMINISTRATION.lock().find(id)?;
    Arc::ptr_eq(&query.send, send).then_some(query)
}

/// The client of the ports' agents.
pub(super) struct Asker;

impl MadClient for Asker {
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
            query.on_answer.answered(&query, status, Some(&mad), sleep);
        }
    }
}

/// The name that C has of a question.
pub(super) fn name_of(query: &Arc<Query>) -> usize {
    Arc::as_ptr(query).addr()
}

/// The question of a number, if it has this name.
pub(super) fn find(id: u32, name: usize) -> Option<Arc<Query>> {
    let query = ADMINISTRATION.lock().find(id)?;
    (name_of(&query) == name).then_some(query)
}

/// The record in an answer; `N` bytes of it.
pub(super) fn record_of<const N: usize>(answer: &RecvMad) -> [u8; N] {
    answer.bytes(SA_HEADER)
}
