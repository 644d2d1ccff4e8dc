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
//! | [`Memory::Paged`] | `reg_user_mr`, on demand | pages of the process that it has at present | `dereg_mr`; pages: by the MMU notifier |
//! | [`Memory::Dmabuf`] | `reg_user_mr_dmabuf` | a DMA buffer, mapped for the kernel | `dereg_mr`; the exporter |
//! | [`Memory::Device`] | `reg_dm_mr` | memory of the device | `dereg_mr` |
//! | [`Memory::Fast`] | `alloc_mr`, REG_MR | the pages of `map_mr_sg` | LOCAL_INV, `dereg_mr` |
//!
//! RCU protects the pages during an access; for fast registration regions, which are registered and invalidated in
//! softirq context, a lock does. Pages of memory that is paged on demand come and go: each access looks them up with a lock held, and
//! where one is absent, it fails with [`MrError::Absent`], and process context [faults it in](Fault).

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel::alloc::KVVec;
use kernel::prelude::*;
use kernel::sync::{rcu, Arc};
use kernel_ext::gfp::Gfp;
use kernel_ext::random;
use kernel_ext::revocable::Revocable;
use kernel_ext::sync::new_spinlock_irq;
use kernel_ext::xarray::Table;
use rdma::abi::mr::Advice;
use rdma::provider::dm::DmMr;
use rdma::provider::dmabuf::Dmabuf;
use rdma::provider::extent::Extent;
use rdma::provider::mr::UserMr;
use rdma::provider::odp::OdpUmem;
use rdma::{Access, MaySleep, Sge, Umem, VirtDma};

use crate::dm::Dm;
use crate::ids::PdId;
use crate::limits;

mod advice;
mod device;
mod error;
mod fast;
mod fault;
#[cfg(CONFIG_KUNIT = "y")]
mod kunit;
mod lease;
mod paged;
mod region;
mod registration;

use advice::Prefetch;
pub(crate) use advice::Prefetches;
use device::Part;
pub(crate) use error::{within, MrError};
use fast::Fast;
pub(crate) use fault::Fault;
pub(crate) use lease::Lease;
pub(crate) use region::Region;
use registration::{index_of, Memory, DEREGISTERING, REMOTE};
pub(crate) use registration::{Mr, DEVICE, DMABUF, SUPPORTED};

/// A random variable part of a key.
pub(crate) fn random_byte() -> u8 {
    let mut byte = [0];
    random::fill(&mut byte);
    byte[0]
}

/// The first address and the length of a user region.
fn range_of(user: &UserMr) -> (u64, u64) {
    match user.access.contains(Access::ZERO_BASED) {
        true => (0, user.length),
        false => (user.iova, user.length),
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
    /// As for [`Self::add_dma`]; `EINVAL` for [`Access::FLUSH_PERSISTENT`] of memory that is not persistent.
    pub(crate) fn add_user(
        &self,
        pd: PdId,
        user: &UserMr,
        umem: Umem,
        ctx: &MaySleep,
    ) -> Result<Arc<Mr>> {
        let memory = Memory::User(umem);
        memory.prepare(user.access, ctx)?;
        self.add(pd, user.access, range_of(user), memory, ctx)
    }

    /// Creates a user region with a range of a DMA buffer (`reg_user_mr_dmabuf`).
    ///
    /// # Errors
    ///
    /// As for [`Self::add_dma`].
    pub(crate) fn add_dmabuf(
        &self,
        pd: PdId,
        user: &UserMr,
        buffer: Pin<KBox<Dmabuf>>,
        ctx: &MaySleep,
    ) -> Result<Arc<Mr>> {
        let range = (user.iova, user.length);
        self.add(pd, user.access, range, Memory::Dmabuf(buffer), ctx)
    }

    /// Creates a user region in memory of the device (`reg_dm_mr`). Its addresses begin at 0.
    ///
    /// # Errors
    ///
    /// As for [`Self::add_dma`]; `EINVAL` for a range that is not within the memory.
    pub(crate) fn add_device(
        &self,
        pd: PdId,
        dm: &Arc<Dm>,
        range: &DmMr,
        ctx: &MaySleep,
    ) -> Result<Arc<Mr>> {
        let memory = Memory::Device(Part::new(dm, range)?);
        self.add(pd, range.access, (0, range.length), memory, ctx)
    }

    /// Creates a user region that is paged on demand (`reg_user_mr`).
    ///
    /// # Errors
    ///
    /// As for [`Self::add_dma`].
    pub(crate) fn add_paged(
        &self,
        pd: PdId,
        user: &UserMr,
        umem: Arc<OdpUmem>,
        ctx: &MaySleep,
    ) -> Result<Arc<Mr>> {
        self.add(pd, user.access, range_of(user), Memory::Paged(umem), ctx)
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
    /// `EBUSY` while windows are bound to it (IBTA volume 1, section 10.6.7.2.6).
    pub(crate) fn remove(&self, mr: &Mr, ctx: &MaySleep) -> Result {
        let unbound = 0;
        mr.windows
            .compare_exchange(unbound, DEREGISTERING, Ordering::AcqRel, Ordering::Acquire)
            .map_err(|_| EBUSY)?;
        drop(self.table.remove(mr.index, ctx));
        let paged = mr.paged();
        mr.memory.revoke(ctx);
        if let Some(umem) = paged {
            umem.release(ctx);
        }
        Ok(())
    }

    /// Looks up the user region of `pd` for binding a window with `access` to `length` bytes at `addr`, and counts the window.
    /// Any context.
    ///
    /// # Errors
    ///
    /// See [`MrError`].
    pub(crate) fn bind(
        &self,
        key: u32,
        pd: PdId,
        access: Access,
        addr: u64,
        length: u64,
    ) -> Result<Arc<Mr>, MrError> {
        let mr = self.table.find(index_of(key)).ok_or(MrError::Invalid)?;
        if mr.pd() != pd {
            return Err(MrError::WrongPd);
        }
        if mr.key != key || mr.memory.access(Memory::is_user) != Some(true) {
            return Err(MrError::Invalid);
        }
        // IBTA volume 1, C10-73 and C10-74.
        let mut needed = Access::MW_BIND;
        if access.intersects(Access::REMOTE_WRITE.with(Access::REMOTE_ATOMIC)) {
            needed = needed.with(Access::LOCAL_WRITE);
        }
        // What is not known to be persistent is not by a window either.
        if access.contains(Access::FLUSH_PERSISTENT) {
            needed = needed.with(Access::FLUSH_PERSISTENT);
        }
        if !mr.access().contains(needed) {
            return Err(MrError::NoAccess);
        }
        within(mr.iova, mr.length, addr, length)?;
        let more = |windows: u32| {
            windows
                .checked_add(1)
                .filter(|&windows| windows != DEREGISTERING)
        };
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
        let (start, epoch) = mr.check(key, access, (va, len.into()), &guard)?;
        Ok(Region {
            mr: mr.into(),
            start,
            len,
            epoch,
            grant: None,
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
        let (start, _) = mr.check(key, Access::empty(), (va, len.into()), guard)?;
        let memory = mr.memory.borrow(guard).ok_or(MrError::Invalid)?;
        Ok(memory.extent(start, len))
    }

    /// Executes a FLUSH of a whole user region by objects of `pd`; to persistence, if `access` says so. Any context.
    ///
    /// # Errors
    ///
    /// See [`MrError`].
    pub(crate) fn flush_whole(&self, key: u32, pd: PdId, access: Access) -> Result<(), MrError> {
        let guard = rcu::read_lock();
        let found = self.table.get(index_of(key), &guard);
        let mr = found.ok_or(MrError::Invalid)?;
        if mr.pd() != pd {
            return Err(MrError::WrongPd);
        }
        mr.check(key, access, (mr.iova, 0), &guard)?;
        if !access.contains(Access::FLUSH_PERSISTENT) {
            return Ok(());
        }
        let flush = |memory: &Memory| memory.write_back(0, mr.length);
        mr.memory.access(flush).unwrap_or(Err(MrError::Invalid))
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

    /// Converts an element of the list of `advise_mr` to the part of a region that it refers to.
    ///
    /// # Errors
    ///
    /// `EINVAL` where no region of `pd` has the key, with the right to write locally.
    fn prefetch(&self, pd: PdId, advice: Advice, element: &Sge) -> Result<Prefetch> {
        let mr = self.table.find(index_of(element.lkey)).ok_or(EINVAL)?;
        let allowed = mr.access().contains(Access::LOCAL_WRITE);
        if mr.key != element.lkey || mr.pd() != pd || !allowed {
            return Err(EINVAL);
        }
        Ok(Prefetch::new(mr, advice, element))
    }

    /// Executes advice about a list of ranges (`advise_mr`): now, or by the work item of `later`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid key, and for memory that is not paged on demand; `ENOMEM`. If the advice is executed now, the error
    /// of the first fault that fails: `EFAULT` for memory that the process has not mapped. The ranges before it are faulted in.
    pub(crate) fn advise(
        &self,
        pd: PdId,
        advice: Advice,
        list: &[Sge],
        later: Option<&Arc<Prefetches>>,
        sleep: &MaySleep,
    ) -> Result {
        let Some(later) = later else {
            return list
                .iter()
                .try_for_each(|sge| self.prefetch(pd, advice, sge)?.execute(sleep));
        };
        let mut prefetches = KVVec::with_capacity(list.len(), GFP_KERNEL)?;
        for sge in list {
            prefetches.push(self.prefetch(pd, advice, sge)?, GFP_KERNEL)?;
        }
        Prefetches::push(later, prefetches)
    }
}
