// SPDX-License-Identifier: GPL-2.0

//! Memory regions, `struct ib_mr` of `<rdma/ib_verbs.h>`: keys, and the memory behind them.
//!
//! A key is a region's index in the device's table and eight bits that vary, so that a key of
//! yesterday is not valid today. Whoever has a key gets to memory in one way only: [`Mrs::check`]
//! turns (key, address, length) into a [`Region`], a range that cannot be wrong. A region may be kept
//! for as long as a message takes. It holds the object, not the right: each use asks again whether the
//! memory is still registered, and deregistration waits for the uses that have begun.
//!
//! | kind | made by | its memory | taken away by |
//! |---|---|---|---|
//! | [`Memory::Dma`] | `get_dma_mr` | all that the kernel consumer has mapped | `dereg_mr` |
//! | [`Memory::User`] | `reg_user_mr` | pinned pages of the process | `dereg_mr` |
//! | [`Memory::Fast`] | `alloc_mr`, REG_MR | the pages of `map_mr_sg` | LOCAL_INV, `dereg_mr` |
//!
//! RCU keeps pages in place while they are used; for fast regions, which come and go in softirq, it is
//! a lock.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::error::EOPNOTSUPP;
use kernel_ext::gfp::Gfp;
use kernel_ext::random;
use kernel_ext::revocable::Revocable;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use kernel_ext::xarray::Table;
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

/// What the owner of a region may allow.
pub(crate) const SUPPORTED: Access = Access::LOCAL_WRITE
    .with(REMOTE)
    .with(Access::MW_BIND)
    .with(Access::FLUSH_GLOBAL)
    .with(Access::OPTIONAL);

/// All that a peer may be allowed.
const REMOTE: Access = Access::REMOTE_WRITE
    .with(Access::REMOTE_READ)
    .with(Access::REMOTE_ATOMIC);

/// The index of a region in a key.
fn index_of(key: u32) -> u32 {
    key >> 8
}

/// The part of a key that varies.
pub(crate) fn random_byte() -> u8 {
    let mut byte = [0];
    random::fill(&mut byte);
    byte[0]
}

/// Why memory must not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MrError {
    /// No region has the key, or it is not registered at present.
    Invalid,
    /// The region belongs to another protection domain.
    WrongPd,
    /// The region's owner does not allow such an access.
    NoAccess,
    /// The range is not inside of the region.
    OutOfRange,
    /// An atomic operation is not on a multiple of eight bytes.
    Misaligned,
}

impl From<MrError> for Error {
    fn from(_: MrError) -> Self {
        EINVAL
    }
}

/// Checks that `len` bytes at `va` are inside of `length` bytes at `iova`; returns where they begin.
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
    /// Of fast regions: the one that `alloc_mr` gave.
    key: u32,
    /// Of DMA and user regions.
    access: AtomicU32,
    /// The [`PdId`].
    pd: AtomicU64,
    /// Of user regions: where their range begins, and its length.
    iova: u64,
    length: u64,
    /// Of user regions: the windows that are bound to it, or [`GOING`].
    windows: AtomicU32,
    #[pin]
    memory: Revocable<Memory>,
}

/// Instead of a number of windows: the region is being deregistered.
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

    /// Changes protection domain and rights of a user region (`rereg_user_mr`).
    ///
    /// # Errors
    ///
    /// `EACCES` for rights to write to memory that was pinned for reading, `EOPNOTSUPP` for rights that are not
    /// supported.
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

    /// A window is not bound to the region any more.
    pub(crate) fn unbind(&self) {
        self.windows.fetch_sub(1, Ordering::AcqRel);
    }

    /// A range of a user region that a window gives, whatever the region's own rights are.
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

    /// Prepares a fast region for new pages of `page_size` bytes (`map_mr_sg`). Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for another kind of region, or a page size that is no power of two.
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

    /// Adds a page to a fast region. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where the region is full.
    pub(crate) fn map_page(&self, address: u64) -> Result {
        self.with_fast(|fast| fast.map_page(address))
            .map_err(|_| ENOMEM)
    }

    /// Says where in the pages a fast region is: `length` bytes whose address is `iova`. Any context.
    pub(crate) fn map_end(&self, iova: u64, length: u64) -> Result {
        self.with_fast(|fast| {
            fast.map_end(iova, length);
            Ok(())
        })?;
        Ok(())
    }

    /// Executes a REG_MR work request: from now on `key` names the pages that were mapped, the first
    /// byte at address `iova`. Any context.
    ///
    /// # Errors
    ///
    /// [`MrError::Invalid`] where the region is not a fast one, or is registered already, or `key`
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

    /// Checks a range; returns where it begins and which registration it is of.
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

/// The memory regions of a device by index.
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

    /// The region of a kernel consumer's PD that all of its mapped memory is in (`get_dma_mr`).
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

    /// A region of a process, whose pages `umem` pins (`reg_user_mr`).
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

    /// A region for fast registration of up to `max_pages` pages (`alloc_mr`).
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

    /// Takes a region away (`dereg_mr`): when this returns, nobody uses its memory.
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

    /// Finds the user region of `pd` that a window on `length` bytes at `addr` can be bound to, and counts the
    /// window. Any context.
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

    /// Checks that objects of `pd` may access `len` bytes at `va` through `key`. Any context.
    ///
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
        let guard = kernel::sync::rcu::read_lock();
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

    /// Checks that objects of `pd` may access all of a user region. Any context.
    ///
    /// # Errors
    ///
    /// See [`MrError`].
    pub(crate) fn check_whole(&self, key: u32, pd: PdId, access: Access) -> Result<(), MrError> {
        let guard = kernel::sync::rcu::read_lock();
        let found = self.table.get(index_of(key), &guard);
        let mr = found.ok_or(MrError::Invalid)?;
        if mr.pd() != pd {
            return Err(MrError::WrongPd);
        }
        mr.check(key, access, mr.iova, 0)?;
        Ok(())
    }

    /// Executes LOCAL_INV, or SEND with invalidate at its receiver. Any context.
    ///
    /// # Errors
    ///
    /// [`MrError::Invalid`] where no fast region has the key, [`MrError::WrongPd`].
    pub(crate) fn invalidate(&self, key: u32, pd: PdId) -> Result<(), MrError> {
        let guard = kernel::sync::rcu::read_lock();
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
