// SPDX-License-Identifier: GPL-2.0

//! Validated ranges of memory, by which memory is accessed.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::{rcu, Arc};
use kernel_ext::{
    room::Room,
    sync::{SpinLockIrq, SpinLockIrqGuard},
};
use rdma::provider::extent::Extent;

use super::{Fast, Memory, Mr, MrError, Term};

impl Memory {
    /// The `len` bytes at an address of a DMA region, or an offset of a user region, to copy from. `None` for memory that is only
    /// accessed with a lock held.
    pub(super) fn extent(&self, at: u64, len: u32) -> Option<Extent<'_>> {
        match self {
            Self::Dma(virt) => virt.extent(at, len as usize).ok(),
            Self::User(umem) => umem.extent(at as usize, len as usize).ok(),
            Self::Fast(_) => None,
        }
    }
}

/// A validated range of memory.
///
/// Offsets are relative to the range; beyond its end they fail with [`MrError::OutOfRange`]. All methods may be called
/// in any context, and fail with [`MrError::Invalid`] once the memory is not registered any more.
pub(crate) struct Region {
    pub(super) mr: Arc<Mr>,
    /// Of a DMA region: the address. Otherwise: the offset in the memory region.
    pub(super) start: u64,
    pub(super) len: u32,
    /// Of fast registration regions: the epoch of the registration.
    pub(super) epoch: u32,
    /// Of windows: the term of their binding.
    pub(super) term: Option<Term>,
}

impl Region {
    fn place(&self, offset: u32, len: usize) -> Result<u64, MrError> {
        let end = (offset as usize)
            .checked_add(len)
            .ok_or(MrError::OutOfRange)?;
        if end > self.len as usize {
            return Err(MrError::OutOfRange);
        }
        self.start
            .checked_add(offset.into())
            .ok_or(MrError::OutOfRange)
    }

    fn with<R>(&self, f: impl FnOnce(&Memory) -> Result<R, MrError>) -> Result<R, MrError> {
        let access = || self.mr.memory.access(f).unwrap_or(Err(MrError::Invalid));
        match &self.term {
            Some(term) => term.during(access),
            None => access(),
        }
    }

    /// Locks a fast registration region, if the registration is still valid.
    fn lock<'a>(&self, fast: &'a SpinLockIrq<Fast>) -> Result<SpinLockIrqGuard<'a, Fast>, MrError> {
        let fast = fast.lock();
        if fast.is_valid(self.epoch) {
            Ok(fast)
        } else {
            Err(MrError::Invalid)
        }
    }

    /// Copies `from` to `offset`.
    #[inline]
    pub(crate) fn copy_in(&self, offset: u32, from: &[u8]) -> Result<(), MrError> {
        let at = self.place(offset, from.len())?;
        self.with(|memory| match memory {
            Memory::Dma(virt) => virt.write(at, from).map_err(|_| MrError::Invalid),
            Memory::User(umem) => umem.write(at as usize, from).map_err(|_| MrError::Invalid),
            Memory::Fast(fast) => self.lock(fast)?.write(at, from),
        })
    }

    /// Copies `len` bytes at `from` of other memory to `offset`.
    pub(crate) fn copy_from(
        &self,
        offset: u32,
        other: &Extent<'_>,
        from: usize,
        len: usize,
    ) -> Result<(), MrError> {
        let at = self.place(offset, len)?;
        self.with(|memory| match memory {
            Memory::Dma(virt) => virt
                .write_from(at, other, from, len)
                .map_err(|_| MrError::Invalid),
            Memory::User(umem) => umem
                .write_from(at as usize, other, from, len)
                .map_err(|_| MrError::Invalid),
            Memory::Fast(fast) => self.copy_locked(fast, at, other, from..from.saturating_add(len)),
        })
    }

    /// Copies a range of other memory to an offset of a fast registration region. The lock, which disables interrupts, is dropped
    /// after each page.
    fn copy_locked(
        &self,
        fast: &SpinLockIrq<Fast>,
        mut at: u64,
        other: &Extent<'_>,
        range: Range<usize>,
    ) -> Result<(), MrError> {
        let Range { mut start, end } = range;
        while start < end {
            let now = end.wrapping_sub(start).min(PAGE_SIZE);
            self.lock(fast)?.write_from(at, other, start, now)?;
            start = start.wrapping_add(now);
            at = at.wrapping_add(now as u64);
        }
        Ok(())
    }

    /// The `len` bytes at `offset`, to copy from for the rest of a critical section. `None` where they can only be accessed with a
    /// lock held, or not any more.
    pub(crate) fn extent<'a>(
        &'a self,
        offset: u32,
        len: u32,
        guard: &'a rcu::Guard,
    ) -> Option<Extent<'a>> {
        if self.term.is_some() {
            return None;
        }
        let at = self.place(offset, len as usize).ok()?;
        self.mr.memory.borrow(guard)?.extent(at, len)
    }

    /// Copies `len` bytes from `offset`.
    #[inline]
    pub(crate) fn copy_out(&self, offset: u32, len: u32, to: &mut Room<'_>) -> Result<(), MrError> {
        let len = len as usize;
        let at = self.place(offset, len)?;
        self.with(|memory| match memory {
            Memory::Dma(virt) => virt.read(at, len, to).map_err(|_| MrError::Invalid),
            Memory::User(umem) => umem
                .read(at as usize, len, to)
                .map_err(|_| MrError::Invalid),
            Memory::Fast(fast) => self.lock(fast)?.read(at, len, to),
        })
    }

    /// Applies `operation` to the native-endian number at `offset`.
    fn atomic(
        &self,
        offset: u32,
        operation: impl FnOnce(&AtomicU64) -> u64,
    ) -> Result<u64, MrError> {
        let at = self.place(offset, 8)?;
        let misaligned = |_| MrError::Misaligned;
        self.with(|memory| match memory {
            Memory::Dma(virt) => Ok(operation(virt.atomic(at).map_err(misaligned)?.get())),
            Memory::User(umem) => Ok(operation(
                umem.atomic(at as usize).map_err(misaligned)?.get(),
            )),
            Memory::Fast(fast) => Ok(operation(self.lock(fast)?.atomic(at)?.get())),
        })
    }

    /// Replaces the number at `offset` by `swap` if it is `compare`; returns the old value.
    ///
    /// Numbers are native-endian. Atomic with respect to all other accesses.
    ///
    /// # Errors
    ///
    /// [`MrError::Misaligned`] where the offset is not aligned to eight bytes.
    pub(crate) fn compare_swap(
        &self,
        offset: u32,
        compare: u64,
        swap: u64,
    ) -> Result<u64, MrError> {
        self.atomic(offset, |number| {
            match number.compare_exchange(compare, swap, Ordering::AcqRel, Ordering::Acquire) {
                Ok(old) | Err(old) => old,
            }
        })
    }

    /// Adds to the number at `offset`, wrapping; returns the old value.
    ///
    /// # Errors
    ///
    /// As for [`Self::compare_swap`].
    pub(crate) fn fetch_add(&self, offset: u32, add: u64) -> Result<u64, MrError> {
        self.atomic(offset, |number| number.fetch_add(add, Ordering::AcqRel))
    }

    /// Stores a number at `offset` atomically.
    ///
    /// # Errors
    ///
    /// As for [`Self::compare_swap`].
    pub(crate) fn store(&self, offset: u32, value: u64) -> Result<(), MrError> {
        self.atomic(offset, |number| number.swap(value, Ordering::AcqRel))?;
        Ok(())
    }
}
