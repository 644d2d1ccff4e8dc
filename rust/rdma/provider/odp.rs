// SPDX-License-Identifier: GPL-2.0

//! On-demand paging: memory of user space that is not pinned, but faulted in, `struct ib_umem_odp`.
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
/// The region is valid until this is dropped.
pub struct OdpUmem(NonNull<ib_umem_odp>);

// SAFETY: The region may be used, and released, from any thread.
unsafe impl Send for OdpUmem {}
// SAFETY: As above; its mutex protects what changes.
unsafe impl Sync for OdpUmem {}

/// What the memory management asks of a region.
static NOTIFIER_OPS: mmu_interval_notifier_ops = mmu_interval_notifier_ops {
    invalidate: Some(invalidate),
    ..pin_init::zeroed()
};

/// Pages of a region are about to go.
///
/// # Safety
///
/// `notifier` must be that of a region, `range` valid.
unsafe extern "C" fn invalidate(
    notifier: *mut mmu_interval_notifier,
    range: *const mmu_notifier_range,
    seq: ffi::c_ulong,
) -> bool {
    // SAFETY: By the safety requirements; whoever says that it may block is in process context.
    // The functions want the mutex to be held, and clip the range.
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
    /// Watches `len` bytes at `addr` of the calling process; nothing is faulted in yet.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that is none or is beyond the address space, `ENOMEM`.
    pub fn new<P>(
        dev: &Device<P>,
        addr: u64,
        len: u64,
        access: Access,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        let (addr, len) = (usize::try_from(addr)?, usize::try_from(len)?);
        // Huge pages are only a hint, and would change what an index means.
        let access = (access | Access::ON_DEMAND).without(Access::HUGETLB).bits() as i32;
        // SAFETY: `dev` is a device; the core checks the range.
        let raw =
            unsafe { bindings::ib_umem_odp_get(dev.as_raw(), addr, len, access, &NOTIFIER_OPS) };
        Ok(Self(NonNull::new(from_err_ptr(raw)?).ok_or(EINVAL)?))
    }

    /// Whether the memory may be written to.
    #[inline]
    pub fn is_writable(&self) -> bool {
        // SAFETY: By the type invariants.
        unsafe { bindings::ib_umem_writable(&raw const (*self.0.as_ptr()).umem) }
    }

    /// Faults in the `len` bytes at `addr`, an address of the process, and keeps them until the
    /// guard is dropped.
    ///
    /// # Errors
    ///
    /// `EACCES` if they may not be written to and shall be; `EFAULT` if they are not in the
    /// range, or not mapped; `EINVAL` if the process is gone.
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

    /// Notes which of the `len` bytes at `addr` are there already, without faulting.
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
        // SAFETY: By the type invariants; nobody uses the region any more.
        unsafe { bindings::ib_umem_odp_release(self.0.as_ptr()) };
    }
}

/// Bytes of a region that are there and stay.
///
/// # Invariants
///
/// The region is locked; the bytes from `addr` to `end` are in its range.
pub struct OdpGuard<'a> {
    region: &'a OdpUmem,
    addr: u64,
    end: u64,
    write: bool,
    /// The mutex is unlocked by the thread that locked it.
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
        // SAFETY: By the type invariants; an address in the range has an index.
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
    /// `EFAULT` for what was not faulted in.
    pub fn read(&self, mut addr: u64, mut to: &mut [u8]) -> Result {
        while !to.is_empty() {
            let (from, len) = self.chunk(addr, to.len(), false)?;
            let (now, rest) = to.split_at_mut(len);
            // SAFETY: The page is there while the region is locked.
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
    /// `EFAULT` for what was not faulted in for writing.
    pub fn write(&self, mut addr: u64, mut from: &[u8]) -> Result {
        while !from.is_empty() {
            let (to, len) = self.chunk(addr, from.len(), true)?;
            let (now, rest) = from.split_at(len);
            // SAFETY: The page is there, and writable, while the region is locked.
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
        // SAFETY: The page is there, and writable, while the region is locked.
        Ok(unsafe { VirtAtomic::new(bytes.cast()) })
    }
}

impl Drop for OdpGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::ib_umem_odp_unlock(self.region.0.as_ptr()) };
    }
}
