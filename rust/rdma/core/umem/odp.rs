// SPDX-License-Identifier: GPL-2.0

//! Memory that is paged in on demand: `struct ib_umem_odp`.
//!
//! The memory's mutex, `umem_mutex`, protects its table of pages. The notifier of the driver takes it too, also while memory
//! is reclaimed: so nothing is allocated with it.
//!
//! C headers: `include/rdma/ib_umem_odp.h`, `include/linux/hmm.h`, `include/linux/mmu_notifier.h`.

use core::{mem::ManuallyDrop, ptr::NonNull};

use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    mm::{Mm, MmWithUser, MmWithUserAsync},
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::aref::ARef,
};
use kernel_ext::entry::{view_of, FromC};
use rdma_bindings::{self as bindings, ib_umem_odp, mmu_interval_notifier_ops};

use super::{AccessFlags, UmemView};
use crate::{core::Device, MaySleep};

view_of! {
    /// Memory that is paged in on demand.
    pub struct OdpUmem(ib_umem_odp);
}

/// What a driver does when pages go. They are constant, and stay as long as the driver.
#[derive(Clone, Copy)]
pub struct NotifierOps(*const mmu_interval_notifier_ops);

// SAFETY: A driver passes its methods.
unsafe impl FromC for NotifierOps {
    type Raw = *const mmu_interval_notifier_ops;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

/// A range of addresses, from the first page to the one after the last.
#[derive(Clone, Copy)]
pub struct Range {
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
}

impl OdpUmem {
    /// What all memory has.
    #[inline]
    pub fn umem(&self) -> &UmemView {
        // SAFETY: The first member; a view is a transparent wrapper.
        unsafe { &*self.as_raw().cast() }
    }

    /// Whether it only stands for the whole address space, for others that are made of it.
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

    /// The addresses that it covers, in whole pages.
    #[inline]
    pub fn range(&self) -> Range {
        // SAFETY: The notifier's range does not change once it is there.
        let tree = unsafe { &(*self.as_raw()).notifier.interval_tree };
        Range {
            start: tree.start as u64,
            end: (tree.last as u64).wrapping_add(1),
        }
    }

    /// The process's memory, while the process is there that it was made by.
    fn memory(&self) -> Option<ARef<MmWithUser>> {
        // SAFETY: By the invariants of [`OdpMemory`] the structure and the process identifier are referenced.
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

    /// Locks the table of pages.
    fn lock(&self) -> Locked<'_> {
        // SAFETY: The mutex was initialised with the memory.
        unsafe { bindings::mutex_lock(&raw mut (*self.as_raw()).umem_mutex) };
        Locked(self)
    }
}

/// The table of pages, locked.
///
/// # Invariants
///
/// The memory's mutex is held.
pub struct Locked<'a>(&'a OdpUmem);

impl<'a> Locked<'a> {
    /// Leaves it locked: the caller in C unlocks it.
    pub fn leave(self) {
        let _ = ManuallyDrop::new(self);
    }

    /// The lock of memory that the caller has locked, for the time of the call.
    ///
    /// # Safety
    ///
    /// The caller has locked it, and keeps it so while it is used.
    pub unsafe fn held_by_caller(umem: &'a OdpUmem) -> ManuallyDrop<Self> {
        // INVARIANT: By the safety requirements.
        ManuallyDrop::new(Self(umem))
    }

    /// An entry of the table, which has one for each page of the kernel's size.
    ///
    /// # Safety
    ///
    /// `index` is in the table.
    unsafe fn entry(&self, index: usize) -> *mut usize {
        // SAFETY: By the safety requirements.
        unsafe { (*self.0.as_raw()).map.pfn_list.add(index) }
    }

    /// Whether the entries of a range have each at least the page size of the memory, or are not there.
    pub fn pages_large_enough(&self, range: Range) -> bool {
        let whole = self.0.range();
        let shift = self.0.page_shift();
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

    /// Takes the pages of a range from the device.
    pub fn unmap(&self, range: Range) {
        let whole = self.0.range();
        let shift = self.0.page_shift();
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
        let raw = self.0.as_raw();
        // SAFETY: The mutex is held, and the index is in the table.
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

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::mutex_unlock(&raw mut (*self.0.as_raw()).umem_mutex) };
    }
}

/// Pages that are looked up in a process's tables.
pub struct Lookup<'a> {
    umem: &'a OdpUmem,
    memory: ARef<MmWithUserAsync>,
    range: Range,
    flags: usize,
    deadline: usize,
}

/// Why pages could not be locked.
pub enum LookupError {
    /// The tables change: again.
    Again,
    /// It cannot be done.
    Failed(Error),
}

impl<'a> Lookup<'a> {
    /// A look at the pages of a range that is within the memory's; `fault` pages in those that are not there, for
    /// writing if `access` has `HMM_PFN_WRITE`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the process is gone, `EFAULT` for another range.
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
        // A driver may hold a lock that the end of a process's memory needs: let somebody else do that.
        let memory = MmWithUser::into_mmput_async(umem.memory().ok_or(EINVAL)?);
        let mut flags = 0;
        if fault {
            flags = bindings::HMM_PFN_REQ_FAULT | access as usize & bindings::HMM_PFN_WRITE;
        }
        // SAFETY: Reads the time.
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
        // SAFETY: Reads the time.
        let now = unsafe { (&raw const bindings::jiffies).read_volatile() };
        (now.wrapping_sub(self.deadline) as isize) > 0
    }

    /// Looks, and locks the table if nothing has changed meanwhile.
    ///
    /// # Errors
    ///
    /// `Again`, until the time is over; then `EBUSY`. `EFAULT` where pages are wanted that the process has not mapped so.
    pub fn try_lock(&self) -> Result<Locked<'a>, LookupError> {
        let raw = self.umem.as_raw();
        let first = self.range.start.wrapping_sub(self.umem.range().start) as usize / PAGE_SIZE;
        // SAFETY: The range is within the memory's, whose table has an entry for each page; the process's memory is there
        // while the reference is.
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
        let locked = self.umem.lock();
        // SAFETY: The mutex is held that the notifier takes.
        if unsafe { bindings::mmu_interval_read_retry(&raw mut (*raw).notifier, seq) } {
            return Err(LookupError::Again);
        }
        Ok(locked)
    }
}

/// Memory that is paged in on demand, as its owner has it. Dropping it takes all pages from the device, in process context.
///
/// # Invariants
///
/// The structure is ours alone, with references of `tgid` and `owning_mm`; its table and its notifier are there unless it is implicit.
pub struct OdpMemory(NonNull<ib_umem_odp>);

/// A structure that is not in use yet.
///
/// # Invariants
///
/// The structure is ours alone, with references of `tgid` and `owning_mm`.
pub struct NewOdp(NonNull<ib_umem_odp>);

impl NewOdp {
    /// A structure that describes no memory yet.
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
        // SAFETY: The mutex is ours.
        unsafe { bindings::ib_umem_odp_init_lock(&mut *odp) };
        Ok(odp)
    }

    /// Describes memory of the present process.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EFAULT` for a thread that has no memory of user space.
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
        // SAFETY: The present process is there.
        odp.tgid = unsafe {
            bindings::get_task_pid(bindings::get_current(), bindings::pid_type_PIDTYPE_TGID)
        };
        // INVARIANT: It was just allocated, and the references taken.
        Ok(Self(NonNull::from(KBox::leak(odp))))
    }

    /// Describes memory of the process that `root` is of.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn child_of(root: &OdpUmem, _sleep: &MaySleep) -> Result<Self> {
        let raw = root.as_raw();
        // SAFETY: The root is lent, and its members are constant.
        let device = unsafe { (*raw).umem.ibdev };
        let mut odp = Self::describe(device, root.umem().is_writable(), PAGE_SHIFT as u32)?;
        // SAFETY: The root has references, and its members are constant.
        unsafe {
            odp.umem.owning_mm = keep(Mm::from_raw((*raw).umem.owning_mm));
            odp.tgid = bindings::get_pid((*raw).tgid);
        }
        // INVARIANT: It was just allocated, and the references taken.
        Ok(Self(NonNull::from(KBox::leak(odp))))
    }

    /// The memory that stands for the whole address space.
    pub fn implicit(self) -> OdpMemory {
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariants.
        unsafe { (*this.0.as_ptr()).is_implicit_odp = true };
        // INVARIANT: It is implicit.
        OdpMemory(this.0)
    }

    /// Begins to watch `len` bytes at `address`, in the whole pages `range`. `memory` is the process's.
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
        // SAFETY: By the type invariants the structure is ours.
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
        // INVARIANT: The table and the notifier are there.
        Ok(OdpMemory(ManuallyDrop::new(self).0))
    }

    /// Keeps the process's memory while it is being watched; `None` if it is gone.
    pub fn memory(&self) -> Option<ARef<MmWithUser>> {
        // SAFETY: By the type invariants it is referenced.
        unsafe { Mm::from_raw((*self.0.as_ptr()).umem.owning_mm) }.mmget_not_zero()
    }
}

impl Drop for NewOdp {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe {
            bindings::put_pid((*self.0.as_ptr()).tgid);
            bindings::mmdrop((*self.0.as_ptr()).umem.owning_mm);
            drop(KBox::from_raw(self.0.as_ptr()));
        }
    }
}

/// Takes a reference of the structure that describes a process's memory.
fn keep(mm: &Mm) -> *mut bindings::mm_struct {
    // SAFETY: It is there.
    unsafe { bindings::mmgrab(mm.as_raw()) };
    mm.as_raw()
}

/// Allocates the table of pages.
///
/// # Safety
///
/// The structure is the caller's, and has no table.
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
        // `kvfree` frees it: of a vector only the memory is left.
        (*raw).map.pfn_list = ManuallyDrop::new(table).as_mut_ptr();
        Ok(())
    }
}

/// Frees the table of pages.
///
/// # Safety
///
/// The structure is the caller's, and has a table that nobody uses.
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
    /// Takes the memory over.
    ///
    /// # Safety
    ///
    /// `raw` is from [`Self::into_raw`], and the caller was its owner.
    pub(super) unsafe fn from_raw(raw: NonNull<ib_umem_odp>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw)
    }

    /// Hands it over to C.
    pub fn into_raw(self) -> *mut ib_umem_odp {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// What all memory has.
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
            self.odp().lock().unmap(self.odp().range());
            // SAFETY: The notifier is there, and no device uses the memory any more.
            unsafe {
                bindings::mmu_interval_notifier_remove(&raw mut (*raw).notifier);
                free_table(raw);
            }
        }
        // INVARIANT: The structure is ours alone.
        drop(NewOdp(self.0));
    }
}

// SAFETY: The owner passes its memory.
unsafe impl FromC for OdpMemory {
    type Raw = *mut ib_umem_odp;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements there is memory, and the header says that the function takes it over.
        unsafe { Self::from_raw(NonNull::new_unchecked(raw)) }
    }
}

/// The size of huge pages, as a shift.
pub fn huge_page_shift() -> u32 {
    // SAFETY: A constant of the kernel's.
    unsafe { bindings::rdma_huge_page_shift() }
}

/// The result of mapping: a number of pages, as C has it.
pub fn count(pages: u64) -> Result<c_int> {
    Ok(c_int::try_from(pages)?)
}
