// SPDX-License-Identifier: GPL-2.0

//! Sending the RMPP packets ACK, ABORT and STOP.
//!
//! IBTA specification, volume 1, sections 13.6.2.2 to 13.6.2.4.

use kernel::{prelude::*, sync::Arc};
use rdma::{core::mad::recv::RecvMad, MaySleep};

use super::super::{
    header::{
        data_offset, method, rmpp_flag, rmpp_status, rmpp_type, Header, Rmpp, MAD_HEADER,
        METHOD_AT, RMPP_AT, RMPP_VERSION,
    },
    respond,
    state::{Agent, Answer, Reassembly},
};

/// Maximum length of the headers of a class, in bytes.
pub(super) const MAX_HEADER: usize = 64;

/// Headers of a packet that replies to another: a copy, with the RMPP header changed.
///
/// # Errors
///
/// `ENOMEM`.
fn headers(to: &RecvMad, change: impl FnOnce(&mut Rmpp)) -> Result<KVec<u8>> {
    let header = Header::parse(&to.bytes::<MAD_HEADER>(0));
    let mut rmpp = Rmpp::parse(&to.bytes(RMPP_AT));
    rmpp.set_flags(rmpp_flag::ACTIVE);
    change(&mut rmpp);
    let mut all = to.bytes::<MAX_HEADER>(0);
    let response = [header.method ^ method::RESP];
    for (at, bytes) in [(METHOD_AT, &response[..]), (RMPP_AT, &rmpp.bytes()[..])] {
        for (to, from) in all.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }
    let length = data_offset(header.mgmt_class).min(MAX_HEADER);
    let mut mad = KVec::new();
    mad.extend_from_slice(all.get(..length).unwrap_or(&all), GFP_KERNEL)?;
    Ok(mad)
}

/// Sends an RMPP packet in reply to one that may belong to a message. A lost one is sent again when the peer retries.
fn send(
    agent: &Arc<Agent>,
    to: &RecvMad,
    message: Option<&Arc<Reassembly>>,
    change: impl FnOnce(&mut Rmpp),
    sleep: &MaySleep,
) {
    let (Some(sender), Ok(mad)) = (to.sender(), headers(to, change)) else {
        return;
    };
    let answer = Answer {
        agent: agent.clone(),
        to: sender,
        mad,
        is_rmpp: true,
        message: message.cloned(),
        port_num: agent.port.port_num,
    };
    respond::send_or_wait(answer, sleep);
}

/// Sends an ACK with the last segment received in order and the window.
pub(super) fn acknowledge(
    message: &Arc<Reassembly>,
    to: &RecvMad,
    (segment, window): (u32, u32),
    sleep: &MaySleep,
) {
    send(
        &message.agent,
        to,
        Some(message),
        |rmpp| ack(rmpp, segment, window),
        sleep,
    );
}

fn ack(rmpp: &mut Rmpp, segment: u32, window: u32) {
    rmpp.kind = rmpp_type::ACK;
    rmpp.segment = segment;
    rmpp.length_or_window = window;
}

/// Sends the ACK of the final ACK in a double-sided transfer (13.6.6.3), after which the peer may send its response.
pub(super) fn acknowledge_turn(agent: &Arc<Agent>, to: &RecvMad, sleep: &MaySleep) {
    send(agent, to, None, |rmpp| ack(rmpp, 0, 1), sleep);
}

fn end(rmpp: &mut Rmpp, kind: u8, status: u8) {
    rmpp.version = RMPP_VERSION;
    rmpp.kind = kind;
    rmpp.status = status;
    rmpp.segment = 0;
    rmpp.length_or_window = 0;
}

/// Sends an ABORT.
pub(super) fn abort(agent: &Arc<Agent>, to: &RecvMad, status: u8, sleep: &MaySleep) {
    let change = |rmpp: &mut Rmpp| end(rmpp, rmpp_type::ABORT, status);
    send(agent, to, None, change, sleep);
}

/// Sends a STOP for lack of resources, for a transaction or a message in progress.
pub(super) fn stop(
    agent: &Arc<Agent>,
    to: &RecvMad,
    message: Option<&Arc<Reassembly>>,
    sleep: &MaySleep,
) {
    let change = |rmpp: &mut Rmpp| end(rmpp, rmpp_type::STOP, rmpp_status::RESX);
    send(agent, to, message, change, sleep);
}
