// SPDX-License-Identifier: GPL-2.0

//! Runs of packets: consecutive packets of one message, which are sent or received by one call.
//!
//! An engine sends runs; a [`Gathering`] makes them of packets that were received together.
//!
//! A run is described by the packet that would carry the same bytes on a path with a larger MTU: the whole of a WRITE, for
//! example, by an RDMA WRITE Only. The engines handle that one packet; where single packets are needed, [`PacketRun::packets`]
//! makes them. All packets of a run but the last of a message have a payload of the path's MTU.
//!
//! ```text
//!   run      RDMA WRITE Only, PSN 7, RETH, 9000 bytes, ImmDt, 3 packets
//!   packets  RDMA WRITE First,  PSN 7, RETH, 4096 bytes
//!            RDMA WRITE Middle, PSN 8,       4096 bytes
//!            RDMA WRITE Last,   PSN 9,        808 bytes, ImmDt
//! ```

use crate::icrc;
use crate::mtu::Mtu;
use crate::opcode::{Kind, Opcode, Position, Service};
use crate::wire::{Bth, Headers, Packet, Parts};

/// A run of packets on a path.
#[derive(Clone, Copy, Debug)]
pub struct PacketRun {
    packet: Packet,
    mtu: Mtu,
}

/// A packet of a run.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// Its headers.
    pub headers: Headers,
    /// The offset of its payload in the run's, in bytes.
    pub offset: u32,
    /// The length of its payload, in bytes.
    pub len: u32,
}

impl Slice {
    /// Whether it has headers that a packet in the middle of its message has not.
    #[inline]
    pub const fn has_extensions(&self) -> bool {
        let opcode = self.headers.opcode();
        opcode.header_len() > opcode.base_len()
    }

    /// The length of the packet, from the base transport header to the ICRC, in bytes.
    #[inline]
    pub const fn udp_payload_len(&self) -> usize {
        Packet::new(self.headers, self.len).udp_payload_len()
    }
}

/// Packets that are sent in one buffer. All have the same length but for the last one, which may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    size: usize,
    count: u32,
    total: usize,
    /// Whether no packet can be added.
    full: bool,
}

impl Segments {
    /// No packets yet; the first one has `size` bytes.
    #[inline]
    pub const fn new(size: usize) -> Self {
        Self {
            size,
            count: 0,
            total: 0,
            full: false,
        }
    }

    /// The length of a packet but for the last one, in bytes.
    #[inline]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// The number of packets.
    #[inline]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Whether a packet of `len` bytes can be added to a buffer of at most `most` packets and `longest` bytes.
    #[inline]
    pub const fn takes(&self, len: usize, most: u32, longest: usize) -> bool {
        !self.full
            && self.count < most
            && len <= self.size
            && self.total.saturating_add(len) <= longest
    }

    /// Adds a packet of `len` bytes.
    #[inline]
    pub fn add(&mut self, len: usize) {
        self.count = self.count.saturating_add(1);
        self.total = self.total.saturating_add(len);
        self.full |= len < self.size;
    }

    /// Closes the buffer: no packet can be added.
    #[inline]
    pub fn close(&mut self) {
        self.full = true;
    }
}

impl PacketRun {
    /// The run that `packet` describes.
    #[inline]
    pub(crate) const fn new(packet: Packet, mtu: Mtu) -> Self {
        Self { packet, mtu }
    }

    /// A run of one received packet.
    pub fn of(first: &Packet) -> Self {
        let mtu = Mtu::fitting(first.payload_len()).unwrap_or(Mtu::Mtu256);
        Self::new(*first, mtu)
    }

    /// Whether packets may follow in the message, as many bytes as the MTU each.
    fn goes_on(&self) -> bool {
        let headers = self.packet.headers();
        let kinds = [Kind::Send, Kind::Write, Kind::ReadResponse];
        !headers.opcode().ends()
            && headers.opcode().service() != Service::Ud
            && kinds.contains(&headers.opcode().kind())
            && self.payload_len() == self.count() << self.mtu.shift()
            && is_positive(headers)
    }

    /// Adds the next received packet, if it continues the message; returns whether it does.
    pub fn append(&mut self, next: &Packet) -> bool {
        let (run, headers) = (self.packet.headers(), next.headers());
        let (have, new) = (run.bth(), headers.bth());
        let continues = self.goes_on()
            && new.opcode.service() == have.opcode.service()
            && new.opcode.kind() == have.opcode.kind()
            && !new.opcode.begins()
            && new.psn == have.psn.add(self.count())
            && (new.dest_qpn, new.pkey, new.migrated) == (have.dest_qpn, have.pkey, have.migrated)
            && headers.xrceth() == run.xrceth()
            && next.count() == 1
            && next.payload_fits(self.mtu)
            && is_positive(headers);
        let payload_len = self.payload_len().checked_add(next.payload_len());
        let (true, Some(payload_len)) = (continues, payload_len) else {
            return false;
        };
        let Some(opcode) = opcode_of(new.opcode, have.opcode.begins(), new.opcode.ends()) else {
            return false;
        };
        let bth = Bth {
            opcode,
            solicited: new.solicited,
            fecn: have.fecn || new.fecn,
            becn: have.becn || new.becn,
            ack_req: have.ack_req || new.ack_req,
            ..*have
        };
        let (begin, end) = (Parts::of(run), Parts::of(headers));
        let parts = Parts {
            xrceth: begin.xrceth,
            reth: begin.reth,
            aeth: headers.aeth().unwrap_or(begin.aeth),
            ..end
        };
        let count = self.count().saturating_add(1);
        self.packet = Packet::run(Headers::new(bth, &parts), payload_len, count);
        true
    }

    /// The base transport header of the next packet, if that is one in the middle of the message, without an XRC header, that has
    /// nothing to tell but its PSN.
    fn next_middle(&self) -> Option<[u8; Bth::LEN]> {
        let have = self.packet.bth();
        if !self.goes_on() || have.opcode.has_xrceth() {
            return None;
        }
        let next = Bth {
            migrated: have.migrated,
            ..Bth::new(
                opcode_of(have.opcode, false, false)?,
                have.pkey,
                have.dest_qpn,
                have.psn.add(self.count()),
            )
        };
        Some(next.bytes(self.mtu.bytes()))
    }

    /// The packet that describes the run.
    #[inline]
    pub const fn packet(&self) -> &Packet {
        &self.packet
    }

    /// The number of packets, at least 1.
    #[inline]
    pub const fn count(&self) -> u32 {
        self.packet.count()
    }

    /// The length of the payloads of all packets, in bytes.
    #[inline]
    pub const fn payload_len(&self) -> u32 {
        self.packet.payload_len()
    }

    /// The packets, in order.
    #[inline]
    pub fn packets(&self) -> impl Iterator<Item = Slice> + '_ {
        let mut slices = self.slices();
        core::iter::from_fn(move || slices.advance().map(|(slice, _)| *slice))
    }

    /// The packets, in order, each by reference.
    #[inline]
    pub fn slices(&self) -> Slices<'_> {
        Slices {
            run: self,
            slice: self.slice(0),
            next: 0,
        }
    }

    /// The packet with a number.
    pub fn slice(&self, index: u32) -> Slice {
        let headers = self.packet.headers();
        if self.count() == 1 {
            return Slice {
                headers: *headers,
                offset: 0,
                len: self.payload_len(),
            };
        }
        let offset = index << self.mtu.shift();
        let last = index.saturating_add(1) == self.count();
        let mut bth = *headers.bth();
        let (begins, ends) = (index == 0 && bth.opcode.begins(), last && bth.opcode.ends());
        bth.opcode = opcode_of(bth.opcode, begins, ends).unwrap_or(bth.opcode);
        bth.psn = bth.psn.add(index);
        bth.ack_req &= last;
        bth.solicited &= last;
        Slice {
            headers: Headers::like(bth, headers),
            offset,
            len: self
                .payload_len()
                .saturating_sub(offset)
                .min(self.mtu.bytes()),
        }
    }
}

/// A run of received packets, to which the next ones are added.
#[derive(Clone, Copy, Debug)]
pub struct Gathering {
    run: PacketRun,
    /// As [`PacketRun::next_middle`].
    middle: Option<[u8; Bth::LEN]>,
}

impl Gathering {
    /// A run of one packet.
    pub fn of(first: &Packet) -> Self {
        let run = PacketRun::of(first);
        Self {
            run,
            middle: run.next_middle(),
        }
    }

    /// Adds the next packet, as [`PacketRun::append`].
    pub fn append(&mut self, next: &Packet) -> bool {
        let added = self.run.append(next);
        if added {
            self.middle = self.run.next_middle();
        }
        added
    }

    /// Adds the next packets, as long as they are in the middle of the message and have nothing to tell but their PSNs; returns how
    /// many. `follows` says whether the next one has this base transport header, and `udp_payload_len` bytes with the ICRC, which is
    /// correct.
    ///
    /// The same as to parse each packet and to [append](Self::append) it: of the packets at which this ends, some can be appended.
    #[inline]
    pub fn append_middles(
        &mut self,
        udp_payload_len: usize,
        mut follows: impl FnMut(&[u8; Bth::LEN]) -> bool,
    ) -> u32 {
        let Self { run, middle } = self;
        let len = run.mtu.bytes();
        let Some(next) = middle.as_mut() else {
            return 0;
        };
        if udp_payload_len != Bth::LEN + len as usize + icrc::LEN {
            return 0;
        }
        let most = u32::MAX.wrapping_sub(run.payload_len()) >> run.mtu.shift();
        let mut psn = run.packet.bth().psn.add(run.count());
        let mut count = 0u32;
        while count < most && follows(next) {
            count = count.wrapping_add(1);
            psn = psn.add(1);
            Bth::renumber(next, psn);
        }
        if count != 0 {
            run.packet.add_middles(count, len);
        }
        count
    }

    /// The run.
    #[inline]
    pub const fn run(&self) -> &PacketRun {
        &self.run
    }
}

/// The packets of a run. Those in the middle, which differ in their PSNs alone, are not made anew.
pub struct Slices<'a> {
    run: &'a PacketRun,
    slice: Slice,
    /// The number of the next one.
    next: u32,
}

impl Slices<'_> {
    /// The next packet, and the number of those that follow it.
    #[inline]
    pub fn advance(&mut self) -> Option<(&Slice, u32)> {
        let index = self.next;
        let left = self.run.count().checked_sub(index)?.checked_sub(1)?;
        self.next = index.saturating_add(1);
        if index == 1 || left == 0 {
            self.slice = self.run.slice(index);
        } else if index > 1 {
            let psn = self.slice.headers.psn().add(1);
            self.slice.headers.renumber(psn);
            self.slice.offset = self.slice.offset.wrapping_add(self.slice.len);
        }
        Some((&self.slice, left))
    }
}

/// The opcode of a packet of the same message that begins it or not, and ends it or not. `of` is the last packet of the message
/// where that ends it.
fn opcode_of(of: Opcode, begins: bool, ends: bool) -> Option<Opcode> {
    let at = Position::of(begins, ends);
    match of.kind() {
        Kind::Send => Opcode::send(of.service(), at, of.tail()),
        Kind::Write => Opcode::write(of.service(), at, of.tail()),
        Kind::ReadResponse => Some(Opcode::read_response(at).in_service(of.service())),
        _ => None,
    }
}

/// Whether a packet is no response, or a positive one.
fn is_positive(headers: &Headers) -> bool {
    headers.aeth().is_none_or(|aeth| aeth.syndrome.is_ack())
}
