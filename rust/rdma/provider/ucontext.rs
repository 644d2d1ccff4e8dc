// SPDX-License-Identifier: GPL-2.0

//! User contexts, and the memory areas that they map: `struct ib_ucontext`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ops::Deref;

use kernel::{bindings::vm_area_struct, mm::virt::VmaNew};
use rdma_bindings::ib_ucontext;

use crate::{
    provider::{
        data::ProviderData,
        object::{Base, Object},
    },
    Device,
};

/// A process that has opened a device of `P`.
pub type Ucontext<P> = Object<ib_ucontext, P, <P as ProviderData>::Ucontext>;

/// The core's part of a user context.
pub type UcontextBase<P> = Base<ib_ucontext, P>;

impl<P: ProviderData> Base<ib_ucontext, P> {
    /// The device that is open.
    #[inline]
    pub fn device(&self) -> &Device<P> {
        // SAFETY: The core has set `device`, which outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }
}

/// An area of a process that `mmap` shall fill. Dereferences to the kernel crate's type.
#[derive(Clone, Copy)]
pub struct Vma<'a>(&'a VmaNew);

impl<'a> Vma<'a> {
    /// Borrows an area.
    ///
    /// # Safety
    ///
    /// `raw` must be an area that is being mapped during `'a`, its address space locked.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut vm_area_struct) -> Self {
        // SAFETY: By the safety requirements.
        Self(unsafe { VmaNew::from_raw(raw) })
    }

    /// The offset that the process asks for, in bytes.
    #[inline]
    pub fn offset(&self) -> u64 {
        // SAFETY: A `Vma` is an area that is being mapped, its address space locked.
        let pages = unsafe { (*self.0.as_ptr()).vm_pgoff };
        (pages as u64).wrapping_shl(kernel::page::PAGE_SHIFT as u32)
    }

    /// The length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.end().saturating_sub(self.0.start())
    }

    /// Whether the area has no length.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Deref for Vma<'_> {
    type Target = VmaNew;

    #[inline]
    fn deref(&self) -> &VmaNew {
        self.0
    }
}
