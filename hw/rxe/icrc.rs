// SPDX-License-Identifier: GPL-2.0

//! The ICRC of packets in socket buffers, by `crc32_le()` of `<linux/crc32.h>`. [`roce::icrc`] describes what it
//! covers.

use core::ops::Range;
use kernel::transmute::AsBytes;
use kernel_ext::crc32::crc32_le;
use kernel_ext::net::header::{IpHeader, Ipv4Header, Ipv6Header, UdpHeader};
use kernel_ext::net::skb::SkBuff;
use roce::icrc::{self, Icrc, Prefix, CONGESTION};

/// The kernel's CRC-32.
pub(crate) struct KernelCrc;

impl icrc::Crc32 for KernelCrc {
    #[inline]
    fn update(state: u32, data: &[u8]) -> u32 {
        crc32_le(state, data.into())
    }
}

/// Whether the ICRC of a packet is correct, which is `range` of a buffer. `congestion` is that byte of it, `prefix` the part of the
/// headers in front of it.
#[inline]
pub(crate) fn is_intact(skb: &SkBuff, range: Range<usize>, congestion: u8, prefix: Prefix) -> bool {
    let mut icrc: Icrc<KernelCrc> = prefix.icrc(congestion);
    let added = skb.for_each_piece(range.start, range.len(), |bytes| {
        icrc.update_by(|state| crc32_le(state, bytes));
    });
    added.is_ok() && icrc.is_complete()
}

/// What the IP and UDP headers of a packet contribute to its ICRC.
#[inline]
pub(crate) fn prefix_of(ip: &IpHeader, udp: &UdpHeader) -> Option<Prefix> {
    let udp = udp.as_bytes().try_into().ok()?;
    Some(match ip {
        IpHeader::V4(ip) => Prefix::ipv4::<KernelCrc>(ip.as_bytes().try_into().ok()?, udp),
        IpHeader::V6(ip) => Prefix::ipv6::<KernelCrc>(ip.as_bytes().try_into().ok()?, udp),
    })
}

/// The headers of the last packets, and what they contribute. Those of the next packet mostly differ only in the IPv4 identification
/// and in what the ICRC does not cover: the packets of a connection have few lengths.
#[derive(Default)]
pub(crate) struct Prefixes {
    known: [Option<Known>; 2],
    /// The one that is replaced next.
    oldest: usize,
}

#[derive(Clone, Copy)]
struct Known {
    ip: IpHeader,
    udp: UdpHeader,
    prefix: Prefix,
}

impl Known {
    /// The part of these headers, if it follows from the known one.
    #[inline]
    fn part_of(&self, ip: &IpHeader, udp: &UdpHeader) -> Option<Prefix> {
        let known = &self.udp;
        let same_udp = (udp.source, udp.destination, udp.length)
            == (known.source, known.destination, known.length);
        let difference = match (ip, &self.ip) {
            (IpHeader::V4(ip), IpHeader::V4(known)) => {
                let alike = Ipv4Header {
                    tos: known.tos,
                    identification: known.identification,
                    ttl: known.ttl,
                    checksum: known.checksum,
                    ..*ip
                };
                let bits = ip.identification.get() ^ known.identification.get();
                (alike == *known).then_some(bits)
            }
            (IpHeader::V6(ip), IpHeader::V6(known)) => {
                let alike = Ipv6Header {
                    version_class_flow: known.version_class_flow,
                    hop_limit: known.hop_limit,
                    ..*ip
                };
                (alike == *known).then_some(0)
            }
            _ => None,
        };
        difference
            .filter(|_| same_udp)
            .map(|bits| self.prefix.identified(bits))
    }
}

impl Prefixes {
    /// What the IP and UDP headers of a packet contribute to its ICRC. The version of the IP header was checked.
    #[inline]
    pub(crate) fn of(&mut self, ip: &IpHeader, udp: &UdpHeader) -> Option<Prefix> {
        let mut known = self.known.iter().flatten();
        if let Some(prefix) = known.find_map(|known| known.part_of(ip, udp)) {
            return Some(prefix);
        }
        let (ip, udp) = (*ip, *udp);
        let prefix = prefix_of(&ip, &udp)?;
        *self.known.get_mut(self.oldest)? = Some(Known { ip, udp, prefix });
        self.oldest ^= 1;
        Some(prefix)
    }
}

/// Sets the ICRC, the last four bytes of a packet. It begins after the UDP header; `prefix` is the part of the headers before.
#[inline]
pub(crate) fn seal(skb: &mut SkBuff, prefix: Prefix) -> Option<()> {
    let bytes = skb.data_mut()?;
    let (covered, place) = bytes.split_last_chunk_mut::<{ icrc::LEN }>()?;
    let mut icrc: Icrc<KernelCrc> = prefix.icrc(*covered.get(CONGESTION)?);
    icrc.update(covered);
    *place = icrc.finish();
    Some(())
}
