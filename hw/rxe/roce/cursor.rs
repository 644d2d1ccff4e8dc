// SPDX-License-Identifier: GPL-2.0

//! Reading and writing big-endian integers in the bytes of a packet, with bounds checks; parse errors; pad bytes (IBTA
//! volume 1, section 9.2).

/// Number of pad bytes after a payload of `payload_len` bytes: 0 to 3.
#[inline]
pub const fn pad_len(payload_len: u32) -> usize {
    (payload_len.wrapping_neg() & 3) as usize
}

/// Why bytes are not a valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParseError {
    /// Shorter than the headers and the ICRC.
    Short,
    /// Longer than the maximum UDP datagram.
    Long,
    /// The length is not a multiple of four.
    Unaligned,
    /// The opcode is not in the table.
    UnknownOpcode(u8),
    /// The transport header version is not 0.
    BadVersion(u8),
    /// The pad count exceeds payload and pad bytes.
    BadPad,
    /// The syndrome of the acknowledge header is reserved.
    ReservedSyndrome(u8),
    /// The payload does not have the fixed length of the opcode (mostly 0).
    BadPayload,
}

/// Reads from the start of a buffer.
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

    /// An 8-bit field and the 24-bit field after it.
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

/// Writes from the start of a buffer. Bytes beyond its end are dropped.
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

    /// An 8-bit field and the 24-bit field after it.
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
