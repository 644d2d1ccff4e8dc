// SPDX-License-Identifier: GPL-2.0

//! Completion queues and their handlers: `struct ib_cq`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{mem::offset_of, ptr::NonNull};

use kernel::{prelude::*, sync::Arc};
use rdma_bindings::{self as bindings, ib_cq};

use crate::{
    abi::{cq::CqCreateFlags, event::CqEvent},
    handler::{HandlerOwner, HandlerWork},
    provider::{
        data::ProviderData,
        event::{new_event, EventSource, Events},
        object::{Base, Object},
    },
    Device,
};

/// A completion queue of a device of `P`.
pub type Cq<P> = Object<ib_cq, P, <P as ProviderData>::Cq, Arc<CqHandle>>;

/// The core's part of a CQ.
pub type CqBase<P> = Base<ib_cq, P>;

/// The attributes of a CQ that is to be created: `struct ib_cq_init_attr`.
#[derive(Clone, Copy, Debug)]
pub struct CqInitAttr {
    /// The least number of completions that the CQ must hold; not zero.
    pub cqe: u32,
    /// The completion vector, less than the device's `num_comp_vectors`.
    pub comp_vector: u32,
    /// The flags.
    pub flags: CqCreateFlags,
}

impl CqInitAttr {
    pub(crate) fn from_raw(raw: &bindings::ib_cq_init_attr) -> Self {
        Self {
            cqe: raw.cqe,
            comp_vector: raw.comp_vector,
            flags: CqCreateFlags::from_bits(raw.flags),
        }
    }
}

impl<P: ProviderData> Base<ib_cq, P> {
    /// The device that the CQ belongs to.
    #[inline]
    pub fn device(&self) -> &Device<P> {
        // SAFETY: The core has set `device`, which outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// Whether the CQ belongs to user space.
    #[inline]
    pub fn is_user(&self) -> bool {
        // SAFETY: By the type invariants; the field is constant, and set before the create method.
        unsafe { !(*self.as_raw()).uobject.is_null() }
    }

    /// Sets the number of completions that the CQ holds, which the core reports to its user.
    ///
    /// Called by the methods that create and resize a CQ, which the core serialises.
    #[inline]
    pub fn set_cqe(&self, cqe: u32) {
        let cqe = i32::try_from(cqe).unwrap_or(i32::MAX);
        // SAFETY: By the type invariants the CQ is valid; any value is valid, and a single store writes
        // it.
        unsafe { (&raw mut (*self.as_raw()).cqe).write_volatile(cqe) };
    }

    /// Whether a CQ of user space has a completion channel, for completion notifications.
    #[inline]
    pub fn has_channel(&self) -> bool {
        // SAFETY: By the type invariants. ib_uverbs sets the field before it creates the CQ.
        !unsafe { (*self.as_raw()).cq_context }.is_null()
    }

    /// The number of completions that the CQ holds.
    #[inline]
    pub fn cqe(&self) -> u32 {
        // SAFETY: By the type invariants the CQ is valid; any value is valid.
        let cqe = unsafe { (&raw const (*self.as_raw()).cqe).read_volatile() };
        u32::try_from(cqe).unwrap_or(0)
    }
}

/// A handle to the handlers of a CQ, which a driver keeps to call them.
///
/// Both methods may be called from any context. See [`event`](crate::provider::event) for the rules.
///
/// # Invariants
///
/// `cq` is valid until `completion` is disabled.
#[pin_data]
pub struct CqHandle {
    cq: NonNull<ib_cq>,
    #[pin]
    completion: HandlerWork,
    events: Arc<Events<ib_cq>>,
}

// SAFETY: Only the work item uses `cq`, and it may run on any thread.
unsafe impl Send for CqHandle {}
// SAFETY: Only the work item uses `cq`, and it may run on any thread.
unsafe impl Sync for CqHandle {}

impl CqHandle {
    /// Creates a handle to the handlers of `cq`.
    ///
    /// # Safety
    ///
    /// `cq` must stay valid until [`Self::close`] has returned, which must happen before the
    /// caller's reference is dropped.
    pub(crate) unsafe fn new(cq: NonNull<ib_cq>) -> Result<Arc<Self>> {
        // SAFETY: By the safety requirements; `close` closes the events too.
        let events = unsafe { Events::new(cq) }?;
        Arc::pin_init(
            pin_init!(Self {
                cq,
                completion <- HandlerWork::new::<Self>(kernel::static_lock_class!()),
                events,
            }),
            GFP_KERNEL,
        )
    }

    /// Schedules a call of the completion handler, in softirq context.
    ///
    /// The driver calls it for an armed CQ that has got the completion it was armed for, and disarms the
    /// CQ itself.
    #[inline]
    pub fn notify(&self) {
        // SAFETY: The work queue is a static. The object's owner holds a reference until it has called
        // `close`. The work item only reads the object.
        unsafe { HandlerWork::queue(NonNull::from(self), bindings::system_bh_wq) };
    }

    /// Reports `event` to the CQ's owner, in process context.
    #[inline]
    pub fn raise(&self, event: CqEvent) {
        self.events.raise_raw(event.as_raw());
    }

    /// Prevents further calls of the completion handler, and waits for the one that runs.
    pub(crate) fn close_completion(&self) {
        self.completion.disable();
    }

    /// Prevents further calls of the handlers, and waits for those that run.
    pub(crate) fn close(&self) {
        self.completion.disable();
        self.events.close();
    }
}

// SAFETY: `OFFSET` is the offset of the member `completion`.
unsafe impl HandlerOwner for CqHandle {
    const OFFSET: usize = offset_of!(Self, completion);

    /// Calls the completion handler.
    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: By the safety requirements; the handle is valid until the work item is disabled.
        let cq = unsafe { this.as_ref() }.cq.as_ptr();
        // SAFETY: By the type invariants `cq` is valid. The core sets the handler of a polled CQ after
        // it has created the CQ, so the field may be written concurrently.
        unsafe {
            if let Some(handler) = (&raw const (*cq).comp_handler).read_volatile() {
                handler(cq, (*cq).cq_context);
            }
        }
    }
}

impl EventSource for ib_cq {
    unsafe fn deliver(this: NonNull<Self>, event: u32) {
        let cq = this.as_ptr();
        // SAFETY: By the safety requirements; the core has set the fields before it has created the CQ,
        // and the handler takes an event of the CQ and the CQ's context.
        unsafe {
            let mut event = new_event(event);
            event.device = (*cq).device;
            event.element.cq = cq;
            if let Some(handler) = (*cq).event_handler {
                handler(&mut event, (*cq).cq_context);
            }
        }
    }
}
