// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: `struct ib_qp` of `<rdma/ib_verbs.h>`.
//!
//! A QP is one state machine, the *engine*: requester, responder and their queues, behind one lock that disables
//! softirqs. Whoever takes the lock handles all packets in the QP's [backlog](crate::backlog), and runs requester and responder
//! once: a doorbell (process context), a packet (softirq), and the QP's own work item on the QP's [processor](home). The work item
//! is queued for packets that arrive elsewhere, by the timer, when a budget is used up, when the send queue of the network has
//! room again, and for requests that are posted in a context in which the lock must not be taken.
//!
//! ```text
//!   post_send ──────────────┐                          ┌─ requester ─┐
//!   packet ─────────────────┤ Engine (one lock, BH) ───┤             ├─ QpOps: memory, CQs, packets out
//!   packet, timer ── work ──┘                          └─ responder ─┘
//! ```
//!
//! | lock | context | protects | inside it |
//! |---|---|---|---|
//! | `attr` | process | `modify_qp` and `query_qp` | `engine` |
//! | `engine` | process, softirq | the engine | `posted_*`, SRQ, CQ, MR and MW locks, the timer's, backlogs' |
//! | `backlog` | process, softirq | packets that wait for the QP | the work item is queued |
//! | `posted_sends`, `posted_recvs` | any | requests posted by kernel consumers | nothing |
//!
//! The device's table, the timer and the work item own references to a QP. Its memory must be freed in a context that
//! may sleep, so [`Qp::destroy`] drops these references before it returns, except for the table's, which is dropped
//! after a grace period. Packets in flight refer to [`Flight`], not to the QP.

mod attr;
mod create;
mod direct;
mod engine;
mod home;
mod ops;
mod post;
mod recv;
mod recv_queue;
mod send;
mod send_queue;
mod wakeup;

use crate::backlog::{Backlog, Next, Waiting};
use crate::cq::Cq;
use crate::device::Rxe;
use crate::doorbell::{Deferred, Doorbell, LONGEST_WAIT};
use crate::flight::{Flight, Waiter};
use crate::ids::PdId;
use crate::mcast::Member;
use crate::mw::BinderId;
use crate::path::Path;
use crate::wqe::{Inbox, Limits, RecvWqe, SendWqe};
use attr::{Attr, Fixed};
use core::sync::atomic::{AtomicU32, Ordering};
use engine::{Engine, BUDGET};
use home::Home;
use kernel::prelude::*;
use kernel::sync::{rcu, Arc, ArcBorrow, Mutex};
use kernel::workqueue::{self, impl_has_work, Work, WorkItem};
use kernel_ext::error::EOPNOTSUPP;
use kernel_ext::sync::{SpinLockBh, SpinLockBhGuard, SpinLockIrq};
use kernel_ext::timer::{impl_has_timer, now_ns, OnTimer, Timer};
use kernel_ext::work;
use rdma::{
    abi::qp::{QpAttrMask, QpCap},
    provider::qp::{QpAttrOut, QpInitOut},
};
use rdma::{MaySleep, QpHandle, QpId, QpModify, QpState, QpType};
use roce::state::{Run, Service, Time};
use wakeup::{Duty, Scheduled};

/// A queue pair.
#[pin_data]
pub(crate) struct Qp {
    rxe: Arc<Rxe<Qp>>,
    id: QpId,
    qp_type: QpType,
    service: Service,
    pd: PdId,
    /// Identifies the QP as the binder of type 2 windows.
    binder: BinderId,
    /// Whether it belongs to user space.
    user: bool,
    signal_all: bool,
    /// Whether it has a shared receive queue.
    has_srq: bool,
    cap: QpCap,
    send_limits: Limits,
    events: Arc<QpHandle>,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
    /// The state as `enum ib_qp_state`, for readers without the lock.
    state: AtomicU32,
    outstanding_sends: AtomicU32,
    outstanding_recvs: AtomicU32,
    /// Number of multicast groups that it is attached to.
    groups: AtomicU32,
    flight: Arc<Flight<Qp>>,
    home: Home,
    #[pin]
    backlog: Backlog,
    #[pin]
    engine: SpinLockBh<Engine>,
    #[pin]
    posted_sends: SpinLockIrq<Inbox<SendWqe>>,
    #[pin]
    posted_recvs: SpinLockIrq<Inbox<RecvWqe>>,
    #[pin]
    attr: Mutex<Attr>,
    /// The doorbell waits in the send CQ.
    doorbell_waits: Deferred,
    scheduled: Scheduled,
    #[pin]
    work: Work<Self>,
    #[pin]
    timer: Timer<Self>,
}

impl_has_work! { impl HasWork<Self> for Qp { self.work } }
impl_has_timer! { impl HasTimer<0> for Qp { self.timer } }

impl WorkItem for Qp {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let qp = this.as_arc_borrow();
        this.scheduled.run(|| qp.drive(|_, _| Sends::Yes));
    }
}

impl OnTimer for Qp {
    fn expired(this: Arc<Self>) {
        this.withdraw_doorbell();
        Self::schedule(&this);
    }
}

impl Doorbell for Qp {
    fn answer(self: Arc<Self>) {
        let qp = self.as_arc_borrow();
        self.doorbell_waits
            .answer(|| qp.drive(|_, _| Sends::InOrder));
    }
}

impl Waiter for Qp {
    fn wake(this: &Arc<Self>) {
        Self::schedule(this);
    }
}

impl Member for Qp {
    fn count_attached(&self) {
        self.groups.fetch_add(1, Ordering::AcqRel);
    }

    fn count_detached(&self) {
        self.groups.fetch_sub(1, Ordering::AcqRel);
    }

    fn enqueue(this: ArcBorrow<'_, Self>, packet: Waiting, next: Option<&mut Next>) {
        this.backlog.push(packet, || {
            let claimed = this.home.meets() && next.is_some_and(|next| next.claim(this.number()));
            if !claimed {
                Self::schedule(&this.into());
            }
        });
    }
}

/// So many QPs that give each other packets are handled one after the other; the next one waits for its work item.
const LONGEST_CHAIN: usize = 8;

impl Qp {
    /// The QP's number.
    pub(crate) fn number(&self) -> u32 {
        self.id.number()
    }

    /// The current state.
    pub(crate) fn state(&self) -> QpState {
        QpState::try_from(self.state.load(Ordering::Acquire)).unwrap_or(QpState::Err)
    }

    fn set_state(&self, state: QpState) {
        self.state.store(state.as_raw(), Ordering::Release);
    }

    fn raise(&self, event: roce::state::QpEvent) {
        use roce::state::QpEvent as E;
        self.events.raise(match event {
            E::CommEst => rdma::QpEvent::CommEst,
            E::SqDrained => rdma::QpEvent::SqDrained,
            E::AccessErr => rdma::QpEvent::AccessErr,
            E::ReqErr => rdma::QpEvent::ReqErr,
            E::LastWqeReached => rdma::QpEvent::LastWqeReached,
        });
    }

    /// Handles a packet from the network if the QP may run on this processor, and else adds it to those that wait. Softirq
    /// context, without locks.
    pub(crate) fn receive(this: ArcBorrow<'_, Self>, packet: Waiting) {
        let here = this.home.meets();
        match wakeup::bring(&this.backlog, packet, here, || Self::schedule(&this.into())) {
            Duty::TryToDrive => this.drive_or_schedule(),
            Duty::Drive => this.drive(|_, _| Sends::No),
            Duty::Nothing => {}
        }
    }

    /// Queues the QP's work item on its processor, or on this one. Any context.
    #[inline]
    fn schedule(this: &Arc<Self>) {
        this.scheduled.schedule(|| {
            work::enqueue_on(this.home.cpu(), workqueue::system_bh(), this);
        });
    }

    /// Lets the doorbell wait in the send CQ; returns false if it cannot.
    fn defer(self: &Arc<Self>) -> bool {
        let doorbells = &self.send_cq.doorbells;
        self.doorbell_waits.defer(self, doorbells, || {
            Timer::arm(self, now_ns().saturating_add(LONGEST_WAIT));
        })
    }

    /// The doorbell waits no longer: the engine is going to run.
    fn withdraw_doorbell(&self) {
        self.doorbell_waits.withdraw(self, &self.send_cq.doorbells);
    }

    fn fixed(&self) -> Fixed {
        Fixed {
            service: self.service,
            qpn: self.number(),
            signal_all: self.signal_all,
            port_mtu: self.rxe.mtu(),
        }
    }

    /// Completes the posted sends of a QP in SQE before it goes on: at most one queue's length, since user space may
    /// keep posting. The lock is dropped after each budget.
    fn flush_sends(&self) {
        for _ in 0..=self.cap.max_send_wr / BUDGET {
            let mut engine = self.engine.lock();
            let (requester, _, mut ops) = engine.split(self, None);
            if requester.run(Time::from_ns(now_ns()), BUDGET, &mut ops) != Run::More {
                return;
            }
        }
    }

    /// Modifies attributes and state: `modify_qp`.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for attributes beyond the specification's, `EINVAL` for attributes that [`attr::check`] rejects,
    /// `ENOMEM`. The QP is then unchanged.
    pub(crate) fn modify(self: &Arc<Self>, modify: &QpModify<'_>, _sleep: &MaySleep) -> Result {
        if !attr::is_standard(modify.mask) {
            return Err(EOPNOTSUPP);
        }
        let mut attr = self.attr.lock();
        let draining = self.engine.lock().requester.is_draining();
        let was = self.state();
        let next = attr::check(modify, self.qp_type, was, draining, self.has_srq)?;
        let av = attr::new_path(modify)?;
        let mut slots = engine::more_slots(modify.max_dest_rd_atomic)?;
        attr.apply(modify);
        let path = av.map(|av| Path::new(av, self.number(), attr.dest_qpn()));
        if next == QpState::Reset && modify.state.is_some() {
            *attr = Attr::new();
        }
        let attr = &*attr;
        if was == QpState::Sqe && next == QpState::Rts {
            self.flush_sends();
        }
        self.as_arc_borrow().drive(|engine, qp| {
            engine.queues.access = attr.access();
            if path.is_some() {
                engine.queues.path = path;
            }
            // What is left is freed without the lock.
            slots = slots.take().map(|slots| engine.grow(slots));
            engine.change_state(qp, was, modify.state, attr);
            Sends::Yes
        });
        Ok(())
    }

    /// Returns all attributes of the QP: `query_qp`.
    ///
    /// # Errors
    ///
    /// None.
    pub(crate) fn query(
        &self,
        _mask: QpAttrMask,
        out: &mut QpAttrOut<'_>,
        init: &mut QpInitOut<'_>,
        _sleep: &MaySleep,
    ) -> Result {
        let attr = self.attr.lock();
        attr.answer(out);
        let engine = self.engine.lock();
        out.set_state(self.state(), engine.requester.is_draining());
        let psns = (engine.responder.expected_psn(), engine.requester.next_psn());
        out.set_psns(psns.0.get(), psns.1.get());
        drop(engine);
        out.set_cap(self.cap);
        init.set_cap(self.cap);
        init.set_sq_sig_all(self.signal_all);
        Ok(())
    }

    /// Destroys the QP: when this returns, it is not running any more.
    ///
    /// # Errors
    ///
    /// `EBUSY` while it is attached to a multicast group.
    pub(crate) fn destroy(self: &Arc<Self>, sleep: &MaySleep) -> Result {
        if self.groups.load(Ordering::Acquire) != 0 {
            return Err(EBUSY);
        }
        self.engine.lock().dead = true;
        // A packet that has found the QP before finds the engine dead.
        let qps = &self.rxe.qps;
        qps.remove_later(self.number(), &self.rxe.old_qps, sleep);
        let qp: &Self = self;
        self.doorbell_waits.end(qp, &self.send_cq.doorbells);
        self.backlog.close();
        self.flight.detach();
        Timer::shut_down(self, sleep);
        work::cancel_sync(self, sleep);
        self.engine.lock().reset(self);
        Ok(())
    }

    /// Takes the lock, calls `f` with the engine, and runs it; then those of QPs of the device that were given packets.
    fn drive(self: ArcBorrow<'_, Self>, f: impl FnOnce(&mut Engine, &Qp) -> Sends) {
        let qp: &Qp = &self;
        let engine = qp.engine.lock();
        let next = self.drive_locked(engine, f);
        qp.drive_next(next);
    }

    /// As [`Self::drive`], unless somebody has the lock: then the work item is queued.
    #[inline]
    fn drive_or_schedule(self: ArcBorrow<'_, Self>) {
        let qp: &Qp = &self;
        let schedule = || Self::schedule(&self.into());
        if let Some(engine) = wakeup::lock_or_wake(&qp.engine, &qp.backlog, schedule) {
            let next = self.drive_locked(engine, |_, _| Sends::InOrder);
            qp.drive_next(next);
        }
    }

    /// Runs the engine of a QP, that of the QP that it gives packets, and so on.
    #[inline]
    fn drive_next(&self, mut next: Option<u32>) {
        if next.is_none() {
            return;
        }
        let guard = rcu::read_lock();
        for _ in 0..LONGEST_CHAIN {
            let found = next.and_then(|qpn| self.rxe.qps.get(qpn, &guard));
            let Some(qp) = found else {
                return;
            };
            let this: &Qp = &qp;
            next = qp.drive_locked(this.engine.lock(), |_, _| Sends::InOrder);
        }
        if let Some(qp) = next.and_then(|qpn| self.rxe.qps.get(qpn, &guard)) {
            qp.backlog.wake(|| Self::schedule(&qp.into()));
        }
    }

    /// As [`Self::drive`], with the lock held; returns the number of a QP that is to be handled next.
    fn drive_locked(
        self: ArcBorrow<'_, Self>,
        mut engine: SpinLockBhGuard<'_, Engine>,
        f: impl FnOnce(&mut Engine, &Qp) -> Sends,
    ) -> Option<u32> {
        let qp: &Qp = &self;
        if engine.dead {
            return None;
        }
        if qp.service == Service::Ud {
            engine.set_datagram_mtu(qp.rxe.mtu());
        }
        let sends = match f(&mut engine, qp) {
            Sends::Yes => true,
            Sends::No => false,
            Sends::InOrder => engine.queues.loops_back() || qp.home.may_be_here(),
        };
        let (received, mut more) = engine.receive_all(qp);
        more |= if sends { engine.run(qp) } else { true };
        let sent = core::mem::take(&mut engine.queues.sent);
        qp.home.note(received, sent);
        if !qp.user {
            engine.queues.forget_routes();
        }
        let deadline = engine.requester.next_deadline();
        let next = engine.queues.next.take();
        if more {
            Self::schedule(&self.into());
        }
        if let Some(deadline) = deadline {
            Timer::arm(&self.into(), deadline.as_ns());
        }
        next
    }
}

/// Whether a run of the engine sends packets, or leaves that to the work item.
///
/// Net devices and their queues preserve the order of packets for each processor alone, so they are sent from the processor of
/// the QP. Packets to QPs of the same device go through their backlogs, in any case in order.
enum Sends {
    Yes,
    No,
    /// If they are sent from the QP's processor, or do not need to be.
    InOrder,
}
