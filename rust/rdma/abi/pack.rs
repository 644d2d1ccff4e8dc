// SPDX-License-Identifier: GPL-2.0

//! Packed headers and attributes: tables of their fields, and functions that pack and unpack by a table.
//!
//! A packed form is an array of 32-bit words in network byte order. A table has a line for each field, with the corresponding
//! member of the kernel's structure; [`packed!`](crate::packed) makes one. Members are in network byte order too, and have a
//! whole number of bytes.
//!
//! Any context.
//!
//! C header: `include/rdma/ib_pack.h`. Bits are counted as in the IBTA specification, volume 1, section 1.5.2: the most
//! significant one first.

use core::marker::PhantomData;

use kernel::prelude::*;
use rdma_bindings::{ib_field, ib_gid};

/// A field of a packed form.
#[derive(Clone, Copy)]
pub struct Field {
    /// The first bit.
    first: usize,
    /// The length in bits.
    bits: usize,
    /// The member of the structure; `None` for reserved bits, which are zero.
    member: Option<Member>,
}

/// A member of a structure.
#[derive(Clone, Copy)]
pub struct Member {
    offset: usize,
    size: usize,
}

/// A type of packed members: bytes in network byte order.
///
/// # Safety
///
/// The type has no padding, and any bytes are a valid value.
pub unsafe trait Bytes: Copy {}

// SAFETY: The type has no padding, and any bytes are a valid value.
unsafe impl Bytes for u8 {}
// SAFETY: The type has no padding, and any bytes are a valid value.
unsafe impl Bytes for u16 {}
// SAFETY: The type has no padding, and any bytes are a valid value.
unsafe impl Bytes for u32 {}
// SAFETY: The type has no padding, and any bytes are a valid value.
unsafe impl Bytes for u64 {}
// SAFETY: The type has no padding, and any bytes are a valid value.
unsafe impl Bytes for ib_gid {}
// SAFETY: An array of such a type has no padding, and any bytes are a valid value.
unsafe impl<T: Bytes, const N: usize> Bytes for [T; N] {}

impl Member {
    /// The member at `offset`. The pointer only determines its type.
    #[doc(hidden)]
    pub const fn of<T: Bytes>(offset: usize, _kind: *const T) -> Self {
        Self {
            offset,
            size: size_of::<T>(),
        }
    }
}

/// The maximum length of a numeric field in bits; longer fields are byte arrays.
const NUMBER_BITS: usize = 64;

impl Field {
    /// A field of `bits` bits that begins at bit `bit` of word `word`.
    pub const fn new(word: usize, bit: usize, bits: usize, member: Option<Member>) -> Self {
        Self {
            first: word.wrapping_mul(32).wrapping_add(bit),
            bits,
            member,
        }
    }

    /// Converts a field of a C table; `None` for an invalid field.
    pub fn from_c(raw: &ib_field) -> Option<Self> {
        let word = usize::try_from(raw.offset_words).ok()?;
        let bit = usize::try_from(raw.offset_bits).ok()?;
        let bits = usize::try_from(raw.size_bits).ok()?;
        let member = (raw.struct_size_bytes != 0).then_some(Member {
            offset: raw.struct_offset_bytes,
            size: raw.struct_size_bytes,
        });
        let field = Self::new(word, bit, bits, member);
        field.is_possible().then_some(field)
    }

    /// Whether it consists of bytes of the packed form.
    #[inline]
    const fn is_bytes(&self) -> bool {
        self.first % 8 == 0 && self.bits % 8 == 0
    }

    /// Whether the field can be packed: a number in a member of a numeric size, or a byte array in a member that is long
    /// enough.
    pub const fn is_possible(&self) -> bool {
        if self.bits > NUMBER_BITS && (self.first % 8 != 0 || self.bits % 8 != 0) {
            return false;
        }
        match self.member {
            None => true,
            Some(member) if self.bits > NUMBER_BITS => self.bits / 8 <= member.size,
            Some(member) => matches!(member.size, 1 | 2 | 4 | 8),
        }
    }

    /// The offset in bytes of the end of the field.
    pub const fn end(&self) -> usize {
        self.first.wrapping_add(self.bits).div_ceil(8)
    }

    /// The bytes that contain the field, and the distance in bits of its last bit from their end.
    fn window<'a>(&self, packed: &'a mut [u8]) -> Option<(&'a mut [u8], u32)> {
        let window = packed.get_mut(self.first / 8..self.end())?;
        let end = self.first.wrapping_add(self.bits);
        let after = self.end().wrapping_mul(8).wrapping_sub(end);
        Some((window, after as u32))
    }

    /// Writes a value to a packed form.
    fn put(&self, value: u64, packed: &mut [u8]) {
        let Some((window, after)) = self.window(packed) else {
            return;
        };
        if let [byte] = window {
            let mask = (mask(self.bits) as u8).wrapping_shl(after);
            *byte = *byte & !mask | (value as u8).wrapping_shl(after) & mask;
            return;
        }
        if window.len() <= size_of::<u64>() {
            let mask = (mask(self.bits) as u64).wrapping_shl(after);
            let mut rest = short_number(window) & !mask | value.wrapping_shl(after) & mask;
            for byte in window.iter_mut().rev() {
                *byte = rest as u8;
                rest >>= 8;
            }
            return;
        }
        let mask = mask(self.bits).wrapping_shl(after);
        let rest = number(window) & !mask;
        let value = u128::from(value).wrapping_shl(after) & mask;
        set_number(window, rest | value);
    }

    /// Reads the value from a packed form.
    fn get(&self, packed: &mut [u8]) -> u64 {
        let Some((window, after)) = self.window(packed) else {
            return 0;
        };
        (number(window).wrapping_shr(after) & mask(self.bits)) as u64
    }
}

/// A mask of `bits` ones, fewer than 128.
const fn mask(bits: usize) -> u128 {
    1u128.wrapping_shl(bits as u32).wrapping_sub(1)
}

/// Reads up to eight big-endian bytes as a number.
#[inline]
fn short_number(bytes: &[u8]) -> u64 {
    let add = |number, byte: &u8| (number << 8) | u64::from(*byte);
    bytes.iter().fold(0, add)
}

/// Reads big-endian bytes as a number.
fn number(bytes: &[u8]) -> u128 {
    let add = |number, byte: &u8| (number << 8) | u128::from(*byte);
    bytes.iter().fold(0, add)
}

/// Writes a number as big-endian bytes.
fn set_number(bytes: &mut [u8], mut number: u128) {
    for byte in bytes.iter_mut().rev() {
        *byte = number as u8;
        number >>= 8;
    }
}

/// Packs a field.
///
/// # Safety
///
/// The field is possible. `from` is a valid structure with the field's member, which is not changed during the call.
#[inline]
pub unsafe fn pack_field(field: &Field, from: *const u8, packed: &mut [u8]) {
    let bytes = match field.member {
        // SAFETY: By the safety requirements.
        Some(Member { offset, size }) => unsafe {
            core::slice::from_raw_parts(from.add(offset), size)
        },
        None => &[],
    };
    if !field.is_bytes() {
        return field.put(short_number(bytes), packed);
    }
    let Some((window, _)) = field.window(packed) else {
        return;
    };
    // Of a number the last bytes count, of other bytes the first ones.
    let bytes = match bytes.len().checked_sub(window.len()) {
        Some(more) if field.bits <= NUMBER_BITS => bytes.get(more..).unwrap_or_default(),
        _ => bytes,
    };
    if let ([to], [from]) = (&mut *window, bytes) {
        *to = *from;
        return;
    }
    let zeros = window.len().saturating_sub(bytes.len());
    let Some((front, back)) = window.split_at_mut_checked(zeros) else {
        return;
    };
    front.fill(0);
    if let Some(bytes) = bytes.get(..back.len()) {
        back.copy_from_slice(bytes);
    }
}

/// Unpacks a field.
///
/// # Safety
///
/// The field is possible. `to` is a valid structure with the field's member, to which the call has exclusive access.
pub unsafe fn unpack_field(field: &Field, packed: &mut [u8], to: *mut u8) {
    let Some(Member { offset, size }) = field.member else {
        return;
    };
    // SAFETY: By the safety requirements.
    let bytes = unsafe { core::slice::from_raw_parts_mut(to.add(offset), size) };
    if field.bits <= NUMBER_BITS && (!field.is_bytes() || field.bits / 8 != bytes.len()) {
        return set_number(bytes, field.get(packed).into());
    }
    let Some((window, _)) = field.window(packed) else {
        return;
    };
    if let Some(bytes) = bytes.get_mut(..window.len()) {
        bytes.copy_from_slice(window);
    }
}

/// The packed form of a structure: its length and its fields.
///
/// # Invariants
///
/// All fields are possible and within the length; their members lie in the structure, and are [`Bytes`].
pub struct Table<T> {
    length: usize,
    fields: &'static [Field],
    _structure: PhantomData<fn(&T)>,
}

impl<T> Table<T> {
    /// Creates a table, for [`packed!`](crate::packed). It does not compile if a field is not possible, or exceeds the
    /// length.
    ///
    /// # Safety
    ///
    /// The members lie in the structure, and are [`Bytes`].
    #[doc(hidden)]
    pub const unsafe fn new(length: usize, fields: &'static [Field]) -> Self {
        let mut nth = 0;
        while nth < fields.len() {
            assert!(fields[nth].is_possible() && fields[nth].end() <= length);
            nth += 1;
        }
        // INVARIANT: The assertions above have checked the fields; the rest is by the safety requirements.
        Self {
            length,
            fields,
            _structure: PhantomData,
        }
    }

    /// The length of the packed form in bytes.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Packs a structure.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `packed` is shorter than [`Self::length`].
    pub fn pack(&self, from: &T, packed: &mut [u8]) -> Result {
        let packed = packed.get_mut(..self.length).ok_or(EINVAL)?;
        for field in self.fields {
            // SAFETY: By the type invariants.
            unsafe { pack_field(field, core::ptr::from_ref(from).cast(), packed) };
        }
        Ok(())
    }

    /// Unpacks the fields to the members of a structure.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `packed` is shorter than [`Self::length`].
    pub fn unpack(&self, packed: &mut [u8], to: &mut T) -> Result {
        let packed = packed.get_mut(..self.length).ok_or(EINVAL)?;
        for field in self.fields {
            // SAFETY: By the type invariants.
            unsafe { unpack_field(field, packed, core::ptr::from_mut(to).cast()) };
        }
        Ok(())
    }
}

/// Defines the [`Table`] of a structure: the length of the packed form in bytes, and for each field its word, its first bit
/// and its length in bits, with the member in brackets, which are empty for reserved bits.
///
/// ```
/// # use rdma::{
/// #     bindings::ib_unpacked_deth,
/// #     abi::pack::{packed, Table},
/// # };
/// const DETH: Table<ib_unpacked_deth> = packed! { ib_unpacked_deth: 8 {
///     0, 0, 32 [qkey];
///     1, 0, 8 [];
///     1, 8, 24 [source_qpn];
/// } };
/// ```
#[macro_export]
macro_rules! packed {
    (@member $ty:ty,) => { None };
    (@member $ty:ty, $($member:ident).+) => {{
        let place = ::core::mem::MaybeUninit::<$ty>::uninit();
        // SAFETY: The pointer to the member is not dereferenced.
        let member = unsafe { &raw const (*place.as_ptr()).$($member).+ };
        Some($crate::abi::pack::Member::of(::core::mem::offset_of!($ty, $($member).+), member))
    }};
    ($ty:ty: $length:literal { $($word:literal, $bit:literal, $bits:literal [$($member:tt)*];)* }) => {
        {
            const FIELDS: &[$crate::abi::pack::Field] = &[$(
                $crate::abi::pack::Field::new(
                    $word,
                    $bit,
                    $bits,
                    $crate::packed!(@member $ty, $($member)*),
                ),
            )*];
            // SAFETY: `@member` only accepts members of the type that are `Bytes`.
            unsafe { $crate::abi::pack::Table::<$ty>::new($length, FIELDS) }
        }
    };
}
pub use packed;
