// SPDX-License-Identifier: GPL-2.0

//! The state of draining a queue pair, and the completions of the last request of its queues: `struct ib_cqe`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::sync::atomic::{AtomicBool, Ordering};

use kernel::{prelude::*, types::Opaque};
use kernel_ext::sync::Completion;
use rdma_bindings::{ib_cq, ib_cqe, ib_wc};

/// The state of draining a queue pair.
#[pin_data]
pub(super) struct Drain {
    #[pin]
    pub(super) sends: DrainCqe,
    #[pin]
    pub(super) receives: DrainCqe,
    /// It takes no more requests from its SRQ: the device has said so.
    pub(super) is_last_wqe_reached: AtomicBool,
    /// It may have taken requests from its SRQ.
    pub(super) has_received: AtomicBool,
}

impl Drain {
    pub(super) fn new() -> Result<Pin<KBox<Self>>> {
        let init = pin_init!(Self {
            sends <- DrainCqe::new(),
            receives <- DrainCqe::new(),
            is_last_wqe_reached: AtomicBool::new(false),
            has_received: AtomicBool::new(false),
        });
        KBox::pin_init(init, GFP_KERNEL)
    }

    /// The queue pair takes no more requests from its SRQ.
    pub(super) fn last_wqe_reached(&self) {
        self.is_last_wqe_reached.store(true, Ordering::Release);
    }

    /// The queue pair is ready to receive.
    pub(super) fn begin_receiving(&self) {
        self.has_received.store(true, Ordering::Release);
    }

    /// The queue pair was reset.
    pub(super) fn reset(&self) {
        self.is_last_wqe_reached.store(false, Ordering::Release);
        self.has_received.store(false, Ordering::Release);
    }
}

/// The completion of the last request of a queue.
#[pin_data]
pub(super) struct DrainCqe {
    #[pin]
    cqe: Opaque<ib_cqe>,
    #[pin]
    pub(super) done: Completion,
}

impl DrainCqe {
    fn new() -> impl PinInit<Self> {
        let cqe = ib_cqe {
            done: Some(drain_done),
        };
        pin_init!(Self {
            cqe: Opaque::new(cqe),
            done <- Completion::new(),
        })
    }

    /// What the completion names: a pointer made of the whole, to which [`drain_done`] goes back.
    pub(super) fn as_cqe(&self) -> *mut ib_cqe {
        let offset = core::mem::offset_of!(Self, cqe);
        let this = core::ptr::from_ref(self).cast_mut();
        this.wrapping_byte_add(offset).cast()
    }
}

// SAFETY: What the completion names is for all threads.
unsafe impl Send for DrainCqe {}
// SAFETY: As above.
unsafe impl Sync for DrainCqe {}

/// A C entry point: the last request of a queue is completed.
///
/// # Safety
///
/// The completion names the `cqe` of a [`DrainCqe`].
unsafe extern "C" fn drain_done(_cq: *mut ib_cq, wc: *mut ib_wc) {
    // SAFETY: By the safety requirements; who waits does so until this has told it.
    unsafe {
        let cqe = Opaque::cast_from((*wc).__bindgen_anon_1.wr_cqe);
        let last: *const DrainCqe = kernel::container_of!(cqe, DrainCqe, cqe);
        (*last).done.complete();
    }
}
