// SPDX-License-Identifier: GPL-2.0

//! Tests of the responder, one for each rule.

mod common;

use common::world::{Region, Sent, World, BASE, RKEY};
use common::{recv_attr, PEER, SELF};
use roce::memory::{RemoteFault, RespondError};
use roce::mtu::Mtu;
use roce::opcode::{Kind, Opcode};
use roce::pkey::Pkey;
use roce::psn::{Msn, Psn};
use roce::responder::{Responder, Slot};
use roce::state::{
    Counter, QpEvent, RecvAttr, RecvOpcode, RemoteAccess, Run, Service, State, WcStatus,
};
use roce::timer::RnrTimer;
use roce::wire::{
    AtomicEth, Bth, Deth, Ext, Feth, Headers, Ieth, ImmDt, NakCode, Packet, Parts, Qpn, Reth,
    Syndrome,
};

/// A responder and its driver.
struct Rig {
    responder: Responder<Region, Vec<Slot<Region>>>,
    world: World,
}

/// A request to be built.
struct Request {
    opcode: Opcode,
    psn: u32,
    parts: Parts,
    payload: Vec<u8>,
    ack: bool,
    solicited: bool,
}

fn request(opcode: Opcode, psn: u32) -> Request {
    Request {
        opcode,
        psn,
        parts: Parts::default(),
        payload: Vec::new(),
        ack: opcode.ends(),
        solicited: false,
    }
}

impl Request {
    fn data(mut self, len: usize) -> Self {
        self.payload = (0..len).map(|i| (i as u32 + self.psn) as u8).collect();
        self
    }

    fn range(mut self, va: u64, length: u32) -> Self {
        self.parts.reth = Reth {
            va,
            rkey: RKEY,
            length,
        };
        self
    }

    fn rkey(mut self, rkey: u32) -> Self {
        self.parts.reth.rkey = rkey;
        self.parts.atomic.rkey = rkey;
        self.parts.ieth = Ieth { rkey };
        self
    }

    fn atomic(mut self, va: u64, compare: u64, swap_add: u64) -> Self {
        self.parts.atomic = AtomicEth {
            va,
            rkey: RKEY,
            swap_add,
            compare,
        };
        self
    }

    fn imm(mut self, imm: u32) -> Self {
        self.parts.immdt = ImmDt(imm);
        self
    }
}

use Opcode::*;

impl Rig {
    fn new(attr: RecvAttr) -> Self {
        Self::with_srq(attr, false)
    }

    fn with_srq(attr: RecvAttr, has_srq: bool) -> Self {
        let mut responder = Responder::new(has_srq, common::world::slots(4));
        responder.start(attr);
        responder.established();
        let mut world = World::new(4096, 1);
        for (byte, i) in world.memory.iter_mut().zip(0u32..) {
            *byte = (i / 7) as u8;
        }
        Self { responder, world }
    }

    fn rc() -> Self {
        Self::new(recv_attr(Service::Rc))
    }

    fn take(&mut self, request: Request) {
        let mut bth = Bth::new(request.opcode, Pkey::DEFAULT, SELF, Psn::new(request.psn));
        bth.ack_req = request.ack;
        bth.solicited = request.solicited;
        let headers = Headers::new(bth, &request.parts);
        let packet = Packet::new(headers, request.payload.len() as u32);
        self.responder
            .receive(&packet, request.payload.as_slice(), &mut self.world);
    }

    /// Runs until idle, and returns the packets that were sent.
    fn run(&mut self) -> Vec<Sent> {
        assert_eq!(self.responder.run(1000, &mut self.world), Run::Idle);
        self.world.take_sent()
    }

    /// Syndromes and PSNs of the acknowledges that were sent.
    fn answers(&mut self) -> Vec<(Syndrome, u32)> {
        let sent = self.run();
        let answer = |s: &Sent| {
            (
                s.headers.aeth().expect("no AETH").syndrome,
                s.headers.psn().get(),
            )
        };
        sent.iter().map(answer).collect()
    }

    fn received(&self) -> Vec<WcStatus> {
        self.world
            .received
            .iter()
            .map(|r| r.completion.status)
            .collect()
    }

    /// Delivers a request and expects it to be refused.
    fn refused(mut self, request: Request, code: NakCode, event: QpEvent) {
        let psn = request.psn;
        self.take(request);
        assert_eq!(self.answers(), [(Syndrome::Nak(code), psn)]);
        assert_eq!(self.world.events, [event]);
        assert_eq!(self.world.moved, [State::Err]);
        assert_eq!(self.responder.state(), State::Err);
    }
}

const ACK: Syndrome = Syndrome::ACK;
const SEQUENCE: Syndrome = Syndrome::Nak(NakCode::PsnSequence);

// Messages.

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

// Acknowledges.

/// concerns rows 3.074
#[test]
fn acknowledges_coalesce_over_a_batch() {
    let mut rig = Rig::rc();
    for psn in 100..110 {
        rig.take(request(RcWriteOnly, psn).range(BASE, 8).data(8));
    }
    assert_eq!(rig.answers(), [(ACK, 109)]);
    assert_eq!(rig.answers(), []);
}

/// concerns rows 3.074
#[test]
fn an_acknowledge_that_was_asked_for_comes_whatever_follows() {
    let mut rig = Rig::rc();
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    rig.take(request(RcWriteFirst, 101).range(BASE, 300).data(256)); // asks for none
    assert_eq!(rig.answers(), [(ACK, 101)]);
}

/// concerns rows 3.074
#[test]
fn a_gap_is_reported_once() {
    let mut rig = Rig::rc();
    for psn in 101..104 {
        rig.take(request(RcWriteOnly, psn).range(BASE, 8).data(8));
    }
    assert_eq!(rig.answers(), [(SEQUENCE, 100)]);
    rig.take(request(RcWriteOnly, 104).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), []);
    assert_eq!(rig.world.count(Counter::OutOfSeqRequest), 4);
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    rig.take(request(RcWriteOnly, 102).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), [(SEQUENCE, 101)], "a new gap");
}

/// A gap that closes before the NAK is sent has still dropped the packets after it.
#[test]
fn a_gap_that_closes_late_is_reported_all_the_same() {
    let mut rig = Rig::rc();
    rig.take(request(RcWriteOnly, 101).range(BASE, 8).data(8));
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), [(SEQUENCE, 101)]);
}

/// The peer would take an acknowledge in place of the NAK for a sign that nothing is missing.
///
/// concerns rows 3.074
#[test]
fn a_duplicate_does_not_replace_a_nak() {
    let mut rig = Rig::rc();
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    rig.run();
    rig.take(request(RcWriteOnly, 102).range(BASE, 8).data(8));
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), [(SEQUENCE, 101)]);
}

/// concerns rows 3.066
#[test]
fn half_of_all_sequence_numbers_are_ahead_and_half_behind() {
    use Counter::{DuplicateRequest, OutOfSeqRequest};
    let cases = [
        (0x00_0001, [1, 0]),
        (0x7f_ffff, [1, 0]),
        (0x80_0000, [0, 1]),
        (0xff_ffff, [0, 1]),
    ];
    for (ahead, counts) in cases {
        let mut rig = Rig::rc();
        rig.take(request(RcWriteOnly, 100 + ahead).range(BASE, 8).data(8));
        let counted = [OutOfSeqRequest, DuplicateRequest].map(|counter| rig.world.count(counter));
        assert_eq!(counted, counts, "{ahead:x}");
        let naks: &[_] = if counts[0] == 1 {
            &[(SEQUENCE, 100)]
        } else {
            &[]
        };
        assert_eq!(rig.answers(), naks, "{ahead:x}");
    }
}

/// concerns rows 3.074
#[test]
fn duplicates_are_acknowledged_and_not_executed() {
    let mut rig = Rig::rc();
    rig.world.post_recv(8);
    rig.take(request(RcSendOnly, 100).data(4));
    rig.take(request(RcWriteOnly, 101).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), [(ACK, 101)]);
    rig.world.memory[0] = 1;
    rig.take(request(RcSendOnly, 100).data(4));
    rig.take(request(RcWriteOnly, 101).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), [(ACK, 101)]);
    assert_eq!((rig.received().len(), rig.world.memory[0]), (1, 1));
    assert_eq!(rig.world.count(Counter::DuplicateRequest), 2);
}

/// A peer could take such an acknowledge for the response.
#[test]
fn no_acknowledge_carries_the_psn_of_a_read_or_atomic() {
    let mut rig = Rig::rc();
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    rig.take(request(RcReadRequest, 101).range(BASE, 8));
    rig.take(request(RcFetchAdd, 102).atomic(BASE, 0, 1));
    rig.run();
    rig.take(request(RcWriteOnly, 100).range(BASE, 8).data(8));
    assert_eq!(rig.answers(), [(ACK, 100)]);
}

/// concerns rows 3.045, 3.046, 3.051
#[test]
fn packets_are_dropped_where_the_state_says_so() {
    let mut rig = Rig::rc();
    rig.world.post_recv(8);
    rig.responder.reset();
    rig.take(request(RcSendOnly, 100).data(4));
    assert_eq!(rig.answers(), []);
    rig.responder.start(recv_attr(Service::Rc));
    rig.take(request(UcSendOnly, 100).data(4));
    rig.take(request(RcAcknowledge, 100));
    assert_eq!((rig.answers(), rig.world.events.len()), (vec![], 0));
    rig.responder.error();
    rig.take(request(RcSendOnly, 100).data(4));
    assert_eq!(rig.answers(), []);
    assert_eq!(rig.received(), [WcStatus::WrFlushErr]);
}

/// concerns rows 3.047, 3.101
#[test]
fn the_first_packet_in_rtr_is_an_event() {
    let mut rig = Rig::rc();
    rig.responder.reset();
    rig.responder.start(recv_attr(Service::Rc));
    rig.take(request(RcWriteOnly, 100));
    rig.take(request(RcWriteOnly, 101));
    assert_eq!(rig.world.events, [QpEvent::CommEst]);
    let mut rig = Rig::rc();
    rig.take(request(RcWriteOnly, 100));
    assert_eq!(rig.world.events, []);
}

#[test]
fn attributes_change_but_not_those_that_a_connection_is_made_with() {
    let mut rig = Rig::rc();
    let timer = RnrTimer::new(25);
    rig.responder.set_attr(RecvAttr {
        mtu: Mtu::Mtu4096,
        rq_psn: Psn::new(7),
        min_rnr_timer: timer,
        ..recv_attr(Service::Uc)
    });
    let attr = rig.responder.attr();
    let kept = (attr.service, attr.mtu, attr.rq_psn);
    assert_eq!(kept, (Service::Rc, Mtu::Mtu256, Psn::new(100)));
    rig.take(request(RcSendOnly, 100));
    assert_eq!(rig.answers(), [(Syndrome::RnrNak(timer), 100)]);
}

// Receiver not ready.

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

// READs and ATOMICs.

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

// Refusals.

const ACCESS: QpEvent = QpEvent::AccessErr;
const INVALID: QpEvent = QpEvent::ReqErr;

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
    let reserved = |opcode: &&Opcode| opcode.kind() == Kind::Reserved;
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

// The error state.

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

// Unreliable connection.

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

// Unreliable datagram.

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
