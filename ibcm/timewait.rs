// SPDX-License-Identifier: GPL-2.0

//! Peers of connections that have ended, until no datagram of theirs can come any more.
//!
//! C header: `include/rdma/ib_cm.h`.

use ib_cm_protocol::remote::Remote;
use kernel::{new_delayed_work, prelude::*, sync::Arc, time::msecs_to_jiffies};
use kernel_ext::{delayed, sleepable::SleepableWork};
use rdma::MaySleep;

use crate::{
    id::{Entry, QUEUE},
    tables::{self, Waiting},
};

/// Waits for so long. Without memory the client is told at once.
pub(crate) fn begin(number: u32, remote: Option<Remote>, milliseconds: u32) {
    let made = tables::with(|tables| {
        let serial = tables.next_waiting();
        let init = pin_init!(Waiting {
            serial,
            number,
            remote,
            work <- new_delayed_work!("Waiting::work"),
        });
        let waiting = Arc::pin_init(init, GFP_KERNEL)?;
        tables.wait(&waiting)?;
        // With the lock, so that whoever ends all waits finds none that is not queued yet.
        QUEUE.with(|queue| delayed::enqueue(queue, &waiting, msecs_to_jiffies(milliseconds)));
        Ok(())
    });
    if made.is_err() {
        expire(number, remote);
    }
}

fn expire(number: u32, remote: Option<Remote>) {
    let found = tables::with(|tables| {
        let id = match &remote {
            Some(remote) => tables.find(number, remote.comm_id),
            None => tables.by_number(number),
        };
        id.ok_or(ENOENT)
    });
    if let Ok(id) = found {
        let _ = id.post(Entry::Expired(remote));
    }
}

impl SleepableWork for Waiting {
    fn run(this: Arc<Self>, _sleep: &MaySleep) {
        let ended = tables::with(|tables| Ok(tables.end_wait(this.serial)));
        drop(ended);
        expire(this.number, this.remote);
    }
}

/// Ends all waits, and lets none begin, when the module goes.
pub(crate) fn end_all(sleep: &MaySleep) {
    tables::change(|tables| tables.end_waiting());
    while let Ok(Some(waiting)) = tables::with(|tables| Ok(tables.any_waiting())) {
        delayed::cancel_sync(&waiting, sleep);
        let ended = tables::with(|tables| Ok(tables.end_wait(waiting.serial)));
        drop(ended);
    }
}
