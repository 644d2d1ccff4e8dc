// SPDX-License-Identifier: GPL-2.0

//! Parts of structures that user space shares: so many bytes at an offset.
//!
//! C header: `include/uapi/rdma/ib_user_mad.h`.

/// `N` bytes at the offset `at`; zeros after the end.
pub(crate) fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().unwrap_or([0; N])
}

/// Sets the bytes at the offset `at`, up to the end.
pub(crate) fn set_part(bytes: &mut [u8], at: usize, part: &[u8]) {
    for (to, byte) in bytes.iter_mut().skip(at).zip(part) {
        *to = *byte;
    }
}
