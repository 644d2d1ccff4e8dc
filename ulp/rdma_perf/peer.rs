// SPDX-License-Identifier: GPL-2.0

//! What one end tells the other when queue pairs are wired by hand: words `KEY=VALUE`, as they stand in the file `local` of the
//! one and are written to the file `remote` of the other.
//!
//! No kernel in here: `tools/testing/host/rdma_perf` tests it.

use core::net::Ipv6Addr;

use crate::options::{Options, Reader, MAX_QPS, TERMS};

/// The longest text that is understood.
pub const MAX_TEXT: usize = 8192;

/// A queue pair of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerQp {
    /// Its number.
    pub qp_num: u32,
    /// The number of the first packet that it sends.
    pub psn: u32,
    /// Where its memory is, and the key for that; both zero where it has none.
    pub address: u64,
    /// See above.
    pub rkey: u32,
}

/// The peer, but for its queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// What is to be done, if it is the client.
    pub terms: Option<Options>,
    /// Its GID.
    pub gid: [u8; 16],
    /// The MAC address that packets to it get.
    pub mac: [u8; 6],
    /// How many queue pairs it has.
    pub qps: u32,
}

const MAX_24_BITS: u64 = 0xff_ffff;

/// A number up to `high`: decimal digits, or hexadecimal ones after `0x`.
fn number(text: &str, high: u64) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, radix)
        .ok()
        .filter(|value| *value <= high)
}

fn small(text: &str, high: u64) -> Option<u32> {
    u32::try_from(number(text, high)?).ok()
}

fn hex(digit: u8) -> Option<u8> {
    u8::try_from(char::from(digit).to_digit(16)?).ok()
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.as_bytes().split(|byte| *byte == b':');
    for byte in &mut mac {
        let [high, low] = parts.next()? else {
            return None;
        };
        *byte = hex(*high)? << 4 | hex(*low)?;
    }
    parts.next().is_none().then_some(mac)
}

/// What is read so far.
struct Reading<F> {
    terms: Reader,
    has_terms: bool,
    gid: Option<[u8; 16]>,
    mac: Option<[u8; 6]>,
    qp: Option<PeerQp>,
    qps: u32,
    on_qp: F,
}

impl<F: FnMut(PeerQp) -> Option<()>> Reading<F> {
    fn add(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "gid" if self.gid.is_none() => {
                self.gid = Some(value.parse::<Ipv6Addr>().ok()?.octets());
            }
            "mac" if self.mac.is_none() => self.mac = Some(mac(value)?),
            "qpn" => {
                self.end_qp()?;
                self.qp = Some(PeerQp {
                    qp_num: small(value, MAX_24_BITS)?,
                    ..PeerQp::default()
                });
            }
            "psn" => self.qp.as_mut()?.psn = small(value, MAX_24_BITS)?,
            "address" => self.qp.as_mut()?.address = number(value, u64::MAX)?,
            "rkey" => self.qp.as_mut()?.rkey = small(value, u32::MAX.into())?,
            _ if TERMS.contains(&key) => {
                self.has_terms = true;
                self.terms.add(key, value)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// A queue pair was told whole.
    fn end_qp(&mut self) -> Option<()> {
        let Some(qp) = self.qp.take() else {
            return Some(());
        };
        self.qps = self.qps.checked_add(1).filter(|count| *count <= MAX_QPS)?;
        (self.on_qp)(qp)
    }
}

/// Reads what the peer says, and tells `on_qp` of each of its queue pairs, which may stop that. `None` for what is not
/// understood.
pub fn parse(text: &[u8], on_qp: impl FnMut(PeerQp) -> Option<()>) -> Option<Peer> {
    let text = core::str::from_utf8(text).ok()?;
    let mut reading = Reading {
        terms: Reader::new(),
        has_terms: false,
        gid: None,
        mac: None,
        qp: None,
        qps: 0,
        on_qp,
    };
    for word in text.split_ascii_whitespace() {
        let (key, value) = word.split_once('=')?;
        reading.add(key, value)?;
    }
    reading.end_qp()?;
    let (has_terms, qps) = (reading.has_terms, reading.qps);
    let terms = reading.terms.finish()?;
    if qps == 0 || (has_terms && terms.qps != qps) {
        return None;
    }
    Some(Peer {
        terms: has_terms.then_some(terms),
        gid: reading.gid?,
        mac: reading.mac?,
        qps,
    })
}
