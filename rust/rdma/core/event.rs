// SPDX-License-Identifier: GPL-2.0

//! Asynchronous events and their handlers: `struct ib_event`, `struct ib_event_handler`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{ops::Deref, ptr::NonNull};

use kernel::{prelude::*, sync::aref::ARef, types::Opaque};
use kernel_ext::entry::FromC;
use rdma_bindings::{self as bindings, ib_event, ib_event_handler};

use super::{Device, DeviceMemory, EventHandler, EventView};
use crate::MaySleep;

/// An event: what happened, and to which part of a device.
#[derive(Clone, Copy)]
pub struct Event(ib_event);

// SAFETY: The type does not dereference the pointers of the event, except for `device`, which is unsafe.
unsafe impl Send for Event {}
// SAFETY: The type does not dereference the pointers of the event, except for `device`, which is unsafe.
unsafe impl Sync for Event {}

impl EventView {
    /// A copy of the event.
    #[inline]
    pub fn get(&self) -> Event {
        // SAFETY: By the type invariants.
        Event(unsafe { *self.as_raw() })
    }

    /// The device of the event.
    #[inline]
    pub fn device(&self) -> &Device {
        // SAFETY: By the type invariants; the driver of the device dispatches the event.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }
}

impl Event {
    /// Creates an event of a port.
    pub fn of_port(kind: u32, device: &DeviceMemory, port: u32) -> Self {
        let mut event: ib_event = pin_init::zeroed();
        event.device = device.as_raw();
        event.event = kind;
        event.element.port_num = port;
        Self(event)
    }

    /// The type of the event: `enum ib_event_type`.
    #[inline]
    pub fn kind(&self) -> u32 {
        self.0.event
    }

    /// The port, for an event of a port.
    #[inline]
    pub fn port(&self) -> u32 {
        // SAFETY: Any bytes of the union are a valid number.
        unsafe { self.0.element.port_num }
    }
}

impl EventHandler {
    /// The device whose events the handler gets.
    #[inline]
    pub fn device(&self) -> &Device {
        // SAFETY: The field is set before the handler is registered, and the device is valid as long as the handler is
        // registered.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }
}

/// A handler that is being registered.
///
/// # Invariants
///
/// The handler is in no list, and is valid until `ib_unregister_event_handler` has returned for it.
pub struct NewHandler<'a>(&'a EventHandler);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for NewHandler<'_> {
    type Raw = *mut ib_event_handler;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the handler is valid; a view is a transparent wrapper.
        // INVARIANT: By the header a handler is registered once, and stays until it was unregistered.
        Self(unsafe { &*raw.cast() })
    }
}

impl Deref for NewHandler<'_> {
    type Target = EventHandler;

    #[inline]
    fn deref(&self) -> &EventHandler {
        self.0
    }
}

/// The identity of a handler, which may be registered or not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HandlerRef(NonNull<ib_event_handler>);

// SAFETY: Handlers may be called on any thread.
unsafe impl Send for HandlerRef {}

impl HandlerRef {
    /// The identity of a handler.
    pub fn of(handler: &EventHandler) -> Self {
        Self(NonNull::from(handler).cast())
    }

    /// Calls the handler.
    ///
    /// # Safety
    ///
    /// The handler is in a list, or the thread that removes it waits for this call.
    pub unsafe fn call(self, event: &Event, _sleep: &MaySleep) {
        let mut event = event.0;
        // SAFETY: By the safety requirements the handler is valid.
        unsafe {
            if let Some(handler) = (*self.0.as_ptr()).handler {
                handler(self.0.as_ptr(), &mut event);
            }
        }
    }

    /// # Safety
    ///
    /// The handler is in a list, which is borrowed.
    unsafe fn next(self) -> Option<Self> {
        // SAFETY: By the safety requirements and the invariants of the list.
        let next = unsafe { (*self.0.as_ptr()).list.next };
        NonNull::new(next.cast()).map(Self)
    }

    /// # Safety
    ///
    /// The handler is in a list, or is being added to one, which is borrowed mutably.
    unsafe fn set_next(self, next: Option<Self>) {
        let next = next.map_or(core::ptr::null_mut(), |next| next.0.as_ptr());
        // SAFETY: By the safety requirements and the invariants of the list.
        unsafe { (*self.0.as_ptr()).list.next = next.cast::<bindings::list_head>() };
    }
}

/// A list of handlers in the order of their registration. The links are members of the handlers, so that adding one
/// allocates no memory.
///
/// # Invariants
///
/// The handlers in the list are valid, and in no other list: a handler is removed before `ib_unregister_event_handler` returns
/// for it. Only the list uses their links.
#[derive(Default)]
pub struct HandlerList {
    first: Option<HandlerRef>,
}

// SAFETY: The list owns the links of its handlers.
unsafe impl Send for HandlerList {}

impl HandlerList {
    /// The first handler.
    pub fn first(&self) -> Option<HandlerRef> {
        self.first
    }

    fn iter(&self) -> impl Iterator<Item = HandlerRef> + '_ {
        // SAFETY: Each comes from the list, which is borrowed.
        core::iter::successors(self.first, |at| unsafe { at.next() })
    }

    /// The handler after one; `None` if that is the last, or not in the list.
    pub fn after(&self, handler: HandlerRef) -> Option<HandlerRef> {
        let mut from = self.iter().skip_while(|at| *at != handler);
        from.next()?;
        from.next()
    }

    /// Adds a handler at the end.
    pub fn push(&mut self, handler: NewHandler<'_>) {
        let new = HandlerRef::of(&handler);
        let last = self.iter().last();
        // INVARIANT: By its invariants the handler is in no list, and valid until it was unregistered.
        // SAFETY: The handler is being added to the list, which is borrowed mutably; the last one is in it.
        unsafe {
            new.set_next(None);
            match last {
                None => self.first = Some(new),
                Some(last) => last.set_next(Some(new)),
            }
        }
    }

    /// Removes a handler, and returns whether it was in the list.
    pub fn remove(&mut self, handler: HandlerRef) -> bool {
        let mut before = None;
        let mut at = self.first;
        while let Some(here) = at {
            // SAFETY: The handler comes from the list, which is borrowed.
            let next = unsafe { here.next() };
            if here == handler {
                match before {
                    None => self.first = next,
                    // SAFETY: The handler comes from the list, which is borrowed mutably.
                    Some(before) => unsafe { HandlerRef::set_next(before, next) },
                }
                return true;
            }
            before = at;
            at = next;
        }
        false
    }
}

/// A listener to a device's asynchronous events.
pub trait OnEvent: Send + Sync {
    /// Handles an event, in process context. The core's caches already reflect the event. The function must not drop its
    /// own [`Listening`].
    fn event(&self, event: &Event, sleep: &MaySleep);
}

/// The C structure with its listener.
#[pin_data]
struct RegisteredHandler<T> {
    #[pin]
    raw: Opaque<ib_event_handler>,
    listener: T,
}

impl<T> RegisteredHandler<T> {
    /// The C structure. The pointer has the provenance of the whole, to which [`tell`] goes back.
    fn as_raw(&self) -> *mut ib_event_handler {
        let offset = core::mem::offset_of!(Self, raw);
        let this = core::ptr::from_ref(self).cast_mut();
        this.wrapping_byte_add(offset).cast()
    }
}

/// The registration of a listener. Dropping it unregisters the listener, and may sleep.
///
/// # Invariants
///
/// The C structure is registered.
pub struct Listening<T: OnEvent> {
    told: Pin<KBox<RegisteredHandler<T>>>,
    _device: ARef<DeviceMemory>,
}

// SAFETY: The listener may be used from any thread, and the C structure is used by the core alone.
unsafe impl<T: OnEvent> Send for Listening<T> {}
// SAFETY: The listener may be used from any thread, and the C structure is used by the core alone.
unsafe impl<T: OnEvent> Sync for Listening<T> {}

impl<T: OnEvent> Listening<T> {
    /// Registers `listener` for the events of a device.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(device: &Device, listener: T, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        let raw = ib_event_handler {
            device: device.as_raw(),
            handler: Some(tell::<T>),
            ..pin_init::zeroed()
        };
        let init = pin_init!(RegisteredHandler {
            raw: Opaque::new(raw),
            listener,
        });
        let told = KBox::pin_init(init, GFP_KERNEL)?;
        // SAFETY: The structure does not move until it is unregistered, and the device is valid until then.
        unsafe { bindings::ib_register_event_handler(told.as_raw()) };
        // INVARIANT: The structure was just registered.
        Ok(Self {
            told,
            _device: device.hold(),
        })
    }

    /// The listener.
    pub fn listener(&self) -> &T {
        &self.told.listener
    }
}

impl<T: OnEvent> Drop for Listening<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the structure is registered. No handler runs when the function returns.
        unsafe { bindings::ib_unregister_event_handler(self.told.as_raw()) };
    }
}

/// # Safety
///
/// The core calls it with a handler that [`Listening::new`] has registered, and an event.
unsafe extern "C" fn tell<T: OnEvent>(handler: *mut ib_event_handler, event: *mut ib_event) {
    // SAFETY: By the safety requirements; handlers may sleep.
    unsafe {
        let raw = Opaque::cast_from(handler);
        let told: *const RegisteredHandler<T> =
            kernel::container_of!(raw, RegisteredHandler<T>, raw);
        (*told).listener.event(&Event(*event), &MaySleep::assume());
    }
}
