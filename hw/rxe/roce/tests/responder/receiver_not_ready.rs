// SPDX-License-Identifier: GPL-2.0

//! Receiver not ready.

use super::*;

/// concerns rows 3.071, 3.072, 3.077
#[test]
fn without_a_receive_an_rnr_nak_is_sent() {
    let timer = RnrTimer::new(25);
    let mut rig = Rig::new(RecvAttr {
        min_rnr_timer: timer,
        ..recv_attr(Service::Rc)
    });
    rig.take(request(RcSendOnly, 100).data(4));
    rig.take(request(RcSendOnly, 101).data(4));
    assert_eq!(
        rig.answers(),
        [(Syndrome::RnrNak(timer), 100)],
        "one NAK, and only that"
    );
    rig.world.post_recv(8);
    rig.take(request(RcSendOnly, 100).data(4));
    assert_eq!(rig.answers(), [(ACK, 100)]);
    assert_eq!(rig.world.count(Counter::SentRnr), 1);
}
