// SPDX-License-Identifier: GPL-2.0

//! What the client does: it begins operations and takes completions, in the context that is asked for.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Driver::locked` | nothing: it is there to be held while requests are posted and completions taken | process, interrupts off | `Lane::free`, `Seat::answers` |

use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

use kernel::{current, prelude::*, sync::Arc};
use kernel_ext::{
    interrupt::{Context, Interrupter},
    sync::{new_spinlock_irq, SpinLockIrq},
    timer::now_ns,
};
use rdma::{verbs::Device, MaySleep};

use crate::{
    ends::{self, Client, Server},
    histogram::{Histogram, Summary, BUCKETS},
    options::{Name, Options, Place, Poll},
    run::{Durations, Run},
};

/// Operations that are begun, and completions that are taken, before the context is left.
const BATCH: u32 = 16;
/// How long a run may go on without an end of an operation.
const STALLED_NS: u64 = 10_000_000_000;

/// What a run has measured.
#[derive(Clone, Copy)]
pub(crate) struct Report {
    /// What was asked for.
    pub(crate) options: Options,
    /// How many operations ended, in how many nanoseconds.
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
    client: &'r Client<'a>,
    server: &'r Server<'b>,
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
    client: &Client<'_>,
    server: &Server<'_>,
    run: &Run,
    poller: &Poller,
    first: Option<usize>,
) -> u32 {
    let mut done = first.map_or(0, |first| begin(client, first));
    if run.options.poll == Poll::Direct {
        done = done
            .saturating_add(poller.poll(run, || server.poll(BATCH)))
            .saturating_add(poller.poll(run, || client.poll(BATCH)));
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

    /// Goes on until the run is over.
    fn go(&mut self, gone: [&AtomicBool; 2], sleep: &MaySleep) -> Result {
        let mut progress = (self.run.ended(), now_ns());
        while !self.run.is_over() {
            if self.run.has_failed() {
                return Err(EIO);
            }
            if gone.iter().any(|gone| gone.load(Acquire)) {
                return Err(ENODEV);
            }
            if current!().signal_pending() {
                return Err(EINTR);
            }
            let (ended, now) = (self.run.ended(), now_ns());
            if ended != progress.0 {
                progress = (ended, now);
            } else if now.saturating_sub(progress.1) > STALLED_NS {
                return Err(ETIMEDOUT);
            }
            let done = self.step(sleep);
            match self.run.options.poll {
                // What is to come is brought by others, also on this CPU.
                Poll::Direct => sleep.give_way(),
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

fn name(device: &Device<'_>) -> Option<Name> {
    Name::new(device.name().to_bytes())
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

/// Does a run, from a client's device to a server's. `gone` says of each that it goes.
///
/// # Errors
///
/// What making the ends fails with; `EIO` for an operation that fails, `EBADMSG` for wrong data, `ENODEV` for a device that
/// goes, `EINTR` for a signal, `ETIMEDOUT` when nothing happens any more.
pub(crate) fn drive(
    options: Options,
    on: &Device<'_>,
    to: &Device<'_>,
    gone: [&AtomicBool; 2],
    sleep: &MaySleep,
) -> Result<Report> {
    let run: Arc<Run> = Run::new(options)?;
    let poller = poller()?;
    let (client, server) = ends::connect(&run, on, to, sleep)?;
    let mut driver = Driver {
        run: &run,
        client: &client,
        server: &server,
        poller: &poller,
        interrupter: Interrupter::new(sleep)?,
        locked: KBox::pin_init(new_spinlock_irq!((), "Driver::locked"), GFP_KERNEL)?,
        steps: 0,
    };
    let began = now_ns();
    run.start(began);
    let went = driver.go(gone, sleep);
    let nanoseconds = now_ns().saturating_sub(began);
    if went.is_ok() && options.verify {
        server.check(&client)?;
    }
    run.outcome()?;
    went?;
    Ok(Report {
        options: Options {
            client: name(on).unwrap_or(options.client),
            server: name(to).unwrap_or(options.server),
            ..options
        },
        operations: run.ended(),
        nanoseconds,
        latency: run.latency.summary(),
        post: run.post.summary(),
        poll: poller.cost.summary(),
        empty_polls: poller.empty.load(Relaxed),
        clock: clock_cost(),
    })
}
