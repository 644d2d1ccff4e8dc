// SPDX-License-Identifier: GPL-2.0

//! The error state.

use super::*;

/// concerns rows 3.051, 3.083
#[test]
fn the_error_state_flushes_each_receive_once() {
    let mut rig = Rig::rc();
    for _ in 0..3 {
        rig.world.post_recv(300);
    }
    rig.take(request(RcSendFirst, 100).data(256)); // takes one
    rig.take(request(RcReadRequest, 101).range(BASE, 8));
    assert_eq!(rig.received(), [WcStatus::LocQpOpErr]);
    rig.responder.error();
    rig.responder.error();
    assert_eq!(rig.run().len(), 1, "the refusal is still said");
    rig.world.post_recv(1);
    rig.run();
    let flushed = WcStatus::WrFlushErr;
    assert_eq!(
        rig.received(),
        [WcStatus::LocQpOpErr, flushed, flushed, flushed]
    );
}

/// concerns rows 3.051
#[test]
fn modify_to_error_forgets_the_answers() {
    let mut rig = Rig::rc();
    rig.world.post_recv(300);
    rig.take(request(RcReadRequest, 100).range(BASE, 8));
    rig.take(request(RcSendFirst, 101).data(256));
    rig.responder.error();
    assert_eq!(rig.run().len(), 0);
    assert_eq!(rig.received(), [WcStatus::WrFlushErr]);
}

/// concerns rows 3.104
#[test]
fn with_a_shared_queue_the_last_receive_is_an_event() {
    let mut rig = Rig::with_srq(recv_attr(Service::Rc), true);
    rig.world.post_recv(300);
    rig.world.post_recv(300);
    rig.take(request(RcSendFirst, 100).data(256));
    rig.responder.error();
    rig.run();
    rig.run();
    assert_eq!(
        rig.received(),
        [WcStatus::WrFlushErr],
        "the other one belongs to others"
    );
    assert_eq!(rig.world.events, [QpEvent::LastWqeReached]);
}
