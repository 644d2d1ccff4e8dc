// SPDX-License-Identifier: GPL-2.0

//! Runs of packets: the packets of a run are those of the specification's table, and joined they are the run again.

use proptest::prelude::*;
use roce::mtu::Mtu;
use roce::opcode::{Kind, Opcode, Position, Service, Tail};
use roce::pkey::Pkey;
use roce::psn::{Msn, Psn};
use roce::run::{Gathering, PacketRun, Segments};
use roce::wire::{
    Aeth, Bth, Headers, Ieth, ImmDt, NakCode, Packet, Parts, Qpn, Reth, Srqn, Syndrome, Xrceth,
    MAX_HEADERS,
};

/// A message in packets, as an engine that knows no runs sends it.
#[derive(Clone, Debug)]
struct Message {
    packets: Vec<Packet>,
    mtu: Mtu,
}

fn parts(seed: u64) -> Parts {
    let srqn = Srqn::new(seed as u32);
    Parts {
        xrceth: Xrceth { srqn },
        reth: Reth {
            va: seed,
            rkey: seed as u32,
            length: 9999,
        },
        aeth: Aeth {
            syndrome: Syndrome::ACK,
            msn: Msn::new(seed as u32),
        },
        immdt: ImmDt(seed as u32),
        ieth: Ieth { rkey: 5 },
        ..Parts::default()
    }
}

fn opcode(kind: Kind, service: Service, at: Position, tail: Tail) -> Option<Opcode> {
    match kind {
        Kind::Send => Opcode::send(service, at, tail),
        Kind::Write => Opcode::write(service, at, tail),
        _ => Some(Opcode::read_response(at).in_service(service)),
    }
}

fn message() -> impl Strategy<Value = Message> {
    let kinds = [
        (Kind::Send, Service::Rc, Tail::Plain),
        (Kind::Send, Service::Rc, Tail::Immediate),
        (Kind::Send, Service::Rc, Tail::Invalidate),
        (Kind::Send, Service::Uc, Tail::Plain),
        (Kind::Write, Service::Rc, Tail::Plain),
        (Kind::Write, Service::Uc, Tail::Immediate),
        (Kind::ReadResponse, Service::Rc, Tail::Plain),
        (Kind::Send, Service::Xrc, Tail::Plain),
        (Kind::Write, Service::Xrc, Tail::Immediate),
        (Kind::ReadResponse, Service::Xrc, Tail::Plain),
    ];
    let shape = (0..kinds.len(), 0..5usize, 2..40u32, 1..=4096u32);
    (shape, any::<u64>(), any::<u32>(), any::<bool>()).prop_map(
        move |((kind, mtu, count, last), seed, psn, solicited)| {
            let (kind, service, tail) = kinds[kind];
            let mtu = Mtu::ALL[mtu];
            let packet = |index: u32| {
                let ends = index + 1 == count;
                let at = Position::of(index == 0, ends);
                let opcode = opcode(kind, service, at, tail).expect("it has such packets");
                let mut bth =
                    Bth::new(opcode, Pkey::DEFAULT, Qpn::new(9), Psn::new(psn).add(index));
                bth.solicited = solicited && ends;
                bth.ack_req = ends;
                let len = if ends {
                    1 + last % mtu.bytes()
                } else {
                    mtu.bytes()
                };
                Packet::new(Headers::new(bth, &parts(seed)), len)
            };
            Message {
                packets: (0..count).map(packet).collect(),
                mtu,
            }
        },
    )
}

fn joined(packets: &[Packet]) -> Option<PacketRun> {
    let mut run = PacketRun::of(packets.first()?);
    packets[1..]
        .iter()
        .all(|next| run.append(next))
        .then_some(run)
}

proptest! {
    #[test]
    fn packets_make_a_run_and_a_run_its_packets(message in message(), cut in 0.0..1.0f64) {
        let Message { packets, mtu } = message;
        let from = (cut * (packets.len() - 1) as f64) as usize;
        for part in [&packets[..], &packets[from..], &packets[..=from]] {
            let [first, .., last] = part else { continue };
            let run = joined(part).expect("a message in order");
            prop_assert_eq!(run.count() as usize, part.len());
            prop_assert_eq!(run.packet().count() as usize, part.len());
            prop_assert!(run.packet().payload_fits(mtu));
            let opcode = run.packet().headers().opcode();
            prop_assert_eq!(opcode.begins(), first.headers().opcode().begins());
            prop_assert_eq!(opcode.ends(), last.headers().opcode().ends());
            let mut at = 0;
            for (slice, packet) in run.packets().zip(part) {
                prop_assert_eq!(slice.headers, *packet.headers());
                prop_assert_eq!((slice.offset, slice.len), (at, packet.payload_len()));
                at += slice.len;
            }
            prop_assert_eq!(at, run.payload_len());
        }
    }

    #[test]
    fn what_is_out_of_order_does_not_join(message in message(), wrong in 1..40usize, how in 0..8u32) {
        let Message { mut packets, mtu } = message;
        let wrong = 1 + wrong % (packets.len() - 1);
        let packet = packets[wrong];
        let mut bth = *packet.bth();
        let mut len = packet.payload_len();
        let mut fields = parts(1);
        let xrceth = packet.headers().xrceth();
        fields.xrceth = xrceth.unwrap_or_default();
        match how {
            0 => bth.psn = bth.psn.next(),
            1 => bth.dest_qpn = Qpn::new(8),
            2 => bth.pkey = Pkey::new(1),
            3 => bth.opcode = Opcode::RcAcknowledge,
            4 => len = mtu.bytes() + 4,
            5 => bth.opcode = *[Opcode::RcSendFirst, Opcode::RcWriteFirst]
                .iter()
                .find(|first| first.kind() == bth.opcode.kind())
                .unwrap_or(&Opcode::RcReadResponseFirst),
            6 => {
                fields.xrceth.srqn = Srqn::new(fields.xrceth.srqn.get() ^ 1);
                prop_assume!(xrceth.is_some());
            }
            _ => {
                fields.aeth.syndrome = Syndrome::Nak(NakCode::RemoteAccess);
                prop_assume!(packet.headers().aeth().is_some());
            }
        }
        packets[wrong] = Packet::new(Headers::new(bth, &fields), len);
        prop_assert!(joined(&packets).is_none());
        prop_assert!(wrong == 1 || joined(&packets[..wrong]).is_some());
    }
}

/// Whether the next one of some packets, of which one with these bytes is the only one, has a base transport header.
fn once(bth: &[u8; Bth::LEN]) -> impl FnMut(&[u8; Bth::LEN]) -> bool + '_ {
    let mut left = 1;
    move |next| core::mem::take(&mut left) == 1 && next == bth
}

/// Packets in the middle of a message that join a run together are those that join it one by one.
#[test]
fn packets_join_by_their_bytes_one_after_the_other() {
    let packet = |opcode, psn| {
        let bth = Bth::new(opcode, Pkey::DEFAULT, Qpn::new(9), Psn::new(psn));
        Packet::new(Headers::new(bth, &parts(3)), 1024)
    };
    let first = packet(Opcode::RcWriteFirst, 0xff_fffe);
    let middles = [0xff_ffff, 0, 1].map(|psn| packet(Opcode::RcWriteMiddle, psn));
    let last = packet(Opcode::RcWriteLast, 2);
    let mut left = middles.iter().chain([&last]);
    let (mut together, mut single) = (Gathering::of(&first), Gathering::of(&first));
    let added = together.append_middles(last.udp_payload_len(), |bth| {
        left.next()
            .is_some_and(|next| next.bth().bytes(1024) == *bth)
    });
    assert_eq!(added, 3);
    assert!(middles.iter().all(|next| single.append(next)));
    assert_eq!(together.run().packet(), single.run().packet());
    assert!(together.append(&last));
    assert_eq!(
        (together.run().count(), together.run().payload_len()),
        (5, 5 * 1024)
    );
}

proptest! {
    /// What joins a run by its bytes joins it parsed too, with the same result; what is plainly the next packet does join, but for one
    /// with an XRC header.
    #[test]
    fn a_packet_joins_by_its_bytes_as_it_does_parsed(
        message in message(),
        flips in prop::collection::vec((0..MAX_HEADERS, 0..8u32), 0..3),
        longer in -1..=1isize,
    ) {
        let Message { packets, .. } = message;
        let mut run = Gathering::of(&packets[0]);
        for packet in &packets[1..] {
            let mut head = [0; MAX_HEADERS];
            packet.headers().write(packet.payload_len(), &mut head);
            flips.iter().for_each(|&(byte, bit)| head[byte] ^= 1 << bit);
            let len = packet.udp_payload_len().saturating_add_signed(4 * longer);
            let (mut by_bytes, mut parsed) = (run, run);
            let added = by_bytes.append_middles(len, once(head.first_chunk().unwrap()));
            prop_assert!(added <= 1);
            if added == 1 {
                prop_assert!(parsed.append(&Packet::parse(&head, len).unwrap()));
                prop_assert_eq!(by_bytes.run().packet(), parsed.run().packet());
            } else {
                let intact = longer == 0 && flips.iter().all(|&(byte, _)| byte >= Bth::LEN);
                let opcode = packet.headers().opcode();
                let middle = opcode.position() == Position::Middle && !opcode.has_xrceth();
                prop_assert!(flips.len() == 2 || !intact || !middle);
            }
            prop_assert!(run.append(packet));
        }
    }
}

fn read_response(opcode: Opcode, psn: u32, syndrome: Syndrome) -> Packet {
    let mut fields = parts(3);
    fields.aeth.syndrome = syndrome;
    let bth = Bth::new(opcode, Pkey::DEFAULT, Qpn::new(9), Psn::new(psn));
    Packet::new(Headers::new(bth, &fields), 1024)
}

#[test]
fn a_negative_response_is_no_part_of_a_run() {
    let nak = Syndrome::Nak(NakCode::RemoteAccess);
    let begin = |syndrome| PacketRun::of(&read_response(Opcode::RcReadResponseFirst, 7, syndrome));
    let last = read_response(Opcode::RcReadResponseLast, 8, Syndrome::ACK);
    assert!(!begin(nak).append(&last));
    let mut run = begin(Syndrome::ACK);
    assert!(!run.append(&read_response(Opcode::RcReadResponseLast, 8, nak)));
    assert!(run.append(&read_response(Opcode::RcReadResponseLast, 8, Syndrome::ACK)));
}

/// A packet of XRC whose payload is too short by the length of the XRC header has the length of a full one without it.
#[test]
fn a_short_packet_of_xrc_does_not_join_by_its_bytes() {
    let packet = |opcode, psn, len| {
        let bth = Bth::new(opcode, Pkey::DEFAULT, Qpn::new(9), Psn::new(psn));
        Packet::new(Headers::new(bth, &parts(3)), len)
    };
    let mut run = Gathering::of(&packet(Opcode::XrcSendFirst, 7, 1024));
    let short = packet(Opcode::XrcSendMiddle, 8, 1020);
    let bth = short.bth().bytes(1020);
    assert_eq!(short.udp_payload_len(), Bth::LEN + 1024 + 4);
    assert_eq!(run.append_middles(short.udp_payload_len(), once(&bth)), 0);
    assert!(!run.append(&short));
}

/// A packet of a message has headers that those in its middle have not, or only the XRC header.
#[test]
fn extensions_are_headers_that_a_middle_packet_has_not() {
    let has = |opcode| {
        let bth = Bth::new(opcode, Pkey::DEFAULT, Qpn::new(9), Psn::new(7));
        let run = PacketRun::of(&Packet::new(Headers::new(bth, &parts(3)), 1024));
        run.slice(0).has_extensions()
    };
    assert!(!has(Opcode::RcSendMiddle) && !has(Opcode::XrcSendMiddle));
    assert!(!has(Opcode::XrcSendFirst) && has(Opcode::XrcWriteFirst));
    assert!(has(Opcode::RcReadResponseFirst) && has(Opcode::XrcSendLastImmediate));
}

#[test]
fn nothing_follows_the_last_packet() {
    let send = |opcode, psn| {
        let bth = Bth::new(opcode, Pkey::DEFAULT, Qpn::new(9), Psn::new(psn));
        Packet::new(Headers::new(bth, &parts(3)), 1024)
    };
    let mut run = PacketRun::of(&send(Opcode::RcSendFirst, 7));
    assert!(run.append(&send(Opcode::RcSendLast, 8)));
    assert!(!run.append(&send(Opcode::RcSendMiddle, 9)));
    assert!(!run.append(&send(Opcode::RcSendLast, 9)));
}

#[test]
fn a_run_is_not_joined_to_a_run() {
    let middle = |psn, len, count| {
        let bth = Bth::new(
            Opcode::RcSendMiddle,
            Pkey::DEFAULT,
            Qpn::new(9),
            Psn::new(psn),
        );
        Packet::run(Headers::new(bth, &parts(3)), len, count)
    };
    let mut run = PacketRun::of(&middle(7, 1024, 1));
    assert!(!run.append(&middle(8, 2048, 2)));
    assert!(run.append(&middle(8, 1024, 1)));
}

#[test]
fn a_run_has_what_one_of_its_packets_asks_for() {
    let middle = |psn, mark: fn(&mut Bth)| {
        let mut bth = Bth::new(
            Opcode::RcSendMiddle,
            Pkey::DEFAULT,
            Qpn::new(9),
            Psn::new(psn),
        );
        mark(&mut bth);
        Packet::new(Headers::new(bth, &parts(3)), 1024)
    };
    let asked = |marked: u32, mark: fn(&mut Bth)| {
        let packet = |psn| middle(psn, if psn == marked { mark } else { |_| {} });
        let mut run = PacketRun::of(&packet(7));
        assert!(run.append(&packet(8)) && run.append(&packet(9)));
        *run.packet().bth()
    };
    for psn in 7..10 {
        assert!(asked(psn, |bth| bth.ack_req = true).ack_req);
        assert!(asked(psn, |bth| bth.fecn = true).fecn);
        assert!(asked(psn, |bth| bth.becn = true).becn);
    }
    let none = asked(0, |_| {});
    assert!(!none.ack_req && !none.fecn && !none.becn);
}

#[test]
fn what_is_whole_or_not_full_is_a_run_by_itself() {
    let packet = |opcode, psn, len| {
        let bth = Bth::new(opcode, Pkey::DEFAULT, Qpn::new(9), Psn::new(psn));
        Packet::new(Headers::new(bth, &parts(3)), len)
    };
    let goes_on = |opcode: Opcode, len| {
        let first = packet(opcode, 7, len);
        let mut run = PacketRun::of(&first);
        assert_eq!((run.count(), *run.packet()), (1, first));
        let next = match opcode.kind() {
            Kind::Write => Opcode::RcWriteLast,
            Kind::ReadResponse => Opcode::RcReadResponseLast,
            _ => Opcode::RcSendLast,
        };
        run.append(&packet(next, 8, 100))
    };
    assert!(goes_on(Opcode::RcSendFirst, 1024) && goes_on(Opcode::RcWriteMiddle, 256));
    assert!(goes_on(Opcode::RcReadResponseMiddle, 4096));
    assert!(!goes_on(Opcode::RcSendFirst, 1023) && !goes_on(Opcode::RcSendFirst, 8192));
    assert!(!goes_on(Opcode::RcSendFirst, 0) && !goes_on(Opcode::RcSendFirst, 128));
    assert!(!goes_on(Opcode::RcSendOnly, 1024) && !goes_on(Opcode::RcSendLast, 1024));
    assert!(!goes_on(Opcode::UdSendOnly, 1024) && !goes_on(Opcode::RcReadRequest, 0));
    assert!(!goes_on(Opcode::RcAcknowledge, 0));
}

#[test]
fn segments_have_one_length_but_for_the_last() {
    let run = |opcode: Opcode, len, count| {
        let bth = Bth::new(opcode, Pkey::DEFAULT, Qpn::new(9), Psn::new(7));
        let mut run = PacketRun::of(&Packet::new(Headers::new(bth, &parts(3)), 1024));
        for index in 1..count {
            let ends = index + 1 == count;
            let at = Position::of(false, ends);
            let next = crate::opcode(opcode.kind(), opcode.service(), at, Tail::Plain);
            let bth = Bth::new(
                next.expect("it has such packets"),
                Pkey::DEFAULT,
                Qpn::new(9),
                Psn::new(7 + index),
            );
            let packet = Packet::new(Headers::new(bth, &parts(3)), if ends { len } else { 1024 });
            assert!(run.append(&packet));
        }
        run
    };
    let cut = |run: &PacketRun, most, longest| {
        let mut buffers: Vec<Vec<usize>> = Vec::new();
        let mut segments = Segments::new(0);
        for slice in run.packets() {
            let len = slice.udp_payload_len();
            if buffers.is_empty() || !segments.takes(len, most, longest) {
                segments = Segments::new(len);
                buffers.push(Vec::new());
                assert!(segments.takes(len, most, usize::MAX));
            }
            segments.add(len);
            buffers.last_mut().expect("there is one").push(len);
        }
        for lengths in &buffers {
            let (last, others) = lengths.split_last().expect("at least one");
            assert!(others.iter().all(|length| *length == lengths[0]) && *last <= lengths[0]);
            assert!(others.is_empty() || lengths.iter().sum::<usize>() <= longest);
        }
        buffers.iter().map(Vec::len).collect::<Vec<_>>()
    };
    // A WRITE begins with a RETH, the response to a READ begins and ends with an AETH: one shorter packet may follow the first one.
    let write = run(Opcode::RcWriteFirst, 1024, 20);
    assert_eq!(cut(&write, 16, 65_000), [2, 16, 2]);
    assert_eq!(cut(&write, 64, 65_000), [2, 18]);
    assert_eq!(cut(&write, 64, 3 * 1040), [2, 3, 3, 3, 3, 3, 3]);
    assert_eq!(cut(&write, 1, 65_000), [1; 20]);
    assert_eq!(cut(&run(Opcode::RcWriteFirst, 5, 20), 64, 65_000), [2, 18]);
    assert_eq!(cut(&run(Opcode::RcSendFirst, 1024, 4), 64, 65_000), [4]);
    // All packets of a SEND of XRC have the XRC header.
    assert_eq!(cut(&run(Opcode::XrcSendFirst, 1024, 4), 64, 65_000), [4]);
    assert_eq!(
        cut(&run(Opcode::XrcWriteFirst, 1024, 20), 64, 65_000),
        [2, 18]
    );
    let read = run(Opcode::RcReadResponseFirst, 1024, 6);
    assert_eq!(cut(&read, 64, 65_000), [2, 3, 1]);
    let read = run(Opcode::RcReadResponseFirst, 1020, 6);
    assert_eq!(cut(&read, 64, 65_000), [2, 4]);
    assert_eq!(cut(&run(Opcode::RcSendFirst, 1024, 1), 64, 65_000), [1]);
}

#[test]
fn a_run_fits_if_all_packets_but_the_last_are_full() {
    let run = |opcode, len, count| {
        let bth = Bth::new(opcode, Pkey::DEFAULT, Qpn::new(9), Psn::new(7));
        Packet::run(Headers::new(bth, &parts(3)), len, count).payload_fits(Mtu::Mtu1024)
    };
    assert!(run(Opcode::RcSendOnly, 2048, 2) && run(Opcode::RcSendOnly, 1025, 2));
    assert!(!run(Opcode::RcSendOnly, 2049, 2) && !run(Opcode::RcSendOnly, 1024, 2));
    assert!(run(Opcode::RcSendMiddle, 2048, 2) && !run(Opcode::RcSendMiddle, 2047, 2));
    assert!(!run(Opcode::RcSendOnly, 0, 2) && !run(Opcode::RcSendOnly, 1, u32::MAX));
}
