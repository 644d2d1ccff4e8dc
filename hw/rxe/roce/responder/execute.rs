// SPDX-License-Identifier: GPL-2.0

//! Executing the request with the expected PSN: the checks of IBTA volume 1, 9.7.4, then the operation.

use core::ops::DerefMut;

use super::state::{Message, Reply, Responder};
use crate::memory::{AccessError, AtomicOp, NextRecv, RecvOps, RemoteFault};
use crate::opcode::{Kind, Opcode, Tail};
use crate::resources::{Answer, Resource, Slot};
use crate::state::{
    Access, Counter, QpEvent, RecvCompletion, RecvOpcode, State, WcStatus, GRH_LEN, MAX_MESSAGE,
};
use crate::wire::{AtomicEth, Bth, Ext, Packet, Reth, Srqn};

/// Why a request is not executed.
pub(super) enum Failure {
    /// No receive is posted.
    NotReady,
    /// The request is refused: NAK, event, and status of the receive.
    Refused(RemoteFault, QpEvent, WcStatus),
    /// The message is longer than the receive.
    TooLong,
    /// The receive is invalid.
    Local(WcStatus),
    /// Memory of the request is not present: nothing has changed.
    Absent,
}

impl Failure {
    /// An invalid opcode or length.
    pub(super) const INVALID: Self = Self::Refused(
        RemoteFault::InvalidRequest,
        QpEvent::ReqErr,
        WcStatus::LocQpOpErr,
    );
    /// An invalid range, alignment or number.
    pub(super) const LIMIT: Self = Self::Refused(
        RemoteFault::InvalidRequest,
        QpEvent::AccessErr,
        WcStatus::LocQpOpErr,
    );
}

impl From<RemoteFault> for Failure {
    fn from(fault: RemoteFault) -> Self {
        Self::Refused(fault, QpEvent::AccessErr, WcStatus::LocAccessErr)
    }
}

impl From<AccessError<RemoteFault>> for Failure {
    fn from(error: AccessError<RemoteFault>) -> Self {
        match error {
            AccessError::Absent => Self::Absent,
            AccessError::Failed(fault) => fault.into(),
        }
    }
}

impl From<AccessError<WcStatus>> for Failure {
    fn from(error: AccessError<WcStatus>) -> Self {
        match error {
            AccessError::Absent => Self::Absent,
            AccessError::Failed(status) => Self::Local(status),
        }
    }
}

impl<R, S: DerefMut<Target = [Slot<R>]>> Responder<R, S> {
    /// Executes the request with the expected PSN.
    pub(super) fn execute<O: RecvOps<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &O::Payload,
        ops: &mut O,
    ) -> Result<(), Failure> {
        let opcode = packet.bth().opcode;
        self.check(packet)?;
        self.names_srq(packet, ops)?;
        if opcode.begins() {
            self.srqn = named_srq(packet);
        }
        self.take_receive(opcode, ops)?;
        let taken = match (opcode.kind(), packet.headers().ext()) {
            (Kind::Send, _) => {
                self.send(packet, payload, ops)?;
                packet.count()
            }
            (Kind::Write, _) => {
                self.write(packet, payload, ops)?;
                packet.count()
            }
            (Kind::ReadRequest, Ext::Reth(reth)) => self.read(reth, ops)?,
            (Kind::CompareSwap | Kind::FetchAdd, Ext::AtomicEth(atomic)) => {
                self.atomic(opcode, atomic, ops)?
            }
            (Kind::AtomicWrite, Ext::Reth(reth)) => self.atomic_write(reth, payload, ops)?,
            (Kind::Flush, Ext::FethReth(feth, reth)) => {
                self.admit(1, Answer::Empty, ops)?;
                ops.flush(*feth, *reth)
                    .map_err(|fault| self.drop_resources(fault))?;
                1
            }
            _ => return Err(Failure::INVALID),
        };
        self.accept(packet.bth(), taken);
        Ok(())
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

    /// Checks the packet's position in its message, its length, the access flags of the peer, and that all packets of a message name
    /// the same shared receive queue.
    #[inline]
    pub(super) fn check(&self, packet: &Packet) -> Result<(), Failure> {
        let opcode = packet.bth().opcode;
        let access = self.attr.access;
        let in_order = match &self.message {
            None => opcode.begins(),
            Some(Message::Send { .. }) => opcode.kind() == Kind::Send && !opcode.begins(),
            Some(Message::Write { .. }) => opcode.kind() == Kind::Write && !opcode.begins(),
        };
        let allowed = match opcode.kind() {
            Kind::Write | Kind::AtomicWrite => access.write,
            Kind::ReadRequest => access.read,
            Kind::CompareSwap | Kind::FetchAdd => access.atomic,
            Kind::Reserved => false,
            _ => true,
        };
        let same_srq = opcode.begins() || named_srq(packet) == self.srqn;
        if !in_order || !allowed || !same_srq {
            return Err(Failure::INVALID);
        }
        if !packet.payload_fits(self.attr.mtu) {
            return Err(Failure::LIMIT);
        }
        Ok(())
    }

    /// Tells the driver of the shared receive queue that a request of an extended reliable connection names. One that is unknown,
    /// or of another domain, is a violation of access: the drivers of hardware report it so (annex A14).
    #[inline]
    pub(super) fn names_srq<O: RecvOps<Region = R>>(
        &mut self,
        packet: &Packet,
        ops: &mut O,
    ) -> Result<(), Failure> {
        match named_srq(packet) {
            Some(srqn) => Ok(ops.name_srq(srqn)?),
            None => Ok(()),
        }
    }

    /// Takes a receive, if the packet needs one and there is no current one.
    #[inline]
    pub(super) fn take_receive<O: RecvOps<Region = R>>(
        &mut self,
        opcode: Opcode,
        ops: &mut O,
    ) -> Result<(), Failure> {
        if !opcode.takes_receive() || self.recv.is_some() {
            return Ok(());
        }
        match ops.next_recv() {
            NextRecv::Ready { length } => {
                self.recv = Some(length);
                Ok(())
            }
            NextRecv::Empty => Err(Failure::NotReady),
            NextRecv::Invalid(status) => {
                self.recv = Some(0);
                Err(Failure::Local(status))
            }
        }
    }

    /// Copies the payload of a SEND; completes the receive at its end.
    pub(super) fn send<O: RecvOps<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &O::Payload,
        ops: &mut O,
    ) -> Result<(), Failure> {
        let received = match &self.message {
            Some(Message::Send { received }) => *received,
            _ => 0,
        };
        let len = packet.payload_len();
        let end = received
            .checked_add(len)
            .filter(|end| Some(*end) <= self.recv);
        let end = end.ok_or(Failure::TooLong)?;
        if len > 0 {
            ops.recv_scatter(received, payload)?;
        }
        if !packet.bth().opcode.ends() {
            self.message = Some(Message::Send { received: end });
            return Ok(());
        }
        let invalidated = packet.headers().ieth().map(|ieth| ieth.rkey);
        if let Some(rkey) = invalidated {
            ops.invalidate(rkey)?;
        }
        self.message = None;
        ops.count(Counter::RdmaRecv);
        let completion = self.completion(packet, RecvOpcode::Recv, end);
        self.recv = None;
        ops.complete_recv(RecvCompletion {
            invalidated_rkey: invalidated,
            ..completion
        });
        Ok(())
    }

    /// Copies the payload of a WRITE; with immediate data, completes the receive.
    pub(super) fn write<O: RecvOps<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &O::Payload,
        ops: &mut O,
    ) -> Result<(), Failure> {
        let opcode = packet.bth().opcode;
        if let Some(reth) = packet.headers().reth() {
            self.begin_write(&reth, ops)?;
        }
        let Some(Message::Write {
            region,
            length,
            received,
        }) = &mut self.message
        else {
            return Err(Failure::INVALID);
        };
        let len = packet.payload_len();
        let end = received
            .checked_add(len)
            .filter(|end| *end <= *length)
            .ok_or(Failure::LIMIT)?;
        if opcode.ends() != (end == *length) {
            return Err(Failure::LIMIT);
        }
        if let (Some(region), true) = (&*region, len > 0) {
            match ops.write(region, *received, payload) {
                Err(AccessError::Absent) => {
                    if opcode.begins() {
                        self.message = None;
                    }
                    return Err(Failure::Absent);
                }
                written => written?,
            }
        }
        *received = end;
        if !opcode.ends() {
            return Ok(());
        }
        self.message = None;
        if opcode.tail() == Tail::Immediate {
            let completion = self.completion(packet, RecvOpcode::RecvRdmaWithImm, end);
            self.recv = None;
            ops.complete_recv(completion);
        }
        Ok(())
    }

    fn begin_write<O: RecvOps<Region = R>>(
        &mut self,
        reth: &Reth,
        ops: &mut O,
    ) -> Result<(), Failure> {
        let region = check_range(reth, Access::Write, ops)?;
        self.message = Some(Message::Write {
            region,
            length: reth.length,
            received: 0,
        });
        Ok(())
    }

    /// Records a READ; returns the number of sequence numbers of its response.
    fn read<O: RecvOps<Region = R>>(&mut self, reth: &Reth, ops: &mut O) -> Result<u32, Failure> {
        let region = check_range(reth, Access::Read, ops)?;
        let count = self.attr.mtu.packets(reth.length);
        self.admit(count, Answer::Read(*reth, region), ops)?;
        Ok(count)
    }

    fn atomic<O: RecvOps<Region = R>>(
        &mut self,
        opcode: Opcode,
        atomic: &AtomicEth,
        ops: &mut O,
    ) -> Result<u32, Failure> {
        if atomic.va % 8 != 0 {
            return Err(Failure::LIMIT);
        }
        let AtomicEth {
            va,
            rkey,
            swap_add,
            compare,
        } = *atomic;
        let op = match opcode.kind() {
            Kind::CompareSwap => AtomicOp::CmpSwap {
                compare,
                swap: swap_add,
            },
            _ => AtomicOp::FetchAdd { add: swap_add },
        };
        let region = ops.remote(rkey, va, 8, Access::Atomic)?;
        self.admit(1, Answer::Atomic(0), ops)?;
        match ops.atomic(&region, op) {
            Ok(original) => self.resources.answer_newest(Answer::Atomic(original)),
            Err(error) => return Err(self.drop_resources(error)),
        }
        Ok(1)
    }

    fn atomic_write<O: RecvOps<Region = R>>(
        &mut self,
        reth: &Reth,
        payload: &O::Payload,
        ops: &mut O,
    ) -> Result<u32, Failure> {
        if reth.va % 8 != 0 || reth.length != 8 {
            return Err(Failure::LIMIT);
        }
        let region = ops.remote(reth.rkey, reth.va, 8, Access::Write)?;
        self.admit(1, Answer::Empty, ops)?;
        ops.atomic_write(&region, payload)
            .map_err(|fault| self.drop_resources(fault))?;
        Ok(1)
    }

    /// Reserves the resources for a response, so that it can be replayed.
    ///
    /// If none are free, it first sends some pending responses: a batch may have more requests than there are
    /// resources.
    fn admit<O: RecvOps<Region = R>>(
        &mut self,
        count: u32,
        answer: Answer<R>,
        ops: &mut O,
    ) -> Result<(), Failure> {
        let limit = self.attr.max_dest_rd_atomic;
        let psn = self.expected;
        let mut resource = Resource::new(self.position, psn, count, self.msn.next(), answer);
        for _ in 0..=self.resources.capacity() {
            match self.resources.admit(limit, resource) {
                Ok(()) => return Ok(()),
                Err(back) => resource = back,
            }
            if self.step(ops).is_err() || self.state == State::Err {
                break;
            }
        }
        Err(Failure::LIMIT)
    }

    /// Removes the resources of a failed request.
    fn drop_resources(&mut self, error: impl Into<Failure>) -> Failure {
        self.resources.drop_newest();
        error.into()
    }

    fn completion(&self, packet: &Packet, opcode: RecvOpcode, byte_len: u32) -> RecvCompletion {
        RecvCompletion {
            status: WcStatus::Success,
            opcode,
            byte_len,
            imm: packet.headers().immdt().map(|immdt| immdt.0),
            invalidated_rkey: None,
            solicited: packet.bth().solicited,
            src_qpn: packet
                .headers()
                .deth()
                .map_or(self.attr.dest_qpn, |deth| deth.src_qpn),
        }
    }

    /// Copies a datagram after the GRH area and completes its receive.
    pub(super) fn deliver<O: RecvOps<Region = R>>(
        &mut self,
        packet: &Packet,
        payload: &O::Payload,
        ops: &mut O,
    ) -> Result<(), Failure> {
        let len = packet.payload_len();
        let end = GRH_LEN.saturating_add(len);
        if Some(end) > self.recv {
            return Err(Failure::TooLong);
        }
        if len > 0 {
            ops.recv_scatter(GRH_LEN, payload)?;
        }
        ops.recv_header()?;
        ops.count(Counter::RdmaRecv);
        self.recv = None;
        ops.complete_recv(self.completion(packet, RecvOpcode::Recv, end));
        Ok(())
    }
}

/// The shared receive queue that a request of an extended reliable connection names.
#[inline]
fn named_srq(packet: &Packet) -> Option<Srqn> {
    packet.headers().xrceth().map(|xrceth| xrceth.srqn)
}

/// Checks the range of a READ or WRITE; an empty one needs no memory.
#[inline]
pub(super) fn check_range<O: RecvOps>(
    reth: &Reth,
    access: Access,
    ops: &mut O,
) -> Result<Option<O::Region>, Failure> {
    match reth.length {
        0 => Ok(None),
        1..=MAX_MESSAGE => Ok(Some(ops.remote(reth.rkey, reth.va, reth.length, access)?)),
        _ => Err(Failure::LIMIT),
    }
}
