// SPDX-License-Identifier: GPL-2.0

//! Doorbells of user space that wait for company.
//!
//! A program that posts requests faster than it polls their completions gains nothing from each being handled at once, and much
//! from many being handled together: one acknowledge, one completion event. Its doorbells wait in the completion queue until it
//! arms that, which it does before it sleeps, or until a timer expires.

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

    /// Takes the doorbell of a queue pair out, if it waits.
    pub(crate) fn remove<Q: Doorbell>(&self, qp: &Q) {
        let is_its = |place: &&mut Option<Arc<dyn Doorbell>>| {
            place
                .as_ref()
                .is_some_and(|waiting| core::ptr::addr_eq(&raw const **waiting, qp))
        };
        let mut places = self.places.lock();
        let removed = places.iter_mut().find(is_its).and_then(Option::take);
        drop(places);
        drop(removed);
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
