// SPDX-License-Identifier: GPL-2.0

//! Runs of packets in the engines: a requester that may send runs sends the same packets as one that may not, and a run is received
//! in one step only if none of its packets may be a duplicate.

mod common;

use common::world::{slots, World, BASE, RKEY};
use common::{recv_attr, send_attr, Rng, SELF};
use roce::memory::{SendExtra, SendOp};
use roce::opcode::Opcode;
use roce::pkey::Pkey;
use roce::psn::{Msn, Psn};
use roce::requester::Requester;
use roce::responder::Responder;
use roce::state::{Run, SendAttr, Service, Time, WcStatus};
use roce::wire::{Aeth, Bth, Headers, Packet, Parts, Syndrome};

/// A requester that may send runs of a certain length.
struct Sender {
    requester: Requester,
    world: World,
    now: u64,
}

impl Sender {
    fn new(attr: SendAttr, longest_run: u32) -> Self {
        let mut requester = Requester::new();
        requester.start(attr);
        let mut world = World::new(64, 1);
        world.longest_run = longest_run;
        world.exact_runs = true;
        Self {
            requester,
            world,
            now: 1_000,
        }
    }

    /// Runs; returns the headers and payloads of what it sends.
    fn sends(&mut self) -> Vec<(Headers, Vec<u8>)> {
        let run = self
            .requester
            .run(Time::from_ns(self.now), 10_000, &mut self.world);
        assert_eq!(run, Run::Idle);
        let sent = self.world.take_sent().into_iter();
        sent.map(|packet| (packet.headers, packet.payload))
            .collect()
    }

    fn take(&mut self, packet: &Packet, payload: &[u8]) {
        self.requester
            .receive(packet, payload, Time::from_ns(self.now), &mut self.world);
    }

    fn time_out(&mut self) {
        if let Some(deadline) = self.requester.next_deadline() {
            self.now = deadline.as_ns();
        }
    }
}

fn response(opcode: Opcode, psn: Psn, syndrome: Syndrome, payload_len: u32, count: u32) -> Packet {
    let parts = Parts {
        aeth: Aeth {
            syndrome,
            msn: Msn::new(0),
        },
        ..Parts::default()
    };
    let bth = Bth::new(opcode, Pkey::DEFAULT, SELF, psn);
    Packet::run(Headers::new(bth, &parts), payload_len, count)
}

/// What a sender does in a scenario that follows from `seed`: messages, acknowledges of some packets, silence.
fn story(seed: u64, service: Service, longest_run: u32) -> Vec<Vec<(Headers, Vec<u8>)>> {
    let mut rng = Rng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let windows = [1, 2, 5, 17, 64, 200];
    let attr = SendAttr {
        window: windows[rng.below(6) as usize],
        ..send_attr(service)
    };
    let mut sender = Sender::new(attr, longest_run);
    let mut psns = vec![attr.sq_psn];
    let mut rounds = Vec::new();
    for _ in 0..12 {
        for _ in 0..rng.below(3) {
            let most = if rng.hits(500) { 700 } else { 20_000 };
            let op = match rng.hits(500) {
                true => SendOp::Send {
                    extra: SendExtra::None,
                },
                false => SendOp::Write {
                    va: BASE,
                    rkey: RKEY,
                    imm: None,
                },
            };
            let len = rng.below(most) as usize;
            sender.world.post(op, rng.bytes(len));
        }
        let sent = sender.sends();
        psns.extend(sent.iter().map(|(headers, _)| headers.psn()));
        rounds.push(sent);
        match rng.below(4) {
            0 => sender.time_out(),
            _ => {
                let psn = psns[rng.below(psns.len() as u64) as usize];
                let ack = response(Opcode::RcAcknowledge, psn, Syndrome::ACK, 0, 1);
                sender.take(&ack, &[]);
            }
        }
    }
    rounds
}

#[test]
fn runs_are_the_packets_that_single_ones_would_be() {
    let mut longest = 0;
    for seed in 1..400 {
        for service in [Service::Rc, Service::Uc] {
            let single = story(seed, service, 1);
            for longest_run in [2, 3, 16, 100] {
                let runs = story(seed, service, longest_run);
                assert_eq!(runs, single, "seed {seed}, {service:?}, {longest_run}");
            }
            longest = single
                .iter()
                .map(Vec::len)
                .max()
                .max(Some(longest))
                .unwrap_or(0);
        }
    }
    assert!(longest > 64, "no long messages were sent");
}

/// A READ of 300 bytes, two packets of 256.
fn reader() -> Sender {
    let mut sender = Sender::new(send_attr(Service::Rc), 16);
    let op = SendOp::Read {
        va: BASE,
        rkey: RKEY,
        invalidate: false,
    };
    sender.world.post(op, vec![0; 300]);
    assert_eq!(sender.sends().len(), 1);
    sender
}

#[test]
fn a_response_run_is_as_long_as_its_packets() {
    let whole = |len, count| {
        response(
            Opcode::RcReadResponseOnly,
            Psn::new(100),
            Syndrome::ACK,
            len,
            count,
        )
    };
    let mut sender = reader();
    sender.take(&whole(300, 2), &[5; 300]);
    assert_eq!(sender.world.statuses(), [WcStatus::Success]);
    assert_eq!(sender.world.queue[0].data, [5; 300]);
    for (len, count) in [(300, 3), (300, 1), (299, 2), (512, 2), (301, 2)] {
        let mut sender = reader();
        sender.take(&whole(len, count), &vec![5; len as usize]);
        assert!(
            !sender.world.statuses().contains(&WcStatus::Success),
            "{len} bytes, {count} packets"
        );
    }
}

#[test]
fn a_run_that_may_begin_with_duplicates_is_taken_packet_by_packet() {
    let responder = |service| {
        let mut responder = Responder::new(false, slots(4));
        responder.start(recv_attr(service));
        responder
    };
    let reliable = responder(Service::Rc);
    assert!(reliable.takes_run(Psn::new(100)));
    assert!(!reliable.takes_run(Psn::new(99)) && !reliable.takes_run(Psn::new(101)));
    assert!(responder(Service::Uc).takes_run(Psn::new(99)));
}

#[test]
fn a_response_run_that_begins_with_a_duplicate_is_taken_packet_by_packet() {
    let mut sender = reader();
    let answer = |opcode, psn, len| response(opcode, Psn::new(psn), Syndrome::ACK, len, 1);
    let (first, last) = (Opcode::RcReadResponseFirst, Opcode::RcReadResponseLast);
    assert!(sender.requester.takes_run(Psn::new(100)));
    sender.take(&answer(first, 100, 256), &[5; 256]);
    assert!(!sender.requester.takes_run(Psn::new(100)));
    assert!(sender.requester.takes_run(Psn::new(101)));
    // The peer answers the whole READ again.
    sender.take(&answer(first, 100, 256), &[6; 256]);
    sender.take(&answer(last, 101, 44), &[6; 44]);
    assert_eq!(sender.world.statuses(), [WcStatus::Success]);
    assert!(!sender.requester.takes_run(Psn::new(102)));
}

#[test]
fn a_budget_counts_the_packets_of_runs() {
    for (longest_run, most) in [(1, 10), (4, 12), (16, 16)] {
        let mut sender = Sender::new(send_attr(Service::Uc), longest_run);
        let op = SendOp::Send {
            extra: SendExtra::None,
        };
        sender.world.post(op, vec![0; 256 * 100]);
        let now = Time::from_ns(sender.now);
        let run = sender.requester.run(now, 10, &mut sender.world);
        assert_eq!(run, Run::More);
        assert_eq!(sender.world.take_sent().len(), most);
    }
}
