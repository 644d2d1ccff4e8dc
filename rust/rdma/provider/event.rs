// SPDX-License-Identifier: GPL-2.0

//! Delivery of asynchronous events to the handlers of an object: `struct ib_event`.
//!
//! The rules of the midlayer: a handler is never called from within a method, never concurrently
//! with itself for one object, and not after the object is destroyed. So a driver never calls a
//! handler directly. It has a reference-counted handle of the object, which is made before the
//! create method runs, and raises events with it. The handle's work item calls the handler;
//! destruction disables the work item and waits for it. A handle that outlives its object has no
//! effect. Raising an event costs an atomic operation and `queue_work`, and may be done from any
//! context.
//!
//! An event that is raised again before its handler has run is delivered once.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    mem::offset_of,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

use kernel::{prelude::*, sync::Arc};
use rdma_bindings::{self as bindings, ib_event, ib_qp, ib_srq};

use crate::{
    abi::event::{QpEvent, SrqEvent},
    handler::{HandlerOwner, HandlerWork},
};

/// A type of objects with an event handler.
pub trait EventSource {
    /// Calls the object's event handler, if there is one.
    ///
    /// # Safety
    ///
    /// `this` must be an object that is not destroyed before this returns. The context must be
    /// process context, and calls for one object must not be concurrent.
    unsafe fn deliver(this: NonNull<Self>, event: u32);
}

/// The events of an object: the handle with which a driver raises them.
///
/// # Invariants
///
/// `source` is valid until `work` is disabled. An event `n` is pending if bit `n` is set.
#[pin_data]
pub struct Events<C: EventSource> {
    source: NonNull<C>,
    pending: AtomicU32,
    #[pin]
    work: HandlerWork,
}

// SAFETY: `source` is only used by the work item, which may run on any thread.
unsafe impl<C: EventSource> Send for Events<C> {}
// SAFETY: `source` is only used by the work item, which may run on any thread.
unsafe impl<C: EventSource> Sync for Events<C> {}

impl<C: EventSource> Events<C> {
    /// Creates the handle for the events of `source`.
    ///
    /// # Safety
    ///
    /// `source` must stay valid until [`Self::close`] has returned, which must happen before the
    /// caller's reference is dropped.
    pub(crate) unsafe fn new(source: NonNull<C>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                source,
                pending: AtomicU32::new(0),
                work <- HandlerWork::new::<Self>(kernel::static_lock_class!()),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn raise_raw(&self, event: u32) {
        self.pending.fetch_or(1 << event, Ordering::AcqRel);
        // SAFETY: The work queue is a static. The object's owner holds a reference until it has
        // called `Self::close`. The work item only reads the object.
        unsafe { HandlerWork::queue(NonNull::from(self), bindings::system_dfl_wq) };
    }

    /// Prevents further deliveries, and waits for the one that runs.
    pub(crate) fn close(&self) {
        self.work.disable();
    }
}

// SAFETY: `OFFSET` is the offset of the member `work`.
unsafe impl<C: EventSource> HandlerOwner for Events<C> {
    const OFFSET: usize = offset_of!(Self, work);

    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: By the safety requirements; the handle is valid until the work item is disabled.
        let this = unsafe { this.as_ref() };
        let mut pending = this.pending.swap(0, Ordering::AcqRel);
        while pending != 0 {
            let event = pending.trailing_zeros();
            pending &= pending - 1;
            // SAFETY: By the type invariants `source` is valid, since the work item is not disabled
            // yet; a work item does not run concurrently with itself.
            unsafe { C::deliver(this.source, event) };
        }
    }
}

/// The events of a QP. May be raised from any context.
pub type QpHandle = Events<ib_qp>;

impl QpHandle {
    /// Reports `event` to the QP's owner.
    #[inline]
    pub fn raise(&self, event: QpEvent) {
        self.raise_raw(event.as_raw());
    }
}

/// The events of an SRQ. May be raised from any context.
pub type SrqHandle = Events<ib_srq>;

impl SrqHandle {
    /// Reports `event` to the SRQ's owner.
    #[inline]
    pub fn raise(&self, event: SrqEvent) {
        self.raise_raw(event.as_raw());
    }
}

impl EventSource for ib_qp {
    unsafe fn deliver(this: NonNull<Self>, event: u32) {
        let qp = this.as_ptr();
        // SAFETY: By the safety requirements; the core has set the fields before it has created the
        // QP, and the handler takes an event of the QP and the QP's context.
        unsafe {
            let mut event = new_event(event);
            event.device = (*qp).device;
            event.element.qp = qp;
            if let Some(handler) = (*qp).event_handler {
                handler(&mut event, (*qp).qp_context);
            }
        }
    }
}

impl EventSource for ib_srq {
    unsafe fn deliver(this: NonNull<Self>, event: u32) {
        let srq = this.as_ptr();
        // SAFETY: By the safety requirements; the core has set the fields before it has created the
        // SRQ, and the handler takes an event of the SRQ and the SRQ's context.
        unsafe {
            let mut event = new_event(event);
            event.device = (*srq).device;
            event.element.srq = srq;
            if let Some(handler) = (*srq).event_handler {
                handler(&mut event, (*srq).srq_context);
            }
        }
    }
}

/// An event without a device, whose element is zeroed.
pub(crate) fn new_event(event: u32) -> ib_event {
    ib_event {
        event,
        ..pin_init::zeroed()
    }
}
