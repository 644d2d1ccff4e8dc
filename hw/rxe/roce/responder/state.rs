// SPDX-License-Identifier: GPL-2.0

//! The state of a responder: its attributes, what it expects, the message that arrives, and what it has to send.

use core::ops::DerefMut;

use crate::mtu::Mtu;
use crate::pkey::Pkey;
use crate::psn::{Msn, Psn};
use crate::resources::{Resources, Slot};
use crate::state::{RecvAttr, RemoteAccess, Service, State};
use crate::timer::RnrTimer;
use crate::wire::{NakCode, Qpn, Srqn};

/// The first position: large enough that all duplicates have a position.
const FIRST_POSITION: u64 = 1 << 24;

/// The attributes before they are set.
const UNSET: RecvAttr = RecvAttr {
    service: Service::Rc,
    mtu: Mtu::Mtu256,
    dest_qpn: Qpn::new(0),
    rq_psn: Psn::new(0),
    pkey: Pkey::NONE,
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
pub(super) enum Reply {
    /// All SENDs and WRITEs so far have arrived.
    Ack,
    /// A packet is missing.
    SequenceNak,
    /// There is no receive for the expected packet.
    RnrNak,
    /// The request with this PSN is refused permanently.
    Refusal(NakCode, Psn),
}

/// An incomplete message.
#[derive(Debug)]
pub(super) enum Message<R> {
    /// A SEND; its data goes to the current receive.
    Send { received: u32 },
    /// A WRITE of `length` bytes. An empty one has no region.
    Write {
        region: Option<R>,
        length: u32,
        received: u32,
    },
}

/// The responder of a queue pair.
///
/// `R` is [`RecvOps::Region`]. `S` is memory of the driver, such as a vector of [`Slot`]s: as many READs and ATOMICs
/// can be answered and remembered as it has slots; only a reliable connection needs any. The driver serialises all
/// calls.
#[derive(Debug)]
pub struct Responder<R, S> {
    pub(super) attr: RecvAttr,
    pub(super) state: State,
    pub(super) has_srq: bool,
    /// Whether the COMM_EST event was raised or is not due.
    pub(super) established: bool,
    /// PSN of the next new packet.
    pub(super) expected: Psn,
    /// Its position, as a number that does not wrap.
    pub(super) position: u64,
    pub(super) msn: Msn,
    pub(super) message: Option<Message<R>>,
    /// The shared receive queue that the first packet of the message has named. Extended reliable connection only.
    pub(super) srqn: Option<Srqn>,
    /// Length of the current receive.
    pub(super) recv: Option<u32>,
    /// PSN of the last packet of a SEND or WRITE.
    pub(super) ackable: Option<Psn>,
    /// Whether a NAK was sent for the expected packet.
    pub(super) nak_sent: bool,
    pub(super) reply: Option<Reply>,
    /// Whether the peer was told that there are no receives, and is told when there are.
    pub(super) starves: bool,
    pub(super) resources: Resources<S>,
    pub(super) last_wqe_told: bool,
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
            srqn: None,
            recv: None,
            ackable: None,
            nak_sent: false,
            reply: None,
            starves: false,
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

    /// Sets the P_Key of responses: that of the queue pair's entry in the port's table, which may change.
    #[inline]
    pub fn set_pkey(&mut self, pkey: Pkey) {
        self.attr.pkey = pkey;
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

    /// The shared receive queue that the message names is gone, and with it the current receive, without a completion. What follows
    /// of the message is refused.
    pub fn forget_receive(&mut self) {
        self.message = None;
        self.recv = None;
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
            srqn,
            recv,
            ackable,
            nak_sent,
            reply,
            starves,
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
        *srqn = None;
        *recv = None;
        *ackable = None;
        *nak_sent = false;
        *reply = None;
        *starves = false;
        resources.clear();
        *last_wqe_told = false;
    }
}
