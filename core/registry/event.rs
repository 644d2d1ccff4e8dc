// SPDX-License-Identifier: GPL-2.0

//! Event handlers: who is told of a device's events, and how.
//!
//! Handlers are called in process context, in the order of their registration, one at a time for a device, with no
//! lock held: a handler may register and unregister handlers, itself too. When `ib_unregister_event_handler` returns, the
//! handler does not run and will not, unless it is the handler that called it.
//!
//! How an event comes here is told in [`dispatch`](crate::device::dispatch).
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Handlers::state` | the list, and where a delivery is | process context | nothing |

use kernel_ext::export::export;
use rdma::{
    view::{event::HandlerRef, Device, EventHandler},
    MaySleep,
};

pub(crate) use rdma::view::event::Event;

use super::state::{Delivery, Handlers, Me};
use crate::private::DeviceExt;

impl Handlers {
    fn add(&self, handler: HandlerRef) {
        self.state.lock().list.push(handler);
    }

    /// Takes a handler out and waits until it does not run.
    fn remove(&self, handler: HandlerRef) {
        let mut state = self.state.lock();
        let after = state.list.after(handler);
        if !state.list.remove(handler) {
            return;
        }
        if let Some(delivery) = &mut state.delivery {
            if delivery.next == Some(handler) {
                delivery.next = after;
            }
        }
        while state
            .delivery
            .as_ref()
            .is_some_and(|delivery| delivery.running == handler && delivery.by != Me::current())
        {
            self.progress.wait(&mut state);
        }
    }

    /// Begins a delivery: returns the first handler.
    fn begin(&self) -> Option<HandlerRef> {
        let mut state = self.state.lock();
        while state.delivery.is_some() {
            self.progress.wait(&mut state);
        }
        let running = state.list.first()?;
        let next = state.list.after(running);
        state.delivery = Some(Delivery {
            by: Me::current(),
            running,
            next,
        });
        Some(running)
    }

    /// Goes on to the next handler, or ends the delivery.
    fn go_on(&self) -> Option<HandlerRef> {
        let mut state = self.state.lock();
        let next = state.delivery.as_ref().and_then(|delivery| delivery.next);
        match next {
            None => state.delivery = None,
            Some(running) => {
                let next = state.list.after(running);
                if let Some(delivery) = &mut state.delivery {
                    delivery.running = running;
                    delivery.next = next;
                }
            }
        }
        self.progress.notify_all();
        next
    }
}

/// Calls the handlers of a device, now. Not from a handler.
///
/// Events that drivers raise go through [`dispatch`](crate::device::dispatch); this is for who has already brought up to date what
/// the event tells of.
pub(crate) fn deliver(device: &Device, event: &Event, sleep: &MaySleep) {
    let handlers = &device.core().handlers;
    let mut at = handlers.begin();
    while let Some(handler) = at {
        // SAFETY: The handler was in the list when the delivery came to it, and who takes it out waits until the delivery
        // has gone on.
        unsafe { handler.call(event, sleep) };
        at = handlers.go_on();
    }
}

/// Asks to be told of a device's events. Process context.
#[export]
fn ib_register_event_handler(event_handler: &EventHandler, _sleep: &MaySleep) {
    let handlers = &event_handler.device().core().handlers;
    handlers.add(HandlerRef::new(event_handler));
}

/// Asks not to be told any more. When this returns, the handler does not run. Process context.
#[export]
fn ib_unregister_event_handler(event_handler: &EventHandler, _sleep: &MaySleep) {
    let handlers = &event_handler.device().core().handlers;
    handlers.remove(HandlerRef::new(event_handler));
}
