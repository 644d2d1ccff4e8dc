// SPDX-License-Identifier: GPL-2.0

//! Bytes that others may write while they are read, such as those of a packet whose pages belong to a program.

use core::{marker::PhantomData, ops::Range};

use kernel::prelude::*;

use crate::bindings;

/// Bytes that may change at any time. There is no reference to them: they are copied or checksummed by functions of the kernel, whose
/// calls the compiler can neither repeat nor omit.
///
/// # Invariants
///
/// `start` is valid for reads of `len` bytes during `'a`. Others may write the bytes meanwhile.
#[derive(Clone, Copy)]
pub struct SharedBytes<'a> {
    start: *const u8,
    len: usize,
    lifetime: PhantomData<&'a [u8]>,
}

impl<'a> SharedBytes<'a> {
    /// Borrows `len` bytes at `start`.
    ///
    /// # Safety
    ///
    /// `start` is valid for reads of `len` bytes during `'a`; others may write them.
    #[inline]
    pub unsafe fn from_raw(start: *const u8, len: usize) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            start,
            len,
            lifetime: PhantomData,
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

    /// The address of the first byte, valid for reads of [`len`](Self::len) bytes during `'a`.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.start
    }

    /// A part of the bytes. `None` if it does not lie within them.
    #[inline]
    pub fn get(&self, range: Range<usize>) -> Option<Self> {
        let len = range.end.checked_sub(range.start)?;
        if range.end > self.len {
            return None;
        }
        // INVARIANT: The part lies within the bytes.
        Some(Self {
            start: self.start.wrapping_add(range.start),
            len,
            lifetime: PhantomData,
        })
    }

    /// The bytes, if there are `N`: each is read once.
    #[inline]
    pub fn array<const N: usize>(&self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.copy_to_array(&mut bytes).map(|()| bytes)
    }

    /// Copies the bytes to `to`: each is read once. `None` if there are not `N`.
    #[inline]
    pub fn copy_to_array<const N: usize>(&self, to: &mut [u8; N]) -> Option<()> {
        if self.len != N {
            return None;
        }
        let Some(words) = self.words::<N>() else {
            // SAFETY: By the type invariants there are `N` bytes. The compiler neither repeats nor omits a volatile access.
            *to = unsafe { self.start.cast::<[u8; N]>().read_volatile() };
            return Some(());
        };
        // Of a volatile array the compiler accesses each byte by itself.
        let to = to.as_mut_ptr().cast::<u32>();
        for index in 0..N / size_of::<u32>() {
            // SAFETY: There are `N` bytes at both, of which these are the next four. Those that are read are aligned.
            unsafe {
                let word = words.add(index).read_volatile();
                to.add(index).write_unaligned(word);
            }
        }
        Some(())
    }

    /// Whether the bytes are the same as `other`: each is read at most once.
    #[inline]
    pub fn is<const N: usize>(&self, other: &[u8; N]) -> bool {
        let (true, Some(words)) = (self.len == N, self.words::<N>()) else {
            return self.array() == Some(*other);
        };
        let others = other.as_ptr().cast::<u32>();
        (0..N / size_of::<u32>()).all(|index| {
            // SAFETY: There are `N` bytes at both, of which these are the next four. Those that may change are aligned.
            unsafe { words.add(index).read_volatile() == others.add(index).read_unaligned() }
        })
    }

    /// The first one of `N` bytes as words, if they are aligned words.
    #[inline]
    fn words<const N: usize>(&self) -> Option<*const u32> {
        let words = self.start.cast::<u32>();
        (N % size_of::<u32>() == 0 && words.is_aligned()).then_some(words)
    }

    /// Copies the bytes to `to`: each is read once.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the lengths differ.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) -> Result {
        if to.len() != self.len {
            return Err(EINVAL);
        }
        // SAFETY: `to` has as many bytes.
        unsafe { self.copy_to_raw(to.as_mut_ptr()) };
        Ok(())
    }

    /// Copies the bytes to memory: each is read once. Where both overlap, such as where a program sends a page to itself, any bytes may
    /// be written there.
    ///
    /// # Safety
    ///
    /// `to` is valid for writes of [`len`](Self::len) bytes.
    #[inline]
    pub unsafe fn copy_to_raw(&self, to: *mut u8) {
        // SAFETY: By the type invariants and the safety requirements. The function copies by instructions of the processor, which
        // write within `to` also where both overlap.
        unsafe { bindings::memcpy_shared(to.cast(), self.start.cast(), self.len) };
    }
}

impl<'a> From<&'a [u8]> for SharedBytes<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        // INVARIANT: A reference is valid during its lifetime.
        Self {
            start: bytes.as_ptr(),
            len: bytes.len(),
            lifetime: PhantomData,
        }
    }
}
