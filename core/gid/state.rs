// SPDX-License-Identifier: GPL-2.0

//! Data of the caches of a device and of its ports.
//!
//! C header: `include/rdma/ib_cache.h`.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex, SetOnce},
};
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use rdma::{
    core::{gid::GidEntry, Device},
    MaySleep,
};

use super::port_cache::PortCache;

/// Maximum number of indices for default GIDs.
const MAX_DEFAULTS: usize = 32;

/// Content of a table index.
pub(super) enum Slot {
    /// Free for a new entry.
    Free,
    /// A valid entry.
    Used(Arc<GidEntry>),
    /// A deleted entry with references.
    Leaving,
}

impl Slot {
    pub(super) fn entry(&self) -> Option<&Arc<GidEntry>> {
        match self {
            Self::Used(entry) => Some(entry),
            Self::Free | Self::Leaving => None,
        }
    }
}

/// The content of all indices.
pub(super) struct Slots {
    all: KVec<Slot>,
    /// From this index on all are free. Tables are long, and most of their indices are never used.
    end: usize,
}

impl Slots {
    /// So many free ones.
    fn new(length: usize) -> Result<Self> {
        let mut all = KVec::with_capacity(length, GFP_KERNEL)?;
        for _ in 0..length {
            all.push(Slot::Free, GFP_KERNEL)?;
        }
        Ok(Self { all, end: 0 })
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Slot] {
        &self.all
    }

    /// Those before the end of what is in use.
    pub(super) fn in_use(&self) -> &[Slot] {
        self.all.get(..self.end).unwrap_or_default()
    }

    /// Sets the content of an index; returns what it was. `None` for an index beyond the table.
    pub(super) fn set(&mut self, index: usize, slot: Slot) -> Option<Slot> {
        let before = core::mem::replace(self.all.get_mut(index)?, slot);
        let after = index.saturating_add(1);
        self.end = self.end.max(after);
        // A free index at the end is not in use any more, nor are free ones before it.
        let is_used = |slot: &Slot| !matches!(slot, Slot::Free);
        self.end = self
            .in_use()
            .iter()
            .rposition(is_used)
            .map_or(0, |last| last.saturating_add(1));
        Some(before)
    }
}

/// The GID table of a port.
#[pin_data]
pub(crate) struct GidTable {
    /// The number of indices at the start of the table that are reserved for default GIDs.
    pub(super) defaults: usize,
    /// Whether an index of a deleted entry is reused only after its last reference is dropped.
    pub(super) waits: bool,
    /// Whether the table is open for new entries.
    #[pin]
    pub(super) change: Mutex<bool>,
    #[pin]
    pub(super) slots: SpinLockIrq<Slots>,
}

impl GidTable {
    /// Makes an empty table for a port of `device`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        device: &Device,
        port: u32,
        types: u32,
        _sleep: &MaySleep,
    ) -> Result<Arc<Self>> {
        let length = device.immutable(port).map_or(0, |port| port.gid_tbl_len);
        let length = usize::try_from(length).unwrap_or(0);
        let slots = Slots::new(length)?;
        let defaults = (types.count_ones() as usize).min(length).min(MAX_DEFAULTS);
        let waits = device.is_roce(port);
        Arc::pin_init(
            pin_init!(Self {
                defaults,
                waits,
                change <- new_mutex!(true, "GidTable::change"),
                slots <- new_spinlock_irq!(slots, "GidTable::slots"),
            }),
            GFP_KERNEL,
        )
    }
}

/// Caches of a port.
#[pin_data]
pub(crate) struct PortState {
    /// Set when the device is first registered, when the length of the table is known.
    pub(super) gids: SetOnce<Arc<GidTable>>,
    #[pin]
    pub(crate) known: PortCache,
}

impl PortState {
    /// An initialiser of empty caches.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            gids: SetOnce::new(),
            known <- PortCache::new(),
        })
    }
}

/// Data of a device's automatic GIDs.
#[pin_data]
pub(crate) struct RoceGids {
    /// Whether they are enabled.
    #[pin]
    pub(super) follows: Mutex<bool>,
}

impl RoceGids {
    /// An initialiser for a device that is not registered.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { follows <- new_mutex!(false, "RoceGids::follows") })
    }
}
