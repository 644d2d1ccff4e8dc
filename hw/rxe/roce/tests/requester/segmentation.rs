// SPDX-License-Identifier: GPL-2.0

//! Segmentation and headers.

use super::*;

/// concerns rows 3.001, 3.013, 3.065
#[test]
fn a_message_is_cut_at_the_mtu() {
    let mut rig = Rig::rc();
    rig.post(SEND, 600);
    let sent = rig.run();
    use Opcode::{RcSendFirst, RcSendLast, RcSendMiddle};
    assert_eq!(opcodes(&sent), [RcSendFirst, RcSendMiddle, RcSendLast]);
    assert_eq!(
        sent.iter().map(|s| s.payload.len()).collect::<Vec<_>>(),
        [256, 256, 88]
    );
    assert_eq!(sent[2].headers.bth().dest_qpn, PEER);
    assert!(sent[2].headers.bth().ack_req && !sent[0].headers.bth().ack_req);
}

/// concerns rows 3.018
#[test]
fn an_empty_message_is_one_packet() {
    let mut rig = Rig::rc();
    for op in [SEND, WRITE, READ] {
        rig.post(op, 0);
    }
    let sent = rig.run();
    use Opcode::{RcReadRequest, RcSendOnly, RcWriteOnly};
    assert_eq!(opcodes(&sent), [RcSendOnly, RcWriteOnly, RcReadRequest]);
    rig.read_response(Position::Only, 102, &[]);
    assert_eq!(rig.statuses(), [Success; 3]);
}

/// concerns rows 3.022, 3.023, 3.025
#[test]
fn immediate_data_and_keys_go_with_the_last_packet() {
    let mut rig = Rig::rc();
    rig.post(
        SendOp::Send {
            extra: SendExtra::Imm(5),
        },
        300,
    );
    rig.post(
        SendOp::Send {
            extra: SendExtra::Invalidate(6),
        },
        1,
    );
    rig.post(
        SendOp::Write {
            va: 9,
            rkey: 8,
            imm: Some(7),
        },
        257,
    );
    let sent = rig.run();
    assert_eq!(sent[0].headers.immdt(), None);
    assert_eq!(sent[1].headers.immdt().map(|imm| imm.0), Some(5));
    assert_eq!(sent[2].headers.ieth().map(|ieth| ieth.rkey), Some(6));
    let reth = sent[3]
        .headers
        .reth()
        .expect("a WRITE begins with its range");
    assert_eq!((reth.va, reth.rkey, reth.length), (9, 8, 257));
    assert_eq!(sent[4].headers.opcode(), Opcode::RcWriteLastImmediate);
}

/// concerns rows 3.039
#[test]
fn a_solicited_event_is_asked_for_only_where_a_receive_completes() {
    let mut rig = Rig::rc();
    for op in [
        SEND,
        WRITE,
        SendOp::Write {
            va: BASE,
            rkey: RKEY,
            imm: Some(1),
        },
    ] {
        let (signaled, solicited) = (true, true);
        let wr = SendWr {
            op,
            length: 257,
            signaled,
            solicited,
            fence: false,
            srqn: Srqn::default(),
        };
        rig.world.post_wr(wr, vec![0; 257]);
    }
    let solicited: Vec<_> = rig
        .run()
        .iter()
        .map(|s| s.headers.bth().solicited)
        .collect();
    assert_eq!(solicited, [false, true, false, false, false, true]);
}

/// concerns rows 3.066
#[test]
fn sequence_numbers_wrap() {
    let mut rig = Rig::new(SendAttr {
        sq_psn: Psn::new(0xff_fffe),
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 1024);
    assert_eq!(rig.psns(), [0xff_fffe, 0xff_ffff, 0, 1]);
    rig.nak(NakCode::PsnSequence, 0);
    assert_eq!(rig.psns(), [0, 1]);
    rig.ack(1);
    assert_eq!(rig.statuses(), [Success]);
    assert_eq!(rig.requester.next_psn(), Psn::new(2));
}
