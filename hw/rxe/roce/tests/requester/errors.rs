// SPDX-License-Identifier: GPL-2.0

//! Errors.

use super::*;

/// concerns rows 3.076, 3.087, 3.088, 3.089, 3.097
#[test]
fn refusals_complete_with_their_status_and_the_rest_is_flushed() {
    let cases = [
        (NakCode::InvalidRequest, WcStatus::RemInvReqErr),
        (NakCode::RemoteAccess, WcStatus::RemAccessErr),
        (NakCode::RemoteOperational, WcStatus::RemOpErr),
    ];
    for (code, status) in cases {
        let mut rig = Rig::rc();
        for op in [SEND, WRITE, SEND] {
            rig.post(op, 300);
        }
        rig.run();
        rig.nak(code, 103); // the second packet of the second message
        assert_eq!(rig.psns(), [], "nothing is sent again");
        assert_eq!(rig.statuses(), [Success, status, WrFlushErr]);
        rig.post(SEND, 1);
        rig.run();
        assert_eq!(rig.statuses(), [Success, status, WrFlushErr, WrFlushErr]);
        assert_eq!(rig.requester.state(), State::Err);
    }
}

/// concerns rows 3.082, 3.097
#[test]
fn a_local_fault_waits_for_its_turn() {
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.run();
    rig.post(SEND, 10);
    rig.post(SEND, 10);
    rig.world
        .transmit_errors
        .push_back(TransmitError::Fault(WcStatus::LocProtErr));
    assert_eq!(rig.psns(), []);
    assert_eq!(rig.statuses(), [], "the first one may still succeed");
    rig.ack(100);
    assert_eq!(
        rig.requester
            .run(Time::from_ns(rig.now), 10, &mut rig.world),
        Run::More
    );
    rig.run();
    assert_eq!(rig.statuses(), [Success, WcStatus::LocProtErr, WrFlushErr]);
}

/// concerns rows 3.082
#[test]
fn read_data_that_cannot_be_stored_is_a_protection_error() {
    let mut rig = Rig::rc();
    rig.post(READ, 8);
    rig.run();
    rig.world.scatter_result = Err(WcStatus::LocProtErr);
    rig.read_response(Position::Only, 100, &[0; 8]);
    assert_eq!(rig.statuses(), [WcStatus::LocProtErr]);
}

/// concerns rows 3.018
#[test]
fn an_empty_answer_needs_no_memory() {
    let mut rig = Rig::rc();
    rig.post(READ, 0);
    rig.run();
    rig.world.scatter_result = Err(WcStatus::LocProtErr);
    rig.read_response(Position::Only, 100, &[]);
    assert_eq!(rig.statuses(), [Success]);
}

/// concerns rows 3.036, 3.080
#[test]
fn operations_that_the_service_lacks_are_local_errors() {
    let ud = SendOp::SendUd {
        imm: None,
        dest: UdDest {
            qpn: PEER,
            qkey: 1,
            pkey: None,
        },
    };
    let key = SendOp::Send {
        extra: SendExtra::Invalidate(1),
    };
    let invalid = SendOp::Invalid(WcStatus::LocQpOpErr);
    let cases = [
        (Service::Uc, vec![READ, ADD, ud, key, invalid]),
        (Service::Ud, vec![SEND, WRITE, READ, ADD, key, invalid]),
        (Service::Rc, vec![ud, invalid]),
    ];
    for (service, ops) in cases {
        for op in ops {
            let mut rig = Rig::new(send_attr(service));
            rig.post(op, 8);
            rig.requester.run(Time::from_ns(0), 10, &mut rig.world);
            assert_eq!(rig.statuses(), [WcStatus::LocQpOpErr], "{service:?} {op:?}");
            assert!(rig.world.sent.is_empty());
        }
    }
}

/// concerns rows 3.076, 3.093, 3.095, 3.097
#[test]
fn an_invalid_request_fails_with_whatever_status_it_has() {
    let ends = [
        (Service::Rc, SEND, State::Err),
        (Service::Uc, SEND, State::Sqe),
    ];
    for number in 1..=21 {
        let status = WcStatus::from_ib(number).expect("one of the kernel's");
        assert_eq!(status.to_ib(), number);
        for (service, op, state) in ends {
            let mut rig = Rig::new(send_attr(service));
            rig.post(SendOp::Invalid(status), 8);
            rig.post(op, 8);
            rig.requester.run(Time::from_ns(0), 10, &mut rig.world);
            rig.requester.run(Time::from_ns(0), 10, &mut rig.world);
            assert_eq!(rig.statuses(), [status, WrFlushErr], "{service:?}");
            assert_eq!(rig.requester.state(), state, "{service:?}");
            assert!(rig.world.sent.is_empty());
        }
    }
    assert_eq!(WcStatus::from_ib(0), Some(Success));
    assert_eq!(WcStatus::from_ib(22), None);
}

/// concerns rows 3.051, 3.053, 3.083
#[test]
fn the_error_state_flushes_each_once_in_order() {
    let mut rig = Rig::rc();
    for op in [SEND, READ, INVALIDATE, SEND] {
        rig.post(op, 8);
    }
    rig.run();
    rig.requester.error();
    rig.requester.error();
    assert_eq!(
        rig.requester.run(Time::from_ns(0), 3, &mut rig.world),
        Run::More
    );
    assert_eq!(rig.statuses(), [WrFlushErr; 3]);
    rig.ack(100);
    rig.read_response(Position::Only, 101, &[0; 8]);
    assert_eq!(rig.psns(), []);
    assert_eq!(rig.statuses(), [WrFlushErr; 4]);
    assert!(rig.world.completions.iter().all(|c| c.report));
}

/// concerns rows 3.051, 3.083
#[test]
fn an_answer_in_the_error_state_comes_too_late() {
    let mut rig = Rig::rc();
    rig.post(READ, 8);
    rig.post(SEND, 8);
    rig.run();
    rig.requester.error();
    rig.read_response(Position::Only, 100, &[0; 8]);
    rig.ack(101);
    assert_eq!(rig.statuses(), []);
    rig.run();
    assert_eq!(rig.statuses(), [WrFlushErr; 2]);
    assert_eq!(rig.world.queue[0].data, [7; 8]);
}

/// concerns rows 3.052, 3.054
#[test]
fn a_reset_begins_anew() {
    let mut rig = Rig::rc();
    rig.post(SEND, 8);
    rig.run();
    rig.requester.reset();
    assert_eq!(rig.requester.state(), State::Reset);
    assert_eq!(rig.psns(), []);
    rig.world = World::new(0, 1);
    rig.requester.start(SendAttr {
        sq_psn: Psn::new(5),
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 8);
    assert_eq!(rig.psns(), [5]);
    rig.ack(100);
    rig.ack(5);
    assert_eq!(rig.statuses(), [Success]);
}

/// concerns rows 3.051
#[test]
fn back_pressure_keeps_the_place() {
    let mut rig = Rig::rc();
    rig.post(SEND, 600);
    rig.world
        .transmit_errors
        .push_back(TransmitError::QueueFull);
    let run = rig.requester.run(Time::from_ns(0), 10, &mut rig.world);
    assert_eq!((run, rig.world.sent.len()), (Run::Blocked, 0));
    assert_eq!(rig.psns(), [100, 101, 102]);
}

#[test]
fn a_packet_dropped_at_home_counts_as_sent() {
    let mut rig = Rig::rc();
    rig.post(SEND, 600);
    rig.world.transmit_errors.push_back(TransmitError::Dropped);
    assert_eq!(rig.psns(), [101, 102]);
    assert_eq!(rig.world.count(Counter::SendErr), 1);
    rig.nak(NakCode::PsnSequence, 100);
    assert_eq!(rig.psns(), [100, 101, 102]);
}
