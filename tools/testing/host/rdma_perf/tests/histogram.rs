// SPDX-License-Identifier: GPL-2.0

//! Durations, counted.

use rdma_perf::histogram::{Histogram, Summary, BUCKETS};
use std::sync::atomic::AtomicU64;

fn histogram() -> Histogram<Vec<AtomicU64>> {
    Histogram::new((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
}

#[test]
fn nothing() {
    assert_eq!(histogram().summary(), Summary::default());
}

#[test]
fn one_value_is_exact() {
    for value in [0, 1, 63, 64, 65, 1000, u64::MAX / 2, u64::MAX] {
        let histogram = histogram();
        histogram.add(value);
        let want = Summary {
            count: 1,
            mean: value,
            min: value,
            median: value,
            p99: value,
            max: value,
        };
        assert_eq!(histogram.summary(), want);
    }
}

#[test]
fn ranks_are_near() {
    let histogram = histogram();
    for value in 1..=100_000u64 {
        histogram.add(value * 7);
    }
    let got = histogram.summary();
    assert_eq!((got.count, got.min, got.max), (100_000, 7, 700_000));
    assert_eq!(got.mean, 350_003);
    let near = |got: u64, want: u64| got.abs_diff(want) * 100 <= want;
    assert!(near(got.median, 350_000), "{}", got.median);
    assert!(near(got.p99, 693_000), "{}", got.p99);
}

#[test]
fn every_value_has_a_bucket_near_it() {
    for log in 0..64 {
        for value in [
            1u64 << log,
            (1u64 << log) + (1u64 << log) / 3,
            (1u64 << log) - 1,
        ] {
            let histogram = histogram();
            histogram.add(0);
            histogram.add(value);
            histogram.add(u64::MAX);
            let median = histogram.summary().median;
            assert!(median.abs_diff(value) <= value / 100, "{value}: {median}");
        }
    }
}

#[test]
fn threads_lose_nothing() {
    let histogram = histogram();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|value| histogram.add(value)));
        }
    });
    assert_eq!(histogram.summary().count, 40_000);
    assert_eq!(histogram.summary().mean, 4999);
}
