// SPDX-License-Identifier: GPL-2.0

//! Memory access errors (IBTA volume 1, section 10.6), and range checks.

use kernel::prelude::*;

/// The error of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MrError {
    /// No region has the key, or it is not registered.
    Invalid,
    /// The region belongs to another protection domain.
    WrongPd,
    /// The region does not allow such an access.
    NoAccess,
    /// The range exceeds the region.
    OutOfRange,
    /// An atomic operation is not aligned to eight bytes.
    Misaligned,
    /// Some of the memory is not present; some of it may have been accessed.
    Absent,
}

impl From<MrError> for Error {
    fn from(_: MrError) -> Self {
        EINVAL
    }
}

/// Checks that `len` bytes at `va` are within `length` bytes at `iova`; returns the offset.
pub(crate) fn within(iova: u64, length: u64, va: u64, len: u64) -> Result<u64, MrError> {
    let offset = va.checked_sub(iova).ok_or(MrError::OutOfRange)?;
    match offset.checked_add(len) {
        Some(end) if end <= length => Ok(offset),
        _ => Err(MrError::OutOfRange),
    }
}
