// SPDX-License-Identifier: GPL-2.0

//! A received packet with parsed headers: addresses, payload, and the network header for a datagram's receiver (IBTA
//! volume 1, section 11.4.1.2).

use core::net::IpAddr;
use kernel::prelude::*;
use kernel::transmute::AsBytes;
use kernel_ext::bindings;
use kernel_ext::net::header::{IpHeader, UdpHeader};
use kernel_ext::net::skb::SkBuff;
use roce::icrc;
use roce::pkey::Pkey;
use roce::wire::Packet;

use crate::buffer::PayloadOffsets;
use crate::grh::Grh;
use crate::ids::network_type;
use crate::mr::{MrError, Region};
use crate::path::AddressPair;
use crate::port_id::{Ingress, PortId};
use crate::source::Source;

/// A valid packet for a device.
pub(crate) struct Incoming {
    skb: SkBuff,
    ip: IpHeader,
    packet: Packet,
    ingress: Ingress,
}

impl Incoming {
    /// A packet with parsed headers; `skb` begins after the UDP header.
    pub(crate) fn new(skb: SkBuff, ip: IpHeader, packet: Packet, ingress: Ingress) -> Self {
        Self {
            skb,
            ip,
            packet,
            ingress,
        }
    }

    /// Frees the packet as a delivered one.
    pub(crate) fn consume(self) {
        self.skb.consume();
    }

    /// The length of the packet from its IP header on: those with options or extensions were rejected.
    pub(crate) fn length(&self) -> usize {
        let ip = match &self.ip {
            IpHeader::V4(_) => icrc::IPV4_LEN,
            IpHeader::V6(_) => icrc::IPV6_LEN,
        };
        ip + size_of::<UdpHeader>() + self.skb.len()
    }

    /// The headers and the length of the payload.
    pub(crate) fn packet(&self) -> &Packet {
        &self.packet
    }

    /// The payload in the packet.
    pub(crate) fn payload(&self) -> Payload<'_> {
        Payload::Packet {
            skb: &self.skb,
            offset: self.packet.payload_offset(),
            len: self.packet.payload_len(),
        }
    }

    /// The 40 bytes in front of the payload of a datagram.
    fn grh(&self) -> Grh {
        match &self.ip {
            IpHeader::V4(ip) => Grh::of(ip.as_bytes()),
            IpHeader::V6(ip) => Grh::of(ip.as_bytes()),
        }
    }

    /// The type of that header: `enum rdma_network_type`.
    fn network_type(&self) -> u8 {
        network_type(self.ip.source())
    }

    /// The type of service or traffic class.
    pub(crate) fn traffic_class(&self) -> u8 {
        self.ip.traffic_class()
    }

    /// The port that it came in by.
    #[inline]
    pub(crate) fn port(&self) -> PortId {
        self.ingress.port
    }

    /// The port and the addresses.
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

    /// The VLAN of the packet.
    fn vlan_id(&self) -> Option<u16> {
        self.ingress.vlan_id
    }
}

/// The arrival of a message at a queue pair.
#[derive(Clone, Copy)]
pub(crate) enum Arrival<'a> {
    /// In this packet.
    Packet(&'a Incoming),
    /// By a direct copy of a datagram, with this header and this P_Key.
    Datagram {
        grh: Grh,
        pkey: Pkey,
        /// The type of the network header: `enum rdma_network_type`.
        network_type: u8,
    },
    /// By a direct copy from the peer or in a GRO buffer, with this network type and VLAN.
    Other {
        /// The type of the network header: `enum rdma_network_type`.
        network_type: u8,
        /// The VLAN.
        vlan_id: Option<u16>,
    },
}

impl Arrival<'_> {
    /// The type of the network header: `enum rdma_network_type`.
    pub(crate) fn network_type(&self) -> u8 {
        match self {
            Self::Packet(incoming) => incoming.network_type(),
            Self::Datagram { network_type, .. } | Self::Other { network_type, .. } => *network_type,
        }
    }

    /// What programs read in the service level of a datagram, which RoCE has none of: a UDP header, and the version of the IP header,
    /// encoded as by mlx5. UCX before 1.19 looks there for the version with any device.
    pub(crate) fn service_level(&self) -> u8 {
        const IPV6: u8 = 1;
        const IPV4: u8 = 2;
        const UDP: u8 = 1 << 3;
        let is_ipv4 = u32::from(self.network_type()) == bindings::RDMA_NETWORK_IPV4;
        UDP | if is_ipv4 { IPV4 } else { IPV6 }
    }

    /// The VLAN of the message.
    pub(crate) fn vlan_id(&self) -> Option<u16> {
        match self {
            Self::Packet(incoming) => incoming.vlan_id(),
            Self::Datagram { .. } => None,
            Self::Other { vlan_id, .. } => *vlan_id,
        }
    }

    /// What is in front of the payload, if the message may be a datagram.
    pub(crate) fn grh(&self) -> Option<Grh> {
        match self {
            Self::Packet(incoming) => Some(incoming.grh()),
            Self::Datagram { grh, .. } => Some(*grh),
            Self::Other { .. } => None,
        }
    }

    /// The P_Key of the message, if it may be a datagram.
    pub(crate) fn pkey(&self) -> Option<Pkey> {
        match self {
            Self::Packet(incoming) => Some(incoming.packet().bth().pkey),
            Self::Datagram { pkey, .. } => Some(*pkey),
            Self::Other { .. } => None,
        }
    }
}

/// The payload type of the engines.
pub(crate) enum Payload<'a> {
    /// A part of a packet, which may be fragmented.
    Packet {
        /// The packet.
        skb: &'a SkBuff,
        /// Offset of the part.
        offset: usize,
        /// Length of the part.
        len: u32,
    },
    /// Parts of packets in one buffer.
    Packets {
        /// The buffer.
        skb: &'a SkBuff,
        /// The offsets of their payloads.
        offsets: &'a PayloadOffsets,
        /// Offset of the part in the payload of all of them.
        offset: u32,
        /// Length of the part.
        len: u32,
    },
    /// Bytes in kernel memory.
    Bytes(&'a [u8]),
    /// A part of the sender's memory.
    Memory {
        /// The memory.
        source: &'a Source<'a>,
        /// Offset of the part.
        offset: u32,
        /// Length of the part.
        len: u32,
    },
}

impl Payload<'_> {
    /// The length in bytes.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::Packet { len, .. } | Self::Packets { len, .. } | Self::Memory { len, .. } => *len,
            Self::Bytes(bytes) => bytes.len() as u32,
        }
    }

    /// The offset in the packet or the memory of bytes `from..from + len`; `None` beyond the end.
    #[inline]
    fn place(&self, offset: u32, from: u32, len: u32) -> Option<u32> {
        from.checked_add(len).filter(|&end| end <= self.len())?;
        offset.checked_add(from)
    }

    /// Copies bytes `from..from + len` to offset `at` of a region.
    ///
    /// # Errors
    ///
    /// As for [`Region::copy_in`]; [`MrError::OutOfRange`] beyond the end.
    #[inline]
    pub(crate) fn copy_to(
        &self,
        from: u32,
        len: u32,
        region: &Region,
        at: u32,
    ) -> Result<(), MrError> {
        let place = |offset| self.place(offset, from, len).ok_or(MrError::OutOfRange);
        match self {
            Self::Packet { skb, offset, .. } => {
                let (mut at, mut copied) = (at, Ok(()));
                let start = place(*offset as u32)?;
                let walked = skb.for_each_piece(start as usize, len as usize, |bytes| {
                    copied = copied.and_then(|()| region.copy_in(at, bytes));
                    at = at.saturating_add(bytes.len() as u32);
                });
                walked.map_err(|_| MrError::OutOfRange)?;
                copied
            }
            Self::Packets {
                skb,
                offsets,
                offset,
                ..
            } => {
                let (start, mut walked) = (place(*offset)?, Ok(()));
                let mut cursor = skb.cursor();
                let copied = region.copy_in_pieces(at, |copy| {
                    walked = offsets.for_each(start, len, |start, len| {
                        cursor.for_each_piece(start, len, &mut *copy)
                    });
                });
                walked.map_err(|_| MrError::OutOfRange)?;
                copied
            }
            Self::Bytes(bytes) => {
                let start = place(0)? as usize;
                let end = start.saturating_add(len as usize);
                let bytes = bytes.get(start..end).ok_or(MrError::OutOfRange)?;
                region.copy_in(at, bytes.into())
            }
            Self::Memory { source, offset, .. } => source.copy_to(place(*offset)?, len, region, at),
        }
    }

    /// Copies the first bytes to `to`.
    ///
    /// # Errors
    ///
    /// [`MrError::OutOfRange`] beyond the end.
    pub(crate) fn read(&self, to: &mut [u8]) -> Result<(), MrError> {
        let len = u32::try_from(to.len()).map_err(|_| MrError::OutOfRange)?;
        let place = |offset| self.place(offset, 0, len).ok_or(MrError::OutOfRange);
        match self {
            Self::Packet { skb, offset, .. } => {
                let start = place(*offset as u32)?;
                skb.copy_bits(start as usize, to)
                    .map_err(|_| MrError::OutOfRange)
            }
            Self::Packets {
                skb,
                offsets,
                offset,
                ..
            } => {
                let mut rest = to;
                let copied = offsets.for_each(place(*offset)?, len, |start, len| {
                    let (now, left) = core::mem::take(&mut rest)
                        .split_at_mut_checked(len)
                        .ok_or(EINVAL)?;
                    rest = left;
                    skb.copy_bits(start, now)
                });
                copied.map_err(|_| MrError::OutOfRange)
            }
            Self::Bytes(bytes) => {
                to.copy_from_slice(bytes.get(..to.len()).ok_or(MrError::OutOfRange)?);
                Ok(())
            }
            Self::Memory { source, offset, .. } => source.read(place(*offset)?, to),
        }
    }
}
