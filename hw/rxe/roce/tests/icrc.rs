// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC: frames of other implementations, and the fields that it covers.

use proptest::prelude::*;
use roce::icrc::{Crc32, Icrc, Prefix, BTH_LEN, IPV4_LEN, IPV6_LEN, LEN, UDP_LEN};

/// The polynomial bit by bit, as in the specification.
struct Bitwise;

impl Crc32 for Bitwise {
    fn update(state: u32, data: &[u8]) -> u32 {
        data.iter().fold(state, |state, &byte| {
            (0..8).fold(state ^ u32::from(byte), |state, _| {
                (state >> 1) ^ (0xedb8_8320 * (state & 1))
            })
        })
    }
}

/// A table-driven implementation, whose interface inverts at both ends.
struct Fast;

impl Crc32 for Fast {
    fn update(state: u32, data: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(!state);
        hasher.update(data);
        !hasher.finalize()
    }
}

fn part<const N: usize>(bytes: &[u8]) -> &[u8; N] {
    bytes[..N].try_into().unwrap()
}

/// What the IP and UDP headers at the start of a packet contribute, and the packet behind them.
fn prefix<C: Crc32>(packet: &[u8]) -> (Prefix, &[u8]) {
    match packet[0] >> 4 {
        4 => {
            let (ip, rest) = packet.split_at(IPV4_LEN);
            (Prefix::ipv4::<C>(part(ip), part(rest)), &rest[UDP_LEN..])
        }
        _ => {
            let (ip, rest) = packet.split_at(IPV6_LEN);
            (Prefix::ipv6::<C>(part(ip), part(rest)), &rest[UDP_LEN..])
        }
    }
}

/// The ICRC of a packet that begins with its IP header; the ICRC at its end is ignored.
fn icrc<C: Crc32>(packet: &[u8]) -> [u8; LEN] {
    let (prefix, rest) = prefix::<C>(&packet[..packet.len() - LEN]);
    let mut icrc = prefix.icrc::<C>(rest[4]);
    icrc.update(rest);
    let mut by_block = Icrc::<C>::of_state(C::update(0, &prefix.block(part(rest))));
    by_block.update(&rest[BTH_LEN..]);
    assert_eq!(icrc.state(), by_block.state());
    icrc.finish()
}

/// Whether the ICRC at the end of such a packet is correct.
fn is_complete(packet: &[u8]) -> bool {
    let (prefix, rest) = prefix::<Fast>(packet);
    let mut icrc = prefix.icrc::<Fast>(rest[4]);
    icrc.update(rest);
    icrc.is_complete()
}

/// A congestion notification packet captured from a ConnectX-4 Lx; from scapy's
/// `test/contrib/roce.uts`, "RoCE CNP captured on ConnectX-4 Lx".
const CNP_V4: &[u8] = &[
    0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11, 0x01,
    0x0a, 0x00, 0x12, 0x01, // IPv4
    0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, // UDP
    0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00, // BTH
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x82, 0xfd, 0x00, 0x2a, // ICRC
];

/// An unreliable send over IPv4; from scapy's `test/contrib/roce.uts`, "RoCE layer".
const SEND_V4: &[u8] = &[
    0x45, 0x01, 0x00, 0x40, 0x04, 0x78, 0x40, 0x00, 0x40, 0x11, 0xb4, 0xd5, 0xc0, 0xa8, 0x00, 0x07,
    0xc0, 0xa8, 0x00, 0x07, // IPv4
    0xc0, 0x00, 0x12, 0xb7, 0x00, 0x2c, 0xac, 0xa2, // UDP
    0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17, 0x10, // BTH
    0x46, 0x30, 0x81, 0x8b, 0xe2, 0x89, 0x35, 0xd9, 0x0e, 0x9a, 0x95, 0x50, 0x54, 0x01, 0xbe, 0x88,
    0x5e, 0x50, 0x00, 0x00, // payload with two pad bytes
    0x78, 0xf3, 0x53, 0xf3, // ICRC
];

/// The same over IPv6; from scapy's `test/contrib/roce.uts`, "RoCE over IPv6".
const SEND_V6: &[u8] = &[
    0x6e, 0x21, 0xfa, 0xce, 0x00, 0x2c, 0x11, 0xff, 0x20, 0x22, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x23, 0x20, 0x23, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x24, // IPv6
    0xc0, 0x00, 0x12, 0xb7, 0x00, 0x2c, 0xe7, 0xc5, // UDP
    0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17, 0x10, // BTH
    0x46, 0x30, 0x81, 0x8b, 0xe2, 0x89, 0x35, 0xd9, 0x0e, 0x9a, 0x95, 0x50, 0x54, 0x01, 0xbe, 0x88,
    0x5e, 0x50, 0x00, 0x00, // payload with two pad bytes
    0x3e, 0x5b, 0x74, 0x3b, // ICRC
];

// concerns rows 3.016
#[test]
fn frames_that_others_made() {
    for frame in [CNP_V4, SEND_V4, SEND_V6] {
        let expected = &frame[frame.len() - LEN..];
        assert_eq!(icrc::<Bitwise>(frame), expected);
        assert_eq!(icrc::<Fast>(frame), expected);
        assert!(is_complete(frame));
    }
}

/// The bits that routers change, by IP version: byte of the packet, mask.
fn masked(frame: &[u8]) -> &'static [(usize, u8)] {
    match frame[0] >> 4 {
        4 => &[
            (1, 0xff),                      // type of service
            (8, 0xff),                      // time to live
            (10, 0xff),                     // header checksum
            (11, 0xff),                     // header checksum
            (IPV4_LEN + 6, 0xff),           // UDP checksum
            (IPV4_LEN + 7, 0xff),           // UDP checksum
            (IPV4_LEN + UDP_LEN + 4, 0xff), // FECN, BECN, reserved
        ],
        _ => &[
            (0, 0x0f),                      // traffic class
            (1, 0xff),                      // traffic class, flow label
            (2, 0xff),                      // flow label
            (3, 0xff),                      // flow label
            (7, 0xff),                      // hop limit
            (IPV6_LEN + 6, 0xff),           // UDP checksum
            (IPV6_LEN + 7, 0xff),           // UDP checksum
            (IPV6_LEN + UDP_LEN + 4, 0xff), // FECN, BECN, reserved
        ],
    }
}

/// Every single bit of the frames: those that routers change do not change the ICRC, all others do. The four bits of
/// the IP version are skipped.
// concerns rows 3.016
#[test]
fn every_bit_counts_but_those_that_routers_change() {
    for frame in [CNP_V4, SEND_V4, SEND_V6] {
        let before = icrc::<Fast>(frame);
        for byte in 0..frame.len() - LEN {
            for bit in (0..8).filter(|bit| byte != 0 || *bit < 4) {
                let mut changed = frame.to_vec();
                changed[byte] ^= 1 << bit;
                let invisible = masked(frame)
                    .iter()
                    .any(|&(at, mask)| at == byte && (mask >> bit) & 1 == 1);
                assert_eq!(
                    icrc::<Fast>(&changed) == before,
                    invisible,
                    "byte {byte}, bit {bit}"
                );
                assert_eq!(is_complete(&changed), invisible);
            }
        }
        for byte in frame.len() - LEN..frame.len() {
            let mut changed = frame.to_vec();
            changed[byte] ^= 1;
            assert!(!is_complete(&changed));
        }
    }
}

proptest! {
    /// The result does not depend on the division into pieces.
    // concerns rows 3.016
    #[test]
    fn pieces_make_the_whole(
        ip in any::<[u8; IPV4_LEN]>(),
        udp in any::<[u8; UDP_LEN]>(),
        bth in any::<[u8; BTH_LEN]>(),
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
    ) {
        let mut whole: Icrc<Bitwise> = Prefix::ipv4::<Bitwise>(&ip, &udp).icrc(bth[4]);
        whole.update(&bth);
        whole.update(&pieces.concat());
        let mut in_pieces: Icrc<Fast> = Prefix::ipv4::<Fast>(&ip, &udp).icrc(bth[4]);
        in_pieces.update(&bth);
        for piece in &pieces {
            in_pieces.update(piece);
        }
        prop_assert_eq!(whole.finish(), in_pieces.finish());
    }

    /// Of headers that differ in the identification alone, one follows from the other.
    // concerns rows 3.016
    #[test]
    fn identifications_follow_from_each_other(
        ip in any::<[u8; IPV4_LEN]>(),
        udp in any::<[u8; UDP_LEN]>(),
        other in any::<u16>(),
    ) {
        let mut changed = ip;
        changed[4..6].copy_from_slice(&other.to_be_bytes());
        let difference = u16::from_be_bytes([ip[4], ip[5]]) ^ other;
        prop_assert_eq!(
            Prefix::ipv4::<Fast>(&ip, &udp).identified(difference),
            Prefix::ipv4::<Bitwise>(&changed, &udp)
        );
    }

    /// The congestion bits and those beside them count as ones, as if the packet had ones.
    // concerns rows 3.016
    #[test]
    fn congestion_counts_as_ones(prefix in any::<[u8; IPV6_LEN + UDP_LEN]>(), bth in any::<[u8; BTH_LEN]>()) {
        let (ip, udp) = prefix.split_at(IPV6_LEN);
        let prefix = Prefix::ipv6::<Fast>(part(ip), part(udp));
        // IPv6 has no identification.
        prop_assert_eq!(prefix.identified(u16::from_be_bytes([bth[0], bth[1]])), prefix);
        let icrc = |bth: &[u8; BTH_LEN]| {
            let mut icrc: Icrc<Bitwise> = prefix.icrc(bth[4]);
            icrc.update(bth);
            icrc.finish()
        };
        let mut ones = bth;
        ones[4] = 0xff;
        // With ones in their place nothing is exchanged.
        prop_assert_eq!(icrc(&bth), icrc(&ones));
    }
}
