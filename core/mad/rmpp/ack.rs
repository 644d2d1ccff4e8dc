// SPDX-License-Identifier: GPL-2.0

//! What the receiver of a message of RMPP answers, and what that does to the message.
//!
//! IBTA specification, volume 1, section 13.6.3.

use kernel::sync::Arc;
use kernel_ext::bindings as c;
use rdma::{core::mad::recv::RecvMad, MaySleep};

use super::{
    super::{
        complete,
        header::{rmpp_status, Header, Rmpp, MAD_HEADER},
        matching,
        state::{Agent, Key, Phase, Table, Transaction},
    },
    reply, segment, turn,
};

/// The request of ours that a MAD belongs to.
pub(super) fn find_request(agent: &Agent, mad: &RecvMad) -> Option<Key> {
    matching::find(agent, &agent.table.lock(), mad)
}

/// Ends the message that a packet is about, if it is not received yet.
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

/// A packet makes no sense: ends the message that it is about, and tells who has sent it.
pub(super) fn refuse(agent: &Arc<Agent>, mad: &RecvMad, status: u8, sleep: &MaySleep) {
    fail(agent, mad, status, sleep);
    reply::abort(agent, mad, status, sleep);
}

/// The receiver has stopped the message.
pub(super) fn stopped(agent: &Arc<Agent>, mad: &RecvMad, rmpp: &Rmpp, sleep: &MaySleep) {
    match rmpp.status {
        rmpp_status::RESX => fail(agent, mad, rmpp.status, sleep),
        _ => refuse(agent, mad, rmpp_status::BAD_STATUS, sleep),
    }
}

/// The receiver has aborted the message.
pub(super) fn aborted(agent: &Arc<Agent>, mad: &RecvMad, rmpp: &Rmpp, sleep: &MaySleep) {
    match rmpp_status::ABORT.contains(&rmpp.status) {
        true => fail(agent, mad, rmpp.status, sleep),
        false => refuse(agent, mad, rmpp_status::BAD_STATUS, sleep),
    }
}

/// What follows from an acknowledgement.
enum Then {
    Nothing,
    /// It acknowledges what was not sent, or not allowed.
    Refuse,
    /// The message is received, and its answer is a message too.
    Turn,
    /// The message is received, and has no answer.
    Finish(complete::Answered),
}

/// The receiver has acknowledged segments.
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
            Some(key) => take_in(agent, &mut table, &key, (nth, window)),
            None => {
                if nth == 0 {
                    let header = Header::parse(&mad.bytes::<MAD_HEADER>(0));
                    let answered = Transaction::of(agent, &header, mad);
                    turn::set_answer_window(&table, &answered, window);
                }
                Then::Nothing
            }
        }
    };
    match then {
        Then::Nothing => {}
        Then::Refuse => refuse(agent, mad, rmpp_status::S2B, sleep),
        Then::Turn => reply::acknowledge_turn(agent, mad, sleep),
        Then::Finish(answered) => answered.end(agent, sleep),
    }
}

/// Takes note of an acknowledgement of all segments up to `nth`, and sends more, up to `window`.
fn take_in(agent: &Arc<Agent>, table: &mut Table, key: &Key, (nth, window): (u32, u32)) -> Then {
    let Some(entry) = table.get(key) else {
        return Then::Nothing;
    };
    let count = entry.send().body.segments();
    let waits = entry.phase != Phase::Sending;
    if entry.progress.last_ack == count {
        // It was acknowledged before: the other end has not heard that it may answer.
        return Then::Turn;
    }
    if nth > count || nth > entry.progress.window {
        return Then::Refuse;
    }
    if window < entry.progress.window || nth < entry.progress.last_ack {
        return Then::Nothing;
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
                .map_or(Then::Nothing, Then::Finish);
        }
        if waits {
            table.wait(key, timeout_ms);
            agent.arm(table);
        }
        return Then::Turn;
    }
    let next = entry.progress.segment;
    if waits && next < window && next < count && segment::send_next(entry).is_ok() {
        table.set_phase(key, Phase::Sending);
    }
    // What could not be sent is sent again after the time limit.
    Then::Nothing
}
