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
use core::{mem::MaybeUninit, num::NonZeroU16, ptr, slice};
use kernel::{page::PAGE_SIZE, prelude::*};

/// The maximum order of a fragment's pages: the largest one for which the page allocator has per-CPU lists.
const MAX_ORDER: u32 = bindings::PAGE_ALLOC_COSTLY_ORDER;

/// A new packet whose data lies in pages, which are added as it is written.
///
/// # Invariants
///
/// Only this packet refers to the pages. `place` is the end of the written bytes in the last fragment; its pages have `room` more
/// bytes from there on, and `room` is 0 if there is no fragment. The length of the packet is that of its written bytes.
pub struct PagedSkb {
    skb: SkBuff,
    place: *mut MaybeUninit<u8>,
    room: usize,
    /// The expected length.
    expected: usize,
}

// SAFETY: As `SkBuff`; `self` owns the pages.
unsafe impl Send for PagedSkb {}

impl PagedSkb {
    /// Allocates a packet without data, with `headroom` bytes for headers. Fragments for the `expected` length are no larger than they
    /// need to be.
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
            expected,
        })
    }

    /// The number of written bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.skb.len()
    }

    /// Whether no bytes are written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a fragment. `None` if memory is short, or the packet has as many as it may have.
    fn grow(&mut self, gfp: Gfp<'_>) -> Option<()> {
        let add = |order| {
            // SAFETY: The flags fit the context, by their type; `self` owns the packet, which is not shared.
            unsafe { bindings::skb_add_pages(self.skb.as_raw(), order, gfp.as_raw()) }
        };
        // A packet that becomes longer than expected doubles its length.
        let wanted = match self.expected.saturating_sub(self.len()) {
            0 => self.len(),
            left => left,
        };
        let pages = wanted.div_ceil(PAGE_SIZE).max(1);
        // One page too many costs less than another fragment.
        let order = pages.saturating_add(1).ilog2().min(MAX_ORDER);
        let order = if pages == 1 { 0 } else { order };
        let (start, order) = [order, 0]
            .into_iter()
            .map(|order| (add(order), order))
            .find(|(start, _)| !start.is_null())?;
        // INVARIANT: Nothing in the pages is written yet.
        self.place = start.cast();
        self.room = PAGE_SIZE << order;
        Some(())
    }

    /// Records that the next `len` bytes of the last fragment were written.
    ///
    /// # Safety
    ///
    /// They were, and there is room for them.
    #[inline]
    unsafe fn advance(&mut self, len: usize) {
        // SAFETY: By the safety requirements there is a fragment, with as many bytes behind those that are used.
        unsafe { bindings::skb_extend_frag(self.skb.as_raw(), len as u32) };
        // INVARIANT: As many bytes were initialised.
        self.place = self.place.wrapping_add(len);
        self.room = self.room.wrapping_sub(len);
    }

    /// Calls `write` for the next `len` bytes, in pieces: with the offset of a piece in them, and the piece, which it must fill.
    /// Then calls `seen` with the piece. `None` if memory is short, or if a piece was not filled; some of the bytes may have been
    /// written then, as after an error.
    pub fn fill<E>(
        &mut self,
        len: usize,
        gfp: Gfp<'_>,
        mut write: impl FnMut(usize, &mut Room<'_>) -> Result<(), E>,
        mut seen: impl FnMut(&[u8]),
    ) -> Option<Result<(), E>> {
        let mut done = 0usize;
        while done < len {
            if self.room == 0 {
                self.grow(gfp)?;
            }
            let size = self.room.min(len.wrapping_sub(done));
            // SAFETY: By the type invariants the last fragment has as many bytes there, which are nobody else's.
            let piece = unsafe { slice::from_raw_parts_mut(self.place, size) };
            let start = piece.as_ptr();
            let mut room = Room::new(piece);
            if let Err(error) = write(done, &mut room) {
                return Some(Err(error));
            }
            // `write` may have replaced the room by another one.
            if room.start() != start.cast() || room.left() != 0 {
                return None;
            }
            seen(room.bytes());
            // SAFETY: The room was filled.
            unsafe { self.advance(size) };
            done = done.wrapping_add(size);
        }
        Some(Ok(()))
    }

    /// Writes the next bytes. `None` where memory is short; some of the bytes may be written then.
    #[inline]
    pub fn write(&mut self, bytes: &[u8], gfp: Gfp<'_>) -> Option<()> {
        let write = |offset: usize, room: &mut Room<'_>| {
            let rest = bytes.get(offset..).ok_or(EINVAL)?;
            room.write(rest.get(..room.left()).ok_or(EINVAL)?)
        };
        self.fill(bytes.len(), gfp, write, |_| {})?.ok()
    }

    /// Drops all written bytes but the first `len`, if there are more.
    pub fn truncate(&mut self, len: usize) {
        // INVARIANT: Nothing more is written to the last fragment.
        self.room = 0;
        // SAFETY: `self` owns the packet, which is not shared. It becomes shorter, which needs no memory.
        unsafe { bindings::skb_truncate_frags(self.skb.as_raw(), len.min(self.len()) as u32) };
    }

    /// The packet.
    #[inline]
    pub fn finish(self) -> SkBuff {
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
