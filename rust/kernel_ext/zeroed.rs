// SPDX-License-Identifier: GPL-2.0

//! Zeroed arrays: the allocator clears them at once, not element by element.

use kernel::{
    alloc::{Allocator, Flags, Vec},
    prelude::*,
};

/// Allocates `length` zeroed elements.
///
/// # Errors
///
/// `ENOMEM`.
pub fn zeroed<T: Zeroable, A: Allocator>(length: usize, flags: Flags) -> Result<Vec<T, A>> {
    let mut elements = Vec::with_capacity(length, flags | __GFP_ZERO)?;
    // SAFETY: There is capacity for `length` elements. The allocator has cleared all of it, and zeros are values of the type.
    unsafe { elements.inc_len(length) };
    Ok(elements)
}
