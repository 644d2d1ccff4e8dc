// SPDX-License-Identifier: GPL-2.0

//! DMA buffers: `struct ib_umem_dmabuf`.
//!
//! The buffer's reservation lock (`dma_resv`) protects the state: mapped, pinned, revoked. The exporter of the buffer
//! takes it too, and calls the driver under it.
//!
//! Callers of `dma_buf_*` functions are inline: these symbols are in a namespace that only the core imports.
//!
//! C headers: `include/rdma/ib_umem.h`, `include/linux/dma-buf.h`, `include/linux/dma-resv.h`.

use core::{marker::PhantomData, mem::ManuallyDrop, ops::Deref, ptr::NonNull};

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::{c_int, c_void},
    page::PAGE_SIZE,
    prelude::*,
    types::NotThreadSafe,
};
use kernel_ext::{
    compat::enumeration::dma_direction,
    entry::{view_of, FromC},
};
use rdma_bindings::{
    self as bindings, dma_buf_attach_ops, dma_buf_attachment, dma_resv, ib_umem_dmabuf, scatterlist,
};

use super::view::{AccessFlags, UmemView};
use crate::{
    core::{device::raw_dev, Device},
    MaySleep,
};

const BOTH_WAYS: kernel::bindings::dma_data_direction = dma_direction(bindings::DMA_BIDIRECTIONAL);

view_of! {
    /// A range of a DMA buffer.
    pub struct DmabufUmem(ib_umem_dmabuf);
}

/// The methods of an importer: a constant structure that is valid as long as the driver.
#[derive(Clone, Copy)]
pub struct AttachOps(*const dma_buf_attach_ops);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for AttachOps {
    type Raw = *const dma_buf_attach_ops;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

/// The function of a driver that is called when a range is revoked, which C passes together with a [`RevokeArg`].
pub struct RevokeCallback<'a>(
    Option<unsafe extern "C" fn(*mut c_void)>,
    PhantomData<&'a ()>,
);

/// The argument of a [`RevokeCallback`]. A value does not outlive the call, and no exported function takes two of them.
pub struct RevokeArg<'a>(*mut c_void, PhantomData<&'a ()>);

/// A function of a driver, with its argument.
///
/// # Invariants
///
/// The function may be called with the argument until the range is released.
pub struct OnRevoke(Option<unsafe extern "C" fn(*mut c_void)>, *mut c_void);

// SAFETY: `Raw` is the function pointer in the header.
unsafe impl FromC for RevokeCallback<'_> {
    type Raw = Option<unsafe extern "C" fn(*mut c_void)>;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: `Raw` is the `void *` of the header.
unsafe impl FromC for RevokeArg<'_> {
    type Raw = *mut c_void;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

impl<'a> RevokeCallback<'a> {
    /// Joins the two arguments.
    pub fn with(self, argument: RevokeArg<'a>) -> OnRevoke {
        // INVARIANT: Both are from the same call, and by the header the driver gets its argument back.
        OnRevoke(self.0, argument.0)
    }
}

/// Importer methods of the core.
pub struct OwnOps(dma_buf_attach_ops);

// SAFETY: The methods are constant.
unsafe impl Sync for OwnOps {}

impl OwnOps {
    /// The methods for a pinned buffer that is never revoked.
    #[inline]
    pub const fn pinned() -> Self {
        Self(dma_buf_attach_ops {
            allow_peer2peer: true,
            invalidate_mappings: None,
        })
    }

    /// The methods for a pinned buffer that the exporter may revoke.
    #[inline]
    pub const fn revocable() -> Self {
        Self(dma_buf_attach_ops {
            allow_peer2peer: true,
            invalidate_mappings: Some(invalidate),
        })
    }

    /// The methods as a driver passes them.
    #[inline]
    pub fn get(&'static self) -> AttachOps {
        AttachOps(&self.0)
    }
}

/// Revokes a range for the exporter of its buffer.
///
/// # Safety
///
/// `attach` is an attachment from [`Dmabuf::attach`], and the lock of its buffer is held.
#[inline]
unsafe extern "C" fn invalidate(attach: *mut dma_buf_attachment) {
    // SAFETY: By the safety requirements the private data is the structure that `Dmabuf::attach` has set. The exporter
    // holds the lock, and unlocks it.
    let range: &DmabufUmem = unsafe { &*(*attach).importer_priv.cast() };
    ManuallyDrop::new(Locked(range, NotThreadSafe)).revoke();
}

impl DmabufUmem {
    /// The lock of the buffer.
    #[inline]
    fn resv(&self) -> *mut dma_resv {
        // SAFETY: The attachment is constant, and holds a reference to the buffer.
        unsafe { (*(*(*self.as_raw()).attach).dmabuf).resv }
    }

    /// Locks the buffer.
    #[inline]
    pub fn lock(&self, _sleep: &MaySleep) -> Locked<'_> {
        // SAFETY: The lock is valid as long as the buffer.
        unsafe { bindings::dma_resv_lock(self.resv(), core::ptr::null_mut()) };
        // INVARIANT: The lock was just taken.
        Locked(self, NotThreadSafe)
    }
}

/// A range whose buffer is locked.
///
/// # Invariants
///
/// This task holds the buffer's reservation lock.
pub struct Locked<'a>(&'a DmabufUmem, NotThreadSafe);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for Locked<'_> {
    type Raw = *mut ib_umem_dmabuf;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the range is valid. INVARIANT: The header says that the caller has locked the buffer,
        // and that the function unlocks it.
        Self(unsafe { <&DmabufUmem>::from_c(raw) }, NotThreadSafe)
    }
}

/// A range whose buffer the caller in C has locked, and unlocks.
pub struct LockedByCaller<'a>(ManuallyDrop<Locked<'a>>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for LockedByCaller<'_> {
    type Raw = *mut ib_umem_dmabuf;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements. The header says that the caller has locked the buffer; the value is not dropped.
        Self(ManuallyDrop::new(unsafe { Locked::from_c(raw) }))
    }
}

impl<'a> Deref for LockedByCaller<'a> {
    type Target = Locked<'a>;

    #[inline]
    fn deref(&self) -> &Locked<'a> {
        &self.0
    }
}

impl Locked<'_> {
    /// Leaves the buffer locked for C, which unlocks it.
    #[inline]
    pub fn leave(self) {
        let _ = ManuallyDrop::new(self);
    }

    /// Maps the range for the device, and waits until the exporter has moved the content there.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it was revoked, `ETIMEDOUT`, and those of the exporter.
    #[inline]
    pub fn map(&self) -> Result {
        let raw = self.0.as_raw();
        // SAFETY: By the type invariants the lock is held, which protects the structure.
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

    /// Unmaps the range from the device, if it is mapped.
    #[inline]
    pub fn unmap(&self) {
        let raw = self.0.as_raw();
        // SAFETY: By the type invariants the lock is held, which protects the structure.
        unsafe {
            if (*raw).sgt.is_null() {
                return;
            }
            uncut(raw);
            bindings::dma_buf_unmap_attachment((*raw).attach, (*raw).sgt, BOTH_WAYS);
            (*raw).sgt = core::ptr::null_mut();
        }
    }

    /// Pins the buffer.
    ///
    /// # Errors
    ///
    /// Those of the exporter.
    #[inline]
    pub fn pin(&self) -> Result {
        let raw = self.0.as_raw();
        // SAFETY: By the type invariants the lock is held, which protects the structure.
        unsafe {
            to_result(bindings::dma_buf_pin((*raw).attach))?;
            (*raw).set_pinned(1);
        }
        Ok(())
    }

    /// Sets what is called when the range is revoked.
    #[inline]
    pub fn on_revoke(&self, told: OnRevoke) {
        let raw = self.0.as_raw();
        // SAFETY: By the type invariants the lock is held, which protects the structure.
        unsafe {
            (*raw).pinned_revoke = told.0;
            (*raw).private = told.1;
        }
    }

    /// Revokes the range permanently: calls the driver's function once, and unmaps and unpins the range.
    #[inline]
    pub fn revoke(&self) {
        let raw = self.0.as_raw();
        // SAFETY: By the type invariants the lock is held, which protects the structure; by the invariants of `OnRevoke`
        // the driver's function may be called with the argument.
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
        // SAFETY: By the type invariants the lock is held.
        unsafe { bindings::dma_resv_unlock(self.0.resv()) };
    }
}

/// The DMA length of a mapped entry (`sg_dma_len`). Kernels without `CONFIG_NEED_SG_DMA_LENGTH` have one length for CPU
/// and device.
///
/// # Safety
///
/// The entry is valid, and no other reference to its length is used.
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

/// Reverts [`cut`].
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

/// A range of a DMA buffer with its ownership. Dropping it revokes the range, in process context.
///
/// # Invariants
///
/// `self` owns the structure, which is attached to a buffer, and one reference to that buffer.
pub struct Dmabuf(NonNull<ib_umem_dmabuf>);

impl Dmabuf {
    /// Attaches a device to `len` bytes at `offset` of the DMA buffer of a file descriptor.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a length of 0, a range outside the buffer, or a software device; `EBADF`, `ENOMEM`, and those of the
    /// exporter.
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
        // SAFETY: The buffer is valid; the methods are constant, and the structure is valid until it is detached.
        range.attach = from_err_ptr(unsafe {
            bindings::dma_buf_dynamic_attach(buffer.0.as_ptr(), dma_device, ops.0, private)
        })?;
        // INVARIANT: The structure is attached, and takes over the reference to the buffer.
        let _ = ManuallyDrop::new(buffer);
        Ok(Self(NonNull::from(KBox::leak(range))))
    }

    /// Takes over the range.
    ///
    /// # Safety
    ///
    /// `raw` is from [`Self::into_raw`], and the caller gives up its ownership.
    #[inline]
    pub(super) unsafe fn from_raw(raw: NonNull<ib_umem_dmabuf>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw)
    }

    /// Hands the range over to C.
    #[inline]
    pub fn into_raw(self) -> *mut ib_umem_dmabuf {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// The common part of user memory.
    #[inline]
    pub fn view(&self) -> &UmemView {
        // SAFETY: The common part is the first member; a view is a transparent wrapper.
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
        // SAFETY: By the type invariants; the attachment is not used any more.
        unsafe {
            let attach = (*self.0.as_ptr()).attach;
            let buffer = (*attach).dmabuf;
            bindings::dma_buf_detach(buffer, attach);
            bindings::dma_buf_put(buffer);
            drop(KBox::from_raw(self.0.as_ptr()));
        }
    }
}

/// A counted reference to a DMA buffer.
///
/// # Invariants
///
/// `self` owns the reference.
struct Buffer(NonNull<bindings::dma_buf>);

impl Buffer {
    /// The DMA buffer of a file descriptor of the current process.
    #[inline]
    fn get(fd: c_int) -> Result<Self> {
        // SAFETY: The function checks the descriptor, and returns a counted reference or an errno.
        let raw = from_err_ptr(unsafe { bindings::dma_buf_get(fd) })?;
        // INVARIANT: The function has returned a counted reference.
        Ok(Self(NonNull::new(raw).ok_or(EINVAL)?))
    }

    /// Its length in bytes.
    #[inline]
    fn len(&self) -> usize {
        // SAFETY: `self` owns a reference to the buffer, whose size is constant.
        unsafe { (*self.0.as_ptr()).size }
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the reference.
        unsafe { bindings::dma_buf_put(self.0.as_ptr()) };
    }
}
