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
//! /// Listens as long as the answer is kept.
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

/// An event of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortEvent {
    /// What has happened.
    pub event: DeviceEvent,
    /// The port that it is about; of no meaning for events of the whole device.
    pub port: u32,
}

/// Who is told of a device's events.
pub trait OnDeviceEvent: Send + Sync {
    /// An event, in process context. The caches are up to date with it. It must not drop its [`Registration`].
    fn device_event(&self, event: PortEvent, sleep: &MaySleep);
}

/// Who is told of a queue pair's events.
pub trait OnQpEvent: Send + Sync {
    /// An event. Any context.
    fn qp_event(&self, event: QpEvent);
}

/// A listener as the core knows it.
struct Listener<T>(T);

impl<T: OnDeviceEvent> OnEvent for Listener<T> {
    fn event(&self, event: &Event, sleep: &MaySleep) {
        if let Ok(kind) = DeviceEvent::try_from(event.kind()) {
            let port = event.port();
            self.0.device_event(PortEvent { event: kind, port }, sleep);
        }
    }
}

/// A listener who is told of a device's events until this is dropped, which may sleep.
pub struct Registration<'d, T: OnDeviceEvent + 'd> {
    listening: Listening<Listener<T>>,
    _device: Device<'d>,
}

impl<T: OnDeviceEvent> !DropsAnywhere for Registration<'_, T> {}

impl<'d, T: OnDeviceEvent + 'd> Registration<'d, T> {
    /// Tells `listener` of the events of a device from now on.
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

    /// Who is told.
    pub fn listener(&self) -> &T {
        &self.listening.listener().0
    }
}
