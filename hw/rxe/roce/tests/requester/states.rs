// SPDX-License-Identifier: GPL-2.0

//! States.

use super::*;

/// concerns rows 3.049, 3.061, 3.102
#[test]
fn draining_finishes_what_was_begun_and_holds_the_rest() {
    for notify in [true, false] {
        let mut rig = Rig::new(SendAttr {
            window: 1,
            ..send_attr(Service::Rc)
        });
        rig.post(SEND, 300);
        rig.post(SEND, 1);
        rig.run();
        rig.requester.drain(notify, &mut rig.world);
        assert!(rig.requester.is_draining());
        rig.ack(100);
        assert_eq!(rig.psns(), [101], "begun, so it goes on");
        assert!(
            rig.requester.is_draining(),
            "all is sent, but not acknowledged"
        );
        assert_eq!(rig.world.events, []);
        rig.ack(101);
        assert_eq!(rig.psns(), []);
        assert!(!rig.requester.is_draining());
        let expected: &[_] = if notify { &[QpEvent::SqDrained] } else { &[] };
        assert_eq!(rig.world.events, expected);
        rig.requester.set_attr(SendAttr {
            window: 64,
            ..*rig.requester.attr()
        });
        rig.requester.resume();
        assert_eq!(rig.psns(), [102]);
    }
}

/// concerns rows 3.049
#[test]
fn draining_holds_a_request_that_cannot_be_sent() {
    let mut rig = Rig::rc();
    rig.post(SEND, 1);
    rig.post(SendOp::Invalid(WcStatus::LocQpOpErr), 1);
    rig.run();
    rig.requester.drain(true, &mut rig.world);
    rig.ack(100);
    assert_eq!(rig.psns(), []);
    assert_eq!(rig.requester.state(), State::Sqd);
    assert_eq!(rig.world.events, [QpEvent::SqDrained]);
    assert_eq!(rig.statuses(), [Success]);
    rig.requester.resume();
    rig.requester
        .run(Time::from_ns(rig.now), 10, &mut rig.world);
    assert_eq!(rig.statuses(), [Success, WcStatus::LocQpOpErr]);
}

/// concerns rows 3.049, 3.102
#[test]
fn an_idle_queue_is_drained_at_once() {
    let mut rig = Rig::rc();
    rig.requester.drain(true, &mut rig.world);
    assert_eq!(rig.world.events, [QpEvent::SqDrained]);
    assert_eq!(rig.requester.state(), State::Sqd);
}

/// concerns rows 3.050, 3.082
#[test]
fn a_send_error_on_an_unreliable_service_stops_the_send_queue_only() {
    let mut rig = Rig::new(send_attr(Service::Uc));
    rig.world
        .transmit_errors
        .push_back(TransmitError::Fault(WcStatus::LocProtErr));
    rig.post(SEND, 300);
    rig.post(SEND, 1);
    rig.requester.run(Time::from_ns(0), 10, &mut rig.world);
    rig.run();
    assert_eq!(rig.statuses(), [WcStatus::LocProtErr, WrFlushErr]);
    assert_eq!(
        (rig.requester.state(), &*rig.world.moved),
        (State::Sqe, &[State::Sqe][..])
    );
    rig.requester.resume();
    rig.post(SEND, 1);
    assert_eq!(rig.psns(), [100]);
    assert_eq!(rig.statuses(), [WcStatus::LocProtErr, WrFlushErr, Success]);
}

/// concerns rows 3.048
#[test]
fn nothing_is_sent_before_rts() {
    let mut requester = Requester::new();
    let mut world = World::new(0, 1);
    world.post(SEND, vec![1]);
    assert_eq!(requester.run(Time::from_ns(0), 10, &mut world), Run::Idle);
    assert!(world.sent.is_empty());
}

#[test]
fn attributes_change_but_not_those_that_a_connection_is_made_with() {
    let mut rig = Rig::rc();
    rig.requester.set_attr(SendAttr {
        mtu: Mtu::Mtu4096,
        sq_psn: Psn::new(7),
        dest_qpn: Qpn::new(9),
        retry_cnt: 8,
        rnr_retry: 8,
        window: 0,
        ..send_attr(Service::Uc)
    });
    let attr = rig.requester.attr();
    let kept = (attr.service, attr.mtu, attr.sq_psn);
    assert_eq!(kept, (Service::Rc, Mtu::Mtu256, Psn::new(100)));
    let limited = (attr.retry_cnt, attr.rnr_retry, attr.window);
    assert_eq!(limited, (7, 7, 1));
    rig.post(SEND, 257);
    let sent = rig.run();
    assert_eq!((sent.len(), sent[0].payload.len()), (1, 256));
    assert_eq!(sent[0].headers.bth().dest_qpn, Qpn::new(9));
}
