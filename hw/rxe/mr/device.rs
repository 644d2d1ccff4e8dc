// SPDX-License-Identifier: GPL-2.0

//! Copies from and to memory of the device.

use core::sync::atomic::AtomicU64;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::{room::Room, shared_bytes::SharedBytes};
use rdma::provider::{dm::DmMr, extent::Extent};

use super::error::MrError;
use crate::dm::Dm;

/// Memory of the device, from an offset on; the region knows where it ends. Methods that access it may be called in any context, and
/// fail with [`MrError::OutOfRange`] beyond the end of all that the program has allocated.
pub(super) struct Part {
    dm: Arc<Dm>,
    start: usize,
}

impl Part {
    /// A range of device memory, which the core has found to be within what the program has allocated.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no bytes.
    pub(super) fn new(dm: &Arc<Dm>, range: &DmMr) -> Result<Self> {
        if range.length == 0 {
            return Err(EINVAL);
        }
        Ok(Self {
            dm: dm.clone(),
            start: usize::try_from(range.offset)?,
        })
    }

    fn place(&self, at: u64) -> Result<usize, MrError> {
        let at = usize::try_from(at).map_err(|_| MrError::OutOfRange)?;
        self.start.checked_add(at).ok_or(MrError::OutOfRange)
    }

    fn bytes(&self, at: u64, len: usize) -> Result<SharedBytes<'_>, MrError> {
        let bytes = self.dm.memory().bytes(self.place(at)?, len);
        bytes.ok_or(MrError::OutOfRange)
    }

    /// The `len` bytes at an offset, to copy from.
    pub(super) fn extent(&self, at: u64, len: usize) -> Option<Extent<'_>> {
        self.bytes(at, len).ok().map(Extent::of_shared)
    }

    /// Copies `len` bytes from an offset.
    pub(super) fn read(&self, at: u64, len: usize, to: &mut Room<'_>) -> Result<(), MrError> {
        let bytes = self.bytes(at, len)?;
        to.write_shared(bytes).map_err(|_| MrError::Invalid)
    }

    /// Copies to an offset.
    pub(super) fn write(&self, at: u64, from: SharedBytes<'_>) -> Result<(), MrError> {
        let copied = self.dm.memory().copy_in_shared(self.place(at)?, from);
        copied.ok_or(MrError::OutOfRange)
    }

    /// Copies `len` bytes at `from` of other memory to an offset.
    pub(super) fn write_from(
        &self,
        mut at: u64,
        other: &Extent<'_>,
        from: usize,
        len: usize,
    ) -> Result<(), MrError> {
        let copied = other.in_parts(from, len, |bytes| {
            self.write(at, bytes)?;
            at = at.saturating_add(bytes.len() as u64);
            Ok(())
        });
        copied.map_err(|_| MrError::Invalid)
    }

    /// The eight bytes at an offset, for atomic operations.
    ///
    /// # Errors
    ///
    /// [`MrError::Misaligned`].
    pub(super) fn number(&self, at: u64) -> Result<&AtomicU64, MrError> {
        let number = self.dm.memory().number(self.place(at)?);
        number.ok_or(MrError::Misaligned)
    }
}
