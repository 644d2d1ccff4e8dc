// SPDX-License-Identifier: GPL-2.0

//! Pages that user space, or other kernel code, may read and write concurrently.
//!
//! C header: `include/linux/highmem.h`.

use crate::{bindings, shared::copy_volatile};
use core::{
    marker::PhantomData,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};
use kernel::{page::PAGE_SIZE, prelude::*, types::NotThreadSafe};

/// A page that is pinned during `'a`, whose content may change at any time.
///
/// # Invariants
///
/// `0` is a valid page throughout `'a`.
#[derive(Clone, Copy)]
pub struct SharedPage<'a>(NonNull<bindings::page>, PhantomData<&'a ()>);

// SAFETY: The page is pinned, so that any thread may use it; all accesses are copies or atomic.
unsafe impl Send for SharedPage<'_> {}
// SAFETY: The page is pinned, so that any thread may use it; all accesses are copies or atomic.
unsafe impl Sync for SharedPage<'_> {}

impl<'a> SharedPage<'a> {
    /// Borrows a page.
    ///
    /// # Safety
    ///
    /// `page` is a valid page throughout `'a`, and there are no references to its bytes.
    #[inline]
    pub unsafe fn from_raw(page: NonNull<bindings::page>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(page, PhantomData)
    }

    #[inline]
    fn map(&self) -> Mapped {
        // SAFETY: The page is valid.
        let address = unsafe { bindings::kmap_local_page(self.0.as_ptr()) };
        Mapped(address.cast(), NotThreadSafe)
    }

    /// Copies bytes from the page. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` beyond the page.
    #[inline]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result {
        let mapped = self.map();
        let from = mapped.at(offset, to.len())?;
        // SAFETY: Both are valid for the length; `to` is a reference, and so not a part of the page.
        unsafe { copy_volatile(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies bytes to the page. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` beyond the page.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) -> Result {
        let mapped = self.map();
        let to = mapped.at(offset, from.len())?;
        // SAFETY: Both are valid for the length; `from` is a reference, and so not a part of the page.
        unsafe { copy_volatile(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    /// Calls `f` with an atomic number in the page. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `offset` is unaligned or beyond the page.
    fn with_u64<R>(&self, offset: usize, f: impl FnOnce(&AtomicU64) -> R) -> Result<R> {
        let mapped = self.map();
        let ptr = mapped.at(offset, size_of::<u64>())?.cast::<u64>();
        if !ptr.is_aligned() {
            return Err(EINVAL);
        }
        // SAFETY: The pointer is aligned and inside the page, which is mapped during the call.
        Ok(f(unsafe { AtomicU64::from_ptr(ptr) }))
    }

    /// Adds to a native-endian number, atomically and wrapping; returns the old value. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `offset` is unaligned or beyond the page.
    pub fn fetch_add_u64(&self, offset: usize, value: u64) -> Result<u64> {
        self.with_u64(offset, |number| number.fetch_add(value, Ordering::SeqCst))
    }

    /// Replaces a native-endian number by `new` if it is `expected`, atomically; returns the old value.
    ///
    /// Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `offset` is unaligned or beyond the page.
    pub fn compare_exchange_u64(&self, offset: usize, expected: u64, new: u64) -> Result<u64> {
        self.with_u64(offset, |number| {
            number
                .compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst)
                .unwrap_or_else(|found| found)
        })
    }

    /// Stores a native-endian number atomically, with release ordering. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `offset` is unaligned or beyond the page.
    pub fn store_u64(&self, offset: usize, value: u64) -> Result {
        self.with_u64(offset, |number| number.store(value, Ordering::Release))
    }
}

/// A page mapping on this CPU (`kmap_local_page()`). Mappings are undone in reverse order, as values are dropped.
struct Mapped(*mut u8, NotThreadSafe);

impl Mapped {
    /// Returns a pointer to `len` bytes at `offset`, if they are within the page.
    #[inline]
    fn at(&self, offset: usize, len: usize) -> Result<*mut u8> {
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        if end > PAGE_SIZE {
            return Err(EINVAL);
        }
        // SAFETY: The offset is inside the page.
        Ok(unsafe { self.0.add(offset) })
    }
}

impl Drop for Mapped {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `map` has mapped the page.
        unsafe { bindings::kunmap_local(self.0.cast()) };
    }
}
