// SPDX-License-Identifier: GPL-2.0

//! Completion queues, polled by the core (`ib_alloc_cq`) or by the client (`ib_create_cq`).
//!
//! | who takes completions from the queue | made by |
//! |---|---|
//! | a softirq, or a work item: the handlers run there, one at a time | [`Cq::new`] |
//! | the client, when it likes, with [`Cq::poll`] | [`Cq::new`], [`PollContext::Direct`] |
//! | the client, which is told that there are some, once each time that the queue is [armed](CqRef::arm) | [`Cq::notified`] |
//! A client that is told polls, and arms the queue again, until nothing can have come in between:
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
    deferred::{Deferred, Object, UninitObject},
    device::made,
    room::Room,
    Device,
};
use crate::{
    handler::{HandlerOwner, HandlerWork},
    CqEvent, MaySleep, NotifyFlags,
};

c_enum! {
    /// Who takes completions and calls their handlers: `enum ib_poll_context`.
    pub enum PollContext {
        /// The client, with [`Cq::poll`].
        Direct = bindings::IB_POLL_DIRECT,
        /// A softirq: handlers must not sleep.
        SoftIrq = bindings::IB_POLL_SOFTIRQ,
        /// A work item, on the CPU where completions are announced.
        WorkQueue = bindings::IB_POLL_WORKQUEUE,
        /// A work item, on any CPU.
        UnboundWorkQueue = bindings::IB_POLL_UNBOUND_WORKQUEUE,
    }
}

/// Who is told that there are completions.
pub trait OnCompletions: Send + Sync {
    /// There are completions in a queue that was armed; it is not armed any more.
    ///
    /// A work item of the client calls this: in process context, with none of the driver's locks held, in whatever context
    /// the driver announces completions (stock's `rdma_rxe` does so with the queue locked, where nobody could poll). So it may
    /// poll, arm the queue again, post, and take locks that are held across posts. Not twice at once for a queue, and not
    /// any more when the queue is being destroyed.
    ///
    /// There is no [`MaySleep`]: the handlers that polling calls have none either.
    fn completions(&self, cq: &CqRef<'_>);

    /// Something has happened to the queue. It overran: completions are lost, and the queue pairs that they were of are in
    /// error, or will be. Any context.
    fn cq_event(&self, _event: CqEvent) {}
}

/// How a queue is polled.
enum Polling<'d> {
    /// By the core.
    Core,
    /// By the client, when it likes.
    Direct,
    /// By the client, which is told.
    Notified(Arc<Notifier<'d>>),
}

/// Tells a listener, from a work item: the context of C's queue.
#[pin_data]
struct Notifier<'d> {
    #[pin]
    work: HandlerWork,
    /// Does the work. It is there as long as the device's handles.
    queue: NonNull<workqueue_struct>,
    /// The completion queue, from when it was made until it is to be destroyed. It is there until the work item is disabled.
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

// SAFETY: The work item is the member `work`.
unsafe impl HandlerOwner for Notifier<'_> {
    const OFFSET: usize = offset_of!(Self, work);

    /// Tells the listener that there are completions.
    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: By the safety requirements: the notifier stays until its work item is disabled, and so does the queue.
        unsafe {
            let notifier = this.as_ref();
            if let Some(cq) = notifier.cq.load(Ordering::Acquire).as_ref() {
                notifier.listener.completions(cq);
            }
        }
    }
}

/// A completion queue, as those see it who poll it.
///
/// # Invariants
///
/// The queue is ours.
pub struct CqRef<'d> {
    raw: NonNull<ib_cq>,
    polling: Polling<'d>,
    /// Whether somebody polls it who is not the core: see [`turn`].
    turn: AtomicU32,
    room: Arc<Room>,
    device: Device<'d>,
}

/// A completion queue. Any context may drop it: it is destroyed later, when no queue pair has it any more.
pub struct Cq<'d>(Deferred<CqRef<'d>>);

// SAFETY: Completion queues may be used from any thread, and so may who is told.
unsafe impl Send for CqRef<'_> {}
// SAFETY: As above.
unsafe impl Sync for CqRef<'_> {}

impl<'d> core::ops::Deref for Cq<'d> {
    type Target = CqRef<'d>;

    fn deref(&self) -> &CqRef<'d> {
        &self.0
    }
}

impl<'d> Cq<'d> {
    /// Makes a completion queue with room for `entries` completions: one for each request that is posted, all that an SRQ may
    /// have, and one more for each queue of each QP, which destroying the QP needs. Where there is none, nothing is posted,
    /// so it cannot overrun. `vector` is its completion vector, less than [`Device::completion_vectors`].
    ///
    /// # Errors
    ///
    /// `EINVAL` for a queue without room, `ENOMEM`, and what the driver answers.
    pub fn new(
        device: &Device<'d>,
        entries: u32,
        vector: u32,
        context: PollContext,
        sleep: &MaySleep,
    ) -> Result<Arc<Self>> {
        sleep.check();
        let room = Room::new(entries)?;
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
        // SAFETY: The device is registered; the name is constant.
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
        Ok(Self::keep(blank, device, polling, room, made(raw)?))
    }

    /// Makes a completion queue which `listener` is told of: see [`Self::arm`].
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
        let room = Room::new(entries)?;
        let blank = Self::blank()?;
        let notifier = Notifier::new(device, listener)?;
        let attr = ib_cq_init_attr {
            cqe: entries,
            comp_vector: vector,
            flags: 0,
        };
        // SAFETY: The device is registered; the context stays until the queue is destroyed; the name is constant.
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
        Ok(Self::keep(blank, device, polling, room, made(raw)?))
    }

    /// Memory for a queue that is about to be made.
    fn blank() -> Result<Memory<'d>> {
        Ok((
            UninitObject::new(GFP_KERNEL)?,
            UniqueArc::new_uninit(GFP_KERNEL)?,
        ))
    }

    /// Keeps a queue of C's that was just made.
    fn keep(
        (blank, whole): Memory<'d>,
        device: &Device<'d>,
        polling: Polling<'d>,
        room: Arc<Room>,
        raw: NonNull<ib_cq>,
    ) -> Arc<Self> {
        // INVARIANT: It was just made.
        let cq = CqRef {
            raw,
            polling,
            turn: AtomicU32::new(turn::NOBODY),
            room,
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

/// Memory for a queue, and for what counts who uses it.
type Memory<'d> = (UninitObject<CqRef<'d>>, UniqueArc<MaybeUninit<Cq<'d>>>);

/// How many completions are taken at a time.
const BATCH: usize = 8;

impl<'d> CqRef<'d> {
    pub(super) fn as_raw(&self) -> *mut ib_cq {
        self.raw.as_ptr()
    }

    pub(super) fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// The device.
    pub fn device(&self) -> &Device<'d> {
        &self.device
    }

    /// Takes up to `budget` completions and calls their handlers, here and now. Returns how many there were. Any context.
    ///
    /// Only one does so at a time. Meanwhile others, also handlers, get none: who polls does so once more for them.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a queue that its client does not poll.
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

    /// Says whether nobody else polls. Who does will do so once more, else.
    fn take_turn(&self) -> bool {
        let next = |now| match now {
            turn::NOBODY => Some(turn::SOMEBODY),
            _ => Some(turn::ONCE_MORE),
        };
        let (ordering, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        self.turn.fetch_update(ordering, relaxed, next) == Ok(turn::NOBODY)
    }

    /// Says whether somebody else polls, who will do so once more.
    fn leave_to_other(&self) -> bool {
        let next = |now| (now != turn::NOBODY).then_some(turn::ONCE_MORE);
        let (ordering, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        self.turn.fetch_update(ordering, relaxed, next).is_ok()
    }

    /// Ends a turn, unless there is to be one more poll.
    fn leave_turn(&self) -> bool {
        self.turn.fetch_sub(1, Ordering::AcqRel) == turn::SOMEBODY
    }

    /// As [`Self::poll`], for who has made sure that nobody else polls.
    fn poll_alone(&self, budget: u32) -> u32 {
        if let Polling::Notified(_) = self.polling {
            return self.dispatch(budget, null());
        }
        let budget = c_int::try_from(budget).unwrap_or(c_int::MAX);
        // SAFETY: By the type invariants; nobody else polls.
        let count = unsafe { bindings::ib_process_cq_direct(self.as_raw(), budget) };
        u32::try_from(count).unwrap_or(0)
    }

    /// Takes completions and calls what their requests name. That does not look at the queue pair `gone`.
    fn dispatch(&self, budget: u32, gone: *const ib_qp) -> u32 {
        let mut total = 0u32;
        while total < budget {
            let mut batch: [ib_wc; BATCH] = pin_init::zeroed();
            let wanted = budget.saturating_sub(total).min(BATCH as u32);
            // SAFETY: By the type invariants; there is room for so many.
            let count =
                unsafe { bindings::ib_poll_cq(self.as_raw(), wanted as c_int, batch.as_mut_ptr()) };
            let count = u32::try_from(count).unwrap_or(0);
            for wc in batch.iter_mut().take(count as usize) {
                if core::ptr::eq(wc.qp, gone) {
                    wc.qp = null_mut();
                }
                // SAFETY: All requests of clients of this crate name what is to be called.
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

    /// Arms the queue: its listener is told of the next completion, or of the next solicited one
    /// ([`NotifyFlags::SOLICITED`]). Says whether completions may have come before, of which nobody is told: then poll, and
    /// arm again. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a queue that was not made by [`Cq::notified`], and what the driver answers.
    pub fn arm(&self, what: NotifyFlags) -> Result<bool> {
        if !matches!(self.polling, Polling::Notified(_)) {
            return Err(EINVAL);
        }
        let flags = what | NotifyFlags::REPORT_MISSED_EVENTS;
        // SAFETY: By the type invariants.
        let ret = unsafe { bindings::ib_req_notify_cq(self.as_raw(), flags.bits()) };
        to_result(ret)?;
        // Who polls now will do so once more.
        Ok(ret > 0 && !self.leave_to_other())
    }

    /// Whether the client polls, and the core never does.
    pub(super) fn is_notified(&self) -> bool {
        matches!(self.polling, Polling::Notified(_))
    }

    /// Calls `f` while nobody polls by [`Self::poll`].
    pub(super) fn while_not_polled<R>(&self, f: impl FnOnce(&PollGuard<'_, 'd>) -> R) -> R {
        if matches!(self.polling, Polling::Core) {
            return f(&PollGuard(self));
        }
        while !self.take_turn() {
            // SAFETY: Objects are destroyed in process context.
            unsafe { bindings::msleep(1) };
        }
        let result = f(&PollGuard(self));
        while !self.leave_turn() {
            self.poll_alone(u32::MAX);
        }
        result
    }

    /// Calls `f` while nobody else takes completions from the queue, nor the core, and no handler runs.
    pub(super) fn exclusively<R>(
        &self,
        sleep: &MaySleep,
        f: impl FnOnce(&ExclusiveGuard<'_, 'd>) -> R,
    ) -> R {
        if !matches!(self.polling, Polling::Core) {
            return self.while_not_polled(|_| f(&ExclusiveGuard(self)));
        }
        // One at a time stops the core.
        while !self.take_turn() {
            // SAFETY: Objects are destroyed in process context.
            unsafe { bindings::msleep(1) };
        }
        self.stop_core(sleep);
        let result = f(&ExclusiveGuard(self));
        self.resume_core();
        // Whoever else wants a turn waits for one: there is nothing to do for it.
        while !self.leave_turn() {}
        result
    }

    /// Whether the core polls in softirqs. Queues that it does not poll have no context for polling.
    fn is_in_softirq(&self) -> bool {
        // SAFETY: By the type invariants; the member is constant.
        let context = unsafe { (*self.as_raw()).poll_ctx };
        matches!(self.polling, Polling::Core) && context == bindings::IB_POLL_SOFTIRQ
    }

    /// Waits until the core does not poll, and lets it not do so.
    fn stop_core(&self, _sleep: &MaySleep) {
        // SAFETY: By the type invariants; the core polls the queue, by the member that is for its context.
        unsafe {
            let poller = &raw mut (*self.as_raw()).__bindgen_anon_1;
            if self.is_in_softirq() {
                bindings::irq_poll_disable(poller.cast());
            } else {
                bindings::disable_work_sync(poller.cast());
            }
        }
    }

    /// Lets the core poll again, which it does at once: completions may have been announced meanwhile.
    fn resume_core(&self) {
        // SAFETY: As for `stop_core`, which was called before.
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

/// How many completions are taken with softirqs off.
const SOFTIRQ_BATCH: u32 = 64;

/// Who polls a queue that the core does not poll. One does at a time; whoever else wants to has that one poll once more, so
/// that nobody waits and nothing is missed.
mod turn {
    /// Nobody does.
    pub(super) const NOBODY: u32 = 0;
    /// Somebody does.
    pub(super) const SOMEBODY: u32 = 1;
    /// Somebody does, and will do so once more.
    pub(super) const ONCE_MORE: u32 = 2;
}

/// A queue that nobody polls by [`CqRef::poll`] meanwhile.
pub(super) struct PollGuard<'a, 'd>(&'a CqRef<'d>);

impl PollGuard<'_, '_> {
    /// Calls the handlers of what there is, in a queue that only the client polls.
    pub(super) fn poll(&self) {
        if !matches!(self.0.polling, Polling::Core) {
            self.0.poll_alone(u32::MAX);
        }
    }
}

/// A queue from which nobody else takes completions meanwhile.
pub(super) struct ExclusiveGuard<'a, 'd>(&'a CqRef<'d>);

impl ExclusiveGuard<'_, '_> {
    /// Calls the handlers of all completions that there are now. They do not look at the queue pair `gone`, which was destroyed.
    pub(super) fn empty(&self, gone: *const ib_qp, sleep: &MaySleep) {
        let cq = self.0;
        // SAFETY: By the type invariants; the member is constant.
        let entries = unsafe { (*cq.as_raw()).cqe };
        let mut left = u32::try_from(entries).unwrap_or(0);
        while left > 0 {
            let count = match cq.is_in_softirq() {
                false => cq.dispatch(left, gone),
                // Handlers rely on softirqs being off.
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

    /// Nobody is told of completions any more, who could poll, when the queue is destroyed; and when it is destroyed, and nobody
    /// announces completions any more, what they are announced to is freed.
    fn destroy(&self, _sleep: &MaySleep) -> Result {
        let Polling::Notified(notifier) = &self.polling else {
            // SAFETY: By the type invariants; what uses it has a reference to this.
            unsafe { bindings::ib_free_cq(self.as_raw()) };
            return Ok(());
        };
        if !notifier.cq.swap(null_mut(), Ordering::AcqRel).is_null() {
            notifier.work.disable();
        }
        // SAFETY: As above.
        to_result(unsafe { bindings::ib_destroy_cq_user(self.as_raw(), null_mut()) })
    }
}

/// A C entry point: there are completions.
///
/// # Safety
///
/// The driver calls it with the context of a queue that [`Cq::notified`] has made, and that is not destroyed yet.
unsafe extern "C" fn completions(_cq: *mut ib_cq, context: *mut c_void) {
    // SAFETY: By the safety requirements: the context is a notifier, which stays longer than the queue, and so does what does
    // the work.
    unsafe {
        let notifier = NonNull::new_unchecked(context.cast::<Notifier<'_>>());
        HandlerWork::queue(notifier, notifier.as_ref().queue.as_ptr());
    }
}

/// A C entry point: an event of a completion queue.
///
/// # Safety
///
/// As for [`completions`], and with an event.
unsafe extern "C" fn cq_event(event: *mut ib_event, context: *mut c_void) {
    // SAFETY: By the safety requirements, as above.
    let (event, notifier) = unsafe { ((*event).event, &*context.cast::<Notifier<'_>>()) };
    if let Ok(event) = CqEvent::try_from(event) {
        notifier.listener.cq_event(event);
    }
}
