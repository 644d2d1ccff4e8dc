// SPDX-License-Identifier: GPL-2.0

//! Pools of fast registration memory region (FRMR) handles, which are expensive to create in hardware: `rdma resource …
//! frmr_pools`.
//!
//! A region takes a handle from a pool and returns it when it is freed. Handles that are unused for a whole period are
//! destroyed, except for the number pinned by the administrator. A returned handle is first fresh, then old, then
//! destroyed.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `DeviceState::pinning` | creating handles in advance, one at a time and not while the pools are freed | process context | the others |
//! | `DeviceState::pools` | the list of pools | process context | nothing |
//! | `Pool::handles` | the handles of a pool | process context | nothing |
//!
//! C header: `include/rdma/frmr_pools.h`.

use kernel::{alloc::KVVec, prelude::*, sync::Arc};
use kernel_ext::{
    bindings as c, delayed,
    export::export,
    sleepable::SleepableWork,
    work::{OwnedQueue, QueueFlags},
};
use rdma::{
    core::{
        driver::frmr::FrmrOps,
        frmr::{FrmrArg, FrmrKey, FrmrPool, NewFrmr},
        Device,
    },
    MaySleep,
};

pub(crate) use super::state::Pool;
use super::state::{Handles, Pools};
use crate::private::DeviceExt;

/// Default aging period, in seconds.
const DEFAULT_PERIOD: u32 = 60;

impl Pools {
    /// The pool for a key: the smallest one that is large enough, or a new one.
    fn find_or_make(&mut self, device: &Device, key: &FrmrKey) -> Result<Arc<Pool>> {
        let nth = self.list.partition_point(|pool| pool.key < *key);
        let found = self.list.get(nth);
        if let Some(found) = found.filter(|pool| pool.key.is_good_for(key)) {
            return Ok(found.clone());
        }
        let pool = Pool::new(device, *key, self.driver)?;
        self.list.reserve(1, GFP_KERNEL)?;
        let inserted = self.list.insert_within_capacity(nth, pool.clone());
        inserted.map_err(|_| ENOMEM)?;
        Ok(pool)
    }

    /// Schedules the aging of a pool's handles after a period, unless it is scheduled already.
    fn age_later(&self, pool: &Arc<Pool>) {
        delayed::enqueue_unless_pending(&self.queue, pool, jiffies(self.period));
    }
}

fn jiffies(seconds: u32) -> usize {
    (seconds as usize).saturating_mul(c::HZ as usize)
}

impl Handles {
    fn take(&mut self) -> Option<u32> {
        self.fresh.pop().or_else(|| self.old.pop())
    }

    fn count_taken(&mut self) {
        self.in_use = self.in_use.saturating_add(1);
        self.max_in_use = self.max_in_use.max(self.in_use);
    }

    fn waiting(&self) -> usize {
        self.fresh.len().saturating_add(self.old.len())
    }

    /// Number of handles, including those in use.
    fn total(&self) -> usize {
        self.waiting().saturating_add(self.in_use as usize)
    }

    /// Ages the handles by a period: takes out those that were old, and returns whether any are old now.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: nothing has changed, or no handle was aged.
    fn age(&mut self) -> Result<(KVVec<u32>, bool)> {
        if self.pinned == 0 {
            let gone = core::mem::take(&mut self.old);
            self.old = core::mem::take(&mut self.fresh);
            return Ok((gone, !self.old.is_empty()));
        }
        let spare = self.total().saturating_sub(self.pinned as usize);
        if spare == 0 {
            return Ok((KVVec::new(), false));
        }
        self.old.reserve(self.fresh.len(), GFP_KERNEL)?;
        let mut gone = KVVec::with_capacity(spare.min(self.old.len()), GFP_KERNEL)?;
        while gone.len() < spare {
            let Some(handle) = self.old.pop() else { break };
            gone.push(handle, GFP_KERNEL)?;
        }
        self.old.extend_from_slice(&self.fresh, GFP_KERNEL)?;
        let more = !self.fresh.is_empty();
        self.fresh.clear();
        Ok((gone, more))
    }
}

// SAFETY: No other type of this module implements it, and the pools of all regions are made in this file.
unsafe impl FrmrPool for Pool {}

/// Usage of a pool, for netlink.
pub(crate) struct Usage {
    pub(crate) waiting: u32,
    pub(crate) in_use: u32,
    pub(crate) max_in_use: u32,
    pub(crate) pinned: u32,
}

impl Pool {
    pub(crate) fn key(&self) -> &FrmrKey {
        &self.key
    }

    pub(crate) fn usage(&self) -> Usage {
        let handles = self.handles.lock();
        Usage {
            waiting: u32::try_from(handles.waiting()).unwrap_or(u32::MAX),
            in_use: handles.in_use,
            max_in_use: handles.max_in_use,
            pinned: handles.pinned,
        }
    }

    /// Takes a handle, or has the driver create one.
    fn take(&self, device: &Device, sleep: &MaySleep) -> Result<u32> {
        let mut handles = self.handles.lock();
        if let Some(handle) = handles.take() {
            handles.count_taken();
            return Ok(handle);
        }
        drop(handles);
        let made = self.driver.create(device, &self.key, 1, sleep)?;
        let handle = made.first().copied().ok_or(ENOMEM)?;
        self.handles.lock().count_taken();
        Ok(handle)
    }

    /// Puts a handle back. Returns whether it is the only fresh one, so that aging must be scheduled.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: the handle is not in the pool.
    fn give_back(&self, handle: u32) -> Result<bool> {
        let mut handles = self.handles.lock();
        handles.in_use = handles.in_use.saturating_sub(1);
        handles.fresh.push(handle, GFP_KERNEL)?;
        Ok(handles.fresh.len() == 1)
    }

    /// Fills the pool up to `count` handles, including those in use.
    fn pin(&self, device: &Device, count: u32, sleep: &MaySleep) -> Result {
        let missing = {
            let mut handles = self.handles.lock();
            handles.pinned = count;
            let total = u32::try_from(handles.total()).unwrap_or(u32::MAX);
            count.saturating_sub(total)
        };
        if missing == 0 {
            return Ok(());
        }
        // Handles have the size of the pool's key, which may be larger than requested.
        let mut made = self.driver.create(device, &self.key, missing, sleep)?;
        let mut handles = self.handles.lock();
        if handles.fresh.extend_from_slice(&made, GFP_KERNEL).is_err() {
            drop(handles);
            self.driver.destroy(device, &mut made, sleep);
            return Err(ENOMEM);
        }
        Ok(())
    }

    /// Destroys all unused handles.
    fn empty(&self, device: &Device, sleep: &MaySleep) {
        let mut handles = self.handles.lock();
        let mut fresh = core::mem::take(&mut handles.fresh);
        let mut old = core::mem::take(&mut handles.old);
        drop(handles);
        self.driver.destroy(device, &mut fresh, sleep);
        self.driver.destroy(device, &mut old, sleep);
    }
}

impl SleepableWork for Pool {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        let aged = this.handles.lock().age();
        // If memory is short, aging is retried after the next period.
        let (mut gone, more) = aged.unwrap_or((KVVec::new(), true));
        // SAFETY: The driver frees the pools before it unregisters the device, and that waits for this work.
        let device = unsafe { this.device.with_driver() };
        this.driver.destroy(device, &mut gone, sleep);
        if more {
            // Freeing the pools waits for this work, without holding the lock.
            if let Some(pools) = &*device.core().frmr_pools.pools.lock() {
                pools.age_later(&this);
            }
        }
    }
}

/// The pools of a device, in descending order of keys. `None` if the device has none.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn list(device: &Device) -> Result<Option<KVec<Arc<Pool>>>> {
    let pools = device.core().frmr_pools.pools.lock();
    let Some(pools) = &*pools else {
        return Ok(None);
    };
    let mut list = KVec::with_capacity(pools.list.len(), GFP_KERNEL)?;
    for pool in pools.list.iter().rev() {
        list.push(pool.clone(), GFP_KERNEL)?;
    }
    Ok(Some(list))
}

/// Sets the aging period, in seconds.
///
/// # Errors
///
/// `EINVAL` for 0, or a device without pools.
pub(crate) fn set_period(device: &Device, period: u32) -> Result {
    let mut pools = device.core().frmr_pools.pools.lock();
    let pools = (*pools).as_mut().ok_or(EINVAL)?;
    if period == 0 {
        return Err(EINVAL);
    }
    pools.period = period;
    for pool in pools.list.iter() {
        delayed::enqueue(&pools.queue, pool, jiffies(period));
    }
    Ok(())
}

/// Sets the number of pinned handles of a kind, and creates the missing ones.
///
/// # Errors
///
/// `EINVAL` for a device without pools or invalid access flags, `EOPNOTSUPP` for access flags that the device does not
/// support, `ENOMEM`, and errors of the driver.
pub(crate) fn set_pinned(device: &Device, key: FrmrKey, count: u32, sleep: &MaySleep) -> Result {
    let state = &device.core().frmr_pools;
    let _pinning = state.pinning.lock();
    let driver = state.pools.lock().as_ref().ok_or(EINVAL)?.driver;
    device.check_mr_access(key.access_flags as u32)?;
    let key = driver.build_key(device, key, sleep)?;
    let pool = find_or_make(device, &key)?;
    let pinned = pool.pin(device, count, sleep);
    if let Some(pools) = &*state.pools.lock() {
        // Surplus handles are aged.
        delayed::enqueue(&pools.queue, &pool, 0);
    }
    pinned
}

/// The pool for handles of a kind.
fn find_or_make(device: &Device, key: &FrmrKey) -> Result<Arc<Pool>> {
    let mut pools = device.core().frmr_pools.pools.lock();
    (*pools).as_mut().ok_or(EINVAL)?.find_or_make(device, key)
}

/// Initialises the pools of a device, whose handles are created and destroyed by `pool_ops`. Process context.
///
/// # Errors
///
/// `EEXIST` if it has pools, `ENOMEM`.
///
/// C header: `include/rdma/frmr_pools.h`.
#[export]
fn ib_frmr_pools_init(device: &Device, pool_ops: FrmrOps<'_>, sleep: &MaySleep) -> Result {
    let flags = QueueFlags::UNBOUND | QueueFlags::ORDERED | QueueFlags::MEM_RECLAIM;
    let new = Pools {
        driver: pool_ops.of(device),
        period: DEFAULT_PERIOD,
        list: KVec::new(),
        queue: OwnedQueue::new(c"frmr_aging_wq", flags, 1, sleep)?,
    };
    let mut pools = device.core().frmr_pools.pools.lock();
    if pools.is_some() {
        return Err(EEXIST);
    }
    *pools = Some(new);
    Ok(())
}

/// Frees the pools of a device, if any, and destroys their handles. All handles have been returned, and none is taken
/// any more. Process context.
#[export]
fn ib_frmr_pools_cleanup(device: &Device, sleep: &MaySleep) {
    let state = &device.core().frmr_pools;
    let _pinning = state.pinning.lock();
    let pools = state.pools.lock().take();
    let list = pools.iter().flat_map(|pools| pools.list.iter());
    for pool in list {
        delayed::cancel_sync(pool, sleep);
        pool.empty(device, sleep);
    }
}

/// Takes a handle for a region, by `frmr.key`, into `frmr.handle`. Process context.
///
/// # Errors
///
/// `EINVAL` for a device without pools, `ENOMEM`, and errors of the driver.
#[export]
fn ib_frmr_pool_pop(device: &Device, mr: NewFrmr<'_>, sleep: &MaySleep) -> Result {
    let pool = find_or_make(device, &mr.key())?;
    let handle = pool.take(device, sleep)?;
    mr.set(pool, handle);
    Ok(())
}

/// Returns the handle of a region to its pool. Process context.
#[export]
fn ib_frmr_pool_push(device: &Device, mr: FrmrArg<Pool>, sleep: &MaySleep) {
    let FrmrArg { pool, handle } = mr;
    match pool.give_back(handle) {
        Ok(false) => {}
        Ok(true) => {
            if let Some(pools) = &*device.core().frmr_pools.pools.lock() {
                pools.age_later(&pool);
            }
        }
        Err(_) => pool.driver.destroy(device, &mut [handle], sleep),
    }
}

/// Drops the handle of a region, which the driver has destroyed. Any context that may sleep.
#[export]
fn ib_frmr_pool_drop(mr: FrmrArg<Pool>) {
    let mut handles = mr.pool.handles.lock();
    handles.in_use = handles.in_use.saturating_sub(1);
}

#[kernel::prelude::kunit_tests(ib_core_frmr_handles)]
mod tests {
    use super::*;

    fn handles(pinned: u32, fresh: &[u32], old: &[u32]) -> Result<Handles> {
        let mut handles = Handles {
            fresh: KVVec::new(),
            old: KVVec::new(),
            in_use: 0,
            max_in_use: 0,
            pinned,
        };
        handles.fresh.extend_from_slice(fresh, GFP_KERNEL)?;
        handles.old.extend_from_slice(old, GFP_KERNEL)?;
        Ok(handles)
    }

    #[test]
    fn the_last_returned_is_taken_first() -> Result {
        let mut handles = handles(0, &[1, 2], &[3, 4])?;
        assert_eq!(handles.take(), Some(2));
        assert_eq!(handles.take(), Some(1));
        assert_eq!(handles.take(), Some(4));
        assert_eq!(handles.take(), Some(3));
        assert_eq!(handles.take(), None);
        Ok(())
    }

    #[test]
    fn unused_handles_are_destroyed_after_two_periods() -> Result {
        let mut handles = handles(0, &[1, 2], &[3])?;
        let (gone, more) = handles.age()?;
        assert_eq!(gone.len(), 1);
        assert!(more);
        let (gone, more) = handles.age()?;
        assert_eq!(gone.len(), 2);
        assert!(!more);
        assert_eq!(handles.waiting(), 0);
        Ok(())
    }

    #[test]
    fn pinned_ones_stay() -> Result {
        let mut handles = handles(2, &[1], &[2, 3, 4])?;
        handles.count_taken();
        // There are five, two are pinned: three may be destroyed, and as many are old.
        let (gone, more) = handles.age()?;
        assert_eq!(gone.len(), 3);
        assert!(more);
        assert_eq!(handles.total(), 2);
        let (gone, more) = handles.age()?;
        assert_eq!(gone.len(), 0);
        assert!(!more);
        Ok(())
    }

    #[test]
    fn the_maximum_in_use_is_recorded() -> Result {
        let mut handles = handles(0, &[], &[])?;
        handles.count_taken();
        handles.count_taken();
        handles.in_use = handles.in_use.saturating_sub(2);
        handles.count_taken();
        assert_eq!(handles.max_in_use, 2);
        Ok(())
    }
}
