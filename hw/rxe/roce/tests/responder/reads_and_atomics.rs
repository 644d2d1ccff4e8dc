// SPDX-License-Identifier: GPL-2.0

//! READs and ATOMICs.

use super::*;

/// concerns rows 3.026
#[test]
fn a_read_is_answered_packet_by_packet() {
    let mut rig = Rig::rc();
    rig.take(request(RcReadRequest, 100).range(BASE + 3, 600));
    rig.take(request(RcWriteOnly, 103));
    assert_eq!(rig.responder.run(2, &mut rig.world), Run::More);
    assert_eq!(rig.world.take_sent().len(), 2, "no more than the budget");
    rig.take(request(RcReadRequest, 104).range(BASE, 8));
    let sent = rig.run();
    let opcodes: Vec<_> = sent.iter().map(|s| s.headers.opcode()).collect();
    assert_eq!(opcodes, [RcReadResponseLast, RcReadResponseOnly]);
    assert_eq!(sent[0].payload, rig.world.memory[3 + 512..3 + 600]);
    assert_eq!(sent[0].headers.psn(), Psn::new(102));
    assert_eq!(
        sent[1].headers.aeth().map(|aeth| aeth.msn),
        Some(Msn::new(3))
    );
}

/// concerns rows 3.026, 3.074
#[test]
fn a_repeated_read_is_answered_from_where_it_asks() {
    let mut rig = Rig::rc();
    rig.take(request(RcReadRequest, 100).range(BASE, 1000));
    assert_eq!(rig.run().len(), 4);
    rig.take(request(RcReadRequest, 102).range(BASE + 512, 488));
    let sent = rig.run();
    let opcodes: Vec<_> = sent.iter().map(|s| s.headers.opcode()).collect();
    assert_eq!(opcodes, [RcReadResponseFirst, RcReadResponseLast]);
    assert_eq!(sent[1].payload, rig.world.memory[768..1000]);
    assert_eq!(sent[1].headers.psn(), Psn::new(103));
    assert_eq!(rig.responder.expected_psn(), Psn::new(104));
}

/// concerns rows 3.026
#[test]
fn a_repeated_read_must_be_part_of_the_first_one() {
    let mut rig = Rig::rc();
    rig.take(request(RcReadRequest, 100).range(BASE, 512));
    rig.run();
    for (psn, va, length, rkey) in [
        (100, BASE + 1, 512, RKEY),
        (100, BASE, 513, RKEY),
        (101, BASE + 256, 257, RKEY),
        (101, BASE, 256, RKEY),
        (100, BASE, 512, RKEY + 1),
        (99, BASE, 512, RKEY),
        (90, BASE, 512, RKEY),
    ] {
        rig.take(request(RcReadRequest, psn).range(va, length).rkey(rkey));
        assert_eq!(rig.run().len(), 0, "{psn} {va:x} {length}");
    }
    rig.world.rkey = 5; // The memory is gone: no answer, and no error.
    rig.take(request(RcReadRequest, 100).range(BASE, 512));
    assert_eq!((rig.run().len(), rig.responder.state()), (0, State::Rts));
}

/// The number of packets says less than the length, and a key that is valid now is not the one that was asked with.
///
/// concerns rows 3.026
#[test]
fn a_repeated_read_has_the_key_and_no_more_than_the_length_of_the_first_one() {
    let mut rig = Rig::rc();
    rig.take(request(RcReadRequest, 100).range(BASE, 500));
    rig.run();
    rig.take(request(RcReadRequest, 100).range(BASE, 512));
    rig.take(request(RcReadRequest, 101).range(BASE + 256, 256));
    assert_eq!(rig.run().len(), 0, "longer");
    rig.world.rkey = RKEY + 1;
    rig.take(request(RcReadRequest, 100).range(BASE, 500).rkey(RKEY + 1));
    assert_eq!(rig.run().len(), 0, "another key");
    rig.world.rkey = RKEY;
    rig.take(request(RcReadRequest, 100).range(BASE, 500));
    assert_eq!(rig.run().len(), 2);
}

/// concerns rows 3.026
#[test]
fn a_read_asked_for_again_while_it_is_answered_starts_over_where_needed() {
    let mut rig = Rig::rc();
    rig.take(request(RcReadRequest, 100).range(BASE, 1024));
    rig.responder.run(2, &mut rig.world);
    for packet in [2, 3] {
        let rest = 256 * packet; // comes anyway
        rig.take(request(RcReadRequest, 100 + packet).range(BASE + u64::from(rest), 1024 - rest));
    }
    rig.responder.run(1, &mut rig.world);
    rig.take(request(RcReadRequest, 101).range(BASE + 256, 768)); // lost, it seems
    let psns: Vec<_> = rig.run().iter().map(|s| s.headers.psn().get()).collect();
    assert_eq!(psns, [100, 101, 102, 101, 102, 103]);
}

/// concerns rows 3.026
#[test]
fn a_part_asked_for_again_does_not_end_the_answer() {
    let mut rig = Rig::rc();
    rig.take(request(RcReadRequest, 100).range(BASE, 1024));
    rig.responder.run(3, &mut rig.world);
    rig.take(request(RcReadRequest, 101).range(BASE + 256, 256));
    let psns: Vec<_> = rig.run().iter().map(|s| s.headers.psn().get()).collect();
    assert_eq!(psns, [100, 101, 102, 103]);
}

/// concerns rows 3.028, 3.029, 3.074
#[test]
fn an_atomic_is_executed_once_and_answered_again() {
    let mut rig = Rig::rc();
    rig.world.memory[..8].copy_from_slice(&5u64.to_ne_bytes());
    rig.take(request(RcFetchAdd, 100).atomic(BASE, 0, 7));
    rig.take(request(RcCompareSwap, 101).atomic(BASE, 12, 1));
    for _ in 0..2 {
        let sent = rig.run();
        let originals = sent.iter().map(|s| match s.headers.ext() {
            Ext::AethAtomicAckEth(_, answer) => answer.original,
            other => panic!("{other:?}"),
        });
        assert_eq!(originals.collect::<Vec<_>>(), [5, 12]);
        rig.take(request(RcFetchAdd, 100).atomic(BASE, 0, 7));
        rig.take(request(RcCompareSwap, 101).atomic(BASE, 12, 1));
    }
    assert_eq!(rig.world.atomics, 2);
    assert_eq!(rig.world.memory[..8], 1u64.to_ne_bytes());
}

/// concerns rows 3.074
#[test]
fn an_old_atomic_is_forgotten() {
    let mut rig = Rig::rc();
    for psn in 100..105 {
        rig.take(request(RcFetchAdd, psn).atomic(BASE, 0, 1));
        rig.run();
    }
    rig.take(request(RcFetchAdd, 100).atomic(BASE, 0, 1)); // four are remembered
    assert_eq!(rig.run().len(), 0);
    rig.take(request(RcFetchAdd, 101).atomic(BASE, 0, 1));
    assert_eq!(rig.run().len(), 1);
    rig.take(request(RcReadRequest, 101).range(BASE, 8)); // another request with its number
    assert_eq!(rig.run().len(), 0);
}

/// concerns rows 3.074
#[test]
fn an_answer_is_repeated_for_its_own_kind_of_request_only() {
    let kinds: [&[Opcode]; 3] = [
        &[RcReadRequest],
        &[RcFetchAdd, RcCompareSwap],
        &[RcFlush, RcAtomicWrite],
    ];
    let make = |opcode| {
        let len = if opcode == RcAtomicWrite { 8 } else { 0 };
        let request = request(opcode, 100).data(len);
        request.atomic(BASE, 0, 1).range(BASE, 8)
    };
    let same = |a, b| {
        kinds
            .iter()
            .any(|kind| kind.contains(&a) && kind.contains(&b))
    };
    for first in kinds.concat() {
        for again in kinds.concat() {
            let mut rig = Rig::rc();
            rig.take(make(first));
            let sent = rig.run();
            rig.take(make(again));
            let repeated = rig.run();
            assert_eq!(
                repeated.len(),
                usize::from(same(first, again)),
                "{first:?} {again:?}"
            );
            assert!(repeated
                .iter()
                .all(|r| r.headers.opcode() == sent[0].headers.opcode()));
        }
    }
}

#[test]
fn flush_and_atomic_write_are_answered_by_an_empty_read_response() {
    let mut rig = Rig::rc();
    let mut write = request(RcAtomicWrite, 100).range(BASE + 8, 8).data(8);
    write.ack = true;
    rig.take(write);
    let mut flush = request(RcFlush, 101).range(BASE, 64);
    flush.parts.feth = Feth {
        placement: 1,
        selectivity: 0,
    };
    rig.take(flush);
    rig.take(request(RcAtomicWrite, 100).range(BASE + 8, 8).data(8));
    let sent = rig.run();
    let opcodes: Vec<_> = sent
        .iter()
        .map(|s| (s.headers.opcode(), s.headers.psn()))
        .collect();
    let expected = [100, 101].map(|psn| (RcReadResponseOnly, Psn::new(psn)));
    assert_eq!(opcodes, expected);
    assert_eq!((rig.world.memory[8], rig.world.atomics), (100, 1));
    rig.refused(
        request(RcFlush, 102).range(BASE, 8).rkey(1),
        NakCode::RemoteAccess,
        ACCESS,
    );
}

/// concerns rows 3.064, 3.107
#[test]
fn too_many_reads_are_refused() {
    let mut rig = Rig::new(RecvAttr {
        max_dest_rd_atomic: 2,
        ..recv_attr(Service::Rc)
    });
    rig.world.busy = 1000;
    rig.take(request(RcReadRequest, 100).range(BASE, 8));
    rig.take(request(RcReadRequest, 101).range(BASE, 8));
    rig.take(request(RcReadRequest, 102).range(BASE, 8));
    rig.world.busy = 0;
    let answers = rig.answers();
    assert_eq!(
        answers,
        [
            (ACK, 100),
            (ACK, 101),
            (Syndrome::Nak(NakCode::InvalidRequest), 102)
        ]
    );
    assert_eq!(rig.world.events, [ACCESS]);
    let none = RecvAttr {
        max_dest_rd_atomic: 0,
        ..recv_attr(Service::Rc)
    };
    let read = request(RcReadRequest, 100).range(BASE, 8);
    Rig::new(none).refused(read, NakCode::InvalidRequest, ACCESS);
}

#[test]
fn flush_and_atomic_write_are_not_limited() {
    for limit in [0, 1] {
        let mut rig = Rig::new(RecvAttr {
            max_dest_rd_atomic: limit,
            ..recv_attr(Service::Rc)
        });
        rig.world.busy = 1000;
        rig.take(request(RcFlush, 100).range(BASE, 8));
        rig.take(request(RcAtomicWrite, 101).range(BASE, 8).data(8));
        if limit == 1 {
            rig.take(request(RcReadRequest, 102).range(BASE, 8));
        }
        rig.world.busy = 0;
        assert_eq!(rig.run().len(), 2 + usize::from(limit));
        assert_eq!(rig.responder.state(), State::Rts);
    }
}

/// concerns rows 3.064
#[test]
fn a_read_that_has_no_answer_yet_keeps_its_place() {
    let mut rig = Rig::new(RecvAttr {
        max_dest_rd_atomic: 8, // more than there are slots
        ..recv_attr(Service::Rc)
    });
    rig.world.busy = 1000;
    for psn in 100..105 {
        rig.take(request(RcReadRequest, psn).range(BASE, 8));
    }
    rig.world.busy = 0;
    let refusal = (Syndrome::Nak(NakCode::InvalidRequest), 104);
    let expected = [(ACK, 100), (ACK, 101), (ACK, 102), (ACK, 103), refusal];
    assert_eq!(rig.answers(), expected);
}

/// concerns rows 3.064
#[test]
fn more_slots_take_the_requests_over() {
    let mut rig = Rig::new(RecvAttr {
        max_dest_rd_atomic: 8,
        ..recv_attr(Service::Rc)
    });
    for psn in 100..103 {
        rig.take(request(RcReadRequest, psn).range(BASE, 8));
    }
    assert_eq!(rig.run().len(), 3);
    rig.world.busy = 1000;
    for psn in 103..107 {
        rig.take(request(RcReadRequest, psn).range(BASE, 8));
    }
    assert_eq!(
        rig.responder.grow(common::world::slots(4)).len(),
        4,
        "not more"
    );
    assert_eq!(rig.responder.grow(common::world::slots(8)).len(), 4);
    assert_eq!(rig.responder.slots(), 8);
    for psn in 107..111 {
        rig.take(request(RcReadRequest, psn).range(BASE, 8));
    }
    rig.world.busy = 0;
    let psns: Vec<_> = rig.run().iter().map(|s| s.headers.psn().get()).collect();
    assert_eq!(psns, (103..111).collect::<Vec<_>>());
    rig.take(request(RcReadRequest, 104).range(BASE, 8));
    assert_eq!(rig.run().len(), 1, "a duplicate is answered");
}

#[test]
fn answers_stay_in_order_where_the_slots_wrap() {
    let mut rig = Rig::rc();
    for psn in 100..106 {
        rig.world.busy = if psn < 102 { 0 } else { 1000 };
        rig.take(request(RcReadRequest, psn).range(BASE, 8));
        rig.responder.run(10, &mut rig.world);
    }
    rig.world.busy = 0;
    let psns: Vec<_> = rig.run().iter().map(|s| s.headers.psn().get()).collect();
    assert_eq!(psns, [100, 101, 102, 103, 104, 105]);
}

#[test]
fn a_batch_may_hold_more_reads_than_there_are_resources() {
    let mut rig = Rig::new(RecvAttr {
        max_dest_rd_atomic: 1,
        ..recv_attr(Service::Rc)
    });
    for psn in 100..120 {
        rig.take(request(RcFetchAdd, psn).atomic(BASE, 0, 1));
    }
    assert_eq!(rig.run().len(), 20);
    assert_eq!(rig.responder.state(), State::Rts);
}

/// concerns rows 3.088
#[test]
fn memory_that_goes_while_it_is_read_breaks_the_answer_off() {
    let mut rig = Rig::rc();
    rig.take(request(RcReadRequest, 100).range(BASE, 512));
    rig.take(request(RcReadRequest, 102).range(BASE, 8));
    rig.responder.run(1, &mut rig.world);
    rig.world.take_sent();
    rig.world
        .respond_errors
        .push_back(RespondError::Nak(RemoteFault::Access));
    assert_eq!(rig.answers(), [(Syndrome::Nak(NakCode::RemoteAccess), 101)]);
    assert_eq!(
        (rig.responder.state(), &*rig.world.moved),
        (State::Err, &[State::Err][..])
    );
}

/// The answer breaks off while room is made for the next request, which is not executed then.
///
/// concerns rows 3.088
#[test]
fn an_answer_that_breaks_off_refuses_the_next_request_too() {
    let mut rig = Rig::rc();
    rig.world.busy = 1000;
    for psn in 100..104 {
        rig.take(request(RcReadRequest, psn).range(BASE, 8));
    }
    rig.world.busy = 0;
    rig.world
        .respond_errors
        .push_back(RespondError::Nak(RemoteFault::Access));
    rig.take(request(RcFetchAdd, 104).atomic(BASE, 0, 1));
    assert_eq!(rig.answers(), [(Syndrome::Nak(NakCode::RemoteAccess), 100)]);
    assert_eq!((rig.world.atomics, rig.world.moved.len()), (0, 1));
}

/// A failed replay is no error: the peer may have received the first response.
#[test]
fn memory_that_goes_while_it_is_read_again_is_no_error() {
    let mut rig = Rig::rc();
    rig.take(request(RcReadRequest, 100).range(BASE, 512));
    assert_eq!(rig.run().len(), 2);
    rig.take(request(RcReadRequest, 100).range(BASE, 512));
    rig.world
        .respond_errors
        .push_back(RespondError::Nak(RemoteFault::Access));
    assert_eq!((rig.run().len(), rig.responder.state()), (0, State::Rts));
}

#[test]
fn back_pressure_keeps_the_answers() {
    let mut rig = Rig::rc();
    rig.take(request(RcReadRequest, 100).range(BASE, 8));
    rig.take(request(RcWriteOnly, 101));
    for _ in 0..2 {
        rig.world.respond_errors.push_back(RespondError::QueueFull);
        assert_eq!(rig.responder.run(1, &mut rig.world), Run::Blocked);
        assert_eq!(rig.world.take_sent().len(), 0);
        assert_eq!(rig.responder.run(1, &mut rig.world), Run::More);
        assert_eq!(rig.world.take_sent().len(), 1);
    }
    assert_eq!(rig.run().len(), 0);
}
