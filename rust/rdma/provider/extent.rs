// SPDX-License-Identifier: GPL-2.0

//! Copying from memory to memory: between the registered memory of processes and of clients in the kernel.

use core::marker::PhantomData;

use kernel::prelude::*;
use kernel_ext::{room::Room, shared_bytes::SharedBytes};
use rdma_bindings as bindings;

use crate::provider::{mr::VirtDma, umem::Umem};

/// A part of memory, to copy from.
///
/// Others may write to the memory at any time, as for [`Umem`].
#[derive(Clone, Copy)]
pub struct Extent<'a> {
    bytes: Bytes<'a>,
    len: usize,
}

/// # Invariants
///
/// `Kernel` is the address of as many bytes as the extent has, which are valid for reads during `'a`.
#[derive(Clone, Copy)]
enum Bytes<'a> {
    /// User memory, and the offset of the first byte.
    User(&'a Umem, usize),
    Kernel(*const u8, PhantomData<&'a ()>),
}

impl<'a> Extent<'a> {
    /// The bytes of a slice, which are not written during `'a`.
    #[inline]
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        Self {
            // INVARIANT: A reference is valid during its lifetime.
            bytes: Bytes::Kernel(bytes.as_ptr(), PhantomData),
            len: bytes.len(),
        }
    }

    /// Bytes that others may write during `'a`.
    #[inline]
    pub fn of_shared(bytes: SharedBytes<'a>) -> Self {
        Self {
            // INVARIANT: By those of `SharedBytes`.
            bytes: Bytes::Kernel(bytes.as_ptr(), PhantomData),
            len: bytes.len(),
        }
    }

    /// The length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the bytes from `from` on to `to`.
    ///
    /// # Errors
    ///
    /// `EFAULT` for bytes outside of the extent.
    pub fn read(&self, from: usize, to: &mut [u8]) -> Result {
        // SAFETY: The slice is valid for writes.
        unsafe { self.copy_to(from, to.as_mut_ptr(), to.len()) }
    }

    /// Copies `len` bytes from `from` on to `to`.
    ///
    /// # Errors
    ///
    /// `EFAULT` for bytes outside of the extent, `EINVAL` if `to` is too small.
    #[inline]
    pub fn copy_out(&self, from: usize, len: usize, to: &mut Room<'_>) -> Result {
        self.in_parts(from, len, |bytes| to.write_shared(bytes))
    }

    /// Calls `each` with the `len` bytes from `from` on, in parts that are not interrupted in memory.
    ///
    /// # Errors
    ///
    /// `EFAULT` for bytes outside of the extent, and those of `each`, which ends with the first one.
    #[inline]
    pub fn in_parts(
        &self,
        mut from: usize,
        mut len: usize,
        mut each: impl FnMut(SharedBytes<'_>) -> Result,
    ) -> Result {
        if from.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(EFAULT);
        }
        while len != 0 {
            let (bytes, now) = self.chunk(from, len)?;
            // SAFETY: The bytes are within the extent, so they are in a pinned page, or valid by the type invariants.
            each(unsafe { SharedBytes::from_raw(bytes, now) })?;
            from = from.wrapping_add(now);
            len = len.wrapping_sub(now);
        }
        Ok(())
    }

    /// Writes the bytes back from the caches of the processors to the memory.
    ///
    /// # Errors
    ///
    /// `EFAULT` for bytes that are gone.
    pub fn write_back(&self) -> Result {
        let mut from = 0;
        while from < self.len {
            let (bytes, now) = self.chunk(from, self.len.wrapping_sub(from))?;
            // SAFETY: The bytes are within the extent, so they are in a pinned page, or valid by the type invariants. Their
            // contents stay as they are.
            unsafe { bindings::rdma_wb_cache_pmem(bytes.cast_mut().cast(), now) };
            from = from.wrapping_add(now);
        }
        Ok(())
    }

    /// The bytes at `from`, up to `limit` or the end of their page.
    #[inline]
    fn chunk(&self, from: usize, limit: usize) -> Result<(*const u8, usize)> {
        match self.bytes {
            Bytes::User(umem, at) => {
                let (bytes, len) = umem.chunk(at.checked_add(from).ok_or(EFAULT)?, limit)?;
                Ok((bytes.cast_const(), len))
            }
            Bytes::Kernel(start, _) => Ok((start.wrapping_add(from), limit)),
        }
    }

    /// Copies `len` bytes at `from` to memory, which they may overlap.
    ///
    /// # Errors
    ///
    /// `EFAULT` for bytes outside of the extent.
    ///
    /// # Safety
    ///
    /// `to` must be valid for writes of `len` bytes.
    #[inline]
    pub(super) unsafe fn copy_to(
        &self,
        mut from: usize,
        mut to: *mut u8,
        mut len: usize,
    ) -> Result {
        let end = from.checked_add(len).ok_or(EFAULT)?;
        if end > self.len {
            return Err(EFAULT);
        }
        while len != 0 {
            let (bytes, now) = self.chunk(from, len)?;
            // SAFETY: The bytes are within the extent, so they are in a pinned page, or valid by the type invariants;
            // `to` is valid by the safety requirements, as `now` is at most `len`.
            unsafe { bindings::memmove_shared(to.cast(), bytes.cast(), now) };
            from = from.wrapping_add(now);
            to = to.wrapping_add(now);
            len = len.wrapping_sub(now);
        }
        Ok(())
    }
}

impl Umem {
    /// A part of the memory, to copy from.
    ///
    /// # Errors
    ///
    /// `EFAULT` for bytes outside the range.
    #[inline]
    pub fn extent(&self, at: usize, len: usize) -> Result<Extent<'_>> {
        self.check(at, len)?;
        Ok(Extent {
            bytes: Bytes::User(self, at),
            len,
        })
    }

    /// Copies `len` bytes at `from` of other memory to the offset `at`.
    ///
    /// # Errors
    ///
    /// `EACCES` if the memory is not writable, `EFAULT` for bytes outside of either.
    #[inline]
    pub fn write_from(
        &self,
        mut at: usize,
        other: &Extent<'_>,
        mut from: usize,
        mut len: usize,
    ) -> Result {
        self.check_writable()?;
        self.check(at, len)?;
        while len != 0 {
            let (to, now) = self.chunk(at, len)?;
            // SAFETY: By the type invariants of `Umem` the bytes are in a pinned page.
            unsafe { other.copy_to(from, to, now)? };
            at = at.wrapping_add(now);
            from = from.wrapping_add(now);
            len = len.wrapping_sub(now);
        }
        Ok(())
    }
}

impl VirtDma {
    /// A part of the kernel's memory, to copy from.
    ///
    /// # Errors
    ///
    /// `EFAULT` for addresses outside the kernel's half of the address space.
    #[inline]
    pub fn extent(&self, addr: u64, len: usize) -> Result<Extent<'_>> {
        let start = Self::check(addr, len)?;
        Ok(Extent {
            // INVARIANT: By the safety requirements of `VirtDma::new` a client in the kernel guarantees the address.
            bytes: Bytes::Kernel(start.cast_const(), PhantomData),
            len,
        })
    }

    /// Copies `len` bytes at `from` of other memory to the kernel's.
    ///
    /// # Errors
    ///
    /// `EFAULT` for addresses outside the kernel's half of the address space, and bytes outside of `other`.
    #[inline]
    pub fn write_from(self, addr: u64, other: &Extent<'_>, from: usize, len: usize) -> Result {
        let to = Self::check(addr, len)?;
        // SAFETY: By the safety requirements of `VirtDma::new` a client in the kernel guarantees the address.
        unsafe { other.copy_to(from, to, len) }
    }
}
