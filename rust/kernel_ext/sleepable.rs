// SPDX-License-Identifier: GPL-2.0

//! Work items that may sleep: their type ensures that they are only queued where the worker may sleep.
//!
//! As for [`work`](crate::work), the item is the kernel crate's [`Work`], in a field of an object in an [`Arc`], and queued
//! work owns a reference to its object. The field's type names [`Sleepable`], so that no function of the kernel crate can
//! queue it, for example on a BH queue:
//!
//! ```
//! # use kernel::{impl_has_work, new_work, prelude::*, sync::Arc, workqueue::Work};
//! # use kernel_ext::{
//! #     context::MaySleep,
//! #     sleepable::{self, Sleepable, SleepableWork},
//! #     work,
//! # };
//! #[pin_data]
//! struct Example {
//!     #[pin]
//!     work: Work<Sleepable<Self>>,
//! }
//!
//! impl_has_work! {
//!     impl HasWork<Sleepable<Self>> for Example { self.work }
//! }
//!
//! impl SleepableWork for Example {
//!     fn run(_this: Arc<Self>, sleep: &MaySleep) {
//!         sleep.cond_resched();
//!     }
//! }
//!
//! # fn example() -> Result {
//! let init = pin_init!(Example { work <- new_work!("Example::work") });
//! let example = Arc::pin_init(init, GFP_KERNEL)?;
//! sleepable::enqueue(work::system_dfl(), &example);
//! # Ok(())
//! # }
//! ```
//!
//! C header: `include/linux/workqueue.h`.

use crate::{bindings, context::MaySleep, work::SleepableQueue};
use core::{convert::Infallible, marker::PhantomData};
use kernel::{
    ffi::c_int,
    sync::Arc,
    workqueue::{HasWork, RawWorkItem, Work, WorkItem, WorkItemPointer},
};

/// A type with a work item that may sleep. `ID` distinguishes the items of a type.
pub trait SleepableWork<const ID: u64 = 0>:
    HasWork<Sleepable<Self>, ID> + Send + Sync + Sized + 'static
{
    /// Runs the work, in process context.
    fn run(this: Arc<Self>, sleep: &MaySleep);
}

/// Marks the [`Work`] of a `T` as one that may sleep.
///
/// There are no values: the kernel crate would let anyone queue a value of this type, on any queue.
pub struct Sleepable<T>(Infallible, PhantomData<fn() -> T>);

// SAFETY: The type has no values, so it passes no pointers.
unsafe impl<T, const ID: u64> RawWorkItem<ID> for Sleepable<T> {
    type EnqueueOutput = Infallible;

    unsafe fn __enqueue<F>(self, _queue_work_on: F) -> Infallible
    where
        F: FnOnce(*mut kernel::bindings::work_struct) -> bool,
    {
        self.0
    }
}

// SAFETY: The type has no values, so `__enqueue` uses no `work_struct`.
unsafe impl<T: SleepableWork<ID>, const ID: u64> WorkItemPointer<ID> for Sleepable<T> {
    unsafe extern "C" fn run(work: *mut kernel::bindings::work_struct) {
        let work = work.cast::<Work<Self, ID>>();
        // SAFETY: Only `enqueue` and the functions of `delayed` queue the item. They queue the field that `HasWork` names,
        // of an object in an `Arc`, with a reference that this function takes over. Their queue is a `SleepableQueue`,
        // whose workers run in process context, without locks.
        unsafe {
            let object = <T as HasWork<Self, ID>>::work_container_of(work);
            T::run(Arc::from_raw(object), &MaySleep::assume());
        }
    }
}

impl<T: SleepableWork<ID>, const ID: u64> WorkItem<ID> for Sleepable<T> {
    type Pointer = Self;

    fn run(this: Self) {
        match this.0 {}
    }
}

/// Returns the C work item inside `object`.
fn raw_work<T: SleepableWork<ID>, const ID: u64>(object: &Arc<T>) -> *mut bindings::work_struct {
    // SAFETY: The pointer is to a live `T`, whose `Work` field is initialised.
    unsafe { Work::raw_get(T::raw_get_work(Arc::as_ptr(object).cast_mut())) }
}

/// Queues the work of `object`, unless it is queued already; returns whether it did. Any context.
///
/// If the work is running, it is queued and runs once more.
pub fn enqueue<T: SleepableWork<ID>, const ID: u64>(
    queue: &SleepableQueue,
    object: &Arc<T>,
) -> bool {
    let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int;
    let owned = Arc::into_raw(object.clone());
    // SAFETY: The queue and the work item are valid; the reference that was just counted keeps the item until it has run.
    let queued = unsafe { bindings::queue_work_on(cpu, queue.as_raw(), raw_work::<T, ID>(object)) };
    if !queued {
        // SAFETY: The queued work owns a reference already, so this function still owns this one.
        drop(unsafe { Arc::from_raw(owned) });
    }
    queued
}

/// Cancels the work of `object`, and waits until it is not running; returns whether it was queued.
///
/// It must not be queued concurrently, or it may be queued or running when this returns. Not from within the work itself.
pub fn cancel_sync<T: SleepableWork<ID>, const ID: u64>(
    object: &Arc<T>,
    _sleep: &MaySleep,
) -> bool {
    // SAFETY: The work item is valid as long as `object`, and the token proves that the context may sleep.
    let was_queued = unsafe { bindings::cancel_work_sync(raw_work::<T, ID>(object)) };
    if was_queued {
        // SAFETY: `enqueue` has given a reference to the queue, and the cancelled work does not take it back.
        drop(unsafe { Arc::from_raw(Arc::as_ptr(object)) });
    }
    was_queued
}

/// Waits until the last queued run of `object`'s work has finished; returns whether it had to wait.
///
/// Not from within the work itself.
pub fn flush<T: SleepableWork<ID>, const ID: u64>(object: &Arc<T>, _sleep: &MaySleep) -> bool {
    // SAFETY: The work item is valid as long as `object`, and the token proves that the context may sleep.
    unsafe { bindings::flush_work(raw_work::<T, ID>(object)) }
}
