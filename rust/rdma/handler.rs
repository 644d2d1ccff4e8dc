// SPDX-License-Identifier: GPL-2.0

//! Work items that call the handlers of an object: `struct work_struct` of `include/linux/workqueue_types.h`.

use core::ptr::NonNull;

use kernel::{prelude::*, types::Opaque};
use rdma_bindings::{self as bindings, work_struct, workqueue_struct};

/// An object with a [`HandlerWork`], which calls the object's handlers.
///
/// # Safety
///
/// `OFFSET` is the offset of the [`HandlerWork`] in `Self`.
pub(crate) unsafe trait HandlerOwner: Sized {
    /// The offset of the work item in bytes.
    const OFFSET: usize;

    /// Calls the handlers.
    ///
    /// # Safety
    ///
    /// `this` is the object that [`HandlerWork::queue`] was called with, and is valid. Only the work item calls this, once for
    /// each time that it was queued, and never concurrently with itself.
    unsafe fn run(this: NonNull<Self>);
}

/// A work item in a reference-counted handle.
///
/// # Invariants
///
/// The work item is initialised, and is not pending once [`Self::disable`] has returned.
#[repr(transparent)]
pub(crate) struct HandlerWork(Opaque<work_struct>);

// SAFETY: `struct work_struct` may be used from any thread: it is changed atomically or under the locks of the work queue.
unsafe impl Send for HandlerWork {}

// SAFETY: `struct work_struct` may be used from any thread: it is changed atomically or under the locks of the work queue.
unsafe impl Sync for HandlerWork {}

impl HandlerWork {
    /// Returns an initializer of the work item of a `T`, with the lock class `key`.
    pub(crate) fn new<T: HandlerOwner>(
        key: Pin<&'static kernel::sync::LockClassKey>,
    ) -> impl PinInit<Self> {
        let name = kernel_ext::class_name!("rdma_handler");
        let init = move |slot: *mut Self| {
            // SAFETY: `slot` is valid for writes, and pinned from here on.
            unsafe {
                bindings::init_work_with_key(
                    Opaque::cast_into(slot.cast()),
                    Some(Self::run::<T>),
                    false,
                    name.as_char_ptr(),
                    key.as_ptr(),
                )
            };
            Ok(())
        };
        // SAFETY: The closure initialises all of the slot, and returns `Ok`.
        unsafe { pin_init::pin_init_from_closure(init) }
    }

    /// Queues the work item of `owner` on `queue`; does nothing if the item is pending or disabled.
    ///
    /// # Safety
    ///
    /// `queue` must be a valid work queue. The work item of `owner` must have been initialised with [`Self::new`] for a `T`, and
    /// `owner` must be valid until [`Self::disable`] has returned, or the work item has run for the last time. The provenance of
    /// `owner` must permit all that [`HandlerOwner::run`] does to the object.
    #[inline]
    pub(crate) unsafe fn queue<T: HandlerOwner>(owner: NonNull<T>, queue: *mut workqueue_struct) {
        let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32;
        // SAFETY: By the safety requirements; by those of the trait the work item is `T::OFFSET` bytes inside the object. Its
        // pointer has the provenance of the whole object, so that `run` may go back to the object's beginning.
        unsafe {
            let work = owner.byte_add(T::OFFSET).cast::<work_struct>();
            bindings::queue_work_on(cpu, queue, work.as_ptr());
        }
    }

    /// The work function.
    ///
    /// # Safety
    ///
    /// `work` is the pointer that [`Self::queue`] derived from a `T`, which is still valid.
    unsafe extern "C" fn run<T: HandlerOwner>(work: *mut work_struct) {
        // SAFETY: By the safety requirements the object begins `T::OFFSET` bytes before the work item.
        unsafe { T::run(NonNull::new_unchecked(work).byte_sub(T::OFFSET).cast()) };
    }

    /// Prevents further runs, and waits for the one that is under way. May sleep.
    pub(crate) fn disable(&self) {
        // SAFETY: By the type invariants the work item is initialised.
        unsafe { bindings::disable_work_sync(self.0.get()) };
    }
}
