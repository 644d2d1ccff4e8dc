// SPDX-License-Identifier: GPL-2.0

//! Dispatching events from drivers to event handlers.
//!
//! `ib_dispatch_event` may be called in any context, including hard interrupts. It appends the event to its device's
//! queue. A work item takes events from the queue in order, updates the caches that the event affects, and then calls
//! the handlers. So events of a device are delivered in order, and a handler never reads a cache older than the event.
//!
//! GID change events do not pass here: the GID table delivers one for each entry that has changed.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `EventQueue::pending` | the queued events | any context | the allocator |
//!
//! C header: `include/rdma/ib_verbs.h` (`ib_dispatch_event`).

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    bindings,
    entry::Const,
    export::export,
    sleepable::{self, SleepableWork},
};
use rdma::{
    core::{Device, EventView},
    MaySleep,
};

use super::{
    queue::ib_wq,
    state::{EventQueue, QueuedEvent},
};
use crate::{
    gid::cache_update,
    private::DeviceExt,
    registry::event::{self, Event},
};

/// Updates of a port's caches before an event is delivered.
///
/// If one fails, the event is not delivered.
const UPDATE_CACHES: &[fn(&Device, &Event, &MaySleep) -> Result] = &[cache_update::before_event];

impl SleepableWork for EventQueue {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        loop {
            let events = core::mem::take(&mut this.pending.lock().events);
            if events.is_empty() {
                return;
            }
            for QueuedEvent { device, event } in events {
                // SAFETY: Events are queued while the queue is open. Unregistration, which the driver waits for, closes it and waits
                // for this work.
                handle(unsafe { device.with_driver() }, &event, sleep);
            }
        }
    }
}

/// Whether an event affects a cache.
fn is_cached(event: &Event) -> bool {
    matches!(
        event.kind(),
        bindings::IB_EVENT_PORT_ERR
            | bindings::IB_EVENT_PORT_ACTIVE
            | bindings::IB_EVENT_LID_CHANGE
            | bindings::IB_EVENT_PKEY_CHANGE
            | bindings::IB_EVENT_CLIENT_REREGISTER
            | bindings::IB_EVENT_GID_CHANGE
    )
}

fn handle(device: &Device, event: &Event, sleep: &MaySleep) {
    if is_cached(event) {
        for update in UPDATE_CACHES {
            if update(device, event, sleep).is_err() {
                return;
            }
        }
    }
    if event.kind() != bindings::IB_EVENT_GID_CHANGE {
        event::deliver(device, event, sleep);
    }
}

/// Starts accepting events of a device.
pub(crate) fn open(device: &Device, _sleep: &MaySleep) -> Result {
    device.core().dispatch.pending.lock().open = true;
    Ok(())
}

/// Waits until the queued events are delivered; later ones are dropped.
pub(crate) fn close(device: &Device, sleep: &MaySleep) {
    let queue = &device.core().dispatch;
    queue.pending.lock().open = false;
    sleepable::flush(queue, sleep);
}

/// Queues an event. Any context.
///
/// If memory is short, the event is lost.
pub(crate) fn dispatch(device: &Device, event: Event) {
    let queue = &device.core().dispatch;
    let queued = QueuedEvent {
        device: device.hold(),
        event,
    };
    let mut pending = queue.pending.lock();
    // The reference dropped here is not the last: the caller has one.
    if !pending.open || pending.events.push(queued, GFP_ATOMIC).is_err() {
        return;
    }
    // Under the lock, so that `close` flushes the work of each accepted event.
    ib_wq.with(|workers| sleepable::enqueue(workers, queue));
}

/// Dispatches an event to the handlers of a device, asynchronously and in order. Any context.
///
/// C header: `include/rdma/ib_verbs.h`.
#[export]
fn ib_dispatch_event(event: Const<'_, EventView>) {
    dispatch(event.device(), event.get());
}
