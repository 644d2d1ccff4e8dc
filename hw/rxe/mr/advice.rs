// SPDX-License-Identifier: GPL-2.0

//! Advice about memory that is paged on demand, `advise_mr` of `<rdma/ib_verbs.h>`: the memory is faulted in before it is accessed.
//!
//! With `IB_UVERBS_ADVISE_MR_FLAG_FLUSH` the memory is faulted in before the call returns; otherwise a work item does it, and its
//! failure is not reported.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Prefetches::waiting` | advice that the work item has not executed | process | nothing |

use core::mem::take;
use kernel::alloc::KVVec;
use kernel::impl_has_work;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};
use kernel::workqueue::{new_work, Work};
use kernel_ext::sleepable::{self, Sleepable, SleepableWork};
use kernel_ext::sync::new_mutex;
use kernel_ext::work;
use rdma::abi::mr::Advice;
use rdma::provider::odp;
use rdma::{MaySleep, Sge};

use super::registration::Mr;

/// The maximum number of parts that wait for the work item; advice beyond that has no effect.
const MAX_WAITING: usize = 4096;

/// A part of a region that is faulted in.
pub(super) struct Prefetch {
    mr: Arc<Mr>,
    addr: u64,
    len: u32,
    fault: odp::Fault,
}

impl Prefetch {
    /// The advice of a list element that is in region `mr`.
    pub(super) fn new(mr: Arc<Mr>, advice: Advice, element: &Sge) -> Self {
        let fault = match advice {
            Advice::Prefetch => odp::Fault::Read,
            Advice::PrefetchWrite => odp::Fault::Write,
            Advice::PrefetchNoFault => odp::Fault::Snapshot,
        };
        Self {
            mr,
            addr: element.addr,
            len: element.length,
            fault,
        }
    }

    /// Executes the advice.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the region is not paged on demand, or not registered any more, or its process has exited; `EPERM` for writing
    /// to memory that is not writable; `EFAULT` for memory outside of the region, or that the process has not mapped.
    pub(super) fn execute(&self, sleep: &MaySleep) -> Result {
        let umem = self.mr.paged().ok_or(EINVAL)?;
        if self.fault == odp::Fault::Write && !umem.is_writable() {
            return Err(EPERM);
        }
        let at = self.addr.checked_sub(self.mr.iova).ok_or(EFAULT)?;
        umem.fault(usize::try_from(at)?, self.len as usize, self.fault, sleep)
    }
}

/// Advice that a work item executes.
#[pin_data]
pub(crate) struct Prefetches {
    #[pin]
    waiting: Mutex<KVVec<Prefetch>>,
    #[pin]
    work: Work<Sleepable<Self>>,
}

impl_has_work! { impl HasWork<Sleepable<Self>> for Prefetches { self.work } }

impl Prefetches {
    /// No advice.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let place = pin_init!(Self {
            waiting <- new_mutex!(KVVec::new(), "Prefetches::waiting"),
            work <- new_work!("Prefetches::work"),
        });
        Arc::pin_init(place, GFP_KERNEL)
    }

    /// Queues advice for the work item.
    pub(super) fn push(this: &Arc<Self>, prefetches: KVVec<Prefetch>) -> Result {
        let mut waiting = this.waiting.lock();
        for prefetch in prefetches {
            if waiting.len() < MAX_WAITING {
                waiting.push(prefetch, GFP_KERNEL)?;
            }
        }
        drop(waiting);
        sleepable::enqueue(work::system_dfl(), this);
        Ok(())
    }

    /// Drops the queued advice, and waits for the work item. Called when there are no regions any more.
    pub(crate) fn stop(this: &Arc<Self>, sleep: &MaySleep) {
        sleepable::cancel_sync(this, sleep);
        let waiting = take(&mut *this.waiting.lock());
        drop(waiting);
    }
}

impl SleepableWork for Prefetches {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        let waiting = take(&mut *this.waiting.lock());
        for prefetch in waiting {
            // A failure is not reported: an access to this memory faults again, and then fails.
            let _ = prefetch.execute(sleep);
        }
    }
}
