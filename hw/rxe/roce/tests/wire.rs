// SPDX-License-Identifier: GPL-2.0

//! Headers and packets: golden bytes, round trips, and all parse errors.

use proptest::prelude::*;
use roce::icrc;
use roce::mtu::Mtu;
use roce::opcode::{Kind, Opcode, PayloadRule};
use roce::pkey::Pkey;
use roce::psn::{Msn, Psn};
use roce::timer::RnrTimer;
use roce::wire::{
    pad_len, Aeth, AtomicAckEth, AtomicEth, Bth, Credits, Deth, Ext, Feth, Headers, Ieth, ImmDt,
    NakCode, Packet, ParseError, Parts, Qpn, Reth, Srqn, Syndrome, Xrceth, MAX_HEADERS,
    MAX_UDP_PAYLOAD,
};

/// Parts with distinct bytes, so that no two fields are confused.
const PARTS: Parts = Parts {
    xrceth: Xrceth {
        srqn: Srqn::new(0xc1_c2c3),
    },
    reth: Reth {
        va: 0x0102_0304_0506_0708,
        rkey: 0x1112_1314,
        length: 0x1516_1718,
    },
    aeth: Aeth {
        syndrome: Syndrome::Ack(Credits::new(0x1f)),
        msn: Msn::new(0x21_2223),
    },
    atomic: AtomicEth {
        va: 0x3132_3334_3536_3738,
        rkey: 0x4142_4344,
        swap_add: 0x5152_5354_5556_5758,
        compare: 0x6162_6364_6566_6768,
    },
    atomic_ack: AtomicAckEth {
        original: 0x7172_7374_7576_7778,
    },
    immdt: ImmDt(0x8182_8384),
    ieth: Ieth { rkey: 0x9192_9394 },
    deth: Deth {
        qkey: 0xa1a2_a3a4,
        src_qpn: Qpn::new(0xb1_b2b3),
    },
    feth: Feth {
        placement: 3,
        selectivity: 1,
    },
};

const XRCETH: &[u8] = &[0, 0xc1, 0xc2, 0xc3];
const IMMDT: &[u8] = &[0x81, 0x82, 0x83, 0x84];
const IETH: &[u8] = &[0x91, 0x92, 0x93, 0x94];
const RETH: &[u8] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
];
const AETH: &[u8] = &[0x1f, 0x21, 0x22, 0x23];
const ATOMIC_ETH: &[u8] = &[
    0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44, 0x51, 0x52, 0x53, 0x54,
    0x55, 0x56, 0x57, 0x58, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
];
const ATOMIC_ACK_ETH: &[u8] = &[0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78];
const DETH: &[u8] = &[0xa1, 0xa2, 0xa3, 0xa4, 0, 0xb1, 0xb2, 0xb3];
const FETH: &[u8] = &[0, 0, 0, 0x13];

/// The specification's order of headers, by opcode, independent of our table.
fn golden_extension(code: u8) -> Vec<u8> {
    let parts: &[&[u8]] = match code {
        0x03 | 0x05 | 0x09 | 0x23 | 0x25 | 0x29 => &[IMMDT],
        0x06 | 0x0a | 0x0c | 0x1d | 0x26 | 0x2a => &[RETH],
        0x0b | 0x2b => &[RETH, IMMDT],
        0x0d | 0x0f | 0x10 | 0x11 => &[AETH],
        0x12 => &[AETH, ATOMIC_ACK_ETH],
        0x13 | 0x14 => &[ATOMIC_ETH],
        0x16 | 0x17 => &[IETH],
        0x1c => &[FETH, RETH],
        0x64 => &[DETH],
        0x65 => &[DETH, IMMDT],
        // Annex A14: as on a reliable connection, with the XRC header first in each request.
        0xa0 | 0xa1 | 0xa2 | 0xa4 | 0xa7 | 0xa8 => &[XRCETH],
        0xa3 | 0xa5 | 0xa9 => &[XRCETH, IMMDT],
        0xa6 | 0xaa | 0xac | 0xbd => &[XRCETH, RETH],
        0xab => &[XRCETH, RETH, IMMDT],
        0xad | 0xaf | 0xb0 | 0xb1 => &[AETH],
        0xb2 => &[AETH, ATOMIC_ACK_ETH],
        0xb3 | 0xb4 => &[XRCETH, ATOMIC_ETH],
        0xb6 | 0xb7 => &[XRCETH, IETH],
        0xbc => &[XRCETH, FETH, RETH],
        _ => &[],
    };
    parts.concat()
}

/// A UDP payload: headers, payload of `byte`s, pad bytes, an arbitrary ICRC.
fn frame(headers: &Headers, payload_len: u32) -> Vec<u8> {
    let mut out = [0xee; MAX_HEADERS];
    let length = headers.write(payload_len, &mut out);
    let mut frame = out[..length].to_vec();
    frame.resize(length + payload_len as usize, 0x5a);
    frame.resize(frame.len() + pad_len(payload_len), 0);
    frame.extend([0xcc; icrc::LEN]);
    frame
}

/// Parses a whole UDP payload, given its first bytes, as a driver does.
fn parse(frame: &[u8]) -> Result<Packet, ParseError> {
    Packet::parse(&frame[..frame.len().min(MAX_HEADERS)], frame.len())
}

/// A length that the opcode allows on a path of 1024 bytes, with pad bytes where possible.
fn some_payload(opcode: Opcode) -> u32 {
    match opcode.payload() {
        PayloadRule::Exactly(bytes) => bytes.into(),
        PayloadRule::Full => 1024,
        PayloadRule::Some | PayloadRule::Any => 13,
    }
}

fn plain(opcode: Opcode) -> Headers {
    Headers::new(
        Bth::new(opcode, Pkey::DEFAULT, Qpn::new(0x11), Psn::new(7)),
        &PARTS,
    )
}

// concerns rows 3.013
#[test]
fn base_header_bytes() {
    let mut bth = Bth::new(
        Opcode::RcSendOnly,
        Pkey::new(0xabcd),
        Qpn::new(0x12_3456),
        Psn::new(0x78_9abc),
    );
    let bytes =
        |bth: &Bth, payload_len| frame(&Headers::new(*bth, &PARTS), payload_len)[..12].to_vec();
    assert_eq!(
        bytes(&bth, 0),
        [0x04, 0x40, 0xab, 0xcd, 0, 0x12, 0x34, 0x56, 0, 0x78, 0x9a, 0xbc]
    );
    bth.migrated = false;
    assert_eq!(bytes(&bth, 0)[1], 0x00);
    assert_eq!(bytes(&bth, 1)[1], 0x30);
    assert_eq!(bytes(&bth, 2)[1], 0x20);
    assert_eq!(bytes(&bth, 3)[1], 0x10);
    assert_eq!(bytes(&bth, 4)[1], 0x00);
    bth.solicited = true;
    assert_eq!(bytes(&bth, 0)[1], 0x80);
    bth.fecn = true;
    assert_eq!(bytes(&bth, 0)[4], 0x80);
    bth.becn = true;
    assert_eq!(bytes(&bth, 0)[4], 0xc0);
    bth.ack_req = true;
    assert_eq!(bytes(&bth, 0)[8], 0x80);
}

// concerns rows 3.013 3.014 3.015 8.004
#[test]
fn extension_headers_of_every_opcode() {
    for &opcode in Opcode::ALL {
        let headers = plain(opcode);
        let mut out = [0; MAX_HEADERS];
        let length = headers.write(0, &mut out);
        let mut golden = vec![opcode.code(), 0x40, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0, 0, 7];
        golden.extend(golden_extension(opcode.code()));
        assert_eq!(out[..length], golden, "{opcode:?}");
        assert_eq!(length, headers.header_len());
    }
}

// concerns rows 3.013 3.014
#[test]
fn every_opcode_comes_back() {
    for &opcode in Opcode::ALL {
        let headers = plain(opcode);
        let length = some_payload(opcode);
        let frame = frame(&headers, length);
        let packet = parse(&frame).unwrap();
        assert_eq!(packet, Packet::new(headers, length));
        assert_eq!(packet.payload_offset(), headers.header_len());
        assert_eq!(packet.udp_payload_len(), frame.len());
        assert!(packet.payload_fits(Mtu::Mtu1024), "{opcode:?}");
    }
}

/// The accessors return the fields at the offsets of the golden bytes.
// concerns rows 3.014 3.015
#[test]
fn accessors_agree_with_the_opcode() {
    for &opcode in Opcode::ALL {
        let headers = plain(opcode);
        let golden = golden_extension(opcode.code());
        let has = |part: &[u8]| golden.windows(part.len()).any(|window| window == part);
        assert_eq!(
            headers.xrceth(),
            has(XRCETH).then_some(PARTS.xrceth),
            "{opcode:?}"
        );
        assert_eq!(
            headers.reth(),
            has(RETH).then_some(PARTS.reth),
            "{opcode:?}"
        );
        assert_eq!(
            headers.aeth(),
            has(AETH).then_some(PARTS.aeth),
            "{opcode:?}"
        );
        assert_eq!(
            headers.immdt(),
            has(IMMDT).then_some(PARTS.immdt),
            "{opcode:?}"
        );
        assert_eq!(
            headers.ieth(),
            has(IETH).then_some(PARTS.ieth),
            "{opcode:?}"
        );
        assert_eq!(
            headers.deth(),
            has(DETH).then_some(PARTS.deth),
            "{opcode:?}"
        );
        let layout = opcode.layout();
        assert_eq!(layout.has_reth(), has(RETH));
        assert_eq!(layout.has_aeth(), has(AETH));
        assert_eq!(layout.has_immdt(), has(IMMDT));
    }
}

/// The upper eight bits of an XRC header are reserved: sent as zeros, and ignored.
// concerns rows 8.004
#[test]
fn an_xrc_header_has_24_bits() {
    let mut sent = frame(&plain(Opcode::XrcSendOnly), 5);
    assert_eq!(sent[12..16], *XRCETH);
    sent[12] = 0xff;
    let packet = parse(&sent).unwrap();
    assert_eq!(packet.headers().xrceth(), Some(PARTS.xrceth));
    assert_eq!(packet.payload_offset(), 16);
    assert_eq!(Srqn::checked(0xff_ffff), Some(Srqn::new(0xff_ffff)));
    assert_eq!(Srqn::checked(0x100_0000), None);
    assert_eq!(Srqn::new(0x100_0001), Srqn::new(1));
}

/// A packet that ends within its XRC header, or has only that and no room for the ICRC, is no packet.
// concerns rows 8.004
#[test]
fn an_xrc_header_is_there_as_a_whole() {
    let whole = frame(&plain(Opcode::XrcSendOnly), 0);
    assert!(parse(&whole).is_ok());
    for len in 12..whole.len() {
        assert_eq!(parse(&whole[..len]), Err(ParseError::Short), "{len}");
    }
}

// concerns rows 3.018
#[test]
fn packets_without_payload() {
    for opcode in [
        Opcode::RcSendOnly,
        Opcode::RcWriteOnly,
        Opcode::RcReadRequest,
        Opcode::RcReadResponseOnly,
        Opcode::RcAcknowledge,
        Opcode::UdSendOnly,
    ] {
        let packet = parse(&frame(&plain(opcode), 0)).unwrap();
        assert_eq!(packet.payload_len(), 0);
        assert_eq!(packet.pad_len(), 0);
        for mtu in Mtu::ALL {
            assert!(packet.payload_fits(mtu), "{opcode:?}");
        }
    }
}

// concerns rows 3.014
#[test]
fn syndromes() {
    let table = [
        (0x00, Some(Syndrome::Ack(Credits::new(0)))),
        (0x1f, Some(Syndrome::ACK)),
        (0x20, Some(Syndrome::RnrNak(RnrTimer::new(0)))),
        (0x39, Some(Syndrome::RnrNak(RnrTimer::new(25)))),
        (0x3f, Some(Syndrome::RnrNak(RnrTimer::new(31)))),
        (0x40, None),
        (0x5f, None),
        (0x60, Some(Syndrome::Nak(NakCode::PsnSequence))),
        (0x61, Some(Syndrome::Nak(NakCode::InvalidRequest))),
        (0x62, Some(Syndrome::Nak(NakCode::RemoteAccess))),
        (0x63, Some(Syndrome::Nak(NakCode::RemoteOperational))),
        (0x64, Some(Syndrome::Nak(NakCode::InvalidRdRequest))),
        (0x65, None),
        (0x7f, None),
        (0x80, None),
        (0xff, None),
    ];
    for (code, syndrome) in table {
        assert_eq!(Syndrome::from_code(code), syndrome, "{code:#x}");
    }
    for code in 0..=u8::MAX {
        if let Some(syndrome) = Syndrome::from_code(code) {
            assert_eq!(syndrome.code(), code);
        }
        let mut bytes = frame(&plain(Opcode::RcAcknowledge), 0);
        bytes[12] = code;
        match Syndrome::from_code(code) {
            Some(syndrome) => {
                let aeth = parse(&bytes).unwrap().headers().aeth().unwrap();
                assert_eq!(aeth.syndrome, syndrome);
            }
            None => assert_eq!(parse(&bytes), Err(ParseError::ReservedSyndrome(code))),
        }
    }
}

// concerns rows 3.013
#[test]
fn unknown_opcodes_are_errors() {
    for code in 0..=u8::MAX {
        let mut bytes = frame(&plain(Opcode::RcSendOnly), 64);
        bytes[0] = code;
        if Opcode::from_code(code).is_none() {
            assert_eq!(parse(&bytes), Err(ParseError::UnknownOpcode(code)));
        }
    }
}

// concerns rows 3.013
#[test]
fn unknown_versions_are_errors() {
    let mut bytes = frame(&plain(Opcode::RcSendOnly), 64);
    for version in 1..=15 {
        bytes[1] = bytes[1] & 0xf0 | version;
        assert_eq!(parse(&bytes), Err(ParseError::BadVersion(version)));
    }
}

/// Every opcode, cut at every length: too short for its headers and ICRC is always an error.
// concerns rows 3.013 3.014
#[test]
fn short_packets_are_errors() {
    for &opcode in Opcode::ALL {
        let headers = plain(opcode);
        let bytes = frame(&headers, some_payload(opcode));
        for length in 0..headers.header_len() + icrc::LEN {
            assert_eq!(
                parse(&bytes[..length]),
                Err(ParseError::Short),
                "{opcode:?}, {length}"
            );
        }
        // The length exceeds the available bytes.
        let cut = &bytes[..headers.header_len() - 1];
        assert_eq!(Packet::parse(cut, bytes.len()), Err(ParseError::Short));
    }
}

/// More pad bytes than bytes: the lengths must not wrap around.
// concerns rows 3.013
#[test]
fn forged_pads_are_errors() {
    for &opcode in Opcode::ALL {
        let bytes = frame(&plain(opcode), 0);
        for pad in 1..=3 {
            let mut bytes = bytes.clone();
            bytes[1] |= pad << 4;
            assert_eq!(parse(&bytes), Err(ParseError::BadPad), "{opcode:?}");
        }
    }
}

// concerns rows 3.013
#[test]
fn lengths_are_multiples_of_four() {
    let mut bytes = frame(&plain(Opcode::RcSendOnly), 64);
    for _ in 1..=3 {
        bytes.push(0);
        assert_eq!(parse(&bytes), Err(ParseError::Unaligned));
    }
    bytes.push(0);
    assert_eq!(parse(&bytes).map(|packet| packet.payload_len()), Ok(68));
}

#[test]
fn lengths_end_where_udp_ends() {
    let bytes = frame(&plain(Opcode::RcSendOnly), 64);
    let longest = MAX_UDP_PAYLOAD - MAX_UDP_PAYLOAD % 4;
    assert!(Packet::parse(&bytes, longest).is_ok());
    assert_eq!(
        Packet::parse(&bytes, MAX_UDP_PAYLOAD + 1),
        Err(ParseError::Long)
    );
    assert_eq!(Packet::parse(&bytes, usize::MAX), Err(ParseError::Long));
}

/// Packets of fixed length, by name; other packets without payload are checked against the table elsewhere.
#[test]
fn fixed_payloads_are_fixed() {
    for &opcode in Opcode::ALL {
        if let PayloadRule::Exactly(bytes) = opcode.payload() {
            let bytes = u32::from(bytes);
            assert_eq!(
                parse(&frame(&plain(opcode), bytes + 1)),
                Err(ParseError::BadPayload)
            );
            assert!(parse(&frame(&plain(opcode), bytes)).is_ok());
            assert_ne!(opcode.kind(), Kind::Send);
        }
    }
}

#[test]
fn payloads_by_position() {
    let fits = |opcode, length| {
        let packet = parse(&frame(&plain(opcode), length)).unwrap();
        packet.payload_fits(Mtu::Mtu256)
    };
    let table = [
        // opcode, fits with 0, 1, 255, 256, 257 bytes
        (Opcode::RcSendFirst, [false, false, false, true, false]),
        (Opcode::UcWriteMiddle, [false, false, false, true, false]),
        (Opcode::RcReadResponseLast, [false, true, true, true, false]),
        (Opcode::UdSendOnly, [true, true, true, true, false]),
    ];
    for (opcode, expected) in table {
        let found = [0, 1, 255, 256, 257].map(|length| fits(opcode, length));
        assert_eq!(found, expected, "{opcode:?}");
    }
}

/// Reserved bits are ignored when received and zero when sent.
// concerns rows 3.013 3.014
#[test]
fn reserved_bits() {
    for &opcode in Opcode::ALL {
        let length = some_payload(opcode);
        let clean = frame(&plain(opcode), length);
        let mut bytes = clean.clone();
        bytes[4] |= 0x3f;
        bytes[8] |= 0x7f;
        match opcode {
            Opcode::UdSendOnly | Opcode::UdSendOnlyImmediate => bytes[16] = 0xff,
            Opcode::RcFlush => bytes[12..16].copy_from_slice(&[0xff, 0xff, 0xff, 0xd3]),
            _ => {}
        }
        let packet = parse(&bytes).unwrap();
        assert_eq!(frame(packet.headers(), length), clean, "{opcode:?}");
    }
}

#[test]
fn only_the_opcode_chooses_the_parts() {
    let bth = |opcode| Bth::new(opcode, Pkey::DEFAULT, Qpn::GSI, Psn::new(0));
    let empty = Headers::new(bth(Opcode::RcSendMiddle), &PARTS);
    assert_eq!(*empty.ext(), Ext::Bare);
    let default = Headers::new(bth(Opcode::RcAcknowledge), &Parts::default());
    assert_eq!(
        default.aeth().map(|aeth| aeth.syndrome),
        Some(Syndrome::ACK)
    );
}

fn any_opcode() -> impl Strategy<Value = Opcode> {
    prop::sample::select(Opcode::ALL)
}

prop_compose! {
    fn any_bth()(
        opcode in any_opcode(),
        [solicited, migrated, fecn, becn, ack_req] in any::<[bool; 5]>(),
        pkey in any::<u16>(),
        dest_qpn in any::<u32>(),
        psn in any::<u32>(),
    ) -> Bth {
        Bth {
            opcode,
            solicited,
            migrated,
            pkey: Pkey::new(pkey),
            fecn,
            becn,
            dest_qpn: Qpn::new(dest_qpn),
            ack_req,
            psn: Psn::new(psn),
        }
    }
}

fn any_syndrome() -> impl Strategy<Value = Syndrome> {
    let known: Vec<_> = (0..=u8::MAX).filter_map(Syndrome::from_code).collect();
    prop::sample::select(known)
}

prop_compose! {
    fn any_parts()(
        [va, atomic_va, swap_add, compare, original] in any::<[u64; 5]>(),
        [rkey, length, atomic_rkey, immdt, ieth, qkey, src_qpn, msn, srqn] in any::<[u32; 9]>(),
        syndrome in any_syndrome(),
        placement in 0..16u8,
        selectivity in 0..4u8,
    ) -> Parts {
        Parts {
            xrceth: Xrceth { srqn: Srqn::new(srqn) },
            reth: Reth { va, rkey, length },
            aeth: Aeth { syndrome, msn: Msn::new(msn) },
            atomic: AtomicEth { va: atomic_va, rkey: atomic_rkey, swap_add, compare },
            atomic_ack: AtomicAckEth { original },
            immdt: ImmDt(immdt),
            ieth: Ieth { rkey: ieth },
            deth: Deth { qkey, src_qpn: Qpn::new(src_qpn) },
            feth: Feth { placement, selectivity },
        }
    }
}

/// Arbitrary bytes, mostly with a valid opcode and version.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..120);
    prop_oneof![
        bytes(),
        (any_opcode(), bytes()).prop_map(|(opcode, mut bytes)| {
            if let [code, flags, ..] = bytes.as_mut_slice() {
                *code = opcode.code();
                *flags &= 0xf0;
            }
            bytes
        }),
    ]
}

proptest! {
    /// Written headers are parsed to the same values, and nothing else is written.
    // concerns rows 3.013 3.014 3.015
    #[test]
    fn what_is_written_comes_back(bth in any_bth(), parts in any_parts(), any_length in 0..9000u32) {
        let length = match bth.opcode.payload() {
            PayloadRule::Exactly(bytes) => bytes.into(),
            _ => any_length,
        };
        let headers = Headers::new(bth, &parts);
        prop_assert_eq!(parse(&frame(&headers, length)), Ok(Packet::new(headers, length)));
        let mut out = [0xee; MAX_HEADERS];
        let written = headers.write(length, &mut out);
        prop_assert!(out[written..].iter().all(|&byte| byte == 0xee));
    }

    /// Arbitrary bytes with any length: an error, or a packet within that length whose headers are written to the same
    /// bytes.
    // concerns rows 3.013 3.014
    #[test]
    fn any_bytes_are_a_packet_or_an_error(
        bytes in any_bytes(),
        claim in prop_oneof![0..200usize, any::<usize>()],
        honest in any::<bool>(),
    ) {
        let length = if honest { bytes.len() & !3 } else { claim };
        if let Ok(packet) = Packet::parse(&bytes, length) {
            let end = packet.payload_offset()
                + packet.payload_len() as usize
                + packet.pad_len()
                + icrc::LEN;
            prop_assert_eq!(end, length);
            prop_assert_eq!(packet.udp_payload_len(), length);
            let again = frame(packet.headers(), packet.payload_len());
            prop_assert_eq!(parse(&again), Ok(packet));
        }
    }

    /// Only the first 40 bytes matter, so that the rest may be in page fragments.
    #[test]
    fn the_head_is_enough(bytes in any_bytes()) {
        let head = &bytes[..bytes.len().min(MAX_HEADERS)];
        prop_assert_eq!(Packet::parse(head, bytes.len()), Packet::parse(&bytes, bytes.len()));
    }

    #[test]
    fn psn_steps_and_distances_agree(psn in any::<u32>(), step in -0x80_0000..0x80_0000i32) {
        let from = Psn::new(psn);
        let to = if step < 0 { from.sub(step.unsigned_abs()) } else { from.add(step.unsigned_abs()) };
        prop_assert_eq!(to.distance(from), step);
        prop_assert_eq!(to.is_before(from), step < 0);
        prop_assert_eq!(to.is_after(from), step > 0);
        prop_assert_eq!(from.add(to.offset(from)), to);
    }

    /// Of two numbers exactly one is before the other, unless they are equal or opposite.
    #[test]
    fn psn_order_is_antisymmetric(a in any::<u32>(), b in any::<u32>()) {
        let (a, b) = (Psn::new(a), Psn::new(b));
        if a != b && a.offset(b) != 0x80_0000 {
            prop_assert!(a.is_before(b) != b.is_before(a));
            prop_assert_eq!(a.is_before(b), b.is_after(a));
            prop_assert_eq!(a.distance(b), -b.distance(a));
        }
    }

    /// Within 2^23 numbers the order is transitive, as required for a window of packets.
    #[test]
    fn psn_order_holds_in_a_window(start in any::<u32>(), mut steps in any::<[u32; 2]>()) {
        steps.iter_mut().for_each(|step| *step %= 0x40_0000);
        let a = Psn::new(start);
        let b = a.add(steps[0]);
        let c = b.add(steps[1]);
        prop_assert!(!b.is_before(a) && !c.is_before(b) && !c.is_before(a));
    }
}
