// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: `struct ib_qp` of `<rdma/ib_verbs.h>`.
//!
//! A QP is one state machine, the *engine*: requester, responder and their queues, behind one lock that disables
//! softirqs. Every event takes the lock, passes its data and runs the engine: a packet (softirq), a doorbell (process
//! context), the timer, and the QP's own work item, which continues when a budget is used up, when the send queue of
//! the network has room again, and for consumers that have posted in a context in which the lock must not be taken.
//!
//! ```text
//!   post_send ─┐                          ┌─ requester ─┐
//!   packet ────┤ Engine (one lock, BH) ───┤             ├─ QpOps: memory, CQs, packets out
//!   timer ─────┤                          └─ responder ─┘
//!   work ──────┘
//! ```
//!
//! | lock | context | protects | inside it |
//! |---|---|---|---|
//! | `attr` | process | `modify_qp` and `query_qp` | `engine` |
//! | `engine` | process, softirq | the engine | `posted_*`, SRQ, CQ, MR and MW locks, the timer's |
//! | `posted_sends`, `posted_recvs` | any | requests posted by kernel consumers | nothing |
//!
//! The device's table, the timer and the work item own references to a QP. Its memory must be freed in a context that
//! may sleep, so [`Qp::destroy`] drops these references before it returns, except for the table's, which is dropped
//! after a grace period. Packets in flight refer to [`Flight`], not to the QP.

mod attr;
mod create;
mod engine;
mod ops;
mod post;
mod recv;
mod recv_queue;
mod send;
mod send_queue;

use crate::cq::Cq;
use crate::device::Rxe;
use crate::ids::PdId;
use crate::mcast::Member;
use crate::mw::BinderId;
use crate::packet::Incoming;
use crate::tx::{Flight, Path, Waiter};
use crate::wqe::{Inbox, Limits, RecvWqe, SendWqe};
use attr::{Attr, Fixed};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use engine::{Engine, BUDGET};
use kernel::prelude::*;
use kernel::sync::{Arc, ArcBorrow, Mutex};
use kernel::workqueue::{self, impl_has_work, Work, WorkItem};
use kernel_ext::error::EOPNOTSUPP;
use kernel_ext::sync::{SpinLockBh, SpinLockIrq};
use kernel_ext::timer::{impl_has_timer, now_ns, OnTimer, Timer};
use kernel_ext::work;
use rdma::{
    abi::qp::{QpAttrMask, QpCap},
    provider::qp::{QpAttrOut, QpInitOut},
};
use rdma::{MaySleep, QpHandle, QpId, QpModify, QpState, QpType};
use roce::state::{Run, Service, Time};

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
    #[pin]
    engine: SpinLockBh<Engine>,
    #[pin]
    posted_sends: SpinLockIrq<Inbox<SendWqe>>,
    #[pin]
    posted_recvs: SpinLockIrq<Inbox<RecvWqe>>,
    #[pin]
    attr: Mutex<Attr>,
    /// The work item is queued and has not started: it is queued only once.
    scheduled: AtomicBool,
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
        // Pairs with the swap in `schedule`: a thread that finds the flag set has stored its data before, so this run
        // sees it.
        this.scheduled.swap(false, Ordering::SeqCst);
        this.as_arc_borrow().drive(|_, _| {});
    }
}

impl OnTimer for Qp {
    fn expired(this: Arc<Self>) {
        this.as_arc_borrow().drive(|_, _| {});
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

    fn receive(this: ArcBorrow<'_, Self>, incoming: &Incoming) {
        this.drive(|engine, qp| engine.receive(qp, incoming));
    }
}

impl Qp {
    /// The QP's number.
    pub(crate) fn number(&self) -> u32 {
        self.id.number()
    }

    /// The transport service.
    pub(crate) fn service(&self) -> Service {
        self.service
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

    /// Handles a packet, and those that `more` gives, together. Softirq context.
    pub(crate) fn receive_all(
        this: ArcBorrow<'_, Self>,
        first: Incoming,
        more: &mut dyn FnMut() -> Option<Incoming>,
    ) {
        this.drive(|engine, qp| {
            let mut next = Some(first);
            while let Some(incoming) = next {
                engine.receive(qp, &incoming);
                incoming.consume();
                next = more();
            }
        });
    }

    /// Queues the QP's work item. Any context.
    #[inline]
    fn schedule(this: &Arc<Self>) {
        if !this.scheduled.swap(true, Ordering::SeqCst) {
            work::enqueue(workqueue::system_bh(), this);
        }
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
        self.flight.detach();
        Timer::shut_down(self, sleep);
        work::cancel_sync(self, sleep);
        self.engine.lock().reset(self);
        Ok(())
    }

    /// Takes the lock, calls `f` with the engine, and runs it.
    fn drive(self: ArcBorrow<'_, Self>, f: impl FnOnce(&mut Engine, &Qp)) {
        let qp: &Qp = &self;
        let mut engine = qp.engine.lock();
        if engine.dead {
            return;
        }
        if qp.service == Service::Ud {
            engine.set_datagram_mtu(qp.rxe.mtu());
        }
        f(&mut engine, qp);
        let more = engine.run(qp);
        if !qp.user {
            engine.queues.forget_routes();
        }
        let deadline = engine.requester.next_deadline();
        if more {
            Self::schedule(&self.into());
        }
        if let Some(deadline) = deadline {
            Timer::arm(&self.into(), deadline.as_ns());
        }
    }
}
