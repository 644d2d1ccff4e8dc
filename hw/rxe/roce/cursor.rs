// SPDX-License-Identifier: GPL-2.0

//! Big-endian integers read from the bytes of a packet and written to them, one after the other, never
//! beyond the end; why bytes are no packet; the pad bytes (IBTA volume 1, section 9.2).

/// How many pad bytes follow a payload of `payload_len` bytes: 0 to 3.
#[inline]
pub const fn pad_len(payload_len: u32) -> usize {
    (payload_len.wrapping_neg() & 3) as usize
}

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParseError {
    /// Shorter than its headers and the ICRC.
    Short,
    /// Longer than a UDP datagram can be.
    Long,
    /// The length is no multiple of four.
    Unaligned,
    /// The opcode is not in the table.
    UnknownOpcode(u8),
    /// The transport header version is not 0.
    BadVersion(u8),
    /// The pad count is larger than payload and pad bytes together.
    BadPad,
    /// The syndrome of the acknowledge header is reserved.
    ReservedSyndrome(u8),
    /// The opcode has a payload of fixed length (mostly none), and this one is another.
    BadPayload,
}

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
