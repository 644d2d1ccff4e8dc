// SPDX-License-Identifier: GPL-2.0

//! Memory regions, `struct ib_mr` of `<rdma/ib_verbs.h>`: their keys and memory.
//!
//! A key consists of a region's index in the device's table and eight variable bits, so that old keys become invalid.
//! Memory is accessed in one way only: [`Mrs::check`] converts (key, address, length) to a [`Region`], a validated
//! range. A region may be kept as long as a message lasts. It references the object but does not keep it registered:
//! each access checks whether the memory is still registered, and deregistration waits for running accesses.
//!
//! | kind | created by | memory | revoked by |
//! |---|---|---|---|
//! | [`Memory::Dma`] | `get_dma_mr` | all that the kernel consumer has mapped | `dereg_mr` |
//! | [`Memory::User`] | `reg_user_mr` | pinned pages of the process | `dereg_mr` |
//! | [`Memory::Fast`] | `alloc_mr`, REG_MR | the pages of `map_mr_sg` | LOCAL_INV, `dereg_mr` |
//!
//! RCU protects the pages during an access; for fast registration regions, which are registered and invalidated in
//! softirq context, a lock does.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel::prelude::*;
use kernel::sync::{rcu, Arc};
use kernel_ext::error::EOPNOTSUPP;
use kernel_ext::gfp::Gfp;
use kernel_ext::random;
use kernel_ext::revocable::Revocable;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use kernel_ext::xarray::Table;
use rdma::provider::extent::Extent;
use rdma::provider::mr::UserMr;
use rdma::{Access, MaySleep, Umem, VirtDma};

use crate::ids::PdId;
use crate::limits;

mod fast;
#[cfg(CONFIG_KUNIT = "y")]
mod kunit;
mod lease;
mod region;

use fast::Fast;
pub(crate) use lease::Lease;
use lease::Term;
pub(crate) use region::Region;

/// Access flags that the owner of a region may set.
pub(crate) const SUPPORTED: Access = Access::LOCAL_WRITE
    .with(REMOTE)
    .with(Access::MW_BIND)
    .with(Access::FLUSH_GLOBAL)
    .with(Access::OPTIONAL);

/// All remote access flags.
const REMOTE: Access = Access::REMOTE_WRITE
    .with(Access::REMOTE_READ)
    .with(Access::REMOTE_ATOMIC);

/// The index of the region with a key.
fn index_of(key: u32) -> u32 {
    key >> 8
}

/// A random variable part of a key.
pub(crate) fn random_byte() -> u8 {
    let mut byte = [0];
    random::fill(&mut byte);
    byte[0]
}

/// Why an access is refused.
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

/// The memory of a region.
enum Memory {
    Dma(VirtDma),
    User(Umem),
    Fast(Pin<KBox<SpinLockIrq<Fast>>>),
}

/// A memory region.
#[pin_data]
pub(crate) struct Mr {
    index: u32,
    /// Of fast registration regions: the key of `alloc_mr`.
    key: u32,
    /// Of DMA and user regions.
    access: AtomicU32,
    /// The [`PdId`].
    pd: AtomicU64,
    /// Of user regions: start and length.
    iova: u64,
    length: u64,
    /// Of user regions: the number of windows bound to it, or [`GOING`].
    windows: AtomicU32,
    #[pin]
    memory: Revocable<Memory>,
}

/// In place of the number of windows: the region is being deregistered.
const GOING: u32 = u32::MAX;

impl Mr {
    /// The key, for local and remote access.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    fn pd(&self) -> PdId {
        PdId::from_raw(self.pd.load(Ordering::Relaxed))
    }

    fn access(&self) -> Access {
        Access::from_bits(self.access.load(Ordering::Relaxed))
    }

    /// Changes the protection domain and access flags of a user region (`rereg_user_mr`).
    ///
    /// # Errors
    ///
    /// `EACCES` for write access to memory that was pinned for reading, `EOPNOTSUPP` for unsupported access flags.
    pub(crate) fn change(&self, pd: Option<PdId>, access: Option<Access>) -> Result {
        if let Some(access) = access {
            let writable = self.memory.access(|memory| match memory {
                Memory::User(umem) => umem.is_writable(),
                _ => false,
            });
            if access.is_writable() && writable != Some(true) {
                return Err(EACCES);
            }
            if !access.without(SUPPORTED).is_empty() {
                return Err(EOPNOTSUPP);
            }
            self.access.store(access.bits(), Ordering::Relaxed);
        }
        if let Some(pd) = pd {
            self.pd.store(pd.into_raw(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Counts the unbinding of a window.
    pub(crate) fn unbind(&self) {
        self.windows.fetch_sub(1, Ordering::AcqRel);
    }

    /// A range of a user region for access by a window, regardless of the region's own access flags.
    ///
    /// # Errors
    ///
    /// [`MrError::OutOfRange`].
    pub(crate) fn leased(
        this: &Arc<Self>,
        va: u64,
        len: u32,
        term: Term,
    ) -> Result<Region, MrError> {
        Ok(Region {
            mr: this.clone(),
            start: within(this.iova, this.length, va, len.into())?,
            len,
            epoch: 0,
            term: Some(term),
        })
    }

    fn with_fast<R>(&self, f: impl FnOnce(&mut Fast) -> Result<R, MrError>) -> Result<R, MrError> {
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

    fn invalidate(&self, key: u32) -> Result<(), MrError> {
        self.with_fast(|fast| fast.invalidate(key))
    }

    /// Checks a range; returns its offset and the epoch of the registration.
    fn check(&self, key: u32, access: Access, va: u64, len: u64) -> Result<(u64, u32), MrError> {
        let allowed = |rights: Access| rights.contains(access).then_some(());
        let check = |memory: &Memory| match memory {
            Memory::Dma(_) if self.key == key => {
                allowed(self.access()).ok_or(MrError::NoAccess)?;
                va.checked_add(len).ok_or(MrError::OutOfRange)?;
                Ok((va, 0))
            }
            Memory::User(_) if self.key == key => {
                allowed(self.access()).ok_or(MrError::NoAccess)?;
                Ok((within(self.iova, self.length, va, len)?, 0))
            }
            Memory::Fast(fast) => fast.lock().check(key, access, va, len),
            _ => Err(MrError::Invalid),
        };
        self.memory.access(check).unwrap_or(Err(MrError::Invalid))
    }
}

/// The memory regions of a device, by index.
#[pin_data]
pub(crate) struct Mrs {
    #[pin]
    table: Table<Mr>,
}

impl Mrs {
    /// An empty table.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            table <- Table::new(limits::MR_INDICES),
        })
    }

    fn add(
        &self,
        pd: PdId,
        access: Access,
        range: (u64, u64),
        memory: Memory,
        ctx: &MaySleep,
    ) -> Result<Arc<Mr>> {
        let place = self.table.reserve(Gfp::kernel(ctx))?;
        let index = place.index();
        let key = index << 8 | u32::from(random_byte());
        let mr = Arc::pin_init(
            try_pin_init!(Mr {
                index,
                key,
                access: AtomicU32::new(access.bits()),
                pd: AtomicU64::new(pd.into_raw()),
                iova: range.0,
                length: range.1,
                windows: AtomicU32::new(0),
                memory <- Revocable::new(memory),
            }? Error),
            GFP_KERNEL,
        )?;
        place.publish(mr.clone());
        Ok(mr)
    }

    /// Creates a DMA region, which covers all mapped memory of a kernel consumer (`get_dma_mr`).
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EBUSY` where there are too many regions.
    pub(crate) fn add_dma(
        &self,
        pd: PdId,
        access: Access,
        virt: VirtDma,
        ctx: &MaySleep,
    ) -> Result<Arc<Mr>> {
        self.add(pd, access, (0, 0), Memory::Dma(virt), ctx)
    }

    /// Creates a user region with the pages that `umem` pins (`reg_user_mr`).
    ///
    /// # Errors
    ///
    /// As for [`Self::add_dma`].
    pub(crate) fn add_user(
        &self,
        pd: PdId,
        user: &UserMr,
        umem: Umem,
        ctx: &MaySleep,
    ) -> Result<Arc<Mr>> {
        self.add(
            pd,
            user.access,
            (user.iova, user.length),
            Memory::User(umem),
            ctx,
        )
    }

    /// Creates a fast registration region for up to `max_pages` pages (`alloc_mr`).
    ///
    /// # Errors
    ///
    /// As for [`Self::add_dma`].
    pub(crate) fn add_fast(
        &self,
        pd: PdId,
        max_pages: u32,
        virt: VirtDma,
        ctx: &MaySleep,
    ) -> Result<Arc<Mr>> {
        let fast = Fast::new(virt, max_pages)?;
        let fast = KBox::pin_init(new_spinlock_irq!(fast, "Mr::fast"), GFP_KERNEL)?;
        let mr = self.add(pd, REMOTE, (0, 0), Memory::Fast(fast), ctx)?;
        mr.with_fast(|fast| {
            fast.set_key(mr.key);
            Ok(())
        })?;
        Ok(mr)
    }

    /// Removes a region (`dereg_mr`): when this returns, its memory is not accessed any more.
    ///
    /// # Errors
    ///
    /// `EINVAL` while windows are bound to it (IBTA volume 1, section 10.6.7.2.6).
    pub(crate) fn remove(&self, mr: &Mr, ctx: &MaySleep) -> Result {
        let unbound = 0;
        mr.windows
            .compare_exchange(unbound, GOING, Ordering::AcqRel, Ordering::Acquire)
            .map_err(|_| EINVAL)?;
        drop(self.table.remove(mr.index, ctx));
        mr.memory.revoke(ctx);
        Ok(())
    }

    /// Looks up the user region of `pd` for binding a window to `length` bytes at `addr`, and counts the window. Any
    /// context.
    ///
    /// # Errors
    ///
    /// See [`MrError`].
    pub(crate) fn bind(
        &self,
        key: u32,
        pd: PdId,
        writes: bool,
        addr: u64,
        length: u64,
    ) -> Result<Arc<Mr>, MrError> {
        let mr = self.table.find(index_of(key)).ok_or(MrError::Invalid)?;
        if mr.pd() != pd {
            return Err(MrError::WrongPd);
        }
        let is_user = |memory: &Memory| matches!(memory, Memory::User(_));
        if mr.key != key || mr.memory.access(is_user) != Some(true) {
            return Err(MrError::Invalid);
        }
        // IBTA volume 1, C10-73 and C10-74.
        let needed = match writes {
            true => Access::MW_BIND.with(Access::LOCAL_WRITE),
            false => Access::MW_BIND,
        };
        if !mr.access().contains(needed) {
            return Err(MrError::NoAccess);
        }
        within(mr.iova, mr.length, addr, length)?;
        let more = |windows: u32| windows.checked_add(1).filter(|&windows| windows != GOING);
        let counted = mr
            .windows
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        counted.map_err(|_| MrError::Invalid)?;
        Ok(mr)
    }

    /// Checks that objects of `pd` may access `len` bytes at `va` by `key`. Any context.
    /// `access` is empty for reading locally.
    ///
    /// # Errors
    ///
    /// See [`MrError`].
    #[inline]
    pub(crate) fn check(
        &self,
        key: u32,
        pd: PdId,
        access: Access,
        va: u64,
        len: u32,
    ) -> Result<Region, MrError> {
        let guard = rcu::read_lock();
        let mr = self
            .table
            .get(index_of(key), &guard)
            .ok_or(MrError::Invalid)?;
        if mr.pd() != pd {
            return Err(MrError::WrongPd);
        }
        let (start, epoch) = mr.check(key, access, va, len.into())?;
        Ok(Region {
            mr: mr.into(),
            start,
            len,
            epoch,
            term: None,
        })
    }

    /// Checks that objects of `pd` may read `len` bytes at `va` by the local key, and returns them, to copy from for the rest of a
    /// critical section. `None` for memory that is only accessed with a lock held. Any context.
    ///
    /// # Errors
    ///
    /// See [`MrError`].
    #[inline]
    pub(crate) fn extent<'a>(
        &'a self,
        key: u32,
        pd: PdId,
        va: u64,
        len: u32,
        guard: &'a rcu::Guard,
    ) -> Result<Option<Extent<'a>>, MrError> {
        let mr = self.table.peek(index_of(key), guard);
        let mr = mr.ok_or(MrError::Invalid)?;
        if mr.pd() != pd {
            return Err(MrError::WrongPd);
        }
        let (start, _) = mr.check(key, Access::empty(), va, len.into())?;
        let memory = mr.memory.borrow(guard).ok_or(MrError::Invalid)?;
        Ok(memory.extent(start, len))
    }

    /// Checks that objects of `pd` may access a whole user region. Any context.
    ///
    /// # Errors
    ///
    /// See [`MrError`].
    pub(crate) fn check_whole(&self, key: u32, pd: PdId, access: Access) -> Result<(), MrError> {
        let guard = rcu::read_lock();
        let found = self.table.get(index_of(key), &guard);
        let mr = found.ok_or(MrError::Invalid)?;
        if mr.pd() != pd {
            return Err(MrError::WrongPd);
        }
        mr.check(key, access, mr.iova, 0)?;
        Ok(())
    }

    /// Executes LOCAL_INV, or a received SEND with invalidate. Any context.
    ///
    /// # Errors
    ///
    /// [`MrError::Invalid`] where no fast registration region has the key, [`MrError::WrongPd`].
    pub(crate) fn invalidate(&self, key: u32, pd: PdId) -> Result<(), MrError> {
        let guard = rcu::read_lock();
        let mr = self
            .table
            .get(index_of(key), &guard)
            .ok_or(MrError::Invalid)?;
        if mr.pd() != pd {
            return Err(MrError::WrongPd);
        }
        mr.invalidate(key)
    }
}
