// SPDX-License-Identifier: GPL-2.0

//! Device memory that user space maps: `struct rdma_user_mmap_entry`.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `umap_lock` of a device file | its list of mappings; the insertion of entries | process context | `xa_lock` of `mmap_xa` |
//! | `xa_lock` of `mmap_xa` of a context | the entry at each offset, and whether it was removed | process context | the allocator |
//! | `dmabufs_lock` of an entry | its list of DMA buffers | process context | `xa_lock` of `mmap_xa`, the reservation lock of a buffer |
//!
//! C headers: `include/rdma/ib_verbs.h`, `include/linux/xarray.h`.

use core::{mem::ManuallyDrop, ptr::NonNull};

use kernel::{error::to_result, ffi::c_void, page::PAGE_SIZE, prelude::*};
use kernel_ext::{
    cmutex::CMutex,
    entry::{view_of, FromC, IntoC},
};
use rdma_bindings::{
    self as bindings, ib_uverbs_dmabuf_file, rdma_umap_priv, rdma_user_mmap_entry, vm_area_struct,
    xarray,
};

use super::{list, Ucontext};
use crate::MaySleep;

view_of! {
    /// Memory that user space may map at an offset of the device file.
    pub struct MmapEntry(rdma_user_mmap_entry);
}
view_of! {
    /// The data of ib_uverbs for a mapping.
    pub struct UmapPriv(rdma_umap_priv);
}
view_of! {
    /// A mapping of a process.
    ///
    /// # Invariants
    ///
    /// The mapping is locked as long as it is borrowed, for writing if it is being created.
    pub struct VmaView(vm_area_struct);
}

/// The protection of a mapping: `pgprot_t`.
pub struct Protection(bindings::pgprot_t);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for Protection {
    type Raw = bindings::pgprot_t;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

/// A counted reference to an entry. Dropping the last one calls the driver's `mmap_free`.
///
/// # Invariants
///
/// `self` owns one reference.
pub struct EntryRef(NonNull<MmapEntry>);

impl EntryRef {
    fn new(entry: &MmapEntry) -> Self {
        Self(NonNull::from(entry))
    }
}

impl core::ops::Deref for EntryRef {
    type Target = MmapEntry;

    fn deref(&self) -> &MmapEntry {
        // SAFETY: By the type invariants the entry is valid.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for EntryRef {
    fn drop(&mut self) {
        let raw = self.as_raw();
        // SAFETY: By the type invariants the entry is valid, and `self` owned a reference.
        if unsafe { bindings::refcount_dec_and_test(&raw mut (*raw).ref_.refcount) } {
            self.free();
        }
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for EntryRef {
    type Raw = *mut rdma_user_mmap_entry;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements, and the header says that the function takes the reference over.
        Self(unsafe { NonNull::new_unchecked(raw) }.cast())
    }
}

/// A reference that C hands over, or null.
pub struct MaybeEntryRef(pub Option<EntryRef>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for MaybeEntryRef {
    type Raw = *mut rdma_user_mmap_entry;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(NonNull::new(raw.cast()).map(EntryRef))
    }
}

impl IntoC for MaybeEntryRef {
    type Raw = *mut rdma_user_mmap_entry;

    #[inline]
    fn into_c(self) -> Self::Raw {
        self.0.map_or(core::ptr::null_mut(), |entry| {
            ManuallyDrop::new(entry).as_raw()
        })
    }
}

/// The offsets of a context, locked.
///
/// # Invariants
///
/// The lock of the array is held.
struct Offsets<'a>(&'a Ucontext);

impl<'a> Offsets<'a> {
    fn lock(context: &'a Ucontext) -> Self {
        let this = Self(context);
        // SAFETY: The array is valid as long as the context.
        unsafe { bindings::xa_lock(this.array()) };
        this
    }

    fn array(&self) -> *mut xarray {
        // SAFETY: The context is valid.
        unsafe { &raw mut (*self.0.as_raw()).mmap_xa }
    }

    /// The first used offset from `from` to `to`.
    fn first_taken(&self, mut from: usize, to: usize) -> Option<usize> {
        // SAFETY: The array is valid.
        let found = unsafe { bindings::xa_find(self.array(), &mut from, to, bindings::XA_PRESENT) };
        (!found.is_null()).then_some(from)
    }

    /// Frees offsets.
    fn erase(&self, range: core::ops::Range<usize>) {
        for offset in range {
            // SAFETY: The array is valid, and its lock is held.
            unsafe { bindings::__xa_erase(self.array(), offset) };
        }
    }

    /// Stores an entry at all offsets of a range. The lock may be dropped temporarily.
    fn insert(&self, entry: &MmapEntry, range: core::ops::Range<usize>) -> Result {
        for offset in range.clone() {
            let value = entry.as_raw().cast::<c_void>();
            // SAFETY: The array is valid, and its lock is held; `free` erases the offsets before the entry is freed.
            let stored =
                unsafe { bindings::__xa_insert(self.array(), offset, value, bindings::GFP_KERNEL) };
            if stored != 0 {
                self.erase(range.start..offset);
                return Err(ENOMEM);
            }
        }
        Ok(())
    }
}

impl Drop for Offsets<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the lock is held.
        unsafe { bindings::xa_unlock(self.array()) };
    }
}

impl MmapEntry {
    fn context(&self) -> &Ucontext {
        // SAFETY: The member is constant after the entry is inserted, and the context outlives the entry.
        unsafe { &*(*self.as_raw()).ucontext.cast() }
    }

    /// The number of pages.
    pub fn page_count(&self) -> usize {
        // SAFETY: The member is constant after the entry is inserted.
        unsafe { (*self.as_raw()).npages }
    }

    /// The first offset in pages.
    fn start(&self) -> usize {
        // SAFETY: The member is constant after the entry is inserted.
        unsafe { (*self.as_raw()).start_pgoff }
    }

    /// Frees the offsets, and calls the driver's `mmap_free`. The last reference is dropped.
    fn free(&self) {
        let context = self.context();
        let start = self.start();
        Offsets::lock(context).erase(start..start.saturating_add(self.page_count()));
        if let Some(mmap_free) = context.device().ops().mmap_free {
            // SAFETY: The entry has no references, and `mmap_free` takes it over.
            unsafe { mmap_free(self.as_raw()) };
        }
    }

    /// Allocates offsets of a context for `len` bytes. The first offset is from `min` to `max`, in pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if no such range is free, or memory is short; `EINVAL` if `len` is 0.
    ///
    /// # Safety
    ///
    /// The entry is new: only this thread uses it, and it is in no context. Its owner removes it before the context is
    /// destroyed.
    pub unsafe fn insert(
        &self,
        context: &Ucontext,
        len: usize,
        (min, max): (u32, u32),
        sleep: &MaySleep,
    ) -> Result {
        let pages = u32::try_from(len.div_ceil(PAGE_SIZE)).map_err(|_| ENOMEM)?;
        if pages == 0 {
            return Err(EINVAL);
        }
        let raw = self.as_raw();
        // SAFETY: By the safety requirements. The file is valid as long as the context.
        let mutex = unsafe {
            bindings::rdma_user_mmap_entry_init(raw);
            (*raw).ucontext = context.as_raw();
            (*raw).npages = pages as usize;
            CMutex::from_raw(&raw mut (*(*context.as_raw()).ufile).umap_lock)
        };
        let _guard = mutex.lock(sleep);
        let offsets = Offsets::lock(context);
        let range = find_gap(&offsets, pages, min, max)?;
        let start = range.start;
        // SAFETY: By the safety requirements. The file is valid as long as the context.
        unsafe { (*raw).start_pgoff = start };
        offsets.insert(self, range)
    }
}

/// Finds free offsets.
fn find_gap(
    offsets: &Offsets<'_>,
    pages: u32,
    min: u32,
    max: u32,
) -> Result<core::ops::Range<usize>> {
    let mut start = min;
    loop {
        let end = start.checked_add(pages).ok_or(ENOMEM)?;
        if start > max {
            return Err(ENOMEM);
        }
        let Some(taken) = offsets.first_taken(start as usize, end.saturating_sub(1) as usize)
        else {
            return Ok(start as usize..end as usize);
        };
        start = u32::try_from(taken)
            .ok()
            .and_then(|taken| taken.checked_add(1))
            .ok_or(ENOMEM)?;
    }
}

impl EntryRef {
    /// The entry that begins at an offset, unless it was removed.
    pub fn find(context: &Ucontext, offset: usize) -> Option<Self> {
        u32::try_from(offset).ok()?;
        let offsets = Offsets::lock(context);
        // SAFETY: The lock of the array is held, so that its entries are valid, though their reference count may be 0.
        unsafe {
            let entry = bindings::xa_load(offsets.array(), offset).cast::<rdma_user_mmap_entry>();
            let usable = !entry.is_null()
                && (*entry).start_pgoff == offset
                && !(*entry).driver_removed
                && bindings::kref_get_unless_zero(&raw mut (*entry).ref_);
            usable.then(|| Self::new(&*entry.cast()))
        }
    }

    /// Prevents further mappings, revokes the DMA buffers of the entry, and drops the driver's reference.
    #[inline]
    pub fn remove(self, sleep: &MaySleep) {
        let raw = self.as_raw();
        // SAFETY: `self` keeps the entry valid, and the locks are held as the table at the top demands.
        unsafe {
            let guard = CMutex::from_raw(&raw mut (*raw).dmabufs_lock).lock(sleep);
            let offsets = Offsets::lock(self.context());
            (*raw).driver_removed = true;
            drop(offsets);
            while let Some(entry) = list::first(&raw mut (*raw).dmabufs) {
                let at = core::mem::offset_of!(ib_uverbs_dmabuf_file, dmabufs_elm);
                revoke(entry.cast::<u8>().sub(at).cast());
            }
            drop(guard);
        }
    }
}

/// Revokes a DMA buffer from its importers, and waits until they do not use it any more.
///
/// # Safety
///
/// `file` is in the list of an entry, whose lock is held.
#[inline]
pub unsafe fn revoke(file: *mut ib_uverbs_dmabuf_file) {
    const FOREVER: usize = isize::MAX as usize;
    // SAFETY: By the safety requirements. The list's reference keeps the file until it is dropped, and the release of the
    // file takes the lock. A buffer that was released has no importers.
    unsafe {
        let buffer = bindings::uverbs_dmabuf_hold(file);
        list::remove(&raw mut (*file).dmabufs_elm);
        if buffer.is_null() {
            (*file).set_revoked(1);
        } else {
            let resv = (*buffer).resv;
            bindings::dma_resv_lock(resv, core::ptr::null_mut());
            (*file).set_revoked(1);
            bindings::dma_buf_invalidate_mappings(buffer);
            let usage = bindings::dma_resv_usage_DMA_RESV_USAGE_BOOKKEEP;
            bindings::dma_resv_wait_timeout(resv, usage, false, FOREVER);
            bindings::dma_resv_unlock(resv);
        }
        bindings::uverbs_dmabuf_let_go(file);
        if bindings::refcount_dec_and_test(&raw mut (*file).kref.refcount) {
            bindings::complete(&raw mut (*file).comp);
        }
        bindings::wait_for_completion(&raw mut (*file).comp);
    }
}

impl UmapPriv {
    /// Registers a mapping with its device file, and takes a reference to its entry.
    ///
    /// # Safety
    ///
    /// The structure is new, and valid until `ib_uverbs` frees it with the mapping. The mapping is being created, of a file
    /// of `ib_uverbs`.
    pub unsafe fn register(&self, vma: &VmaView, entry: Option<&MmapEntry>, sleep: &MaySleep) {
        let (raw, area) = (self.as_raw(), vma.as_raw());
        // SAFETY: By the safety requirements. The mapping is locked, and holds a reference to its file. The entry is
        // borrowed, so it has a reference.
        unsafe {
            let file = (*(*area).vm_file)
                .private_data
                .cast::<bindings::ib_uverbs_file>();
            (*raw).vma = area;
            if let Some(entry) = entry {
                bindings::refcount_inc(&raw mut (*entry.as_raw()).ref_.refcount);
                (*raw).entry = entry.as_raw();
            }
            (*area).vm_private_data = raw.cast();
            let _guard = CMutex::from_raw(&raw mut (*file).umap_lock).lock(sleep);
            list::insert_after(&raw mut (*file).umaps, &raw mut (*raw).list);
        }
    }
}

impl VmaView {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        // SAFETY: By the type invariants the mapping is locked.
        unsafe {
            let area = &(*self.as_raw()).__bindgen_anon_1.__bindgen_anon_1;
            area.vm_end.saturating_sub(area.vm_start)
        }
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its offset into the file, in pages.
    pub fn offset(&self) -> usize {
        // SAFETY: By the type invariants the mapping is locked.
        unsafe { (*self.as_raw()).vm_pgoff }
    }

    /// Whether the mapping is shared (`VM_SHARED`).
    pub fn is_shared(&self) -> bool {
        // SAFETY: By the type invariants the mapping is locked.
        unsafe { (*self.as_raw()).__bindgen_anon_2.vm_flags & bindings::VM_SHARED != 0 }
    }

    /// Whether the mapping is of the context's device file.
    pub fn is_of(&self, context: &Ucontext) -> bool {
        // SAFETY: By the type invariants; the mapping and the context each hold a reference to their file.
        unsafe {
            let file = (*self.as_raw()).vm_file;
            !file.is_null() && (*file).private_data == (*context.as_raw()).ufile.cast()
        }
    }

    /// Maps `size` bytes of device memory into the whole mapping, and registers the mapping.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EAGAIN`.
    ///
    /// # Safety
    ///
    /// The mapping is being created, of a file of `ib_uverbs`. The page frames are memory of the file's device, which user
    /// space may access with `protection` until the device is disassociated or `entry` is removed.
    pub unsafe fn map_io(
        &self,
        pfn: usize,
        size: usize,
        protection: Protection,
        entry: Option<&MmapEntry>,
        sleep: &MaySleep,
    ) -> Result {
        let mut private = KBox::new(rdma_umap_priv::zeroed(), GFP_KERNEL)?;
        let area = self.as_raw();
        // SAFETY: By the safety requirements, and the mapping is locked.
        let mapped = to_result(unsafe {
            let start = (*area).__bindgen_anon_1.__bindgen_anon_1.vm_start;
            (*area).vm_page_prot = protection.0;
            bindings::io_remap_pfn_range(area, start, pfn, size, protection.0)
        });
        mapped.map_err(|_| EAGAIN)?;
        // SAFETY: A view is a transparent wrapper.
        let view = unsafe { &*core::ptr::from_mut(&mut *private).cast::<UmapPriv>() };
        // SAFETY: By the safety requirements; the structure is new.
        unsafe { view.register(self, entry, sleep) };
        // `ib_uverbs` frees it with the mapping.
        let _ = KBox::into_raw(private);
        Ok(())
    }
}
