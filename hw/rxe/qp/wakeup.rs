// SPDX-License-Identifier: GPL-2.0

//! Who handles what waits for a queue pair.
//!
//! Whoever has something for a queue pair handles it at once, or has the queue pair's work item queued. The rules by which
//! nothing stays behind with nobody to handle it are those of this file, [`Backlog`] and [`Deferred`](crate::doorbell::Deferred).
//! `tools/testing/host/handover` checks them in every order of the threads.

use crate::backlog::{Backlog, Waiting};
use crate::sync::{AtomicBool, Ordering};
use kernel_ext::sync::{SpinLockBh, SpinLockBhGuard};

/// So many packets from the network may wait for a QP. Beyond, whoever brings one handles them: a sender on this host is slowed
/// down, and none is dropped.
const HIGH_WATER: usize = 256;

/// Whether the work item is queued and has not started: it is queued only once.
pub(super) struct Scheduled(AtomicBool);

impl Scheduled {
    /// It is not queued.
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

    /// The work item runs.
    #[inline]
    pub(super) fn run(&self, drive: impl FnOnce()) {
        // Pairs with the swap in `schedule`: a thread that finds the flag set has stored its data before, so this run
        // sees it. So the flag is cleared first.
        self.0.swap(false, Ordering::SeqCst);
        drive();
    }
}

/// What somebody who has brought a packet does next.
pub(super) enum Duty {
    /// Runs the engine, or [has it run](lock_or_wake).
    TryToDrive,
    /// Runs the engine.
    Drive,
    /// Nothing: the work item is queued.
    Nothing,
}

/// Adds a packet to the backlog of a QP that may run on this processor, or not.
#[inline]
pub(super) fn bring(
    backlog: &Backlog,
    packet: Waiting,
    here: bool,
    schedule: impl FnOnce(),
) -> Duty {
    let waiting = backlog.push(packet, || {
        if !here {
            schedule();
        }
    });
    if here {
        Duty::TryToDrive
    } else if waiting > HIGH_WATER {
        Duty::Drive
    } else {
        Duty::Nothing
    }
}

/// Takes the engine's lock, unless somebody has it: then the work item is queued, for that one may have looked for packets
/// already.
#[inline]
pub(super) fn lock_or_wake<'a, E>(
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
