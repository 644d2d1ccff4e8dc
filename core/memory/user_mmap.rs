// SPDX-License-Identifier: GPL-2.0

//! Device memory that user space maps, at offsets of the device file that the core allocates.
//!
//! Locks: those of `rdma::core::mmap`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::{ffi::c_ulong, page::PAGE_SIZE, prelude::*};
use kernel_ext::export::export;
use rdma::{
    core::{
        mmap::{EntryRef, MaybeEntryRef, MmapEntry, Protection, UmapPriv, VmaView},
        Ucontext,
    },
    MaySleep,
};

/// Allocates offsets for an entry; the first is within a range.
fn insert(
    context: &Ucontext,
    entry: Option<&MmapEntry>,
    len: usize,
    range: (u32, u32),
    sleep: &MaySleep,
) -> Result {
    let entry = entry.ok_or(EINVAL)?;
    // SAFETY: The header says that a driver inserts an entry that it has just made, and removes it before the context is
    // destroyed.
    unsafe { entry.insert(context, len, range, sleep) }
}

/// The entry that a mapping covers completely.
fn entry_of(context: &Ucontext, vma: &VmaView) -> Option<EntryRef> {
    if !vma.is_shared() {
        return None;
    }
    let entry = EntryRef::find(context, vma.offset())?;
    (entry.page_count().checked_mul(PAGE_SIZE) == Some(vma.len())).then_some(entry)
}

/// Registers a mapping with its device file. Process context; the VMA is locked.
#[export]
fn rdma_umap_priv_init(
    umap: &UmapPriv,
    vma: &VmaView,
    entry: Option<&MmapEntry>,
    sleep: &MaySleep,
) {
    // SAFETY: `ib_uverbs` calls it, for a mapping that is made or split and a structure that it has just allocated.
    unsafe { umap.register(vma, entry, sleep) };
}

/// Maps device memory into a whole mapping. Called from a driver's `mmap`.
///
/// # Errors
///
/// `EINVAL` if the mapping is private, of another length or of another file; `ENOMEM`, `EAGAIN`.
#[export]
fn rdma_user_mmap_io(
    ucontext: &Ucontext,
    vma: &VmaView,
    pfn: c_ulong,
    size: c_ulong,
    prot: Protection,
    entry: Option<&MmapEntry>,
    sleep: &MaySleep,
) -> Result {
    if !vma.is_shared() || vma.len() != size || !vma.is_of(ucontext) {
        return Err(EINVAL);
    }
    // SAFETY: The header says that a driver's `mmap` calls it, with frames that are its device's.
    unsafe { vma.map_io(pfn, size, prot, entry, sleep) }
}

/// Returns a reference to the entry that begins at an offset, in pages; null if there is none that may be mapped.
#[export]
fn rdma_user_mmap_entry_get_pgoff(ucontext: &Ucontext, pgoff: c_ulong) -> MaybeEntryRef {
    MaybeEntryRef(EntryRef::find(ucontext, pgoff))
}

/// Returns a reference to the entry that a mapping covers completely; null if there is none.
#[export]
fn rdma_user_mmap_entry_get(ucontext: &Ucontext, vma: &VmaView) -> MaybeEntryRef {
    MaybeEntryRef(entry_of(ucontext, vma))
}

/// Drops a reference to an entry; with the last one its offsets are freed, and the driver's `mmap_free` is called.
#[export]
fn rdma_user_mmap_entry_put(entry: EntryRef) {
    drop(entry);
}

/// Disables further mappings of an entry, and drops the driver's reference. Process context.
#[export]
fn rdma_user_mmap_entry_remove(entry: MaybeEntryRef, sleep: &MaySleep) {
    if let Some(entry) = entry.0 {
        entry.remove(sleep);
    }
}

/// Allocates offsets for an entry of `length` bytes, with the first one between `min_pgoff` and `max_pgoff`, in pages.
/// Process context.
///
/// # Errors
///
/// `EINVAL` without an entry or for a length of 0, `ENOMEM`.
#[export]
fn rdma_user_mmap_entry_insert_range(
    ucontext: &Ucontext,
    entry: Option<&MmapEntry>,
    length: usize,
    min_pgoff: u32,
    max_pgoff: u32,
    sleep: &MaySleep,
) -> Result {
    insert(ucontext, entry, length, (min_pgoff, max_pgoff), sleep)
}

/// Allocates offsets for an entry of `length` bytes. Process context.
///
/// # Errors
///
/// As for `rdma_user_mmap_entry_insert_range`.
#[export]
fn rdma_user_mmap_entry_insert(
    ucontext: &Ucontext,
    entry: Option<&MmapEntry>,
    length: usize,
    sleep: &MaySleep,
) -> Result {
    insert(ucontext, entry, length, (0, u32::MAX), sleep)
}
