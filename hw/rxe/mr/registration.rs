// SPDX-License-Identifier: GPL-2.0

//! A memory region: its key, access flags and memory (IBTA volume 1, section 10.6). The table of a device,
//! [`Mrs`](super::Mrs), creates, finds and removes them.

use super::device::Part;
use super::error::{within, MrError};
use super::fast::Fast;
use crate::ids::PdId;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel::prelude::*;
use kernel::sync::{rcu, Arc};
use kernel_ext::error::EOPNOTSUPP;
use kernel_ext::revocable::Revocable;
use kernel_ext::sync::SpinLockIrq;
use rdma::provider::dmabuf::Dmabuf;
use rdma::provider::extent::Extent;
use rdma::provider::odp::OdpUmem;
use rdma::{Access, MaySleep, Umem, VirtDma};

/// Access flags that the owner of a region may set.
pub(crate) const SUPPORTED: Access = Access::LOCAL_WRITE
    .with(REMOTE)
    .with(Access::MW_BIND)
    .with(Access::ZERO_BASED)
    .with(Access::FLUSH_GLOBAL)
    .with(Access::FLUSH_PERSISTENT)
    .with(Access::ON_DEMAND)
    .with(Access::OPTIONAL);

/// Access flags of a region in a DMA buffer.
pub(crate) const DMABUF: Access = Access::LOCAL_WRITE.with(REMOTE).with(Access::OPTIONAL);

/// Access flags of a region in device memory.
pub(crate) const DEVICE: Access = DMABUF.with(Access::ZERO_BASED);

/// All remote access flags.
pub(super) const REMOTE: Access = Access::REMOTE_WRITE
    .with(Access::REMOTE_READ)
    .with(Access::REMOTE_ATOMIC);

/// The index of the region with a key.
pub(super) fn index_of(key: u32) -> u32 {
    key >> 8
}

/// The memory of a region.
pub(super) enum Memory {
    Dma(VirtDma),
    User(Umem),
    Paged(Arc<OdpUmem>),
    Dmabuf(Pin<KBox<Dmabuf>>),
    Device(Part),
    Fast(Pin<KBox<SpinLockIrq<Fast>>>),
}

impl Memory {
    /// The `len` bytes at an address of a DMA region, or an offset of a user region, to copy from. `None` for memory that is only
    /// accessed with a lock held.
    pub(super) fn extent(&self, at: u64, len: u32) -> Option<Extent<'_>> {
        match self {
            Self::Dma(virt) => virt.extent(at, len as usize).ok(),
            Self::User(umem) => umem.extent(at as usize, len as usize).ok(),
            Self::Device(part) => part.extent(at, len as usize),
            Self::Paged(_) | Self::Dmabuf(_) | Self::Fast(_) => None,
        }
    }

    /// Writes `len` bytes at an offset of a user region back from the caches of the processors (FLUSH to persistent memory).
    ///
    /// # Errors
    ///
    /// [`MrError::NoAccess`] for another kind of region.
    pub(super) fn write_back(&self, at: u64, len: u64) -> Result<(), MrError> {
        let (at, len) = (at as usize, len as usize);
        match self {
            Self::User(umem) => umem.extent(at, len).and_then(|bytes| bytes.write_back()),
            Self::Paged(umem) => umem.write_back(at, len),
            Self::Dma(_) | Self::Dmabuf(_) | Self::Device(_) | Self::Fast(_) => {
                return Err(MrError::NoAccess)
            }
        }
        .map_err(|_| MrError::OutOfRange)
    }

    /// Prepares the memory for a registration with `access`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for [`Access::FLUSH_PERSISTENT`] of pinned memory that is not persistent.
    pub(super) fn prepare(&self, access: Access, ctx: &MaySleep) -> Result {
        if !access.contains(Access::FLUSH_PERSISTENT) {
            return Ok(());
        }
        match self {
            Self::User(umem) if !umem.is_persistent(ctx) => return Err(EINVAL),
            Self::Dmabuf(_) => return Err(EINVAL),
            Self::Paged(umem) => umem.make_persistent(),
            _ => {}
        }
        Ok(())
    }

    /// Whether a program has registered it.
    pub(super) fn is_user(&self) -> bool {
        matches!(
            self,
            Self::User(_) | Self::Paged(_) | Self::Dmabuf(_) | Self::Device(_)
        )
    }
}

/// A memory region.
#[pin_data]
pub(crate) struct Mr {
    pub(super) index: u32,
    /// Of fast registration regions: the key of `alloc_mr`.
    pub(super) key: u32,
    /// Of DMA and user regions.
    pub(super) access: AtomicU32,
    /// The [`PdId`].
    pub(super) pd: AtomicU64,
    /// Of user regions: start and length.
    pub(super) iova: u64,
    pub(super) length: u64,
    /// Of user regions: the number of windows bound to it, or [`DEREGISTERING`].
    pub(super) windows: AtomicU32,
    #[pin]
    pub(super) memory: Revocable<Memory>,
}

/// In place of the number of windows: the region is being deregistered.
pub(super) const DEREGISTERING: u32 = u32::MAX;

impl Mr {
    /// The key, for local and remote access.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    pub(super) fn pd(&self) -> PdId {
        PdId::from_raw(self.pd.load(Ordering::Relaxed))
    }

    pub(super) fn access(&self) -> Access {
        Access::from_bits(self.access.load(Ordering::Relaxed))
    }

    /// Changes the protection domain and access flags of a user region (`rereg_user_mr`).
    ///
    /// # Errors
    ///
    /// `EACCES` for write access to memory that was pinned for reading, `EINVAL` for flushing to persistence what is not persistent.
    /// `EOPNOTSUPP` for unsupported access flags, and for addresses that are to begin elsewhere.
    pub(crate) fn change(
        &self,
        pd: Option<PdId>,
        access: Option<Access>,
        ctx: &MaySleep,
    ) -> Result {
        if let Some(access) = access {
            let writable = self.memory.access(|memory| match memory {
                Memory::User(umem) => umem.is_writable(),
                Memory::Paged(umem) => umem.is_writable(),
                Memory::Dmabuf(buffer) => buffer.is_writable(),
                _ => false,
            });
            if access.is_writable() && writable != Some(true) {
                return Err(EACCES);
            }
            let moves =
                access.contains(Access::ZERO_BASED) != self.access().contains(Access::ZERO_BASED);
            if moves || !access.without(SUPPORTED).is_empty() {
                return Err(EOPNOTSUPP);
            }
            let prepared = self.memory.access(|memory| memory.prepare(access, ctx));
            prepared.unwrap_or(Err(EINVAL))?;
            self.access.store(access.bits(), Ordering::Relaxed);
        }
        if let Some(pd) = pd {
            self.pd.store(pd.into_raw(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Its memory, if that is paged on demand and still registered. Any context.
    pub(super) fn paged(&self) -> Option<Arc<OdpUmem>> {
        let paged = |memory: &Memory| match memory {
            Memory::Paged(umem) => Some(umem.clone()),
            _ => None,
        };
        self.memory.access(paged).flatten()
    }

    /// Counts the unbinding of a window.
    pub(crate) fn unbind(&self) {
        self.windows.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn with_fast<R>(
        &self,
        f: impl FnOnce(&mut Fast) -> Result<R, MrError>,
    ) -> Result<R, MrError> {
        self.memory
            .access(|memory| match memory {
                Memory::Fast(fast) => f(&mut fast.lock()),
                _ => Err(MrError::Invalid),
            })
            .unwrap_or(Err(MrError::Invalid))
    }

    /// Prepares a fast registration region for new pages of `page_size` bytes (`map_mr_sg`). Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for another kind of region, or a page size that is not a power of two.
    pub(crate) fn map_begin(&self, page_size: u32) -> Result {
        if !page_size.is_power_of_two() {
            return Err(EINVAL);
        }
        self.with_fast(|fast| {
            fast.map_begin(page_size.trailing_zeros());
            Ok(())
        })?;
        Ok(())
    }

    /// Adds a page to a fast registration region. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where the region is full.
    pub(crate) fn map_page(&self, address: u64) -> Result {
        self.with_fast(|fast| fast.map_page(address))
            .map_err(|_| ENOMEM)
    }

    /// Sets the range of a fast registration region in its pages: `length` bytes at `iova`. Any context.
    pub(crate) fn map_end(&self, iova: u64, length: u64) -> Result {
        self.with_fast(|fast| {
            fast.map_end(iova, length);
            Ok(())
        })?;
        Ok(())
    }

    /// Executes a REG_MR work request: from now on `key` refers to the mapped pages, with the first byte at address
    /// `iova`. Any context.
    ///
    /// # Errors
    ///
    /// [`MrError::Invalid`] where the region is not a fast registration region, or is registered already, or `key`
    /// differs in more than its lowest eight bits; [`MrError::WrongPd`].
    pub(crate) fn register(
        &self,
        pd: PdId,
        key: u32,
        access: Access,
        iova: u64,
    ) -> Result<(), MrError> {
        if self.pd() != pd {
            return Err(MrError::WrongPd);
        }
        if index_of(key) != self.index {
            return Err(MrError::Invalid);
        }
        self.with_fast(|fast| fast.register(key, access, iova))
    }

    pub(super) fn invalidate(&self, key: u32) -> Result<(), MrError> {
        self.with_fast(|fast| fast.invalidate(key))
    }

    /// Checks a range; returns its offset, and of a fast registration region the epoch of the registration.
    pub(super) fn check(
        &self,
        key: u32,
        access: Access,
        (va, len): (u64, u64),
        guard: &rcu::Guard,
    ) -> Result<(u64, Option<u32>), MrError> {
        let allowed = |rights: Access| rights.contains(access).then_some(());
        let check = |memory: &Memory| match memory {
            Memory::Dma(_) if self.key == key => {
                allowed(self.access()).ok_or(MrError::NoAccess)?;
                va.checked_add(len).ok_or(MrError::OutOfRange)?;
                Ok((va, None))
            }
            Memory::Dmabuf(buffer) if buffer.is_revoked() => Err(MrError::Invalid),
            Memory::User(_) | Memory::Paged(_) | Memory::Dmabuf(_) | Memory::Device(_)
                if self.key == key =>
            {
                allowed(self.access()).ok_or(MrError::NoAccess)?;
                Ok((within(self.iova, self.length, va, len)?, None))
            }
            Memory::Fast(fast) => {
                let (start, epoch) = fast.lock().check(key, access, va, len)?;
                Ok((start, Some(epoch)))
            }
            _ => Err(MrError::Invalid),
        };
        self.memory
            .borrow(guard)
            .map_or(Err(MrError::Invalid), check)
    }
}
