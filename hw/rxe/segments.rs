// SPDX-License-Identifier: GPL-2.0

//! Several packets of a run in one buffer, which crosses the network stack once, and is cut into packets by the device, or by the
//! stack in front of it (UDP segmentation offload, `SKB_GSO_UDP_L4`). A peer gets the packets that it would get one by one.
//!
//! All of them but the last one have the same length, so the first packet of a WRITE, which has a RETH, goes by itself. Whoever
//! cuts the buffer counts up the identification of IPv4, which the ICRC covers, and sets the UDP checksum, which it does not.

use crate::path::Path;
use crate::tx::{Packet, BELOW};
use core::num::NonZeroU16;
use kernel::prelude::*;
use kernel_ext::gfp::Gfp;
use kernel_ext::net::{segments::PagedSkb, skb::MAX_SEGMENTS};
use kernel_ext::room::Room;
use roce::icrc;
use roce::run::{PacketRun, Segments, Slice};
use roce::wire::{pad_len, MAX_HEADERS};

/// Most bytes in one buffer: as many as a UDP header can tell of, with the headers of IP and UDP.
const LONGEST: u32 = 65_000;

/// Most packets of a run that are sent at a time.
pub(crate) const MOST: u32 = MAX_SEGMENTS as u32;

/// Makes a buffer of the packets of a run from the one at `index` on that it has room for, or of that one alone; returns it, and how
/// many packets it has. `fill` writes payload: from an offset in the run's on, and so many bytes.
///
/// # Errors
///
/// Errors of `fill`. If memory is short the packets are lost.
#[inline]
pub(crate) fn build<E>(
    path: Option<&Path>,
    run: &PacketRun,
    index: u32,
    mut fill: impl FnMut(u32, u32, &mut Room<'_>) -> Result<(), E>,
) -> Result<(Packet, u32), E> {
    let path = path.filter(|path| run.count() > 1 && !path.loops_back());
    if let Some(path) = path {
        let segments = run.segments(index, MOST, LONGEST);
        if segments.count > 1 {
            let packet = together(path, run, segments, &mut fill)?;
            return Ok((packet, segments.count));
        }
    }
    let Slice {
        headers,
        offset,
        len,
    } = run.slice(index);
    let packet = Packet::build(&headers, len, |room| fill(offset, len, room))?;
    Ok((packet, 1))
}

/// Makes a buffer of two or more packets of a run.
fn together<E>(
    path: &Path,
    run: &PacketRun,
    segments: Segments,
    fill: &mut impl FnMut(u32, u32, &mut Room<'_>) -> Result<(), E>,
) -> Result<Packet, E> {
    let dest_qpn = run.packet().bth().dest_qpn;
    // Neither is more than `LONGEST`.
    let (size, total) = (segments.size as u16, segments.total as u16);
    let packet = |skb| Packet::segments(skb, NonZeroU16::new(size), dest_qpn);
    let Ok(mut buffer) = PagedSkb::alloc(BELOW as u16, total, Gfp::ATOMIC) else {
        return Ok(packet(None));
    };
    for index in 0..segments.count {
        let slice = run.slice(segments.first.saturating_add(index));
        match add(path, &mut buffer, &slice, index as u16, fill) {
            Some(added) => added?,
            None => return Ok(packet(None)),
        }
    }
    Ok(packet(buffer.finish()))
}

/// Adds a packet to a buffer: the one with this identification. `None` where there is no room.
fn add<E>(
    path: &Path,
    buffer: &mut PagedSkb,
    slice: &Slice,
    identification: u16,
    fill: &mut impl FnMut(u32, u32, &mut Room<'_>) -> Result<(), E>,
) -> Option<Result<(), E>> {
    let mut head = [0; MAX_HEADERS];
    let head_len = slice.headers.write(slice.len, &mut head);
    let head = head.get(..head_len)?;
    let (bth, extensions) = head.split_first_chunk()?;
    let network = path.network(slice.udp_payload_len(), identification)?;
    let mut sum = network.icrc(bth)?;
    sum.update(extensions);
    buffer.write(head)?;
    let payload = |at: usize, room: &mut Room<'_>| {
        fill(
            slice.offset.saturating_add(at as u32),
            room.left() as u32,
            room,
        )
    };
    if let Err(error) = buffer.fill(slice.len as usize, payload, |bytes| sum.update(bytes))? {
        return Some(Err(error));
    }
    let pad = [0; 3];
    let pad = pad.get(..pad_len(slice.len))?;
    sum.update(pad);
    buffer.write(pad)?;
    let sum: [u8; icrc::LEN] = sum.finish();
    buffer.write(&sum).map(Ok)
}
