// SPDX-License-Identifier: GPL-2.0

//! Work items that call the handlers of an object: `struct work_struct` of `include/linux/workqueue_types.h`.

use core::ptr::NonNull;

use kernel::{prelude::*, types::Opaque};
use rdma_bindings::{self as bindings, work_struct, workqueue_struct};

/// An object with a work item, which calls its handlers.
///
/// # Safety
///
/// `OFFSET` is where the object's [`HandlerWork`] is in it.
pub(crate) unsafe trait HandlerOwner: Sized {
    /// Where the work item is.
    const OFFSET: usize;

    /// Calls the handlers.
    ///
    /// # Safety
    ///
    /// `this` is the object that [`HandlerWork::queue`] was called with, and is there. The work item calls it, once each time that it
    /// was queued, and not twice at once.
    unsafe fn run(this: NonNull<Self>);
}

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
    /// The work item of a `T`.
    pub(crate) fn new<T: HandlerOwner>(
        key: Pin<&'static kernel::sync::LockClassKey>,
    ) -> impl PinInit<Self> {
        let name = kernel_ext::class_name!("rdma_handler");
        let init = move |slot: *mut Self| {
            // SAFETY: `slot` is room for a work item that stays where it is.
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
        // SAFETY: The closure initialises the slot, and cannot fail.
        unsafe { pin_init::pin_init_from_closure(init) }
    }

    /// Queues the work item of `owner`; does nothing if it is pending or disabled.
    ///
    /// # Safety
    ///
    /// `queue` must be a work queue. `owner` must have been initialised with [`Self::new`] for a `T`, and must stay until
    /// [`Self::disable`] has returned, or the work item has run for the last time. What [`HandlerOwner::run`] may do to the object,
    /// the pointer may be used for.
    #[inline]
    pub(crate) unsafe fn queue<T: HandlerOwner>(owner: NonNull<T>, queue: *mut workqueue_struct) {
        let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32;
        // SAFETY: By the safety requirements; the work item is so far inside of the object. Its pointer is made of that of the
        // object, to which `run` goes back.
        unsafe {
            let work = owner.byte_add(T::OFFSET).cast::<work_struct>();
            bindings::queue_work_on(cpu, queue, work.as_ptr());
        }
    }

    /// The work function.
    ///
    /// # Safety
    ///
    /// `work` is the pointer that [`Self::queue`] made of a `T`, which is there.
    unsafe extern "C" fn run<T: HandlerOwner>(work: *mut work_struct) {
        // SAFETY: By the safety requirements the object begins so far before the work item.
        unsafe { T::run(NonNull::new_unchecked(work).byte_sub(T::OFFSET).cast()) };
    }

    /// Prevents further runs and waits for the present one. Sleeps, for a handler that sleeps.
    pub(crate) fn disable(&self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::disable_work_sync(self.0.get()) };
    }
}
