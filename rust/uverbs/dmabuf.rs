// SPDX-License-Identifier: GPL-2.0

//! Memory of a device as a DMA buffer, which user space hands to other devices: `struct ib_uverbs_dmabuf_file`.
//!
//! ib_core takes the buffers of a piece of memory away when the driver does not let it be mapped any more; they are in the
//! list of its [`MmapEntry`].
//!
//! | lock | protects |
//! |---|---|
//! | `dmabufs_lock` of the entry | its list of buffers. A mutex; the reservation lock is taken inside |
//! | the reservation lock of a buffer | whether it was revoked, for importers |
//!
//! Everything is `#[inline]`: only the module that exports buffers has the symbols of that.
//!
//! C headers: `include/linux/dma-buf.h`, `include/linux/dma-buf-mapping.h`.

use core::{mem::ManuallyDrop, ptr::null_mut};

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
};
use kernel_ext::{
    door::{view_of, FromC},
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
    self as bindings, dma_buf, dma_buf_attachment, dma_buf_ops, dma_data_direction,
    ib_uverbs_dmabuf_file, sg_table,
};

use crate::class::Class;

view_of! {
    /// A DMA buffer of user space.
    pub struct DmabufObject(ib_uverbs_dmabuf_file);
}

/// DMA buffers, as a kind of objects.
pub struct Dmabufs;

// SAFETY: The description in ib_uverbs says so. The structure begins with the object; zeros are a valid value, and nothing in
// it must be dropped after `detach`.
unsafe impl Class for Dmabufs {
    const ID: u16 = bindings::UVERBS_OBJECT_DMABUF as u16;
    type Memory = DmabufObject;
}

/// The buffers of a piece of memory, locked.
///
/// # Invariants
///
/// The mutex of the entry is held.
struct Locked<'a>(&'a MmapEntry);

impl<'a> Locked<'a> {
    #[inline]
    fn new(entry: &'a MmapEntry, _sleep: &MaySleep) -> Self {
        // SAFETY: The mutex is there as long as the entry; the caller may sleep.
        unsafe { bindings::mutex_lock(&raw mut (*entry.as_raw()).dmabufs_lock) };
        Self(entry)
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::mutex_unlock(&raw mut (*self.0.as_raw()).dmabufs_lock) };
    }
}

impl DmabufObject {
    /// What every object has.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: The structure begins with that.
        unsafe { &*self.as_raw().cast() }
    }

    /// The piece of memory that a command has named by its offset in pages; asks the driver where it is.
    #[inline]
    fn find(&self, page: isize) -> Result<EntryRef> {
        let context = self.uobject().context().ok_or(EINVAL)?;
        let ops = context.device().ops();
        let find = ops.pgoff_to_mmap_entry.ok_or(EOPNOTSUPP)?;
        let get_pfns = ops.mmap_get_pfns.ok_or(EOPNOTSUPP)?;
        let raw = self.as_raw();
        // SAFETY: The context is there; the driver returns an entry with a reference, or null. The object is being made:
        // nobody else has it.
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

    /// Makes the buffer of a piece of memory that begins at an offset in pages, for an object that is being made. `module` is
    /// the one that this is called from.
    ///
    /// # Errors
    ///
    /// `EINVAL` if nothing begins there, `EIO` if it may not be mapped any more, `ENOMEM`; those of the driver.
    ///
    /// # Safety
    ///
    /// The object is being made, by this thread alone, and nothing was exported for it.
    #[inline]
    pub unsafe fn export(
        &self,
        page: isize,
        module: &'static ThisModule,
        sleep: &MaySleep,
    ) -> Result {
        let entry = self.find(page)?;
        let raw = self.as_raw();
        // SAFETY: By the safety requirements.
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
        // SAFETY: As above; the buffer is new, and its file ours.
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
        Ok(())
    }

    /// Lists the buffer as one of a piece of memory.
    #[inline]
    fn list(&self, entry: &MmapEntry, sleep: &MaySleep) -> Result {
        let _locked = Locked::new(entry, sleep);
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

    /// Takes the buffer away from those who have imported it, and waits until they are done. For the `destroy_object` of the
    /// class.
    #[inline]
    pub fn detach(&self, why: RemoveReason, sleep: &MaySleep) {
        let raw = self.as_raw();
        // SAFETY: An object that was made has both, and a reference of the entry; who revokes holds the lock.
        unsafe {
            let entry = EntryRef::from_c((*raw).mmap_entry);
            let locked = Locked::new(&entry, sleep);
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

/// Says that a buffer has no object any more, which may go before the buffer's file does.
///
/// # Safety
///
/// The buffer is there, and nobody has imported it, or it was revoked.
#[inline]
unsafe fn abandon(buffer: *mut dma_buf) {
    // SAFETY: By the safety requirements.
    unsafe { (*buffer).priv_ = null_mut() };
}

/// What a buffer's importers and its file call.
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
/// For C: someone wants to import the buffer.
#[inline]
unsafe extern "C" fn attach(_buffer: *mut dma_buf, attachment: *mut dma_buf_attachment) -> c_int {
    // SAFETY: The attachment is there during the call.
    if unsafe { (*attachment).peer2peer } {
        0
    } else {
        EOPNOTSUPP.to_errno()
    }
}

/// # Safety
///
/// For C: an importer wants addresses, and holds the reservation lock.
#[inline]
unsafe extern "C" fn map(attachment: *mut dma_buf_attachment, direction: c_int) -> *mut sg_table {
    let direction = direction as dma_data_direction;
    // SAFETY: The buffer is there as long as it has importers, and has an object unless it was revoked; its members are
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
/// For C: an importer gives addresses back, and holds the reservation lock.
#[inline]
unsafe extern "C" fn unmap(
    attachment: *mut dma_buf_attachment,
    table: *mut sg_table,
    direction: c_int,
) {
    let direction = direction as dma_data_direction;
    // SAFETY: The object stays until all addresses were given back: who destroys it waits for that.
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
/// For C: an importer wants the buffer to stay where it is, which cannot be promised.
#[inline]
unsafe extern "C" fn pin(_attachment: *mut dma_buf_attachment) -> c_int {
    EOPNOTSUPP.to_errno()
}

/// # Safety
///
/// For C, which wants it where there is a `pin`.
#[inline]
unsafe extern "C" fn unpin(_attachment: *mut dma_buf_attachment) {}

/// # Safety
///
/// For C: the buffer's file was closed. Process context.
#[inline]
unsafe extern "C" fn release(buffer: *mut dma_buf) {
    // SAFETY: The file has kept its object, unless that was not made completely.
    unsafe {
        let file = (*buffer).priv_.cast::<ib_uverbs_dmabuf_file>();
        if !file.is_null() {
            bindings::uverbs_uobject_release(&raw mut (*file).uobj);
        }
    }
}
