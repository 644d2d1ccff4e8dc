// SPDX-License-Identifier: GPL-2.0

//! Acknowledges.

use super::*;

/// concerns rows 3.074
#[test]
fn one_acknowledge_covers_everything_before_it() {
    let mut rig = Rig::rc();
    for _ in 0..3 {
        rig.post(SEND, 300);
    }
    rig.run();
    rig.ack(104); // the first packet of the third message
    assert_eq!(rig.statuses(), [Success; 2]);
    rig.ack(105);
    assert_eq!(rig.statuses(), [Success; 3]);
    assert_eq!(rig.requester.next_deadline(), None);
}

/// The PSNs of the packets that ask for an acknowledge.
fn asked(sent: &[Sent]) -> Vec<u32> {
    let asking = sent.iter().filter(|sent| sent.headers.bth().ack_req);
    asking.map(|sent| sent.headers.psn().get()).collect()
}

/// concerns rows 3.074
#[test]
fn the_last_of_messages_that_are_sent_together_asks_for_all() {
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.post(WRITE, 300);
    rig.post(SEND, 0);
    assert_eq!(asked(&rig.run()), [103]);
    rig.ack(103);
    assert_eq!(rig.statuses(), [Success; 3]);
    rig.post(SEND, 10);
    assert_eq!(asked(&rig.run()), [104]);
}

/// concerns rows 3.074
#[test]
fn the_last_message_of_a_run_asks_although_more_are_posted() {
    let mut rig = Rig::rc();
    for _ in 0..5 {
        rig.post(SEND, 10);
    }
    let now = Time::from_ns(rig.now);
    let run = rig.requester.run(now, 3, &mut rig.world);
    assert_eq!((run, asked(&rig.world.take_sent())), (Run::More, vec![102]));
}

/// concerns rows 3.074
#[test]
fn one_acknowledge_is_for_sixteen_messages_at_most() {
    let mut rig = Rig::rc();
    for _ in 0..40 {
        rig.post(SEND, 10);
    }
    assert_eq!(asked(&rig.run()), [115, 131, 139]);
    rig.ack(139);
    for _ in 0..2 {
        rig.post(SEND, 10);
    }
    assert_eq!(asked(&rig.run()), [141]);
}

/// concerns rows 3.074
#[test]
fn the_message_that_fills_the_window_asks() {
    let mut rig = Rig::new(SendAttr {
        window: 3,
        ..send_attr(Service::Rc)
    });
    for _ in 0..5 {
        rig.post(SEND, 10);
    }
    assert_eq!(asked(&rig.run()), [102]);
}

/// concerns rows 3.074
#[test]
fn a_message_is_held_back_only_if_another_one_follows_at_once() {
    let mut rig = Rig::rc();
    for _ in 0..3 {
        rig.post(SEND, 10);
    }
    rig.run();
    assert_eq!(rig.world.more, [true, true, false]);
    let mut rig = Rig::rc();
    for op in [SEND, READ, SEND] {
        rig.post(op, 8);
    }
    rig.run();
    assert_eq!(rig.world.more, [false; 3]);
    // The budget is used up.
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.post(SEND, 10);
    let now = Time::from_ns(rig.now);
    rig.requester.run(now, 1, &mut rig.world);
    assert_eq!(rig.world.more, [false]);
}

/// What may not be sent at once gives no acknowledge that others could wait for.
///
/// concerns rows 3.074
#[test]
fn a_message_asks_if_what_follows_may_have_to_wait() {
    let fenced = SendWr {
        op: SEND,
        length: 0,
        signaled: true,
        solicited: false,
        fence: true,
        srqn: Srqn::default(),
    };
    for op in [READ, ADD, INVALIDATE, BIND] {
        let mut rig = Rig::rc();
        rig.post(SEND, 10);
        rig.post(op, 8);
        assert_eq!(asked(&rig.run()).first(), Some(&100), "{op:?}");
    }
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.world.post_wr(fenced, Vec::new());
    assert_eq!(asked(&rig.run()), [100, 101]);
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.post(SendOp::Invalid(WcStatus::LocQpOpErr), 1);
    assert_eq!(asked(&rig.run()), [100]);
}

/// concerns rows 3.074, 3.082
#[test]
fn messages_before_one_that_fails_are_acknowledged_by_a_duplicate() {
    let mut rig = Rig::rc();
    for _ in 0..4 {
        rig.post(SEND, 10);
    }
    rig.world.good_transmits = 3;
    rig.world
        .transmit_errors
        .push_back(TransmitError::Fault(WcStatus::LocProtErr));
    let sent = rig.run();
    let psns: Vec<_> = sent.iter().map(|s| s.headers.psn().get()).collect();
    assert_eq!(psns, [100, 101, 102, 100]);
    assert_eq!(asked(&sent), [100], "the duplicate");
    rig.ack(102);
    rig.requester
        .run(Time::from_ns(rig.now), 10, &mut rig.world);
    assert_eq!(
        rig.statuses(),
        [Success, Success, Success, WcStatus::LocProtErr]
    );
}

/// concerns rows 3.049, 3.074
#[test]
fn draining_asks_for_what_nothing_has_asked_for() {
    let mut rig = Rig::rc();
    for _ in 0..4 {
        rig.post(SEND, 10);
    }
    rig.world.good_transmits = 2;
    rig.world
        .transmit_errors
        .push_back(TransmitError::QueueFull);
    let now = Time::from_ns(rig.now);
    assert_eq!(rig.requester.run(now, 10, &mut rig.world), Run::Blocked);
    assert_eq!(asked(&rig.world.take_sent()), []);
    rig.requester.drain(true, &mut rig.world);
    assert_eq!(asked(&rig.run()), [100], "again");
    rig.ack(101);
    rig.run();
    assert_eq!(rig.world.events, [QpEvent::SqDrained]);
    assert_eq!(rig.statuses(), [Success; 2]);
}

/// concerns rows 3.074
#[test]
fn ghosts_and_duplicates_have_no_effect() {
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.run();
    for psn in [99, 101, 0x80_0064] {
        rig.ack(psn);
        rig.nak(NakCode::RemoteAccess, psn);
        rig.read_response(Position::Only, psn, &[1]);
    }
    assert_eq!(rig.statuses(), []);
    rig.ack(100);
    rig.nak(NakCode::PsnSequence, 100);
    assert_eq!(rig.statuses(), [Success]);
    assert_eq!(rig.psns(), []);
}

/// concerns rows 3.038
#[test]
fn only_signaled_work_requests_report_unless_all_are() {
    for signal_all in [false, true] {
        let mut rig = Rig::new(SendAttr {
            signal_all,
            ..send_attr(Service::Rc)
        });
        for signaled in [false, true] {
            let wr = SendWr {
                op: SEND,
                length: 0,
                signaled,
                solicited: false,
                fence: false,
                srqn: Srqn::default(),
            };
            rig.world.post_wr(wr, Vec::new());
        }
        rig.run();
        rig.ack(101);
        let reports: Vec<_> = rig.world.completions.iter().map(|c| c.report).collect();
        assert_eq!(reports, [signal_all, true]);
    }
}

#[test]
fn the_window_limits_what_is_outstanding() {
    let mut rig = Rig::new(SendAttr {
        window: 3,
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 256 * 5);
    let sent = rig.run();
    assert_eq!(sent.len(), 3);
    assert!(sent[2].headers.bth().ack_req, "or it would wait for ever");
    rig.ack(101);
    assert_eq!(rig.psns(), [103, 104]);
}

#[test]
fn long_messages_ask_for_acknowledges_now_and_then() {
    let mut rig = Rig::new(SendAttr {
        window: 1000,
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 256 * 200);
    let asked: Vec<_> = (0u32..)
        .zip(rig.run())
        .filter(|(_, s)| s.headers.bth().ack_req)
        .collect();
    assert_eq!(
        asked.iter().map(|(i, _)| *i).collect::<Vec<_>>(),
        [63, 127, 191, 199]
    );
}

#[test]
fn credits_are_no_bar() {
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.post(SEND, 10);
    rig.run();
    rig.answer(Syndrome::Ack(Credits::new(0)), 101);
    assert_eq!(rig.statuses(), [Success; 2]);
}
