// SPDX-License-Identifier: GPL-2.0

//! Polling of completion queues for clients in the kernel: by softirqs, work items, or the client itself (`enum ib_poll_context`), in
//! batches, with dynamic interrupt moderation (DIM).
//!
//! C headers: `include/rdma/ib_verbs.h`, `include/linux/dim.h`.

use core::{mem::MaybeUninit, ptr::null_mut};

use kernel::{
    ffi::{c_int, c_void},
    prelude::*,
};
use kernel_ext::{entry::FromC, work::SleepableQueue};
use rdma_bindings::{self as bindings, ib_cq, ib_wc, irq_poll, work_struct};

use crate::{
    core::{
        callback::Context,
        object::{Destroyed, Failed, Fresh, Owned},
        Cq, Device,
    },
    MaySleep,
};

/// The number of completions that a polled queue takes at once, at most.
pub const BATCH: usize = 16;

/// The poller of a queue: a union of `struct irq_poll` and `struct work_struct`.
type PollItem = bindings::ib_cq__bindgen_ty_1;

type RawBatch = [MaybeUninit<ib_wc>; BATCH];

impl Fresh<Cq> {
    /// Allocates a completion queue that the core polls, with memory for a batch of completions. `context` is for its client
    /// alone.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_polled(
        device: &Device,
        context: Option<Context<'_>>,
        poll_ctx: u32,
        comp_vector: u32,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let mut cq = Self::alloc(device, Some(sleep))?;
        let batch = KBox::new(
            [const { MaybeUninit::<ib_wc>::uninit() }; BATCH],
            GFP_KERNEL,
        )?;
        let raw: &mut ib_cq = cq.raw();
        raw.device = device.as_raw();
        raw.cq_context = context.map_or(null_mut(), Context::as_ptr);
        raw.poll_ctx = poll_ctx;
        raw.comp_vector = comp_vector;
        raw.wc = KBox::into_raw(batch).cast();
        Ok(cq)
    }

    /// Frees the batch of completions, if the queue has one.
    pub(in crate::core) fn free_batch(&mut self) {
        let batch = core::mem::replace(&mut self.raw().wc, null_mut());
        // SAFETY: `new_polled` has allocated the batch, and a queue without a driver is not polled: `&mut self` is a
        // `Fresh`.
        drop((!batch.is_null()).then(|| unsafe { KBox::from_raw(batch.cast::<RawBatch>()) }));
    }
}

/// A queue that the core polls, or that its client polls by `ib_process_cq_direct`.
///
/// # Invariants
///
/// The `wr_cqe` of each completion is null, or a handler that is valid until it was called.
#[derive(Clone, Copy)]
pub struct ClientCq<'a>(&'a Cq);

impl core::ops::Deref for ClientCq<'_> {
    type Target = Cq;

    #[inline]
    fn deref(&self) -> &Cq {
        self.0
    }
}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for ClientCq<'_> {
    type Raw = *mut ib_cq;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the queue is valid; a view is a transparent wrapper.
        // INVARIANT: By the header the requests of a queue that the core polls have a `wr_cqe`.
        Self(unsafe { &*raw.cast() })
    }
}

/// A completion that a driver has filled in, and that is not delivered yet.
pub struct Completion<'a> {
    wc: &'a mut ib_wc,
    cq: ClientCq<'a>,
}

impl Completion<'_> {
    /// Whether the status is `IB_WC_SUCCESS`.
    #[inline]
    pub fn is_success(&self) -> bool {
        self.wc.status == bindings::IB_WC_SUCCESS
    }

    /// Calls the handler of the request; returns whether it has one.
    #[inline]
    pub fn deliver(self) -> bool {
        // SAFETY: By the invariants of `ClientCq` the member of the union is `wr_cqe`.
        let handler = unsafe { self.wc.__bindgen_anon_1.wr_cqe };
        // SAFETY: By the same invariants the handler is null or valid, since the completion was not delivered yet.
        let Some(done) = (unsafe { handler.as_ref() }).and_then(|cqe| cqe.done) else {
            return false;
        };
        // SAFETY: The queue and the completion are valid during the call.
        unsafe { done(self.cq.as_raw(), self.wc) };
        true
    }
}

/// The completions of one `poll_cq`.
pub struct PolledBatch<'a> {
    wcs: core::slice::IterMut<'a, ib_wc>,
    cq: ClientCq<'a>,
}

impl<'a> Iterator for PolledBatch<'a> {
    type Item = Completion<'a>;

    #[inline]
    fn next(&mut self) -> Option<Completion<'a>> {
        let wc = self.wcs.next()?;
        Some(Completion { wc, cq: self.cq })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.wcs.size_hint()
    }
}

impl ExactSizeIterator for PolledBatch<'_> {}

/// A buffer for completions.
pub struct Batch<'a>(&'a mut [MaybeUninit<ib_wc>]);

impl<'a> Batch<'a> {
    /// Wraps a buffer.
    #[inline]
    pub fn new(room: &'a mut [MaybeUninit<ib_wc>]) -> Self {
        Self(room)
    }

    /// The capacity in completions.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.0.len()
    }

    /// Polls up to `max` completions from the driver.
    #[inline]
    pub fn poll<'b>(&'b mut self, cq: ClientCq<'b>, max: usize) -> PolledBatch<'b> {
        let max = max.min(self.capacity());
        let room = self.0.get_mut(..max).unwrap_or_default();
        PolledBatch {
            wcs: cq.driver_poll(room).iter_mut(),
            cq,
        }
    }
}

/// The exclusive right to poll a queue, and so to use its batch. A queue has one poller at a time.
///
/// # Invariants
///
/// The queue is from `new_polled`. This is the only `Turn` of the queue, so that only its holder uses the queue's batch and
/// its DIM state.
pub struct Turn<'a>(&'a Cq);

impl<'a> Turn<'a> {
    /// The queue.
    #[inline]
    pub fn cq(&self) -> ClientCq<'a> {
        // INVARIANT: By the header the requests of a queue from `new_polled` have a `wr_cqe`.
        ClientCq(self.0)
    }

    /// The batch of the queue.
    #[inline]
    pub fn batch(&mut self) -> Batch<'_> {
        // SAFETY: `new_polled` has allocated the batch; by the type invariants only this turn uses it, and `self` is
        // borrowed mutably.
        Batch(unsafe { &mut *(*self.0.as_raw()).wc.cast::<RawBatch>() })
    }

    /// Passes the number of completions of this turn to DIM, if the queue uses it.
    #[inline]
    pub fn measure(&mut self, completed: u32) {
        // SAFETY: By the type invariants the queue is polled, and the member is constant while it is.
        let dim = unsafe { (*self.0.as_raw()).dim };
        if !dim.is_null() {
            // SAFETY: By the type invariants no other poller uses the DIM state.
            unsafe { bindings::rdma_dim(dim, completed.into()) };
        }
    }
}

/// The turn of a softirq that polls a queue.
///
/// # Invariants
///
/// Softirqs poll the queue: its poller is an `irq_poll`.
pub struct SoftirqTurn<'a>(Turn<'a>);

impl<'a> SoftirqTurn<'a> {
    /// The turn.
    #[inline]
    pub fn turn(&mut self) -> &mut Turn<'a> {
        &mut self.0
    }

    /// Ends the turn, so that the next one may begin. After that the poller requests the next notification, or calls
    /// [`SoftirqIdle::resume`].
    #[inline]
    pub fn complete(self) -> SoftirqIdle<'a> {
        let cq = self.0 .0;
        // SAFETY: By the type invariants the queue has a poller of this kind.
        unsafe { bindings::irq_poll_complete(cq.iop()) };
        // INVARIANT: Those of `self`.
        SoftirqIdle(cq)
    }
}

/// A queue whose softirq has ended its turn.
///
/// # Invariants
///
/// Softirqs poll the queue: its poller is an `irq_poll`.
pub struct SoftirqIdle<'a>(&'a Cq);

impl SoftirqIdle<'_> {
    /// Schedules the softirq that polls the queue.
    #[inline]
    pub fn resume(self) {
        // SAFETY: By the type invariants the queue has a poller of this kind.
        unsafe { self.0.schedule_softirq() };
    }
}

/// The turn of a work item that polls a queue.
///
/// # Invariants
///
/// Work items poll the queue: its poller is a `work_struct`.
pub struct WorkTurn<'a>(Turn<'a>);

impl<'a> WorkTurn<'a> {
    /// Begins the turn of a work item.
    ///
    /// # Safety
    ///
    /// The caller runs in the work item that polls the queue, and no other poller runs before this turn ends.
    #[inline]
    pub unsafe fn new(cq: &'a Cq) -> Self {
        // INVARIANT: By the safety requirements.
        Self(Turn(cq))
    }

    /// The turn.
    #[inline]
    pub fn turn(&mut self) -> &mut Turn<'a> {
        &mut self.0
    }

    /// Queues the work item that polls the queue.
    #[inline]
    pub fn resume(self) {
        // SAFETY: By the type invariants the queue has a poller of this kind.
        unsafe { self.0 .0.schedule_work() };
    }
}

/// The functions of the core that poll completion queues for clients.
pub trait Poller: 'static {
    /// Polls up to `budget` completions in softirq context; returns their number.
    fn softirq(turn: SoftirqTurn<'_>, budget: u32) -> u32;

    /// Polls in a work item, in process context.
    fn work(turn: WorkTurn<'_>, sleep: &MaySleep);

    /// The driver has called the completion handler, and a softirq or a work item is about to poll. Any context.
    fn announced(cq: &Cq);

    /// The driver has called the completion handler of a queue that its client polls.
    fn unsolicited(cq: &Cq);

    /// DIM has chosen another profile for the queue: the index `profile`.
    fn moderate(cq: &Cq, profile: usize, sleep: &MaySleep);
}

/// The poller of a queue: `enum ib_poll_context` with its parameters.
pub enum Polling {
    /// The client.
    Direct,
    /// A softirq, with this `irq_poll` weight in completions.
    Softirq(u16),
    /// A work item on this work queue.
    Work(&'static SleepableQueue),
}

/// A queue from `new_polled` that its driver has just created, and that has no poller yet.
///
/// # Invariants
///
/// Only this value refers to the queue, and its completion handler is not called yet.
pub struct NewCq(Owned<Cq>);

impl core::ops::Deref for NewCq {
    type Target = Cq;

    #[inline]
    fn deref(&self) -> &Cq {
        &self.0
    }
}

impl NewCq {
    /// # Safety
    ///
    /// The driver has just created the queue, which is from `new_polled`.
    pub(in crate::core) unsafe fn new(cq: Owned<Cq>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(cq)
    }

    /// Sets up the poller of the queue, and DIM if `dim`. If memory for DIM is short the queue does without.
    ///
    /// # Errors
    ///
    /// `EINVAL` where the queue's `poll_ctx` is not that of `polling`: then the queue is destroyed, unless the driver fails
    /// to.
    pub fn poll<P: Poller>(
        self,
        polling: Polling,
        dim: bool,
        sleep: &MaySleep,
    ) -> Result<Owned<Cq>, Failed<Option<Fresh<Cq>>>> {
        let (raw, cq) = (self.0.as_raw(), self.0);
        let handler: unsafe extern "C" fn(*mut ib_cq, *mut c_void) = match (cq.poll_ctx(), polling)
        {
            (bindings::IB_POLL_DIRECT, Polling::Direct) => unsolicited::<P>,
            (bindings::IB_POLL_SOFTIRQ, Polling::Softirq(weight)) => {
                // SAFETY: By the type invariants the queue is not used yet, and its `poll_ctx` selects this member of the
                // union.
                unsafe { bindings::irq_poll_init(cq.iop(), weight.into(), Some(softirq::<P>)) };
                schedule_softirq::<P>
            }
            (
                bindings::IB_POLL_WORKQUEUE | bindings::IB_POLL_UNBOUND_WORKQUEUE,
                Polling::Work(queue),
            ) => {
                // SAFETY: By the type invariants the queue is not used yet, and its `poll_ctx` selects this member of the
                // union.
                unsafe {
                    (*raw).comp_wq = queue.as_raw();
                    bindings::ib_work_init(cq.work(), Some(work::<P>));
                }
                schedule_work::<P>
            }
            _ => {
                let object = cq.driver_destroy_polled(sleep).ok();
                return Err(Failed {
                    object,
                    error: EINVAL,
                });
            }
        };
        if dim {
            start_dim::<P>(&cq);
        }
        // SAFETY: By the type invariants the handler is not called yet.
        unsafe { (*raw).comp_handler = Some(handler) };
        Ok(cq)
    }
}

/// Sets up DIM for a queue that is not polled yet. If memory is short the queue does without.
fn start_dim<P: Poller>(cq: &Owned<Cq>) {
    let Ok(mut dim) = KBox::new(pin_init::zeroed::<bindings::dim>(), GFP_KERNEL) else {
        return;
    };
    dim.state = bindings::DIM_START_MEASURE as u8;
    dim.tune_state = bindings::DIM_GOING_RIGHT as u8;
    dim.profile_ix = bindings::RDMA_DIM_START_PROFILE as u8;
    dim.priv_ = cq.as_raw().cast();
    let dim = KBox::into_raw(dim);
    // SAFETY: The queue owns the memory from now on, and is not polled yet.
    unsafe {
        bindings::ib_work_init(&raw mut (*dim).work, Some(moderate::<P>));
        (*cq.as_raw()).dim = dim;
    }
}

impl Owned<Cq> {
    /// Whether the queue is from `new_polled`.
    #[inline]
    pub(in crate::core) fn is_polled(&self) -> bool {
        self.of_client().is_some()
    }

    /// Destroys a queue from `new_polled`: stops its poller, lets the driver destroy it, and frees its batch.
    ///
    /// # Errors
    ///
    /// `EINVAL` for any other queue, and those of the driver, which then still uses the queue.
    pub fn destroy_polled(self, sleep: &MaySleep) -> Destroyed<Cq> {
        if !self.is_polled() {
            return Err(Failed {
                object: self,
                error: EINVAL,
            });
        }
        if self.driver_pre_destroy(sleep).is_err() {
            pr_warn!("a completion queue of the kernel cannot be disabled\n");
        }
        self.stop_polling(sleep);
        self.driver_destroy_polled(sleep)
    }

    /// Stops the poller, waits for it, and ends DIM.
    fn stop_polling(&self, sleep: &MaySleep) {
        match self.poll_ctx() {
            bindings::IB_POLL_SOFTIRQ => {
                // SAFETY: A queue with this `poll_ctx` is polled in softirqs, by `NewCq::poll`.
                unsafe { bindings::irq_poll_disable(self.iop()) };
                // After `irq_poll_complete` a poller may still request the next notification, and feed DIM.
                kernel_ext::sync::rcu::synchronize_expedited(sleep);
            }
            bindings::IB_POLL_WORKQUEUE | bindings::IB_POLL_UNBOUND_WORKQUEUE => {
                // SAFETY: A queue with this `poll_ctx` is polled in work items, by `NewCq::poll`.
                unsafe { bindings::cancel_work_sync(self.work()) };
            }
            _ => {}
        }
        // SAFETY: The poller has been stopped, and `self` is the owner's queue, which is being destroyed.
        let dim = unsafe { core::mem::replace(&mut (*self.as_raw()).dim, null_mut()) };
        if dim.is_null() {
            return;
        }
        // SAFETY: `start_dim` has allocated it.
        unsafe {
            bindings::cancel_work_sync(&raw mut (*dim).work);
            drop(KBox::from_raw(dim));
        }
    }

    /// Sets whether the queue belongs to a pool of the device.
    pub fn set_shared(&mut self, shared: bool) {
        // SAFETY: Only the owner writes the bit, and `self` is borrowed mutably.
        unsafe { ib_cq::set_shared_raw(self.as_raw(), shared.into()) };
    }
}

impl Cq {
    fn iop(&self) -> *mut irq_poll {
        // SAFETY: The member lies in the queue, which is valid as `self` is.
        unsafe { (&raw mut (*self.as_raw()).__bindgen_anon_1).cast() }
    }

    fn work(&self) -> *mut work_struct {
        // SAFETY: The member lies in the queue, which is valid as `self` is.
        unsafe { (&raw mut (*self.as_raw()).__bindgen_anon_1).cast() }
    }

    /// The queue as a [`ClientCq`]; `None` for one whose client calls `ib_poll_cq`.
    pub fn of_client(&self) -> Option<ClientCq<'_>> {
        // SAFETY: The member is constant from `new_polled` on until the queue is destroyed.
        let polled = unsafe { !(*self.as_raw()).wc.is_null() };
        // INVARIANT: By the header the requests of a queue from `new_polled` have a `wr_cqe`.
        polled.then_some(ClientCq(self))
    }

    /// Schedules the softirq that polls the queue.
    ///
    /// # Safety
    ///
    /// Softirqs poll the queue: its poller is an `irq_poll`.
    #[inline]
    unsafe fn schedule_softirq(&self) {
        // SAFETY: By the safety requirements.
        unsafe { bindings::irq_poll_sched(self.iop()) };
    }

    /// Queues the work item that polls the queue.
    ///
    /// # Safety
    ///
    /// Work items poll the queue: its poller is a `work_struct`.
    #[inline]
    unsafe fn schedule_work(&self) {
        // SAFETY: By the safety requirements `NewCq::poll` has set the work queue and the work item.
        unsafe {
            let any_cpu = bindings::WORK_CPU_UNBOUND as c_int;
            bindings::queue_work_on(any_cpu, (*self.as_raw()).comp_wq, self.work());
        }
    }
}

/// # Safety
///
/// `cq` is a valid queue that [`NewCq::poll`] has set up for [`Polling::Direct`].
unsafe extern "C" fn unsolicited<P: Poller>(cq: *mut ib_cq, _context: *mut c_void) {
    // SAFETY: By the safety requirements.
    P::unsolicited(unsafe { &*cq.cast() });
}

/// # Safety
///
/// `cq` is a valid queue that [`NewCq::poll`] has set up for [`Polling::Softirq`].
unsafe extern "C" fn schedule_softirq<P: Poller>(cq: *mut ib_cq, _context: *mut c_void) {
    // SAFETY: By the safety requirements.
    let cq: &Cq = unsafe { &*cq.cast() };
    P::announced(cq);
    // SAFETY: By the safety requirements.
    unsafe { cq.schedule_softirq() };
}

/// # Safety
///
/// `iop` is the member of a valid queue that [`NewCq::poll`] has set up for [`Polling::Softirq`].
unsafe extern "C" fn softirq<P: Poller>(iop: *mut irq_poll, budget: c_int) -> c_int {
    // SAFETY: By the safety requirements.
    let cq: &Cq =
        unsafe { &*kernel::container_of!(iop.cast::<PollItem>(), ib_cq, __bindgen_anon_1).cast() };
    let budget = u32::try_from(budget).unwrap_or(0);
    // INVARIANT: `irq_poll` runs one poller of a queue at a time.
    P::softirq(SoftirqTurn(Turn(cq)), budget) as c_int
}

/// # Safety
///
/// `cq` is a valid queue that [`NewCq::poll`] has set up for [`Polling::Work`].
unsafe extern "C" fn schedule_work<P: Poller>(cq: *mut ib_cq, _context: *mut c_void) {
    // SAFETY: By the safety requirements.
    let cq: &Cq = unsafe { &*cq.cast() };
    P::announced(cq);
    // SAFETY: By the safety requirements.
    unsafe { cq.schedule_work() };
}

/// # Safety
///
/// `item` is the member of a valid queue that [`NewCq::poll`] has set up for [`Polling::Work`].
unsafe extern "C" fn work<P: Poller>(item: *mut work_struct) {
    // SAFETY: By the safety requirements.
    let cq: &Cq =
        unsafe { &*kernel::container_of!(item.cast::<PollItem>(), ib_cq, __bindgen_anon_1).cast() };
    // SAFETY: A work item does not run concurrently with itself, and one on a `SleepableQueue` may sleep.
    let (turn, sleep) = unsafe { (WorkTurn::new(cq), MaySleep::assume()) };
    P::work(turn, &sleep);
}

/// # Safety
///
/// `item` is the member of a `struct dim` from `start_dim::<P>`.
unsafe extern "C" fn moderate<P: Poller>(item: *mut work_struct) {
    // SAFETY: By the safety requirements; `struct dim` has its work item on a queue of process context.
    unsafe {
        let dim = kernel::container_of!(item, bindings::dim, work);
        let profile = (*dim).profile_ix.into();
        (*dim).state = bindings::DIM_START_MEASURE as u8;
        P::moderate(&*(*dim).priv_.cast::<Cq>(), profile, &MaySleep::assume());
    }
}
