// SPDX-License-Identifier: GPL-2.0

//! Big-endian integers read from bytes and written to bytes, one after the other, never beyond the
//! end.

use crate::wire::ParseError;

/// Reads from the beginning of some bytes.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next `N` bytes, or [`ParseError::Short`].
    #[inline]
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(ParseError::Short)?;
        self.rest = rest;
        Ok(*head)
    }

    /// Eight bits and the 24 after them, as many fields of the protocol are.
    #[inline]
    pub(crate) fn u8_u24(&mut self) -> Result<(u8, u32), ParseError> {
        let [first, high, middle, low] = self.take()?;
        Ok((first, u32::from_be_bytes([0, high, middle, low])))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, ParseError> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, ParseError> {
        Ok(u64::from_be_bytes(self.take()?))
    }
}

/// Writes to the beginning of some bytes. What does not fit is left out.
pub(crate) struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub(crate) fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some((head, rest)) = core::mem::take(&mut self.rest).split_first_chunk_mut() {
            *head = bytes;
            self.rest = rest;
        }
    }

    /// Eight bits and the 24 after them, as many fields of the protocol are.
    #[inline]
    pub(crate) fn u8_u24(&mut self, first: u8, rest: u32) {
        let [_, high, middle, low] = rest.to_be_bytes();
        self.put([first, high, middle, low]);
    }

    #[inline]
    pub(crate) fn u32(&mut self, value: u32) {
        self.put(value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn u64(&mut self, value: u64) {
        self.put(value.to_be_bytes());
    }
}
