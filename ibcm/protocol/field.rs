// SPDX-License-Identifier: GPL-2.0

//! Fields of messages: where they lie in the data of a MAD, and what they are in Rust.

/// The data of a MAD behind its header: what all messages of communication management are made of.
pub type Data = [u8; DATA_SIZE];

/// Size of [`Data`] in bytes (`IB_MGMT_MAD_DATA`).
pub const DATA_SIZE: usize = 232;

/// A number of up to 64 bits, or a GID, in big-endian order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The first bit, counted from the highest one of the first byte.
    start: u16,
    /// Its size in bits.
    width: u8,
}

impl Field {
    /// A field at a byte and a bit of it, as the specification's tables tell ("byte \[bit\]", bit 0 the highest one).
    ///
    /// Tables are constants: a field that is not in the data does not compile.
    #[inline] // Otherwise there were code for it, with its panics.
    pub const fn new(byte: u16, bit: u16, width: u8) -> Self {
        let start = byte * 8 + bit;
        assert!(bit < 8 && width > 0 && start as usize + width as usize <= DATA_SIZE * 8);
        assert!(width <= 57 || bit == 0 && width % 8 == 0);
        Self { start, width }
    }

    /// The first byte.
    pub const fn byte(self) -> usize {
        self.start as usize / 8
    }

    /// The first bit in the first byte.
    pub const fn bit(self) -> u16 {
        self.start % 8
    }

    /// Its size in bits.
    pub const fn width(self) -> u8 {
        self.width
    }

    /// The bytes that the field has a part in.
    fn bytes(self) -> core::ops::Range<usize> {
        let end = usize::from(self.start).wrapping_add(usize::from(self.width));
        self.byte()..end.wrapping_add(7) / 8
    }

    /// How many bits of the last byte are not of the field.
    fn shift(self) -> u32 {
        let end = u32::from(self.start).wrapping_add(u32::from(self.width));
        (end % 8).wrapping_neg() % 8
    }

    /// The value's bits in a word, before they are shifted.
    fn mask(self) -> u64 {
        u64::MAX >> (64_u32.wrapping_sub(u32::from(self.width)) & 63)
    }

    /// Reads a number.
    pub fn get(self, data: &Data) -> u64 {
        let word = data.get(self.bytes()).unwrap_or_default().iter();
        let word = word.fold(0, |word: u64, &byte| word << 8 | u64::from(byte));
        word >> self.shift() & self.mask()
    }

    /// Writes a number; of a larger one than fits, the lower bits. Other fields of the same bytes stay.
    pub fn set(self, data: &mut Data, value: u64) {
        let mut mask = self.mask() << self.shift();
        let mut value = value << self.shift() & mask;
        let bytes = data.get_mut(self.bytes()).unwrap_or_default();
        for byte in bytes.iter_mut().rev() {
            *byte = *byte & !(mask as u8) | value as u8;
            (mask, value) = (mask >> 8, value >> 8);
        }
    }
}

/// What a field is in Rust.
pub trait Value: Copy {
    /// Reads the field.
    fn read(field: Field, data: &Data) -> Self;
    /// Writes the field.
    fn write(self, field: Field, data: &mut Data);
}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Value for $number {
            fn read(field: Field, data: &Data) -> Self {
                field.get(data) as Self
            }
            fn write(self, field: Field, data: &mut Data) {
                field.set(data, self.into());
            }
        }
    )* };
}
numbers!(u8 u16 u32 u64);

impl Value for bool {
    fn read(field: Field, data: &Data) -> Self {
        field.get(data) != 0
    }
    fn write(self, field: Field, data: &mut Data) {
        field.set(data, self.into());
    }
}

/// A GID, in the order of the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gid(pub [u8; 16]);

impl Value for Gid {
    fn read(field: Field, data: &Data) -> Self {
        let bytes = data.get(field.bytes()).unwrap_or_default();
        Self(bytes.try_into().unwrap_or_default())
    }
    fn write(self, field: Field, data: &mut Data) {
        let bytes = data.get_mut(field.bytes()).unwrap_or_default();
        for (to, from) in bytes.iter_mut().zip(self.0) {
            *to = from;
        }
    }
}

/// Bytes that the protocol does not look at: private data and additional information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The first byte.
    start: usize,
    /// Its size in bytes.
    size: usize,
}

/// More bytes than there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl Room {
    /// Room for `size` bytes from `start`; it lies in the data, or does not compile.
    #[inline]
    pub const fn new(start: usize, size: usize) -> Self {
        assert!(start < DATA_SIZE && size <= DATA_SIZE - start);
        Self { start, size }
    }

    /// The first byte.
    pub const fn start(self) -> usize {
        self.start
    }

    /// Its size in bytes.
    pub const fn size(self) -> usize {
        self.size
    }

    /// All bytes of it.
    pub fn get(self, data: &Data) -> &[u8] {
        let end = self.start.wrapping_add(self.size);
        data.get(self.start..end).unwrap_or_default()
    }

    /// Writes bytes to the beginning, and zeros behind them.
    ///
    /// # Errors
    ///
    /// They are more than there is room for; nothing is written.
    pub fn set(self, data: &mut Data, bytes: &[u8]) -> Result<(), TooLong> {
        let end = self.start.wrapping_add(self.size);
        let room = data.get_mut(self.start..end).unwrap_or_default();
        let (to, rest) = room.split_at_mut_checked(bytes.len()).ok_or(TooLong)?;
        to.copy_from_slice(bytes);
        rest.fill(0);
        Ok(())
    }
}
