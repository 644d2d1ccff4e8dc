// SPDX-License-Identifier: GPL-2.0

//! Completing posted MADs: by their send completion, or by their response.
//!
//! IBTA specification, volume 1, section 13.5.

use kernel::sync::Arc;
use kernel_ext::bindings as c;
use rdma::{
    core::mad::{qp::SpecialQp, send::Addressed, trace},
    MaySleep,
};

use super::{
    segment::{self, AfterSend},
    state::{traced, Agent, Entry, Key, Layer, Phase, SendMad, Table},
    transmit,
};

/// Brings a queue pair in the SQE state back to RTS.
fn recover(qp: &SpecialQp<Layer>, sleep: &MaySleep) {
    match qp.recover(sleep) {
        Ok(()) => transmit::recovered(qp),
        Err(error) => kernel::pr_warn_once!("a special queue pair stays in error: {:?}\n", error),
    }
}

/// Handles the send completion of a MAD.
pub(super) fn sent(
    qp: &Arc<SpecialQp<Layer>>,
    send: Addressed<SendMad>,
    wc: &c::ib_wc,
    sleep: &MaySleep,
) {
    let (status, vendor_err) = (wc.status, wc.vendor_err);
    let send = match status {
        c::IB_WC_SUCCESS => send,
        c::IB_WC_WR_FLUSH_ERR => match transmit::post_again(qp, send) {
            Ok(()) => return,
            Err(send) => send,
        },
        _ => {
            recover(qp, sleep);
            send
        }
    };
    trace::ib_mad_send_done_agent(&send.agent.body);
    trace::ib_mad_send_done_handler(&traced(&send, false), wc);
    transmit::left(qp);
    finish(&send.end(), (status, vendor_err), sleep);
    while let Some(failed) = transmit::post_waiting(qp) {
        finish(&failed.end(), (c::IB_WC_LOC_QP_OP_ERR, 0), sleep);
    }
}

/// Handles a MAD that has left the queue pair: it waits for its response, or is returned.
fn finish(send: &Arc<SendMad>, (status, vendor_err): (u32, u32), sleep: &MaySleep) {
    let agent = &send.agent;
    let key = send.key();
    let mut table = agent.table.lock();
    let Some(entry) = table
        .get(&key)
        .filter(|entry| entry.phase == Phase::Sending)
    else {
        return;
    };
    let mut status = status;
    if send.is_kernel_rmpp() {
        match segment::after_send(entry, status) {
            AfterSend::Next => return,
            AfterSend::Done(changed) => status = changed,
        }
    }
    if entry.canceled {
        status = c::IB_WC_WR_FLUSH_ERR;
    } else if !entry.answered && entry.timeout_ms != 0 {
        let timeout_ms = entry.timeout_ms;
        table.wait(&key, timeout_ms);
        return agent.arm(&mut table);
    }
    let done = table.remove(&key);
    drop(table);
    if let Some(done) = done {
        let ended = done.ended.filter(|_| status == c::IB_WC_SUCCESS);
        end(agent, done, ended.unwrap_or((status, vendor_err)), sleep);
    }
}

/// Returns a MAD that was removed from its agent's table to its owner.
pub(super) fn end(
    agent: &Arc<Agent>,
    done: Entry,
    (status, vendor_err): (u32, u32),
    sleep: &MaySleep,
) {
    if done.is_limited {
        send_queued(agent, sleep);
    }
    agent.give_back(done.origin, status, vendor_err, sleep);
}

/// Sends queued MADs as far as flow control allows; none of an agent that is being unregistered, whose MADs are canceled.
pub(super) fn send_queued(agent: &Arc<Agent>, sleep: &MaySleep) {
    loop {
        let mut table = agent.table.lock();
        if table.closed || table.outstanding >= agent.max_outstanding {
            return;
        }
        let Some(key) = table.first_queued() else {
            return;
        };
        table.set_phase(&key, Phase::Sending);
        let send = table.get(&key).map(|entry| entry.origin.addressed());
        drop(table);
        let sent = send.map_or(Ok(()), |send| send.and_then(transmit::transmit));
        if sent.is_ok() {
            continue;
        }
        let failed = agent.table.lock().remove(&key);
        if let Some(failed) = failed {
            agent.give_back(failed.origin, c::IB_WC_LOC_QP_OP_ERR, 0, sleep);
        }
    }
}

/// State of a request whose response has arrived.
pub(super) enum AnsweredRequest {
    /// It is complete.
    Done(Entry, (u32, u32)),
    /// Its send completion has not arrived; it completes with that.
    Early(Arc<SendMad>),
}

impl AnsweredRequest {
    /// The request.
    pub(super) fn send(&self) -> &Arc<SendMad> {
        match self {
            Self::Done(entry, _) => entry.send(),
            Self::Early(send) => send,
        }
    }

    /// Returns the request to its owner, if it is complete.
    pub(super) fn end(self, agent: &Arc<Agent>, sleep: &MaySleep) {
        if let Self::Done(entry, status) = self {
            end(agent, entry, status, sleep);
        }
    }
}

/// Marks a request as answered; `status` is its `enum ib_wc_status` and vendor error.
pub(super) fn answer(table: &mut Table, key: &Key, status: (u32, u32)) -> Option<AnsweredRequest> {
    let entry = table.get(key)?;
    if entry.phase != Phase::Sending {
        let done = table.remove(key)?;
        return Some(AnsweredRequest::Done(done, status));
    }
    let send = entry.send().clone();
    table.update(key, |entry| {
        entry.answered = true;
        entry.timeout_ms = 0;
        entry.ended = Some(status);
    });
    Some(AnsweredRequest::Early(send))
}
