// SPDX-License-Identifier: GPL-2.0

//! Memory of a DMA buffer that a software device accesses by the processor.
//!
//! The buffer is attached to the device, so that its exporter can revoke it, pinned, and mapped into the kernel's address
//! space (`dma_buf_vmap`): a device without DMA has no addresses that an exporter could map pages for. RCU protects accesses;
//! the buffer's reservation lock (`dma_resv`) protects the mapping.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | the reservation lock of a buffer | the mapping; held during a revocation, until accesses have ended | process context | what exporters take |
//!
//! Callers of `dma_buf_*` functions are inline: these symbols are in a namespace that the driver imports.
//!
//! C headers: `include/linux/dma-buf.h`, `include/linux/dma-resv.h`, `include/linux/iosys-map.h`.

use core::{
    cell::UnsafeCell,
    marker::{PhantomData, PhantomPinned},
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
    sync::rcu,
};
use kernel_ext::{
    compat::enumeration::dma_direction, error::EOPNOTSUPP, room::Room, shared_bytes::SharedBytes,
    sync::rcu as rcu_sync,
};
use rdma_bindings::{self as bindings, dma_buf, dma_buf_attach_ops, dma_buf_attachment, iosys_map};

use crate::{
    provider::{data::ProviderData, extent::Extent, mr::VirtAtomic},
    Device, MaySleep,
};

const BOTH_WAYS: kernel::bindings::dma_data_direction = dma_direction(bindings::DMA_BIDIRECTIONAL);

/// The importer's methods, in the driver's module.
struct Methods<P>(PhantomData<P>);

impl<P> Methods<P> {
    const OPS: dma_buf_attach_ops = dma_buf_attach_ops {
        allow_peer2peer: false,
        invalidate_mappings: Some(invalidate),
    };
}

/// Revokes the memory for the exporter of its buffer.
///
/// # Safety
///
/// `attach` is an attachment of [`Dmabuf::new`], and the lock of its buffer is held.
#[inline]
unsafe extern "C" fn invalidate(attach: *mut dma_buf_attachment) {
    // SAFETY: By the safety requirements the private data is the value that is detached before it is freed, under this
    // lock, and the lock is held; who holds it may sleep.
    unsafe {
        let this: &Dmabuf = &*(*attach).importer_priv.cast();
        this.unmap(&MaySleep::assume());
    }
}

/// A reference to a DMA buffer, which is prepared for accesses by the processor.
///
/// # Invariants
///
/// `self` owns one reference, and one `dma_buf_begin_cpu_access`.
struct Buffer(NonNull<dma_buf>);

impl Buffer {
    #[inline]
    fn get(fd: c_int) -> Result<Self> {
        // SAFETY: Any number may be passed; the reference is released below on failure, or by `self`.
        unsafe {
            let raw = NonNull::new(from_err_ptr(bindings::dma_buf_get(fd))?).ok_or(EINVAL)?;
            let begun = bindings::dma_buf_begin_cpu_access(raw.as_ptr(), BOTH_WAYS);
            if let Err(error) = to_result(begun) {
                bindings::dma_buf_put(raw.as_ptr());
                return Err(error);
            }
            // INVARIANT: Both have succeeded.
            Ok(Self(raw))
        }
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe {
            bindings::dma_buf_end_cpu_access(self.0.as_ptr(), BOTH_WAYS);
            bindings::dma_buf_put(self.0.as_ptr());
        }
    }
}

/// A range of a DMA buffer, until the exporter revokes it.
///
/// Others may write to the memory at any time. Dropping it sleeps, and needs the device.
///
/// # Invariants
///
/// `attachment` is null, or an attachment to `buffer` whose private data is `self`. The lock of the buffer protects `map`, which is
/// set while the buffer is pinned and mapped. Where `start` is not null, `len` bytes are mapped there at least until the end of an
/// RCU read-side critical section in which it was read.
pub struct Dmabuf {
    start: AtomicPtr<u8>,
    len: usize,
    writable: bool,
    map: UnsafeCell<Option<iosys_map>>,
    attachment: AtomicPtr<dma_buf_attachment>,
    buffer: Buffer,
    _pin: PhantomPinned,
}

// SAFETY: The buffer may be used, and released, from any thread.
unsafe impl Send for Dmabuf {}
// SAFETY: Accesses are copies that tolerate changes, or atomic; the buffer's lock protects `map`.
unsafe impl Sync for Dmabuf {}

impl Dmabuf {
    /// Attaches, pins and maps `len` bytes at `offset` of the DMA buffer of a file descriptor.
    ///
    /// # Errors
    ///
    /// `EBADF` for a number that is no descriptor; `EINVAL` for a file that is not a DMA buffer, a range that is empty or
    /// not in the buffer, and an exporter that maps nothing for the kernel; `EOPNOTSUPP` for the memory of a device;
    /// `ENOMEM`, and those of the exporter.
    #[inline]
    pub fn new<P: ProviderData>(
        dev: &Device<P>,
        (offset, len, fd): (u64, u64, c_int),
        writable: bool,
        _sleep: &MaySleep,
    ) -> Result<Pin<KBox<Self>>> {
        let buffer = Buffer::get(fd)?;
        let (offset, len) = (usize::try_from(offset)?, usize::try_from(len)?);
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        let raw = buffer.0.as_ptr();
        // SAFETY: The buffer is valid, and its size constant.
        if len == 0 || end > unsafe { (*raw).size } {
            return Err(EINVAL);
        }
        // INVARIANT: Nothing is attached or mapped yet.
        let new = Self {
            start: AtomicPtr::new(ptr::null_mut()),
            len,
            writable,
            map: UnsafeCell::new(None),
            attachment: AtomicPtr::new(ptr::null_mut()),
            buffer,
            _pin: PhantomPinned,
        };
        let this = KBox::into_pin(KBox::new(new, GFP_KERNEL)?);
        let private = ptr::from_ref(&*this).cast_mut().cast();
        // SAFETY: The device is valid as long as its memory regions, the methods are constant, and `this` stays in its place until
        // it is detached when it is dropped.
        // INVARIANT: The private data is `this`.
        unsafe {
            let device = &raw mut (*dev.as_raw()).__bindgen_anon_1.dev;
            let attachment =
                bindings::dma_buf_dynamic_attach(raw, device.cast(), &Methods::<P>::OPS, private);
            this.attachment
                .store(from_err_ptr(attachment)?, Ordering::Relaxed);
            bindings::dma_resv_lock((*raw).resv, ptr::null_mut());
            let mapped = this.map(offset);
            bindings::dma_resv_unlock((*raw).resv);
            mapped?;
        }
        Ok(this)
    }

    /// Pins and maps the buffer.
    ///
    /// # Safety
    ///
    /// The buffer is attached, not mapped, and locked; `offset` and `self.len` are a range of it.
    #[inline]
    unsafe fn map(&self, offset: usize) -> Result {
        let mut map = iosys_map::zeroed();
        let (raw, attachment) = (
            self.buffer.0.as_ptr(),
            self.attachment.load(Ordering::Relaxed),
        );
        // SAFETY: By the safety requirements.
        unsafe {
            to_result(bindings::dma_buf_pin(attachment))?;
            if let Err(error) = to_result(bindings::dma_buf_vmap(raw, &mut map)) {
                bindings::dma_buf_unpin(attachment);
                return Err(error);
            }
            *self.map.get() = Some(map);
        }
        if map.is_iomem {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: This is the variant of memory that is not a device's.
        let start = unsafe { map.__bindgen_anon_1.vaddr }.cast::<u8>();
        // INVARIANT: The exporter has mapped the buffer, and the range is in it.
        self.start
            .store(start.wrapping_add(offset), Ordering::Release);
        Ok(())
    }

    /// Unmaps and unpins the buffer, if it is mapped: when this returns, the memory is not accessed any more.
    ///
    /// # Safety
    ///
    /// The buffer is locked.
    #[inline]
    unsafe fn unmap(&self, sleep: &MaySleep) {
        // SAFETY: By the safety requirements the lock is held, which protects `map`.
        let Some(mut map) = (unsafe { (*self.map.get()).take() }) else {
            return;
        };
        self.start.store(ptr::null_mut(), Ordering::Relaxed);
        rcu_sync::synchronize_expedited(sleep);
        // SAFETY: The buffer is mapped and pinned by the type invariants, and locked; accesses have ended with the grace period.
        unsafe {
            bindings::dma_buf_vunmap(self.buffer.0.as_ptr(), &mut map);
            bindings::dma_buf_unpin(self.attachment.load(Ordering::Relaxed));
        }
    }

    /// Whether the exporter has revoked the memory.
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.start.load(Ordering::Relaxed).is_null()
    }

    /// Whether the memory was registered for writing.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Calls `access` with the address of `len` bytes at the offset `at`.
    #[inline]
    fn with<R>(
        &self,
        at: usize,
        len: usize,
        write: bool,
        access: impl FnOnce(*mut u8) -> Result<R>,
    ) -> Result<R> {
        if write && !self.writable {
            return Err(EACCES);
        }
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(EFAULT);
        }
        let _guard = rcu::read_lock();
        let start = self.start.load(Ordering::Acquire);
        if start.is_null() {
            return Err(ENXIO);
        }
        access(start.wrapping_add(at))
    }

    /// Copies `len` bytes from the memory, at the offset `at`. Any context.
    ///
    /// # Errors
    ///
    /// `EFAULT` for bytes outside the range, `ENXIO` once the memory is revoked, `EINVAL` if `to` is too small.
    #[inline]
    pub fn read(&self, at: usize, len: usize, to: &mut Room<'_>) -> Result {
        self.with(at, len, false, |from| {
            // SAFETY: By the type invariants the bytes are mapped in this critical section.
            to.write_shared(unsafe { SharedBytes::from_raw(from.cast_const(), len) })
        })
    }

    /// Copies to the memory, at the offset `at`. Any context.
    ///
    /// # Errors
    ///
    /// `EACCES` if the memory is not writable, `EFAULT` and `ENXIO` as for [`Self::read`].
    #[inline]
    pub fn write(&self, at: usize, from: SharedBytes<'_>) -> Result {
        self.with(at, from.len(), true, |to| {
            // SAFETY: By the type invariants the bytes are mapped in this critical section.
            unsafe { from.copy_to_raw(to) };
            Ok(())
        })
    }

    /// Copies `len` bytes at `from` of other memory to the offset `at`. Any context.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`], and `EFAULT` for bytes outside of `other`.
    #[inline]
    pub fn write_from(&self, at: usize, other: &Extent<'_>, from: usize, len: usize) -> Result {
        self.with(at, len, true, |to| {
            // SAFETY: By the type invariants the bytes are mapped in this critical section.
            unsafe { other.copy_to(from, to, len) }
        })
    }

    /// Calls `operation` with the eight bytes at the offset `at`. Any context.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`]; `EINVAL` if they are not aligned to eight.
    #[inline]
    pub fn atomic<R>(&self, at: usize, operation: impl FnOnce(&AtomicU64) -> R) -> Result<R> {
        self.with(at, size_of::<u64>(), true, |bytes| {
            let number = bytes.cast::<u64>();
            if !number.is_aligned() {
                return Err(EINVAL);
            }
            // SAFETY: By the type invariants the bytes are mapped in this critical section; they are aligned.
            Ok(operation(unsafe { VirtAtomic::new(number) }.get()))
        })
    }
}

impl Drop for Dmabuf {
    #[inline]
    fn drop(&mut self) {
        kernel::task::might_sleep();
        let attachment = *self.attachment.get_mut();
        if attachment.is_null() {
            return;
        }
        let raw = self.buffer.0.as_ptr();
        // SAFETY: By the type invariants; who drops memory may sleep. No method is called any more once it is detached.
        unsafe {
            bindings::dma_resv_lock((*raw).resv, ptr::null_mut());
            self.unmap(&MaySleep::assume());
            bindings::dma_resv_unlock((*raw).resv);
            bindings::dma_buf_detach(raw, attachment);
        }
    }
}
