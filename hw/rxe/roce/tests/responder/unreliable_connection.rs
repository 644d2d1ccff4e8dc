// SPDX-License-Identifier: GPL-2.0

//! Unreliable connection.

use super::*;

/// concerns rows 3.002
#[test]
fn an_incomplete_unreliable_message_is_dropped_and_its_receive_used_again() {
    let mut rig = Rig::new(recv_attr(Service::Uc));
    rig.world.post_recv(600);
    rig.take(request(UcSendFirst, 500).data(256)); // any number may begin
    rig.take(request(UcSendLast, 502).data(10)); // 501 is lost
    rig.take(request(UcSendMiddle, 503).data(256)); // belongs to nothing
    assert_eq!(rig.received(), []);
    rig.take(request(UcSendFirst, 504).data(256));
    rig.take(request(UcSendLastImmediate, 505).data(10).imm(4));
    assert_eq!(rig.answers(), []);
    let done = &rig.world.received[0];
    assert_eq!(
        (done.completion.byte_len, done.completion.imm),
        (266, Some(4))
    );
    assert_eq!((done.data[0], done.data[256]), (504u32 as u8, 505u32 as u8));
}

/// concerns rows 3.002
#[test]
fn a_message_that_begins_ends_the_one_before() {
    let mut rig = Rig::new(recv_attr(Service::Uc));
    rig.world.post_recv(600);
    rig.take(request(UcSendFirst, 100).data(256));
    rig.take(request(UcSendOnly, 101).data(5));
    rig.take(request(UcWriteFirst, 102).range(BASE, 300).data(256));
    rig.take(request(UcWriteOnly, 103).range(BASE, 4).data(4));
    assert_eq!(rig.world.received[0].completion.byte_len, 5);
    assert_eq!(rig.world.memory[0], 103);
}

/// concerns rows 3.002, 3.068
#[test]
fn faults_on_an_unreliable_connection_are_silent() {
    let mut rig = Rig::new(recv_attr(Service::Uc));
    rig.take(request(UcSendOnly, 100).data(4)); // no receive
    rig.take(request(UcWriteOnly, 101).range(BASE, 4).data(4).rkey(1));
    rig.take(request(UcWriteFirst, 102).range(BASE, 300).data(256));
    rig.take(request(UcWriteLast, 103).data(45));
    rig.take(request(UcSendFirst, 104).data(3));
    rig.world.post_recv(2);
    rig.take(request(UcSendOnly, 105).data(4)); // too long, the receive stays
    assert_eq!((rig.answers().len(), rig.received().len()), (0, 0));
    rig.take(request(UcSendOnly, 106).data(2));
    assert_eq!(rig.received(), [WcStatus::Success]);
    assert_eq!(
        (rig.world.events.len(), rig.responder.state()),
        (0, State::Rts)
    );
}

/// concerns rows 3.079
#[test]
fn a_receive_of_a_shared_queue_that_is_too_short_completes() {
    let mut rig = Rig::with_srq(recv_attr(Service::Uc), true);
    rig.world.post_recv(2);
    rig.take(request(UcSendOnly, 105).data(4));
    assert_eq!(rig.received(), [WcStatus::LocLenErr]);
    assert_eq!(rig.responder.state(), State::Rts);
}
