// SPDX-License-Identifier: GPL-2.0

//! Completion queues: `struct ib_cq`. Their pollers are in `cq/poll.rs`, the pools of a device in `cq/pool.rs`.
//!
//! C header: `include/rdma/ib_verbs.h`.

mod poll;
mod pool;

pub use poll::{
    Batch, ClientCq, Completion, NewCq, PolledBatch, Poller, Polling, SoftirqIdle, SoftirqTurn,
    Turn, WorkTurn, BATCH,
};
pub use pool::{CqPool, RemovedCq};

use kernel::{ffi::c_void, prelude::*};
use kernel_ext::entry::view_of;
use rdma_bindings::{ib_comp_handler, ib_cq, ib_cq_init_attr, ib_event, ib_wc};

use super::{
    callback::{Context, Handler},
    object::{constants, counted, driver_object, links, tracked, Fresh},
    Cq, Device,
};
use crate::MaySleep;

/// A C handler of an object's asynchronous events; `None` is a null pointer.
pub type EventFn = Option<unsafe extern "C" fn(*mut ib_event, *mut c_void)>;

driver_object!(Cq, size_ib_cq; RDMA_RESTRACK_CQ);
counted!(Cq);
tracked!(Cq);

view_of! {
    /// The attributes of a completion queue that is to be created: `struct ib_cq_init_attr`.
    pub struct CqInit(ib_cq_init_attr);
}

impl CqInit {
    constants! {
        /// The number of completions that it holds, at least.
        cqe: u32 = cqe;
    }
}

/// The attributes of a completion queue that the core itself creates.
pub struct OwnCqInit(ib_cq_init_attr);

impl OwnCqInit {
    /// Attributes of a queue of `cqe` completions with this completion vector.
    pub fn new(cqe: u32, comp_vector: u32) -> Self {
        Self(ib_cq_init_attr {
            cqe,
            comp_vector,
            flags: 0,
        })
    }

    /// The attributes as drivers take them.
    pub fn view(&self) -> &CqInit {
        // SAFETY: A view is a transparent wrapper; the attributes do not change while `self` is borrowed.
        unsafe { &*core::ptr::from_ref(&self.0).cast() }
    }
}

impl Cq {
    links! {
        /// The device.
        device: Device = device;
    }
    constants! {
        /// The completion vector.
        comp_vector: u32 = comp_vector;
        /// `enum ib_poll_context`: the context in which the queue is polled.
        poll_ctx: u32 = poll_ctx;
    }

    /// The number of completions that the queue holds. Resizing the queue changes it.
    #[inline]
    pub fn cqe(&self) -> u32 {
        // SAFETY: The driver writes the number by a single store.
        let cqe = unsafe { (&raw const (*self.as_raw()).cqe).read_volatile() };
        u32::try_from(cqe).unwrap_or(0)
    }

    /// Whether the queue belongs to a pool of the device.
    #[inline]
    pub fn is_shared(&self) -> bool {
        // SAFETY: Only the owner writes the bit, before the queue is in a pool and after it was removed.
        unsafe { ib_cq::shared_raw(self.as_raw()) != 0 }
    }

    /// Whether users of the pool have reserved completions in the queue.
    #[inline]
    pub fn is_claimed(&self) -> bool {
        self.claimed() != 0
    }

    /// The number of completions that users of the pool have reserved.
    #[inline]
    pub fn claimed(&self) -> u32 {
        // SAFETY: Any value is valid; a writer uses a single store.
        unsafe { (&raw const (*self.as_raw()).cqe_used).read_volatile() }
    }

    fn set_claimed(&self, count: u32) {
        // SAFETY: Any value is valid, and a single store writes it.
        unsafe { (&raw mut (*self.as_raw()).cqe_used).write_volatile(count) };
    }
}

impl Fresh<Cq> {
    /// Allocates a completion queue with these handlers.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_cq(device: &Device, handlers: CqHandlers, sleep: &MaySleep) -> Result<Self> {
        let mut cq = Self::alloc(device, Some(sleep))?;
        let raw: &mut ib_cq = cq.raw();
        raw.device = device.as_raw();
        raw.comp_handler = handlers.completion;
        raw.event_handler = handlers.event;
        raw.cq_context = handlers.context;
        Ok(cq)
    }
}

/// The handlers of a completion queue, with their context.
///
/// # Invariants
///
/// The handlers may be called with the context until the queue is destroyed.
pub struct CqHandlers {
    completion: ib_comp_handler,
    event: EventFn,
    context: *mut c_void,
}

impl CqHandlers {
    /// The handlers of a client in C.
    pub fn new<'a>(
        completion: Handler<'a, ib_comp_handler>,
        event: Handler<'a, EventFn>,
        context: Context<'a>,
    ) -> Self {
        let (completion, _) = completion.with(context).parts();
        let (event, context) = event.with(context).parts();
        // INVARIANT: By the header the client keeps its handlers and their context until it has destroyed the queue.
        Self {
            completion,
            event,
            context,
        }
    }

    /// Handlers in Rust.
    ///
    /// # Safety
    ///
    /// The handlers may be called with the context until the queue is destroyed.
    pub unsafe fn from_raw(
        completion: ib_comp_handler,
        event: EventFn,
        context: *mut c_void,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            completion,
            event,
            context,
        }
    }
}

view_of! {
    /// A completion that a client of the kernel has polled.
    ///
    /// # Invariants
    ///
    /// The completion is filled in, and does not change while it is borrowed.
    pub struct WcView(ib_wc);
}

impl WcView {
    /// A copy.
    #[inline]
    pub fn get(&self) -> ib_wc {
        // SAFETY: By the type invariants the completion is filled in, and does not change.
        unsafe { *self.as_raw() }
    }
}
