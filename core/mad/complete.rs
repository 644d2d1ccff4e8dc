// SPDX-License-Identifier: GPL-2.0

//! The end of a MAD that was posted: its completion has come, or its answer.
//!
//! IBTA specification, volume 1, section 13.5.

use kernel::sync::Arc;
use kernel_ext::bindings as c;
use rdma::{
    core::mad::{qp::SpecialQp, trace},
    MaySleep,
};

use super::{
    rmpp::segment::{self, AfterSend},
    state::{Agent, Entry, Key, Layer, Phase, SendMad, Table},
    transmit,
};

/// The queue pair cannot send for good.
fn recover(qp: &SpecialQp<Layer>, sleep: &MaySleep) {
    match qp.recover(sleep) {
        Ok(()) => transmit::recovered(qp),
        Err(error) => kernel::pr_warn_once!("a special queue pair stays in error: {:?}\n", error),
    }
}

/// The completion of a MAD has come.
pub(super) fn sent(
    qp: &Arc<SpecialQp<Layer>>,
    send: &Arc<SendMad>,
    wc: &c::ib_wc,
    sleep: &MaySleep,
) {
    let (status, vendor_err) = (wc.status, wc.vendor_err);
    match status {
        c::IB_WC_SUCCESS => {}
        c::IB_WC_WR_FLUSH_ERR if transmit::post_again(qp, send) => return,
        c::IB_WC_WR_FLUSH_ERR => {}
        _ => recover(qp, sleep),
    }
    trace::ib_mad_send_done_agent(&send.agent.body);
    trace::ib_mad_send_done_handler(&send.traced(false), wc);
    transmit::left(qp);
    finish(send, (status, vendor_err), sleep);
    while let Some(failed) = transmit::post_waiting(qp) {
        finish(&failed, (c::IB_WC_LOC_QP_OP_ERR, 0), sleep);
    }
}

/// The queue pair does not have a MAD any more: lets it wait for its answer, or gives it back.
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

/// Gives a MAD back that was taken out of its agent's table.
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

/// Sends MADs that have waited until others are answered.
pub(super) fn send_queued(agent: &Arc<Agent>, sleep: &MaySleep) {
    loop {
        let mut table = agent.table.lock();
        if table.outstanding >= agent.max_outstanding {
            return;
        }
        let Some(key) = table.first_queued() else {
            return;
        };
        table.set_phase(&key, Phase::Sending);
        let send = table.get(&key).map(|entry| entry.send().clone());
        drop(table);
        let sent = send.map_or(Ok(()), |send| transmit::transmit(&send));
        if sent.is_ok() {
            continue;
        }
        let failed = agent.table.lock().remove(&key);
        if let Some(failed) = failed {
            agent.give_back(failed.origin, c::IB_WC_LOC_QP_OP_ERR, 0, sleep);
        }
    }
}

/// What became of a request whose answer has come.
pub(super) enum Answered {
    /// It is done.
    Done(Entry, (u32, u32)),
    /// The queue pair still has it: it is done with its completion.
    Early(Arc<SendMad>),
}

impl Answered {
    /// The request.
    pub(super) fn send(&self) -> &Arc<SendMad> {
        match self {
            Self::Done(entry, _) => entry.send(),
            Self::Early(send) => send,
        }
    }

    /// Gives the request back, if it is done.
    pub(super) fn end(self, agent: &Arc<Agent>, sleep: &MaySleep) {
        if let Self::Done(entry, status) = self {
            end(agent, entry, status, sleep);
        }
    }
}

/// The answer of a request has come; `status` is how it ends, `enum ib_wc_status` and why.
pub(super) fn answer(table: &mut Table, key: &Key, status: (u32, u32)) -> Option<Answered> {
    let entry = table.get(key)?;
    if entry.phase != Phase::Sending {
        let done = table.remove(key)?;
        return Some(Answered::Done(done, status));
    }
    let send = entry.send().clone();
    table.update(key, |entry| {
        entry.answered = true;
        entry.timeout_ms = 0;
        entry.ended = Some(status);
    });
    Some(Answered::Early(send))
}
