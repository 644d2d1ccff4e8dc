// SPDX-License-Identifier: GPL-2.0

//! Socket addresses of iWARP connections: `struct sockaddr_storage`.
//!
//! C header: `include/uapi/linux/socket.h`.

use core::sync::atomic::{AtomicU64, Ordering};

use rdma_bindings::{self as bindings, __kernel_sockaddr_storage};

/// The size of an address in bytes.
pub const SIZE: usize = size_of::<__kernel_sockaddr_storage>();

/// The same in words.
const WORDS: usize = SIZE / size_of::<u64>();

/// An address as C and netlink have it, of any family.
#[derive(Clone, Copy)]
pub struct SockAddr([u8; SIZE]);

/// The end of a TCP connection, in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// IP version 4: `struct sockaddr_in`.
    V4 {
        /// The address.
        ip: [u8; 4],
        /// The port.
        port: [u8; 2],
    },
    /// IP version 6: `struct sockaddr_in6`.
    V6 {
        /// The address.
        ip: [u8; 16],
        /// The port.
        port: [u8; 2],
    },
}

/// The places of the parts in the bytes.
const PORT: usize = 2;
const IPV4: usize = 4;
const IPV6: usize = 8;

impl SockAddr {
    /// An address of no family.
    pub const NONE: Self = Self([0; SIZE]);

    /// The address in the bytes of an attribute.
    pub const fn from_bytes(bytes: [u8; SIZE]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; SIZE] {
        &self.0
    }

    fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        bytes.copied().unwrap_or([0; N])
    }

    /// The family: `AF_*`.
    pub fn family(&self) -> u32 {
        u16::from_ne_bytes(self.part(0)).into()
    }

    /// The end of a connection. `None` for other families than those of IP.
    pub fn endpoint(&self) -> Option<Endpoint> {
        let port = self.part(PORT);
        match self.family() {
            bindings::AF_INET => Some(Endpoint::V4 {
                ip: self.part(IPV4),
                port,
            }),
            bindings::AF_INET6 => Some(Endpoint::V6 {
                ip: self.part(IPV6),
                port,
            }),
            _ => None,
        }
    }

    /// Whether both are the same end of a connection.
    pub fn is_same_end(&self, other: &Self) -> bool {
        self.endpoint().is_some() && self.endpoint() == other.endpoint()
    }

    /// Whether the IP address is the wildcard.
    pub fn is_any(&self) -> bool {
        match self.endpoint() {
            Some(Endpoint::V4 { ip, .. }) => ip == [0; 4],
            Some(Endpoint::V6 { ip, .. }) => ip == [0; 16],
            None => false,
        }
    }

    /// The address with the IP address of another one, if that is of the same family.
    pub fn with_ip_of(mut self, other: &Self) -> Self {
        let place = match (self.endpoint(), other.endpoint()) {
            (Some(Endpoint::V4 { .. }), Some(Endpoint::V4 { .. })) => IPV4..IPV4 + 4,
            (Some(Endpoint::V6 { .. }), Some(Endpoint::V6 { .. })) => IPV6..IPV6 + 16,
            _ => return self,
        };
        if let (Some(to), Some(from)) = (self.0.get_mut(place.clone()), other.0.get(place)) {
            to.copy_from_slice(from);
        }
        self
    }

    /// The value of C.
    pub(in crate::core) fn to_raw(self) -> __kernel_sockaddr_storage {
        // SAFETY: Any bytes are a value of the structure.
        unsafe { core::mem::transmute(self.0) }
    }

    /// Copies an address of C.
    ///
    /// # Safety
    ///
    /// `raw` is valid for reads. Others in Rust write to it by [`Self::store`] alone.
    pub unsafe fn load(raw: *const __kernel_sockaddr_storage) -> Self {
        // SAFETY: By the safety requirements; the structure has the alignment of a pointer.
        let words = unsafe { &*raw.cast::<[AtomicU64; WORDS]>() };
        let words = words.each_ref().map(|word| word.load(Ordering::Relaxed));
        // SAFETY: Both have the same size, and any bytes are a value.
        Self(unsafe { core::mem::transmute::<[u64; WORDS], [u8; SIZE]>(words) })
    }

    /// Writes an address to C. Who reads it meanwhile may get a mixture.
    ///
    /// # Safety
    ///
    /// `raw` is valid for reads and writes. Others in Rust access it by [`Self::load`] and this function alone.
    pub unsafe fn store(&self, raw: *mut __kernel_sockaddr_storage) {
        // SAFETY: By the safety requirements; the structure has the alignment of a pointer.
        let words = unsafe { &*raw.cast::<[AtomicU64; WORDS]>() };
        // SAFETY: Both have the same size, and any bytes are a value.
        let values = unsafe { core::mem::transmute::<[u8; SIZE], [u64; WORDS]>(self.0) };
        for (to, from) in words.iter().zip(values) {
            to.store(from, Ordering::Relaxed);
        }
    }
}
