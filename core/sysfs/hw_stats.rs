// SPDX-License-Identifier: GPL-2.0

//! Files of hardware counters, of a port or a device, and of their lifespan.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct rdma_hw_stats`).

use core::{fmt::Write, num::IntErrorKind};

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    bindings,
    export::export,
    sysfs::{Group, Name, RawAttribute, Text},
};
use rdma::{
    core::{
        stats::{CountersArg, DeviceCounters, HwCounters, StatCount, StatDescs},
        sysfs::{AttrContext, Behaviour},
        Device,
    },
    MaySleep,
};

use crate::{counters, registry::printk};

/// Maximum lifespan, in milliseconds.
const MAX_LIFESPAN: u32 = 10_000;

/// The counters of a port, or with `None` those of the device, with current values. `None` if the driver has none.
///
/// # Errors
///
/// `ENOMEM`, errors of the driver, and `EINVAL` if it does not return all values.
pub(super) fn counters(
    device: &Device,
    port: Option<u32>,
    sleep: &MaySleep,
) -> Result<Option<Arc<DeviceCounters>>> {
    let Some(counters) = device.driver_alloc_stats(port, sleep) else {
        return Ok(None);
    };
    let counters = counters?;
    let mut guard = counters.lock(sleep);
    let all = counters.count();
    let got = counters.driver_update(device, &mut guard, all, sleep)?;
    if got != all {
        printk::warn(device, fmt!("the driver has {got} of {all} counters\n"));
        return Err(EINVAL);
    }
    guard.touch();
    drop(guard);
    Ok(Some(Arc::new(counters, GFP_KERNEL)?))
}

/// `hw_counters/`.
pub(super) fn group<A: RawAttribute<Behaviour>>(
    counters: &Arc<DeviceCounters>,
) -> Result<Group<A, Behaviour>> {
    let each = counters
        .names()
        .map(|(nth, name)| Behaviour::of_counters(name, show, None, nth, counters.clone()));
    let lifespan = Behaviour::of_counters(
        Name::text(c"lifespan"),
        lifespan,
        Some(set_lifespan),
        0,
        counters.clone(),
    );
    Group::new(Some(c"hw_counters"), Iterator::chain(each, [lifespan]))
}

fn show(of: &AttrContext<'_>, text: &mut Text<'_>, sleep: &MaySleep) -> Result {
    let stats = of.stats.ok_or(EINVAL)?;
    let mut guard = stats.lock(sleep);
    if !guard.is_fresh() {
        let nth = i32::try_from(of.index).map_err(|_| EINVAL)?;
        let got = stats.driver_update(of.device, &mut guard, nth, sleep)?;
        if got == stats.count() {
            guard.touch();
        }
    }
    let of_queue_pairs = counters::total(of.device, of.port, of.index, sleep);
    let value = guard.value(of.index).wrapping_add(of_queue_pairs);
    Ok(writeln!(text, "{value}")?)
}

fn lifespan(of: &AttrContext<'_>, text: &mut Text<'_>, sleep: &MaySleep) -> Result {
    let lifespan = of.stats.ok_or(EINVAL)?.lock(sleep).lifespan();
    Ok(writeln!(text, "{lifespan}")?)
}

/// Parses a decimal number of 0 to 10000 milliseconds; a trailing newline is allowed.
///
/// # Errors
///
/// `EINVAL` for anything else, `ERANGE` for a number beyond 32 bits.
fn parse_lifespan(written: &[u8]) -> Result<u32> {
    let number = written.strip_suffix(b"\n").unwrap_or(written);
    let number = core::str::from_utf8(number).map_err(|_| EINVAL)?;
    let number: i32 =
        number
            .parse()
            .map_err(|error: core::num::ParseIntError| match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => ERANGE,
                _ => EINVAL,
            })?;
    let number = u32::try_from(number).map_err(|_| EINVAL)?;
    if number > MAX_LIFESPAN {
        return Err(EINVAL);
    }
    Ok(number)
}

fn set_lifespan(of: &AttrContext<'_>, written: &[u8], sleep: &MaySleep) -> Result {
    let lifespan = parse_lifespan(written)?;
    of.stats.ok_or(EINVAL)?.lock(sleep).set_lifespan(lifespan);
    Ok(())
}

/// Allocates `num_counters` zeroed counters for a driver, with the names `descs`, which must stay valid as long as the
/// counters. Values are cached for `lifespan` milliseconds. Null where memory is short. Process context.
///
/// C header: `include/rdma/ib_verbs.h`.
#[export]
fn rdma_alloc_hw_stats_struct(
    descs: StatDescs<'_>,
    num_counters: StatCount<'_>,
    lifespan: usize,
) -> *mut bindings::rdma_hw_stats {
    let counters = HwCounters::alloc(descs, num_counters, lifespan);
    counters.map_or(core::ptr::null_mut(), HwCounters::into_raw)
}

/// Frees counters; null is ignored.
#[export]
fn rdma_free_hw_stats_struct(stats: CountersArg) {
    drop(stats);
}

#[kernel::prelude::kunit_tests(ib_core_hw_counters)]
mod tests {
    use super::*;
    use crate::kunit::{with_device, IB, ROCE};

    #[test]
    fn lifespans() {
        assert_eq!(parse_lifespan(b"0"), Ok(0));
        assert_eq!(parse_lifespan(b"12\n"), Ok(12));
        assert_eq!(parse_lifespan(b"10000\n"), Ok(10_000));
        assert_eq!(parse_lifespan(b"10001"), Err(EINVAL));
        assert_eq!(parse_lifespan(b"-1"), Err(EINVAL));
        assert_eq!(parse_lifespan(b"2147483648"), Err(ERANGE));
        assert_eq!(parse_lifespan(b"-2147483649"), Err(ERANGE));
    }

    #[test]
    fn no_lifespans() {
        for written in [
            &b""[..],
            b"\n",
            b"1\n\n",
            b" 1",
            b"1 ",
            b"0x1",
            b"1\0",
            b"\xff",
        ] {
            assert_eq!(parse_lifespan(written), Err(EINVAL));
        }
    }

    #[test]
    fn values_are_good_for_a_while() -> Result {
        with_device(|device, _, sleep| {
            let stats = counters(device, Some(ROCE), sleep)?.ok_or(ENOENT)?;
            assert_eq!(stats.count(), 2);
            let mut guard = stats.lock(sleep);
            assert_eq!((guard.value(0), guard.value(1)), (1, 2));
            guard.set_lifespan(10_000);
            guard.touch();
            assert!(guard.is_fresh());
            guard.set_lifespan(0);
            kernel::time::delay::fsleep(kernel::time::Delta::from_millis(20));
            assert!(!guard.is_fresh());
            Ok(())
        })
    }

    #[test]
    fn only_locked_counters_are_updated() -> Result {
        with_device(|device, _, sleep| {
            let one = counters(device, Some(ROCE), sleep)?.ok_or(ENOENT)?;
            let other = counters(device, Some(IB), sleep)?.ok_or(ENOENT)?;
            let mut locked = one.lock(sleep);
            assert_eq!(
                other.driver_update(device, &mut locked, 0, sleep),
                Err(EINVAL)
            );
            assert_eq!(one.driver_update(device, &mut locked, 0, sleep), Ok(2));
            Ok(())
        })
    }

    #[test]
    fn no_counter_behind_the_last() -> Result {
        with_device(|device, _, sleep| {
            let stats = counters(device, Some(ROCE), sleep)?.ok_or(ENOENT)?;
            assert_eq!(stats.lock(sleep).value(2), 0);
            assert_eq!(stats.lock(sleep).value(u32::MAX), 0);
            assert!(stats.name(2).is_none());
            assert!(!stats.is_optional(0) && !stats.is_optional(u32::MAX));
            Ok(())
        })
    }
}
