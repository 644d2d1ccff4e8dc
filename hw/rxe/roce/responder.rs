// SPDX-License-Identifier: GPL-2.0

//! The receive side of a queue pair: request packets in; memory, receives and responses out
//! (IBTA volume 1, 9.7 and 9.8).
//!
//! A request is executed when it arrives. Responses are only recorded, and are sent by [`Responder::run`]: first the
//! responses to READs and ATOMICs, in order, then one acknowledge for all requests since the last one. So acknowledges
//! are coalesced over a batch of packets, and back-pressure is handled in one place.
//!
//! An acknowledge never has the PSN of a READ or ATOMIC: a peer could take it for the response.

use core::ops::DerefMut;

use crate::memory::{NextRecv, RecvOps, RegionPart, RemoteFault, RespondError};
use crate::mtu::Mtu;
use crate::opcode::{Kind, Opcode};
use crate::psn::{Msn, Psn};
pub use crate::resources::Slot;
use crate::resources::{Resources, Response};
use crate::run::PacketRun;
use crate::state::{
    Access, Counter, QpEvent, RecvAttr, RecvCompletion, RecvOpcode, RemoteAccess, Run, Service,
    State, WcStatus,
};
use crate::timer::RnrTimer;
use crate::wire::{Aeth, Bth, Ext, Headers, NakCode, Packet, Parts, Qpn, Reth, Syndrome};

mod execute;

use execute::{check_range, Failure, Message};

/// Sequence numbers up to this far ahead are new, all others are duplicates.
const HALF: u32 = 1 << 23;

/// The first position: large enough that all duplicates have a position.
const FIRST_POSITION: u64 = 1 << 24;

/// The attributes before they are set.
const UNSET: RecvAttr = RecvAttr {
    service: Service::Rc,
    mtu: Mtu::Mtu256,
    dest_qpn: Qpn::new(0),
    rq_psn: Psn::new(0),
    pkey: 0,
    qkey: 0,
    max_dest_rd_atomic: 0,
    min_rnr_timer: RnrTimer::new(0),
    access: RemoteAccess {
        write: false,
        read: false,
        atomic: false,
    },
};

/// The reply that is sent after all responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    /// All SENDs and WRITEs so far have arrived.
    Ack,
    /// A packet is missing.
    SequenceNak,
    /// There is no receive for the expected packet.
    RnrNak,
    /// The request with this PSN is refused permanently.
    Refusal(NakCode, Psn),
}

/// The responder of a queue pair.
///
/// `R` is [`RecvOps::Region`]. `S` is memory of the driver, such as a vector of [`Slot`]s: as many READs and ATOMICs
/// can be answered and remembered as it has slots; only a reliable connection needs any. The driver serialises all
/// calls.
#[derive(Debug)]
pub struct Responder<R, S> {
    attr: RecvAttr,
    state: State,
    has_srq: bool,
    /// Whether the COMM_EST event was raised or is not due.
    established: bool,
    /// PSN of the next new packet.
    expected: Psn,
    /// Its position, as a number that does not wrap.
    position: u64,
    msn: Msn,
    message: Option<Message<R>>,
    /// Length of the current receive.
    recv: Option<u32>,
    /// PSN of the last packet of a SEND or WRITE.
    ackable: Option<Psn>,
    /// Whether a NAK was sent for the expected packet.
    nak_sent: bool,
    reply: Option<Reply>,
    resources: Resources<S>,
    last_wqe_told: bool,
}

impl<R, S: DerefMut<Target = [Slot<R>]>> Responder<R, S> {
    /// A responder in [`State::Reset`], with or without a shared receive queue.
    pub const fn new(has_srq: bool, slots: S) -> Self {
        Self {
            attr: UNSET,
            state: State::Reset,
            has_srq,
            established: false,
            expected: UNSET.rq_psn,
            position: FIRST_POSITION,
            msn: Msn::new(0),
            message: None,
            recv: None,
            ackable: None,
            nak_sent: false,
            reply: None,
            resources: Resources::new(slots),
            last_wqe_told: false,
        }
    }

    /// Number of slots.
    #[inline]
    pub fn slots(&self) -> usize {
        self.resources.capacity()
    }

    /// Moves to more slots, in any state; returns those that are not needed any more: the old ones, or `slots` if they
    /// are not more.
    pub fn grow(&mut self, slots: S) -> S {
        self.resources.grow(slots)
    }

    /// INIT to RTR: sets the attributes and expects `rq_psn`. Only after a reset.
    pub fn start(&mut self, attr: RecvAttr) {
        self.attr = attr;
        self.expected = attr.rq_psn;
        self.state = State::Rtr;
    }

    /// RTR to RTS: COMM_EST is not raised any more.
    pub fn established(&mut self) {
        if self.state == State::Rtr {
            self.state = State::Rts;
            self.established = true;
        }
    }

    /// The current attributes.
    #[inline]
    pub fn attr(&self) -> &RecvAttr {
        &self.attr
    }

    /// Changes attributes, except for `service`, `mtu` and `rq_psn`.
    pub fn set_attr(&mut self, attr: RecvAttr) {
        let RecvAttr {
            service,
            mtu,
            rq_psn,
            ..
        } = self.attr;
        self.attr = RecvAttr {
            service,
            mtu,
            rq_psn,
            ..attr
        };
    }

    /// Sets the MTU of datagrams: that of the port, which may change. No effect on other services.
    #[inline]
    pub fn set_datagram_mtu(&mut self, mtu: Mtu) {
        if self.attr.service == Service::Ud {
            self.attr.mtu = mtu;
        }
    }

    /// The state of the responder: `Reset` until [`start`](Self::start), then `Rtr`, `Rts` or `Err`.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// PSN of the next new packet (`rq_psn` of `query_qp`).
    #[inline]
    pub fn expected_psn(&self) -> Psn {
        self.expected
    }

    /// To ERR, from any state: drops unanswered requests. [`run`](Self::run) then flushes.
    pub fn error(&mut self) {
        if self.state == State::Err {
            return;
        }
        self.state = State::Err;
        self.message = None;
        self.reply = None;
        self.resources.clear();
    }

    /// To RESET: drops everything, including the current receive.
    pub fn reset(&mut self) {
        let Self {
            attr,
            state,
            has_srq: _,
            established,
            expected,
            position,
            msn,
            message,
            recv,
            ackable,
            nak_sent,
            reply,
            resources,
            last_wqe_told,
        } = self;
        *attr = UNSET;
        *state = State::Reset;
        *established = false;
        *expected = UNSET.rq_psn;
        *position = FIRST_POSITION;
        *msn = Msn::new(0);
        *message = None;
        *recv = None;
        *ackable = None;
        *nak_sent = false;
        *reply = None;
        resources.clear();
        *last_wqe_told = false;
    }

    /// Handles a request packet, or a run of them that [`takes_run`](Self::takes_run) allows. The driver has checked the
    /// partition key and, for RC and UC, that the packet is from the peer.
    ///
    /// Afterwards [`run`](Self::run) must be called, once for a batch of requests.
    pub fn receive<O: RecvOps<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &O::Payload,
        ops: &mut O,
    ) {
        let opcode = packet.bth().opcode;
        let fits = opcode.service() == self.attr.service.into() && opcode.is_request();
        if !fits || !self.state.receives() {
            return;
        }
        match self.attr.service {
            Service::Rc => self.reliable(packet, payload, ops),
            Service::Uc => self.unreliable(packet, payload, ops),
            Service::Ud => self.datagram(packet, payload, ops),
        }
    }

    /// Whether a run of packets with this first PSN may be handled as one: on a reliable connection, a part of another one may be
    /// a duplicate. Of others, the packets are handled one by one.
    #[inline]
    pub fn takes_run(&self, first: Psn) -> bool {
        self.attr.service == Service::Uc || first == self.expected
    }

    fn establish<O: RecvOps<Region = R>>(&mut self, ops: &mut O) {
        if !self.established {
            self.established = true;
            ops.event(QpEvent::CommEst);
        }
    }

    // Reliable connection.

    fn reliable<O: RecvOps<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &O::Payload,
        ops: &mut O,
    ) {
        self.establish(ops);
        let ahead = packet.bth().psn.offset(self.expected);
        if ahead == 0 {
            if let Err(failure) = self.execute(packet, payload, ops) {
                self.refuse(failure, ops);
            }
        } else if ahead < HALF {
            self.out_of_sequence(ops);
        } else {
            self.duplicate(packet, ops);
        }
    }

    /// Sends one NAK for missing packets.
    fn out_of_sequence<O: RecvOps<Region = R>>(&mut self, ops: &mut O) {
        ops.count(Counter::OutOfSeqRequest);
        if !self.nak_sent {
            self.nak_sent = true;
            self.reply = Some(Reply::SequenceNak);
        }
    }

    /// Advances past a request that used `taken` sequence numbers.
    #[inline]
    fn accept(&mut self, bth: &Bth, taken: u32) {
        self.expected = self.expected.add(taken);
        self.position = self.position.wrapping_add(u64::from(taken));
        self.nak_sent = false;
        if bth.opcode.ends() {
            self.msn = self.msn.next();
        }
        let acknowledged = matches!(bth.opcode.kind(), Kind::Send | Kind::Write);
        if acknowledged {
            self.ackable = Some(bth.psn.add(taken.saturating_sub(1)));
        }
        self.reply = match self.reply {
            // Packets after the gap were dropped, so the peer must send them again in any case.
            Some(Reply::SequenceNak | Reply::RnrNak) => Some(Reply::SequenceNak),
            Some(Reply::Ack) if acknowledged => Some(Reply::Ack),
            _ if acknowledged && bth.ack_req => Some(Reply::Ack),
            // The response to a READ or ATOMIC acknowledges the requests before it.
            _ => None,
        };
    }

    /// Handles a failed request on a reliable connection (IBTA volume 1, 9.9.3).
    fn refuse<O: RecvOps<Region = R>>(&mut self, failure: Failure, ops: &mut O) {
        if self.state == State::Err {
            return; // A response was aborted while resources were freed.
        }
        let (fault, event, status) = match failure {
            Failure::NotReady => {
                ops.count(Counter::SentRnr);
                self.nak_sent = true;
                self.reply = Some(Reply::RnrNak);
                return;
            }
            Failure::Refused(fault, event, status) => (fault, Some(event), status),
            Failure::TooLong => {
                let invalid = RemoteFault::InvalidRequest;
                (invalid, Some(QpEvent::AccessErr), WcStatus::LocLenErr)
            }
            Failure::Local(status) => (RemoteFault::Operational, None, status),
        };
        self.reply = Some(Reply::Refusal(fault.into(), self.expected));
        self.fail(status, ops);
        if let Some(event) = event {
            ops.event(event);
        }
    }

    /// Completes the current receive with `status` and changes to the error state.
    fn fail<O: RecvOps<Region = R>>(&mut self, status: WcStatus, ops: &mut O) {
        self.message = None;
        self.state = State::Err;
        if self.recv.take().is_some() {
            ops.complete_recv(failed(status));
        }
        ops.moved(State::Err);
    }

    // Duplicates (IBTA volume 1, 9.7.5.1).

    fn duplicate<O: RecvOps<Region = R>>(&mut self, packet: &Packet, ops: &mut O) {
        ops.count(Counter::DuplicateRequest);
        let bth = packet.bth();
        let back = u64::from(self.expected.offset(bth.psn));
        let position = self.position.wrapping_sub(back);
        match (bth.opcode.kind(), packet.headers().ext()) {
            (Kind::Send | Kind::Write, _) => {
                if self.reply.is_none() && self.ackable.is_some() {
                    self.reply = Some(Reply::Ack);
                }
            }
            (Kind::ReadRequest, Ext::Reth(reth)) => self.replay_read(position, reth, ops),
            _ => {
                if let Some(resource) = self.resources.find(position) {
                    resource.replay(bth.opcode.kind());
                }
            }
        }
    }

    /// Replays a READ from current memory. If the memory is not registered any more there is no response: the peer has
    /// the first one, or will time out.
    fn replay_read<O: RecvOps<Region = R>>(&mut self, position: u64, reth: &Reth, ops: &mut O) {
        let mtu = self.attr.mtu;
        let Some(resource) = self.resources.find(position) else {
            return;
        };
        if !resource.wants_read(position, reth, mtu) {
            return;
        }
        if let Ok(region) = check_range(reth, Access::Read, ops) {
            resource.replay_read(position, reth, mtu, region);
        }
    }

    // Unreliable connection.

    fn unreliable<O: RecvOps<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &O::Payload,
        ops: &mut O,
    ) {
        self.establish(ops);
        let bth = packet.bth();
        if bth.opcode.begins() {
            self.message = None; // The end of the previous message is lost.
        } else if bth.psn != self.expected {
            self.message = None; // A part of this message is lost, and with it the message.
        }
        self.expected = bth.psn.add(packet.count());
        let done = self.check(packet).and_then(|()| {
            self.take_receive(bth.opcode, ops)?;
            match bth.opcode.kind() {
                Kind::Send => self.send(packet, payload, ops),
                _ => self.write(packet, payload, ops),
            }
        });
        if let Err(failure) = done {
            self.drop_message(failure, ops);
        }
    }

    /// Handles a failed request on an unreliable service: the message is dropped.
    ///
    /// Its receive remains current for the next message. One of a shared queue cannot, and completes with an error if
    /// the message was too long for it. Only an invalid receive leads to the error state.
    fn drop_message<O: RecvOps<Region = R>>(&mut self, failure: Failure, ops: &mut O) {
        self.message = None;
        match failure {
            Failure::Local(status) => self.fail(status, ops),
            Failure::TooLong if self.has_srq => {
                if self.recv.take().is_some() {
                    ops.complete_recv(failed(WcStatus::LocLenErr));
                }
            }
            Failure::TooLong | Failure::NotReady | Failure::Refused(..) => {}
        }
    }

    // Unreliable datagram.

    fn datagram<O: RecvOps<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &O::Payload,
        ops: &mut O,
    ) {
        if packet
            .headers()
            .deth()
            .is_none_or(|deth| deth.qkey != self.attr.qkey)
        {
            return ops.count(Counter::QkeyViolation);
        }
        if !packet.payload_fits(self.attr.mtu) {
            return;
        }
        let taken = self.take_receive(packet.bth().opcode, ops);
        if let Err(failure) = taken.and_then(|()| self.deliver(packet, payload, ops)) {
            self.drop_message(failure, ops);
        }
    }

    // Output.

    /// Sends at most `budget` responses; in the error state, flushes at most `budget` receives.
    ///
    /// Must be called after requests, when receives are posted in the error state, after [`error`](Self::error), and
    /// again as the result says.
    pub fn run<O: RecvOps<Region = R>>(&mut self, budget: u32, ops: &mut O) -> Run {
        for _ in 0..budget {
            if let Some(run) = self.step(ops) {
                return run;
            }
        }
        Run::More
    }

    /// Sends one packet or flushes one receive; returns the result of `run` where it could not.
    #[inline]
    fn step<O: RecvOps<Region = R>>(&mut self, ops: &mut O) -> Option<Run> {
        if let Some(resource) = self.resources.sending() {
            let mtu = self.attr.mtu;
            let longest = if resource.has_many() {
                ops.longest_run(mtu)
            } else {
                1
            };
            let Some(response) = resource.response(mtu, longest) else {
                return Some(Run::Idle);
            };
            let Response {
                psn, count, len, ..
            } = response;
            let bth = Bth::new(response.opcode, self.attr.pkey, self.attr.dest_qpn, psn);
            let packet = Packet::run(Headers::new(bth, &response.parts), len, count);
            let part = response
                .data
                .map(|(region, offset)| RegionPart { region, offset });
            match ops.respond(&PacketRun::new(packet, mtu), part) {
                Ok(()) | Err(RespondError::Dropped) => resource.sent(count),
                Err(RespondError::QueueFull) => return Some(Run::Blocked),
                Err(RespondError::Nak(_)) if resource.is_answered() => resource.cancel(),
                Err(RespondError::Nak(fault)) => self.abort_response(fault, psn, ops),
            }
            return None;
        }
        if let Some(reply) = self.reply {
            return self.send_reply(reply, ops);
        }
        match self.state {
            State::Err => self.flush_one(ops),
            _ => Some(Run::Idle),
        }
    }

    /// The memory of a READ was invalidated while it is answered.
    fn abort_response<O: RecvOps<Region = R>>(
        &mut self,
        fault: RemoteFault,
        psn: Psn,
        ops: &mut O,
    ) {
        self.resources.clear();
        let failed_before = self.state == State::Err;
        self.reply = Some(Reply::Refusal(fault.into(), psn));
        if !failed_before {
            self.fail(WcStatus::WrFlushErr, ops);
            ops.event(QpEvent::AccessErr);
        }
    }

    fn send_reply<O: RecvOps<Region = R>>(&mut self, reply: Reply, ops: &mut O) -> Option<Run> {
        let (syndrome, psn) = match (reply, self.ackable) {
            (Reply::Ack, Some(psn)) => (Syndrome::ACK, psn),
            (Reply::Ack, None) => {
                self.reply = None;
                return None;
            }
            (Reply::SequenceNak, _) => (Syndrome::Nak(NakCode::PsnSequence), self.expected),
            (Reply::RnrNak, _) => (Syndrome::RnrNak(self.attr.min_rnr_timer), self.expected),
            (Reply::Refusal(code, psn), _) => (Syndrome::Nak(code), psn),
        };
        let bth = Bth::new(
            Opcode::RcAcknowledge,
            self.attr.pkey,
            self.attr.dest_qpn,
            psn,
        );
        let aeth = Aeth {
            syndrome,
            msn: self.msn,
        };
        let parts = Parts {
            aeth,
            ..Parts::default()
        };
        let packet = Packet::new(Headers::new(bth, &parts), 0);
        match ops.respond(&PacketRun::new(packet, self.attr.mtu), None) {
            Err(RespondError::QueueFull) => return Some(Run::Blocked),
            Ok(()) | Err(RespondError::Dropped | RespondError::Nak(_)) => self.reply = None,
        }
        None
    }

    fn flush_one<O: RecvOps<Region = R>>(&mut self, ops: &mut O) -> Option<Run> {
        if self.recv.take().is_none() {
            if self.has_srq {
                self.raise_last_wqe(ops);
                return Some(Run::Idle);
            }
            if ops.next_recv() == NextRecv::Empty {
                return Some(Run::Idle);
            }
        }
        ops.complete_recv(failed(WcStatus::WrFlushErr));
        None
    }

    fn raise_last_wqe<O: RecvOps<Region = R>>(&mut self, ops: &mut O) {
        if !self.last_wqe_told {
            self.last_wqe_told = true;
            ops.event(QpEvent::LastWqeReached);
        }
    }
}

/// The completion of a failed receive.
const fn failed(status: WcStatus) -> RecvCompletion {
    RecvCompletion {
        status,
        opcode: RecvOpcode::Recv,
        byte_len: 0,
        imm: None,
        invalidated_rkey: None,
        solicited: false,
        src_qpn: Qpn::new(0),
    }
}
