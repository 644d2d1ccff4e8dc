// SPDX-License-Identifier: GPL-2.0

//! Objects that readers may still borrow under RCU, dropped when a grace period has passed; nobody waits for it.
//!
//! What `kfree_rcu()` is for memory, for objects whose drop may sleep. See [`Table::remove_later`].
//!
//! C header: `include/linux/rcupdate.h`.
//!
//! [`Table::remove_later`]: crate::xarray::Table::remove_later

use crate::{
    context::MaySleep,
    sync::{new_spinlock_bh, rcu, SpinLockBh},
    work,
};
use core::mem::take;
use kernel::{
    impl_has_work, new_work,
    prelude::*,
    sync::Arc,
    workqueue::{self, Work, WorkItem},
};

/// Objects that wait at most: who has more waits for the grace period itself.
const ROOM: usize = 256;

/// References to objects of one kind that wait for a grace period. [`Self::flush`] before the module goes.
#[pin_data]
pub struct DeferredDrop<T: Send + Sync + 'static> {
    #[pin]
    lists: SpinLockBh<Lists<T>>,
    #[pin]
    work: Work<Self>,
}

/// Two lists with room for [`ROOM`] references each: the work item takes one and leaves the other.
struct Lists<T> {
    waiting: KVec<Arc<T>>,
    spare: KVec<Arc<T>>,
}

impl_has_work! { impl{T: Send + Sync + 'static} HasWork<Self> for DeferredDrop<T> { self.work } }

impl<T: Send + Sync + 'static> DeferredDrop<T> {
    /// Makes a place where nothing waits. Sleeps.
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
            work <- new_work!("DeferredDrop::work"),
        });
        Arc::pin_init(place, GFP_KERNEL)
    }

    /// Drops `object` when all readers that are inside RCU read-side critical sections now have left. Waits for them itself
    /// where too many objects wait already.
    pub(crate) fn push(this: &Arc<Self>, object: Arc<T>, may_sleep: &MaySleep) {
        let pushed = this.lists.lock().waiting.push_within_capacity(object);
        match pushed {
            Ok(()) => {
                work::enqueue(workqueue::system_unbound(), this);
            }
            Err(full) => {
                rcu::synchronize_expedited(may_sleep);
                drop(full);
            }
        }
    }

    /// Waits until all objects that came before the call are dropped. Up to tens of milliseconds.
    pub fn flush(this: &Arc<Self>, may_sleep: &MaySleep) {
        work::flush(this, may_sleep);
    }
}

impl<T: Send + Sync + 'static> WorkItem for DeferredDrop<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut ripe = {
            let mut lists = this.lists.lock();
            let empty = take(&mut lists.spare);
            core::mem::replace(&mut lists.waiting, empty)
        };
        // SAFETY: The queue's workers run in process context.
        rcu::synchronize(&unsafe { MaySleep::assume() });
        ripe.clear();
        this.lists.lock().spare = ripe;
    }
}
