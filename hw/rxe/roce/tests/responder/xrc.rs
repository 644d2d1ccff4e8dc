// SPDX-License-Identifier: GPL-2.0

//! The target of an extended reliable connection. Its shared receive queues 7 and 8 are of its domain, 9 is of another one.

use super::*;

fn rig() -> Rig {
    let mut rig = Rig::with_srq(recv_attr(Service::XrcTgt), true);
    rig.world.add_srq(7, true);
    rig.world.add_srq(8, true);
    rig.world.add_srq(9, false);
    for number in [7, 8, 9] {
        rig.world.post_srq_recv(number, 600);
    }
    rig
}

/// Delivers a request and expects it to be refused; the target takes no more receives then.
fn refused(mut rig: Rig, request: Request, code: NakCode, event: QpEvent) {
    let psn = request.psn;
    rig.take(request);
    assert_eq!(rig.answers(), [(Syndrome::Nak(code), psn)]);
    assert_eq!(rig.world.events, [event, QpEvent::LastWqeReached]);
    assert_eq!(rig.responder.state(), State::Err);
}

/// The queues that receives were taken from.
fn queues(rig: &Rig) -> Vec<Option<u32>> {
    let number = |srqn: Srqn| srqn.get();
    let received = rig.world.received.iter();
    received.map(|r| r.srqn.map(number)).collect()
}

/// concerns rows 3.004, 8.002
#[test]
fn a_receive_is_of_the_queue_that_is_named() {
    let mut rig = rig();
    rig.take(request(XrcSendOnly, 100).srq(8).data(5));
    rig.take(request(XrcSendOnlyImmediate, 101).srq(7).imm(3).data(5));
    let sent = rig.run();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].headers.opcode(), XrcAcknowledge);
    assert_eq!(sent[0].headers.psn(), Psn::new(101));
    assert_eq!(queues(&rig), [Some(8), Some(7)]);
    let completion = rig.world.received[1].completion;
    assert_eq!(completion.imm, Some(3));
    assert_eq!(completion.src_qpn, PEER);
}

/// concerns rows 3.004
#[test]
fn a_message_is_received_in_packets() {
    let mut rig = rig();
    rig.take(request(XrcSendFirst, 100).srq(8).data(256));
    rig.take(request(XrcSendMiddle, 101).srq(8).data(256));
    rig.take(request(XrcSendLast, 102).srq(8).data(8));
    assert_eq!(rig.answers(), [(ACK, 102)]);
    assert_eq!(queues(&rig), [Some(8)]);
    assert_eq!(rig.world.received[0].completion.byte_len, 520);
}

/// concerns rows 3.004, 8.002
#[test]
fn a_queue_that_is_unknown_or_of_another_domain_is_refused() {
    for number in [9, 10] {
        refused(
            rig(),
            request(XrcSendOnly, 100).srq(number).data(5),
            NakCode::RemoteAccess,
            ACCESS,
        );
        refused(
            rig(),
            request(XrcReadRequest, 100).srq(number).range(BASE, 8),
            NakCode::RemoteAccess,
            ACCESS,
        );
        let add = request(XrcFetchAdd, 100).atomic(BASE, 0, 1);
        refused(rig(), add.srq(number), NakCode::RemoteAccess, ACCESS);
    }
}

/// concerns rows 3.004
#[test]
fn all_packets_of_a_message_name_the_same_queue() {
    let mut sends = rig();
    sends.take(request(XrcSendFirst, 100).srq(8).data(256));
    sends.take(request(XrcSendLast, 101).srq(7).data(8));
    let refused = [(Syndrome::Nak(NakCode::InvalidRequest), 101)];
    assert_eq!(sends.answers(), refused);
    assert_eq!(sends.received(), [WcStatus::LocQpOpErr]);
    assert_eq!(queues(&sends), [Some(8)]);
    let mut writes = rig();
    let first = request(XrcWriteFirst, 100).range(BASE, 264).rkey(8).srq(8);
    writes.take(first.data(256));
    writes.take(request(XrcWriteLast, 101).srq(7).data(8));
    assert_eq!(writes.answers(), refused);
}

/// concerns rows 3.004
#[test]
fn keys_are_of_the_domain_of_the_queue_that_is_named() {
    for (queue, key, good) in [(7, 7, true), (8, 8, true), (7, 8, false), (8, 7, false)] {
        let write = request(XrcWriteOnly, 100).range(BASE, 4);
        let read = request(XrcReadRequest, 100).range(BASE, 4);
        let add = request(XrcFetchAdd, 100).atomic(BASE, 0, 1);
        for packet in [write.data(4), read, add] {
            let packet = packet.rkey(key).srq(queue);
            if good {
                let mut rig = rig();
                rig.take(packet);
                let sent = rig.run();
                assert!(sent[0].headers.aeth().is_some_and(|a| a.syndrome.is_ack()));
                assert!(rig.world.events.is_empty());
            } else {
                refused(rig(), packet, NakCode::RemoteAccess, ACCESS);
            }
        }
    }
}

/// concerns rows 3.004
#[test]
fn responses_have_opcodes_of_xrc() {
    let mut rig = rig();
    let read = request(XrcReadRequest, 100).range(BASE, 600);
    rig.take(read.rkey(7).srq(7));
    let add = request(XrcFetchAdd, 103).atomic(BASE, 0, 1);
    rig.take(add.rkey(7).srq(7));
    let opcodes: Vec<_> = rig.run().iter().map(|s| s.headers.opcode()).collect();
    assert_eq!(
        opcodes,
        [
            XrcReadResponseFirst,
            XrcReadResponseMiddle,
            XrcReadResponseLast,
            XrcAtomicAcknowledge,
        ]
    );
}

/// concerns rows 3.004
#[test]
fn an_empty_queue_is_not_ready() {
    let mut rig = rig();
    rig.take(request(XrcSendOnly, 100).srq(7).data(5));
    rig.take(request(XrcSendOnly, 101).srq(7).data(5));
    assert_eq!(rig.answers(), [(Syndrome::RnrNak(RnrTimer::new(1)), 101)]);
    // The initiator may not name another one instead, but the request that it sends again may.
    rig.take(request(XrcSendOnly, 101).srq(8).data(5));
    rig.run();
    assert_eq!(queues(&rig), [Some(7), Some(8)]);
}

/// concerns rows 3.004
#[test]
fn duplicates_are_answered_and_take_no_receive() {
    let mut rig = rig();
    rig.take(request(XrcSendOnly, 100).srq(7).data(5));
    let read = || request(XrcReadRequest, 101).range(BASE, 4).rkey(8);
    rig.take(read().srq(8));
    assert_eq!(rig.run().len(), 1);
    rig.take(request(XrcSendOnly, 100).srq(9).data(5));
    assert_eq!(rig.answers(), [(ACK, 100)]);
    rig.take(read().srq(8));
    assert_eq!(rig.run().len(), 1);
    // The memory of another domain is not read again.
    rig.take(read().srq(9));
    rig.take(read().srq(7));
    assert_eq!(rig.run().len(), 0);
    assert_eq!(queues(&rig), [Some(7)]);
    assert!(rig.world.events.is_empty());
}

/// concerns rows 3.004
#[test]
fn a_duplicate_in_a_message_changes_nothing() {
    let mut rig = rig();
    rig.take(request(XrcReadRequest, 100).range(BASE, 4).rkey(7).srq(7));
    rig.take(request(XrcSendFirst, 101).srq(8).data(256));
    rig.take(request(XrcReadRequest, 100).range(BASE, 4).rkey(7).srq(7));
    rig.take(request(XrcSendLast, 102).srq(8).data(8));
    rig.run();
    assert_eq!(rig.received(), [WcStatus::Success]);
    assert_eq!(queues(&rig), [Some(8)]);
}

/// concerns rows 8.002
#[test]
fn what_follows_of_a_message_is_refused_when_its_queue_is_gone() {
    let mut rig = rig();
    rig.take(request(XrcSendFirst, 100).srq(8).data(256));
    rig.world.current = None;
    rig.responder.forget_receive();
    rig.take(request(XrcSendMiddle, 101).srq(8).data(256));
    let refused = Syndrome::Nak(NakCode::InvalidRequest);
    assert_eq!(rig.answers(), [(refused, 101)]);
    assert!(rig.world.received.is_empty());
}

/// concerns rows 8.003
#[test]
fn packets_of_others_are_ignored() {
    let others = [RcSendOnly, UcSendOnly, XrcAcknowledge, XrcReadResponseOnly];
    let mut target = rig();
    for opcode in others {
        target.take(request(opcode, 100).srq(7));
    }
    let mut initiator = Rig::new(recv_attr(Service::XrcIni));
    initiator.world.add_srq(7, true);
    initiator.world.post_srq_recv(7, 100);
    initiator.take(request(XrcSendOnly, 100).srq(7));
    let mut rc = Rig::rc();
    rc.world.post_recv(100);
    rc.take(request(XrcSendOnly, 100).srq(7));
    for mut rig in [target, initiator, rc] {
        assert!(rig.run().is_empty());
        assert!(rig.received().is_empty());
        assert_eq!(rig.responder.expected_psn(), Psn::new(100));
    }
}

/// concerns rows 3.004
#[test]
fn in_the_error_state_it_takes_no_receives() {
    let mut rig = rig();
    rig.responder.error();
    rig.run();
    assert_eq!(rig.world.events, [QpEvent::LastWqeReached]);
    assert!(rig.received().is_empty());
    assert_eq!(rig.world.srqs[0].receives.len(), 1);
}

/// concerns rows 3.004
#[test]
fn reserved_opcodes_are_refused() {
    for opcode in [XrcReservedb5, XrcReservedb8, XrcReservedbf] {
        let packet = request(opcode, 100).data(16);
        refused(rig(), packet, NakCode::InvalidRequest, INVALID);
    }
}
