// SPDX-License-Identifier: GPL-2.0

//! On-demand paging: user memory that is faulted in instead of pinned, `struct ib_umem_odp`.
//!
//! The core looks up the pages of a process and calls the notifier before they go. The table of the pages that the driver may
//! access is here: an entry is added only when the core has found that the page tables have not changed since the lookup, and
//! the notifier removes it. The table has a lock that is held for each access, so that software may access the memory in
//! softirq context, and a page is not accessed any more when the notifier returns.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `OdpUmem::umem` | the C structure against its release | process | `mmap_lock`, `umem_mutex` |
//! | `ib_umem_odp::umem_mutex` | the core's lookups against the notifier | process, memory reclaim | `OdpUmem::pages` |
//! | `OdpUmem::pages` | the pages that may be accessed | any, interrupts off | nothing |
//!
//! C header: `include/rdma/ib_umem_odp.h`.

use core::{
    ops::Range,
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use kernel::{
    alloc::KVVec,
    error::{from_err_ptr, to_result},
    ffi,
    page::PAGE_SIZE,
    prelude::*,
    sync::{Arc, Mutex},
};
use kernel_ext::{
    room::Room,
    shared_bytes::SharedBytes,
    sync::{new_mutex, new_spinlock_irq, SpinLockIrq},
};
use rdma_bindings::{
    self as bindings, ib_umem_odp, mmu_interval_notifier, mmu_interval_notifier_ops,
    mmu_notifier_range,
};

use crate::{
    abi::access::Access,
    provider::{extent::Extent, mr::VirtAtomic},
    Device, MaySleep,
};

/// The maximum number of table entries that are changed at a time, with interrupts disabled.
const BATCH: usize = 256;

/// The maximum number of pages that a notifier marks as dirty at a time.
const MAX_DIRTY: usize = 32;

/// A C structure with its ownership. Dropping it sleeps.
///
/// # Invariants
///
/// `self` owns the structure, which is valid. Its `private` is null or the [`OdpUmem`] that owns `self`.
struct Raw(NonNull<ib_umem_odp>);

// SAFETY: The structure may be used, and released, from any thread.
unsafe impl Send for Raw {}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the structure.
        unsafe { bindings::ib_umem_odp_release(self.0.as_ptr()) };
    }
}

/// An entry of the table: the address of a page, with flags in the lowest bits, or 0.
///
/// # Invariants
///
/// The page belongs to the process, and is writable with [`Self::WRITABLE`], until the notifier has removed the entry.
#[derive(Clone, Copy)]
struct Page(usize);

impl Page {
    const ABSENT: Self = Self(0);
    const WRITABLE: usize = 1;
    /// It was written to by this device.
    const DIRTY: usize = 2;

    fn address(self) -> *mut u8 {
        (self.0 & !(PAGE_SIZE - 1)) as *mut u8
    }

    fn is_dirty(self) -> bool {
        self.0 & Self::DIRTY != 0
    }
}

/// The table of the pages of a range.
struct Pages(KVVec<Page>);

impl Pages {
    /// The address of the byte at the offset `at` in the pages, and the number of bytes up to `limit` or the end of its page.
    ///
    /// # Errors
    ///
    /// `EAGAIN` for a page that is not present, or not for writing; `EFAULT` beyond the last page.
    #[inline]
    fn chunk(&mut self, at: usize, limit: usize, write: bool) -> Result<(*mut u8, usize)> {
        let page = self.0.get_mut(at / PAGE_SIZE).ok_or(EFAULT)?;
        let usable = match write {
            true => page.0 & Page::WRITABLE != 0,
            false => page.0 != 0,
        };
        if !usable {
            return Err(EAGAIN);
        }
        if write {
            page.0 |= Page::DIRTY;
        }
        let within = at % PAGE_SIZE;
        let address = page.address().wrapping_add(within);
        Ok((address, limit.min(PAGE_SIZE - within)))
    }

    /// Removes entries, up to [`BATCH`], or until `dirty` is full. Returns the index of the next one, and the number of pages in
    /// `dirty`.
    fn remove(&mut self, range: Range<usize>, dirty: &mut [*mut u8; MAX_DIRTY]) -> (usize, usize) {
        let end = range.end.min(range.start.saturating_add(BATCH));
        let (mut index, mut count) = (range.start, 0usize);
        while index < end {
            let Some(place) = dirty.get_mut(count) else {
                break;
            };
            let Some(page) = self.0.get_mut(index) else {
                return (range.end, count);
            };
            let page = core::mem::replace(page, Page::ABSENT);
            if page.is_dirty() {
                *place = page.address();
                count = count.saturating_add(1);
            }
            index = index.saturating_add(1);
        }
        (index, count)
    }
}

/// A range of a process's memory that is faulted in on demand.
///
/// Offsets are relative to its start. The process may write to the memory at any time, as for [`Umem`](crate::Umem).
///
/// It must be [released](Self::release) before the device goes, or dropped, which sleeps.
#[pin_data(PinnedDrop)]
pub struct OdpUmem {
    /// The address of its first byte in the process.
    start: u64,
    len: usize,
    writable: bool,
    /// What was written to a page is written back from the caches of the processors before the page goes.
    persistent: AtomicBool,
    /// `None` after the release.
    #[pin]
    umem: Mutex<Option<Raw>>,
    #[pin]
    pages: SpinLockIrq<Pages>,
}

/// The access that memory is faulted in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// For reading.
    Read,
    /// For writing, where the memory is writable.
    Write,
    /// Nothing is faulted in: only pages that the process has at present are added.
    Snapshot,
}

/// The MMU interval notifier methods of a range.
static NOTIFIER_OPS: mmu_interval_notifier_ops = mmu_interval_notifier_ops {
    invalidate: Some(invalidate),
    ..pin_init::zeroed()
};

/// Removes pages that are about to go from the process.
///
/// # Safety
///
/// `notifier` must be that of a range, and `range` must be valid.
unsafe extern "C" fn invalidate(
    notifier: *mut mmu_interval_notifier,
    range: *const mmu_notifier_range,
    seq: ffi::c_ulong,
) -> bool {
    // SAFETY: By the safety requirements; a blockable `range` promises process context. The mutex is held as the functions demand,
    // and they clip the range. By the invariants of `Raw` an `OdpUmem` in `private` owns the structure, so it outlives the
    // notifier.
    unsafe {
        if (*range).flags & bindings::MMU_NOTIFIER_RANGE_BLOCKABLE == 0 {
            return false;
        }
        let region = kernel::container_of!(notifier, ib_umem_odp, notifier);
        let (start, end) = ((*range).start, (*range).end);
        bindings::ib_umem_odp_lock(region);
        (&raw mut (*notifier).invalidate_seq).write_volatile(seq);
        if let Some(this) = (*region).private.cast::<OdpUmem>().as_ref() {
            this.remove(start as u64..end as u64);
        }
        bindings::ib_umem_odp_unmap_dma_pages(region, start as u64, end as u64);
        bindings::ib_umem_odp_unlock(region);
    }
    true
}

impl OdpUmem {
    /// Creates a range of `len` bytes at `addr` of the current process, with those pages that the process has at present.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an empty range, `EOVERFLOW` for one beyond the address space, `ENOMEM`.
    pub fn new<P>(
        dev: &Device<P>,
        addr: u64,
        len: u64,
        access: Access,
        sleep: &MaySleep,
    ) -> Result<Arc<Self>> {
        let (start, len) = (usize::try_from(addr)?, usize::try_from(len)?);
        let persistent = access.contains(Access::FLUSH_PERSISTENT);
        // Huge pages are only a hint, and would change the meaning of an index.
        let access = (access | Access::ON_DEMAND).without(Access::HUGETLB).bits() as i32;
        // SAFETY: `dev` is a valid device; the core checks the range.
        let raw =
            unsafe { bindings::ib_umem_odp_get(dev.as_raw(), start, len, access, &NOTIFIER_OPS) };
        // INVARIANT: The structure is new, and its `private` is null.
        let raw = Raw(NonNull::new(from_err_ptr(raw)?).ok_or(EINVAL)?);
        // SAFETY: The structure is valid.
        let writable = unsafe { bindings::ib_umem_writable(&raw const (*raw.0.as_ptr()).umem) };
        let bytes = (start % PAGE_SIZE).checked_add(len).ok_or(EOVERFLOW)?;
        let mut pages = KVVec::new();
        pages.resize(bytes.div_ceil(PAGE_SIZE), Page::ABSENT, GFP_KERNEL)?;
        let this = Arc::pin_init(
            pin_init!(Self {
                start: addr,
                len,
                writable,
                persistent: AtomicBool::new(persistent),
                umem <- new_mutex!(Some(raw), "OdpUmem::umem"),
                pages <- new_spinlock_irq!(Pages(pages), "OdpUmem::pages"),
            }),
            GFP_KERNEL,
        )?;
        this.connect(sleep);
        this.fault(0, len, Fault::Snapshot, sleep)?;
        Ok(this)
    }

    /// Lets the notifier find the table.
    fn connect(self: &Arc<Self>, _sleep: &MaySleep) {
        if let Some(raw) = &*self.umem.lock() {
            let raw = raw.0.as_ptr();
            // SAFETY: The structure is valid, and the mutex is that of the notifier.
            // INVARIANT: `self` owns the structure.
            unsafe {
                bindings::ib_umem_odp_lock(raw);
                (*raw).private = Arc::as_ptr(self).cast_mut().cast();
                bindings::ib_umem_odp_unlock(raw);
            }
        }
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

    /// Whether the memory is writable.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Faults in the pages of `len` bytes at the offset `at`, for accesses until the notifier removes them.
    ///
    /// # Errors
    ///
    /// `EFAULT` for bytes that are outside the range, or not mapped; `EINVAL` after the release, and if the process has exited;
    /// `EBUSY` if the pages change all the time.
    pub fn fault(&self, at: usize, len: usize, fault: Fault, _sleep: &MaySleep) -> Result {
        let umem = self.umem.lock();
        let raw = umem.as_ref().ok_or(EINVAL)?.0.as_ptr();
        let addr = self.start.checked_add(at as u64).ok_or(EFAULT)?;
        let end = addr.checked_add(len as u64).ok_or(EFAULT)?;
        let (faults, writes) = match fault {
            Fault::Read => (true, false),
            Fault::Write => (true, self.writable),
            Fault::Snapshot => (false, false),
        };
        // SAFETY: The structure is valid while `umem` is locked; the core checks the range. If it succeeds, the umem is locked.
        unsafe {
            let access = if writes {
                bindings::ib_umem_odp_write_access()
            } else {
                0
            };
            to_result(bindings::ib_umem_odp_map_dma_and_lock(
                raw, addr, len as u64, access, faults,
            ))?;
            self.add(raw, self.indices(addr..end));
            bindings::ib_umem_odp_unlock(raw);
        }
        Ok(())
    }

    /// The indices of the pages with the bytes of a range of addresses, except those before the first page.
    fn indices(&self, range: Range<u64>) -> Range<usize> {
        let first = self.start & !(PAGE_SIZE as u64 - 1);
        let offset = |addr: u64| addr.saturating_sub(first) as usize;
        offset(range.start) / PAGE_SIZE..offset(range.end).div_ceil(PAGE_SIZE)
    }

    /// Adds pages that the core has just found.
    ///
    /// # Safety
    ///
    /// `raw` is the C structure of `self`, and its mutex has been held since the core has found the pages valid.
    unsafe fn add(&self, raw: *mut ib_umem_odp, mut range: Range<usize>) {
        while !range.is_empty() {
            let mut pages = self.pages.lock();
            for index in range.by_ref().take(BATCH) {
                let Some(page) = pages.0.get_mut(index) else {
                    return;
                };
                // SAFETY: By the safety requirements.
                let (found, writable) = unsafe {
                    let found = bindings::ib_umem_odp_page_address(raw, index, false);
                    let writable = bindings::ib_umem_odp_page_address(raw, index, true);
                    (found as usize, !writable.is_null())
                };
                if found == 0 {
                    continue;
                }
                let mut entry = found | page.0 & Page::DIRTY;
                if writable {
                    entry |= Page::WRITABLE;
                }
                // INVARIANT: The core has found the page valid, and the notifier needs the mutex that is held.
                *page = Page(entry);
            }
        }
    }

    /// Removes the pages of a range of addresses: when this returns, they are not accessed any more.
    fn remove(&self, range: Range<u64>) {
        let Range { mut start, end } = self.indices(range);
        let mut dirty = [core::ptr::null_mut(); MAX_DIRTY];
        let end = end.min(self.page_count());
        while start < end {
            let (next, count) = self.pages.lock().remove(start..end, &mut dirty);
            start = next;
            for page in dirty.iter().take(count) {
                // SAFETY: The page was in the table, and its process has it until the notifier returns, or `self` is released.
                unsafe {
                    if self.persistent.load(Ordering::Relaxed) {
                        bindings::rdma_wb_cache_pmem((*page).cast(), PAGE_SIZE);
                    }
                    bindings::rdma_set_page_dirty((*page).cast());
                }
            }
        }
    }

    fn page_count(&self) -> usize {
        let bytes = self.offset().saturating_add(self.len);
        bytes.div_ceil(PAGE_SIZE)
    }

    /// The offset of the range in its first page.
    #[inline]
    fn offset(&self) -> usize {
        (self.start % PAGE_SIZE as u64) as usize
    }

    /// Releases the memory: when this returns, it is not accessed any more, and the device is not used.
    pub fn release(&self, _sleep: &MaySleep) {
        let mut umem = self.umem.lock();
        if let Some(raw) = umem.take() {
            // SAFETY: The structure is valid, and the mutex is that of the notifier.
            unsafe {
                bindings::ib_umem_odp_lock(raw.0.as_ptr());
                self.remove(self.start..self.start.saturating_add(self.len as u64));
                bindings::ib_umem_odp_unlock(raw.0.as_ptr());
            }
            drop(raw);
        }
    }

    /// Calls `each` with the address of each piece of `len` bytes at the offset `at` that is in one page, its offset in them, and
    /// its length.
    ///
    /// # Errors
    ///
    /// `EACCES` for writing to memory that is not writable, `EFAULT` for bytes outside the range, `EAGAIN` for bytes that must be
    /// [faulted in](Self::fault) first; those of `each`. Bytes before them may have been accessed.
    #[inline]
    fn for_each(
        &self,
        at: usize,
        len: usize,
        write: bool,
        mut each: impl FnMut(*mut u8, usize, usize) -> Result,
    ) -> Result {
        if write && !self.writable {
            return Err(EACCES);
        }
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(EFAULT);
        }
        let at = self.offset().checked_add(at).ok_or(EFAULT)?;
        let mut pages = self.pages.lock();
        let mut done = 0;
        while done < len {
            let left = len.wrapping_sub(done);
            let (bytes, now) = pages.chunk(at.saturating_add(done), left, write)?;
            each(bytes, done, now)?;
            done = done.saturating_add(now);
        }
        Ok(())
    }

    /// Copies `len` bytes from the memory, at the offset `at`. Any context.
    ///
    /// # Errors
    ///
    /// `EFAULT` for bytes outside the range, `EAGAIN` for bytes that must be [faulted in](Self::fault) first, `EINVAL` if `to` is
    /// too small.
    pub fn read(&self, at: usize, len: usize, to: &mut Room<'_>) -> Result {
        self.for_each(at, len, false, |from, _, now| {
            // SAFETY: The bytes are in a page of the table, whose lock is held; all of them are written to `to`.
            unsafe {
                to.write_with(now, |to| {
                    bindings::memcpy_shared(to.cast(), from.cast(), now)
                })
            }
        })
    }

    /// Copies to the memory, at the offset `at`. Any context.
    ///
    /// # Errors
    ///
    /// `EACCES` if the memory is not writable, `EFAULT` for bytes outside the range, `EAGAIN` for bytes that must be [faulted
    /// in](Self::fault) first; some of the bytes may have been copied.
    pub fn write(&self, at: usize, from: SharedBytes<'_>) -> Result {
        self.for_each(at, from.len(), true, |to, done, now| {
            let end = done.saturating_add(now);
            let from = from.get(done..end).ok_or(EFAULT)?;
            // SAFETY: The bytes are in a page of the table, which is writable, and whose lock is held.
            unsafe { from.copy_to_raw(to) };
            Ok(())
        })
    }

    /// Copies `len` bytes at `from` of other memory to the offset `at`. Any context.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`], and `EFAULT` for bytes outside of `other`.
    pub fn write_from(&self, at: usize, other: &Extent<'_>, from: usize, len: usize) -> Result {
        self.for_each(at, len, true, |to, done, now| {
            // SAFETY: The bytes are in a page of the table, which is writable, and whose lock is held.
            unsafe { other.copy_to(from.saturating_add(done), to, now) }
        })
    }

    /// From now on, what is written to a page is written back from the caches of the processors before the page goes, as for
    /// memory with [`Access::FLUSH_PERSISTENT`].
    pub fn make_persistent(&self) {
        self.persistent.store(true, Ordering::Relaxed);
    }

    /// Writes `len` bytes at the offset `at` back from the caches of the processors to the memory, where it is present. Where it is
    /// not, nothing was written, or was written back when the page went, if the memory is [persistent](Self::make_persistent). Any
    /// context.
    ///
    /// # Errors
    ///
    /// `EFAULT` for bytes outside the range.
    pub fn write_back(&self, at: usize, len: usize) -> Result {
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(EFAULT);
        }
        let mut at = self.offset().checked_add(at).ok_or(EFAULT)?;
        let end = at.checked_add(len).ok_or(EFAULT)?;
        while at < end {
            let within_page = PAGE_SIZE.wrapping_sub(at % PAGE_SIZE);
            let now = within_page.min(end.wrapping_sub(at));
            if let Ok((bytes, len)) = self.pages.lock().chunk(at, now, false) {
                // SAFETY: The bytes are in a page of the table, whose lock is held. Their contents stay as they are.
                unsafe { bindings::rdma_wb_cache_pmem(bytes.cast(), len) };
            }
            at = at.saturating_add(now);
        }
        Ok(())
    }

    /// Calls `operation` with the eight bytes at the offset `at`. Any context.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`]; `EINVAL` if they are not aligned to eight.
    pub fn atomic<R>(&self, at: usize, operation: impl FnOnce(&AtomicU64) -> R) -> Result<R> {
        if self.offset().wrapping_add(at) % size_of::<u64>() != 0 {
            return Err(EINVAL);
        }
        let (mut operation, mut result) = (Some(operation), None);
        self.for_each(at, size_of::<u64>(), true, |bytes, _, _| {
            // SAFETY: The bytes are in a page of the table, which is writable, and whose lock is held; since they are aligned, they
            // are in a single one.
            let number = unsafe { VirtAtomic::new(bytes.cast()) };
            result = operation.take().map(|operation| operation(number.get()));
            Ok(())
        })?;
        result.ok_or(EFAULT)
    }
}

#[pinned_drop]
impl PinnedDrop for OdpUmem {
    fn drop(self: Pin<&mut Self>) {
        kernel::task::might_sleep();
        // SAFETY: The last owner of memory that is not released drops it in process context.
        let sleep = unsafe { MaySleep::assume() };
        self.release(&sleep);
    }
}
