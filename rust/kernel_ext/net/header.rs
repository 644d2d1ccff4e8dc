// SPDX-License-Identifier: GPL-2.0

//! Headers of RoCE v2 packets below UDP: IPv4, IPv6 and UDP.
//!
//! Plain bytes in network byte order, which can be read from a packet and pushed to one.
//!
//! C headers: `include/uapi/linux/{ip,ipv6,udp}.h`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kernel::transmute::{AsBytes, FromBytes};

/// The protocol number of UDP.
pub const IPPROTO_UDP: u8 = 17;

/// The "don't fragment" bit of [`Ipv4Header::fragment`].
pub const IP_DF: u16 = 0x4000;

/// A 16-bit number in network byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Be16([u8; 2]);

impl Be16 {
    /// Converts from host byte order.
    #[inline]
    pub const fn new(value: u16) -> Self {
        Self(value.to_be_bytes())
    }

    /// Converts to host byte order.
    #[inline]
    pub const fn get(self) -> u16 {
        u16::from_be_bytes(self.0)
    }
}

/// The IPv4 header without options (RFC 791).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Ipv4Header {
    /// Version (4) and header length in 32-bit words (5): 0x45.
    pub version_ihl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Length of header and payload, in bytes.
    pub total_length: Be16,
    /// Identification for fragments.
    pub identification: Be16,
    /// Flags (see [`IP_DF`]) and fragment offset.
    pub fragment: Be16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Checksum of the header.
    pub checksum: Be16,
    /// Source address.
    pub source: [u8; 4],
    /// Destination address.
    pub destination: [u8; 4],
}

impl Ipv4Header {
    /// The version and length of a header without options.
    pub const VERSION_IHL: u8 = 0x45;
}

/// The IPv6 header (RFC 8200).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Ipv6Header {
    /// Version (6), traffic class, flow label.
    pub version_class_flow: [u8; 4],
    /// Length of the payload, in bytes.
    pub payload_length: Be16,
    /// Protocol of the payload, or type of the next header.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
}

impl Ipv6Header {
    /// Returns the header's first word: version 6, a traffic class, and the low 20 bits of `flow_label`.
    #[inline]
    pub const fn first_word(traffic_class: u8, flow_label: u32) -> [u8; 4] {
        (0x6000_0000 | (traffic_class as u32) << 20 | flow_label & 0xf_ffff).to_be_bytes()
    }

    /// Returns the traffic class: DSCP and ECN.
    #[inline]
    pub const fn traffic_class(&self) -> u8 {
        (u32::from_be_bytes(self.version_class_flow) >> 20) as u8
    }

    /// Returns the flow label.
    #[inline]
    pub const fn flow_label(&self) -> u32 {
        u32::from_be_bytes(self.version_class_flow) & 0xf_ffff
    }
}

/// The UDP header (RFC 768).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct UdpHeader {
    /// Source port.
    pub source: Be16,
    /// Destination port.
    pub destination: Be16,
    /// Length of header and payload, in bytes.
    pub length: Be16,
    /// Checksum; 0 for none.
    pub checksum: Be16,
}

// SAFETY: The structure consists of bytes and arrays of bytes, without padding.
unsafe impl FromBytes for Ipv4Header {}
// SAFETY: The structure consists of bytes and arrays of bytes, without padding.
unsafe impl AsBytes for Ipv4Header {}
// SAFETY: The structure consists of bytes and arrays of bytes, without padding.
unsafe impl FromBytes for Ipv6Header {}
// SAFETY: The structure consists of bytes and arrays of bytes, without padding.
unsafe impl AsBytes for Ipv6Header {}
// SAFETY: The structure consists of bytes and arrays of bytes, without padding.
unsafe impl FromBytes for UdpHeader {}
// SAFETY: The structure consists of bytes and arrays of bytes, without padding.
unsafe impl AsBytes for UdpHeader {}

const _: () = {
    assert!(size_of::<Ipv4Header>() == 20 && align_of::<Ipv4Header>() == 1);
    assert!(size_of::<Ipv6Header>() == 40 && align_of::<Ipv6Header>() == 1);
    assert!(size_of::<UdpHeader>() == 8 && align_of::<UdpHeader>() == 1);
};

/// The IP header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpHeader {
    /// IPv4.
    V4(Ipv4Header),
    /// IPv6.
    V6(Ipv6Header),
}

impl IpHeader {
    /// The source address.
    #[inline]
    pub fn source(&self) -> IpAddr {
        match self {
            Self::V4(ip) => IpAddr::V4(Ipv4Addr::from(ip.source)),
            Self::V6(ip) => IpAddr::V6(Ipv6Addr::from(ip.source)),
        }
    }

    /// The destination address.
    #[inline]
    pub fn destination(&self) -> IpAddr {
        match self {
            Self::V4(ip) => IpAddr::V4(Ipv4Addr::from(ip.destination)),
            Self::V6(ip) => IpAddr::V6(Ipv6Addr::from(ip.destination)),
        }
    }

    /// The type of service or traffic class: DSCP and ECN.
    #[inline]
    pub const fn traffic_class(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.tos,
            Self::V6(ip) => ip.traffic_class(),
        }
    }
}
