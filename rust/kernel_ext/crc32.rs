// SPDX-License-Identifier: GPL-2.0

//! The CRC-32 of Ethernet, which the ICRC of RoCE uses: `crc32_le`.
//!
//! C header: `include/linux/crc32.h`.

use crate::{bindings, shared_bytes::SharedBytes};

#[cfg(all(CONFIG_X86_64, not(CONFIG_UML), not(CONFIG_KASAN)))]
mod x86;

/// Updates a CRC-32 with the Ethernet polynomial, least significant bit first: the CRC of RoCE's ICRC.
///
/// Start with `!0`, and complement the result; neither is done here.
#[inline]
pub fn crc32_le(state: u32, bytes: SharedBytes<'_>) -> u32 {
    if bytes.len() >= ONE_PASS {
        if let Some(state) = fold_blocks(state, bytes) {
            return state;
        }
    }
    by_kernel(state, bytes)
}

/// As [`crc32_le`], by the function of the kernel.
#[inline]
fn by_kernel(state: u32, bytes: SharedBytes<'_>) -> u32 {
    // SAFETY: By the invariants of the type the bytes are valid for reads. C code reads them, so they may change.
    unsafe { bindings::crc32_le(state, bytes.as_ptr().cast(), bytes.len()) }
}

/// From this length on, [`crc32_le_copy`] may take one pass, and [`crc32_le`] instructions that the kernel does not use.
pub const ONE_PASS: usize = 256;

/// What a CRC-32 starts with.
#[derive(Clone, Copy)]
pub enum Start {
    /// A state.
    State(u32),
    /// The state after these bytes, from 0. Functions that take 16 bytes at a time begin with them.
    Block([u8; 16]),
}

impl Start {
    /// The state.
    #[inline]
    pub fn state(self) -> u32 {
        match self {
            Self::State(state) => state,
            Self::Block(block) => crc32_le(0, block.as_slice().into()),
        }
    }
}

/// Copies `len` bytes, which are read once, and returns the CRC-32 after them, as [`crc32_le`]: in one pass where the processor's
/// instructions make that faster.
///
/// # Safety
///
/// `from` is valid for reads of `len` bytes, which others may write meanwhile; `to` is valid for writes of as many, which nobody else
/// accesses, and which do not overlap them.
#[inline]
pub unsafe fn crc32_le_copy(start: Start, to: *mut u8, from: *const u8, len: usize) -> u32 {
    if len >= ONE_PASS {
        // SAFETY: By the safety requirements.
        if let Some(state) = unsafe { copy_in_one_pass(start, to, from, len) } {
            return state;
        }
    }
    // SAFETY: By the safety requirements.
    unsafe {
        bindings::memcpy_shared(to.cast(), from.cast(), len);
        bindings::crc32_le(start.state(), to.cast_const().cast(), len)
    }
}

/// As [`crc32_le_copy`], of at least [`ONE_PASS`] bytes. `None` if nothing was copied.
///
/// # Safety
///
/// As for [`crc32_le_copy`].
#[cfg(all(CONFIG_X86_64, not(CONFIG_UML), not(CONFIG_KASAN)))]
#[inline]
unsafe fn copy_in_one_pass(
    start: Start,
    mut to: *mut u8,
    mut from: *const u8,
    mut len: usize,
) -> Option<u32> {
    use x86::BLOCK;

    let registers = x86::VectorRegisters::begin()?;
    let block = match start {
        Start::Block(block) => block,
        Start::State(state) => {
            let mut first = 0u128;
            // SAFETY: By the safety requirements, these are the first bytes. A `u128` has any bytes.
            unsafe {
                bindings::memcpy_shared((&raw mut first).cast(), from.cast(), BLOCK);
                to.cast::<u128>().write_unaligned(first);
            }
            (to, from) = (to.wrapping_add(BLOCK), from.wrapping_add(BLOCK));
            len = len.wrapping_sub(BLOCK);
            (first ^ u128::from(state)).to_ne_bytes()
        }
    };
    let folded = len & !(BLOCK - 1);
    // SAFETY: By the safety requirements. `folded` is at least `ONE_PASS` less a block, and a multiple of it.
    let state = unsafe { x86::copy_and_fold(&registers, &block, to, from, folded) };
    drop(registers);
    let rest = len.wrapping_sub(folded);
    if rest == 0 {
        return Some(state);
    }
    (to, from) = (to.wrapping_add(folded), from.wrapping_add(folded));
    // SAFETY: By the safety requirements, these are the last bytes.
    unsafe {
        bindings::memcpy_shared(to.cast(), from.cast(), rest);
        Some(bindings::crc32_le(state, to.cast_const().cast(), rest))
    }
}

/// As [`crc32_le`], of at least [`ONE_PASS`] bytes. `None` where the kernel's function is faster, or the vector registers cannot be
/// used.
#[cfg(all(CONFIG_X86_64, not(CONFIG_UML), not(CONFIG_KASAN)))]
fn fold_blocks(state: u32, bytes: SharedBytes<'_>) -> Option<u32> {
    use x86::BLOCK;

    let folded = bytes.len() & !(BLOCK - 1);
    let first = bytes.get(0..BLOCK)?.array().map(u128::from_ne_bytes)?;
    let block = (first ^ u128::from(state)).to_ne_bytes();
    let registers = x86::VectorRegisters::begin()?;
    let from = bytes.as_ptr().wrapping_add(BLOCK);
    // SAFETY: By the invariants of the type these bytes are valid for reads: at least `ONE_PASS` less two blocks, and a multiple of one.
    let state = unsafe { x86::fold(&registers, &block, from, folded.wrapping_sub(BLOCK)) };
    drop(registers);
    Some(by_kernel(state, bytes.get(folded..bytes.len())?))
}

/// Takes no instructions of its own.
#[cfg(not(all(CONFIG_X86_64, not(CONFIG_UML), not(CONFIG_KASAN))))]
#[inline]
fn fold_blocks(_: u32, _: SharedBytes<'_>) -> Option<u32> {
    None
}

/// Copies nothing.
///
/// # Safety
///
/// None.
#[cfg(not(all(CONFIG_X86_64, not(CONFIG_UML), not(CONFIG_KASAN))))]
#[inline]
unsafe fn copy_in_one_pass(_: Start, _: *mut u8, _: *const u8, _: usize) -> Option<u32> {
    None
}
