// SPDX-License-Identifier: GPL-2.0

//! Tests of the requester, one for each rule.

mod acknowledges;
#[path = "../common/mod.rs"]
mod common;
mod errors;
mod local_operations;
mod losses;
mod reads_and_atomics;
mod segmentation;
mod states;
mod unreliable;
mod xrc;

use common::world::{Sent, World, BASE, RKEY};
use common::{send_attr, PEER, READ, SELF, SEND};
use roce::memory::{AtomicOp, SendExtra, SendOp, SendWr, TransmitError, UdDest};
use roce::mtu::Mtu;
use roce::opcode::{Opcode, Position};
use roce::pkey::Pkey;
use roce::psn::{Msn, Psn};
use roce::requester::Requester;
use roce::state::{Counter, QpEvent, Run, SendAttr, Service, State, Time, WcOpcode, WcStatus};
use roce::timer::{AckTimeout, RnrTimer};
use roce::wire::{
    Aeth, AtomicAckEth, Bth, Credits, Deth, Ext, Feth, Headers, NakCode, Packet, Parts, Qpn, Srqn,
    Syndrome, Xrceth,
};

/// A requester, its driver, and a clock.
struct Rig {
    requester: Requester,
    world: World,
    now: u64,
}

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
        let service = self.requester.attr().service.into();
        self.respond(
            Opcode::RcAcknowledge.in_service(service),
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
