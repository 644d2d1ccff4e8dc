// SPDX-License-Identifier: GPL-2.0

//! The packets of RMPP that answer others: ACK, ABORT and STOP.
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

/// The longest header that a class has.
pub(super) const MAX_HEADER: usize = 64;

/// The headers of a packet that answers another one: those of that, with the header of RMPP changed.
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

/// Sends a packet of RMPP to who has sent one, which may be of a message. One that is lost follows again when the other end
/// repeats itself.
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

/// Says that all segments up to one were received, and up to which more may be sent.
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

/// Acknowledges the last acknowledgement of a message that is answered by another message (13.6.6.3): its first segment may
/// be sent.
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

/// Aborts a transaction.
pub(super) fn abort(agent: &Arc<Agent>, to: &RecvMad, status: u8, sleep: &MaySleep) {
    let change = |rmpp: &mut Rmpp| end(rmpp, rmpp_type::ABORT, status);
    send(agent, to, None, change, sleep);
}

/// Stops a transaction, or a message that was begun: there are no resources for it.
pub(super) fn stop(
    agent: &Arc<Agent>,
    to: &RecvMad,
    message: Option<&Arc<Reassembly>>,
    sleep: &MaySleep,
) {
    let change = |rmpp: &mut Rmpp| end(rmpp, rmpp_type::STOP, rmpp_status::RESX);
    send(agent, to, message, change, sleep);
}
