// SPDX-License-Identifier: GPL-2.0

//! A received packet with parsed headers: addresses, payload, and the network header for a datagram's receiver (IBTA
//! volume 1, section 11.4.1.2).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use kernel::prelude::*;
use kernel::transmute::AsBytes;
use kernel_ext::bindings;
use kernel_ext::net::header::{IpHeader, UdpHeader};
use kernel_ext::net::skb::SkBuff;
use rdma::Gid;
use roce::icrc;
use roce::wire::Packet;

/// A valid packet for a device.
pub(crate) struct Incoming {
    skb: SkBuff,
    ip: IpHeader,
    packet: Packet,
    vlan_id: Option<u16>,
}

impl Incoming {
    /// A packet with parsed headers; `skb` begins after the UDP header.
    pub(crate) fn new(skb: SkBuff, ip: IpHeader, packet: Packet, vlan_id: Option<u16>) -> Self {
        Self {
            skb,
            ip,
            packet,
            vlan_id,
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

    /// The 40 bytes in front of a datagram: an IPv6 header, or 20 zeroes and an IPv4 header.
    pub(crate) fn grh(&self) -> [u8; 40] {
        let mut area = [0; 40];
        let header = match &self.ip {
            IpHeader::V4(ip) => ip.as_bytes(),
            IpHeader::V6(ip) => ip.as_bytes(),
        };
        if let Some(place) = area
            .len()
            .checked_sub(header.len())
            .and_then(|at| area.get_mut(at..))
        {
            place.copy_from_slice(header);
        }
        area
    }

    /// The type of that header: `enum rdma_network_type`.
    pub(crate) fn network_type(&self) -> u8 {
        let network = match &self.ip {
            IpHeader::V4(_) => bindings::RDMA_NETWORK_IPV4,
            IpHeader::V6(_) => bindings::RDMA_NETWORK_IPV6,
        };
        network as u8
    }

    /// The source address.
    pub(crate) fn source(&self) -> IpAddr {
        match &self.ip {
            IpHeader::V4(ip) => IpAddr::V4(Ipv4Addr::from(ip.source)),
            IpHeader::V6(ip) => IpAddr::V6(Ipv6Addr::from(ip.source)),
        }
    }

    /// The destination address.
    pub(crate) fn destination(&self) -> IpAddr {
        match &self.ip {
            IpHeader::V4(ip) => IpAddr::V4(Ipv4Addr::from(ip.destination)),
            IpHeader::V6(ip) => IpAddr::V6(Ipv6Addr::from(ip.destination)),
        }
    }

    /// The destination address as a GID.
    pub(crate) fn destination_gid(&self) -> Gid {
        match self.destination() {
            IpAddr::V4(address) => Gid::from_ipv4(address.octets()),
            IpAddr::V6(address) => Gid(address.octets()),
        }
    }

    /// The VLAN of the packet.
    pub(crate) fn vlan_id(&self) -> Option<u16> {
        self.vlan_id
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
    /// Bytes in kernel memory.
    Bytes(&'a [u8]),
}

impl Payload<'_> {
    /// The length in bytes.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::Packet { len, .. } => *len,
            Self::Bytes(bytes) => bytes.len() as u32,
        }
    }

    /// Passes bytes `from..from + len` to `put`, in pieces with their offset from `from`, until it returns false.
    ///
    /// # Errors
    ///
    /// `EFAULT` where `put` returned false, `EINVAL` beyond the end.
    #[inline]
    pub(crate) fn copy(
        &self,
        from: u32,
        len: u32,
        mut put: impl FnMut(u32, &[u8]) -> bool,
    ) -> Result {
        let end = from
            .checked_add(len)
            .filter(|&end| end <= self.len())
            .ok_or(EINVAL)?;
        let (mut at, mut stored) = (0u32, true);
        let mut piece = |bytes: &[u8]| {
            stored = stored && put(at, bytes);
            at = at.saturating_add(bytes.len() as u32);
        };
        match self {
            Self::Packet { skb, offset, .. } => {
                skb.for_each_slice(offset.saturating_add(from as usize), len as usize, piece)?;
            }
            Self::Bytes(bytes) => piece(bytes.get(from as usize..end as usize).ok_or(EINVAL)?),
        }
        if stored {
            Ok(())
        } else {
            Err(EFAULT)
        }
    }
}
