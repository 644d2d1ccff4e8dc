// SPDX-License-Identifier: GPL-2.0

//! The header in front of a received datagram: `union rdma_network_hdr`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel_ext::entry::FromC;
use rdma_bindings::rdma_network_hdr;

use crate::Gid;

/// The 40 bytes in front of a received datagram: a GRH, an IPv6 header, or 20 bytes of anything and an IPv4 header.
///
/// User space may change the memory concurrently, so it is read once.
#[derive(Clone, Copy)]
pub struct NetworkHeader([u8; 40]);

impl NetworkHeader {
    /// Wraps the bytes.
    #[inline]
    pub fn new(bytes: [u8; 40]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8; 40] {
        &self.0
    }

    /// The bytes of the IPv4 header, if it is one.
    #[inline]
    pub fn ipv4(&self) -> &[u8; 20] {
        let (_, header) = self.0.split_at(20);
        // The two halves of 40 bytes.
        header.first_chunk().unwrap_or(&[0; 20])
    }

    /// The source and the destination of a GRH or an IPv6 header.
    #[inline]
    pub fn gids(&self) -> (Gid, Gid) {
        let [_, _, _, _, _, _, _, _, gids @ ..] = &self.0;
        let (source, destination) = gids.split_at(16);
        let gid = |bytes: &[u8]| Gid(*bytes.first_chunk().unwrap_or(&[0; 16]));
        (gid(source), gid(destination))
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for NetworkHeader {
    type Raw = *const rdma_network_hdr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the header is valid, and it has 40 bytes.
        Self::new(unsafe { raw.cast::<[u8; 40]>().read_volatile() })
    }
}

const _: () = assert!(size_of::<rdma_network_hdr>() == 40);
