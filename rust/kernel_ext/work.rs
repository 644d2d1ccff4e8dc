// SPDX-License-Identifier: GPL-2.0

//! Work items and workqueues: functions that `kernel::workqueue` lacks.
//!
//! A work item is the kernel crate's: a field [`Work<T>`](kernel::workqueue::Work) of an object in an [`Arc`],
//! [`WorkItem`], `impl_has_work!`, `new_work!`. Queued work owns a reference to its object. Queues for softirq are
//! [`kernel::workqueue::system_bh`] and [`kernel::workqueue::system_bh_highpri`].
//!
//! This file has functions to wait for work that must not sleep, for any queue, and queues owned by a module. Work that
//! may sleep is [`sleepable`](crate::sleepable) and [`delayed`](crate::delayed), for a [`SleepableQueue`].
//!
//! C header: `include/linux/workqueue.h`.

use crate::{bindings, context::MaySleep};
use core::{
    ops::Deref,
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicPtr, Ordering},
};
use kernel::{
    prelude::*,
    sync::{rcu, Arc},
    workqueue::{HasWork, Queue, RawWorkItem, Work, WorkItem},
};

/// Returns the C work item inside `object`.
fn raw_work<T, const ID: u64>(object: &Arc<T>) -> *mut bindings::work_struct
where
    T: HasWork<T, ID>,
{
    // SAFETY: The pointer is to a live `T`, whose `Work` field is initialised.
    unsafe { Work::raw_get(T::raw_get_work(Arc::as_ptr(object).cast_mut())) }
}

/// Queues the work of `object`, unless it is queued already; returns whether it did. Any context.
///
/// If the work is running, it is queued and runs once more.
pub fn enqueue<T, const ID: u64>(queue: &Queue, object: &Arc<T>) -> bool
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID> + Send + Sync + 'static,
{
    queue.enqueue::<Arc<T>, ID>(object.clone()).is_ok()
}

/// As [`enqueue`], on the processor `cpu`, or on any other if that is offline.
pub fn enqueue_on<T, const ID: u64>(cpu: u32, queue: &Queue, object: &Arc<T>) -> bool
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID> + Send + Sync + 'static,
{
    let queue = core::ptr::from_ref(queue).cast_mut().cast();
    // SAFETY: The queue is valid, and `queue_work_online` returns false only for work that is queued already. The object is
    // `Send`, and has no lifetimes.
    let queued = unsafe {
        object
            .clone()
            .__enqueue(|work| bindings::queue_work_online(cpu, queue, work.cast()))
    };
    queued.is_ok()
}

/// The number of the `n`th online processor, modulo their count. It may go offline at any time.
pub fn nth_online_cpu(n: u32) -> u32 {
    // SAFETY: The function may be called in any context.
    unsafe { bindings::nth_online_cpu(n) }
}

/// Cancels the work of `object`, and waits until it is not running; returns whether it was queued.
///
/// It must not be queued concurrently, or it may be queued or running when this returns. Also for work on BH queues.
/// Not from within the work itself.
pub fn cancel_sync<T, const ID: u64>(object: &Arc<T>, _may_sleep: &MaySleep) -> bool
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID>,
{
    // SAFETY: The work item is valid as long as `object`, and the token proves that the context may sleep.
    let was_queued = unsafe { bindings::cancel_work_sync(raw_work::<T, ID>(object)) };
    if was_queued {
        // SAFETY: `Queue::enqueue` has given a reference to the queue, and the cancelled work does not take it back.
        drop(unsafe { Arc::from_raw(Arc::as_ptr(object)) });
    }
    was_queued
}

/// Waits until the last queued run of `object`'s work has finished; returns whether it had to wait.
///
/// Not from within the work itself.
pub fn flush<T, const ID: u64>(object: &Arc<T>, _may_sleep: &MaySleep) -> bool
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID>,
{
    // SAFETY: The work item is valid as long as `object`, and the token proves that the context may sleep.
    unsafe { bindings::flush_work(raw_work::<T, ID>(object)) }
}

/// A workqueue whose workers may sleep: work runs in process context.
///
/// # Invariants
///
/// The queue is not a BH queue (`WQ_BH`).
#[repr(transparent)]
pub struct SleepableQueue(Queue);

impl SleepableQueue {
    /// Borrows a C workqueue.
    ///
    /// # Safety
    ///
    /// `queue` is a workqueue that is valid for `'a`, and not a BH queue.
    pub unsafe fn from_raw<'a>(queue: *const bindings::workqueue_struct) -> &'a Self {
        // SAFETY: By the safety requirements; the types are transparent.
        // INVARIANT: By the safety requirements.
        unsafe { &*queue.cast::<Self>() }
    }

    /// Waits for all work that was queued before the call.
    pub fn flush(&self, _may_sleep: &MaySleep) {
        // SAFETY: The queue is valid, and the token proves that the context may sleep.
        unsafe { bindings::__flush_workqueue(self.as_raw()) };
    }

    /// The C structure, which is valid as long as `self`.
    pub fn as_raw(&self) -> *mut bindings::workqueue_struct {
        core::ptr::from_ref(self).cast_mut().cast()
    }
}

impl Deref for SleepableQueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.0
    }
}

/// Returns the system's queue for work that any CPU may run: `system_dfl_wq`.
///
/// `kernel::workqueue::system_unbound` returns a queue for which the kernel logs a deprecation warning.
pub fn system_dfl() -> &'static SleepableQueue {
    // SAFETY: The kernel makes the queue before any module is loaded, without `WQ_BH`, and never removes it.
    unsafe { SleepableQueue::from_raw(bindings::system_dfl_wq.cast()) }
}

/// Flags of an [`OwnedQueue`], which can be combined with `|`.
///
/// # Invariants
///
/// `WQ_BH` is not among them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct QueueFlags(u32);

impl QueueFlags {
    /// Work runs on any CPU: `WQ_UNBOUND`.
    pub const UNBOUND: Self = Self(bindings::wq_flags_WQ_UNBOUND);
    /// Work runs on the CPU that queued it.
    pub const PER_CPU: Self = Self(bindings::wq_flags_WQ_PERCPU);
    /// One work at a time, in the order of queueing. Only with [`Self::UNBOUND`] and a `max_active` of 1.
    pub const ORDERED: Self = Self(bindings::wq_flags___WQ_ORDERED);
    /// Workers have high priority.
    pub const HIGHPRI: Self = Self(bindings::wq_flags_WQ_HIGHPRI);
    /// The queue has a directory in `/sys/bus/workqueue`, with its CPU mask.
    pub const SYSFS: Self = Self(bindings::wq_flags_WQ_SYSFS);
    /// The queue is used by memory reclaim: it has a rescuer.
    pub const MEM_RECLAIM: Self = Self(bindings::wq_flags_WQ_MEM_RECLAIM);
}

impl core::ops::BitOr for QueueFlags {
    type Output = Self;

    fn bitor(self, rhs: Self) -> Self {
        // INVARIANT: By the type invariants neither has `WQ_BH`.
        Self(self.0 | rhs.0)
    }
}

/// A workqueue whose workers may sleep. Dropping it waits for its work, so it may sleep.
///
/// # Invariants
///
/// `self` owns the queue, which is not a BH queue.
pub struct OwnedQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: Work queues may be used from any thread.
unsafe impl Send for OwnedQueue {}
// SAFETY: Work queues may be used from several threads at once.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// Creates a queue; `name` appears in the names of its workers.
    ///
    /// `max_active` limits the number of the queue's work items that run concurrently: per CPU, or in total for an unbound
    /// queue; 0 is the default.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also for incompatible flags.
    pub fn new(
        name: &CStr,
        flags: QueueFlags,
        max_active: u16,
        _may_sleep: &MaySleep,
    ) -> Result<Self> {
        // SAFETY: The name is copied, and the token proves that the context may sleep.
        let queue =
            unsafe { bindings::alloc_workqueue(name.as_char_ptr(), flags.0, max_active.into()) };
        // INVARIANT: The queue was just created, without `WQ_BH`.
        NonNull::new(queue).map(Self).ok_or(ENOMEM)
    }

    /// The C structure, which is valid as long as `self`.
    pub fn as_raw(&self) -> NonNull<bindings::workqueue_struct> {
        self.0
    }
}

impl Deref for OwnedQueue {
    type Target = SleepableQueue;

    fn deref(&self) -> &SleepableQueue {
        // SAFETY: By the type invariants, and the queue is valid as long as `self`.
        unsafe { SleepableQueue::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: `self` owns the queue, and no reference to it is left that could queue work.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// A workqueue that is used by a whole module, and by C code if it is exported: a `static`.
///
/// # Invariants
///
/// The pointer is null, or that of a queue that an [`InstalledQueue`] owns. The owner resets it, and waits for RCU readers, before
/// the queue goes.
#[repr(transparent)]
pub struct GlobalQueue(AtomicPtr<bindings::workqueue_struct>);

// SAFETY: An `AtomicPtr` has the layout of the pointer.
unsafe impl crate::export::ExportedStatic for GlobalQueue {
    type Header = *mut bindings::workqueue_struct;
}

impl GlobalQueue {
    /// A queue that is not installed yet.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// Installs the queue until the result is dropped, which waits for the queue's work.
    pub fn install(&'static self, queue: OwnedQueue) -> InstalledQueue {
        self.0.store(queue.0.as_ptr(), Ordering::Release);
        InstalledQueue(self, queue)
    }

    /// Calls `f` with the queue, in an RCU section: `f` must not sleep. `None` before the queue is installed, and while the module
    /// is unloaded.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&SleepableQueue) -> R) -> Option<R> {
        let _inside = rcu::read_lock();
        let queue = NonNull::new(self.0.load(Ordering::Acquire))?;
        // SAFETY: By the type invariants the queue stays until the RCU section ends.
        Some(f(unsafe { SleepableQueue::from_raw(queue.as_ptr()) }))
    }

    /// The queue, as [`Self::with`], for longer than an RCU section.
    ///
    /// # Safety
    ///
    /// The [`InstalledQueue`] is not dropped as long as the result is used.
    pub unsafe fn get(&self) -> Option<&SleepableQueue> {
        let queue = NonNull::new(self.0.load(Ordering::Acquire))?;
        // SAFETY: By the type invariants, and the owner keeps the queue by the safety requirements.
        Some(unsafe { SleepableQueue::from_raw(queue.as_ptr()) })
    }
}

/// The owner of a [`GlobalQueue`]. Dropping it waits for the queue's work.
pub struct InstalledQueue(&'static GlobalQueue, OwnedQueue);

impl Drop for InstalledQueue {
    fn drop(&mut self) {
        // SAFETY: The owner of a queue drops it in process context.
        let sleep = unsafe { MaySleep::assume() };
        // Work that queues more work of the module has finished after this.
        self.1.flush(&sleep);
        self.0 .0.store(null_mut(), Ordering::Release);
        crate::sync::rcu::synchronize_expedited(&sleep);
    }
}
