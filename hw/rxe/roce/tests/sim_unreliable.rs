// SPDX-License-Identifier: GPL-2.0

//! Simulation: UC and UD queue pairs over a network that loses, repeats, reorders and corrupts packets. Messages arrive
//! intact or not at all, and neither side stops.
//!
//! concerns rows 3.002, 3.003, 3.018, 3.021, 3.022, 3.024, 3.025, 3.065, 3.066

mod common;

use std::cell::Cell;

use common::network::{Endpoint, Impairments, Network};
use common::world::{World, BASE, RKEY};
use common::{recv_attr, send_attr, Rng};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use roce::memory::{SendExtra, SendOp, UdDest};
use roce::mtu::Mtu;
use roce::psn::Psn;
use roce::state::{RecvOpcode, Service, State, WcStatus, GRH_LEN};

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    service: Service,
    impairments: Impairments,
    mtu: Mtu,
    messages: usize,
    longest: u64,
    psn: u32,
}

fn case() -> impl Strategy<Value = Case> {
    let impairments = (0..150u32, 0..100u32, 0..150u32, 0..50u32, 0..200u32);
    let rest = (
        any::<u64>(),
        any::<bool>(),
        0..5usize,
        1..40usize,
        0..5u32,
        any::<u32>(),
    );
    (impairments, rest).prop_map(
        |(impairments, (seed, datagrams, mtu, messages, long, psn))| {
            let (loss, duplicate, reorder, corrupt, busy) = impairments;
            let mtu = Mtu::ALL[mtu];
            let service = if datagrams { Service::Ud } else { Service::Uc };
            let longest = match service {
                Service::Ud => u64::from(mtu.bytes()),
                _ => 1 << (3 * long),
            };
            let calm = seed % 4 == 0;
            let impairments = Impairments {
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
                service,
                impairments: if calm {
                    Impairments {
                        busy,
                        absent: busy,
                        ..Impairments::default()
                    }
                } else {
                    impairments
                },
                mtu,
                messages,
                longest,
                psn: if seed % 3 == 0 {
                    0xff_ffff - psn % 50
                } else {
                    psn
                },
            }
        },
    )
}

fn endpoint(case: &Case, world: World) -> Endpoint {
    let mut send = send_attr(case.service);
    send.mtu = case.mtu;
    send.sq_psn = Psn::new(case.psn);
    let mut recv = recv_attr(case.service);
    recv.mtu = case.mtu;
    recv.rq_psn = Psn::new(case.psn);
    Endpoint::new(world, send, recv, false)
}

/// Posts the messages, each with its number as immediate data; returns their contents.
fn post(case: &Case, world: &mut World, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for number in 0..case.messages as u32 {
        let data = rng.bytes(rng.clone().below(case.longest + 1) as usize);
        let imm = Some(number);
        let dest = UdDest {
            qpn: common::PEER,
            qkey: 0x1111_1111,
            pkey: None,
        };
        let op = match case.service {
            Service::Ud => SendOp::SendUd { imm, dest },
            _ if rng.hits(500) => SendOp::Send {
                extra: SendExtra::Imm(number),
            },
            _ => {
                let va = BASE + u64::from(number) * case.longest;
                SendOp::Write {
                    va,
                    rkey: RKEY,
                    imm,
                }
            }
        };
        world.post(op, data.clone());
        messages.push(data);
    }
    messages
}

/// Runs a case; returns how many messages there were and how many arrived.
fn run(case: &Case) -> (usize, usize) {
    let mut rng = Rng::new(case.seed);
    let mut sender = World::new(0, case.seed);
    let messages = post(case, &mut sender, &mut rng);
    let grh = if case.service == Service::Ud {
        GRH_LEN as usize
    } else {
        0
    };
    let mut receiver = World::new(case.messages * case.longest as usize, case.seed ^ 9);
    for _ in 0..2 * case.messages {
        receiver.post_recv(case.longest as usize + grh); // repeated datagrams take one each
    }
    sender.longest_run = [1, 3, 16][(case.seed >> 8) as usize % 3];
    let ends = [endpoint(case, sender), endpoint(case, receiver)];
    let mut network = Network::new(ends, case.impairments, case.seed);
    assert!(
        network.run(1_000_000_000),
        "still busy after a virtual second"
    );
    let [from, to] = &network.ends;
    assert_eq!(
        from.world.statuses(),
        vec![WcStatus::Success; case.messages]
    );
    assert!(from.world.moved.is_empty() && to.world.moved.is_empty());
    assert_eq!(to.responder.state(), State::Rts);
    let mut last = None;
    for received in &to.world.received {
        let done = received.completion;
        assert_eq!(done.status, WcStatus::Success);
        let number = done.imm.expect("all messages are numbered");
        let message = &messages[number as usize];
        assert_eq!(done.byte_len as usize, message.len() + grh);
        let data = match done.opcode {
            RecvOpcode::Recv => &received.data[grh..],
            RecvOpcode::RecvRdmaWithImm => {
                &to.world.memory[number as usize * case.longest as usize..]
            }
        };
        assert_eq!(data[..message.len()], message[..]);
        if case.impairments.reorder == 0 && case.impairments.duplicate == 0 {
            assert!(last < Some(number), "out of order");
        }
        last = Some(number);
    }
    let arrived = to.world.received.len();
    if case.impairments.loss == 0 && case.impairments.reorder == 0 && case.impairments.corrupt == 0
    {
        assert!(arrived >= case.messages, "nothing was lost, and yet");
    }
    (case.messages, arrived)
}

#[test]
fn messages_arrive_intact_or_not_at_all() {
    let cases = 3000;
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let (sent, arrived) = (Cell::new(0), Cell::new(0));
    TestRunner::new_with_rng(config, rng)
        .run(&case(), |case| {
            let (messages, received) = run(&case);
            sent.set(sent.get() + messages);
            arrived.set(arrived.get() + received);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    println!(
        "UC, UD: {cases} cases, {} messages, {} arrived",
        sent.get(),
        arrived.get()
    );
    assert!(arrived.get() > sent.get() / 2);
}
