// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC: a checksum of all fields of a packet that are constant on its path.
//!
//! Annex A17.3.3 and section 7.8.1 of IBTA volume 1: the CRC-32 of Ethernet over eight bytes of
//! ones (in place of the InfiniBand local route header), the IP header, the UDP header, the base
//! transport header and the rest of the packet up to the ICRC itself, with all bits of these fields
//! taken as ones because routers change them:
//!
//! * IPv4: type of service, time to live, header checksum;
//! * IPv6: traffic class, flow label, hop limit;
//! * UDP: checksum;
//! * base transport header: FECN, BECN and the six reserved bits beside them.
//!
//! It is sent with its least significant byte first.

use core::marker::PhantomData;

/// Length in bytes of an ICRC.
pub const LEN: usize = 4;

/// Length in bytes of an IPv4 header. RoCEv2 allows no IPv4 options.
pub const IPV4_LEN: usize = 20;
/// Length in bytes of an IPv6 header.
pub const IPV6_LEN: usize = 40;
/// Length in bytes of a UDP header.
pub const UDP_LEN: usize = 8;
/// Length in bytes of a base transport header.
pub const BTH_LEN: usize = 12;

/// State of the CRC after the eight bytes of ones, which is the same for every packet.
const SEED: u32 = 0xdebb_20e3;

/// CRC-32 with the Ethernet polynomial, reflected (0xedb88320), without inversion at the start and the end: the
/// kernel's `crc32_le()`.
pub trait Crc32 {
    /// The state after `data`, which may be empty.
    fn update(state: u32, data: &[u8]) -> u32;
}

/// A partial ICRC: started with the headers, then updated with the rest of the packet.
#[derive(Debug)]
pub struct Icrc<C: Crc32> {
    state: u32,
    crc: PhantomData<C>,
}

impl<C: Crc32> Icrc<C> {
    /// Starts with the headers of an IPv4 packet.
    #[inline]
    pub fn ipv4(ip: &[u8; IPV4_LEN], udp: &[u8; UDP_LEN], bth: &[u8; BTH_LEN]) -> Self {
        let mut masked = *ip;
        masked[1] = 0xff; // type of service
        masked[8] = 0xff; // time to live
        masked[10] = 0xff; // header checksum
        masked[11] = 0xff;
        Self::begin(&masked, udp, bth)
    }

    /// Starts with the headers of an IPv6 packet.
    #[inline]
    pub fn ipv6(ip: &[u8; IPV6_LEN], udp: &[u8; UDP_LEN], bth: &[u8; BTH_LEN]) -> Self {
        let mut masked = *ip;
        masked[0] |= 0x0f; // traffic class, flow label
        masked[1] = 0xff;
        masked[2] = 0xff;
        masked[3] = 0xff;
        masked[7] = 0xff; // hop limit
        Self::begin(&masked, udp, bth)
    }

    #[inline]
    fn begin(masked_ip: &[u8], udp: &[u8; UDP_LEN], bth: &[u8; BTH_LEN]) -> Self {
        let mut transport = [0; UDP_LEN + BTH_LEN];
        let (masked_udp, masked_bth) = transport.split_at_mut(UDP_LEN);
        masked_udp.copy_from_slice(udp);
        masked_bth.copy_from_slice(bth);
        transport[6] = 0xff; // UDP checksum
        transport[7] = 0xff;
        transport[UDP_LEN + 4] = 0xff; // FECN, BECN, reserved

        // In one piece: a call of the CRC saves the registers of the FPU.
        let mut headers = [0; IPV6_LEN + UDP_LEN + BTH_LEN];
        let (ip, rest) = headers.split_at_mut(masked_ip.len().min(IPV6_LEN));
        ip.copy_from_slice(masked_ip);
        rest[..UDP_LEN + BTH_LEN].copy_from_slice(&transport);
        let len = ip.len() + UDP_LEN + BTH_LEN;
        Self {
            state: C::update(SEED, &headers[..len]),
            crc: PhantomData,
        }
    }

    /// Adds the next piece of the packet: extension headers, payload or pad bytes.
    #[inline]
    pub fn update(&mut self, data: &[u8]) {
        self.state = C::update(self.state, data);
    }

    /// As [`Icrc::update`], for a piece that others may write meanwhile: `crc` returns the state after it.
    #[inline]
    pub fn update_by(&mut self, crc: impl FnOnce(u32) -> u32) {
        self.state = crc(self.state);
    }

    /// The four bytes at the end of the packet.
    #[inline]
    pub fn finish(self) -> [u8; LEN] {
        (!self.state).to_le_bytes()
    }
}
