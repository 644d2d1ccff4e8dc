// SPDX-License-Identifier: GPL-2.0

//! Pinned user memory: `struct ib_umem`.
//!
//! C header: `include/rdma/ib_umem.h`.

use core::ptr::NonNull;

use kernel::{
    alloc::KVVec,
    error::{from_err_ptr, to_result},
    page::{BorrowedPage, PAGE_SIZE},
    prelude::*,
};
use kernel_ext::{room::Room, shared_bytes::SharedBytes};
use rdma_bindings::{self as bindings, ib_umem};

use crate::{provider::mr::VirtAtomic, Access, Device, MaySleep};

/// A range of a process's memory that is pinned until the value is dropped.
///
/// The process may write to the memory at any time. So it is only copied by calls that the compiler
/// can neither repeat nor omit, or accessed by atomic operations.
///
/// Dropping it sleeps, and needs the device. So the data of an MR keeps it in a place from which
/// `dereg_mr` can remove it after all concurrent copies have ended: in an `Option` under a lock, or
/// in a `Revocable`.
///
/// # Invariants
///
/// `pages` are the kernel addresses of the pinned pages, in order. The range begins at `offset` in
/// the first page, and ends in the last.
pub struct Umem {
    raw: NonNull<ib_umem>,
    pages: KVVec<*mut u8>,
    offset: usize,
    len: usize,
    writable: bool,
}

// SAFETY: Pinned memory may be used, and released, from any thread.
unsafe impl Send for Umem {}
// SAFETY: Pinned memory may be used, and released, from any thread; concurrent accesses to the same
// bytes are copies that tolerate changes, or atomic.
unsafe impl Sync for Umem {}

impl Umem {
    /// Pins `len` bytes at `addr` of the current process.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that is empty or beyond the address space, `EFAULT` for memory that is
    /// not mapped with this access, `EPERM` or `ENOMEM` if the process may not pin so much,
    /// `ENOMEM`.
    pub fn new<P>(
        dev: &Device<P>,
        addr: u64,
        len: u64,
        access: Access,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let (addr, len) = (usize::try_from(addr)?, usize::try_from(len)?);
        let access = access.bits() as i32;
        // SAFETY: `dev` is a valid device; the core checks the range.
        let raw = unsafe { bindings::ib_umem_get_va(dev.as_raw(), addr, len, access) };
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(EINVAL)?;
        // SAFETY: The memory is pinned.
        let writable = unsafe { bindings::ib_umem_writable(raw.as_ptr()) };
        // From here on, dropping `this` releases the memory.
        let mut this = Self {
            raw,
            pages: KVVec::new(),
            offset: addr % PAGE_SIZE,
            len,
            writable,
        };
        this.find_pages(sleep)?;
        Ok(this)
    }

    /// Fills in the addresses of the pages.
    fn find_pages(&mut self, _sleep: &MaySleep) -> Result {
        let count = self
            .offset
            .checked_add(self.len)
            .ok_or(EINVAL)?
            .div_ceil(PAGE_SIZE);
        let mut pages = KVVec::with_capacity(count, GFP_KERNEL)?;
        // SAFETY: The memory is pinned; the vector has room for `count` addresses, and the function
        // initialises as many as it returns.
        unsafe {
            let to = pages.spare_capacity_mut().as_mut_ptr().cast();
            let found = bindings::ib_umem_page_addresses(self.raw.as_ptr(), to, count);
            pages.inc_len(found.min(count));
        }
        if pages.len() != count {
            return Err(EINVAL);
        }
        self.pages = pages;
        Ok(())
    }

    /// The length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The offset of the range in its first page, in bytes.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Whether the memory is writable.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The number of pages that the range touches.
    #[inline]
    pub fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// A page, for packets that refer to it instead of a copy.
    pub fn page(&self, index: usize) -> Option<BorrowedPage<'_>> {
        let address = *self.pages.get(index)?;
        // SAFETY: By the type invariants the address is in the kernel's direct map.
        let page = NonNull::new(unsafe { bindings::rdma_virt_to_page(address.cast()) })?;
        // SAFETY: The page is pinned as long as `self`.
        Some(unsafe { BorrowedPage::from_raw(page) })
    }

    /// Checks that the pinned memory permits `access`.
    ///
    /// # Errors
    ///
    /// `EACCES`.
    pub fn check_rereg(&self, access: Access) -> Result {
        const FLAGS: i32 = bindings::IB_MR_REREG_ACCESS as i32;
        let access = access.bits() as i32;
        // SAFETY: The memory is pinned.
        to_result(unsafe { bindings::ib_umem_check_rereg(self.raw.as_ptr(), FLAGS, access) })
    }

    /// Whether all of its pages are persistent memory, which [`Extent::write_back`](super::extent::Extent::write_back) makes
    /// the bytes survive a loss of power in.
    pub fn is_persistent(&self, _sleep: &MaySleep) -> bool {
        // SAFETY: The memory is pinned; in process context the lock of the resources may be taken.
        unsafe { bindings::ib_umem_is_persistent(self.raw.as_ptr()) }
    }

    /// The bytes at the offset `at`, up to `limit` bytes or the end of their page.
    #[inline]
    pub(super) fn chunk(&self, at: usize, limit: usize) -> Result<(*mut u8, usize)> {
        let at = self.offset.checked_add(at).ok_or(EFAULT)?;
        let page = *self.pages.get(at / PAGE_SIZE).ok_or(EFAULT)?;
        let within = at % PAGE_SIZE;
        Ok((page.wrapping_add(within), limit.min(PAGE_SIZE - within)))
    }

    /// Checks that `len` bytes at the offset `at` are in the range.
    #[inline]
    pub(super) fn check(&self, at: usize, len: usize) -> Result {
        match at.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(EFAULT),
        }
    }

    /// Copies `len` bytes from the memory, at the offset `at`.
    ///
    /// # Errors
    ///
    /// `EFAULT` for bytes outside the range, `EINVAL` if `to` is too small.
    #[inline]
    pub fn read(&self, mut at: usize, mut len: usize, to: &mut Room<'_>) -> Result {
        self.check(at, len)?;
        while len != 0 {
            let (from, now) = self.chunk(at, len)?;
            // SAFETY: By the type invariants the bytes are in a pinned page.
            to.write_shared(unsafe { SharedBytes::from_raw(from.cast_const(), now) })?;
            len = len.wrapping_sub(now);
            at = at.wrapping_add(now);
        }
        Ok(())
    }

    /// Copies to the memory, at the offset `at`.
    ///
    /// # Errors
    ///
    /// `EACCES` if the memory is not writable, `EFAULT` for bytes outside the range.
    #[inline]
    pub fn write(&self, mut at: usize, from: SharedBytes<'_>) -> Result {
        self.check_writable()?;
        self.check(at, from.len())?;
        let mut done = 0;
        while done < from.len() {
            let (to, now) = self.chunk(at, from.len().wrapping_sub(done))?;
            let end = done.wrapping_add(now);
            let from = from.get(done..end).ok_or(EFAULT)?;
            // SAFETY: By the type invariants the bytes are in a pinned page.
            unsafe { from.copy_to_raw(to) };
            done = end;
            at = at.wrapping_add(now);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn check_writable(&self) -> Result {
        if self.writable {
            Ok(())
        } else {
            Err(EACCES)
        }
    }

    /// The eight bytes at the offset `at`, for atomic operations.
    ///
    /// # Errors
    ///
    /// `EACCES` and `EFAULT` as for [`Self::write`]; `EINVAL` if they are not aligned to eight.
    #[inline]
    pub fn atomic(&self, at: usize) -> Result<VirtAtomic<'_>> {
        self.check_writable()?;
        self.check(at, 8)?;
        let (bytes, _) = self.chunk(at, 8)?;
        let number = bytes.cast::<u64>();
        if !number.is_aligned() {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariants the bytes are in pinned pages, and since they are aligned,
        // in a single one.
        Ok(unsafe { VirtAtomic::new(number) })
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        kernel::task::might_sleep();
        // SAFETY: `self` owns the pinned memory, which is not used any more.
        unsafe { bindings::ib_umem_release(self.raw.as_ptr()) };
    }
}
