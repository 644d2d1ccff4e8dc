// SPDX-License-Identifier: GPL-2.0

//! Parsing the information that the ends exchange out of band: the `KEY=VALUE` pairs of the file `local` of one end, which are
//! written to the file `remote` of the other.
//!
//! This module does not use the kernel crate; `tools/testing/host/rdma_perf` tests it.

use core::net::Ipv6Addr;

use crate::options::{Options, Reader, MAX_QPS, SHARED_KEYS};

/// The maximum length of the text.
pub const MAX_TEXT: usize = 8192;

/// A queue pair of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerQp {
    /// Its QP number.
    pub qp_num: u32,
    /// Its initial PSN.
    pub psn: u32,
    /// The address of its memory, or zero.
    pub address: u64,
    /// The rkey of its memory, or zero.
    pub rkey: u32,
}

/// The information of the peer, without its queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The options of the run, if the peer is the client.
    pub options: Option<Options>,
    /// Its GID.
    pub gid: [u8; 16],
    /// The destination MAC address of packets to it.
    pub mac: [u8; 6],
    /// The number of its queue pairs.
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

/// The state of the parser.
struct Parser<F> {
    options: Reader,
    has_options: bool,
    gid: Option<[u8; 16]>,
    mac: Option<[u8; 6]>,
    qp: Option<PeerQp>,
    qps: u32,
    on_qp: F,
}

impl<F: FnMut(PeerQp) -> Option<()>> Parser<F> {
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
            _ if SHARED_KEYS.contains(&key) => {
                self.has_options = true;
                self.options.add(key, value)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Ends the pairs of a queue pair.
    fn end_qp(&mut self) -> Option<()> {
        let Some(qp) = self.qp.take() else {
            return Some(());
        };
        self.qps = self.qps.checked_add(1).filter(|count| *count <= MAX_QPS)?;
        (self.on_qp)(qp)
    }
}

/// Parses the peer's information, and calls `on_qp` with each of its queue pairs. `None` for invalid text, and if `on_qp`
/// returns `None`.
pub fn parse(text: &[u8], on_qp: impl FnMut(PeerQp) -> Option<()>) -> Option<Peer> {
    let text = core::str::from_utf8(text).ok()?;
    let mut parser = Parser {
        options: Reader::new(),
        has_options: false,
        gid: None,
        mac: None,
        qp: None,
        qps: 0,
        on_qp,
    };
    for pair in text.split_ascii_whitespace() {
        let (key, value) = pair.split_once('=')?;
        parser.add(key, value)?;
    }
    parser.end_qp()?;
    let (has_options, qps) = (parser.has_options, parser.qps);
    let options = parser.options.finish()?;
    if qps == 0 || (has_options && options.qps != qps) {
        return None;
    }
    Some(Peer {
        options: has_options.then_some(options),
        gid: parser.gid?,
        mac: parser.mac?,
        qps,
    })
}
