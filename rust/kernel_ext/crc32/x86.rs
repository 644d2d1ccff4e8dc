// SPDX-License-Identifier: GPL-2.0

//! CRC-32, and copying in the same pass, by carry-less multiplication of 16 bytes (PCLMULQDQ with AVX).
//!
//! Intel's white paper "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" describes the method: four
//! remainders of 16 bytes are multiplied by a power of x and added to the next 64 bytes, then folded into one, which is reduced. The
//! kernel's `crc32_le()` does the same to bytes that were copied before, without AVX.

use crate::bindings;

/// Bytes that are multiplied at a time.
pub(super) const BLOCK: usize = 16;

/// Bytes that are folded with the first block.
const FIRST: usize = 3 * BLOCK;

/// Bytes that are folded at a time then.
const STRIDE: usize = 4 * BLOCK;

/// The polynomial of Ethernet, with its highest power in the lowest bit.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// x to a power, modulo the polynomial, as a factor of reflected numbers: a product of two of them is one bit short.
const fn power(of: u32) -> u64 {
    let (mut remainder, mut done) = (1u32 << 31, 0);
    while done < of {
        remainder = (remainder >> 1) ^ (POLYNOMIAL * (remainder & 1));
        done += 1;
    }
    (remainder as u64) << 1
}

/// x to the 64th divided by the polynomial, reflected (33 bits).
const fn quotient() -> u64 {
    let polynomial = (1u64 << 32) | POLYNOMIAL.reverse_bits() as u64;
    // The highest power of the dividend is subtracted first.
    let (mut rest, mut result, mut bit) = (1u64 << 32, 0u64, 0);
    while bit <= 32 {
        let one = rest >> 32 & 1;
        result |= one << bit;
        rest = (rest ^ (polynomial * one)) << 1;
        bit += 1;
    }
    result
}

// The values of the white paper.
const _: () = assert!(power(544) == 0x1_5444_2bd4 && quotient() == 0x1_f701_1641);

/// Factors, two for each step.
#[repr(C, align(16))]
struct Factors([[u64; 2]; 4]);

static FACTORS: Factors = Factors([
    // Over 64 bytes.
    [power(4 * 128 + 32), power(4 * 128 - 32)],
    // Over 16 bytes.
    [power(128 + 32), power(128 - 32)],
    // From 96 bits to 64.
    [power(64), 0],
    // The polynomial itself, and what it is divided by: Barrett reduction to 32 bits.
    [(POLYNOMIAL as u64) << 1 | 1, quotient()],
]);

/// Permission to use the vector registers. Preemption and softirqs are disabled.
pub(super) struct VectorRegisters(());

impl VectorRegisters {
    /// `None` where the processor lacks the instructions or has better ones, or in a context where they cannot be used.
    #[inline]
    pub(super) fn begin() -> Option<Self> {
        // SAFETY: Any context. If it returns true, `Drop` ends what has begun.
        unsafe { bindings::crc32_vector_begin() }.then_some(Self(()))
    }
}

impl Drop for VectorRegisters {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: It was begun by `begin`.
        unsafe { bindings::crc32_vector_end() };
    }
}

/// Folds a stride of 64 bytes at an offset behind `{at}` into the four remainders. `{data}` has the bytes.
#[rustfmt::skip]
macro_rules! fold_stride {
    ($offset:literal) => {
        concat!(
            "vpclmulqdq xmm5, xmm0, xmm4, 0x00\n",
            "vpclmulqdq xmm0, xmm0, xmm4, 0x11\n",
            "vpxor xmm5, xmm5, [{data} + {at} + ", $offset, "]\n",
            "vpxor xmm0, xmm0, xmm5\n",
            "vpclmulqdq xmm5, xmm1, xmm4, 0x00\n",
            "vpclmulqdq xmm1, xmm1, xmm4, 0x11\n",
            "vpxor xmm5, xmm5, [{data} + {at} + ", $offset, " + 16]\n",
            "vpxor xmm1, xmm1, xmm5\n",
            "vpclmulqdq xmm5, xmm2, xmm4, 0x00\n",
            "vpclmulqdq xmm2, xmm2, xmm4, 0x11\n",
            "vpxor xmm5, xmm5, [{data} + {at} + ", $offset, " + 32]\n",
            "vpxor xmm2, xmm2, xmm5\n",
            "vpclmulqdq xmm5, xmm3, xmm4, 0x00\n",
            "vpclmulqdq xmm3, xmm3, xmm4, 0x11\n",
            "vpxor xmm5, xmm5, [{data} + {at} + ", $offset, " + 48]\n",
            "vpxor xmm3, xmm3, xmm5\n",
        )
    };
}

/// Copies a stride from `{from}` to `{data}`.
#[rustfmt::skip]
macro_rules! copy_stride {
    ($offset:literal) => {
        concat!(
            "vmovdqu ymm5, [{from} + {at} + ", $offset, "]\n",
            "vmovdqu ymm6, [{from} + {at} + ", $offset, " + 32]\n",
            "vmovdqu [{data} + {at} + ", $offset, "], ymm5\n",
            "vmovdqu [{data} + {at} + ", $offset, " + 32], ymm6\n",
        )
    };
}

/// The instructions of [`fold`], between which are those that copy the first bytes, two strides and a block. `data` has the bytes when
/// they are copied.
macro_rules! fold_by {
    ($block:ident, $from:ident, $data:ident, $len:ident,
     $copy_first:literal, $copy_stride:expr, $copy_next:expr, $copy_block:literal) => {{
        let strides = $len.wrapping_sub(FIRST) / STRIDE * STRIDE;
        let rest = $len.wrapping_sub(FIRST).wrapping_sub(strides);
        // The addresses behind the last stride: offsets from there are negative, and 0 at the end.
        let done = FIRST.wrapping_add(strides);
        let result;
        core::arch::asm!(
            // The block and the first bytes.
            "vmovdqu xmm0, [{block}]",
            "vmovdqu xmm1, [{from} + {at} - 48]",
            "vmovdqu xmm2, [{from} + {at} - 32]",
            "vmovdqu xmm3, [{from} + {at} - 16]",
            $copy_first,
            "vmovdqa xmm4, [{factors}]",
            "test {at}, {at}",
            "jz 3f",
            // Two strides at a time; of an odd number the first one is the second of two.
            "test {at}, 64",
            "jz 2f",
            "sub {at}, 64",
            "jmp 6f",
            "2:",
            $copy_stride,
            fold_stride!("0"),
            "6:",
            $copy_next,
            fold_stride!("64"),
            "add {at}, 128",
            "jnz 2b",
            "3:",
            // Four remainders to one.
            "vmovdqa xmm4, [{factors} + 16]",
            "vpclmulqdq xmm5, xmm0, xmm4, 0x00",
            "vpclmulqdq xmm0, xmm0, xmm4, 0x11",
            "vpxor xmm0, xmm0, xmm5",
            "vpxor xmm0, xmm0, xmm1",
            "vpclmulqdq xmm5, xmm0, xmm4, 0x00",
            "vpclmulqdq xmm0, xmm0, xmm4, 0x11",
            "vpxor xmm0, xmm0, xmm5",
            "vpxor xmm0, xmm0, xmm2",
            "vpclmulqdq xmm5, xmm0, xmm4, 0x00",
            "vpclmulqdq xmm0, xmm0, xmm4, 0x11",
            "vpxor xmm0, xmm0, xmm5",
            "vpxor xmm0, xmm0, xmm3",
            // The last blocks.
            "cmp {at}, {rest}",
            "je 5f",
            "4:",
            "vmovdqu xmm6, [{from} + {at}]",
            $copy_block,
            "vpclmulqdq xmm5, xmm0, xmm4, 0x00",
            "vpclmulqdq xmm0, xmm0, xmm4, 0x11",
            "vpxor xmm0, xmm0, xmm5",
            "vpxor xmm0, xmm0, xmm6",
            "add {at}, 16",
            "cmp {at}, {rest}",
            "jne 4b",
            "5:",
            // 128 bits to 96, to 64.
            "vpclmulqdq xmm1, xmm0, xmm4, 0x10",
            "vpsrldq xmm0, xmm0, 8",
            "vpxor xmm0, xmm0, xmm1",
            "vmovq xmm4, [{factors} + 32]",
            "vpsrldq xmm1, xmm0, 4",
            "vpsllq xmm0, xmm0, 32",
            "vpsrlq xmm0, xmm0, 32",
            "vpclmulqdq xmm0, xmm0, xmm4, 0x00",
            "vpxor xmm0, xmm0, xmm1",
            // Barrett reduction.
            "vmovdqa xmm4, [{factors} + 48]",
            "vpsllq xmm1, xmm0, 32",
            "vpsrlq xmm1, xmm1, 32",
            "vpclmulqdq xmm1, xmm1, xmm4, 0x10",
            "vpsllq xmm1, xmm1, 32",
            "vpsrlq xmm1, xmm1, 32",
            "vpclmulqdq xmm1, xmm1, xmm4, 0x00",
            "vpxor xmm0, xmm0, xmm1",
            "vpextrd {state:e}, xmm0, 1",
            "vzeroupper",
            state = lateout(reg) result,
            block = in(reg) $block,
            from = in(reg) $from.wrapping_add(done),
            data = in(reg) $data.wrapping_add(done),
            at = inout(reg) strides.wrapping_neg() => _,
            rest = in(reg) rest,
            factors = in(reg) &raw const FACTORS,
            options(nostack),
        );
        result
    }};
}

/// Copies `len` bytes, and returns the state after `block` and them, from 0.
///
/// # Safety
///
/// `from` is valid for reads of `len` bytes, which others may write meanwhile; `to` is valid for writes of as many, which nobody else
/// accesses, and which do not overlap them. `len` is at least three blocks, and a multiple of one.
pub(super) unsafe fn copy_and_fold(
    _: &VectorRegisters,
    block: &[u8; BLOCK],
    to: *mut u8,
    from: *const u8,
    len: usize,
) -> u32 {
    // SAFETY: By the safety requirements `len` bytes are read and written. The vector registers are saved, and the compiler, which
    // is told not to use them, has nothing in them. Only the operands, flags and the memory at `to` change.
    unsafe {
        fold_by!(
            block,
            from,
            to,
            len,
            "vmovdqu [{data} + {at} - 48], xmm1
             vmovdqu [{data} + {at} - 32], xmm2
             vmovdqu [{data} + {at} - 16], xmm3",
            copy_stride!("0"),
            copy_stride!("64"),
            "vmovdqu [{data} + {at}], xmm6"
        )
    }
}

/// The state after `block` and `len` bytes, from 0.
///
/// # Safety
///
/// `from` is valid for reads of `len` bytes, which others may write meanwhile. `len` is at least three blocks, and a multiple of one.
pub(super) unsafe fn fold(
    _: &VectorRegisters,
    block: &[u8; BLOCK],
    from: *const u8,
    len: usize,
) -> u32 {
    // SAFETY: By the safety requirements `len` bytes are read. As in `copy_and_fold`, but for memory, which does not change.
    unsafe { fold_by!(block, from, from, len, "", "", "", "") }
}
