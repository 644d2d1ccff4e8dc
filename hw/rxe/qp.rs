// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: `struct ib_qp` of `<rdma/ib_verbs.h>`.
//!
//! A QP is one state machine, the *engine*: requester, responder and their queues, behind one lock that disables softirqs. A thread
//! that takes the lock handles all packets in the QP's [backlog](crate::backlog), and runs requester and responder once: for a
//! doorbell (process context), for a packet (softirq), and in the QP's work item on the QP's [CPU](affinity). The work item is
//! queued for packets that arrive on other CPUs, by the timer, when a budget is used up, when the send queue of the network has
//! room again, and for requests that are posted in a context in which the lock must not be taken.
//!
//! ```text
//!   post_send ──────────────┐                          ┌─ requester ─┐
//!   packet ─────────────────┤ Engine (one lock, BH) ───┤             ├─ QpOps: memory, CQs, packets out
//!   packet, timer ── work ──┘                          └─ responder ─┘
//! ```
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Qp::attr` | `modify_qp` and `query_qp` against each other | process | `Qp::engine` |
//! | `Qp::engine` | requester, responder and the queues that they work on | process, softirq; softirqs off | `posted_*`, `Srq::state`, `Cq::state`, `Mw::state`, `Lease::epoch`, `Mr::fast`, `OdpUmem::pages`, `Faults::state`, `FaultInject::fault`, `Ah::av`, `Av::route`, `Addresses::list`, `Timer::state`, `Flight::waiter`, `Backlog::state`, the network's transmit locks |
//! | `Qp::posted_sends`, `posted_recvs` | requests that kernel consumers have posted and the engine has not taken | any, interrupts off | nothing |
//!
//! The device's table, the timer and the work item own references to a QP. Its memory must be freed in a context that
//! may sleep, so [`Qp::destroy`] drops these references before it returns, except for the table's, which is dropped
//! after a grace period. Packets in flight refer to [`Flight`](crate::flight::Flight), not to the QP.

mod affinity;
mod attr;
mod congestion;
mod create;
mod direct;
mod engine;
mod faults;
mod migration;
mod ops;
mod post;
mod recv;
mod recv_queue;
mod send;
mod send_queue;
mod types;
mod wakeup;

use crate::backlog::{Next, Waiting};
use crate::counters::Counters;
use crate::cq::Cq;
use crate::device::Rxe;
use crate::doorbell::{Doorbell, MAX_DELAY};
use crate::flight::Waiter;
use crate::mcast::Member;
use crate::path::Path;
use crate::port_id::PortId;
use crate::srq::Srq;
use attr::Attr;
use core::sync::atomic::Ordering;
use engine::BUDGET;
use kernel::prelude::*;
use kernel::sync::{rcu, Arc, ArcBorrow};
use kernel::workqueue::WorkItem;
use kernel_ext::compat::barrier::smp_mb;
use kernel_ext::error::EOPNOTSUPP;
use kernel_ext::sleepable::{self, SleepableWork};
use kernel_ext::sync::SpinLockBhGuard;
use kernel_ext::timer::{now_ns, OnTimer, Timer};
use kernel_ext::work;
use rdma::{
    abi::qp::QpAttrMask,
    provider::qp::{QpAttrOut, QpInitOut},
};
use rdma::{MaySleep, QpModify, QpState};
use roce::state::{Run, Service, Time};
use types::Engine;
pub(crate) use types::Qp;
use wakeup::NextStep;

impl WorkItem for Qp {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let qp = this.as_arc_borrow();
        this.scheduled.run(|| qp.drive(|_, _| Sends::Yes));
    }
}

impl SleepableWork<1> for Qp {
    /// Faults in the memory that the engine needs, and queues the engine's work item.
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        let Some(fault) = this.faults.begin() else {
            return;
        };
        let result = fault.resolve(sleep);
        this.faults.end(fault, result);
        Self::schedule(&this);
    }
}

impl OnTimer for Qp {
    fn expired(this: Arc<Self>) {
        this.cancel_doorbell();
        Self::schedule(&this);
    }
}

impl Doorbell for Qp {
    fn run_engine(self: Arc<Self>) {
        let qp = self.as_arc_borrow();
        self.deferred_doorbell
            .run(|| qp.drive(|_, _| Sends::InOrder));
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
            let claimed =
                this.affinity.note_packet() && next.is_some_and(|next| next.claim(this.place()));
            if !claimed {
                Self::schedule(&this.into());
            }
        });
    }
}

/// The maximum number of QPs that one call handles in turn; further ones wait for their work item.
const MAX_CHAIN: usize = 8;

impl Qp {
    /// Adds a packet from the network to the backlog, and runs the engine if it may run on this CPU. Softirq context, without
    /// locks.
    pub(crate) fn receive(this: ArcBorrow<'_, Self>, packet: Waiting) {
        let here = this.affinity.note_packet();
        match wakeup::enqueue(&this.backlog, packet, here, || Self::schedule(&this.into())) {
            NextStep::TryToDrive => this.drive_or_schedule(),
            NextStep::Drive => this.drive(|_, _| Sends::No),
            NextStep::Nothing => {}
        }
    }

    /// Defers the doorbell in the send CQ; returns false if it cannot be deferred.
    fn defer(self: &Arc<Self>, cq: &Cq) -> bool {
        let doorbells = &cq.doorbells;
        self.deferred_doorbell.defer(self, doorbells, || {
            Timer::arm(self, now_ns().saturating_add(MAX_DELAY));
        })
    }

    /// Drops the deferred doorbell; the caller runs the engine.
    fn cancel_doorbell(&self) {
        if let Some(cq) = &self.send_cq {
            self.deferred_doorbell.cancel(self, &cq.doorbells);
        }
    }

    /// Completes the posted sends of a QP in SQE before it goes on: at most one queue's length, since user space may
    /// keep posting. The lock is dropped after each budget.
    fn flush_sends(&self) {
        for _ in 0..=self.cap.max_send_wr / BUDGET {
            let mut engine = self.engine.lock();
            let (requester, _, mut ops) = engine.split(self, None);
            let run = requester.run(Time::from_ns(now_ns()), BUDGET, &mut ops);
            ops.flush();
            if run != Run::More {
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
        let mut engine = self.engine.lock();
        engine.queues.tell_migration(&mut attr);
        let draining = engine.requester.is_draining();
        let (migration, has_alternate) = engine.queues.migration();
        let has_path = engine.queues.path.is_some();
        drop(engine);
        let was = self.state();
        let next = attr::check(modify, self.qp_type, was, draining, self.has_srq)?;
        attr::check_ports(modify, (&*attr, has_path), |n| self.rxe.port_id(n))?;
        attr::check_pkeys(modify, &self.rxe.port(PortId::First).pkeys)?;
        let wanted = attr::wanted_path(modify, &migration, has_alternate)?;
        let dest_qpn = modify.dest_qp_num.unwrap_or(attr.dest_qpn());
        let path = attr::new_path(modify)?.map(|av| Path::new(av, self.number(), dest_qpn));
        let alternate = attr::new_alternate(modify, dest_qpn)?;
        let mut slots = engine::more_slots(modify.max_dest_rd_atomic)?;
        if was == QpState::Sqe && next == QpState::Rts {
            self.flush_sends();
        }
        self.as_arc_borrow().drive(|engine, qp| {
            engine.queues.tell_migration(&mut attr);
            attr.apply(modify);
            if next == QpState::Reset && modify.state.is_some() {
                *attr = Attr::new(self.home);
            }
            engine.queues.access = attr.access();
            if path.is_some() {
                engine.queues.set_path(path);
            }
            engine.change_migration(qp, alternate, wanted);
            engine.queues.tell_migration(&mut attr);
            engine.queues.set_partition(qp, attr.partition(qp.qp_type));
            // The slots that are not needed any more are freed without the lock.
            slots = slots.take().map(|slots| engine.grow(slots));
            engine.change_state(qp, was, modify.state, &attr);
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
        let mut attr = self.attr.lock();
        let mut engine = self.engine.lock();
        engine.queues.tell_migration(&mut attr);
        attr.answer(out);
        out.set_path_mig_state(migration::state_of(&engine.queues));
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
        let mut engine = self.engine.lock();
        engine.acknowledge(self);
        engine.dead = true;
        // A shared receive queue that is destroyed from now on does not find the QP any more.
        engine.queues.recv.forget_named();
        let next = engine.queues.next.take();
        drop(engine);
        self.drive_next(next);
        // A packet whose lookup found the QP before this finds the engine dead.
        let qps = &self.rxe.qps;
        qps.remove_later(self.place(), &self.rxe.old_qps, sleep);
        let qp: &Self = self;
        if let Some(cq) = &self.send_cq {
            self.deferred_doorbell.destroy(qp, &cq.doorbells);
        }
        self.backlog.close();
        self.flight.detach();
        Timer::shut_down(self, sleep);
        // The fault work item queues the engine's work item, which for a dead engine does not queue it again. So it is cancelled
        // first.
        sleepable::cancel_sync::<Self, 1>(self, sleep);
        work::cancel_sync::<Self, 0>(self, sleep);
        self.engine.lock().reset(self);
        Ok(())
    }

    /// Drops the references of XRC targets to a shared receive queue that is being destroyed, which no lookup finds any more: when this
    /// returns there are no more completions of its receives. Process context.
    pub(crate) fn forget_srq(rxe: &Rxe<Self>, srq: &Arc<Srq>) {
        for (_, qp) in rxe.qps.iter() {
            if qp.service == Service::XrcTgt {
                qp.engine.lock().forget_srq(srq);
            }
        }
    }

    /// The port that packets leave by. Process context.
    pub(crate) fn port(&self) -> PortId {
        self.engine.lock().queues.partition.port()
    }

    /// Lets the QP count for other counters than before, which do not change by it any more; by default for its port. Process
    /// context.
    pub(crate) fn count_for(&self, counters: Option<Arc<Counters>>) {
        let mut engine = self.engine.lock();
        let port = self.rxe.port(engine.queues.partition.port());
        let counters = counters.unwrap_or_else(|| port.counters.own().clone());
        let before = core::mem::replace(&mut engine.queues.counters, counters);
        drop(engine);
        drop(before);
    }

    /// Drops the routes that the QPs of a device have cached, and will not cache any more: its net device goes, and the namespace is
    /// deleted only without routes. Process context.
    pub(crate) fn forget_routes(rxe: &Rxe<Self>) {
        rxe.stop_keeping_routes();
        // A QP that is not in the table yet will find that: pairs with the barrier in `Qp::create`.
        smp_mb();
        for (_, qp) in rxe.qps.iter() {
            qp.engine.lock().queues.forget_route();
        }
    }

    /// Takes the lock, calls `f` with the engine, and runs it; then runs the engines of QPs of the device that it has added packets
    /// to.
    fn drive(self: ArcBorrow<'_, Self>, f: impl FnOnce(&mut Engine, &Qp) -> Sends) {
        let qp: &Qp = &self;
        let engine = qp.engine.lock();
        let next = self.drive_locked(engine, f);
        qp.drive_next(next);
    }

    /// As [`Self::drive`]; if another thread has the lock, queues the work item instead.
    #[inline]
    fn drive_or_schedule(self: ArcBorrow<'_, Self>) {
        let qp: &Qp = &self;
        let schedule = || Self::schedule(&self.into());
        if let Some(engine) = wakeup::lock_or_schedule(&qp.engine, &qp.backlog, schedule) {
            let next = self.drive_locked(engine, |_, _| Sends::InOrder);
            qp.drive_next(next);
        }
    }

    /// Runs the engine of a QP, then that of the QP that it has added packets to, and so on.
    #[inline]
    fn drive_next(&self, mut next: Option<u32>) {
        if next.is_none() {
            return;
        }
        let guard = rcu::read_lock();
        for _ in 0..MAX_CHAIN {
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

    /// As [`Self::drive`], with the lock held; returns the number of the QP to run next.
    fn drive_locked(
        self: ArcBorrow<'_, Self>,
        mut engine: SpinLockBhGuard<'_, Engine>,
        f: impl FnOnce(&mut Engine, &Qp) -> Sends,
    ) -> Option<u32> {
        let qp: &Qp = &self;
        if engine.dead {
            return None;
        }
        engine.queues.clock.restart();
        if qp.service == Service::Ud {
            let port = qp.rxe.port(engine.queues.partition.port());
            engine.set_datagram_mtu(port.mtu());
        }
        let sends = f(&mut engine, qp);
        let sends = match sends {
            Sends::Yes => true,
            Sends::No => false,
            Sends::InOrder => engine.queues.loops_back() || qp.affinity.allows_this_cpu(),
        };
        let (received, mut more) = engine.receive_all(qp);
        let held = engine.held.is_some();
        if held {
            // The work item that faults memory in runs the engine again.
            more = false;
            qp.backlog.limit();
        } else {
            more |= if sends { engine.run(qp) } else { true };
        }
        let sent = core::mem::take(&mut engine.queues.sent);
        qp.affinity.note_run(received, sent);
        engine.queues.end_datagrams(qp.user);
        if !qp.rxe.keeps_routes() {
            engine.queues.forget_route();
        }
        let deadline = engine.next_deadline().filter(|_| !held);
        let next = engine.queues.next.take();
        if (sends || held) && qp.faults.settle() {
            sleepable::enqueue::<Self, 1>(work::system_dfl(), &self.into());
        }
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
/// Net devices and their queues preserve the order of packets only per CPU, so packets are sent from the CPU of the QP. Packets to
/// QPs of the same device are added to backlogs, which preserve the order on any CPU.
enum Sends {
    Yes,
    No,
    /// On the QP's CPU, and for a peer on the same device.
    InOrder,
}
