// SPDX-License-Identifier: GPL-2.0

//! Tests of the responder, one for each rule.

mod acknowledges;
#[path = "../common/mod.rs"]
mod common;
mod error_state;
mod messages;
mod reads_and_atomics;
mod receiver_not_ready;
mod refusals;
mod unreliable_connection;
mod unreliable_datagram;
mod xrc;

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
    AtomicEth, Bth, Deth, Ext, Feth, Headers, Ieth, ImmDt, NakCode, Packet, Parts, Qpn, Reth, Srqn,
    Syndrome, Xrceth,
};

/// The events of the two kinds of refusal.
const ACCESS: QpEvent = QpEvent::AccessErr;
const INVALID: QpEvent = QpEvent::ReqErr;

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

    fn srq(mut self, number: u32) -> Self {
        let srqn = Srqn::new(number);
        self.parts.xrceth = Xrceth { srqn };
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
