// SPDX-License-Identifier: GPL-2.0

//! Time and the network between two ends: it drops, duplicates and reorders.

use ib_cm_protocol::{field::Data, messages::Attribute, remote::Remote};
use std::collections::BTreeMap;

/// A generator of random numbers: xorshift.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

#[derive(Clone)]
pub struct Packet {
    pub message: Attribute,
    pub data: Data,
    pub transaction: u64,
}

/// What a client has put off.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    Connect,
    Resolve,
    Accept,
    Ready,
    Establish,
    LoadPath,
    AnswerPath,
    Migrate,
    Disconnect,
    AnswerDisconnect,
    Destroy,
}

pub enum What {
    Arrives(usize, Box<Packet>),
    /// The MAD of an identifier has waited for its answer.
    Waited(usize, u32, u64),
    Timewait(usize, u32, Remote),
    Does(usize, u32, Deed),
}

/// How bad it is, in percent.
#[derive(Clone, Copy)]
pub struct Faults {
    pub lost: u64,
    pub doubled: u64,
    /// Messages that cannot be sent at all.
    pub unsent: u64,
    /// Clients that do something else than to go on.
    pub whims: u64,
    /// The longest way of a packet, in ms.
    pub delay: u64,
}

pub struct Network {
    pub now: u64,
    count: u64,
    events: BTreeMap<(u64, u64), What>,
    pub random: Random,
    pub faults: Faults,
}

impl Network {
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self {
            now: 0,
            count: 0,
            events: BTreeMap::new(),
            random: Random(seed | 1),
            faults,
        }
    }

    pub fn later(&mut self, delay: u64, what: What) {
        self.count += 1;
        self.events.insert((self.now + delay, self.count), what);
    }

    /// Sends a packet to the other end.
    pub fn send(&mut self, from: usize, packet: &Packet) {
        let copies = 1 + u64::from(self.random.percent(self.faults.doubled));
        for _ in 0..copies {
            if !self.random.percent(self.faults.lost) {
                let delay = 1 + self.random.below(self.faults.delay);
                self.later(delay, What::Arrives(1 - from, Box::new(packet.clone())));
            }
        }
    }

    pub fn next(&mut self) -> Option<What> {
        let ((time, _), what) = self.events.pop_first()?;
        self.now = time;
        Some(what)
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}
