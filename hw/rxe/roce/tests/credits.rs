// SPDX-License-Identifier: GPL-2.0

//! End-to-end flow control: a responder tells its receives, a requester holds back what they do not suffice for.

mod common;

use common::network::{Endpoint, Impairments, Network};
use common::world::{slots, Region, Sent, World, BASE, RKEY};
use common::{recv_attr, send_attr, SELF, SEND};
use proptest::prelude::*;
use roce::memory::{SendOp, TransmitError};
use roce::opcode::{Kind, Opcode};
use roce::pkey::Pkey;
use roce::psn::{Msn, Psn};
use roce::requester::Requester;
use roce::responder::{Responder, Slot};
use roce::state::{Counter, Run, Service, Time, WcStatus};
use roce::timer::RnrTimer;
use roce::wire::{Aeth, Bth, Credits, Headers, Packet, Parts, Syndrome};

const WRITE: SendOp = SendOp::Write {
    va: BASE,
    rkey: RKEY,
    imm: None,
};
const WRITE_IMM: SendOp = SendOp::Write {
    va: BASE,
    rkey: RKEY,
    imm: Some(5),
};

#[test]
fn codes_stand_for_the_numbers_of_the_table() {
    let known = [(0, 0), (4, 4), (5, 6), (7, 12), (16, 256), (30, 32768)];
    for (code, count) in known {
        assert_eq!(Credits::new(code).count(), Some(count));
    }
    assert_eq!(Credits::UNLIMITED.count(), None);
    assert_eq!(Credits::of(5), Credits::new(4));
    assert_eq!(Credits::of(u32::MAX), Credits::new(30));
}

proptest! {
    #[test]
    fn no_more_receives_are_told_than_there_are(receives in 0..50_000u32) {
        let told = Credits::of(receives).count().expect("it is a number");
        prop_assert!(told <= receives && receives.min(32768) <= told + told / 2 + 1);
        let next = Credits::new(Credits::of(receives).code() + 1).count();
        prop_assert!(next.is_none_or(|next| next > receives));
    }
}

/// A responder and its driver.
struct Receiver {
    responder: Responder<Region, Vec<Slot<Region>>>,
    world: World,
    psn: u32,
}

impl Receiver {
    fn new(receives: usize, has_srq: bool) -> Self {
        let mut responder = Responder::new(has_srq, slots(4));
        responder.start(recv_attr(Service::Rc));
        let mut world = World::new(4096, 1);
        world.tells_receives = true;
        for _ in 0..receives {
            world.post_recv(4096);
        }
        Self {
            responder,
            world,
            psn: 100,
        }
    }

    fn request(&mut self, opcode: Opcode, parts: Parts, len: u32) {
        let mut bth = Bth::new(opcode, Pkey::DEFAULT, SELF, Psn::new(self.psn));
        bth.ack_req = true;
        self.psn += 1;
        let packet = Packet::new(Headers::new(bth, &parts), len);
        let payload = vec![0; len as usize];
        self.responder
            .receive(&packet, payload.as_slice(), &mut self.world);
    }

    /// What is sent now, with the credits and the MSN.
    fn answers(&mut self) -> Vec<(Kind, Option<u32>, u32)> {
        assert_eq!(self.responder.run(100, &mut self.world), Run::Idle);
        let sent = self.world.take_sent();
        let told = |sent: &Sent| {
            let aeth = sent.headers.aeth().expect("an answer has an AETH");
            let Syndrome::Ack(credits) = aeth.syndrome else {
                panic!("no acknowledge: {:?}", aeth.syndrome);
            };
            (
                sent.headers.opcode().kind(),
                credits.count(),
                aeth.msn.get(),
            )
        };
        sent.iter().map(told).collect()
    }
}

#[test]
fn each_answer_tells_the_receives() {
    let mut receiver = Receiver::new(5, false);
    receiver.request(Opcode::RcSendOnly, Parts::default(), 10);
    assert_eq!(receiver.answers(), [(Kind::Acknowledge, Some(4), 1)]);
    // The receive of a message that is not complete is one for it.
    receiver.request(Opcode::RcSendFirst, Parts::default(), 256);
    assert_eq!(receiver.answers(), [(Kind::Acknowledge, Some(4), 1)]);
    receiver.request(Opcode::RcSendLast, Parts::default(), 10);
    assert_eq!(receiver.answers(), [(Kind::Acknowledge, Some(3), 2)]);
    let mut parts = Parts::default();
    (parts.reth.va, parts.reth.rkey, parts.reth.length) = (BASE, RKEY, 8);
    receiver.request(Opcode::RcReadRequest, parts, 0);
    assert_eq!(receiver.answers(), [(Kind::ReadResponse, Some(3), 3)]);
}

#[test]
fn a_shared_receive_queue_tells_nothing() {
    let mut receiver = Receiver::new(5, true);
    receiver.request(Opcode::RcSendOnly, Parts::default(), 10);
    assert_eq!(receiver.answers(), [(Kind::Acknowledge, None, 1)]);
    let mut silent = Receiver::new(5, false);
    silent.world.tells_receives = false;
    silent.request(Opcode::RcSendOnly, Parts::default(), 10);
    assert_eq!(silent.answers(), [(Kind::Acknowledge, None, 1)]);
}

#[test]
fn receives_after_none_are_told_once_without_a_request() {
    let mut receiver = Receiver::new(1, false);
    assert_eq!(receiver.answers(), []);
    receiver.request(Opcode::RcSendOnly, Parts::default(), 10);
    assert_eq!(receiver.answers(), [(Kind::Acknowledge, Some(0), 1)]);
    assert_eq!(receiver.answers(), []);
    receiver.world.post_recv(100);
    receiver.world.post_recv(100);
    assert_eq!(receiver.answers(), [(Kind::Acknowledge, Some(2), 1)]);
    receiver.world.post_recv(100);
    assert_eq!(receiver.answers(), []);
    // In the error state nothing is told.
    let mut receiver = Receiver::new(1, false);
    receiver.request(Opcode::RcSendOnly, Parts::default(), 10);
    receiver.answers();
    receiver.responder.error();
    receiver.world.post_recv(100);
    assert_eq!(receiver.answers(), []);
}

/// A requester and its driver.
struct Sender {
    requester: Requester,
    world: World,
}

impl Sender {
    fn new() -> Self {
        let mut requester = Requester::new();
        requester.start(send_attr(Service::Rc));
        Self {
            requester,
            world: World::new(64, 1),
        }
    }

    fn post(&mut self, op: SendOp, len: usize) {
        self.world.post(op, vec![7; len]);
    }

    /// The PSNs that are sent now, and whether the last one requests an acknowledge.
    fn sent(&mut self) -> (Vec<u32>, bool) {
        let now = Time::from_ns(1_000);
        assert_eq!(self.requester.run(now, 1000, &mut self.world), Run::Idle);
        let sent = self.world.take_sent();
        let asks = sent.last().is_some_and(|sent| sent.headers.bth().ack_req);
        (sent.iter().map(|s| s.headers.psn().get()).collect(), asks)
    }

    fn answer(&mut self, syndrome: Syndrome, psn: u32, msn: u32) {
        let aeth = Aeth {
            syndrome,
            msn: Msn::new(msn),
        };
        let parts = Parts {
            aeth,
            ..Parts::default()
        };
        let bth = Bth::new(Opcode::RcAcknowledge, Pkey::DEFAULT, SELF, Psn::new(psn));
        let packet = Packet::new(Headers::new(bth, &parts), 0);
        let now = Time::from_ns(1_000);
        let none: &[u8] = &[];
        self.requester.receive(&packet, none, now, &mut self.world);
    }

    fn credits(&mut self, count: u32, psn: u32, msn: u32) {
        self.answer(Syndrome::Ack(Credits::of(count)), psn, msn);
    }

    /// A sender that has sent a message, and knows of receives for so many others.
    fn with(count: u32) -> Self {
        let mut sender = Self::new();
        sender.post(SEND, 10);
        assert_eq!(sender.sent(), (vec![100], true));
        sender.credits(count, 100, 1);
        sender
    }
}

#[test]
fn nothing_is_held_back_before_the_peer_tells() {
    let mut sender = Sender::new();
    for _ in 0..5 {
        sender.post(SEND, 10);
    }
    assert_eq!(sender.sent(), (vec![100, 101, 102, 103, 104], true));
}

#[test]
fn sends_are_held_back_at_the_limit() {
    let mut sender = Sender::with(2);
    for _ in 0..5 {
        sender.post(SEND, 10);
    }
    assert_eq!(sender.sent(), (vec![101, 102], true));
    assert_eq!(sender.sent(), (vec![], false));
    sender.credits(2, 102, 3);
    assert_eq!(sender.sent(), (vec![103, 104], true));
    // All are acknowledged, and none can be received: one is sent alone.
    sender.credits(0, 104, 5);
    assert_eq!(sender.sent(), (vec![105], true));
    assert_eq!(sender.sent(), (vec![], false));
    assert_eq!(sender.world.completions.len(), 5);
}

#[test]
fn one_packet_of_a_long_message_goes_alone() {
    let mut sender = Sender::with(0);
    sender.world.longest_run = 16;
    sender.world.exact_runs = true;
    sender.post(SEND, 1000);
    assert_eq!(sender.sent(), (vec![101], true));
    // The message has its receive now.
    sender.credits(1, 101, 1);
    assert_eq!(sender.sent(), (vec![102, 103, 104], true));
}

#[test]
fn a_report_without_a_request_is_heard() {
    let mut sender = Sender::with(1);
    for _ in 0..3 {
        sender.post(SEND, 10);
    }
    assert_eq!(sender.sent(), (vec![101], true));
    // Of the message that was acknowledged before.
    sender.credits(3, 100, 1);
    assert_eq!(sender.sent(), (vec![102, 103], true));
}

#[test]
fn an_older_report_takes_nothing_back() {
    let mut sender = Sender::with(4);
    sender.credits(1, 100, 1);
    sender.credits(0, 99, 0);
    for _ in 0..6 {
        sender.post(SEND, 10);
    }
    assert_eq!(sender.sent(), (vec![101, 102, 103, 104], true));
}

#[test]
fn a_report_of_the_future_is_not_heard() {
    let mut sender = Sender::with(1);
    sender.credits(100, 150, 1);
    sender.post(SEND, 10);
    sender.post(SEND, 10);
    assert_eq!(sender.sent(), (vec![101], true));
}

#[test]
fn a_peer_that_tells_no_more_is_not_limited() {
    let mut sender = Sender::with(1);
    sender.answer(Syndrome::ACK, 100, 1);
    for _ in 0..3 {
        sender.post(SEND, 10);
    }
    assert_eq!(sender.sent(), (vec![101, 102, 103], true));
}

#[test]
fn messages_without_a_receive_are_not_limited() {
    let mut sender = Sender::with(0);
    for _ in 0..3 {
        sender.post(WRITE, 10);
    }
    sender.post(WRITE_IMM, 10);
    sender.post(WRITE, 10);
    assert_eq!(sender.sent(), (vec![101, 102, 103], true));
    // They count as messages of the peer.
    sender.credits(0, 103, 4);
    assert_eq!(sender.sent(), (vec![104], true));
    sender.credits(0, 104, 5);
    assert_eq!(sender.sent(), (vec![105], true));
}

#[test]
fn local_operations_are_no_messages() {
    let mut sender = Sender::with(2);
    for _ in 0..2 {
        let opcode = roce::state::WcOpcode::BindMw;
        let wait_all = false;
        sender.post(SendOp::Local { opcode, wait_all }, 0);
    }
    for _ in 0..3 {
        sender.post(SEND, 10);
    }
    assert_eq!(sender.sent(), (vec![101, 102], true));
}

#[test]
fn an_acknowledge_is_requested_where_the_limit_is_learned_late() {
    let mut sender = Sender::new();
    for _ in 0..3 {
        sender.post(SEND, 10);
    }
    // The second message, which is to request the acknowledge of the first one, finds no room in the network's queue.
    sender.world.good_transmits = 1;
    sender
        .world
        .transmit_errors
        .push_back(TransmitError::QueueFull);
    let now = Time::from_ns(1_000);
    assert_eq!(
        sender.requester.run(now, 1000, &mut sender.world),
        Run::Blocked
    );
    let first = sender.world.take_sent();
    assert!(first.len() == 1 && !first[0].headers.bth().ack_req);
    // Then it becomes known that there is a receive for the first one alone.
    sender.credits(1, 99, 0);
    assert_eq!(sender.sent(), (vec![100], true));
    sender.credits(0, 100, 1);
    assert_eq!(sender.sent(), (vec![101], true));
}

#[test]
fn the_message_that_goes_alone_is_subject_to_rnr_naks() {
    let mut sender = Sender::with(0);
    sender.post(SEND, 10);
    sender.post(SEND, 10);
    assert_eq!(sender.sent(), (vec![101], true));
    sender.answer(Syndrome::RnrNak(RnrTimer::new(1)), 101, 1);
    assert_eq!(sender.world.count(Counter::RcvdRnr), 1);
    let later = Time::from_ns(10_000_000);
    assert_eq!(
        sender.requester.run(later, 1000, &mut sender.world),
        Run::Idle
    );
    let psns: Vec<_> = sender
        .world
        .take_sent()
        .iter()
        .map(|s| s.headers.psn().get())
        .collect();
    assert_eq!(psns, [101]);
}

/// Sends messages to a peer that posts its receives one after the other. Returns how many packets were sent, and how many RNR NAKs.
fn stream(tells: bool) -> (u64, usize) {
    const MESSAGES: usize = 200;
    let mut worlds = [0, 1].map(|side| World::new(64, 3 + side));
    worlds[1].tells_receives = tells;
    for _ in 0..MESSAGES {
        worlds[0].post(SEND, vec![1; 100]);
    }
    let mut ends = worlds
        .map(|world| Endpoint::new(world, send_attr(Service::Rc), recv_attr(Service::Rc), false));
    ends[1].later = (0..MESSAGES as u64)
        .map(|nth| (nth / 10 * 20_000, 100))
        .rev()
        .collect();
    let mut network = Network::new(ends, Impairments::default(), 2);
    assert!(network.run(1_000_000_000), "it does not end");
    let [sender, receiver] = &network.ends;
    assert_eq!(sender.world.statuses(), [WcStatus::Success; MESSAGES]);
    (network.sent, receiver.world.count(Counter::SentRnr))
}

#[test]
fn fewer_packets_are_refused_than_without_it() {
    let (with, without) = (stream(true), stream(false));
    println!("packets and RNR NAKs: {with:?} with flow control, {without:?} without");
    assert!(with.0 * 2 < without.0, "{with:?} {without:?}");
    assert!(with.1 <= without.1);
}
