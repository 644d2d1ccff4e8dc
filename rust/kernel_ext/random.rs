// SPDX-License-Identifier: GPL-2.0

//! Random numbers from the kernel's generator: `get_random_bytes`, `get_random_u32`.
//!
//! C header: `include/linux/random.h`.

use crate::bindings;

/// Fills `bytes` with random numbers of cryptographic quality. Any context.
pub fn fill(bytes: &mut [u8]) {
    // SAFETY: `bytes` is valid for writes of its length.
    unsafe { bindings::get_random_bytes(bytes.as_mut_ptr().cast(), bytes.len()) };
}

/// A random number of cryptographic quality, of those that each processor makes in advance. Any context.
pub fn number() -> u32 {
    // SAFETY: The function has no preconditions.
    unsafe { bindings::get_random_u32() }
}
