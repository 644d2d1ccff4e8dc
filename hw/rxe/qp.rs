// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.
//!
//! A QP is one state machine, the *engine*: requester, responder and their queues, behind one lock that
//! keeps softirqs off. Whoever has something for it takes the lock, hands it over and lets the
//! engine run: a packet (softirq), a doorbell (process context), the timer, and the QP's own work
//! item, which carries on when a budget is used up, when the network has room again, and for
//! consumers that posted where the lock must not be taken.
//!
//! ```text
//!   post_send ─┐                          ┌─ requester ─┐
//!   packet ────┤ Engine (one lock, BH) ───┤             ├─ Port: memory, CQs, packets out
//!   timer ─────┤                          └─ responder ─┘
//!   work ──────┘
//! ```
//!
//! | lock | context | protects | inside it |
//! |---|---|---|---|
//! | `attr` | process | `modify_qp` and `query_qp` against each other | `engine` |
//! | `engine` | process, softirq | the engine | `posted_*`, CQ and MR locks, the timer's |
//! | `posted_sends`, `posted_recvs` | any | what kernel consumers posted | nothing |
//!
//! The device's table, the timer and the work item own references to a QP. It owns memory that
//! must be let go where one may sleep, so [`Qp::destroy`] takes all these references back before it
//! returns, and the last one is the core's. Packets under way refer to [`Flight`], not to the QP.

pub(crate) mod attr;
mod post;
mod recv;
mod send;

use crate::ah::Av;
use crate::cq::Cq;
use crate::device::{mappings, Driver, PdId, Rxe, PORT};
use crate::limits;
use crate::mr::Region;
use crate::ring::{Consumer, Mappings, MmapInfo};
use crate::rx::Incoming;
use crate::tx::{self, Flight, Path};
use crate::wqe::{Limits, RecvWqe, SendWqe};
use attr::{Attr, Fixed};
use core::sync::atomic::{AtomicU32, Ordering};
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, ArcBorrow, Mutex};
use kernel::workqueue::{self, impl_has_work, new_work, Work, WorkItem};
use kernel_ext::error::EOPNOTSUPP;
use kernel_ext::sync::{new_spinlock_bh, new_spinlock_irq, SpinLockBh, SpinLockIrq};
use kernel_ext::timer::{impl_has_timer, now_ns, OnTimer, Timer};
use kernel_ext::{gfp::Gfp, work};
use post::Inbox;
use rdma::qp::{QpAttrMask, QpAttrOut, QpCap, QpInitAttr, QpInitOut};
use rdma::{Base, MaySleep, QpHandle, QpId, QpModify, QpState, QpType, Udata};
use recv::RecvQueue;
use roce::requester::Requester;
use roce::responder::{Responder, Slot};
use roce::state::{Run, Service, State, Time};
use send::SendQueue;

/// Packets, or requests to flush, that an engine does in one go. The rest is for the work item.
const BUDGET: u32 = 64;

/// READs and ATOMICs of the peer that a QP can answer and remember.
const RESOURCES: usize = limits::MAX_RD_ATOM as usize;

/// Room for the peer's READs and ATOMICs, which only a reliable connection has.
fn slots(service: Service) -> Result<KVec<Slot<Region>>> {
    let count = if service == Service::Rc { RESOURCES } else { 0 };
    let mut slots = KVec::with_capacity(count, GFP_KERNEL)?;
    for _ in 0..count {
        slots.push(Slot::new(), GFP_KERNEL)?;
    }
    Ok(slots)
}

/// The state machine of a QP, with the queues that it works on.
pub(crate) struct Engine {
    requester: Requester,
    responder: Responder<Region, KVec<Slot<Region>>>,
    queues: Queues,
    /// `destroy` has begun: nothing happens any more.
    dead: bool,
}

/// What the requester and the responder work on.
pub(crate) struct Queues {
    send: SendQueue,
    recv: RecvQueue,
    /// Where a connected QP's packets go.
    path: Option<Path>,
    /// Where the last datagram went.
    datagram_path: Option<Path>,
    /// The state that an engine went to by itself.
    moved: Option<State>,
    /// A completion found no room.
    overflowed: bool,
}

/// The world as the engines see it during one call.
pub(crate) struct Port<'p> {
    qp: &'p Qp,
    queues: &'p mut Queues,
    /// The packet that the call is about.
    incoming: Option<&'p Incoming<'p>>,
}

/// A queue pair.
#[pin_data]
pub struct Qp {
    rxe: Arc<Rxe>,
    id: QpId,
    qp_type: QpType,
    service: Service,
    pd: PdId,
    /// It belongs to a program, not to a kernel consumer.
    user: bool,
    signal_all: bool,
    cap: QpCap,
    send_limits: Limits,
    events: Arc<QpHandle>,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
    /// The state, [`QpState`] in the header's numbers, for those who do not hold the lock.
    state: AtomicU32,
    outstanding_sends: AtomicU32,
    outstanding_recvs: AtomicU32,
    flight: Arc<Flight>,
    #[pin]
    engine: SpinLockBh<Engine>,
    #[pin]
    posted_sends: SpinLockIrq<Inbox<SendWqe>>,
    #[pin]
    posted_recvs: SpinLockIrq<Inbox<RecvWqe>>,
    #[pin]
    attr: Mutex<Attr>,
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
        this.as_arc_borrow().drive(|_, _| {});
    }
}

impl OnTimer for Qp {
    fn expired(this: Arc<Self>) {
        this.as_arc_borrow().drive(|_, _| {});
    }
}

/// The core's part of a QP, as `create_qp` gets it.
type QpBase = Base<kernel_ext::bindings::ib_qp, Driver>;

/// What `create_qp` answers to a program: `struct rxe_create_qp_resp`.
#[derive(Clone, Copy, Default)]
struct Rings {
    recv: MmapInfo,
    send: MmapInfo,
}

impl Rings {
    /// The size of the structure.
    const SIZE: usize = 2 * MmapInfo::SIZE;

    fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let (recv, send) = bytes.split_at_mut(MmapInfo::SIZE);
        recv.copy_from_slice(&self.recv.to_bytes());
        send.copy_from_slice(&self.send.to_bytes());
        bytes
    }
}

/// The service of a type of QP.
///
/// # Errors
///
/// `EOPNOTSUPP` for types that the device does not have.
fn service_of(qp_type: QpType) -> Result<Service> {
    match qp_type {
        QpType::Rc => Ok(Service::Rc),
        QpType::Uc => Ok(Service::Uc),
        QpType::Ud | QpType::Gsi => Ok(Service::Ud),
        _ => Err(EOPNOTSUPP),
    }
}

/// Checks the driver's part of the command.
fn check_udata(udata: &Udata<'_>) -> Result {
    if udata.inlen() != 0 || udata.outlen() < Rings::SIZE {
        return Err(EINVAL);
    }
    Ok(())
}

/// A QP's queues as they are made.
struct NewQueues {
    send: SendQueue,
    recv: RecvQueue,
    posted_sends: Inbox<SendWqe>,
    posted_recvs: Inbox<RecvWqe>,
    rings: Rings,
    cap: QpCap,
}

impl NewQueues {
    /// Makes the queues of sizes that have been checked; `cap` tells afterwards what they became.
    fn new(
        service: Service,
        mut cap: QpCap,
        mappings: Option<&Arc<Mappings>>,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let list_len = cap.max_send_sge as usize * limits::SGE;
        let data_len = list_len.max(cap.max_inline_data as usize);
        cap.max_send_sge = (data_len / limits::SGE) as u32;
        cap.max_inline_data = data_len as u32;
        let limits = Limits {
            service,
            max_sge: cap.max_send_sge,
            max_inline: cap.max_inline_data,
        };
        let recv_len = cap.max_recv_sge as usize * limits::SGE;
        let mut rings = Rings::default();
        let Some(mappings) = mappings else {
            return Ok(Self {
                send: SendQueue::new(None, cap.max_send_wr, limits)?,
                recv: RecvQueue::new(None, cap.max_recv_sge)?,
                posted_sends: Inbox::new(cap.max_send_wr, data_len)?,
                posted_recvs: Inbox::new(cap.max_recv_wr, recv_len)?,
                rings,
                cap,
            });
        };
        let send = Consumer::new(
            mappings,
            cap.max_send_wr,
            limits::SEND_WQE + data_len,
            sleep,
        )?;
        let recv = Consumer::new(
            mappings,
            cap.max_recv_wr,
            limits::RECV_WQE + recv_len,
            sleep,
        )?;
        rings.send = send.mmap_info();
        rings.recv = recv.mmap_info();
        cap.max_send_wr = send.capacity();
        cap.max_recv_wr = recv.capacity();
        Ok(Self {
            send: SendQueue::new(Some(send), 0, limits)?,
            recv: RecvQueue::new(Some(recv), cap.max_recv_sge)?,
            posted_sends: Inbox::new(0, 0)?,
            posted_recvs: Inbox::new(0, 0)?,
            rings,
            cap,
        })
    }
}

/// What `create` has found out before the QP is there.
struct Parts<'a> {
    base: &'a QpBase,
    rxe: &'a Arc<Rxe>,
    pd: PdId,
    events: Arc<QpHandle>,
    user: bool,
    qp_type: QpType,
    service: Service,
    signal_all: bool,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
}

impl Qp {
    /// Makes a QP in RESET and puts it into the device's table: `create_qp`.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for a type, a flag or an SRQ that the device does not have, `EINVAL` for sizes beyond
    /// its limits, for a missing CQ and for a second QP1, `ENOMEM`, `EFAULT`.
    pub(crate) fn create(
        base: &QpBase,
        init: &mut QpInitAttr<'_, Driver>,
        events: Arc<QpHandle>,
        udata: Option<&Udata<'_>>,
        sleep: &MaySleep,
    ) -> Result<Arc<Self>> {
        udata.map_or(Ok(()), check_udata)?;
        let qp_type = init.qp_type()?;
        let service = service_of(qp_type)?;
        if init.create_flags() != 0 || init.srq().is_some() {
            return Err(EOPNOTSUPP);
        }
        if qp_type == QpType::Gsi && init.port_num() != PORT {
            return Err(EINVAL);
        }
        attr::check_cap(&init.cap(), false)?;
        let parts = Parts {
            base,
            rxe: &base.device().rxe,
            pd: *base.pd().ok_or(EINVAL)?.data(),
            events,
            user: udata.is_some(),
            qp_type,
            service,
            signal_all: init.sq_sig_all(),
            send_cq: init.send_cq().ok_or(EINVAL)?.data().clone(),
            recv_cq: init.recv_cq().ok_or(EINVAL)?.data().clone(),
        };
        let mappings = udata.map(mappings).transpose()?;
        let queues = NewQueues::new(service, init.cap(), mappings, sleep)?;
        init.set_cap(queues.cap);
        let answer = queues.rings.to_bytes();
        let qp = Self::publish(parts, queues, sleep)?;
        qp.flight.attach(&qp);
        if let Some(Err(error)) = udata.map(|udata| udata.respond_all(&answer)) {
            qp.destroy(sleep)?;
            return Err(error);
        }
        Ok(qp)
    }

    /// Gives the QP its number, and lets packets find it.
    fn publish(parts: Parts<'_>, queues: NewQueues, sleep: &MaySleep) -> Result<Arc<Self>> {
        const GSI: u32 = 1;
        let (base, table) = (parts.base, &parts.rxe.clone().qps);
        if parts.qp_type == QpType::Gsi {
            base.set_qp_num(GSI);
            let qp = Self::build(parts, queues)?;
            let inserted = table.insert_at(GSI, qp.clone(), Gfp::kernel(sleep));
            inserted.map_err(|error| if error == EBUSY { EINVAL } else { error })?;
            return Ok(qp);
        }
        let number = table.reserve(Gfp::kernel(sleep))?;
        base.set_qp_num(number.index());
        let qp = Self::build(parts, queues)?;
        number.publish(qp.clone());
        Ok(qp)
    }

    fn build(parts: Parts<'_>, queues: NewQueues) -> Result<Arc<Self>> {
        let NewQueues {
            send,
            recv,
            posted_sends,
            posted_recvs,
            cap,
            ..
        } = queues;
        let send_limits = *send.limits();
        let queues = Queues {
            send,
            recv,
            path: None,
            datagram_path: None,
            moved: None,
            overflowed: false,
        };
        let responder = Responder::new(false, slots(parts.service)?);
        let engine = Engine {
            requester: Requester::new(),
            responder,
            queues,
            dead: false,
        };
        let flight = Flight::new()?;
        Arc::pin_init(
            pin_init!(Self {
                rxe: parts.rxe.clone(),
                id: parts.base.id(),
                qp_type: parts.qp_type,
                service: parts.service,
                pd: parts.pd,
                user: parts.user,
                signal_all: parts.signal_all,
                cap,
                send_limits,
                events: parts.events,
                send_cq: parts.send_cq,
                recv_cq: parts.recv_cq,
                state: AtomicU32::new(QpState::Reset.as_raw()),
                outstanding_sends: AtomicU32::new(0),
                outstanding_recvs: AtomicU32::new(0),
                flight,
                engine <- new_spinlock_bh!(engine, "rxe_qp::engine"),
                posted_sends <- new_spinlock_irq!(posted_sends, "rxe_qp::posted_sends"),
                posted_recvs <- new_spinlock_irq!(posted_recvs, "rxe_qp::posted_recvs"),
                attr <- new_mutex!(Attr::new(), "rxe_qp::attr"),
                work <- new_work!("rxe_qp::work"),
                timer <- Timer::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// The QP's number.
    pub(crate) fn number(&self) -> u32 {
        self.id.number()
    }

    /// The transport service.
    pub(crate) fn service(&self) -> Service {
        self.service
    }

    /// The device.
    pub(crate) fn rxe(&self) -> &Arc<Rxe> {
        &self.rxe
    }

    /// What counts the QP's packets under way.
    pub(crate) fn flight(&self) -> &Arc<Flight> {
        &self.flight
    }

    /// The state at this moment.
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

    /// Lets the QP's work item run soon. Any context.
    pub(crate) fn schedule(this: &Arc<Self>) {
        work::enqueue(workqueue::system_bh(), this);
    }

    fn fixed(&self) -> Fixed {
        Fixed {
            service: self.service,
            qpn: self.number(),
            signal_all: self.signal_all,
            port_mtu: self.rxe.mtu(),
        }
    }

    /// Changes attributes and state: `modify_qp`.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for attributes beyond the specification's, `EINVAL` for what [`attr::check`] refuses,
    /// `ENOMEM`. The QP is as before then.
    pub(crate) fn modify(self: &Arc<Self>, modify: &QpModify<'_>, _sleep: &MaySleep) -> Result {
        if !attr::is_standard(modify.mask) {
            return Err(EOPNOTSUPP);
        }
        let mut attr = self.attr.lock();
        let draining = self.engine.lock().requester.is_draining();
        let next = attr::check(modify, self.qp_type, self.state(), draining, false)?;
        let av = attr::new_path(modify)?;
        attr.apply(modify);
        let path = av.map(|av| Path::new(av, self.number(), attr.dest_qpn()));
        if next == QpState::Reset && modify.state.is_some() {
            *attr = Attr::new();
        }
        let attr = &*attr;
        self.as_arc_borrow().drive(|engine, qp| {
            if path.is_some() {
                engine.queues.path = path;
            }
            engine.become_state(qp, modify.state, attr);
        });
        Ok(())
    }

    /// What the QP is, all of it: `query_qp`.
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

    /// Ends the QP: when this has returned, nothing of it happens any more.
    ///
    /// # Errors
    ///
    /// None.
    pub(crate) fn destroy(self: &Arc<Self>, sleep: &MaySleep) -> Result {
        self.engine.lock().dead = true;
        // Waits for the packets that found the QP.
        drop(self.rxe.qps.remove(self.number(), sleep));
        self.flight.detach();
        Timer::shut_down(self, sleep);
        work::cancel_sync(self, sleep);
        let mut engine = self.engine.lock();
        engine.requester.reset();
        engine.responder.reset();
        engine.queues.reset();
        Ok(())
    }
}

impl Queues {
    fn reset(&mut self) {
        self.send.reset();
        self.recv.reset();
        self.path = None;
        self.datagram_path = None;
        self.moved = None;
        self.overflowed = false;
    }
}

impl Engine {
    /// Splits the engine into its halves and the world that they see.
    fn split<'p>(
        &'p mut self,
        qp: &'p Qp,
        incoming: Option<&'p Incoming<'p>>,
    ) -> (
        &'p mut Requester,
        &'p mut Responder<Region, KVec<Slot<Region>>>,
        Port<'p>,
    ) {
        let Self {
            requester,
            responder,
            queues,
            ..
        } = self;
        (
            requester,
            responder,
            Port {
                qp,
                queues,
                incoming,
            },
        )
    }

    /// Takes over attributes, and goes to a state that has been checked.
    fn become_state(&mut self, qp: &Qp, next: Option<QpState>, attr: &Attr) {
        let was = qp.state();
        let fixed = qp.fixed();
        match next {
            Some(QpState::Reset) => return self.reset(qp),
            Some(QpState::Err) => return self.fail(qp),
            Some(QpState::Rtr) if was != QpState::Rtr => self.responder.start(attr.recv(&fixed)),
            Some(QpState::Rts) if was == QpState::Rtr => {
                self.update(attr, &fixed);
                self.responder.established();
                self.requester.start(attr.send(&fixed));
            }
            _ => self.update(attr, &fixed),
        }
        match (was, next) {
            (QpState::Sqe, Some(QpState::Rts)) => {
                self.flush_sends(qp);
                self.requester.resume();
            }
            (QpState::Sqd, Some(QpState::Rts)) => self.requester.resume(),
            (QpState::Rts, Some(QpState::Sqd)) => {
                let (requester, _, mut port) = self.split(qp, None);
                requester.drain(attr.notifies_drained(), &mut port);
            }
            _ => {}
        }
        if let Some(next) = next {
            qp.set_state(next);
        }
    }

    fn update(&mut self, attr: &Attr, fixed: &Fixed) {
        if self.responder.state() != State::Reset {
            self.responder.set_attr(attr.recv(fixed));
        }
        if self.requester.state() != State::Reset {
            self.requester.set_attr(attr.send(fixed));
        }
    }

    /// Completes all posted sends of a QP in SQE, so that it can go on.
    fn flush_sends(&mut self, qp: &Qp) {
        let (requester, _, mut port) = self.split(qp, None);
        let now = Time::from_ns(now_ns());
        while let Run::More = requester.run(now, BUDGET, &mut port) {}
    }

    fn reset(&mut self, qp: &Qp) {
        self.requester.reset();
        self.responder.reset();
        self.queues.reset();
        qp.posted_sends.lock().clear();
        qp.posted_recvs.lock().clear();
        qp.outstanding_sends.store(0, Ordering::Release);
        qp.outstanding_recvs.store(0, Ordering::Release);
        qp.set_state(QpState::Reset);
    }

    /// To ERR; the following run flushes.
    fn fail(&mut self, qp: &Qp) {
        self.requester.error();
        self.responder.error();
        qp.set_state(QpState::Err);
    }

    /// Takes note of what the halves did by themselves; says whether they have to run again.
    fn settle(&mut self, qp: &Qp) -> bool {
        if core::mem::take(&mut self.queues.overflowed) && qp.state() != QpState::Err {
            // IBTA volume 1, C11-39: a completion is lost, so the QP cannot go on.
            self.queues.moved = None;
            qp.events.raise(rdma::QpEvent::Fatal);
            self.fail(qp);
            return true;
        }
        match self.queues.moved.take() {
            Some(State::Sqe) => {
                qp.set_state(QpState::Sqe);
                true
            }
            Some(_) => {
                self.fail(qp);
                true
            }
            None => false,
        }
    }

    /// Lets both halves run; says whether there is more to do at once.
    fn run(&mut self, qp: &Qp) -> bool {
        let now = Time::from_ns(now_ns());
        let (requester, responder, mut port) = self.split(qp, None);
        let answered = responder.run(BUDGET, &mut port);
        let sent = requester.run(now, BUDGET, &mut port);
        let moved = self.settle(qp);
        moved || answered == Run::More || sent == Run::More
    }
}

impl Qp {
    /// Takes the lock, does something with the engine, and lets it run.
    fn drive(self: ArcBorrow<'_, Self>, f: impl FnOnce(&mut Engine, &Qp)) {
        let qp: &Qp = &self;
        let mut engine = qp.engine.lock();
        if engine.dead {
            return;
        }
        f(&mut engine, qp);
        let more = engine.run(qp);
        let deadline = engine.requester.next_deadline();
        if more {
            Self::schedule(&self.into());
        }
        if let Some(deadline) = deadline {
            Timer::arm(&self.into(), deadline.as_ns());
        }
    }

    /// Hands a packet for this QP to the engine. In softirq.
    pub(crate) fn receive(self: ArcBorrow<'_, Self>, incoming: &Incoming<'_>) {
        self.drive(|engine, qp| engine.receive(qp, incoming));
    }
}

impl Engine {
    /// Hands a packet to the half that it is for.
    fn receive(&mut self, qp: &Qp, incoming: &Incoming<'_>) {
        let connected = qp.service != Service::Ud;
        if connected
            && !self
                .queues
                .path
                .as_ref()
                .is_some_and(|path| path.is_from_peer(incoming))
        {
            return;
        }
        let packet = incoming.packet();
        let payload = incoming.payload();
        let (requester, responder, mut port) = self.split(qp, Some(incoming));
        let opcode = packet.headers().opcode();
        if opcode.is_response() {
            requester.receive(packet, &payload, Time::from_ns(now_ns()), &mut port);
        } else if opcode.is_request() {
            responder.receive(packet, &payload, &mut port);
        }
        self.settle(qp);
    }
}

impl Port<'_> {
    /// Sends a packet: to `av`, or to the peer of a connected QP.
    ///
    /// A packet that cannot be sent is lost, as on the wire.
    fn send(&mut self, packet: tx::Packet, av: Option<Arc<Av>>) {
        let path = match av {
            None => self.queues.path.as_mut(),
            Some(av) => {
                let known = matches!(&self.queues.datagram_path, Some(path) if path.is_to(&av));
                if !known {
                    self.queues.datagram_path = Some(Path::new(av, self.qp.number(), 0));
                }
                self.queues.datagram_path.as_mut()
            }
        };
        if let Some(path) = path {
            packet.send(path, self.qp);
        }
    }
}
