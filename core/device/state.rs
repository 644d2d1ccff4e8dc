// SPDX-License-Identifier: GPL-2.0

//! Data of a device: lifecycle, queued events, compat devices, sub-devices.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_device`).

use core::sync::atomic::AtomicBool;

use kernel::{
    impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
    workqueue::Work,
};
use kernel_ext::{
    sleepable::Sleepable,
    sync::{new_spinlock_irq, Completion, SpinLockIrq},
};
use rdma::core::{
    cgroup::CgroupEntry,
    class::{CompatDevice, ModelEntry},
    device::{Registered, SubDevice},
    event::Event,
    DeviceMemory,
};

/// Lifecycle of a device.
#[pin_data]
pub(crate) struct Lifecycle {
    /// Held while the device is being enabled, disabled or moved.
    #[pin]
    pub(super) change: Mutex<()>,
    /// Registration has failed: the caller of `ib_register_device` deallocates the device, not the core.
    pub(super) failing: AtomicBool,
    /// The core's own registration reference, while the device is enabled.
    #[pin]
    pub(super) own: Mutex<Option<Registered>>,
    /// The device's place in the driver model, from its registration on until it is unregistered.
    #[pin]
    pub(super) model: Mutex<Option<ModelEntry>>,
    /// The device's registration with the rdma cgroup controller, for the same period.
    #[pin]
    pub(super) cgroup: Mutex<Option<CgroupEntry>>,
    /// The device that does the DMA, from the first registration on.
    #[pin]
    pub(super) dma_device: Mutex<Option<ARef<kernel::device::Device>>>,
    /// The last registration reference was dropped.
    #[pin]
    pub(super) unused: Completion,
    pub(super) unregister: Arc<Unregister>,
}

impl Lifecycle {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            change <- new_mutex!((), "Lifecycle::change"),
            failing: AtomicBool::new(false),
            own <- new_mutex!(None, "Lifecycle::own"),
            model <- new_mutex!(None, "Lifecycle::model"),
            cgroup <- new_mutex!(None, "Lifecycle::cgroup"),
            dma_device <- new_mutex!(None, "Lifecycle::dma_device"),
            unused <- Completion::new(),
            unregister: Unregister::new()?,
        })
    }
}

/// The work of asynchronous unregistration.
#[pin_data]
pub(super) struct Unregister {
    /// The device, while the work is queued.
    #[pin]
    pub(super) device: SpinLockIrq<Option<ARef<DeviceMemory>>>,
    #[pin]
    pub(super) work: Work<Sleepable<Self>>,
}

impl_has_work! {
    impl HasWork<Sleepable<Self>> for Unregister { self.work }
}

impl Unregister {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                device <- new_spinlock_irq!(None, "Unregister::device"),
                work <- new_work!("Unregister::work"),
            }),
            GFP_KERNEL,
        )
    }
}

/// A queued event and its device.
pub(super) struct QueuedEvent {
    pub(super) device: ARef<DeviceMemory>,
    pub(super) event: Event,
}

pub(super) struct Pending {
    /// The device is registered, or being registered.
    pub(super) open: bool,
    pub(super) events: KVec<QueuedEvent>,
}

/// The event queue of a device.
#[pin_data]
pub(crate) struct EventQueue {
    #[pin]
    pub(super) pending: SpinLockIrq<Pending>,
    #[pin]
    pub(super) work: Work<Sleepable<Self>>,
}

impl_has_work! {
    impl HasWork<Sleepable<Self>> for EventQueue { self.work }
}

impl EventQueue {
    /// A closed queue.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let pending = Pending {
            open: false,
            events: KVec::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                pending <- new_spinlock_irq!(pending, "Queue::pending"),
                work <- new_work!("Queue::work"),
            }),
            GFP_KERNEL,
        )
    }
}

/// The sub-devices of a device, in the order of creation.
#[pin_data]
pub(crate) struct SubDevices {
    #[pin]
    pub(super) list: Mutex<KVec<SubDevice>>,
}

impl SubDevices {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(KVec::new(), "SubDevices::list"),
        })
    }
}

/// A compat device that is set up.
pub(super) struct Compat {
    pub(super) cookie: u64,
    pub(super) device: CompatDevice,
}

/// The compat devices of a device.
#[pin_data]
pub(crate) struct CompatDevices {
    #[pin]
    pub(super) list: Mutex<KVec<Compat>>,
}

impl CompatDevices {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(KVec::new(), "CompatDevices::list"),
        })
    }
}
