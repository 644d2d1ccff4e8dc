// SPDX-License-Identifier: GPL-2.0

//! The data that the core keeps for each device and each port.
//!
//! Each area has one field, of its own type, in [`Private`] and, if necessary, in [`PortPrivate`]. Fields are
//! initialised with the device or its ports, and dropped with their memory, when there are no users left: dropping only
//! frees memory. Earlier cleanup is done in the area's stage (see `stages`).
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_device`, `struct ib_port_data`).

use kernel::{prelude::*, sync::SetOnce};
use rdma::{
    core::{port::PortArray, DeviceMemory},
    MaySleep,
};

use crate::{
    counters::state as counters, device::state as device, gid::state as gid,
    memory::state as memory, registry::state as registry, restrack::state as restrack,
    sysfs::state as sysfs,
};

/// The core's data of a device, which precedes `struct ib_device` in memory.
#[pin_data]
pub(crate) struct Private {
    #[pin]
    pub(crate) lifecycle: device::Lifecycle,
    #[pin]
    pub(crate) clients: registry::Bindings,
    #[pin]
    pub(crate) handlers: registry::Handlers,
    pub(crate) dispatch: kernel::sync::Arc<device::EventQueue>,
    #[pin]
    pub(crate) compat: device::CompatDevices,
    #[pin]
    pub(crate) restrack: restrack::DeviceState,
    #[pin]
    pub(crate) subdevices: device::SubDevices,
    #[pin]
    pub(crate) roce_gid: gid::RoceGids,
    #[pin]
    pub(crate) sysfs: sysfs::DeviceState,
    #[pin]
    pub(crate) counters: counters::DeviceState,
    #[pin]
    pub(crate) frmr_pools: memory::DeviceState,
    ports: SetOnce<Ports>,
}

// SAFETY: No other type of this module implements it; all devices are from `_ib_alloc_device`.
unsafe impl rdma::core::device::Private for Private {}

impl Private {
    /// An initialiser for a device that is not registered.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            lifecycle <- device::Lifecycle::new(),
            clients <- registry::Bindings::new(),
            handlers <- registry::Handlers::new(),
            dispatch: device::EventQueue::new()?,
            compat <- device::CompatDevices::new(),
            restrack <- restrack::DeviceState::new(),
            subdevices <- device::SubDevices::new(),
            roce_gid <- gid::RoceGids::new(),
            sysfs <- sysfs::DeviceState::new(),
            counters <- counters::DeviceState::new(),
            frmr_pools <- memory::DeviceState::new(),
            ports: SetOnce::new(),
        })
    }
}

/// The core's data of a port.
#[pin_data]
pub(crate) struct PortPrivate {
    #[pin]
    pub(crate) netdev: registry::PortNetdev,
    #[pin]
    pub(crate) cache: gid::PortState,
}

impl PortPrivate {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            netdev <- registry::PortNetdev::new(),
            cache <- gid::PortState::new(),
        })
    }
}

/// The ports of a device: the header's part and the core's, the latter from port 0 or 1 on.
struct Ports {
    header: PortArray,
    ports: KVec<Pin<KBox<PortPrivate>>>,
}

impl Ports {
    fn new(device: &DeviceMemory, sleep: &MaySleep) -> Result<Self> {
        let header = PortArray::new(device, sleep)?;
        let mut ports = KVec::new();
        for _ in device.ports() {
            ports.push(KBox::pin_init(PortPrivate::new(), GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(Self { header, ports })
    }
}

/// Access to the core's data of a device.
pub(crate) trait DeviceExt {
    /// The data of the device.
    fn core(&self) -> &Private;

    /// The data of a port. `None` for an invalid port, or if the ports are not initialised yet.
    fn core_port(&self, port: u32) -> Option<&PortPrivate>;

    /// Initialises the ports, if they are not yet. Their number is known, and the device is not registered.
    fn make_ports(&self, sleep: &MaySleep) -> Result;
}

impl DeviceExt for DeviceMemory {
    #[inline]
    fn core(&self) -> &Private {
        self.private()
    }

    fn core_port(&self, port: u32) -> Option<&PortPrivate> {
        let nth = port.checked_sub(*self.ports().start())?;
        let ports = &self.core().ports.as_ref()?.ports;
        Some(ports.get(nth as usize)?.as_ref().get_ref())
    }

    fn make_ports(&self, sleep: &MaySleep) -> Result {
        if self.core().ports.as_ref().is_some() {
            return Ok(());
        }
        let made = Ports::new(self, sleep)?;
        if !self.core().ports.populate(made) {
            // Two threads register the same device: a bug of the driver.
            return Err(EBUSY);
        }
        let ports = self.core().ports.as_ref().ok_or(EINVAL)?;
        // SAFETY: The array is dropped with the device's memory.
        unsafe { ports.header.publish(self) };
        Ok(())
    }
}
