// SPDX-License-Identifier: GPL-2.0

//! The CRC-32 of Ethernet, which the ICRC of RoCE uses: `crc32_le`.
//!
//! C header: `include/linux/crc32.h`.

/// Updates a CRC-32 with the Ethernet polynomial, least significant bit first: the CRC of RoCE's ICRC.
///
/// Start with `!0`, and complement the result; neither is done here.
#[inline]
pub fn crc32_le(state: u32, bytes: &[u8]) -> u32 {
    // SAFETY: The slice is valid for its length.
    unsafe { crate::bindings::crc32_le(state, bytes.as_ptr().cast(), bytes.len()) }
}
