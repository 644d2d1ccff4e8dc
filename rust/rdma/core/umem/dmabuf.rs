// SPDX-License-Identifier: GPL-2.0

//! DMA buffers: `struct ib_umem_dmabuf`.
//!
//! The buffer's reservation lock (`dma_resv`) protects whether it is mapped, pinned or revoked. Whoever exports the buffer
//! takes it too, and calls the driver under it.
//!
//! What calls the functions of DMA buffers is inline: their names are in a name space that only the core imports.
//!
//! C headers: `include/rdma/ib_umem.h`, `include/linux/dma-buf.h`, `include/linux/dma-resv.h`.

use core::{mem::ManuallyDrop, ptr::NonNull};

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::{c_int, c_void},
    page::PAGE_SIZE,
    prelude::*,
};
use kernel_ext::entry::{view_of, FromC};
use rdma_bindings::{
    self as bindings, dma_buf_attach_ops, dma_buf_attachment, dma_resv, ib_umem_dmabuf, scatterlist,
};

use super::{AccessFlags, UmemView};
use crate::{
    core::{device::raw_dev, Device},
    MaySleep,
};

const BOTH_WAYS: c_int = bindings::dma_data_direction_DMA_BIDIRECTIONAL;

view_of! {
    /// A range of a DMA buffer.
    pub struct DmabufUmem(ib_umem_dmabuf);
}

/// What an importer of a buffer has to say. It is constant, and stays as long as the driver.
#[derive(Clone, Copy)]
pub struct AttachOps(*const dma_buf_attach_ops);

// SAFETY: A driver passes its methods.
unsafe impl FromC for AttachOps {
    type Raw = *const dma_buf_attach_ops;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

/// What a driver wants to be called when a range is revoked.
#[derive(Clone, Copy)]
pub struct RevokeCallback(Option<unsafe extern "C" fn(*mut c_void)>);

// SAFETY: A driver passes its function.
unsafe impl FromC for RevokeCallback {
    type Raw = Option<unsafe extern "C" fn(*mut c_void)>;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

/// Methods of ours.
pub struct OwnOps(dma_buf_attach_ops);

// SAFETY: They are constant.
unsafe impl Sync for OwnOps {}

impl OwnOps {
    /// For a buffer that is pinned, and stays.
    #[inline]
    pub const fn pinned() -> Self {
        Self(dma_buf_attach_ops {
            allow_peer2peer: true,
            invalidate_mappings: None,
        })
    }

    /// For a buffer that is pinned, and may be taken away.
    #[inline]
    pub const fn revocable() -> Self {
        Self(dma_buf_attach_ops {
            allow_peer2peer: true,
            invalidate_mappings: Some(invalidate),
        })
    }

    /// As drivers pass theirs.
    #[inline]
    pub fn get(&'static self) -> AttachOps {
        AttachOps(&self.0)
    }
}

/// Revokes a range for an exporter that takes its buffer away.
///
/// # Safety
///
/// `attach` is an attachment of ours, and the lock of its buffer is held.
#[inline]
unsafe extern "C" fn invalidate(attach: *mut dma_buf_attachment) {
    // SAFETY: What we attach has our structure. The lock is held by the exporter, who unlocks it.
    let range: &DmabufUmem = unsafe { &*(*attach).importer_priv.cast() };
    ManuallyDrop::new(Locked(range)).revoke();
}

impl DmabufUmem {
    /// The lock of the buffer.
    #[inline]
    fn resv(&self) -> *mut dma_resv {
        // SAFETY: The attachment is constant, and keeps the buffer.
        unsafe { (*(*(*self.as_raw()).attach).dmabuf).resv }
    }

    /// Locks the buffer.
    #[inline]
    pub fn lock(&self, _sleep: &MaySleep) -> Locked<'_> {
        // SAFETY: The lock is there as long as the buffer.
        unsafe { bindings::dma_resv_lock(self.resv(), core::ptr::null_mut()) };
        Locked(self)
    }

    /// The lock, which the caller in C holds, and keeps.
    ///
    /// # Safety
    ///
    /// The caller has locked the buffer.
    #[inline]
    pub unsafe fn held_by_caller(&self) -> ManuallyDrop<Locked<'_>> {
        ManuallyDrop::new(Locked(self))
    }
}

/// A range whose buffer is locked.
///
/// # Invariants
///
/// The buffer's reservation lock is held.
pub struct Locked<'a>(&'a DmabufUmem);

impl Locked<'_> {
    /// Leaves it locked: the caller in C unlocks it.
    #[inline]
    pub fn leave(self) {
        let _ = ManuallyDrop::new(self);
    }

    /// Maps the range for the device, and waits until the exporter has moved the content there.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it was revoked, `ETIMEDOUT`, those of the exporter.
    #[inline]
    pub fn map(&self) -> Result {
        let raw = self.0.as_raw();
        // SAFETY: The lock is held that protects the structure.
        unsafe {
            if (*raw).revoked() != 0 {
                return Err(EINVAL);
            }
            if (*raw).sgt.is_null() {
                let sgt = bindings::dma_buf_map_attachment((*raw).attach, BOTH_WAYS);
                (*raw).sgt = from_err_ptr(sgt)?;
                cut(raw);
            }
            let usage = bindings::dma_resv_usage_DMA_RESV_USAGE_KERNEL;
            match bindings::dma_resv_wait_timeout(self.0.resv(), usage, false, isize::MAX as usize)
            {
                0 => Err(ETIMEDOUT),
                left => to_result(left.min(1) as c_int),
            }
        }
    }

    /// Takes the range from the device, if it is mapped.
    #[inline]
    pub fn unmap(&self) {
        let raw = self.0.as_raw();
        // SAFETY: The lock is held that protects the structure.
        unsafe {
            if (*raw).sgt.is_null() {
                return;
            }
            uncut(raw);
            bindings::dma_buf_unmap_attachment((*raw).attach, (*raw).sgt, BOTH_WAYS);
            (*raw).sgt = core::ptr::null_mut();
        }
    }

    /// Pins the buffer where it is.
    ///
    /// # Errors
    ///
    /// Those of the exporter.
    #[inline]
    pub fn pin(&self) -> Result {
        let raw = self.0.as_raw();
        // SAFETY: The lock is held that protects the structure.
        unsafe {
            to_result(bindings::dma_buf_pin((*raw).attach))?;
            (*raw).set_pinned(1);
        }
        Ok(())
    }

    /// Says what is to be called when the range is revoked, with which argument.
    #[inline]
    pub fn on_revoke(&self, callback: RevokeCallback, argument: *mut c_void) {
        let raw = self.0.as_raw();
        // SAFETY: The lock is held that protects the structure.
        unsafe {
            (*raw).pinned_revoke = callback.0;
            (*raw).private = argument;
        }
    }

    /// Takes the range away for good: the driver is told, once, and the range unmapped and unpinned.
    #[inline]
    pub fn revoke(&self) {
        let raw = self.0.as_raw();
        // SAFETY: The lock is held that protects the structure; the driver's function and argument belong together.
        unsafe {
            if (*raw).revoked() != 0 {
                return;
            }
            if let Some(callback) = (*raw).pinned_revoke {
                callback((*raw).private);
            }
            self.unmap();
            if (*raw).pinned() != 0 {
                bindings::dma_buf_unpin((*raw).attach);
                (*raw).set_pinned(0);
            }
            (*raw).set_revoked(1);
        }
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::dma_resv_unlock(self.0.resv()) };
    }
}

/// How long a mapped entry is for the device (sg_dma_len): kernels without an IOMMU have one length for both.
///
/// # Safety
///
/// The entry is valid, and nobody else uses its length.
unsafe fn dma_length<'a>(sg: *mut scatterlist) -> &'a mut u32 {
    // SAFETY: By the safety requirements.
    unsafe {
        #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
        return &mut (*sg).dma_length;
        #[cfg(not(CONFIG_NEED_SG_DMA_LENGTH))]
        return &mut (*sg).length;
    }
}

/// Cuts the buffer's list to the whole pages of the range: its first and last entries are shortened in place.
///
/// # Safety
///
/// The buffer is locked, and `sgt` was just mapped.
unsafe fn cut(raw: *mut ib_umem_dmabuf) {
    // SAFETY: By the safety requirements. The list has `nents` mapped entries.
    unsafe {
        let umem = &(*raw).umem;
        let start = (umem.address & !(PAGE_SIZE - 1)) as u64;
        let end = (umem
            .address
            .wrapping_add(umem.length)
            .wrapping_add(PAGE_SIZE - 1)
            & !(PAGE_SIZE - 1)) as u64;
        let mut sg: *mut scatterlist = (*(*raw).sgt).sgl;
        let mut at = 0u64;
        let mut entries = 0;
        for _ in 0..(*(*raw).sgt).nents {
            let length = dma_length(sg);
            let next = at.wrapping_add(u64::from(*length));
            if at < end && start < next {
                entries = u32::wrapping_add(entries, 1);
                if at <= start {
                    let skip = start.wrapping_sub(at) as u32;
                    (*raw).first_sg = sg;
                    (*raw).first_sg_offset = skip as usize;
                    (*sg).dma_address = (*sg).dma_address.wrapping_add(u64::from(skip));
                    *length = length.wrapping_sub(skip);
                }
                if end <= next {
                    let trim = next.wrapping_sub(end) as u32;
                    (*raw).last_sg = sg;
                    (*raw).last_sg_trim = trim as usize;
                    *length = length.wrapping_sub(trim);
                    break;
                }
            }
            at = next;
            sg = bindings::sg_next(sg);
        }
        (*raw).umem.sgt_append.sgt.sgl = (*raw).first_sg;
        (*raw).umem.sgt_append.sgt.nents = entries;
    }
}

/// Makes the buffer's list what it was.
///
/// # Safety
///
/// The buffer is locked, and its list was cut.
unsafe fn uncut(raw: *mut ib_umem_dmabuf) {
    // SAFETY: By the safety requirements; the entries are in the list.
    unsafe {
        if let Some(first) = (*raw).first_sg.as_mut() {
            let skip = (*raw).first_sg_offset;
            first.dma_address = first.dma_address.wrapping_sub(skip as u64);
            let length = dma_length(first);
            *length = length.wrapping_add(skip as u32);
        }
        if let Some(last) = (*raw).last_sg.as_mut() {
            let length = dma_length(last);
            *length = length.wrapping_add((*raw).last_sg_trim as u32);
        }
        (*raw).first_sg = core::ptr::null_mut();
        (*raw).first_sg_offset = 0;
        (*raw).last_sg = core::ptr::null_mut();
        (*raw).last_sg_trim = 0;
    }
}

/// A range of a DMA buffer, as its owner has it. Dropping it revokes it, in process context.
///
/// # Invariants
///
/// The structure is ours alone, and attached to a buffer that we have a reference of.
pub struct Dmabuf(NonNull<ib_umem_dmabuf>);

impl Dmabuf {
    /// Attaches a device to `len` bytes from `offset` on of the buffer that a file descriptor is of.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no length, a range that the buffer does not have, or without a device for the DMA; `EBADF`, `ENOMEM`,
    /// those of the exporter.
    #[inline]
    pub fn attach(
        device: &Device,
        dma_device: Option<&kernel::device::Device>,
        (offset, len, fd): (usize, usize, c_int),
        access: AccessFlags,
        ops: AttachOps,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        let buffer = Buffer::get(fd)?;
        if buffer.len() < end || len == 0 {
            return Err(EINVAL);
        }
        let dma_device = raw_dev(dma_device.ok_or(EINVAL)?);
        let mut range = KBox::new(ib_umem_dmabuf::zeroed(), GFP_KERNEL)?;
        range.umem.ibdev = device.as_raw();
        range.umem.length = len;
        range.umem.address = offset;
        range.umem.set_writable(access.is_writable().into());
        range.umem.set_is_dmabuf(1);
        let private = core::ptr::from_mut(&mut *range).cast();
        // SAFETY: The buffer is there; the methods are constant, and the structure stays until it is detached.
        range.attach = from_err_ptr(unsafe {
            bindings::dma_buf_dynamic_attach(buffer.0.as_ptr(), dma_device, ops.0, private)
        })?;
        // INVARIANT: It is attached; the reference is its from now on.
        let _ = ManuallyDrop::new(buffer);
        Ok(Self(NonNull::from(KBox::leak(range))))
    }

    /// Takes the range over.
    ///
    /// # Safety
    ///
    /// `raw` is from [`Self::into_raw`], and the caller was its owner.
    #[inline]
    pub(super) unsafe fn from_raw(raw: NonNull<ib_umem_dmabuf>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw)
    }

    /// Hands it over to C.
    #[inline]
    pub fn into_raw(self) -> *mut ib_umem_dmabuf {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// What all memory has.
    #[inline]
    pub fn view(&self) -> &UmemView {
        // SAFETY: The first member; a view is a transparent wrapper.
        unsafe { self.0.cast().as_ref() }
    }

    /// The range.
    #[inline]
    pub fn range(&self) -> &DmabufUmem {
        // SAFETY: By the type invariants; a view is a transparent wrapper.
        unsafe { self.0.cast().as_ref() }
    }
}

impl Drop for Dmabuf {
    #[inline]
    fn drop(&mut self) {
        let range = self.range();
        // SAFETY: Ranges are dropped in process context.
        let sleep = unsafe { MaySleep::assume() };
        range.lock(&sleep).revoke();
        // SAFETY: By the type invariants; nobody uses the attachment any more.
        unsafe {
            let attach = (*self.0.as_ptr()).attach;
            let buffer = (*attach).dmabuf;
            bindings::dma_buf_detach(buffer, attach);
            bindings::dma_buf_put(buffer);
            drop(KBox::from_raw(self.0.as_ptr()));
        }
    }
}

/// A reference of a buffer.
///
/// # Invariants
///
/// The reference is ours.
struct Buffer(NonNull<bindings::dma_buf>);

impl Buffer {
    /// The buffer that a file descriptor of the process is of.
    #[inline]
    fn get(fd: c_int) -> Result<Self> {
        // SAFETY: It returns a reference, or an errno.
        let raw = from_err_ptr(unsafe { bindings::dma_buf_get(fd) })?;
        // INVARIANT: As above.
        Ok(Self(NonNull::new(raw).ok_or(EINVAL)?))
    }

    /// Its length in bytes.
    #[inline]
    fn len(&self) -> usize {
        // SAFETY: The reference is ours; the length is constant.
        unsafe { (*self.0.as_ptr()).size }
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::dma_buf_put(self.0.as_ptr()) };
    }
}
