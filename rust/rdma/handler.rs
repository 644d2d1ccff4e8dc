// SPDX-License-Identifier: GPL-2.0

//! Work items that call the handlers of an object: `struct work_struct` of `include/linux/workqueue_types.h`.

use kernel::{prelude::*, types::Opaque};
use rdma_bindings::{self as bindings, work_struct, workqueue_struct};

/// A work item inside of a counted handle.
///
/// # Invariants
///
/// The work item is initialised, and is not pending once [`Self::disable`] has returned.
#[repr(transparent)]
pub(crate) struct HandlerWork(Opaque<work_struct>);

// SAFETY: Work items may be used from any thread.
unsafe impl Send for HandlerWork {}

// SAFETY: As above.
unsafe impl Sync for HandlerWork {}

impl HandlerWork {
    /// A work item which calls `run`.
    pub(crate) fn new(
        run: unsafe extern "C" fn(*mut work_struct),
        key: Pin<&'static kernel::sync::LockClassKey>,
    ) -> impl PinInit<Self> {
        let name = kernel_ext::class_name!("rdma_handler");
        let init = move |slot: *mut Self| {
            // SAFETY: `slot` is room for a work item that stays where it is.
            unsafe {
                bindings::init_work_with_key(
                    Opaque::cast_into(slot.cast()),
                    Some(run),
                    false,
                    name.as_char_ptr(),
                    key.as_ptr(),
                )
            };
            Ok(())
        };
        // SAFETY: The closure initialises the slot, and cannot fail.
        unsafe { pin_init::pin_init_from_closure(init) }
    }

    /// Queues the work item; does nothing if it is pending or disabled.
    ///
    /// # Safety
    ///
    /// `queue` must be a work queue. Until [`Self::disable`] has returned, `self` must stay.
    #[inline]
    pub(crate) unsafe fn queue(&self, queue: *mut workqueue_struct) {
        let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32;
        // SAFETY: By the type invariants and the safety requirements.
        unsafe { bindings::queue_work_on(cpu, queue, self.0.get()) };
    }

    /// Prevents further runs and waits for the present one. Sleeps, for a handler that sleeps.
    pub(crate) fn disable(&self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::disable_work_sync(self.0.get()) };
    }
}
