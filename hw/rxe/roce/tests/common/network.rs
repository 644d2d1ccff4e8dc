// SPDX-License-Identifier: GPL-2.0

//! Two endpoints and a simulated network, in virtual time.
//!
//! Packets are transferred as bytes with a checksum, so that they are written and parsed; corrupted ones are found by
//! the checksum and dropped, as by the ICRC.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use roce::migration::Wanted;
use roce::requester::Requester;
use roce::responder::{Responder, Slot};
use roce::run::PacketRun;
use roce::state::{Received, RecvAttr, Run, SendAttr, State, Time};
use roce::wire::{pad_len, Packet, MAX_HEADERS};

use super::world::{slots, Region, Sent, World};
use super::Rng;

/// Number of READs and ATOMICs that a responder of the tests can answer.
pub const RESOURCES: usize = 8;

/// Impairments of the network, in packets of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Impairments {
    pub loss: u32,
    pub duplicate: u32,
    pub reorder: u32,
    pub corrupt: u32,
    /// Send queue full (back-pressure).
    pub busy: u32,
    /// Dropped by the sender.
    pub dropped: u32,
    /// Memory that is not present.
    pub absent: u32,
}

/// A queue pair and its driver.
pub struct Endpoint {
    pub requester: Requester,
    pub responder: Responder<Region, Vec<Slot<Region>>>,
    pub world: World,
    /// When the engines must run again.
    again: Option<u64>,
    /// Receives to post, with their times, in reverse order.
    pub later: Vec<(u64, usize)>,
    handled_moves: usize,
    /// Whether the send queue is drained now and then.
    pub drains: bool,
    /// How often it was drained.
    pub drained: usize,
}

impl Endpoint {
    pub fn new(world: World, send: SendAttr, recv: RecvAttr, has_srq: bool) -> Self {
        let mut requester = Requester::new();
        let mut responder = Responder::new(has_srq, slots(RESOURCES));
        responder.start(recv);
        responder.established();
        requester.start(send);
        Self {
            requester,
            responder,
            world,
            again: Some(0),
            later: Vec::new(),
            handled_moves: 0,
            drains: false,
            drained: 0,
        }
    }

    /// When the endpoint must run again.
    fn due(&self) -> Option<u64> {
        let deadline = self.requester.next_deadline().map(Time::as_ns);
        let receive = self.later.last().map(|(time, _)| *time);
        [self.again, deadline, receive].into_iter().flatten().min()
    }

    fn run(&mut self, now: u64, rng: &mut Rng) {
        self.again = None;
        while self.later.last().is_some_and(|(time, _)| *time <= now) {
            if let Some((_, len)) = self.later.pop() {
                self.world.post_recv(len);
                self.again = Some(now + 1); // In the error state it is to be flushed.
            }
        }
        self.drain_or_resume(now, rng);
        let budget = 1 + rng.below(40) as u32;
        let runs = [
            self.responder.run(budget, &mut self.world),
            self.requester
                .run(Time::from_ns(now), budget, &mut self.world),
        ];
        self.follow_moves(now);
        for run in runs {
            let pause = match run {
                Run::Idle => continue,
                Run::More => 100,
                Run::Blocked => 3_000,
            };
            let time = now + pause;
            self.again = Some(self.again.map_or(time, |other| other.min(time)));
        }
    }

    /// The user asks to migrate.
    pub fn migrate(&mut self) {
        assert!(self.world.paths.migration.ask(Wanted::Migrated));
        let attr = self.world.take_alternate();
        self.requester.take_path(attr);
    }

    /// Runs the engines at a time, since requests or receives were posted.
    pub fn wake(&mut self, now: u64) {
        self.again = Some(now);
    }

    /// Whether packets that have come on a path are taken.
    fn takes(&mut self, packet: &Packet, path: usize) -> bool {
        let (taken, attr) = self.world.judge(path, packet.bth().migrated);
        attr.into_iter()
            .for_each(|attr| self.requester.take_path(attr));
        taken
    }

    /// Handles packets that have arrived together on a path, joined to runs.
    fn receive_all(&mut self, packets: &[(Packet, &[u8])], path: usize, now: u64) {
        let mut rest = packets;
        while let Some(((first, _), _)) = rest.split_first() {
            let mut run = PacketRun::of(first);
            let more = rest[1..].iter().take_while(|(next, _)| run.append(next));
            let (joined, left) = rest.split_at(1 + more.count());
            rest = left;
            if !self.takes(first, path) {
                continue;
            }
            let bth = first.bth();
            let whole = match bth.opcode.is_response() {
                _ if run.count() == 1 => true,
                true => self.requester.takes_run(bth.psn),
                false => self.responder.takes_run(bth.psn),
            };
            if whole {
                let payload: Vec<u8> = joined
                    .iter()
                    .flat_map(|(_, bytes)| *bytes)
                    .copied()
                    .collect();
                self.receive(run.packet(), &payload, now);
            } else {
                for (packet, payload) in joined {
                    self.receive(packet, payload, now);
                }
            }
        }
    }

    fn receive(&mut self, packet: &Packet, payload: &[u8], now: u64) {
        while self.receive_once(packet, payload, now) == Received::Absent {}
    }

    fn receive_once(&mut self, packet: &Packet, payload: &[u8], now: u64) -> Received {
        if packet.bth().opcode.is_response() {
            let now = Time::from_ns(now);
            self.requester
                .receive(packet, payload, now, &mut self.world)
        } else {
            self.responder.receive(packet, payload, &mut self.world)
        }
    }

    fn drain_or_resume(&mut self, now: u64, rng: &mut Rng) {
        match self.requester.state() {
            State::Rts if self.drains && rng.hits(50) => {
                self.requester.drain(true, &mut self.world);
                self.again = Some(now + 10_000);
            }
            State::Sqd if self.requester.is_draining() => self.again = Some(now + 10_000),
            State::Sqd => {
                self.drained += 1;
                self.requester.resume();
            }
            _ => {}
        }
    }

    /// When one engine fails, the other one is moved to the error state, as in the driver.
    fn follow_moves(&mut self, now: u64) {
        if self.world.moved[self.handled_moves..].contains(&State::Err) {
            self.requester.error();
            self.responder.error();
            self.again = Some(now + 1);
        }
        self.handled_moves = self.world.moved.len();
    }
}

/// A packet in flight.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    arrival: u64,
    order: u64,
    to: usize,
    path: usize,
    /// The packets of a run that stay together, or one packet.
    packets: Vec<Vec<u8>>,
}

pub struct Network {
    pub ends: [Endpoint; 2],
    pub now: u64,
    pub delivered: u64,
    /// Packets that the endpoints have sent.
    pub sent: u64,
    /// Whether the packets to an endpoint on a path are lost.
    pub cut: [[bool; 2]; 2],
    flights: BinaryHeap<Reverse<Flight>>,
    order: u64,
    impairments: Impairments,
    /// Whether the packets of a run arrive together.
    together: bool,
    rng: Rng,
    /// The last arrival in each direction: without reordering packets arrive in order.
    last: [u64; 2],
}

impl Network {
    pub fn new(mut ends: [Endpoint; 2], impairments: Impairments, seed: u64) -> Self {
        for end in &mut ends {
            end.world.busy = impairments.busy;
            end.world.absent = impairments.absent;
            end.world.dropped = impairments.dropped;
        }
        Self {
            ends,
            now: 0,
            delivered: 0,
            sent: 0,
            cut: [[false; 2]; 2],
            flights: BinaryHeap::new(),
            order: 0,
            impairments,
            together: seed % 2 == 0,
            rng: Rng::new(seed),
            last: [0; 2],
        }
    }

    /// Changes the losses and the disorder of the network.
    pub fn set_impairments(&mut self, impairments: Impairments) {
        self.impairments = impairments;
    }

    /// Runs the simulation until it is idle; false if that is not before `end`.
    pub fn run(&mut self, end: u64) -> bool {
        while let Some(time) = self.next_time() {
            self.now = time.max(self.now);
            if self.now > end {
                return false;
            }
            self.deliver();
            for side in 0..2 {
                if self.ends[side].due().is_some_and(|due| due <= self.now) {
                    let Self { ends, rng, now, .. } = self;
                    ends[side].run(*now, rng);
                }
                self.collect(side);
            }
        }
        true
    }

    fn next_time(&self) -> Option<u64> {
        let arrival = self.flights.peek().map(|Reverse(flight)| flight.arrival);
        let [a, b] = [self.ends[0].due(), self.ends[1].due()];
        [arrival, a, b].into_iter().flatten().min()
    }

    /// Delivers a batch: all packets that have arrived.
    fn deliver(&mut self) {
        while self
            .flights
            .peek()
            .is_some_and(|Reverse(f)| f.arrival <= self.now)
        {
            let Some(Reverse(flight)) = self.flights.pop() else {
                return;
            };
            let packets: Vec<_> = flight.packets.iter().filter_map(|p| decode(p)).collect();
            if packets.is_empty() {
                continue;
            }
            self.delivered += packets.len() as u64;
            let end = &mut self.ends[flight.to];
            end.receive_all(&packets, flight.path, self.now);
            end.follow_moves(self.now);
            // Packets that arrive within a short time are answered together.
            let soon = self.now + 200;
            end.again = Some(end.again.map_or(soon, |other| other.min(soon)));
        }
    }

    /// Adds the sent packets of an endpoint to the network.
    fn collect(&mut self, side: usize) {
        let mut run = Vec::new();
        let mut sent = self.ends[side].world.take_sent().into_iter().peekable();
        while let Some(packet) = sent.next() {
            self.sent += 1;
            if !self.rng.hits(self.impairments.loss) {
                run.push(self.encode(&packet));
            }
            let goes_on = sent.peek().is_some_and(|next| next.follows);
            if (goes_on && self.together) || run.is_empty() {
                continue;
            }
            let run = std::mem::take(&mut run);
            let copies = if self.rng.hits(self.impairments.duplicate) {
                2
            } else {
                1
            };
            for _ in 0..copies {
                self.send(1 - side, packet.path, run.clone());
            }
        }
    }

    fn send(&mut self, to: usize, path: usize, packets: Vec<Vec<u8>>) {
        let mut arrival = (self.now + 2_000).max(self.last[to] + 50);
        self.last[to] = arrival;
        if self.rng.hits(self.impairments.reorder) {
            arrival += self.rng.below(20_000);
        }
        self.order += 1;
        if self.cut[to][path] {
            return;
        }
        self.flights.push(Reverse(Flight {
            arrival,
            order: self.order,
            to,
            path,
            packets,
        }));
    }

    fn encode(&mut self, sent: &Sent) -> Vec<u8> {
        let mut head = [0; MAX_HEADERS];
        let payload_len = sent.payload.len() as u32;
        let len = sent.headers.write(payload_len, &mut head);
        let mut bytes = head[..len].to_vec();
        bytes.extend_from_slice(&sent.payload);
        bytes.resize(bytes.len() + pad_len(payload_len), 0);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        if self.rng.hits(self.impairments.corrupt) {
            let bit = self.rng.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        bytes
    }
}

fn decode(bytes: &[u8]) -> Option<(Packet, &[u8])> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(body).to_le_bytes() != *crc {
        return None;
    }
    let packet = Packet::parse(bytes, bytes.len()).expect("own packets parse");
    let offset = packet.payload_offset();
    Some((packet, &bytes[offset..][..packet.payload_len() as usize]))
}
