// SPDX-License-Identifier: GPL-2.0

//! The posted requests of an SRQ: those that no queue pair has consumed are returned when the SRQ is destroyed.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Srq::slots` | the posted requests | any, interrupts off | nothing |

use core::ptr::null_mut;

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    sync::{new_spinlock_irq, SpinLockIrq},
    zeroed::zeroed,
};
use rdma_bindings::ib_cqe;

/// The posted requests. Posting allocates no memory.
#[pin_data]
pub(super) struct Slots {
    #[pin]
    table: SpinLockIrq<Table>,
}

struct Table {
    /// The `wr_cqe` of each request; null for a slot that is free, or about to be used.
    posted: KVec<*mut ib_cqe>,
    /// The free slots, with capacity for all.
    free: KVec<u32>,
}

// SAFETY: The completion handlers of requests may be used from any thread.
unsafe impl Send for Table {}

/// The slot of a request in the table of an SRQ.
pub(super) struct Slot {
    slots: Arc<Slots>,
    nth: u32,
}

impl Slots {
    /// Allocates slots for `count` requests.
    pub(super) fn new(count: u32) -> Result<Arc<Self>> {
        let mut free = KVec::with_capacity(count as usize, GFP_KERNEL)?;
        for nth in 0..count {
            free.push(nth, GFP_KERNEL)?;
        }
        let posted = zeroed(count as usize, GFP_KERNEL)?;
        let init = pin_init!(Self {
            table <- new_spinlock_irq!(Table { posted, free }, "Srq::slots"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Takes a free slot.
    pub(super) fn take(self: &Arc<Self>) -> Option<Slot> {
        let nth = self.table.lock().free.pop()?;
        Some(Slot {
            slots: self.clone(),
            nth,
        })
    }

    /// Sets the `wr_cqe` of the request in slot `nth`, before it is posted.
    pub(super) fn set(&self, nth: u32, cqe: *mut ib_cqe) {
        if let Some(slot) = self.table.lock().posted.get_mut(nth as usize) {
            *slot = cqe;
        }
    }

    /// The number of slots.
    pub(super) fn len(&self) -> usize {
        self.table.lock().posted.len()
    }

    /// The `wr_cqe` of any posted request, which keeps its slot.
    pub(super) fn any(&self) -> Option<*mut ib_cqe> {
        let table = self.table.lock();
        table.posted.iter().copied().find(|cqe| !cqe.is_null())
    }
}

impl Slot {
    /// The index of the slot.
    pub(super) fn nth(&self) -> u32 {
        self.nth
    }

    /// Frees the slot of a request that is completed or was not posted.
    pub(super) fn free(self) {
        let mut table = self.slots.table.lock();
        if let Some(slot) = table.posted.get_mut(self.nth as usize) {
            *slot = null_mut();
        }
        // The vector has capacity for all slots.
        let _ = table.free.push_within_capacity(self.nth);
    }
}
