// SPDX-License-Identifier: GPL-2.0

//! Polling the completion queues of kernel clients.
//!
//! | `enum ib_poll_context` | polled by |
//! |---|---|
//! | `IB_POLL_DIRECT` | the client, by `ib_process_cq_direct` |
//! | `IB_POLL_SOFTIRQ` | a softirq, with a budget |
//! | `IB_POLL_WORKQUEUE` | a work item, on the CPU of the completion interrupt |
//! | `IB_POLL_UNBOUND_WORKQUEUE` | a work item, on any CPU |
//!
//! A poller takes completions until there are none, requests notification, and polls once more if a completion was
//! missed. One poller of a queue runs at a time, so one completion handler runs at a time.
//!
//! C header: `include/rdma/ib_verbs.h` (`enum ib_poll_context`, `ib_process_cq_direct`).

use core::mem::MaybeUninit;

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{
    bindings as c,
    export::export,
    work::{GlobalQueue, InstalledQueue, OwnedQueue, QueueFlags},
};
use rdma::{
    core::{
        cq::{Batch, ClientCq, NewCq, Poller, Polling, SoftirqTurn, WorkTurn},
        object::{Failed, Owned},
        trace, Cq,
    },
    MaySleep,
};

use crate::restrack::track;

/// Batch size of a client that polls itself: the completions are on its stack.
const DIRECT_BATCH: usize = 8;

/// Completions that a softirq takes before it is rescheduled.
const SOFTIRQ_BUDGET: u16 = 256;

/// Completions that a work item takes before it is requeued.
const WORK_BUDGET: u32 = 65536;

/// Flags of a notification request that also reports missed completions.
const NOTIFY: u32 = c::IB_CQ_NEXT_COMP | c::IB_CQ_REPORT_MISSED_EVENTS;

/// Profiles of adaptive moderation: microseconds and completions.
///
/// The values are those of the C core, which drivers and clients are tuned for.
pub(super) const PROFILES: [(u16, u16); 9] = [
    (1, 1),
    (1, 4),
    (2, 4),
    (2, 8),
    (4, 8),
    (16, 8),
    (16, 16),
    (32, 16),
    (32, 32),
];

/// The workqueue of pollers bound to their CPU.
static BOUND: GlobalQueue = GlobalQueue::new();

/// The workqueue of unbound pollers.
static UNBOUND: GlobalQueue = GlobalQueue::new();

/// Keeps the workqueues until it is dropped.
pub(crate) struct Queues {
    _bound: InstalledQueue,
    _unbound: InstalledQueue,
}

/// Creates the workqueues.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn init(sleep: &MaySleep) -> Result<Queues> {
    let flags = QueueFlags::HIGHPRI | QueueFlags::MEM_RECLAIM | QueueFlags::SYSFS;
    let bound = OwnedQueue::new(c"ib-comp-wq", flags | QueueFlags::PER_CPU, 0, sleep)?;
    let unbound = flags | QueueFlags::UNBOUND;
    let most = c::wq_consts_WQ_UNBOUND_MAX_ACTIVE as u16;
    let unbound = OwnedQueue::new(c"ib-comp-unb-wq", unbound, most, sleep)?;
    Ok(Queues {
        _bound: BOUND.install(bound),
        _unbound: UNBOUND.install(unbound),
    })
}

/// Takes completions and calls their handlers, until there are none or, if given, `budget` is reached. Returns their
/// number.
fn process(cq: ClientCq<'_>, budget: Option<u32>, batch: &mut Batch<'_>) -> u32 {
    let mut completed = 0u32;
    trace::cq_process(&cq);
    loop {
        let left = budget.map_or(u32::MAX, |budget| budget.saturating_sub(completed));
        let wanted = batch.capacity().min(left as usize);
        let completions = batch.poll(cq, wanted);
        let taken = completions.len();
        trace::cq_poll(&cq, wanted, taken);
        for completion in completions {
            let is_success = completion.is_success();
            if !completion.deliver() && is_success {
                kernel::pr_warn_once!("a completion of a polled queue has no handler\n");
            }
        }
        completed = completed.wrapping_add(taken as u32);
        if taken < batch.capacity() || taken == 0 {
            return completed;
        }
        if budget.is_some_and(|budget| completed >= budget) {
            return completed;
        }
    }
}

/// The core as the poller of clients' queues.
pub(super) struct Core;

impl Poller for Core {
    fn softirq(mut turn: SoftirqTurn<'_>, budget: u32) -> u32 {
        let cq = turn.turn().cq();
        let completed = process(cq, Some(budget), &mut turn.turn().batch());
        // Before the turn ends: the next poller may run on another CPU.
        turn.turn().measure(completed);
        if completed < budget {
            let idle = turn.complete();
            if cq.driver_req_notify(NOTIFY) {
                trace::cq_reschedule(&cq);
                idle.resume();
            }
        }
        completed
    }

    fn work(mut turn: WorkTurn<'_>, _sleep: &MaySleep) {
        let cq = turn.turn().cq();
        let completed = process(cq, Some(WORK_BUDGET), &mut turn.turn().batch());
        if completed >= WORK_BUDGET || cq.driver_req_notify(NOTIFY) {
            turn.resume();
        } else {
            turn.turn().measure(completed);
        }
    }

    fn announced(cq: &Cq) {
        trace::cq_schedule(cq);
    }

    fn unsolicited(_cq: &Cq) {
        kernel::pr_warn_once!("got unsolicited completion for a CQ that its client polls\n");
    }

    fn moderate(cq: &Cq, profile: usize, sleep: &MaySleep) {
        if let Some((microseconds, completions)) = PROFILES.get(profile).copied() {
            trace::cq_modify(cq, completions, microseconds);
            // Ignored: the next change of the profile is tried again.
            let _ = cq.driver_modify(completions, microseconds, sleep);
        }
    }
}

/// Starts polling a new queue.
///
/// # Errors
///
/// `EINVAL` for an invalid poll context: the queue is destroyed then.
pub(crate) fn start(cq: NewCq, sleep: &MaySleep) -> Result<Owned<Cq>> {
    // SAFETY: The driver of the queue's device uses symbols of this module, which stays loaded, with the workqueues, until the
    // driver is unloaded.
    let work = |queue: &'static GlobalQueue| unsafe { queue.get() }.map(Polling::Work);
    let polling = match cq.poll_ctx() {
        c::IB_POLL_SOFTIRQ => Some(Polling::Softirq(SOFTIRQ_BUDGET)),
        c::IB_POLL_WORKQUEUE => work(&BOUND),
        c::IB_POLL_UNBOUND_WORKQUEUE => work(&UNBOUND),
        _ => None,
    };
    let device = cq.device();
    let dim = polling.is_some() && device.has_modify_cq() && device.uses_dim();
    let cq = cq.poll::<Core>(polling.unwrap_or(Polling::Direct), dim, sleep);
    let cq = cq.map_err(|failed| match failed.object {
        Some(object) => track::discard(Failed {
            object,
            error: failed.error,
        }),
        None => failed.error,
    })?;
    if cq.poll_ctx() != c::IB_POLL_DIRECT {
        cq.driver_req_notify(c::IB_CQ_NEXT_COMP);
    }
    Ok(cq)
}

/// Takes completions and calls their handlers, until there are none or `budget` is reached.
pub(crate) fn process_direct(cq: ClientCq<'_>, budget: Option<u32>) -> u32 {
    let mut room = [const { MaybeUninit::uninit() }; DIRECT_BATCH];
    process(cq, budget, &mut Batch::new(&mut room))
}

/// Takes completions and calls their handlers, up to `budget`; -1: without limit. Returns their number. Any context
/// that the handlers may run in.
///
/// It does not request notification. On a queue with another poller, handlers may run concurrently.
#[export]
fn ib_process_cq_direct(cq: ClientCq<'_>, budget: c_int) -> c_int {
    process_direct(cq, u32::try_from(budget).ok()) as c_int
}
