// SPDX-License-Identifier: GPL-2.0

//! Transmitting packets: from headers and payload to the IP stack (annex A17 of IBTA volume 1).
//!
//! A packet is one linear buffer: room for the link-layer header, IP, UDP, the headers of [`roce::wire`], the payload
//! (copied once), pad bytes and ICRC. It is sent by the IP stack of the net device's namespace. A packet to a GID of
//! the same device is added to the [backlog](crate::backlog) of its QP, without ICRC.
//!
//! Packets that have the same length are sent in [one buffer](crate::segments).

use crate::counters::{Counter, Counters};
use crate::flight::{Flight, Waiter};
use crate::icrc;
use crate::path::Path;
use crate::port_id::PortId;
use crate::route::Route;
use core::num::NonZeroU16;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::error::ENOBUFS;
use kernel_ext::gfp::Gfp;
use kernel_ext::net::header::{Ipv6Header, UdpHeader};
use kernel_ext::net::skb::SkBuff;
use kernel_ext::net::xmit::{ip4_local_out, ip6_local_out};
use kernel_ext::room::Room;
use roce::icrc::LEN as ICRC_LEN;
use roce::wire::{pad_len, Headers, Qpn, MAX_HEADERS};

/// Room for the link-layer header; for a device that needs more, the packet is reallocated. With more, a packet of 256 bytes, such as
/// a MAD, would not fit into the small heads that the network stack has a cache for.
const LINK_ROOM: usize = 48;

/// Room for all headers below the transport's.
pub(crate) const BELOW: usize = LINK_ROOM + size_of::<Ipv6Header>() + size_of::<UdpHeader>();

/// A packet without IP and UDP headers, or several of them that are sent as one buffer.
pub(crate) struct Packet {
    /// `None` where memory was short.
    skb: Option<SkBuff>,
    dest_qpn: Qpn,
    /// Whether it has its ICRC.
    sealed: bool,
    /// The length of each of several packets.
    segment: Option<NonZeroU16>,
}

impl Packet {
    /// Makes a packet of `headers` and `len` bytes, which `fill` writes.
    ///
    /// # Errors
    ///
    /// Errors of `fill`. If memory is short the packet is lost.
    #[inline]
    pub(crate) fn build<E>(
        headers: &Headers,
        len: u32,
        fill: impl FnOnce(&mut Room<'_>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let pad = pad_len(len);
        let mut head = [0; MAX_HEADERS];
        let head_len = headers.write(len, &mut head);
        let total = head_len + len as usize + pad + ICRC_LEN;
        let dest_qpn = headers.bth().dest_qpn;
        let lost = Self {
            skb: None,
            dest_qpn,
            sealed: false,
            segment: None,
        };
        let Ok(mut skb) = SkBuff::alloc(BELOW, total, Gfp::ATOMIC) else {
            return Ok(lost);
        };
        let filled = skb.append(total, |room| {
            // If a part does not fit, the length is wrong below, and the packet is dropped.
            let _ = room.write(head.get(..head_len).unwrap_or(&[]));
            fill(room)?;
            let _ = room.write_zeros(pad + ICRC_LEN);
            Ok(())
        });
        filled.unwrap_or(Ok(()))?;
        if skb.len() != total {
            return Ok(lost);
        }
        Ok(Self {
            skb: Some(skb),
            dest_qpn,
            sealed: false,
            segment: None,
        })
    }

    /// A packet that has its ICRC, or several of them in one buffer, of `segment` bytes each, but for the last one, which may be
    /// shorter. They are for a queue pair.
    #[inline]
    pub(crate) fn sealed(skb: SkBuff, segment: Option<NonZeroU16>, dest_qpn: Qpn) -> Self {
        Self {
            skb: Some(skb),
            dest_qpn,
            sealed: true,
            segment,
        }
    }

    /// Sends the packet, and counts it in `flight`; loopback packets are passed to `loop_back`.
    ///
    /// If that fails, the packet is lost.
    pub(crate) fn send<W: Waiter>(
        self,
        path: &mut Path,
        flight: &Arc<Flight<W>>,
        counters: &Counters,
        loop_back: impl FnOnce(PortId, u32, SkBuff),
    ) {
        let sent = self.try_send(path, flight, loop_back);
        match sent {
            Ok((packets, bytes)) => counters.sent(packets.into(), bytes as u64),
            Err(_) => counters.add(Counter::SendError, 1),
        }
    }

    /// Returns the number of packets, and their length from their IP headers on.
    fn try_send<W: Waiter>(
        self,
        path: &mut Path,
        flight: &Arc<Flight<W>>,
        loop_back: impl FnOnce(PortId, u32, SkBuff),
    ) -> Result<(u32, usize)> {
        let mut skb = self.skb.ok_or(ENOMEM)?;
        let loops_back = path.loops_back();
        // An unfragmented packet needs no identification (RFC 6864).
        let network = path.network(skb.len(), 0).ok_or(ENOBUFS)?;
        if !loops_back && !self.sealed {
            let prefix = path.prefix(skb.len()).ok_or(ENOBUFS)?;
            icrc::seal(&mut skb, prefix).ok_or(ENOBUFS)?;
        }
        network.push(&mut skb).ok_or(ENOBUFS)?;
        if let Some(size) = self.segment {
            skb.segment_udp(size)?;
        }
        let packets = skb.segments();
        let more = network.len().saturating_mul(packets.saturating_sub(1));
        let sent = (packets as u32, skb.len().saturating_add(more));
        skb.set_owner(flight.clone())?;
        flight.count_sent(sent.0, !loops_back);
        if loops_back {
            loop_back(path.port(), self.dest_qpn.get(), skb);
            return Ok(sent);
        }
        skb.set_priority(path.priority());
        match path.find_route()? {
            Route::V4(route) => ip4_local_out(skb, route)?,
            Route::V6(route) => ip6_local_out(skb, route)?,
        }
        Ok(sent)
    }
}
