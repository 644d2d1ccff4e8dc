// SPDX-License-Identifier: GPL-2.0

//! Tests of the requester, one for each rule.

mod common;

use common::world::{Sent, World, BASE, RKEY};
use common::{send_attr, PEER, SELF};
use roce::memory::{AtomicOp, SendExtra, SendOp, SendWr, TransmitError, UdDest};
use roce::mtu::Mtu;
use roce::opcode::{Opcode, Position};
use roce::pkey::Pkey;
use roce::psn::{Msn, Psn};
use roce::requester::Requester;
use roce::state::{Counter, QpEvent, Run, SendAttr, Service, State, Time, WcOpcode, WcStatus};
use roce::timer::{AckTimeout, RnrTimer};
use roce::wire::{
    Aeth, AtomicAckEth, Bth, Credits, Deth, Ext, Feth, Headers, NakCode, Packet, Parts, Qpn,
    Syndrome,
};

/// A requester, its driver, and a clock.
struct Rig {
    requester: Requester,
    world: World,
    now: u64,
}

const SEND: SendOp = SendOp::Send {
    extra: SendExtra::None,
};
const READ: SendOp = SendOp::Read {
    va: BASE,
    rkey: RKEY,
    invalidate: false,
};
const WRITE: SendOp = SendOp::Write {
    va: BASE,
    rkey: RKEY,
    imm: None,
};
const ADD: SendOp = SendOp::Atomic {
    va: BASE,
    rkey: RKEY,
    op: AtomicOp::FetchAdd { add: 3 },
};
const INVALIDATE: SendOp = SendOp::Local {
    opcode: WcOpcode::LocalInv,
    wait_all: true,
};
const BIND: SendOp = SendOp::Local {
    opcode: WcOpcode::BindMw,
    wait_all: false,
};

impl Rig {
    fn new(attr: SendAttr) -> Self {
        let mut requester = Requester::new();
        requester.start(attr);
        Self {
            requester,
            world: World::new(64, 1),
            now: 1_000,
        }
    }

    fn rc() -> Self {
        Self::new(send_attr(Service::Rc))
    }

    fn post(&mut self, op: SendOp, len: usize) -> u32 {
        self.world.post(op, vec![7; len])
    }

    fn run(&mut self) -> Vec<Sent> {
        assert_eq!(
            self.requester
                .run(Time::from_ns(self.now), 1000, &mut self.world),
            Run::Idle
        );
        self.world.take_sent()
    }

    /// Runs the requester, and returns the PSNs that were sent.
    fn psns(&mut self) -> Vec<u32> {
        self.run()
            .iter()
            .map(|sent| sent.headers.psn().get())
            .collect()
    }

    fn respond(&mut self, opcode: Opcode, psn: u32, parts: Parts, payload: &[u8]) {
        let bth = Bth::new(opcode, Pkey::DEFAULT, SELF, Psn::new(psn));
        let packet = Packet::new(Headers::new(bth, &parts), payload.len() as u32);
        self.requester
            .receive(&packet, payload, Time::from_ns(self.now), &mut self.world);
    }

    fn answer(&mut self, syndrome: Syndrome, psn: u32) {
        let aeth = Aeth {
            syndrome,
            msn: Msn::new(0),
        };
        self.respond(
            Opcode::RcAcknowledge,
            psn,
            Parts {
                aeth,
                ..Parts::default()
            },
            &[],
        );
    }

    fn ack(&mut self, psn: u32) {
        self.answer(Syndrome::ACK, psn);
    }

    fn nak(&mut self, code: NakCode, psn: u32) {
        self.answer(Syndrome::Nak(code), psn);
    }

    fn read_response(&mut self, at: Position, psn: u32, payload: &[u8]) {
        self.respond(Opcode::read_response(at), psn, Parts::default(), payload);
    }

    /// Advances the time to the deadline.
    fn time_out(&mut self) {
        self.now = self.requester.next_deadline().expect("no deadline").as_ns();
    }

    fn statuses(&self) -> Vec<WcStatus> {
        self.world.statuses()
    }
}

fn opcodes(sent: &[Sent]) -> Vec<Opcode> {
    sent.iter().map(|sent| sent.headers.opcode()).collect()
}

use WcStatus::{Success, WrFlushErr};

// Segmentation and headers.

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

// Acknowledges.

/// concerns rows 3.074
#[test]
fn one_acknowledge_covers_everything_before_it() {
    let mut rig = Rig::rc();
    for _ in 0..3 {
        rig.post(SEND, 300);
    }
    rig.run();
    rig.ack(104); // the first packet of the third message
    assert_eq!(rig.statuses(), [Success; 2]);
    rig.ack(105);
    assert_eq!(rig.statuses(), [Success; 3]);
    assert_eq!(rig.requester.next_deadline(), None);
}

/// The PSNs of the packets that ask for an acknowledge.
fn asked(sent: &[Sent]) -> Vec<u32> {
    let asking = sent.iter().filter(|sent| sent.headers.bth().ack_req);
    asking.map(|sent| sent.headers.psn().get()).collect()
}

/// concerns rows 3.074
#[test]
fn the_last_of_messages_that_are_sent_together_asks_for_all() {
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.post(WRITE, 300);
    rig.post(SEND, 0);
    assert_eq!(asked(&rig.run()), [103]);
    rig.ack(103);
    assert_eq!(rig.statuses(), [Success; 3]);
    rig.post(SEND, 10);
    assert_eq!(asked(&rig.run()), [104]);
}

/// concerns rows 3.074
#[test]
fn the_last_message_of_a_run_asks_although_more_are_posted() {
    let mut rig = Rig::rc();
    for _ in 0..5 {
        rig.post(SEND, 10);
    }
    let now = Time::from_ns(rig.now);
    let run = rig.requester.run(now, 3, &mut rig.world);
    assert_eq!((run, asked(&rig.world.take_sent())), (Run::More, vec![102]));
}

/// concerns rows 3.074
#[test]
fn one_acknowledge_is_for_sixteen_messages_at_most() {
    let mut rig = Rig::rc();
    for _ in 0..40 {
        rig.post(SEND, 10);
    }
    assert_eq!(asked(&rig.run()), [115, 131, 139]);
    rig.ack(139);
    for _ in 0..2 {
        rig.post(SEND, 10);
    }
    assert_eq!(asked(&rig.run()), [141]);
}

/// concerns rows 3.074
#[test]
fn the_message_that_fills_the_window_asks() {
    let mut rig = Rig::new(SendAttr {
        window: 3,
        ..send_attr(Service::Rc)
    });
    for _ in 0..5 {
        rig.post(SEND, 10);
    }
    assert_eq!(asked(&rig.run()), [102]);
}

/// concerns rows 3.074
#[test]
fn a_message_is_held_back_only_if_another_one_follows_at_once() {
    let mut rig = Rig::rc();
    for _ in 0..3 {
        rig.post(SEND, 10);
    }
    rig.run();
    assert_eq!(rig.world.more, [true, true, false]);
    let mut rig = Rig::rc();
    for op in [SEND, READ, SEND] {
        rig.post(op, 8);
    }
    rig.run();
    assert_eq!(rig.world.more, [false; 3]);
    // The budget is used up.
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.post(SEND, 10);
    let now = Time::from_ns(rig.now);
    rig.requester.run(now, 1, &mut rig.world);
    assert_eq!(rig.world.more, [false]);
}

/// What may not be sent at once gives no acknowledge that others could wait for.
///
/// concerns rows 3.074
#[test]
fn a_message_asks_if_what_follows_may_have_to_wait() {
    let fenced = SendWr {
        op: SEND,
        length: 0,
        signaled: true,
        solicited: false,
        fence: true,
    };
    for op in [READ, ADD, INVALIDATE, BIND] {
        let mut rig = Rig::rc();
        rig.post(SEND, 10);
        rig.post(op, 8);
        assert_eq!(asked(&rig.run()).first(), Some(&100), "{op:?}");
    }
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.world.post_wr(fenced, Vec::new());
    assert_eq!(asked(&rig.run()), [100, 101]);
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.post(SendOp::Invalid(WcStatus::LocQpOpErr), 1);
    assert_eq!(asked(&rig.run()), [100]);
}

/// concerns rows 3.074, 3.082
#[test]
fn messages_before_one_that_fails_are_acknowledged_by_a_duplicate() {
    let mut rig = Rig::rc();
    for _ in 0..4 {
        rig.post(SEND, 10);
    }
    rig.world.good_transmits = 3;
    rig.world
        .transmit_errors
        .push_back(TransmitError::Fault(WcStatus::LocProtErr));
    let sent = rig.run();
    let psns: Vec<_> = sent.iter().map(|s| s.headers.psn().get()).collect();
    assert_eq!(psns, [100, 101, 102, 100]);
    assert_eq!(asked(&sent), [100], "the duplicate");
    rig.ack(102);
    rig.requester
        .run(Time::from_ns(rig.now), 10, &mut rig.world);
    assert_eq!(
        rig.statuses(),
        [Success, Success, Success, WcStatus::LocProtErr]
    );
}

/// concerns rows 3.049, 3.074
#[test]
fn draining_asks_for_what_nothing_has_asked_for() {
    let mut rig = Rig::rc();
    for _ in 0..4 {
        rig.post(SEND, 10);
    }
    rig.world.good_transmits = 2;
    rig.world
        .transmit_errors
        .push_back(TransmitError::QueueFull);
    let now = Time::from_ns(rig.now);
    assert_eq!(rig.requester.run(now, 10, &mut rig.world), Run::Blocked);
    assert_eq!(asked(&rig.world.take_sent()), []);
    rig.requester.drain(true, &mut rig.world);
    assert_eq!(asked(&rig.run()), [100], "again");
    rig.ack(101);
    rig.run();
    assert_eq!(rig.world.events, [QpEvent::SqDrained]);
    assert_eq!(rig.statuses(), [Success; 2]);
}

/// concerns rows 3.074
#[test]
fn ghosts_and_duplicates_have_no_effect() {
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.run();
    for psn in [99, 101, 0x80_0064] {
        rig.ack(psn);
        rig.nak(NakCode::RemoteAccess, psn);
        rig.read_response(Position::Only, psn, &[1]);
    }
    assert_eq!(rig.statuses(), []);
    rig.ack(100);
    rig.nak(NakCode::PsnSequence, 100);
    assert_eq!(rig.statuses(), [Success]);
    assert_eq!(rig.psns(), []);
}

/// concerns rows 3.038
#[test]
fn only_signaled_work_requests_report_unless_all_are() {
    for signal_all in [false, true] {
        let mut rig = Rig::new(SendAttr {
            signal_all,
            ..send_attr(Service::Rc)
        });
        for signaled in [false, true] {
            let wr = SendWr {
                op: SEND,
                length: 0,
                signaled,
                solicited: false,
                fence: false,
            };
            rig.world.post_wr(wr, Vec::new());
        }
        rig.run();
        rig.ack(101);
        let reports: Vec<_> = rig.world.completions.iter().map(|c| c.report).collect();
        assert_eq!(reports, [signal_all, true]);
    }
}

#[test]
fn the_window_limits_what_is_outstanding() {
    let mut rig = Rig::new(SendAttr {
        window: 3,
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 256 * 5);
    let sent = rig.run();
    assert_eq!(sent.len(), 3);
    assert!(sent[2].headers.bth().ack_req, "or it would wait for ever");
    rig.ack(101);
    assert_eq!(rig.psns(), [103, 104]);
}

#[test]
fn long_messages_ask_for_acknowledges_now_and_then() {
    let mut rig = Rig::new(SendAttr {
        window: 1000,
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 256 * 200);
    let asked: Vec<_> = (0u32..)
        .zip(rig.run())
        .filter(|(_, s)| s.headers.bth().ack_req)
        .collect();
    assert_eq!(
        asked.iter().map(|(i, _)| *i).collect::<Vec<_>>(),
        [63, 127, 191, 199]
    );
}

#[test]
fn credits_are_no_bar() {
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.post(SEND, 10);
    rig.run();
    rig.answer(Syndrome::Ack(Credits::new(0)), 101);
    assert_eq!(rig.statuses(), [Success; 2]);
}

// Losses.

/// concerns rows 3.074
#[test]
fn a_sequence_nak_sends_again_from_there() {
    let mut rig = Rig::rc();
    rig.post(SEND, 256 * 4);
    rig.post(SEND, 1);
    assert_eq!(rig.psns(), [100, 101, 102, 103, 104]);
    rig.nak(NakCode::PsnSequence, 102);
    let again = rig.run();
    use Opcode::{RcSendLast, RcSendMiddle, RcSendOnly};
    assert_eq!(opcodes(&again), [RcSendMiddle, RcSendLast, RcSendOnly]);
    assert_eq!(again[0].headers.psn(), Psn::new(102));
    assert_eq!(rig.world.count(Counter::RcvdSeqErr), 1);
}

/// concerns rows 3.069, 3.070, 3.090
#[test]
fn silence_is_retried_and_then_an_error() {
    let mut rig = Rig::new(SendAttr {
        retry_cnt: 2,
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 10);
    rig.post(SEND, 10);
    let timeout = AckTimeout::new(8).nanoseconds().expect("finite");
    // One packet probes a silent peer; the others wait for its response. The wait doubles.
    for (sent, times) in [(&[100, 101][..], 1), (&[100], 2), (&[100], 4)] {
        let timeout = timeout * times;
        assert_eq!(rig.psns(), sent);
        assert_eq!(
            rig.requester.next_deadline(),
            Some(Time::from_ns(rig.now + timeout))
        );
        rig.now += timeout - 1;
        assert_eq!(rig.psns(), []);
        rig.now += 1;
    }
    assert_eq!(rig.psns(), []);
    assert_eq!(rig.statuses(), [WcStatus::RetryExcErr, WrFlushErr]);
    assert_eq!(rig.world.moved, [State::Err]);
    assert_eq!(rig.world.count(Counter::RetryExceeded), 1);
    assert_eq!(rig.requester.next_deadline(), None);
}

/// concerns rows 3.069
#[test]
fn an_answer_ends_the_longer_wait_for_a_silent_peer() {
    let mut rig = Rig::rc();
    rig.post(SEND, 256 * 2);
    rig.run();
    rig.time_out();
    rig.run();
    rig.ack(100);
    assert_eq!(rig.psns(), [101]);
    let timeout = AckTimeout::new(8).nanoseconds().expect("finite");
    assert_eq!(
        rig.requester.next_deadline(),
        Some(Time::from_ns(rig.now + timeout))
    );
}

/// concerns rows 3.070
#[test]
fn after_silence_an_answer_opens_the_window_again() {
    let mut rig = Rig::rc();
    for _ in 0..3 {
        rig.post(SEND, 10);
    }
    assert_eq!(rig.psns(), [100, 101, 102]);
    rig.time_out();
    assert_eq!(rig.psns(), [100]);
    // The peer had all but the last.
    rig.ack(101);
    assert_eq!(rig.psns(), [102]);
    rig.ack(102);
    assert_eq!(rig.statuses(), [Success; 3]);
}

/// concerns rows 3.070
#[test]
fn after_silence_one_answer_sends_all_the_others_at_once() {
    let mut rig = Rig::rc();
    for _ in 0..5 {
        rig.post(SEND, 10);
    }
    rig.run();
    rig.time_out();
    assert_eq!(rig.psns(), [100]);
    rig.ack(100);
    assert_eq!(rig.psns(), [101, 102, 103, 104]);
}

/// concerns rows 3.070
#[test]
fn progress_refills_the_retry_counter() {
    let mut rig = Rig::new(SendAttr {
        retry_cnt: 1,
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 256 * 4);
    rig.run();
    for psn in 100..103 {
        rig.time_out();
        rig.run();
        rig.ack(psn);
        rig.run();
    }
    rig.time_out();
    rig.run();
    rig.ack(103);
    assert_eq!(rig.statuses(), [Success]);
}

/// concerns rows 3.069
#[test]
fn timeout_zero_waits_for_ever() {
    let mut rig = Rig::new(SendAttr {
        ack_timeout: AckTimeout::new(0),
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 10);
    rig.run();
    assert_eq!(rig.requester.next_deadline(), None);
}

/// concerns rows 3.074
#[test]
fn acknowledges_for_what_is_to_be_sent_again_still_count() {
    let mut rig = Rig::rc();
    rig.post(SEND, 256 * 2);
    rig.post(SEND, 256 * 2);
    rig.run();
    rig.time_out();
    assert_eq!(
        rig.requester.run(Time::from_ns(rig.now), 1, &mut rig.world),
        Run::More
    );
    assert_eq!(rig.world.take_sent().len(), 1);
    rig.ack(102); // late, for the first round
    assert_eq!(rig.statuses(), [Success]);
    assert_eq!(rig.psns(), [103]);
    rig.ack(103);
    assert_eq!(rig.statuses(), [Success; 2]);
}

/// concerns rows 3.074
#[test]
fn a_late_acknowledge_in_a_message_goes_on_behind_it() {
    let mut rig = Rig::rc();
    rig.post(SEND, 256 * 4);
    rig.run();
    rig.nak(NakCode::PsnSequence, 100);
    rig.ack(101); // late, for the first round
    assert_eq!(rig.psns(), [102, 103]);
}

/// concerns rows 3.071, 3.072
#[test]
fn an_rnr_nak_waits_for_the_receivers_timer() {
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.post(SEND, 10);
    rig.run();
    let timer = RnrTimer::new(25);
    rig.answer(Syndrome::RnrNak(timer), 101);
    assert_eq!(
        rig.statuses(),
        [Success],
        "it acknowledges what is before it"
    );
    assert_eq!(
        rig.requester.next_deadline(),
        Some(Time::from_ns(rig.now + 61_440_000))
    );
    assert_eq!(rig.psns(), []);
    rig.answer(Syndrome::RnrNak(timer), 101);
    rig.nak(NakCode::PsnSequence, 101); // stock says this too, about packets behind
    assert_eq!(rig.psns(), []);
    rig.time_out();
    assert_eq!(rig.psns(), [101]);
    assert_eq!(rig.world.count(Counter::RcvdRnr), 1);
}

/// concerns rows 3.073, 3.091
#[test]
fn rnr_retries_are_counted_and_seven_is_infinite() {
    for (rnr_retry, rounds) in [(0, 0), (2, 2), (7, 40)] {
        let mut rig = Rig::new(SendAttr {
            rnr_retry,
            ..send_attr(Service::Rc)
        });
        rig.post(SEND, 10);
        for _ in 0..rounds {
            assert_eq!(rig.psns(), [100]);
            rig.answer(Syndrome::RnrNak(RnrTimer::new(1)), 100);
            rig.time_out();
        }
        assert_eq!(rig.psns(), [100]);
        rig.answer(Syndrome::RnrNak(RnrTimer::new(1)), 100);
        let failed = rnr_retry < 7;
        let expected = if failed {
            vec![WcStatus::RnrRetryExcErr]
        } else {
            vec![]
        };
        assert_eq!(rig.statuses(), expected);
    }
}

/// concerns rows 3.073, 3.091
#[test]
fn progress_refills_the_rnr_retry_counter() {
    let mut rig = Rig::new(SendAttr {
        rnr_retry: 1,
        ..send_attr(Service::Rc)
    });
    for _ in 0..3 {
        rig.post(SEND, 10);
    }
    rig.run();
    for psn in 100..103 {
        rig.answer(Syndrome::RnrNak(RnrTimer::new(1)), psn);
        rig.time_out();
        assert_eq!(rig.psns()[0], psn);
        rig.ack(psn);
    }
    assert_eq!(rig.statuses(), [Success; 3]);
}

/// Answers the request with RNR NAKs of timer code 1, 10 us, and returns the wait after each.
fn rnr_waits(rig: &mut Rig, psn: u32, count: usize) -> Vec<u64> {
    let mut waits = Vec::new();
    for _ in 0..count {
        assert_eq!(rig.psns(), [psn]);
        rig.answer(Syndrome::RnrNak(RnrTimer::new(1)), psn);
        let began = rig.now;
        rig.time_out();
        waits.push(rig.now - began);
    }
    waits
}

/// concerns rows 3.071, 3.072
#[test]
fn rnr_waits_grow_until_there_is_progress() {
    let mut rig = Rig::new(SendAttr {
        rnr_retry: 7,
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 10);
    let grown: Vec<u64> = (0..12).map(|nth| (10_000 << nth).min(5_120_000)).collect();
    assert_eq!(rnr_waits(&mut rig, 100, 12), grown);
    assert_eq!(rig.psns(), [100]);
    rig.ack(100);
    rig.post(SEND, 10);
    assert_eq!(rnr_waits(&mut rig, 101, 2), [10_000, 20_000]);
}

/// concerns rows 3.071, 3.072
#[test]
fn an_rnr_wait_is_not_cut_short_by_an_implied_nak() {
    let mut rig = Rig::rc();
    for op in [SEND, SEND, READ, SEND] {
        rig.post(op, 8);
    }
    rig.run();
    rig.answer(Syndrome::RnrNak(RnrTimer::new(25)), 100);
    let deadline = rig.requester.next_deadline();
    rig.ack(100); // late: progress, in the midst of the wait
    rig.ack(103); // beyond the READ, which has no answer
    assert_eq!(rig.statuses(), [Success; 2]);
    assert_eq!(rig.psns(), []);
    assert_eq!(rig.requester.next_deadline(), deadline);
    rig.time_out();
    assert_eq!(rig.psns(), [102, 103]);
    assert_eq!(rig.world.count(Counter::CompleterRetry), 1);
}

// READs and ATOMICs.

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

// Errors.

/// concerns rows 3.076, 3.087, 3.088, 3.089, 3.097
#[test]
fn refusals_complete_with_their_status_and_the_rest_is_flushed() {
    let cases = [
        (NakCode::InvalidRequest, WcStatus::RemInvReqErr),
        (NakCode::RemoteAccess, WcStatus::RemAccessErr),
        (NakCode::RemoteOperational, WcStatus::RemOpErr),
    ];
    for (code, status) in cases {
        let mut rig = Rig::rc();
        for op in [SEND, WRITE, SEND] {
            rig.post(op, 300);
        }
        rig.run();
        rig.nak(code, 103); // the second packet of the second message
        assert_eq!(rig.psns(), [], "nothing is sent again");
        assert_eq!(rig.statuses(), [Success, status, WrFlushErr]);
        rig.post(SEND, 1);
        rig.run();
        assert_eq!(rig.statuses(), [Success, status, WrFlushErr, WrFlushErr]);
        assert_eq!(rig.requester.state(), State::Err);
    }
}

/// concerns rows 3.082, 3.097
#[test]
fn a_local_fault_waits_for_its_turn() {
    let mut rig = Rig::rc();
    rig.post(SEND, 10);
    rig.run();
    rig.post(SEND, 10);
    rig.post(SEND, 10);
    rig.world
        .transmit_errors
        .push_back(TransmitError::Fault(WcStatus::LocProtErr));
    assert_eq!(rig.psns(), []);
    assert_eq!(rig.statuses(), [], "the first one may still succeed");
    rig.ack(100);
    assert_eq!(
        rig.requester
            .run(Time::from_ns(rig.now), 10, &mut rig.world),
        Run::More
    );
    rig.run();
    assert_eq!(rig.statuses(), [Success, WcStatus::LocProtErr, WrFlushErr]);
}

/// concerns rows 3.082
#[test]
fn read_data_that_cannot_be_stored_is_a_protection_error() {
    let mut rig = Rig::rc();
    rig.post(READ, 8);
    rig.run();
    rig.world.scatter_result = Err(WcStatus::LocProtErr);
    rig.read_response(Position::Only, 100, &[0; 8]);
    assert_eq!(rig.statuses(), [WcStatus::LocProtErr]);
}

/// concerns rows 3.018
#[test]
fn an_empty_answer_needs_no_memory() {
    let mut rig = Rig::rc();
    rig.post(READ, 0);
    rig.run();
    rig.world.scatter_result = Err(WcStatus::LocProtErr);
    rig.read_response(Position::Only, 100, &[]);
    assert_eq!(rig.statuses(), [Success]);
}

/// concerns rows 3.036, 3.080
#[test]
fn operations_that_the_service_lacks_are_local_errors() {
    let ud = SendOp::SendUd {
        imm: None,
        dest: UdDest {
            qpn: PEER,
            qkey: 1,
            pkey: None,
        },
    };
    let key = SendOp::Send {
        extra: SendExtra::Invalidate(1),
    };
    let invalid = SendOp::Invalid(WcStatus::LocQpOpErr);
    let cases = [
        (Service::Uc, vec![READ, ADD, ud, key, invalid]),
        (Service::Ud, vec![SEND, WRITE, READ, ADD, key, invalid]),
        (Service::Rc, vec![ud, invalid]),
    ];
    for (service, ops) in cases {
        for op in ops {
            let mut rig = Rig::new(send_attr(service));
            rig.post(op, 8);
            rig.requester.run(Time::from_ns(0), 10, &mut rig.world);
            assert_eq!(rig.statuses(), [WcStatus::LocQpOpErr], "{service:?} {op:?}");
            assert!(rig.world.sent.is_empty());
        }
    }
}

/// concerns rows 3.051, 3.053, 3.083
#[test]
fn the_error_state_flushes_each_once_in_order() {
    let mut rig = Rig::rc();
    for op in [SEND, READ, INVALIDATE, SEND] {
        rig.post(op, 8);
    }
    rig.run();
    rig.requester.error();
    rig.requester.error();
    assert_eq!(
        rig.requester.run(Time::from_ns(0), 3, &mut rig.world),
        Run::More
    );
    assert_eq!(rig.statuses(), [WrFlushErr; 3]);
    rig.ack(100);
    rig.read_response(Position::Only, 101, &[0; 8]);
    assert_eq!(rig.psns(), []);
    assert_eq!(rig.statuses(), [WrFlushErr; 4]);
    assert!(rig.world.completions.iter().all(|c| c.report));
}

/// concerns rows 3.051, 3.083
#[test]
fn an_answer_in_the_error_state_comes_too_late() {
    let mut rig = Rig::rc();
    rig.post(READ, 8);
    rig.post(SEND, 8);
    rig.run();
    rig.requester.error();
    rig.read_response(Position::Only, 100, &[0; 8]);
    rig.ack(101);
    assert_eq!(rig.statuses(), []);
    rig.run();
    assert_eq!(rig.statuses(), [WrFlushErr; 2]);
    assert_eq!(rig.world.queue[0].data, [7; 8]);
}

/// concerns rows 3.052, 3.054
#[test]
fn a_reset_begins_anew() {
    let mut rig = Rig::rc();
    rig.post(SEND, 8);
    rig.run();
    rig.requester.reset();
    assert_eq!(rig.requester.state(), State::Reset);
    assert_eq!(rig.psns(), []);
    rig.world = World::new(0, 1);
    rig.requester.start(SendAttr {
        sq_psn: Psn::new(5),
        ..send_attr(Service::Rc)
    });
    rig.post(SEND, 8);
    assert_eq!(rig.psns(), [5]);
    rig.ack(100);
    rig.ack(5);
    assert_eq!(rig.statuses(), [Success]);
}

/// concerns rows 3.051
#[test]
fn back_pressure_keeps_the_place() {
    let mut rig = Rig::rc();
    rig.post(SEND, 600);
    rig.world
        .transmit_errors
        .push_back(TransmitError::QueueFull);
    let run = rig.requester.run(Time::from_ns(0), 10, &mut rig.world);
    assert_eq!((run, rig.world.sent.len()), (Run::Blocked, 0));
    assert_eq!(rig.psns(), [100, 101, 102]);
}

#[test]
fn a_packet_dropped_at_home_counts_as_sent() {
    let mut rig = Rig::rc();
    rig.post(SEND, 600);
    rig.world.transmit_errors.push_back(TransmitError::Dropped);
    assert_eq!(rig.psns(), [101, 102]);
    assert_eq!(rig.world.count(Counter::SendErr), 1);
    rig.nak(NakCode::PsnSequence, 100);
    assert_eq!(rig.psns(), [100, 101, 102]);
}

// Local operations.

/// concerns rows 3.031, 3.032, 3.033
#[test]
fn local_operations_run_in_order_once_and_without_packets() {
    let mut rig = Rig::rc();
    for op in [SEND, BIND, SEND, INVALIDATE, SEND] {
        rig.post(op, 1);
    }
    assert_eq!(rig.psns(), [100, 101]);
    assert_eq!(rig.world.locals, [1]);
    rig.time_out();
    assert_eq!(rig.psns(), [100]);
    rig.ack(101);
    assert_eq!(rig.statuses(), [Success; 3]);
    assert_eq!(rig.psns(), [102]);
    assert_eq!(rig.world.locals, [1, 3]);
    rig.ack(102);
    assert_eq!(rig.statuses(), [Success; 5]);
    assert_eq!(rig.world.completions[1].opcode, Some(WcOpcode::BindMw));
}

/// concerns rows 3.084
#[test]
fn a_local_operation_that_fails_stops_the_queue() {
    let mut rig = Rig::rc();
    rig.world.local_result = Err(WcStatus::MwBindErr);
    rig.post(BIND, 0);
    rig.post(SEND, 1);
    rig.requester.run(Time::from_ns(0), 10, &mut rig.world);
    rig.run();
    assert_eq!(rig.statuses(), [WcStatus::MwBindErr, WrFlushErr]);
}

// States.

/// concerns rows 3.049, 3.061, 3.102
#[test]
fn draining_finishes_what_was_begun_and_holds_the_rest() {
    for notify in [true, false] {
        let mut rig = Rig::new(SendAttr {
            window: 1,
            ..send_attr(Service::Rc)
        });
        rig.post(SEND, 300);
        rig.post(SEND, 1);
        rig.run();
        rig.requester.drain(notify, &mut rig.world);
        assert!(rig.requester.is_draining());
        rig.ack(100);
        assert_eq!(rig.psns(), [101], "begun, so it goes on");
        assert!(
            rig.requester.is_draining(),
            "all is sent, but not acknowledged"
        );
        assert_eq!(rig.world.events, []);
        rig.ack(101);
        assert_eq!(rig.psns(), []);
        assert!(!rig.requester.is_draining());
        let expected: &[_] = if notify { &[QpEvent::SqDrained] } else { &[] };
        assert_eq!(rig.world.events, expected);
        rig.requester.set_attr(SendAttr {
            window: 64,
            ..*rig.requester.attr()
        });
        rig.requester.resume();
        assert_eq!(rig.psns(), [102]);
    }
}

/// concerns rows 3.049
#[test]
fn draining_holds_a_request_that_cannot_be_sent() {
    let mut rig = Rig::rc();
    rig.post(SEND, 1);
    rig.post(SendOp::Invalid(WcStatus::LocQpOpErr), 1);
    rig.run();
    rig.requester.drain(true, &mut rig.world);
    rig.ack(100);
    assert_eq!(rig.psns(), []);
    assert_eq!(rig.requester.state(), State::Sqd);
    assert_eq!(rig.world.events, [QpEvent::SqDrained]);
    assert_eq!(rig.statuses(), [Success]);
    rig.requester.resume();
    rig.requester
        .run(Time::from_ns(rig.now), 10, &mut rig.world);
    assert_eq!(rig.statuses(), [Success, WcStatus::LocQpOpErr]);
}

/// concerns rows 3.049, 3.102
#[test]
fn an_idle_queue_is_drained_at_once() {
    let mut rig = Rig::rc();
    rig.requester.drain(true, &mut rig.world);
    assert_eq!(rig.world.events, [QpEvent::SqDrained]);
    assert_eq!(rig.requester.state(), State::Sqd);
}

/// concerns rows 3.050, 3.082
#[test]
fn a_send_error_on_an_unreliable_service_stops_the_send_queue_only() {
    let mut rig = Rig::new(send_attr(Service::Uc));
    rig.world
        .transmit_errors
        .push_back(TransmitError::Fault(WcStatus::LocProtErr));
    rig.post(SEND, 300);
    rig.post(SEND, 1);
    rig.requester.run(Time::from_ns(0), 10, &mut rig.world);
    rig.run();
    assert_eq!(rig.statuses(), [WcStatus::LocProtErr, WrFlushErr]);
    assert_eq!(
        (rig.requester.state(), &*rig.world.moved),
        (State::Sqe, &[State::Sqe][..])
    );
    rig.requester.resume();
    rig.post(SEND, 1);
    assert_eq!(rig.psns(), [100]);
    assert_eq!(rig.statuses(), [WcStatus::LocProtErr, WrFlushErr, Success]);
}

/// concerns rows 3.048
#[test]
fn nothing_is_sent_before_rts() {
    let mut requester = Requester::new();
    let mut world = World::new(0, 1);
    world.post(SEND, vec![1]);
    assert_eq!(requester.run(Time::from_ns(0), 10, &mut world), Run::Idle);
    assert!(world.sent.is_empty());
}

#[test]
fn attributes_change_but_not_those_that_a_connection_is_made_with() {
    let mut rig = Rig::rc();
    rig.requester.set_attr(SendAttr {
        mtu: Mtu::Mtu4096,
        sq_psn: Psn::new(7),
        dest_qpn: Qpn::new(9),
        retry_cnt: 8,
        rnr_retry: 8,
        window: 0,
        ..send_attr(Service::Uc)
    });
    let attr = rig.requester.attr();
    let kept = (attr.service, attr.mtu, attr.sq_psn);
    assert_eq!(kept, (Service::Rc, Mtu::Mtu256, Psn::new(100)));
    let limited = (attr.retry_cnt, attr.rnr_retry, attr.window);
    assert_eq!(limited, (7, 7, 1));
    rig.post(SEND, 257);
    let sent = rig.run();
    assert_eq!((sent.len(), sent[0].payload.len()), (1, 256));
    assert_eq!(sent[0].headers.bth().dest_qpn, Qpn::new(9));
}

// Unreliable services.

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
