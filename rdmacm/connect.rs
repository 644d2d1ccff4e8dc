// SPDX-License-Identifier: GPL-2.0

//! Connecting, accepting and refusing a peer, disconnecting; asking for the queue pair of a service, and answering that.
//!
//! C header: `include/rdma/rdma_cm.h`.

use cm_rules::{
    param::{retry_count, set_qkey, MAX_RETRIES, RESPONSE_TIMEOUT, SIDR_TIMEOUT_MS},
    private_data::{client_offset, sent_length, write},
    state::Input,
};
use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    bindings::{
        IB_CM_REJ_CONSUMER_DEFINED, IB_QPT_UD, IB_SIDR_REJECT, IB_SIDR_SUCCESS, RDMA_NODE_IB_CA,
    },
    error::ENOSYS,
};
use rdma::{
    core::{
        cm::event::Ece,
        cma::{event::Connection, handler::Handling, id::Records, param::ConnParam, trace},
        connection::PrivateData,
        path::Path,
    },
    MaySleep,
};
use rdma_cma::{
    ib::{IbCm, ReqParam, SidrReqParam},
    iw::{IwCm, Param, Setting},
    lower::Lower,
};

use crate::{
    address::{error, to_raw},
    devices::{manager, Manager},
    id::{Bound, CmId},
    qp::{self, set_default_qkey},
    resolve::service_of,
};

/// The most private data of a request, with the header.
const MOST_DATA: usize = u8::MAX as usize;

/// What an identifier is asked for that has another connection, or none.
const NO_LOWER: Error = EINVAL;

/// Lets `f` use the connection of `ib_cm`.
fn with_ib<R>(id: &CmId, sleep: &MaySleep, f: impl FnOnce(&IbCm<CmId>) -> Result<R>) -> Result<R> {
    id.lower.with(sleep, |lower| match lower {
        Some(Lower::Ib(ib)) => f(ib),
        _ => Err(NO_LOWER),
    })
}

/// Lets `f` use the connection of `iw_cm`.
fn with_iw<R>(id: &CmId, sleep: &MaySleep, f: impl FnOnce(&IwCm<CmId>) -> Result<R>) -> Result<R> {
    id.lower.with(sleep, |lower| match lower {
        Some(Lower::Iw(iw)) => f(iw),
        _ => Err(NO_LOWER),
    })
}

/// Notes the queue pair that a client has of its own.
fn note_qp(id: &CmId, param: ConnParam<'_>) {
    if !id.body.has_qp() {
        id.body.set_qp_num(param.qp_num());
        id.with(|inner| inner.srq = param.srq() != 0);
    }
}

/// The service of datagrams.
fn is_datagram(id: &CmId) -> bool {
    id.body.qp_type() == IB_QPT_UD
}

/// Sets the options of the vendor.
pub(crate) fn set_ece(id: &CmId, ece: Ece) {
    id.with(|inner| inner.ece = ece);
}

/// Asks for a connection, or for the queue pair of a service. The answer is an event.
///
/// # Errors
///
/// `EINVAL` in a wrong state and for too much private data; those of the managers below.
pub(crate) fn connect(
    id: &Arc<CmId>,
    param: Option<ConnParam<'_>>,
    _handling: &Handling<'_>,
    sleep: &MaySleep,
) -> Result {
    let step = id.call(Input::Connect)?;
    let asked = (|| {
        let bound = id.device()?;
        if let Some(param) = param {
            note_qp(id, param);
        }
        match manager(&bound.device, bound.port) {
            Some(Manager::Ib) if is_datagram(id) => {
                ask_service(id, &bound, param.ok_or(EINVAL)?, sleep)
            }
            Some(Manager::Ib) => ask_ib(id, &bound, param.ok_or(EINVAL)?, sleep),
            Some(Manager::Iw) => ask_iw(id, &bound, param, sleep),
            None => Err(ENOSYS),
        }
    })();
    if asked.is_err() {
        id.undo(&step);
    }
    asked
}

/// The private data of a request: the header, and what the client says.
struct Data {
    bytes: [u8; MOST_DATA],
    length: usize,
}

impl Data {
    fn new(id: &CmId, param: ConnParam<'_>) -> Result<Self> {
        let (source, destination) = id.both_ends()?;
        let family = source.family();
        let length = sent_length(family, param.private_data_len()).map_err(error)?;
        let mut bytes = [0; MOST_DATA];
        let own = param.private_data();
        let place = bytes.iter_mut().skip(client_offset(family).into());
        for (to, from) in place.zip(own.bytes()) {
            *to = *from;
        }
        let length = usize::from(length);
        if let Some(bytes) = bytes.get_mut(..length) {
            write(bytes, &source, &destination);
        }
        Ok(Self { bytes, length })
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}

/// Copies of the paths, for a call that may sleep.
fn records(id: &CmId) -> Result<Records> {
    let mut paths = KVec::with_capacity(2, GFP_KERNEL)?;
    let (mut inbound, mut outbound) = (None, None);
    id.body.with_records(|records| {
        let Some(records) = records else { return };
        for path in records.paths.iter().take(2) {
            let _ = paths.push_within_capacity(path.duplicate());
        }
        inbound = records.inbound.as_ref().map(|path| path.duplicate());
        outbound = records.outbound.as_ref().map(|path| path.duplicate());
    });
    let boxed = |path: Option<Path>| path.map(|path| KBox::new(path, GFP_KERNEL)).transpose();
    Ok(Records {
        paths,
        inbound: boxed(inbound)?,
        outbound: boxed(outbound)?,
    })
}

/// Puts a new connection into its place, and begins it. If that fails it is gone.
fn begin(
    id: &Arc<CmId>,
    lower: Lower<CmId>,
    sleep: &MaySleep,
    f: impl FnOnce() -> Result,
) -> Result {
    drop(id.lower.put(lower, sleep));
    let begun = f();
    if begun.is_err() {
        drop(id.lower.take(sleep));
    }
    begun
}

/// What the client says of a connection.
fn connection<'a>(id: &CmId, param: ConnParam<'_>) -> Connection<'a> {
    let (srq, ece) = id.with(|inner| (inner.srq, inner.ece));
    Connection {
        private_data: &[],
        responder_resources: param.responder_resources(),
        initiator_depth: param.initiator_depth(),
        flow_control: param.flow_control(),
        retry_count: retry_count(param.retry_count()),
        rnr_retry_count: retry_count(param.rnr_retry_count()),
        srq: srq.into(),
        qp_num: id.body.qp_num(),
        ece: Some(ece),
    }
}

fn ask_ib(id: &Arc<CmId>, bound: &Bound, param: ConnParam<'_>, sleep: &MaySleep) -> Result {
    let data = Data::new(id, param)?;
    let records = records(id)?;
    let sgid = id.body.sgid();
    let (_, destination) = id.both_ends()?;
    let asked = ReqParam {
        records: &records,
        sgid: sgid.as_deref(),
        service_id: service_of(id, &destination).to_be(),
        private_data: data.bytes(),
        qp_type: id.body.qp_type(),
        starting_psn: id.psn,
        response_timeout: RESPONSE_TIMEOUT,
        max_retries: MAX_RETRIES,
        connection: connection(id, param),
    };
    let ib = IbCm::new(&bound.device, id, sleep)?;
    begin(id, Lower::Ib(ib), sleep, || {
        trace::cm_send_req(&id.body);
        with_ib(id, sleep, |ib| ib.send_req(&asked, sleep))
    })
}

fn ask_service(id: &Arc<CmId>, bound: &Bound, param: ConnParam<'_>, sleep: &MaySleep) -> Result {
    let data = Data::new(id, param)?;
    let records = records(id)?;
    let sgid = id.body.sgid();
    let (_, destination) = id.both_ends()?;
    let asked = SidrReqParam {
        path: records.paths.first().ok_or(EINVAL)?,
        sgid: sgid.as_deref(),
        service_id: service_of(id, &destination).to_be(),
        private_data: data.bytes(),
        timeout_ms: SIDR_TIMEOUT_MS,
        max_retries: MAX_RETRIES,
    };
    let ib = IbCm::new(&bound.device, id, sleep)?;
    begin(id, Lower::Ib(ib), sleep, || {
        trace::cm_send_sidr_req(&id.body);
        with_ib(id, sleep, |ib| ib.send_sidr_req(&asked, sleep))
    })
}

/// The parameters of an iWARP connection.
fn iw_param<'a>(id: &CmId, param: Option<ConnParam<'a>>) -> Param<'a> {
    match param {
        Some(param) => Param {
            ord: param.initiator_depth().into(),
            ird: param.responder_resources().into(),
            qpn: match id.body.has_qp() {
                true => id.body.qp_num(),
                false => param.qp_num(),
            },
            private_data: param.private_data(),
        },
        None => Param {
            ord: 0,
            ird: 0,
            qpn: id.body.qp_num(),
            private_data: PrivateData::NONE,
        },
    }
}

fn ask_iw(id: &Arc<CmId>, bound: &Bound, param: Option<ConnParam<'_>>, sleep: &MaySleep) -> Result {
    let (source, destination) = id.both_ends()?;
    let settings = id.settings();
    let setting = Setting {
        local: to_raw(&source),
        remote: Some(to_raw(&destination)),
        tos: settings.tos,
        family_only: false,
    };
    let iw = IwCm::new(&bound.device, id, &setting, sleep)?;
    begin(id, Lower::Iw(iw), sleep, || {
        let resources = param.map(|param| param.responder_resources());
        qp::to_rtr(id, resources, sleep)?;
        let param = iw_param(id, param);
        with_iw(id, sleep, |iw| iw.connect(&param, sleep))
    })
}

/// Moves the queue pair to RTS, and tells the peer that has agreed. If that fails the peer is refused.
///
/// # Errors
///
/// Those of the verbs and of `ib_cm`.
pub(crate) fn establish(id: &CmId, sleep: &MaySleep) -> Result {
    let done = qp::to_rtr(id, None, sleep)
        .and_then(|()| qp::to_rts(id, None, sleep))
        .and_then(|()| {
            trace::cm_send_rtu(&id.body);
            with_ib(id, sleep, |ib| ib.send_rtu(sleep))
        });
    if done.is_err() {
        let _ = qp::to_error(id, sleep);
        trace::cm_send_rej(&id.body);
        let _ = with_ib(id, sleep, |ib| {
            ib.send_rej(IB_CM_REJ_CONSUMER_DEFINED, &PrivateData::NONE, sleep)
        });
    }
    done
}

/// Accepts a peer, or its agreement. If that fails the peer is refused.
///
/// # Errors
///
/// `EINVAL` in a wrong state; those of the verbs and of the managers below.
pub(crate) fn accept(
    id: &Arc<CmId>,
    param: Option<ConnParam<'_>>,
    _handling: &Handling<'_>,
    sleep: &MaySleep,
) -> Result {
    id.call(Input::Accept)?;
    if let Some(param) = param {
        note_qp(id, param);
    }
    let accepted = try_accept(id, param, sleep);
    if accepted.is_err() {
        let _ = qp::to_error(id, sleep);
        let reason = IB_CM_REJ_CONSUMER_DEFINED as u8;
        let _ = reject(id, &PrivateData::NONE, reason, sleep);
    }
    accepted
}

fn try_accept(id: &Arc<CmId>, param: Option<ConnParam<'_>>, sleep: &MaySleep) -> Result {
    let bound = id.device()?;
    match (manager(&bound.device, bound.port), param) {
        (Some(Manager::Ib), param) if is_datagram(id) => {
            let qkey = param.map_or(0, |param| param.qkey());
            let data = param.map_or(PrivateData::NONE, |param| param.private_data());
            answer(id, &bound, IB_SIDR_SUCCESS, qkey, &data, sleep)
        }
        (Some(Manager::Ib), Some(param)) => {
            qp::to_rtr(id, Some(param.responder_resources()), sleep)?;
            qp::to_rts(id, Some(param.initiator_depth()), sleep)?;
            let connection = connection(id, param);
            trace::cm_send_rep(&id.body);
            with_ib(id, sleep, |ib| {
                ib.send_rep(&connection, &param.private_data(), id.psn, sleep)
            })
        }
        (Some(Manager::Ib), None) => establish(id, sleep),
        (Some(Manager::Iw), Some(param)) => {
            qp::to_rtr(id, Some(param.responder_resources()), sleep)?;
            let param = iw_param(id, Some(param));
            with_iw(id, sleep, |iw| iw.accept(&param, sleep))
        }
        (Some(Manager::Iw), None) => Err(EINVAL),
        (None, _) => Err(ENOSYS),
    }
}

/// Answers which queue pair a service has: `enum ib_cm_sidr_status`, and the Q_Key that the client names.
fn answer(
    id: &CmId,
    bound: &Bound,
    status: u32,
    qkey: u32,
    data: &PrivateData<'_>,
    sleep: &MaySleep,
) -> Result {
    let mut numbers = (0, 0);
    let mut vendor = None;
    if status == IB_SIDR_SUCCESS {
        match qkey {
            0 => set_default_qkey(id, bound)?,
            named => take_qkey(id, named)?,
        }
        let (own, ece) = id.with(|inner| (inner.qkey, inner.ece));
        numbers = (id.body.qp_num(), own);
        vendor = Some(ece);
    }
    trace::cm_send_sidr_rep(&id.body);
    with_ib(id, sleep, |ib| {
        ib.send_sidr_rep(status, numbers, vendor, data, sleep)
    })
}

/// Takes the Q_Key that a client or a peer names.
///
/// # Errors
///
/// `EINVAL` for 0, and for another one than the identifier has.
pub(crate) fn take_qkey(id: &CmId, named: u32) -> Result {
    id.with(|inner| {
        inner.qkey = set_qkey(inner.qkey, named).map_err(error)?;
        Ok(())
    })
}

/// Refuses a peer.
///
/// # Errors
///
/// `EINVAL` if there is none, and those of the managers below.
pub(crate) fn reject(id: &CmId, data: &PrivateData<'_>, reason: u8, sleep: &MaySleep) -> Result {
    let bound = id.device()?;
    match manager(&bound.device, bound.port) {
        Some(Manager::Ib) if is_datagram(id) => answer(id, &bound, IB_SIDR_REJECT, 0, data, sleep),
        Some(Manager::Ib) => {
            trace::cm_send_rej(&id.body);
            with_ib(id, sleep, |ib| ib.send_rej(reason.into(), data, sleep))
        }
        Some(Manager::Iw) => with_iw(id, sleep, |iw| iw.reject(data, sleep)),
        None => Err(ENOSYS),
    }
}

/// Disconnects, or agrees to that.
///
/// # Errors
///
/// `EINVAL` without a connection; those of the verbs, and of `iw_cm`.
pub(crate) fn disconnect(id: &CmId, sleep: &MaySleep) -> Result {
    let bound = id.device()?;
    let has_lower = id.lower.with(sleep, |lower| lower.is_some());
    if !has_lower {
        return Err(EINVAL);
    }
    match manager(&bound.device, bound.port) {
        Some(Manager::Ib) => {
            qp::to_error(id, sleep)?;
            trace::cm_disconnect(&id.body);
            // The connection may have ended, or never begun: nobody is told of that.
            let _ = with_ib(id, sleep, |ib| {
                if ib.send_dreq(sleep).is_ok() {
                    trace::cm_sent_dreq(&id.body);
                } else if ib.send_drep(sleep).is_ok() {
                    trace::cm_sent_drep(&id.body);
                }
                Ok(())
            });
            Ok(())
        }
        Some(Manager::Iw) => with_iw(id, sleep, |iw| iw.disconnect(sleep)),
        None => Err(EINVAL),
    }
}

/// The client tells of an event of its queue pair: `enum ib_event_type`. Any context.
///
/// # Errors
///
/// `EINVAL` without a connection, and those of `ib_cm`.
pub(crate) fn notify(id: &CmId, event: u32) -> Result {
    let bound = id.device()?;
    match bound.device.node_type() {
        RDMA_NODE_IB_CA => id.lower.notify(event).ok_or(EINVAL)?,
        _ if id.lower.is_some() => Ok(()),
        _ => Err(EINVAL),
    }
}
