// SPDX-License-Identifier: GPL-2.0

//! Sending IP packets.
//!
//! C headers: `include/net/ip.h`, `include/net/ipv6.h`.

use super::{
    header::{Ipv4Header, Ipv6Header},
    route::{Route, Route4, Route6},
    skb::SkBuff,
};
use crate::{bindings, error::ENOBUFS};
use kernel::{error::to_result, prelude::*};

/// Turns what the output functions return into a result.
fn sent(ret: i32) -> Result {
    const SUCCESS: i32 = bindings::NET_XMIT_SUCCESS as i32;
    // It is queued, but there is congestion.
    const CONGESTION: i32 = bindings::NET_XMIT_CN as i32;

    match ret {
        SUCCESS | CONGESTION => Ok(()),
        1.. => Err(ENOBUFS),
        _ => to_result(ret),
    }
}

/// Checks that a packet begins with a header of an IP version and of a length that may be written, and marks it.
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

/// Sends a packet that begins with its IPv4 header; the kernel fills in length and checksum there.
///
/// Any context but hard interrupts. The packet is gone in any case.
///
/// # Errors
///
/// `EINVAL` if it begins otherwise (only headers without options are taken), `EBUSY` while its bytes are shared, `ENOBUFS`
/// if a queue was full, and what a filter or the device says.
pub fn ip4_local_out(mut skb: SkBuff, route: &Route4) -> Result {
    begins_with(&mut skb, 4, size_of::<Ipv4Header>())?;
    if skb.data().first() != Some(&Ipv4Header::VERSION_IHL) {
        return Err(EINVAL);
    }
    // SAFETY: The packet has its header, and the route gets a reference of its own.
    sent(unsafe {
        bindings::dst_hold(route.as_raw());
        bindings::ip4_send(skb.into_raw(), route.as_raw())
    })
}

/// Sends a packet that begins with its IPv6 header; the kernel fills in the length there.
///
/// Any context but hard interrupts. The packet is gone in any case.
///
/// # Errors
///
/// `EINVAL` if it begins otherwise, `EBUSY` while its bytes are shared, `ENOBUFS` if a queue was full, and what a filter or
/// the device says.
pub fn ip6_local_out(mut skb: SkBuff, route: &Route6) -> Result {
    begins_with(&mut skb, 6, size_of::<Ipv6Header>())?;
    // SAFETY: The packet has its header, and the route gets a reference of its own.
    sent(unsafe {
        bindings::dst_hold(route.as_raw());
        bindings::ip6_send(skb.into_raw(), route.as_raw())
    })
}
