// SPDX-License-Identifier: GPL-2.0

//! A C identifier whose events a handler handles, and who owns it until a work item destroys it.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Node::live` | the C identifier of a node, until it ends | any, interrupts off | nothing |
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::{
    ops::Deref,
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
};

use kernel::{ffi::c_void, prelude::*, sync::Arc};
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use rdma::{
    bindings::{self, rdma_cm_id},
    client::{
        later::{End, Later, Reserved},
        Device,
    },
    MaySleep,
};

use crate::{calls::Calls, PortSpace};

/// The task that is in the handler of an identifier, if one is.
pub(crate) struct Turn(AtomicUsize);

impl Turn {
    fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(AtomicUsize::new(0)), GFP_KERNEL)?)
    }

    fn this_task() -> usize {
        core::ptr::from_ref(&**kernel::current!()).addr()
    }

    pub(super) fn begin(&self) {
        self.0.store(Self::this_task(), Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// # Errors
    ///
    /// `EDEADLK` if this task has the turn: only this one could have stored its number.
    fn check_outside(&self) -> Result {
        match self.0.load(Ordering::Relaxed) == Self::this_task() {
            true => Err(Error::from_errno(-(bindings::EDEADLK as i32))),
            false => Ok(()),
        }
    }
}

/// An identifier, and its handler, which stays until the identifier is destroyed.
#[pin_data]
pub(crate) struct Node<'d, K, H: Send + Sync> {
    #[pin]
    live: SpinLockIrq<Option<Later<'d, Live<'d, K, H>>>>,
    pub(super) turn: Arc<Turn>,
    pub(super) handler: H,
    /// The device, whose removal waits until the handler is dropped.
    pub(super) device: Device<'d>,
}

/// A C identifier.
///
/// # Invariants
///
/// `self` owns the identifier, which is of the port space `K`, and whose context is `node`.
pub(crate) struct Live<'d, K, H: Send + Sync> {
    raw: NonNull<rdma_cm_id>,
    /// Handlers use it: it is here for them.
    _node: Arc<Node<'d, K, H>>,
}

// SAFETY: Identifiers may be used from any thread, and so may handlers.
unsafe impl<'d, K, H: Send + Sync> Send for Live<'d, K, H> {}
// SAFETY: Identifiers may be used from any thread, and so may handlers.
unsafe impl<'d, K, H: Send + Sync> Sync for Live<'d, K, H> {}

impl<'d, K: PortSpace, H: Send + Sync> Deref for Live<'d, K, H> {
    type Target = Calls<'d, K>;

    fn deref(&self) -> &Calls<'d, K> {
        // SAFETY: By the type invariants.
        unsafe { Calls::from_raw(self.raw) }
    }
}

impl<'d, K, H: Send + Sync> End for Live<'d, K, H> {
    fn end(&self, _sleep: &MaySleep) {
        // SAFETY: By the type invariants `self` owns the identifier, and there are no users. No handler runs when the function returns.
        unsafe { bindings::rdma_destroy_id(self.raw.as_ptr()) };
    }
}

impl<'d, K, H: Send + Sync> Node<'d, K, H> {
    pub(super) fn new(device: &Device<'d>, handler: H) -> Result<Arc<Self>> {
        let init = try_pin_init!(Self {
            live <- new_spinlock_irq!(None, "Node::live"),
            turn: Turn::new()?,
            handler,
            device: device.clone(),
        }? Error);
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Makes a new C identifier that of the node.
    ///
    /// # Safety
    ///
    /// The identifier is of the port space `K`, its context is the node, and its owner gives it up.
    pub(super) unsafe fn own(
        self: &Arc<Self>,
        room: Reserved<'d, Live<'d, K, H>>,
        raw: NonNull<rdma_cm_id>,
    ) {
        // INVARIANT: By the safety requirements.
        let live = Live {
            raw,
            _node: self.clone(),
        };
        *self.live.lock() = Some(room.fill(&self.device, live));
    }

    pub(super) fn context(self: &Arc<Self>) -> *mut c_void {
        Arc::as_ptr(self).cast_mut().cast()
    }

    /// Lets a work item destroy the identifier, when it is in use no more. Any context.
    pub(super) fn end(&self) {
        let live = self.live.lock().take();
        drop(live);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.live.lock().is_none()
    }

    /// The identifier, for whoever is not in its handler.
    pub(super) fn outside(&self) -> Result<Later<'d, Live<'d, K, H>>> {
        self.turn.check_outside()?;
        self.live.lock().clone().ok_or(ENXIO)
    }
}
