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
    trace,
    view::{
        cq::{Batch, ClientCq, Poller, SoftirqTurn, WorkTurn},
        object::Owned,
        Cq,
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
const PROFILES: [(u16, u16); 9] = [
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
struct Core;

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

#[kernel::prelude::kunit_tests(ib_core_cq_moderation)]
mod tests {
    use super::*;
    use crate::{
        kunit::{with_device, Log},
        verbs::cq::{self, rdma_set_cq_moderation, Polled},
    };
    use kernel::time::{delay::fsleep, Delta};
    use kernel_ext::error::EOPNOTSUPP;
    use rdma::view::{qp::Caller, Device};

    /// How many times completions are counted until a queue is moderated (`DIM_NEVENTS`).
    const EVENTS: u32 = 64;

    fn with_cq(dim: bool, test: impl FnOnce(&Cq, &Device, &Log, &MaySleep) -> Result) -> Result {
        with_device(|device, log, sleep| {
            device.set_dim(dim);
            let polled = Polled {
                context: core::ptr::null_mut(),
                cqe: 16,
                comp_vector: 0,
                poll_ctx: c::IB_POLL_WORKQUEUE,
            };
            let cq = cq::alloc_polled(device, &polled, Caller::kernel(c"kunit"), sleep)?;
            let tested = test(&cq, device, log, sleep);
            cq::free_polled(cq, sleep);
            tested
        })
    }

    fn step_of((count, period): (u16, u16)) -> Option<usize> {
        PROFILES.iter().position(|&known| known == (period, count))
    }

    #[test]
    fn each_profile_reaches_the_driver() -> Result {
        assert_eq!(PROFILES.len(), c::RDMA_DIM_PARAMS_NUM_PROFILES as usize);
        with_cq(false, |cq, _, log, sleep| {
            for profile in 0..PROFILES.len() {
                Core::moderate(cq, profile, sleep);
            }
            Core::moderate(cq, PROFILES.len(), sleep);
            Core::moderate(cq, usize::MAX, sleep);
            let seen = log.take()?;
            assert_eq!(seen.len(), PROFILES.len());
            for (nth, &moderation) in seen.iter().enumerate() {
                assert_eq!(step_of(moderation), Some(nth));
            }
            Ok(())
        })
    }

    #[test]
    fn a_later_profile_waits_for_no_fewer() {
        for pair in PROFILES.windows(2) {
            if let &[(period, count), (next_period, next_count)] = pair {
                assert!(period <= next_period && count <= next_count);
                assert!((period, count) != (next_period, next_count));
            }
        }
    }

    #[test]
    fn it_follows_the_rate_of_completions_step_by_step() -> Result {
        with_cq(true, |cq, _, log, _| {
            // SAFETY: Work items poll the queue, and none does: nothing completes there.
            let mut turn = unsafe { WorkTurn::new(cq) };
            let turn = turn.turn();
            // The first time begins the measurement, and ever more completions are better.
            turn.measure(1);
            let mut completed = 100;
            for _ in 0..6 {
                for _ in 1..EVENTS {
                    turn.measure(completed);
                }
                fsleep(Delta::from_millis(2));
                turn.measure(completed);
                fsleep(Delta::from_millis(5));
                turn.measure(completed);
                completed *= 5;
            }
            let seen = log.take()?;
            assert!(seen.len() >= 3);
            let mut before = c::RDMA_DIM_START_PROFILE as usize;
            for &moderation in &seen {
                let step = step_of(moderation).ok_or(EINVAL)?;
                assert_eq!(step.abs_diff(before), 1);
                before = step;
            }
            Ok(())
        })
    }

    #[test]
    fn without_it_nothing_is_moderated() -> Result {
        with_cq(false, |cq, _, log, _| {
            // SAFETY: As above.
            let mut turn = unsafe { WorkTurn::new(cq) };
            for _ in 0..4 * EVENTS {
                turn.turn().measure(1000);
            }
            fsleep(Delta::from_millis(5));
            assert_eq!(log.take()?.len(), 0);
            Ok(())
        })
    }

    #[test]
    fn a_client_moderates_its_own_queue_alone() -> Result {
        with_cq(false, |cq, device, log, sleep| {
            assert_eq!(rdma_set_cq_moderation(cq, 7, 9, sleep), Ok(()));
            assert_eq!(log.take()?.first().copied(), Some((7, 9)));
            let shared = crate::cq_pool::get(device, 1, 0, c::IB_POLL_SOFTIRQ, sleep)?;
            let refused = rdma_set_cq_moderation(shared, 7, 9, sleep);
            crate::cq_pool::ib_cq_pool_put(shared, 1);
            assert_eq!(refused, Err(EOPNOTSUPP));
            assert_eq!(log.take()?.len(), 0);
            Ok(())
        })
    }
}
