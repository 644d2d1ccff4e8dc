// SPDX-License-Identifier: GPL-2.0

//! Output buffers: memory that is written before it is read.

use core::{mem::MaybeUninit, ptr, slice};

use kernel::prelude::*;

/// A buffer that is written from its start on, and whose former content cannot be read.
///
/// # Invariants
///
/// `written` is at most the length of `bytes`, and the first `written` bytes are initialised.
pub struct Room<'a> {
    bytes: &'a mut [MaybeUninit<u8>],
    written: usize,
}

impl<'a> Room<'a> {
    /// Creates an empty buffer over memory.
    #[inline]
    pub fn new(bytes: &'a mut [MaybeUninit<u8>]) -> Self {
        // INVARIANT: No bytes are written.
        Self { bytes, written: 0 }
    }

    /// Creates an empty buffer over initialised bytes.
    #[inline]
    pub fn over(bytes: &'a mut [u8]) -> Self {
        let len = bytes.len();
        // SAFETY: The types have the same layout, and a `Room` only writes initialised bytes, so that all bytes
        // stay initialised.
        Self::new(unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) })
    }

    /// The number of written bytes.
    #[inline]
    pub fn written(&self) -> usize {
        self.written
    }

    /// The number of bytes that may still be written.
    #[inline]
    pub fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.written)
    }

    /// The written bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: By the type invariants they are initialised, and there are as many.
        unsafe { slice::from_raw_parts(self.bytes.as_ptr().cast(), self.written) }
    }

    /// The start of the buffer.
    #[inline]
    pub(crate) fn start(&self) -> *const u8 {
        self.bytes.as_ptr().cast()
    }

    /// Lets `write` write the next `len` bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if fewer bytes are left.
    ///
    /// # Safety
    ///
    /// `write` initialises `len` bytes at its argument, and writes no others.
    #[inline]
    pub unsafe fn write_with(&mut self, len: usize, write: impl FnOnce(*mut u8)) -> Result {
        let end = self.written.checked_add(len).ok_or(EINVAL)?;
        let place = self.bytes.get_mut(self.written..end).ok_or(EINVAL)?;
        write(place.as_mut_ptr().cast());
        // INVARIANT: By the safety requirements.
        self.written = end;
        Ok(())
    }

    /// Writes bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if fewer bytes are left.
    #[inline]
    pub fn write(&mut self, from: &[u8]) -> Result {
        let len = from.len();
        // SAFETY: All bytes are copied; `self` is borrowed mutably, so `from` is not a part of the buffer.
        unsafe { self.write_with(len, |to| ptr::copy_nonoverlapping(from.as_ptr(), to, len)) }
    }

    /// Writes zeros.
    ///
    /// # Errors
    ///
    /// `EINVAL` if fewer bytes are left.
    #[inline]
    pub fn write_zeros(&mut self, len: usize) -> Result {
        // SAFETY: All bytes are written.
        unsafe { self.write_with(len, |to| ptr::write_bytes(to, 0, len)) }
    }
}
