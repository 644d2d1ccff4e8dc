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
mod view;

use core::ptr::NonNull;

use kernel_ext::entry::FromC;
use rdma_bindings::ib_umem;

use dmabuf::Dmabuf;
use odp::OdpMemory;
use pin::Pinned;
pub use view::{AccessFlags, UmemView};

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

/// An argument by which C gives up a umem; `None` for null or an errno.
pub struct UmemArg(pub Option<OwnedUmem>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for UmemArg {
    type Raw = *mut ib_umem;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        let raw = kernel::error::from_err_ptr(raw).ok().and_then(NonNull::new);
        // SAFETY: By the safety requirements the memory is valid, and by the header the function takes it over.
        Self(raw.map(|raw| unsafe { OwnedUmem::from_raw(raw) }))
    }
}
