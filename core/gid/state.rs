// SPDX-License-Identifier: GPL-2.0

//! What is kept of the GIDs of a device and of its ports, and of what else is cached of a port.

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

/// The most indices that can be for default GIDs.
const MAX_DEFAULTS: usize = 32;

/// What is at an index.
pub(super) enum Slot {
    /// Nothing: an entry may come here.
    Free,
    /// An entry that can be found.
    Used(Arc<GidEntry>),
    /// An entry that was deleted, and is still referenced.
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

/// The GID table of a port.
#[pin_data]
pub(crate) struct GidTable {
    /// The first indices, so many, are for default GIDs.
    pub(super) defaults: usize,
    /// Whether an index waits for the references to a deleted entry.
    pub(super) waits: bool,
    /// Whether entries may be added.
    #[pin]
    pub(super) change: Mutex<bool>,
    #[pin]
    pub(super) slots: SpinLockIrq<KVec<Slot>>,
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
        let mut slots = KVec::with_capacity(length, GFP_KERNEL)?;
        for _ in 0..length {
            slots.push(Slot::Free, GFP_KERNEL)?;
        }
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

/// What the core has of a port for the caches.
#[pin_data]
pub(crate) struct PortState {
    /// Made when the device is registered for the first time: only then the table's length is known.
    pub(super) gids: SetOnce<Arc<GidTable>>,
    #[pin]
    pub(crate) known: PortCache,
}

impl PortState {
    /// An initialiser of caches with nothing in them.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            gids: SetOnce::new(),
            known <- PortCache::new(),
        })
    }
}

/// What is kept of a device.
#[pin_data]
pub(crate) struct RoceGids {
    /// Whether the GIDs follow the net devices.
    #[pin]
    pub(super) follows: Mutex<bool>,
}

impl RoceGids {
    /// An initialiser of the state of a device that is not registered.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { follows <- new_mutex!(false, "RoceGids::follows") })
    }
}
