// SPDX-License-Identifier: GPL-2.0

//! What the core keeps of each device, and of each port.
//!
//! Each area has one field, of its own type, in [`Private`] and, if it needs one, in [`PortPrivate`]. A field is made with
//! the device, or with the ports, and dropped with the memory, when nobody can reach it: dropping frees memory and
//! does nothing else. What must be taken back earlier is taken back in the area's stage (see `stages`).

use kernel::{prelude::*, sync::SetOnce};
use rdma::{
    core::{port::PortArray, Device},
    MaySleep,
};

use crate::{
    counters::state as counters, device::state as device, gid::state as gid,
    memory::state as memory, registry::state as registry, restrack::state as restrack,
    sysfs::state as sysfs,
};

/// What the core keeps of a device; in front of it in memory.
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
    /// An initialiser of the state of a device that is not registered.
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

/// What the core keeps of a port.
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

/// All ports of a device: the header's part and ours, the latter from port 0 or 1 on.
struct Ports {
    header: PortArray,
    ports: KVec<Pin<KBox<PortPrivate>>>,
}

impl Ports {
    fn new(device: &Device, sleep: &MaySleep) -> Result<Self> {
        let header = PortArray::new(device, sleep)?;
        let mut ports = KVec::new();
        for _ in device.ports() {
            ports.push(KBox::pin_init(PortPrivate::new(), GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(Self { header, ports })
    }
}

/// How to get at the state of a device.
pub(crate) trait DeviceExt {
    /// The state of the device.
    fn core(&self) -> &Private;

    /// The state of a port. `None` if there is no such port, or the ports are not made yet.
    fn core_port(&self, port: u32) -> Option<&PortPrivate>;

    /// Makes the state of the ports, if there is none yet. The number of ports is known, and the device not registered.
    fn make_ports(&self, sleep: &MaySleep) -> Result;
}

impl DeviceExt for Device {
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
            // Two threads prepare the same device: the driver is broken.
            return Err(EBUSY);
        }
        let ports = self.core().ports.as_ref().ok_or(EINVAL)?;
        // SAFETY: The array is dropped with the device's memory.
        unsafe { ports.header.publish(self) };
        Ok(())
    }
}
