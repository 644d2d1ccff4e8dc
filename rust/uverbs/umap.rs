// SPDX-License-Identifier: GPL-2.0

//! Mappings of device memory through a device file (`struct rdma_umap_priv`), which are zapped when the device is removed.
//!
//! The driver registers a mapping (`rdma_user_mmap_io`); copies and splits of it are registered too. After a mapping was zapped,
//! a fault maps a page of zeros. In writable mappings this is one page that all mappings of the file share.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `umap_lock` of a file | its list of mappings, and the page that replaces them | process context, often inside of `mmap_lock` | those of an entry |
//!
//! Lock order: `hw_destroy_rwsem`, `mmap_lock` of a process, `umap_lock`. Functions that are called with `mmap_lock` held only try
//! to take `hw_destroy_rwsem`.
//!
//! C headers: `include/linux/mm.h`, `include/rdma/ib_verbs.h`.

use core::{mem::offset_of, ptr, ptr::NonNull};

use kernel::{error::to_result, mm::virt::VmaNew, prelude::*};
use kernel_ext::{
    cmutex::{CMutex, CMutexGuard},
    export::Exported,
};
use rdma::{
    core::{command::UverbsFile, list, Ucontext},
    MaySleep,
};
use rdma_bindings::{
    self as bindings, ib_uverbs_file, rdma_umap_priv, vm_area_struct, vm_fault, vm_fault_t,
};

use crate::{
    file::{hw_destroy, HwDestroyGuard},
    node::Node,
};

/// Borrows the device file of a mapping.
///
/// # Safety
///
/// `raw` is an open device file that is valid for `'a`.
unsafe fn file_of<'a>(raw: *mut ib_uverbs_file) -> &'a UverbsFile {
    // SAFETY: By the safety requirements; a view is a transparent wrapper.
    unsafe { &*raw.cast() }
}

/// The mappings of a file, locked.
///
/// # Invariants
///
/// The guard holds the file's `umap_lock`.
struct Mappings<'a> {
    file: &'a UverbsFile,
    _guard: CMutexGuard<'a>,
}

impl<'a> Mappings<'a> {
    fn lock(file: &'a UverbsFile, sleep: &MaySleep) -> Self {
        // SAFETY: The mutex was initialised with the file, and is valid as long.
        let mutex = unsafe { CMutex::from_raw(&raw mut (*file.as_raw()).umap_lock) };
        // INVARIANT: The mutex was just locked.
        Self {
            file,
            _guard: mutex.lock(sleep),
        }
    }

    fn head(&self) -> *mut bindings::list_head {
        // SAFETY: The list is valid as long as the file.
        unsafe { &raw mut (*self.file.as_raw()).umaps }
    }

    fn of_link(link: *mut bindings::list_head) -> *mut rdma_umap_priv {
        link.cast::<u8>()
            .wrapping_sub(offset_of!(rdma_umap_priv, list))
            .cast()
    }

    /// Removes a mapping from the list, and drops its reference to an mmap entry.
    ///
    /// # Safety
    ///
    /// The mapping is in the list.
    unsafe fn remove(&self, mapping: *mut rdma_umap_priv) {
        // SAFETY: By the safety requirements; the mapping owns a reference to its entry, if it has one.
        unsafe {
            list::remove(&raw mut (*mapping).list);
            let entry = core::mem::replace(&mut (*mapping).entry, ptr::null_mut());
            if !entry.is_null() {
                bindings::rdma_user_mmap_entry_put(entry);
            }
        }
    }

    /// The memory of a process that has mappings of the file, with a reference. Mappings of exiting processes are removed, since
    /// they are not accessed any more.
    fn next_process(&self) -> Option<Process> {
        // SAFETY: The list is locked, so that its mappings are valid, with the `mm_struct` of their processes.
        unsafe {
            while let Some(link) = list::first(self.head()) {
                let mapping = Self::of_link(link);
                let mm = mm_of((*mapping).vma);
                if bindings::mmget_not_zero(mm) {
                    return Some(Process(mm));
                }
                self.remove(mapping);
            }
        }
        None
    }
}

/// The memory of a process: `struct mm_struct`.
///
/// # Invariants
///
/// The value owns one reference (`mm_users`).
struct Process(*mut bindings::mm_struct);

impl Process {
    /// Zaps the mappings of a file in the process.
    fn zap(&self, file: &UverbsFile, sleep: &MaySleep) {
        // SAFETY: By the type invariants; mappings of the process are not removed while its `mmap_lock` is held.
        unsafe {
            bindings::mmap_read_lock(self.0);
            let mappings = Mappings::lock(file, sleep);
            let mut next = list::first(mappings.head());
            while let Some(link) = next {
                next = list::after(mappings.head(), link);
                let mapping = Mappings::of_link(link);
                if mm_of((*mapping).vma) == self.0 {
                    zap((*mapping).vma);
                    mappings.remove(mapping);
                }
            }
            drop(mappings);
            bindings::mmap_read_unlock(self.0);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the reference.
        unsafe { bindings::mmput(self.0) };
    }
}

/// # Safety
///
/// `vma` is a mapping.
unsafe fn mm_of(vma: *mut vm_area_struct) -> *mut bindings::mm_struct {
    // SAFETY: By the safety requirements; the member is constant.
    unsafe { (*vma).vm_mm }
}

/// Zaps a mapping.
///
/// # Safety
///
/// `vma` is a mapping of pages without a `struct page`, and `mmap_lock` of its process is held.
unsafe fn zap(vma: *mut vm_area_struct) {
    // SAFETY: By the safety requirements.
    unsafe {
        let area = &(*vma).__bindgen_anon_1.__bindgen_anon_1;
        let len = area.vm_end.saturating_sub(area.vm_start);
        bindings::zap_special_vma_range(vma, area.vm_start, len);
    }
}

/// Zaps all mappings of a file. Later accesses get a page of zeros.
pub fn disassociate(file: &HwDestroyGuard<'_>, sleep: &MaySleep) {
    loop {
        let mappings = Mappings::lock(file, sleep);
        let Some(process) = mappings.next_process() else {
            return;
        };
        // `mmap_lock` of the process is taken before `umap_lock`.
        drop(mappings);
        process.zap(file, sleep);
    }
}

/// Lets the driver map the memory at the mapping's offset.
///
/// # Errors
///
/// `EIO` if the device was removed or the file's context is being destroyed, `EINVAL` if it has none, and those of the driver.
pub fn map(file: &UverbsFile, area: &VmaNew, _sleep: &MaySleep) -> Result {
    let access = Node::of(file).access();
    access.device().ok_or(EIO)?;
    let context = NonNull::new(file.ucontext())
        .ok_or(EINVAL)?
        .cast::<Ucontext>();
    let _hw_destroy = hw_destroy(file).try_read().ok_or(EIO)?;
    // SAFETY: The context is valid as long as the device, whose removal `access` delays.
    let context = unsafe { context.as_ref() };
    let mmap = context.device().ops().mmap.ok_or(ENODEV)?;
    // SAFETY: The mapping of the context's file is being created; it has no private data unless the driver registers it.
    to_result(unsafe {
        (*area.as_ptr()).vm_ops = &raw const OPERATIONS.0;
        mmap(context.as_raw(), area.as_ptr())
    })
}

/// The operations of mappings.
static OPERATIONS: Exported<bindings::vm_operations_struct> =
    Exported(bindings::vm_operations_struct {
        open: Some(opened),
        close: Some(closed),
        fault: Some(fault),
        ..pin_init::zeroed()
    });

/// The file of a mapping, and its `rdma_umap_priv`.
///
/// # Safety
///
/// `vma` is a mapping of a device file, with [`OPERATIONS`].
unsafe fn parts(vma: *mut vm_area_struct) -> (*mut ib_uverbs_file, *mut rdma_umap_priv) {
    // SAFETY: By the safety requirements.
    unsafe {
        let file = (*(*vma).vm_file).private_data.cast();
        (file, (*vma).vm_private_data.cast())
    }
}

/// A mapping was copied by `fork`, or split: registers the copy. If that fails, zaps it; it gets no pages.
///
/// # Safety
///
/// The kernel calls it with a new mapping whose members are those of the old one.
unsafe extern "C" fn opened(vma: *mut vm_area_struct) {
    // SAFETY: By the safety requirements; the old mapping holds references to the file and to its entry.
    unsafe {
        let (file, old) = parts(vma);
        if old.is_null() || register_copy(file, vma, old).is_some() {
            return;
        }
        (*vma).vm_private_data = ptr::null_mut();
        zap(vma);
    }
}

/// # Safety
///
/// As for [`opened`]; `old` is that of the old mapping.
unsafe fn register_copy(
    file: *mut ib_uverbs_file,
    vma: *mut vm_area_struct,
    old: *mut rdma_umap_priv,
) -> Option<()> {
    // SAFETY: By the safety requirements the mapping holds a reference to the file. The old mapping's entry is not removed while
    // `hw_destroy_rwsem` is held.
    unsafe {
        let file = file_of(file);
        let _hw_destroy = hw_destroy(file).try_read()?;
        if file.ucontext().is_null() {
            return None;
        }
        let new = KBox::new(rdma_umap_priv::zeroed(), GFP_KERNEL).ok()?;
        bindings::rdma_umap_priv_init(KBox::into_raw(new), vma, (*old).entry);
    }
    Some(())
}

/// Called when a mapping is removed.
///
/// # Safety
///
/// The kernel calls it with a mapping that is not used any more.
unsafe extern "C" fn closed(vma: *mut vm_area_struct) {
    // SAFETY: By the safety requirements; the mapping holds a reference to the file until this returns, and closing may sleep.
    // The `rdma_umap_priv` is from a box. It is in the file's list, or after its removal in a list of its own.
    unsafe {
        let (file, mapping) = parts(vma);
        if mapping.is_null() {
            return;
        }
        Mappings::lock(file_of(file), &MaySleep::assume()).remove(mapping);
        drop(KBox::from_raw(mapping));
    }
}

/// Called when a process accesses a page of a zapped mapping.
///
/// # Safety
///
/// The kernel calls it with a fault in a mapping.
unsafe extern "C" fn fault(vmf: *mut vm_fault) -> vm_fault_t {
    // SAFETY: By the safety requirements. A reference to the page is counted for the process.
    unsafe {
        let vma = (*vmf).__bindgen_anon_1.vma;
        let (file, mapping) = parts(vma);
        if mapping.is_null() {
            return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
        }
        let writable = bindings::VM_WRITE | bindings::VM_MAYWRITE;
        let page = if (*vma).__bindgen_anon_2.vm_flags & writable == 0 {
            bindings::zero_page((*vmf).__bindgen_anon_1.address)
        } else {
            shared_page(file, (*vmf).__bindgen_anon_1.gfp_mask)
        };
        if page.is_null() {
            return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
        }
        bindings::get_page(page);
        (*vmf).page = page;
    }
    0
}

/// The page that replaces zapped ones, which is freed with the file. Null if memory is short.
///
/// # Safety
///
/// `file` is an open device file.
unsafe fn shared_page(file: *mut ib_uverbs_file, gfp: bindings::gfp_t) -> *mut bindings::page {
    // SAFETY: By the safety requirements; faults may sleep.
    unsafe {
        let _mappings = Mappings::lock(file_of(file), &MaySleep::assume());
        if (*file).disassociate_page.is_null() {
            (*file).disassociate_page = bindings::alloc_pages(gfp | bindings::__GFP_ZERO, 0);
        }
        (*file).disassociate_page
    }
}
