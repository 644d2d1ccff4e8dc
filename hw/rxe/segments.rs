// SPDX-License-Identifier: GPL-2.0

//! GSO buffers: several packets in one buffer, which the device or the network stack segments (`SKB_GSO_UDP_L4`).
//!
//! The peer receives the same packets as without GSO. All except the last one have the same length: those of a large message, or
//! several small messages. So the first packet of a WRITE, which has a RETH, is at most followed by one other packet. Segmentation
//! increments the IPv4 identification, which the ICRC covers, and sets the UDP checksum, which it does not cover.

use crate::icrc::KernelCrc;
use crate::path::Path;
use crate::tx::{Packet, BELOW};
use core::num::NonZeroU16;
use kernel_ext::crc32::Start;
use kernel_ext::gfp::Gfp;
use kernel_ext::net::packet_pages::PacketPages;
use kernel_ext::net::{segments::PagedSkb, skb::MAX_SEGMENTS};
use kernel_ext::room::Room;
use roce::icrc::{self, Icrc, Prefix};
use roce::run::{Segments, Slice};
use roce::wire::{pad_len, Bth, Qpn, MAX_HEADERS};

/// The maximum length of a buffer, without the IP and UDP headers: the UDP header has it in 16 bits.
const MAX_LEN: usize = 65_000;

/// The maximum number of packets in one buffer.
pub(crate) const MAX_PACKETS: u32 = MAX_SEGMENTS as u32;

/// A buffer of at least this length is sent at the end of a message, so that the peer handles it while the next buffer is built.
const FLUSH_LEN: usize = 16_384;

/// A packet with a payload of this length or more is sent in pages also if it is alone: a new buffer would be cleared.
pub(crate) const LONG: u32 = 1024;

/// A buffer that packets are added to until it is sent.
pub(crate) struct Batch {
    buffer: PagedSkb,
    segments: Segments,
    /// The part of the headers in front of a packet of full length.
    prefix: Prefix,
    dest_qpn: Qpn,
}

impl Batch {
    /// Allocates a buffer for packets of the length of `first`, to the same QP. `expected` is the total length of the packets that
    /// are known to be added. `None` if memory is short, or the packet is too long.
    #[inline]
    pub(crate) fn new(path: &Path, first: &Slice, expected: usize) -> Option<Self> {
        let len = first.udp_payload_len();
        Some(Self {
            buffer: PagedSkb::alloc(BELOW as u16, expected.min(MAX_LEN), Gfp::ATOMIC).ok()?,
            segments: Segments::new(len),
            prefix: path.prefix(len)?,
            dest_qpn: first.headers.bth().dest_qpn,
        })
    }

    /// Whether a packet can be added.
    #[inline]
    pub(crate) fn takes(&self, next: &Slice) -> bool {
        self.segments
            .takes(next.udp_payload_len(), MAX_PACKETS, MAX_LEN)
    }

    /// Adds a packet that the buffer [takes](Self::takes); `fill` writes its payload. Returns false if memory is short.
    ///
    /// # Errors
    ///
    /// Errors of `fill`. The packet is not added then.
    #[inline]
    pub(crate) fn add<E>(
        &mut self,
        path: &Path,
        pages: &PacketPages,
        slice: &Slice,
        fill: impl FnOnce(&mut Room<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let len = slice.udp_payload_len();
        let identification = self.segments.count() as u16;
        let prefix = match len == self.segments.size() {
            true => Some(self.prefix),
            false => path.prefix(len),
        };
        let written = prefix.and_then(|prefix| {
            let prefix = prefix.identified(identification);
            self.buffer.append(len, pages, Gfp::ATOMIC, |room| {
                write(room, prefix, slice, fill)
            })
        });
        if let Some(Ok(())) = written {
            self.segments.add(len);
            if slice.headers.bth().opcode.ends() && self.buffer.len() >= FLUSH_LEN {
                self.segments.close();
            }
            return Ok(true);
        }
        self.segments.close();
        written.map_or(Ok(false), |written| written.map(|()| false))
    }

    /// The buffer, to be sent. `None` if it has no packets.
    #[inline]
    pub(crate) fn finish(self) -> Option<Packet> {
        let size = match self.segments.count() {
            0 => return None,
            1 => None,
            // At most [`MAX_LEN`].
            _ => NonZeroU16::new(self.segments.size() as u16),
        };
        Some(Packet::sealed(self.buffer.finish(), size, self.dest_qpn))
    }
}

/// Writes a packet with its ICRC; `prefix` is the part of the headers in front of it. If the payload has another length, the packet has too, and is dropped.
#[inline]
fn write<E>(
    room: &mut Room<'_>,
    prefix: Prefix,
    slice: &Slice,
    fill: impl FnOnce(&mut Room<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let bth = slice.headers.bth().bytes(slice.len);
    let state = |bth: &[u8; Bth::LEN]| {
        let icrc: Icrc<KernelCrc> = prefix.icrc(bth[icrc::CONGESTION]);
        Start::State(icrc.state())
    };
    if slice.headers.header_len() != Bth::LEN {
        room.start_sum(state(&bth));
        let mut head = [0; MAX_HEADERS];
        let len = slice.headers.write(slice.len, &mut head);
        let _ = room.write(head.get(..len).unwrap_or(&[]));
    } else if slice.len < LONG {
        room.start_sum(state(&bth));
        let _ = room.write(&bth);
    } else {
        let _ = room.write(&bth);
        room.start_sum(Start::Block(prefix.block(&bth)));
    }
    fill(room)?;
    let pad = pad_len(slice.len);
    if pad != 0 {
        let _ = room.write_zeros(pad);
    }
    if room.left() == icrc::LEN {
        let icrc = Icrc::<KernelCrc>::of_state(room.sum());
        let _ = room.write(&icrc.finish());
    }
    Ok(())
}
