// SPDX-License-Identifier: GPL-2.0

//! The processor of a queue pair.
//!
//! A queue pair with little to do has none: whoever has something for it runs its engine at once, on the same processor, as
//! nothing is faster than that. One that handles many packets at a time gets a processor, where its work item runs, so that the
//! two ends of a connection within one host work at the same time: who sends them stays on the processor that it is on, and who
//! receives them goes to another one, and moves on if they are sent there after all. So does a queue pair whose program posts
//! faster than it polls: the program has a processor to itself then. A completion vector other than 0 names the processor.

use core::sync::atomic::{AtomicU32, Ordering};
use kernel::cpu::CpuId;
use kernel_ext::work::nth_online_cpu;

/// Packets sent in one run, or received before any is sent, with which a queue pair gets a processor.
const BUSY: u32 = 16;

/// Packets handled in one run that are few.
const QUIET: u32 = 4;

/// So many runs with few packets end it.
const QUIET_RUNS: u32 = 64;

/// So many packets in a row that are brought on the queue pair's processor move it to another one.
const MEETINGS: u32 = 64;

/// The value for no processor.
const NONE: u32 = u32::MAX;

/// The processor of a queue pair.
pub(super) struct Home {
    cpu: AtomicU32,
    /// Runs with few packets since the last one with more. Written with the engine's lock held.
    quiet_runs: AtomicU32,
    /// Packets received since the last one was sent: many, where they ask for few acknowledges. As above.
    burst: AtomicU32,
    /// Packets in a row that were brought on the queue pair's own processor.
    met: AtomicU32,
    /// The completion vector, or 0.
    vector: u32,
    /// Spreads queue pairs over processors.
    seed: u32,
}

/// Spreads numbers that follow each other, or differ by a power of 2, over all numbers (Fibonacci hashing).
const fn spread(n: u32) -> u32 {
    n.wrapping_mul(0x9e37_79b9) >> 16
}

impl Home {
    /// No processor yet, for a queue pair with this completion vector and number.
    pub(super) fn new(vector: u32, qpn: u32) -> Self {
        Self {
            cpu: AtomicU32::new(NONE),
            quiet_runs: AtomicU32::new(0),
            burst: AtomicU32::new(0),
            met: AtomicU32::new(0),
            vector,
            seed: spread(qpn),
        }
    }

    /// Another processor than `here`, if there is one.
    fn other_than(&self, here: u32) -> u32 {
        match nth_online_cpu(self.seed) {
            cpu if cpu == here => nth_online_cpu(self.seed.wrapping_add(1)),
            cpu => cpu,
        }
    }

    /// Takes note of the packets that a run of the engine has received and sent. With the engine's lock held.
    #[inline]
    pub(super) fn note(&self, received: u32, sent: u32) {
        let burst = self.burst.load(Ordering::Relaxed).saturating_add(received);
        let is_busy = burst.max(sent) >= BUSY;
        let burst_goes_on = sent == 0 && !is_busy;
        self.burst
            .store(if burst_goes_on { burst } else { 0 }, Ordering::Relaxed);
        let has_none = self.cpu.load(Ordering::Relaxed) == NONE;
        if is_busy {
            self.quiet_runs.store(0, Ordering::Relaxed);
            if has_none {
                self.settle(sent >= burst);
            }
        } else if received.max(sent) < QUIET && !has_none {
            let runs = self.quiet_runs.load(Ordering::Relaxed).saturating_add(1);
            self.quiet_runs.store(runs, Ordering::Relaxed);
            if runs >= QUIET_RUNS {
                self.cpu.store(NONE, Ordering::Relaxed);
            }
        }
    }

    /// Takes note of a packet that is brought here, and tells whether the engine may run on this processor. Softirq context.
    ///
    /// Who brings packets for long on the queue pair's processor is likely to send them there: the queue pair moves to another one.
    #[inline]
    pub(super) fn meets(&self) -> bool {
        let cpu = self.cpu.load(Ordering::Relaxed);
        if cpu == NONE {
            return true;
        }
        let here = CpuId::current().as_u32();
        if cpu != here {
            self.met.store(0, Ordering::Relaxed);
            return false;
        }
        let met = self.met.load(Ordering::Relaxed).wrapping_add(1);
        self.met.store(met % MEETINGS, Ordering::Relaxed);
        if met < MEETINGS || self.vector != 0 {
            return true;
        }
        let other = self.other_than(here);
        self.cpu.store(other, Ordering::Relaxed);
        other == here
    }

    /// Takes note of a program that posts faster than it polls: the queue pair gets another processor than the program's, where
    /// requests gather while the program goes on. Process context.
    #[inline]
    pub(super) fn leave_to_program(&self) {
        if self.cpu.load(Ordering::Relaxed) == NONE {
            self.settle(false);
        }
    }

    fn settle(&self, stays: bool) {
        let here = CpuId::current().as_u32();
        let cpu = match self.vector {
            0 if stays => here,
            0 => self.other_than(here),
            vector => vector,
        };
        self.cpu.store(cpu, Ordering::Relaxed);
    }

    /// Whether the engine may run on this processor. With softirqs disabled, so that it stays this one.
    #[inline]
    pub(super) fn may_be_here(&self) -> bool {
        let cpu = self.cpu.load(Ordering::Relaxed);
        cpu == NONE || cpu == CpuId::current().as_u32()
    }

    /// The number of the processor, which may be offline, or no number of one.
    #[inline]
    pub(super) fn cpu(&self) -> u32 {
        self.cpu.load(Ordering::Relaxed)
    }
}
