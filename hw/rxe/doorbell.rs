// SPDX-License-Identifier: GPL-2.0

//! Doorbells of user space that wait for company.
//!
//! A program that posts requests faster than it polls their completions gains nothing from each being handled at once, and much
//! from many being handled together: one acknowledge, one completion event. Its doorbells wait in the completion queue until it
//! arms that, which it does before it sleeps, or until a timer expires.

use crate::sync::{AtomicBool, Ordering};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};

/// The longest time that a doorbell waits, in nanoseconds.
pub(crate) const LONGEST_WAIT: u64 = 100_000;

/// Queue pairs of a completion queue whose doorbells may wait at a time.
const PLACES: usize = 16;

/// A queue pair whose doorbell waits.
pub(crate) trait Doorbell: Send + Sync {
    /// Handles the requests that were posted. Process context, without locks.
    fn answer(self: Arc<Self>);
}

/// Whether the doorbell of a queue pair waits in the completion queue.
pub(crate) struct Deferred(AtomicBool);

impl Deferred {
    /// It does not.
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Lets the doorbell wait, and calls `arm`, which has [`Self::withdraw`] called in time; returns false if it cannot wait.
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

    /// The doorbell waits no longer: the engine is going to run.
    pub(crate) fn withdraw<Q: Doorbell>(&self, qp: &Q, doorbells: &Doorbells) {
        if self.0.swap(false, Ordering::SeqCst) {
            doorbells.remove(qp);
        }
    }

    /// The doorbell never waits again: the queue pair is destroyed, and nobody rings any more.
    pub(crate) fn end<Q: Doorbell>(&self, qp: &Q, doorbells: &Doorbells) {
        self.0.swap(false, Ordering::SeqCst);
        // Whatever the flag says: an answer that began before the doorbell was withdrawn clears it even if the doorbell waits
        // again. The place would keep the queue pair, which keeps the completion queue.
        doorbells.remove(qp);
    }

    /// The doorbell is answered: the engine runs.
    pub(crate) fn answer(&self, drive: impl FnOnce()) {
        // Pairs with the swap in `defer`: a thread that finds the flag set has posted its requests before, so this run sees them.
        self.0.swap(false, Ordering::SeqCst);
        drive();
    }
}

type Places = [Option<Arc<dyn Doorbell>>; PLACES];

const NONE: Places = [const { None }; PLACES];

/// The doorbells that wait in a completion queue.
#[pin_data]
pub(crate) struct Doorbells {
    /// Taken in process context and softirq; nothing is locked inside.
    #[pin]
    places: SpinLockIrq<Places>,
}

impl Doorbells {
    /// None.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            places <- new_spinlock_irq!(NONE, "rxe_cq::doorbells"),
        })
    }

    /// Lets the doorbell of a queue pair wait; returns whether there is room for it.
    pub(crate) fn add(&self, qp: Arc<dyn Doorbell>) -> bool {
        let mut places = self.places.lock();
        match places.iter_mut().find(|place| place.is_none()) {
            Some(place) => {
                *place = Some(qp);
                true
            }
            None => {
                drop(places);
                drop(qp);
                false
            }
        }
    }

    /// Takes the doorbell of a queue pair out, wherever it waits. The caller has a reference to the queue pair.
    fn remove<Q: Doorbell>(&self, qp: &Q) {
        let is_its = |place: &&mut Option<Arc<dyn Doorbell>>| {
            place
                .as_ref()
                .is_some_and(|waiting| core::ptr::addr_eq(&raw const **waiting, qp))
        };
        let mut places = self.places.lock();
        for place in places.iter_mut().filter(is_its) {
            // Not the last reference.
            *place = None;
        }
    }

    /// Answers all. Process context, without locks.
    pub(crate) fn answer(&self) {
        let mut places = self.places.lock();
        if places.iter().all(Option::is_none) {
            return;
        }
        let waiting = core::mem::replace(&mut *places, NONE);
        drop(places);
        waiting.into_iter().flatten().for_each(|qp| qp.answer());
    }
}
