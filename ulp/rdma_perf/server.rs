// SPDX-License-Identifier: GPL-2.0

//! Queue pairs of the server: their memory regions, the receives, and the responses of `pattern=pingpong`.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `ServerQp::responses` | responses that are not posted | any | nothing |

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
    client::{END_LENGTH, RESPONSES},
    options::{Op, Options},
    run::{is_filled, pattern, Run},
    waiter::Waiter,
};

/// A queue pair of the server, with its requests.
#[pin_data]
pub(crate) struct ServerQp<'d> {
    run: Arc<Run>,
    index: usize,
    qp: QpHandle<'d, Rc, Rts>,
    /// The number of messages received.
    received: AtomicU64,
    /// Whether the client has ended the run, one of [`end`], and the number that it expects in the memory.
    end: AtomicU32,
    number: AtomicU64,
    #[pin]
    responses: SpinLockIrq<KVec<Pin<KBox<Work<'d, ResponseHandler<'d>>>>>>,
}

/// Whether the client has ended the run.
mod end {
    pub(super) const NONE: u32 = 0;
    pub(super) const UNUSED: u32 = 1;
    pub(super) const USED: u32 = 2;
}

/// The completion handler of a receive.
pub(crate) struct ReceiveHandler<'d> {
    server_qp: Arc<ServerQp<'d>>,
}

/// The completion handler of a response.
pub(crate) struct ResponseHandler<'d> {
    server_qp: Arc<ServerQp<'d>>,
}

impl<'d> ServerQp<'d> {
    /// A queue pair without requests. After [`open`](Self::open) it must be [closed](Self::close), whether or not that
    /// succeeded.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and the errors of posting.
    pub(crate) fn new(
        run: &Arc<Run>,
        index: usize,
        qp: QpHandle<'d, Rc, Rts>,
    ) -> Result<Arc<Self>> {
        let free = KVec::with_capacity(RESPONSES as usize, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                run: run.clone(),
                index,
                qp,
                received: AtomicU64::new(0),
                end: AtomicU32::new(end::NONE),
                number: AtomicU64::new(0),
                responses <- new_spinlock_irq!(free, "ServerQp::responses"),
            }),
            GFP_KERNEL,
        )
    }

    /// Posts the receives, and allocates the responses.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and the errors of posting.
    pub(crate) fn open(self: &Arc<Self>, device: &Device<'d>, sleep: &MaySleep) -> Result {
        let Options { size, op, .. } = self.run.options;
        let room = match op {
            Op::Send => size.max(END_LENGTH),
            _ => END_LENGTH,
        };
        for _ in 0..receives(&self.run.options) {
            let server_qp = self.clone();
            let work = Work::new(device, room, ReceiveHandler { server_qp }, sleep)?;
            self.qp.post_receive(work)?;
        }
        if !self.run.is_ping_pong() {
            return Ok(());
        }
        for _ in 0..RESPONSES {
            let server_qp = self.clone();
            let mut work = Work::new(device, size, ResponseHandler { server_qp }, sleep)?;
            work.as_mut().bytes_mut().fill(pattern(self.index));
            self.put(work);
        }
        Ok(())
    }

    fn put(&self, work: Pin<KBox<Work<'d, ResponseHandler<'d>>>>) {
        let left_over = self.responses.lock().push_within_capacity(work);
        drop(left_over);
    }

    fn respond(&self) {
        let work = self.responses.lock().pop();
        let is_posted = work.is_some_and(|work| self.qp.post_send(work, RcOp::Send).is_ok());
        if !is_posted {
            self.run.not_posted();
        }
    }

    /// Handles the client's last message.
    fn take_end(&self, was_used: bool, bytes: &[u8]) {
        let number = bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        self.number.store(number.unwrap_or(0), Relaxed);
        let end = if was_used { end::USED } else { end::UNUSED };
        self.end.store(end, Release);
    }

    /// Whether the client has ended the run.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.load(Acquire) != end::NONE
    }

    /// The expected number in the memory at the end of the run. `None` if the queue pair was not used.
    pub(crate) fn final_number(&self) -> Option<u64> {
        let was_used = self.end.load(Acquire) == end::USED;
        was_used.then(|| self.number.load(Relaxed))
    }

    /// The number of messages received.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Frees the responses, each of which has a reference to this. Called after the queue pair is destroyed.
    pub(crate) fn close(&self) {
        let responses = core::mem::take(&mut *self.responses.lock());
        drop(responses);
    }
}

/// The number of receives of a queue pair of the server: twice the depth, for messages that come while the handlers repost, and
/// one for the last message.
pub(crate) fn receives(options: &Options) -> u32 {
    match options.op {
        Op::Send => options
            .depth
            .saturating_mul(2)
            .max(RESPONSES)
            .saturating_add(1),
        _ => 1,
    }
}

impl<'d> Handler<'d> for ReceiveHandler<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let server_qp = work.handler().server_qp.clone();
        let run = &server_qp.run;
        run.handle(|| {
            if !run.succeeds(completion) {
                return;
            }
            if let Some([was_used, ..]) = completion.immediate() {
                server_qp.take_end(was_used != 0, work.bytes());
                return;
            }
            server_qp.received.fetch_add(1, Relaxed);
            let size = run.options.size;
            let bytes = work.bytes().get(..size as usize).unwrap_or_default();
            let is_whole = completion.length() == size;
            if !is_whole || (run.options.verify && !is_filled(bytes, pattern(server_qp.index))) {
                run.add_wrong();
            }
            if server_qp.qp.post_receive(work).is_err() {
                run.not_posted();
            }
            if run.is_ping_pong() {
                server_qp.respond();
            }
        });
    }
}

impl<'d> Handler<'d> for ResponseHandler<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let server_qp = work.handler().server_qp.clone();
        server_qp.run.handle(|| {
            if server_qp.run.succeeds(completion) {
                server_qp.put(work);
            }
        });
    }
}

/// The server's memory region for a queue pair of the client.
pub(crate) struct Region<'d> {
    pages: Arc<Pages<'d>>,
    mr: Mr<'d>,
}

impl<'d> Region<'d> {
    /// Allocates a region, and registers it with `IB_WR_REG_MR` on the server's queue pair, which completes on `cq`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, the errors of the driver; `EIO` if the request fails.
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
        let (work, waiter) = Waiter::work(pd.device(), 1, sleep)?;
        qp.post_send(work, RcOp::RegMr { mr: &mr, access })?;
        waiter.wait(cq, sleep)?;
        Ok(Self { pages, mr })
    }

    /// Its address and rkey.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not mapped.
    pub(crate) fn remote(&self) -> Result<Remote> {
        self.mr.remote(0)
    }

    /// Compares the memory with what is expected at the end of a run.
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
            run.add_wrong();
        }
        Ok(())
    }
}
