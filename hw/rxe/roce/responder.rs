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

use crate::memory::{RecvOps, RemoteFault};
use crate::opcode::Kind;
use crate::psn::Psn;
pub use crate::resources::Slot;
use crate::state::{Access, Counter, QpEvent, Received, Service, State, WcStatus};
use crate::wire::{Ext, Packet, Reth};

mod execute;
mod respond;
mod state;

use execute::{check_range, Failure};
use respond::failed;
use state::Reply;
pub use state::Responder;

/// Sequence numbers up to this far ahead are new, all others are duplicates.
const HALF: u32 = 1 << 23;

impl<R, S: DerefMut<Target = [Slot<R>]>> Responder<R, S> {
    /// Handles a request packet, or a run of them that [`takes_run`](Self::takes_run) allows. The driver has checked the
    /// partition key and, for a connected service, that the packet is from the peer.
    ///
    /// Afterwards [`run`](Self::run) must be called, once for a batch of requests.
    pub fn receive<O: RecvOps<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &O::Payload,
        ops: &mut O,
    ) -> Received {
        let opcode = packet.bth().opcode;
        let fits = self.attr.service.takes(opcode) && opcode.is_request();
        if !fits || !self.state.receives() {
            return Received::Done;
        }
        match self.attr.service {
            Service::Rc | Service::XrcIni | Service::XrcTgt => self.reliable(packet, payload, ops),
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

    // Reliable connection, and the target of an extended one.

    fn reliable<O: RecvOps<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &O::Payload,
        ops: &mut O,
    ) -> Received {
        self.establish(ops);
        let ahead = packet.bth().psn.offset(self.expected);
        if ahead == 0 {
            match self.execute(packet, payload, ops) {
                Ok(()) => {}
                Err(Failure::Absent) => return Received::Absent,
                Err(failure) => self.refuse(failure, ops),
            }
        } else if ahead < HALF {
            self.out_of_sequence(ops);
        } else {
            self.duplicate(packet, ops);
        }
        Received::Done
    }

    /// Sends one NAK for missing packets.
    fn out_of_sequence<O: RecvOps<Region = R>>(&mut self, ops: &mut O) {
        ops.count(Counter::OutOfSeqRequest);
        if !self.nak_sent {
            self.nak_sent = true;
            self.reply = Some(Reply::SequenceNak);
        }
    }

    /// Handles a failed request on a reliable connection (IBTA volume 1, 9.9.3).
    fn refuse<O: RecvOps<Region = R>>(&mut self, failure: Failure, ops: &mut O) {
        if self.state == State::Err {
            return; // A response was aborted while resources were freed.
        }
        let (fault, event, status) = match failure {
            Failure::Absent => return,
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
            (Kind::ReadRequest, Ext::Reth(reth)) => {
                if self.names_srq(packet, ops).is_ok() {
                    self.replay_read(position, reth, ops);
                }
            }
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
    ) -> Received {
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
        match done {
            Ok(()) => {}
            Err(Failure::Absent) => {
                self.expected = bth.psn;
                return Received::Absent;
            }
            Err(failure) => self.drop_message(failure, ops),
        }
        Received::Done
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
            Failure::TooLong | Failure::NotReady | Failure::Refused(..) | Failure::Absent => {}
        }
    }

    // Unreliable datagram.

    fn datagram<O: RecvOps<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &O::Payload,
        ops: &mut O,
    ) -> Received {
        if packet
            .headers()
            .deth()
            .is_none_or(|deth| deth.qkey != self.attr.qkey)
        {
            ops.count(Counter::QkeyViolation);
            return Received::Done;
        }
        if !packet.payload_fits(self.attr.mtu) {
            return Received::Done;
        }
        let taken = self.take_receive(packet.bth().opcode, ops);
        match taken.and_then(|()| self.deliver(packet, payload, ops)) {
            Ok(()) => {}
            Err(Failure::Absent) => return Received::Absent,
            Err(failure) => self.drop_message(failure, ops),
        }
        Received::Done
    }
}
