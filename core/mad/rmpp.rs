// SPDX-License-Identifier: GPL-2.0

//! RMPP, the reliable multi-packet protocol: messages of more than one MAD.
//!
//! | file | what |
//! |---|---|
//! | [`segment`](super::segment) | sending: segments, window, retries |
//! | [`reply`] | sending ACK, ABORT and STOP |
//! | [`ack`] | receiving them |
//! | [`reassembly`] | receiving DATA: reassembly of segments |
//! | [`double_sided`](super::double_sided) | double-sided transfers: the window of the response |
//!
//! IBTA specification, volume 1, section 13.6.

pub(super) mod ack;
pub(super) mod reassembly;
mod reply;

use kernel::sync::Arc;
use rdma::{core::mad::recv::RecvMad, MaySleep};

use super::{
    header::{rmpp_flag, rmpp_status, rmpp_type, Header, Rmpp, MAD_HEADER, RMPP_AT, RMPP_VERSION},
    state::Agent,
};

/// Handles a MAD that an agent with RMPP has received: returns a MAD without RMPP or a whole message for the client.
pub(super) fn receive(agent: &Arc<Agent>, mad: RecvMad, sleep: &MaySleep) -> Option<RecvMad> {
    let rmpp = Rmpp::parse(&mad.bytes(RMPP_AT));
    if !rmpp.is_active() {
        return Some(mad);
    }
    if rmpp.version != RMPP_VERSION {
        ack::refuse(agent, &mad, rmpp_status::UNSUPPORTED_VERSION, sleep);
        return None;
    }
    match rmpp.kind {
        rmpp_type::DATA => return receive_data(agent, mad, &rmpp, sleep),
        rmpp_type::ACK => ack::acknowledged(agent, &mad, &rmpp, sleep),
        rmpp_type::STOP => ack::stopped(agent, &mad, &rmpp, sleep),
        rmpp_type::ABORT => ack::aborted(agent, &mad, &rmpp, sleep),
        _ => ack::refuse(agent, &mad, rmpp_status::BAD_TYPE, sleep),
    }
    None
}

fn receive_data(
    agent: &Arc<Agent>,
    mad: RecvMad,
    rmpp: &Rmpp,
    sleep: &MaySleep,
) -> Option<RecvMad> {
    let is_first = rmpp.has(rmpp_flag::FIRST);
    let fault = match rmpp.segment {
        _ if rmpp.status != 0 => Some(rmpp_status::BAD_STATUS),
        nth if is_first != (nth == 1) => Some(rmpp_status::BAD_SEGMENT),
        _ => None,
    };
    if let Some(status) = fault {
        reply::abort(agent, &mad, status, sleep);
        return None;
    }
    // A response that matches no request is dropped.
    let header = Header::parse(&mad.bytes::<MAD_HEADER>(0));
    if header.is_response() && ack::find_request(agent, &mad).is_none() {
        return None;
    }
    match is_first {
        true => reassembly::first_segment(agent, mad, sleep),
        false => reassembly::next_segment(agent, mad, rmpp, sleep),
    }
}
