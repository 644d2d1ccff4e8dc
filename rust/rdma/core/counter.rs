// SPDX-License-Identifier: GPL-2.0

//! Counters of a port that queue pairs are bound to: `struct rdma_counter`.
//!
//! A counter counts what its queue pairs do, in place of the counters of the port. The driver makes it in the device when
//! the first queue pair is bound to it, and takes it out of the device when the last one has left.
//!
//! C header: `include/rdma/rdma_counter.h`.

use core::{ops::Deref, ptr::NonNull};

use kernel::prelude::*;
use rdma_bindings as bindings;

use super::{
    object::{driver_object, links, tracked, Fresh},
    restrack::{OwnEntry, Owns},
    stats::HwCounters,
    Counter, Device, Qp,
};
use crate::MaySleep;

driver_object!(Counter, size_rdma_counter);
tracked!(Counter);

/// Who binds the queue pairs of a port, or of a counter: `enum rdma_nl_counter_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterMode {
    /// Nobody.
    None,
    /// The core: queue pairs that are alike in what the mask says (`RDMA_COUNTER_MASK_*`, not 0) have a counter.
    Auto(u32),
    /// The administrator.
    Manual,
}

impl CounterMode {
    /// The number of the header.
    pub fn number(self) -> u32 {
        match self {
            Self::None => bindings::RDMA_COUNTER_MODE_NONE,
            Self::Auto(_) => bindings::RDMA_COUNTER_MODE_AUTO,
            Self::Manual => bindings::RDMA_COUNTER_MODE_MANUAL,
        }
    }

    /// What queue pairs are alike in.
    pub fn mask(self) -> u32 {
        match self {
            Self::Auto(mask) => mask,
            Self::None | Self::Manual => 0,
        }
    }
}

impl Counter {
    links! {
        /// The device.
        device: Device = device;
    }

    /// Whose queue pairs they are that are bound to it.
    pub fn mode(&self) -> CounterMode {
        // SAFETY: The member is set when the counter is made.
        let mode = unsafe { &(*self.as_raw()).mode };
        match mode.mode {
            bindings::RDMA_COUNTER_MODE_AUTO => CounterMode::Auto(mode.mask),
            bindings::RDMA_COUNTER_MODE_MANUAL => CounterMode::Manual,
            _ => CounterMode::None,
        }
    }

    /// The type of its queue pairs, `enum ib_qp_type`, where they are alike in it.
    pub fn qp_type(&self) -> u32 {
        // SAFETY: The member is set when the counter is made.
        unsafe { (*self.as_raw()).mode.param.qp_type as u32 }
    }

    /// What it has counted, as it was last asked.
    pub fn stats(&self) -> &HwCounters {
        // SAFETY: The member is set when the counter is made, and stays as long. The wrapper is transparent.
        unsafe { &*(&raw const (*self.as_raw()).stats).cast() }
    }
}

/// A counter, as the core has it. Dropping it frees it: when no queue pair is bound to it, and the driver and resource
/// tracking do not know it any more.
///
/// # Invariants
///
/// It has the values that the driver has allocated for it.
pub struct OwnedCounter(Fresh<Counter>);

// SAFETY: Counters may be used from any thread.
unsafe impl Send for OwnedCounter {}

impl Owns for OwnedCounter {
    #[inline]
    fn entry(&self) -> OwnEntry<'_> {
        self.0.entry()
    }
}

impl OwnedCounter {
    /// Allocates a counter of a port.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also where the driver has no counters.
    pub fn new(device: &Device, port: u32, sleep: &MaySleep) -> Result<Self> {
        let mut counter = Fresh::<Counter>::alloc(device, Some(sleep))?;
        let raw = counter.raw();
        raw.device = device.as_raw();
        raw.port = port;
        // SAFETY: The memory is ours, and is not moved.
        unsafe { bindings::rdma_counter_init_members(raw) };
        counter.driver_init(sleep);
        let stats = counter.driver_alloc_stats(sleep).ok_or(ENOMEM)?;
        counter.raw().stats = stats.into_raw();
        // INVARIANT: Just now.
        Ok(Self(counter))
    }

    /// Says how queue pairs are bound to it, and whether optional counters are of it too. Before any is.
    pub fn set_mode(&mut self, mode: CounterMode, qp_type: u32, with_optional: bool) {
        self.0.raw().mode = bindings::rdma_counter_mode {
            mode: mode.number(),
            mask: mode.mask(),
            param: bindings::auto_mode_param {
                qp_type: qp_type as i32,
            },
            bind_opcnt: with_optional,
        };
    }
}

impl Deref for OwnedCounter {
    type Target = Counter;

    #[inline]
    fn deref(&self) -> &Counter {
        &self.0
    }
}

impl Drop for OwnedCounter {
    fn drop(&mut self) {
        let stats = core::mem::replace(&mut self.0.raw().stats, core::ptr::null_mut());
        // SAFETY: The driver has allocated them for the core, and nobody uses them any more.
        drop(NonNull::new(stats).map(|stats| unsafe { HwCounters::from_raw(stats) }));
    }
}

impl Qp {
    /// Forgets its counter, which goes though the driver has not let go of the queue pair. For who destroys the latter.
    pub fn forget_counter(&self) {
        // SAFETY: Nobody binds a queue pair that is being destroyed; readers read the pointer whole.
        unsafe { (&raw mut (*self.as_raw()).counter).write_volatile(core::ptr::null_mut()) };
    }
}
