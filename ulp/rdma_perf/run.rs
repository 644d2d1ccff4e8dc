// SPDX-License-Identifier: GPL-2.0

//! The state of a run, which both ends share: its progress and the durations measured. Used in any context.

use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use kernel::{current, prelude::*, sync::Arc};
use kernel_ext::{sync::Completion, timer::now_ns};
use rdma::{client::work, MaySleep, WcStatus};

use crate::{
    histogram::{Histogram, BUCKETS},
    options::{Limit, Options, Pattern, PostContext},
};

/// The conditions that cancel a run: removal of a device, and signals.
#[derive(Clone, Copy)]
pub(crate) struct Cancel<'a> {
    /// Whether each of the devices is being removed.
    pub(crate) gone: [&'a AtomicBool; 2],
}

impl Cancel<'_> {
    /// Checks that the run is not cancelled.
    ///
    /// # Errors
    ///
    /// `ENODEV` if a device is being removed, `EINTR` for a signal.
    pub(crate) fn check(self) -> Result {
        if self.gone.iter().any(|gone| gone.load(Acquire)) {
            return Err(ENODEV);
        }
        if current!().signal_pending() {
            return Err(EINTR);
        }
        Ok(())
    }
}

/// Durations, in nanoseconds.
pub(crate) type Durations = Histogram<KVec<AtomicU64>>;

fn durations() -> Result<Durations> {
    let mut counts = KVec::with_capacity(BUCKETS, GFP_KERNEL)?;
    for _ in 0..BUCKETS {
        counts.push(AtomicU64::new(0), GFP_KERNEL)?;
    }
    Ok(Histogram::new(counts))
}

/// The state of a run.
#[pin_data]
pub(crate) struct Run {
    /// The options.
    pub(crate) options: Options,
    /// The maximum number of operations, and the time after which none begins.
    limit: u64,
    deadline: AtomicU64,
    begun: AtomicU64,
    ended: AtomicU64,
    /// No operation begins any more, and failed completions are those of flushed requests.
    stopping: AtomicBool,
    failed: AtomicBool,
    /// The status of the first operation that failed: `enum ib_wc_status`.
    status: AtomicU32,
    /// The number of operations with wrong data.
    wrong: AtomicU64,
    /// From the begin to the end of an operation.
    pub(crate) latency: Durations,
    /// Durations of `post_send`.
    pub(crate) post: Durations,
    /// The total time in completion handlers.
    handlers_ns: AtomicU64,
    /// Whether the client waits for the end of an operation.
    waiting: AtomicBool,
    #[pin]
    wake: Completion,
}

impl Run {
    /// A run that has not begun.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(options: Options) -> Result<Arc<Self>> {
        let limit = match options.limit {
            Limit::Iterations(count) => count,
            Limit::Seconds(_) => u64::MAX,
        };
        let (latency, post) = (durations()?, durations()?);
        Arc::pin_init(
            pin_init!(Self {
                options,
                limit,
                deadline: AtomicU64::new(u64::MAX),
                begun: AtomicU64::new(0),
                ended: AtomicU64::new(0),
                stopping: AtomicBool::new(false),
                failed: AtomicBool::new(false),
                status: AtomicU32::new(0),
                wrong: AtomicU64::new(0),
                latency,
                post,
                handlers_ns: AtomicU64::new(0),
                waiting: AtomicBool::new(false),
                wake <- Completion::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Starts the run at the time `now`.
    pub(crate) fn start(&self, now: u64) {
        if let Limit::Seconds(seconds) = self.options.limit {
            let length = u64::from(seconds).saturating_mul(1_000_000_000);
            self.deadline.store(now.saturating_add(length), Relaxed);
        }
    }

    fn may_begin(&self, begun: u64) -> bool {
        begun < self.limit && !self.is_stopping() && now_ns() < self.deadline.load(Relaxed)
    }

    /// Counts one more operation, if the limit allows it.
    pub(crate) fn begin(&self) -> bool {
        let more = |begun: u64| self.may_begin(begun).then(|| begun.saturating_add(1));
        self.begun.fetch_update(AcqRel, Acquire, more).is_ok()
    }

    /// Counts the end of an operation that began at the time `began`.
    pub(crate) fn end(&self, began: u64) {
        self.latency.add(now_ns().saturating_sub(began));
        self.ended.fetch_add(1, AcqRel);
        if self.waiting.swap(false, AcqRel) {
            self.wake.complete();
        }
    }

    /// The number of operations that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Acquire)
    }

    /// Whether all operations have ended, and no more will begin.
    pub(crate) fn is_over(&self) -> bool {
        let begun = self.begun.load(Acquire);
        !self.may_begin(begun) && self.ended() == begun
    }

    /// Waits for the end of an operation, for a short time at most.
    pub(crate) fn wait(&self, sleep: &MaySleep) {
        const LONGEST_MS: u32 = 10;
        let before = self.ended();
        self.waiting.store(true, Release);
        if self.ended() == before {
            // The caller reads the progress anyway, whether or not the wait timed out.
            let _ = self.wake.wait_timeout(LONGEST_MS, sleep);
        }
        self.waiting.store(false, Release);
    }

    /// Stops the run: no operation begins any more.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Release);
    }

    /// Whether [`Self::stop`] was called.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Acquire)
    }

    /// Whether a completion has the status success. If not, the run has failed, unless it is stopping.
    pub(crate) fn succeeds(&self, completion: &work::Completion<'_, '_>) -> bool {
        let status = completion.status();
        if status == WcStatus::Success {
            return true;
        }
        if !self.is_stopping() {
            self.fail(status as u32);
        }
        false
    }

    /// Handles a request that could not be posted: the run has failed, unless it is stopping.
    pub(crate) fn not_posted(&self) {
        if !self.is_stopping() {
            self.fail(WcStatus::GeneralErr as u32);
        }
    }

    fn fail(&self, status: u32) {
        if !self.failed.swap(true, AcqRel) {
            self.status.store(status, Relaxed);
        }
    }

    /// Counts an operation with wrong data.
    pub(crate) fn add_wrong(&self) {
        self.wrong.fetch_add(1, Relaxed);
    }

    /// The outcome of the run.
    ///
    /// # Errors
    ///
    /// `EIO` if an operation failed, `EBADMSG` for wrong data.
    pub(crate) fn outcome(&self) -> Result {
        if self.failed.load(Acquire) {
            pr_warn!("a request failed: status {}\n", self.status.load(Relaxed));
            return Err(EIO);
        }
        match self.wrong.load(Relaxed) {
            0 => Ok(()),
            wrong => {
                pr_warn!("{wrong} operations brought wrong data\n");
                Err(Error::from_errno(-(rdma::bindings::EBADMSG as i32)))
            }
        }
    }

    /// Whether an operation failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Acquire)
    }

    /// Whether completion handlers post the next operation.
    pub(crate) fn is_by_handlers(&self) -> bool {
        self.options.post == PostContext::Handler
    }

    /// Whether the server responds to messages.
    pub(crate) fn is_ping_pong(&self) -> bool {
        self.options.pattern == Pattern::PingPong
    }

    /// The total time in completion handlers so far.
    pub(crate) fn handlers_ns(&self) -> u64 {
        self.handlers_ns.load(Relaxed)
    }

    /// Calls the body of a completion handler, and measures its duration.
    pub(crate) fn handle(&self, body: impl FnOnce()) {
        let began = now_ns();
        body();
        let took = now_ns().saturating_sub(began);
        self.handlers_ns.fetch_add(took, Relaxed);
    }
}

/// The byte that fills the data of the queue pair with that index; it is never zero.
pub(crate) fn pattern(index: usize) -> u8 {
    (index % 255) as u8 + 1
}

/// Whether memory is filled with a byte.
pub(crate) fn is_filled(bytes: &[u8], byte: u8) -> bool {
    bytes.iter().all(|found| *found == byte)
}
