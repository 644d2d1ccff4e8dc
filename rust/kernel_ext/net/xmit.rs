// SPDX-License-Identifier: GPL-2.0

//! Sending packets with IPv4 or IPv6 headers through the IP layer: `ip_local_out`, `ip6_local_out`.
//!
//! C headers: `include/net/ip.h`, `include/net/ipv6.h`.

use super::{
    header::{Ipv4Header, Ipv6Header},
    route::{Route, Route4, Route6},
    skb::SkBuff,
};
use crate::{bindings, error::ENOBUFS};
use kernel::{error::to_result, prelude::*};

/// Converts the result of an output function.
fn sent(ret: i32) -> Result {
    const SUCCESS: i32 = bindings::NET_XMIT_SUCCESS as i32;
    // The packet was queued, with congestion.
    const CONGESTION: i32 = bindings::NET_XMIT_CN as i32;

    match ret {
        SUCCESS | CONGESTION => Ok(()),
        1.. => Err(ENOBUFS),
        _ => to_result(ret),
    }
}

/// Checks that a packet begins with a writable header of an IP version and length, and sets the network header.
fn begins_with(skb: &mut SkBuff, version: u8, len: usize) -> Result {
    skb.ensure_linear(len)?;
    if !skb.is_writable() {
        return Err(EBUSY);
    }
    if skb.data().first().map(|byte| byte >> 4) != Some(version) {
        return Err(EINVAL);
    }
    skb.set_network_header();
    Ok(())
}

/// Transmits a packet that begins with its IPv4 header; the kernel sets its length and checksum.
///
/// Any context but hard interrupts. The packet is consumed in any case.
///
/// # Errors
///
/// `EINVAL` for another or a longer header (IP options are not supported), `EBUSY` if the data is shared, `ENOBUFS` if
/// a queue was full, and errors of filters and the device.
pub fn ip4_local_out(mut skb: SkBuff, route: &Route4) -> Result {
    begins_with(&mut skb, 4, size_of::<Ipv4Header>())?;
    if skb.data().first() != Some(&Ipv4Header::VERSION_IHL) {
        return Err(EINVAL);
    }
    // SAFETY: The packet begins with its header, and the packet gets its own reference to the route.
    sent(unsafe {
        bindings::dst_hold(route.as_raw());
        bindings::ip4_send(skb.into_raw(), route.as_raw())
    })
}

/// Transmits a packet that begins with its IPv6 header; the kernel sets its length.
///
/// Any context but hard interrupts. The packet is consumed in any case.
///
/// # Errors
///
/// `EINVAL` for another header, `EBUSY` if the data is shared, `ENOBUFS` if a queue was full, and errors of filters and
/// the device.
pub fn ip6_local_out(mut skb: SkBuff, route: &Route6) -> Result {
    begins_with(&mut skb, 6, size_of::<Ipv6Header>())?;
    // SAFETY: The packet begins with its header, and the packet gets its own reference to the route.
    sent(unsafe {
        bindings::dst_hold(route.as_raw());
        bindings::ip6_send(skb.into_raw(), route.as_raw())
    })
}
