// SPDX-License-Identifier: GPL-2.0

//! The state of draining a queue pair, and the completion handlers of its drain requests: `struct ib_cqe`.
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
    /// Whether the device has reported the last request from the SRQ.
    pub(super) is_last_wqe_reached: AtomicBool,
    /// Whether it may have taken requests from its SRQ.
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

    /// Records that the queue pair takes no more requests from its SRQ.
    pub(super) fn last_wqe_reached(&self) {
        self.is_last_wqe_reached.store(true, Ordering::Release);
    }

    /// Records that the queue pair is ready to receive.
    pub(super) fn begin_receiving(&self) {
        self.has_received.store(true, Ordering::Release);
    }

    /// Records that the queue pair was reset.
    pub(super) fn reset(&self) {
        self.is_last_wqe_reached.store(false, Ordering::Release);
        self.has_received.store(false, Ordering::Release);
    }
}

/// The completion handler of a drain request.
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

    /// The `wr_cqe` of the drain request. The pointer has the provenance of the whole, to which [`drain_done`]
    /// goes back.
    pub(super) fn as_cqe(&self) -> *mut ib_cqe {
        let offset = core::mem::offset_of!(Self, cqe);
        let this = core::ptr::from_ref(self).cast_mut();
        this.wrapping_byte_add(offset).cast()
    }
}

// SAFETY: The members may be used from any thread: the handler is constant, and the completion synchronises.
unsafe impl Send for DrainCqe {}
// SAFETY: The members may be used from any thread: the handler is constant, and the completion synchronises.
unsafe impl Sync for DrainCqe {}

/// The C entry point for the completion of a drain request.
///
/// # Safety
///
/// The `wr_cqe` of the completion is the `cqe` of a valid [`DrainCqe`].
unsafe extern "C" fn drain_done(_cq: *mut ib_cq, wc: *mut ib_wc) {
    // SAFETY: By the safety requirements; the waiter keeps the structure until this has completed it.
    unsafe {
        let cqe = Opaque::cast_from((*wc).__bindgen_anon_1.wr_cqe);
        let last: *const DrainCqe = kernel::container_of!(cqe, DrainCqe, cqe);
        (*last).done.complete();
    }
}
