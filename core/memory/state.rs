// SPDX-License-Identifier: GPL-2.0

//! Data of a device's FRMR pools.
//!
//! C header: `include/rdma/frmr_pools.h`.

use kernel::{
    alloc::KVVec,
    impl_has_delayed_work, new_delayed_work, new_mutex,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
    workqueue::DelayedWork,
};
use kernel_ext::{sleepable::Sleepable, work::OwnedQueue};
use rdma::core::{driver::frmr::FrmrDriver, frmr::FrmrKey, Device, DeviceMemory};

/// The pools of a device.
#[pin_data]
pub(crate) struct DeviceState {
    #[pin]
    pub(super) pinning: Mutex<()>,
    #[pin]
    pub(super) pools: Mutex<Option<Pools>>,
}

impl DeviceState {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            pinning <- new_mutex!((), "frmr_pools::DeviceState::pinning"),
            pools <- new_mutex!(None, "frmr_pools::DeviceState::pools"),
        })
    }
}

pub(super) struct Pools {
    pub(super) driver: FrmrDriver,
    /// Aging period, in seconds.
    pub(super) period: u32,
    /// Sorted by key.
    pub(super) list: KVec<Arc<Pool>>,
    pub(super) queue: OwnedQueue,
}

/// The handles of a pool.
pub(super) struct Handles {
    /// Returned in the current period. The last ones are taken first.
    pub(super) fresh: KVVec<u32>,
    /// Returned in an earlier period.
    pub(super) old: KVVec<u32>,
    pub(super) in_use: u32,
    pub(super) max_in_use: u32,
    /// Minimum number of handles, including those in use.
    pub(super) pinned: u32,
}

/// A pool of handles with the same key.
#[pin_data]
pub(crate) struct Pool {
    pub(super) key: FrmrKey,
    pub(super) device: ARef<DeviceMemory>,
    pub(super) driver: FrmrDriver,
    #[pin]
    pub(super) handles: Mutex<Handles>,
    #[pin]
    pub(super) aging: DelayedWork<Sleepable<Self>>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Sleepable<Self>> for Pool { self.aging }
}

impl Pool {
    pub(super) fn new(device: &Device, key: FrmrKey, driver: FrmrDriver) -> Result<Arc<Self>> {
        let handles = Handles {
            fresh: KVVec::new(),
            old: KVVec::new(),
            in_use: 0,
            max_in_use: 0,
            pinned: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                key,
                device: device.hold(),
                driver,
                handles <- new_mutex!(handles, "frmr_pools::Pool::handles"),
                aging <- new_delayed_work!("frmr_pools::Pool::aging"),
            }),
            GFP_KERNEL,
        )
    }
}
