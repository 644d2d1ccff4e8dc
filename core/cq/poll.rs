// SPDX-License-Identifier: GPL-2.0

//! Who polls the completion queues of clients in the kernel, and when.
//!
//! | `enum ib_poll_context` | who polls |
//! |---|---|
//! | `IB_POLL_DIRECT` | the client, by `ib_process_cq_direct` |
//! | `IB_POLL_SOFTIRQ` | a softirq, a budget of completions at a time |
//! | `IB_POLL_WORKQUEUE` | a work item, on the CPU where completions are announced |
//! | `IB_POLL_UNBOUND_WORKQUEUE` | a work item, on any CPU |
//!
//! A poller takes completions until there are none, asks for the next one to be announced, and polls once more if one came
//! in between. One poller of a queue runs at a time, so one handler of its completions does.

use core::mem::MaybeUninit;

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{
    bindings as c,
    export::export,
    work::{GlobalQueue, InstalledQueue, OwnedQueue, QueueFlags},
};
use rdma::{
    core::{
        cq::{Batch, ClientCq, Poller, SoftirqTurn, WorkTurn},
        object::Owned,
        trace, Cq,
    },
    MaySleep,
};

/// How many completions a client takes at once that polls by itself: they are on its stack.
const DIRECT_BATCH: usize = 8;

/// How many completions a softirq takes before it lets others go on.
const SOFTIRQ_BUDGET: u16 = 256;

/// How many completions a work item takes before it lets others go on.
const WORK_BUDGET: u32 = 65536;

/// The next completion is to be announced; and it is to be said now if there is one already.
const NOTIFY: u32 = c::IB_CQ_NEXT_COMP | c::IB_CQ_REPORT_MISSED_EVENTS;

/// How a queue is moderated, by how completions arrive: after so many microseconds, or so many completions.
///
/// The values are stock's, which drivers and clients are tuned for.
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

/// The queue of pollers that stay on their CPU.
static BOUND: GlobalQueue = GlobalQueue::new();

/// The queue of pollers that run on any CPU.
static UNBOUND: GlobalQueue = GlobalQueue::new();

/// As long as this is there, queues can be polled in work items.
pub(crate) struct Queues {
    _bound: InstalledQueue,
    _unbound: InstalledQueue,
}

/// Makes the queues of pollers.
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

/// Takes completions and calls their handlers, until there are none, or `budget` of them if that is bounded. Returns how
/// many.
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

/// Polls the queues of clients.
pub(super) struct Core;

impl Poller for Core {
    fn softirq(mut turn: SoftirqTurn<'_>, budget: u32) -> u32 {
        let cq = turn.turn().cq();
        let completed = process(cq, Some(budget), &mut turn.turn().batch());
        // Before the turn ends: the next one may run on another CPU.
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
            // The next profile comes anyway.
            let _ = cq.driver_modify(completions, microseconds, sleep);
        }
    }
}

/// Lets a queue that was just made be polled.
///
/// # Errors
///
/// `EINVAL` for a context that there is not.
pub(crate) fn start(cq: &Owned<Cq>, sleep: &MaySleep) -> Result {
    let device = cq.device();
    let direct = cq.poll_ctx() == c::IB_POLL_DIRECT;
    if !direct && device.has_modify_cq() && device.uses_dim() {
        cq.start_dim::<Core>(sleep);
    }
    match cq.poll_ctx() {
        c::IB_POLL_DIRECT => {
            cq.poll_directly::<Core>();
            return Ok(());
        }
        c::IB_POLL_SOFTIRQ => cq.poll_in_softirq::<Core>(SOFTIRQ_BUDGET),
        c::IB_POLL_WORKQUEUE => cq.poll_in_work::<Core>(BOUND.get().ok_or(EINVAL)?),
        c::IB_POLL_UNBOUND_WORKQUEUE => cq.poll_in_work::<Core>(UNBOUND.get().ok_or(EINVAL)?),
        _ => return Err(EINVAL),
    }
    cq.driver_req_notify(c::IB_CQ_NEXT_COMP);
    Ok(())
}

/// Waits until a queue is not polled, and lets it not be any more.
pub(crate) fn stop(cq: &Owned<Cq>, sleep: &MaySleep) {
    match cq.poll_ctx() {
        c::IB_POLL_SOFTIRQ => cq.stop_softirq(sleep),
        c::IB_POLL_WORKQUEUE | c::IB_POLL_UNBOUND_WORKQUEUE => cq.stop_work(sleep),
        _ => {}
    }
    cq.stop_dim(sleep);
}

/// Takes completions and calls their handlers, until there are none, or `budget` of them if that is given.
pub(crate) fn process_direct(cq: ClientCq<'_>, budget: Option<u32>) -> u32 {
    let mut room = [const { MaybeUninit::uninit() }; DIRECT_BATCH];
    process(cq, budget, &mut Batch::new(&mut room))
}

/// Takes completions and calls their handlers, up to `budget`; -1: as long as there are any. Returns how many. Any context
/// that the handlers may run in.
///
/// It does not ask for the next completion to be announced. On a queue that others poll, handlers may then run at once.
#[export]
fn ib_process_cq_direct(cq: ClientCq<'_>, budget: c_int) -> c_int {
    process_direct(cq, u32::try_from(budget).ok()) as c_int
}
