// SPDX-License-Identifier: GPL-2.0

//! What all kinds of user memory have: the members of `struct ib_umem`, and the access that it permits.
//!
//! C headers: `include/rdma/ib_umem.h`, `include/rdma/ib_verbs.h`.

use kernel::{ffi::c_int, page::PAGE_SIZE};
use kernel_ext::entry::view_of;
use rdma_bindings::{self as bindings, ib_umem};

view_of! {
    /// User memory: `struct ib_umem`.
    pub struct UmemView(ib_umem);
}

/// The access that memory permits: `enum ib_access_flags`.
#[derive(Clone, Copy)]
pub struct AccessFlags(pub c_int);

impl AccessFlags {
    /// Whether all of these flags are set.
    #[inline]
    pub fn has(self, flags: bindings::ib_access_flags) -> bool {
        self.0 as u32 & flags == flags
    }

    /// Whether the device may write, for itself or a remote peer. Binding a memory window may permit that later.
    #[inline]
    pub fn is_writable(self) -> bool {
        const WRITES: u32 = bindings::IB_ACCESS_LOCAL_WRITE
            | bindings::IB_ACCESS_REMOTE_WRITE
            | bindings::IB_ACCESS_REMOTE_ATOMIC
            | bindings::IB_ACCESS_MW_BIND;
        self.0 as u32 & WRITES != 0
    }
}

impl UmemView {
    /// Reads a member that does not change.
    fn get<T>(&self, member: impl FnOnce(&ib_umem) -> T) -> T {
        // SAFETY: `self` is a valid structure, whose members are constant after its initialisation, except for
        // `iova`.
        member(unsafe { &*self.as_raw() })
    }

    /// The start: an address of the process, or the offset into a DMA buffer.
    #[inline]
    pub fn address(&self) -> usize {
        self.get(|raw| raw.address)
    }

    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.get(|raw| raw.length)
    }

    /// Whether it has no length.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The offset of the start in its page, in bytes.
    #[inline]
    pub fn offset(&self) -> usize {
        self.address() % PAGE_SIZE
    }

    /// Whether it is writable.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.get(|raw| raw.writable() != 0)
    }

    /// The page size as a shift, for memory that is paged in on demand.
    #[inline]
    pub fn odp_page_shift(&self) -> Option<u32> {
        if !self.get(|raw| raw.is_odp() != 0) {
            return None;
        }
        // SAFETY: Memory with `is_odp` is the first member of a `struct ib_umem_odp`; the shift is constant.
        Some(unsafe { (*self.as_raw().cast::<bindings::ib_umem_odp>()).page_shift })
    }

    /// Sets the I/O virtual address. A concurrent reader gets the old one or the new one.
    #[inline]
    pub fn set_iova(&self, iova: u64) {
        // SAFETY: Any value is valid, and a single store writes it.
        unsafe { (&raw mut (*self.as_raw()).iova).write_volatile(iova) };
    }
}
