// SPDX-License-Identifier: GPL-2.0

//! Events on their way from a driver to the handlers.
//!
//! `ib_dispatch_event` may be called in any context, a hard interrupt included. It appends the event to its device's queue;
//! a work item takes the events from there in their order, first brings the caches up to date where an event tells of
//! a change of theirs, and then calls the handlers. So events of a device are never delivered out of order, and what
//! a handler asks the caches is not older than the event.
//!
//! A change of a port's GIDs is not delivered from here: the GID table delivers one for each entry that changed.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `EventQueue::pending` | events that wait | any context | the allocator |

use kernel::{prelude::*, sync::Arc, workqueue::WorkItem};
use kernel_ext::{bindings, door::Const, export::export, work};
use rdma::{
    core::{Device, EventView},
    MaySleep,
};

use super::{
    queue::ib_wq,
    state::{EventQueue, Waiting},
};
use crate::{
    gid::cache_update,
    private::DeviceExt,
    registry::event::{self, Event},
};

/// What brings a port's caches up to date before an event is delivered that tells of their change.
///
/// Where one fails, the event is not delivered. The areas that cache add a line each.
const UPDATE_CACHES: &[fn(&Device, &Event, &MaySleep) -> Result] = &[cache_update::before_event];

impl WorkItem for EventQueue {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // SAFETY: Work items of this queue run in process context.
        let sleep = &unsafe { MaySleep::assume() };
        loop {
            let events = core::mem::take(&mut this.pending.lock().events);
            if events.is_empty() {
                return;
            }
            for Waiting { device, event } in events {
                handle(&device, &event, sleep);
            }
        }
    }
}

/// Whether an event tells of something that is cached.
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

/// Lets events of a device in.
pub(crate) fn open(device: &Device, _sleep: &MaySleep) -> Result {
    device.core().dispatch.pending.lock().open = true;
    Ok(())
}

/// Waits until the events that are on their way are delivered; later ones are nobody's.
pub(crate) fn close(device: &Device, sleep: &MaySleep) {
    let queue = &device.core().dispatch;
    queue.pending.lock().open = false;
    work::flush(queue, sleep);
}

/// Sends an event on its way. Any context.
///
/// An event for which there is no memory is lost, as it is where nobody listens.
pub(crate) fn dispatch(device: &Device, event: Event) {
    let queue = &device.core().dispatch;
    let Some(workers) = ib_wq.get() else {
        return;
    };
    let waiting = Waiting {
        device: device.hold(),
        event,
    };
    let mut pending = queue.pending.lock();
    // A reference that is given up here is not the last: the caller has one.
    if !pending.open || pending.events.push(waiting, GFP_ATOMIC).is_err() {
        return;
    }
    // Under the lock: who closes the queue waits for the work of all events that it has taken.
    work::enqueue(workers, queue);
}

/// Tells the handlers of a device of what happened to it, later and in order. Any context.
///
/// C header: `include/rdma/ib_verbs.h`.
#[export]
fn ib_dispatch_event(event: Const<'_, EventView>) {
    let event = event.get();
    // SAFETY: A driver raises the event of a device of its own.
    let device = unsafe { event.device() };
    dispatch(device, event);
}
