// SPDX-License-Identifier: GPL-2.0

//! Path migration: two queue pairs with two paths between them, of which one fails, or is given up by a user.
//!
//! concerns rows 3.103, 3.108, 8.074, 8.075, 8.076

mod common;

use common::network::{Endpoint, Impairments, Network};
use common::world::World;
use common::{recv_attr, send_attr, Rng, READ, SEND};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use roce::migration::{PathAttr, PathState};
use roce::pkey::Pkey;
use roce::state::{QpEvent, Received, Run, SendAttr, Service, Time, WcStatus};
use roce::timer::AckTimeout;
use roce::wire::Packet;

const PRIMARY: usize = 0;
const ALTERNATE: usize = 1;
/// The attributes of the alternate path.
const PATH: PathAttr = PathAttr {
    pkey: Pkey::new(0x8765),
    ack_timeout: AckTimeout::new(6),
};
/// Longer than any of the cases takes, in nanoseconds.
const END: u64 = 10_000_000_000;

fn attr(service: Service, retry_cnt: u8) -> SendAttr {
    SendAttr {
        ack_timeout: AckTimeout::new(5),
        retry_cnt,
        ..send_attr(service)
    }
}

fn end(service: Service, seed: u64) -> Endpoint {
    let world = World::new(1 << 16, seed);
    Endpoint::new(world, attr(service, 3), recv_attr(service), false)
}

/// Two ends that both have an alternate path, and have asked for Rearm.
fn rearmed(service: Service, impairments: Impairments, seed: u64) -> Network {
    let mut ends = [end(service, seed), end(service, seed ^ 0x55)];
    for end in &mut ends {
        end.world.paths.load(ALTERNATE, PATH);
    }
    Network::new(ends, impairments, seed)
}

/// Posts messages of these lengths at an end, and receives for them at the other one; returns their data.
fn post(net: &mut Network, from: usize, lengths: &[usize], rng: &mut Rng) -> Vec<Vec<u8>> {
    let data: Vec<_> = lengths.iter().map(|&len| rng.bytes(len)).collect();
    for message in &data {
        net.ends[from].world.post(SEND, message.clone());
        net.ends[1 - from].world.post_recv(message.len());
    }
    let now = net.now;
    net.ends[from].wake(now);
    data
}

fn states(net: &Network) -> [PathState; 2] {
    [0, 1].map(|side| net.ends[side].world.paths.migration.state())
}

fn currents(net: &Network) -> [usize; 2] {
    [0, 1].map(|side| net.ends[side].world.paths.current)
}

fn events(net: &Network, side: usize, event: QpEvent) -> usize {
    let events = &net.ends[side].world.events;
    events.iter().filter(|other| **other == event).count()
}

/// Both ends are armed by one message each.
fn armed(service: Service, impairments: Impairments, seed: u64, rng: &mut Rng) -> Network {
    let mut net = rearmed(service, impairments, seed);
    for side in 0..2 {
        post(&mut net, side, &[8], rng);
        assert!(net.run(END));
    }
    assert_eq!(states(&net), [PathState::Armed; 2]);
    net
}

fn received(net: &Network, side: usize) -> Vec<Vec<u8>> {
    let received = &net.ends[side].world.received;
    received.iter().map(|r| r.data.clone()).collect()
}

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    loss: u32,
    reorder: u32,
    /// Which directions of the primary path fail, at least one.
    failing: [bool; 2],
    /// How long after the second batch of messages was posted, in nanoseconds.
    after: u64,
    lengths: [Vec<usize>; 2],
}

fn case() -> impl Strategy<Value = Case> {
    let lengths = || prop::collection::vec(1..3000usize, 1..20);
    (
        any::<u64>(),
        0..20u32,
        0..50u32,
        0..3usize,
        0..60_000u64,
        lengths(),
        lengths(),
    )
        .prop_map(|(seed, loss, reorder, failing, after, a, b)| Case {
            seed,
            loss,
            reorder,
            failing: [[true, true], [true, false], [false, true]][failing],
            after,
            lengths: [a, b],
        })
}

/// The primary path fails while messages are under way: each arrives once, intact and in order, by the alternate path, and both ends
/// say that they have migrated. Losses exhaust no retries: as many are allowed as there may be.
fn path_fails(case: &Case) {
    let mut rng = Rng::new(case.seed);
    let mut net = armed(Service::Rc, Impairments::default(), case.seed, &mut rng);
    net.set_impairments(Impairments {
        loss: case.loss,
        reorder: case.reorder,
        ..Impairments::default()
    });
    let mut expected = [0, 1].map(|side| received(&net, side));
    for side in 0..2 {
        let data = post(&mut net, side, &case.lengths[side], &mut rng);
        expected[1 - side].extend(data);
    }
    net.run(net.now + case.after);
    for to in 0..2 {
        net.cut[to][PRIMARY] = case.failing[to];
    }
    // There is something to be sent after that.
    for side in 0..2 {
        let data = post(&mut net, side, &[100], &mut rng);
        expected[1 - side].extend(data);
    }
    assert!(net.run(END));
    assert_eq!(states(&net), [PathState::Migrated; 2]);
    assert_eq!(currents(&net), [ALTERNATE; 2]);
    for (side, expected) in expected.iter().enumerate() {
        assert_eq!(received(&net, side), *expected, "to {side}");
        let statuses = net.ends[side].world.statuses();
        assert!(statuses.iter().all(|status| *status == WcStatus::Success));
        assert_eq!(events(&net, side, QpEvent::PathMigrated), 1);
        assert_eq!(events(&net, side, QpEvent::PathMigrationErr), 0);
        assert_eq!(
            net.ends[side].requester.attr().ack_timeout,
            PATH.ack_timeout
        );
        assert_eq!(net.ends[side].requester.attr().pkey, PATH.pkey);
    }
}

#[test]
fn a_path_fails() {
    let config = Config {
        cases: 400,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    TestRunner::new_with_rng(config, rng)
        .run(&case(), |case| {
            path_fails(&case);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn without_an_alternate_path_retries_end_in_an_error() {
    let ends = [end(Service::Rc, 1), end(Service::Rc, 2)];
    let mut net = Network::new(ends, Impairments::default(), 3);
    net.cut[1][PRIMARY] = true;
    post(&mut net, 0, &[8], &mut Rng::new(4));
    assert!(net.run(END));
    assert_eq!(net.ends[0].world.statuses(), [WcStatus::RetryExcErr]);
    assert_eq!(events(&net, 0, QpEvent::PathMigrated), 0);
}

/// An end whose peer has not asked for Rearm does not migrate: the peer would not follow.
#[test]
fn an_end_that_is_not_armed_does_not_migrate() {
    let mut ends = [end(Service::Rc, 1), end(Service::Rc, 2)];
    ends[0].world.paths.load(ALTERNATE, PATH);
    let mut net = Network::new(ends, Impairments::default(), 3);
    let mut rng = Rng::new(4);
    for side in 0..2 {
        post(&mut net, side, &[8], &mut rng);
        assert!(net.run(END));
    }
    assert_eq!(states(&net), [PathState::Rearm, PathState::Migrated]);
    net.cut[1][PRIMARY] = true;
    post(&mut net, 0, &[8], &mut rng);
    assert!(net.run(END));
    assert_eq!(
        net.ends[0].world.statuses(),
        [WcStatus::Success, WcStatus::RetryExcErr]
    );
    assert_eq!(currents(&net), [PRIMARY; 2]);
}

/// The second path fails too: there is no third.
#[test]
fn a_connection_migrates_once() {
    let mut rng = Rng::new(4);
    let mut net = armed(Service::Rc, Impairments::default(), 2, &mut rng);
    net.cut = [[true; 2]; 2];
    post(&mut net, 0, &[8], &mut rng);
    assert!(net.run(END));
    assert_eq!(
        net.ends[0].world.statuses().last(),
        Some(&WcStatus::RetryExcErr)
    );
    assert_eq!(events(&net, 0, QpEvent::PathMigrated), 1);
    assert_eq!(currents(&net), [ALTERNATE, PRIMARY]);
}

/// A user migrates while messages are under way, on both services. On an unreliable one those may be lost, but not later ones.
#[test]
fn a_user_migrates() {
    for service in [Service::Rc, Service::Uc] {
        let mut rng = Rng::new(9);
        let mut net = armed(service, Impairments::default(), 5, &mut rng);
        let before = post(&mut net, 0, &[3000; 5], &mut rng);
        net.run(net.now + 2_500);
        net.ends[0].migrate();
        assert!(net.run(END));
        let after = post(&mut net, 0, &[3000; 5], &mut rng);
        assert!(net.run(END));
        let back = post(&mut net, 1, &[3000; 5], &mut rng);
        assert!(net.run(END));
        assert_eq!(states(&net), [PathState::Migrated; 2], "{service:?}");
        assert_eq!(currents(&net), [ALTERNATE; 2]);
        let there = received(&net, 1);
        assert!(there.ends_with(&after), "{service:?}");
        assert!(received(&net, 0).ends_with(&back));
        if service == Service::Rc {
            assert_eq!(there.len(), 1 + before.len() + after.len());
        }
        for side in 0..2 {
            assert_eq!(events(&net, side, QpEvent::PathMigrated), 1);
        }
    }
}

/// Both ways again: a path is loaded anew, and the connection returns to the first one.
#[test]
fn a_connection_is_armed_again() {
    let mut rng = Rng::new(4);
    let mut net = armed(Service::Rc, Impairments::default(), 2, &mut rng);
    net.ends[0].migrate();
    post(&mut net, 0, &[8], &mut rng);
    assert!(net.run(END));
    for end in &mut net.ends {
        end.world.paths.load(PRIMARY, PATH);
    }
    assert_eq!(states(&net), [PathState::Rearm; 2]);
    for side in 0..2 {
        post(&mut net, side, &[8], &mut rng);
        assert!(net.run(END));
    }
    assert_eq!(states(&net), [PathState::Armed; 2]);
    net.ends[1].migrate();
    post(&mut net, 1, &[8], &mut rng);
    assert!(net.run(END));
    assert_eq!(currents(&net), [PRIMARY; 2]);
    assert_eq!(events(&net, 0, QpEvent::PathMigrated), 2);
}

/// The peer takes a path that is not the alternate one: it is refused, the user is told once, and the peer's request fails.
#[test]
fn a_path_that_does_not_fit_is_refused() {
    let mut rng = Rng::new(4);
    let mut net = armed(Service::Rc, Impairments::default(), 2, &mut rng);
    net.ends[1].world.paths.alternate = Some((2, PATH));
    net.ends[0].migrate();
    post(&mut net, 0, &[8], &mut rng);
    assert!(net.run(END));
    assert_eq!(events(&net, 1, QpEvent::PathMigrationErr), 1);
    assert_eq!(events(&net, 1, QpEvent::PathMigrated), 0);
    assert_eq!(
        net.ends[0].world.statuses().last(),
        Some(&WcStatus::RetryExcErr)
    );
    assert_eq!(states(&net)[1], PathState::Armed);
}

/// MigReq in requests, acknowledges and READ responses: set by an end that has migrated, clear in one that is ready to.
#[test]
fn the_bit_tells_the_state() {
    for ready in [false, true] {
        let mut end = end(Service::Rc, 1);
        if ready {
            end.world.paths.load(ALTERNATE, PATH);
        }
        let now = Time::from_ns(0);
        end.world.post(SEND, vec![1; 600]);
        end.world.post(READ, vec![0; 600]);
        end.world.post(SEND, vec![2; 8]);
        let Endpoint {
            requester,
            responder,
            world,
            ..
        } = &mut end;
        assert_eq!(requester.run(now, 100, world), Run::Idle);
        let requests = world.take_sent();
        assert_eq!(requests.len(), 5);
        assert!(requests
            .iter()
            .all(|sent| sent.headers.bth().migrated != ready));
        world.post_recv(600);
        world.post_recv(8);
        for sent in &requests {
            let packet = Packet::new(sent.headers, sent.payload.len() as u32);
            let taken = responder.receive(&packet, &sent.payload[..], world);
            assert_eq!(taken, Received::Done);
        }
        assert_eq!(responder.run(100, world), Run::Idle);
        let responses = world.take_sent();
        assert!(responses.len() >= 4, "an acknowledge and three of the READ");
        assert!(responses
            .iter()
            .all(|sent| sent.headers.bth().migrated != ready));
    }
}
