// SPDX-License-Identifier: GPL-2.0

//! The ICRC of packets in socket buffers, by `crc32_le()` of `<linux/crc32.h>`. [`roce::icrc`] describes what it
//! covers.

use kernel::transmute::AsBytes;
use kernel_ext::crc32::crc32_le;
use kernel_ext::net::header::{IpHeader, Ipv4Header, Ipv6Header, UdpHeader};
use kernel_ext::net::skb::SkBuff;
use roce::icrc::{self, Icrc};

/// The kernel's CRC-32.
pub(crate) struct KernelCrc;

impl icrc::Crc32 for KernelCrc {
    #[inline]
    fn update(state: u32, data: &[u8]) -> u32 {
        crc32_le(state, data)
    }
}

/// Whether the ICRC of a packet is correct. `skb` begins after the UDP header.
pub(crate) fn is_intact(skb: &SkBuff, ip: &IpHeader, udp: &UdpHeader) -> bool {
    computed(skb, ip, udp).is_some_and(|computed| {
        let mut carried = [0; icrc::LEN];
        let at = skb.len().saturating_sub(icrc::LEN);
        skb.copy_bits(at, &mut carried).is_ok() && carried == computed
    })
}

fn computed(skb: &SkBuff, ip: &IpHeader, udp: &UdpHeader) -> Option<[u8; icrc::LEN]> {
    let bth = skb.data().first_chunk()?;
    let udp = udp.as_bytes().try_into().ok()?;
    let mut icrc = match ip {
        IpHeader::V4(ip) => Icrc::<KernelCrc>::ipv4(ip.as_bytes().try_into().ok()?, udp, bth),
        IpHeader::V6(ip) => Icrc::<KernelCrc>::ipv6(ip.as_bytes().try_into().ok()?, udp, bth),
    };
    let covered = skb.len().checked_sub(icrc::BTH_LEN + icrc::LEN)?;
    skb.for_each_slice(icrc::BTH_LEN, covered, |bytes| icrc.update(bytes))
        .ok()?;
    Some(icrc.finish())
}

/// Sets the ICRC of a packet for IPv4. `skb` begins after the UDP header.
#[inline]
pub(crate) fn seal_v4(skb: &mut SkBuff, ip: &Ipv4Header, udp: &UdpHeader) -> Option<()> {
    let ip = ip.as_bytes().try_into().ok()?;
    let udp = udp.as_bytes().try_into().ok()?;
    seal(skb, |bth| Icrc::ipv4(ip, udp, bth))
}

/// As [`seal_v4`], for IPv6.
#[inline]
pub(crate) fn seal_v6(skb: &mut SkBuff, ip: &Ipv6Header, udp: &UdpHeader) -> Option<()> {
    let ip = ip.as_bytes().try_into().ok()?;
    let udp = udp.as_bytes().try_into().ok()?;
    seal(skb, |bth| Icrc::ipv6(ip, udp, bth))
}

/// Sets the ICRC, the last four bytes.
#[inline]
fn seal(
    skb: &mut SkBuff,
    begin: impl FnOnce(&[u8; icrc::BTH_LEN]) -> Icrc<KernelCrc>,
) -> Option<()> {
    let bytes = skb.data_mut()?;
    let (bth, rest) = bytes.split_first_chunk()?;
    let mut icrc = begin(bth);
    let (covered, _) = rest.split_last_chunk::<{ icrc::LEN }>()?;
    icrc.update(covered);
    *bytes.last_chunk_mut()? = icrc.finish();
    Some(())
}
