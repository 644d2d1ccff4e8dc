// SPDX-License-Identifier: GPL-2.0

//! Tests of completion queues: adaptive moderation and resource tracking.

#[kernel::prelude::kunit_tests(ib_core_cq_moderation)]
mod moderation {
    use crate::{
        cq::{
            self,
            poll::{Core, PROFILES},
            pool, rdma_set_cq_moderation, Polled,
        },
        kunit::{with_device, Log},
    };
    use kernel::{
        prelude::*,
        time::{delay::fsleep, Delta},
    };
    use kernel_ext::{bindings as c, error::EOPNOTSUPP};
    use rdma::{
        core::{
            cq::{Poller, WorkTurn},
            qp::Caller,
            Cq, Device,
        },
        MaySleep,
    };

    /// Number of measurements between changes of the profile (`DIM_NEVENTS`).
    const EVENTS: u32 = 64;

    fn with_cq(dim: bool, test: impl FnOnce(&Cq, &Device, &Log, &MaySleep) -> Result) -> Result {
        with_device(|device, log, sleep| {
            device.set_dim(dim);
            let polled = Polled {
                context: None,
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
            // SAFETY: Work items poll the queue, and none of them runs, since nothing completes on the queue.
            let mut turn = unsafe { WorkTurn::new(cq) };
            let turn = turn.turn();
            // The first one starts the measurement; each following one has more completions.
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
    fn without_moderation_nothing_is_modified() -> Result {
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
            let shared = pool::get(device, 1, 0, c::IB_POLL_SOFTIRQ, sleep)?;
            let pool = device.cq_pool(c::IB_POLL_SOFTIRQ).ok_or(EINVAL)?;
            let refused = pool.look(shared.addr(), |shared| {
                pool.give_back(shared, 1);
                // It fails before the driver, which might sleep, is called.
                rdma_set_cq_moderation(shared, 7, 9, sleep)
            });
            drop(pool);
            assert_eq!(refused, Some(Err(EOPNOTSUPP)));
            assert_eq!(log.take()?.len(), 0);
            Ok(())
        })
    }
}

#[kernel::prelude::kunit_tests(ib_core_resource_tracking)]
mod tracking {
    use crate::{
        cq::{self, Polled},
        kunit::with_device,
        restrack::{count, find, list, rdma_restrack_abort_del, rdma_restrack_begin_del},
    };
    use kernel::prelude::*;
    use kernel_ext::bindings;
    use rdma::{
        core::{
            object::{Owned, Tracked},
            qp::Caller,
            restrack::Owns,
            Cq, Device,
        },
        MaySleep,
    };

    const CQ: u32 = bindings::RDMA_RESTRACK_CQ;

    fn alloc(device: &Device, sleep: &MaySleep) -> Result<Owned<Cq>> {
        let polled = Polled {
            context: None,
            cqe: 1,
            comp_vector: 0,
            poll_ctx: bindings::IB_POLL_DIRECT,
        };
        cq::alloc_polled(device, &polled, Caller::kernel(c"kunit"), sleep)
    }

    #[test]
    fn an_object_is_listed_from_creation_to_destruction() -> Result {
        with_device(|device, _, sleep| {
            let (first, second) = (alloc(device, sleep)?, alloc(device, sleep)?);
            let (one, two) = (first.res().id(), second.res().id());
            assert!(one != two);
            assert_eq!(count(device, CQ, true), 2);
            assert_eq!(find(device, CQ, one).map(|entry| entry.id()), Some(one));
            assert_eq!(list(device, CQ, 0, true).count(), 2);
            assert_eq!(list(device, CQ, one.max(two), true).count(), 1);
            assert_eq!(list(device, CQ, u32::MAX, true).count(), 0);
            cq::free_polled(first, sleep);
            assert!(find(device, CQ, one).is_none());
            assert_eq!(count(device, CQ, true), 1);
            // An ID is not reused at once.
            let third = alloc(device, sleep)?;
            assert!(third.res().id() != one && third.res().id() != two);
            cq::free_polled(second, sleep);
            cq::free_polled(third, sleep);
            assert_eq!(count(device, CQ, true), 0);
            Ok(())
        })
    }

    #[test]
    fn an_object_being_destroyed_keeps_its_id() -> Result {
        with_device(|device, _, sleep| {
            let cq = alloc(device, sleep)?;
            let id = cq.res().id();
            rdma_restrack_begin_del(cq.entry(), sleep);
            assert!(find(device, CQ, id).is_none());
            assert_eq!(count(device, CQ, true), 0);
            rdma_restrack_abort_del(cq.entry());
            assert_eq!(find(device, CQ, id).map(|entry| entry.id()), Some(id));
            cq::free_polled(cq, sleep);
            Ok(())
        })
    }
}
