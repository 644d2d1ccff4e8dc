// SPDX-License-Identifier: GPL-2.0

//! Output buffers: memory that is written before it is read.

use core::{mem::MaybeUninit, ptr, slice};

use kernel::prelude::*;

use crate::{
    crc32::{crc32_le, crc32_le_copy, Start, ONE_PASS},
    shared_bytes::SharedBytes,
};

/// A buffer that is written from its start on, and whose former content cannot be read.
///
/// # Invariants
///
/// `written` is at most the length of `bytes`, and the first `written` bytes are initialised.
pub struct Room<'a> {
    bytes: &'a mut [MaybeUninit<u8>],
    written: usize,
    sum: Sum,
}

/// A CRC-32 of written bytes: that of the first `summed` ones.
struct Sum {
    of: Start,
    /// [`usize::MAX`]: none is wanted.
    summed: usize,
}

impl<'a> Room<'a> {
    /// Creates an empty buffer over memory.
    #[inline]
    pub fn new(bytes: &'a mut [MaybeUninit<u8>]) -> Self {
        let sum = Sum {
            of: Start::State(0),
            summed: usize::MAX,
        };
        // INVARIANT: No bytes are written.
        Self {
            bytes,
            written: 0,
            sum,
        }
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

    /// Starts a CRC-32 ([`crc32_le`]) of the bytes that are written from now on.
    #[inline]
    pub fn start_sum(&mut self, start: Start) {
        self.sum = Sum {
            of: start,
            summed: self.written,
        };
    }

    /// The CRC-32 of the bytes that are written since [`start_sum`](Self::start_sum).
    #[inline]
    pub fn sum(&mut self) -> u32 {
        let Sum { of, summed } = self.sum;
        match self.bytes().get(summed..) {
            None | Some([]) => of.state(),
            Some(bytes) => {
                let state = crc32_le(of.state(), bytes.into());
                self.start_sum(Start::State(state));
                state
            }
        }
    }

    /// Writes bytes that others may write meanwhile: each is read once.
    ///
    /// # Errors
    ///
    /// `EINVAL` if fewer bytes are left.
    #[inline]
    pub fn write_shared(&mut self, from: SharedBytes<'_>) -> Result {
        let len = from.len();
        // A few bytes are summed with the next ones.
        if self.sum.summed > self.written || len < ONE_PASS {
            // SAFETY: All bytes are written.
            return unsafe { self.write_with(len, |to| from.copy_to_raw(to)) };
        }
        let start = match self.sum {
            Sum { of, summed } if summed == self.written => of,
            _ => Start::State(self.sum()),
        };
        let mut state = 0;
        // SAFETY: By the type invariants of `SharedBytes` as many bytes may be read; `self` is borrowed mutably. All bytes are written.
        unsafe {
            self.write_with(len, |to| {
                state = crc32_le_copy(start, to, from.as_ptr(), len)
            })?
        };
        self.start_sum(Start::State(state));
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
