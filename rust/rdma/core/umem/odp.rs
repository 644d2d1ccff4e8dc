// SPDX-License-Identifier: GPL-2.0

//! On-demand paging (ODP) of user memory: `struct ib_umem_odp`.
//!
//! The mutex `umem_mutex` protects the table of pages. The driver's notifier takes it too, also during memory reclaim, so no
//! memory is allocated while it is held.
//!
//! C headers: `include/rdma/ib_umem_odp.h`, `include/linux/hmm.h`, `include/linux/mmu_notifier.h`.

use core::{mem::ManuallyDrop, ops::Deref, ptr::NonNull};

use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    mm::{Mm, MmWithUser, MmWithUserAsync},
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::aref::ARef,
};
use kernel_ext::{
    cmutex::{CMutex, CMutexGuard},
    entry::{view_of, FromC},
};
use rdma_bindings::{self as bindings, ib_umem_odp, mmu_interval_notifier_ops};

use super::view::{AccessFlags, UmemView};
use crate::{core::Device, MaySleep};

view_of! {
    /// User memory with on-demand paging: `struct ib_umem_odp`.
    pub struct OdpUmem(ib_umem_odp);
}

/// The MMU interval notifier methods of a driver: a constant structure that is valid as long as the driver.
#[derive(Clone, Copy)]
pub struct NotifierOps(*const mmu_interval_notifier_ops);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for NotifierOps {
    type Raw = *const mmu_interval_notifier_ops;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

/// A range of addresses in whole pages.
#[derive(Clone, Copy)]
pub struct Range {
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
}

impl OdpUmem {
    /// The common part of user memory.
    #[inline]
    pub fn umem(&self) -> &UmemView {
        // SAFETY: The common part is the first member; a view is a transparent wrapper.
        unsafe { &*self.as_raw().cast() }
    }

    /// Whether it is implicit: a root for the whole address space, which has no pages itself.
    #[inline]
    pub fn is_implicit(&self) -> bool {
        // SAFETY: The member is constant.
        unsafe { (*self.as_raw()).is_implicit_odp }
    }

    /// The page size, as a shift.
    #[inline]
    pub fn page_shift(&self) -> u32 {
        // SAFETY: The member is constant.
        unsafe { (*self.as_raw()).page_shift }
    }

    /// The range of addresses, in whole pages. Empty for implicit memory.
    #[inline]
    pub fn range(&self) -> Range {
        if self.is_implicit() {
            return Range { start: 0, end: 0 };
        }
        // SAFETY: The range of the notifier is constant after it is inserted.
        let tree = unsafe { &(*self.as_raw()).notifier.interval_tree };
        Range {
            start: tree.start as u64,
            end: (tree.last as u64).wrapping_add(1),
        }
    }

    /// The `mm` of the process that the memory belongs to; `None` after that process has exited.
    fn memory(&self) -> Option<ARef<MmWithUser>> {
        // SAFETY: By the invariants of [`OdpMemory`] there are references to `owning_mm` and `tgid`.
        unsafe {
            let raw = self.as_raw();
            let task = bindings::get_pid_task((*raw).tgid, bindings::pid_type_PIDTYPE_PID);
            if task.is_null() {
                return None;
            }
            bindings::put_task_struct(task);
            Mm::from_raw((*raw).umem.owning_mm).mmget_not_zero()
        }
    }

    /// The mutex of the table of pages.
    #[inline]
    fn mutex(&self) -> &CMutex {
        // SAFETY: The mutex was initialised with the memory, and is valid as long.
        unsafe { CMutex::from_raw(&raw mut (*self.as_raw()).umem_mutex) }
    }

    /// Locks the table of pages.
    fn lock(&self, sleep: &MaySleep) -> Locked<'_> {
        // INVARIANT: The mutex is this memory's.
        Locked {
            umem: self,
            _mutex: self.mutex().lock(sleep),
        }
    }
}

/// The locked table of pages.
///
/// # Invariants
///
/// The guard holds `umem_mutex` of the memory.
pub struct Locked<'a> {
    umem: &'a OdpUmem,
    _mutex: CMutexGuard<'a>,
}

/// The table of pages that the caller in C has locked, and unlocks.
pub struct LockedByCaller<'a>(ManuallyDrop<Locked<'a>>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for LockedByCaller<'_> {
    type Raw = *mut ib_umem_odp;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the memory is valid. The header says that the caller holds the mutex; the guard is not
        // dropped.
        let (umem, mutex) = unsafe {
            let umem = <&OdpUmem>::from_c(raw);
            (umem, umem.mutex().assume_locked())
        };
        // INVARIANT: The mutex is this memory's.
        Self(ManuallyDrop::new(Locked {
            umem,
            _mutex: mutex,
        }))
    }
}

impl<'a> Deref for LockedByCaller<'a> {
    type Target = Locked<'a>;

    fn deref(&self) -> &Locked<'a> {
        &self.0
    }
}

impl<'a> Locked<'a> {
    /// Leaves the mutex locked for C, which unlocks it.
    pub fn leave(self) {
        let _ = ManuallyDrop::new(self);
    }

    /// An entry of the table, which has one for each page of the kernel's page size.
    ///
    /// # Safety
    ///
    /// `index` is in the table.
    unsafe fn entry(&self, index: usize) -> *mut usize {
        // SAFETY: By the safety requirements.
        unsafe { (*self.umem.as_raw()).map.pfn_list.add(index) }
    }

    /// Whether each page of a range is absent, or at least of the memory's page size.
    pub fn pages_large_enough(&self, range: Range) -> bool {
        let whole = self.umem.range();
        let shift = self.umem.page_shift();
        let first = (range.start.max(whole.start) - whole.start) >> PAGE_SHIFT;
        let last = range.end.min(whole.end).saturating_sub(whole.start) >> PAGE_SHIFT;
        let step = 1usize.wrapping_shl(shift.saturating_sub(PAGE_SHIFT as u32));
        (first..last).step_by(step).all(|index| {
            // SAFETY: The index is within the range.
            let pfn = unsafe { *self.entry(index as usize) };
            let order = pfn >> bindings::HMM_PFN_ORDER_SHIFT & 0x1f;
            pfn & bindings::HMM_PFN_VALID == 0
                || pfn & bindings::HMM_PFN_DMA_MAPPED != 0
                || order + PAGE_SHIFT >= shift as usize
        })
    }

    /// Unmaps the pages of a range from the device.
    pub fn unmap(&self, range: Range) {
        let whole = self.umem.range();
        let shift = self.umem.page_shift();
        let mut at = range.start.max(whole.start);
        while at < range.end.min(whole.end) {
            // SAFETY: The address is within the range.
            unsafe { self.unmap_page(at.wrapping_sub(whole.start).wrapping_shr(shift) as usize) };
            let Some(next) = at.checked_add(1u64.wrapping_shl(shift)) else {
                return;
            };
            at = next;
        }
    }

    /// # Safety
    ///
    /// `index` is that of a page of the memory.
    unsafe fn unmap_page(&self, index: usize) {
        let raw = self.umem.as_raw();
        // SAFETY: By the type invariants the mutex is held, and by the safety requirements the index is in the table.
        unsafe {
            let entry = self.entry(index);
            let pfn = *entry;
            let device = (*(*raw).umem.ibdev).dma_device;
            if bindings::hmm_dma_unmap_pfn(device, &raw mut (*raw).map, index) {
                if pfn & bindings::HMM_PFN_WRITE != 0 {
                    bindings::hmm_pfn_set_dirty(pfn);
                }
                (*raw).npages = (*raw).npages.saturating_sub(1);
            }
            *entry &= !bindings::HMM_PFN_FLAGS;
        }
    }
}

/// A lookup of pages in a process's page tables.
pub struct Lookup<'a> {
    umem: &'a OdpUmem,
    memory: ARef<MmWithUserAsync>,
    range: Range,
    flags: usize,
    deadline: usize,
}

/// The error of a lookup.
pub enum LookupError {
    /// The page tables have changed; the lookup is to be repeated.
    Again,
    /// The lookup has failed.
    Failed(Error),
}

impl<'a> Lookup<'a> {
    /// Creates a lookup of the pages of `range`. With `fault` it faults in missing pages, for writing if `access` has
    /// `HMM_PFN_WRITE`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the process has exited, `EFAULT` for a range outside the memory's.
    pub fn new(
        umem: &'a OdpUmem,
        range: Range,
        access: u64,
        fault: bool,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        let whole = umem.range();
        if umem.is_implicit() || range.start < whole.start || range.end > whole.end {
            return Err(EFAULT);
        }
        // A driver may hold a lock that the teardown of an `mm` takes, so the teardown runs asynchronously.
        let memory = MmWithUser::into_mmput_async(umem.memory().ok_or(EINVAL)?);
        let mut flags = 0;
        if fault {
            flags = bindings::HMM_PFN_REQ_FAULT | access as usize & bindings::HMM_PFN_WRITE;
        }
        // SAFETY: `jiffies` is a valid static, and any value is valid.
        let deadline = unsafe { bindings::jiffies.wrapping_add(bindings::hmm_range_timeout()) };
        Ok(Self {
            umem,
            memory,
            range,
            flags,
            deadline,
        })
    }

    fn is_late(&self) -> bool {
        // SAFETY: `jiffies` is a valid static, and any value is valid.
        let now = unsafe { (&raw const bindings::jiffies).read_volatile() };
        (now.wrapping_sub(self.deadline) as isize) > 0
    }

    /// Looks up the pages, and locks the table if the page tables have not changed since.
    ///
    /// # Errors
    ///
    /// `Again` until the timeout, then `EBUSY`; `EFAULT` for pages that the process has not mapped with this access.
    pub fn try_lock(&self, sleep: &MaySleep) -> Result<Locked<'a>, LookupError> {
        let raw = self.umem.as_raw();
        let first = self.range.start.wrapping_sub(self.umem.range().start) as usize / PAGE_SIZE;
        // SAFETY: The range lies within the memory's, whose table has an entry for each page; the reference keeps the `mm` valid.
        let (seq, status) = unsafe {
            let notifier = &raw mut (*raw).notifier;
            let mut range = bindings::hmm_range::zeroed();
            range.notifier = notifier;
            range.notifier_seq = bindings::mmu_interval_read_begin(notifier);
            range.start = self.range.start as usize;
            range.end = self.range.end as usize;
            range.default_flags = self.flags;
            range.hmm_pfns = (*raw).map.pfn_list.add(first);
            bindings::mmap_read_lock(self.memory.as_raw());
            let status = bindings::hmm_range_fault(&mut range);
            bindings::mmap_read_unlock(self.memory.as_raw());
            (range.notifier_seq, status)
        };
        match to_result(status) {
            Ok(()) => {}
            Err(error) if error == EBUSY && !self.is_late() => return Err(LookupError::Again),
            Err(error) => return Err(LookupError::Failed(error)),
        }
        let locked = self.umem.lock(sleep);
        // SAFETY: The mutex that the notifier takes is held.
        if unsafe { bindings::mmu_interval_read_retry(&raw mut (*raw).notifier, seq) } {
            return Err(LookupError::Again);
        }
        Ok(locked)
    }
}

/// ODP memory with its ownership. Dropping it unmaps all pages from the device, in process context.
///
/// # Invariants
///
/// `self` owns the structure, with references to `tgid` and `owning_mm`. Its table and its notifier are set up unless it is
/// implicit.
pub struct OdpMemory(NonNull<ib_umem_odp>);

/// A structure that describes ODP memory, without a table and a notifier.
///
/// # Invariants
///
/// `self` owns the structure, with references to `tgid` and `owning_mm`.
pub struct NewOdp(NonNull<ib_umem_odp>);

impl NewOdp {
    /// Allocates a structure without references.
    fn describe(
        device: *mut bindings::ib_device,
        writable: bool,
        page_shift: u32,
    ) -> Result<KBox<ib_umem_odp>> {
        let mut odp = KBox::new(ib_umem_odp::zeroed(), GFP_KERNEL)?;
        odp.umem.ibdev = device;
        odp.umem.set_is_odp(1);
        odp.umem.set_writable(writable.into());
        odp.page_shift = page_shift;
        // SAFETY: The structure is new, and only this thread uses it.
        unsafe { bindings::ib_umem_odp_init_lock(&mut *odp) };
        Ok(odp)
    }

    /// Describes memory of the current process.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EFAULT` for a kernel thread, which has no `mm`.
    pub fn of_process(
        device: &Device,
        access: AccessFlags,
        page_shift: u32,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        let task = kernel::current!();
        let mm = task.mm().ok_or(EFAULT)?;
        let mut odp = Self::describe(device.as_raw(), access.is_writable(), page_shift)?;
        odp.umem.owning_mm = keep(mm);
        // SAFETY: `current` is a valid process.
        odp.tgid = unsafe {
            bindings::get_task_pid(bindings::get_current(), bindings::pid_type_PIDTYPE_TGID)
        };
        // INVARIANT: The structure was just allocated, and the references were taken.
        Ok(Self(NonNull::from(KBox::leak(odp))))
    }

    /// Describes memory of the process that `root` belongs to.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn child_of(root: &OdpUmem, _sleep: &MaySleep) -> Result<Self> {
        let raw = root.as_raw();
        // SAFETY: `root` is borrowed, and its members are constant.
        let device = unsafe { (*raw).umem.ibdev };
        let mut odp = Self::describe(device, root.umem().is_writable(), PAGE_SHIFT as u32)?;
        // SAFETY: `root` holds the references, and its members are constant.
        unsafe {
            odp.umem.owning_mm = keep(Mm::from_raw((*raw).umem.owning_mm));
            odp.tgid = bindings::get_pid((*raw).tgid);
        }
        // INVARIANT: The structure was just allocated, and the references were taken.
        Ok(Self(NonNull::from(KBox::leak(odp))))
    }

    /// Turns it into an implicit root for the whole address space.
    pub fn implicit(self) -> OdpMemory {
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariants `self` owned the structure.
        unsafe { (*this.0.as_ptr()).is_implicit_odp = true };
        // INVARIANT: The memory is implicit, and needs no table and no notifier.
        OdpMemory(this.0)
    }

    /// Allocates the table for `len` bytes at `address`, in the whole pages `range`, and inserts the notifier. `memory` is the
    /// `mm` of the process.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EOVERFLOW`.
    pub fn watch(
        self,
        (address, len): (usize, usize),
        range: Range,
        ops: NotifierOps,
        _sleep: &MaySleep,
    ) -> Result<OdpMemory> {
        let raw = self.0.as_ptr();
        let size = range.end.saturating_sub(range.start) as usize;
        // SAFETY: By the type invariants `self` owns the structure.
        unsafe {
            (*raw).umem.address = address;
            (*raw).umem.length = len;
            (*raw).notifier.ops = ops.0;
            alloc_table(raw, size / PAGE_SIZE)?;
            let inserted = to_result(bindings::mmu_interval_notifier_insert(
                &raw mut (*raw).notifier,
                (*raw).umem.owning_mm,
                range.start as usize,
                size,
                ops.0,
            ));
            if let Err(error) = inserted {
                free_table(raw);
                return Err(error);
            }
        }
        // INVARIANT: The table and the notifier were just set up.
        Ok(OdpMemory(ManuallyDrop::new(self).0))
    }

    /// Takes a reference to the `mm` of the process; `None` if the process has exited.
    pub fn memory(&self) -> Option<ARef<MmWithUser>> {
        // SAFETY: By the type invariants `self` holds a reference to `owning_mm`.
        unsafe { Mm::from_raw((*self.0.as_ptr()).umem.owning_mm) }.mmget_not_zero()
    }
}

impl Drop for NewOdp {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the structure and the references.
        unsafe {
            bindings::put_pid((*self.0.as_ptr()).tgid);
            bindings::mmdrop((*self.0.as_ptr()).umem.owning_mm);
            drop(KBox::from_raw(self.0.as_ptr()));
        }
    }
}

/// Takes a reference to a `struct mm_struct`.
fn keep(mm: &Mm) -> *mut bindings::mm_struct {
    // SAFETY: `mm` is valid.
    unsafe { bindings::mmgrab(mm.as_raw()) };
    mm.as_raw()
}

/// Allocates the table of pages.
///
/// # Safety
///
/// The caller owns the structure, which has no table.
unsafe fn alloc_table(raw: *mut ib_umem_odp, pages: usize) -> Result {
    // SAFETY: By the safety requirements.
    unsafe {
        let device = (*(*raw).umem.ibdev).dma_device;
        if !device.is_null() {
            let page_size = 1usize.wrapping_shl((*raw).page_shift);
            return to_result(bindings::hmm_dma_map_alloc(
                device,
                &raw mut (*raw).map,
                pages,
                page_size,
            ));
        }
        let mut table = KVVec::<usize>::with_capacity(pages, GFP_KERNEL | __GFP_NOWARN)?;
        table.extend_with(pages, 0, GFP_KERNEL)?;
        // The vector is leaked; `free_table` frees its memory with `kvfree`.
        (*raw).map.pfn_list = ManuallyDrop::new(table).as_mut_ptr();
        Ok(())
    }
}

/// Frees the table of pages.
///
/// # Safety
///
/// The caller owns the structure, whose table is not used any more.
unsafe fn free_table(raw: *mut ib_umem_odp) {
    // SAFETY: By the safety requirements.
    unsafe {
        let device = (*(*raw).umem.ibdev).dma_device;
        if device.is_null() {
            bindings::kvfree((*raw).map.pfn_list.cast::<c_void>());
        } else {
            bindings::hmm_dma_map_free(device, &raw mut (*raw).map);
        }
    }
}

impl OdpMemory {
    /// Takes over the memory.
    ///
    /// # Safety
    ///
    /// `raw` is from [`Self::into_raw`], and the caller gives up its ownership.
    pub(super) unsafe fn from_raw(raw: NonNull<ib_umem_odp>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw)
    }

    /// Hands the memory over to C.
    pub fn into_raw(self) -> *mut ib_umem_odp {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// The common part of user memory.
    #[inline]
    pub fn view(&self) -> &UmemView {
        self.odp().umem()
    }

    #[inline]
    fn odp(&self) -> &OdpUmem {
        // SAFETY: By the type invariants; a view is a transparent wrapper.
        unsafe { self.0.cast().as_ref() }
    }
}

impl Drop for OdpMemory {
    fn drop(&mut self) {
        let raw = self.0.as_ptr();
        if !self.odp().is_implicit() {
            // SAFETY: Memory is dropped in process context.
            let sleep = unsafe { MaySleep::assume() };
            self.odp().lock(&sleep).unmap(self.odp().range());
            // SAFETY: By the type invariants the notifier is set up; the owner drops the memory after its devices have stopped
            // using it.
            unsafe {
                bindings::mmu_interval_notifier_remove(&raw mut (*raw).notifier);
                free_table(raw);
            }
        }
        // INVARIANT: `self` owned the structure, whose table was freed.
        drop(NewOdp(self.0));
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for OdpMemory {
    type Raw = *mut ib_umem_odp;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the memory is valid, and by the header the function takes it over.
        unsafe { Self::from_raw(NonNull::new_unchecked(raw)) }
    }
}

/// The size of huge pages, as a shift.
pub fn huge_page_shift() -> u32 {
    // SAFETY: The function returns a constant.
    unsafe { bindings::rdma_huge_page_shift() }
}

/// Converts the number of mapped pages to C's return value.
pub fn count(pages: u64) -> Result<c_int> {
    Ok(c_int::try_from(pages)?)
}
