// SPDX-License-Identifier: GPL-2.0

//! Pools of completion queues, which the clients of a device share: one for each `enum ib_poll_context`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::NonNull;

use rdma_bindings::{self as bindings, ib_cq};

use crate::core::{list, object::Owned, Cq, Device};

/// A queue that was removed from its pool.
pub enum RemovedCq {
    /// All claimed entries were returned.
    Unused(Owned<Cq>),
    /// A client has not returned its entries and may still use the queue, which is never freed.
    Claimed,
}

/// A pool of a device: the completion queues of one `enum ib_poll_context` that clients share. Its lock is held.
pub struct CqPool<'a> {
    device: &'a Device,
    nth: usize,
    _lock: list::Locked,
}

impl Device {
    /// Locks the pool of an `enum ib_poll_context`. `None` for one without a pool.
    pub fn cq_pool(&self, poll_ctx: u32) -> Option<CqPool<'_>> {
        if poll_ctx > bindings::IB_POLL_LAST_POOL_TYPE {
            return None;
        }
        Some(CqPool {
            device: self,
            nth: poll_ctx as usize,
            // SAFETY: The lock is initialised with the device.
            _lock: unsafe { list::Locked::take(&raw mut (*self.as_raw()).cq_pools_lock) },
        })
    }

    /// The number of completion vectors, at most that of the online CPUs.
    pub fn usable_vectors(&self) -> u32 {
        // SAFETY: The member is constant from registration on.
        let (vectors, cpus) = unsafe {
            (
                (*self.as_raw()).num_comp_vectors,
                bindings::num_online_cpus(),
            )
        };
        u32::try_from(vectors).unwrap_or(0).min(cpus)
    }
}

impl<'a> CqPool<'a> {
    fn head(&self) -> *mut bindings::list_head {
        // SAFETY: `cq_pool` has checked the index.
        unsafe {
            (&raw mut (*self.device.as_raw()).cq_pools)
                .cast::<bindings::list_head>()
                .add(self.nth)
        }
    }

    /// The first queue that `wanted` accepts, while the pool is locked.
    fn find(&self, mut wanted: impl FnMut(&Cq) -> bool) -> Option<&Cq> {
        let mut at = self.head();
        loop {
            // SAFETY: The lock is held.
            at = unsafe { list::after(self.head(), at) }?;
            // SAFETY: The lock is held, so the queue stays in the pool as long as `self` is borrowed: `take` borrows it mutably.
            let cq: &Cq = unsafe { &*kernel::container_of!(at, ib_cq, pool_entry).cast() };
            if wanted(cq) {
                return Some(cq);
            }
        }
    }

    /// Reserves `count` completions in the first queue that `wanted` accepts. The result is for C: the queue stays until they are
    /// given back.
    pub fn claim(&self, count: u32, wanted: impl FnMut(&Cq) -> bool) -> Option<*mut ib_cq> {
        let cq = self.find(wanted)?;
        cq.set_claimed(cq.claimed().wrapping_add(count));
        Some(cq.as_raw())
    }

    /// Calls `f` with the queue at an address, if it is in the pool. `f` must not sleep.
    pub fn look<R>(&self, address: usize, f: impl FnOnce(&Cq) -> R) -> Option<R> {
        self.find(|at| at.as_raw().addr() == address).map(f)
    }

    /// Whether a queue is of this device and `enum ib_poll_context`.
    fn is_for(&self, cq: &Cq) -> bool {
        core::ptr::eq(cq.device(), self.device) && cq.poll_ctx() as usize == self.nth
    }

    /// Releases `count` reserved completions of a queue of the pool. The count does not go below 0. A queue of another pool, which
    /// is not locked, stays as it is.
    pub fn give_back(&self, cq: &Cq, count: u32) {
        if kernel::warn_on!(!self.is_for(cq)) {
            return;
        }
        cq.set_claimed(cq.claimed().saturating_sub(count));
    }

    /// Adds a queue at the front, and gives its ownership to the pool. A queue of another device or for another context is never
    /// freed.
    pub fn add(&self, cq: Owned<Cq>) {
        if kernel::warn_on!(!self.is_for(&cq)) {
            // An `Owned` that is dropped is not destroyed.
            return;
        }
        // SAFETY: The lock is held, and the queue is in no list.
        unsafe { list::insert_after(self.head(), &raw mut (*cq.into_raw()).pool_entry) };
    }

    /// Removes the first queue. `None` for an empty pool.
    pub fn take(&mut self) -> Option<RemovedCq> {
        // SAFETY: The lock is held, and the pool owns the queue.
        let cq: Owned<Cq> = unsafe {
            let entry = list::first(self.head())?;
            list::remove(entry);
            Owned::from_raw(NonNull::new(kernel::container_of!(
                entry, ib_cq, pool_entry
            ))?)
        };
        Some(match cq.is_claimed() {
            true => RemovedCq::Claimed,
            // Nobody can claim completions of a queue that is in no pool.
            false => RemovedCq::Unused(cq),
        })
    }
}
