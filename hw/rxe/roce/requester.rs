// SPDX-License-Identifier: GPL-2.0

//! The requester, the send side of a queue pair: work requests in, request packets out (IBTA volume 1, 9.7).
//!
//! The state consists of three positions in the sequence of packets:
//!
//! ```text
//!   completed │ sent, not acknowledged │ sent before, to be sent again │ never sent
//!             oldest                   next                            max_psn
//! ```
//!
//! `oldest` advances with responses (`completer.rs`, the other half of this state machine), `next` with sent packets.
//! After a loss `next` goes back to `oldest` (go-back-N; `retry.rs`), while late responses up to `max_psn` are still valid.
//!
//! A work request uses as many sequence numbers as it has request packets or, for READ, response packets; local
//! operations use none. So the position in a message follows from the PSN, and no state is kept per packet or work
//! request.

use crate::memory::{SendOp, SendOps, SendWr, TransmitError};
use crate::migration::PathAttr;
use crate::mtu::Mtu;
use crate::pkey::Pkey;
use crate::position::{precedes, Cursor};
use crate::psn::{Msn, Psn};
use crate::request::{PacketSpec, Request};
use crate::state::{
    Completion, Counter, QpEvent, Run, SendAttr, Service, State, Time, WcStatus, RNR_RETRY_INFINITE,
};
use crate::timer::{AckTimeout, FIRST_RNR_PAUSE};
use crate::wire::{Aeth, Qpn, Syndrome};

/// Maximum number of packets between two that request an acknowledge, also within a message.
const ACK_REQ_INTERVAL: u32 = 64;

/// Maximum number of messages that one acknowledge is requested for. The consumer posts others while the peer handles the rest.
const MESSAGES_PER_ACK: u32 = 16;

/// Maximum window: it leaves half of the distinguishable sequence numbers to a large READ.
const MAX_WINDOW: u32 = 1 << 22;

/// Timers of the requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// None is running.
    Nothing,
    /// Waiting for a response, until this time.
    Answer(Time),
    /// Waiting after an RNR NAK, until this time.
    Receiver(Time),
}

/// What was sent since the last packet that requests an acknowledge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unasked {
    packets: u32,
    /// Messages that end in these packets.
    messages: u32,
}

impl Unasked {
    pub(crate) const NOTHING: Self = Self {
        packets: 0,
        messages: 0,
    };
}

/// Progress of draining in [`State::Sqd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    /// Started work requests are incomplete; `notify`: an event is raised when they complete.
    Draining { notify: bool },
    /// All started work requests are complete.
    Drained,
}

/// The requester of a queue pair.
///
/// The driver serialises all calls. After each call, a timer should call [`run`](Self::run) at
/// [`next_deadline`](Self::next_deadline).
#[derive(Debug)]
pub struct Requester {
    pub(crate) attr: SendAttr,
    pub(crate) state: State,
    drain: Drain,
    pub(crate) oldest: Cursor,
    pub(crate) next: Cursor,
    /// First PSN that was never sent.
    pub(crate) max_psn: Psn,
    /// First work request of which nothing was sent or executed.
    begun: u32,
    /// READ and ATOMIC requests between `oldest` and `next`.
    pub(crate) reads: u32,
    pub(crate) unasked: Unasked,
    /// The last message for which the peer has a receive (LSN), if it tells.
    limit: Option<Msn>,
    /// A work request that cannot be sent; it fails when all requests before it have completed.
    fault: Option<(u32, WcStatus)>,
    pub(crate) wait: Wait,
    /// Retries left after a timeout or a loss.
    pub(crate) retries_left: u8,
    /// Consecutive timeouts without progress.
    pub(crate) timeouts: u8,
    /// Retries left after RNR NAKs.
    pub(crate) rnr_left: u8,
    /// Shortest wait after the next RNR NAK, in nanoseconds. It grows until there is progress: retries in intervals of
    /// a few microseconds take the processor from the program that is to post the receive.
    pub(crate) rnr_pause: u64,
    /// `next` has gone back, and no new response has arrived since: further signs of the same loss are ignored.
    pub(crate) recovering: bool,
    /// After a timeout, one packet that requests an acknowledge is sent, and the others wait for its response. Sending
    /// all of them again would only lengthen the queues of a slow peer. So does the first packet of a message for which the
    /// peer has no receive.
    pub(crate) probing: bool,
    /// Packets are [delayed](crate::congestion), so that each run of them requests an acknowledge.
    paced: bool,
}

/// Result of an attempt to send.
enum Step {
    /// As many packets were sent, or an operation was executed, which counts as one; there may be more.
    Done(u32),
    /// Nothing more can be done now.
    Stop(Run),
}

impl Default for Requester {
    fn default() -> Self {
        Self::new()
    }
}

impl Requester {
    /// A requester in [`State::Reset`].
    pub const fn new() -> Self {
        let attr = SendAttr {
            service: Service::Rc,
            mtu: Mtu::Mtu256,
            qpn: Qpn::new(0),
            dest_qpn: Qpn::new(0),
            sq_psn: Psn::new(0),
            pkey: Pkey::NONE,
            qkey: 0,
            signal_all: false,
            ack_timeout: AckTimeout::new(0),
            retry_cnt: 0,
            rnr_retry: 0,
            max_rd_atomic: 0,
            window: 1,
        };
        let zero = Cursor::at(0, attr.sq_psn, Msn::new(0));
        Self {
            attr,
            state: State::Reset,
            drain: Drain::Drained,
            oldest: zero,
            next: zero,
            max_psn: attr.sq_psn,
            begun: 0,
            reads: 0,
            unasked: Unasked::NOTHING,
            limit: None,
            fault: None,
            wait: Wait::Nothing,
            retries_left: 0,
            timeouts: 0,
            rnr_left: 0,
            rnr_pause: FIRST_RNR_PAUSE,
            recovering: false,
            probing: false,
            paced: false,
        }
    }

    /// RTR to RTS: sets the attributes and starts with `sq_psn`. Only after a reset.
    pub fn start(&mut self, attr: SendAttr) {
        self.attr = attr;
        self.limit_attr();
        self.state = State::Rts;
        self.oldest = Cursor::at(self.oldest.index, attr.sq_psn, Msn::new(0));
        self.next = self.oldest;
        self.max_psn = attr.sq_psn;
        self.refill_retries();
    }

    /// The current attributes.
    #[inline]
    pub fn attr(&self) -> &SendAttr {
        &self.attr
    }

    /// Changes attributes, except for `service`, `mtu` and `sq_psn`, on which the assigned sequence numbers depend.
    pub fn set_attr(&mut self, attr: SendAttr) {
        let SendAttr {
            service,
            mtu,
            sq_psn,
            ..
        } = self.attr;
        self.attr = SendAttr {
            service,
            mtu,
            sq_psn,
            ..attr
        };
        self.limit_attr();
        self.refill_retries();
    }

    /// Sets the MTU of datagrams: that of the port, which may change. No effect on other services.
    #[inline]
    pub fn set_datagram_mtu(&mut self, mtu: Mtu) {
        if self.attr.service == Service::Ud {
            self.attr.mtu = mtu;
        }
    }

    /// Sets the P_Key of packets: that of the queue pair's entry in the port's table, which may change.
    #[inline]
    pub fn set_pkey(&mut self, pkey: Pkey) {
        self.attr.pkey = pkey;
    }

    /// Packets take another path, on which the retries begin anew.
    pub fn take_path(&mut self, path: PathAttr) {
        self.attr.pkey = path.pkey;
        self.attr.ack_timeout = path.ack_timeout;
        self.refill_retries();
    }

    /// Sets whether packets are delayed. The acknowledge that a later packet requests may then come after the timeout, so each run of
    /// packets requests one.
    #[inline]
    pub fn set_paced(&mut self, paced: bool) {
        self.paced = paced;
    }

    fn limit_attr(&mut self) {
        self.attr.window = self.attr.window.clamp(1, MAX_WINDOW);
        self.attr.retry_cnt = self.attr.retry_cnt.min(7);
        self.attr.rnr_retry = self.attr.rnr_retry.min(RNR_RETRY_INFINITE);
    }

    /// The state of the requester: `Reset` until [`start`](Self::start), then `Rts`, `Sqd`, `Sqe` or `Err`.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// PSN of the next packet that was never sent (`sq_psn` of `query_qp`).
    #[inline]
    pub fn next_psn(&self) -> Psn {
        self.max_psn
    }

    /// Whether a run of responses with this first PSN may be handled as one: the first one of others may be a duplicate, and they are
    /// handled one by one.
    #[inline]
    pub fn takes_run(&self, first: Psn) -> bool {
        let sent = self.max_psn.offset(self.oldest.psn());
        first.is_within(self.oldest.psn(), sent)
    }

    /// When [`run`](Self::run) must be called if nothing else happens.
    ///
    /// It advances with each response. A timer that expires early and is then rearmed is cheaper than one that is
    /// rearmed for each packet.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        match self.wait {
            Wait::Nothing => None,
            Wait::Answer(time) | Wait::Receiver(time) => Some(time),
        }
    }

    /// RTS to SQD: completes what was started and holds back the rest.
    ///
    /// With `notify`, [`QpEvent::SqDrained`] is raised when that is done, which may be now.
    pub fn drain<O: SendOps>(&mut self, notify: bool, ops: &mut O) {
        if self.state != State::Rts {
            return;
        }
        self.state = State::Sqd;
        self.drain = Drain::Draining { notify };
        self.ask();
        self.check_drained(ops);
    }

    /// Whether it is in SQD and not yet drained (`sq_draining` of `query_qp`).
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.state == State::Sqd && self.drain != Drain::Drained
    }

    /// SQD or SQE to RTS. In SQE, [`run`](Self::run) must be called first until it is idle, since the posted requests
    /// must be flushed.
    pub fn resume(&mut self) {
        match self.state {
            State::Sqd => self.state = State::Rts,
            State::Sqe => {
                self.state = State::Rts;
                self.oldest = Cursor::at(self.oldest.index, self.max_psn, Msn::new(0));
                self.next = self.oldest;
                self.begun = self.oldest.index;
            }
            _ => {}
        }
    }

    /// To ERR, from any state. [`run`](Self::run) then flushes.
    pub fn error(&mut self) {
        self.stop(State::Err);
    }

    /// To RESET: drops all work requests; the next one has index 0.
    pub fn reset(&mut self) {
        *self = Self::new();
    }

    /// Handles the deadline, sends `budget` packets, or a run more than that, and flushes at most `budget` work requests.
    ///
    /// Must be called after work requests were posted, at the deadline, after responses, after [`drain`](Self::drain),
    /// [`resume`](Self::resume) and [`error`](Self::error), and again as the result says.
    pub fn run<O: SendOps>(&mut self, now: Time, budget: u32, ops: &mut O) -> Run {
        self.expire(now, ops);
        let run = match self.state {
            State::Rts | State::Sqd => self.send(now, budget, ops),
            State::Err | State::Sqe => self.flush(budget, ops),
            State::Reset | State::Init | State::Rtr => Run::Idle,
        };
        self.check_drained(ops);
        run
    }

    fn send<O: SendOps>(&mut self, now: Time, budget: u32, ops: &mut O) -> Run {
        let mut left = budget;
        while left > 0 {
            if matches!(self.wait, Wait::Receiver(_)) {
                return Run::Idle;
            }
            match self.step(left, now, ops) {
                Step::Done(packets) => left = left.saturating_sub(packets),
                Step::Stop(run) => return run,
            }
        }
        Run::More
    }

    /// Sends the next packet or run of packets, or executes the next local operation. `left`: the number of packets after which
    /// nothing more is sent.
    #[inline]
    fn step<O: SendOps>(&mut self, left: u32, now: Time, ops: &mut O) -> Step {
        let new = !precedes(self.next.index, self.begun);
        if new && self.state == State::Sqd {
            return Step::Stop(Run::Idle);
        }
        if let Some((index, status)) = self.fault {
            if index == self.next.index {
                return self.step_fault(index, status, ops);
            }
        }
        let Some(wr) = self.next.wr(ops) else {
            return Step::Stop(Run::Idle);
        };
        if new && wr.fence && self.reads > 0 {
            return Step::Stop(Run::Idle);
        }
        match wr.op {
            SendOp::Local { wait_all, .. } => self.step_local(wait_all, ops),
            SendOp::Invalid(status) => self.set_fault(status),
            _ => self.step_packet(&wr, left, now, ops),
        }
    }

    /// Fails the work request that cannot be sent, if it is the oldest.
    fn step_fault<O: SendOps>(&mut self, index: u32, status: WcStatus, ops: &mut O) -> Step {
        if self.oldest.index != index {
            return Step::Stop(Run::Idle);
        }
        self.fail(status, ops);
        Step::Stop(Run::More)
    }

    fn set_fault(&mut self, status: WcStatus) -> Step {
        self.fault = Some((self.next.index, status));
        self.ask();
        Step::Done(1)
    }

    /// Requests an acknowledge for the sent packets, if none of them does, and none follows that will: sends the oldest packet
    /// again, for which the peer, as for any duplicate, acknowledges all packets that it has received.
    fn ask(&mut self) {
        if self.unasked.packets > 0 && self.outstanding() > 0 {
            self.next = self.oldest;
            self.reads = 0;
            self.unasked = Unasked::NOTHING;
            self.probing = true;
        }
    }

    fn step_local<O: SendOps>(&mut self, wait_all: bool, ops: &mut O) -> Step {
        let index = self.next.index;
        if !precedes(index, self.begun) {
            if wait_all && self.oldest.index != index {
                return Step::Stop(Run::Idle);
            }
            if let Err(status) = ops.local(index) {
                return self.set_fault(status);
            }
            self.begun = index.wrapping_add(1);
        }
        self.next.finish(0);
        self.retire_local(ops);
        Step::Done(1)
    }

    fn step_packet<O: SendOps>(
        &mut self,
        wr: &SendWr,
        budget: u32,
        now: Time,
        ops: &mut O,
    ) -> Step {
        if let Err(status) = wr.check(&self.attr) {
            return self.set_fault(status);
        }
        let total = wr.packets(self.attr.mtu);
        let answered = wr.is_answered();
        let packet = self.next.packet;
        let left = total.saturating_sub(packet);
        let least = if answered { left } else { 1 };
        let limited = self.is_limited(wr, self.next.messages);
        let alone = self.probing || limited;
        if !self.has_room(alone, answered, least) {
            return self.step_full(limited);
        }
        let in_run = if answered {
            1
        } else {
            self.run_of(alone, left, ops)
        };
        let count = least.max(in_run);
        let ends = packet.saturating_add(count) >= total;
        let follower = match (ends && in_run < budget && !alone, answered) {
            (false, _) => None,
            (true, false) => self.follower(ops),
            (true, true) => self.next_read(wr, ops),
        };
        let last = ends && (answered || follower.is_none());
        let ack_req = self.requests_ack(alone || last || self.paced, in_run, count);
        let spec = PacketSpec {
            psn: self.next.psn(),
            packet,
            count: in_run,
            ends,
            ack_req,
            migrated: ops.has_migrated(),
        };
        let Some(Request { run, offset }) = wr.request(&self.attr, spec) else {
            return self.set_fault(WcStatus::LocQpOpErr);
        };
        let more = follower.is_some();
        match ops.transmit(self.next.index, &run, offset, more) {
            Ok(()) => {}
            Err(TransmitError::Dropped) => ops.count(Counter::SendErr),
            Err(TransmitError::QueueFull | TransmitError::Absent) => {
                return Step::Stop(Run::Blocked);
            }
            Err(TransmitError::Fault(status)) => return self.set_fault(status),
        }
        self.note_asked(ack_req, in_run, ends);
        // What follows waits for the answer too: without a receive the peer drops it.
        self.probing |= limited;
        self.sent(wr, count, total, answered, now, ops);
        if follower.is_some() {
            // It was read already.
            self.next.wr = follower;
        }
        Step::Done(in_run)
    }

    /// Nothing more can be sent before an acknowledge. The last packet of a window requests one; the last one for which the peer has a
    /// receive may not, since the number of those came later.
    fn step_full(&mut self, limited: bool) -> Step {
        if !limited || self.unasked.packets == 0 {
            return Step::Stop(Run::Idle);
        }
        self.ask();
        Step::Done(1)
    }

    /// Whether a message after a number of others is one for which the peer has no receive yet. The first packet of such a message may
    /// be sent when all before it are acknowledged (IBTA volume 1, 9.7.7.2.5): so a report that was lost does not matter.
    #[inline]
    fn is_limited(&self, wr: &SendWr, messages: Msn) -> bool {
        let beyond = |limit: Msn| !limit.is_after(messages);
        self.limit.is_some_and(beyond) && wr.takes_receive() && self.attr.service.is_reliable()
    }

    /// Records the receives that the peer reports. A report that is older than others says less than those.
    #[inline]
    pub(crate) fn note_credits(&mut self, aeth: &Aeth) {
        let Syndrome::Ack(credits) = aeth.syndrome else {
            return;
        };
        let new = credits.count().map(|count| aeth.msn.add(count));
        self.limit = match (self.limit, new) {
            (Some(old), Some(new)) if !new.is_after(old) => Some(old),
            _ => new,
        };
    }

    /// Records whether `packets` packets, with the end of a message or not, request an acknowledge.
    #[inline]
    fn note_asked(&mut self, ack_req: bool, packets: u32, ends: bool) {
        let Unasked {
            packets: before,
            messages,
        } = self.unasked;
        self.unasked = match ack_req {
            true => Unasked::NOTHING,
            false => Unasked {
                packets: before.saturating_add(packets),
                messages: messages.saturating_add(ends.into()),
            },
        };
    }

    /// The number of the next packets of a SEND or WRITE that are sent as one run, of `left`.
    ///
    /// A run ends where an acknowledge is requested: the window and the interval count packets.
    #[inline]
    fn run_of<O: SendOps>(&self, alone: bool, left: u32, ops: &mut O) -> u32 {
        if left == 1 || alone {
            return 1;
        }
        let room = if self.attr.service.is_reliable() {
            let window = self.attr.window.saturating_sub(self.outstanding());
            window.min(ACK_REQ_INTERVAL.saturating_sub(self.unasked.packets))
        } else {
            left
        };
        ops.longest_run(self.attr.mtu).min(left).min(room).max(1)
    }

    /// The work request after the one at `next`, if it is posted and its first packet can be sent as soon as this one's last, and that
    /// or a later packet requests the acknowledge.
    #[inline]
    fn follower<O: SendOps>(&self, ops: &mut O) -> Option<SendWr> {
        if !self.attr.service.is_reliable() || self.state != State::Rts {
            return None;
        }
        if self.unasked.messages.saturating_add(1) >= MESSAGES_PER_ACK {
            return None;
        }
        let is_sent = |wr: &SendWr| {
            let is_plain = matches!(wr.op, SendOp::Send { .. } | SendOp::Write { .. });
            let is_sent = is_plain && !wr.fence && wr.check(&self.attr).is_ok();
            let is_sent = is_sent && !self.is_limited(wr, self.next.messages.next());
            is_sent && self.fault.is_none()
        };
        ops.wr(self.next.index.wrapping_add(1)).filter(is_sent)
    }

    /// The READ after the one at `next`, if it is posted and can be sent as soon as this one.
    #[inline]
    fn next_read<O: SendOps>(&self, wr: &SendWr, ops: &mut O) -> Option<SendWr> {
        let is_read = |wr: &SendWr| matches!(wr.op, SendOp::Read { .. });
        let is_last = self.reads.saturating_add(1) >= u32::from(self.attr.max_rd_atomic);
        if is_last || self.state != State::Rts || self.fault.is_some() || !is_read(wr) {
            return None;
        }
        let next = ops.wr(self.next.index.wrapping_add(1))?;
        let is_sent = is_read(&next) && !next.fence && next.check(&self.attr).is_ok();
        is_sent.then_some(next)
    }

    /// Whether `count` more sequence numbers may be outstanding, and, if `answered`, one more READ or ATOMIC; `alone`: no others may.
    ///
    /// The window limits the requests of this side; `max_rd_atomic` limits the READs that the peer answers at a time.
    #[inline]
    fn has_room(&self, alone: bool, answered: bool, count: u32) -> bool {
        if !self.attr.service.is_reliable() {
            return true;
        }
        if answered && self.reads >= u32::from(self.attr.max_rd_atomic) {
            return false;
        }
        let outstanding = self.outstanding();
        let window = match (alone, answered) {
            (true, _) => 0,
            (false, true) => MAX_WINDOW,
            (false, false) => self.attr.window,
        };
        outstanding == 0 || outstanding.saturating_add(count) <= window
    }

    /// Number of sequence numbers between `oldest` and `next`.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.next.psn().offset(self.oldest.psn())
    }

    /// Whether the last of `packets` packets at `next`, which use `count` sequence numbers, requests an acknowledge; `ends`: it is
    /// the last one for now.
    #[inline]
    fn requests_ack(&self, ends: bool, packets: u32, count: u32) -> bool {
        if !self.attr.service.is_reliable() {
            return false;
        }
        ends || self.unasked.packets.saturating_add(packets) >= ACK_REQ_INTERVAL
            || self.outstanding().saturating_add(count) >= self.attr.window
    }

    /// Records that the packets at `next`, which use `count` sequence numbers, were sent.
    #[inline]
    fn sent<O: SendOps>(
        &mut self,
        wr: &SendWr,
        count: u32,
        total: u32,
        answered: bool,
        now: Time,
        ops: &mut O,
    ) {
        let index = self.next.index;
        if !precedes(index, self.begun) {
            self.begun = index.wrapping_add(1);
        }
        self.next.advance(count, total);
        let oldest = self.oldest.psn();
        if self.outstanding() > self.max_psn.offset(oldest) {
            self.max_psn = self.next.psn();
        }
        if answered {
            self.reads = self.reads.saturating_add(1);
        }
        if !self.attr.service.is_reliable() {
            self.sent_unreliable(wr, index, ops);
        } else if self.wait == Wait::Nothing {
            self.start_timer(now);
        }
    }

    /// On an unreliable service, a message completes when it is sent.
    fn sent_unreliable<O: SendOps>(&mut self, wr: &SendWr, index: u32, ops: &mut O) {
        self.max_psn = self.next.psn();
        if self.next.index == index {
            self.oldest.packet = self.next.packet;
            return;
        }
        self.oldest = self.next;
        self.complete(index, wr, WcStatus::Success, ops);
    }

    /// Completes a work request.
    #[inline]
    pub(crate) fn complete<O: SendOps>(
        &self,
        index: u32,
        wr: &SendWr,
        status: WcStatus,
        ops: &mut O,
    ) {
        let failed = status != WcStatus::Success;
        if !failed && matches!(wr.op, SendOp::Send { .. } | SendOp::SendUd { .. }) {
            ops.count(Counter::RdmaSend);
        }
        let completion = Completion {
            status,
            opcode: wr.wc_opcode(),
            byte_len: wr.byte_len(),
            report: failed || wr.signaled || self.attr.signal_all,
        };
        ops.complete(index, completion);
    }

    /// Completes the oldest local operations that were executed.
    pub(crate) fn retire_local<O: SendOps>(&mut self, ops: &mut O) {
        while precedes(self.oldest.index, self.begun) {
            let Some(wr) = self.oldest.wr(ops) else {
                return;
            };
            if !matches!(wr.op, SendOp::Local { .. }) {
                return;
            }
            let index = self.oldest.index;
            self.oldest.finish(0);
            self.complete(index, &wr, WcStatus::Success, ops);
        }
    }

    /// Advances past the oldest work request, which has `total` packets.
    #[inline]
    pub(crate) fn retire<O: SendOps>(&mut self, wr: &SendWr, total: u32, ops: &mut O) {
        let index = self.oldest.index;
        if wr.is_answered() && precedes(index, self.next.index) {
            self.reads = self.reads.saturating_sub(1);
        }
        self.oldest.finish(total);
        self.complete(index, wr, WcStatus::Success, ops);
        self.retire_local(ops);
    }

    /// Fails the oldest work request and changes to the error state.
    pub(crate) fn fail<O: SendOps>(&mut self, status: WcStatus, ops: &mut O) {
        if let Some(wr) = self.oldest.wr(ops) {
            let index = self.oldest.index;
            self.complete(index, &wr, status, ops);
            self.oldest = Cursor::at(index.wrapping_add(1), self.max_psn, Msn::new(0));
        }
        let state = match self.attr.service.is_reliable() {
            true => State::Err,
            false => State::Sqe,
        };
        self.stop(state);
        ops.moved(state);
    }

    fn stop(&mut self, state: State) {
        self.state = state;
        self.wait = Wait::Nothing;
        self.fault = None;
        self.reads = 0;
    }

    fn flush<O: SendOps>(&mut self, budget: u32, ops: &mut O) -> Run {
        for _ in 0..budget {
            let Some(wr) = self.oldest.wr(ops) else {
                return Run::Idle;
            };
            let index = self.oldest.index;
            self.oldest = Cursor::at(index.wrapping_add(1), self.max_psn, Msn::new(0));
            self.complete(index, &wr, WcStatus::WrFlushErr, ops);
        }
        Run::More
    }

    /// Raises the event when all started work requests are complete.
    pub(crate) fn check_drained<O: SendOps>(&mut self, ops: &mut O) {
        let Drain::Draining { notify } = self.drain else {
            return;
        };
        if self.state != State::Sqd || precedes(self.oldest.index, self.begun) {
            return;
        }
        self.drain = Drain::Drained;
        if notify {
            ops.event(QpEvent::SqDrained);
        }
    }
}
