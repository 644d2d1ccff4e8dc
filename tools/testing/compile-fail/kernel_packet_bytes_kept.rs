// SPDX-License-Identifier: GPL-2.0
// error: borrowed data escapes outside of closure

//! Bytes of a packet that outlive it.

use kernel_ext::net::skb::SkBuff;
use kernel_ext::shared_bytes::SharedBytes;

/// Keeps a piece.
pub fn keep(packet: SkBuff) -> Option<SharedBytes<'static>> {
    let mut kept = None;
    packet
        .for_each_piece(0, packet.len(), |bytes| kept = Some(bytes))
        .ok()?;
    kept
}
