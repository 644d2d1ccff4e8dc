// SPDX-License-Identifier: GPL-2.0

//! What the client does: it begins operations and takes completions, in the context that is asked for.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Driver::locked` | nothing: it is there to be held while requests are posted and completions taken | process, interrupts off | `Lane::free`, `Seat::answers` |

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kernel::prelude::*;
use kernel_ext::{
    interrupt::{Context, Interrupter},
    sync::{new_spinlock_irq, SpinLockIrq},
    timer::now_ns,
};
use rdma::{client::Device, MaySleep};

use crate::{
    ends::{Client, Server},
    histogram::{Histogram, Summary, BUCKETS},
    options::{Options, Place, Poll},
    run::{Durations, Patience, Run},
    wire::{self, Desk},
};

/// Operations that are begun, and completions that are taken, before the context is left.
const BATCH: u32 = 16;
/// How long a run may go on without an end of an operation.
const STALLED_NS: u64 = 10_000_000_000;

/// How long a client who has gone may have sent before that it ends, in milliseconds.
const LAST_MS: u64 = 1000;

/// What a run has measured.
#[derive(Clone, Copy)]
pub(crate) struct Report {
    /// What was asked for.
    pub(crate) options: Options,
    /// How many operations ended, or messages came where the server's end is alone, in how many nanoseconds.
    pub(crate) operations: u64,
    /// See above.
    pub(crate) nanoseconds: u64,
    /// From the begin of an operation to its end.
    pub(crate) latency: Summary,
    /// Calls of `post_send`.
    pub(crate) post: Summary,
    /// Taking a completion: what a call that took some cost for each of them, without their handlers.
    pub(crate) poll: Summary,
    /// Calls that found none.
    pub(crate) empty_polls: u64,
    /// What reading the clock costs, which is in all of these once.
    pub(crate) clock: u64,
}

/// Takes completions, and measures that.
struct Poller {
    cost: Durations,
    empty: AtomicU64,
}

/// Begins operations, and polls, in the context that is asked for.
struct Driver<'r, 'a, 'b> {
    run: &'r Run,
    client: Option<&'r Client<'a>>,
    server: Option<&'r Server<'b>>,
    poller: &'r Poller,
    interrupter: Interrupter,
    locked: Pin<KBox<SpinLockIrq<()>>>,
    /// How often this was done: each time another queue pair is the first.
    steps: usize,
}

/// Begins operations, the same number on each queue pair as far as there is room. Returns how many.
fn begin(client: &Client<'_>, first: usize) -> u32 {
    let lanes = client.lanes.len().max(1);
    let each = BATCH.div_ceil(u32::try_from(lanes).unwrap_or(BATCH));
    let mut done = 0u32;
    for lane in client.lanes.iter().cycle().skip(first % lanes).take(lanes) {
        done = done.saturating_add(lane.fill(each));
        if done >= BATCH {
            break;
        }
    }
    done
}

/// Begins operations, and takes completions. Returns how many there were of both. Any context.
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
            Place::Thread | Place::Handler => step(),
            Place::Locked => {
                let _held = self.locked.lock();
                step()
            }
            Place::SoftIrq => self
                .interrupter
                .call(Context::Soft, step, sleep)
                .unwrap_or(0),
            Place::Interrupt => self
                .interrupter
                .call(Context::Hard, step, sleep)
                .unwrap_or(0),
        }
    }

    /// Whether there is nothing more to do.
    ///
    /// # Errors
    ///
    /// `ECONNRESET` where a client in another kernel has gone before it has ended.
    fn is_over(&self, left: &mut Option<u64>, sleep: &MaySleep) -> Result<bool> {
        if self.client.is_some() {
            return Ok(self.run.is_over());
        }
        let Some(server) = self.server else {
            return Ok(true);
        };
        if server.has_end() {
            return Ok(true);
        }
        if left.is_none() && server.is_left(sleep) {
            *left = Some(now_ns());
        }
        match left {
            Some(since) if now_ns().saturating_sub(*since) > LAST_MS * 1_000_000 => {
                Err(Error::from_errno(-(rdma::bindings::ECONNRESET as i32)))
            }
            _ => Ok(false),
        }
    }

    /// Goes on until the run is over.
    fn go(&mut self, patience: Patience<'_>, sleep: &MaySleep) -> Result {
        let mut progress = (self.run.ended(), now_ns());
        let mut left = None;
        while !self.is_over(&mut left, sleep)? {
            if self.run.has_failed() {
                return Err(EIO);
            }
            patience.check()?;
            let (ended, now) = (self.run.ended(), now_ns());
            if ended != progress.0 || self.client.is_none() {
                progress = (ended, now);
            } else if now.saturating_sub(progress.1) > STALLED_NS {
                return Err(ETIMEDOUT);
            }
            let done = self.step(sleep);
            match self.run.options.poll {
                // What is to come is brought by others, also on this CPU.
                Poll::Direct => sleep.cond_resched(),
                _ if done == 0 => self.run.wait(sleep),
                _ => {}
            }
        }
        Ok(())
    }
}

/// What reading the clock costs, in nanoseconds.
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

/// Does a run with both ends here, from a client's device to a server's.
///
/// # Errors
///
/// What making the ends fails with; `EIO` for an operation that fails, `EBADMSG` for wrong data, `ENODEV` for a device that
/// goes, `EINTR` for a signal, `ETIMEDOUT` when nothing happens any more.
pub(crate) fn both(
    options: Options,
    on: &Device<'_>,
    to: &Device<'_>,
    patience: Patience<'_>,
    sleep: &MaySleep,
) -> Result<Report> {
    let run = Run::new(options)?;
    let (client, server) = wire::both(&run, on, to, sleep)?;
    drive(&run, Some(&client), Some(&server), patience, sleep)
}

/// Does a run with the client's end here.
///
/// # Errors
///
/// As for [`both`].
pub(crate) fn client(
    options: Options,
    device: &Device<'_>,
    desk: &Desk,
    patience: Patience<'_>,
    sleep: &MaySleep,
) -> Result<Report> {
    let run = Run::new(options)?;
    let client = wire::client(&run, device, desk, patience, sleep)?;
    drive(&run, Some(&client), None, patience, sleep)
}

/// Does a run with the server's end here.
///
/// # Errors
///
/// As for [`both`]; `ECONNRESET` where the client has gone before it has ended.
pub(crate) fn server(
    options: Options,
    device: &Device<'_>,
    desk: &Desk,
    patience: Patience<'_>,
    sleep: &MaySleep,
) -> Result<Report> {
    let (run, server) = wire::server(&options, device, desk, patience, sleep)?;
    drive(&run, None, Some(&server), patience, sleep)
}

/// Does a run with these ends.
fn drive(
    run: &Run,
    client: Option<&Client<'_>>,
    server: Option<&Server<'_>>,
    patience: Patience<'_>,
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
    let mut went = driver.go(patience, sleep);
    let nanoseconds = now_ns().saturating_sub(began);
    if let (Ok(()), Some(client), None) = (went, client, server) {
        went = client.tell_end(sleep);
    }
    if let (Ok(()), Some(server), true) = (went, server, run.options.verify) {
        server.check(client)?;
    }
    run.outcome()?;
    went?;
    let operations = match (client, server) {
        (None, Some(server)) => server.taken(),
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
