// SPDX-License-Identifier: GPL-2.0

//! The initiator of an extended reliable connection.

use super::*;

fn rig() -> Rig {
    Rig::new(send_attr(Service::XrcIni))
}

/// Posts a request for a shared receive queue of the peer.
fn post(rig: &mut Rig, op: SendOp, len: usize, srqn: u32) {
    let wr = SendWr {
        op,
        length: len as u32,
        signaled: true,
        solicited: false,
        fence: false,
        srqn: Srqn::new(srqn),
    };
    rig.world.post_wr(wr, vec![7; len]);
}

/// The shared receive queues that packets name.
fn named(sent: &[Sent]) -> Vec<Option<u32>> {
    let number = |xrceth: Xrceth| xrceth.srqn.get();
    sent.iter()
        .map(|sent| sent.headers.xrceth().map(number))
        .collect()
}

/// concerns rows 3.004, 8.004
#[test]
fn each_packet_names_the_queue_of_its_request() {
    let mut rig = rig();
    post(&mut rig, SEND, 600, 0x12_3456);
    post(&mut rig, WRITE, 300, 0x65_4321);
    post(&mut rig, READ, 8, 1);
    post(&mut rig, ADD, 8, 2);
    post(&mut rig, SEND, 1, 3);
    let sent = rig.run();
    use Opcode::*;
    assert_eq!(
        opcodes(&sent),
        [
            XrcSendFirst,
            XrcSendMiddle,
            XrcSendLast,
            XrcWriteFirst,
            XrcWriteLast,
            XrcReadRequest,
            XrcFetchAdd,
            XrcSendOnly,
        ]
    );
    let (first, second) = (Some(0x12_3456), Some(0x65_4321));
    let expected = [
        first,
        first,
        first,
        second,
        second,
        Some(1),
        Some(2),
        Some(3),
    ];
    assert_eq!(named(&sent), expected);
    let lengths: Vec<_> = sent.iter().map(|s| s.headers.header_len()).collect();
    assert_eq!(lengths, [16, 16, 16, 32, 16, 32, 44, 16]);
}

/// concerns rows 3.004
#[test]
fn every_operation_of_a_reliable_connection_is_one_of_xrc() {
    let (va, rkey) = (BASE, RKEY);
    let op = AtomicOp::CmpSwap {
        compare: 1,
        swap: 2,
    };
    let feth = Feth {
        placement: 1,
        selectivity: 0,
    };
    let extra = SendExtra::Invalidate(9);
    let all = [
        (SendOp::Send { extra }, Opcode::XrcSendOnlyInvalidate),
        (SendOp::Atomic { va, rkey, op }, Opcode::XrcCompareSwap),
        (SendOp::AtomicWrite { va, rkey }, Opcode::XrcAtomicWrite),
        (SendOp::Flush { va, rkey, feth }, Opcode::XrcFlush),
    ];
    for (op, opcode) in all {
        let mut rig = rig();
        post(&mut rig, op, 8, 5);
        let sent = rig.run();
        assert_eq!(opcodes(&sent), [opcode]);
        assert_eq!(named(&sent), [Some(5)]);
    }
}

/// concerns rows 3.004
#[test]
fn its_requests_are_acknowledged_and_answered() {
    let mut rig = rig();
    post(&mut rig, SEND, 10, 4);
    post(&mut rig, READ, 4, 4);
    rig.run();
    rig.ack(100);
    assert_eq!(rig.statuses(), [Success]);
    let parts = Parts::default();
    rig.respond(Opcode::XrcReadResponseOnly, 101, parts, b"data");
    assert_eq!(rig.statuses(), [Success; 2]);
    assert_eq!(rig.world.queue[1].data, b"data");
}

/// concerns rows 3.004
#[test]
fn what_is_sent_again_names_the_same_queue() {
    let mut rig = rig();
    post(&mut rig, SEND, 300, 4);
    post(&mut rig, SEND, 1, 5);
    rig.run();
    rig.nak(NakCode::PsnSequence, 101);
    assert_eq!(named(&rig.run()), [Some(4), Some(5)]);
    rig.time_out();
    assert_eq!(named(&rig.run()), [Some(4)]);
}

/// concerns rows 3.004
#[test]
fn a_refusal_leads_to_the_error_state() {
    let mut rig = rig();
    post(&mut rig, SEND, 1, 4);
    post(&mut rig, SEND, 1, 5);
    rig.run();
    rig.nak(NakCode::RemoteAccess, 100);
    rig.run();
    assert_eq!(rig.statuses(), [WcStatus::RemAccessErr, WrFlushErr]);
    assert_eq!(rig.world.moved, [State::Err]);
}

/// concerns rows 8.003
#[test]
fn a_target_sends_no_requests() {
    for op in [SEND, WRITE, READ, ADD] {
        let mut rig = Rig::new(send_attr(Service::XrcTgt));
        post(&mut rig, op, 8, 4);
        let now = Time::from_ns(rig.now);
        while rig.requester.run(now, 100, &mut rig.world) != Run::Idle {}
        assert!(rig.world.take_sent().is_empty());
        assert_eq!(rig.statuses(), [WcStatus::LocQpOpErr]);
    }
}

/// concerns rows 8.003
#[test]
fn each_end_takes_the_packets_of_the_other() {
    for &opcode in Opcode::ALL {
        let is_xrc = opcode.service() == roce::opcode::Service::Xrc;
        let initiator = is_xrc && opcode.is_response();
        let target = is_xrc && opcode.is_request();
        assert_eq!(Service::XrcIni.takes(opcode), initiator, "{opcode:?}");
        assert_eq!(Service::XrcTgt.takes(opcode), target, "{opcode:?}");
        for service in [Service::Rc, Service::Uc, Service::Ud] {
            let own = opcode.service() == service.into();
            assert_eq!(service.takes(opcode), own, "{opcode:?}");
        }
    }
}
