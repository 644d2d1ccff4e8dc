// SPDX-License-Identifier: GPL-2.0

//! What is told to clients from a work item: what resolution has found, and that addresses have changed.
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::sync::atomic::{AtomicI32, Ordering};

use cm_rules::{
    errno::Errno,
    state::{Input, Tell},
};
use kernel::{impl_has_work, new_work, prelude::*, sync::Arc, workqueue::Work};
use kernel_ext::{
    sleepable::{self, Sleepable, SleepableWork},
    work::GlobalQueue,
};
use rdma::{core::cma::event::Event, MaySleep};

use crate::{end::tell_or_end, id::CmId};

/// The queue of all jobs, which runs one at a time.
pub(crate) static QUEUE: GlobalQueue = GlobalQueue::new();

/// What has come.
#[derive(Clone, Copy)]
pub(crate) enum What {
    /// The address is known.
    Address,
    /// The route is known, or not.
    Route,
    /// The record of a service is known, or not.
    Service,
    /// The hardware address of the net device has changed.
    AddrChange,
    /// The neighbour has another hardware address.
    Neighbour,
}

impl What {
    fn input(self, is_good: bool) -> Input {
        match (self, is_good) {
            (Self::Address, _) => Input::AddrFound,
            (Self::Route, true) => Input::RouteFound,
            (Self::Route, false) => Input::RouteFailed,
            (Self::Service, true) => Input::ServiceFound,
            (Self::Service, false) => Input::ServiceFailed,
            (Self::AddrChange, _) => Input::AddrChange,
            (Self::Neighbour, _) => Input::NeighbourChange,
        }
    }
}

/// Something to be told.
#[pin_data]
pub(crate) struct Job {
    pub(crate) id: Arc<CmId>,
    what: What,
    status: AtomicI32,
    #[pin]
    work: Work<Sleepable<Job>>,
}

impl_has_work! {
    impl HasWork<Sleepable<Self>> for Job { self.work }
}

impl Job {
    /// Something that is going to be told.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(id: &Arc<CmId>, what: What) -> Result<Arc<Self>> {
        let id = id.clone();
        let init = pin_init!(Self {
            id,
            what,
            status: AtomicI32::new(0),
            work <- new_work!("Job::work"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Tells it, with its result.
    pub(crate) fn tell(self: &Arc<Self>, result: Result) {
        let status = result.err().map_or(0, |error| error.to_errno());
        self.status.store(status, Ordering::Relaxed);
        QUEUE.with(|queue| sleepable::enqueue(queue, self));
    }
}

fn tell(id: &Arc<CmId>, what: What, status: i32, sleep: &MaySleep) {
    let handling = id.body.handling(sleep);
    let Some(step) = id.happen(what.input(status == 0)) else {
        return;
    };
    if let Tell::Event(event) = step.tell {
        let status = match what {
            What::Neighbour => Errno::TimedOut.to_return(),
            _ => status,
        };
        tell_or_end(id, &mut Event::plain(event as u32, status), handling, sleep);
    }
}

impl SleepableWork for Job {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        let status = this.status.load(Ordering::Relaxed);
        tell(&this.id, this.what, status, sleep);
    }
}

impl_has_work! {
    impl HasWork<Sleepable<Self>> for CmId { self.neighbour }
}

impl SleepableWork for CmId {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        tell(&this, What::Neighbour, 0, sleep);
    }
}

/// The neighbour of an identifier has another hardware address. Any context.
pub(crate) fn neighbour_changed(id: &Arc<CmId>) {
    QUEUE.with(|queue| sleepable::enqueue(queue, id));
}
