// SPDX-License-Identifier: GPL-2.0

//! Delayed work items that may sleep: as [`sleepable`](crate::sleepable), with a delay.
//!
//! The item is the kernel crate's: a field `DelayedWork<Sleepable<T>>` of an object in an [`Arc`], with [`SleepableWork`],
//! `impl_has_delayed_work!`, `new_delayed_work!`. Work that waits or is queued owns a reference to its object.
//!
//! C header: `include/linux/workqueue.h`.

use crate::{
    bindings,
    context::MaySleep,
    sleepable::{Sleepable, SleepableWork},
    work::SleepableQueue,
};
use kernel::{
    ffi::{c_int, c_ulong},
    sync::Arc,
    workqueue::{HasDelayedWork, Work},
};

/// CPU of work that any CPU may run.
const CPU: c_int = bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int;

/// Returns the C work item inside `object`.
fn raw_work<T, const ID: u64>(object: &Arc<T>) -> *mut bindings::delayed_work
where
    T: SleepableWork<ID> + HasDelayedWork<Sleepable<T>, ID>,
{
    // SAFETY: The pointer is to a live `T`; its work item is the first member of the `delayed_work` around it.
    unsafe { Work::raw_get(T::raw_get_work(Arc::as_ptr(object).cast_mut())).cast() }
}

/// Queues the work of `object` after `delay` jiffies; if it is pending already, changes its delay
/// (`mod_delayed_work()`). Any context.
///
/// If the work is running, it runs once more.
pub fn enqueue<T, const ID: u64>(queue: &SleepableQueue, object: &Arc<T>, delay: c_ulong)
where
    T: SleepableWork<ID> + HasDelayedWork<Sleepable<T>, ID>,
{
    let owned = Arc::into_raw(object.clone());
    let work = raw_work::<T, ID>(object);
    // SAFETY: The queue and the work item are valid; the reference that was just counted keeps the item until it has run.
    let was_waiting = unsafe { bindings::mod_delayed_work_on(CPU, queue.as_raw(), work, delay) };
    if was_waiting {
        // SAFETY: The pending work owns a reference already, so this function still owns this one.
        drop(unsafe { Arc::from_raw(owned) });
    }
}

/// As [`enqueue`], but leaves the delay of work that is pending (`queue_delayed_work()`). Any context.
pub fn enqueue_unless_pending<T, const ID: u64>(
    queue: &SleepableQueue,
    object: &Arc<T>,
    delay: c_ulong,
) where
    T: SleepableWork<ID> + HasDelayedWork<Sleepable<T>, ID>,
{
    let owned = Arc::into_raw(object.clone());
    let work = raw_work::<T, ID>(object);
    // SAFETY: The queue and the work item are valid; the reference that was just counted keeps the item until it has run.
    let queued = unsafe { bindings::queue_delayed_work_on(CPU, queue.as_raw(), work, delay) };
    if !queued {
        // SAFETY: The pending work owns a reference already, so this function still owns this one.
        drop(unsafe { Arc::from_raw(owned) });
    }
}

/// Cancels the work of `object`; returns whether it was pending. It may still be running. Any context.
pub fn cancel<T, const ID: u64>(object: &Arc<T>) -> bool
where
    T: SleepableWork<ID> + HasDelayedWork<Sleepable<T>, ID>,
{
    // SAFETY: The work item is valid as long as `object`.
    let was_waiting = unsafe { bindings::cancel_delayed_work(raw_work::<T, ID>(object)) };
    if was_waiting {
        // SAFETY: Queueing has given a reference to the queue, and the cancelled work does not take it back.
        drop(unsafe { Arc::from_raw(Arc::as_ptr(object)) });
    }
    was_waiting
}

/// Like [`cancel`], and waits until the work is not running. Not from within the work itself.
pub fn cancel_sync<T, const ID: u64>(object: &Arc<T>, _sleep: &MaySleep) -> bool
where
    T: SleepableWork<ID> + HasDelayedWork<Sleepable<T>, ID>,
{
    // SAFETY: The work item is valid as long as `object`, and the token proves that the context may sleep.
    let was_waiting = unsafe { bindings::cancel_delayed_work_sync(raw_work::<T, ID>(object)) };
    if was_waiting {
        // SAFETY: Queueing has given a reference to the queue, and the cancelled work does not take it back.
        drop(unsafe { Arc::from_raw(Arc::as_ptr(object)) });
    }
    was_waiting
}

/// Queues the work of `object` at once if it is waiting for its delay, and waits until its last queued run has finished.
/// Not from within the work itself.
pub fn flush<T, const ID: u64>(object: &Arc<T>, _sleep: &MaySleep)
where
    T: SleepableWork<ID> + HasDelayedWork<Sleepable<T>, ID>,
{
    // SAFETY: The work item is valid as long as `object`, and the token proves that the context may sleep.
    unsafe { bindings::flush_delayed_work(raw_work::<T, ID>(object)) };
}
