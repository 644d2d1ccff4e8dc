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

/// The polynomial, with its highest power in the lowest bit.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// CRC-32 with the Ethernet polynomial, reflected (0xedb88320), without inversion at the start and the end: the
/// kernel's `crc32_le()`.
pub trait Crc32 {
    /// The state after `data`, which may be empty.
    fn update(state: u32, data: &[u8]) -> u32;
}

/// The state after `bits` zero bits. The CRC is linear: a difference of two states, or of a state and the next bytes, goes the same
/// way.
const fn forward(mut state: u32, bits: usize) -> u32 {
    let mut bit = 0;
    while bit < bits {
        state = (state >> 1) ^ (POLYNOMIAL * (state & 1));
        bit += 1;
    }
    state
}

/// The state before `bits` zero bits: the reverse of [`forward`].
const fn backward(mut state: u32, bits: usize) -> u32 {
    let mut bit = 0;
    while bit < bits {
        let odd = state >> 31;
        state = ((state ^ (POLYNOMIAL * odd)) << 1) | odd;
        bit += 1;
    }
    state
}

/// The state after a packet and its ICRC: that is the complement of the state before it.
const COMPLETE: u32 = forward(u32::MAX, 8 * LEN);

/// The byte of the base transport header with the bits that congestion changes.
pub const CONGESTION: usize = 4;

/// By the congestion bits and those beside them: the difference of the state at the start of the base transport header that makes
/// them ones.
const ONES_INSTEAD: [u32; 256] = {
    let mut table = [0; 256];
    let mut bits = 0;
    while bits < table.len() {
        table[bits] = backward(!bits as u32 & 0xff, 8 * CONGESTION);
        bits += 1;
    }
    table
};

/// By the bits of the IPv4 identification: the difference of the state after the UDP header that another bit makes.
const IDENTIFICATION: [u32; 16] = {
    const AT: usize = 4;
    let mut table = [0; 16];
    let mut bit = 0;
    while bit < table.len() {
        // The high byte is the first one.
        let at = AT + 1 - bit / 8;
        table[bit] = forward(1 << (bit % 8), 8 * (IPV4_LEN + UDP_LEN - at));
        bit += 1;
    }
    table
};

/// The length in bytes of the [block](Prefix::block) with which the ICRC of a packet begins.
pub const BLOCK_LEN: usize = 16;

/// The bits in the block in front of the base transport header.
const BEFORE: usize = 8 * (BLOCK_LEN - BTH_LEN);

/// The same differences as [`IDENTIFICATION`], at the start of the block.
const IDENTIFICATION_BEFORE: [u32; 16] = {
    let (mut table, mut bit) = (IDENTIFICATION, 0);
    while bit < table.len() {
        table[bit] = backward(table[bit], BEFORE);
        bit += 1;
    }
    table
};

/// What the IP and UDP headers contribute to the ICRC. Packets of one length between two ports have the same, but for the IPv4
/// identification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    state: u32,
    /// Bytes of which the state follows, from 0.
    before: u32,
    /// Whether there is an identification.
    ipv4: bool,
}

impl Prefix {
    const fn new(state: u32, ipv4: bool) -> Self {
        Self {
            state,
            before: backward(state, BEFORE),
            ipv4,
        }
    }

    /// That of the headers of an IPv4 packet.
    #[inline]
    pub fn ipv4<C: Crc32>(ip: &[u8; IPV4_LEN], udp: &[u8; UDP_LEN]) -> Self {
        let mut headers = [0; IPV4_LEN + UDP_LEN];
        let (masked, masked_udp) = headers.split_at_mut(IPV4_LEN);
        masked.copy_from_slice(ip);
        masked[1] = 0xff; // type of service
        masked[8] = 0xff; // time to live
        masked[10] = 0xff; // header checksum
        masked[11] = 0xff;
        mask_udp(masked_udp, udp);
        Self::new(C::update(SEED, &headers), true)
    }

    /// That of the headers of an IPv6 packet.
    #[inline]
    pub fn ipv6<C: Crc32>(ip: &[u8; IPV6_LEN], udp: &[u8; UDP_LEN]) -> Self {
        let mut headers = [0; IPV6_LEN + UDP_LEN];
        let (masked, masked_udp) = headers.split_at_mut(IPV6_LEN);
        masked.copy_from_slice(ip);
        masked[0] |= 0x0f; // traffic class, flow label
        masked[1] = 0xff;
        masked[2] = 0xff;
        masked[3] = 0xff;
        masked[7] = 0xff; // hop limit
        mask_udp(masked_udp, udp);
        Self::new(C::update(SEED, &headers), false)
    }

    /// That of the same headers with an IPv4 identification in which these bits are others. An IPv6 header has none.
    #[inline]
    pub const fn identified(self, difference: u16) -> Self {
        let Self {
            mut state,
            mut before,
            ..
        } = self;
        let mut left = if self.ipv4 { difference } else { 0 };
        while left != 0 {
            let bit = left.trailing_zeros() as usize % IDENTIFICATION.len();
            state ^= IDENTIFICATION[bit];
            before ^= IDENTIFICATION_BEFORE[bit];
            left &= left - 1;
        }
        Self {
            state,
            before,
            ..self
        }
    }

    /// The bytes to which the CRC, from state 0, has the state after the headers and the base transport header. As a whole block they
    /// suit a CRC that takes 16 bytes at a time.
    #[inline]
    pub fn block(self, bth: &[u8; BTH_LEN]) -> [u8; BLOCK_LEN] {
        let mut block = [0; BLOCK_LEN];
        let (before, header) = block.split_at_mut(BLOCK_LEN - BTH_LEN);
        before.copy_from_slice(&self.before.to_le_bytes());
        header.copy_from_slice(bth);
        header[CONGESTION] = 0xff;
        block
    }

    /// Starts the ICRC of a packet, of which `congestion` is the fifth byte of the base transport header.
    #[inline]
    pub const fn icrc<C: Crc32>(self, congestion: u8) -> Icrc<C> {
        Icrc {
            state: self.state ^ ONES_INSTEAD[congestion as usize],
            crc: PhantomData,
        }
    }
}

#[inline]
fn mask_udp(masked: &mut [u8], udp: &[u8; UDP_LEN]) {
    masked.copy_from_slice(udp);
    masked[6] = 0xff; // checksum
    masked[7] = 0xff;
}

/// A partial ICRC: started with the [headers](Prefix) in front of a packet, then updated with the packet, from its base transport
/// header on.
#[derive(Debug)]
pub struct Icrc<C: Crc32> {
    state: u32,
    crc: PhantomData<C>,
}

impl<C: Crc32> Icrc<C> {
    /// One with a state of the CRC.
    #[inline]
    pub const fn of_state(state: u32) -> Self {
        Self {
            state,
            crc: PhantomData,
        }
    }

    /// Adds the next piece of the packet: headers, payload or pad bytes. Congestion bits and those beside them are those of the packet,
    /// and count as ones.
    #[inline]
    pub fn update(&mut self, data: &[u8]) {
        self.state = C::update(self.state, data);
    }

    /// The state of the CRC.
    #[inline]
    pub const fn state(&self) -> u32 {
        self.state
    }

    /// As [`Icrc::update`], for a piece that others may write meanwhile: `crc` returns the state after it.
    #[inline]
    pub fn update_by(&mut self, crc: impl FnOnce(u32) -> u32) {
        self.state = crc(self.state);
    }

    /// Whether the ICRC is correct, of a packet that was added with it.
    #[inline]
    pub const fn is_complete(&self) -> bool {
        self.state == COMPLETE
    }

    /// The four bytes at the end of the packet.
    #[inline]
    pub fn finish(self) -> [u8; LEN] {
        (!self.state).to_le_bytes()
    }
}
