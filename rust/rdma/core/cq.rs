// SPDX-License-Identifier: GPL-2.0

//! Completion queues and their pollers: `struct ib_cq`, `enum ib_poll_context`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    mem::MaybeUninit,
    ptr::{null_mut, NonNull},
};

use kernel::{
    ffi::{c_int, c_void},
    prelude::*,
};
use kernel_ext::{
    entry::{view_of, FromC},
    work::SleepableQueue,
};
use rdma_bindings::{
    self as bindings, ib_comp_handler, ib_cq, ib_cq_init_attr, ib_event, ib_wc, irq_poll,
    work_struct,
};

use super::{
    list,
    object::{constants, counted, driver_object, links, tracked, Destroyed, Failed, Fresh, Owned},
    Cq, Device,
};
use crate::MaySleep;

/// A handler of events of an object, as C has it.
pub type EventFn = Option<unsafe extern "C" fn(*mut ib_event, *mut c_void)>;

driver_object!(Cq, size_ib_cq);
counted!(Cq);
tracked!(Cq);

view_of! {
    /// What a completion queue is to be like.
    pub struct CqInit(ib_cq_init_attr);
}

impl CqInit {
    constants! {
        /// How many completions it has room for.
        cqe: u32 = cqe;
    }
}

/// What a completion queue of the core's own is to be like.
pub struct OwnCqInit(ib_cq_init_attr);

impl OwnCqInit {
    /// So many completions, and a completion vector.
    pub fn new(cqe: u32, comp_vector: u32) -> Self {
        Self(ib_cq_init_attr {
            cqe,
            comp_vector,
            flags: 0,
        })
    }

    /// As drivers take it.
    pub fn view(&self) -> &CqInit {
        // SAFETY: A view is a transparent wrapper; nobody changes what it shows.
        unsafe { &*core::ptr::from_ref(&self.0).cast() }
    }
}

impl Cq {
    links! {
        /// The device.
        device: Device = device;
    }
    constants! {
        /// The completion vector.
        comp_vector: u32 = comp_vector;
        /// `enum ib_poll_context`: who polls.
        poll_ctx: u32 = poll_ctx;
    }

    /// How many completions it has room for. Resizing changes it.
    #[inline]
    pub fn cqe(&self) -> u32 {
        // SAFETY: The driver writes the number whole.
        let cqe = unsafe { (&raw const (*self.as_raw()).cqe).read_volatile() };
        u32::try_from(cqe).unwrap_or(0)
    }

    /// Whether it belongs to a pool of the device.
    #[inline]
    pub fn is_shared(&self) -> bool {
        // SAFETY: The owner alone writes the bit, before the queue is in a pool and after it was taken out.
        unsafe { ib_cq::shared_raw(self.as_raw()) != 0 }
    }

    /// Whether users of the pool have claimed room in it.
    #[inline]
    pub fn is_claimed(&self) -> bool {
        self.claimed() != 0
    }

    /// How much room users of the pool have claimed.
    #[inline]
    pub fn claimed(&self) -> u32 {
        // SAFETY: Any value is valid; writers have the pool's lock.
        unsafe { (&raw const (*self.as_raw()).cqe_used).read_volatile() }
    }

    fn set_claimed(&self, count: u32) {
        // SAFETY: Any value is valid, and it is written whole.
        unsafe { (&raw mut (*self.as_raw()).cqe_used).write_volatile(count) };
    }
}

impl Fresh<Cq> {
    /// Memory for a completion queue with handlers of its own.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_cq(device: &Device, handlers: CqHandlers, sleep: &MaySleep) -> Result<Self> {
        let mut cq = Self::alloc(device, Some(sleep))?;
        let raw: &mut ib_cq = cq.raw();
        raw.device = device.as_raw();
        raw.comp_handler = handlers.completion;
        raw.event_handler = handlers.event;
        raw.cq_context = handlers.context;
        Ok(cq)
    }

    /// Memory for a completion queue that is polled for its client, and for a batch of completions.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_polled(
        device: &Device,
        context: *mut c_void,
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
        raw.cq_context = context;
        raw.poll_ctx = poll_ctx;
        raw.comp_vector = comp_vector;
        raw.wc = KBox::into_raw(batch).cast();
        Ok(cq)
    }

    /// Frees the batch of completions, if there is one.
    pub(super) fn free_batch(&mut self) {
        let batch = core::mem::replace(&mut self.raw().wc, null_mut());
        // SAFETY: `new_polled` has allocated it, and nobody polls a queue that the driver does not know.
        drop((!batch.is_null()).then(|| unsafe { KBox::from_raw(batch.cast::<RawBatch>()) }));
    }
}

/// Who is told of completions and of events, and with what.
pub struct CqHandlers {
    /// The handler of completions.
    pub completion: ib_comp_handler,
    /// The handler of events.
    pub event: EventFn,
    /// What handlers get.
    pub context: *mut c_void,
}

/// A handler of C, or none, as an argument of a C entry point.
pub struct Handler<T>(pub T);

// SAFETY: The type is the same on both sides.
unsafe impl FromC for Handler<EventFn> {
    type Raw = EventFn;

    #[inline]
    unsafe fn from_c(raw: EventFn) -> Self {
        Self(raw)
    }
}

// SAFETY: The type is the same on both sides.
unsafe impl FromC for Handler<ib_comp_handler> {
    type Raw = ib_comp_handler;

    #[inline]
    unsafe fn from_c(raw: ib_comp_handler) -> Self {
        Self(raw)
    }
}

/// How many completions a polled queue takes at once.
pub const BATCH: usize = 16;

/// What polls a queue: a member of either kind.
type PollItem = bindings::ib_cq__bindgen_ty_1;

type RawBatch = [MaybeUninit<ib_wc>; BATCH];

/// A queue that the core polls for a client, or the client by the core's function.
///
/// # Invariants
///
/// Each request that completes there has a handler (`wr_cqe`), which stays until it was called, or none.
#[derive(Clone, Copy)]
pub struct ClientCq<'a>(&'a Cq);

impl core::ops::Deref for ClientCq<'_> {
    type Target = Cq;

    #[inline]
    fn deref(&self) -> &Cq {
        self.0
    }
}

// SAFETY: The type is the same on both sides.
unsafe impl FromC for ClientCq<'_> {
    type Raw = *mut ib_cq;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the queue is there; a view is a transparent wrapper.
        // INVARIANT: Whoever has a queue polled by the core posts requests with handlers.
        Self(unsafe { &*raw.cast() })
    }
}

/// A completion of a request with a handler, as a driver has filled it in. It is delivered once.
pub struct Completion<'a> {
    wc: &'a mut ib_wc,
    cq: ClientCq<'a>,
}

impl Completion<'_> {
    /// Whether the request was carried out.
    #[inline]
    pub fn is_success(&self) -> bool {
        self.wc.status == bindings::IB_WC_SUCCESS
    }

    /// Calls the handler of the request; says whether it has one.
    #[inline]
    pub fn deliver(self) -> bool {
        // SAFETY: By the invariants of the queue there is a handler or nothing.
        let handler = unsafe { self.wc.__bindgen_anon_1.wr_cqe };
        // SAFETY: By the same invariants; the completion was not delivered yet.
        let Some(done) = (unsafe { handler.as_ref() }).and_then(|cqe| cqe.done) else {
            return false;
        };
        // SAFETY: The queue and the completion are there during the call.
        unsafe { done(self.cq.as_raw(), self.wc) };
        true
    }
}

/// The completions that were taken from a queue at once.
pub struct Taken<'a> {
    wcs: core::slice::IterMut<'a, ib_wc>,
    cq: ClientCq<'a>,
}

impl<'a> Iterator for Taken<'a> {
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

impl ExactSizeIterator for Taken<'_> {}

/// Room for completions.
pub struct Batch<'a>(&'a mut [MaybeUninit<ib_wc>]);

impl<'a> Batch<'a> {
    /// A batch in this room.
    #[inline]
    pub fn new(room: &'a mut [MaybeUninit<ib_wc>]) -> Self {
        Self(room)
    }

    /// How many completions there is room for.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.0.len()
    }

    /// Lets the driver fill in up to `max` completions.
    #[inline]
    pub fn poll<'b>(&'b mut self, cq: ClientCq<'b>, max: usize) -> Taken<'b> {
        let max = max.min(self.capacity());
        let room = self.0.get_mut(..max).unwrap_or_default();
        Taken {
            wcs: cq.driver_poll(room).iter_mut(),
            cq,
        }
    }
}

/// The turn of the one who polls a queue: a queue has one poller at a time, and each has a batch.
///
/// # Invariants
///
/// The queue is from `new_polled`. Nobody else has a turn of it, and so nobody else has its batch or feeds its moderation.
pub struct Turn<'a>(&'a Cq);

impl<'a> Turn<'a> {
    /// The queue.
    #[inline]
    pub fn cq(&self) -> ClientCq<'a> {
        // INVARIANT: Clients of queues from `new_polled` post requests with handlers.
        ClientCq(self.0)
    }

    /// The batch of the queue.
    #[inline]
    pub fn batch(&mut self) -> Batch<'_> {
        // SAFETY: `new_polled` has allocated it; by the type invariants nobody else uses it, nor do we while `self` is lent.
        Batch(unsafe { &mut *(*self.0.as_raw()).wc.cast::<RawBatch>() })
    }

    /// Tells the moderation, if there is one, how many completions this turn has found.
    #[inline]
    pub fn measure(&mut self, completed: u32) {
        // SAFETY: The member is constant while the queue is polled.
        let dim = unsafe { (*self.0.as_raw()).dim };
        if !dim.is_null() {
            // SAFETY: By the type invariants it is not fed by another poller now.
            unsafe { bindings::rdma_dim(dim, completed.into()) };
        }
    }
}

/// The turn of a softirq.
///
/// # Invariants
///
/// Softirqs poll the queue.
pub struct SoftirqTurn<'a>(Turn<'a>);

impl<'a> SoftirqTurn<'a> {
    /// What every turn has.
    #[inline]
    pub fn turn(&mut self) -> &mut Turn<'a> {
        &mut self.0
    }

    /// Ends polling: the next turn may begin. Completions are to be announced again, or it is to be asked for.
    #[inline]
    pub fn complete(self) -> SoftirqIdle<'a> {
        let cq = self.0 .0;
        // SAFETY: By the type invariants.
        unsafe { bindings::irq_poll_complete(cq.iop()) };
        // INVARIANT: Those of `self`.
        SoftirqIdle(cq)
    }
}

/// A queue that a softirq has polled and does not poll any more.
///
/// # Invariants
///
/// Softirqs poll the queue.
pub struct SoftirqIdle<'a>(&'a Cq);

impl SoftirqIdle<'_> {
    /// Lets a softirq poll soon.
    #[inline]
    pub fn resume(self) {
        // SAFETY: By the type invariants.
        unsafe { self.0.schedule_softirq() };
    }
}

/// The turn of a work item.
///
/// # Invariants
///
/// Work items poll the queue.
pub struct WorkTurn<'a>(Turn<'a>);

impl<'a> WorkTurn<'a> {
    /// The turn of a queue.
    ///
    /// # Safety
    ///
    /// Work items poll the queue, and none does now or before this turn ends but the one that this is called in.
    #[inline]
    pub unsafe fn new(cq: &'a Cq) -> Self {
        // INVARIANT: By the safety requirements.
        Self(Turn(cq))
    }

    /// What every turn has.
    #[inline]
    pub fn turn(&mut self) -> &mut Turn<'a> {
        &mut self.0
    }

    /// Lets a work item poll soon.
    #[inline]
    pub fn resume(self) {
        // SAFETY: By the type invariants.
        unsafe { self.0 .0.schedule_work() };
    }
}

/// Who polls completion queues for their clients: the core.
pub trait Poller: 'static {
    /// Polls in softirq context; says how many completions there were. `budget` is how many there may be.
    fn softirq(turn: SoftirqTurn<'_>, budget: u32) -> u32;

    /// Polls in a work item.
    fn work(turn: WorkTurn<'_>, sleep: &MaySleep);

    /// Completions were announced, and a softirq or a work item is about to poll. Any context.
    fn announced(cq: &Cq);

    /// A completion was announced on a queue that its client polls.
    fn unsolicited(cq: &Cq);

    /// How completions arrive has changed: the queue is to be moderated by this profile.
    fn moderate(cq: &Cq, profile: usize, sleep: &MaySleep);
}

/// Who polls a queue: `enum ib_poll_context` with what the core has for it.
pub enum Polling {
    /// The client.
    Direct,
    /// Softirqs, so many completions at a time.
    Softirq(u16),
    /// Work items of a work queue, which stays as long as the module.
    Work(&'static SleepableQueue),
}

/// A queue from `new_polled` that its driver has just created, and that nobody polls yet.
///
/// # Invariants
///
/// Nobody else knows the queue, and completions are not announced yet.
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
    pub(super) unsafe fn new(cq: Owned<Cq>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(cq)
    }

    /// Lets the queue be polled, and moderate itself if `dim`; without memory it does not.
    ///
    /// # Errors
    ///
    /// `EINVAL` where its `poll_ctx` names another one who polls: then the queue is destroyed, unless the driver fails.
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
                // SAFETY: By the type invariants nobody uses the member, which is that of queues that are polled so.
                unsafe { bindings::irq_poll_init(cq.iop(), weight.into(), Some(softirq::<P>)) };
                schedule_softirq::<P>
            }
            (
                bindings::IB_POLL_WORKQUEUE | bindings::IB_POLL_UNBOUND_WORKQUEUE,
                Polling::Work(queue),
            ) => {
                // SAFETY: As above.
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
        // SAFETY: By the type invariants completions are not announced yet.
        unsafe { (*raw).comp_handler = Some(handler) };
        Ok(cq)
    }
}

/// Lets a queue moderate itself; without memory it does not. Nobody polls it yet.
fn start_dim<P: Poller>(cq: &Owned<Cq>) {
    let Ok(mut dim) = KBox::new(pin_init::zeroed::<bindings::dim>(), GFP_KERNEL) else {
        return;
    };
    dim.state = bindings::DIM_START_MEASURE as u8;
    dim.tune_state = bindings::DIM_GOING_RIGHT as u8;
    dim.profile_ix = bindings::RDMA_DIM_START_PROFILE as u8;
    dim.priv_ = cq.as_raw().cast();
    let dim = KBox::into_raw(dim);
    // SAFETY: The memory is the queue's from now on, which nobody polls.
    unsafe {
        bindings::ib_work_init(&raw mut (*dim).work, Some(moderate::<P>));
        (*cq.as_raw()).dim = dim;
    }
}

impl Owned<Cq> {
    /// Whether the queue is from `new_polled`.
    #[inline]
    pub(super) fn is_polled(&self) -> bool {
        self.of_client().is_some()
    }

    /// Destroys a queue that is polled: waits until nobody does, lets the driver destroy it, and frees its batch.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a queue that is not, and those of the driver, which then still uses the queue.
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

    /// Waits until nobody polls, and ends the moderation.
    fn stop_polling(&self, sleep: &MaySleep) {
        match self.poll_ctx() {
            bindings::IB_POLL_SOFTIRQ => {
                // SAFETY: A queue with this `poll_ctx` is polled in softirqs, by `NewCq::poll`.
                unsafe { bindings::irq_poll_disable(self.iop()) };
                // A poller that has said it is done may still ask for the next announcement, and measure.
                kernel_ext::sync::rcu::synchronize_expedited(sleep);
            }
            bindings::IB_POLL_WORKQUEUE | bindings::IB_POLL_UNBOUND_WORKQUEUE => {
                // SAFETY: A queue with this `poll_ctx` is polled in work items, by `NewCq::poll`.
                unsafe { bindings::cancel_work_sync(self.work()) };
            }
            _ => {}
        }
        // SAFETY: Nobody polls the queue any more, which is taken down.
        let dim = unsafe { core::mem::replace(&mut (*self.as_raw()).dim, null_mut()) };
        if dim.is_null() {
            return;
        }
        // SAFETY: `start_dim` has made it.
        unsafe {
            bindings::cancel_work_sync(&raw mut (*dim).work);
            drop(KBox::from_raw(dim));
        }
    }

    /// Says whether the queue belongs to a pool of the device.
    pub fn set_shared(&mut self, shared: bool) {
        // SAFETY: Only the owner writes the bit, and `self` is lent once.
        unsafe { ib_cq::set_shared_raw(self.as_raw(), shared.into()) };
    }
}

impl Cq {
    fn iop(&self) -> *mut irq_poll {
        // SAFETY: The member is there.
        unsafe { (&raw mut (*self.as_raw()).__bindgen_anon_1).cast() }
    }

    fn work(&self) -> *mut work_struct {
        // SAFETY: The member is there.
        unsafe { (&raw mut (*self.as_raw()).__bindgen_anon_1).cast() }
    }

    /// The queue as one whose requests have handlers; `None` for one whose client polls and handles completions by itself.
    pub fn of_client(&self) -> Option<ClientCq<'_>> {
        // SAFETY: The member is constant from `new_polled` on until the queue is gone.
        let polled = unsafe { !(*self.as_raw()).wc.is_null() };
        // INVARIANT: The queue is from `new_polled`: its clients post requests with handlers.
        polled.then_some(ClientCq(self))
    }

    /// Lets a softirq poll soon.
    ///
    /// # Safety
    ///
    /// Softirqs poll the queue.
    #[inline]
    unsafe fn schedule_softirq(&self) {
        // SAFETY: By the safety requirements.
        unsafe { bindings::irq_poll_sched(self.iop()) };
    }

    /// Lets a work item poll soon.
    ///
    /// # Safety
    ///
    /// Work items poll the queue.
    #[inline]
    unsafe fn schedule_work(&self) {
        // SAFETY: By the safety requirements; `poll_in_work` has set both.
        unsafe {
            let any_cpu = bindings::WORK_CPU_UNBOUND as c_int;
            bindings::queue_work_on(any_cpu, (*self.as_raw()).comp_wq, self.work());
        }
    }
}

/// # Safety
///
/// `cq` is a queue made for `poll_directly::<P>`.
unsafe extern "C" fn unsolicited<P: Poller>(cq: *mut ib_cq, _context: *mut c_void) {
    // SAFETY: By the safety requirements.
    P::unsolicited(unsafe { &*cq.cast() });
}

/// # Safety
///
/// `cq` is a queue made for `poll_in_softirq::<P>`.
unsafe extern "C" fn schedule_softirq<P: Poller>(cq: *mut ib_cq, _context: *mut c_void) {
    // SAFETY: By the safety requirements.
    let cq: &Cq = unsafe { &*cq.cast() };
    P::announced(cq);
    // SAFETY: By the safety requirements.
    unsafe { cq.schedule_softirq() };
}

/// # Safety
///
/// `iop` is the member of a queue made for `poll_in_softirq::<P>`.
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
/// `cq` is a queue made for `poll_in_work::<P>`.
unsafe extern "C" fn schedule_work<P: Poller>(cq: *mut ib_cq, _context: *mut c_void) {
    // SAFETY: By the safety requirements.
    let cq: &Cq = unsafe { &*cq.cast() };
    P::announced(cq);
    // SAFETY: By the safety requirements.
    unsafe { cq.schedule_work() };
}

/// # Safety
///
/// `item` is the member of a queue made for `poll_in_work::<P>`.
unsafe extern "C" fn work<P: Poller>(item: *mut work_struct) {
    // SAFETY: By the safety requirements.
    let cq: &Cq =
        unsafe { &*kernel::container_of!(item.cast::<PollItem>(), ib_cq, __bindgen_anon_1).cast() };
    // SAFETY: A work item does not run twice at a time; that of a `SleepableQueue` may sleep.
    let (turn, sleep) = unsafe { (WorkTurn::new(cq), MaySleep::assume()) };
    P::work(turn, &sleep);
}

/// # Safety
///
/// `item` is the member of what `start_dim::<P>` has made.
unsafe extern "C" fn moderate<P: Poller>(item: *mut work_struct) {
    // SAFETY: By the safety requirements; work items may sleep.
    unsafe {
        let dim = kernel::container_of!(item, bindings::dim, work);
        let profile = (*dim).profile_ix.into();
        (*dim).state = bindings::DIM_START_MEASURE as u8;
        P::moderate(&*(*dim).priv_.cast::<Cq>(), profile, &MaySleep::assume());
    }
}

/// The completion queues of a device that clients share, of one `enum ib_poll_context`. The lock is held.
pub struct CqPool<'a> {
    device: &'a Device,
    nth: usize,
    _lock: list::Locked,
}

impl Device {
    /// Locks the queues that clients share, of one `enum ib_poll_context`. `None` where they are not shared.
    pub fn cq_pool(&self, poll_ctx: u32) -> Option<CqPool<'_>> {
        if poll_ctx > bindings::IB_POLL_LAST_POOL_TYPE {
            return None;
        }
        Some(CqPool {
            device: self,
            nth: poll_ctx as usize,
            // SAFETY: The lock was set up with the device.
            _lock: unsafe { list::Locked::take(&raw mut (*self.as_raw()).cq_pools_lock) },
        })
    }

    /// How many completion vectors are worth using: no more than there are CPUs.
    pub fn usable_vectors(&self) -> u32 {
        // SAFETY: The member is constant from registration on.
        let (vectors, cpus) = unsafe {
            (
                (*self.as_raw()).num_comp_vectors,
                bindings::num_online_cpus(),
            )
        };
        u32::try_from(vectors).unwrap_or(0).min(cpus)
    }
}

impl<'a> CqPool<'a> {
    fn head(&self) -> *mut bindings::list_head {
        // SAFETY: `cq_pool` has checked that there are so many.
        unsafe {
            (&raw mut (*self.device.as_raw()).cq_pools)
                .cast::<bindings::list_head>()
                .add(self.nth)
        }
    }

    /// The first queue that is as wanted.
    pub fn find(&self, mut wanted: impl FnMut(&Cq) -> bool) -> Option<&'a Cq> {
        let mut at = self.head();
        loop {
            // SAFETY: The lock is held.
            at = unsafe { list::after(self.head(), at) }?;
            // SAFETY: Queues of the pool stay until the device goes.
            let cq: &'a Cq = unsafe { &*kernel::container_of!(at, ib_cq, pool_entry).cast() };
            if wanted(cq) {
                return Some(cq);
            }
        }
    }

    /// Claims room in a queue of the pool.
    pub fn claim(&self, cq: &Cq, count: u32) {
        cq.set_claimed(cq.claimed().wrapping_add(count));
    }

    /// Gives room in a queue of the pool back. What was not claimed is not given back.
    pub fn give_back(&self, cq: &Cq, count: u32) {
        cq.set_claimed(cq.claimed().saturating_sub(count));
    }

    /// Adds a queue in front. Its owner is the pool from now on.
    pub fn add(&self, cq: Owned<Cq>) {
        // SAFETY: The lock is held, and the queue is in no list.
        unsafe { list::insert_after(self.head(), &raw mut (*cq.into_raw()).pool_entry) };
    }

    /// Takes a queue out, if there is one.
    pub fn take(&self) -> Option<Owned<Cq>> {
        // SAFETY: The lock is held; the pool was the queue's owner.
        unsafe {
            let entry = list::first(self.head())?;
            list::remove(entry);
            let cq = kernel::container_of!(entry, ib_cq, pool_entry);
            NonNull::new(cq).map(|cq| Owned::from_raw(cq))
        }
    }
}

view_of! {
    /// A completion that a client of the kernel has polled.
    ///
    /// # Invariants
    ///
    /// It is filled in, and does not change while it is lent.
    pub struct WcView(ib_wc);
}

impl WcView {
    /// A copy.
    #[inline]
    pub fn get(&self) -> ib_wc {
        // SAFETY: By the type invariants.
        unsafe { *self.as_raw() }
    }
}
