// SPDX-License-Identifier: GPL-2.0

//! Completion queues: `struct ib_cq` of `<rdma/ib_verbs.h>`, with rings in user or kernel memory.
//!
//! Data paths [`push`](Cq::push) completions; user space reads them from its ring, a kernel consumer by
//! [`poll`](Cq::poll). Completion and event handlers are only called from the work items of [`CqHandle`]: never from
//! the call chain of a verb, never concurrently, and not after the CQ was destroyed.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Cq::state` | the producer's side of the user ring, or the kernel ring; whether the CQ is armed; its moderation | any, interrupts off | nothing |
//!
//! A CQ with [`Moderation`] that is armed for the next completion calls its handler when enough completions were added since it was
//! armed, or by its timer, a time after the first of them; and at once for one with an error. An event that a peer has solicited for
//! a CQ that is armed for such is not held back.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use kernel_ext::timer::{impl_has_timer, now_ns, OnTimer, Timer};
use rdma::{
    abi::wc::WcStatus,
    provider::{
        cq::CqInitAttr,
        wc::{KernelWc, QpNumbers, Wc, WcExtra, WcSink},
    },
};
use rdma::{CqEvent, CqHandle, MaySleep, NotifyFlags};

use crate::doorbell::Doorbells;
use crate::limits;
use crate::ring::{Full, Mappings, MmapInfo, Producer, RingIndices};

/// Size of a completion in a ring: `struct ib_uverbs_wc`.
const USER_WC: usize = size_of::<kernel_ext::bindings::ib_uverbs_wc>();

/// The armed state of a CQ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Armed {
    No,
    /// For a solicited completion or an error.
    Solicited,
    /// For any completion.
    Next,
}

/// How long the call of the handler is held back.
#[derive(Clone, Copy)]
struct Moderation {
    /// Until there are so many completions.
    count: u32,
    /// But no longer than that after the first one.
    period_ns: u64,
}

impl Moderation {
    /// `None` where nothing is held back: for a single completion, or for no time.
    fn new(count: u16, period_us: u16) -> Option<Self> {
        let moderates = count > 1 && period_us > 0;
        moderates.then_some(Self {
            count: count.into(),
            period_ns: u64::from(period_us).saturating_mul(1000),
        })
    }
}

/// When the handler is to be called for a completion.
enum Due {
    /// It is not: the CQ is not armed for it, or the timer calls it.
    No,
    /// Now.
    Now,
    /// In so many nanoseconds, if not earlier.
    Within(u64),
}

enum Ring {
    User(Producer),
    Kernel(KernelRing),
}

/// The ring of a kernel consumer, in the format of the consumer, so that a poll only copies.
struct KernelRing {
    slots: KVVec<KernelWc>,
    indices: RingIndices,
}

impl KernelRing {
    /// A ring for at least `entries` completions. Sleeps.
    fn new(entries: u32) -> Result<Self> {
        let indices = RingIndices::new(entries)?;
        Ok(Self {
            slots: KVVec::from_elem(KernelWc::NONE, indices.slots(), GFP_KERNEL)?,
            indices,
        })
    }

    fn push(&mut self, wc: &Wc) -> Result<(), Full> {
        let place = self.indices.add()?;
        *self.slots.get_mut(place).ok_or(Full)? = wc.to_kernel();
        Ok(())
    }

    /// Moves the oldest completions to `sink`, up to its capacity.
    fn poll(&mut self, sink: &mut WcSink<'_>) {
        // Up to the end of the ring, and on from its start.
        for _ in 0..2 {
            let run = self.slots.get(self.indices.run()).unwrap_or(&[]);
            self.indices.free(sink.extend(run) as u32);
            if self.indices.is_empty() {
                return;
            }
        }
    }
}

impl Ring {
    fn push(&mut self, wc: &Wc) -> Result<(), Full> {
        match self {
            Self::User(ring) => ring.push(&user_bytes(wc)),
            Self::Kernel(ring) => ring.push(wc),
        }
    }

    fn capacity(&self) -> u32 {
        match self {
            Self::User(ring) => ring.capacity(),
            Self::Kernel(ring) => ring.indices.capacity(),
        }
    }

    /// The number of completions that were not polled.
    fn len(&self) -> u32 {
        match self {
            Self::User(ring) => ring.len(),
            Self::Kernel(ring) => ring.indices.len(),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::User(ring) => ring.is_empty(),
            Self::Kernel(ring) => ring.indices.is_empty(),
        }
    }
}

struct State {
    ring: Ring,
    /// For user space that polls by a uverbs command.
    numbers: Option<QpNumbers>,
    armed: Armed,
    moderation: Option<Moderation>,
    /// When the handler is to be called for what moderation holds back.
    due_at: u64,
    /// Completions since it was armed.
    since_armed: u32,
    /// Consecutive doorbells that found completions, since the CQ was armed.
    busy_doorbells: u32,
    /// A completion was lost, and the consumer was notified.
    overrun: bool,
}

impl State {
    /// When the handler is to be called, now that a completion was added.
    fn due(&self, status: WcStatus, solicited: bool) -> Due {
        let failed = status != WcStatus::Success;
        match (self.armed, self.moderation) {
            (Armed::No, _) => Due::No,
            (Armed::Solicited, _) if solicited || failed => Due::Now,
            (Armed::Solicited, _) => Due::No,
            (Armed::Next, None) => Due::Now,
            (Armed::Next, Some(_)) if failed => Due::Now,
            (Armed::Next, Some(moderation)) if self.since_armed >= moderation.count => Due::Now,
            (Armed::Next, Some(moderation)) if self.since_armed == 1 => {
                Due::Within(moderation.period_ns)
            }
            (Armed::Next, Some(_)) => Due::No,
        }
    }

    /// Whether completions were held back.
    fn holds_back(&self) -> bool {
        self.armed == Armed::Next && self.since_armed > 0
    }
}

/// Completions that a consumer has not polled yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pending {
    /// There are no such completions.
    Nothing,
    /// There are some. The consumer arms the CQ and sleeps after it has polled them.
    Notified,
    /// There are some. The consumer polls without notifications.
    Polled,
}

/// After this many consecutive doorbells that find completions, the consumer posts faster than it polls.
const BUSY_DOORBELLS: u32 = 16;

/// A consumer that has not armed the CQ for this many completions polls without notifications.
const POLLING_COMPLETIONS: u32 = 4096;

/// The CQ was full: a completion is lost, and the QP that it belongs to must go to the error state (IBTA vol. 1, 11.6.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow {
    /// It is the first one of the CQ: all QPs that use it must.
    pub(crate) first: bool,
}

/// The driver's data of a completion queue.
#[pin_data]
pub(crate) struct Cq {
    handle: Arc<CqHandle>,
    vector: u32,
    /// The deferred doorbells of queue pairs whose send CQ this is.
    #[pin]
    pub(crate) doorbells: Doorbells,
    /// Taken in any context; nothing is locked inside.
    #[pin]
    state: SpinLockIrq<State>,
    /// Calls the handler for completions that moderation has held back.
    #[pin]
    timer: Timer<Self>,
}

impl_has_timer! { impl HasTimer<0> for Cq { self.timer } }

impl OnTimer for Cq {
    fn expired(this: Arc<Self>) {
        let mut state = this.state.lock();
        if !state.holds_back() {
            return;
        }
        let due_at = state.due_at;
        if now_ns() < due_at {
            // It was armed for completions that were told earlier, by their number.
            drop(state);
            return Timer::arm(&this, due_at);
        }
        state.armed = Armed::No;
        drop(state);
        this.handle.notify();
    }
}

impl Cq {
    fn new(
        handle: &Arc<CqHandle>,
        ring: Ring,
        vector: u32,
        numbers: Option<QpNumbers>,
        has_channel: bool,
    ) -> Result<Arc<Self>> {
        let state = State {
            ring,
            numbers,
            armed: Armed::No,
            moderation: None,
            due_at: 0,
            since_armed: if has_channel { 0 } else { POLLING_COMPLETIONS },
            busy_doorbells: 0,
            overrun: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                handle: handle.clone(),
                vector,
                doorbells <- Doorbells::new(),
                state <- new_spinlock_irq!(state, "Cq::state"),
                timer <- Timer::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Creates a CQ for a kernel consumer, with at least as many entries as `attr` says.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more than [`limits::MAX_CQE`], `ENOMEM`.
    pub(crate) fn for_kernel(
        handle: &Arc<CqHandle>,
        attr: &CqInitAttr,
        _ctx: &MaySleep,
    ) -> Result<Arc<Self>> {
        check_size(attr.cqe)?;
        let ring = Ring::Kernel(KernelRing::new(attr.cqe)?);
        Self::new(handle, ring, attr.comp_vector, None, false)
    }

    /// Creates a CQ whose ring is mapped by user space. `has_channel`: the CQ has a completion channel.
    ///
    /// # Errors
    ///
    /// As for [`Self::for_kernel`].
    pub(crate) fn for_user(
        handle: &Arc<CqHandle>,
        attr: &CqInitAttr,
        has_channel: bool,
        mappings: &Arc<Mappings>,
        ctx: &MaySleep,
    ) -> Result<(Arc<Self>, MmapInfo)> {
        check_size(attr.cqe)?;
        let ring = Producer::new(mappings, attr.cqe, USER_WC, ctx)?;
        let info = ring.mmap_info();
        let numbers = QpNumbers::new(ctx)?;
        let ring = Ring::User(ring);
        let cq = Self::new(handle, ring, attr.comp_vector, Some(numbers), has_channel)?;
        Ok((cq, info))
    }

    /// The completion vector.
    pub(crate) fn vector(&self) -> u32 {
        self.vector
    }

    /// Accounts for a doorbell of a queue pair with this send CQ. Returns whether the consumer has completions to poll, and how it
    /// polls; and whether it had some at each of the last [`BUSY_DOORBELLS`] doorbells.
    pub(crate) fn doorbell(&self) -> (Pending, bool) {
        let mut state = self.state.lock();
        if state.ring.is_empty() {
            state.busy_doorbells = 0;
            return (Pending::Nothing, false);
        }
        state.busy_doorbells = state.busy_doorbells.saturating_add(1);
        let pending = if state.armed != Armed::No || state.since_armed < POLLING_COMPLETIONS {
            Pending::Notified
        } else {
            Pending::Polled
        };
        (pending, state.busy_doorbells >= BUSY_DOORBELLS)
    }

    /// Number of completions that were not polled (`peek_cq`). Any context.
    pub(crate) fn pending(&self) -> u32 {
        self.state.lock().ring.len()
    }

    /// Number of entries.
    pub(crate) fn capacity(&self) -> u32 {
        self.state.lock().ring.capacity()
    }

    /// Adds a completion. Any context.
    ///
    /// `solicited`: the sender has requested a solicited event. If the CQ is armed for such a completion, its handler
    /// is scheduled, at once or by moderation.
    ///
    /// # Errors
    ///
    /// [`Overflow`]: nothing was added. The first time, the CQ raises `IB_EVENT_CQ_ERR`.
    pub(crate) fn push(self: &Arc<Self>, wc: &Wc, solicited: bool) -> Result<(), Overflow> {
        let mut state = self.state.lock();
        if state.ring.push(wc).is_err() {
            let first = !core::mem::replace(&mut state.overrun, true);
            drop(state);
            if first {
                self.handle.raise(CqEvent::Err);
            }
            return Err(Overflow { first });
        }
        state.since_armed = state.since_armed.saturating_add(1);
        match state.due(wc.status, solicited) {
            Due::No => {}
            Due::Now => {
                state.armed = Armed::No;
                drop(state);
                self.handle.notify();
            }
            Due::Within(period) => {
                let due_at = now_ns().saturating_add(period);
                state.due_at = due_at;
                drop(state);
                Timer::arm(self, due_at);
            }
        }
        Ok(())
    }

    /// Sets the moderation: the handler is called for `count` completions, or `period_us` microseconds after the first one. A count
    /// of 0 or 1 or a period of 0 means at once. What is held back, and would not be any more, is told now.
    pub(crate) fn moderate(&self, count: u16, period_us: u16) {
        let mut state = self.state.lock();
        state.moderation = Moderation::new(count, period_us);
        let least = state.moderation.map_or(1, |moderation| moderation.count);
        if state.holds_back() && state.since_armed >= least {
            state.armed = Armed::No;
            drop(state);
            self.handle.notify();
        }
    }

    /// Stops the timer for good: no QP uses the CQ any more.
    pub(crate) fn destroy(self: &Arc<Self>, sleep: &MaySleep) {
        Timer::shut_down(self, sleep);
    }

    /// Moves the oldest completions to `sink`, up to its capacity: for a kernel consumer, or for user space that polls
    /// by a uverbs command. Any context.
    pub(crate) fn poll(&self, sink: &mut WcSink<'_>) {
        let mut state = self.state.lock();
        let State { ring, numbers, .. } = &mut *state;
        match (ring, numbers) {
            (Ring::Kernel(ring), _) => ring.poll(sink),
            (Ring::User(ring), Some(numbers)) => {
                let mut wc = [0; USER_WC];
                while sink.room() > 0 && ring.take(&mut wc) {
                    let _ = sink.push_user(&wc, numbers);
                }
            }
            (Ring::User(_), None) => {}
        }
    }

    /// Arms the CQ for one call of the completion handler, and runs the deferred doorbells. Any context for the CQ of a kernel
    /// consumer, process context for that of a program.
    ///
    /// Arming for the next completion overrides arming for a solicited one. Returns whether there are completions whose
    /// notification was missed, if `flags` ask for that.
    pub(crate) fn request_notify(&self, flags: NotifyFlags) -> bool {
        // The program is going to sleep.
        self.doorbells.run_all();
        let mut state = self.state.lock();
        if state.armed != Armed::Next {
            // Completions that are held back stay so.
            state.since_armed = 0;
        }
        state.busy_doorbells = 0;
        if flags.contains(NotifyFlags::NEXT_COMP) {
            state.armed = Armed::Next;
        } else if flags.contains(NotifyFlags::SOLICITED) && state.armed == Armed::No {
            state.armed = Armed::Solicited;
        }
        flags.contains(NotifyFlags::REPORT_MISSED_EVENTS) && !state.ring.is_empty()
    }

    /// Replaces the ring of a user CQ by one with at least `entries` entries, and moves the completions that were not
    /// polled.
    ///
    /// Returns the mmap offset of the new ring, and the number of entries.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more than [`limits::MAX_CQE`], if the pending completions do not fit, or for the CQ of a kernel
    /// consumer; `ENOMEM`. The CQ is then unchanged.
    pub(crate) fn resize(
        &self,
        entries: u32,
        mappings: &Arc<Mappings>,
        ctx: &MaySleep,
    ) -> Result<(MmapInfo, u32)> {
        check_size(entries)?;
        let mut ring = Producer::new(mappings, entries, USER_WC, ctx)?;
        let answer = (ring.mmap_info(), ring.capacity());
        let mut state = self.state.lock();
        let Ring::User(old) = &mut state.ring else {
            return Err(EINVAL);
        };
        let moved = old.move_to(&mut ring).map_err(|_| EINVAL);
        if moved.is_ok() {
            core::mem::swap(old, &mut ring);
        }
        // Unlock first: the old ring is freed, which may sleep.
        drop(state);
        drop(ring);
        moved.map(|()| answer)
    }
}

fn check_size(entries: u32) -> Result {
    if entries > limits::MAX_CQE {
        return Err(EINVAL);
    }
    Ok(())
}

/// The completion as `struct ib_uverbs_wc`, which has no padding.
fn user_bytes(wc: &Wc) -> [u8; USER_WC] {
    let extra = match wc.ex {
        WcExtra::None => [0; 4],
        WcExtra::Imm(data) => data,
        WcExtra::Invalidated(rkey) => rkey.to_ne_bytes(),
    };
    let user = wc.to_uverbs();
    let mut bytes = [0; USER_WC];
    bytes[0..8].copy_from_slice(&user.wr_id.to_ne_bytes());
    bytes[8..12].copy_from_slice(&user.status.to_ne_bytes());
    bytes[12..16].copy_from_slice(&user.opcode.to_ne_bytes());
    bytes[16..20].copy_from_slice(&user.vendor_err.to_ne_bytes());
    bytes[20..24].copy_from_slice(&user.byte_len.to_ne_bytes());
    bytes[24..28].copy_from_slice(&extra);
    bytes[28..32].copy_from_slice(&user.qp_num.to_ne_bytes());
    bytes[32..36].copy_from_slice(&user.src_qp.to_ne_bytes());
    bytes[36..40].copy_from_slice(&user.wc_flags.to_ne_bytes());
    bytes[40..42].copy_from_slice(&user.pkey_index.to_ne_bytes());
    bytes[42..44].copy_from_slice(&user.slid.to_ne_bytes());
    bytes[44..47].copy_from_slice(&[user.sl, user.dlid_path_bits, user.port_num]);
    bytes
}

const _: () = assert!(USER_WC == 48);
