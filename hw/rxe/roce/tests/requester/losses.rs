// SPDX-License-Identifier: GPL-2.0

//! Losses.

use super::*;

/// concerns rows 3.074
#[test]
fn a_sequence_nak_sends_again_from_there() {
    let mut rig = Rig::rc();
    rig.post(SEND, 256 * 4);
    rig.post(SEND, 1);
    assert_eq!(rig.psns(), [100, 101, 102, 103, 104]);
    rig.nak(NakCode::PsnSequence, 102);
    let again = rig.run();
    use Opcode::{RcSendLast, RcSendMiddle, RcSendOnly};
    assert_eq!(opcodes(&again), [RcSendMiddle, RcSendLast, RcSendOnly]);
    assert_eq!(again[0].headers.psn(), Psn::new(102));
    assert_eq!(rig.world.count(Counter::RcvdSeqErr), 1);
}

/// concerns rows 3.069, 3.070, 3.090
#[test]
fn silence_is_retried_and_then_an_error() {
    let mut rig = Rig::new(SendAttr {
        retry_cnt: 2,
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 10);
    rig.post(SEND, 10);
    let timeout = AckTimeout::new(8).nanoseconds().expect("finite");
    // One packet probes a silent peer; the others wait for its response. The wait doubles.
    for (sent, times) in [(&[100, 101][..], 1), (&[100], 2), (&[100], 4)] {
        let timeout = timeout * times;
        assert_eq!(rig.psns(), sent);
        assert_eq!(
            rig.requester.next_deadline(),
            Some(Time::from_ns(rig.now + timeout))
        );
        rig.now += timeout - 1;
        assert_eq!(rig.psns(), []);
        rig.now += 1;
    }
    assert_eq!(rig.psns(), []);
    assert_eq!(rig.statuses(), [WcStatus::RetryExcErr, WrFlushErr]);
    assert_eq!(rig.world.moved, [State::Err]);
    assert_eq!(rig.world.count(Counter::RetryExceeded), 1);
    assert_eq!(rig.requester.next_deadline(), None);
}

/// concerns rows 3.069
#[test]
fn an_answer_ends_the_longer_wait_for_a_silent_peer() {
    let mut rig = Rig::rc();
    rig.post(SEND, 256 * 2);
    rig.run();
    rig.time_out();
    rig.run();
    rig.ack(100);
    assert_eq!(rig.psns(), [101]);
    let timeout = AckTimeout::new(8).nanoseconds().expect("finite");
    assert_eq!(
        rig.requester.next_deadline(),
        Some(Time::from_ns(rig.now + timeout))
    );
}

/// concerns rows 3.070
#[test]
fn after_silence_an_answer_opens_the_window_again() {
    let mut rig = Rig::rc();
    for _ in 0..3 {
        rig.post(SEND, 10);
    }
    assert_eq!(rig.psns(), [100, 101, 102]);
    rig.time_out();
    assert_eq!(rig.psns(), [100]);
    // The peer had all but the last.
    rig.ack(101);
    assert_eq!(rig.psns(), [102]);
    rig.ack(102);
    assert_eq!(rig.statuses(), [Success; 3]);
}

/// concerns rows 3.070
#[test]
fn after_silence_one_answer_sends_all_the_others_at_once() {
    let mut rig = Rig::rc();
    for _ in 0..5 {
        rig.post(SEND, 10);
    }
    rig.run();
    rig.time_out();
    assert_eq!(rig.psns(), [100]);
    rig.ack(100);
    assert_eq!(rig.psns(), [101, 102, 103, 104]);
}

/// concerns rows 3.070
#[test]
fn progress_refills_the_retry_counter() {
    let mut rig = Rig::new(SendAttr {
        retry_cnt: 1,
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 256 * 4);
    rig.run();
    for psn in 100..103 {
        rig.time_out();
        rig.run();
        rig.ack(psn);
        rig.run();
    }
    rig.time_out();
    rig.run();
    rig.ack(103);
    assert_eq!(rig.statuses(), [Success]);
}

/// concerns rows 3.069
#[test]
fn timeout_zero_waits_for_ever() {
    let mut rig = Rig::new(SendAttr {
        ack_timeout: AckTimeout::new(0),
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 10);
    rig.run();
    assert_eq!(rig.requester.next_deadline(), None);
}

/// concerns rows 3.074
#[test]
fn acknowledges_for_what_is_to_be_sent_again_still_count() {
    let mut rig = Rig::rc();
    rig.post(SEND, 256 * 2);
    rig.post(SEND, 256 * 2);
    rig.run();
    rig.time_out();
    assert_eq!(
        rig.requester.run(Time::from_ns(rig.now), 1, &mut rig.world),
        Run::More
    );
    assert_eq!(rig.world.take_sent().len(), 1);
    rig.ack(102); // late, for the first round
    assert_eq!(rig.statuses(), [Success]);
    assert_eq!(rig.psns(), [103]);
    rig.ack(103);
    assert_eq!(rig.statuses(), [Success; 2]);
}

/// concerns rows 3.074
#[test]
fn a_late_acknowledge_in_a_message_goes_on_behind_it() {
    let mut rig = Rig::rc();
    rig.post(SEND, 256 * 4);
    rig.run();
    rig.nak(NakCode::PsnSequence, 100);
    rig.ack(101); // late, for the first round
    assert_eq!(rig.psns(), [102, 103]);
}

/// concerns rows 3.071, 3.072
#[test]
fn an_rnr_nak_waits_for_the_receivers_timer() {
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.post(SEND, 10);
    rig.run();
    let timer = RnrTimer::new(25);
    rig.answer(Syndrome::RnrNak(timer), 101);
    assert_eq!(
        rig.statuses(),
        [Success],
        "it acknowledges what is before it"
    );
    assert_eq!(
        rig.requester.next_deadline(),
        Some(Time::from_ns(rig.now + 61_440_000))
    );
    assert_eq!(rig.psns(), []);
    rig.answer(Syndrome::RnrNak(timer), 101);
    rig.nak(NakCode::PsnSequence, 101); // stock says this too, about packets behind
    assert_eq!(rig.psns(), []);
    rig.time_out();
    assert_eq!(rig.psns(), [101]);
    assert_eq!(rig.world.count(Counter::RcvdRnr), 1);
}

/// concerns rows 3.073, 3.091
#[test]
fn rnr_retries_are_counted_and_seven_is_infinite() {
    for (rnr_retry, rounds) in [(0, 0), (2, 2), (7, 40)] {
        let mut rig = Rig::new(SendAttr {
            rnr_retry,
            ..send_attr(Service::Rc)
        });
        rig.post(SEND, 10);
        for _ in 0..rounds {
            assert_eq!(rig.psns(), [100]);
            rig.answer(Syndrome::RnrNak(RnrTimer::new(1)), 100);
            rig.time_out();
        }
        assert_eq!(rig.psns(), [100]);
        rig.answer(Syndrome::RnrNak(RnrTimer::new(1)), 100);
        let failed = rnr_retry < 7;
        let expected = if failed {
            vec![WcStatus::RnrRetryExcErr]
        } else {
            vec![]
        };
        assert_eq!(rig.statuses(), expected);
    }
}

/// concerns rows 3.073, 3.091
#[test]
fn progress_refills_the_rnr_retry_counter() {
    let mut rig = Rig::new(SendAttr {
        rnr_retry: 1,
        ..send_attr(Service::Rc)
    });
    for _ in 0..3 {
        rig.post(SEND, 10);
    }
    rig.run();
    for psn in 100..103 {
        rig.answer(Syndrome::RnrNak(RnrTimer::new(1)), psn);
        rig.time_out();
        assert_eq!(rig.psns()[0], psn);
        rig.ack(psn);
    }
    assert_eq!(rig.statuses(), [Success; 3]);
}

/// Answers the request with RNR NAKs of timer code 1, 10 us, and returns the wait after each.
fn rnr_waits(rig: &mut Rig, psn: u32, count: usize) -> Vec<u64> {
    let mut waits = Vec::new();
    for _ in 0..count {
        assert_eq!(rig.psns(), [psn]);
        rig.answer(Syndrome::RnrNak(RnrTimer::new(1)), psn);
        let began = rig.now;
        rig.time_out();
        waits.push(rig.now - began);
    }
    waits
}

/// concerns rows 3.071, 3.072
#[test]
fn rnr_waits_grow_until_there_is_progress() {
    let mut rig = Rig::new(SendAttr {
        rnr_retry: 7,
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 10);
    let grown: Vec<u64> = (0..12).map(|nth| (10_000 << nth).min(5_120_000)).collect();
    assert_eq!(rnr_waits(&mut rig, 100, 12), grown);
    assert_eq!(rig.psns(), [100]);
    rig.ack(100);
    rig.post(SEND, 10);
    assert_eq!(rnr_waits(&mut rig, 101, 2), [10_000, 20_000]);
}

/// concerns rows 3.071, 3.072
#[test]
fn an_rnr_wait_is_not_cut_short_by_an_implied_nak() {
    let mut rig = Rig::rc();
    for op in [SEND, SEND, READ, SEND] {
        rig.post(op, 8);
    }
    rig.run();
    rig.answer(Syndrome::RnrNak(RnrTimer::new(25)), 100);
    let deadline = rig.requester.next_deadline();
    rig.ack(100); // late: progress, in the midst of the wait
    rig.ack(103); // beyond the READ, which has no answer
    assert_eq!(rig.statuses(), [Success; 2]);
    assert_eq!(rig.psns(), []);
    assert_eq!(rig.requester.next_deadline(), deadline);
    rig.time_out();
    assert_eq!(rig.psns(), [102, 103]);
    assert_eq!(rig.world.count(Counter::CompleterRetry), 1);
}
