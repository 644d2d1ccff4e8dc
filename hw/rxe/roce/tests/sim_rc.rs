// SPDX-License-Identifier: GPL-2.0

//! Simulation: two reliable connected queue pairs over a network that loses, repeats, reorders and
//! corrupts packets. Every message arrives once, in order and intact, or the right error completes, and neither takes
//! more time or packets than the losses explain.
//!
//! concerns rows 3.001, 3.018, 3.021, 3.022, 3.023, 3.024, 3.025, 3.026, 3.028, 3.029, 3.037, 3.038, 3.039,
//! 3.049, 3.065, 3.066, 3.069, 3.070, 3.071, 3.074, 3.075, 3.078, 3.083, 3.097, 3.098, 3.102

mod common;

use common::network::{Endpoint, Impairments, Network};
use common::world::{World, BASE, RKEY};
use common::{recv_attr, send_attr, Rng};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use roce::memory::{AtomicOp, SendExtra, SendOp, SendWr};
use roce::mtu::Mtu;
use roce::psn::Psn;
use roce::state::{Completion, Counter, QpEvent, RecvOpcode, Service, WcOpcode, WcStatus};
use roce::timer::AckTimeout;
use roce::wire::Srqn;

/// The time-out of the requesters, and its length in nanoseconds.
const ACK_TIMEOUT: AckTimeout = AckTimeout::new(5);
const TIMEOUT: u64 = 4096 << 5;
/// The longest time-out, of several without an answer, as a multiple of that.
const LONGEST_TIMEOUT: u64 = 4;
/// A round trip with the pauses of both drivers, in nanoseconds.
const ROUND_TRIP: u64 = 10_000;
/// The longest time between two late receives, in nanoseconds.
const RECEIVE_PAUSE: u64 = 30_000;

/// Offset and length of the constant area that is read.
const READ_AREA: usize = 64;
const READ_LEN: usize = 16 * 1024;
/// Offset of the areas of the WRITEs.
const WRITE_AREA: usize = READ_AREA + READ_LEN;

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    impairments: Impairments,
    mtu: Mtu,
    messages: usize,
    longest: u64,
    window: u32,
    reads: u8,
    psn: u32,
    late_receives: bool,
    retry_cnt: u8,
    drains: bool,
    /// The longest run of packets.
    longest_run: u32,
    /// Whether the network has no impairments.
    calm: bool,
    /// Whether each side tells the number of its receives.
    credits: [bool; 2],
}

/// A message that the peer must receive.
#[derive(Debug)]
struct Expected {
    opcode: RecvOpcode,
    data: Vec<u8>,
    length: u32,
    imm: Option<u32>,
    rkey: Option<u32>,
    solicited: bool,
}

/// The work of one side, and the expected results.
#[derive(Default)]
struct Plan {
    messages: Vec<Expected>,
    /// By work request: the expected data.
    results: Vec<Option<Vec<u8>>>,
    /// By work request: the range written at the peer.
    writes: Vec<Option<(usize, Vec<u8>)>>,
    /// The peer's counter and cell after each work request.
    cells: Vec<(u64, u64)>,
    opcodes: Vec<WcOpcode>,
    write_end: usize,
}

/// What a case has to transfer, and what its network does to that on average.
#[derive(Clone, Copy, Debug)]
struct Load {
    messages: u64,
    /// How many of them wait for a late receive.
    late: u64,
    /// Requests and responses, when each is sent once.
    packets: u64,
    /// Packets in a window, or all of them.
    window: u64,
    /// How many packets are lost.
    losses: u64,
    /// How many are late or repeated.
    disorders: u64,
}

impl Load {
    fn new(case: &Case, plans: &[Plan], worlds: &[World]) -> Self {
        let works = worlds.iter().flat_map(|world| &world.queue);
        let packets = works.map(|work| packets(&work.wr, case.mtu)).sum();
        let receives: usize = plans.iter().map(|plan| plan.messages.len()).sum();
        let bad = &case.impairments;
        Self {
            messages: 2 * case.messages as u64,
            late: if case.late_receives {
                receives as u64
            } else {
                0
            },
            packets,
            window: packets.min(u64::from(case.window)),
            losses: packets * u64::from(bad.loss + bad.corrupt + bad.dropped) / 1000,
            disorders: packets * u64::from(bad.reorder + bad.duplicate) / 1000,
        }
    }

    /// The time that no case may exceed: a round trip for each message and each window, a time-out for each loss and
    /// each other packet that is late or repeated, and for bad luck six that follow others and so are the longest.
    fn longest(&self) -> u64 {
        let rounds = self.messages + self.packets / self.window.max(1);
        let timeouts = self.losses + self.disorders / 2 + 6 * LONGEST_TIMEOUT;
        rounds * ROUND_TRIP + self.late * RECEIVE_PAUSE + self.packets * 1_000 + timeouts * TIMEOUT
    }

    /// The number of packets that no case may exceed: two windows for each that is lost, late or repeated.
    fn most(&self) -> u64 {
        4 * self.packets + 2 * (self.losses + self.disorders + 6) * self.window + 20
    }

    /// The time that the cases may take on average. A NAK repairs most losses, in far less than a time-out.
    fn usual_time(&self) -> u64 {
        self.packets * 500 + self.losses * TIMEOUT * 2 / 5
    }

    /// The number of packets that the cases may send on average: half a window again for each that is lost, late or
    /// repeated.
    fn usual_packets(&self) -> u64 {
        self.packets + (self.losses + self.disorders) * self.window / 2
    }
}

/// Number of packets of a work request and its responses, when each is sent once.
fn packets(wr: &SendWr, mtu: Mtu) -> u64 {
    match wr.op {
        SendOp::Local { .. } => 0,
        SendOp::Atomic { .. } => 2,
        _ => u64::from(mtu.packets(wr.length)) + 1,
    }
}

/// What came of a case.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    status: WcStatus,
    load: Load,
    /// When it was done, in nanoseconds.
    time: u64,
    sent: u64,
    delivered: u64,
}

fn impairments() -> impl Strategy<Value = (bool, Impairments)> {
    let bad = (
        0..120u32,
        0..60u32,
        0..150u32,
        0..30u32,
        0..200u32,
        0..20u32,
    );
    let bad = bad.prop_map(
        |(loss, duplicate, reorder, corrupt, busy, dropped)| Impairments {
            loss,
            duplicate,
            reorder,
            corrupt,
            busy,
            absent: busy,
            dropped,
        },
    );
    prop_oneof![1 => Just((true, Impairments::default())), 4 => bad.prop_map(|bad| (false, bad))]
}

fn case() -> impl Strategy<Value = Case> {
    let first = (any::<u64>(), impairments(), 0..5usize, 1..40usize, 0..6u32);
    let second = (1..80u32, 1..8u8, any::<u32>(), any::<bool>());
    (first, second).prop_map(
        |((seed, (calm, impairments), mtu, messages, long), (window, reads, psn, late))| Case {
            seed,
            impairments,
            mtu: Mtu::ALL[mtu],
            messages,
            longest: 1 << (3 * long),
            window,
            reads,
            psn: if seed % 3 == 0 {
                0xff_ffff - psn % 50
            } else {
                psn
            },
            late_receives: late,
            retry_cnt: 7,
            drains: seed % 5 == 0,
            longest_run: [1, 1, 3, 16, 100][(seed >> 8) as usize % 5],
            calm,
            credits: [16, 17].map(|bit| seed >> bit & 1 != 0),
        },
    )
}

fn plan(case: &Case, constant: &[u8], world: &mut World, rng: &mut Rng) -> Plan {
    let mut plan = Plan {
        write_end: WRITE_AREA,
        ..Plan::default()
    };
    let (mut counter, mut cell) = (0u64, 0u64);
    for _ in 0..case.messages {
        let len = rng.below(case.longest + 1) as usize;
        let solicited = rng.hits(300);
        let mut result = None;
        let mut write = None;
        let imm = rng.hits(400).then(|| rng.next() as u32);
        let (op, data, opcode) = match rng.below(10) {
            0..=2 => {
                let data = rng.bytes(len);
                let (extra, rkey) = match (imm, rng.hits(200)) {
                    (Some(imm), _) => (SendExtra::Imm(imm), None),
                    (None, true) => (SendExtra::Invalidate(77), Some(77)),
                    (None, false) => (SendExtra::None, None),
                };
                let (opcode, length) = (RecvOpcode::Recv, len as u32);
                let data_again = data.clone();
                let seen = Expected {
                    opcode,
                    data: data_again,
                    length,
                    imm,
                    rkey,
                    solicited,
                };
                plan.messages.push(seen);
                (SendOp::Send { extra }, data, WcOpcode::Send)
            }
            3..=5 => {
                let data = rng.bytes(len);
                let va = BASE + plan.write_end as u64;
                write = Some((plan.write_end, data.clone()));
                plan.write_end += len;
                if imm.is_some() {
                    let (opcode, length) = (RecvOpcode::RecvRdmaWithImm, len as u32);
                    let data = Vec::new();
                    let seen = Expected {
                        opcode,
                        data,
                        length,
                        imm,
                        rkey: None,
                        solicited,
                    };
                    plan.messages.push(seen);
                }
                (
                    SendOp::Write {
                        va,
                        rkey: RKEY,
                        imm,
                    },
                    data,
                    WcOpcode::RdmaWrite,
                )
            }
            6..=7 => {
                let len = len.min(READ_LEN);
                let start = rng.below((READ_LEN - len + 1) as u64) as usize;
                result = Some(constant[start..][..len].to_vec());
                let va = BASE + (READ_AREA + start) as u64;
                let op = SendOp::Read {
                    va,
                    rkey: RKEY,
                    invalidate: rng.hits(100),
                };
                (op, vec![0; len], WcOpcode::RdmaRead)
            }
            8 => {
                let (op, va, old, opcode) = if rng.hits(500) {
                    let (add, old) = (rng.next(), counter);
                    counter = counter.wrapping_add(add);
                    (AtomicOp::FetchAdd { add }, BASE, old, WcOpcode::FetchAdd)
                } else {
                    let (old, swap) = (cell, rng.next());
                    let compare = if rng.hits(600) { old } else { !old };
                    let op = AtomicOp::CmpSwap { compare, swap };
                    cell = op.apply(cell);
                    (op, BASE + 8, old, WcOpcode::CompSwap)
                };
                result = Some(old.to_ne_bytes().to_vec());
                (SendOp::Atomic { va, rkey: RKEY, op }, vec![0; 8], opcode)
            }
            _ => {
                let opcode = WcOpcode::LocalInv;
                (
                    SendOp::Local {
                        opcode,
                        wait_all: rng.hits(500),
                    },
                    Vec::new(),
                    opcode,
                )
            }
        };
        let wr = SendWr {
            op,
            length: data.len() as u32,
            signaled: rng.hits(500),
            solicited,
            fence: rng.hits(150),
            srqn: Srqn::default(),
        };
        world.post_wr(wr, data);
        plan.results.push(result);
        plan.writes.push(write);
        plan.cells.push((counter, cell));
        plan.opcodes.push(opcode);
    }
    plan
}

fn endpoint(case: &Case, world: World) -> Endpoint {
    let mut send = send_attr(Service::Rc);
    send.mtu = case.mtu;
    send.sq_psn = Psn::new(case.psn);
    send.window = case.window;
    send.max_rd_atomic = case.reads;
    send.retry_cnt = case.retry_cnt;
    send.ack_timeout = ACK_TIMEOUT;
    let mut recv = recv_attr(Service::Rc);
    recv.mtu = case.mtu;
    recv.rq_psn = Psn::new(case.psn);
    recv.max_dest_rd_atomic = case.reads;
    Endpoint::new(world, send, recv, false)
}

/// Posts the receives for the peer's messages, some of them late.
fn post_receives(case: &Case, end: &mut Endpoint, plan: &Plan, rng: &mut Rng) {
    let mut time = 0;
    for message in &plan.messages {
        let len = message.data.len() + rng.below(20) as usize;
        if case.late_receives {
            time += rng.below(RECEIVE_PAUSE);
        }
        end.later.push((time, len));
    }
    end.later.reverse();
}

/// Checks one direction; returns the final status of the send queue.
fn check(sender: &Endpoint, receiver: &Endpoint, plan: &Plan) -> WcStatus {
    let is_drained = |event: &&QpEvent| **event == QpEvent::SqDrained;
    let drained = sender.world.events.iter().filter(is_drained).count();
    // An error may occur between the event and the return to RTS.
    assert!((sender.drained..=sender.drained + 1).contains(&drained));
    let completions = &sender.world.completions;
    assert_eq!(
        completions.len(),
        plan.results.len(),
        "each work request completes once"
    );
    let good = completions
        .iter()
        .take_while(|c| c.status == WcStatus::Success)
        .count();
    let end = completions
        .get(good)
        .map_or(WcStatus::Success, |c| c.status);
    for completion in completions.iter().skip(good + 1) {
        assert_eq!(completion.status, WcStatus::WrFlushErr);
    }
    for (index, done) in completions.iter().enumerate().take(good) {
        check_success(sender, receiver, plan, index, done);
    }
    let seen: Vec<_> = receiver
        .world
        .received
        .iter()
        .filter(|r| r.completion.status == WcStatus::Success)
        .collect();
    assert!(seen.len() <= plan.messages.len(), "a message arrived twice");
    for (received, message) in seen.iter().zip(&plan.messages) {
        let completion = &received.completion;
        assert_eq!(received.data[..message.data.len()], message.data);
        assert_eq!(completion.opcode, message.opcode);
        assert_eq!(completion.byte_len, message.length);
        assert_eq!(completion.imm, message.imm);
        assert_eq!(completion.invalidated_rkey, message.rkey);
        assert_eq!(completion.solicited, message.solicited);
    }
    if end == WcStatus::Success {
        assert_eq!(seen.len(), plan.messages.len(), "a message is lost");
        let (counter, cell) = plan.cells.last().copied().unwrap_or_default();
        assert_eq!(receiver.world.memory[..8], counter.to_ne_bytes());
        assert_eq!(receiver.world.memory[8..16], cell.to_ne_bytes());
    }
    end
}

fn check_success(from: &Endpoint, to: &Endpoint, plan: &Plan, index: usize, done: &Completion) {
    let work = &from.world.queue[index];
    assert_eq!(done.opcode, Some(plan.opcodes[index]));
    assert_eq!(done.report, work.wr.signaled);
    if let Some(result) = &plan.results[index] {
        assert_eq!(&work.data, result, "data of work request {index}");
    }
    if let Some((start, data)) = &plan.writes[index] {
        assert_eq!(&to.world.memory[*start..][..data.len()], data);
    }
    if matches!(work.wr.op, SendOp::Local { .. }) {
        assert!(from.world.locals.contains(&(index as u32)));
    }
}

fn run(case: &Case) -> Outcome {
    let mut rng = Rng::new(case.seed);
    let constant = rng.bytes(READ_LEN);
    let mut worlds = [0, 1].map(|side| World::new(WRITE_AREA, case.seed ^ (7 + side)));
    let plans = [0, 1].map(|side| plan(case, &constant, &mut worlds[side], &mut rng));
    for side in 0..2 {
        worlds[side].memory.resize(plans[1 - side].write_end, 0);
        worlds[side].memory[READ_AREA..][..READ_LEN].copy_from_slice(&constant);
    }
    let load = Load::new(case, &plans, &worlds);
    let mut ends = worlds.map(|world| endpoint(case, world));
    for side in 0..2 {
        ends[side].drains = case.drains;
        ends[side].world.longest_run = case.longest_run;
        ends[side].world.tells_receives = case.credits[side];
        post_receives(case, &mut ends[side], &plans[1 - side], &mut rng);
    }
    let mut network = Network::new(ends, case.impairments, case.seed);
    assert!(
        network.run(load.longest()),
        "still busy after {} virtual ns: {case:?}",
        load.longest()
    );
    let (sent, most) = (network.sent, load.most());
    assert!(sent <= most, "{sent} packets, {most} at most: {case:?}");
    let [a, b] = &network.ends;
    let ends = [check(a, b, &plans[0]), check(b, a, &plans[1])];
    let worst = ends.into_iter().find(|end| *end != WcStatus::Success);
    // A failed side drops packets, so the other one fails too, or is flushed.
    for end in ends {
        let known = [
            WcStatus::Success,
            WcStatus::RetryExcErr,
            WcStatus::WrFlushErr,
        ];
        assert!(known.contains(&end), "{end:?}");
    }
    if case.impairments.loss == 0 && case.impairments.corrupt == 0 && case.impairments.dropped == 0
    {
        assert_eq!(worst, None, "nothing was lost, and yet");
    }
    if case.calm && !case.late_receives {
        for end in &network.ends {
            let again = end.world.count(Counter::CompleterRetry);
            assert_eq!(again, 0, "sent again without need");
        }
    }
    Outcome {
        status: worst.unwrap_or(WcStatus::Success),
        load,
        time: network.now,
        sent,
        delivered: network.delivered,
    }
}

fn runner(cases: u32) -> TestRunner {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, rng)
}

#[test]
fn every_message_arrives_once_or_the_right_error_completes() {
    let outcomes = std::cell::RefCell::new(Vec::new());
    let cases = 3000;
    runner(cases)
        .run(&case(), |case| {
            outcomes.borrow_mut().push(run(&case));
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let outcomes = outcomes.into_inner();
    let total = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let failed = total(|outcome| u64::from(outcome.status != WcStatus::Success));
    let (time, usual_time) = (total(|o| o.time), total(|o| o.load.usual_time()));
    let (sent, usual_sent) = (total(|o| o.sent), total(|o| o.load.usual_packets()));
    let packets = total(|outcome| outcome.delivered);
    println!("RC: {cases} cases, {packets} packets delivered, {failed} ended with an error");
    println!("RC: {time} virtual ns of {usual_time}, {sent} packets sent of {usual_sent}");
    assert!(failed < u64::from(cases) / 20, "too many gave up: {failed}");
    assert!(time < usual_time, "recovery is slow");
    assert!(sent < usual_sent, "too much is sent again");
}

#[test]
fn few_retries_end_in_the_right_error() {
    let failed = std::cell::Cell::new(0u32);
    let cases = 500;
    runner(cases)
        .run(&case(), |mut case| {
            case.impairments.loss = 400;
            case.calm = false;
            case.retry_cnt = 1;
            failed.set(failed.get() + u32::from(run(&case).status != WcStatus::Success));
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    println!(
        "RC, 40 % loss, one retry: {cases} cases, {} ended with an error",
        failed.get()
    );
    assert!(failed.get() > cases / 4);
}
