// SPDX-License-Identifier: GPL-2.0

//! Acknowledges.

use super::*;

/// concerns rows 3.074
#[test]
fn acknowledges_coalesce_over_a_batch() {
    let mut rig = Rig::rc();
    for psn in 100..110 {
        rig.take(request(RcWriteOnly, psn).range(BASE, 8).data(8));
    }
    assert_eq!(rig.answers(), [(ACK, 109)]);
    assert_eq!(rig.answers(), []);
}

/// concerns rows 3.074
#[test]
fn an_acknowledge_that_was_asked_for_comes_whatever_follows() {
    let mut rig = Rig::rc();
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    rig.take(request(RcWriteFirst, 101).range(BASE, 300).data(256)); // asks for none
    assert_eq!(rig.answers(), [(ACK, 101)]);
}

/// concerns rows 3.074
#[test]
fn a_gap_is_reported_once() {
    let mut rig = Rig::rc();
    for psn in 101..104 {
        rig.take(request(RcWriteOnly, psn).range(BASE, 8).data(8));
    }
    assert_eq!(rig.answers(), [(SEQUENCE, 100)]);
    rig.take(request(RcWriteOnly, 104).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), []);
    assert_eq!(rig.world.count(Counter::OutOfSeqRequest), 4);
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    rig.take(request(RcWriteOnly, 102).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), [(SEQUENCE, 101)], "a new gap");
}

/// A gap that closes before the NAK is sent has still dropped the packets after it.
#[test]
fn a_gap_that_closes_late_is_reported_all_the_same() {
    let mut rig = Rig::rc();
    rig.take(request(RcWriteOnly, 101).range(BASE, 8).data(8));
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), [(SEQUENCE, 101)]);
}

/// The peer would take an acknowledge in place of the NAK for a sign that nothing is missing.
///
/// concerns rows 3.074
#[test]
fn a_duplicate_does_not_replace_a_nak() {
    let mut rig = Rig::rc();
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    rig.run();
    rig.take(request(RcWriteOnly, 102).range(BASE, 8).data(8));
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), [(SEQUENCE, 101)]);
}

/// concerns rows 3.066
#[test]
fn half_of_all_sequence_numbers_are_ahead_and_half_behind() {
    use Counter::{DuplicateRequest, OutOfSeqRequest};
    let cases = [
        (0x00_0001, [1, 0]),
        (0x7f_ffff, [1, 0]),
        (0x80_0000, [0, 1]),
        (0xff_ffff, [0, 1]),
    ];
    for (ahead, counts) in cases {
        let mut rig = Rig::rc();
        rig.take(request(RcWriteOnly, 100 + ahead).range(BASE, 8).data(8));
        let counted = [OutOfSeqRequest, DuplicateRequest].map(|counter| rig.world.count(counter));
        assert_eq!(counted, counts, "{ahead:x}");
        let naks: &[_] = if counts[0] == 1 {
            &[(SEQUENCE, 100)]
        } else {
            &[]
        };
        assert_eq!(rig.answers(), naks, "{ahead:x}");
    }
}

/// concerns rows 3.074
#[test]
fn duplicates_are_acknowledged_and_not_executed() {
    let mut rig = Rig::rc();
    rig.world.post_recv(8);
    rig.take(request(RcSendOnly, 100).data(4));
    rig.take(request(RcWriteOnly, 101).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), [(ACK, 101)]);
    rig.world.memory[0] = 1;
    rig.take(request(RcSendOnly, 100).data(4));
    rig.take(request(RcWriteOnly, 101).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), [(ACK, 101)]);
    assert_eq!((rig.received().len(), rig.world.memory[0]), (1, 1));
    assert_eq!(rig.world.count(Counter::DuplicateRequest), 2);
}

/// A peer could take such an acknowledge for the response.
#[test]
fn no_acknowledge_carries_the_psn_of_a_read_or_atomic() {
    let mut rig = Rig::rc();
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    rig.take(request(RcReadRequest, 101).range(BASE, 8));
    rig.take(request(RcFetchAdd, 102).atomic(BASE, 0, 1));
    rig.run();
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), [(ACK, 100)]);
}

/// concerns rows 3.045, 3.046, 3.051
#[test]
fn packets_are_dropped_where_the_state_says_so() {
    let mut rig = Rig::rc();
    rig.world.post_recv(8);
    rig.responder.reset();
    rig.take(request(RcSendOnly, 100).data(4));
    assert_eq!(rig.answers(), []);
    rig.responder.start(recv_attr(Service::Rc));
    rig.take(request(UcSendOnly, 100).data(4));
    rig.take(request(RcAcknowledge, 100));
    assert_eq!((rig.answers(), rig.world.events.len()), (vec![], 0));
    rig.responder.error();
    rig.take(request(RcSendOnly, 100).data(4));
    assert_eq!(rig.answers(), []);
    assert_eq!(rig.received(), [WcStatus::WrFlushErr]);
}

/// concerns rows 3.047, 3.101
#[test]
fn the_first_packet_in_rtr_is_an_event() {
    let mut rig = Rig::rc();
    rig.responder.reset();
    rig.responder.start(recv_attr(Service::Rc));
    rig.take(request(RcWriteOnly, 100));
    rig.take(request(RcWriteOnly, 101));
    assert_eq!(rig.world.events, [QpEvent::CommEst]);
    let mut rig = Rig::rc();
    rig.take(request(RcWriteOnly, 100));
    assert_eq!(rig.world.events, []);
}

#[test]
fn attributes_change_but_not_those_that_a_connection_is_made_with() {
    let mut rig = Rig::rc();
    let timer = RnrTimer::new(25);
    rig.responder.set_attr(RecvAttr {
        mtu: Mtu::Mtu4096,
        rq_psn: Psn::new(7),
        min_rnr_timer: timer,
        ..recv_attr(Service::Uc)
    });
    let attr = rig.responder.attr();
    let kept = (attr.service, attr.mtu, attr.rq_psn);
    assert_eq!(kept, (Service::Rc, Mtu::Mtu256, Psn::new(100)));
    rig.take(request(RcSendOnly, 100));
    assert_eq!(rig.answers(), [(Syndrome::RnrNak(timer), 100)]);
}
