// SPDX-License-Identifier: GPL-2.0

//! Sending the responses that are recorded: those to READs and ATOMICs, acknowledges, and NAKs (IBTA volume 1, 9.7.5).

use core::ops::DerefMut;

use super::state::{Reply, Responder};
use crate::memory::{NextRecv, RecvOps, RegionPart, RemoteFault, RespondError};
use crate::opcode::Opcode;
use crate::psn::Psn;
use crate::resources::{Response, Slot};
use crate::run::PacketRun;
use crate::state::{QpEvent, RecvCompletion, RecvOpcode, Run, State, WcStatus};
use crate::wire::{Aeth, Bth, Credits, Headers, NakCode, Packet, Parts, Qpn, Syndrome};

impl<R, S: DerefMut<Target = [Slot<R>]>> Responder<R, S> {
    /// Sends `budget` packets, or a run more than that; in the error state, flushes at most `budget` receives.
    ///
    /// Must be called after requests, when receives are posted in the error state, after [`error`](Self::error), and
    /// again as the result says.
    pub fn run<O: RecvOps<Region = R>>(&mut self, budget: u32, ops: &mut O) -> Run {
        let mut left = budget;
        while left > 0 {
            match self.step(ops) {
                Ok(packets) => left = left.saturating_sub(packets),
                Err(run) => return run,
            }
        }
        Run::More
    }

    /// Sends a packet or a run of packets, or flushes one receive; returns the number of packets.
    ///
    /// # Errors
    ///
    /// The result of `run` where it could not.
    #[inline]
    pub(super) fn step<O: RecvOps<Region = R>>(&mut self, ops: &mut O) -> Result<u32, Run> {
        let credits = self.credits(ops);
        if let Some(resource) = self.resources.sending() {
            let mtu = self.attr.mtu;
            let longest = if resource.has_many() {
                ops.longest_run(mtu)
            } else {
                1
            };
            let Some(response) = resource.response(mtu, longest) else {
                return Err(Run::Idle);
            };
            let Response {
                psn, count, len, ..
            } = response;
            let opcode = response.opcode.in_service(self.attr.service.into());
            let mut bth = Bth::new(opcode, self.attr.pkey, self.attr.dest_qpn, psn);
            bth.migrated = ops.has_migrated();
            let mut parts = response.parts;
            parts.aeth.syndrome = Syndrome::Ack(credits);
            let packet = Packet::run(Headers::new(bth, &parts), len, count);
            let part = response
                .data
                .map(|(region, offset)| RegionPart { region, offset });
            match ops.respond(&PacketRun::new(packet, mtu), part) {
                Ok(()) | Err(RespondError::Dropped) => resource.sent(count),
                Err(RespondError::QueueFull | RespondError::Absent) => return Err(Run::Blocked),
                Err(RespondError::Nak(_)) if resource.is_answered() => resource.cancel(),
                Err(RespondError::Nak(fault)) => self.abort_response(fault, psn, ops),
            }
            return Ok(count);
        }
        if let Some(reply) = self.reply {
            return self.send_reply(reply, credits, ops);
        }
        match self.state {
            State::Err => self.flush_one(ops),
            _ if self.starves && credits.count() != Some(0) => {
                self.starves = false;
                self.reply = Some(Reply::Ack);
                Ok(0)
            }
            _ => Err(Run::Idle),
        }
    }

    /// The receives for the messages after the last completed one, as the peer is told of them.
    #[inline]
    fn credits<O: RecvOps<Region = R>>(&self, ops: &mut O) -> Credits {
        match ops.receives() {
            Some(posted) if !self.has_srq => {
                Credits::of(posted.saturating_add(self.recv.is_some().into()))
            }
            _ => Credits::UNLIMITED,
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

    fn send_reply<O: RecvOps<Region = R>>(
        &mut self,
        reply: Reply,
        credits: Credits,
        ops: &mut O,
    ) -> Result<u32, Run> {
        let (syndrome, psn) = match (reply, self.ackable) {
            (Reply::Ack, Some(psn)) => (Syndrome::Ack(credits), psn),
            (Reply::Ack, None) => {
                self.reply = None;
                return Ok(1);
            }
            (Reply::SequenceNak, _) => (Syndrome::Nak(NakCode::PsnSequence), self.expected),
            (Reply::RnrNak, _) => (Syndrome::RnrNak(self.attr.min_rnr_timer), self.expected),
            (Reply::Refusal(code, psn), _) => (Syndrome::Nak(code), psn),
        };
        let opcode = Opcode::RcAcknowledge.in_service(self.attr.service.into());
        let mut bth = Bth::new(opcode, self.attr.pkey, self.attr.dest_qpn, psn);
        bth.migrated = ops.has_migrated();
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
            Err(RespondError::QueueFull | RespondError::Absent) => return Err(Run::Blocked),
            Ok(()) | Err(RespondError::Dropped | RespondError::Nak(_)) => self.reply = None,
        }
        if reply == Reply::Ack {
            self.starves = credits.count() == Some(0);
        }
        Ok(1)
    }

    fn flush_one<O: RecvOps<Region = R>>(&mut self, ops: &mut O) -> Result<u32, Run> {
        if self.recv.take().is_none() {
            if self.has_srq {
                self.raise_last_wqe(ops);
                return Err(Run::Idle);
            }
            if ops.next_recv() == NextRecv::Empty {
                return Err(Run::Idle);
            }
        }
        ops.complete_recv(failed(WcStatus::WrFlushErr));
        Ok(1)
    }

    /// Completes the current receive with `status` and changes to the error state.
    pub(super) fn fail<O: RecvOps<Region = R>>(&mut self, status: WcStatus, ops: &mut O) {
        self.message = None;
        self.state = State::Err;
        if self.recv.take().is_some() {
            ops.complete_recv(failed(status));
        }
        ops.moved(State::Err);
    }

    fn raise_last_wqe<O: RecvOps<Region = R>>(&mut self, ops: &mut O) {
        if !self.last_wqe_told {
            self.last_wqe_told = true;
            ops.event(QpEvent::LastWqeReached);
        }
    }
}

/// The completion of a failed receive.
pub(super) const fn failed(status: WcStatus) -> RecvCompletion {
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
