// SPDX-License-Identifier: GPL-2.0

//! Asynchronous events of devices and queue pairs: `struct ib_event_handler`, `struct ib_event`.
//!
//! ```
//! use kernel::prelude::*;
//! use rdma::{
//!     client::{
//!         event::{OnDeviceEvent, PortEvent, Registration},
//!         Device,
//!     },
//!     DeviceEvent, MaySleep,
//! };
//!
//! struct Listener;
//!
//! impl OnDeviceEvent for Listener {
//!     fn device_event(&self, event: PortEvent, _sleep: &MaySleep) {
//!         if event.event == DeviceEvent::PortErr {
//!             pr_info!("port {} is down\n", event.port);
//!         }
//!     }
//! }
//!
//! /// Registers a listener, until the result is dropped.
//! fn listen<'d>(device: &Device<'d>, sleep: &MaySleep) -> Result<Registration<'d, Listener>> {
//!     Registration::new(device, Listener, sleep)
//! }
//! ```
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;

use super::{Device, DropsAnywhere};
use crate::{
    abi::event::DeviceEvent,
    core::{
        event::{Event, Listening, OnEvent},
        Device as DeviceView,
    },
    MaySleep, QpEvent,
};

/// An event of a device or a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortEvent {
    /// The event.
    pub event: DeviceEvent,
    /// The port; meaningless for events of the whole device.
    pub port: u32,
}

/// A listener to a device's events.
pub trait OnDeviceEvent: Send + Sync {
    /// Handles an event, in process context. The core's caches already reflect the event. The function must
    /// not drop its own [`Registration`].
    fn device_event(&self, event: PortEvent, sleep: &MaySleep);
}

/// A listener to a queue pair's events.
pub trait OnQpEvent: Send + Sync {
    /// Handles an event. Any context.
    fn qp_event(&self, event: QpEvent);
}

/// The adapter of a listener for the core.
struct Listener<T>(T);

impl<T: OnDeviceEvent> OnEvent for Listener<T> {
    fn event(&self, event: &Event, sleep: &MaySleep) {
        if let Ok(kind) = DeviceEvent::try_from(event.kind()) {
            let port = event.port();
            self.0.device_event(PortEvent { event: kind, port }, sleep);
        }
    }
}

/// The registration of a listener. Dropping it unregisters the listener, and may sleep.
pub struct Registration<'d, T: OnDeviceEvent + 'd> {
    listening: Listening<Listener<T>>,
    _device: Device<'d>,
}

impl<T: OnDeviceEvent> !DropsAnywhere for Registration<'_, T> {}

impl<'d, T: OnDeviceEvent + 'd> Registration<'d, T> {
    /// Registers `listener` for the events of a device.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(device: &Device<'d>, listener: T, sleep: &MaySleep) -> Result<Self> {
        // SAFETY: The device is registered for `'d`.
        let view = unsafe { DeviceView::from_raw(device.as_raw()) };
        Ok(Self {
            listening: Listening::new(view, Listener(listener), sleep)?,
            _device: device.clone(),
        })
    }

    /// The listener.
    pub fn listener(&self) -> &T {
        &self.listening.listener().0
    }
}
