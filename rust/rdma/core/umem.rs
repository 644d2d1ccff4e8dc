// SPDX-License-Identifier: GPL-2.0

//! User memory for the DMA of a device: `struct ib_umem`.
//!
//! There are three kinds. The owner of user memory has an [`OwnedUmem`]; dropping it releases the memory.
//!
//! C headers: `include/rdma/ib_umem.h`, `include/rdma/iter.h`.

pub mod dmabuf;
pub mod odp;
pub mod pin;
pub mod segments;

use core::ptr::NonNull;

use kernel::{ffi::c_int, page::PAGE_SIZE};
use kernel_ext::entry::{view_of, FromC};
use rdma_bindings::{self as bindings, ib_umem};

use dmabuf::Dmabuf;
use odp::OdpMemory;
use pin::Pinned;

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

    /// Sets the I/O virtual address. Only the owner calls it.
    #[inline]
    pub fn set_iova(&self, iova: u64) {
        // SAFETY: Any value is valid, and a single store writes it.
        unsafe { (&raw mut (*self.as_raw()).iova).write_volatile(iova) };
    }
}

/// User memory with its ownership.
pub enum OwnedUmem {
    /// Pinned.
    Pinned(Pinned),
    /// Paged in on demand.
    Odp(OdpMemory),
    /// A DMA buffer.
    Dmabuf(Dmabuf),
}

impl OwnedUmem {
    /// Takes over the memory.
    ///
    /// # Safety
    ///
    /// `raw` is from `into_raw` of one of the kinds, and the caller gives up its ownership.
    #[inline]
    unsafe fn from_raw(raw: NonNull<ib_umem>) -> Self {
        // SAFETY: The flags are constant, and select the kind, of which the structure is the first member.
        unsafe {
            if (*raw.as_ptr()).is_dmabuf() != 0 {
                Self::Dmabuf(Dmabuf::from_raw(raw.cast()))
            } else if (*raw.as_ptr()).is_odp() != 0 {
                Self::Odp(OdpMemory::from_raw(raw.cast()))
            } else {
                Self::Pinned(Pinned::from_raw(raw))
            }
        }
    }

    /// The common part of all kinds.
    #[inline]
    pub fn view(&self) -> &UmemView {
        match self {
            Self::Pinned(umem) => umem,
            Self::Odp(umem) => umem.view(),
            Self::Dmabuf(umem) => umem.view(),
        }
    }

    /// Hands the memory over to C.
    #[inline]
    pub fn into_raw(self) -> *mut ib_umem {
        match self {
            Self::Pinned(umem) => umem.into_raw(),
            Self::Odp(umem) => umem.into_raw().cast(),
            Self::Dmabuf(umem) => umem.into_raw().cast(),
        }
    }
}

/// Memory that C hands over; `None` for null or an errno.
pub struct GivenUmem(pub Option<OwnedUmem>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for GivenUmem {
    type Raw = *mut ib_umem;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        let raw = kernel::error::from_err_ptr(raw).ok().and_then(NonNull::new);
        // SAFETY: By the safety requirements the memory is valid, and by the header the function takes it over.
        Self(raw.map(|raw| unsafe { OwnedUmem::from_raw(raw) }))
    }
}
