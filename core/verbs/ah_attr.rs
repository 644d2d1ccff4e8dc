// SPDX-License-Identifier: GPL-2.0

//! Address vectors: copying them with the reference to their source entry, and the GIDs in packet headers.
//!
//! Any context.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{bindings as c, entry::Out, export::export};
use rdma::{
    core::{
        ah_attr::{AhAttrOut, AhVector, Route},
        gid::{GidArgument, GidRef},
        network_header::NetworkHeader,
    },
    Gid,
};

/// Copies an address vector to uninitialised memory; the copy has its own reference.
#[export]
fn rdma_copy_ah_attr(to: AhAttrOut<'_>, from: &AhVector) {
    to.set(from.clone());
}

/// Replaces an address vector by a copy of another one; the old one is released.
#[export]
fn rdma_replace_ah_attr(old: &mut AhVector, new: &AhVector) {
    *old = new.clone();
}

/// Replaces an address vector by another one, which loses its source entry; the old one is released.
#[export]
fn rdma_move_ah_attr(to: &mut AhVector, from: &mut AhVector) {
    *to = from.take();
}

/// Releases the source entry of an address vector, if it has one.
#[export]
fn rdma_destroy_ah_attr(vector: &mut AhVector) {
    drop(vector.take_sgid());
}

/// Sets the GRH of an address vector, and takes over the caller's reference to the source entry.
#[export]
fn rdma_move_grh_sgid_attr(
    vector: &mut AhVector,
    dgid: GidArgument,
    flow_label: u32,
    hop_limit: u8,
    traffic_class: u8,
    sgid: GidRef,
) {
    let route = Route {
        dgid: dgid.0,
        flow_label,
        hop_limit,
        traffic_class,
    };
    vector.set_route(&route, sgid);
}

/// The length of an IPv4 header without options, in 32-bit words.
const IPV4_WORDS: u8 = 5;

/// The one's complement sum of an IPv4 header (RFC 1071).
pub(crate) fn ones_sum(header: &[u8; 20]) -> u16 {
    let words = header.chunks_exact(2).map(|word| match *word {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        _ => 0,
    });
    let sum = words.fold(0u32, u32::wrapping_add);
    let folded = (sum & 0xffff).wrapping_add(sum >> 16);
    (folded & 0xffff).wrapping_add(folded >> 16) as u16
}

/// Whether an IPv4 header's checksum is correct: the sum is all ones.
fn checksum_is_right(header: &[u8; 20]) -> bool {
    ones_sum(header) == 0xffff
}

/// Returns the IP version of the header in front of a datagram, 4 or 6; 0 if it is neither.
///
/// The header has 40 bytes: an IPv6 header (or a GRH, which has the same form), or 20 undefined bytes and an IPv4
/// header. So a header that looks like version 6 may still be IPv4, which its checksum shows.
#[export]
fn ib_get_rdma_header_version(header: NetworkHeader) -> c_int {
    version(&header)
}

/// As `ib_get_rdma_header_version`.
pub(crate) fn version(header: &NetworkHeader) -> c_int {
    let ipv4 = header.ipv4();
    let (v4, words) = (ipv4[0] >> 4, ipv4[0] & 0xf);
    match header.bytes()[0] >> 4 {
        6 if words == IPV4_WORDS && checksum_is_right(ipv4) => 4,
        6 => 6,
        _ if v4 == 4 => 4,
        _ => 0,
    }
}

/// Returns the source and destination GID in the header in front of a datagram, by `enum rdma_network_type`.
///
/// # Errors
///
/// `EINVAL` for an invalid network type.
pub(crate) fn gids(header: &NetworkHeader, network: u32) -> Result<(Gid, Gid)> {
    match network {
        c::RDMA_NETWORK_IPV4 => {
            let [.., a, b, c, d, e, f, g, h] = *header.ipv4();
            Ok((Gid::from_ipv4([a, b, c, d]), Gid::from_ipv4([e, f, g, h])))
        }
        c::RDMA_NETWORK_IPV6 | c::RDMA_NETWORK_IB | c::RDMA_NETWORK_ROCE_V1 => Ok(header.gids()),
        _ => Err(EINVAL),
    }
}

/// Returns the source and destination GID in the header in front of a datagram.
///
/// # Errors
///
/// `EINVAL` for an invalid network type, or a null pointer.
#[export]
fn ib_get_gids_from_rdma_hdr(
    header: NetworkHeader,
    network: c::rdma_network_type,
    source: Option<Out<'_, c::ib_gid>>,
    destination: Option<Out<'_, c::ib_gid>>,
) -> Result {
    let (source, destination) = source.zip(destination).ok_or(EINVAL)?;
    let (from, to) = gids(&header, network)?;
    source.set(c::ib_gid { raw: from.0 });
    destination.set(c::ib_gid { raw: to.0 });
    Ok(())
}
