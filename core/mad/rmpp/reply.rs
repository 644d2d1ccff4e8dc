// SPDX-License-Identifier: GPL-2.0

//! The packets of RMPP that answer others: ACK, ABORT and STOP.
//!
//! IBTA specification, volume 1, sections 13.6.2.2 to 13.6.2.4.

use kernel::{prelude::*, sync::Arc};
use rdma::{
    view::mad::{recv::RecvMad, send::OwnAh},
    MaySleep,
};

use super::super::{
    build::{self, Wanted},
    header::{
        data_offset, method, rmpp_flag, rmpp_status, rmpp_type, Header, Rmpp, MAD_HEADER,
        METHOD_AT, RMPP_AT, RMPP_VERSION,
    },
    post,
    state::{Agent, Origin},
};

/// The longest header that a class has.
const MAX_HEADER: usize = 64;

/// Sends a packet of RMPP to who has sent one: its headers, with those of RMPP changed.
fn send(
    agent: &Arc<Agent>,
    to: &RecvMad,
    ah: Arc<OwnAh>,
    change: impl FnOnce(&mut Rmpp),
    sleep: &MaySleep,
) -> Result {
    let header = Header::parse(&to.bytes::<MAD_HEADER>(0));
    let length = data_offset(header.mgmt_class).min(MAX_HEADER);
    let wanted = Wanted {
        remote_qpn: to.wc().src_qp,
        pkey_index: to.wc().pkey_index,
        rmpp: true,
        header: length,
        data: 0,
        opa: false,
    };
    let reply = build::new(agent, &wanted, Some(ah), build::may_sleep(sleep))?;
    let headers = to.bytes::<MAX_HEADER>(0);
    reply
        .body
        .write(0, headers.get(..length).unwrap_or(&headers));
    reply.body.write(METHOD_AT, &[header.method ^ method::RESP]);
    let mut rmpp = Rmpp::parse(&to.bytes(RMPP_AT));
    rmpp.set_flags(rmpp_flag::ACTIVE);
    change(&mut rmpp);
    reply.set_rmpp(&rmpp);
    post::post(Origin::Layer(reply))
}

/// The address of a sender.
fn address(agent: &Agent, of: &RecvMad, sleep: &MaySleep) -> Result<Arc<OwnAh>> {
    let ah = agent.qp.address_of_sender(of, agent.port.port_num, sleep)?;
    Ok(Arc::new(ah, GFP_KERNEL)?)
}

/// Says that all segments up to one were received, and up to which more may be sent.
///
/// What cannot be sent is sent again when the sender repeats a segment.
pub(super) fn acknowledge(
    agent: &Arc<Agent>,
    to: &RecvMad,
    ah: Arc<OwnAh>,
    (segment, window): (u32, u32),
    sleep: &MaySleep,
) {
    let change = |rmpp: &mut Rmpp| {
        rmpp.kind = rmpp_type::ACK;
        rmpp.segment = segment;
        rmpp.length_or_window = window;
    };
    let _ = send(agent, to, ah, change, sleep);
}

/// Acknowledges the last acknowledgement of a message that is answered by another message (13.6.6.3): its first segment may
/// be sent.
pub(super) fn acknowledge_turn(agent: &Arc<Agent>, to: &RecvMad, sleep: &MaySleep) {
    if let Ok(ah) = address(agent, to, sleep) {
        acknowledge(agent, to, ah, (0, 1), sleep);
    }
}

/// Ends a transaction: a type of packet, and why.
fn end(agent: &Arc<Agent>, to: &RecvMad, ah: Arc<OwnAh>, kind: u8, status: u8, sleep: &MaySleep) {
    let change = |rmpp: &mut Rmpp| {
        rmpp.version = RMPP_VERSION;
        rmpp.kind = kind;
        rmpp.status = status;
        rmpp.segment = 0;
        rmpp.length_or_window = 0;
    };
    let _ = send(agent, to, ah, change, sleep);
}

/// Aborts a transaction.
pub(super) fn abort(agent: &Arc<Agent>, to: &RecvMad, status: u8, sleep: &MaySleep) {
    if let Ok(ah) = address(agent, to, sleep) {
        end(agent, to, ah, rmpp_type::ABORT, status, sleep);
    }
}

/// Stops a transaction: there are no resources for it.
pub(super) fn stop(agent: &Arc<Agent>, to: &RecvMad, sleep: &MaySleep) {
    if let Ok(ah) = address(agent, to, sleep) {
        stop_message(agent, to, ah, sleep);
    }
}

/// Stops a message that was begun, whose sender's address is known.
pub(super) fn stop_message(agent: &Arc<Agent>, to: &RecvMad, ah: Arc<OwnAh>, sleep: &MaySleep) {
    end(agent, to, ah, rmpp_type::STOP, rmpp_status::RESX, sleep);
}
