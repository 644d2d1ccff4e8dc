// SPDX-License-Identifier: GPL-2.0

//! Posting and canceling MADs (`ib_post_send_mad`, `ib_modify_mad`).
//!
//! Flow control: for some classes the outstanding requests of an agent are limited; further ones are queued.
//!
//! C header: `include/rdma/ib_mad.h`.

use core::sync::atomic::Ordering;

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{error::ESHUTDOWN, timer::now_ns};
use rdma::core::mad::recv::RecvMad;

use super::{
    double_sided,
    header::{class, has_rmpp, rmpp_type, Header},
    local::{self, Outgoing},
    security, segment,
    state::{AgentUse, Entry, Local, Origin, Phase, SendMad, Table},
    transmit::transmit,
};

/// Whether a MAD is a request under flow control.
fn is_limited(send: &SendMad, header: &Header) -> bool {
    let is_message = send.agent.body.rmpp_version() != 0 && send.rmpp().is_active();
    let is_of_class = header.is_smp() || matches!(header.mgmt_class, class::CM | class::SUBN_ADM);
    send.body.timeout_ms() != 0 && !is_message && is_of_class
}

/// Whether a new request must be queued.
fn must_wait(send: &SendMad, table: &Table) -> bool {
    let most = send.agent.max_outstanding;
    most != 0 && (table.has_backlog() || table.outstanding >= most)
}

/// Whether a MAD waits for a response or an acknowledgement after it is sent.
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

/// Queues a locally handled SMP for delivery.
fn post_local(origin: Origin, received: Option<(AgentUse, RecvMad)>) -> Result {
    let agent = origin.send().agent.clone();
    let mut table = agent.table.lock();
    if table.closed {
        return Err(ESHUTDOWN);
    }
    // Memory is reserved first: on failure the MAD stays with the caller.
    table.local.reserve(1, GFP_ATOMIC)?;
    let _ = table.local.push_within_capacity(Local { origin, received });
    agent.arm(&mut table);
    Ok(())
}

/// Posts a MAD. Any context. Unless this fails, the MAD is returned to its owner once.
///
/// # Errors
///
/// `EACCES` of security modules; `EINVAL` for a class without RMPP on an agent with it, for a MAD that is posted
/// already or has no address, and for an invalid directed route; `ESHUTDOWN` for a request while the agent is being
/// unregistered (its handlers may still send responses); `ENOMEM`, and errors of the driver.
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
        true => double_sided::first_window(&origin),
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
    let key = send.key();
    let waits = limited && must_wait(&send, &table);
    table.insert(origin, key, |entry| fill(entry, limited))?;
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

/// Sets the timeout and the retries of the client.
fn fill(entry: &mut Entry, limited: bool) {
    let retries = entry.send().body.retries();
    entry.timeout_ms = entry.send().body.timeout_ms();
    entry.max_retries = retries;
    entry.retries_left = retries;
    let send = entry.send();
    send.max_retries.store(retries, Ordering::Relaxed);
    send.retries_left.store(retries, Ordering::Relaxed);
    entry.is_limited = limited;
    // From now on the field counts the retries done.
    entry.send().body.set_retries(0);
}

/// Sends a MAD for the first time.
fn start(entry: &mut Entry, send: &Arc<SendMad>, window: u32) -> Result {
    if !send.is_kernel_rmpp() {
        return transmit(entry.origin.addressed()?);
    }
    if send.rmpp().kind != rmpp_type::DATA {
        send.body.select(0);
        return transmit(entry.origin.addressed()?);
    }
    segment::send_first(entry, window)
}

/// Changes the response timeout of a MAD, in milliseconds from now; 0 cancels it. Any context.
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
