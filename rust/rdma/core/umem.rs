// SPDX-License-Identifier: GPL-2.0

//! Memory of user space, as devices are given it: `struct ib_umem`.
//!
//! It comes in three kinds, and who owns one has an [`OwnedUmem`]: dropping it releases the memory.
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
    /// Memory of user space.
    pub struct UmemView(ib_umem);
}

/// What may be done with memory: `enum ib_access_flags`.
#[derive(Clone, Copy)]
pub struct AccessFlags(pub c_int);

impl AccessFlags {
    /// Whether all of these are wanted.
    #[inline]
    pub fn has(self, flags: bindings::ib_access_flags) -> bool {
        self.0 as u32 & flags == flags
    }

    /// Whether the device, or somebody through it, may write. Binding a window may allow that later.
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
        // SAFETY: The structure is there, and its members do not change once it is set up but `iova`, by `set_iova`.
        member(unsafe { &*self.as_raw() })
    }

    /// Where it begins: an address of the process, or the offset into a DMA buffer.
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

    /// How far into its page it begins, in bytes.
    #[inline]
    pub fn offset(&self) -> usize {
        self.address() % PAGE_SIZE
    }

    /// Whether it may be written to.
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
        // SAFETY: Such memory is the first member of a `struct ib_umem_odp`; the shift is constant.
        Some(unsafe { (*self.as_raw().cast::<bindings::ib_umem_odp>()).page_shift })
    }

    /// Says at which address the device will see it. The owner alone does that.
    #[inline]
    pub fn set_iova(&self, iova: u64) {
        // SAFETY: Any value is valid, and it is written whole.
        unsafe { (&raw mut (*self.as_raw()).iova).write_volatile(iova) };
    }
}

/// Memory of user space, as its owner has it.
pub enum OwnedUmem {
    /// Pinned.
    Pinned(Pinned),
    /// Paged in on demand.
    Odp(OdpMemory),
    /// A DMA buffer.
    Dmabuf(Dmabuf),
}

impl OwnedUmem {
    /// Takes the memory over.
    ///
    /// # Safety
    ///
    /// `raw` is memory that `into_raw` of one of the kinds returned, and the caller was its owner.
    #[inline]
    unsafe fn from_raw(raw: NonNull<ib_umem>) -> Self {
        // SAFETY: The flags are constant, and say which kind it is, of which the structure is the first member.
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

    /// What all kinds have.
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

/// Memory that C hands over: it may be null or an errno, which is nothing.
pub struct GivenUmem(pub Option<OwnedUmem>);

// SAFETY: The owner passes its memory.
unsafe impl FromC for GivenUmem {
    type Raw = *mut ib_umem;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        let raw = kernel::error::from_err_ptr(raw).ok().and_then(NonNull::new);
        // SAFETY: By the safety requirements, and the header says that the function takes the memory over.
        Self(raw.map(|raw| unsafe { OwnedUmem::from_raw(raw) }))
    }
}
