// SPDX-License-Identifier: GPL-2.0

//! Per-port counters that queue pairs are bound to: `struct rdma_counter`.
//!
//! A counter counts the traffic of its queue pairs, in place of the port's counters. The driver allocates it in the
//! device when the first queue pair is bound to it, and frees it there when the last one is unbound.
//!
//! C header: `include/rdma/rdma_counter.h`.

use core::{
    ops::Deref,
    ptr::NonNull,
    sync::atomic::{AtomicPtr, Ordering},
};

use kernel::prelude::*;
use kernel_ext::entry::FromC;
use rdma_bindings as bindings;

use super::{
    object::{driver_object, links, tracked, Fresh, Tracked},
    restrack::{OwnEntry, Owns, Unlisted, UnlistedEntry},
    stats::HwCounters,
    Counter, Device, Qp,
};
use crate::MaySleep;

driver_object!(Counter, size_rdma_counter; RDMA_RESTRACK_COUNTER);
tracked!(Counter);

/// How queue pairs of a port are bound to counters: `enum rdma_nl_counter_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterMode {
    /// They are not bound.
    None,
    /// The core binds queue pairs that agree in the properties of the mask (`RDMA_COUNTER_MASK_*`, not 0) to one counter.
    Auto(u32),
    /// The administrator binds them.
    Manual,
}

impl CounterMode {
    /// The value of the header's enumeration.
    pub fn number(self) -> u32 {
        match self {
            Self::None => bindings::RDMA_COUNTER_MODE_NONE,
            Self::Auto(_) => bindings::RDMA_COUNTER_MODE_AUTO,
            Self::Manual => bindings::RDMA_COUNTER_MODE_MANUAL,
        }
    }

    /// The mask of the properties in which queue pairs agree; 0 unless `Auto`.
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

    /// How queue pairs are bound to the counter.
    pub fn mode(&self) -> CounterMode {
        // SAFETY: The member is constant after the counter is made.
        let mode = unsafe { &(*self.as_raw()).mode };
        match mode.mode {
            bindings::RDMA_COUNTER_MODE_AUTO => CounterMode::Auto(mode.mask),
            bindings::RDMA_COUNTER_MODE_MANUAL => CounterMode::Manual,
            _ => CounterMode::None,
        }
    }

    /// The type of its queue pairs (`enum ib_qp_type`), where they agree in it.
    pub fn qp_type(&self) -> u32 {
        // SAFETY: The member is constant after the counter is made.
        unsafe { (*self.as_raw()).mode.param.qp_type as u32 }
    }

    /// The values that were read last.
    pub fn stats(&self) -> &HwCounters {
        // SAFETY: The member is constant after the counter is made, and its target is valid as long as the counter. The
        // wrapper is transparent.
        unsafe { &*(&raw const (*self.as_raw()).stats).cast() }
    }
}

/// A counter with its ownership. It is dropped, and so freed, after the last queue pair is unbound and the driver and
/// resource tracking have released it.
///
/// # Invariants
///
/// `stats` are the values that the driver has allocated for the counter.
pub struct OwnedCounter(Fresh<Counter>);

// SAFETY: Counters may be used from any thread.
unsafe impl Send for OwnedCounter {}

// SAFETY: `self` owns the counter, and a `Fresh` is not `Sync`.
unsafe impl Owns for OwnedCounter {
    #[inline]
    fn entry(&self) -> OwnEntry<'_> {
        // SAFETY: `self` owns the counter, whose entry was begun with its memory; counters are not `Sync`.
        unsafe { OwnEntry::from_c(self.0.res().as_raw()) }
    }
}

/// A counter that was just allocated, and that no queue pair is bound to but in an attempt that decides whether it stays.
///
/// # Invariants
///
/// The counter is not listed.
pub struct NewCounter(OwnedCounter);

impl Unlisted for NewCounter {
    #[inline]
    fn unlisted(&mut self) -> UnlistedEntry<'_> {
        self.0 .0.unlisted()
    }
}

impl Deref for NewCounter {
    type Target = OwnedCounter;

    #[inline]
    fn deref(&self) -> &OwnedCounter {
        &self.0
    }
}

impl NewCounter {
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
        // SAFETY: The memory is owned by this function, and is not moved. These methods of the driver create the counter.
        let stats = unsafe {
            bindings::rdma_counter_init_members(raw);
            counter.members().driver_init(sleep);
            counter.members().driver_alloc_stats(sleep)
        };
        let stats = stats.ok_or(ENOMEM)?;
        counter.raw().stats = stats.into_raw();
        // INVARIANT: The driver has just allocated the values.
        Ok(Self(OwnedCounter(counter)))
    }

    /// The counter, to be listed.
    pub fn into_owned(self) -> OwnedCounter {
        self.0
    }

    /// Sets how queue pairs are bound to the counter, and whether it includes optional counters.
    pub fn set_mode(&mut self, mode: CounterMode, qp_type: u32, with_optional: bool) {
        self.0 .0.raw().mode = bindings::rdma_counter_mode {
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
        // SAFETY: The driver has initialised the counter, and has allocated its values.
        unsafe { self.0.members() }
    }
}

impl Drop for OwnedCounter {
    fn drop(&mut self) {
        let stats = core::mem::replace(&mut self.0.raw().stats, core::ptr::null_mut());
        // SAFETY: By the type invariants the driver has allocated the values for this counter, which is being dropped.
        drop(NonNull::new(stats).map(|stats| unsafe { HwCounters::from_raw(stats) }));
    }
}

impl Qp {
    /// Resets the pointer to the counter, if it is this one.
    pub(super) fn leave_counter(&self, counter: &Counter) {
        // SAFETY: The member is a pointer, which C reads by a single load.
        let member = unsafe { AtomicPtr::from_ptr(&raw mut (*self.as_raw()).counter) };
        let _ = member.compare_exchange(
            counter.as_raw(),
            core::ptr::null_mut(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }
}
