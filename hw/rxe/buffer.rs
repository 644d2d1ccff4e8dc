// SPDX-License-Identifier: GPL-2.0

//! A received GRO buffer (`SKB_GSO_UDP_L4`): several packets with the same addresses and ports, and with the same length except for
//! the last one, which may be shorter.
//!
//! It comes from a sender on this host that [sends them together](crate::segments), from another virtual machine, or from GRO in
//! the network stack. Its origin is not trusted: each packet is parsed, and its ICRC is checked, as for a single packet.
//!
//! Where all bytes lie in pages to which a driver on this host wrote them, only the last ICRC is checked, which proves the headers: as
//! the network stack calculates no checksum of what never leaves the memory of a host.

use crate::counters::Counters;
use crate::icrc::{is_intact, Prefixes};
use crate::ids::network_type;
use crate::path::AddressPair;
use crate::port_id::{Ingress, PortId};
use core::cell::Cell;
use core::net::IpAddr;
use core::num::{NonZeroU16, NonZeroUsize};
use core::ops::Range;
use kernel::prelude::*;
use kernel_ext::net::header::{Be16, IpHeader, UdpHeader};
use kernel_ext::net::skb::{Cursor, SkBuff};
use roce::icrc::{self, Prefix};
use roce::mtu::Mtu;
use roce::opcode::{Opcode, Service};
use roce::run::Gathering;
use roce::wire::{Bth, Packet, ParseError, Qpn, MAX_HEADERS};

/// The maximum number of packets in a buffer (`UDP_MAX_SEGMENTS`). The network stack segments larger ones.
const MAX_SEGMENTS: usize = 128;

/// The number of segments of `size` bytes in `len` bytes.
fn parts(len: usize, size: NonZeroUsize) -> usize {
    len.saturating_add(size.get().wrapping_sub(1)) / size
}

/// The byte range of a segment of `size` bytes in `len` bytes.
fn part(len: usize, size: usize, index: usize) -> Range<usize> {
    let start = index.saturating_mul(size).min(len);
    start..start.saturating_add(size).min(len)
}

/// Whether all packets of a buffer, whose UDP payload begins at an offset, are for one connected queue pair, so that it need not be
/// segmented.
pub(crate) fn is_for_one(skb: &SkBuff, payload: usize, size: NonZeroU16) -> bool {
    const SHORTEST: usize = Bth::LEN + icrc::LEN;
    let Some(len) = skb.len().checked_sub(payload) else {
        return false;
    };
    let count = parts(len, size.into());
    let size = usize::from(size.get());
    if size < SHORTEST || !(2..=MAX_SEGMENTS).contains(&count) {
        return false;
    }
    let mut cursor = skb.cursor();
    let mut bth = [0; Bth::LEN];
    let mut target = |at| {
        cursor.copy_array(at, &mut bth).ok()?;
        Some((Opcode::from_code(bth[0]), Bth::peek_dest_qpn(&bth)?))
    };
    let Some((Some(opcode), qpn)) = target(payload) else {
        return false;
    };
    // A packet of another service that follows is dropped by the queue pair.
    if opcode.service() == Service::Ud || qpn == Qpn::MULTICAST {
        return false;
    }
    let mut at = payload;
    (1..count).all(|_| {
        at = at.saturating_add(size);
        matches!(target(at), Some((_, other)) if other == qpn)
    })
}

/// A received GRO buffer.
pub(crate) struct Buffer {
    /// Begins after the UDP header.
    skb: SkBuff,
    ip: IpHeader,
    udp: UdpHeader,
    size: NonZeroUsize,
    ingress: Ingress,
    /// The length of the last packet that was looked at, and the part of its headers in its ICRC.
    prefix: Cell<Option<(usize, Prefix)>>,
    /// Whether the ICRC of each packet is known to be correct.
    intact: bool,
}

impl Buffer {
    /// Wraps a buffer of packets of `size` bytes, which begins with its UDP header.
    pub(crate) fn new(
        mut skb: SkBuff,
        size: NonZeroU16,
        ingress: Ingress,
        prefixes: &mut Prefixes,
    ) -> Option<Self> {
        let ip = skb.ip_header()?;
        let udp = skb.udp_header()?;
        skb.pull(size_of::<UdpHeader>())?;
        let mut buffer = Self {
            skb,
            ip,
            udp,
            size: size.into(),
            ingress,
            prefix: Cell::new(None),
            intact: false,
        };
        // The last packet proves the headers, which are the same for all, and the length of the buffer.
        let last = buffer.count().saturating_sub(1);
        buffer.intact = buffer.skb.is_as_written()
            && buffer
                .head(last, &mut buffer.skb.cursor(), prefixes)
                .is_some();
        Some(buffer)
    }

    /// The number of packets.
    pub(crate) fn count(&self) -> usize {
        parts(self.skb.len(), self.size)
    }

    /// The memory.
    pub(crate) fn skb(&self) -> &SkBuff {
        &self.skb
    }

    /// The byte range of a packet.
    fn part(&self, index: usize) -> Range<usize> {
        part(self.skb.len(), self.size.get(), index)
    }

    /// The packet with an index. `None` if it is too short, or if its ICRC is not correct.
    #[inline]
    pub(crate) fn head(
        &self,
        index: usize,
        cursor: &mut Cursor<'_>,
        prefixes: &mut Prefixes,
    ) -> Option<Head> {
        let part = self.part(index);
        if part.len() < Bth::LEN {
            return None;
        }
        let head = Head { index, part };
        if self.intact {
            return Some(head);
        }
        let mut congestion = [0];
        let at = head.part.start.saturating_add(icrc::CONGESTION);
        cursor.copy_array(at, &mut congestion).ok()?;
        let [congestion] = congestion;
        self.is_intact(&head, congestion, prefixes).then_some(head)
    }

    /// Adds the packets from an index on to the run of the packets before, as long as they are in the middle of its message; returns
    /// how many.
    #[inline]
    pub(crate) fn add_middles(
        &self,
        index: usize,
        run: &mut Gathering,
        cursor: &mut Cursor<'_>,
        prefixes: &mut Prefixes,
    ) -> usize {
        let len = self.part(index).len();
        let mut indices = index..;
        let added = run.append_middles(len, |bth| {
            let Some(index) = indices.next() else {
                return false;
            };
            let part = self.part(index);
            let follows = part.len() == len && cursor.is(part.start, bth);
            let head = Head { index, part };
            follows && (self.intact || self.is_intact(&head, bth[icrc::CONGESTION], prefixes))
        });
        added as usize
    }

    /// Whether the ICRC of a packet is correct, which has this byte for congestion.
    #[inline(never)]
    fn is_intact(&self, head: &Head, congestion: u8, prefixes: &mut Prefixes) -> bool {
        let part = &head.part;
        let Some(prefix) = self.prefix(part.len(), prefixes) else {
            return false;
        };
        let prefix_of = |count| match &self.ip {
            IpHeader::V4(ip) => {
                let first = ip.identification.get();
                prefix.identified(first ^ first.wrapping_add(count))
            }
            IpHeader::V6(_) => prefix,
        };
        let intact = |count| is_intact(&self.skb, part.clone(), congestion, prefix_of(count));
        // The IPv4 identifications count up, or may all be the same after GRO.
        intact(head.index as u16) || intact(0)
    }

    /// What the headers of a packet with `len` bytes of UDP payload, with the identification of the first packet, contribute to its
    /// ICRC.
    #[inline]
    fn prefix(&self, len: usize, prefixes: &mut Prefixes) -> Option<Prefix> {
        if let Some((_, prefix)) = self.prefix.get().filter(|&(known, _)| known == len) {
            return Some(prefix);
        }
        let (ip, udp) = self.headers(len)?;
        let prefix = prefixes.of(&ip, &udp)?;
        self.prefix.set(Some((len, prefix)));
        Some(prefix)
    }

    /// The IP and UDP headers of a packet with `len` bytes of UDP payload, with the identification of the first packet.
    #[inline]
    fn headers(&self, len: usize) -> Option<(IpHeader, UdpHeader)> {
        let length = u16::try_from(len.checked_add(size_of::<UdpHeader>())?).ok()?;
        let udp = UdpHeader {
            length: Be16::new(length),
            ..self.udp
        };
        let ip = match self.ip {
            IpHeader::V4(mut ip) => {
                ip.total_length = Be16::new(length.checked_add(icrc::IPV4_LEN as u16)?);
                IpHeader::V4(ip)
            }
            IpHeader::V6(mut ip) => {
                ip.payload_length = Be16::new(length);
                IpHeader::V6(ip)
            }
        };
        Some((ip, udp))
    }

    /// The type of service or traffic class, which the network stack keeps the same for all packets.
    pub(crate) fn traffic_class(&self) -> u8 {
        self.ip.traffic_class()
    }

    /// The port that they came in by.
    #[inline]
    pub(crate) fn port(&self) -> PortId {
        self.ingress.port
    }

    /// The port and the addresses of the packets.
    pub(crate) fn addresses(&self) -> AddressPair {
        AddressPair {
            port: self.ingress.port,
            source: self.ip.source(),
            destination: self.destination(),
        }
    }

    /// The destination address.
    pub(crate) fn destination(&self) -> IpAddr {
        self.ip.destination()
    }

    /// The type of the network header: `enum rdma_network_type`.
    pub(crate) fn network_type(&self) -> u8 {
        network_type(self.ip.source())
    }

    /// The VLAN of the packets.
    pub(crate) fn vlan_id(&self) -> Option<u16> {
        self.ingress.vlan_id
    }

    /// Frees the buffer as a delivered one.
    pub(crate) fn consume(self) {
        self.skb.consume();
    }
}

/// A packet in a buffer, whose ICRC is correct.
pub(crate) struct Head {
    index: usize,
    /// Where the packet is in the buffer.
    part: Range<usize>,
}

impl Head {
    /// Parses the headers.
    ///
    /// # Errors
    ///
    /// Those of [`Packet::parse`].
    #[inline]
    pub(crate) fn parse(
        &self,
        buffer: &Buffer,
        cursor: &mut Cursor<'_>,
    ) -> Result<Packet, ParseError> {
        let mut bytes = [0; MAX_HEADERS];
        let len = self.part.len();
        if len >= MAX_HEADERS {
            let copied = cursor.copy_array(self.part.start, &mut bytes);
            return copied.map_or(Err(ParseError::Short), |()| Packet::parse(&bytes, len));
        }
        let known = bytes.get_mut(..len).ok_or(ParseError::Short)?;
        match buffer.skb.copy_bits(self.part.start, known) {
            Ok(()) => Packet::parse(known, len),
            Err(_) => Err(ParseError::Short),
        }
    }

    /// The place of what follows `headers` bytes of headers.
    #[inline]
    pub(crate) fn payload_at(&self, headers: usize) -> PayloadPlace {
        PayloadPlace {
            packet: self.index,
            start: self.part.start.saturating_add(headers),
        }
    }
}

/// Packets of a buffer that have arrived and are not in the device's counters yet.
pub(crate) struct Arrived {
    /// The number of the first packets of the buffer, which were counted before.
    counted: usize,
    packets: u64,
    bytes: u64,
}

impl Arrived {
    /// No packets. The first `counted` ones of the buffer were counted before.
    pub(crate) const fn after(counted: usize) -> Self {
        Self {
            counted,
            packets: 0,
            bytes: 0,
        }
    }

    /// Adds packets from an index on, which have `len` bytes of UDP payload each.
    #[inline]
    fn add(&mut self, buffer: &Buffer, (index, count): (usize, usize), len: usize) {
        let ip = match &buffer.ip {
            IpHeader::V4(_) => icrc::IPV4_LEN,
            IpHeader::V6(_) => icrc::IPV6_LEN,
        };
        let new = count.saturating_sub(self.counted.saturating_sub(index)) as u64;
        let len = len.saturating_add(ip + size_of::<UdpHeader>()) as u64;
        self.packets = self.packets.wrapping_add(new);
        self.bytes = self.bytes.wrapping_add(len.wrapping_mul(new));
    }

    /// Adds a packet.
    #[inline]
    pub(crate) fn add_one(&mut self, buffer: &Buffer, head: &Head) {
        self.add(buffer, (head.index, 1), head.part.len());
    }

    /// Adds `count` packets from an index on, which have the same length.
    #[inline]
    pub(crate) fn add_equal(&mut self, buffer: &Buffer, index: usize, count: usize) {
        self.add(buffer, (index, count), buffer.part(index).len());
    }

    /// Their number.
    pub(crate) const fn packets(&self) -> u64 {
        self.packets
    }

    /// Adds the packets to the counters.
    pub(crate) fn count(self, counters: &Counters) {
        counters.received(self.packets, self.bytes);
    }
}

/// The place of a packet's payload in a buffer.
#[derive(Clone, Copy)]
pub(crate) struct PayloadPlace {
    /// The index of the packet.
    packet: usize,
    /// The offset in the buffer.
    start: usize,
}

/// The payload offsets of a run's packets, which lie one behind the other in a buffer. All payloads except the last one have the same
/// length. Only the first packet and the last one have headers that those in the middle have not.
pub(crate) struct PayloadOffsets {
    first: usize,
    /// That of the second packet.
    second: usize,
    last: PayloadPlace,
    count: usize,
    /// From a packet to the next one.
    stride: usize,
    /// The binary logarithm of the payload length.
    shift: u32,
}

impl PayloadOffsets {
    /// The offset of the first packet, in a buffer.
    pub(crate) fn new(first: PayloadPlace, packet: &Packet, buffer: &Buffer) -> Self {
        // The payload of one packet alone may have any length.
        let shift = Mtu::fitting(packet.payload_len())
            .filter(|mtu| mtu.bytes() == packet.payload_len())
            .map_or(u32::BITS - 1, Mtu::shift);
        Self {
            first: first.start,
            second: first.start,
            last: first,
            count: 1,
            stride: buffer.size.get(),
            shift,
        }
    }

    /// Whether the packet with an index is the next one in the buffer.
    #[inline]
    pub(crate) fn precedes(&self, index: usize) -> bool {
        self.last.packet.wrapping_add(1) == index
    }

    /// Adds the offset of the next packet in the buffer.
    #[inline]
    pub(crate) fn push(&mut self, next: PayloadPlace) {
        if self.count == 1 {
            self.second = next.start;
        }
        self.last = next;
        self.count = self.count.saturating_add(1);
    }

    /// Adds the offsets of the next `count` packets in the buffer, which are in the middle of the message; at least one.
    #[inline]
    pub(crate) fn push_middles(&mut self, count: usize, buffer: &Buffer) {
        let first = self.last.packet.saturating_add(1);
        let place = |index| PayloadPlace {
            packet: index,
            start: buffer.part(index).start.saturating_add(Bth::LEN),
        };
        self.push(place(first));
        let more = count.saturating_sub(1);
        self.last = place(first.saturating_add(more));
        self.count = self.count.saturating_add(more);
    }

    /// The offset of the packet with a number in the run. `None` if there is none.
    #[inline]
    fn start(&self, number: usize) -> Option<usize> {
        let behind = self.count.checked_sub(number)?.checked_sub(1)?;
        match (number.checked_sub(1), behind) {
            (None, _) => Some(self.first),
            (_, 0) => Some(self.last.start),
            (Some(middle), _) => Some(
                self.second
                    .saturating_add(middle.saturating_mul(self.stride)),
            ),
        }
    }

    /// Calls `each` with the pieces of bytes `from..from + len` of the run's payload: the offset in the buffer, and the length.
    ///
    /// # Errors
    ///
    /// Those of `each`, `EINVAL` beyond the last packet.
    pub(crate) fn for_each(
        &self,
        mut from: u32,
        mut len: u32,
        mut each: impl FnMut(usize, usize) -> Result,
    ) -> Result {
        let each_has = 1u32.wrapping_shl(self.shift);
        while len != 0 {
            let start = self
                .start(from.wrapping_shr(self.shift) as usize)
                .ok_or(EINVAL)?;
            let within = from & each_has.wrapping_sub(1);
            let now = each_has.wrapping_sub(within).min(len);
            each(start.saturating_add(within as usize), now as usize)?;
            from = from.saturating_add(now);
            len = len.wrapping_sub(now);
        }
        Ok(())
    }
}
