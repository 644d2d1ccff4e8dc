// SPDX-License-Identifier: GPL-2.0

//! The data of a queue pair, `struct ib_qp`: its attributes, its engine, and its backlog.

use super::affinity::Affinity;
use super::attr::{Attr, Fixed};
use super::faults::Faults;
use super::recv_queue::RecvQueue;
use super::send_queue::SendQueue;
use super::wakeup::Scheduled;
use crate::backlog::{Backlog, Next, Taken};
use crate::buffer::Buffer;
use crate::counters::Counters;
use crate::cq::Cq;
use crate::device::Rxe;
use crate::doorbell::Deferred;
use crate::flight::Flight;
use crate::icrc::Prefixes;
use crate::ids::{place, PdId};
use crate::mr::Region;
use crate::mw::BinderId;
use crate::packet::Incoming;
use crate::path::{Alternate, Path};
use crate::pkeys::Partition;
use crate::port_id::PortId;
use crate::segments::Batch;
use crate::wqe::{Inbox, Limits, RecvWqe, SendWqe};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};
use kernel::workqueue::{self, impl_has_work, Work};
use kernel_ext::sleepable::Sleepable;
use kernel_ext::sync::{SpinLockBh, SpinLockIrq};
use kernel_ext::timer::{impl_has_timer, now_ns, Timer};
use kernel_ext::work;
use rdma::abi::qp::QpCap;
use rdma::{Access, QpHandle, QpId, QpState, QpType};
use roce::congestion::Congestion;
use roce::migration::Migration;
use roce::requester::Requester;
use roce::responder::{Responder, Slot};
use roce::state::{Service, State, Time};

/// A queue pair.
#[pin_data]
pub(crate) struct Qp {
    pub(super) rxe: Arc<Rxe<Qp>>,
    pub(super) id: QpId,
    /// The port of QP1; of others, the one that they have until they get another one.
    pub(super) home: PortId,
    pub(super) qp_type: QpType,
    pub(super) service: Service,
    /// That of a target of XRC has no objects: the memory of its requests is that of the SRQs that they name.
    pub(super) pd: PdId,
    /// Identifies the QP as the binder of type 2 windows.
    pub(super) binder: BinderId,
    /// Whether it belongs to user space.
    pub(super) user: bool,
    pub(super) signal_all: bool,
    /// Whether no receives are posted to it: it has a shared receive queue, or is of XRC.
    pub(super) has_srq: bool,
    pub(super) cap: QpCap,
    pub(super) send_limits: Limits,
    pub(super) events: Arc<QpHandle>,
    /// None of a target of XRC.
    pub(super) send_cq: Option<Arc<Cq>>,
    /// None of XRC.
    pub(super) recv_cq: Option<Arc<Cq>>,
    /// The state as `enum ib_qp_state`, for readers without the lock.
    pub(super) state: AtomicU32,
    pub(super) outstanding_sends: AtomicU32,
    pub(super) outstanding_recvs: AtomicU32,
    /// Whether a CQ of the QP has overrun, and the engine has not seen that.
    pub(super) cq_overrun: AtomicBool,
    /// Number of multicast groups that it is attached to.
    pub(super) groups: AtomicU32,
    pub(super) flight: Arc<Flight<Qp>>,
    pub(super) affinity: Affinity,
    #[pin]
    pub(super) backlog: Backlog,
    #[pin]
    pub(super) engine: SpinLockBh<Engine>,
    #[pin]
    pub(super) posted_sends: SpinLockIrq<Inbox<SendWqe>>,
    #[pin]
    pub(super) posted_recvs: SpinLockIrq<Inbox<RecvWqe>>,
    #[pin]
    pub(super) attr: Mutex<Attr>,
    /// Whether the doorbell is deferred, in the send CQ.
    pub(super) deferred_doorbell: Deferred,
    pub(super) scheduled: Scheduled,
    #[pin]
    pub(super) work: Work<Self>,
    #[pin]
    pub(super) faults: Faults,
    /// Faults in memory.
    #[pin]
    pub(super) fault_work: Work<Sleepable<Self>, 1>,
    #[pin]
    pub(super) timer: Timer<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Qp { self.work }
    impl HasWork<Sleepable<Self>, 1> for Qp { self.fault_work }
}
impl_has_timer! { impl HasTimer<0> for Qp { self.timer } }

impl Qp {
    /// The QP's number.
    pub(crate) fn number(&self) -> u32 {
        self.id.number()
    }

    /// The QP's place in the table of its device.
    #[inline]
    pub(super) fn place(&self) -> u32 {
        place(self.number(), self.home)
    }

    /// The current state.
    pub(crate) fn state(&self) -> QpState {
        QpState::try_from(self.state.load(Ordering::Acquire)).unwrap_or(QpState::Err)
    }

    pub(super) fn set_state(&self, state: QpState) {
        self.state.store(state.as_raw(), Ordering::Release);
    }

    pub(super) fn raise(&self, event: roce::state::QpEvent) {
        use roce::state::QpEvent as E;
        self.events.raise(match event {
            E::CommEst => rdma::QpEvent::CommEst,
            E::SqDrained => rdma::QpEvent::SqDrained,
            E::AccessErr => rdma::QpEvent::AccessErr,
            E::ReqErr => rdma::QpEvent::ReqErr,
            E::LastWqeReached => rdma::QpEvent::LastWqeReached,
            E::PathMigrated => rdma::QpEvent::PathMig,
            E::PathMigrationErr => rdma::QpEvent::PathMigErr,
        });
    }

    /// Queues the QP's work item on its CPU, or on this one. Any context.
    #[inline]
    pub(super) fn schedule(this: &Arc<Self>) {
        this.scheduled.schedule(|| {
            work::enqueue_on(this.affinity.cpu(), workqueue::system_bh(), this);
        });
    }

    /// Lets all QPs of the device with a shared receive queue run: theirs may be in error. Any context.
    pub(super) fn run_sharing(&self) {
        for (_, qp) in self.rxe.qps.iter() {
            if qp.has_srq {
                Self::schedule(&qp);
            }
        }
    }

    /// Lets all QPs of the device that use a CQ go to the error state: it has overrun. Any context.
    pub(super) fn fail_users_of(&self, cq: &Arc<Cq>) {
        for (_, qp) in self.rxe.qps.iter() {
            let mut cqs = [&qp.send_cq, &qp.recv_cq].into_iter().flatten();
            if cqs.any(|own| Arc::ptr_eq(own, cq)) {
                qp.cq_overrun.store(true, Ordering::Release);
                Self::schedule(&qp);
            }
        }
    }

    /// Whether a CQ of the QP has overrun since the last call.
    #[inline]
    pub(super) fn take_cq_overrun(&self) -> bool {
        self.cq_overrun.load(Ordering::Relaxed) && self.cq_overrun.swap(false, Ordering::Acquire)
    }

    /// The properties of the QP on a port.
    pub(super) fn fixed(&self, port: PortId) -> Fixed {
        Fixed {
            service: self.service,
            qpn: self.number(),
            signal_all: self.signal_all,
            port_mtu: self.rxe.port(port).mtu(),
        }
    }
}

/// The state machine of a QP and the queues that it works on.
pub(crate) struct Engine {
    pub(super) requester: Requester,
    pub(super) responder: Receiver,
    pub(super) queues: Queues,
    /// Packets that were taken from the backlog and not handled yet.
    pub(super) taken: Taken,
    /// The packet before those, which needs memory that is absent. Nothing else is processed until it was handled.
    pub(super) held: Option<Held>,
    /// Whether `destroy` has begun: nothing is processed any more.
    pub(super) dead: bool,
}

/// The time of a run of the engine, which is read at most once.
#[derive(Default)]
pub(super) struct Clock(Option<Time>);

impl Clock {
    /// Another run has begun.
    #[inline]
    pub(super) fn restart(&mut self) {
        self.0 = None;
    }

    /// The time.
    #[inline]
    pub(super) fn now(&mut self) -> Time {
        *self.0.get_or_insert_with(|| Time::from_ns(now_ns()))
    }
}

/// A validated packet that was not handled because memory is absent.
pub(super) enum Held {
    /// A single packet.
    Packet(Incoming),
    /// A GRO buffer, from the packet `next` on. The first `counted` ones were counted.
    Buffer {
        buffer: Buffer,
        next: usize,
        counted: usize,
    },
}

/// The responder, over memory of this device.
pub(super) type Receiver = Responder<Region, Slots>;

/// Resources for the peer's READs and ATOMICs.
pub(super) type Slots = KVec<Slot<Region>>;

/// Queues and paths of requester and responder.
pub(crate) struct Queues {
    pub(super) send: SendQueue,
    pub(super) recv: RecvQueue,
    /// The path of a connected QP.
    pub(super) path: Option<Path>,
    /// The path that a connected QP takes when it migrates.
    pub(super) alternate: Option<Alternate>,
    /// The state of path migration.
    pub(super) migration: Migration,
    /// Whether the alternate path was taken since [`Attr`] was told.
    pub(super) took_alternate: bool,
    /// The path of the last datagram.
    pub(super) datagram_path: Option<Path>,
    /// Parts of the ICRCs of received packets.
    pub(super) prefixes: Prefixes,
    /// Congestion control, if it is enabled.
    pub(super) congestion: Option<KBox<Congestion>>,
    /// What the QP counts for: its port, or the counter that it is bound to.
    pub(super) counters: Arc<Counters>,
    /// Access flags of the peer: `qp_access_flags`.
    pub(super) access: Access,
    /// The port, and the P_Key of packets that the QP sends on its path.
    pub(super) partition: Partition,
    /// The P_Keys of packets that the QP takes: those of both paths, if it may migrate.
    pub(super) admitted: Partition,
    /// The state that an engine has changed to by itself.
    pub(super) moved: Option<State>,
    /// Packets that are not sent yet: [`QpOps::flush`](super::ops::QpOps::flush) sends them. None when a run has ended.
    pub(super) batch: Option<Batch>,
    /// Packets sent in this run.
    pub(super) sent: u32,
    /// The time of this run.
    pub(super) clock: Clock,
    /// Whether this engine runs within a [direct copy](super::direct) of the peer.
    pub(super) within_copy: bool,
    /// A QP of the device to whose backlog packets were added.
    pub(super) next: Next,
    /// Whether a completion was lost because the CQ was full.
    pub(super) overflowed: bool,
}
