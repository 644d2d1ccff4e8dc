// SPDX-License-Identifier: GPL-2.0

//! Dropping objects after an RCU grace period, without waiting for it.
//!
//! As `kfree_rcu()`, but for objects whose drop may sleep. See [`Table::remove_later`].
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `DeferredDrop::lists` | objects that wait for a grace period | process, softirqs off | nothing |
//!
//! C header: `include/linux/rcupdate.h`.
//!
//! [`Table::remove_later`]: crate::xarray::Table::remove_later

use crate::{
    bindings,
    context::MaySleep,
    delayed,
    sleepable::{Sleepable, SleepableWork},
    sync::{new_spinlock_bh, rcu, SpinLockBh},
    work,
};
use core::mem::take;
use kernel::{
    ffi::c_ulong, impl_has_delayed_work, new_delayed_work, prelude::*, sync::Arc,
    workqueue::DelayedWork,
};

/// Maximum number of waiting objects; beyond that the caller waits for the grace period itself.
const ROOM: usize = 256;

/// How long objects wait for others, about 10 ms in jiffies: a grace period and a run of the work item cost some thousand
/// instructions, and one is enough for many objects.
const DELAY: c_ulong = bindings::HZ.div_ceil(100) as c_ulong;

/// References to objects that wait for a grace period. [`Self::flush`] must be called before the module is unloaded.
#[pin_data]
pub struct DeferredDrop<T: Send + Sync + 'static> {
    #[pin]
    lists: SpinLockBh<Lists<T>>,
    #[pin]
    work: DelayedWork<Sleepable<Self>>,
}

/// Two lists with capacity for [`ROOM`] references each: the work item takes one and leaves the other.
struct Lists<T> {
    waiting: KVec<Arc<T>>,
    spare: KVec<Arc<T>>,
}

impl_has_delayed_work! {
    impl{T: Send + Sync + 'static} HasDelayedWork<Sleepable<Self>> for DeferredDrop<T> { self.work }
}

impl<T: Send + Sync + 'static> DeferredDrop<T> {
    /// Creates an empty list. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Arc<Self>> {
        let lists = Lists {
            waiting: KVec::with_capacity(ROOM, GFP_KERNEL)?,
            spare: KVec::with_capacity(ROOM, GFP_KERNEL)?,
        };
        let place = pin_init!(Self {
            lists <- new_spinlock_bh!(lists, "DeferredDrop::lists"),
            work <- new_delayed_work!("DeferredDrop::work"),
        });
        Arc::pin_init(place, GFP_KERNEL)
    }

    /// Drops `object` after all current RCU readers. Waits for them itself if too many objects are waiting.
    pub(crate) fn push(this: &Arc<Self>, object: Arc<T>, may_sleep: &MaySleep) {
        let mut lists = this.lists.lock();
        let pushed = lists.waiting.push_within_capacity(object);
        let many = lists.waiting.len() >= ROOM / 2;
        drop(lists);
        if many {
            delayed::enqueue(work::system_dfl(), this, 0);
        } else {
            delayed::enqueue_unless_pending(work::system_dfl(), this, DELAY);
        }
        if let Err(full) = pushed {
            rcu::synchronize_expedited(may_sleep);
            drop(full);
        }
    }

    /// Waits until all objects passed before the call are dropped. Takes up to tens of milliseconds.
    pub fn flush(this: &Arc<Self>, may_sleep: &MaySleep) {
        delayed::flush(this, may_sleep);
    }
}

impl<T: Send + Sync + 'static> SleepableWork for DeferredDrop<T> {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        let mut ripe = {
            let mut lists = this.lists.lock();
            let empty = take(&mut lists.spare);
            core::mem::replace(&mut lists.waiting, empty)
        };
        rcu::synchronize(sleep);
        ripe.clear();
        this.lists.lock().spare = ripe;
    }
}
