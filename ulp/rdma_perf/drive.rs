// SPDX-License-Identifier: GPL-2.0

//! The loop of a run: it posts operations and polls completions in the requested context.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Driver::locked` | nothing: with `post=locked` it is held around `post_send` and `poll_cq` | process, interrupts off | `ClientQp::free`, `ServerQp::responses` |

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kernel::prelude::*;
use kernel_ext::{
    interrupt::{Context, Interrupter},
    sync::{new_spinlock_irq, SpinLockIrq},
    timer::now_ns,
};
use rdma::{client::Device, MaySleep};

use crate::{
    connect::{self, Exchange},
    ends::{Client, Server},
    histogram::{Histogram, Summary, BUCKETS},
    options::{Options, Poll, PostContext},
    run::{Cancel, Durations, Run},
};

/// The maximum number of operations posted, and of completions polled, before the context is left.
const BATCH: u32 = 16;
/// A run in which no operation ends for that long fails.
const STALLED_NS: u64 = 10_000_000_000;

/// How long the last message of a client may take after it has disconnected, in milliseconds.
const LAST_MESSAGE_MS: u64 = 1000;

/// The results of a run.
#[derive(Clone, Copy)]
pub(crate) struct Report {
    /// The options.
    pub(crate) options: Options,
    /// The number of operations; where only the server's end is here, of messages received.
    pub(crate) operations: u64,
    /// The duration.
    pub(crate) nanoseconds: u64,
    /// From the posting of an operation to its end.
    pub(crate) latency: Summary,
    /// Durations of `post_send`.
    pub(crate) post: Summary,
    /// Durations of `poll_cq` for each completion, without the handlers.
    pub(crate) poll: Summary,
    /// Calls of `poll_cq` that returned no completion.
    pub(crate) empty_polls: u64,
    /// The cost of reading the clock, which each duration includes once.
    pub(crate) clock: u64,
}

/// Polls completion queues, and measures the duration.
struct Poller {
    cost: Durations,
    empty: AtomicU64,
}

/// Posts operations and polls in the requested context.
struct Driver<'r, 'a, 'b> {
    run: &'r Run,
    client: Option<&'r Client<'a>>,
    server: Option<&'r Server<'b>>,
    poller: &'r Poller,
    interrupter: Interrupter,
    locked: Pin<KBox<SpinLockIrq<()>>>,
    /// The number of steps so far. Each step begins with another queue pair.
    steps: usize,
}

/// Posts operations, the same number on each queue pair if the depth allows. Returns how many.
fn begin(client: &Client<'_>, first: usize) -> u32 {
    let count = client.client_qps.len().max(1);
    let each = BATCH.div_ceil(u32::try_from(count).unwrap_or(BATCH));
    let mut done = 0u32;
    for client_qp in client
        .client_qps
        .iter()
        .cycle()
        .skip(first % count)
        .take(count)
    {
        done = done.saturating_add(client_qp.fill(each));
        if done >= BATCH {
            break;
        }
    }
    done
}

/// Posts operations and polls completions. Returns the number of both. Any context.
fn step(
    client: Option<&Client<'_>>,
    server: Option<&Server<'_>>,
    run: &Run,
    poller: &Poller,
    first: Option<usize>,
) -> u32 {
    let mut done = match (client, first) {
        (Some(client), Some(first)) => begin(client, first),
        _ => 0,
    };
    if run.options.poll != Poll::Direct {
        return done;
    }
    if let Some(server) = server {
        done = done.saturating_add(poller.poll(run, || server.poll(BATCH)));
    }
    if let Some(client) = client {
        done = done.saturating_add(poller.poll(run, || client.poll(BATCH)));
    }
    done
}

impl Poller {
    fn poll(&self, run: &Run, poll: impl FnOnce() -> u32) -> u32 {
        let (began, handlers) = (now_ns(), run.handlers_ns());
        let count = poll();
        let took = now_ns().saturating_sub(began);
        let of_handlers = run.handlers_ns().saturating_sub(handlers);
        match took.saturating_sub(of_handlers).checked_div(count.into()) {
            Some(each) => self.cost.add(each),
            None => {
                self.empty.fetch_add(1, Relaxed);
            }
        }
        count
    }
}

impl Driver<'_, '_, '_> {
    fn step(&mut self, sleep: &MaySleep) -> u32 {
        let begins = !(self.run.is_by_handlers() && self.steps > 0);
        let first = begins.then_some(self.steps);
        self.steps = self.steps.wrapping_add(1);
        let (client, server, run, poller) = (self.client, self.server, self.run, self.poller);
        let step = || step(client, server, run, poller, first);
        match run.options.post {
            PostContext::Thread | PostContext::Handler => step(),
            PostContext::Locked => {
                let _held = self.locked.lock();
                step()
            }
            PostContext::SoftIrq => self
                .interrupter
                .call(Context::Soft, step, sleep)
                .unwrap_or(0),
            PostContext::Interrupt => self
                .interrupter
                .call(Context::Hard, step, sleep)
                .unwrap_or(0),
        }
    }

    /// Whether the run is over.
    ///
    /// # Errors
    ///
    /// `ECONNRESET` if a client in another kernel disconnects before its last message.
    fn is_over(&self, left: &mut Option<u64>, sleep: &MaySleep) -> Result<bool> {
        if self.client.is_some() {
            return Ok(self.run.is_over());
        }
        let Some(server) = self.server else {
            return Ok(true);
        };
        if server.has_ended() {
            return Ok(true);
        }
        if left.is_none() && server.is_disconnected(sleep) {
            *left = Some(now_ns());
        }
        match left {
            Some(since) if now_ns().saturating_sub(*since) > LAST_MESSAGE_MS * 1_000_000 => {
                Err(Error::from_errno(-(rdma::bindings::ECONNRESET as i32)))
            }
            _ => Ok(false),
        }
    }

    /// Runs until the run is over.
    fn run_to_end(&mut self, cancel: Cancel<'_>, sleep: &MaySleep) -> Result {
        let mut progress = (self.run.ended(), now_ns());
        let mut left = None;
        while !self.is_over(&mut left, sleep)? {
            if self.run.has_failed() {
                return Err(EIO);
            }
            cancel.check()?;
            let (ended, now) = (self.run.ended(), now_ns());
            if ended != progress.0 || self.client.is_none() {
                progress = (ended, now);
            } else if now.saturating_sub(progress.1) > STALLED_NS {
                return Err(ETIMEDOUT);
            }
            let done = self.step(sleep);
            match self.run.options.poll {
                // Other work on this CPU may have to produce the next completion.
                Poll::Direct => sleep.cond_resched(),
                _ if done == 0 => self.run.wait(sleep),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The cost of reading the clock, in nanoseconds.
fn clock_cost() -> u64 {
    const READINGS: u64 = 1000;
    let began = now_ns();
    for _ in 0..READINGS {
        core::hint::black_box(now_ns());
    }
    now_ns().saturating_sub(began) / READINGS
}

fn poller() -> Result<Poller> {
    let mut counts = KVec::with_capacity(BUCKETS, GFP_KERNEL)?;
    for _ in 0..BUCKETS {
        counts.push(AtomicU64::new(0), GFP_KERNEL)?;
    }
    Ok(Poller {
        cost: Histogram::new(counts),
        empty: AtomicU64::new(0),
    })
}

/// Does a run with both ends here, from the client's device to the server's.
///
/// # Errors
///
/// Those of creating the ends; `EIO` for an operation that fails, `EBADMSG` for wrong data, `ENODEV` if a device is removed,
/// `EINTR` for a signal, `ETIMEDOUT` if no operation ends any more.
pub(crate) fn both(
    options: Options,
    on: &Device<'_>,
    to: &Device<'_>,
    cancel: Cancel<'_>,
    sleep: &MaySleep,
) -> Result<Report> {
    let run = Run::new(options)?;
    let (client, server) = connect::both(&run, on, to, sleep)?;
    drive(&run, Some(&client), Some(&server), cancel, sleep)
}

/// Does a run with the client's end here.
///
/// # Errors
///
/// As for [`both`].
pub(crate) fn client(
    options: Options,
    device: &Device<'_>,
    exchange: &Exchange,
    cancel: Cancel<'_>,
    sleep: &MaySleep,
) -> Result<Report> {
    let run = Run::new(options)?;
    let client = connect::client(&run, device, exchange, cancel, sleep)?;
    drive(&run, Some(&client), None, cancel, sleep)
}

/// Does a run with the server's end here.
///
/// # Errors
///
/// As for [`both`]; `ECONNRESET` if the client disconnects before its last message.
pub(crate) fn server(
    options: Options,
    device: &Device<'_>,
    exchange: &Exchange,
    cancel: Cancel<'_>,
    sleep: &MaySleep,
) -> Result<Report> {
    let (run, server) = connect::server(&options, device, exchange, cancel, sleep)?;
    drive(&run, None, Some(&server), cancel, sleep)
}

/// Does a run with the given ends.
fn drive(
    run: &Run,
    client: Option<&Client<'_>>,
    server: Option<&Server<'_>>,
    cancel: Cancel<'_>,
    sleep: &MaySleep,
) -> Result<Report> {
    let poller = poller()?;
    let mut driver = Driver {
        run,
        client,
        server,
        poller: &poller,
        interrupter: Interrupter::new(sleep)?,
        locked: KBox::pin_init(new_spinlock_irq!((), "Driver::locked"), GFP_KERNEL)?,
        steps: 0,
    };
    let began = now_ns();
    run.start(began);
    let mut went = driver.run_to_end(cancel, sleep);
    let nanoseconds = now_ns().saturating_sub(began);
    if let (Ok(()), Some(client), None) = (went, client, server) {
        went = client.send_end(sleep);
    }
    if let (Ok(()), Some(server), true) = (went, server, run.options.verify) {
        server.check(client)?;
    }
    run.outcome()?;
    went?;
    let operations = match (client, server) {
        (None, Some(server)) => server.received(),
        _ => run.ended(),
    };
    Ok(Report {
        options: run.options,
        operations,
        nanoseconds,
        latency: run.latency.summary(),
        post: run.post.summary(),
        poll: poller.cost.summary(),
        empty_polls: poller.empty.load(Relaxed),
        clock: clock_cost(),
    })
}
