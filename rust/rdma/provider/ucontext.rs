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

/// A user context of a device of `P`: a process that has opened the device.
pub type Ucontext<P> = Object<ib_ucontext, P, <P as ProviderData>::Ucontext>;

/// The core's part of a user context.
pub type UcontextBase<P> = Base<ib_ucontext, P>;

impl<P: ProviderData> Base<ib_ucontext, P> {
    /// The device of the context.
    #[inline]
    pub fn device(&self) -> &Device<P> {
        // SAFETY: The core has set `device`, which outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }
}

/// A memory area of a process that `mmap` is to map. It dereferences to the kernel crate's type.
#[derive(Clone, Copy)]
pub struct Vma<'a>(&'a VmaNew);

impl<'a> Vma<'a> {
    /// Borrows an area.
    ///
    /// # Safety
    ///
    /// `raw` must be an area that is being mapped during `'a`, with its address space locked.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut vm_area_struct) -> Self {
        // SAFETY: By the safety requirements.
        Self(unsafe { VmaNew::from_raw(raw) })
    }

    /// The requested offset in bytes.
    #[inline]
    pub fn offset(&self) -> u64 {
        // SAFETY: By the safety requirements of `from_raw` the area is being mapped, and its
        // address space is locked.
        let pages = unsafe { (*self.0.as_ptr()).vm_pgoff };
        (pages as u64).wrapping_shl(kernel::page::PAGE_SHIFT as u32)
    }

    /// The length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.end().saturating_sub(self.0.start())
    }

    /// Whether the length is 0.
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
