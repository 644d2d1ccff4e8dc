// SPDX-License-Identifier: GPL-2.0

//! Senders share a bottleneck, in virtual time: with congestion control they lose less, share it fairly and use it.
//!
//! Each sender has a link of its own to a switch, whose one port to the receivers has a queue: it marks packets that may be marked the
//! more the longer it is (RED), and drops what has no room. Acknowledges and notifications return by an idle path.

mod common;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use common::world::{slots, Region, Sent, World, BASE, RKEY};
use common::{recv_attr, send_attr, Rng, SELF};
use roce::congestion::{Congestion, Parameters};
use roce::memory::{SendOp, SendWr};
use roce::mtu::Mtu;
use roce::opcode::Opcode;
use roce::pkey::Pkey;
use roce::requester::Requester;
use roce::responder::{Responder, Slot};
use roce::state::{Run, Service, Time, WcStatus};
use roce::timer::AckTimeout;
use roce::wire::{Packet, Srqn};

/// Headers of Ethernet, IP and UDP, preamble and gap, in bytes.
const BELOW: u64 = 14 + 20 + 8 + 24;

/// Packets in the sender's own queue above which it does not send.
const HIGH_WATER: usize = 64;

const MESSAGE: usize = 1 << 16;

/// What is simulated.
#[derive(Clone, Copy)]
struct Scene {
    senders: usize,
    /// READs of the other side, instead of WRITEs.
    reads: bool,
    /// Of a sender's link and of the bottleneck, in bits a second.
    link: u64,
    bottleneck: u64,
    /// The time from one end to the other without queues.
    delay: u64,
    /// The room of the queue, and where it begins to mark some packets, and marks all, in bytes.
    room: u64,
    marks: (u64, u64),
    parameters: Option<&'static Parameters>,
    /// The time that is simulated, of which the last part is measured.
    time: u64,
    measured: u64,
    mtu: Mtu,
}

/// One side of a connection.
struct Side {
    requester: Requester,
    responder: Responder<Region, Vec<Slot<Region>>>,
    world: World,
    again: Option<u64>,
    /// What waits for its link.
    queue: VecDeque<Sent>,
}

/// What happens at a time.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet from the link of a side of a connection has come to the switch.
    AtSwitch(usize),
    /// A packet of the bottleneck's queue has left it.
    Through,
    /// Packets of a connection arrive at a side: true for the one whose packets took the bottleneck.
    Arrival(usize, bool),
    /// A side runs.
    Run(usize, bool),
}

struct InQueue {
    connection: usize,
    sent: Sent,
    marked: bool,
    len: u64,
}

/// What came of a scene.
#[derive(Debug)]
struct Outcome {
    /// Bytes that each connection has moved in the measured time.
    moved: Vec<u64>,
    dropped: u64,
    passed: u64,
    marked: u64,
    notified: u64,
    longest_queue: u64,
}

struct Simulation {
    scene: Scene,
    /// Of each connection, the side that fills the bottleneck, and the other one.
    sides: Vec<[Side; 2]>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    now: u64,
    queue: VecDeque<InQueue>,
    queued: u64,
    /// Packets that arrive: of each connection, towards the receiver and back.
    arriving: Vec<[VecDeque<(Sent, bool)>; 2]>,
    rng: Rng,
    outcome: Outcome,
}

fn wire_len(sent: &Sent) -> u64 {
    Packet::new(sent.headers, sent.payload.len() as u32).udp_payload_len() as u64 + BELOW
}

impl Simulation {
    fn new(scene: Scene, seed: u64) -> Self {
        let mut sides = Vec::new();
        for number in 0..scene.senders {
            sides.push([0, 1].map(|side| Side::new(&scene, seed ^ (number as u64) << 8 ^ side)));
        }
        let mut simulation = Self {
            scene,
            sides,
            events: BinaryHeap::new(),
            order: 0,
            now: 0,
            queue: VecDeque::new(),
            queued: 0,
            arriving: (0..scene.senders).map(|_| Default::default()).collect(),
            rng: Rng::new(seed),
            outcome: Outcome {
                moved: vec![0; scene.senders],
                dropped: 0,
                passed: 0,
                marked: 0,
                notified: 0,
                longest_queue: 0,
            },
        };
        for number in 0..scene.senders {
            // They begin one after the other.
            let start = simulation.rng.below(2_000_000);
            simulation.at(start, Event::Run(number, scene.reads));
        }
        simulation
    }

    fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    fn run(mut self) -> Outcome {
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            if time > self.scene.time {
                break;
            }
            self.now = time;
            match event {
                Event::AtSwitch(connection) => self.at_switch(connection),
                Event::Through => self.through(),
                Event::Arrival(connection, through) => self.arrival(connection, through),
                Event::Run(connection, back) => {
                    let side = &mut self.sides[connection][usize::from(back)];
                    if side.again.is_none_or(|again| again <= time) {
                        self.run_side(connection, back);
                    }
                }
            }
        }
        self.outcome
    }

    /// Runs the engines of a side, and gives what they send to its link.
    fn run_side(&mut self, connection: usize, back: bool) {
        let (now, reads, measures) = (self.now, self.scene.reads, self.measures());
        let side = &mut self.sides[connection][usize::from(back)];
        side.again = None;
        if back == reads {
            let done = side.post(reads);
            if measures {
                self.outcome.moved[connection] += done * MESSAGE as u64;
            }
        }
        let next = side.run(now);
        let idle = side.queue.is_empty();
        let sent = side.world.take_sent();
        if back {
            for packet in sent {
                self.arriving[connection][1].push_back((packet, false));
                self.at(now + self.scene.delay, Event::Arrival(connection, false));
            }
        } else {
            side.queue.extend(sent);
            if idle {
                self.start_link(connection);
            }
        }
        if let Some(next) = next {
            self.again(connection, back, next.max(now + 1));
        }
    }

    fn again(&mut self, connection: usize, back: bool, time: u64) {
        let side = &mut self.sides[connection][usize::from(back)];
        if side.again.is_none_or(|again| time < again) {
            side.again = Some(time);
            self.at(time, Event::Run(connection, back));
        }
    }

    /// Sends the next packet of a sender's own queue.
    fn start_link(&mut self, connection: usize) {
        let side = &mut self.sides[connection][0];
        if let Some(packet) = side.queue.front() {
            let time = wire_len(packet) * 8_000_000_000 / self.scene.link;
            self.at(self.now + time, Event::AtSwitch(connection));
        }
    }

    fn at_switch(&mut self, connection: usize) {
        let side = &mut self.sides[connection][0];
        let sent = side.queue.pop_front().expect("a packet was on its link");
        if side.queue.len() < HIGH_WATER / 4 {
            self.again(connection, false, self.now);
        }
        self.start_link(connection);
        if sent.headers.opcode() == Opcode::RcAcknowledge {
            // Those of a side that answers READs; they take no room.
            self.arriving[connection][0].push_back((sent, false));
            self.at(
                self.now + self.scene.delay,
                Event::Arrival(connection, true),
            );
            return;
        }
        let len = wire_len(&sent);
        if self.queued + len > self.scene.room {
            self.outcome.dropped += u64::from(self.measures());
            return;
        }
        let (some, all) = self.scene.marks;
        let permille = match self.queued {
            queued if queued < some => 0,
            queued if queued >= all => 1000,
            // A hundredth at the end, as published.
            queued => (10 * (queued - some) / (all - some)) as u32,
        };
        let marked = self.scene.parameters.is_some() && self.rng.hits(permille);
        self.outcome.marked += u64::from(marked);
        self.queued += len;
        self.outcome.longest_queue = self.outcome.longest_queue.max(self.queued);
        self.queue.push_back(InQueue {
            connection,
            sent,
            marked,
            len,
        });
        if self.queue.len() == 1 {
            self.serve();
        }
    }

    /// Whether what happens now counts.
    fn measures(&self) -> bool {
        self.now >= self.scene.time - self.scene.measured
    }

    fn serve(&mut self) {
        if let Some(first) = self.queue.front() {
            let time = first.len * 8_000_000_000 / self.scene.bottleneck;
            self.at(self.now + time, Event::Through);
        }
    }

    fn through(&mut self) {
        let InQueue {
            connection,
            sent,
            marked,
            len,
        } = self.queue.pop_front().expect("a packet was being sent");
        self.queued -= len;
        self.outcome.passed += u64::from(self.measures());
        self.arriving[connection][0].push_back((sent, marked));
        self.at(
            self.now + self.scene.delay,
            Event::Arrival(connection, true),
        );
        self.serve();
    }

    fn arrival(&mut self, connection: usize, through: bool) {
        let packets = &mut self.arriving[connection][usize::from(!through)];
        let (sent, marked) = packets.pop_front().expect("a packet arrives");
        let side = &mut self.sides[connection][usize::from(through)];
        let handled = side.receive(&sent, marked, self.now);
        self.outcome.notified += u64::from(handled);
        self.again(connection, through, self.now + 1_000);
    }
}

impl Side {
    fn new(scene: &Scene, seed: u64) -> Self {
        let mut send = send_attr(Service::Rc);
        send.mtu = scene.mtu;
        send.window = 1024;
        // 67 ms, as programs mostly have it.
        send.ack_timeout = AckTimeout::new(14);
        let mut recv = recv_attr(Service::Rc);
        recv.mtu = scene.mtu;
        let (mut requester, mut responder) = (Requester::new(), Responder::new(false, slots(8)));
        responder.start(recv);
        responder.established();
        requester.start(send);
        let mut world = World::new(MESSAGE, seed);
        world.longest_run = 16;
        world.exact_runs = true;
        world.congestion = scene.parameters.map(Congestion::new);
        Self {
            requester,
            responder,
            world,
            again: None,
            queue: VecDeque::new(),
        }
    }

    /// Keeps eight messages under way; returns how many were completed.
    fn post(&mut self, reads: bool) -> u64 {
        let done = self.world.completions.len();
        let first = done.saturating_sub(16);
        for completion in &self.world.completions[first..] {
            assert_eq!(completion.status, WcStatus::Success);
        }
        for work in &mut self.world.queue[first..done] {
            work.data = Vec::new();
        }
        let mut new = 0;
        while self.world.queue.len() < done + 8 {
            let (va, rkey) = (BASE, RKEY);
            let op = match reads {
                true => SendOp::Read {
                    va,
                    rkey,
                    invalidate: false,
                },
                false => SendOp::Write {
                    va,
                    rkey,
                    imm: None,
                },
            };
            let wr = SendWr {
                op,
                length: MESSAGE as u32,
                signaled: true,
                solicited: false,
                fence: false,
                srqn: Srqn::default(),
            };
            self.world.post_wr(wr, vec![7; MESSAGE]);
            new += 1;
        }
        new
    }

    /// Runs the engines; returns when they are to run again.
    fn run(&mut self, now: u64) -> Option<u64> {
        let time = Time::from_ns(now);
        if let Some(congestion) = &mut self.world.congestion {
            congestion.begin(time);
            self.requester.set_paced(congestion.limit().is_some());
            if let Some(packet) = congestion.notification(SELF, Pkey::DEFAULT) {
                self.world.sent.push_back(Sent {
                    headers: *packet.headers(),
                    payload: vec![0; packet.payload_len() as usize],
                    path: self.world.paths.current,
                    follows: false,
                });
            }
        }
        let room = HIGH_WATER.saturating_sub(self.queue.len()) as u32;
        let mut more = false;
        if room > 0 {
            more |= self.responder.run(room, &mut self.world) == Run::More;
            more |= self.requester.run(time, room, &mut self.world) == Run::More;
        }
        let congestion = self.world.congestion.as_ref();
        let paced = congestion.and_then(Congestion::next_deadline);
        let deadline = self.requester.next_deadline();
        let soon = (more && room as usize > self.world.sent.len()).then_some(now + 1_000);
        let times = [paced.map(Time::as_ns), deadline.map(Time::as_ns), soon];
        times.into_iter().flatten().min()
    }

    /// Handles a packet; returns whether it is a notification with an effect.
    fn receive(&mut self, sent: &Sent, marked: bool, now: u64) -> bool {
        let packet = Packet::new(sent.headers, sent.payload.len() as u32);
        let (time, opcode) = (Time::from_ns(now), packet.bth().opcode);
        if let Some(congestion) = self.world.congestion.as_mut().filter(|_| marked) {
            congestion.marked(time);
        }
        if opcode == Opcode::Cnp {
            let congestion = self.world.congestion.as_mut();
            return congestion.is_some_and(|congestion| congestion.notified(time));
        }
        if opcode.is_response() {
            self.requester
                .receive(&packet, &sent.payload[..], time, &mut self.world);
        } else {
            self.responder
                .receive(&packet, &sent.payload[..], &mut self.world);
        }
        false
    }
}

impl Outcome {
    /// Jain's index of fairness: 1 where all have the same, 1/n where one has everything.
    fn fairness(&self) -> f64 {
        let sum: f64 = self.moved.iter().map(|&moved| moved as f64).sum();
        let squares: f64 = self.moved.iter().map(|&moved| (moved as f64).powi(2)).sum();
        sum * sum / (self.moved.len() as f64 * squares)
    }

    /// The part of packets that was dropped.
    fn loss(&self) -> f64 {
        self.dropped as f64 / (self.dropped + self.passed) as f64
    }

    /// The part of the bottleneck that messages have taken.
    fn used(&self, scene: &Scene) -> f64 {
        let bytes: u64 = self.moved.iter().sum();
        bytes as f64 * 8e9 / scene.measured as f64 / scene.bottleneck as f64
    }
}

/// A scene with and without congestion control.
fn compare(scene: Scene, seed: u64) -> [Outcome; 2] {
    let without = Scene {
        parameters: None,
        ..scene
    };
    let outcomes = [scene, without].map(|scene| Simulation::new(scene, seed).run());
    for (outcome, name) in outcomes.iter().zip(["with", "without"]) {
        println!(
            "{} senders over {} Mbit/s {name}: loss {:.4}, used {:.3}, fairness {:.3}, queue {}, {} marked, {} notified",
            scene.senders,
            scene.bottleneck / 1_000_000,
            outcome.loss(),
            outcome.used(&scene),
            outcome.fairness(),
            outcome.longest_queue,
            outcome.marked,
            outcome.notified,
        );
    }
    outcomes
}

const fn software(senders: usize, bottleneck: u64) -> Scene {
    Scene {
        senders,
        reads: false,
        link: 10 * bottleneck,
        bottleneck,
        delay: 100_000,
        room: 256 << 10,
        marks: (32 << 10, 128 << 10),
        parameters: Some(&Parameters::SOFTWARE),
        time: 1_500_000_000,
        measured: 1_000_000_000,
        mtu: Mtu::Mtu1024,
    }
}

#[test]
fn senders_share_a_bottleneck_of_a_software_device() {
    for (senders, bottleneck) in [
        (2, 200),
        (4, 200),
        (8, 200),
        (2, 1000),
        (8, 1000),
        (16, 1000),
    ] {
        let scene = software(senders, bottleneck * 1_000_000);
        let [with, without] = compare(scene, 7);
        assert!(with.fairness() > 0.95, "unfair");
        assert!(with.used(&scene) > 0.65, "it is hardly used");
        assert!(with.used(&scene) > 1.2 * without.used(&scene), "no gain");
        assert!(without.loss() > 0.2, "there is no bottleneck");
        assert!(with.loss() < without.loss() / 10.0, "it loses");
        assert!(with.notified > 0 && without.notified == 0);
    }
}

/// What a responder sends is limited as well.
#[test]
fn responses_to_reads_share_a_bottleneck() {
    let scene = Scene {
        reads: true,
        ..software(4, 500_000_000)
    };
    let [with, without] = compare(scene, 11);
    assert!(with.fairness() > 0.95, "unfair");
    assert!(with.used(&scene) > 0.65, "it is hardly used");
    assert!(with.loss() < without.loss() / 10.0, "it loses");
}

/// The parameters of the publication, on links like those that they are for.
#[test]
fn senders_share_a_bottleneck_as_published() {
    for senders in [2, 4, 8, 16] {
        let scene = Scene {
            link: 40_000_000_000,
            bottleneck: 40_000_000_000,
            delay: 4_000,
            room: 1 << 20,
            marks: (5_000, 200_000),
            parameters: Some(&Parameters::PUBLISHED),
            time: 60_000_000,
            measured: 30_000_000,
            ..software(senders, 0)
        };
        let [with, without] = compare(scene, 7);
        assert!(with.fairness() > 0.95, "unfair");
        assert!(with.used(&scene) > 0.85, "it is hardly used");
        assert!(with.loss() == 0.0, "it loses");
        assert!(senders < 8 || without.fairness() < 0.5);
    }
}
