// SPDX-License-Identifier: GPL-2.0

//! Simulation: an extended reliable connection over a network that loses, repeats, reorders and corrupts packets. Each
//! message arrives once, in the shared receive queue that its request names, in order and intact; READs, WRITEs and atomics are
//! executed in the order of the requests, with the keys of the queue that each names.
//!
//! concerns rows 3.004, 8.002, 8.003

mod common;

use common::network::{Endpoint, Impairments, Network};
use common::world::{World, BASE};
use common::{recv_attr, send_attr, Rng};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use roce::memory::{AtomicOp, SendExtra, SendOp, SendWr};
use roce::mtu::Mtu;
use roce::state::{RecvOpcode, Service, WcStatus};
use roce::timer::AckTimeout;
use roce::wire::Srqn;

/// The numbers of the shared receive queues, which are the keys for them, too.
const QUEUES: [u32; 3] = [0x2_0001, 0x2_0002, 0xff_ffff];
/// Length of the area that is read.
const READ_LEN: usize = 8192;
/// Offset of the areas of the WRITEs; the counter of the atomics is before the area that is read.
const WRITE_AREA: usize = 8 + READ_LEN;
/// Longer than any case takes, in virtual nanoseconds.
const END: u64 = 3_000_000_000;

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    impairments: Impairments,
    mtu: Mtu,
    messages: usize,
    longest: u64,
    longest_run: u32,
    /// Per thousand: a queue has no receive yet.
    late: u32,
}

fn case() -> impl Strategy<Value = Case> {
    let bad = (0..100u32, 0..60u32, 0..150u32, 0..30u32, 0..200u32);
    let shape = (any::<u64>(), 0..5usize, 1..40usize, 0..5u32, any::<bool>());
    (shape, bad, any::<bool>()).prop_map(
        |((seed, mtu, messages, long, late), (loss, duplicate, reorder, corrupt, busy), calm)| {
            let bad = Impairments {
                loss,
                duplicate,
                reorder,
                corrupt,
                busy,
                absent: busy,
                dropped: 0,
            };
            Case {
                seed,
                impairments: if calm { Impairments::default() } else { bad },
                mtu: Mtu::ALL[mtu],
                messages,
                longest: 1 << (3 * long),
                longest_run: [1, 3, 16, 100][(seed >> 8) as usize % 4],
                late: if late { 200 } else { 0 },
            }
        },
    )
}

/// A message for a shared receive queue.
struct Expected {
    opcode: RecvOpcode,
    data: Vec<u8>,
    length: u32,
    imm: Option<u32>,
    srqn: Srqn,
}

/// The work of the initiator, and what it leads to.
#[derive(Default)]
struct Plan {
    messages: Vec<Expected>,
    /// By work request: the data that it reads.
    results: Vec<Option<Vec<u8>>>,
    /// What is written behind the area that is read.
    written: Vec<u8>,
    counter: u64,
}

fn plan(case: &Case, constant: &[u8], world: &mut World, rng: &mut Rng) -> Plan {
    let mut plan = Plan::default();
    for _ in 0..case.messages {
        let number = QUEUES[rng.below(3) as usize];
        let (rkey, srqn) = (number, Srqn::new(number));
        let len = rng.below(case.longest + 1) as usize;
        let imm = rng.hits(400).then(|| rng.next() as u32);
        let mut result = None;
        let (op, data) = match rng.below(7) {
            0..=2 => {
                let data = rng.bytes(len);
                plan.messages.push(Expected {
                    opcode: RecvOpcode::Recv,
                    data: data.clone(),
                    length: len as u32,
                    imm,
                    srqn,
                });
                let extra = imm.map_or(SendExtra::None, SendExtra::Imm);
                (SendOp::Send { extra }, data)
            }
            3..=4 => {
                let data = rng.bytes(len);
                let va = BASE + (WRITE_AREA + plan.written.len()) as u64;
                plan.written.extend(&data);
                if imm.is_some() {
                    plan.messages.push(Expected {
                        opcode: RecvOpcode::RecvRdmaWithImm,
                        data: Vec::new(),
                        length: len as u32,
                        imm,
                        srqn,
                    });
                }
                (SendOp::Write { va, rkey, imm }, data)
            }
            5 => {
                let len = len.min(READ_LEN);
                let start = rng.below((READ_LEN - len + 1) as u64) as usize;
                result = Some(constant[start..][..len].to_vec());
                let va = BASE + (8 + start) as u64;
                let invalidate = false;
                (
                    SendOp::Read {
                        va,
                        rkey,
                        invalidate,
                    },
                    vec![0; len],
                )
            }
            _ => {
                let add = rng.next();
                result = Some(plan.counter.to_ne_bytes().to_vec());
                plan.counter = plan.counter.wrapping_add(add);
                let op = AtomicOp::FetchAdd { add };
                (SendOp::Atomic { va: BASE, rkey, op }, vec![0; 8])
            }
        };
        let wr = SendWr {
            op,
            length: data.len() as u32,
            signaled: true,
            solicited: false,
            fence: rng.hits(100),
            srqn,
        };
        world.post_wr(wr, data);
        plan.results.push(result);
    }
    plan
}

/// The target's memory, its queues, and a receive for each message; one more queue is of another domain.
fn target(case: &Case, constant: &[u8], plan: &Plan, rng: &mut Rng) -> World {
    let mut world = World::new(WRITE_AREA + plan.written.len(), case.seed ^ 8);
    world.memory[8..WRITE_AREA].copy_from_slice(constant);
    for number in QUEUES {
        world.add_srq(number, true);
    }
    world.add_srq(0x2_0003, false);
    for message in &plan.messages {
        let len = message.data.len() + rng.below(20) as usize;
        world.post_srq_recv(message.srqn.get(), len);
    }
    (world.late, world.longest_run) = (case.late, case.longest_run);
    world
}

fn endpoint(case: &Case, world: World, service: Service) -> Endpoint {
    let mut send = send_attr(service);
    (send.mtu, send.ack_timeout) = (case.mtu, AckTimeout::new(5));
    let mut recv = recv_attr(service);
    recv.mtu = case.mtu;
    Endpoint::new(world, send, recv, service == Service::XrcTgt)
}

/// Runs a case; returns the number of packets that were delivered, and whether all requests succeeded.
fn run(case: &Case) -> (u64, bool) {
    let mut rng = Rng::new(case.seed);
    let constant = rng.bytes(READ_LEN);
    let mut world = World::new(0, case.seed ^ 7);
    world.longest_run = case.longest_run;
    let plan = plan(case, &constant, &mut world, &mut rng);
    let peer = target(case, &constant, &plan, &mut rng);
    let ends = [
        endpoint(case, world, Service::XrcIni),
        endpoint(case, peer, Service::XrcTgt),
    ];
    let mut network = Network::new(ends, case.impairments, case.seed);
    assert!(network.run(END), "still busy: {case:?}");
    let [initiator, target] = &network.ends;
    let statuses = initiator.world.statuses();
    assert_eq!(statuses.len(), case.messages);
    let is_good = |status: &WcStatus| *status == WcStatus::Success;
    let all = statuses.iter().all(is_good);
    let known = |status: &WcStatus| {
        is_good(status) || matches!(status, WcStatus::RetryExcErr | WcStatus::WrFlushErr)
    };
    assert!(statuses.iter().all(known), "{statuses:?}");
    check(initiator, target, &plan, all);
    (network.delivered, all)
}

fn check(initiator: &Endpoint, target: &Endpoint, plan: &Plan, all: bool) {
    for (index, status) in initiator.world.statuses().iter().enumerate() {
        if let (WcStatus::Success, Some(result)) = (status, &plan.results[index]) {
            assert_eq!(&initiator.world.queue[index].data, result);
        }
    }
    let received = &target.world.received;
    let good = received
        .iter()
        .filter(|received| received.completion.status == WcStatus::Success);
    let mut count = 0;
    for (received, message) in good.zip(&plan.messages) {
        count += 1;
        assert_eq!(received.srqn, Some(message.srqn), "the wrong queue");
        assert_eq!(received.data[..message.data.len()], message.data);
        let completion = &received.completion;
        assert_eq!(completion.opcode, message.opcode);
        assert_eq!(completion.byte_len, message.length);
        assert_eq!(completion.imm, message.imm);
        assert_eq!(completion.src_qpn, common::PEER);
    }
    assert!(received.len() <= plan.messages.len(), "one arrived twice");
    if all {
        assert_eq!(count, plan.messages.len(), "a message is lost");
        let memory = &target.world.memory;
        assert_eq!(memory[WRITE_AREA..], plan.written);
        assert_eq!(memory[..8], plan.counter.to_ne_bytes());
    }
}

#[test]
fn every_message_arrives_once_in_the_queue_that_it_names() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let cases = 1500;
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let totals = std::cell::Cell::new((0u64, 0u32));
    TestRunner::new_with_rng(config, rng)
        .run(&case(), |case| {
            let (delivered, all) = run(&case);
            let (packets, failed) = totals.get();
            totals.set((packets + delivered, failed + u32::from(!all)));
            let harmless = case.impairments.loss + case.impairments.corrupt == 0;
            assert!(all || !harmless, "nothing was lost, and yet");
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let (packets, failed) = totals.get();
    println!("XRC: {cases} cases, {packets} packets delivered, {failed} ended with an error");
    assert!(failed < cases / 20, "too many gave up: {failed}");
}
