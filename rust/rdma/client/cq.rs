// SPDX-License-Identifier: GPL-2.0

//! Completion queues, polled by the core (`ib_alloc_cq`) or by the client (`ib_create_cq`).
//!
//! | poller of the queue | made by |
//! |---|---|
//! | a softirq or a work item, which calls the handlers one at a time | [`Cq::new`] |
//! | the client, at any time, with [`Cq::poll`] | [`Cq::new`], [`PollContext::Direct`] |
//! | the client, after one notification for each time that the queue is [armed](CqRef::arm) | [`Cq::notified`] |
//! A notified client polls, and arms the queue again, until no completion was missed:
//!
//! ```
//! use rdma::{
//!     client::cq::{CqRef, OnCompletions},
//!     NotifyFlags,
//! };
//!
//! struct Polling;
//!
//! impl OnCompletions for Polling {
//!     fn completions(&self, cq: &CqRef<'_>) {
//!         loop {
//!             let _ = cq.poll(64);
//!             if !matches!(cq.arm(NotifyFlags::NEXT_COMP), Ok(true)) {
//!                 return;
//!             }
//!         }
//!     }
//! }
//! ```
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    mem::{offset_of, MaybeUninit},
    ptr::{null, null_mut, NonNull},
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};

use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    prelude::*,
    sync::{Arc, UniqueArc},
};
use kernel_ext::sync::SoftirqsOff;
use rdma_bindings::{
    self as bindings, ib_cq, ib_cq_init_attr, ib_event, ib_qp, ib_wc, workqueue_struct,
};

use super::{
    credit::CqEntries,
    deferred::{Deferred, Object, UninitObject},
    device::made,
    Device,
};
use crate::{
    handler::{HandlerOwner, HandlerWork},
    CqEvent, MaySleep, NotifyFlags,
};

c_enum! {
    /// The poller, which calls completion handlers: `enum ib_poll_context`.
    pub enum PollContext {
        /// The client, with [`Cq::poll`].
        Direct = bindings::IB_POLL_DIRECT,
        /// A softirq: handlers must not sleep.
        SoftIrq = bindings::IB_POLL_SOFTIRQ,
        /// A work item, on the CPU of the completion notification.
        WorkQueue = bindings::IB_POLL_WORKQUEUE,
        /// A work item, on any CPU.
        UnboundWorkQueue = bindings::IB_POLL_UNBOUND_WORKQUEUE,
    }
}

/// A listener to completion notifications.
pub trait OnCompletions: Send + Sync {
    /// Called for an armed queue that has completions. The queue is not armed any more.
    ///
    /// A work item of the client calls it, in process context and without locks of the driver, whatever the context of the
    /// driver's notification is (the stock `rdma_rxe` notifies with the queue locked, where polling would deadlock). So it may
    /// poll, arm the queue again, post, and take locks that are held across posts. Calls for one queue are not concurrent, and
    /// none runs after the destruction of the queue has begun.
    ///
    /// It gets no [`MaySleep`] token: the handlers that polling calls get none either.
    fn completions(&self, cq: &CqRef<'_>);

    /// Called for an event of the queue: it has overrun. Completions are lost, and their queue pairs enter the error state. Any
    /// context.
    fn cq_event(&self, _event: CqEvent) {}
}

/// The poller of a queue.
enum Polling<'d> {
    /// The core.
    Core,
    /// The client, at any time.
    Direct,
    /// The client, after a notification.
    Notified(Arc<Notifier<'d>>),
}

/// Notifies a listener from a work item. It is the context of the C queue.
#[pin_data]
struct Notifier<'d> {
    #[pin]
    work: HandlerWork,
    /// The work queue, which is valid as long as handles of the device exist.
    queue: NonNull<workqueue_struct>,
    /// The completion queue, after it is created and before it is destroyed. It is valid until the work item is disabled.
    cq: AtomicPtr<CqRef<'d>>,
    listener: KBox<dyn OnCompletions + 'd>,
}

impl<'d> Notifier<'d> {
    fn new(device: &Device<'d>, listener: impl OnCompletions + 'd) -> Result<Arc<Self>> {
        let listener: KBox<dyn OnCompletions + 'd> = KBox::new(listener, GFP_KERNEL)?;
        let init = pin_init!(Self {
            work <- HandlerWork::new::<Self>(kernel::static_lock_class!()),
            queue: device.scope.queue,
            cq: AtomicPtr::new(null_mut()),
            listener,
        });
        Arc::pin_init(init, GFP_KERNEL)
    }
}

// SAFETY: `OFFSET` is the offset of the member `work`.
unsafe impl HandlerOwner for Notifier<'_> {
    const OFFSET: usize = offset_of!(Self, work);

    /// Notifies the listener.
    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: By the safety requirements; the notifier is valid until its work item is disabled, and so is the queue.
        unsafe {
            let notifier = this.as_ref();
            if let Some(cq) = notifier.cq.load(Ordering::Acquire).as_ref() {
                notifier.listener.completions(cq);
            }
        }
    }
}

/// A completion queue, for polling.
///
/// # Invariants
///
/// `self` owns the queue.
pub struct CqRef<'d> {
    raw: NonNull<ib_cq>,
    polling: Polling<'d>,
    /// The state of polling by the client: see [`turn`].
    turn: AtomicU32,
    free: Arc<CqEntries>,
    device: Device<'d>,
}

/// A completion queue. It may be dropped in any context, and is destroyed later, after its last queue pair.
pub struct Cq<'d>(Deferred<CqRef<'d>>);

// SAFETY: Completion queues may be used from any thread, and listeners are `Send` and `Sync`.
unsafe impl Send for CqRef<'_> {}
// SAFETY: Completion queues may be used from any thread, and listeners are `Send` and `Sync`.
unsafe impl Sync for CqRef<'_> {}

impl<'d> core::ops::Deref for Cq<'d> {
    type Target = CqRef<'d>;

    fn deref(&self) -> &CqRef<'d> {
        &self.0
    }
}

impl<'d> Cq<'d> {
    /// Creates a completion queue of `entries` completions. An entry is needed for each posted request, for each possible
    /// request of an SRQ, and for each queue of each QP, to drain it. Without a free entry posting fails, so that the queue
    /// cannot overrun. `vector` is its completion vector, less than [`Device::completion_vectors`].
    ///
    /// # Errors
    ///
    /// `EINVAL` for 0 entries, `ENOMEM`, and those of the driver.
    pub fn new(
        device: &Device<'d>,
        entries: u32,
        vector: u32,
        context: PollContext,
        sleep: &MaySleep,
    ) -> Result<Arc<Self>> {
        sleep.check();
        let free = CqEntries::new(entries)?;
        let entries = c_int::try_from(entries).map_err(|_| EINVAL)?;
        let vector = c_int::try_from(vector).map_err(|_| EINVAL)?;
        if entries == 0 {
            return Err(EINVAL);
        }
        let blank = Self::blank()?;
        let polling = match context {
            PollContext::Direct => Polling::Direct,
            _ => Polling::Core,
        };
        // SAFETY: The device is registered, and the name is constant.
        let raw = unsafe {
            bindings::__ib_alloc_cq(
                device.as_raw(),
                null_mut(),
                entries,
                vector,
                context.as_raw(),
                device.owner().as_char_ptr(),
            )
        };
        Ok(Self::keep(blank, device, polling, free, made(raw)?))
    }

    /// Creates a completion queue that notifies `listener`: see [`CqRef::arm`].
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub fn notified(
        device: &Device<'d>,
        entries: u32,
        vector: u32,
        listener: impl OnCompletions + 'd,
        sleep: &MaySleep,
    ) -> Result<Arc<Self>> {
        sleep.check();
        let free = CqEntries::new(entries)?;
        let blank = Self::blank()?;
        let notifier = Notifier::new(device, listener)?;
        let attr = ib_cq_init_attr {
            cqe: entries,
            comp_vector: vector,
            flags: 0,
        };
        // SAFETY: The device is registered; the context is valid until the queue is destroyed; the name is constant.
        let raw = unsafe {
            bindings::__ib_create_cq(
                device.as_raw(),
                Some(completions),
                Some(cq_event),
                Arc::as_ptr(&notifier).cast_mut().cast(),
                &attr,
                device.owner().as_char_ptr(),
            )
        };
        let polling = Polling::Notified(notifier);
        Ok(Self::keep(blank, device, polling, free, made(raw)?))
    }

    /// Allocates the memory for a queue.
    fn blank() -> Result<Memory<'d>> {
        Ok((
            UninitObject::new(GFP_KERNEL)?,
            UniqueArc::new_uninit(GFP_KERNEL)?,
        ))
    }

    /// Wraps a C queue that was just created.
    fn keep(
        (blank, whole): Memory<'d>,
        device: &Device<'d>,
        polling: Polling<'d>,
        free: Arc<CqEntries>,
        raw: NonNull<ib_cq>,
    ) -> Arc<Self> {
        // INVARIANT: The queue was just created.
        let cq = CqRef {
            raw,
            polling,
            turn: AtomicU32::new(turn::NOBODY),
            free,
            device: device.clone(),
        };
        let cq = blank.deferred(device, cq);
        if let Polling::Notified(notifier) = &cq.polling {
            let place = core::ptr::from_ref(&*cq).cast_mut();
            notifier.cq.store(place, Ordering::Release);
        }
        whole.write(Self(cq)).into()
    }
}

/// The memory of a queue, and of the reference that its users count.
type Memory<'d> = (UninitObject<CqRef<'d>>, UniqueArc<MaybeUninit<Cq<'d>>>);

/// The number of completions of one `ib_poll_cq`.
const BATCH: usize = 8;

impl<'d> CqRef<'d> {
    pub(super) fn as_raw(&self) -> *mut ib_cq {
        self.raw.as_ptr()
    }

    pub(super) fn free_entries(&self) -> &Arc<CqEntries> {
        &self.free
    }

    /// The device.
    pub fn device(&self) -> &Device<'d> {
        &self.device
    }

    /// Polls up to `budget` completions, and calls their handlers. Returns the number of completions. Any context.
    ///
    /// There is one poller at a time. A concurrent call, also from a handler, returns 0, and makes the current poller poll once
    /// more.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a queue that the core polls.
    pub fn poll(&self, budget: u32) -> Result<u32> {
        if matches!(self.polling, Polling::Core) {
            return Err(EINVAL);
        }
        if !self.take_turn() {
            return Ok(0);
        }
        let mut count = self.poll_alone(budget);
        while !self.leave_turn() {
            count = count.saturating_add(self.poll_alone(budget));
        }
        Ok(count)
    }

    /// Takes the turn to poll. Returns false if there is a poller, which polls once more then.
    fn take_turn(&self) -> bool {
        let next = |now| match now {
            turn::NOBODY => Some(turn::SOMEBODY),
            _ => Some(turn::ONCE_MORE),
        };
        let (ordering, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        self.turn.fetch_update(ordering, relaxed, next) == Ok(turn::NOBODY)
    }

    /// Returns whether there is another poller, which polls once more then.
    fn leave_to_other(&self) -> bool {
        let next = |now| (now != turn::NOBODY).then_some(turn::ONCE_MORE);
        let (ordering, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        self.turn.fetch_update(ordering, relaxed, next).is_ok()
    }

    /// Ends the turn. Returns false if the poller must poll once more.
    fn leave_turn(&self) -> bool {
        self.turn.fetch_sub(1, Ordering::AcqRel) == turn::SOMEBODY
    }

    /// As [`Self::poll`], for the holder of the turn.
    fn poll_alone(&self, budget: u32) -> u32 {
        if let Polling::Notified(_) = self.polling {
            return self.dispatch(budget, null());
        }
        let budget = c_int::try_from(budget).unwrap_or(c_int::MAX);
        // SAFETY: By the type invariants; the turn excludes other pollers.
        let count = unsafe { bindings::ib_process_cq_direct(self.as_raw(), budget) };
        u32::try_from(count).unwrap_or(0)
    }

    /// Polls completions, and calls the handlers of their requests, which do not access the queue pair `gone`.
    fn dispatch(&self, budget: u32, gone: *const ib_qp) -> u32 {
        let mut total = 0u32;
        while total < budget {
            let mut batch: [ib_wc; BATCH] = pin_init::zeroed();
            let wanted = budget.saturating_sub(total).min(BATCH as u32);
            // SAFETY: By the type invariants; `batch` has room for `wanted` completions.
            let count =
                unsafe { bindings::ib_poll_cq(self.as_raw(), wanted as c_int, batch.as_mut_ptr()) };
            let count = u32::try_from(count).unwrap_or(0);
            for wc in batch.iter_mut().take(count as usize) {
                if core::ptr::eq(wc.qp, gone) {
                    wc.qp = null_mut();
                }
                // SAFETY: The `wr_cqe` of all requests of this crate is a valid handler until its completion.
                unsafe {
                    let cqe = wc.__bindgen_anon_1.wr_cqe;
                    if let Some(done) = cqe.as_ref().and_then(|cqe| cqe.done) {
                        done(self.as_raw(), wc);
                    }
                }
            }
            total = total.saturating_add(count);
            if count < wanted {
                break;
            }
        }
        total
    }

    /// Arms the queue: its listener is notified of the next completion, or of the next solicited one
    /// ([`NotifyFlags::SOLICITED`]). Returns whether completions may have been missed; then the client polls, and arms the queue
    /// again. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a queue that was not made by [`Cq::notified`], and those of the driver.
    pub fn arm(&self, what: NotifyFlags) -> Result<bool> {
        if !matches!(self.polling, Polling::Notified(_)) {
            return Err(EINVAL);
        }
        let flags = what | NotifyFlags::REPORT_MISSED_EVENTS;
        // SAFETY: By the type invariants.
        let ret = unsafe { bindings::ib_req_notify_cq(self.as_raw(), flags.bits()) };
        to_result(ret)?;
        // A current poller polls once more.
        Ok(ret > 0 && !self.leave_to_other())
    }

    /// Whether the client polls after notifications, and the core never polls.
    pub(super) fn is_notified(&self) -> bool {
        matches!(self.polling, Polling::Notified(_))
    }

    /// Calls `f` with [`Self::poll`] excluded.
    pub(super) fn while_not_polled<R>(
        &self,
        sleep: &MaySleep,
        f: impl FnOnce(&PollGuard<'_, 'd>) -> R,
    ) -> R {
        if matches!(self.polling, Polling::Core) {
            return f(&PollGuard(self));
        }
        while !self.take_turn() {
            sleep.sleep_ms(1);
        }
        let result = f(&PollGuard(self));
        while !self.leave_turn() {
            self.poll_alone(u32::MAX);
        }
        result
    }

    /// Calls `f` with all other pollers excluded, the core included; no handler runs meanwhile.
    pub(super) fn exclusively<R>(
        &self,
        sleep: &MaySleep,
        f: impl FnOnce(&ExclusiveGuard<'_, 'd>) -> R,
    ) -> R {
        if !matches!(self.polling, Polling::Core) {
            return self.while_not_polled(sleep, |_| f(&ExclusiveGuard(self)));
        }
        // Only the holder of the turn stops the core.
        while !self.take_turn() {
            sleep.sleep_ms(1);
        }
        self.stop_core(sleep);
        let result = f(&ExclusiveGuard(self));
        self.resume_core();
        // Others that want the turn wait for it, so no further poll is needed.
        while !self.leave_turn() {}
        result
    }

    /// Whether the core polls in softirqs. Queues of clients have no poll context.
    fn is_in_softirq(&self) -> bool {
        // SAFETY: By the type invariants; the member is constant.
        let context = unsafe { (*self.as_raw()).poll_ctx };
        matches!(self.polling, Polling::Core) && context == bindings::IB_POLL_SOFTIRQ
    }

    /// Stops polling by the core, and waits until it has ended.
    fn stop_core(&self, _sleep: &MaySleep) {
        // SAFETY: By the type invariants; the core polls the queue, and its poll context selects the member of the union.
        unsafe {
            let poller = &raw mut (*self.as_raw()).__bindgen_anon_1;
            if self.is_in_softirq() {
                bindings::irq_poll_disable(poller.cast());
            } else {
                bindings::disable_work_sync(poller.cast());
            }
        }
    }

    /// Lets the core poll again, and schedules a poll, since notifications may have been missed.
    fn resume_core(&self) {
        // SAFETY: As in `stop_core`, which was called before.
        unsafe {
            let poller = &raw mut (*self.as_raw()).__bindgen_anon_1;
            if self.is_in_softirq() {
                bindings::irq_poll_enable(poller.cast());
                bindings::irq_poll_sched(poller.cast());
            } else {
                bindings::enable_work(poller.cast());
                let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int;
                bindings::queue_work_on(cpu, (*self.as_raw()).comp_wq, poller.cast());
            }
        }
    }
}

/// The number of completions that are polled with softirqs disabled.
const SOFTIRQ_BATCH: u32 = 64;

/// The turn to poll a queue that the core does not poll. There is one poller at a time. Any other makes it poll once more, so
/// that no caller waits and no completion is missed.
mod turn {
    /// There is no poller.
    pub(super) const NOBODY: u32 = 0;
    /// There is a poller.
    pub(super) const SOMEBODY: u32 = 1;
    /// There is a poller, which polls once more.
    pub(super) const ONCE_MORE: u32 = 2;
}

/// A queue for which [`CqRef::poll`] is excluded.
pub(super) struct PollGuard<'a, 'd>(&'a CqRef<'d>);

impl PollGuard<'_, '_> {
    /// Polls a queue that only the client polls, and calls the handlers.
    pub(super) fn poll(&self) {
        if !matches!(self.0.polling, Polling::Core) {
            self.0.poll_alone(u32::MAX);
        }
    }
}

/// A queue for which all other pollers are excluded.
pub(super) struct ExclusiveGuard<'a, 'd>(&'a CqRef<'d>);

impl ExclusiveGuard<'_, '_> {
    /// Polls the queue until it is empty, and calls the handlers, which do not access the destroyed queue pair `gone`.
    pub(super) fn empty(&self, gone: *const ib_qp, sleep: &MaySleep) {
        let cq = self.0;
        // SAFETY: By the type invariants; the member is constant.
        let entries = unsafe { (*cq.as_raw()).cqe };
        let mut left = u32::try_from(entries).unwrap_or(0);
        while left > 0 {
            let count = match cq.is_in_softirq() {
                false => cq.dispatch(left, gone),
                // These handlers expect disabled softirqs.
                true => {
                    let _off = SoftirqsOff::new(sleep);
                    cq.dispatch(left.min(SOFTIRQ_BATCH), gone)
                }
            };
            if count == 0 {
                return;
            }
            left = left.saturating_sub(count);
        }
    }
}

impl Object for CqRef<'_> {
    const WHAT: &'static str = "a completion queue";

    /// Disables the notifier before the queue is destroyed, so that no listener polls it. The notifier is freed after the
    /// destruction, which ends the driver's notifications.
    fn destroy(&self, _sleep: &MaySleep) -> Result {
        let Polling::Notified(notifier) = &self.polling else {
            // SAFETY: By the type invariants `self` owns the queue; its users hold references, so none is left.
            unsafe { bindings::ib_free_cq(self.as_raw()) };
            return Ok(());
        };
        if !notifier.cq.swap(null_mut(), Ordering::AcqRel).is_null() {
            notifier.work.disable();
        }
        // SAFETY: By the type invariants `self` owns the queue; its users hold references, so none is left.
        to_result(unsafe { bindings::ib_destroy_cq_user(self.as_raw(), null_mut()) })
    }
}

/// The C entry point of completion notifications.
///
/// # Safety
///
/// The driver calls it with the context of a queue that [`Cq::notified`] has created, and that is not destroyed yet.
unsafe extern "C" fn completions(_cq: *mut ib_cq, context: *mut c_void) {
    // SAFETY: By the safety requirements the context is a notifier, which outlives the queue, and so does the work queue.
    unsafe {
        let notifier = NonNull::new_unchecked(context.cast::<Notifier<'_>>());
        HandlerWork::queue(notifier, notifier.as_ref().queue.as_ptr());
    }
}

/// The C entry point of events of a completion queue.
///
/// # Safety
///
/// As for [`completions`]; `event` is a valid event.
unsafe extern "C" fn cq_event(event: *mut ib_event, context: *mut c_void) {
    // SAFETY: By the safety requirements the context is a notifier, which outlives the queue.
    let (event, notifier) = unsafe { ((*event).event, &*context.cast::<Notifier<'_>>()) };
    if let Ok(event) = CqEvent::try_from(event) {
        notifier.listener.cq_event(event);
    }
}
