// SPDX-License-Identifier: GPL-2.0

//! The ICRC of packets in socket buffers, by `crc32_le()` of `<linux/crc32.h>`. [`roce::icrc`] describes what it
//! covers.

use core::ops::Range;
use kernel::transmute::AsBytes;
use kernel_ext::crc32::crc32_le;
use kernel_ext::net::header::{IpHeader, UdpHeader};
use kernel_ext::net::skb::SkBuff;
use roce::icrc::{self, Icrc};

/// The kernel's CRC-32.
pub(crate) struct KernelCrc;

impl icrc::Crc32 for KernelCrc {
    #[inline]
    fn update(state: u32, data: &[u8]) -> u32 {
        crc32_le(state, data.into())
    }
}

/// Whether the ICRC of a packet is correct, which is `range` of a buffer, and has these headers in front of it.
#[inline]
pub(crate) fn is_intact(
    skb: &SkBuff,
    range: Range<usize>,
    bth: &[u8; icrc::BTH_LEN],
    ip: &IpHeader,
    udp: &UdpHeader,
) -> bool {
    computed(skb, &range, bth, ip, udp).is_some_and(|computed| {
        let mut carried = [0; icrc::LEN];
        let at = range.end.saturating_sub(icrc::LEN);
        skb.copy_bits(at, &mut carried).is_ok() && carried == computed
    })
}

#[inline]
fn computed(
    skb: &SkBuff,
    range: &Range<usize>,
    bth: &[u8; icrc::BTH_LEN],
    ip: &IpHeader,
    udp: &UdpHeader,
) -> Option<[u8; icrc::LEN]> {
    let udp = udp.as_bytes().try_into().ok()?;
    let mut icrc = match ip {
        IpHeader::V4(ip) => Icrc::<KernelCrc>::ipv4(ip.as_bytes().try_into().ok()?, udp, bth),
        IpHeader::V6(ip) => Icrc::<KernelCrc>::ipv6(ip.as_bytes().try_into().ok()?, udp, bth),
    };
    let start = range.start.checked_add(icrc::BTH_LEN)?;
    let covered = range.end.checked_sub(start)?.checked_sub(icrc::LEN)?;
    skb.for_each_piece(start, covered, |bytes| {
        icrc.update_by(|state| crc32_le(state, bytes))
    })
    .ok()?;
    Some(icrc.finish())
}

/// Sets the ICRC, the last four bytes of a packet. It begins after the UDP header; `begin` starts its ICRC.
#[inline]
pub(crate) fn seal(
    skb: &mut SkBuff,
    begin: impl FnOnce(&[u8; icrc::BTH_LEN]) -> Option<Icrc<KernelCrc>>,
) -> Option<()> {
    let bytes = skb.data_mut()?;
    let (bth, rest) = bytes.split_first_chunk()?;
    let mut icrc = begin(bth)?;
    let (covered, _) = rest.split_last_chunk::<{ icrc::LEN }>()?;
    icrc.update(covered);
    *bytes.last_chunk_mut()? = icrc.finish();
    Some(())
}
