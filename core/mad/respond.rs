// SPDX-License-Identifier: GPL-2.0

//! Answers that the core sends: those of the driver, and that a request is not supported.

use kernel::{prelude::*, sync::Arc};
use rdma::{view::mad::recv::RecvMad, MaySleep};

use super::{
    build::{self, Wanted},
    header::{
        method, Header, MAD_HEADER, MAD_SIZE, METHOD_AT, OPA_BASE_VERSION,
        STATUS_AT, STATUS_UNSUPPORTED,
    },
    post,
    state::{Agent, MadClient, OpenPort, Origin, SendMad},
};

/// The client of the agents that answer: the answer is freed when it is sent.
pub(super) struct Responder;

impl MadClient for Responder {
    fn sent(&self, _send: &Arc<SendMad>, _status: u32, _sleep: &MaySleep) {}

    fn received(&self, _request: Option<&Arc<SendMad>>, _mad: RecvMad, _sleep: &MaySleep) {}
}

/// Sends `answer`, of `length` bytes, to the sender of a MAD.
///
/// # Errors
///
/// `ENODEV` where the port goes, those of making an address handle, and of posting.
pub(super) fn respond(
    agent: &Arc<Agent>,
    to: &RecvMad,
    answer: &RecvMad,
    (port_num, length): (u32, usize),
    sleep: &MaySleep,
) -> Result {
    let header = Header::parse(&answer.bytes::<MAD_HEADER>(0));
    let opa = agent.port.is_opa && header.base_version == OPA_BASE_VERSION;
    let length = if opa { length } else { MAD_SIZE };
    let ah = agent.qp.address_of_sender(to, port_num, sleep)?;
    let wanted = Wanted {
        remote_qpn: to.wc().src_qp,
        pkey_index: to.wc().pkey_index,
        rmpp: false,
        header: MAD_HEADER,
        data: length.checked_sub(MAD_HEADER).ok_or(EINVAL)?,
        opa,
    };
    let ah = Arc::new(ah, GFP_KERNEL)?;
    let send = build::new(agent, &wanted, Some(ah), build::may_sleep(sleep))?;
    send.body.write(0, answer.mad().get(..length).ok_or(EINVAL)?);
    if agent.port.device.is_switch() {
        send.body.set_port_num(port_num);
    }
    post::post(Origin::Core(send))
}

/// Answers over the queue pair that a MAD has come over. An answer that cannot be sent is lost, as packets may be.
pub(super) fn answer(
    open: &OpenPort,
    agent: Option<&Arc<Agent>>,
    to: &RecvMad,
    answer: &RecvMad,
    place: (u32, usize),
    sleep: &MaySleep,
) {
    let Some(agent) = agent else {
        return;
    };
    if let Err(error) = respond(agent, to, answer, place, sleep) {
        pr_debug!(
            "no answer is sent from port {}: {:?}\n",
            open.port.port_num,
            error
        );
    }
}

/// Turns a request that nobody takes into the answer that it is not supported, if it is one that has an answer.
pub(super) fn unsupported(request: &RecvMad, answer: &mut RecvMad) -> bool {
    let header = Header::parse(&request.bytes::<MAD_HEADER>(0));
    if !matches!(header.method, method::GET | method::SET) {
        return false;
    }
    answer.mad_mut().copy_from_slice(request.mad());
    let mut put = |at: usize, bytes: &[u8]| {
        let place = answer.mad_mut().get_mut(at..at.saturating_add(bytes.len()));
        if let Some(place) = place {
            place.copy_from_slice(bytes);
        }
    };
    put(METHOD_AT, &[method::GET_RESP]);
    let direction = if header.is_directed_route() { 0x8000 } else { 0 };
    let status: u16 = STATUS_UNSUPPORTED | direction;
    put(STATUS_AT, &status.to_be_bytes());
    true
}

