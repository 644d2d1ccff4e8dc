// SPDX-License-Identifier: GPL-2.0

//! Refusals.

use super::*;

/// concerns rows 3.106
#[test]
fn opcodes_out_of_order_are_refused() {
    let middle = request(RcSendMiddle, 100).data(256);
    Rig::rc().refused(middle, NakCode::InvalidRequest, INVALID);
    let last = request(RcWriteLast, 100).data(1);
    Rig::rc().refused(last, NakCode::InvalidRequest, INVALID);
    for second in [
        RcSendFirst,
        RcSendOnly,
        RcWriteMiddle,
        RcReadRequest,
        RcFetchAdd,
    ] {
        let mut rig = Rig::rc();
        rig.world.post_recv(600);
        rig.take(request(RcSendFirst, 100).data(256));
        let len = if second == RcSendFirst || second == RcWriteMiddle {
            256
        } else {
            0
        };
        rig.take(request(second, 101).data(len));
        assert_eq!(
            rig.answers(),
            [(Syndrome::Nak(NakCode::InvalidRequest), 101)]
        );
        assert_eq!(rig.received(), [WcStatus::LocQpOpErr]);
    }
}

/// concerns rows 3.106
#[test]
fn reserved_opcodes_are_refused_where_a_request_is_expected() {
    let of_rc = roce::opcode::Service::Rc;
    let reserved = |opcode: &&Opcode| opcode.kind() == Kind::Reserved && opcode.service() == of_rc;
    let reserved: Vec<Opcode> = Opcode::ALL.iter().filter(reserved).copied().collect();
    assert_eq!(reserved.len(), 7);
    for opcode in reserved {
        for len in [0, 16, 256] {
            let packet = request(opcode, 100).data(len);
            Rig::rc().refused(packet, NakCode::InvalidRequest, INVALID);
        }
        let mut rig = Rig::rc();
        rig.world.post_recv(600);
        rig.take(request(RcSendFirst, 100).data(256));
        rig.take(request(opcode, 99).data(16));
        assert_eq!(rig.answers(), [], "a duplicate");
        rig.take(request(RcSendLast, 101).data(8));
        assert_eq!(rig.received(), [WcStatus::Success]);
    }
}

/// concerns rows 3.106
#[test]
fn only_its_own_packets_go_on_with_a_write() {
    let others = [
        RcWriteFirst,
        RcWriteOnly,
        RcSendMiddle,
        RcSendOnly,
        RcReadRequest,
        RcFetchAdd,
    ];
    for second in others {
        let mut rig = Rig::rc();
        rig.world.post_recv(600);
        rig.take(request(RcWriteFirst, 100).range(BASE, 600).data(256));
        let full = matches!(second, RcWriteFirst | RcSendMiddle);
        let len = if full { 256 } else { 0 };
        let packet = request(second, 101).data(len).atomic(BASE, 0, 0);
        rig.refused(packet.range(BASE, 600), NakCode::InvalidRequest, INVALID);
    }
}

/// concerns rows 3.107
#[test]
fn payloads_of_the_wrong_length_are_refused() {
    for (opcode, len) in [(RcWriteFirst, 255), (RcWriteOnly, 257), (RcSendFirst, 300)] {
        let packet = request(opcode, 100).range(BASE, 512).data(len);
        Rig::rc().refused(packet, NakCode::InvalidRequest, ACCESS);
    }
    // The payloads of a WRITE must add up to the length in its first packet.
    for (length, last) in [(300, 43), (300, 45), (256, 1), (600, 256)] {
        let mut rig = Rig::rc();
        rig.take(request(RcWriteFirst, 100).range(BASE, length).data(256));
        rig.take(request(RcWriteLast, 101).data(last));
        let psn = if length == 256 { 100 } else { 101 };
        assert_eq!(
            rig.answers(),
            [(Syndrome::Nak(NakCode::InvalidRequest), psn)]
        );
    }
    let huge = request(RcReadRequest, 100).range(BASE, (1 << 31) + 1);
    Rig::rc().refused(huge, NakCode::InvalidRequest, ACCESS);
}

/// concerns rows 3.088, 3.107
#[test]
fn wrong_keys_and_ranges_are_refused() {
    let code = NakCode::RemoteAccess;
    for opcode in [RcWriteOnly, RcReadRequest, RcFetchAdd] {
        let len = if opcode == RcWriteOnly { 8 } else { 0 };
        let make = || {
            request(opcode, 100)
                .data(len)
                .atomic(BASE, 0, 0)
                .range(BASE, 8)
        };
        Rig::rc().refused(make().rkey(RKEY + 1), code, ACCESS);
        let outside = make().atomic(BASE + 4096, 0, 0).range(BASE + 4092, 8);
        Rig::rc().refused(outside, code, ACCESS);
        let wraps = make().atomic(u64::MAX - 7, 0, 0).range(u64::MAX - 3, 8);
        Rig::rc().refused(wraps, code, ACCESS);
    }
    let mut rig = Rig::rc();
    rig.world.post_recv(8);
    rig.refused(request(RcSendOnlyInvalidate, 100).rkey(0), code, ACCESS);
}

/// concerns rows 3.087, 3.107
#[test]
fn misaligned_atomics_are_refused() {
    let code = NakCode::InvalidRequest;
    for opcode in [RcFetchAdd, RcCompareSwap] {
        Rig::rc().refused(request(opcode, 100).atomic(BASE + 4, 0, 0), code, ACCESS);
    }
    let write = request(RcAtomicWrite, 100).range(BASE + 4, 8).data(8);
    Rig::rc().refused(write, code, ACCESS);
}

/// concerns rows 3.068
#[test]
fn the_access_flags_gate_requests() {
    for opcode in [RcWriteOnly, RcReadRequest, RcFetchAdd, RcAtomicWrite] {
        let access = RemoteAccess::default();
        let rig = Rig::new(RecvAttr {
            access,
            ..recv_attr(Service::Rc)
        });
        let len = if opcode == RcAtomicWrite { 8 } else { 0 };
        let packet = request(opcode, 100)
            .range(BASE, len as u32)
            .data(len)
            .atomic(BASE, 0, 0);
        rig.refused(packet, NakCode::InvalidRequest, INVALID);
    }
}

/// concerns rows 3.068
#[test]
fn each_access_flag_allows_its_own_requests_and_no_others() {
    let none = RemoteAccess::default();
    let rights = [
        RemoteAccess {
            write: true,
            ..none
        },
        RemoteAccess { read: true, ..none },
        RemoteAccess {
            atomic: true,
            ..none
        },
    ];
    // By request: whether it is allowed with each of these alone.
    let table = [
        (RcSendOnly, [true; 3]),
        (RcWriteOnly, [true, false, false]),
        (RcAtomicWrite, [true, false, false]),
        (RcReadRequest, [false, true, false]),
        (RcFetchAdd, [false, false, true]),
        (RcCompareSwap, [false, false, true]),
        (RcFlush, [true; 3]), // the region's own rights count
    ];
    for (opcode, allowed) in table {
        let payload = matches!(opcode, RcSendOnly | RcWriteOnly | RcAtomicWrite);
        for (access, allowed) in rights.into_iter().zip(allowed) {
            let mut rig = Rig::new(RecvAttr {
                access,
                ..recv_attr(Service::Rc)
            });
            rig.world.post_recv(8);
            let packet = request(opcode, 100)
                .data(if payload { 8 } else { 0 })
                .atomic(BASE, 0, 0)
                .range(BASE, 8);
            if allowed {
                rig.take(packet);
                assert_eq!(rig.answers(), [(ACK, 100)], "{opcode:?} {access:?}");
            } else {
                rig.refused(packet, NakCode::InvalidRequest, INVALID);
            }
        }
    }
}

/// concerns rows 3.043, 3.079, 3.087
#[test]
fn a_send_longer_than_its_receive_is_refused() {
    let mut rig = Rig::rc();
    rig.world.post_recv(300);
    rig.world.post_recv(300);
    rig.take(request(RcSendFirst, 100).data(256));
    rig.take(request(RcSendLast, 101).data(45));
    assert_eq!(
        rig.answers(),
        [(Syndrome::Nak(NakCode::InvalidRequest), 101)]
    );
    assert_eq!(rig.received(), [WcStatus::LocLenErr, WcStatus::WrFlushErr]);
}

/// concerns rows 3.080, 3.086, 3.089
#[test]
fn a_receive_that_fails_is_an_operational_error_for_the_peer() {
    for scatter in [true, false] {
        let mut rig = Rig::rc();
        rig.world.post_recv(300);
        if scatter {
            rig.world.recv_result = Err(WcStatus::LocProtErr);
        } else {
            rig.world.invalid_receive = Some(WcStatus::LocQpOpErr);
        }
        rig.take(request(RcSendOnly, 100).data(4));
        assert_eq!(
            rig.answers(),
            [(Syndrome::Nak(NakCode::RemoteOperational), 100)]
        );
        let status = if scatter {
            WcStatus::LocProtErr
        } else {
            WcStatus::LocQpOpErr
        };
        assert_eq!(rig.received(), [status]);
        assert_eq!(rig.world.moved, [State::Err]);
    }
}
