// SPDX-License-Identifier: GPL-2.0

//! Receiving the RMPP packets ACK, STOP and ABORT for a message that is being sent.
//!
//! IBTA specification, volume 1, section 13.6.3.

use kernel::sync::Arc;
use kernel_ext::bindings as c;
use rdma::{core::mad::recv::RecvMad, MaySleep};

use super::{
    super::{
        complete, double_sided,
        header::{rmpp_status, Header, Rmpp, MAD_HEADER},
        matching, segment,
        state::{Agent, Key, Phase, Table, Transaction},
    },
    reply,
};

/// The posted MAD that a packet belongs to.
pub(super) fn find_request(agent: &Agent, mad: &RecvMad) -> Option<Key> {
    matching::find(agent, &agent.table.lock(), mad)
}

/// Fails the message that a packet belongs to, unless it was received completely.
fn fail(agent: &Arc<Agent>, mad: &RecvMad, status: u8, sleep: &MaySleep) {
    let mut table = agent.table.lock();
    let Some(key) = matching::find(agent, &table, mad) else {
        return;
    };
    let is_received = |table: &mut Table| {
        let entry = table.get(&key)?;
        Some(entry.progress.last_ack == entry.send().body.segments())
    };
    if is_received(&mut table) != Some(false) {
        return;
    }
    let answered = complete::answer(&mut table, &key, (c::IB_WC_REM_ABORT_ERR, status.into()));
    drop(table);
    if let Some(answered) = answered {
        answered.end(agent, sleep);
    }
}

/// Fails the message of an invalid packet, and sends an ABORT.
pub(super) fn refuse(agent: &Arc<Agent>, mad: &RecvMad, status: u8, sleep: &MaySleep) {
    fail(agent, mad, status, sleep);
    reply::abort(agent, mad, status, sleep);
}

/// The receiver has stopped the message (STOP).
pub(super) fn stopped(agent: &Arc<Agent>, mad: &RecvMad, rmpp: &Rmpp, sleep: &MaySleep) {
    match rmpp.status {
        rmpp_status::RESX => fail(agent, mad, rmpp.status, sleep),
        _ => refuse(agent, mad, rmpp_status::BAD_STATUS, sleep),
    }
}

/// The receiver has aborted the message (ABORT).
pub(super) fn aborted(agent: &Arc<Agent>, mad: &RecvMad, rmpp: &Rmpp, sleep: &MaySleep) {
    match rmpp_status::ABORT.contains(&rmpp.status) {
        true => fail(agent, mad, rmpp.status, sleep),
        false => refuse(agent, mad, rmpp_status::BAD_STATUS, sleep),
    }
}

/// Result of an ACK.
enum AfterAck {
    Nothing,
    /// It acknowledges segments that were not sent, or are beyond the window.
    Refuse,
    /// The message is received completely, and its response is an RMPP message: the direction changes.
    Turn,
    /// The message is received completely, and has no response.
    Finish(complete::AnsweredRequest),
}

/// The receiver has acknowledged segments (ACK).
pub(super) fn acknowledged(agent: &Arc<Agent>, mad: &RecvMad, rmpp: &Rmpp, sleep: &MaySleep) {
    let (nth, window) = (rmpp.segment, rmpp.length_or_window);
    if rmpp.status != 0 {
        return refuse(agent, mad, rmpp_status::BAD_STATUS, sleep);
    }
    if window < nth {
        return refuse(agent, mad, rmpp_status::W2S, sleep);
    }
    let then = {
        let mut table = agent.table.lock();
        match matching::find(agent, &table, mad) {
            Some(key) => record_ack(agent, &mut table, &key, (nth, window)),
            None => {
                if nth == 0 {
                    let header = Header::parse(&mad.bytes::<MAD_HEADER>(0));
                    let answered = Transaction::of(agent, &header, mad);
                    double_sided::set_answer_window(&table, &answered, window);
                }
                AfterAck::Nothing
            }
        }
    };
    match then {
        AfterAck::Nothing => {}
        AfterAck::Refuse => refuse(agent, mad, rmpp_status::S2B, sleep),
        AfterAck::Turn => reply::acknowledge_turn(agent, mad, sleep),
        AfterAck::Finish(answered) => answered.end(agent, sleep),
    }
}

/// Records an acknowledgement up to `nth`, and sends segments up to `window`.
fn record_ack(
    agent: &Arc<Agent>,
    table: &mut Table,
    key: &Key,
    (nth, window): (u32, u32),
) -> AfterAck {
    let Some(entry) = table.get(key) else {
        return AfterAck::Nothing;
    };
    let count = entry.send().body.segments();
    let waits = entry.phase != Phase::Sending;
    if entry.progress.last_ack == count {
        // A repeated final ACK: the peer has missed the ACK that lets it respond.
        return AfterAck::Turn;
    }
    if nth > count || nth > entry.progress.window {
        return AfterAck::Refuse;
    }
    if window < entry.progress.window || nth < entry.progress.last_ack {
        return AfterAck::Nothing;
    }
    if nth > entry.progress.last_ack {
        entry.progress.last_ack = nth;
        entry.retries_left = entry.max_retries;
    }
    entry.progress.window = window;
    if nth == count {
        let timeout_ms = entry.send().body.timeout_ms();
        if timeout_ms == 0 {
            return complete::answer(table, key, (c::IB_WC_SUCCESS, 0))
                .map_or(AfterAck::Nothing, AfterAck::Finish);
        }
        if waits {
            table.wait(key, timeout_ms);
            agent.arm(table);
        }
        return AfterAck::Turn;
    }
    let next = entry.progress.segment;
    if waits && next < window && next < count && segment::send_next(entry).is_ok() {
        table.set_phase(key, Phase::Sending);
    }
    // A segment that could not be sent is sent again after the timeout.
    AfterAck::Nothing
}
