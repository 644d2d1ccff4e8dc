// SPDX-License-Identifier: GPL-2.0

//! Histograms of durations. A bucket is at most 1/64 of its value wide. Used in any context, by several threads at once.
//!
//! This module does not use the kernel crate; `tools/testing/host/rdma_perf` tests it.

use core::{
    ops::Deref,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The number of significant bits of a value after its highest one.
const FINE_BITS: u32 = 6;
const FINE: usize = 1 << FINE_BITS;
/// The number of buckets: one for each value below 64, and 64 for each power of two above.
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

/// A histogram of durations in nanoseconds. `B` is the storage of the [`BUCKETS`] counts.
pub struct Histogram<B> {
    counts: B,
    count: AtomicU64,
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

impl<B: Deref<Target = [AtomicU64]>> Histogram<B> {
    /// A histogram with `counts` as its storage, which is zeroed.
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

    /// The statistics of the values so far.
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

    /// The value with a rank, counted from one.
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

/// Statistics of a [`Histogram`]. Minimum, maximum and mean are exact; median and 99th percentile are within 1 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of values.
    pub count: u64,
    /// The mean.
    pub mean: u64,
    /// The minimum.
    pub min: u64,
    /// The median.
    pub median: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
}
