// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagram.

use super::*;

fn datagram(psn: u32, len: usize, qkey: u32) -> Request {
    let mut request = request(UdSendOnly, psn).data(len);
    request.parts.deth = Deth {
        qkey,
        src_qpn: Qpn::new(9),
    };
    request
}

/// concerns rows 3.003, 3.012, 3.100
#[test]
fn a_datagram_leaves_room_for_the_grh() {
    let mut rig = Rig::new(recv_attr(Service::Ud));
    rig.world.post_recv(44);
    rig.take(datagram(7, 4, 0x1111_1111));
    let done = &rig.world.received[0];
    assert_eq!(
        (done.completion.byte_len, done.completion.src_qpn),
        (44, Qpn::new(9))
    );
    assert_eq!((done.data[39], done.data[40]), (0, 7));
    assert_eq!(rig.answers(), []);
}

/// concerns rows 3.003, 3.131
#[test]
fn datagrams_that_do_not_fit_are_dropped() {
    let mut rig = Rig::new(recv_attr(Service::Ud));
    rig.world.post_recv(43);
    rig.take(datagram(1, 3, 0x2222_2222));
    assert_eq!(rig.world.count(Counter::QkeyViolation), 1);
    rig.take(datagram(1, 4, 0x1111_1111));
    rig.take(datagram(1, 257, 0x1111_1111));
    assert_eq!(rig.received(), []);
    rig.take(datagram(1, 3, 0x1111_1111));
    assert_eq!(rig.received(), [WcStatus::Success]);
    rig.take(datagram(1, 3, 0x1111_1111)); // no receive
    assert_eq!(rig.answers(), []);
}

/// concerns rows 3.051
#[test]
fn a_receive_error_on_a_datagram_queue_pair_is_the_end() {
    let mut rig = Rig::new(recv_attr(Service::Ud));
    rig.world.recv_result = Err(WcStatus::LocProtErr);
    rig.world.post_recv(50);
    rig.world.post_recv(50);
    rig.take(datagram(1, 3, 0x1111_1111));
    assert_eq!(rig.answers(), []);
    assert_eq!(rig.received(), [WcStatus::LocProtErr, WcStatus::WrFlushErr]);
    assert_eq!(rig.world.moved, [State::Err]);
}
