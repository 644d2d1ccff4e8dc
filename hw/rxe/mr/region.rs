// SPDX-License-Identifier: GPL-2.0

//! Validated ranges of memory regions, through which all accesses to memory go (IBTA volume 1, section 10.6).

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::{rcu, Arc};
use kernel_ext::{
    room::Room,
    shared_bytes::SharedBytes,
    sync::{SpinLockIrq, SpinLockIrqGuard},
};
use rdma::provider::extent::Extent;

use super::error::{within, MrError};
use super::fast::Fast;
use super::fault::Fault;
use super::lease::Grant;
use super::paged;
use super::registration::{Memory, Mr};

/// A validated range of memory.
///
/// Offsets are relative to the range; beyond its end they fail with [`MrError::OutOfRange`]. All methods may be called
/// in any context, and fail with [`MrError::Invalid`] once the memory is not registered any more. Those that access memory fail
/// with [`MrError::Absent`] where it is paged on demand, and must be [faulted in](Self::fault) first.
pub(crate) struct Region {
    pub(super) mr: Arc<Mr>,
    /// Of a DMA region: the address. Otherwise: the offset in the memory region.
    pub(super) start: u64,
    pub(super) len: u32,
    /// Of fast registration regions: the epoch of the registration.
    pub(super) epoch: Option<u32>,
    /// Of windows: the grant of their binding.
    pub(super) grant: Option<Grant>,
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
        match &self.grant {
            Some(grant) => grant.access(access),
            None => access(),
        }
    }

    /// Calls `copy` with the parts of `0..len` that are copied at a time: all of it, or pages if a lock is held that disables
    /// interrupts.
    #[inline]
    fn in_parts(
        &self,
        len: usize,
        mut copy: impl FnMut(Range<usize>) -> Result<(), MrError>,
    ) -> Result<(), MrError> {
        let locks = self.grant.is_some() || self.epoch.is_some();
        if !locks || len <= PAGE_SIZE {
            return copy(0..len);
        }
        paged::parts(len).try_for_each(copy)
    }

    /// Locks a fast registration region, if the registration is still valid.
    fn lock<'a>(&self, fast: &'a SpinLockIrq<Fast>) -> Result<SpinLockIrqGuard<'a, Fast>, MrError> {
        let fast = fast.lock();
        if self.epoch.is_some_and(|epoch| fast.is_valid(epoch)) {
            Ok(fast)
        } else {
            Err(MrError::Invalid)
        }
    }

    /// Copies `from` to `offset`.
    #[inline]
    pub(crate) fn copy_in(&self, offset: u32, from: SharedBytes<'_>) -> Result<(), MrError> {
        let start = self.place(offset, from.len())?;
        self.in_parts(from.len(), |Range { start: part, end }| {
            let from = from.get(part..end).ok_or(MrError::OutOfRange)?;
            let at = start.saturating_add(part as u64);
            self.with(|memory| match memory {
                Memory::Dma(virt) => virt.write(at, from).map_err(|_| MrError::Invalid),
                Memory::User(umem) => umem.write(at as usize, from).map_err(|_| MrError::Invalid),
                Memory::Paged(umem) => paged::write(umem, at as usize, from),
                Memory::Dmabuf(buffer) => buffer
                    .write(at as usize, from)
                    .map_err(|_| MrError::Invalid),
                Memory::Device(part) => part.write(at, from),
                Memory::Fast(fast) => self.lock(fast)?.write(at, from),
            })
        })
    }

    /// Copies pieces of bytes, one behind the other, from `offset` on: `pieces` calls its argument with each.
    ///
    /// # Errors
    ///
    /// The first one of a piece; the pieces behind that are not copied.
    pub(crate) fn copy_in_pieces(
        &self,
        offset: u32,
        pieces: impl FnOnce(&mut dyn FnMut(SharedBytes<'_>)),
    ) -> Result<(), MrError> {
        let (mut at, mut copied) = (offset, Ok(()));
        let guard = rcu::read_lock();
        // Memory that needs no lock is looked up once.
        let umem = match (&self.grant, self.mr.memory.borrow(&guard)) {
            (None, Some(Memory::User(umem))) => Some(umem),
            _ => None,
        };
        pieces(&mut |bytes| {
            copied = copied.and_then(|()| match umem {
                Some(umem) => umem
                    .write(self.place(at, bytes.len())? as usize, bytes)
                    .map_err(|_| MrError::Invalid),
                None => self.copy_in(at, bytes),
            });
            at = at.saturating_add(bytes.len() as u32);
        });
        copied
    }

    /// Copies `len` bytes at `from` of other memory to `offset`.
    pub(crate) fn copy_from(
        &self,
        offset: u32,
        other: &Extent<'_>,
        from: usize,
        len: usize,
    ) -> Result<(), MrError> {
        let start = self.place(offset, len)?;
        self.in_parts(len, |part| {
            let at = start.saturating_add(part.start as u64);
            let (from, len) = (from.saturating_add(part.start), part.len());
            self.with(|memory| match memory {
                Memory::Dma(virt) => virt
                    .write_from(at, other, from, len)
                    .map_err(|_| MrError::Invalid),
                Memory::User(umem) => umem
                    .write_from(at as usize, other, from, len)
                    .map_err(|_| MrError::Invalid),
                Memory::Paged(umem) => paged::write_from(umem, at as usize, other, from, len),
                Memory::Dmabuf(buffer) => buffer
                    .write_from(at as usize, other, from, len)
                    .map_err(|_| MrError::Invalid),
                Memory::Device(part) => part.write_from(at, other, from, len),
                Memory::Fast(fast) => self.lock(fast)?.write_from(at, other, from, len),
            })
        })
    }

    /// The `len` bytes at `offset`, to copy from for the rest of a critical section. `None` where they can only be accessed with a
    /// lock held, or not any more.
    pub(crate) fn extent<'a>(
        &'a self,
        offset: u32,
        len: u32,
        guard: &'a rcu::Guard,
    ) -> Option<Extent<'a>> {
        if self.grant.is_some() {
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
            Memory::Paged(umem) => paged::read(umem, at as usize, len, to),
            Memory::Dmabuf(buffer) => buffer
                .read(at as usize, len, to)
                .map_err(|_| MrError::Invalid),
            Memory::Device(part) => part.read(at, len, to),
            Memory::Fast(fast) => self.lock(fast)?.read(at, len, to),
        })
    }

    /// Writes the range back from the caches of the processors (FLUSH to persistent memory).
    ///
    /// # Errors
    ///
    /// [`MrError::NoAccess`] for memory that is not of a process.
    pub(crate) fn write_back(&self) -> Result<(), MrError> {
        self.in_parts(self.len as usize, |part| {
            let at = self.start.saturating_add(part.start as u64);
            self.with(|memory| memory.write_back(at, part.len() as u64))
        })
    }

    /// The fault that makes `len` bytes at `offset` present: after [`MrError::Absent`]. The rest of the range will probably be accessed
    /// soon.
    pub(crate) fn fault(&self, offset: u32, len: u32, writes: bool) -> Fault {
        let at = self.start.saturating_add(offset.into());
        let ahead = self.len.saturating_sub(offset);
        Fault::new(self.mr.clone(), at, len, ahead, writes)
    }

    /// The fault that makes the range present; `ahead` bytes from its start on will probably be accessed soon.
    pub(crate) fn fault_ahead(&self, ahead: u32, writes: bool) -> Fault {
        Fault::new(self.mr.clone(), self.start, self.len, ahead, writes)
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
            Memory::Paged(umem) => paged::atomic(umem, at as usize, operation),
            Memory::Dmabuf(buffer) => {
                let result = buffer.atomic(at as usize, operation);
                result.map_err(|error| match error {
                    EINVAL => MrError::Misaligned,
                    _ => MrError::Invalid,
                })
            }
            Memory::Device(part) => Ok(operation(part.number(at)?)),
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

impl Mr {
    /// A range of a user region for access by a window, regardless of the region's own access flags.
    ///
    /// # Errors
    ///
    /// [`MrError::OutOfRange`].
    pub(crate) fn leased(
        this: &Arc<Self>,
        va: u64,
        len: u32,
        grant: Grant,
    ) -> Result<Region, MrError> {
        Ok(Region {
            mr: this.clone(),
            start: within(this.iova, this.length, va, len.into())?,
            len,
            epoch: None,
            grant: Some(grant),
        })
    }
}
