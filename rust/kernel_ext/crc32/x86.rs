// SPDX-License-Identifier: GPL-2.0

//! Copying and CRC-32 in one pass, by carry-less multiplication of 16 bytes (PCLMULQDQ with AVX).
//!
//! Intel's white paper "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" describes the method: four
//! remainders of 16 bytes are multiplied by a power of x and added to the next 64 bytes, then folded into one, which is reduced. The
//! kernel's `crc32_le()` does the same to bytes that were copied before.

use crate::bindings;

/// Bytes that are multiplied at a time.
pub(super) const BLOCK: usize = 16;

/// Bytes that are copied with the first block.
const FIRST: usize = 3 * BLOCK;

/// Bytes that are copied at a time then.
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

/// Copies `len` bytes, and returns the state after `block` and them, from 0.
///
/// # Safety
///
/// `from` is valid for reads of `len` bytes, which others may write meanwhile; `to` is valid for writes of as many, which nobody else
/// accesses, and which do not overlap them. `len` is at least three blocks, and a multiple of one.
pub(super) unsafe fn fold(
    _: &VectorRegisters,
    block: &[u8; BLOCK],
    to: *mut u8,
    from: *const u8,
    len: usize,
) -> u32 {
    let strides = len.wrapping_sub(FIRST) / STRIDE * STRIDE;
    let rest = len.wrapping_sub(FIRST).wrapping_sub(strides);
    // The addresses behind the last stride: offsets from there are negative, and 0 at the end.
    let done = FIRST.wrapping_add(strides);
    let (to, from) = (to.wrapping_add(done), from.wrapping_add(done));
    let result;
    // SAFETY: By the safety requirements `len` bytes are read and written. The vector registers are saved, and the compiler, which
    // is told not to use them, has nothing in them. Only the operands, flags and the memory at `to` change.
    unsafe {
        core::arch::asm!(
            // The block and the first bytes.
            "vmovdqu xmm0, [{block}]",
            "vmovdqu xmm1, [{from} + {at} - 48]",
            "vmovdqu xmm2, [{from} + {at} - 32]",
            "vmovdqu xmm3, [{from} + {at} - 16]",
            "vmovdqu [{to} + {at} - 48], xmm1",
            "vmovdqu [{to} + {at} - 32], xmm2",
            "vmovdqu [{to} + {at} - 16], xmm3",
            "vmovdqa xmm4, [{factors}]",
            "test {at}, {at}",
            "jz 3f",
            "2:",
            "vmovdqu ymm5, [{from} + {at}]",
            "vmovdqu ymm6, [{from} + {at} + 32]",
            "vmovdqu [{to} + {at}], ymm5",
            "vmovdqu [{to} + {at} + 32], ymm6",
            "vpclmulqdq xmm5, xmm0, xmm4, 0x00",
            "vpclmulqdq xmm0, xmm0, xmm4, 0x11",
            "vpxor xmm5, xmm5, [{to} + {at}]",
            "vpxor xmm0, xmm0, xmm5",
            "vpclmulqdq xmm5, xmm1, xmm4, 0x00",
            "vpclmulqdq xmm1, xmm1, xmm4, 0x11",
            "vpxor xmm5, xmm5, [{to} + {at} + 16]",
            "vpxor xmm1, xmm1, xmm5",
            "vpclmulqdq xmm5, xmm2, xmm4, 0x00",
            "vpclmulqdq xmm2, xmm2, xmm4, 0x11",
            "vpxor xmm5, xmm5, [{to} + {at} + 32]",
            "vpxor xmm2, xmm2, xmm5",
            "vpclmulqdq xmm5, xmm3, xmm4, 0x00",
            "vpclmulqdq xmm3, xmm3, xmm4, 0x11",
            "vpxor xmm5, xmm5, [{to} + {at} + 48]",
            "vpxor xmm3, xmm3, xmm5",
            "add {at}, 64",
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
            "vmovdqu [{to} + {at}], xmm6",
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
            block = in(reg) block,
            to = in(reg) to,
            from = in(reg) from,
            at = inout(reg) strides.wrapping_neg() => _,
            rest = in(reg) rest,
            factors = in(reg) &raw const FACTORS,
            options(nostack),
        );
    }
    result
}
