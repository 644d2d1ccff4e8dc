// SPDX-License-Identifier: GPL-2.0

//! Fields of packed headers and attributes: tables that say where each one is, and one engine that goes through them.
//!
//! A packed form is a row of words of 32 bits in network byte order. A table has a line for each of its fields, with the
//! member of the kernel's structure that the field is of; [`packed!`](crate::packed) makes one. Members are in network
//! byte order too, and a whole number of bytes.
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
    /// How many bits it has.
    bits: usize,
    /// What of the structure it is; `None`: reserved, and zero.
    member: Option<Member>,
}

/// A member of a structure.
#[derive(Clone, Copy)]
pub struct Member {
    offset: usize,
    size: usize,
}

/// What a packed member may be: bytes, in network byte order.
///
/// # Safety
///
/// The type has no padding, and any bytes are a value of it.
pub unsafe trait Bytes: Copy {}

// SAFETY: They are.
unsafe impl Bytes for u8 {}
// SAFETY: As above.
unsafe impl Bytes for u16 {}
// SAFETY: As above.
unsafe impl Bytes for u32 {}
// SAFETY: As above.
unsafe impl Bytes for u64 {}
// SAFETY: As above.
unsafe impl Bytes for ib_gid {}
// SAFETY: An array has no padding.
unsafe impl<T: Bytes, const N: usize> Bytes for [T; N] {}

impl Member {
    /// The member at `offset`, whose type is told by a pointer that is not used.
    #[doc(hidden)]
    pub const fn of<T: Bytes>(offset: usize, _kind: *const T) -> Self {
        Self {
            offset,
            size: size_of::<T>(),
        }
    }
}

/// The longest field that is a number: longer ones are rows of bytes.
const NUMBER_BITS: usize = 64;

impl Field {
    /// A field of `bits` bits from bit `bit` of word `word` on.
    pub const fn new(word: usize, bit: usize, bits: usize, member: Option<Member>) -> Self {
        Self {
            first: word.wrapping_mul(32).wrapping_add(bit),
            bits,
            member,
        }
    }

    /// The field of a table of C's; `None` where nothing can be such a field.
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

    /// Whether the field can be packed: a number of a member that is one, or a row of bytes that the member has.
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

    /// How many bytes the packed form has up to the end of the field.
    pub const fn end(&self) -> usize {
        self.first.wrapping_add(self.bits).div_ceil(8)
    }

    /// The bytes that the field is in, and how far its last bit is from their end.
    fn window<'a>(&self, packed: &'a mut [u8]) -> Option<(&'a mut [u8], u32)> {
        let window = packed.get_mut(self.first / 8..self.end())?;
        let end = self.first.wrapping_add(self.bits);
        let after = self.end().wrapping_mul(8).wrapping_sub(end);
        Some((window, after as u32))
    }

    /// Puts a value into a packed form.
    fn put(&self, value: u64, packed: &mut [u8]) {
        let Some((window, after)) = self.window(packed) else {
            return;
        };
        let mask = mask(self.bits).wrapping_shl(after);
        let rest = number(window) & !mask;
        let value = u128::from(value).wrapping_shl(after) & mask;
        set_number(window, rest | value);
    }

    /// Takes the value out of a packed form.
    fn get(&self, packed: &mut [u8]) -> u64 {
        let Some((window, after)) = self.window(packed) else {
            return 0;
        };
        (number(window).wrapping_shr(after) & mask(self.bits)) as u64
    }
}

/// So many ones.
const fn mask(bits: usize) -> u128 {
    (1u128 << bits) - 1
}

/// The number that bytes are.
fn number(bytes: &[u8]) -> u128 {
    let add = |number, byte: &u8| (number << 8) | u128::from(*byte);
    bytes.iter().fold(0, add)
}

/// Makes bytes a number.
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
/// The field is possible; there is a structure at `from` with its member, which stays as it is meanwhile.
pub unsafe fn pack_field(field: &Field, from: *const u8, packed: &mut [u8]) {
    let bytes = match field.member {
        // SAFETY: By the safety requirements.
        Some(Member { offset, size }) => unsafe {
            core::slice::from_raw_parts(from.add(offset), size)
        },
        None => &[],
    };
    if field.bits <= NUMBER_BITS {
        return field.put(number(bytes) as u64, packed);
    }
    let Some((window, _)) = field.window(packed) else {
        return;
    };
    match bytes.get(..window.len()) {
        Some(bytes) => window.copy_from_slice(bytes),
        None => window.fill(0),
    }
}

/// Unpacks a field.
///
/// # Safety
///
/// The field is possible; there is a structure at `to` with its member, which is ours meanwhile.
pub unsafe fn unpack_field(field: &Field, packed: &mut [u8], to: *mut u8) {
    let Some(Member { offset, size }) = field.member else {
        return;
    };
    // SAFETY: By the safety requirements.
    let bytes = unsafe { core::slice::from_raw_parts_mut(to.add(offset), size) };
    if field.bits <= NUMBER_BITS {
        return set_number(bytes, field.get(packed).into());
    }
    let Some((window, _)) = field.window(packed) else {
        return;
    };
    if let Some(bytes) = bytes.get_mut(..window.len()) {
        bytes.copy_from_slice(window);
    }
}

/// The packed form of a structure: how long it is, and its fields.
///
/// # Invariants
///
/// All fields are possible and within the length, and their members are in the structure, and are [`Bytes`].
pub struct Table<T> {
    length: usize,
    fields: &'static [Field],
    _structure: PhantomData<fn(&T)>,
}

impl<T> Table<T> {
    /// For [`packed!`](crate::packed). Does not compile where a field is not possible or behind the end.
    ///
    /// # Safety
    ///
    /// The members are in the structure, and are [`Bytes`].
    #[doc(hidden)]
    pub const unsafe fn new(length: usize, fields: &'static [Field]) -> Self {
        let mut nth = 0;
        while nth < fields.len() {
            assert!(fields[nth].is_possible() && fields[nth].end() <= length);
            nth += 1;
        }
        // INVARIANT: Checked above; and by the safety requirements.
        Self {
            length,
            fields,
            _structure: PhantomData,
        }
    }

    /// How many bytes the packed form has.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Packs a structure.
    ///
    /// # Errors
    ///
    /// `EINVAL` where there is no room for [`Self::length`] bytes.
    pub fn pack(&self, from: &T, packed: &mut [u8]) -> Result {
        let packed = packed.get_mut(..self.length).ok_or(EINVAL)?;
        for field in self.fields {
            // SAFETY: By the type invariants.
            unsafe { pack_field(field, core::ptr::from_ref(from).cast(), packed) };
        }
        Ok(())
    }

    /// Unpacks the members of a structure that have a field.
    ///
    /// # Errors
    ///
    /// `EINVAL` where there are fewer than [`Self::length`] bytes.
    pub fn unpack(&self, packed: &mut [u8], to: &mut T) -> Result {
        let packed = packed.get_mut(..self.length).ok_or(EINVAL)?;
        for field in self.fields {
            // SAFETY: By the type invariants.
            unsafe { unpack_field(field, packed, core::ptr::from_mut(to).cast()) };
        }
        Ok(())
    }
}

/// Makes the [`Table`] of a structure: how many bytes the packed form has, and for each field the word, the bit and the bits,
/// and the member in brackets: none, if the bits are reserved.
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
        // SAFETY: The pointer to the member is not used.
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
            // SAFETY: `@member` asks for members of the type, which are bytes.
            unsafe { $crate::abi::pack::Table::<$ty>::new($length, FIELDS) }
        }
    };
}
pub use packed;
