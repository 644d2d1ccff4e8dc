// SPDX-License-Identifier: GPL-2.0

//! The headers: fields and encoding (IBTA volume 1, sections 9.2 and 9.3). Reserved bits are sent as zeros and ignored
//! when received.

use crate::cursor::{pad_len, ParseError, Reader, Writer};
use crate::opcode::Opcode;
use crate::pkey::Pkey;
use crate::psn::{Msn, Psn};
use crate::timer::RnrTimer;

/// The number of a queue pair: 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Qpn(u32);

impl Qpn {
    /// QP0, for subnet management.
    pub const SMI: Self = Self(0);
    /// QP1, for general services.
    pub const GSI: Self = Self(1);
    /// The destination QPN of multicast packets.
    pub const MULTICAST: Self = Self(0xff_ffff);

    /// A number from the low 24 bits of `value`; the others are ignored.
    #[inline]
    pub const fn new(value: u32) -> Self {
        Self(value & 0xff_ffff)
    }

    /// The number, less than 2^24.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The number of a shared receive queue: 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Srqn(u32);

impl Srqn {
    /// A number from the low 24 bits of `value`; the others are ignored.
    #[inline]
    pub const fn new(value: u32) -> Self {
        Self(value & 0xff_ffff)
    }

    /// The number, if it is one: less than 2^24.
    #[inline]
    pub const fn checked(value: u32) -> Option<Self> {
        if value >> 24 == 0 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The number, less than 2^24.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Base transport header (IBTA volume 1, section 9.2), without version (always 0) and pad count
/// (see [`pad_len`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bth {
    /// The opcode.
    pub opcode: Opcode,
    /// Whether the responder raises a solicited event.
    pub solicited: bool,
    /// The path migration state: set when migrated.
    pub migrated: bool,
    /// Partition key.
    pub pkey: Pkey,
    /// The packet met congestion on its path.
    pub fecn: bool,
    /// A packet in the opposite direction met congestion on its path.
    pub becn: bool,
    /// The destination queue pair.
    pub dest_qpn: Qpn,
    /// Whether the responder acknowledges this packet.
    pub ack_req: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// A header without solicited event, congestion bits and acknowledge request, and with `migrated` set, as for every
    /// QP without path migration. A congestion notification packet has `migrated` cleared and `becn` set.
    #[inline]
    pub const fn new(opcode: Opcode, pkey: Pkey, dest_qpn: Qpn, psn: Psn) -> Self {
        Self {
            opcode,
            solicited: false,
            migrated: true,
            pkey,
            fecn: false,
            becn: false,
            dest_qpn,
            ack_req: false,
            psn,
        }
    }
}

/// XRC extended transport header (XRCETH, annex A14): the shared receive queue that a request is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Xrceth {
    /// The number of the shared receive queue.
    pub srqn: Srqn,
}

/// RDMA extended transport header (RETH): a range of the responder's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reth {
    /// Virtual address of the first byte.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Length of the whole operation in bytes.
    pub length: u32,
}

/// Atomic extended transport header (AtomicETH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AtomicEth {
    /// Virtual address of the 8 bytes; the responder checks its alignment.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// The swap or add operand.
    pub swap_add: u64,
    /// The compare operand.
    pub compare: u64,
}

/// Why a responder refuses a request (IBTA volume 1, section 9.7.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NakCode {
    /// A packet before this one is missing.
    PsnSequence = 0,
    /// The request is malformed or unsupported.
    InvalidRequest = 1,
    /// Key, range or access flags do not allow the access.
    RemoteAccess = 2,
    /// The responder failed locally.
    RemoteOperational = 3,
    /// Reliable datagram only.
    InvalidRdRequest = 4,
}

/// Number of further receive work requests that the responder has (IBTA volume 1, section 9.7.7), as a code of 5 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credits(u8);

/// The numbers of receives that the codes stand for (IBTA volume 1, table 46).
const CREDIT_COUNTS: [u32; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
];

impl Credits {
    /// No flow control: the number is not reported (always with a shared receive queue).
    pub const UNLIMITED: Self = Self(31);

    /// The largest number that is reported and not more than `receives`.
    #[inline]
    pub fn of(receives: u32) -> Self {
        let up_to = CREDIT_COUNTS.partition_point(|&count| count <= receives);
        Self::new(up_to.saturating_sub(1) as u8)
    }

    /// The number of receives; `None` without flow control.
    #[inline]
    pub fn count(self) -> Option<u32> {
        CREDIT_COUNTS.get(usize::from(self.0)).copied()
    }

    /// A code from the low 5 bits of `code`; the others are ignored.
    #[inline]
    pub const fn new(code: u8) -> Self {
        Self(code & 31)
    }

    /// The code, from 0 to 31.
    #[inline]
    pub const fn code(self) -> u8 {
        self.0
    }
}

/// Syndrome of an acknowledge header, by the specification's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Acknowledge.
    Ack(Credits),
    /// Receiver not ready: retry after this time.
    RnrNak(RnrTimer),
    /// Negative acknowledge.
    Nak(NakCode),
}

impl Syndrome {
    /// An acknowledge without flow control.
    pub const ACK: Self = Self::Ack(Credits::UNLIMITED);

    /// Whether it is positive, with whatever credits.
    #[inline]
    pub const fn is_ack(self) -> bool {
        matches!(self, Self::Ack(_))
    }

    /// The eight bits on the wire: kind in bits 6 and 5, value in bits 4 to 0.
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ack(credits) => credits.code(),
            Self::RnrNak(timer) => 0x20 | timer.code(),
            Self::Nak(code) => 0x60 | code as u8,
        }
    }

    /// Decodes a syndrome; `None` for reserved ones.
    #[inline]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00..=0x1f => Self::Ack(Credits::new(code)),
            0x20..=0x3f => Self::RnrNak(RnrTimer::new(code)),
            0x60 => Self::Nak(NakCode::PsnSequence),
            0x61 => Self::Nak(NakCode::InvalidRequest),
            0x62 => Self::Nak(NakCode::RemoteAccess),
            0x63 => Self::Nak(NakCode::RemoteOperational),
            0x64 => Self::Nak(NakCode::InvalidRdRequest),
            _ => return None,
        })
    }
}

/// Acknowledge extended transport header (AETH).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Aeth {
    /// Acknowledge, negative acknowledge or receiver not ready.
    pub syndrome: Syndrome,
    /// Number of messages that the responder has completed.
    pub msn: Msn,
}

/// Atomic acknowledge extended transport header (AtomicAckETH): the value before the operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AtomicAckEth {
    /// The value.
    pub original: u64,
}

/// Immediate data (ImmDt): four opaque bytes, as a big-endian integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ImmDt(pub u32);

/// Invalidate extended transport header (IETH): the key to be invalidated by the responder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ieth {
    /// Remote key.
    pub rkey: u32,
}

/// Datagram extended transport header (DETH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Deth {
    /// Queue key.
    pub qkey: u32,
    /// The source queue pair.
    pub src_qpn: Qpn,
}

/// Flush extended transport header (FETH). Only the low 4 bits of `placement` and the low 2 bits of
/// `selectivity` are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Feth {
    /// Placement type: bit 0 global visibility, bit 1 persistence.
    pub placement: u8,
    /// Selectivity: 0 memory range, 1 memory region.
    pub selectivity: u8,
}

impl Bth {
    /// The length of the header, in bytes.
    pub const LEN: usize = 12;

    /// The destination QP of a packet that begins with the header, of which nothing else is looked at. `None` for a packet that
    /// is shorter.
    #[inline]
    pub fn peek_dest_qpn(head: &[u8]) -> Option<Qpn> {
        let &[_, _, _, _, _, high, middle, low, _, _, _, _] =
            head.first_chunk::<{ Self::LEN }>()?;
        Some(Qpn::new(u32::from_be_bytes([0, high, middle, low])))
    }

    /// Reads the header and the pad count.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<(Self, usize), ParseError> {
        let [code, flags, pkey_high, pkey_low] = reader.take()?;
        let (congestion, dest_qpn) = reader.u8_u24()?;
        let (ack, psn) = reader.u8_u24()?;
        let version = flags & 0x0f;
        if version != 0 {
            return Err(ParseError::BadVersion(version));
        }
        let bth = Self {
            opcode: Opcode::from_code(code).ok_or(ParseError::UnknownOpcode(code))?,
            solicited: flags & 0x80 != 0,
            migrated: flags & 0x40 != 0,
            pkey: Pkey::new(u16::from_be_bytes([pkey_high, pkey_low])),
            fecn: congestion & 0x80 != 0,
            becn: congestion & 0x40 != 0,
            dest_qpn: Qpn::new(dest_qpn),
            ack_req: ack & 0x80 != 0,
            psn: Psn::new(psn),
        };
        Ok((bth, usize::from((flags >> 4) & 3)))
    }

    /// The bytes of the header, with the pad count of a payload of `payload_len` bytes.
    #[inline]
    pub fn bytes(&self, payload_len: u32) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        self.write(payload_len, &mut Writer::new(&mut bytes));
        bytes
    }

    /// Sets the packet sequence number in the bytes of a header that requests no acknowledge.
    #[inline]
    pub(crate) fn renumber(bytes: &mut [u8; Self::LEN], psn: Psn) {
        let [.., high, middle, low] = bytes;
        [_, *high, *middle, *low] = psn.get().to_be_bytes();
    }

    /// Writes the header with the pad count of a payload of `payload_len` bytes.
    #[inline]
    pub(crate) fn write(&self, payload_len: u32, writer: &mut Writer<'_>) {
        let pad = (pad_len(payload_len) as u8) << 4;
        let flags = (u8::from(self.solicited) << 7) | (u8::from(self.migrated) << 6) | pad;
        let [pkey_high, pkey_low] = self.pkey.get().to_be_bytes();
        let congestion = (u8::from(self.fecn) << 7) | (u8::from(self.becn) << 6);
        writer.put([self.opcode.code(), flags, pkey_high, pkey_low]);
        writer.u8_u24(congestion, self.dest_qpn.get());
        writer.u8_u24(u8::from(self.ack_req) << 7, self.psn.get());
    }
}

/// An extension header of fixed length.
pub(crate) trait Header: Sized {
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError>;
    fn write(&self, writer: &mut Writer<'_>);
}

impl Header for Xrceth {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (_reserved, srqn) = reader.u8_u24()?;
        Ok(Self {
            srqn: Srqn::new(srqn),
        })
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u8_u24(0, self.srqn.get());
    }
}

impl Header for Reth {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            va: reader.u64()?,
            rkey: reader.u32()?,
            length: reader.u32()?,
        })
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u64(self.va);
        writer.u32(self.rkey);
        writer.u32(self.length);
    }
}

impl Header for AtomicEth {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            va: reader.u64()?,
            rkey: reader.u32()?,
            swap_add: reader.u64()?,
            compare: reader.u64()?,
        })
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u64(self.va);
        writer.u32(self.rkey);
        writer.u64(self.swap_add);
        writer.u64(self.compare);
    }
}

impl Header for Aeth {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (code, msn) = reader.u8_u24()?;
        Ok(Self {
            syndrome: Syndrome::from_code(code).ok_or(ParseError::ReservedSyndrome(code))?,
            msn: Msn::new(msn),
        })
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u8_u24(self.syndrome.code(), self.msn.get());
    }
}

impl Header for AtomicAckEth {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            original: reader.u64()?,
        })
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u64(self.original);
    }
}

impl Header for ImmDt {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self(reader.u32()?))
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u32(self.0);
    }
}

impl Header for Ieth {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            rkey: reader.u32()?,
        })
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u32(self.rkey);
    }
}

impl Header for Deth {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let qkey = reader.u32()?;
        let (_reserved, src_qpn) = reader.u8_u24()?;
        Ok(Self {
            qkey,
            src_qpn: Qpn::new(src_qpn),
        })
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u32(self.qkey);
        writer.u8_u24(0, self.src_qpn.get());
    }
}

impl Header for Feth {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let [_, _, _, bits] = reader.take()?;
        Ok(Self {
            placement: bits & 0x0f,
            selectivity: (bits >> 4) & 3,
        })
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.u32(u32::from(
            ((self.selectivity & 3) << 4) | (self.placement & 0x0f),
        ));
    }
}
