// SPDX-License-Identifier: GPL-2.0

//! Scheduling of a queue pair's engine: which thread or work item handles its backlog and posted requests.
//!
//! A thread that adds a packet or request runs the engine, or queues the work item. The rules in this file, in [`Backlog`] and in
//! [`Deferred`](crate::doorbell::Deferred) ensure that no packet is left unhandled. `tools/testing/host/handover` checks them in
//! every order of the threads.

use crate::backlog::{Backlog, Waiting};
use crate::sync::{AtomicBool, Ordering};
use kernel_ext::sync::{SpinLockBh, SpinLockBhGuard};

/// Above this backlog length the thread that adds a packet runs the engine itself, so a local sender is throttled and no packet is
/// dropped.
const HIGH_WATER: usize = 256;

/// Whether the work item is queued and has not started. It is queued only once.
pub(super) struct Scheduled(AtomicBool);

impl Scheduled {
    /// The work item is not queued.
    pub(super) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Calls `queue`, unless the work item is queued. Data that the caller has stored before is seen by the run to come.
    #[inline]
    pub(super) fn schedule(&self, queue: impl FnOnce()) {
        if !self.0.swap(true, Ordering::SeqCst) {
            queue();
        }
    }

    /// Runs the engine in the work item.
    #[inline]
    pub(super) fn run(&self, drive: impl FnOnce()) {
        // Pairs with the swap in `schedule`: a thread that finds the flag set has stored its data before, so this run
        // sees it. So the flag is cleared first.
        self.0.swap(false, Ordering::SeqCst);
        drive();
    }
}

/// The next step of a thread that has added a packet to the backlog.
pub(super) enum NextStep {
    /// Run the engine, or [queue the work item](lock_or_schedule).
    TryToDrive,
    /// Run the engine.
    Drive,
    /// Nothing: the work item is queued.
    Nothing,
}

/// Adds a packet to the backlog of a QP. `here`: the QP's engine may run on this CPU.
#[inline]
pub(super) fn enqueue(
    backlog: &Backlog,
    packet: Waiting,
    here: bool,
    schedule: impl FnOnce(),
) -> NextStep {
    let waiting = backlog.push(packet, || {
        if !here {
            schedule();
        }
    });
    if here {
        NextStep::TryToDrive
    } else if waiting > HIGH_WATER {
        NextStep::Drive
    } else {
        NextStep::Nothing
    }
}

/// Takes the engine's lock. If another thread has it, queues the work item, because that thread may have read the backlog
/// already.
#[inline]
pub(super) fn lock_or_schedule<'a, E>(
    engine: &'a SpinLockBh<E>,
    backlog: &Backlog,
    schedule: impl FnOnce(),
) -> Option<SpinLockBhGuard<'a, E>> {
    let engine = engine.try_lock();
    if engine.is_none() {
        backlog.wake(schedule);
    }
    engine
}
