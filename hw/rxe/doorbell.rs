// SPDX-License-Identifier: GPL-2.0

//! Deferred doorbells: sends that a program posted before it polled its completions, which run together when it arms the CQ.
//!
//! A program that posts requests faster than it polls their completions gains nothing from an immediate start of each, and saves
//! acknowledges and completion events when many start together. Its doorbells are deferred until it arms the completion queue,
//! which it does before it sleeps, or until a timer expires.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Doorbells::deferred` | the deferred doorbells of a completion queue | process, softirq; interrupts off | nothing |

use crate::sync::{AtomicBool, Ordering};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};

/// The maximum delay of a doorbell, in nanoseconds.
pub(crate) const MAX_DELAY: u64 = 100_000;

/// The maximum number of deferred doorbells of a completion queue.
const MAX_DEFERRED: usize = 16;

/// A queue pair whose doorbell may be deferred.
pub(crate) trait Doorbell: Send + Sync {
    /// Runs the engine for the requests that were posted. Process context, without locks.
    fn run_engine(self: Arc<Self>);
}

/// Whether the doorbell of a queue pair is deferred.
pub(crate) struct Deferred(AtomicBool);

impl Deferred {
    /// No doorbell is deferred.
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Defers the doorbell, and calls `arm`, which starts the timer that calls [`Self::cancel`]. Returns false if there are too many
    /// deferred doorbells.
    pub(crate) fn defer<Q: Doorbell + 'static>(
        &self,
        qp: &Arc<Q>,
        doorbells: &Doorbells,
        arm: impl FnOnce(),
    ) -> bool {
        if self.0.swap(true, Ordering::SeqCst) {
            return true;
        }
        if !doorbells.add(qp.clone()) {
            // Others that found the flag set have posted their requests before: the caller's run sees them.
            self.0.swap(false, Ordering::SeqCst);
            return false;
        }
        arm();
        true
    }

    /// Drops the deferred doorbell; the caller runs the engine.
    pub(crate) fn cancel<Q: Doorbell>(&self, qp: &Q, doorbells: &Doorbells) {
        if self.0.swap(false, Ordering::SeqCst) {
            doorbells.remove(qp);
        }
    }

    /// Drops the deferred doorbell of a destroyed queue pair, whose doorbell does not ring any more.
    pub(crate) fn destroy<Q: Doorbell>(&self, qp: &Q, doorbells: &Doorbells) {
        self.0.swap(false, Ordering::SeqCst);
        // The flag may be clear although a doorbell is deferred: a run that began before the doorbell was cancelled clears it even
        // if the doorbell was deferred again. The slot would keep the queue pair, which keeps the completion queue.
        doorbells.remove(qp);
    }

    /// Runs the engine of the deferred doorbell.
    pub(crate) fn run(&self, drive: impl FnOnce()) {
        // Pairs with the swap in `defer`: a thread that finds the flag set has posted its requests before, so this run sees them.
        self.0.swap(false, Ordering::SeqCst);
        drive();
    }
}

type Deferrals = [Option<Arc<dyn Doorbell>>; MAX_DEFERRED];

const NONE: Deferrals = [const { None }; MAX_DEFERRED];

/// The deferred doorbells of a completion queue.
#[pin_data]
pub(crate) struct Doorbells {
    /// Taken in process context and softirq; nothing is locked inside.
    #[pin]
    deferred: SpinLockIrq<Deferrals>,
}

impl Doorbells {
    /// No deferred doorbells.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            deferred <- new_spinlock_irq!(NONE, "rxe_cq::doorbells"),
        })
    }

    /// Adds the doorbell of a queue pair; returns whether there was room for it.
    pub(crate) fn add(&self, qp: Arc<dyn Doorbell>) -> bool {
        let mut deferred = self.deferred.lock();
        match deferred.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => {
                *slot = Some(qp);
                true
            }
            None => {
                drop(deferred);
                drop(qp);
                false
            }
        }
    }

    /// Removes the doorbell of a queue pair from all slots. The caller has a reference to the queue pair.
    fn remove<Q: Doorbell>(&self, qp: &Q) {
        let is_its = |slot: &&mut Option<Arc<dyn Doorbell>>| {
            slot.as_ref()
                .is_some_and(|other| core::ptr::addr_eq(&raw const **other, qp))
        };
        let mut deferred = self.deferred.lock();
        for slot in deferred.iter_mut().filter(is_its) {
            // Not the last reference.
            *slot = None;
        }
    }

    /// Runs the engine of each deferred queue pair. Process context, without locks.
    pub(crate) fn run_all(&self) {
        let mut deferred = self.deferred.lock();
        if deferred.iter().all(Option::is_none) {
            return;
        }
        let qps = core::mem::replace(&mut *deferred, NONE);
        drop(deferred);
        qps.into_iter().flatten().for_each(|qp| qp.run_engine());
    }
}
