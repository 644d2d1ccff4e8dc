// SPDX-License-Identifier: GPL-2.0

//! Common parts of the engine tests: a driver for one engine, and a simulated network between two of them.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod network;
pub mod world;

use roce::memory::{SendExtra, SendOp};
use roce::mtu::Mtu;
use roce::pkey::Pkey;
use roce::psn::Psn;
use roce::state::{RecvAttr, RemoteAccess, SendAttr, Service};
use roce::timer::{AckTimeout, RnrTimer};
use roce::wire::Qpn;
use world::{BASE, RKEY};

/// The queue pair number of the peer in tests of a single engine.
pub const PEER: Qpn = Qpn::new(0x42);
/// The own queue pair number in tests of a single engine.
pub const SELF: Qpn = Qpn::new(0x17);

/// A SEND.
pub const SEND: SendOp = SendOp::Send {
    extra: SendExtra::None,
};
/// A READ of the peer's memory, from its beginning.
pub const READ: SendOp = SendOp::Read {
    va: BASE,
    rkey: RKEY,
    invalidate: false,
};

/// Default attributes of a requester.
pub fn send_attr(service: Service) -> SendAttr {
    SendAttr {
        service,
        mtu: Mtu::Mtu256,
        qpn: SELF,
        dest_qpn: PEER,
        sq_psn: Psn::new(100),
        pkey: Pkey::DEFAULT,
        qkey: 0x1111_1111,
        signal_all: false,
        ack_timeout: AckTimeout::new(8),
        retry_cnt: 7,
        rnr_retry: 7,
        max_rd_atomic: 4,
        window: 64,
    }
}

/// Default attributes of a responder.
pub fn recv_attr(service: Service) -> RecvAttr {
    RecvAttr {
        service,
        mtu: Mtu::Mtu256,
        dest_qpn: PEER,
        rq_psn: Psn::new(100),
        pkey: Pkey::DEFAULT,
        qkey: 0x1111_1111,
        max_dest_rd_atomic: 4,
        min_rnr_timer: RnrTimer::new(1),
        access: RemoteAccess {
            write: true,
            read: true,
            atomic: true,
        },
    }
}

/// A pseudo-random number generator (xorshift64*), whose seed determines a whole run.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end.max(1)
    }

    /// True `permille` times of a thousand.
    pub fn hits(&mut self, permille: u32) -> bool {
        self.below(1000) < u64::from(permille)
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
