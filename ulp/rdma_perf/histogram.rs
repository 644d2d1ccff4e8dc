// SPDX-License-Identifier: GPL-2.0

//! How durations are distributed: counted in buckets that are at most a 64th of their value wide. Any context, any number
//! of threads at once.
//!
//! No kernel in here: `tools/testing/host/rdma_perf` tests it.

use core::{
    ops::Deref,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Bits of a value that count, after its highest one.
const FINE_BITS: u32 = 6;
const FINE: usize = 1 << FINE_BITS;
/// How many buckets there are: one for each value below 64, and 64 for each power of two above.
pub const BUCKETS: usize = FINE + (u64::BITS - FINE_BITS) as usize * FINE;

/// The bucket of a value.
fn bucket(value: u64) -> usize {
    let Some(shift) = value
        .checked_ilog2()
        .and_then(|log| log.checked_sub(FINE_BITS))
    else {
        return value as usize;
    };
    let fine = (value >> shift) as usize & (FINE - 1);
    FINE + shift as usize * FINE + fine
}

/// The value in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let Some(above) = bucket.checked_sub(FINE) else {
        return bucket as u64;
    };
    let (shift, fine) = (above / FINE, above % FINE);
    let width = 1u64.wrapping_shl(shift as u32);
    let low = width.wrapping_mul((FINE + fine) as u64);
    low.wrapping_add(width / 2)
}

/// Counted durations, in nanoseconds. `B` is where the counts are: [`BUCKETS`] of them.
pub struct Histogram<B> {
    counts: B,
    count: AtomicU64,
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

impl<B: Deref<Target = [AtomicU64]>> Histogram<B> {
    /// A histogram with these counts, which are zero.
    pub fn new(counts: B) -> Self {
        Self {
            counts,
            count: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
        }
    }

    /// Counts a value.
    pub fn add(&self, value: u64) {
        if let Some(count) = self.counts.get(bucket(value)) {
            count.fetch_add(1, Relaxed);
        }
        self.count.fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
        self.min.fetch_min(value, Relaxed);
        self.max.fetch_max(value, Relaxed);
    }

    /// What was counted so far.
    pub fn summary(&self) -> Summary {
        let count = self.count.load(Relaxed);
        let Some(mean) = self.sum.load(Relaxed).checked_div(count) else {
            return Summary::default();
        };
        let (min, max) = (self.min.load(Relaxed), self.max.load(Relaxed));
        let within = |value: u64| value.max(min).min(max);
        Summary {
            count,
            mean,
            min,
            median: within(self.at(count.div_ceil(2))),
            p99: within(self.at(count - count / 100)),
            max,
        }
    }

    /// The value of the `rank`-th smallest, counted from one.
    fn at(&self, rank: u64) -> u64 {
        let mut before = 0u64;
        for (bucket, count) in self.counts.iter().enumerate() {
            before = before.saturating_add(count.load(Relaxed));
            if before >= rank {
                return middle(bucket);
            }
        }
        0
    }
}

/// What a [`Histogram`] has counted. Minimum, maximum and mean are exact; the others are within a hundredth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many values.
    pub count: u64,
    /// Their mean.
    pub mean: u64,
    /// The smallest.
    pub min: u64,
    /// Half of them are not larger.
    pub median: u64,
    /// 99 of 100 are not larger.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}
