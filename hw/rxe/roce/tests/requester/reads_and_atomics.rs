// SPDX-License-Identifier: GPL-2.0

//! READs and ATOMICs.

use super::*;

/// concerns rows 3.026
#[test]
fn a_read_takes_a_sequence_number_for_each_response() {
    let mut rig = Rig::rc();
    rig.post(READ, 600);
    rig.post(SEND, 1);
    let sent = rig.run();
    assert_eq!(sent[0].headers.reth().map(|reth| reth.length), Some(600));
    assert_eq!(sent[1].headers.psn(), Psn::new(103));
    rig.read_response(Position::First, 100, &[1; 256]);
    rig.read_response(Position::Middle, 101, &[2; 256]);
    assert_eq!(rig.statuses(), []);
    rig.read_response(Position::Last, 102, &[3; 88]);
    assert_eq!(rig.statuses(), [Success]);
    assert_eq!(rig.world.completions[0].byte_len, 600);
    let data = &rig.world.queue[0].data;
    assert_eq!((data[0], data[256], data[599]), (1, 2, 3));
}

/// concerns rows 3.026, 3.074
#[test]
fn a_missing_read_response_is_asked_for_once() {
    let mut rig = Rig::rc();
    rig.post(READ, 1024);
    rig.post(SEND, 1);
    rig.run();
    rig.read_response(Position::First, 100, &[1; 256]);
    rig.read_response(Position::Middle, 102, &[3; 256]); // 101 is lost
    rig.read_response(Position::Last, 103, &[4; 256]);
    rig.ack(104);
    let again = rig.run();
    assert_eq!(opcodes(&again), [Opcode::RcReadRequest, Opcode::RcSendOnly]);
    let reth = again[0].headers.reth().expect("a READ has a range");
    assert_eq!((reth.va, reth.length), (BASE + 256, 768));
    assert_eq!(again[0].headers.psn(), Psn::new(101));
    rig.read_response(Position::First, 101, &[2; 256]);
    rig.read_response(Position::Middle, 102, &[3; 256]);
    rig.read_response(Position::Last, 103, &[4; 256]);
    rig.ack(104);
    assert_eq!(rig.statuses(), [Success; 2]);
    assert_eq!(rig.world.count(Counter::CompleterRetry), 1);
}

/// concerns rows 3.026, 3.074
#[test]
fn each_missing_answer_is_asked_for() {
    let mut rig = Rig::rc();
    for op in [READ, SEND, READ, SEND] {
        rig.post(op, 8);
    }
    rig.run();
    rig.ack(101);
    rig.ack(101); // another sign of the same loss
    assert_eq!(rig.psns(), [100, 101, 102, 103]);
    rig.read_response(Position::Only, 100, &[0; 8]);
    rig.ack(103); // the answer to the second READ is lost too
    assert_eq!(rig.psns(), [102, 103]);
    assert_eq!(rig.world.count(Counter::CompleterRetry), 2);
    rig.read_response(Position::Only, 102, &[0; 8]);
    rig.ack(103);
    assert_eq!(rig.statuses(), [Success; 4]);
}

/// concerns rows 3.028, 3.029
#[test]
fn an_acknowledge_is_no_answer_to_a_read_or_atomic() {
    for op in [READ, ADD] {
        let mut rig = Rig::rc();
        rig.post(op, 8);
        rig.run();
        rig.ack(100);
        assert_eq!(rig.statuses(), []);
        assert_eq!(rig.psns(), [100], "the answer is lost: ask again");
    }
}

/// concerns rows 3.028, 3.029
#[test]
fn atomics_deliver_the_value_before() {
    let mut rig = Rig::rc();
    rig.post(ADD, 8);
    let op = AtomicOp::CmpSwap {
        compare: 1,
        swap: 2,
    };
    rig.post(
        SendOp::Atomic {
            va: BASE,
            rkey: RKEY,
            op,
        },
        8,
    );
    let sent = rig.run();
    assert_eq!(opcodes(&sent), [Opcode::RcFetchAdd, Opcode::RcCompareSwap]);
    let Ext::AtomicEth(atomic) = sent[1].headers.ext() else {
        panic!("no AtomicETH")
    };
    assert_eq!((atomic.compare, atomic.swap_add), (1, 2));
    for (psn, original) in [(100, 11), (101, 12)] {
        let parts = Parts {
            atomic_ack: AtomicAckEth { original },
            ..Parts::default()
        };
        rig.respond(Opcode::RcAtomicAcknowledge, psn, parts, &[]);
    }
    assert_eq!(rig.statuses(), [Success; 2]);
    assert_eq!(rig.world.queue[1].data, 12u64.to_ne_bytes());
}

/// concerns rows 3.064
#[test]
fn max_rd_atomic_limits_reads_and_atomics() {
    let mut rig = Rig::new(SendAttr {
        max_rd_atomic: 2,
        ..send_attr(Service::Rc)
    });
    for op in [READ, ADD, READ, SEND] {
        rig.post(op, 8);
    }
    assert_eq!(rig.psns(), [100, 101]);
    rig.read_response(Position::Only, 100, &[0; 8]);
    assert_eq!(rig.psns(), [102, 103]);
}

/// concerns rows 3.064
#[test]
fn long_reads_overlap() {
    let mut rig = Rig::new(SendAttr {
        max_rd_atomic: 2,
        ..send_attr(Service::Rc)
    });
    // Each has more response packets than the window.
    for _ in 0..3 {
        rig.post(READ, 100 * 256);
    }
    rig.post(SEND, 1);
    assert_eq!(rig.psns(), [100, 200]);
    for nth in 0..100 {
        let at = match nth {
            0 => Position::First,
            99 => Position::Last,
            _ => Position::Middle,
        };
        rig.read_response(at, 100 + nth, &[0; 256]);
    }
    assert_eq!(rig.psns(), [300]);
}

/// concerns rows 3.026, 3.064
#[test]
fn a_read_is_held_back_if_another_one_follows_at_once() {
    let attr = SendAttr {
        max_rd_atomic: 3,
        ..send_attr(Service::Rc)
    };
    let mut rig = Rig::new(attr);
    for _ in 0..4 {
        rig.post(READ, 600);
    }
    let sent = rig.run();
    assert_eq!(opcodes(&sent), [Opcode::RcReadRequest; 3]);
    assert!(sent.iter().all(|s| s.headers.bth().ack_req));
    assert_eq!(rig.world.more, [true, true, false], "no room for the last");
    // Neither a fence nor another operation lets it be held back.
    let mut rig = Rig::new(attr);
    for op in [READ, ADD, READ, SEND] {
        rig.post(op, 8);
    }
    rig.run();
    assert_eq!(rig.world.more, [false; 4]);
    let mut rig = Rig::new(attr);
    rig.post(READ, 8);
    let fenced = SendWr {
        op: READ,
        length: 8,
        signaled: true,
        solicited: false,
        fence: true,
        srqn: Srqn::default(),
    };
    rig.world.post_wr(fenced, vec![0; 8]);
    rig.run();
    assert_eq!(rig.world.more, [false]);
}

/// concerns rows 3.026, 3.088
#[test]
fn a_read_that_is_refused_in_the_middle_fails() {
    let refusals = [
        (NakCode::RemoteAccess, WcStatus::RemAccessErr),
        (NakCode::RemoteOperational, WcStatus::RemOpErr),
        (NakCode::InvalidRequest, WcStatus::RemInvReqErr),
    ];
    // The PSN of the missing response, or, as the C driver has it, of the request.
    for (psn, (code, status)) in [102, 101, 100]
        .into_iter()
        .flat_map(|psn| refusals.map(|refusal| (psn, refusal)))
    {
        let mut rig = Rig::rc();
        rig.post(READ, 1024);
        rig.post(SEND, 1);
        rig.run();
        rig.read_response(Position::First, 100, &[1; 256]);
        rig.read_response(Position::Middle, 101, &[2; 256]);
        rig.nak(code, psn);
        rig.run();
        assert_eq!(rig.statuses(), [status, WrFlushErr], "{psn}");
    }
}

/// concerns rows 3.026
#[test]
fn what_is_no_refusal_of_the_read_has_no_effect() {
    let mut rig = Rig::rc();
    rig.post(SEND, 512);
    rig.post(READ, 1024);
    rig.run();
    rig.ack(101);
    rig.read_response(Position::First, 102, &[1; 256]);
    rig.nak(NakCode::PsnSequence, 102);
    rig.nak(NakCode::RemoteAccess, 101);
    rig.ack(102);
    assert_eq!(rig.psns(), []);
    assert_eq!(rig.statuses(), [Success]);
    // Nor is there one of a SEND that was acknowledged in part.
    let mut rig = Rig::rc();
    rig.post(SEND, 1024);
    rig.run();
    rig.ack(101);
    rig.nak(NakCode::RemoteAccess, 100);
    assert_eq!(rig.psns(), []);
    assert_eq!(rig.statuses(), []);
}

/// concerns rows 3.064
#[test]
fn without_resources_a_read_is_an_error() {
    let mut rig = Rig::new(SendAttr {
        max_rd_atomic: 0,
        ..send_attr(Service::Rc)
    });
    rig.post(READ, 8);
    rig.requester.run(Time::from_ns(0), 100, &mut rig.world);
    assert_eq!(rig.statuses(), [WcStatus::LocQpOpErr]);
}

/// concerns rows 3.037
#[test]
fn a_fence_waits_for_reads_and_atomics_only() {
    let mut rig = Rig::rc();
    rig.post(READ, 8);
    rig.post(SEND, 1);
    let wr = SendWr {
        op: SEND,
        length: 0,
        signaled: true,
        solicited: false,
        fence: true,
        srqn: Srqn::default(),
    };
    rig.world.post_wr(wr, Vec::new());
    assert_eq!(rig.psns(), [100, 101]);
    rig.read_response(Position::Only, 100, &[0; 8]);
    assert_eq!(rig.psns(), [102]);
}

/// concerns rows 3.027
#[test]
fn a_read_with_invalidate_ends_with_the_local_part() {
    let mut rig = Rig::rc();
    rig.post(
        SendOp::Read {
            va: BASE,
            rkey: RKEY,
            invalidate: true,
        },
        8,
    );
    rig.run();
    assert_eq!(rig.world.locals, []);
    rig.read_response(Position::Only, 100, &[0; 8]);
    assert_eq!(rig.world.locals, [0]);
    assert_eq!(rig.statuses(), [Success]);
}

#[test]
fn flush_and_atomic_write_are_answered_by_an_empty_read_response() {
    let mut rig = Rig::rc();
    let feth = Feth {
        placement: 1,
        selectivity: 0,
    };
    rig.post(
        SendOp::AtomicWrite {
            va: BASE,
            rkey: RKEY,
        },
        8,
    );
    rig.post(
        SendOp::Flush {
            va: BASE,
            rkey: RKEY,
            feth,
        },
        8,
    );
    let sent = rig.run();
    assert_eq!(opcodes(&sent), [Opcode::RcAtomicWrite, Opcode::RcFlush]);
    assert_eq!((sent[0].payload.len(), sent[1].payload.len()), (8, 0));
    rig.read_response(Position::Only, 100, &[]);
    rig.read_response(Position::Only, 101, &[]);
    assert_eq!(rig.statuses(), [Success; 2]);
}

/// concerns rows 3.085
#[test]
fn nonsense_in_answer_is_a_bad_response() {
    type Nonsense = fn(&mut Rig);
    let cases: [(SendOp, Nonsense); 6] = [
        (SEND, |rig| rig.read_response(Position::Only, 100, &[0; 8])),
        (ADD, |rig| rig.read_response(Position::Only, 100, &[0; 8])),
        (READ, |rig| {
            rig.respond(Opcode::RcAtomicAcknowledge, 100, Parts::default(), &[])
        }),
        (READ, |rig| rig.read_response(Position::Only, 100, &[0; 7])),
        (READ, |rig| rig.read_response(Position::First, 100, &[0; 8])),
        (READ, |rig| rig.nak(NakCode::InvalidRdRequest, 100)),
    ];
    for (op, nonsense) in cases {
        let mut rig = Rig::rc();
        rig.post(op, 8);
        rig.run();
        nonsense(&mut rig);
        assert_eq!(rig.statuses(), [WcStatus::BadRespErr], "{op:?}");
    }
}

/// concerns rows 3.085
#[test]
fn an_answer_with_a_nak_is_no_data() {
    let naks = [
        Syndrome::Nak(NakCode::RemoteAccess),
        Syndrome::Nak(NakCode::PsnSequence),
        Syndrome::RnrNak(RnrTimer::new(1)),
    ];
    // A request, and the answer to it; middle packets have no syndrome.
    let cases = [
        (READ, 8, Opcode::RcReadResponseOnly, 8),
        (READ, 600, Opcode::RcReadResponseFirst, 256),
        (ADD, 8, Opcode::RcAtomicAcknowledge, 0),
    ];
    for (syndrome, case) in naks.iter().flat_map(|nak| cases.map(|case| (*nak, case))) {
        let (op, len, opcode, part) = case;
        let mut rig = Rig::rc();
        rig.post(op, len);
        rig.run();
        let mut parts = Parts::default();
        parts.aeth.syndrome = syndrome;
        rig.respond(opcode, 100, parts, &vec![1; part]);
        let statuses = rig.statuses();
        assert_eq!(statuses, [WcStatus::BadRespErr], "{syndrome:?} {opcode:?}");
        assert_eq!(rig.world.queue[0].data, vec![7; len]);
    }
}
