// SPDX-License-Identifier: GPL-2.0

//! UDP segmentation: one packet for many datagrams with the same headers and, but for the last one, the same length
//! (`SKB_GSO_UDP_L4`).
//!
//! C headers: `include/linux/skbuff.h`, `include/net/udp.h`.

use super::{
    header::{IpHeader, Ipv4Header, Ipv6Header, UdpHeader},
    packet_pages::PacketPages,
    skb::{SkBuff, MAX_SEGMENTS},
};
use crate::{bindings, gfp::Gfp, room::Room};
use core::{mem::MaybeUninit, num::NonZeroU16, ptr, slice};
use kernel::prelude::*;

/// A new packet whose data lies in pages, which are added as it is written.
///
/// # Invariants
///
/// `place` is the end of the written bytes in the last fragment; `room` more bytes from there on are nobody else's, and `room` is 0 if
/// there is no fragment. The packet and the last fragment are `added` bytes shorter than what is written. `empty`: the last fragment
/// has no length yet.
pub struct PagedSkb {
    skb: SkBuff,
    place: *mut MaybeUninit<u8>,
    room: usize,
    added: usize,
    empty: bool,
    /// The expected length.
    expected: usize,
}

// SAFETY: As `SkBuff`; the bytes behind `place` are only `self`'s.
unsafe impl Send for PagedSkb {}

impl PagedSkb {
    /// Allocates a packet without data, with `headroom` bytes for headers. It will probably have the `expected` length.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn alloc(headroom: u16, expected: usize, gfp: Gfp<'_>) -> Result<Self> {
        // INVARIANT: There is no fragment.
        Ok(Self {
            skb: SkBuff::alloc(headroom.into(), 0, gfp)?,
            place: ptr::null_mut(),
            room: 0,
            added: 0,
            empty: false,
            expected,
        })
    }

    /// The number of written bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.skb.len().saturating_add(self.added)
    }

    /// Whether no bytes are written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a fragment for at least `len` bytes. `None` if memory is short, or the packet has as many as it may have.
    fn grow(&mut self, len: usize, pages: &PacketPages, gfp: Gfp<'_>) -> Option<()> {
        self.end_frag();
        // A packet that becomes longer than expected doubles its length.
        let wanted = match self.expected.saturating_sub(self.len()) {
            0 => self.len(),
            left => left,
        };
        let (place, room) = pages.add_part(&mut self.skb, (len, wanted), gfp)?;
        // INVARIANT: Nothing of the part is written yet, and nobody else has it.
        self.place = place.cast();
        self.room = room;
        self.empty = true;
        Some(())
    }

    /// Gives the packet and the last fragment their lengths, or drops the fragment, if nothing is written to it.
    fn end_frag(&mut self) {
        // INVARIANT: Nothing more is written to the last fragment, and the lengths are those of what is written.
        self.room = 0;
        let added = core::mem::take(&mut self.added);
        let empty = core::mem::take(&mut self.empty);
        if added != 0 {
            // SAFETY: `self` owns the packet. There is a last fragment, with `added` bytes behind its length, which are written.
            unsafe { bindings::skb_extend_frag(self.skb.as_raw(), added as u32) };
        } else if empty {
            // SAFETY: `self` owns the packet, which is not shared, and whose last fragment has no bytes.
            unsafe { bindings::skb_drop_empty_frag(self.skb.as_raw()) };
        }
    }

    /// Lets `write` write the next `len` bytes, which lie in one fragment. `None` if memory is short, or if not all of them are written;
    /// the packet is as before then, as after an error.
    #[inline]
    pub fn append<E>(
        &mut self,
        len: usize,
        pages: &PacketPages,
        gfp: Gfp<'_>,
        write: impl FnOnce(&mut Room<'_>) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        if self.room < len {
            self.grow(len, pages, gfp)?;
        }
        if len == 0 {
            return Some(Ok(()));
        }
        // SAFETY: By the type invariants the last fragment has as many bytes there, which are nobody else's.
        let bytes = unsafe { slice::from_raw_parts_mut(self.place, len) };
        let start = bytes.as_ptr();
        let mut room = Room::new(bytes);
        if let Err(error) = write(&mut room) {
            return Some(Err(error));
        }
        // `write` may have replaced the room by another one.
        if room.start() != start.cast() || room.left() != 0 {
            return None;
        }
        // INVARIANT: As many bytes were initialised, of those that are nobody else's.
        self.place = self.place.wrapping_add(len);
        self.room = self.room.wrapping_sub(len);
        self.added = self.added.wrapping_add(len);
        Some(Ok(()))
    }

    /// The packet.
    #[inline]
    pub fn finish(mut self) -> SkBuff {
        self.end_frag();
        self.skb
    }
}

impl SkBuff {
    /// Marks the packet as several datagrams with `size` bytes of payload each, at most [`MAX_SEGMENTS`]; the last one may be
    /// shorter. The network stack or the device segments the packet. Each IPv4 datagram gets the next identification.
    ///
    /// The packet begins with its IP header, without options, and the UDP header; the offsets of its network and transport header
    /// are set. The UDP checksum is calculated by the device, or when the packet is segmented.
    ///
    /// # Errors
    ///
    /// `EINVAL` for another packet, or one that is not at least two datagrams.
    pub fn segment_udp(&mut self, size: NonZeroU16) -> Result {
        let ip = match self.ip_header().ok_or(EINVAL)? {
            IpHeader::V4(ip) if ip.version_ihl == Ipv4Header::VERSION_IHL => {
                size_of::<Ipv4Header>()
            }
            IpHeader::V4(_) => return Err(EINVAL),
            IpHeader::V6(_) => size_of::<Ipv6Header>(),
        };
        let headers = ip.wrapping_add(size_of::<UdpHeader>());
        let payload = self.len().checked_sub(headers).ok_or(EINVAL)?;
        let count = payload.div_ceil(usize::from(size.get()));
        // SAFETY: The packet is valid.
        let (network, transport) = unsafe {
            (
                bindings::skb_network_offset(self.as_raw()),
                bindings::skb_transport_offset(self.as_raw()),
            )
        };
        let begins = network == 0 && transport == ip as i32 && self.headlen() >= headers;
        if !begins || !self.is_writable() || !(2..=MAX_SEGMENTS).contains(&count) {
            return Err(EINVAL);
        }
        // SAFETY: `self` owns the packet, whose linear part has both headers, and whose data is shared with no other packet.
        unsafe { bindings::skb_segment_udp(self.as_raw(), size.get(), count as u16) };
        Ok(())
    }

    /// The number of datagrams that [`SkBuff::segment_udp`] has made of this packet, or 1.
    pub fn segments(&self) -> usize {
        // SAFETY: The packet is valid, and its data has the structure behind it.
        let count = unsafe { (*bindings::skb_shinfo(self.as_raw())).gso_segs };
        usize::from(count).clamp(1, MAX_SEGMENTS)
    }

    /// The length of the datagrams that a received packet consists of, but for the last one, which may be shorter; `None` for one
    /// datagram, or if its UDP checksum is not verified yet.
    #[inline]
    pub fn segment_size(&self) -> Option<NonZeroU16> {
        // SAFETY: The packet is valid.
        NonZeroU16::new(unsafe { bindings::skb_udp_segment_size(self.as_raw()) })
    }
}
