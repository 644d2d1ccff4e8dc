// SPDX-License-Identifier: GPL-2.0

//! The opcodes of the base transport header, and the table of their properties.
//!
//! The table is that of IBTA volume 1, section 9.2.1 (operation and headers), with the payload lengths of section
//! 9.7.4.1. It has the transport services that RoCEv2 devices support on Linux: reliable connection, unreliable
//! connection, unreliable datagram, extended reliable connection (annex A14), and the congestion notification packet. The
//! reserved opcodes of the reliable connections are in it, because a responder refuses them (section 9.7.4.1.2). Other opcodes
//! do not parse.

use crate::mtu::Mtu;

use PayloadRule::{Any, Exactly, Full, Some as Nonempty};

/// The transport service of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Service {
    /// Reliable connection.
    Rc = 0x00,
    /// Unreliable connection.
    Uc = 0x20,
    /// Unreliable datagram.
    Ud = 0x60,
    /// Congestion notification, which has no service of its own (annex A17.9.3).
    Cnp = 0x80,
    /// Extended reliable connection (annex A14).
    Xrc = 0xa0,
}

/// The operation of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Request: payload for the buffer of a receive work request.
    Send,
    /// Request: payload for an address at the responder.
    Write,
    /// Request: read payload from an address at the responder.
    ReadRequest,
    /// Response: the payload of a READ. Also the response to a FLUSH and an ATOMIC WRITE.
    ReadResponse,
    /// Response: acknowledge or negative acknowledge.
    Acknowledge,
    /// Response: the old value of an atomic operation.
    AtomicAcknowledge,
    /// Request: 64-bit compare and swap.
    CompareSwap,
    /// Request: 64-bit fetch and add.
    FetchAdd,
    /// Request: make earlier writes visible or persistent.
    Flush,
    /// Request: write 8 bytes atomically.
    AtomicWrite,
    /// Neither: congestion notification.
    Notification,
    /// Request: an operation that is not defined.
    Reserved,
}

impl Kind {
    /// Whether packets of the operation are for the responder.
    #[inline]
    pub const fn is_request(self) -> bool {
        !self.is_response() && !matches!(self, Self::Notification)
    }

    /// Whether packets of the operation are for the requester.
    #[inline]
    pub const fn is_response(self) -> bool {
        matches!(
            self,
            Self::ReadResponse | Self::Acknowledge | Self::AtomicAcknowledge
        )
    }
}

/// Position of a packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The last of several.
    Last,
    /// The only one.
    Only,
}

impl Position {
    /// The position of a packet that begins its message, ends it, both or neither.
    #[inline]
    pub const fn of(begins: bool, ends: bool) -> Self {
        match (begins, ends) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }

    /// Whether the packet begins its message.
    #[inline]
    pub const fn begins(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether the packet ends its message.
    #[inline]
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// Addition to the payload in the last packet of a SEND or WRITE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tail {
    /// Nothing.
    #[default]
    Plain,
    /// Immediate data.
    Immediate,
    /// A key to be invalidated by the responder.
    Invalidate,
}

/// The extension headers after the base transport header, in wire order. In front of those of a request of an extended reliable
/// connection is the XRC header, see [`Properties::has_xrceth`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// None.
    Bare,
    /// Immediate data.
    ImmDt,
    /// Invalidate.
    Ieth,
    /// RDMA.
    Reth,
    /// RDMA, immediate data.
    RethImmDt,
    /// Acknowledge.
    Aeth,
    /// Acknowledge, atomic acknowledge.
    AethAtomicAckEth,
    /// Atomic.
    AtomicEth,
    /// Datagram.
    Deth,
    /// Datagram, immediate data.
    DethImmDt,
    /// Flush, RDMA.
    FethReth,
}

impl Layout {
    /// Length of these extension headers, in bytes: 0 to 28.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Self::Bare => 0,
            Self::ImmDt | Self::Ieth | Self::Aeth => 4,
            Self::Deth => 8,
            Self::DethImmDt => 8 + 4,
            Self::AethAtomicAckEth => 4 + 8,
            Self::Reth => 16,
            Self::RethImmDt => 16 + 4,
            Self::FethReth => 4 + 16,
            Self::AtomicEth => 28,
        }
    }

    /// Whether they include an RDMA extended transport header.
    #[inline]
    pub const fn has_reth(self) -> bool {
        matches!(self, Self::Reth | Self::RethImmDt | Self::FethReth)
    }

    /// Whether they include an acknowledge extended transport header.
    #[inline]
    pub const fn has_aeth(self) -> bool {
        matches!(self, Self::Aeth | Self::AethAtomicAckEth)
    }

    /// Whether they include immediate data.
    #[inline]
    pub const fn has_immdt(self) -> bool {
        matches!(self, Self::ImmDt | Self::RethImmDt | Self::DethImmDt)
    }
}

/// Rule for the length of a packet's payload, without pad bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadRule {
    /// This many bytes, regardless of the path MTU.
    Exactly(u16),
    /// Exactly the path MTU.
    Full,
    /// At least one byte, at most the path MTU.
    Some,
    /// At most the path MTU.
    Any,
}

impl PayloadRule {
    /// Whether the rule allows a payload of `length` bytes on a path with this MTU.
    #[inline]
    pub const fn allows(self, length: u32, mtu: Mtu) -> bool {
        match self {
            Self::Exactly(bytes) => length == bytes as u32,
            Self::Full => length == mtu.bytes(),
            Self::Some => length != 0 && length <= mtu.bytes(),
            Self::Any => length <= mtu.bytes(),
        }
    }
}

/// Properties of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Properties {
    /// The transport service.
    pub service: Service,
    /// The operation.
    pub kind: Kind,
    /// The position in its message.
    pub position: Position,
    /// The extension headers.
    pub layout: Layout,
    /// The length of the payload.
    pub payload: PayloadRule,
    /// Whether an XRC header is in front of the extension headers: in the requests of an extended reliable connection.
    pub has_xrceth: bool,
    /// The length of all headers, in bytes: 12 to 44.
    pub header_len: u8,
}

/// The table has no opcode with this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnknownOpcode(pub u8);

/// No payload at all.
const NONE: PayloadRule = PayloadRule::Exactly(0);

/// What stands in the place of a code that the table does not have.
const NO_ROW: Properties = Properties {
    service: Service::Rc,
    kind: Kind::Reserved,
    position: Position::Only,
    layout: Layout::Bare,
    payload: NONE,
    has_xrceth: false,
    header_len: BASE_LEN,
};

/// The length of a base transport header, in bytes.
const BASE_LEN: u8 = 12;

/// The length of an XRC header, in bytes.
const XRCETH_LEN: u8 = 4;

/// The length of all headers of an opcode with such extension headers, in bytes.
const fn header_len(layout: Layout, has_xrceth: bool) -> u8 {
    let base = if has_xrceth {
        BASE_LEN + XRCETH_LEN
    } else {
        BASE_LEN
    };
    base + layout.size() as u8
}

/// Whether the packets of an operation have an XRC header. The headers of a reserved operation are not known.
const fn has_xrceth(service: Service, kind: Kind) -> bool {
    kind.is_request() && !matches!(kind, Kind::Reserved) && matches!(service, Service::Xrc)
}

/// Defines [`Opcode`] and its properties from the rows of the table.
macro_rules! table {
    ($($name:ident $code:literal $service:ident $kind:ident $position:ident $layout:ident
       $payload:expr;)*) => {
        /// An opcode of the base transport header.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Opcode {
            $(
                #[doc = concat!(
                    "Code ", stringify!($code), ": ", stringify!($service), ", ", stringify!($kind),
                    ", ", stringify!($position), "; headers: ", stringify!($layout), "."
                )]
                $name = $code,
            )*
        }

        impl Opcode {
            /// All opcodes, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The rows of the table, by code. Codes that it does not have are none of an opcode.
            const ROWS: [Properties; 256] = {
                let mut rows = [NO_ROW; 256];
                $(
                    let xrceth = has_xrceth(Service::$service, Kind::$kind);
                    rows[$code] = Properties {
                        service: Service::$service,
                        kind: Kind::$kind,
                        position: Position::$position,
                        layout: Layout::$layout,
                        payload: $payload,
                        has_xrceth: xrceth,
                        header_len: header_len(Layout::$layout, xrceth),
                    };
                )*
                rows
            };
        }
    };
}

table! {
//  opcode                   code  service kind              position layout           payload
    RcSendFirst              0x00  Rc      Send              First    Bare             Full;
    RcSendMiddle             0x01  Rc      Send              Middle   Bare             Full;
    RcSendLast               0x02  Rc      Send              Last     Bare             Nonempty;
    RcSendLastImmediate      0x03  Rc      Send              Last     ImmDt            Nonempty;
    RcSendOnly               0x04  Rc      Send              Only     Bare             Any;
    RcSendOnlyImmediate      0x05  Rc      Send              Only     ImmDt            Any;
    RcWriteFirst             0x06  Rc      Write             First    Reth             Full;
    RcWriteMiddle            0x07  Rc      Write             Middle   Bare             Full;
    RcWriteLast              0x08  Rc      Write             Last     Bare             Nonempty;
    RcWriteLastImmediate     0x09  Rc      Write             Last     ImmDt            Nonempty;
    RcWriteOnly              0x0a  Rc      Write             Only     Reth             Any;
    RcWriteOnlyImmediate     0x0b  Rc      Write             Only     RethImmDt        Any;
    RcReadRequest            0x0c  Rc      ReadRequest       Only     Reth             NONE;
    RcReadResponseFirst      0x0d  Rc      ReadResponse      First    Aeth             Full;
    RcReadResponseMiddle     0x0e  Rc      ReadResponse      Middle   Bare             Full;
    RcReadResponseLast       0x0f  Rc      ReadResponse      Last     Aeth             Nonempty;
    RcReadResponseOnly       0x10  Rc      ReadResponse      Only     Aeth             Any;
    RcAcknowledge            0x11  Rc      Acknowledge       Only     Aeth             NONE;
    RcAtomicAcknowledge      0x12  Rc      AtomicAcknowledge Only     AethAtomicAckEth NONE;
    RcCompareSwap            0x13  Rc      CompareSwap       Only     AtomicEth        NONE;
    RcFetchAdd               0x14  Rc      FetchAdd          Only     AtomicEth        NONE;
    RcReserved15             0x15  Rc      Reserved          Only     Bare             Any;
    RcSendLastInvalidate     0x16  Rc      Send              Last     Ieth             Nonempty;
    RcSendOnlyInvalidate     0x17  Rc      Send              Only     Ieth             Any;
    RcReserved18             0x18  Rc      Reserved          Only     Bare             Any;
    RcReserved19             0x19  Rc      Reserved          Only     Bare             Any;
    RcReserved1a             0x1a  Rc      Reserved          Only     Bare             Any;
    RcReserved1b             0x1b  Rc      Reserved          Only     Bare             Any;
    RcFlush                  0x1c  Rc      Flush             Only     FethReth         NONE;
    RcAtomicWrite            0x1d  Rc      AtomicWrite       Only     Reth             Exactly(8);
    RcReserved1e             0x1e  Rc      Reserved          Only     Bare             Any;
    RcReserved1f             0x1f  Rc      Reserved          Only     Bare             Any;

    UcSendFirst              0x20  Uc      Send              First    Bare             Full;
    UcSendMiddle             0x21  Uc      Send              Middle   Bare             Full;
    UcSendLast               0x22  Uc      Send              Last     Bare             Nonempty;
    UcSendLastImmediate      0x23  Uc      Send              Last     ImmDt            Nonempty;
    UcSendOnly               0x24  Uc      Send              Only     Bare             Any;
    UcSendOnlyImmediate      0x25  Uc      Send              Only     ImmDt            Any;
    UcWriteFirst             0x26  Uc      Write             First    Reth             Full;
    UcWriteMiddle            0x27  Uc      Write             Middle   Bare             Full;
    UcWriteLast              0x28  Uc      Write             Last     Bare             Nonempty;
    UcWriteLastImmediate     0x29  Uc      Write             Last     ImmDt            Nonempty;
    UcWriteOnly              0x2a  Uc      Write             Only     Reth             Any;
    UcWriteOnlyImmediate     0x2b  Uc      Write             Only     RethImmDt        Any;

    UdSendOnly               0x64  Ud      Send              Only     Deth             Any;
    UdSendOnlyImmediate      0x65  Ud      Send              Only     DethImmDt        Any;

    Cnp                      0x81  Cnp     Notification      Only     Bare             Exactly(16);

    XrcSendFirst             0xa0  Xrc     Send              First    Bare             Full;
    XrcSendMiddle            0xa1  Xrc     Send              Middle   Bare             Full;
    XrcSendLast              0xa2  Xrc     Send              Last     Bare             Nonempty;
    XrcSendLastImmediate     0xa3  Xrc     Send              Last     ImmDt            Nonempty;
    XrcSendOnly              0xa4  Xrc     Send              Only     Bare             Any;
    XrcSendOnlyImmediate     0xa5  Xrc     Send              Only     ImmDt            Any;
    XrcWriteFirst            0xa6  Xrc     Write             First    Reth             Full;
    XrcWriteMiddle           0xa7  Xrc     Write             Middle   Bare             Full;
    XrcWriteLast             0xa8  Xrc     Write             Last     Bare             Nonempty;
    XrcWriteLastImmediate    0xa9  Xrc     Write             Last     ImmDt            Nonempty;
    XrcWriteOnly             0xaa  Xrc     Write             Only     Reth             Any;
    XrcWriteOnlyImmediate    0xab  Xrc     Write             Only     RethImmDt        Any;
    XrcReadRequest           0xac  Xrc     ReadRequest       Only     Reth             NONE;
    XrcReadResponseFirst     0xad  Xrc     ReadResponse      First    Aeth             Full;
    XrcReadResponseMiddle    0xae  Xrc     ReadResponse      Middle   Bare             Full;
    XrcReadResponseLast      0xaf  Xrc     ReadResponse      Last     Aeth             Nonempty;
    XrcReadResponseOnly      0xb0  Xrc     ReadResponse      Only     Aeth             Any;
    XrcAcknowledge           0xb1  Xrc     Acknowledge       Only     Aeth             NONE;
    XrcAtomicAcknowledge     0xb2  Xrc     AtomicAcknowledge Only     AethAtomicAckEth NONE;
    XrcCompareSwap           0xb3  Xrc     CompareSwap       Only     AtomicEth        NONE;
    XrcFetchAdd              0xb4  Xrc     FetchAdd          Only     AtomicEth        NONE;
    XrcReservedb5            0xb5  Xrc     Reserved          Only     Bare             Any;
    XrcSendLastInvalidate    0xb6  Xrc     Send              Last     Ieth             Nonempty;
    XrcSendOnlyInvalidate    0xb7  Xrc     Send              Only     Ieth             Any;
    XrcReservedb8            0xb8  Xrc     Reserved          Only     Bare             Any;
    XrcReservedb9            0xb9  Xrc     Reserved          Only     Bare             Any;
    XrcReservedba            0xba  Xrc     Reserved          Only     Bare             Any;
    XrcReservedbb            0xbb  Xrc     Reserved          Only     Bare             Any;
    XrcFlush                 0xbc  Xrc     Flush             Only     FethReth         NONE;
    XrcAtomicWrite           0xbd  Xrc     AtomicWrite       Only     Reth             Exactly(8);
    XrcReservedbe            0xbe  Xrc     Reserved          Only     Bare             Any;
    XrcReservedbf            0xbf  Xrc     Reserved          Only     Bare             Any;
}

/// The bits of a code that are the operation.
const OPERATION: u8 = 0x1f;

/// The opcodes, by code.
static BY_CODE: [Option<Opcode>; 256] = {
    let mut by_code = [None; 256];
    let mut index = 0;
    while index < Opcode::ALL.len() {
        let opcode = Opcode::ALL[index];
        by_code[opcode.code() as usize] = Some(opcode);
        index += 1;
    }
    by_code
};

/// Their properties, by code.
static PROPERTIES: [Properties; 256] = Opcode::ROWS;

impl Opcode {
    /// The code on the wire.
    #[inline]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The opcode's row of the table.
    #[inline]
    pub const fn properties(self) -> &'static Properties {
        &PROPERTIES[self.code() as usize]
    }

    /// The opcode with this code, if there is one.
    #[inline]
    pub const fn from_code(code: u8) -> Option<Self> {
        BY_CODE[code as usize]
    }

    /// The opcode of a SEND packet; `None` where the service has no such packet (only a reliable connection has SEND
    /// with invalidate, a datagram is always one packet). `tail` is used only at the end of a message.
    #[inline]
    pub const fn send(service: Service, position: Position, tail: Tail) -> Option<Self> {
        let operation = match (position, tail) {
            (Position::First, _) => 0x00,
            (Position::Middle, _) => 0x01,
            (Position::Last, Tail::Plain) => 0x02,
            (Position::Last, Tail::Immediate) => 0x03,
            (Position::Last, Tail::Invalidate) => 0x16,
            (Position::Only, Tail::Plain) => 0x04,
            (Position::Only, Tail::Immediate) => 0x05,
            (Position::Only, Tail::Invalidate) => 0x17,
        };
        Self::of(service, operation)
    }

    /// The opcode of a WRITE packet; `None` where the service has no such packet (not for datagrams, nor with
    /// invalidate). `tail` is used only at the end of a message.
    #[inline]
    pub const fn write(service: Service, position: Position, tail: Tail) -> Option<Self> {
        let operation = match (position, tail) {
            (Position::First, _) => 0x06,
            (Position::Middle, _) => 0x07,
            (Position::Last, Tail::Plain) => 0x08,
            (Position::Last, Tail::Immediate) => 0x09,
            (Position::Only, Tail::Plain) => 0x0a,
            (Position::Only, Tail::Immediate) => 0x0b,
            (Position::Last | Position::Only, Tail::Invalidate) => return None,
        };
        Self::of(service, operation)
    }

    /// The opcode of a READ response packet of a reliable connection.
    #[inline]
    pub const fn read_response(position: Position) -> Self {
        match position {
            Position::First => Self::RcReadResponseFirst,
            Position::Middle => Self::RcReadResponseMiddle,
            Position::Last => Self::RcReadResponseLast,
            Position::Only => Self::RcReadResponseOnly,
        }
    }

    /// The opcode of the same operation of another service; itself where that has none.
    #[inline]
    pub const fn in_service(self, service: Service) -> Self {
        match Self::of(service, self.code() & OPERATION) {
            Some(opcode) => opcode,
            None => self,
        }
    }

    /// The opcode of a service's operation (the low five bits of the code).
    #[inline]
    const fn of(service: Service, operation: u8) -> Option<Self> {
        match service {
            Service::Rc | Service::Uc | Service::Ud | Service::Xrc => {
                Self::from_code(service as u8 | operation)
            }
            Service::Cnp => None,
        }
    }

    /// The transport service.
    #[inline]
    pub const fn service(self) -> Service {
        self.properties().service
    }

    /// The operation.
    #[inline]
    pub const fn kind(self) -> Kind {
        self.properties().kind
    }

    /// The position of the packet in its message.
    #[inline]
    pub const fn position(self) -> Position {
        self.properties().position
    }

    /// The extension headers.
    #[inline]
    pub const fn layout(self) -> Layout {
        self.properties().layout
    }

    /// Whether an XRC header is in front of the extension headers.
    #[inline]
    pub const fn has_xrceth(self) -> bool {
        self.properties().has_xrceth
    }

    /// Length of the headers that all packets of a message have, in bytes: 12, or 16 with an XRC header.
    #[inline]
    pub const fn base_len(self) -> usize {
        header_len(Layout::Bare, self.has_xrceth()) as usize
    }

    /// Length of all headers, in bytes: 12 to 44.
    #[inline]
    pub const fn header_len(self) -> usize {
        self.properties().header_len as usize
    }

    /// The length of the payload.
    #[inline]
    pub const fn payload(self) -> PayloadRule {
        self.properties().payload
    }

    /// The addition at the end of the message.
    #[inline]
    pub const fn tail(self) -> Tail {
        match self.layout() {
            Layout::ImmDt | Layout::RethImmDt | Layout::DethImmDt => Tail::Immediate,
            Layout::Ieth => Tail::Invalidate,
            _ => Tail::Plain,
        }
    }

    /// Whether the packet is for the responder.
    #[inline]
    pub const fn is_request(self) -> bool {
        self.kind().is_request()
    }

    /// Whether the packet is for the requester.
    #[inline]
    pub const fn is_response(self) -> bool {
        self.kind().is_response()
    }

    /// Whether the packet begins its message.
    #[inline]
    pub const fn begins(self) -> bool {
        self.position().begins()
    }

    /// Whether the packet ends its message.
    #[inline]
    pub const fn ends(self) -> bool {
        self.position().ends()
    }

    /// Whether the responder takes a receive work request for the packet: at the start of a SEND, at the end of a WRITE
    /// with immediate data.
    #[inline]
    pub const fn takes_receive(self) -> bool {
        match self.kind() {
            Kind::Send => self.begins(),
            Kind::Write => self.layout().has_immdt(),
            _ => false,
        }
    }

    /// Whether the packet completes the receive work request of its message.
    #[inline]
    pub const fn completes_receive(self) -> bool {
        match self.kind() {
            Kind::Send => self.ends(),
            Kind::Write => self.layout().has_immdt(),
            _ => false,
        }
    }
}

impl TryFrom<u8> for Opcode {
    type Error = UnknownOpcode;

    #[inline]
    fn try_from(code: u8) -> Result<Self, UnknownOpcode> {
        Self::from_code(code).ok_or(UnknownOpcode(code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All codes of RC and XRC, the opcodes of `<rdma/ib_pack.h>` for UC and UD, and that of the CNP.
    const CODES: &[u8] = &[
        0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e,
        0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d,
        0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x64,
        0x65, 0x81, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac,
        0xad, 0xae, 0xaf, 0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xbb,
        0xbc, 0xbd, 0xbe, 0xbf,
    ];

    #[test]
    fn known_codes_and_no_others() {
        for code in 0..=u8::MAX {
            match Opcode::try_from(code) {
                Ok(opcode) => {
                    assert!(CODES.contains(&code), "{code:#x}");
                    assert_eq!(opcode.code(), code);
                }
                Err(error) => {
                    assert!(!CODES.contains(&code), "{code:#x}");
                    assert_eq!(error, UnknownOpcode(code));
                }
            }
        }
        assert!(Opcode::ALL
            .iter()
            .map(|opcode| opcode.code())
            .eq(CODES.iter().copied()));
    }

    #[test]
    fn the_high_bits_are_the_service() {
        for opcode in Opcode::ALL {
            assert_eq!(opcode.code() & 0xe0, opcode.service() as u8, "{opcode:?}");
        }
    }

    /// The builders match the table: each row is what its builder returns.
    #[test]
    fn builders_follow_the_table() {
        for &opcode in Opcode::ALL {
            let built = match opcode.kind() {
                Kind::Send => Opcode::send(opcode.service(), opcode.position(), opcode.tail()),
                Kind::Write => Opcode::write(opcode.service(), opcode.position(), opcode.tail()),
                Kind::ReadResponse => {
                    let of_rc = Opcode::read_response(opcode.position());
                    Some(of_rc.in_service(opcode.service()))
                }
                _ => continue,
            };
            assert_eq!(built, Some(opcode));
        }
    }

    /// XRC has the operations of RC, with the XRC header in each request that is defined.
    #[test]
    fn xrc_is_rc_with_another_header() {
        for &opcode in Opcode::ALL {
            let is_request = opcode.is_request() && opcode.kind() != Kind::Reserved;
            let expected = opcode.service() == Service::Xrc && is_request;
            assert_eq!(opcode.has_xrceth(), expected, "{opcode:?}");
            let of_xrc = opcode.in_service(Service::Xrc);
            if opcode.service() != Service::Rc {
                continue;
            }
            assert_eq!(of_xrc.code(), opcode.code() | 0xa0);
            assert_eq!(of_xrc.in_service(Service::Rc), opcode);
            let (rc, xrc) = (opcode.properties(), of_xrc.properties());
            let alike = Properties {
                service: rc.service,
                has_xrceth: rc.has_xrceth,
                header_len: rc.header_len,
                ..*xrc
            };
            assert_eq!(alike, *rc, "{opcode:?}");
            let more = if is_request { 4 } else { 0 };
            assert_eq!(of_xrc.header_len(), opcode.header_len() + more);
            assert_eq!(of_xrc.base_len(), opcode.base_len() + more);
        }
        assert_eq!(Opcode::RcFlush.in_service(Service::Ud), Opcode::RcFlush);
    }

    #[test]
    fn builders_refuse_what_a_service_lacks() {
        use Position::{First, Last, Middle, Only};
        for position in [First, Middle, Last, Only] {
            assert_eq!(Opcode::write(Service::Ud, position, Tail::Plain), None);
            assert_eq!(Opcode::send(Service::Cnp, position, Tail::Plain), None);
            if position != Only {
                assert_eq!(Opcode::send(Service::Ud, position, Tail::Plain), None);
            }
            if position.ends() {
                assert_eq!(Opcode::send(Service::Uc, position, Tail::Invalidate), None);
                assert_eq!(Opcode::send(Service::Ud, position, Tail::Invalidate), None);
                assert_eq!(Opcode::write(Service::Rc, position, Tail::Invalidate), None);
                assert_eq!(
                    Opcode::write(Service::Xrc, position, Tail::Invalidate),
                    None
                );
            }
        }
    }

    #[test]
    fn position_says_how_long_the_payload_is() {
        for opcode in Opcode::ALL {
            let expected = match (opcode.kind(), opcode.position()) {
                (Kind::Send | Kind::Write | Kind::ReadResponse, position) => match position {
                    Position::First | Position::Middle => Full,
                    Position::Last => Nonempty,
                    Position::Only => Any,
                },
                (Kind::AtomicWrite, _) => Exactly(8),
                (Kind::Notification, _) => Exactly(16),
                (Kind::Reserved, _) => Any,
                _ => NONE,
            };
            assert_eq!(opcode.payload(), expected, "{opcode:?}");
        }
    }

    #[test]
    fn payload_rules_at_their_ends() {
        let mtu = Mtu::Mtu1024;
        let allowed = |rule: PayloadRule| {
            [0, 1, 8, 1023, 1024, 1025, u32::MAX].map(|length| rule.allows(length, mtu))
        };
        assert_eq!(
            allowed(Full),
            [false, false, false, false, true, false, false]
        );
        assert_eq!(
            allowed(Nonempty),
            [false, true, true, true, true, false, false]
        );
        assert_eq!(allowed(Any), [true, true, true, true, true, false, false]);
        assert_eq!(
            allowed(Exactly(8)),
            [false, false, true, false, false, false, false]
        );
        assert_eq!(
            allowed(NONE),
            [true, false, false, false, false, false, false]
        );
    }

    /// A receive work request is taken once and completed once in each message that uses one.
    #[test]
    fn receives() {
        for opcode in Opcode::ALL {
            let (takes, completes) = match opcode.kind() {
                Kind::Send => (opcode.begins(), opcode.ends()),
                Kind::Write => {
                    let immediate = opcode.tail() == Tail::Immediate;
                    (immediate, immediate)
                }
                _ => (false, false),
            };
            assert_eq!(opcode.takes_receive(), takes, "{opcode:?}");
            assert_eq!(opcode.completes_receive(), completes, "{opcode:?}");
        }
    }

    #[test]
    fn responses_are_reliable_and_no_requests() {
        for opcode in Opcode::ALL {
            assert!(!(opcode.is_request() && opcode.is_response()), "{opcode:?}");
            if opcode.is_response() {
                let reliable = [Service::Rc, Service::Xrc];
                assert!(reliable.contains(&opcode.service()), "{opcode:?}");
            }
        }
        assert!(!Opcode::Cnp.is_request());
        assert!(!Opcode::Cnp.is_response());
    }
}
