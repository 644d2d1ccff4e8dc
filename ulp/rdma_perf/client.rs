// SPDX-License-Identifier: GPL-2.0

//! The client's end: it begins operations, and measures how long they take.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Lane::free` | requests that are not under way | any | nothing |

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
    once::Told,
    options::{Op, Options},
    run::{is_filled, pattern, Run},
};

/// What a queue pair of the client does.
#[pin_data]
pub(crate) struct Lane<'d> {
    run: Arc<Run>,
    index: usize,
    qp: QpHandle<'d, Rc, Rts>,
    /// The server's memory.
    remote: Remote,
    /// How many operations may be begun.
    credits: AtomicU32,
    #[pin]
    free: SpinLockIrq<KVec<Pin<KBox<Work<'d, Asker<'d>>>>>>,
    /// How many operations were begun.
    asked: AtomicU64,
    /// How many numbers were replaced.
    swapped: AtomicU64,
    /// When the last message was sent that the server answers.
    pinged: AtomicU64,
}

/// Handles the end of a request to send.
pub(crate) struct Asker<'d> {
    lane: Arc<Lane<'d>>,
    /// When it was posted, and what number it expects.
    began: u64,
    expected: u64,
}

/// Handles an answer.
pub(crate) struct Listener<'d> {
    lane: Arc<Lane<'d>>,
}

impl<'d> Lane<'d> {
    /// A lane with the requests that it needs.
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
        // A message that is answered may not be completed yet when the next one is due.
        let requests = if run.is_ping_pong() { ANSWERS } else { depth };
        let free = KVec::with_capacity(requests as usize, GFP_KERNEL)?;
        let lane = Arc::pin_init(
            pin_init!(Self {
                run: run.clone(),
                index,
                qp,
                remote,
                credits: AtomicU32::new(depth),
                free <- new_spinlock_irq!(free, "Lane::free"),
                asked: AtomicU64::new(0),
                swapped: AtomicU64::new(0),
                pinged: AtomicU64::new(0),
            }),
            GFP_KERNEL,
        )?;
        // The requests have references to the lane, and it has them.
        let lane = ScopeGuard::new_with_data(lane, |lane| lane.close());
        for _ in 0..requests {
            let handler = Asker {
                lane: lane.clone(),
                began: 0,
                expected: 0,
            };
            let mut work = Work::new(device, size, handler, sleep)?;
            if run.options.op != Op::Read {
                work.as_mut().bytes_mut().fill(pattern(index));
            }
            lane.put(work);
        }
        Ok(lane.dismiss())
    }

    /// Posts requests to receive answers.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what posting fails with.
    pub(crate) fn listen(self: &Arc<Self>, device: &Device<'d>, sleep: &MaySleep) -> Result {
        for _ in 0..ANSWERS {
            let handler = Listener { lane: self.clone() };
            let work = Work::new(device, self.run.options.size, handler, sleep)?;
            self.qp.post_receive(work)?;
        }
        Ok(())
    }

    /// Begins up to `most` operations, as many as may be. Returns how many. Any context.
    pub(crate) fn fill(&self, most: u32) -> u32 {
        let mut count = 0;
        while count < most && self.begin_one() {
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

    fn post(&self, mut work: Pin<KBox<Work<'d, Asker<'d>>>>) {
        let number = self.asked.fetch_add(1, Relaxed);
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
        self.pinged.store(began, Relaxed);
        match self.qp.post_send(work, op) {
            Ok(()) => self.run.post.add(now_ns().saturating_sub(began)),
            Err(_) => self.run.not_posted(),
        }
    }

    /// A request is not under way any more. There is room for all.
    fn put(&self, work: Pin<KBox<Work<'d, Asker<'d>>>>) {
        let left_over = self.free.lock().push_within_capacity(work);
        drop(left_over);
    }

    /// An operation has ended, so that another one may begin.
    fn end(&self, began: u64) {
        self.run.end(began);
        self.credits.fetch_add(1, AcqRel);
        if self.run.is_by_handlers() {
            self.fill(1);
        }
    }

    fn check(&self, work: &Work<'d, Asker<'d>>) {
        let found = work
            .bytes()
            .first_chunk()
            .map(|bytes| u64::from_ne_bytes(*bytes));
        let is_right = match self.run.options.op {
            Op::Send | Op::Write => true,
            Op::Read => is_filled(work.bytes(), pattern(self.index)),
            // Others of this lane may have come before.
            Op::FetchAdd => found.is_some_and(|found| found < self.asked.load(Relaxed)),
            Op::CompareSwap => {
                if found == Some(work.handler().expected) {
                    self.swapped.fetch_add(1, Relaxed);
                }
                found.is_some()
            }
        };
        if !is_right {
            self.run.is_wrong();
        }
    }

    /// Whether an operation was begun.
    pub(crate) fn was_used(&self) -> bool {
        self.asked.load(Relaxed) > 0
    }

    /// What the number in the server's memory must be at the end.
    pub(crate) fn final_number(&self) -> u64 {
        match self.run.options.op {
            Op::CompareSwap => self.swapped.load(Relaxed),
            _ => self.asked.load(Relaxed),
        }
    }

    /// Tells the server that no more comes, and waits until it has heard that. `cq` tells the end of requests.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EIO` and `ETIMEDOUT` where the server does not hear, and what posting fails with.
    pub(crate) fn tell_end(&self, cq: &CqRef<'d>, sleep: &MaySleep) -> Result {
        let (mut work, told) = Told::work(cq.device(), END_LENGTH, sleep)?;
        work.as_mut().write(&self.final_number().to_be_bytes());
        let end = [u8::from(self.was_used()), 0, 0, 0];
        self.qp.post_send(work, RcOp::SendImm(end))?;
        told.wait(cq, sleep)
    }

    /// Gives back the requests, each of which has a reference to the lane. The queue pair is gone.
    pub(crate) fn close(&self) {
        let requests = core::mem::take(&mut *self.free.lock());
        drop(requests);
    }
}

/// How many requests to answer, and for answers, there are: more than one, for the last may not be completed yet.
pub(crate) const ANSWERS: u32 = 4;

/// The last message of a queue pair has immediate data, whose first byte says whether the queue pair was used, and eight bytes:
/// what the number in the server's memory must be, in the order of the wire.
pub(crate) const END_LENGTH: u32 = 8;

impl<'d> Handler<'d> for Asker<'d> {
    fn done(mut work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let lane = work.handler().lane.clone();
        lane.run.handle(|| {
            if !lane.run.succeeds(completion) {
                return;
            }
            let began = work.handler().began;
            if lane.run.options.verify {
                lane.check(&work);
                if lane.run.options.op == Op::Read {
                    work.as_mut().bytes_mut().fill(0);
                }
            }
            lane.put(work);
            if !lane.run.is_ping_pong() {
                lane.end(began);
            }
        });
    }
}

impl<'d> Handler<'d> for Listener<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let lane = work.handler().lane.clone();
        lane.run.handle(|| {
            if !lane.run.succeeds(completion) {
                return;
            }
            if lane.run.options.verify && !is_filled(work.bytes(), pattern(lane.index)) {
                lane.run.is_wrong();
            }
            if lane.qp.post_receive(work).is_err() {
                lane.run.not_posted();
            }
            lane.end(lane.pinged.load(Relaxed));
        });
    }
}
