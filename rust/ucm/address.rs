// SPDX-License-Identifier: GPL-2.0

//! Addresses as programs pass them: `struct sockaddr_storage`.
//!
//! C headers: `include/uapi/linux/socket.h`, `include/rdma/ib.h`.

use rdma::{
    bindings::{self, sockaddr, sockaddr_ib, sockaddr_in, sockaddr_in6},
    core::iw::address::SockAddr,
};

/// The size of the storage in bytes.
const SIZE: usize = 128;

const _: () = assert!(SIZE == size_of::<bindings::__kernel_sockaddr_storage>());

/// An address of any family. Whatever the family is, there is room for its structure.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct SocketAddress([u8; SIZE]);

impl SocketAddress {
    /// The size of the largest address in bytes.
    pub const SIZE: usize = SIZE;

    /// The address in these bytes, of which at most [`Self::SIZE`] count; the rest is zero.
    pub fn new(bytes: &[u8]) -> Self {
        let mut storage = [0; SIZE];
        let length = bytes.len().min(SIZE);
        if let (Some(to), Some(from)) = (storage.get_mut(..length), bytes.get(..length)) {
            to.copy_from_slice(from);
        }
        Self(storage)
    }

    /// Reads an address of C. During a change the result may be mixed.
    ///
    /// # Safety
    ///
    /// `raw` is valid for reads. Others in Rust write to it by [`SockAddr::store`] alone.
    pub(crate) unsafe fn read(raw: *const bindings::__kernel_sockaddr_storage) -> Self {
        // SAFETY: By the safety requirements.
        Self(*unsafe { SockAddr::load(raw) }.as_bytes())
    }

    /// The family, `AF_*`; 0 for none.
    pub fn family(&self) -> u16 {
        let [low, high, ..] = self.0;
        u16::from_ne_bytes([low, high])
    }

    /// The size of the family's structure in bytes; 0 for a family that the connection manager does not know.
    pub fn size(&self) -> usize {
        match self.family().into() {
            bindings::AF_INET => size_of::<sockaddr_in>(),
            bindings::AF_INET6 => size_of::<sockaddr_in6>(),
            bindings::AF_IB => size_of::<sockaddr_ib>(),
            _ => 0,
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8; SIZE] {
        &self.0
    }

    /// For a call that may change it.
    pub(crate) fn as_raw(&mut self) -> *mut sockaddr {
        (&raw mut self.0).cast()
    }
}
