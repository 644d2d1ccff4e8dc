// SPDX-License-Identifier: GPL-2.0

//! Address resolution requests, from the first attempt to the completion.
//!
//! C header: `include/rdma/ib_addr.h`.

use kernel::{ffi::c_ulong, new_delayed_work, new_mutex, prelude::*, sync::Arc};
use kernel_ext::{
    delayed, error::ENODATA, sleepable::SleepableWork, sync::Completion, timer::now_ns,
};
use rdma::MaySleep;

use super::state::{Query, Request, State, Waiter, RESOLVER};

impl SleepableWork for Request {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        this.process(sleep);
    }
}

impl Request {
    /// Makes a request and tries to resolve it for the first time.
    pub(super) fn new(
        query: Query,
        waiter: Waiter,
        timeout_ms: u64,
        sleep: &MaySleep,
    ) -> Result<Arc<Self>> {
        let timeout = timeout_ms.saturating_mul(1_000_000);
        let about = match &waiter {
            Waiter::C(c_request, _) => core::ptr::from_ref(c_request.addr()).addr(),
            Waiter::Thread => 0,
        };
        let mut state = State {
            waiter: Some(waiter),
            answer: Err(ENODATA),
            source: None,
        };
        state.set_answer(&query, query.resolve(sleep));
        Arc::pin_init(
            pin_init!(Self {
                query,
                about,
                deadline: now_ns().saturating_add(timeout),
                state <- new_mutex!(state, "addr::Request::state"),
                answered <- Completion::new(),
                work <- new_delayed_work!("addr::Request"),
            }),
            GFP_KERNEL,
        )
    }

    /// Jiffies until the deadline.
    fn remaining(&self) -> c_ulong {
        let milliseconds = self.deadline.saturating_sub(now_ns()).div_ceil(1_000_000);
        kernel::time::msecs_to_jiffies(u32::try_from(milliseconds).unwrap_or(u32::MAX))
    }

    /// Retries a pending request; completes one that is resolved, has failed or has timed out.
    fn process(self: &Arc<Self>, sleep: &MaySleep) {
        let mut state = self.state.lock();
        if state.waiter.is_none() {
            return;
        }
        if state.result() == Err(ENODATA) {
            state.set_answer(&self.query, self.query.resolve(sleep));
            let expired = now_ns() >= self.deadline;
            if state.result().is_err() && expired {
                state.answer = Err(ETIMEDOUT);
            } else if state.result() == Err(ENODATA) {
                drop(state);
                return requeue(self);
            }
        }
        let waiter = state.waiter.take();
        let result = state.result();
        let source = state.source;
        drop(state);
        match waiter {
            Some(Waiter::C(c_request, mut storage)) => {
                if let Some(source) = source {
                    storage.set_ip(source);
                }
                c_request.complete(result, storage);
            }
            Some(Waiter::Thread) => self.answered.complete_all(),
            None => {}
        }
        forget(self);
    }
}

/// Adds a request to the list and queues a retry at once: it may have become resolvable before it was in the list.
pub(super) fn submit(request: &Arc<Request>) -> Result {
    let mut resolver = RESOLVER.lock();
    resolver.requests.push(request.clone(), GFP_ATOMIC)?;
    if let Some(queue) = &resolver.queue {
        delayed::enqueue(queue, request, 0);
    }
    Ok(())
}

/// Schedules the retry of a request at its deadline, unless it was canceled.
fn requeue(request: &Arc<Request>) {
    let resolver = RESOLVER.lock();
    let mut requests = resolver.requests.iter();
    if !requests.any(|waiting| Arc::ptr_eq(waiting, request)) {
        return;
    }
    if let Some(queue) = &resolver.queue {
        // If a neighbour has become known meanwhile, the work is queued already.
        delayed::enqueue_unless_pending(queue, request, request.remaining());
    }
}

/// Removes a request from the list.
pub(super) fn dequeue(wanted: impl Fn(&Arc<Request>) -> bool) -> Option<Arc<Request>> {
    let mut resolver = RESOLVER.lock();
    let index = resolver.requests.iter().position(wanted)?;
    resolver.requests.remove(index)
}

/// Removes a completed request.
fn forget(request: &Arc<Request>) {
    let taken = dequeue(|waiting| Arc::ptr_eq(waiting, request));
    // It may have been queued again before it was removed.
    delayed::cancel(request);
    drop(taken);
}
