// SPDX-License-Identifier: GPL-2.0

//! Tables of objects by index.

use super::*;
use kernel::sync::rcu;
use kernel_ext::{deferred_drop::DeferredDrop, gfp::Gfp, xarray::Table};

pub(super) fn test(may_sleep: &MaySleep) -> Result {
    let gfp = Gfp::kernel(may_sleep);
    let table = KBox::pin_init(Table::<Object>::new(5..=7), GFP_KERNEL)?;
    check!(table.insert(Object::new(1)?, gfp)? == 5);
    check!(table.insert(Object::new(2)?, Gfp::ATOMIC)? == 6);

    let reservation = table.reserve(gfp)?;
    check!(reservation.index() == 7 && table.find(7).is_none());
    check!(table.insert(Object::new(9)?, gfp).err() == Some(EBUSY));
    reservation.publish(Object::new(3)?);
    check!(table.find(7).map(|object| object.number) == Some(3));

    let guard = rcu::read_lock();
    check!(table.get(5, &guard).map(|object| object.number) == Some(1));
    check!(table.get(99, &guard).is_none());
    drop(guard);

    check!(table.remove(5, may_sleep).map(|object| object.number) == Some(1));
    check!(table.remove(5, may_sleep).is_none());
    // A place that was given back is free for the next one.
    check!(table.insert(Object::new(8)?, gfp)? == 5);
    check!(table.remove(5, may_sleep).map(|object| object.number) == Some(8));
    let seen: u32 = table
        .iter()
        .map(|(index, object)| index * 10 + object.number)
        .sum();
    check!(seen == 62 + 73);

    table.insert_at(1, Object::new(4)?, gfp)?;
    check!(table.insert_at(1, Object::new(5)?, gfp).err() == Some(EBUSY));
    drop(table.reserve(Gfp::ATOMIC)?);
    check!(LIVE.load(SeqCst) == 3);
    drop(table);
    check!(LIVE.load(SeqCst) == 0);
    removed_later(may_sleep)
}

/// An object that was removed lives as long as a reader borrows it, and not longer than a grace period.
fn removed_later(may_sleep: &MaySleep) -> Result {
    let table = KBox::pin_init(Table::<Object>::new(0..=MANY), GFP_KERNEL)?;
    let place = DeferredDrop::new()?;
    table.insert_at(1, Object::new(7)?, Gfp::kernel(may_sleep))?;
    let kept = table.find(1);
    check!(table.remove_later(1, &place, may_sleep));
    check!(table.find(1).is_none() && !table.remove_later(1, &place, may_sleep));
    check!(kept.as_ref().map(|object| object.number) == Some(7));
    DeferredDrop::flush(&place, may_sleep);
    check!(LIVE.load(SeqCst) == 1);
    drop(kept);
    check!(LIVE.load(SeqCst) == 0);

    // More than there is room for: the last ones wait themselves.
    for index in 0..=MANY {
        table.insert_at(index, Object::new(index)?, Gfp::kernel(may_sleep))?;
    }
    for index in 0..=MANY {
        check!(table.remove_later(index, &place, may_sleep));
    }
    check!(table.is_empty());
    DeferredDrop::flush(&place, may_sleep);
    check!(LIVE.load(SeqCst) == 0);
    Ok(())
}

/// More objects than wait for a grace period at once.
const MANY: u32 = 600;
