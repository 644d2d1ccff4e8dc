// SPDX-License-Identifier: GPL-2.0

//! Data races on purpose: a check that KCSAN detects them in Rust code of modules that are built as ours are, and that it does not
//! report marked accesses.
//!
//! Built with `FERROBAND_TESTS=m` for a kernel that has KCSAN; tools/testing/selftests/common/kcsan.sh loads it and looks for the
//! reports, by the names of the functions here. The names do not contain `kcsan_`, because KCSAN takes such functions in a stack
//! trace for its own.

use core::{
    cell::UnsafeCell,
    hint::black_box,
    sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64,
        Ordering::{self, Acquire, Relaxed, Release},
    },
};
use kernel::{
    prelude::*,
    sync::Arc,
    time::{Delta, Instant, Monotonic},
    workqueue::{impl_has_work, new_work, Work, WorkItem},
};
use kernel_ext::{
    context::MaySleep,
    module::{process_module, ProcessModule},
    work::{self, OwnedQueue, QueueFlags},
};

process_module! {
    type: Probe,
    name: "race_probe",
    authors: ["Ferroband"],
    description: "Accesses memory that others access at the same time",
    license: "GPL",
}

/// The time in milliseconds for which each pair of functions runs concurrently.
const MILLISECONDS: i64 = 1000;
/// How often a function does its access before it looks around.
const ROUNDS: u64 = 1000;

/// What two threads access.
#[derive(Default)]
struct Shared {
    plain: UnsafeCell<u64>,
    atomic: AtomicU64,
    turn: AtomicU32,
}

// SAFETY: None: this is the fault that is wanted. Nothing depends on the values, and each is written in one instruction.
unsafe impl Sync for Shared {}

/// One side of a race: accesses [`ROUNDS`] times.
type Side = fn(&Shared);

#[inline(never)]
fn race_probe_plain_writes(shared: &Shared) {
    for n in 0..ROUNDS {
        // SAFETY: The pointer is valid. That others access it too is wanted.
        unsafe { *black_box(shared.plain.get()) = n };
    }
}

#[inline(never)]
fn race_probe_plain_reads(shared: &Shared) {
    for _ in 0..ROUNDS {
        // SAFETY: The pointer is valid. That others write there is wanted.
        black_box(unsafe { *black_box(shared.plain.get()) });
    }
}

#[inline(never)]
fn race_probe_atomic_reads(shared: &Shared) {
    for _ in 0..ROUNDS {
        // SAFETY: The pointer is valid and aligned. That others write there without an atomic access is wanted.
        black_box(unsafe { AtomicU64::from_ptr(shared.plain.get()) }.load(Relaxed));
    }
}

#[inline(never)]
fn race_probe_good_stores(shared: &Shared) {
    for n in 0..ROUNDS {
        shared.atomic.store(n, Relaxed);
        shared.atomic.fetch_add(n, Relaxed);
    }
}

#[inline(never)]
fn race_probe_good_loads(shared: &Shared) {
    for _ in 0..ROUNDS {
        black_box(shared.atomic.load(Relaxed));
        // SAFETY: The pointer is valid and aligned; a volatile read is what READ_ONCE() does.
        black_box(unsafe { shared.atomic.as_ptr().read_volatile() });
    }
}

/// Passes a value to the other side repeatedly: writes it when it is this side's turn, and then sets the turn to the other side.
#[inline(always)]
fn pass(shared: &Shared, order: Ordering) {
    for n in 0..ROUNDS {
        if shared.turn.load(Acquire) == 0 {
            // SAFETY: It is our turn, if the order is good for anything.
            unsafe { *black_box(shared.plain.get()) = n };
            shared.turn.store(1, order);
        }
    }
}

#[inline(never)]
fn race_probe_early_passes(shared: &Shared) {
    pass(shared, Relaxed);
}

#[inline(never)]
fn race_probe_good_passes(shared: &Shared) {
    pass(shared, Release);
}

/// Takes the value when it is this side's turn.
#[inline(never)]
fn race_probe_takes(shared: &Shared) {
    for _ in 0..ROUNDS {
        if shared.turn.load(Acquire) == 1 {
            // SAFETY: It is our turn, if the other side's order is good for anything.
            black_box(unsafe { *black_box(shared.plain.get()) });
            shared.turn.store(0, Release);
        }
    }
}

/// The kernel itself writes `jiffies`, in code that KCSAN does not instrument here.
#[inline(never)]
fn race_probe_clock_reads(_: &Shared) {
    for _ in 0..ROUNDS {
        // SAFETY: The kernel's variable is there. That it is written meanwhile is wanted.
        black_box(unsafe { *black_box(&raw const kernel::bindings::jiffies) });
    }
}

/// The side that a work queue runs.
#[pin_data]
struct Other {
    shared: Shared,
    side: Side,
    stop: AtomicBool,
    #[pin]
    work: Work<Other>,
}

impl_has_work! {
    impl HasWork<Self> for Other { self.work }
}

impl WorkItem for Other {
    type Pointer = Arc<Other>;

    fn run(this: Arc<Other>) {
        while !this.stop.load(Relaxed) {
            (this.side)(&this.shared);
        }
    }
}

/// Runs two sides at the same time.
fn race(here: Side, there: Side, may_sleep: &MaySleep) -> Result {
    let queue = OwnedQueue::new(c"race_probe", QueueFlags::UNBOUND, 0, may_sleep)?;
    let other = Arc::pin_init(
        pin_init!(Other {
            shared: Shared::default(),
            side: there,
            stop: AtomicBool::new(false),
            work <- new_work!("Other::work"),
        }),
        GFP_KERNEL,
    )?;
    work::enqueue(&queue, &other);
    let began = Instant::<Monotonic>::now();
    while began.elapsed() < Delta::from_millis(MILLISECONDS) {
        here(&other.shared);
    }
    other.stop.store(true, Relaxed);
    work::flush(&other, may_sleep);
    Ok(())
}

struct Probe;

impl ProcessModule for Probe {
    fn init(_module: &'static ThisModule, may_sleep: &MaySleep) -> Result<Self> {
        race(race_probe_plain_reads, race_probe_plain_writes, may_sleep)?;
        race(race_probe_atomic_reads, race_probe_plain_writes, may_sleep)?;
        race(race_probe_takes, race_probe_early_passes, may_sleep)?;
        race(race_probe_clock_reads, race_probe_good_stores, may_sleep)?;
        race(race_probe_good_loads, race_probe_good_stores, may_sleep)?;
        race(race_probe_takes, race_probe_good_passes, may_sleep)?;
        Ok(Self)
    }
}
