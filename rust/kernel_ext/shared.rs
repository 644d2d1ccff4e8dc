// SPDX-License-Identifier: GPL-2.0

//! Memory that is mapped by user space, which may write it at any time.
//!
//! There are no references to such memory: all reads copy it once, with volatile or atomic accesses, and only the copy
//! is used. Offsets are checked against the length.
//!
//! C header: `include/linux/vmalloc.h`.

use crate::{bindings, context::MaySleep, shared_bytes::SharedBytes};
use core::{
    mem::size_of,
    ptr::NonNull,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};
use kernel::{
    error::to_result,
    mm::virt::{VmaNew, VmaRef},
    page::PAGE_SIZE,
    prelude::*,
    transmute::{AsBytes, FromBytes},
};

/// Returns the offset passed to `mmap`, in bytes.
pub fn vma_offset(vma: &VmaRef) -> u64 {
    // SAFETY: The mmap lock is held, by the invariants of `VmaRef`.
    let pages = unsafe { (*vma.as_ptr()).vm_pgoff };
    (pages as u64).wrapping_mul(PAGE_SIZE as u64)
}

/// Zeroed whole pages that user space may map. Dropping it may sleep, except in softirq context.
///
/// Mapped pages exist until they are unmapped.
///
/// # Invariants
///
/// `base` points to `len` bytes of initialised memory from `vmalloc_user`, which only volatile and atomic accesses touch.
pub struct SharedMem {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: The memory may be used and freed from any thread.
unsafe impl Send for SharedMem {}
// SAFETY: All accesses are volatile or atomic, and their results are plain bytes.
unsafe impl Sync for SharedMem {}

impl SharedMem {
    /// Allocates `len` bytes, rounded up to whole pages.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `len` is 0 or too large to be rounded up, `ENOMEM`.
    pub fn new(len: usize, _may_sleep: &MaySleep) -> Result<Self> {
        let len = len
            .checked_next_multiple_of(PAGE_SIZE)
            .filter(|&len| len != 0)
            .ok_or(EINVAL)?;
        // SAFETY: The token proves that the context may sleep.
        let base = unsafe { bindings::vmalloc_user_noprof(len) };
        let base = NonNull::new(base.cast()).ok_or(ENOMEM)?;
        // INVARIANT: `vmalloc_user` zeroes the memory.
        Ok(Self { base, len })
    }

    /// Returns the length, in bytes: whole pages.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the memory is empty; it never is.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Maps the start of the memory to the whole `vma`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `vma` is larger than the memory.
    pub fn map(&self, vma: &VmaNew, _may_sleep: &MaySleep) -> Result {
        // SAFETY: The area is being set up, and the memory is from `vmalloc_user`.
        to_result(unsafe {
            bindings::remap_vmalloc_range(vma.as_ptr(), self.base.as_ptr().cast(), 0)
        })
    }

    /// Returns a pointer to `len` bytes at `offset`, if they are within the memory.
    #[inline]
    fn at(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: The offset is inside the allocation.
        Some(unsafe { self.base.add(offset) })
    }

    #[inline]
    fn typed<T>(&self, offset: usize) -> Option<NonNull<T>> {
        let ptr = self.at(offset, size_of::<T>())?.cast::<T>();
        ptr.is_aligned().then_some(ptr)
    }

    #[inline]
    fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let ptr = self.typed::<u32>(offset)?;
        // SAFETY: The pointer is aligned and inside the memory, which lives as long as `self`; other accesses are atomic
        // or made by user space.
        Some(unsafe { AtomicU32::from_ptr(ptr.as_ptr()) })
    }

    /// Loads a native-endian, aligned `u32` with acquire ordering.
    ///
    /// `None` if it is beyond the end.
    #[inline]
    pub fn load_acquire_u32(&self, offset: usize) -> Option<u32> {
        Some(self.word(offset)?.load(Ordering::Acquire))
    }

    /// Loads a native-endian, aligned `u32` without ordering. `None` if it is beyond the end.
    #[inline]
    pub fn load_relaxed_u32(&self, offset: usize) -> Option<u32> {
        Some(self.word(offset)?.load(Ordering::Relaxed))
    }

    /// Stores a native-endian, aligned `u32` with release ordering.
    ///
    /// `None` if it is beyond the end.
    #[inline]
    pub fn store_release_u32(&self, offset: usize, value: u32) -> Option<()> {
        self.word(offset)?.store(value, Ordering::Release);
        Some(())
    }

    /// Copies a value: each byte is read once. `None` if it is beyond the end, or `offset` is not aligned for `T`.
    #[inline]
    pub fn snapshot<T: FromBytes>(&self, offset: usize) -> Option<T> {
        let ptr = self.typed::<T>(offset)?;
        // SAFETY: The pointer is aligned and inside the memory; all bit patterns are valid for `T`.
        Some(unsafe { ptr.as_ptr().read_volatile() })
    }

    /// Writes a value. `None` if it is beyond the end, or `offset` is not aligned for `T`.
    #[inline]
    pub fn write<T: AsBytes + Copy>(&self, offset: usize, value: &T) -> Option<()> {
        let ptr = self.typed::<T>(offset)?;
        // SAFETY: The pointer is aligned and inside the memory; by `AsBytes` a `T` has no uninitialised bytes.
        unsafe { ptr.as_ptr().write_volatile(*value) };
        Some(())
    }

    /// Copies bytes from the memory: each is read once. `None`, without a copy, if they are beyond the end.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) -> Option<()> {
        let from = self.at(offset, to.len())?;
        // SAFETY: Both are valid for the length and do not overlap.
        unsafe { copy_volatile(from.as_ptr(), to.as_mut_ptr(), to.len()) };
        Some(())
    }

    /// Copies bytes to the memory. `None`, without a copy, if they are beyond the end.
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> Option<()> {
        let to = self.at(offset, from.len())?;
        // SAFETY: Both are valid for the length and do not overlap.
        unsafe { copy_volatile(from.as_ptr(), to.as_ptr(), from.len()) };
        Some(())
    }

    /// Bytes of the memory. `None` if they are beyond the end.
    #[inline]
    pub fn bytes(&self, offset: usize, len: usize) -> Option<SharedBytes<'_>> {
        let start = self.at(offset, len)?;
        // SAFETY: The bytes are inside the memory, which lives as long as `self`.
        Some(unsafe { SharedBytes::from_raw(start.as_ptr(), len) })
    }

    /// Copies bytes that others may write meanwhile to the memory. `None`, without a copy, if they are beyond the end.
    #[inline]
    pub fn copy_in_shared(&self, offset: usize, from: SharedBytes<'_>) -> Option<()> {
        let to = self.at(offset, from.len())?;
        // SAFETY: The bytes are inside the memory.
        unsafe { from.copy_to_raw(to.as_ptr()) };
        Some(())
    }

    /// An aligned, native-endian number for atomic operations. `None` if it is beyond the end, or `offset` is not aligned.
    #[inline]
    pub fn number(&self, offset: usize) -> Option<&AtomicU64> {
        let ptr = self.typed::<u64>(offset)?;
        // SAFETY: The pointer is aligned and inside the memory, which lives as long as `self`; other accesses are atomic, or tolerate
        // changes.
        Some(unsafe { AtomicU64::from_ptr(ptr.as_ptr()) })
    }
}

impl Drop for SharedMem {
    fn drop(&mut self) {
        // SAFETY: The memory is from `vmalloc_user`, and `self` owns it; mappings of user space hold their own references
        // to the pages.
        unsafe { bindings::vfree(self.base.as_ptr().cast()) };
    }
}

/// Copies `len` bytes between private and shared memory, by the kernel's `memcpy`.
///
/// The call is opaque to the compiler, which can neither read twice nor assume that the bytes are constant.
///
/// # Safety
///
/// Both are valid for `len` bytes and do not overlap.
#[inline]
pub(crate) unsafe fn copy_volatile(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: By the safety requirements.
    unsafe { bindings::memcpy_shared(to.cast(), from.cast(), len) };
}

/// Copies the start of `bytes` to a value. `None` if they are too short.
#[inline]
pub fn read_prefix<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    let bytes = bytes.get(..size_of::<T>())?;
    // SAFETY: There are enough bytes, and all bit patterns are valid for `T`.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}
