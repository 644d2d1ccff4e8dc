// SPDX-License-Identifier: GPL-2.0

//! The receive side of a queue pair: request packets in; memory, receives and responses out
//! (IBTA volume 1, 9.7 and 9.8).
//!
//! A request is executed when it arrives. What is to be answered is only noted, and leaves in
//! [`Responder::run`]: first the answers to READs and ATOMICs, in order, then one acknowledge for
//! everything that came since the last one. So acknowledges coalesce by themselves over a batch of
//! packets, and back-pressure has one place.
//!
//! An acknowledge never carries the PSN of a READ or ATOMIC: a peer could take it for the answer.

use core::ops::DerefMut;

use crate::memory::{NextRecv, RecvPort, RegionPart, RemoteFault, RespondError};
use crate::mtu::Mtu;
use crate::opcode::{Kind, Opcode};
use crate::psn::{Msn, Psn};
use crate::resources::Resources;
pub use crate::resources::Slot;
use crate::state::{
    Access, Counter, QpEvent, RecvAttr, RecvCompletion, RecvOpcode, RemoteAccess, Run, Service,
    State, WcStatus,
};
use crate::timer::RnrTimer;
use crate::wire::{Aeth, Bth, Ext, Headers, NakCode, Packet, Parts, Qpn, Reth, Syndrome};

mod execute;

use execute::{check_range, Failure, Message};

/// Sequence numbers up to this far ahead are new, all others have been seen.
const HALF: u32 = 1 << 23;

/// Where positions begin: far enough from zero that all duplicates have one.
const FIRST_POSITION: u64 = 1 << 24;

/// The attributes before there are any.
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

/// What is to be said to the peer after all answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    /// All SENDs and WRITEs so far have arrived.
    Ack,
    /// A packet is missing.
    SequenceNak,
    /// There is no receive for the expected packet.
    RnrNak,
    /// The request with this PSN is refused for good.
    Refusal(NakCode, Psn),
}

/// The receive side of one queue pair.
///
/// `R` is the port's [`RecvPort::Region`]. `S` is memory from the driver, such as a vector of
/// [`Slot`]s: as many READs and ATOMICs as it has slots can be answered and remembered; only a
/// reliable connection needs any. The driver serialises all calls.
#[derive(Debug)]
pub struct Responder<R, S> {
    attr: RecvAttr,
    state: State,
    has_srq: bool,
    /// The event of the first packet was raised or is not due.
    established: bool,
    /// PSN of the next new packet.
    expected: Psn,
    /// Its position in the stream of all sequence numbers, which does not wrap.
    position: u64,
    msn: Msn,
    message: Option<Message<R>>,
    /// Length of the current receive.
    recv: Option<u32>,
    /// The last packet of a SEND or WRITE.
    ackable: Option<Psn>,
    /// The peer was told that the expected packet is missing or not welcome yet.
    nak_sent: bool,
    reply: Option<Reply>,
    resources: Resources<S>,
    last_wqe_told: bool,
}

impl<R, S: DerefMut<Target = [Slot<R>]>> Responder<R, S> {
    /// A receive side in [`State::Reset`], with or without a shared receive queue.
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

    /// INIT to RTR: takes the attributes and expects `rq_psn`. Only after a reset.
    pub fn start(&mut self, attr: RecvAttr) {
        self.attr = attr;
        self.expected = attr.rq_psn;
        self.state = State::Rtr;
    }

    /// RTR to RTS: the first packet is no event any more.
    pub fn established(&mut self) {
        if self.state == State::Rtr {
            self.state = State::Rts;
            self.established = true;
        }
    }

    /// The attributes in force.
    #[inline]
    pub fn attr(&self) -> &RecvAttr {
        &self.attr
    }

    /// Changes attributes; `service`, `mtu` and `rq_psn` stay what they were.
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

    /// The state of the receive side: `Reset` until [`start`](Self::start), then `Rtr`, `Rts`
    /// or `Err`.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// PSN of the next new packet (`rq_psn` of `query_qp`).
    #[inline]
    pub fn expected_psn(&self) -> Psn {
        self.expected
    }

    /// To ERR, from any state: forgets what is not yet answered. [`run`](Self::run) then flushes.
    pub fn error(&mut self) {
        if self.state == State::Err {
            return;
        }
        self.state = State::Err;
        self.message = None;
        self.reply = None;
        self.resources.clear();
    }

    /// To RESET: forgets everything, also the current receive.
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

    /// Takes a request packet. For RC and UC the driver has found it to come from the peer; it has
    /// checked the partition key in any case.
    ///
    /// Afterwards [`run`](Self::run) has to be called, once for a batch of requests.
    pub fn receive<P: RecvPort<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &P::Payload,
        port: &mut P,
    ) {
        let opcode = packet.bth().opcode;
        let fits = opcode.service() == self.attr.service.into() && opcode.is_request();
        if !fits || !self.state.receives() {
            return;
        }
        match self.attr.service {
            Service::Rc => self.reliable(packet, payload, port),
            Service::Uc => self.unreliable(packet, payload, port),
            Service::Ud => self.datagram(packet, payload, port),
        }
    }

    fn establish<P: RecvPort<Region = R>>(&mut self, port: &mut P) {
        if !self.established {
            self.established = true;
            port.event(QpEvent::CommEst);
        }
    }

    // Reliable connection.

    fn reliable<P: RecvPort<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &P::Payload,
        port: &mut P,
    ) {
        self.establish(port);
        let ahead = packet.bth().psn.offset(self.expected);
        if ahead == 0 {
            if let Err(failure) = self.execute(packet, payload, port) {
                self.refuse(failure, port);
            }
        } else if ahead < HALF {
            self.out_of_sequence(port);
        } else {
            self.duplicate(packet, port);
        }
    }

    /// Tells the peer once that packets are missing.
    fn out_of_sequence<P: RecvPort<Region = R>>(&mut self, port: &mut P) {
        port.count(Counter::OutOfSeqRequest);
        if !self.nak_sent {
            self.nak_sent = true;
            self.reply = Some(Reply::SequenceNak);
        }
    }

    /// Moves on behind a request that took `taken` sequence numbers.
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
            self.ackable = Some(bth.psn);
        }
        self.reply = match self.reply {
            // Packets behind the gap were dropped, so the peer has to send again in any case.
            Some(Reply::SequenceNak | Reply::RnrNak) => Some(Reply::SequenceNak),
            Some(Reply::Ack) if acknowledged => Some(Reply::Ack),
            _ if acknowledged && bth.ack_req => Some(Reply::Ack),
            // The answer to a READ or ATOMIC acknowledges what is before it.
            _ => None,
        };
    }

    /// Does what a failed request on a reliable connection leads to (IBTA volume 1, 9.9.3).
    fn refuse<P: RecvPort<Region = R>>(&mut self, failure: Failure, port: &mut P) {
        if self.state == State::Err {
            return; // An answer broke off while room was made for another one.
        }
        let (fault, event, status) = match failure {
            Failure::NotReady => {
                port.count(Counter::SentRnr);
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
        self.fail(status, port);
        if let Some(event) = event {
            port.event(event);
        }
    }

    /// Ends the current receive with `status` and goes to the error state.
    fn fail<P: RecvPort<Region = R>>(&mut self, status: WcStatus, port: &mut P) {
        self.message = None;
        self.state = State::Err;
        if self.recv.take().is_some() {
            port.complete_recv(failed(status));
        }
        port.moved(State::Err);
    }

    // Duplicates (IBTA volume 1, 9.7.5.1).

    fn duplicate<P: RecvPort<Region = R>>(&mut self, packet: &Packet, port: &mut P) {
        port.count(Counter::DuplicateRequest);
        let bth = packet.bth();
        let back = u64::from(self.expected.offset(bth.psn));
        let position = self.position.wrapping_sub(back);
        match (bth.opcode.kind(), packet.headers().ext()) {
            (Kind::Send | Kind::Write, _) => {
                if self.reply.is_none() && self.ackable.is_some() {
                    self.reply = Some(Reply::Ack);
                }
            }
            (Kind::ReadRequest, Ext::Reth(reth)) => self.read_again(position, reth, port),
            _ => {
                if let Some(resource) = self.resources.find(position) {
                    resource.replay(bth.opcode.kind());
                }
            }
        }
    }

    /// Answers a READ again, from the memory as it is now. Where it is gone there is no answer:
    /// the peer has the first one, or will find out by its timer.
    fn read_again<P: RecvPort<Region = R>>(&mut self, position: u64, reth: &Reth, port: &mut P) {
        let mtu = self.attr.mtu;
        let Some(resource) = self.resources.find(position) else {
            return;
        };
        if !resource.wants_read(position, reth, mtu) {
            return;
        }
        if let Ok(region) = check_range(reth, Access::Read, port) {
            resource.replay_read(position, reth, mtu, region);
        }
    }

    // Unreliable connection.

    fn unreliable<P: RecvPort<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &P::Payload,
        port: &mut P,
    ) {
        self.establish(port);
        let bth = packet.bth();
        if bth.opcode.begins() {
            self.message = None; // The end of the message before is lost.
        } else if bth.psn != self.expected {
            self.message = None; // A part of this message is lost, and with it the message.
        }
        self.expected = bth.psn.next();
        let done = self.check(packet).and_then(|()| {
            self.take_receive(bth.opcode, port)?;
            match bth.opcode.kind() {
                Kind::Send => self.send(packet, payload, port),
                _ => self.write(packet, payload, port),
            }
        });
        if let Err(failure) = done {
            self.drop_message(failure, port);
        }
    }

    /// What a failed request on an unreliable service leads to: the message is dropped.
    ///
    /// The receive that it took stays current for the next one. One of a shared queue cannot wait
    /// and completes, if the message was too long for it. Only a receive that is bad by itself
    /// leads to the error state.
    fn drop_message<P: RecvPort<Region = R>>(&mut self, failure: Failure, port: &mut P) {
        self.message = None;
        match failure {
            Failure::Local(status) => self.fail(status, port),
            Failure::TooLong if self.has_srq => {
                if self.recv.take().is_some() {
                    port.complete_recv(failed(WcStatus::LocLenErr));
                }
            }
            Failure::TooLong | Failure::NotReady | Failure::Refused(..) => {}
        }
    }

    // Unreliable datagram.

    fn datagram<P: RecvPort<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &P::Payload,
        port: &mut P,
    ) {
        if packet
            .headers()
            .deth()
            .is_none_or(|deth| deth.qkey != self.attr.qkey)
        {
            return port.count(Counter::QkeyViolation);
        }
        if !packet.payload_fits(self.attr.mtu) {
            return;
        }
        let taken = self.take_receive(packet.bth().opcode, port);
        if let Err(failure) = taken.and_then(|()| self.deliver(packet, payload, port)) {
            self.drop_message(failure, port);
        }
    }

    // Output.

    /// Sends what there is to answer, at most `budget` packets; in the error state, flushes at
    /// most `budget` receives.
    ///
    /// To be called after requests, when receives are posted in the error state, after
    /// [`error`](Self::error), and again when it says so.
    pub fn run<P: RecvPort<Region = R>>(&mut self, budget: u32, port: &mut P) -> Run {
        for _ in 0..budget {
            if let Some(run) = self.step(port) {
                return run;
            }
        }
        Run::More
    }

    /// Sends one packet or flushes one receive; says how to go on where it could not.
    #[inline]
    fn step<P: RecvPort<Region = R>>(&mut self, port: &mut P) -> Option<Run> {
        if let Some(resource) = self.resources.sending() {
            let Some(response) = resource.response(self.attr.mtu) else {
                return Some(Run::Idle);
            };
            let (psn, opcode) = (response.psn, response.opcode);
            let bth = Bth::new(opcode, self.attr.pkey, self.attr.dest_qpn, psn);
            let part = response.data.map(|(region, offset, len)| RegionPart {
                region,
                offset,
                len,
            });
            match port.respond(&Headers::new(bth, &response.parts), part) {
                Ok(()) | Err(RespondError::Dropped) => resource.sent(),
                Err(RespondError::Busy) => return Some(Run::Blocked),
                Err(RespondError::Nak(_)) if resource.is_answered() => resource.cancel(),
                Err(RespondError::Nak(fault)) => self.break_off(fault, psn, port),
            }
            return None;
        }
        if let Some(reply) = self.reply {
            return self.send_reply(reply, port);
        }
        match self.state {
            State::Err => self.flush_one(port),
            _ => Some(Run::Idle),
        }
    }

    /// The memory of a READ is gone while it is answered.
    fn break_off<P: RecvPort<Region = R>>(&mut self, fault: RemoteFault, psn: Psn, port: &mut P) {
        self.resources.clear();
        let failed_before = self.state == State::Err;
        self.reply = Some(Reply::Refusal(fault.into(), psn));
        if !failed_before {
            self.fail(WcStatus::WrFlushErr, port);
            port.event(QpEvent::AccessErr);
        }
    }

    fn send_reply<P: RecvPort<Region = R>>(&mut self, reply: Reply, port: &mut P) -> Option<Run> {
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
        match port.respond(&Headers::new(bth, &parts), None) {
            Err(RespondError::Busy) => return Some(Run::Blocked),
            Ok(()) | Err(RespondError::Dropped | RespondError::Nak(_)) => self.reply = None,
        }
        None
    }

    fn flush_one<P: RecvPort<Region = R>>(&mut self, port: &mut P) -> Option<Run> {
        if self.recv.take().is_none() {
            if self.has_srq {
                self.tell_last_wqe(port);
                return Some(Run::Idle);
            }
            if port.next_recv() == NextRecv::Empty {
                return Some(Run::Idle);
            }
        }
        port.complete_recv(failed(WcStatus::WrFlushErr));
        None
    }

    fn tell_last_wqe<P: RecvPort<Region = R>>(&mut self, port: &mut P) {
        if !self.last_wqe_told {
            self.last_wqe_told = true;
            port.event(QpEvent::LastWqeReached);
        }
    }
}

/// The completion of a receive that failed.
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
