// SPDX-License-Identifier: GPL-2.0

//! Device memory exported as a DMA buffer: `struct ib_uverbs_dmabuf_file`.
//!
//! The buffers of an [`MmapEntry`] are in its list. ib_core revokes them when the driver removes the entry.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `dmabufs_lock` of the entry | its list of buffers | process context | the reservation lock of a buffer |
//! | the reservation lock of a buffer | whether it was revoked, for importers | process context | what importers take |
//!
//! All functions are `#[inline]`, so that only ib_uverbs, which exports buffers, needs the symbols of dma-buf.
//!
//! C headers: `include/linux/dma-buf.h`, `include/linux/dma-buf-mapping.h`.

use core::{mem::ManuallyDrop, ptr::null_mut};

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
    sync::aref::ARef,
};
use kernel_ext::{
    cmutex::{CMutex, CMutexGuard},
    compat::enumeration::from_dma_direction,
    entry::{view_of, FromC},
    error::EOPNOTSUPP,
};
use rdma::{
    core::{
        list,
        mmap::{revoke, EntryRef, MmapEntry},
        uobject::RemoveReason,
        Uobject,
    },
    MaySleep,
};
use rdma_bindings::{
    self as bindings, dma_buf, dma_buf_attachment, dma_buf_ops, ib_uverbs_dmabuf_file, sg_table,
};

use crate::{
    class::{Class, Destroying},
    new::NewObject,
};

view_of! {
    /// The memory of a DMA buffer object.
    pub struct DmabufObject(ib_uverbs_dmabuf_file);
}

/// The class of DMA buffers.
pub struct Dmabufs;

// SAFETY: ib_uverbs has a table entry of the class with this ID; the structure begins with the `ib_uobject`, and zeros are a
// valid value.
unsafe impl Class for Dmabufs {
    const ID: u16 = bindings::UVERBS_OBJECT_DMABUF as u16;
    type Memory = DmabufObject;
    const IS_FILE: bool = true;

    /// Revokes the buffer from its importers, and waits until they do not use it any more.
    #[inline]
    fn detach(object: Destroying<'_, Self>, why: RemoveReason, sleep: &MaySleep) {
        let raw = object.as_raw();
        // SAFETY: The object is complete, so `export` has set both pointers; that of the entry is a counted reference, which
        // this single call of `detach` takes over. The lock of the entry is held while the buffer is revoked.
        unsafe {
            let entry = EntryRef::from_c((*raw).mmap_entry);
            let locked = lock_dmabufs(&entry, sleep);
            if (*raw).revoked() == 0 {
                revoke(raw);
            }
            drop(locked);
            if why == RemoveReason::Abort {
                abandon((*raw).dmabuf);
            }
        }
    }
}

/// Locks the list of buffers of an entry.
#[inline]
fn lock_dmabufs<'a>(entry: &'a MmapEntry, sleep: &MaySleep) -> CMutexGuard<'a> {
    // SAFETY: The mutex was initialised with the entry, and is valid as long.
    unsafe { CMutex::from_raw(&raw mut (*entry.as_raw()).dmabufs_lock) }.lock(sleep)
}

impl DmabufObject {
    /// The common part of all objects.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: The structure begins with the `ib_uobject`.
        unsafe { &*self.as_raw().cast() }
    }
}

impl NewObject<'_, Dmabufs> {
    /// Completes the object with a buffer of the mmap entry at an offset in pages. `module` is the one that calls this.
    ///
    /// # Errors
    ///
    /// `EINVAL` if no entry begins there, `EIO` if the driver has removed it, `ENOMEM`; those of the driver.
    #[inline]
    pub fn export(self, page: isize, module: &'static ThisModule, sleep: &MaySleep) -> Result {
        let entry = self.find(page)?;
        let raw = self.as_raw();
        // SAFETY: The object is new: this thread alone uses its memory.
        let buffer = unsafe {
            bindings::uverbs_dmabuf_init_members(raw);
            let info = bindings::dma_buf_export_info {
                exp_name: c"ib_uverbs".as_char_ptr(),
                owner: module.as_ptr(),
                ops: &raw const OPS.0,
                size: (*raw).phys_vec.len,
                flags: bindings::O_CLOEXEC as c_int,
                resv: null_mut(),
                priv_: raw.cast(),
            };
            from_err_ptr(bindings::dma_buf_export(&info))?
        };
        // SAFETY: The object is new: this thread alone uses its memory; the buffer is new, and this thread has its only
        // reference.
        unsafe {
            (*raw).dmabuf = buffer;
            if let Err(error) = self.list(&entry, sleep) {
                abandon(buffer);
                bindings::dma_buf_put(buffer);
                return Err(error);
            }
            (*raw).mmap_entry = ManuallyDrop::new(entry).as_raw();
            self.uobject().set_object((*buffer).file.cast());
        }
        self.finish();
        Ok(())
    }

    /// Finds the mmap entry at an offset in pages, and queries its physical address from the driver.
    #[inline]
    fn find(&self, page: isize) -> Result<EntryRef> {
        let context = self.context()?;
        let ops = context.device().ops();
        let find = ops.pgoff_to_mmap_entry.ok_or(EOPNOTSUPP)?;
        let get_pfns = ops.mmap_get_pfns.ok_or(EOPNOTSUPP)?;
        let raw = self.as_raw();
        // SAFETY: The driver returns an entry with a reference, or null. The object is new: this thread alone uses its memory.
        unsafe {
            let entry = find(context.as_raw(), page);
            if entry.is_null() {
                return Err(EINVAL);
            }
            let entry = EntryRef::from_c(entry);
            let (vec, provider) = (&raw mut (*raw).phys_vec, &raw mut (*raw).provider);
            to_result(get_pfns(entry.as_raw(), vec, provider))?;
            Ok(entry)
        }
    }

    /// Adds the buffer to the list of an entry.
    #[inline]
    fn list(&self, entry: &MmapEntry, sleep: &MaySleep) -> Result {
        let _locked = lock_dmabufs(entry, sleep);
        let (raw, entry) = (self.as_raw(), entry.as_raw());
        // SAFETY: The lock is held, and the buffer is in no list.
        unsafe {
            if (*entry).driver_removed {
                return Err(EIO);
            }
            list::append(&raw mut (*entry).dmabufs, &raw mut (*raw).dmabufs_elm);
        }
        Ok(())
    }
}

/// Removes the object from a buffer, whose file may outlive the object.
///
/// # Safety
///
/// This thread holds a reference to the buffer, which was not imported, or was revoked.
#[inline]
unsafe fn abandon(buffer: *mut dma_buf) {
    // SAFETY: By the safety requirements.
    unsafe { (*buffer).priv_ = null_mut() };
}

/// `struct dma_buf_ops`: the functions that importers and the buffer's file call.
struct Operations(dma_buf_ops);

// SAFETY: Constant data.
unsafe impl Sync for Operations {}

const OPS: &Operations = &Operations({
    let mut ops: dma_buf_ops = pin_init::zeroed();
    ops.attach = Some(attach);
    ops.map_dma_buf = Some(map);
    ops.unmap_dma_buf = Some(unmap);
    ops.pin = Some(pin);
    ops.unpin = Some(unpin);
    ops.release = Some(release);
    ops
});

/// # Safety
///
/// dma-buf calls it to attach an importer.
#[inline]
unsafe extern "C" fn attach(_buffer: *mut dma_buf, attachment: *mut dma_buf_attachment) -> c_int {
    // SAFETY: The attachment is valid during the call.
    if unsafe { (*attachment).peer2peer } {
        0
    } else {
        EOPNOTSUPP.to_errno()
    }
}

/// # Safety
///
/// dma-buf calls it for an importer, with the reservation lock held.
#[inline]
unsafe extern "C" fn map(
    attachment: *mut dma_buf_attachment,
    direction: kernel::bindings::dma_data_direction,
) -> *mut sg_table {
    let direction = from_dma_direction(direction);
    // SAFETY: The buffer is valid as long as it has importers, and has an object unless it was revoked; its members are
    // constant.
    unsafe {
        let file = (*(*attachment).dmabuf)
            .priv_
            .cast::<ib_uverbs_dmabuf_file>();
        if file.is_null() || (*file).revoked() != 0 {
            return ENODEV.to_ptr();
        }
        let (provider, vec) = ((*file).provider, &raw mut (*file).phys_vec);
        let len = (*vec).len;
        let table = bindings::dma_buf_phys_vec_to_sgt(attachment, provider, vec, 1, len, direction);
        if from_err_ptr(table).is_ok() {
            bindings::refcount_inc(&raw mut (*file).kref.refcount);
        }
        table
    }
}

/// # Safety
///
/// dma-buf calls it for an importer that has mapped the buffer, with the reservation lock held.
#[inline]
unsafe extern "C" fn unmap(
    attachment: *mut dma_buf_attachment,
    table: *mut sg_table,
    direction: kernel::bindings::dma_data_direction,
) {
    let direction = from_dma_direction(direction);
    // SAFETY: The object is valid: its destruction waits until all mappings are unmapped.
    unsafe {
        let file = (*(*attachment).dmabuf)
            .priv_
            .cast::<ib_uverbs_dmabuf_file>();
        bindings::dma_buf_free_sgt(attachment, table, direction);
        if bindings::refcount_dec_and_test(&raw mut (*file).kref.refcount) {
            bindings::complete(&raw mut (*file).comp);
        }
    }
}

/// # Safety
///
/// dma-buf calls it for an importer. A buffer cannot be pinned, since it may be revoked.
#[inline]
unsafe extern "C" fn pin(_attachment: *mut dma_buf_attachment) -> c_int {
    EOPNOTSUPP.to_errno()
}

/// # Safety
///
/// dma-buf calls it after a successful `pin`; it is mandatory with `pin`.
#[inline]
unsafe extern "C" fn unpin(_attachment: *mut dma_buf_attachment) {}

/// # Safety
///
/// dma-buf calls it when the buffer's file is released, in process context.
#[inline]
unsafe extern "C" fn release(buffer: *mut dma_buf) {
    // SAFETY: The file holds a reference to its object, unless the creation of that has failed. The reference that is taken
    // here keeps the object until it has no pointer to the buffer.
    unsafe {
        let file = (*buffer).priv_.cast::<ib_uverbs_dmabuf_file>();
        if !file.is_null() {
            let _object: ARef<Uobject> = (&*(&raw mut (*file).uobj).cast::<Uobject>()).into();
            bindings::uverbs_uobject_release(&raw mut (*file).uobj);
            bindings::uverbs_dmabuf_released(file);
        }
    }
}
