// SPDX-License-Identifier: GPL-2.0

//! Posting a MAD, and canceling one.
//!
//! Requests of some classes are limited: an agent has no more of them without an answer than its peer can be expected to
//! receive; the others wait.

use core::sync::atomic::Ordering;

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{error::ESHUTDOWN, timer::now_ns};
use rdma::core::mad::recv::RecvMad;

use super::{
    header::{class, has_rmpp, rmpp_type, Header},
    local::{self, Outgoing},
    rmpp::{segment, turn},
    security,
    state::{AgentUse, Entry, Local, NewEntry, Origin, Phase, SendMad, Table},
    transmit::transmit,
};

/// Whether a MAD is one of the requests that are limited.
fn is_limited(send: &SendMad, header: &Header) -> bool {
    let is_message = send.agent.body.rmpp_version() != 0 && send.rmpp().is_active();
    let is_of_class = header.is_smp() || matches!(header.mgmt_class, class::CM | class::SUBN_ADM);
    send.body.timeout_ms() != 0 && !is_message && is_of_class
}

/// Whether a new request has to wait until others are answered.
fn must_wait(send: &SendMad, table: &Table) -> bool {
    let most = send.agent.max_outstanding;
    most != 0 && (table.has_backlog() || table.outstanding >= most)
}

/// Whether a MAD is not done when it is sent: somebody must answer it, or acknowledge it.
fn needs_peer(send: &SendMad) -> bool {
    send.body.timeout_ms() != 0 || send.is_kernel_rmpp() && send.rmpp().is_active()
}

fn check(send: &SendMad, header: &Header) -> Result {
    security::check(&send.agent, send.body.pkey_index())?;
    if send.agent.body.rmpp_version() != 0 && !has_rmpp(header.mgmt_class) {
        return Err(EINVAL);
    }
    Ok(())
}

/// Lets an SMP that does not leave the machine be delivered.
fn post_local(origin: Origin, received: Option<(AgentUse, RecvMad)>) -> Result {
    let agent = origin.send().agent.clone();
    let mut table = agent.table.lock();
    if table.closed {
        return Err(ESHUTDOWN);
    }
    // A place is made first: what cannot be delivered stays its owner's.
    table.local.reserve(1, GFP_ATOMIC)?;
    let _ = table.local.push_within_capacity(Local { origin, received });
    agent.arm(&mut table);
    Ok(())
}

/// Posts a MAD. Any context. It comes back to who has posted it once, unless this fails.
///
/// # Errors
///
/// `EACCES` where security modules forbid it; `EINVAL` for a class without RMPP of an agent with it, for a MAD that is posted
/// already or has no address, and for an SMP whose route makes no sense; `ESHUTDOWN` for a request where the agent
/// goes, whose handlers may still answer others; `ENOMEM`, and what the driver answers.
pub(crate) fn post(origin: Origin) -> Result {
    let send = origin.send().clone();
    let header = send.header();
    check(&send, &header)?;
    if header.is_directed_route() {
        match local::send(&send)? {
            Outgoing::Wire => {}
            Outgoing::Local(received) => return post_local(origin, received),
        }
    }
    let limited = is_limited(&send, &header);
    let window = match send.is_kernel_rmpp() {
        true => turn::first_window(&send),
        false => 0,
    };
    let agent = &send.agent;
    let mut table = agent.table.lock();
    if table.closed && needs_peer(&send) {
        return Err(ESHUTDOWN);
    }
    if table.contains(&send.key()) {
        return Err(EINVAL);
    }
    send.note_tid(header.tid);
    let new = NewEntry::new(origin)?;
    let key = new.key();
    let waits = limited && must_wait(&send, &table);
    table.insert(new, |entry| fill(entry, limited));
    if waits {
        table.queue(&key);
        return Ok(());
    }
    let sent = match table.get(&key) {
        Some(entry) => start(entry, &send, window),
        None => Ok(()),
    };
    if sent.is_err() {
        let failed = table.remove(&key);
        drop(table);
        drop(failed);
    }
    sent
}

/// Fills in what the client has asked for.
fn fill(entry: &mut Entry, limited: bool) {
    let retries = entry.send().body.retries();
    entry.timeout_ms = entry.send().body.timeout_ms();
    entry.max_retries = retries;
    entry.retries_left = retries;
    let send = entry.send();
    send.max_retries.store(retries, Ordering::Relaxed);
    send.retries_left.store(retries, Ordering::Relaxed);
    entry.is_limited = limited;
    // From now on it tells how often the MAD was sent again.
    entry.send().body.set_retries(0);
}

/// Sends a MAD for the first time.
fn start(entry: &mut Entry, send: &Arc<SendMad>, window: u32) -> Result {
    if !send.is_kernel_rmpp() {
        return transmit(send);
    }
    if send.rmpp().kind != rmpp_type::DATA {
        send.body.select(0);
        return transmit(send);
    }
    segment::send_first(entry, window)
}

/// Changes how long the answer of a MAD is awaited, in milliseconds, from now on; 0: cancels it. Any context.
///
/// # Errors
///
/// `EINVAL` for a MAD that is not posted, or was canceled.
pub(crate) fn modify(send: &SendMad, timeout_ms: u32) -> Result {
    let agent = &send.agent;
    let key = send.key();
    let mut table = agent.table.lock();
    let entry = table
        .get(&key)
        .filter(|entry| !entry.canceled)
        .ok_or(EINVAL)?;
    let phase = entry.phase;
    send.body.set_timeout_ms(timeout_ms);
    table.update(&key, |entry| {
        entry.timeout_ms = timeout_ms;
        entry.canceled = timeout_ms == 0;
    });
    match (phase, timeout_ms) {
        (Phase::Sending, _) | (Phase::Queued(_), 1..) => return Ok(()),
        (_, 0) => table.set_phase(&key, Phase::Waiting(now_ns())),
        (Phase::Waiting(_), _) => table.wait(&key, timeout_ms),
    }
    agent.arm(&mut table);
    Ok(())
}
