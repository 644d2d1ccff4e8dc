// SPDX-License-Identifier: GPL-2.0

//! The state machine of a queue pair: [`Requester`] and [`Responder`], and the calls that run them (IBTA volume 1,
//! section 10.3).

use super::attr::{Attr, Fixed};
use super::ops::QpOps;
use super::recv_queue::RecvQueue;
use super::send_queue::SendQueue;
use super::types::{Engine, Held, Qp, Queues, Receiver, Slots};
use crate::backlog::{Origin, Taken};
use crate::buffer::{Arrived, Buffer, PayloadOffsets};
use crate::check;
use crate::counters::Counters;
use crate::limits;
use crate::packet::{Arrival, Incoming, Payload};
use crate::port_id::PortId;
use crate::srq::Srq;
use core::sync::atomic::Ordering;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::QpState;
use roce::congestion::Congestion;
use roce::mtu::Mtu;
use roce::requester::Requester;
use roce::responder::{Responder, Slot};
use roce::run::{Gathering, PacketRun, Slice};
use roce::state::{Received, Run, Service, State};
use roce::wire::Packet;

/// Packets that an engine sends, or requests that it flushes, in one run. The rest is left to the work item.
pub(super) const BUDGET: u32 = 256;

/// Packets that an engine sends to another device in one run. On this host they are delivered when it has ended and softirqs are
/// enabled again, so the receiver handles them while the next ones are sent.
const WIRE_BUDGET: u32 = 32;

/// Packets that an engine receives in one run.
const RECEIVE_BUDGET: u32 = 64;

/// READs and ATOMICs of the peer that a QP can process and remember at least.
const RESOURCES: usize = 4;

/// Free resources. Sleeps.
///
/// # Errors
///
/// `ENOMEM`.
fn slots(count: usize) -> Result<Slots> {
    let mut slots = KVec::with_capacity(count, GFP_KERNEL)?;
    for _ in 0..count {
        slots.push(Slot::new(), GFP_KERNEL)?;
    }
    Ok(slots)
}

/// Free resources for a `max_dest_rd_atomic`, which a reliable connection sets before it receives. Sleeps.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn more_slots(max_dest_rd_atomic: Option<u8>) -> Result<Option<Slots>> {
    const MOST: usize = limits::MAX_RD_ATOM as usize;
    let Some(limit) = max_dest_rd_atomic else {
        return Ok(None);
    };
    let least = RESOURCES.max(limit.into());
    slots(least.min(MOST)).map(Some)
}

impl Engine {
    /// Initialises an engine in RESET in place: it is too large for the stack.
    pub(super) fn init(
        (send, recv): (SendQueue, RecvQueue),
        congestion: Option<KBox<Congestion>>,
        counters: Arc<Counters>,
        port: PortId,
    ) -> impl Init<Self> {
        let shared = recv.is_shared();
        init!(Self {
            requester: Requester::new(),
            responder: Responder::new(shared, Slots::new()),
            queues <- Queues::init((send, recv), congestion, counters, port),
            taken: Taken::none(),
            held: None,
            dead: false,
        })
    }

    /// Makes room for more READs and ATOMICs of the peer; returns memory that is not needed any more.
    pub(super) fn grow(&mut self, slots: Slots) -> Slots {
        self.responder.grow(slots)
    }

    /// Borrows requester, responder and the [`QpOps`] that they use.
    pub(super) fn split<'p>(
        &'p mut self,
        qp: &'p Qp,
        arrival: Option<Arrival<'p>>,
    ) -> (&'p mut Requester, &'p mut Receiver, QpOps<'p>) {
        let Self {
            requester,
            responder,
            queues,
            ..
        } = self;
        (
            requester,
            responder,
            QpOps {
                qp,
                queues,
                arrival,
            },
        )
    }

    /// Applies attributes, and changes to a state that was validated against `was`.
    pub(super) fn change_state(
        &mut self,
        qp: &Qp,
        was: QpState,
        next: Option<QpState>,
        attr: &Attr,
    ) {
        let fixed = qp.fixed(self.queues.partition.port());
        let stops = matches!(next, Some(QpState::Reset | QpState::Err));
        if qp.state() != was && !stops {
            // The engine has gone to an error state by itself since the validation.
            return self.update(attr, &fixed);
        }
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
            (QpState::Sqe | QpState::Sqd, Some(QpState::Rts)) => self.requester.resume(),
            (QpState::Rts, Some(QpState::Sqd)) => {
                let (requester, _, mut ops) = self.split(qp, None);
                requester.drain(attr.notifies_drained(), &mut ops);
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

    /// Sets the MTU of datagrams, which is the port's at any time.
    #[inline]
    pub(super) fn set_datagram_mtu(&mut self, mtu: Mtu) {
        self.requester.set_datagram_mtu(mtu);
        self.responder.set_datagram_mtu(mtu);
    }

    /// Sets the P_Key of packets, which is that of the table's entry at any time.
    #[inline]
    fn set_pkey(&mut self, qp: &Qp) {
        let pkey = qp.rxe.pkey_of(self.queues.partition);
        self.requester.set_pkey(pkey);
        self.responder.set_pkey(pkey);
    }

    /// Drops all posted requests, and changes to RESET.
    pub(super) fn reset(&mut self, qp: &Qp) {
        self.requester.reset();
        self.responder.reset();
        self.queues.reset();
        self.held = None;
        // Posting counts requests under the inbox's lock.
        let mut sends = qp.posted_sends.lock();
        sends.clear();
        qp.outstanding_sends.store(0, Ordering::Release);
        drop(sends);
        let mut recvs = qp.posted_recvs.lock();
        recvs.clear();
        qp.outstanding_recvs.store(0, Ordering::Release);
        drop(recvs);
        qp.set_state(QpState::Reset);
    }

    /// Drops a shared receive queue that requests have named, and the receive that was taken from it.
    pub(super) fn forget_srq(&mut self, srq: &Arc<Srq>) {
        let recv = &mut self.queues.recv;
        if recv.named().is_some_and(|named| Arc::ptr_eq(named, srq)) {
            recv.forget_named();
            self.responder.forget_receive();
        }
    }

    /// Changes to ERR; the following run flushes.
    fn fail(&mut self, qp: &Qp) {
        self.requester.error();
        self.responder.error();
        qp.set_state(QpState::Err);
    }

    /// Applies state changes of requester and responder; returns whether they must run again.
    fn settle(&mut self, qp: &Qp) -> bool {
        if core::mem::take(&mut self.queues.overflowed) && qp.state() != QpState::Err {
            // IBTA volume 1, C11-39: a completion is lost, so the QP goes to ERR.
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

    /// Handles packets of the backlog; returns how many, and whether there are more. It stops at a packet that needs memory that is
    /// absent, which it [holds](Held).
    pub(super) fn receive_all(&mut self, qp: &Qp) -> (u32, bool) {
        let mut received = 0u32;
        while received < RECEIVE_BUDGET {
            let incoming = if self.held.is_some() {
                self.resume(qp, &mut received)
            } else {
                let Some(packet) = qp.backlog.next(&mut self.taken) else {
                    return (received, false);
                };
                if let (Some(size), Origin::Wire(ingress)) =
                    (packet.skb.segment_size(), packet.origin)
                {
                    let count =
                        match Buffer::new(packet.skb, size, ingress, &mut self.queues.prefixes) {
                            Some(buffer) => self.receive_buffer(qp, buffer, 0, 0),
                            None => 1,
                        };
                    received = received.saturating_add(count);
                    None
                } else {
                    received = received.wrapping_add(1);
                    let Queues {
                        admitted,
                        prefixes,
                        counters,
                        ..
                    } = &mut self.queues;
                    let taken = (qp.service, *admitted);
                    let accepted = check::accept(&qp.rxe, counters, taken, packet, prefixes);
                    if let (Some(incoming), Some(_)) = (&accepted, &self.queues.congestion) {
                        self.note_packet(incoming);
                    }
                    accepted
                }
            };
            if let Some(incoming) = incoming {
                match self.receive(qp, &incoming) {
                    Received::Done => incoming.consume(),
                    Received::Absent => self.held = Some(Held::Packet(incoming)),
                }
            }
            if self.held.is_some() {
                break;
            }
        }
        (received, true)
    }

    /// Returns the held packet, or handles the held GRO buffer and adds its packets to `received`.
    #[cold]
    fn resume(&mut self, qp: &Qp, received: &mut u32) -> Option<Incoming> {
        let (count, incoming) = match self.held.take()? {
            Held::Packet(incoming) => (1, Some(incoming)),
            Held::Buffer {
                buffer,
                next,
                counted,
            } => (self.receive_buffer(qp, buffer, next, counted), None),
        };
        *received = received.saturating_add(count);
        incoming
    }

    /// Handles a packet, if it comes from the peer.
    fn receive(&mut self, qp: &Qp, incoming: &Incoming) -> Received {
        let connected = qp.service != Service::Ud;
        let bth = incoming.packet().bth();
        let addresses = incoming.addresses();
        if connected && !self.is_from_peer(qp, bth, addresses) {
            check::ignore_notification(&qp.rxe, bth, incoming.port());
            return Received::Done;
        }
        let arrival = Arrival::Packet(incoming);
        self.take(qp, incoming.packet(), &incoming.payload(), arrival)
    }

    /// Passes a packet, or a run of them, to the requester or the responder.
    pub(super) fn take(
        &mut self,
        qp: &Qp,
        packet: &Packet,
        payload: &Payload<'_>,
        arrival: Arrival<'_>,
    ) -> Received {
        let (requester, responder, mut ops) = self.split(qp, Some(arrival));
        let opcode = packet.headers().opcode();
        let received = if opcode.is_response() {
            let now = ops.queues.clock.now();
            requester.receive(packet, payload, now, &mut ops)
        } else if opcode.is_request() {
            responder.receive(packet, payload, &mut ops)
        } else {
            self.take_notification();
            Received::Done
        };
        self.settle(qp);
        received
    }

    /// Passes a run of packets on, in one step, or one by one if some of them may be duplicates. `payload` returns the payload at an
    /// offset in the run, with a length. If memory is absent, all of the run is to be passed again: those packets that were handled
    /// are then duplicates.
    pub(super) fn take_run<'p>(
        &mut self,
        qp: &Qp,
        run: &PacketRun,
        payload: impl Fn(u32, u32) -> Payload<'p>,
        arrival: Arrival<'_>,
    ) -> Received {
        let first = run.packet().bth();
        let whole = match first.opcode.is_response() {
            _ if run.count() == 1 => true,
            true => self.requester.takes_run(first.psn),
            false => self.responder.takes_run(first.psn),
        };
        if whole {
            let payload = payload(0, run.payload_len());
            return self.take(qp, run.packet(), &payload, arrival);
        }
        for Slice {
            headers,
            offset,
            len,
        } in run.packets()
        {
            let packet = Packet::new(headers, len);
            if self.take(qp, &packet, &payload(offset, len), arrival) == Received::Absent {
                return Received::Absent;
            }
        }
        Received::Done
    }

    /// Handles the packets of a GRO buffer from `first` on, if they come from the peer, in runs. The first `counted` ones were counted
    /// before. Returns the number of packets, at least 1.
    fn receive_buffer(&mut self, qp: &Qp, buffer: Buffer, first: usize, counted: usize) -> u32 {
        let count = buffer.count();
        let taken = (qp.service, self.queues.admitted);
        let mut gathered: Option<(Gathering, PayloadOffsets)> = None;
        let mut arrived = Arrived::after(counted);
        let mut next = first;
        let mut cursor = buffer.skb().cursor();
        let mut following = first;
        while following < count {
            let index = following;
            following = index.saturating_add(1);
            let prefixes = &mut self.queues.prefixes;
            if let Some((run, offsets)) = &mut gathered {
                if offsets.precedes(index) {
                    // They belong to the same queue pair, partition and service.
                    let added = buffer.add_middles(index, run, &mut cursor, prefixes);
                    if added != 0 {
                        arrived.add_equal(&buffer, index, added);
                        offsets.push_middles(added, &buffer);
                        following = index.saturating_add(added);
                        continue;
                    }
                }
            }
            let Some(head) = buffer.head(index, &mut cursor, prefixes) else {
                continue;
            };
            let parsed = head.parse(&buffer, &mut cursor);
            let Ok(packet) = &parsed else {
                continue;
            };
            arrived.add_one(&buffer, &head);
            if !check::accepts_part(&qp.rxe, taken, &buffer, packet) {
                continue;
            }
            let start = head.payload_at(packet.payload_offset());
            if let Some((run, offsets)) = &mut gathered {
                if offsets.precedes(index) && run.append(packet) {
                    offsets.push(start);
                    continue;
                }
            }
            if let Some((run, offsets)) = &gathered {
                if self.take_gathered(qp, &buffer, run.run(), offsets) == Received::Absent {
                    self.count_arrived(&buffer, arrived);
                    let counted = counted.max(index.saturating_add(1));
                    self.held = Some(Held::Buffer {
                        buffer,
                        next,
                        counted,
                    });
                    return index.saturating_sub(first).max(1) as u32;
                }
            }
            let offsets = PayloadOffsets::new(start, packet, &buffer);
            gathered = Some((Gathering::of(packet), offsets));
            next = index;
        }
        self.count_arrived(&buffer, arrived);
        let received = match &gathered {
            Some((run, offsets)) => self.take_gathered(qp, &buffer, run.run(), offsets),
            None => Received::Done,
        };
        match received {
            Received::Done => buffer.consume(),
            Received::Absent => {
                self.held = Some(Held::Buffer {
                    buffer,
                    next,
                    counted: count,
                });
            }
        }
        count.saturating_sub(first).max(1) as u32
    }

    fn count_arrived(&mut self, buffer: &Buffer, arrived: Arrived) {
        let path = self.queues.path.as_ref();
        if self.queues.congestion.is_some()
            && path.is_some_and(|path| path.is_from_peer(buffer.addresses()))
        {
            self.note_marks(buffer.traffic_class(), arrived.packets());
        }
        arrived.count(&self.queues.counters);
    }

    fn take_gathered(
        &mut self,
        qp: &Qp,
        buffer: &Buffer,
        run: &PacketRun,
        offsets: &PayloadOffsets,
    ) -> Received {
        let arrival = Arrival::Other {
            network_type: buffer.network_type(),
            vlan_id: buffer.vlan_id(),
        };
        let payload = |offset, len| Payload::Packets {
            skb: buffer.skb(),
            offsets,
            offset,
            len,
        };
        let bth = run.packet().bth();
        if !self.is_from_peer(qp, bth, buffer.addresses()) {
            check::ignore_notification(&qp.rxe, bth, buffer.port());
            return Received::Done;
        }
        self.take_run(qp, run, payload, arrival)
    }

    /// Sends the responses that are due before the QP is destroyed. A message may be complete before it is acknowledged, and its
    /// program may end then: the peer would send the message again and again.
    pub(super) fn acknowledge(&mut self, qp: &Qp) {
        if matches!(self.responder.state(), State::Rtr | State::Rts) {
            self.set_pkey(qp);
            let (_, responder, mut ops) = self.split(qp, None);
            responder.run(BUDGET, &mut ops);
            ops.flush();
        }
    }

    /// Runs requester and responder; returns whether there is more to do at once.
    pub(super) fn run(&mut self, qp: &Qp) -> bool {
        let broken = self.queues.recv.is_broken() || qp.take_cq_overrun();
        if broken && !matches!(qp.state(), QpState::Reset | QpState::Err) {
            qp.events.raise(rdma::QpEvent::Fatal);
            self.fail(qp);
        }
        let now = self.queues.clock.now();
        let budget = match self.queues.loops_back() {
            true => BUDGET,
            false => WIRE_BUDGET,
        };
        self.set_pkey(qp);
        self.begin(qp, now);
        let (requester, responder, mut ops) = self.split(qp, None);
        let answered = responder.run(budget, &mut ops);
        let sent = requester.run(now, budget, &mut ops);
        // The last packet of a READ's response waits for the first ones of the next response, which the next run sends.
        if answered != Run::More {
            ops.flush();
        }
        let moved = self.settle(qp);
        moved || answered == Run::More || sent == Run::More
    }
}
