// SPDX-License-Identifier: GPL-2.0

//! On-demand paging: user memory that is faulted in instead of pinned, `struct ib_umem_odp`.
//!
//! C header: `include/rdma/ib_umem_odp.h`.

use core::ptr::NonNull;

use kernel::{
    error::{from_err_ptr, to_result},
    ffi,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    types::NotThreadSafe,
};
use rdma_bindings::{
    self as bindings, ib_umem_odp, mmu_interval_notifier, mmu_interval_notifier_ops,
    mmu_notifier_range,
};

use crate::{abi::access::Access, provider::mr::VirtAtomic, Device, MaySleep};

/// A range of a process's memory that is faulted in on demand. Dropping it sleeps.
///
/// # Invariants
///
/// `self` owns the region, which is valid.
pub struct OdpUmem(NonNull<ib_umem_odp>);

// SAFETY: The region may be used, and released, from any thread.
unsafe impl Send for OdpUmem {}
// SAFETY: The region may be used, and released, from any thread; its mutex protects the members
// that change.
unsafe impl Sync for OdpUmem {}

/// The MMU interval notifier methods of a region.
static NOTIFIER_OPS: mmu_interval_notifier_ops = mmu_interval_notifier_ops {
    invalidate: Some(invalidate),
    ..pin_init::zeroed()
};

/// Unmaps pages of a region that are about to be removed from the process.
///
/// # Safety
///
/// `notifier` must be that of a region, and `range` must be valid.
unsafe extern "C" fn invalidate(
    notifier: *mut mmu_interval_notifier,
    range: *const mmu_notifier_range,
    seq: ffi::c_ulong,
) -> bool {
    // SAFETY: By the safety requirements; a blockable `range` promises process context. The mutex
    // is held as the functions demand, and they clip the range.
    unsafe {
        if (*range).flags & bindings::MMU_NOTIFIER_RANGE_BLOCKABLE == 0 {
            return false;
        }
        let region = kernel::container_of!(notifier, ib_umem_odp, notifier);
        let (start, end) = ((*range).start, (*range).end);
        bindings::ib_umem_odp_lock(region);
        (&raw mut (*notifier).invalidate_seq).write_volatile(seq);
        bindings::ib_umem_odp_unmap_dma_pages(region, start as u64, end as u64);
        bindings::ib_umem_odp_unlock(region);
    }
    true
}

impl OdpUmem {
    /// Creates a region of `len` bytes at `addr` of the current process, without faulting in pages.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that is empty or beyond the address space, `ENOMEM`.
    pub fn new<P>(
        dev: &Device<P>,
        addr: u64,
        len: u64,
        access: Access,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        let (addr, len) = (usize::try_from(addr)?, usize::try_from(len)?);
        // Huge pages are only a hint, and would change the meaning of an index.
        let access = (access | Access::ON_DEMAND).without(Access::HUGETLB).bits() as i32;
        // SAFETY: `dev` is a valid device; the core checks the range.
        let raw =
            unsafe { bindings::ib_umem_odp_get(dev.as_raw(), addr, len, access, &NOTIFIER_OPS) };
        Ok(Self(NonNull::new(from_err_ptr(raw)?).ok_or(EINVAL)?))
    }

    /// Whether the memory is writable.
    #[inline]
    pub fn is_writable(&self) -> bool {
        // SAFETY: By the type invariants the region is valid.
        unsafe { bindings::ib_umem_writable(&raw const (*self.0.as_ptr()).umem) }
    }

    /// Faults in the `len` bytes at `addr`, an address of the process, and keeps them present until
    /// the guard is dropped.
    ///
    /// # Errors
    ///
    /// `EACCES` for a write to memory that is not writable; `EFAULT` for bytes that are outside the
    /// range, or not mapped; `EINVAL` if the process has exited.
    pub fn fault(
        &self,
        addr: u64,
        len: usize,
        write: bool,
        _sleep: &MaySleep,
    ) -> Result<OdpGuard<'_>> {
        if write && !self.is_writable() {
            return Err(EACCES);
        }
        let end = addr.checked_add(len as u64).ok_or(EFAULT)?;
        // SAFETY: By the type invariants; the core checks the range. If it succeeds, the region
        // is locked.
        to_result(unsafe {
            let access = if write {
                bindings::ib_umem_odp_write_access()
            } else {
                0
            };
            bindings::ib_umem_odp_map_dma_and_lock(self.0.as_ptr(), addr, len as u64, access, true)
        })?;
        Ok(OdpGuard {
            region: self,
            addr,
            end,
            write,
            _locked: NotThreadSafe,
        })
    }

    /// Records which pages of the `len` bytes at `addr` are present, without faulting.
    ///
    /// # Errors
    ///
    /// As for [`Self::fault`].
    pub fn snapshot(&self, addr: u64, len: usize, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants; the core checks the range. If it succeeds, the region
        // is locked.
        unsafe {
            to_result(bindings::ib_umem_odp_map_dma_and_lock(
                self.0.as_ptr(),
                addr,
                len as u64,
                0,
                false,
            ))?;
            bindings::ib_umem_odp_unlock(self.0.as_ptr());
        }
        Ok(())
    }
}

impl Drop for OdpUmem {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the region.
        unsafe { bindings::ib_umem_odp_release(self.0.as_ptr()) };
    }
}

/// Bytes of a region that stay present.
///
/// # Invariants
///
/// The region is locked; the bytes from `addr` to `end` are in its range.
pub struct OdpGuard<'a> {
    region: &'a OdpUmem,
    addr: u64,
    end: u64,
    write: bool,
    /// The thread that has locked the mutex unlocks it.
    _locked: NotThreadSafe,
}

impl OdpGuard<'_> {
    /// The bytes from `addr` to the end of their page or of `limit`.
    fn chunk(&self, addr: u64, limit: usize, write: bool) -> Result<(*mut u8, usize)> {
        let last = addr.checked_add(limit as u64).ok_or(EFAULT)?;
        if addr < self.addr || last > self.end || (write && !self.write) {
            return Err(EFAULT);
        }
        let region = self.region.0.as_ptr();
        // SAFETY: By the type invariants the region is locked, and an address in its range has an
        // index.
        let page = unsafe {
            let start = (*region).notifier.interval_tree.start as u64;
            let index = addr.wrapping_sub(start) >> PAGE_SHIFT;
            bindings::ib_umem_odp_page_address(region, index as usize, write)
        };
        if page.is_null() {
            return Err(EFAULT);
        }
        let within = (addr as usize) % PAGE_SIZE;
        Ok((
            page.cast::<u8>().wrapping_add(within),
            limit.min(PAGE_SIZE - within),
        ))
    }

    /// Copies from the memory.
    ///
    /// # Errors
    ///
    /// `EFAULT` for pages that were not faulted in.
    pub fn read(&self, mut addr: u64, mut to: &mut [u8]) -> Result {
        while !to.is_empty() {
            let (from, len) = self.chunk(addr, to.len(), false)?;
            let (now, rest) = to.split_at_mut(len);
            // SAFETY: The page is present while the region is locked.
            unsafe { bindings::memcpy_shared(now.as_mut_ptr().cast(), from.cast(), len) };
            to = rest;
            addr = addr.wrapping_add(len as u64);
        }
        Ok(())
    }

    /// Copies to the memory.
    ///
    /// # Errors
    ///
    /// `EFAULT` for pages that were not faulted in for writing.
    pub fn write(&self, mut addr: u64, mut from: &[u8]) -> Result {
        while !from.is_empty() {
            let (to, len) = self.chunk(addr, from.len(), true)?;
            let (now, rest) = from.split_at(len);
            // SAFETY: The page is present and writable while the region is locked.
            unsafe { bindings::memcpy_shared(to.cast(), now.as_ptr().cast(), len) };
            from = rest;
            addr = addr.wrapping_add(len as u64);
        }
        Ok(())
    }

    /// The eight bytes at `addr`, for atomic operations.
    ///
    /// # Errors
    ///
    /// `EFAULT` as for [`Self::write`]; `EINVAL` if they are not aligned to eight.
    pub fn atomic(&self, addr: u64) -> Result<VirtAtomic<'_>> {
        if addr % 8 != 0 {
            return Err(EINVAL);
        }
        let (bytes, _) = self.chunk(addr, 8, true)?;
        // SAFETY: The page is present and writable while the region is locked.
        Ok(unsafe { VirtAtomic::new(bytes.cast()) })
    }
}

impl Drop for OdpGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the region is locked by this thread.
        unsafe { bindings::ib_umem_odp_unlock(self.region.0.as_ptr()) };
    }
}
