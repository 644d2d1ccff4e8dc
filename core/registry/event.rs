// SPDX-License-Identifier: GPL-2.0

//! Event handlers of a device, and the delivery of events to them.
//!
//! Handlers are called in process context, in the order of registration, one at a time for a device, with no lock held:
//! a handler may register and unregister handlers, including itself. When `ib_unregister_event_handler` returns, the
//! handler is not running and will not run, except when called from the handler itself.
//!
//! [`dispatch`](crate::device::dispatch) describes how events get here.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Handlers::state` | the list of handlers, and the position of a delivery | process context | nothing |
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_event_handler`).

use kernel::prelude::*;
use kernel_ext::export::export;
use rdma::{
    core::{
        event::{HandlerRef, NewHandler},
        DeviceMemory, EventHandler,
    },
    MaySleep,
};

pub(crate) use rdma::core::event::Event;

use super::state::{Delivery, Handlers, HandlersState, TaskId};
use crate::private::DeviceExt;

impl HandlersState {
    /// Starts a delivery: returns the first handler, if there is one.
    fn begin(&mut self) -> Option<HandlerRef> {
        let running = self.list.first()?;
        let next = self.list.after(running);
        self.delivery = Some(Delivery {
            by: TaskId::current(),
            running,
            next,
        });
        Some(running)
    }

    /// Starts the delivery of the next event that handlers have raised, if there is one.
    fn next_raised(&mut self, event: &mut Event) -> Option<HandlerRef> {
        if self.raised.is_empty() {
            return None;
        }
        *event = self.raised.remove(0).ok()?;
        let first = self.begin();
        if first.is_none() {
            self.raised = KVec::new();
        }
        first
    }
}

impl Handlers {
    fn add(&self, handler: NewHandler<'_>) {
        self.state.lock().list.push(handler);
    }

    /// Removes a handler and waits until it is not running.
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
            .is_some_and(|delivery| delivery.running == handler && delivery.by != TaskId::current())
        {
            self.progress.wait(&mut state);
        }
    }

    /// Starts a delivery: returns the first handler.
    ///
    /// Called from a handler, it queues the event until the running delivery ends; the event is lost if memory is
    /// short.
    fn begin(&self, event: &Event) -> Option<HandlerRef> {
        let mut state = self.state.lock();
        while let Some(delivery) = &state.delivery {
            if delivery.by == TaskId::current() {
                if state.raised.push(*event, GFP_KERNEL).is_err() {
                    pr_warn!("no memory for an event that a handler has caused\n");
                }
                return None;
            }
            self.progress.wait(&mut state);
        }
        state.begin()
    }

    /// Advances to the next handler, or to the next event that handlers have raised, or ends the delivery.
    fn advance(&self, event: &mut Event) -> Option<HandlerRef> {
        let mut state = self.state.lock();
        let next = state.delivery.as_ref().and_then(|delivery| delivery.next);
        let next = match next {
            None => {
                state.delivery = None;
                state.next_raised(event)
            }
            Some(running) => {
                let next = state.list.after(running);
                if let Some(delivery) = &mut state.delivery {
                    delivery.running = running;
                    delivery.next = next;
                }
                Some(running)
            }
        };
        self.progress.notify_all();
        next
    }
}

/// Calls the handlers of a device now. From within a handler: after the running delivery.
///
/// Events of drivers pass through [`dispatch`](crate::device::dispatch); this function is for callers that have updated
/// the affected caches already.
pub(crate) fn deliver(device: &DeviceMemory, event: &Event, sleep: &MaySleep) {
    let handlers = &device.core().handlers;
    let mut event = *event;
    let mut at = handlers.begin(&event);
    while let Some(handler) = at {
        // SAFETY: The handler was in the list when the delivery reached it, and the function that removes it waits until the
        // delivery has advanced.
        unsafe { handler.call(&event, sleep) };
        at = handlers.advance(&mut event);
    }
}

/// Registers an event handler. Process context.
#[export]
fn ib_register_event_handler(event_handler: NewHandler<'_>, _sleep: &MaySleep) {
    let device = event_handler.device().hold();
    device.core().handlers.add(event_handler);
}

/// Unregisters an event handler. When this returns, it is not running. Process context.
#[export]
fn ib_unregister_event_handler(event_handler: &EventHandler, _sleep: &MaySleep) {
    let handlers = &event_handler.device().core().handlers;
    handlers.remove(HandlerRef::of(event_handler));
}
