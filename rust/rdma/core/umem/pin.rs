// SPDX-License-Identifier: GPL-2.0

//! Pinned memory of user space, accounted to `RLIMIT_MEMLOCK`.
//!
//! C header: `include/rdma/ib_umem.h`.

use core::{mem::ManuallyDrop, ops::Deref, ptr::NonNull};

use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    page::PAGE_SIZE,
    prelude::*,
};
use rdma_bindings::{self as bindings, ib_device, ib_umem};

use super::{AccessFlags, UmemView};
use crate::{core::Device, MaySleep};

/// How many pages are pinned at once: those whose pointers fill a page, 512.
const BATCH: usize = PAGE_SIZE / size_of::<*mut bindings::page>();

/// Whether the process may lock memory at all.
pub fn may_lock() -> bool {
    // SAFETY: It looks at the present process.
    unsafe { bindings::can_do_mlock() }
}

/// Whether the process may lock as much as it likes.
fn may_lock_all() -> bool {
    // SAFETY: It looks at the present process.
    unsafe { bindings::capable(bindings::CAP_IPC_LOCK as c_int) }
}

/// Memory of a process that is pinned, or about to be. Dropping it undoes what was done: in process context.
///
/// # Invariants
///
/// The structure is ours alone. `owning_mm` is a reference that is ours. The scatter list has pages that are pinned for us;
/// if `mapped` it is mapped. If `charged` the memory's pages are counted as the process's.
pub struct Pinned {
    raw: NonNull<ib_umem>,
    charged: bool,
    mapped: bool,
}

impl Pinned {
    /// Describes `len` bytes at `address` of the present process, of which nothing is pinned yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EFAULT` for a thread that has no memory of user space.
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
        // SAFETY: The present process has it.
        unsafe { bindings::mmgrab(mm.as_raw()) };
        // INVARIANT: It was just allocated; its list is empty.
        Ok(Self {
            raw: NonNull::from(KBox::leak(umem)),
            charged: false,
            mapped: false,
        })
    }

    /// Takes the memory over.
    ///
    /// # Safety
    ///
    /// `raw` is from [`Self::into_raw`], and the caller was its owner.
    pub(super) unsafe fn from_raw(raw: NonNull<ib_umem>) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            raw,
            charged: true,
            mapped: true,
        }
    }

    /// Hands it over to C.
    pub(super) fn into_raw(self) -> *mut ib_umem {
        ManuallyDrop::new(self).raw.as_ptr()
    }

    /// How many pages it touches.
    pub fn page_count(&self) -> usize {
        self.offset().saturating_add(self.len()).div_ceil(PAGE_SIZE)
    }

    /// Counts its pages as pinned by the process.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where that would be more than the process may lock.
    pub fn charge(&mut self) -> Result {
        let pages = self.page_count() as u64;
        // INVARIANT: Counted in the next statement; dropping takes it back.
        self.charged = true;
        // SAFETY: The reference is ours.
        let total = unsafe { bindings::mm_add_pinned((*self.raw.as_ptr()).owning_mm, pages) };
        // SAFETY: It looks at the present process.
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
    /// `EFAULT` where the process has not mapped the memory so, `EINTR`, `ENOMEM`.
    pub fn pin(&mut self, sleep: &MaySleep) -> Result {
        let mut at = self.address().wrapping_sub(self.offset());
        let mut left = self.page_count();
        let mut pages = KVec::from_elem(core::ptr::null_mut(), left.min(BATCH), GFP_KERNEL)?;
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

    /// Pins some of `left` pages from `at` on, as many as there is room for in `pages`, and appends them. How many those are.
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
        // SAFETY: There is room for `count` pages; the range is checked by the function.
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
        // SAFETY: The list is ours; the pages are pinned, and the list's from now on if it takes them.
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
        // SAFETY: The list is ours, of pages that are pinned.
        to_result(unsafe { bindings::ib_umem_map_dma(self.raw.as_ptr()) })?;
        // INVARIANT: It is mapped.
        self.mapped = true;
        Ok(())
    }

    /// Unpins the pages of the list, dirty if the device may have written to them.
    fn unpin(&mut self) {
        let dirty = self.mapped && self.is_writable();
        // SAFETY: The list is ours, of pages that are pinned, and that nobody uses any more.
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
            // SAFETY: By the type invariants it is mapped.
            unsafe { bindings::ib_umem_unmap_dma(raw) };
        }
        self.unpin();
        let pages = self.page_count() as u64;
        // SAFETY: By the type invariants the structure and the reference are ours, and the pages counted if so.
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
    /// Copies `len` bytes from `at` on out of pinned memory. How many those were.
    ///
    /// # Safety
    ///
    /// `to` has room for `len` bytes.
    pub unsafe fn copy_to(&self, to: *mut c_void, len: usize, at: usize) -> usize {
        let skip = at.saturating_add(self.offset());
        // SAFETY: By the safety requirements; the list is that of the memory.
        unsafe {
            let sgt = &(*self.as_raw()).sgt_append.sgt;
            bindings::sg_pcopy_to_buffer(sgt.sgl, sgt.orig_nents, to, len, skip as isize)
        }
    }
}

impl Device {
    /// Whether its DMA cannot reach the memory of this guest, which is encrypted.
    pub fn bounces_dma(&self) -> bool {
        // SAFETY: The member is constant once the device is registered.
        unsafe { ib_device::cc_dma_bounce_raw(self.as_raw()) != 0 }
    }
}
