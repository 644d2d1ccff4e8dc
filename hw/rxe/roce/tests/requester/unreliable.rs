// SPDX-License-Identifier: GPL-2.0

//! Unreliable services.

use super::*;

/// concerns rows 3.002
#[test]
fn an_unreliable_message_is_done_when_it_is_out() {
    let mut rig = Rig::new(send_attr(Service::Uc));
    rig.post(SEND, 600);
    rig.post(WRITE, 1);
    let sent = rig.run();
    use Opcode::{UcSendFirst, UcSendLast, UcSendMiddle, UcWriteOnly};
    assert_eq!(
        opcodes(&sent),
        [UcSendFirst, UcSendMiddle, UcSendLast, UcWriteOnly]
    );
    assert!(sent.iter().all(|s| !s.headers.bth().ack_req));
    assert_eq!(rig.statuses(), [Success; 2]);
    assert_eq!(rig.requester.next_deadline(), None);
}

/// concerns rows 3.003
#[test]
fn a_datagram_names_its_peer_and_its_keys() {
    let mut rig = Rig::new(send_attr(Service::Ud));
    let dest = UdDest {
        qpn: Qpn::new(9),
        qkey: 0x55,
        pkey: Some(Pkey::new(0x8001)),
    };
    rig.post(SendOp::SendUd { imm: Some(3), dest }, 256);
    let own = UdDest {
        qpn: Qpn::MULTICAST,
        qkey: 0x8000_0000,
        pkey: None,
    };
    rig.post(
        SendOp::SendUd {
            imm: None,
            dest: own,
        },
        0,
    );
    let sent = rig.run();
    assert_eq!(
        opcodes(&sent),
        [Opcode::UdSendOnlyImmediate, Opcode::UdSendOnly]
    );
    let bth = sent[0].headers.bth();
    assert_eq!((bth.dest_qpn, bth.pkey), (Qpn::new(9), Pkey::new(0x8001)));
    assert_eq!(
        sent[0].headers.deth(),
        Some(Deth {
            qkey: 0x55,
            src_qpn: SELF
        })
    );
    assert_eq!(
        sent[1].headers.deth().map(|deth| deth.qkey),
        Some(0x1111_1111)
    );
    assert_eq!(sent[1].headers.bth().pkey, Pkey::DEFAULT);
    assert_eq!(rig.statuses(), [Success; 2]);
}

/// concerns rows 3.003, 3.079
#[test]
fn a_datagram_longer_than_the_mtu_is_a_length_error() {
    let mut rig = Rig::new(SendAttr {
        mtu: Mtu::Mtu512,
        ..send_attr(Service::Ud)
    });
    let dest = UdDest {
        qpn: PEER,
        qkey: 1,
        pkey: None,
    };
    rig.post(SendOp::SendUd { imm: None, dest }, 513);
    rig.requester.run(Time::from_ns(0), 10, &mut rig.world);
    assert_eq!(rig.statuses(), [WcStatus::LocLenErr]);
    assert_eq!(rig.requester.state(), State::Sqe);
}

/// The largest READ takes half of all sequence numbers.
#[test]
fn the_largest_read_fits_into_the_sequence_numbers() {
    let mut rig = Rig::rc();
    let wr = SendWr {
        op: READ,
        length: 1 << 31,
        signaled: true,
        solicited: false,
        fence: false,
        srqn: Srqn::default(),
    };
    rig.world.post_wr(wr, Vec::new());
    rig.world.post(SEND, vec![1]);
    assert_eq!(rig.psns(), [100]);
    rig.time_out();
    assert_eq!(rig.psns(), [100]);
    rig.ack(99);
    rig.nak(NakCode::RemoteAccess, 100);
    rig.run();
    assert_eq!(rig.statuses(), [WcStatus::RemAccessErr, WrFlushErr]);
    let mut rig = Rig::rc();
    let wr = SendWr {
        length: (1 << 31) + 1,
        ..wr
    };
    rig.world.post_wr(wr, Vec::new());
    rig.requester.run(Time::from_ns(0), 10, &mut rig.world);
    assert_eq!(rig.statuses(), [WcStatus::LocLenErr]);
}
