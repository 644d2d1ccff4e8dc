// SPDX-License-Identifier: GPL-2.0

//! The CRC-32 of Ethernet, which the ICRC of RoCE uses: `crc32_le`.
//!
//! C header: `include/linux/crc32.h`.

use crate::{bindings, shared_bytes::SharedBytes};

/// Updates a CRC-32 with the Ethernet polynomial, least significant bit first: the CRC of RoCE's ICRC.
///
/// Start with `!0`, and complement the result; neither is done here.
#[inline]
pub fn crc32_le(state: u32, bytes: SharedBytes<'_>) -> u32 {
    // SAFETY: By the invariants of the type the bytes are valid for reads. C code reads them, so they may change.
    unsafe { bindings::crc32_le(state, bytes.as_ptr().cast(), bytes.len()) }
}
