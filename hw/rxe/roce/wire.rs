// SPDX-License-Identifier: GPL-2.0

//! Reading and writing packets and their headers.
//!
//! On the wire, after the UDP header, a packet is: base transport header, XRC header of a request of an extended reliable
//! connection, other extension headers, payload,
//! pad bytes up to a multiple of four, ICRC. All integers are big-endian.
//!
//! [`Packet::parse`] is the only way from received bytes to a [`Packet`]. It fails only with a [`ParseError`], and its
//! result needs no further validation: the extension headers are those of the opcode, and the payload is within the
//! packet. The pad count is not stored, because it follows from the length of the payload ([`pad_len`]).

use crate::cursor::{Reader, Writer};
use crate::header::Header;
use crate::icrc;
use crate::mtu::Mtu;
use crate::opcode::{Layout, Opcode, PayloadRule};
use crate::psn::{Msn, Psn};

pub use crate::cursor::{pad_len, ParseError};
pub use crate::header::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Credits, Deth, Feth, Ieth, ImmDt, NakCode, Qpn, Reth, Srqn,
    Syndrome, Xrceth,
};

/// Maximum length of the headers, in bytes: a base transport header, an XRC and an atomic one.
pub const MAX_HEADERS: usize = 44;

/// Maximum length of a UDP payload, in bytes.
pub const MAX_UDP_PAYLOAD: usize = 65_535 - icrc::UDP_LEN;

/// Extension headers, in wire order, without the XRC header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ext {
    /// None.
    Bare,
    /// Immediate data.
    ImmDt(ImmDt),
    /// Invalidate.
    Ieth(Ieth),
    /// RDMA.
    Reth(Reth),
    /// RDMA, immediate data.
    RethImmDt(Reth, ImmDt),
    /// Acknowledge.
    Aeth(Aeth),
    /// Acknowledge, atomic acknowledge.
    AethAtomicAckEth(Aeth, AtomicAckEth),
    /// Atomic.
    AtomicEth(AtomicEth),
    /// Datagram.
    Deth(Deth),
    /// Datagram, immediate data.
    DethImmDt(Deth, ImmDt),
    /// Flush, RDMA.
    FethReth(Feth, Reth),
}

impl Ext {
    #[inline]
    fn read(layout: Layout, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(match layout {
            Layout::Bare => Self::Bare,
            Layout::ImmDt => Self::ImmDt(ImmDt::read(reader)?),
            Layout::Ieth => Self::Ieth(Ieth::read(reader)?),
            Layout::Reth => Self::Reth(Reth::read(reader)?),
            Layout::RethImmDt => Self::RethImmDt(Reth::read(reader)?, ImmDt::read(reader)?),
            Layout::Aeth => Self::Aeth(Aeth::read(reader)?),
            Layout::AethAtomicAckEth => {
                Self::AethAtomicAckEth(Aeth::read(reader)?, AtomicAckEth::read(reader)?)
            }
            Layout::AtomicEth => Self::AtomicEth(AtomicEth::read(reader)?),
            Layout::Deth => Self::Deth(Deth::read(reader)?),
            Layout::DethImmDt => Self::DethImmDt(Deth::read(reader)?, ImmDt::read(reader)?),
            Layout::FethReth => Self::FethReth(Feth::read(reader)?, Reth::read(reader)?),
        })
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Bare => {}
            Self::ImmDt(immdt) => immdt.write(writer),
            Self::Ieth(ieth) => ieth.write(writer),
            Self::Reth(reth) => reth.write(writer),
            Self::RethImmDt(reth, immdt) => {
                reth.write(writer);
                immdt.write(writer);
            }
            Self::Aeth(aeth) => aeth.write(writer),
            Self::AethAtomicAckEth(aeth, atomic_ack) => {
                aeth.write(writer);
                atomic_ack.write(writer);
            }
            Self::AtomicEth(atomic) => atomic.write(writer),
            Self::Deth(deth) => deth.write(writer),
            Self::DethImmDt(deth, immdt) => {
                deth.write(writer);
                immdt.write(writer);
            }
            Self::FethReth(feth, reth) => {
                feth.write(writer);
                reth.write(writer);
            }
        }
    }
}

/// The fields from which [`Headers::new`] selects the extension headers of an opcode. The caller fills in those of the
/// operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// For requests of an extended reliable connection.
    pub xrceth: Xrceth,
    /// For READs, WRITEs, FLUSHes and ATOMIC WRITEs.
    pub reth: Reth,
    /// For responses.
    pub aeth: Aeth,
    /// For atomic operations.
    pub atomic: AtomicEth,
    /// For responses to atomic operations.
    pub atomic_ack: AtomicAckEth,
    /// For opcodes with immediate data.
    pub immdt: ImmDt,
    /// For SENDs with invalidate.
    pub ieth: Ieth,
    /// For datagrams.
    pub deth: Deth,
    /// For FLUSHes.
    pub feth: Feth,
}

impl Parts {
    /// The extension headers of `headers`, and defaults for the others.
    #[inline]
    pub(crate) fn of(headers: &Headers) -> Self {
        let default = Self::default();
        Self {
            xrceth: headers.xrceth,
            reth: headers.reth().unwrap_or(default.reth),
            aeth: headers.aeth().unwrap_or(default.aeth),
            immdt: headers.immdt().unwrap_or(default.immdt),
            ieth: headers.ieth().unwrap_or(default.ieth),
            deth: headers.deth().unwrap_or(default.deth),
            ..default
        }
    }
}

impl Default for Parts {
    #[inline]
    fn default() -> Self {
        Self {
            xrceth: Xrceth::default(),
            reth: Reth::default(),
            aeth: Aeth {
                syndrome: Syndrome::ACK,
                msn: Msn::default(),
            },
            atomic: AtomicEth::default(),
            atomic_ack: AtomicAckEth::default(),
            immdt: ImmDt::default(),
            ieth: Ieth::default(),
            deth: Deth::default(),
            feth: Feth::default(),
        }
    }
}

/// A base transport header with the extension headers of its opcode.
///
/// # Invariants
///
/// `ext` has the layout of `bth.opcode`. `xrceth` is the default where the opcode has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Headers {
    bth: Bth,
    xrceth: Xrceth,
    ext: Ext,
}

impl Headers {
    /// Makes headers: `bth`, and from `parts` the extension headers of its opcode.
    #[inline]
    pub const fn new(bth: Bth, parts: &Parts) -> Self {
        let ext = match bth.opcode.layout() {
            Layout::Bare => Ext::Bare,
            Layout::ImmDt => Ext::ImmDt(parts.immdt),
            Layout::Ieth => Ext::Ieth(parts.ieth),
            Layout::Reth => Ext::Reth(parts.reth),
            Layout::RethImmDt => Ext::RethImmDt(parts.reth, parts.immdt),
            Layout::Aeth => Ext::Aeth(parts.aeth),
            Layout::AethAtomicAckEth => Ext::AethAtomicAckEth(parts.aeth, parts.atomic_ack),
            Layout::AtomicEth => Ext::AtomicEth(parts.atomic),
            Layout::Deth => Ext::Deth(parts.deth),
            Layout::DethImmDt => Ext::DethImmDt(parts.deth, parts.immdt),
            Layout::FethReth => Ext::FethReth(parts.feth, parts.reth),
        };
        let xrceth = if bth.opcode.has_xrceth() {
            parts.xrceth
        } else {
            Xrceth { srqn: Srqn::new(0) }
        };
        Self { bth, xrceth, ext }
    }

    /// Makes headers: `bth` of a packet of the same message as `other`, and the extension headers of its opcode, which are those
    /// of `other` if it has them.
    #[inline]
    pub(crate) fn like(bth: Bth, other: &Self) -> Self {
        match bth.opcode.layout() {
            Layout::Bare => Self {
                bth,
                xrceth: other.xrceth,
                ext: Ext::Bare,
            },
            layout if layout == other.opcode().layout() => Self { bth, ..*other },
            _ => Self::new(bth, &Parts::of(other)),
        }
    }

    /// Sets the packet sequence number.
    #[inline]
    pub(crate) fn renumber(&mut self, psn: Psn) {
        self.bth.psn = psn;
    }

    /// The base transport header.
    #[inline]
    pub const fn bth(&self) -> &Bth {
        &self.bth
    }

    /// The XRC header, if the opcode has one.
    #[inline]
    pub const fn xrceth(&self) -> Option<Xrceth> {
        if self.bth.opcode.has_xrceth() {
            Some(self.xrceth)
        } else {
            None
        }
    }

    /// The extension headers, without the XRC header.
    #[inline]
    pub const fn ext(&self) -> &Ext {
        &self.ext
    }

    /// The opcode.
    #[inline]
    pub const fn opcode(&self) -> Opcode {
        self.bth.opcode
    }

    /// The packet sequence number.
    #[inline]
    pub const fn psn(&self) -> Psn {
        self.bth.psn
    }

    /// The RDMA header, if the opcode has one.
    #[inline]
    pub const fn reth(&self) -> Option<Reth> {
        match self.ext {
            Ext::Reth(reth) | Ext::RethImmDt(reth, _) | Ext::FethReth(_, reth) => Some(reth),
            _ => None,
        }
    }

    /// The acknowledge header, if the opcode has one.
    #[inline]
    pub const fn aeth(&self) -> Option<Aeth> {
        match self.ext {
            Ext::Aeth(aeth) | Ext::AethAtomicAckEth(aeth, _) => Some(aeth),
            _ => None,
        }
    }

    /// The immediate data, if the opcode has it.
    #[inline]
    pub const fn immdt(&self) -> Option<ImmDt> {
        match self.ext {
            Ext::ImmDt(immdt) | Ext::RethImmDt(_, immdt) | Ext::DethImmDt(_, immdt) => Some(immdt),
            _ => None,
        }
    }

    /// The invalidate header, if the opcode has one.
    #[inline]
    pub const fn ieth(&self) -> Option<Ieth> {
        match self.ext {
            Ext::Ieth(ieth) => Some(ieth),
            _ => None,
        }
    }

    /// The datagram header, if the opcode has one.
    #[inline]
    pub const fn deth(&self) -> Option<Deth> {
        match self.ext {
            Ext::Deth(deth) | Ext::DethImmDt(deth, _) => Some(deth),
            _ => None,
        }
    }

    /// The length of all headers, in bytes: 12 to 44.
    #[inline]
    pub const fn header_len(&self) -> usize {
        self.bth.opcode.header_len()
    }

    /// Writes the headers of a packet with `payload_len` bytes of payload to the start of `out`, and returns their
    /// length. Payload, [`pad_len`] zero bytes and the ICRC follow on the wire.
    #[inline]
    pub fn write(&self, payload_len: u32, out: &mut [u8; MAX_HEADERS]) -> usize {
        let mut writer = Writer::new(out);
        self.bth.write(payload_len, &mut writer);
        if self.bth.opcode.has_xrceth() {
            self.xrceth.write(&mut writer);
        }
        self.ext.write(&mut writer);
        self.header_len()
    }
}

/// A validated packet, or a [run](crate::run) of packets in the form of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    headers: Headers,
    payload_len: u32,
    /// The number of packets, at least 1.
    count: u32,
}

impl Packet {
    /// Makes a packet from validated headers, for a payload of `payload_len` bytes.
    #[inline]
    pub const fn new(headers: Headers, payload_len: u32) -> Self {
        Self::run(headers, payload_len, 1)
    }

    /// Makes a run of `count` packets, at least 1, with `payload_len` bytes of payload in all: those of a SEND, a WRITE or the
    /// response to a READ.
    #[inline]
    pub const fn run(headers: Headers, payload_len: u32, count: u32) -> Self {
        Self {
            headers,
            payload_len,
            count,
        }
    }

    /// Adds packets in the middle of the message to a run, each with `len` bytes of payload. Its solicited event is that of its last
    /// packet.
    #[inline]
    pub(crate) fn add_middles(&mut self, count: u32, len: u32) {
        self.headers.bth.solicited = false;
        self.payload_len = self.payload_len.saturating_add(count.saturating_mul(len));
        self.count = self.count.saturating_add(count);
    }

    /// Parses the headers of a packet. `head` begins with the UDP payload and has at least its first [`MAX_HEADERS`]
    /// bytes, or all of it if it is shorter; `udp_payload_len` is its total length, including the ICRC. The ICRC is not
    /// checked.
    ///
    /// Lengths that depend on the path MTU are not checked here, since the queue pair responds to such errors: see
    /// [`Packet::payload_fits`].
    ///
    /// # Errors
    ///
    /// A [`ParseError`]. Such a packet is dropped without a response (IBTA volume 1, section 9.6).
    #[inline]
    pub fn parse(head: &[u8], udp_payload_len: usize) -> Result<Self, ParseError> {
        if udp_payload_len > MAX_UDP_PAYLOAD {
            return Err(ParseError::Long);
        }
        let mut reader = Reader::new(head);
        let (bth, pad) = Bth::read(&mut reader)?;
        let xrceth = if bth.opcode.has_xrceth() {
            Xrceth::read(&mut reader)?
        } else {
            Xrceth::default()
        };
        let ext = Ext::read(bth.opcode.layout(), &mut reader)?;
        let padded = udp_payload_len
            .checked_sub(bth.opcode.header_len() + icrc::LEN)
            .ok_or(ParseError::Short)?;
        if padded % 4 != 0 {
            return Err(ParseError::Unaligned);
        }
        let payload = padded.checked_sub(pad).ok_or(ParseError::BadPad)?;
        let payload_len = u32::try_from(payload).map_err(|_| ParseError::Long)?;
        if matches!(bth.opcode.payload(), PayloadRule::Exactly(fixed) if payload_len != u32::from(fixed))
        {
            return Err(ParseError::BadPayload);
        }
        Ok(Self {
            headers: Headers { bth, xrceth, ext },
            payload_len,
            count: 1,
        })
    }

    /// The headers.
    #[inline]
    pub const fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The base transport header.
    #[inline]
    pub const fn bth(&self) -> &Bth {
        &self.headers.bth
    }

    /// The number of packets: 1, or that of a run. As many sequence numbers are used by a request that carries data, and by a
    /// response.
    #[inline]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Offset of the packet's payload in the UDP payload, in bytes: 12 to 44.
    #[inline]
    pub const fn payload_offset(&self) -> usize {
        self.headers.header_len()
    }

    /// The length of the payload, in bytes, without pad bytes.
    #[inline]
    pub const fn payload_len(&self) -> u32 {
        self.payload_len
    }

    /// Number of pad bytes after the payload: 0 to 3.
    #[inline]
    pub const fn pad_len(&self) -> usize {
        pad_len(self.payload_len)
    }

    /// The length of the UDP payload, in bytes: headers, payload, pad bytes and ICRC.
    #[inline]
    pub const fn udp_payload_len(&self) -> usize {
        let headers = self.headers.header_len() + icrc::LEN;
        (self.payload_len as usize)
            .saturating_add(self.pad_len())
            .saturating_add(headers)
    }

    /// Whether the payload has a length that the opcode allows on a path with this MTU. If not, a reliable responder
    /// answers the request with [`NakCode::InvalidRequest`] (IBTA volume 1, section 9.7.4.1), an unreliable one drops
    /// it without a response (section 9.8.3.2.2).
    #[inline]
    pub const fn payload_fits(&self, mtu: Mtu) -> bool {
        if self.count > 1 {
            return self.run_fits(mtu);
        }
        self.headers
            .opcode()
            .payload()
            .allows(self.payload_len, mtu)
    }

    /// Whether all packets of a run but the last of a message are full.
    const fn run_fits(&self, mtu: Mtu) -> bool {
        let len = self.payload_len as u64;
        let most = (self.count as u64) << mtu.shift();
        let least = if self.headers.opcode().ends() {
            most.saturating_sub(mtu.bytes() as u64).saturating_add(1)
        } else {
            most
        };
        least <= len && len <= most
    }
}
