// SPDX-License-Identifier: GPL-2.0

//! Malicious packets, driver methods that fail and state changes at any time: nothing panics, nothing completes twice
//! or out of order, and at the end everything is flushed.
//!
//! concerns rows 3.004, 3.051, 3.053, 3.083, 3.085, 3.106, 3.107

mod common;

use common::world::{slots, Region, World, BASE, RKEY};
use common::{recv_attr, send_attr, Rng, SELF};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use roce::memory::{
    AtomicOp, RemoteFault, RespondError, SendExtra, SendOp, SendWr, TransmitError, UdDest,
};
use roce::opcode::{Opcode, PayloadRule};
use roce::pkey::Pkey;
use roce::psn::{Msn, Psn};
use roce::requester::Requester;
use roce::responder::{Responder, Slot};
use roce::state::{Run, Service, State, Time, WcOpcode, WcStatus};
use roce::timer::RnrTimer;
use roce::wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Credits, Deth, Feth, Headers, Ieth, ImmDt, NakCode, Packet,
    Parts, Qpn, Reth, Srqn, Syndrome, Xrceth, MAX_HEADERS,
};

struct Rig {
    requester: Requester,
    responder: Responder<Region, Vec<Slot<Region>>>,
    world: World,
    rng: Rng,
    now: u64,
}

impl Rig {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let responder = Responder::new(rng.hits(300), slots(rng.below(5) as usize));
        let mut rig = Self {
            requester: Requester::new(),
            responder,
            world: World::new(2048, seed),
            rng,
            now: 0,
        };
        rig.start();
        rig
    }

    /// A queue pair of any service with random attributes.
    fn start(&mut self) {
        let rng = &mut self.rng;
        let services = [
            Service::Rc,
            Service::Rc,
            Service::Uc,
            Service::Ud,
            Service::XrcIni,
            Service::XrcTgt,
        ];
        let service = services[rng.below(6) as usize];
        let mut send = send_attr(service);
        let mut recv = recv_attr(service);
        let psn = Psn::new(rng.next() as u32);
        (send.sq_psn, recv.rq_psn) = (psn, psn);
        send.window = rng.below(40) as u32;
        send.max_rd_atomic = rng.below(4) as u8;
        send.retry_cnt = rng.below(9) as u8;
        send.rnr_retry = rng.below(9) as u8;
        recv.max_dest_rd_atomic = rng.below(6) as u8;
        recv.access.read = rng.hits(900);
        recv.access.write = rng.hits(900);
        self.world = World::new(2048, rng.next());
        (self.world.busy, self.world.dropped) = (100, 50);
        self.world.add_srq(RKEY, true);
        self.world.add_srq(2, false);
        self.requester.start(send);
        self.responder.start(recv);
    }

    /// A number near `psn`, mostly.
    fn near(&mut self, psn: Psn) -> Psn {
        match self.rng.below(10) {
            0 => Psn::new(self.rng.next() as u32),
            1..=3 => psn.add(self.rng.below(6) as u32),
            4..=5 => psn.sub(self.rng.below(6) as u32),
            _ => psn,
        }
    }

    fn syndrome(&mut self) -> Syndrome {
        match self.rng.below(8) {
            0..=3 => Syndrome::Ack(Credits::new(self.rng.next() as u8)),
            4 => Syndrome::RnrNak(RnrTimer::new(self.rng.next() as u8)),
            5 | 6 => Syndrome::Nak(NakCode::PsnSequence),
            _ => Syndrome::Nak(match self.rng.below(4) {
                0 => NakCode::InvalidRequest,
                1 => NakCode::RemoteAccess,
                2 => NakCode::RemoteOperational,
                _ => NakCode::InvalidRdRequest,
            }),
        }
    }

    fn feth(&mut self) -> Feth {
        Feth {
            placement: self.rng.below(16) as u8,
            selectivity: self.rng.below(4) as u8,
        }
    }

    fn parts(&mut self) -> Parts {
        let va = match self.rng.below(8) {
            0 => self.rng.next(),
            _ => BASE + self.rng.below(300) * 8,
        };
        let length = match self.rng.below(8) {
            0 => self.rng.next() as u32,
            _ => self.rng.below(900) as u32,
        };
        let rkey = if self.rng.hits(950) { RKEY } else { 0 };
        let srqn = Srqn::new(match self.rng.below(10) {
            0 => 2,
            1 => 3,
            _ => RKEY,
        });
        Parts {
            xrceth: Xrceth { srqn },
            reth: Reth { va, rkey, length },
            aeth: Aeth {
                syndrome: self.syndrome(),
                msn: Msn::new(self.rng.next() as u32),
            },
            atomic: AtomicEth {
                va,
                rkey,
                swap_add: 1,
                compare: 2,
            },
            atomic_ack: AtomicAckEth {
                original: self.rng.next(),
            },
            immdt: ImmDt(9),
            ieth: Ieth { rkey },
            deth: Deth {
                qkey: 0x1111_1111,
                src_qpn: Qpn::new(1),
            },
            feth: self.feth(),
        }
    }

    fn packet(&mut self) {
        let opcode = Opcode::ALL[self.rng.below(Opcode::ALL.len() as u64) as usize];
        let psn = if opcode.is_response() {
            let oldest = self.requester.next_psn().sub(self.rng.below(12) as u32);
            self.near(oldest)
        } else {
            self.near(self.responder.expected_psn())
        };
        let mut bth = Bth::new(opcode, Pkey::DEFAULT, SELF, psn);
        bth.ack_req = self.rng.hits(500);
        let len = match opcode.payload() {
            PayloadRule::Exactly(len) => u64::from(len),
            PayloadRule::Full if self.rng.hits(970) => 256,
            _ => self.rng.below(300),
        };
        let payload = self.rng.bytes(len as usize);
        let parts = self.parts();
        let packet = Packet::new(Headers::new(bth, &parts), len as u32);
        if self.rng.hits(250) {
            self.spoiled(&packet, &payload);
        } else {
            self.deliver(&packet, &payload);
        }
    }

    fn deliver(&mut self, packet: &Packet, payload: &[u8]) {
        let (world, now) = (&mut self.world, Time::from_ns(self.now));
        // Both engines get all packets: the driver sorts them, but correctness does not depend on it.
        self.responder.receive(packet, payload, world);
        self.requester.receive(packet, payload, now, world);
    }

    /// Delivers a packet with some bytes and its length corrupted.
    fn spoiled(&mut self, packet: &Packet, payload: &[u8]) {
        let mut head = [0; MAX_HEADERS];
        let written = packet.headers().write(packet.payload_len(), &mut head);
        let mut bytes = head[..written].to_vec();
        bytes.extend_from_slice(payload);
        bytes.resize(packet.udp_payload_len(), 0);
        for _ in 0..self.rng.below(4) {
            let at = self.rng.below(written as u64) as usize;
            bytes[at] = match self.rng.below(3) {
                0 => self.rng.next() as u8,
                1 => bytes[at] ^ (1 << self.rng.below(8)),
                _ => [0, 1, 0x7f, 0x80, 0xff][self.rng.below(5) as usize],
            };
        }
        if self.rng.hits(300) {
            bytes.resize(self.rng.below(1200) as usize, 0);
        }
        let Ok(packet) = Packet::parse(&bytes, bytes.len()) else {
            return;
        };
        let (from, len) = (packet.payload_offset(), packet.payload_len() as usize);
        self.deliver(&packet, &bytes[from..][..len]);
    }

    fn post(&mut self) {
        let va = BASE + self.rng.below(200) * 8;
        let (rkey, len) = (RKEY, self.rng.below(1000) as usize);
        let dest = UdDest {
            qpn: Qpn::new(4),
            qkey: 1,
            pkey: None,
        };
        let op = match self.rng.below(13) {
            0..=2 => SendOp::Send {
                extra: SendExtra::None,
            },
            3 => SendOp::Send {
                extra: SendExtra::Invalidate(3),
            },
            4 => SendOp::SendUd { imm: None, dest },
            5..=6 => SendOp::Write {
                va,
                rkey,
                imm: Some(1),
            },
            7..=8 => SendOp::Read {
                va,
                rkey,
                invalidate: self.rng.hits(200),
            },
            9 => SendOp::Atomic {
                va,
                rkey,
                op: AtomicOp::FetchAdd { add: 1 },
            },
            10 => SendOp::Local {
                opcode: WcOpcode::RegMr,
                wait_all: self.rng.hits(500),
            },
            11 => SendOp::Flush {
                va,
                rkey,
                feth: self.feth(),
            },
            _ if self.rng.hits(100) => SendOp::Invalid(WcStatus::LocQpOpErr),
            _ => SendOp::AtomicWrite { va, rkey },
        };
        let len = match op {
            SendOp::Atomic { .. } | SendOp::AtomicWrite { .. } => 8,
            _ => len,
        };
        let (signaled, solicited, fence) = (self.rng.hits(500), false, self.rng.hits(200));
        let wr = SendWr {
            op,
            length: len as u32,
            signaled,
            solicited,
            fence,
            srqn: Srqn::default(),
        };
        self.world.post_wr(wr, vec![0; len]);
    }

    /// A driver method fails, once.
    fn trouble(&mut self) {
        let status = WcStatus::LocProtErr;
        match self.rng.below(5) {
            0 => self
                .world
                .transmit_errors
                .push_back(TransmitError::Fault(status)),
            1 => {
                let error = RespondError::Nak(RemoteFault::Access);
                self.world.respond_errors.push_back(error);
            }
            2 => self.world.invalid_receive = Some(WcStatus::LocQpOpErr),
            3 => self.world.recv_result = Err(status),
            _ => self.world.scatter_result = Err(status),
        }
    }

    fn change_state(&mut self) {
        match self.rng.below(8) {
            6 | 7 => {
                self.requester.reset();
                self.responder.reset();
                self.start();
            }
            0 => self.requester.drain(true, &mut self.world),
            1..=3 => self.requester.resume(),
            4 => self.responder.established(),
            _ => {
                self.requester.error();
                self.responder.error();
            }
        }
    }

    fn run(&mut self, budget: u32) -> [Run; 2] {
        let now = Time::from_ns(self.now);
        let runs = [
            self.responder.run(budget, &mut self.world),
            self.requester.run(now, budget, &mut self.world),
        ];
        self.world.take_sent();
        runs
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..=59 => self.packet(),
            60..=69 => self.post(),
            70..=79 => {
                let len = self.rng.below(700) as usize;
                self.world.post_recv(len);
                self.world.post_srq_recv(RKEY, len);
            }
            80..=94 => {
                let budget = self.rng.below(9) as u32;
                self.run(budget);
            }
            95..=97 => self.now += self.rng.below(1_500_000),
            98 if self.rng.hits(100) => self.trouble(),
            99 if self.rng.hits(200) => self.change_state(),
            _ => {}
        }
    }

    /// Ends the queue pair, and checks that all posted requests have completed.
    fn finish(mut self) -> bool {
        let survived = self.requester.state() == State::Rts && self.responder.state() != State::Err;
        self.requester.error();
        self.responder.error();
        self.world.busy = 0;
        while self.run(100) != [Run::Idle; 2] {}
        assert_eq!(self.world.completions.len(), self.world.queue.len());
        assert!(self.world.current.is_none());
        assert_eq!(self.requester.next_deadline(), None);
        survived
    }
}

#[test]
fn nothing_breaks_the_engines() {
    // More of them on demand: CASES=1000000 cargo test --release --test hostile.
    let cases = std::env::var("CASES").map_or(4000, |cases| cases.parse().unwrap());
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let survived = std::cell::Cell::new(0u32);
    TestRunner::new_with_rng(config, rng)
        .run(&(any::<u64>(), 1..400usize), |(seed, steps)| {
            let mut rig = Rig::new(seed);
            for _ in 0..steps {
                rig.step();
            }
            survived.set(survived.get() + u32::from(rig.finish()));
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    println!(
        "hostile: {cases} cases, {} queue pairs survived",
        survived.get()
    );
}
