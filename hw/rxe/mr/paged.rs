// SPDX-License-Identifier: GPL-2.0

//! Accesses to memory that is paged on demand. At most a page is copied at a time, because the table of pages is locked
//! with interrupts disabled. The functions are not inlined into the accesses to pinned memory.

use core::ops::Range;
use core::sync::atomic::AtomicU64;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel_ext::room::Room;
use kernel_ext::shared_bytes::SharedBytes;
use rdma::provider::extent::Extent;
use rdma::provider::odp::OdpUmem;

use super::error::MrError;

/// Converts an error of [`OdpUmem`].
fn error_of(error: Error) -> MrError {
    match error {
        EAGAIN => MrError::Absent,
        _ => MrError::Invalid,
    }
}

/// The parts of `0..len` that are copied at a time with interrupts disabled: each has the length of a page, but for the last one.
#[inline]
pub(super) fn parts(len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len)
        .step_by(PAGE_SIZE)
        .map(move |start| start..start.saturating_add(PAGE_SIZE).min(len))
}

/// Calls `copy` with the parts of `0..len` that are copied at a time.
fn in_parts(len: usize, copy: impl FnMut(Range<usize>) -> Result) -> Result<(), MrError> {
    parts(len).try_for_each(copy).map_err(error_of)
}

/// Copies `from` to the offset `at`.
#[inline(never)]
pub(super) fn write(umem: &OdpUmem, at: usize, from: SharedBytes<'_>) -> Result<(), MrError> {
    in_parts(from.len(), |part| {
        let at = at.saturating_add(part.start);
        umem.write(at, from.get(part).ok_or(EFAULT)?)
    })
}

/// Copies `len` bytes at `from` of other memory to the offset `at`.
#[inline(never)]
pub(super) fn write_from(
    umem: &OdpUmem,
    at: usize,
    other: &Extent<'_>,
    from: usize,
    len: usize,
) -> Result<(), MrError> {
    in_parts(len, |part| {
        let (at, from) = (
            at.saturating_add(part.start),
            from.saturating_add(part.start),
        );
        umem.write_from(at, other, from, part.len())
    })
}

/// Copies `len` bytes from the offset `at`.
#[inline(never)]
pub(super) fn read(
    umem: &OdpUmem,
    at: usize,
    len: usize,
    to: &mut Room<'_>,
) -> Result<(), MrError> {
    in_parts(len, |part| {
        umem.read(at.saturating_add(part.start), part.len(), to)
    })
}

/// Applies `operation` to the number at the offset `at`.
#[inline(never)]
pub(super) fn atomic(
    umem: &OdpUmem,
    at: usize,
    operation: impl FnOnce(&AtomicU64) -> u64,
) -> Result<u64, MrError> {
    let result = umem.atomic(at, operation);
    result.map_err(|error| match error {
        EINVAL => MrError::Misaligned,
        error => error_of(error),
    })
}
