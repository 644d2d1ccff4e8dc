// SPDX-License-Identifier: GPL-2.0

//! The server's end: it has memory for the client, receives messages, and answers them where that is asked for.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Seat::answers` | answers that are not under way | any | nothing |

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use rdma::{
    abi::wr::Remote,
    client::{
        cq::CqRef,
        dma::Pages,
        op::RcOp,
        qp::{QpHandle, QpRef, Rc, Rts},
        work::{Completion, Handler},
        Device, Mr, Pd, Work,
    },
    Access, MaySleep,
};

use crate::{
    client::{ANSWERS, END_LENGTH},
    once::Told,
    options::{Op, Options},
    run::{is_filled, pattern, Run},
};

/// What a queue pair of the server does.
#[pin_data]
pub(crate) struct Seat<'d> {
    run: Arc<Run>,
    index: usize,
    qp: QpHandle<'d, Rc, Rts>,
    /// How many messages came.
    taken: AtomicU64,
    /// Whether the client has said that it ends: one of [`end`]; and its last number.
    end: AtomicU32,
    number: AtomicU64,
    #[pin]
    answers: SpinLockIrq<KVec<Pin<KBox<Work<'d, Answer<'d>>>>>>,
}

/// Whether the client has said that it ends.
mod end {
    pub(super) const NONE: u32 = 0;
    pub(super) const UNUSED: u32 = 1;
    pub(super) const USED: u32 = 2;
}

/// Handles a message.
pub(crate) struct Taker<'d> {
    seat: Arc<Seat<'d>>,
}

/// Handles the end of an answer.
pub(crate) struct Answer<'d> {
    seat: Arc<Seat<'d>>,
}

impl<'d> Seat<'d> {
    /// A seat, with all requests to receive posted. It must be [closed](Self::close), whether or not that succeeds.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what posting fails with.
    pub(crate) fn new(
        run: &Arc<Run>,
        index: usize,
        qp: QpHandle<'d, Rc, Rts>,
    ) -> Result<Arc<Self>> {
        let free = KVec::with_capacity(ANSWERS as usize, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                run: run.clone(),
                index,
                qp,
                taken: AtomicU64::new(0),
                end: AtomicU32::new(end::NONE),
                number: AtomicU64::new(0),
                answers <- new_spinlock_irq!(free, "Seat::answers"),
            }),
            GFP_KERNEL,
        )
    }

    /// Posts requests to receive, and makes answers.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what posting fails with.
    pub(crate) fn open(self: &Arc<Self>, device: &Device<'d>, sleep: &MaySleep) -> Result {
        let Options { size, op, .. } = self.run.options;
        let room = match op {
            Op::Send => size.max(END_LENGTH),
            _ => END_LENGTH,
        };
        for _ in 0..receives(&self.run.options) {
            let seat = self.clone();
            let work = Work::new(device, room, Taker { seat }, sleep)?;
            self.qp.post_receive(work)?;
        }
        if !self.run.is_ping_pong() {
            return Ok(());
        }
        for _ in 0..ANSWERS {
            let seat = self.clone();
            let mut work = Work::new(device, size, Answer { seat }, sleep)?;
            work.as_mut().bytes_mut().fill(pattern(self.index));
            self.put(work);
        }
        Ok(())
    }

    fn put(&self, work: Pin<KBox<Work<'d, Answer<'d>>>>) {
        let left_over = self.answers.lock().push_within_capacity(work);
        drop(left_over);
    }

    fn answer(&self) {
        let work = self.answers.lock().pop();
        let is_posted = work.is_some_and(|work| self.qp.post_send(work, RcOp::Send).is_ok());
        if !is_posted {
            self.run.not_posted();
        }
    }

    /// The client ends: what it says of what it did by this queue pair.
    fn hear_end(&self, was_used: bool, bytes: &[u8]) {
        let number = bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        self.number.store(number.unwrap_or(0), Relaxed);
        let end = if was_used { end::USED } else { end::UNUSED };
        self.end.store(end, Release);
    }

    /// Whether the client has said that it ends.
    pub(crate) fn has_end(&self) -> bool {
        self.end.load(Acquire) != end::NONE
    }

    /// What the number in the memory must be at the end. `None` if the queue pair was not used.
    pub(crate) fn final_number(&self) -> Option<u64> {
        let was_used = self.end.load(Acquire) == end::USED;
        was_used.then(|| self.number.load(Relaxed))
    }

    /// How many messages came.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Gives back the answers, each of which has a reference to the seat. The queue pair is gone.
    pub(crate) fn close(&self) {
        let answers = core::mem::take(&mut *self.answers.lock());
        drop(answers);
    }
}

/// How many requests to receive a queue pair of the server needs: twice what may come, as long as the first half is handled;
/// and one for the end.
pub(crate) fn receives(options: &Options) -> u32 {
    match options.op {
        Op::Send => options
            .depth
            .saturating_mul(2)
            .max(ANSWERS)
            .saturating_add(1),
        _ => 1,
    }
}

impl<'d> Handler<'d> for Taker<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let seat = work.handler().seat.clone();
        let run = &seat.run;
        run.handle(|| {
            if !run.succeeds(completion) {
                return;
            }
            if let Some([was_used, ..]) = completion.immediate() {
                seat.hear_end(was_used != 0, work.bytes());
                return;
            }
            seat.taken.fetch_add(1, Relaxed);
            let size = run.options.size;
            let bytes = work.bytes().get(..size as usize).unwrap_or_default();
            let is_whole = completion.length() == size;
            if !is_whole || (run.options.verify && !is_filled(bytes, pattern(seat.index))) {
                run.is_wrong();
            }
            if seat.qp.post_receive(work).is_err() {
                run.not_posted();
            }
            if run.is_ping_pong() {
                seat.answer();
            }
        });
    }
}

impl<'d> Handler<'d> for Answer<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let seat = work.handler().seat.clone();
        seat.run.handle(|| {
            if seat.run.succeeds(completion) {
                seat.put(work);
            }
        });
    }
}

/// Memory of the server that a queue pair of the client reaches.
pub(crate) struct Region<'d> {
    pages: Arc<Pages<'d>>,
    mr: Mr<'d>,
}

impl<'d> Region<'d> {
    /// Makes a region and registers it, by a request of the server's queue pair, which `cq` tells the end of.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, what the driver answers; `EIO` if the request fails.
    pub(crate) fn new(
        run: &Run,
        index: usize,
        pd: &Pd<'d>,
        qp: &QpRef<'d, Rc, Rts>,
        cq: &CqRef<'d>,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let size = run.options.size;
        let pages = Pages::new(pd.device(), size, sleep)?;
        if run.options.op == Op::Read {
            let filled = KVec::from_elem(pattern(index), size as usize, GFP_KERNEL)?;
            pages.write(0, &filled)?;
        }
        let count = size.div_ceil(PAGE_SIZE as u32);
        let mr = Mr::new(pd, count, sleep)?;
        mr.map(&pages, sleep)?;
        let access = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC;
        let (work, told) = Told::work(pd.device(), 1, sleep)?;
        qp.post_send(work, RcOp::RegMr { mr: &mr, access })?;
        told.wait(cq, sleep)?;
        Ok(Self { pages, mr })
    }

    /// Where it is.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is nowhere.
    pub(crate) fn remote(&self) -> Result<Remote> {
        self.mr.remote(0)
    }

    /// Looks at the memory at the end of a run.
    pub(crate) fn check(&self, run: &Run, index: usize, final_number: u64) -> Result {
        let mut bytes = KVec::from_elem(0u8, run.options.size as usize, GFP_KERNEL)?;
        self.pages.read(0, &mut bytes)?;
        let number = bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
        let is_right = match run.options.op {
            Op::Write | Op::Read => is_filled(&bytes, pattern(index)),
            Op::FetchAdd | Op::CompareSwap => number == Some(final_number),
            Op::Send => true,
        };
        if !is_right {
            run.is_wrong();
        }
        Ok(())
    }
}
