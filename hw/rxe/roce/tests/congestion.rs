// SPDX-License-Identifier: GPL-2.0

//! Congestion control of one queue pair: when it notifies, what a notification takes, how the rate recovers, and which packets wait.

mod common;

use common::world::World;
use common::{send_attr, PEER, SELF};
use proptest::prelude::*;
use roce::congestion::{is_notification, Congestion, Ecn, Parameters, NOTIFICATION_LEN};
use roce::memory::{SendExtra, SendOp};
use roce::mtu::Mtu;
use roce::opcode::Opcode;
use roce::pkey::Pkey;
use roce::requester::Requester;
use roce::state::{Run, Service, Time};
use roce::timer::AckTimeout;
use roce::wire::{Packet, MAX_HEADERS};

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
const MBIT: u64 = 1_000_000;

static PUBLISHED: Parameters = Parameters::PUBLISHED;
static SOFTWARE: Parameters = Parameters::SOFTWARE;

fn at(ns: u64) -> Time {
    Time::from_ns(ns)
}

/// One that has sent at a rate, in bits a second, until a time.
fn sending(parameters: &'static Parameters, rate: u64, end: u64) -> Congestion {
    let mut congestion = Congestion::new(parameters);
    send_at(&mut congestion, rate, 0..end);
    congestion
}

fn send_at(congestion: &mut Congestion, rate: u64, times: std::ops::Range<u64>) {
    for now in times.step_by((10 * US) as usize) {
        congestion.begin(at(now));
        congestion.sent(rate / 800_000);
    }
}

/// The limit, if it is within a hundredth of `expected`.
#[track_caller]
fn assert_limit(congestion: &Congestion, expected: u64) {
    let limit = congestion.limit().expect("a limit");
    let most = expected / 100;
    assert!(limit.abs_diff(expected) <= most, "{limit}, not {expected}");
}

#[test]
fn marks_are_told_by_the_two_bits() {
    for class in 0..=255 {
        assert_eq!(Ecn::is_marked(class), class & 3 == 3);
        assert_eq!(Ecn::CAPABLE.applied_to(class), class & 0xfc | 2);
        assert_eq!(Ecn::NOT_CAPABLE.applied_to(class), class & 0xfc);
    }
}

/// Annex A17.9.3: the packet as hardware sends it.
#[test]
fn a_notification_has_the_bytes_of_the_annex() {
    let mut congestion = Congestion::new(&PUBLISHED);
    congestion.marked(at(5));
    congestion.begin(at(5));
    let packet = congestion
        .notification(PEER, Pkey::new(0x8001))
        .expect("one is due");
    let mut bytes = [0; MAX_HEADERS];
    assert_eq!(packet.headers().write(packet.payload_len(), &mut bytes), 12);
    assert_eq!(
        bytes[..12],
        [0x81, 0, 0x80, 0x01, 0x40, 0, 0, 0x42, 0, 0, 0, 0]
    );
    assert_eq!(
        (packet.payload_len(), packet.udp_payload_len()),
        (NOTIFICATION_LEN, 32)
    );
    let head = bytes.first_chunk().expect("a header");
    assert!(is_notification(head, 32) && !is_notification(head, 28));
    assert!(!is_notification(&[0; 12], 32));
    let parsed = Packet::parse(&bytes, 32).expect("it parses");
    assert_eq!(parsed.bth().opcode, Opcode::Cnp);
    assert!(!parsed.bth().opcode.is_request() && !parsed.bth().opcode.is_response());
    for len in [12 + 4, 12 + 12 + 4, 12 + 20 + 4] {
        assert!(Packet::parse(&bytes, len).is_err(), "{len} bytes");
    }
}

#[test]
fn marks_lead_to_one_notification_in_fifty_microseconds() {
    let mut congestion = Congestion::new(&PUBLISHED);
    let mut sent = Vec::new();
    for now in (0..MS).step_by(US as usize) {
        congestion.marked(at(now));
        congestion.begin(at(now));
        assert_eq!(congestion.is_due(), now % (50 * US) == 0);
        if congestion.notification(PEER, Pkey::DEFAULT).is_some() {
            sent.push(now);
        }
        assert!(!congestion.is_due());
    }
    assert_eq!(sent, (0..MS).step_by(50_000).collect::<Vec<_>>());
    // None without a mark.
    congestion.begin(at(2 * MS));
    assert!(congestion.notification(PEER, Pkey::DEFAULT).is_none());
}

#[test]
fn nothing_is_limited_before_a_notification() {
    let mut congestion = sending(&SOFTWARE, 5_000 * MBIT, 20 * MS);
    assert_eq!(congestion.limit(), None);
    assert!(congestion.may_send());
    assert_eq!(congestion.longest_run(Mtu::Mtu1024, 64), 64);
    assert_eq!(congestion.next_deadline(), None);
}

/// The estimate of congestion begins at all packets, so the first notification halves the rate, that of what was sent.
#[test]
fn the_first_notification_halves_the_rate_that_was_sent() {
    for rate in [100, 1_000, 4_000] {
        let mut congestion = sending(&SOFTWARE, rate * MBIT, 20 * MS);
        assert!(congestion.notified(at(20 * MS)));
        assert_limit(&congestion, rate * MBIT / 2);
    }
    // A time without packets before tells nothing of the rate.
    let mut congestion = Congestion::new(&SOFTWARE);
    send_at(&mut congestion, 1_000 * MBIT, 5_000 * MS..5_003 * MS);
    assert!(congestion.notified(at(5_003 * MS)));
    assert_limit(&congestion, 500 * MBIT);
    // A rate beyond the largest one is the largest one.
    let mut congestion = sending(&SOFTWARE, 100_000 * MBIT, 20 * MS);
    assert!(congestion.notified(at(20 * MS)));
    assert_limit(&congestion, 5_000 * MBIT);
}

/// Each notification takes alpha / 2 of the rate; alpha stays at 1 as long as they come, and decreases by 1/256 in each interval
/// without one.
#[test]
fn the_estimate_decreases_without_notifications() {
    static EACH: Parameters = Parameters {
        decrease_interval: 50 * US,
        ..Parameters::SOFTWARE
    };
    for intervals in [0, 1, 10, 100, 1_000] {
        let mut congestion = sending(&EACH, 1_000 * MBIT, 20 * MS);
        assert!(congestion.notified(at(20 * MS)));
        // Nothing is recovered meanwhile: the rate after that is compared with the one just before.
        let now = 20 * MS + 50 * US + intervals * SOFTWARE.estimate_interval;
        send_at(&mut congestion, 1_000 * MBIT, 20 * MS..now);
        congestion.begin(at(now));
        let Some(before) = congestion.limit() else {
            assert_eq!(intervals, 1_000, "the limit is over");
            continue;
        };
        let before = before.min(2_000 * MBIT);
        assert!(congestion.notified(at(now)));
        let alpha = (1.0 - 1.0 / 256.0f64).powi(intervals as i32);
        assert_limit(&congestion, (before as f64 * (1.0 - alpha / 2.0)) as u64);
    }
}

/// Of notifications that come one after the other, as long as the queue is full of what was sent before, one decreases the rate.
#[test]
fn the_rate_decreases_once_in_an_interval() {
    let mut congestion = sending(&SOFTWARE, 1_000 * MBIT, 20 * MS);
    let interval = SOFTWARE.decrease_interval;
    let end = 20 * MS + 4 * interval;
    for now in (20 * MS..end).step_by(50_000) {
        send_at(&mut congestion, 1_000 * MBIT, now..now + 50_000);
        assert!(
            congestion.notified(at(now + 50_000)),
            "each of them is heeded"
        );
    }
    // Half of it four times, since all packets are marked.
    assert_limit(&congestion, 62_500_000);
}

/// Five times half of what was taken, then steps of R_AI, whose half is added to the rate each time.
#[test]
fn the_rate_recovers_fast_and_then_in_steps() {
    let mut congestion = sending(&PUBLISHED, 10_000 * MBIT, 20 * MS);
    assert!(congestion.notified(at(20 * MS)));
    let (mut current, mut target) = (5_000.0, 10_000.0);
    for step in 1..=20 {
        let now = 20 * MS + step * PUBLISHED.increase_interval;
        congestion.begin(at(now - 1));
        assert_limit(&congestion, (current * 1e6) as u64);
        congestion.begin(at(now));
        if step >= 5 {
            target += 40.0;
        }
        current = (current + target) / 2.0;
        assert_limit(&congestion, (current * 1e6) as u64);
    }
}

/// Bytes increase the rate as time does; when both have done it more than five times, in steps that grow.
#[test]
fn bytes_increase_the_rate_and_both_hyper_increase() {
    static QUICK: Parameters = Parameters {
        increase_bytes: 10_000,
        ..Parameters::PUBLISHED
    };
    let mut congestion = sending(&QUICK, 10_000 * MBIT, 20 * MS);
    assert!(congestion.notified(at(20 * MS)));
    let (mut current, mut target) = (5_000.0, 10_000.0);
    congestion.begin(at(20 * MS));
    for step in 1..=7 {
        congestion.sent(10_000);
        target += if step >= 5 { 40.0 } else { 0.0 };
        current = (current + target) / 2.0;
        assert_limit(&congestion, (current * 1e6) as u64);
    }
    for step in 1..=8u64 {
        congestion.begin(at(20 * MS + step * QUICK.increase_interval));
        target += if step > 5 {
            400.0 * (step.min(7) - 5) as f64
        } else {
            40.0
        };
        current = (current + target) / 2.0;
        assert_limit(&congestion, (current * 1e6) as u64);
    }
}

#[test]
fn a_limit_ends_when_the_rate_is_the_largest() {
    let mut congestion = sending(&PUBLISHED, 10_000 * MBIT, 20 * MS);
    assert!(congestion.notified(at(20 * MS)));
    congestion.begin(at(10_000 * MS));
    assert_eq!(congestion.limit(), None);
    // The next one begins anew: with the rate of what was sent, and half of it.
    send_at(&mut congestion, 2_000 * MBIT, 10_000 * MS..10_020 * MS);
    assert!(congestion.notified(at(10_020 * MS)));
    assert_limit(&congestion, 1_000 * MBIT);
}

/// A flood of notifications takes no more than one every 50 us, and never more than down to the lowest rate.
#[test]
fn a_flood_of_notifications_leaves_the_lowest_rate() {
    let mut congestion = sending(&SOFTWARE, 1_000 * MBIT, 20 * MS);
    let mut heeded = 0;
    for now in (20 * MS..120 * MS).step_by(US as usize) {
        heeded += u32::from(congestion.notified(at(now)));
        assert!(congestion.limit().expect("a limit") >= SOFTWARE.least);
    }
    assert_eq!(heeded, 2_000);
    assert_eq!(congestion.limit(), Some(SOFTWARE.least));
    // It is over some time later.
    congestion.begin(at(60_000 * MS));
    assert_eq!(congestion.limit(), None);
}

#[test]
fn a_reset_forgets_the_limit_and_the_mark() {
    let mut congestion = sending(&SOFTWARE, 1_000 * MBIT, 20 * MS);
    assert!(congestion.notified(at(20 * MS)));
    congestion.marked(at(20 * MS));
    congestion.reset();
    assert_eq!(congestion.limit(), None);
    assert!(!congestion.is_due());
    assert!(congestion.notified(at(20 * MS)), "it is heeded at once");
}

/// What is sent at the limit: not before its time, and at its rate.
#[test]
fn packets_wait_for_their_time() {
    static STEADY: Parameters = Parameters {
        increase_interval: 10_000 * MS,
        increase_bytes: u64::MAX,
        ..Parameters::SOFTWARE
    };
    for rate in [20, 200, 2_000] {
        let mut congestion = sending(&STEADY, 2 * rate * MBIT, 20 * MS);
        assert!(congestion.notified(at(20 * MS)));
        let run = u64::from(congestion.longest_run(Mtu::Mtu1024, 64));
        assert!((1..=64).contains(&run));
        // No more than 250 us at a time, or 4 KiB.
        assert!(run == 4 || run * 1024 * 8 <= 250 * rate, "{run} packets");
        let (mut now, mut bytes) = (20 * MS, 0);
        while now < 220 * MS {
            congestion.begin(at(now));
            while congestion.may_send() {
                congestion.sent(run * 1100);
                bytes += run * 1100;
            }
            let next = congestion.next_deadline().expect("a packet waits").as_ns();
            assert!(next > now);
            // A timer that is late.
            now = next + 100 * US;
        }
        let expected = rate * MBIT / 8 / 5;
        let most = 2 * run * 1100 + expected / 50;
        assert!(
            bytes.abs_diff(expected) <= most,
            "{bytes} bytes, not {expected}"
        );
    }
}

/// A requester whose packets wait is blocked without a change, asks for an acknowledge of each run, and goes on in time.
#[test]
fn a_requester_waits_and_goes_on() {
    let mut requester = Requester::new();
    let mut attr = send_attr(Service::Rc);
    attr.window = 1000;
    attr.ack_timeout = AckTimeout::new(14);
    requester.start(attr);
    let mut world = World::new(64, 1);
    world.longest_run = 16;
    world.exact_runs = true;
    let mut congestion = sending(&SOFTWARE, 40 * MBIT, 20 * MS);
    assert!(congestion.notified(at(20 * MS)));
    world.congestion = Some(congestion);
    world.post(
        SendOp::Send {
            extra: SendExtra::None,
        },
        vec![1; 256 * 100],
    );
    let (mut now, mut packets, mut waits) = (20 * MS, 0, 0);
    while packets < 100 {
        let congestion = world.congestion.as_mut().expect("it is there");
        congestion.begin(at(now));
        requester.set_paced(congestion.limit().is_some());
        let run = requester.run(at(now), 1000, &mut world);
        let sent = world.take_sent();
        packets += sent.len();
        assert!(sent.last().is_none_or(|last| last.headers.bth().ack_req));
        if packets < 100 {
            assert_eq!(run, Run::Blocked);
            let deadline = world
                .congestion
                .as_ref()
                .and_then(Congestion::next_deadline);
            now = deadline.expect("a time").as_ns();
            waits += 1;
        }
    }
    // 28 KB at 20 to 40 Mbit/s, 16 packets at a time.
    assert!(waits >= 3, "{waits}");
    assert!((5 * MS..15 * MS).contains(&(now - 20 * MS)), "{now}");
    assert_eq!(SELF, attr.qpn);
}

proptest! {
    /// Whatever comes, in whatever order and at whatever time: the rate stays within its limits, and nothing overflows.
    #[test]
    fn any_calls_leave_a_rate_within_the_limits(calls in prop::collection::vec((0..5u8, any::<u64>(), any::<bool>()), 0..200)) {
        let mut congestion = Congestion::new(&SOFTWARE);
        let mut now = 0u64;
        for (call, value, far) in calls {
            now = match far {
                true => value,
                false => now.saturating_add(value % (10 * MS)),
            };
            match call {
                0 => congestion.begin(at(now)),
                1 => congestion.marked(at(now)),
                2 => { congestion.notified(at(now)); }
                3 => congestion.sent(value),
                _ => { congestion.notification(PEER, Pkey::DEFAULT); }
            }
            let limit = congestion.limit().unwrap_or(SOFTWARE.most);
            prop_assert!((SOFTWARE.least..=SOFTWARE.most).contains(&limit));
            prop_assert!((1..=64).contains(&congestion.longest_run(Mtu::Mtu4096, 64)));
            congestion.may_send();
            congestion.next_deadline();
        }
    }
}
