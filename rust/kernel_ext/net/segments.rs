// SPDX-License-Identifier: GPL-2.0

//! UDP segmentation: one packet for many datagrams with the same headers and, but for the last one, the same length
//! (`SKB_GSO_UDP_L4`).
//!
//! C headers: `include/linux/skbuff.h`, `include/net/udp.h`.

use super::{
    header::{IpHeader, Ipv4Header, Ipv6Header, UdpHeader},
    skb::{SkBuff, MAX_SEGMENTS},
};
use crate::{bindings, gfp::Gfp, room::Room};
use core::{mem::MaybeUninit, num::NonZeroU16, ptr::NonNull, slice};
use kernel::prelude::*;

/// A new packet whose data lies in pages, and is written from its start on.
///
/// # Invariants
///
/// Nobody else has the pages. All fragments before `frag`, and `written` bytes of that one, are initialised; `left` bytes are not.
pub struct PagedSkb {
    skb: SkBuff,
    frag: u32,
    written: usize,
    left: usize,
}

impl PagedSkb {
    /// Allocates a packet with `headroom` bytes for headers, and `len` bytes of data.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` where a packet cannot be that long.
    pub fn alloc(headroom: u16, len: u16, gfp: Gfp<'_>) -> Result<Self> {
        // The largest order that the page allocator has lists of its own for.
        const ORDER: i32 = bindings::PAGE_ALLOC_COSTLY_ORDER as i32;
        let mut error = 0;
        // SAFETY: The flags fit the context, by their type; `error` is valid for writes.
        let skb = unsafe {
            bindings::alloc_skb_with_frags(
                headroom.into(),
                len.into(),
                ORDER,
                &mut error,
                gfp.as_raw(),
            )
        };
        let skb = NonNull::new(skb).ok_or(ENOMEM)?;
        // SAFETY: The packet is new; its linear part is empty and has that much room, and its fragments have `len` bytes together.
        // Their contents are uninitialised, and this type gives the packet away only when they are written.
        let skb = unsafe {
            let raw = skb.as_ptr();
            (*raw).data = (*raw).data.add(headroom.into());
            (*raw).tail = headroom.into();
            (*raw).data_len = len.into();
            (*raw).len = len.into();
            SkBuff::from_raw(skb)
        };
        // INVARIANT: Nothing is written.
        Ok(Self {
            skb,
            frag: 0,
            written: 0,
            left: len.into(),
        })
    }

    /// What is left of the present fragment, at most `most` bytes; it is not empty, if there are any left.
    fn piece(&mut self, most: usize) -> &mut [MaybeUninit<u8>] {
        let skb = self.skb.as_raw();
        // SAFETY: While bytes are left there is such a fragment, whose page nobody else has; `written` is within it.
        unsafe {
            let rest =
                (bindings::skb_frag_size(skb, self.frag) as usize).wrapping_sub(self.written);
            let start = bindings::skb_frag_address(skb, self.frag).cast::<u8>();
            slice::from_raw_parts_mut(start.add(self.written).cast(), rest.min(most))
        }
    }

    /// Records that `len` bytes of the present fragment were written.
    fn advance(&mut self, len: usize) {
        // SAFETY: The fragment exists, since a piece of it was written.
        let size = unsafe { bindings::skb_frag_size(self.skb.as_raw(), self.frag) } as usize;
        // INVARIANT: As many bytes were initialised.
        self.left = self.left.wrapping_sub(len);
        self.written = self.written.wrapping_add(len);
        if self.written == size {
            self.frag = self.frag.wrapping_add(1);
            self.written = 0;
        }
    }

    /// Has `write` write the next `len` bytes, in pieces: it is given the offset of a piece in them, and the piece, which it has to
    /// fill. `seen` is given each piece when it is written. `None` where fewer bytes are left, or a piece was not filled.
    pub fn fill<E>(
        &mut self,
        len: usize,
        mut write: impl FnMut(usize, &mut Room<'_>) -> Result<(), E>,
        mut seen: impl FnMut(&[u8]),
    ) -> Option<Result<(), E>> {
        if len > self.left {
            return None;
        }
        let mut done = 0usize;
        while done < len {
            let piece = self.piece(len.wrapping_sub(done));
            let (start, size) = (piece.as_ptr(), piece.len());
            let mut room = Room::new(piece);
            if let Err(error) = write(done, &mut room) {
                return Some(Err(error));
            }
            // `write` may have replaced the room by another one.
            if room.start() != start.cast() || room.left() != 0 {
                return None;
            }
            seen(room.bytes());
            self.advance(size);
            done = done.wrapping_add(size);
        }
        Some(Ok(()))
    }

    /// Writes the next bytes. `None` where fewer are left.
    pub fn write(&mut self, bytes: &[u8]) -> Option<()> {
        let write = |offset: usize, room: &mut Room<'_>| {
            let rest = bytes.get(offset..).ok_or(EINVAL)?;
            room.write(rest.get(..room.left()).ok_or(EINVAL)?)
        };
        self.fill(bytes.len(), write, |_| {})?.ok()
    }

    /// The packet; `None` if not all of it was written.
    pub fn finish(self) -> Option<SkBuff> {
        (self.left == 0).then_some(self.skb)
    }
}

impl SkBuff {
    /// Makes datagrams with `size` bytes of payload of this packet, at most [`MAX_SEGMENTS`]; the last one may be shorter. They are
    /// cut by whoever sends them. Of an IPv4 packet each one has the next identification.
    ///
    /// The packet begins with its IP header, without options, and the UDP header; their network and transport header are set. The UDP
    /// checksum is calculated by the device, or when they are cut.
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
