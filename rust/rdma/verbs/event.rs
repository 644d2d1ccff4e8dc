// SPDX-License-Identifier: GPL-2.0

//! Events of devices and of queue pairs, for clients.
//!
//! ```
//! use kernel::prelude::*;
//! use rdma::{
//!     verbs::{
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

use kernel::{prelude::*, types::Opaque};
use rdma_bindings::{self as bindings, ib_event, ib_event_handler};

use super::{Device, DropsAnywhere};
use crate::{event::DeviceEvent, MaySleep, QpEvent};

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

/// The structure of C, and who is told.
#[pin_data]
struct Told<T> {
    #[pin]
    raw: Opaque<ib_event_handler>,
    listener: T,
}

/// A listener who is told of a device's events until this is dropped, which may sleep.
///
/// # Invariants
///
/// The structure is registered.
pub struct Registration<'d, T: OnDeviceEvent + 'd> {
    told: Pin<KBox<Told<T>>>,
    _device: Device<'d>,
}

impl<T: OnDeviceEvent> !DropsAnywhere for Registration<'_, T> {}

// SAFETY: The listener may be used from any thread; C uses the rest.
unsafe impl<T: OnDeviceEvent> Send for Registration<'_, T> {}
// SAFETY: As above.
unsafe impl<T: OnDeviceEvent> Sync for Registration<'_, T> {}

impl<'d, T: OnDeviceEvent + 'd> Registration<'d, T> {
    /// Tells `listener` of the events of a device from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(device: &Device<'d>, listener: T, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        let raw = ib_event_handler {
            device: device.as_raw(),
            handler: Some(device_event::<T>),
            ..pin_init::zeroed()
        };
        let init = pin_init!(Told {
            raw: Opaque::new(raw),
            listener,
        });
        let told = KBox::pin_init(init, GFP_KERNEL)?;
        // SAFETY: The structure stays where it is until it is unregistered, and so does the device.
        unsafe { bindings::ib_register_event_handler(told.raw.get()) };
        // INVARIANT: It is registered.
        Ok(Self {
            told,
            _device: device.clone(),
        })
    }

    /// Who is told.
    pub fn listener(&self) -> &T {
        &self.told.listener
    }
}

impl<T: OnDeviceEvent> Drop for Registration<'_, T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. No handler runs when this returns.
        unsafe { bindings::ib_unregister_event_handler(self.told.raw.get()) };
    }
}

/// A door: an event of a device.
///
/// # Safety
///
/// The core calls it in process context with a registered structure of a [`Told<T>`] and an event.
unsafe extern "C" fn device_event<T: OnDeviceEvent>(
    handler: *mut ib_event_handler,
    event: *mut ib_event,
) {
    // SAFETY: By the safety requirements; `Opaque` is transparent.
    let (told, event, sleep) = unsafe {
        let told = kernel::container_of!(Opaque::cast_from(handler), Told<T>, raw);
        (&*told, &*event, MaySleep::assume())
    };
    let Ok(kind) = DeviceEvent::try_from(event.event) else {
        return;
    };
    // SAFETY: Events of devices have a port, and any number is one.
    let port = unsafe { event.element.port_num };
    told.listener
        .device_event(PortEvent { event: kind, port }, &sleep);
}
