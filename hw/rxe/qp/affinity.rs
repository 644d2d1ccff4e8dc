// SPDX-License-Identifier: GPL-2.0

//! CPU affinity of a queue pair's work item. A busy QP gets a CPU of its own, other than the sender's.
//!
//! * An idle QP has no CPU: its engine runs at once, on the CPU of the thread that posts a request or delivers a packet.
//! * A QP that sends many packets in one run gets the CPU that it is running on.
//! * A QP that receives many packets gets another CPU than the one on which they are delivered, so that both ends of a connection
//!   within one host run at the same time. It moves to another CPU if packets are delivered on its own CPU for long.
//! * A QP whose program posts faster than it polls gets another CPU than the program's.
//! * A completion vector other than 0 is the number of the CPU.

use core::sync::atomic::{AtomicU32, Ordering};
use kernel::cpu::CpuId;
use kernel_ext::work::nth_online_cpu;

/// A QP that sends this many packets in one run, or receives as many before it sends any, is busy.
const BUSY_PACKETS: u32 = 16;

/// A run with fewer packets than this is idle.
const IDLE_PACKETS: u32 = 4;

/// Idle runs after which the QP loses its CPU.
const IDLE_RUNS: u32 = 64;

/// Consecutive packets delivered on the QP's own CPU after which it moves to another one.
const OWN_CPU_PACKETS: u32 = 64;

/// The value for no CPU.
const NONE: u32 = u32::MAX;

/// The CPU of a queue pair.
pub(super) struct Affinity {
    cpu: AtomicU32,
    /// Idle runs since the last busy one. Written with the engine's lock held.
    idle_runs: AtomicU32,
    /// Packets received since the last one was sent. Written with the engine's lock held.
    burst: AtomicU32,
    /// Consecutive packets delivered on the QP's own CPU.
    own_cpu_packets: AtomicU32,
    /// The completion vector, or 0.
    vector: u32,
    /// A hash of the QP number, which spreads QPs over CPUs.
    seed: u32,
}

/// Hashes a number: consecutive numbers, and those that differ by a power of 2, get different values (Fibonacci hashing).
const fn spread(n: u32) -> u32 {
    n.wrapping_mul(0x9e37_79b9) >> 16
}

impl Affinity {
    /// No CPU yet, for a QP with this completion vector and number.
    pub(super) fn new(vector: u32, qpn: u32) -> Self {
        Self {
            cpu: AtomicU32::new(NONE),
            idle_runs: AtomicU32::new(0),
            burst: AtomicU32::new(0),
            own_cpu_packets: AtomicU32::new(0),
            vector,
            seed: spread(qpn),
        }
    }

    /// Another CPU than `here`, if there is one.
    fn other_than(&self, here: u32) -> u32 {
        match nth_online_cpu(self.seed) {
            cpu if cpu == here => nth_online_cpu(self.seed.wrapping_add(1)),
            cpu => cpu,
        }
    }

    /// Accounts for a run of the engine with these numbers of packets. Called with the engine's lock held.
    #[inline]
    pub(super) fn note_run(&self, received: u32, sent: u32) {
        let burst = self.burst.load(Ordering::Relaxed).saturating_add(received);
        let is_busy = burst.max(sent) >= BUSY_PACKETS;
        let continues = sent == 0 && !is_busy;
        self.burst
            .store(if continues { burst } else { 0 }, Ordering::Relaxed);
        let has_none = self.cpu.load(Ordering::Relaxed) == NONE;
        if is_busy {
            self.idle_runs.store(0, Ordering::Relaxed);
            if has_none {
                self.assign(sent >= burst);
            }
        } else if received.max(sent) < IDLE_PACKETS && !has_none {
            let runs = self.idle_runs.load(Ordering::Relaxed).saturating_add(1);
            self.idle_runs.store(runs, Ordering::Relaxed);
            if runs >= IDLE_RUNS {
                self.cpu.store(NONE, Ordering::Relaxed);
            }
        }
    }

    /// Accounts for a packet that is delivered on this CPU. Returns whether the engine may run here. Softirq context.
    ///
    /// If packets are delivered on the QP's CPU for long, their sender probably runs there, and the QP moves to another CPU.
    #[inline]
    pub(super) fn note_packet(&self) -> bool {
        let cpu = self.cpu.load(Ordering::Relaxed);
        if cpu == NONE {
            return true;
        }
        let here = CpuId::current().as_u32();
        if cpu != here {
            self.own_cpu_packets.store(0, Ordering::Relaxed);
            return false;
        }
        let own_cpu_packets = self.own_cpu_packets.load(Ordering::Relaxed).wrapping_add(1);
        self.own_cpu_packets
            .store(own_cpu_packets % OWN_CPU_PACKETS, Ordering::Relaxed);
        if own_cpu_packets < OWN_CPU_PACKETS || self.vector != 0 {
            return true;
        }
        let other = self.other_than(here);
        self.cpu.store(other, Ordering::Relaxed);
        other == here
    }

    /// Assigns another CPU than this one, on which a program posts faster than it polls, unless the QP has a CPU. Process context.
    #[inline]
    pub(super) fn separate_from_program(&self) {
        if self.cpu.load(Ordering::Relaxed) == NONE {
            self.assign(false);
        }
    }

    /// Assigns a CPU: this one if `keeps_cpu`, another one if not, or that of the completion vector.
    fn assign(&self, keeps_cpu: bool) {
        let here = CpuId::current().as_u32();
        let cpu = match self.vector {
            0 if keeps_cpu => here,
            0 => self.other_than(here),
            vector => vector,
        };
        self.cpu.store(cpu, Ordering::Relaxed);
    }

    /// Whether the engine may run on this CPU. Called with softirqs disabled, so that the CPU does not change.
    #[inline]
    pub(super) fn allows_this_cpu(&self) -> bool {
        let cpu = self.cpu.load(Ordering::Relaxed);
        cpu == NONE || cpu == CpuId::current().as_u32()
    }

    /// The CPU number, possibly of an offline CPU, or [`NONE`].
    #[inline]
    pub(super) fn cpu(&self) -> u32 {
        self.cpu.load(Ordering::Relaxed)
    }
}
