// SPDX-License-Identifier: GPL-2.0

//! Memory regions: keys, and the memory behind them.
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
use rdma::mr::{UserMr, VirtAtomic};
use rdma::{Access, MaySleep, Umem, VirtDma};

use crate::device::PdId;
use crate::limits;

/// What the owner of a region may allow.
pub(crate) const SUPPORTED: Access = Access::LOCAL_WRITE.with(REMOTE).with(Access::OPTIONAL);

/// All that a peer may be allowed.
const REMOTE: Access = Access::REMOTE_WRITE
    .with(Access::REMOTE_READ)
    .with(Access::REMOTE_ATOMIC);

/// The index of a region in a key.
fn index_of(key: u32) -> u32 {
    key >> 8
}

/// The part of a key that varies.
fn random_byte() -> u8 {
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
fn within(iova: u64, length: u64, va: u64, len: u64) -> Result<u64, MrError> {
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

/// What a fast region is at the moment.
///
/// Its lock is taken in any context; nothing is locked inside. Copies run under it, so that what is
/// invalidated is not used any more.
struct Fast {
    virt: VirtDma,
    /// Addresses of pages of `1 << shift` bytes, the first `mapped` of them valid.
    pages: KVVec<u64>,
    mapped: usize,
    shift: u32,
    /// Where the region begins in its first page.
    first: u64,
    length: u64,
    /// What the present registration says.
    iova: u64,
    access: Access,
    key: u32,
    valid: bool,
    /// Counts registrations: a region of an earlier one is not valid.
    epoch: u32,
}

impl Fast {
    /// Calls `each` for the pieces of `len` bytes at `offset` of the region that are contiguous in
    /// the kernel: with the address, and with where the piece begins and ends in the `len` bytes.
    fn pieces(
        &self,
        offset: u64,
        len: usize,
        mut each: impl FnMut(u64, core::ops::Range<usize>) -> Result,
    ) -> Result<(), MrError> {
        let page_size = 1_u64.checked_shl(self.shift).ok_or(MrError::Invalid)?;
        let mut at = self.first.checked_add(offset).ok_or(MrError::OutOfRange)?;
        let mut done = 0;
        while done < len {
            let inside = at & (page_size - 1);
            let index = usize::try_from(at >> self.shift).map_err(|_| MrError::OutOfRange)?;
            let page = self
                .pages
                .get(..self.mapped)
                .and_then(|pages| pages.get(index));
            let page = *page.ok_or(MrError::OutOfRange)?;
            let piece = (len - done).min((page_size - inside) as usize);
            each(page.wrapping_add(inside), done..done + piece).map_err(|_| MrError::Invalid)?;
            done += piece;
            at = at.wrapping_add(piece as u64);
        }
        Ok(())
    }
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
    #[pin]
    memory: Revocable<Memory>,
}

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
    /// `EOPNOTSUPP` for rights that are not supported, or to write to memory that was pinned for
    /// reading.
    pub(crate) fn change(&self, pd: Option<PdId>, access: Option<Access>) -> Result {
        if let Some(access) = access {
            if !access.without(SUPPORTED).is_empty() {
                return Err(EOPNOTSUPP);
            }
            let writable = self.memory.access(|memory| match memory {
                Memory::User(umem) => umem.is_writable(),
                _ => false,
            });
            if access.is_writable() && writable != Some(true) {
                return Err(EOPNOTSUPP);
            }
            self.access.store(access.bits(), Ordering::Relaxed);
        }
        if let Some(pd) = pd {
            self.pd.store(pd.into_raw(), Ordering::Relaxed);
        }
        Ok(())
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
            fast.mapped = 0;
            fast.shift = page_size.trailing_zeros();
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
        self.with_fast(|fast| {
            let place = fast.pages.get_mut(fast.mapped).ok_or(MrError::OutOfRange)?;
            *place = address;
            fast.mapped += 1;
            Ok(())
        })
        .map_err(|_| ENOMEM)
    }

    /// Says where in the pages a fast region is: `length` bytes whose address is `iova`. Any context.
    pub(crate) fn map_end(&self, iova: u64, length: u64) -> Result {
        self.with_fast(|fast| {
            let page_size = 1_u64.checked_shl(fast.shift).ok_or(MrError::Invalid)?;
            fast.first = iova & (page_size - 1);
            fast.length = length;
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
        self.with_fast(|fast| {
            if fast.valid {
                return Err(MrError::Invalid);
            }
            fast.key = key;
            fast.access = access;
            fast.iova = iova;
            fast.epoch = fast.epoch.wrapping_add(1);
            fast.valid = true;
            Ok(())
        })
    }

    fn invalidate(&self, key: u32) -> Result<(), MrError> {
        self.with_fast(|fast| {
            if fast.key != key {
                return Err(MrError::Invalid);
            }
            fast.valid = false;
            Ok(())
        })
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
            Memory::Fast(fast) => {
                let fast = fast.lock();
                if fast.key != key || !fast.valid {
                    return Err(MrError::Invalid);
                }
                allowed(fast.access).ok_or(MrError::NoAccess)?;
                Ok((within(fast.iova, fast.length, va, len)?, fast.epoch))
            }
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
        let fast = Fast {
            virt,
            pages: KVVec::from_elem(0, max_pages as usize, GFP_KERNEL)?,
            mapped: 0,
            shift: 0,
            first: 0,
            length: 0,
            iova: 0,
            access: Access::empty(),
            key: 0,
            valid: false,
            epoch: 0,
        };
        let fast = KBox::pin_init(new_spinlock_irq!(fast, "Mr::fast"), GFP_KERNEL)?;
        let mr = self.add(pd, REMOTE, (0, 0), Memory::Fast(fast), ctx)?;
        mr.with_fast(|fast| {
            fast.key = mr.key;
            Ok(())
        })?;
        Ok(mr)
    }

    /// Takes a region away (`dereg_mr`): when this returns, nobody uses its memory.
    pub(crate) fn remove(&self, mr: &Mr, ctx: &MaySleep) {
        drop(self.table.remove(mr.index, ctx));
        mr.memory.revoke(ctx);
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
        })
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

/// A range of memory that was checked.
///
/// Offsets count from the range's begin; what goes beyond its end is [`MrError::OutOfRange`]. All
/// methods may be called in any context, and fail with [`MrError::Invalid`] once the memory is not
/// registered any more.
pub(crate) struct Region {
    mr: Arc<Mr>,
    /// DMA: the address. Otherwise: the distance from the begin of the memory region.
    start: u64,
    len: u32,
    epoch: u32,
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
        self.mr.memory.access(f).unwrap_or(Err(MrError::Invalid))
    }

    fn lock<'a>(
        &self,
        fast: &'a SpinLockIrq<Fast>,
    ) -> Result<kernel_ext::sync::SpinLockIrqGuard<'a, Fast>, MrError> {
        let fast = fast.lock();
        if !fast.valid || fast.epoch != self.epoch {
            return Err(MrError::Invalid);
        }
        Ok(fast)
    }

    /// Writes `from` at `offset`.
    #[inline]
    pub(crate) fn copy_in(&self, offset: u32, from: &[u8]) -> Result<(), MrError> {
        let at = self.place(offset, from.len())?;
        self.with(|memory| match memory {
            Memory::Dma(virt) => virt.write(at, from).map_err(|_| MrError::Invalid),
            Memory::User(umem) => umem.write(at as usize, from).map_err(|_| MrError::Invalid),
            Memory::Fast(fast) => {
                let fast = self.lock(fast)?;
                fast.pieces(at, from.len(), |address, part| {
                    fast.virt.write(address, from.get(part).ok_or(EINVAL)?)
                })
            }
        })
    }

    /// Reads bytes from `offset` on.
    #[inline]
    pub(crate) fn copy_out(&self, offset: u32, to: &mut [u8]) -> Result<(), MrError> {
        let at = self.place(offset, to.len())?;
        self.with(|memory| match memory {
            Memory::Dma(virt) => virt.read(at, to).map_err(|_| MrError::Invalid),
            Memory::User(umem) => umem.read(at as usize, to).map_err(|_| MrError::Invalid),
            Memory::Fast(fast) => {
                let fast = self.lock(fast)?;
                fast.pieces(at, to.len(), |address, part| {
                    fast.virt.read(address, to.get_mut(part).ok_or(EINVAL)?)
                })
            }
        })
    }

    /// Applies `operation` to the eight bytes at `offset`, as a number of this processor.
    fn atomic<R>(
        &self,
        offset: u32,
        operation: impl FnOnce(&AtomicU64) -> R,
    ) -> Result<R, MrError> {
        let at = self.place(offset, 8)?;
        let run = |number: Result<VirtAtomic<'_>>| {
            let number = number.map_err(|_| MrError::Misaligned)?;
            Ok(operation(number.get()))
        };
        self.with(|memory| match memory {
            Memory::Dma(virt) => run(virt.atomic(at)),
            Memory::User(umem) => run(umem.atomic(at as usize)),
            Memory::Fast(fast) => {
                let fast = self.lock(fast)?;
                let mut place = 0;
                fast.pieces(at, 8, |address, part| {
                    // A number that is aligned is in one piece.
                    place = if part.len() == 8 { address } else { 1 };
                    Ok(())
                })?;
                run(fast.virt.atomic(place))
            }
        })
    }

    /// Makes the eight bytes at `offset` `swap` if they are `compare`; returns what they were.
    ///
    /// Numbers are in the byte order of this processor. Atomic with respect to all other accesses.
    ///
    /// # Errors
    ///
    /// [`MrError::Misaligned`] where the bytes are not on a multiple of eight.
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

    /// Adds to the eight bytes at `offset`, wrapping; returns what they were.
    ///
    /// # Errors
    ///
    /// As for [`Self::compare_swap`].
    pub(crate) fn fetch_add(&self, offset: u32, add: u64) -> Result<u64, MrError> {
        self.atomic(offset, |number| number.fetch_add(add, Ordering::AcqRel))
    }
}
