// SPDX-License-Identifier: GPL-2.0

//! The completer, the other half of the send side: responses in, completions out (IBTA volume 1, 9.7.5 and 9.7.6).
//!
//! A response acknowledges all requests before it, except for READs and ATOMICs, which complete only with their own
//! response. So a response beyond an unanswered READ or ATOMIC shows that a response is lost ("implied NAK"), and the
//! requester retries.
//!
//! A response outside of the outstanding PSNs is a duplicate or a ghost and is ignored.

use crate::memory::{AccessError, SendOp, SendOps, SendWr};
use crate::opcode::Kind;
use crate::psn::Psn;
use crate::requester::Requester;
use crate::state::{Counter, Received, Time, WcStatus};
use crate::timer::RnrTimer;
use crate::wire::{Aeth, Ext, Headers, NakCode, Packet, Syndrome};

impl Requester {
    /// Handles a response packet of this queue pair's peer, or a run of them that [`takes_run`](Self::takes_run) allows.
    ///
    /// Afterwards [`run`](Self::run) must be called, once for a batch of responses.
    pub fn receive<O: SendOps>(
        &mut self,
        packet: &Packet,
        payload: &O::Payload,
        now: Time,
        ops: &mut O,
    ) -> Received {
        let headers = packet.headers();
        let current = self.takes_run(headers.psn());
        if !self.attr.service.is_reliable() || !self.state.sends() {
            return Received::Done;
        }
        if current || headers.psn().is_before(self.oldest.psn()) {
            headers
                .aeth()
                .into_iter()
                .for_each(|aeth| self.note_credits(&aeth));
        }
        if !current {
            self.refused_read(headers, ops);
            return Received::Done;
        }
        let handled = match (headers.opcode().kind(), headers.ext()) {
            (Kind::Acknowledge, Ext::Aeth(aeth)) => {
                self.acknowledge(headers.psn(), *aeth, now, ops);
                Ok(())
            }
            (Kind::AtomicAcknowledge, Ext::AethAtomicAckEth(aeth, answer)) => {
                self.atomic_answer(headers.psn(), *aeth, answer.original, now, ops)
            }
            (Kind::ReadResponse, _) => self.read_response(packet, payload, now, ops),
            _ => Ok(()),
        };
        match handled {
            Ok(()) => {}
            Err(AccessError::Absent) => return Received::Absent,
            Err(AccessError::Failed(status)) => self.fail(status, ops),
        }
        Received::Done
    }

    /// A READ that is partly answered fails: the C driver's NAK has the PSN of the request, not that of the response that is
    /// missing.
    fn refused_read<O: SendOps>(&mut self, headers: &Headers, ops: &mut O) {
        let (Kind::Acknowledge, Ext::Aeth(aeth)) = (headers.opcode().kind(), headers.ext()) else {
            return;
        };
        let Syndrome::Nak(code) = aeth.syndrome else {
            return;
        };
        let is_read = |wr: SendWr| matches!(wr.op, SendOp::Read { .. });
        let is_refusal = code != NakCode::PsnSequence && self.oldest.has_passed(headers.psn());
        if is_refusal && self.oldest.wr(ops).is_some_and(is_read) {
            self.fail(nak_status(code), ops);
        }
    }

    fn acknowledge<O: SendOps>(&mut self, psn: Psn, aeth: Aeth, now: Time, ops: &mut O) {
        if let Syndrome::Ack(_) = aeth.syndrome {
            if !self.settle(psn.next(), now, ops) {
                self.retry_implied(ops);
            }
            return;
        }
        if !self.settle(psn, now, ops) {
            return self.retry_implied(ops);
        }
        match aeth.syndrome {
            Syndrome::Ack(_) => {}
            Syndrome::RnrNak(timer) => self.not_ready(timer, now, ops),
            Syndrome::Nak(NakCode::PsnSequence) => self.sequence_error(ops),
            Syndrome::Nak(code) => self.fail(nak_status(code), ops),
        }
    }

    fn not_ready<O: SendOps>(&mut self, timer: RnrTimer, now: Time, ops: &mut O) {
        if self.outstanding() == 0 {
            return; // A duplicate: it has gone back already.
        }
        ops.count(Counter::RcvdRnr);
        self.retry_later(timer.nanoseconds(), now, ops);
    }

    fn sequence_error<O: SendOps>(&mut self, ops: &mut O) {
        if self.outstanding() == 0 {
            return; // It has gone back already, perhaps for an RNR NAK.
        }
        ops.count(Counter::RcvdSeqErr);
        self.retry(ops);
    }

    /// Acknowledges all packets before `psn`.
    ///
    /// Returns false where a READ or ATOMIC before `psn` has no response yet.
    fn settle<O: SendOps>(&mut self, psn: Psn, now: Time, ops: &mut O) -> bool {
        let start = self.oldest.psn();
        let settled = self.settle_each(psn, ops);
        if self.oldest.psn() != start {
            self.progressed(now);
        }
        settled
    }

    #[inline]
    fn settle_each<O: SendOps>(&mut self, psn: Psn, ops: &mut O) -> bool {
        loop {
            let ahead = psn.offset(self.oldest.psn());
            if ahead == 0 {
                return true;
            }
            let Some(wr) = self.oldest.wr(ops) else {
                return false;
            };
            if wr.is_answered() {
                return false;
            }
            let total = wr.packets(self.attr.mtu);
            if ahead < total.saturating_sub(self.oldest.packet) {
                self.oldest.advance(ahead, total);
                return true;
            }
            self.retire(&wr, total, ops);
        }
    }

    fn atomic_answer<O: SendOps>(
        &mut self,
        psn: Psn,
        aeth: Aeth,
        value: u64,
        now: Time,
        ops: &mut O,
    ) -> Result<(), AccessError<WcStatus>> {
        if !self.settle(psn, now, ops) {
            self.retry_implied(ops);
            return Ok(());
        }
        let Some(wr) = self.oldest.wr(ops) else {
            return Ok(());
        };
        if !matches!(wr.op, SendOp::Atomic { .. }) || !aeth.syndrome.is_ack() {
            return Err(WcStatus::BadRespErr.into());
        }
        ops.scatter_atomic(self.oldest.index, value)?;
        self.retire(&wr, 1, ops);
        self.progressed(now);
        Ok(())
    }

    fn read_response<O: SendOps>(
        &mut self,
        packet: &Packet,
        payload: &O::Payload,
        now: Time,
        ops: &mut O,
    ) -> Result<(), AccessError<WcStatus>> {
        if !self.settle(packet.headers().psn(), now, ops) {
            self.retry_implied(ops);
            return Ok(());
        }
        let Some(wr) = self.oldest.wr(ops) else {
            return Ok(());
        };
        let total = wr.packets(self.attr.mtu);
        let offset = self.oldest.packet << self.attr.mtu.shift();
        if !self.is_expected(packet, &wr, total, offset) {
            return Err(WcStatus::BadRespErr.into());
        }
        if packet.payload_len() > 0 {
            ops.scatter(self.oldest.index, offset, payload)?;
        }
        let count = packet.count();
        if self.oldest.packet.saturating_add(count) < total {
            self.oldest.advance(count, total);
        } else {
            self.invalidate(&wr, ops)?;
            self.retire(&wr, total, ops);
        }
        self.progressed(now);
        Ok(())
    }

    /// Whether this is the packet that answers the oldest request at `offset`.
    ///
    /// The packet's own position is not checked: the response to a retried READ may begin anywhere.
    #[inline]
    fn is_expected(&self, packet: &Packet, wr: &SendWr, total: u32, offset: u32) -> bool {
        let headers = packet.headers();
        let length = match wr.op {
            SendOp::Read { .. } => wr.length,
            SendOp::AtomicWrite { .. } | SendOp::Flush { .. } => 0,
            _ => return false,
        };
        let last = self.oldest.packet.saturating_add(packet.count()) >= total;
        let most = packet.count() << self.attr.mtu.shift();
        let expected = length.saturating_sub(offset).min(most);
        let positive = match headers.aeth() {
            Some(aeth) => aeth.syndrome.is_ack(),
            None => true,
        };
        let whole = packet.count() == 1 || packet.payload_fits(self.attr.mtu);
        positive && whole && headers.opcode().ends() == last && packet.payload_len() == expected
    }

    fn invalidate<O: SendOps>(&mut self, wr: &SendWr, ops: &mut O) -> Result<(), WcStatus> {
        match wr.op {
            SendOp::Read {
                invalidate: true, ..
            } => ops.local(self.oldest.index),
            _ => Ok(()),
        }
    }
}

/// The completion status for a NAK.
const fn nak_status(code: NakCode) -> WcStatus {
    match code {
        NakCode::InvalidRequest => WcStatus::RemInvReqErr,
        NakCode::RemoteAccess => WcStatus::RemAccessErr,
        NakCode::RemoteOperational => WcStatus::RemOpErr,
        NakCode::PsnSequence | NakCode::InvalidRdRequest => WcStatus::BadRespErr,
    }
}
