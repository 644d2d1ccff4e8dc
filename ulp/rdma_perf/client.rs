// SPDX-License-Identifier: GPL-2.0

//! Queue pairs of the client: they post operations and measure the time until the completion.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `ClientQp::free` | requests that are not posted | any | nothing |

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use kernel::{prelude::*, sync::Arc, types::ScopeGuard};
use kernel_ext::{
    sync::{new_spinlock_irq, SpinLockIrq},
    timer::now_ns,
};
use rdma::{
    abi::wr::Remote,
    client::{
        cq::CqRef,
        op::RcOp,
        qp::{QpHandle, Rc, Rts},
        work::{Completion, Handler},
        Device, Work,
    },
    MaySleep,
};

use crate::{
    options::{Op, Options},
    run::{is_filled, pattern, Run},
    waiter::Waiter,
};

/// A queue pair of the client, with its requests.
#[pin_data]
pub(crate) struct ClientQp<'d> {
    run: Arc<Run>,
    index: usize,
    qp: QpHandle<'d, Rc, Rts>,
    /// The server's memory.
    remote: Remote,
    /// The number of operations that may be posted now.
    credits: AtomicU32,
    #[pin]
    free: SpinLockIrq<KVec<Pin<KBox<Work<'d, RequestHandler<'d>>>>>>,
    /// The number of operations posted.
    posted: AtomicU64,
    /// The number of compare and swap operations that swapped.
    swapped: AtomicU64,
    /// When the last operation was posted.
    last_posted: AtomicU64,
}

/// The completion handler of an operation.
pub(crate) struct RequestHandler<'d> {
    client_qp: Arc<ClientQp<'d>>,
    /// When it was posted, and the number that a compare and swap compares with.
    began: u64,
    expected: u64,
}

/// The completion handler of a received response.
pub(crate) struct ResponseHandler<'d> {
    client_qp: Arc<ClientQp<'d>>,
}

impl<'d> ClientQp<'d> {
    /// A queue pair with its requests.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        run: &Arc<Run>,
        index: usize,
        device: &Device<'d>,
        qp: QpHandle<'d, Rc, Rts>,
        remote: Remote,
        sleep: &MaySleep,
    ) -> Result<Arc<Self>> {
        let Options { depth, size, .. } = run.options;
        // The response to a message may come before the completion of the message.
        let requests = if run.is_ping_pong() { RESPONSES } else { depth };
        let free = KVec::with_capacity(requests as usize, GFP_KERNEL)?;
        let client_qp = Arc::pin_init(
            pin_init!(Self {
                run: run.clone(),
                index,
                qp,
                remote,
                credits: AtomicU32::new(depth),
                free <- new_spinlock_irq!(free, "ClientQp::free"),
                posted: AtomicU64::new(0),
                swapped: AtomicU64::new(0),
                last_posted: AtomicU64::new(0),
            }),
            GFP_KERNEL,
        )?;
        // The requests and the queue pair refer to each other.
        let client_qp = ScopeGuard::new_with_data(client_qp, |client_qp| client_qp.close());
        for _ in 0..requests {
            let handler = RequestHandler {
                client_qp: client_qp.clone(),
                began: 0,
                expected: 0,
            };
            let mut work = Work::new(device, size, handler, sleep)?;
            if run.options.op != Op::Read {
                work.as_mut().bytes_mut().fill(pattern(index));
            }
            client_qp.put(work);
        }
        Ok(client_qp.dismiss())
    }

    /// Posts receives for responses.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and the errors of posting.
    pub(crate) fn listen(self: &Arc<Self>, device: &Device<'d>, sleep: &MaySleep) -> Result {
        for _ in 0..RESPONSES {
            let handler = ResponseHandler {
                client_qp: self.clone(),
            };
            let work = Work::new(device, self.run.options.size, handler, sleep)?;
            self.qp.post_receive(work)?;
        }
        Ok(())
    }

    /// Posts operations, up to `max` of them. Returns how many. Any context.
    pub(crate) fn fill(&self, max: u32) -> u32 {
        let mut count = 0;
        while count < max && self.begin_one() {
            count = count.saturating_add(1);
        }
        count
    }

    fn begin_one(&self) -> bool {
        let take = |credits: u32| credits.checked_sub(1);
        if self.credits.fetch_update(AcqRel, Acquire, take).is_err() {
            return false;
        }
        let work = self.free.lock().pop();
        let Some(work) = work else {
            self.credits.fetch_add(1, AcqRel);
            return false;
        };
        if !self.run.begin() {
            self.put(work);
            self.credits.fetch_add(1, AcqRel);
            return false;
        }
        self.post(work);
        true
    }

    fn post(&self, mut work: Pin<KBox<Work<'d, RequestHandler<'d>>>>) {
        let number = self.posted.fetch_add(1, Relaxed);
        let op = match self.run.options.op {
            Op::Send => RcOp::Send,
            Op::Write => RcOp::Write(self.remote),
            Op::Read => RcOp::Read(self.remote),
            Op::FetchAdd => RcOp::FetchAdd {
                remote: self.remote,
                add: 1,
            },
            Op::CompareSwap => RcOp::CompareSwap {
                remote: self.remote,
                compare: number,
                swap: number.wrapping_add(1),
            },
        };
        let began = now_ns();
        let handler = work.as_mut().handler_mut();
        handler.began = began;
        handler.expected = number;
        self.last_posted.store(began, Relaxed);
        match self.qp.post_send(work, op) {
            Ok(()) => self.run.post.add(now_ns().saturating_sub(began)),
            Err(_) => self.run.not_posted(),
        }
    }

    /// Takes back a completed request. The list has room for all requests.
    fn put(&self, work: Pin<KBox<Work<'d, RequestHandler<'d>>>>) {
        let left_over = self.free.lock().push_within_capacity(work);
        drop(left_over);
    }

    /// Handles the end of an operation: another one may be posted.
    fn end(&self, began: u64) {
        self.run.end(began);
        self.credits.fetch_add(1, AcqRel);
        if self.run.is_by_handlers() {
            self.fill(1);
        }
    }

    fn check(&self, work: &Work<'d, RequestHandler<'d>>) {
        let found = work
            .bytes()
            .first_chunk()
            .map(|bytes| u64::from_ne_bytes(*bytes));
        let is_right = match self.run.options.op {
            Op::Send | Op::Write => true,
            Op::Read => is_filled(work.bytes(), pattern(self.index)),
            // Other operations of this queue pair may have been executed in between.
            Op::FetchAdd => found.is_some_and(|found| found < self.posted.load(Relaxed)),
            Op::CompareSwap => {
                if found == Some(work.handler().expected) {
                    self.swapped.fetch_add(1, Relaxed);
                }
                found.is_some()
            }
        };
        if !is_right {
            self.run.add_wrong();
        }
    }

    /// Whether an operation was posted.
    pub(crate) fn was_used(&self) -> bool {
        self.posted.load(Relaxed) > 0
    }

    /// The expected number in the server's memory at the end of the run.
    pub(crate) fn final_number(&self) -> u64 {
        match self.run.options.op {
            Op::CompareSwap => self.swapped.load(Relaxed),
            _ => self.posted.load(Relaxed),
        }
    }

    /// Sends the message that ends the run, and waits for its completion on `cq`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO` and `ETIMEDOUT` if the message is not acknowledged, and the errors of posting.
    pub(crate) fn send_end(&self, cq: &CqRef<'d>, sleep: &MaySleep) -> Result {
        let (mut work, waiter) = Waiter::work(cq.device(), END_LENGTH, sleep)?;
        work.as_mut().write(&self.final_number().to_be_bytes());
        let end = [u8::from(self.was_used()), 0, 0, 0];
        self.qp.post_send(work, RcOp::SendImm(end))?;
        waiter.wait(cq, sleep)
    }

    /// Frees the requests, each of which has a reference to this. Called after the queue pair is destroyed.
    pub(crate) fn close(&self) {
        let requests = core::mem::take(&mut *self.free.lock());
        drop(requests);
    }
}

/// The number of requests for sending responses, and of receives for them. One is not enough: the last one may not be complete
/// yet.
pub(crate) const RESPONSES: u32 = 4;

/// The length of the message that ends the run: the expected number in the server's memory, in big endian. The first byte of
/// its immediate data is 1 if the queue pair was used.
pub(crate) const END_LENGTH: u32 = 8;

impl<'d> Handler<'d> for RequestHandler<'d> {
    fn done(mut work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let client_qp = work.handler().client_qp.clone();
        client_qp.run.handle(|| {
            if !client_qp.run.succeeds(completion) {
                return;
            }
            let began = work.handler().began;
            if client_qp.run.options.verify {
                client_qp.check(&work);
                if client_qp.run.options.op == Op::Read {
                    work.as_mut().bytes_mut().fill(0);
                }
            }
            client_qp.put(work);
            if !client_qp.run.is_ping_pong() {
                client_qp.end(began);
            }
        });
    }
}

impl<'d> Handler<'d> for ResponseHandler<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let client_qp = work.handler().client_qp.clone();
        client_qp.run.handle(|| {
            if !client_qp.run.succeeds(completion) {
                return;
            }
            if client_qp.run.options.verify && !is_filled(work.bytes(), pattern(client_qp.index)) {
                client_qp.run.add_wrong();
            }
            if client_qp.qp.post_receive(work).is_err() {
                client_qp.run.not_posted();
            }
            client_qp.end(client_qp.last_posted.load(Relaxed));
        });
    }
}
