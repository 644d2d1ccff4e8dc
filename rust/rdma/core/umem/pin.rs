// SPDX-License-Identifier: GPL-2.0

//! Pinned user memory, accounted to `RLIMIT_MEMLOCK`.
//!
//! C header: `include/rdma/ib_umem.h`.

use core::{mem::ManuallyDrop, ops::Deref, ptr::NonNull};

use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    page::PAGE_SIZE,
    prelude::*,
};
use kernel_ext::zeroed::zeroed;
use rdma_bindings::{self as bindings, ib_umem};

use super::view::{AccessFlags, UmemView};
use crate::{core::Device, MaySleep};

/// The number of pages that are pinned at once: as many pointers as fit into a page, 512.
const BATCH: usize = PAGE_SIZE / size_of::<*mut bindings::page>();

/// Whether the current process may lock memory at all.
pub fn may_lock() -> bool {
    // SAFETY: The function reads the current process.
    unsafe { bindings::can_do_mlock() }
}

/// Whether the current process may lock memory without a limit.
fn may_lock_all() -> bool {
    // SAFETY: The function reads the current process.
    unsafe { bindings::capable(bindings::CAP_IPC_LOCK as c_int) }
}

/// Memory of a process that is pinned, or about to be. Dropping it reverts all steps, in process context.
///
/// # Invariants
///
/// `self` owns the structure, and a reference to `owning_mm`. The scatter list has pages that are pinned for it, and is
/// mapped for DMA if `mapped`. If `charged` the pages are counted in `pinned_vm` of `owning_mm`.
pub struct Pinned {
    raw: NonNull<ib_umem>,
    charged: bool,
    mapped: bool,
}

impl Pinned {
    /// Describes `len` bytes at `address` of the current process, without pinning them.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EFAULT` for a kernel thread, which has no `mm`.
    pub fn new(
        device: &Device,
        address: usize,
        len: usize,
        access: AccessFlags,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        let task = kernel::current!();
        let mm = task.mm().ok_or(EFAULT)?;
        let mut umem = KBox::new(ib_umem::zeroed(), GFP_KERNEL)?;
        umem.ibdev = device.as_raw();
        umem.length = len;
        umem.address = address;
        umem.iova = address as u64;
        umem.set_writable(access.is_writable().into());
        umem.owning_mm = mm.as_raw();
        umem.dma_attrs = usize::try_from(bindings::DMA_ATTR_REQUIRE_COHERENT)?;
        if access.has(bindings::IB_ACCESS_RELAXED_ORDERING) {
            umem.dma_attrs |= usize::try_from(bindings::DMA_ATTR_WEAK_ORDERING)?;
        }
        // SAFETY: `mm` is that of the current process, and so valid.
        unsafe { bindings::mmgrab(mm.as_raw()) };
        // INVARIANT: The structure was just allocated, and its list is empty.
        Ok(Self {
            raw: NonNull::from(KBox::leak(umem)),
            charged: false,
            mapped: false,
        })
    }

    /// Takes over the memory.
    ///
    /// # Safety
    ///
    /// `raw` is from [`Self::into_raw`], and the caller gives up its ownership.
    pub(super) unsafe fn from_raw(raw: NonNull<ib_umem>) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            raw,
            charged: true,
            mapped: true,
        }
    }

    /// Hands the memory over to C.
    pub(super) fn into_raw(self) -> *mut ib_umem {
        ManuallyDrop::new(self).raw.as_ptr()
    }

    /// The number of pages that the memory touches.
    pub fn page_count(&self) -> usize {
        self.offset().saturating_add(self.len()).div_ceil(PAGE_SIZE)
    }

    /// Adds the pages to the process's pinned pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where that exceeds `RLIMIT_MEMLOCK`.
    pub fn charge(&mut self) -> Result {
        let pages = self.page_count() as u64;
        // INVARIANT: The next statement counts the pages; dropping reverts it.
        self.charged = true;
        // SAFETY: By the type invariants `self` owns the reference.
        let total = unsafe { bindings::mm_add_pinned((*self.raw.as_ptr()).owning_mm, pages) };
        // SAFETY: The function reads the current process.
        let limit = unsafe { bindings::rdma_memlock_limit() } as u64;
        if total > limit && !may_lock_all() {
            return Err(ENOMEM);
        }
        Ok(())
    }

    /// Pins all pages.
    ///
    /// # Errors
    ///
    /// `EFAULT` where the process has not mapped the memory with this access, `EINTR`, `ENOMEM`.
    pub fn pin(&mut self, sleep: &MaySleep) -> Result {
        let mut at = self.address().wrapping_sub(self.offset());
        let mut left = self.page_count();
        let mut pages: KVec<*mut bindings::page> = zeroed(left.min(BATCH), GFP_KERNEL)?;
        while left != 0 {
            let pinned = self.pin_batch(at, left, &mut pages, sleep)?;
            if pinned == 0 {
                return Err(EFAULT);
            }
            at = at.wrapping_add(pinned.wrapping_mul(PAGE_SIZE));
            left = left.saturating_sub(pinned);
        }
        Ok(())
    }

    /// Pins up to `left` pages at `at`, as many as fit into `pages`, and appends them to the list. Returns their number.
    fn pin_batch(
        &mut self,
        at: usize,
        left: usize,
        pages: &mut [*mut bindings::page],
        _sleep: &MaySleep,
    ) -> Result<usize> {
        let write = if self.is_writable() {
            bindings::FOLL_WRITE
        } else {
            0
        };
        let flags = bindings::FOLL_LONGTERM | write;
        let count = left.min(pages.len()) as c_int;
        // SAFETY: `pages` has room for `count` pages; the function checks the range.
        let pinned = unsafe {
            bindings::rdma_cond_resched();
            bindings::pin_user_pages_fast(at, count, flags, pages.as_mut_ptr())
        };
        if pinned < 0 {
            return Err(Error::from_errno(pinned));
        }
        let done = pinned as usize;
        let more = u32::try_from(left.saturating_sub(done)).map_err(|_| EINVAL)?;
        let raw = self.raw.as_ptr();
        // SAFETY: By the type invariants `self` owns the list. The pages are pinned, and belong to the list if the function
        // succeeds.
        unsafe {
            let appended = to_result(bindings::sg_alloc_append_table_from_pages(
                &raw mut (*raw).sgt_append,
                pages.as_mut_ptr(),
                pinned as u32,
                0,
                done * PAGE_SIZE,
                bindings::ib_dma_max_seg_size((*raw).ibdev),
                more,
                bindings::GFP_KERNEL,
            ));
            if appended.is_err() {
                bindings::unpin_user_pages_dirty_lock(pages.as_mut_ptr(), done, false);
            }
            appended.map(|()| done)
        }
    }

    /// Maps the pages for the device.
    ///
    /// # Errors
    ///
    /// Those of the DMA layer.
    pub fn map(&mut self, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants `self` owns the list, whose pages are pinned.
        to_result(unsafe { bindings::ib_umem_map_dma(self.raw.as_ptr()) })?;
        // INVARIANT: The list was just mapped.
        self.mapped = true;
        Ok(())
    }

    /// Unpins the pages of the list, and marks them dirty if the device may have written to them.
    fn unpin(&mut self) {
        let dirty = self.mapped && self.is_writable();
        // SAFETY: By the type invariants `self` owns the list, whose pages are pinned, and which is not mapped any more.
        unsafe {
            let table = &raw mut (*self.raw.as_ptr()).sgt_append;
            let mut sg = (*table).sgt.sgl;
            for _ in 0..(*table).sgt.orig_nents {
                let pages = ((*sg).length as usize).div_ceil(PAGE_SIZE);
                bindings::unpin_user_page_range_dirty_lock(
                    bindings::rdma_sg_page(sg),
                    pages,
                    dirty,
                );
                bindings::rdma_cond_resched();
                sg = bindings::sg_next(sg);
            }
            bindings::sg_free_append_table(table);
        }
    }
}

impl Deref for Pinned {
    type Target = UmemView;

    #[inline]
    fn deref(&self) -> &UmemView {
        // SAFETY: By the type invariants; a view is a transparent wrapper.
        unsafe { self.raw.cast().as_ref() }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let raw = self.raw.as_ptr();
        if self.mapped {
            // SAFETY: By the type invariants the list is mapped.
            unsafe { bindings::ib_umem_unmap_dma(raw) };
        }
        self.unpin();
        let pages = self.page_count() as u64;
        // SAFETY: By the type invariants `self` owns the structure and the reference, and the pages are counted if `charged`.
        unsafe {
            let mm = (*raw).owning_mm;
            if self.charged {
                bindings::mm_sub_pinned(mm, pages);
            }
            bindings::mmdrop(mm);
            drop(KBox::from_raw(raw));
        }
    }
}

impl UmemView {
    /// Copies `len` bytes at the offset `at` of pinned memory, and returns the number of copied bytes.
    ///
    /// # Safety
    ///
    /// `to` is valid for writes of `len` bytes.
    pub unsafe fn copy_to(&self, to: *mut c_void, len: usize, at: usize) -> usize {
        let skip = at.saturating_add(self.offset());
        // SAFETY: By the safety requirements; the scatter list belongs to `self`.
        unsafe {
            let sgt = &(*self.as_raw()).sgt_append.sgt;
            bindings::sg_pcopy_to_buffer(sgt.sgl, sgt.orig_nents, to, len, skip as isize)
        }
    }
}
