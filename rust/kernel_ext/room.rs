// SPDX-License-Identifier: GPL-2.0

//! Room for bytes: memory that is written before it is read.

use core::{mem::MaybeUninit, ptr, slice};

use kernel::prelude::*;

/// Room for bytes, which is written from its start on. What it had before cannot be read.
///
/// # Invariants
///
/// The first `written` bytes are initialised, and there are no fewer bytes.
pub struct Room<'a> {
    bytes: &'a mut [MaybeUninit<u8>],
    written: usize,
}

impl<'a> Room<'a> {
    /// Room that nothing is written to.
    #[inline]
    pub fn new(bytes: &'a mut [MaybeUninit<u8>]) -> Self {
        // INVARIANT: Nothing is written.
        Self { bytes, written: 0 }
    }

    /// Room in place of bytes.
    #[inline]
    pub fn over(bytes: &'a mut [u8]) -> Self {
        let len = bytes.len();
        // SAFETY: The types have the same layout; what is written is initialised, and what is not stays as it is.
        Self::new(unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) })
    }

    /// How many bytes are written.
    #[inline]
    pub fn written(&self) -> usize {
        self.written
    }

    /// How many more bytes there is room for.
    #[inline]
    pub fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.written)
    }

    /// Where the room begins.
    #[inline]
    pub(crate) fn start(&self) -> *const u8 {
        self.bytes.as_ptr().cast()
    }

    /// Lets `write` write the next `len` bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no room.
    ///
    /// # Safety
    ///
    /// `write` initialises as many bytes where it is told, and no more.
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
    /// `EINVAL` if there is no room.
    #[inline]
    pub fn write(&mut self, from: &[u8]) -> Result {
        let len = from.len();
        // SAFETY: All bytes are copied; the room is borrowed alone, so `from` is no part of it.
        unsafe { self.write_with(len, |to| ptr::copy_nonoverlapping(from.as_ptr(), to, len)) }
    }

    /// Writes zeros.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no room.
    #[inline]
    pub fn write_zeros(&mut self, len: usize) -> Result {
        // SAFETY: All bytes are written.
        unsafe { self.write_with(len, |to| ptr::write_bytes(to, 0, len)) }
    }
}
