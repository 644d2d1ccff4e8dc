// SPDX-License-Identifier: GPL-2.0

//! The work of an agent: requests that have timed out are sent again or returned; locally handled SMPs are delivered.
//!
//! C header: `include/rdma/ib_mad.h`.

use core::sync::atomic::Ordering;

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{bindings as c, sleepable::SleepableWork, timer::now_ns};
use rdma::MaySleep;

use super::{
    complete::{self, send_queued},
    segment,
    state::{Agent, Key, Local, Phase, Table},
    transmit::transmit,
};

/// Result of a request's timeout.
enum Expired {
    /// It was sent again, or is queued for that.
    Again,
    /// It is returned: with `enum ib_wc_status`.
    Over(u32),
}

/// Handles the timeout of a request.
fn expire(table: &mut Table, key: &Key) -> Expired {
    let has_backlog = table.has_backlog();
    let Some(entry) = table.get(key) else {
        return Expired::Again;
    };
    if entry.canceled {
        return Expired::Over(c::IB_WC_WR_FLUSH_ERR);
    }
    let Some(left) = entry.retries_left.checked_sub(1) else {
        return Expired::Over(c::IB_WC_RESP_TIMEOUT_ERR);
    };
    entry.retries_left = left;
    let send = entry.send().clone();
    send.retries_left.store(left, Ordering::Relaxed);
    send.body.set_retries(send.body.retries().saturating_add(1));
    entry.timeout_ms = send.body.timeout_ms();
    if entry.is_limited && has_backlog {
        table.queue(key);
        return Expired::Again;
    }
    table.set_phase(key, Phase::Sending);
    let Some(entry) = table.get(key) else {
        return Expired::Again;
    };
    let sent = match send.is_kernel_rmpp() {
        true => segment::send_again(entry).unwrap_or(Err(ETIMEDOUT)),
        false => entry.origin.addressed().and_then(transmit),
    };
    match sent {
        Ok(()) => Expired::Again,
        Err(_) => Expired::Over(c::IB_WC_RESP_TIMEOUT_ERR),
    }
}

/// Handles all requests whose deadline has passed.
fn expire_all(agent: &Arc<Agent>, sleep: &MaySleep) {
    loop {
        let mut table = agent.table.lock();
        let first = table
            .first_waiting()
            .filter(|(until, _)| *until <= now_ns());
        let Some((_, key)) = first else {
            return;
        };
        let Expired::Over(status) = expire(&mut table, &key) else {
            continue;
        };
        let over = table.remove(&key);
        drop(table);
        if let Some(over) = over {
            complete::end(agent, over, (status, 0), sleep);
        }
    }
}

/// Delivers locally handled SMPs: first the response, then the send completion.
fn deliver_local(agent: &Arc<Agent>, sleep: &MaySleep) {
    loop {
        let local = core::mem::take(&mut agent.table.lock().local);
        if local.is_empty() {
            return;
        }
        for Local { origin, received } in local {
            if let Some((receiver, mad)) = received {
                receiver.deliver(Some(origin.send()), mad, sleep);
            }
            agent.give_back(origin, c::IB_WC_SUCCESS, 0, sleep);
        }
    }
}

impl SleepableWork for Agent {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        this.table.lock().armed = None;
        deliver_local(&this, sleep);
        expire_all(&this, sleep);
        send_queued(&this, sleep);
        let mut table = this.table.lock();
        this.arm(&mut table);
    }
}
