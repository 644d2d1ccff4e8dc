// SPDX-License-Identifier: GPL-2.0

//! Messages.

use super::*;

/// concerns rows 3.021, 3.042, 3.100
#[test]
fn a_send_fills_a_receive_and_is_acknowledged() {
    let mut rig = Rig::rc();
    rig.world.post_recv(700);
    rig.take(request(RcSendFirst, 100).data(256));
    rig.take(request(RcSendMiddle, 101).data(256));
    assert_eq!(rig.answers(), []);
    rig.take(request(RcSendLast, 102).data(88));
    let sent = rig.run();
    assert_eq!(sent.len(), 1);
    let bth = sent[0].headers.bth();
    assert_eq!(
        (bth.opcode, bth.psn, bth.dest_qpn),
        (RcAcknowledge, Psn::new(102), PEER)
    );
    assert_eq!(
        sent[0].headers.aeth().map(|aeth| aeth.msn),
        Some(Msn::new(1))
    );
    let done = &rig.world.received[0];
    assert_eq!(
        (done.completion.byte_len, done.completion.src_qpn),
        (600, PEER)
    );
    assert_eq!(
        (done.data[0], done.data[256], done.data[599]),
        (100, 101, 102 + 87)
    );
}

/// concerns rows 3.022, 3.023, 3.039, 3.099
#[test]
fn what_goes_with_a_send_is_delivered() {
    let mut rig = Rig::rc();
    for _ in 0..2 {
        rig.world.post_recv(8);
    }
    let mut with_imm = request(RcSendOnlyImmediate, 100).imm(5).data(3);
    with_imm.solicited = true;
    rig.take(with_imm);
    rig.take(request(RcSendOnlyInvalidate, 101).rkey(77));
    let [a, b] = [0, 1].map(|i| rig.world.received[i].completion);
    assert_eq!(
        (a.imm, a.solicited, a.invalidated_rkey, a.byte_len),
        (Some(5), true, None, 3)
    );
    assert_eq!(
        (b.imm, b.solicited, b.invalidated_rkey, b.byte_len),
        (None, false, Some(77), 0)
    );
    assert_eq!(rig.world.invalidated, [77]);
}

/// concerns rows 3.024
#[test]
fn a_write_goes_to_memory_and_takes_no_receive() {
    let mut rig = Rig::rc();
    rig.take(request(RcWriteFirst, 100).range(BASE + 1, 300).data(256));
    rig.take(request(RcWriteLast, 101).data(44));
    assert_eq!(rig.answers(), [(ACK, 101)]);
    assert_eq!(
        (rig.world.memory[1], rig.world.memory[300]),
        (100, 101 + 43)
    );
    assert!(rig.world.received.is_empty());
}

/// concerns rows 3.025, 3.098
#[test]
fn a_write_with_immediate_takes_a_receive_at_its_end() {
    let mut rig = Rig::rc();
    rig.take(request(RcWriteFirst, 100).range(BASE, 257).data(256));
    rig.take(request(RcWriteLastImmediate, 101).data(1).imm(9));
    let timer = RnrTimer::new(1);
    assert_eq!(rig.answers(), [(Syndrome::RnrNak(timer), 101)]);
    rig.world.post_recv(0);
    rig.take(request(RcWriteLastImmediate, 101).data(1).imm(9));
    assert_eq!(rig.answers(), [(ACK, 101)]);
    let done = rig.world.received[0].completion;
    assert_eq!(
        (done.opcode, done.imm),
        (RecvOpcode::RecvRdmaWithImm, Some(9))
    );
    assert_eq!(done.byte_len, 257);
}

/// concerns rows 3.018
#[test]
fn empty_reads_and_writes_need_no_memory() {
    let mut rig = Rig::rc();
    rig.take(request(RcWriteOnly, 100).rkey(0));
    rig.take(request(RcReadRequest, 101).rkey(0));
    let sent = rig.run();
    assert_eq!(
        (sent.len(), sent[0].headers.opcode()),
        (1, RcReadResponseOnly)
    );
}

/// concerns rows 3.018
#[test]
fn an_empty_send_touches_no_memory() {
    let mut rig = Rig::rc();
    rig.world.post_recv(8);
    rig.world.recv_result = Err(WcStatus::LocProtErr);
    rig.take(request(RcSendOnly, 100));
    assert_eq!(rig.received(), [WcStatus::Success]);
}
