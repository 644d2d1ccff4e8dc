// SPDX-License-Identifier: GPL-2.0

//! What is kept of a device for its life: where it is in it, the events that wait, how other namespaces see it, and what
//! was made of it.

use core::sync::atomic::AtomicBool;

use kernel::{
    impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
    workqueue::Work,
};
use kernel_ext::sync::{new_spinlock_irq, Completion, SpinLockIrq};
use rdma::core::{
    class::CompatDevice,
    device::{Registered, SubDevice},
    event::Event,
    Device,
};

/// Where a device is in its life.
#[pin_data]
pub(crate) struct Lifecycle {
    /// Held while the device is disabled and taken down, or moved.
    #[pin]
    pub(super) change: Mutex<()>,
    /// Whoever registers the device deallocates it, as that fails; not the core.
    pub(super) failing: AtomicBool,
    /// Nobody keeps the device registered any more.
    #[pin]
    pub(super) unused: Completion,
    pub(super) unregister: Arc<Unregister>,
}

impl Lifecycle {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            change <- new_mutex!((), "Lifecycle::change"),
            failing: AtomicBool::new(false),
            unused <- Completion::new(),
            unregister: Unregister::new()?,
        })
    }
}

/// Unregisters a device from a work queue.
#[pin_data]
pub(super) struct Unregister {
    /// The device, while the work is queued.
    #[pin]
    pub(super) device: SpinLockIrq<Option<ARef<Device>>>,
    #[pin]
    pub(super) work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Unregister { self.work }
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

/// An event that waits, and its device.
pub(super) struct Waiting {
    pub(super) device: ARef<Device>,
    pub(super) event: Event,
}

pub(super) struct Pending {
    /// The device is registered, or about to be.
    pub(super) open: bool,
    pub(super) events: KVec<Waiting>,
}

/// The events of a device that wait.
#[pin_data]
pub(crate) struct EventQueue {
    #[pin]
    pub(super) pending: SpinLockIrq<Pending>,
    #[pin]
    pub(super) work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for EventQueue { self.work }
}

impl EventQueue {
    /// A queue that takes no events yet.
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

/// A sub-device, and what keeps its parent registered.
pub(super) struct ListedSubDevice {
    pub(super) sub: SubDevice,
    pub(super) parent: Registered,
}

/// The sub-devices of a device, in the order in which they were made.
#[pin_data]
pub(crate) struct SubDevices {
    #[pin]
    pub(super) list: Mutex<KVec<ListedSubDevice>>,
}

impl SubDevices {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(KVec::new(), "SubDevices::list"),
        })
    }
}

/// A compat device, set up.
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
