// SPDX-License-Identifier: GPL-2.0

//! Open device files: `struct ib_uverbs_file`.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `hw_destroy_rwsem` | the context and the objects as a whole: held for reading by commands that create or destroy an object, for writing when all are destroyed | process context | `ucontext_lock`, `uobjects_lock`, `mmap_lock` of a process, what drivers take |
//! | `uobjects_lock` | the list of objects, while `hw_destroy_rwsem` is held for reading | process context, interrupts off | nothing |
//! | `ucontext_lock` | creating the context | process context | what drivers take |
//!
//! C header: `include/rdma/uverbs_types.h`.

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicPtr, Ordering},
};

use kernel::{
    alloc::{allocator::Kmalloc, Allocator, NumaNode},
    prelude::*,
    sync::aref::{ARef, AlwaysRefCounted},
};
use kernel_ext::{
    entry::FromC,
    rwsem::{RwSem, WriteGuard},
    srcu::Srcu,
};
use rdma::{
    core::{command::UverbsFile, uobject::RemoveReason, Device, Uobject},
    MaySleep,
};
use rdma_bindings as bindings;

use crate::handles::Handles;

/// A counted reference to an open device file.
pub type FileRef = ARef<File>;

/// An open device file.
#[repr(transparent)]
pub struct File(UverbsFile);

impl core::ops::Deref for File {
    type Target = UverbsFile;

    #[inline]
    fn deref(&self) -> &UverbsFile {
        &self.0
    }
}

// SAFETY: The file is freed with its last reference.
unsafe impl AlwaysRefCounted for File {
    fn inc_ref(&self) {
        // SAFETY: The file is valid.
        unsafe { bindings::refcount_inc(&raw mut (*self.as_raw()).ref_.refcount) };
    }

    unsafe fn dec_ref(file: NonNull<Self>) {
        let raw = file.as_ptr().cast::<bindings::ib_uverbs_file>();
        // SAFETY: By the safety requirements.
        unsafe {
            let kref = &raw mut (*raw).ref_;
            if bindings::refcount_dec_and_test(&raw mut (*kref).refcount) {
                bindings::ib_uverbs_release_file(kref);
            }
        }
    }
}

impl File {
    /// The file of a view.
    #[inline]
    pub fn of(file: &UverbsFile) -> &Self {
        // SAFETY: The type is a transparent wrapper.
        unsafe { &*core::ptr::from_ref(file).cast() }
    }

    /// Takes a reference.
    pub fn hold(&self) -> FileRef {
        self.into()
    }

    /// Allocates a file of a device, without a context and objects.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The caller gives references to the file, which its last reference drops: one of `device.refcount`, one of `device.dev`,
    /// and, while the driver has no `disassociate_ucontext`, one of the driver's module.
    pub unsafe fn alloc(
        device: NonNull<bindings::ib_uverbs_device>,
        _sleep: &MaySleep,
    ) -> Result<FileRef> {
        let layout = core::alloc::Layout::new::<bindings::ib_uverbs_file>();
        let memory = Kmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, NumaNode::NO_NODE)?;
        let file = memory.cast::<bindings::ib_uverbs_file>();
        // SAFETY: The memory is new and zeroed; by the safety requirements the references are given up to it.
        unsafe {
            (*file.as_ptr()).device = device.as_ptr();
            bindings::ib_uverbs_file_init_members(file.as_ptr());
            bindings::setup_ufile_idr_uobject(file.as_ptr());
            Ok(ARef::from_raw(file.cast()))
        }
    }

    /// Takes `hw_destroy_rwsem` for writing: waits until no command creates or destroys an object.
    pub fn lock_hw_destroy(&self, sleep: &MaySleep) -> HwDestroyGuard<'_> {
        HwDestroyGuard {
            file: self,
            _guard: hw_destroy(self).write(sleep),
        }
    }
}

/// `hw_destroy_rwsem` of a file. While it is held for reading, the destruction of the file's context and of all objects is
/// excluded.
pub fn hw_destroy(file: &UverbsFile) -> &RwSem {
    // SAFETY: The semaphore was initialised with the file, and is valid as long.
    unsafe { RwSem::from_raw(&raw mut (*file.as_raw()).hw_destroy_rwsem) }
}

/// A file whose `hw_destroy_rwsem` is held for writing: no command creates or destroys an object.
///
/// # Invariants
///
/// The guard holds the file's `hw_destroy_rwsem`.
pub struct HwDestroyGuard<'a> {
    file: &'a File,
    _guard: WriteGuard<'a>,
}

impl HwDestroyGuard<'_> {
    /// Whether the file has objects.
    pub fn has_objects(&self) -> bool {
        // SAFETY: By the type invariants the semaphore is held for writing, so the list does not change.
        unsafe {
            let list = &raw mut (*self.as_raw()).uobjects;
            (*list).next != list
        }
    }

    /// Tries to destroy each of the file's objects once, newest first.
    ///
    /// # Errors
    ///
    /// `EINVAL` if none was destroyed, or the file has no context.
    pub fn destroy_objects(&self, why: RemoveReason, _sleep: &MaySleep) -> Result {
        if self.ucontext().is_null() {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariants the semaphore is held for writing; the file has a context.
        kernel::error::to_result(unsafe {
            bindings::__uverbs_cleanup_ufile(self.as_raw(), why as u32)
        })
    }
}

impl core::ops::Deref for HwDestroyGuard<'_> {
    type Target = File;

    fn deref(&self) -> &File {
        self.file
    }
}

/// A file without references. Dropping it frees the file, and drops the references that the file holds.
///
/// # Invariants
///
/// Its objects are destroyed, and only this value uses it.
pub struct LastFile(NonNull<bindings::ib_uverbs_file>);

// SAFETY: `Raw` is the type of the reference count, with which the function is called when the last reference is dropped.
unsafe impl FromC for LastFile {
    type Raw = *mut bindings::kref;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        let offset = core::mem::offset_of!(bindings::ib_uverbs_file, ref_);
        // INVARIANT: By the safety requirements.
        // SAFETY: By the safety requirements; the count is a member of the file.
        Self(unsafe { NonNull::new_unchecked(raw.byte_sub(offset).cast()) })
    }
}

impl core::ops::Deref for LastFile {
    type Target = UverbsFile;

    fn deref(&self) -> &UverbsFile {
        // SAFETY: By the type invariants; a view is a transparent wrapper.
        unsafe { self.0.cast().as_ref() }
    }
}

impl LastFile {
    /// Drops the reference to the driver's module, which the file holds if the driver has no `disassociate_ucontext`.
    fn put_driver(&self) {
        let _guard = domain(self).read();
        // SAFETY: The device is valid while `disassociate_srcu` is held.
        let Some(device) = (unsafe { ib_device(self) }) else {
            return;
        };
        let ops = device.ops();
        if ops.disassociate_ucontext.is_none() {
            // SAFETY: The file holds a reference to the module since it was opened.
            unsafe { bindings::module_put(ops.owner) };
        }
    }
}

impl Drop for LastFile {
    fn drop(&mut self) {
        let file = self.0.as_ptr();
        // SAFETY: By the type invariants; the file owns these references, and is freed here.
        unsafe {
            Handles::of(self).destroy();
            self.put_driver();
            let device = (*file).device;
            if bindings::refcount_dec_and_test(&raw mut (*device).refcount) {
                bindings::complete(&raw mut (*device).comp);
            }
            let events = NonNull::new((*file).default_async_file.cast::<Uobject>());
            drop(events.map(|events| ARef::from_raw(events)));
            bindings::put_device(&raw mut (*device).dev);
            if !(*file).disassociate_page.is_null() {
                bindings::uverbs_free_page((*file).disassociate_page);
            }
            bindings::mutex_destroy(&raw mut (*file).umap_lock);
            bindings::mutex_destroy(&raw mut (*file).ucontext_lock);
            Kmalloc::free(
                self.0.cast(),
                core::alloc::Layout::new::<bindings::ib_uverbs_file>(),
            );
        }
    }
}

/// `disassociate_srcu` of a file's device: commands are its readers while they use the device.
fn domain(file: &UverbsFile) -> &Srcu {
    // SAFETY: The file holds a reference to its device. The member is initialised with the device, and cleaned up with its memory.
    unsafe { Srcu::from_raw(&raw mut (*(*file.as_raw()).device).disassociate_srcu) }
}

/// The RDMA device of a file, unless it was removed.
///
/// # Safety
///
/// The caller holds `disassociate_srcu` as long as it uses the result.
unsafe fn ib_device(file: &UverbsFile) -> Option<&Device> {
    // SAFETY: The file holds a reference to the character device; the member is a pointer that is cleared atomically when the
    // device is removed.
    let device = unsafe { AtomicPtr::from_ptr(&raw mut (*(*file.as_raw()).device).ib_dev) };
    // SAFETY: By the safety requirements; a view is a transparent wrapper.
    unsafe { device.load(Ordering::Acquire).cast::<Device>().as_ref() }
}

/// Whether the current process has `CAP_NET_RAW` for the device of a file. False if there is no context yet, or the device was
/// removed.
pub fn has_raw_cap(file: &UverbsFile) -> bool {
    let _guard = domain(file).read();
    // SAFETY: The device is valid while `disassociate_srcu` is held.
    let device = unsafe { ib_device(file) };
    let device = device.filter(|_| !file.ucontext().is_null());
    // SAFETY: The device is valid while `disassociate_srcu` is held.
    device.is_some_and(|device| unsafe { bindings::rdma_dev_has_raw_cap(device.as_raw()) })
}
