// SPDX-License-Identifier: GPL-2.0

//! Congestion control of a connected queue pair, by notification packets (CNP) and the rate that they lead to.
//!
//! The packets are those of IBTA volume 1, annex A17.9, the rates those of DCQCN ("Congestion Control for Large-Scale RDMA
//! Deployments", SIGCOMM 2015, section 3 and its appendix).
//!
//! ```text
//!   sender ── packets that may be marked (ECT) ──► queue that fills ── marked packets (CE) ──► receiver
//!   reaction point ◄────────────────────────────── at most one CNP in 50 us ─────────── notification point
//! ```
//!
//! [`Congestion`] is both points of one queue pair. It has no timer of its own: what time has brought is caught up with by
//! [`Congestion::begin`], and only packets that wait for their time need a call at [`Congestion::next_deadline`].

use crate::icrc;
use crate::mtu::Mtu;
use crate::opcode::Opcode;
use crate::pkey::Pkey;
use crate::psn::Psn;
use crate::state::Time;
use crate::wire::{Bth, Headers, Packet, Parts, Qpn};

/// The bits of explicit congestion notification in a traffic class or type of service (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ecn(u8);

impl Ecn {
    /// A queue that fills drops the packet.
    pub const NOT_CAPABLE: Self = Self(0);

    /// A queue that fills marks the packet: ECT(0).
    pub const CAPABLE: Self = Self(2);

    /// The packet was marked: CE.
    const MARKED: Self = Self(3);

    const MASK: u8 = 3;

    /// A traffic class with these bits instead of its own.
    #[inline]
    pub const fn applied_to(self, traffic_class: u8) -> u8 {
        traffic_class & !Self::MASK | self.0
    }

    /// Whether a traffic class is that of a packet that a queue has marked.
    #[inline]
    pub const fn is_marked(traffic_class: u8) -> bool {
        traffic_class & Self::MASK == Self::MARKED.0
    }
}

/// The length of a notification's payload, which is reserved: zeroes.
pub const NOTIFICATION_LEN: u32 = 16;

/// Whether a packet of `len` bytes that begins with this header may be a notification, by its operation and its length. Nothing else
/// is looked at.
pub fn is_notification(head: &[u8; Bth::LEN], len: usize) -> bool {
    const LEN: usize = Bth::LEN + NOTIFICATION_LEN as usize + icrc::LEN;
    let &[code, ..] = head;
    code == Opcode::Cnp.code() && len == LEN
}

/// Bits a second.
const MBIT: u64 = 1_000_000;

const MICROSECOND: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;

/// Parameters of DCQCN. Times are in nanoseconds, rates in bits a second.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// The shortest time between two notifications of a queue pair (N). Those that come sooner have no effect.
    pub notification_interval: u64,
    /// The shortest time between two decreases of the rate.
    pub decrease_interval: u64,
    /// The time without a notification after which the estimate of congestion decreases (K).
    pub estimate_interval: u64,
    /// The time after which the rate increases (T).
    pub increase_interval: u64,
    /// The number of bytes after which the rate increases (B).
    pub increase_bytes: u64,
    /// The number of increases that only recover what the last notification has taken (F).
    pub recoveries: u32,
    /// What a further increase adds (R_AI).
    pub additive: u64,
    /// What an increase adds when both times and bytes have increased the rate as often as that (R_HAI).
    pub hyper: u64,
    /// The lowest rate, whatever is notified.
    pub least: u64,
    /// The rate that is not limited any more.
    pub most: u64,
}

impl Parameters {
    /// Those of the publication, which are for links of 40 Gbit/s and round trips of some microseconds.
    pub const PUBLISHED: Self = Self {
        notification_interval: 50 * MICROSECOND,
        decrease_interval: 50 * MICROSECOND,
        estimate_interval: 55 * MICROSECOND,
        increase_interval: 55 * MICROSECOND,
        increase_bytes: 10_000_000,
        recoveries: 5,
        additive: 40 * MBIT,
        hyper: 400 * MBIT,
        least: 40 * MBIT,
        most: 40_000 * MBIT,
    };

    /// Those for a software device, whose links have 10 Mbit/s to 10 Gbit/s and whose round trips, through queues of a host, take
    /// milliseconds: the rate decreases once for what a queue was filled with, and increases later and in smaller steps.
    pub const SOFTWARE: Self = Self {
        decrease_interval: 2_000 * MICROSECOND,
        estimate_interval: 1_000 * MICROSECOND,
        increase_interval: 3_000 * MICROSECOND,
        increase_bytes: 3_000_000,
        additive: 2 * MBIT,
        hyper: 20 * MBIT,
        least: 10 * MBIT,
        most: 10_000 * MBIT,
        ..Self::PUBLISHED
    };
}

/// The estimate of congestion that stands for "all packets are marked". A notification moves the estimate a part of
/// 1 / 2^[`GAIN`] towards it (g of the publication).
const FULL: u32 = 1 << 16;

/// The binary logarithm of the gain's reciprocal.
const GAIN: u32 = 8;

/// A limit on the rate of what a queue pair sends. Rates are in bits a second, times in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Limit {
    /// R_C.
    current: u64,
    /// R_T: what is recovered.
    target: u64,
    /// The estimate of congestion (alpha), up to [`FULL`].
    estimate: u32,
    /// When it decreases.
    estimate_at: u64,
    /// When the rate may decrease again.
    decrease_at: u64,
    /// The increases by time and by bytes since the last notification.
    by_time: u32,
    by_bytes: u32,
    /// When the next increase by time is due.
    increase_at: u64,
    /// The bytes until the next increase by bytes.
    bytes_left: u64,
    /// When the next packet may be sent.
    send_at: u64,
}

impl Limit {
    /// That of a queue pair that has sent at a rate.
    fn at(rate: u64, now: u64) -> Self {
        Self {
            current: rate,
            target: rate,
            estimate: FULL,
            estimate_at: now,
            decrease_at: now,
            by_time: 0,
            by_bytes: 0,
            increase_at: now,
            bytes_left: 0,
            send_at: now,
        }
    }

    /// A notification of a peer that has got packets of `sent` bits a second.
    fn notified(&mut self, sent: u64, parameters: &Parameters, now: u64) {
        self.estimate_at = now.saturating_add(parameters.estimate_interval);
        if now < self.decrease_at {
            return;
        }
        self.decrease_at = now.saturating_add(parameters.decrease_interval);
        // A rate that is not used is not the one that has filled the queue.
        let used = sent.saturating_mul(2).max(parameters.least);
        self.current = self.current.min(used);
        self.decrease(parameters, now);
        let kept = self.estimate.saturating_sub(self.estimate >> GAIN);
        self.estimate = kept.saturating_add(FULL >> GAIN);
    }

    /// Takes back a part of the rate, as the estimate of congestion says.
    fn decrease(&mut self, parameters: &Parameters, now: u64) {
        let taken = self.current.saturating_mul(self.estimate.into()) / u64::from(2 * FULL);
        self.target = self.current;
        self.current = self.current.saturating_sub(taken);
        self.current = self.current.max(parameters.least);
        self.target = self.target.max(self.current);
        self.by_time = 0;
        self.by_bytes = 0;
        self.increase_at = now.saturating_add(parameters.increase_interval);
        self.bytes_left = parameters.increase_bytes;
    }

    /// An increase: fast recovery, then additive, then hyper increase.
    fn increase(&mut self, parameters: &Parameters) {
        let most = self.by_time.max(self.by_bytes);
        let least = self.by_time.min(self.by_bytes);
        let more = match most < parameters.recoveries {
            true => 0,
            false => match least.saturating_sub(parameters.recoveries) {
                0 => parameters.additive,
                times => parameters.hyper.saturating_mul(times.into()),
            },
        };
        self.target = self.target.saturating_add(more).min(parameters.most);
        self.current = self.current.midpoint(self.target);
    }

    /// Catches up with what time has brought; returns whether the limit goes on.
    fn catch_up(&mut self, parameters: &Parameters, now: u64) -> bool {
        while self.estimate_at <= now {
            let part = self.estimate >> GAIN;
            if part == 0 {
                self.estimate_at = now.saturating_add(parameters.estimate_interval);
                break;
            }
            self.estimate = self.estimate.saturating_sub(part);
            self.estimate_at = self
                .estimate_at
                .saturating_add(parameters.estimate_interval);
        }
        while self.increase_at <= now && !self.is_over(parameters) {
            self.increase_at = self
                .increase_at
                .saturating_add(parameters.increase_interval);
            self.by_time = self.by_time.saturating_add(1);
            self.increase(parameters);
        }
        !self.is_over(parameters)
    }

    /// Whether the rate is as good as unlimited.
    fn is_over(&self, parameters: &Parameters) -> bool {
        self.current >= parameters.most.saturating_sub(parameters.most / 16)
    }

    /// The bytes of a run of packets.
    fn run(&self) -> u64 {
        (self.current / (8 * SECOND / RUN)).max(SHORT_RUN)
    }

    /// The time that a number of bytes takes.
    fn time_of(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(8 * SECOND) / self.current.max(1)
    }

    fn sent(&mut self, bytes: u64, parameters: &Parameters, now: u64) {
        let time = self.time_of(bytes);
        let late = self.time_of(self.run()).saturating_mul(LATE_RUNS);
        let from = self.send_at.max(now.saturating_sub(late));
        self.send_at = from.saturating_add(time);
        match self.bytes_left.checked_sub(bytes) {
            Some(left) if left > 0 => self.bytes_left = left,
            _ => {
                self.bytes_left = parameters.increase_bytes;
                self.by_bytes = self.by_bytes.saturating_add(1);
                self.increase(parameters);
            }
        }
    }
}

/// The time that one run of packets takes at the current rate, at most, but for [`SHORT_RUN`] bytes: timers are not exact.
const RUN: u64 = 250 * MICROSECOND;

/// The number of bytes that are sent at once at any rate.
const SHORT_RUN: u64 = 4096;

/// The number of runs that may be late and catch up: timers, and other queue pairs on the processor, delay them.
const LATE_RUNS: u64 = 4;

/// What was sent of late: the rate that a first notification takes a part of. A software device does not know the rate of its link,
/// and seldom reaches it.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    since: u64,
    bytes: u64,
    /// The time and the bytes of the period before.
    last: (u64, u64),
}

impl Meter {
    const PERIOD: u64 = 4_000 * MICROSECOND;

    /// The shortest time that a rate is told of.
    const LEAST: u64 = 250 * MICROSECOND;

    #[inline]
    fn sent(&mut self, bytes: u64, now: u64) {
        let time = now.saturating_sub(self.since);
        if time >= Self::PERIOD {
            // A time in which little was to be sent tells nothing of the rate.
            self.last = match time < 2 * Self::PERIOD {
                true => (time, self.bytes),
                false => (0, 0),
            };
            self.since = now;
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The rate in bits a second.
    fn rate(&self, now: u64) -> u64 {
        let (time, bytes) = self.last;
        let time = now.saturating_sub(self.since).saturating_add(time);
        let bytes = self.bytes.saturating_add(bytes);
        bytes.saturating_mul(8 * SECOND) / time.max(Self::LEAST)
    }
}

/// Congestion control of a queue pair: its notification point and its reaction point.
#[derive(Debug)]
pub struct Congestion {
    parameters: &'static Parameters,
    /// The time at which the engines run.
    now: u64,
    /// Whether the peer is to be notified of a marked packet.
    due: bool,
    /// When the peer may be notified again.
    notify_at: u64,
    /// When the next notification of the peer is heeded.
    heed_at: u64,
    limit: Option<Limit>,
    meter: Meter,
    /// Whether a packet waits for its time.
    waits: bool,
}

impl Congestion {
    /// That of a queue pair that has sent and received nothing.
    pub const fn new(parameters: &'static Parameters) -> Self {
        Self {
            parameters,
            now: 0,
            due: false,
            notify_at: 0,
            heed_at: 0,
            limit: None,
            meter: Meter {
                since: 0,
                bytes: 0,
                last: (0, 0),
            },
            waits: false,
        }
    }

    /// Forgets everything: the queue pair is reset.
    pub fn reset(&mut self) {
        *self = Self::new(self.parameters);
    }

    // The notification point.

    /// A packet has come from the peer that was marked on its way.
    pub fn marked(&mut self, now: Time) {
        self.due |= self.notify_at <= now.as_ns();
    }

    /// Whether the peer is to be notified.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// The notification for the peer, if it is to be notified: a packet with [`NOTIFICATION_LEN`] zeroes, which no queue marks. Its
    /// P_Key is the queue pair's own, since that of a limited member would not be admitted there.
    pub fn notification(&mut self, dest_qpn: Qpn, pkey: Pkey) -> Option<Packet> {
        if !core::mem::take(&mut self.due) {
            return None;
        }
        self.notify_at = self
            .now
            .saturating_add(self.parameters.notification_interval);
        let bth = Bth {
            migrated: false,
            becn: true,
            ..Bth::new(Opcode::Cnp, pkey, dest_qpn, Psn::new(0))
        };
        let headers = Headers::new(bth, &Parts::default());
        Some(Packet::new(headers, NOTIFICATION_LEN))
    }

    // The reaction point.

    /// The peer has notified of congestion; returns whether that has an effect. It has none sooner after another one than the peer
    /// may notify, so a flood of notifications takes no more than one every now and then.
    pub fn notified(&mut self, now: Time) -> bool {
        let (now, parameters) = (now.as_ns(), self.parameters);
        if now < self.heed_at {
            return false;
        }
        self.catch_up(now);
        self.heed_at = now.saturating_add(parameters.notification_interval);
        let sent = self.meter.rate(now);
        let first = sent.max(parameters.least).min(parameters.most);
        let limit = self.limit.get_or_insert(Limit::at(first, now));
        limit.notified(sent, parameters, now);
        true
    }

    /// Catches up with what time has brought.
    fn catch_up(&mut self, now: u64) {
        if let Some(limit) = &mut self.limit {
            if !limit.catch_up(self.parameters, now) {
                // As good as unlimited; the next notification begins anew.
                self.limit = None;
            }
        }
    }

    /// Begins a run of the engines.
    pub fn begin(&mut self, now: Time) {
        self.now = now.as_ns();
        self.waits = false;
        self.catch_up(self.now);
    }

    /// Whether a run of packets with data may be sent now. If not, the engines are to run at the
    /// [deadline](Self::next_deadline).
    #[inline]
    pub fn may_send(&mut self) -> bool {
        self.waits = self.limit.is_some_and(|limit| limit.send_at > self.now);
        !self.waits
    }

    /// The number of packets that one run may have, of `longest` ones.
    #[inline]
    pub fn longest_run(&self, mtu: Mtu, longest: u32) -> u32 {
        let Some(limit) = &self.limit else {
            return longest;
        };
        u32::try_from(limit.run() >> mtu.shift())
            .unwrap_or(u32::MAX)
            .clamp(1, longest.max(1))
    }

    /// A run of packets was sent, of so many bytes on the wire.
    #[inline]
    pub fn sent(&mut self, bytes: u64) {
        self.meter.sent(bytes, self.now);
        if let Some(limit) = &mut self.limit {
            limit.sent(bytes, self.parameters, self.now);
        }
    }

    /// The rate that the queue pair is limited to, in bits a second.
    #[inline]
    pub fn limit(&self) -> Option<u64> {
        self.limit.map(|limit| limit.current)
    }

    /// When the engines are to run, because a packet waits for its time.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        let limit = self.limit.filter(|_| self.waits)?;
        Some(Time::from_ns(limit.send_at))
    }
}
