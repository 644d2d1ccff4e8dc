// SPDX-License-Identifier: GPL-2.0

//! Memory windows: keys for a peer's access to a part of a memory region, until they are rebound (type 1) or
//! invalidated (type 2).
//!
//! A type 2 window belongs to the QP that bound it, and is valid only for its peer (type 2B of IBTA volume 1, section
//! 10.6.7.2). Window, region and QP must have the same protection domain.
//!
//! Windows are bound and used in softirq context. A window's lock is taken in any context; the lock of its [`Lease`] is
//! the only one taken inside.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Mw::state` | what a window is bound to | any, interrupts off | `Lease::epoch` |

use core::sync::atomic::{AtomicU64, Ordering};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::gfp::Gfp;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use kernel_ext::xarray::Table;
use rdma::abi::mr::MwType;
use rdma::{Access, MaySleep};

use crate::ids::PdId;
use crate::limits;
use crate::mr::{self, Lease, Mr, MrError, Mrs, Region};

/// Access flags of a window.
const SUPPORTED: Access = mr::SUPPORTED;

/// Identifies the QP that has bound a window. IDs are never reused, as QP numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BinderId(u64);

impl BinderId {
    /// A new ID.
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }
}

/// Arguments of a bind: `struct ib_mw_bind_info`, and the keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BindInfo {
    /// The window's current key.
    pub(crate) mw_rkey: u32,
    /// The requested key, of which the lowest eight bits are used.
    pub(crate) rkey: u32,
    /// The region's key.
    pub(crate) mr_lkey: u32,
    /// Access flags of the window: `IB_ACCESS_*`.
    pub(crate) access: u32,
    /// Start of the range.
    pub(crate) addr: u64,
    /// Length of the range; 0 unbinds the window.
    pub(crate) length: u64,
}

/// The binding of a window.
struct Binding {
    mr: Arc<Mr>,
    access: Access,
    /// Start of the range, as an address of the region.
    addr: u64,
    length: u64,
    binder: BinderId,
}

impl Drop for Binding {
    fn drop(&mut self) {
        self.mr.unbind();
    }
}

impl Binding {
    /// Converts `len` bytes at `va` to an address of the region.
    fn translate(&self, access: Access, va: u64, len: u32) -> Result<u64, MrError> {
        if !self.access.contains(access) {
            return Err(MrError::NoAccess);
        }
        let first = match self.access.contains(Access::ZERO_BASED) {
            true => 0,
            false => self.addr,
        };
        let offset = mr::within(first, self.length, va, len.into())?;
        self.addr.checked_add(offset).ok_or(MrError::OutOfRange)
    }
}

struct State {
    key: u32,
    bound: Option<Binding>,
}

/// A memory window.
#[pin_data]
pub(crate) struct Mw {
    index: u32,
    pd: PdId,
    mw_type: MwType,
    lease: Arc<Lease>,
    #[pin]
    state: SpinLockIrq<State>,
}

/// Whether a key is that of a window.
#[inline]
fn index_of(key: u32) -> Option<u32> {
    let index = key >> 8;
    limits::MW_INDICES.contains(&index).then_some(index)
}

impl Mw {
    /// The window's key before it is first bound.
    pub(crate) fn key(&self) -> u32 {
        self.state.lock().key
    }

    /// Replaces the binding, if `f` returns a new one.
    fn change(
        &self,
        key: u32,
        f: impl FnOnce(&mut State) -> Result<Option<Binding>, MrError>,
    ) -> Result<(), MrError> {
        let mut state = self.state.lock();
        if state.key != key {
            return Err(MrError::Invalid);
        }
        let new = f(&mut state)?;
        self.lease.revoke();
        let old = core::mem::replace(&mut state.bound, new);
        drop(state);
        drop(old);
        Ok(())
    }

    fn bind(&self, mrs: &Mrs, bind: &BindInfo, pd: PdId, binder: BinderId) -> Result<(), MrError> {
        if self.pd != pd {
            return Err(MrError::WrongPd);
        }
        let access = Access::from_bits(bind.access);
        let zero_based = access.contains(Access::ZERO_BASED);
        if !access.without(SUPPORTED).is_empty() {
            return Err(MrError::NoAccess);
        }
        // IBTA volume 1, o10-36.2.2 and o10-37.2.40.
        match self.mw_type {
            MwType::Type1 if zero_based => return Err(MrError::NoAccess),
            MwType::Type2 if bind.length == 0 => return Err(MrError::OutOfRange),
            _ => {}
        }
        let bound = self.bound(mrs, bind, access, binder)?;
        self.change(bind.mw_rkey, |state| {
            // o10-37.2.30
            if self.mw_type == MwType::Type2 && state.bound.is_some() {
                return Err(MrError::Invalid);
            }
            state.key = self.index << 8 | bind.rkey & 0xff;
            Ok(bound)
        })
    }

    /// The new binding; `None` for an empty range.
    fn bound(
        &self,
        mrs: &Mrs,
        bind: &BindInfo,
        access: Access,
        binder: BinderId,
    ) -> Result<Option<Binding>, MrError> {
        if bind.length == 0 {
            return Ok(None);
        }
        let mr = mrs.bind(bind.mr_lkey, self.pd, access, bind.addr, bind.length)?;
        Ok(Some(Binding {
            mr,
            access,
            addr: bind.addr,
            length: bind.length,
            binder,
        }))
    }

    fn invalidate(&self, key: u32, pd: PdId, binder: BinderId) -> Result<(), MrError> {
        if self.pd != pd {
            return Err(MrError::WrongPd);
        }
        // o10-37.2.26
        if self.mw_type != MwType::Type2 {
            return Err(MrError::Invalid);
        }
        self.change(key, |state| match &state.bound {
            Some(bound) if bound.binder != binder => Err(MrError::Invalid),
            _ => Ok(None),
        })
    }

    fn check(
        &self,
        key: u32,
        binder: BinderId,
        access: Access,
        va: u64,
        len: u32,
    ) -> Result<Region, MrError> {
        let state = self.state.lock();
        let bound = state.bound.as_ref().ok_or(MrError::Invalid)?;
        let others = self.mw_type == MwType::Type2 && bound.binder != binder;
        if state.key != key || others {
            return Err(MrError::Invalid);
        }
        let at = bound.translate(access, va, len)?;
        Mr::leased(&bound.mr, at, len, Lease::grant(&self.lease))
    }
}

/// The memory windows of a device, by index.
#[pin_data]
pub(crate) struct Mws {
    #[pin]
    table: Table<Mw>,
}

impl Mws {
    /// An empty table.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            table <- Table::new(limits::MW_INDICES),
        })
    }

    /// Creates an unbound window: `alloc_mw`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EBUSY` where there are too many windows.
    pub(crate) fn add(&self, pd: PdId, mw_type: MwType, ctx: &MaySleep) -> Result<Arc<Mw>> {
        let place = self.table.reserve(Gfp::kernel(ctx))?;
        let index = place.index();
        let state = State {
            key: index << 8 | u32::from(mr::random_byte()),
            bound: None,
        };
        let lease = Lease::new()?;
        let mw = Arc::pin_init(
            pin_init!(Mw {
                index,
                pd,
                mw_type,
                lease,
                state <- new_spinlock_irq!(state, "rxe_mw::state"),
            }),
            GFP_KERNEL,
        )?;
        place.publish(mw.clone());
        Ok(mw)
    }

    /// Removes a window: `dealloc_mw`. When this returns, no memory is accessed by it.
    pub(crate) fn remove(&self, mw: &Mw, ctx: &MaySleep) {
        drop(self.table.remove(mw.index, ctx));
        mw.lease.revoke();
        let bound = mw.state.lock().bound.take();
        drop(bound);
    }

    fn find(&self, key: u32) -> Result<Arc<Mw>, MrError> {
        let index = index_of(key).ok_or(MrError::Invalid)?;
        self.table.find(index).ok_or(MrError::Invalid)
    }

    /// Executes a BIND_MW work request of a QP of `pd`. Any context.
    ///
    /// # Errors
    ///
    /// See [`MrError`]; the window is then unchanged.
    pub(crate) fn bind(
        &self,
        mrs: &Mrs,
        bind: &BindInfo,
        pd: PdId,
        binder: BinderId,
    ) -> Result<(), MrError> {
        self.find(bind.mw_rkey)?.bind(mrs, bind, pd, binder)
    }

    /// Executes LOCAL_INV, or a received SEND with invalidate, if `key` is that of a window. Any context.
    ///
    /// # Errors
    ///
    /// [`MrError::Invalid`] where no type 2 window has the key, or another QP has bound it; [`MrError::WrongPd`].
    pub(crate) fn invalidate(
        &self,
        key: u32,
        pd: PdId,
        binder: BinderId,
    ) -> Option<Result<(), MrError>> {
        index_of(key)?;
        Some(self.find(key).and_then(|mw| mw.invalidate(key, pd, binder)))
    }

    /// Checks that the peer of a QP of `pd` may access `len` bytes at `va`, if `key` is that of a window. Any context.
    ///
    /// # Errors
    ///
    /// See [`MrError`].
    #[inline]
    pub(crate) fn check(
        &self,
        key: u32,
        (pd, binder): (PdId, BinderId),
        access: Access,
        va: u64,
        len: u32,
    ) -> Option<Result<Region, MrError>> {
        let index = index_of(key)?;
        let guard = kernel::sync::rcu::read_lock();
        let found = self.table.get(index, &guard).ok_or(MrError::Invalid);
        Some(found.and_then(|mw| match mw.pd == pd {
            true => mw.check(key, binder, access, va, len),
            false => Err(MrError::WrongPd),
        }))
    }
}

#[kernel::prelude::kunit_tests(rxe_memory_windows)]
mod tests {
    use super::*;

    /// The windows of a device, a protection domain and a QP.
    struct Fixture {
        mrs: Pin<KBox<Mrs>>,
        mws: Pin<KBox<Mws>>,
        pd: PdId,
        binder: BinderId,
        sleep: MaySleep,
    }

    impl Fixture {
        fn new() -> Result<Self> {
            Ok(Self {
                mrs: KBox::pin_init(Mrs::new(), GFP_KERNEL)?,
                mws: KBox::pin_init(Mws::new(), GFP_KERNEL)?,
                pd: PdId::new(),
                binder: BinderId::new(),
                sleep: MaySleep::of_test()?,
            })
        }

        fn add(&self, mw_type: MwType) -> Result<Arc<Mw>> {
            self.mws.add(self.pd, mw_type, &self.sleep)
        }

        fn bind(&self, bind: &BindInfo) -> Result<(), MrError> {
            self.mws.bind(&self.mrs, bind, self.pd, self.binder)
        }

        fn invalidate(&self, key: u32) -> Option<Result<(), MrError>> {
            self.mws.invalidate(key, self.pd, self.binder)
        }

        fn check(&self, key: u32, pd: PdId) -> Option<Result<(), MrError>> {
            let owner = (pd, self.binder);
            let checked = self.mws.check(key, owner, Access::REMOTE_READ, 0, 1);
            checked.map(|region| region.map(drop))
        }
    }

    /// Arguments that unbind a window.
    fn to_nothing(key: u32, rkey: u32) -> BindInfo {
        BindInfo {
            mw_rkey: key,
            rkey,
            ..BindInfo::default()
        }
    }

    #[test]
    fn keys_of_windows_are_none_of_regions() -> Result {
        let fix = Fixture::new()?;
        let (one, two) = (fix.add(MwType::Type1)?, fix.add(MwType::Type2)?);
        assert!(one.key() >> 8 != two.key() >> 8);
        let key = one.key();
        assert!(limits::MW_INDICES.contains(&(key >> 8)));
        assert!(!limits::MR_INDICES.contains(&(key >> 8)));
        for index in [
            0,
            1,
            *limits::MW_INDICES.start() - 1,
            *limits::MW_INDICES.end() + 1,
        ] {
            assert!(fix.check(index << 8, fix.pd).is_none());
            assert!(fix.invalidate(index << 8).is_none());
        }
        Ok(())
    }

    #[test]
    fn a_window_gives_nothing_until_it_is_bound() -> Result {
        let fix = Fixture::new()?;
        let mw = fix.add(MwType::Type2)?;
        assert_eq!(fix.check(mw.key(), fix.pd), Some(Err(MrError::Invalid)));
        assert_eq!(
            fix.check(mw.key(), PdId::new()),
            Some(Err(MrError::WrongPd))
        );
        fix.mws.remove(&mw, &fix.sleep);
        assert_eq!(
            fix.check(mw.key(), PdId::new()),
            Some(Err(MrError::Invalid))
        );
        assert_eq!(fix.bind(&to_nothing(mw.key(), 0)), Err(MrError::Invalid));
        Ok(())
    }

    #[test]
    fn binding_changes_the_low_byte_of_the_key() -> Result {
        let fix = Fixture::new()?;
        let mw = fix.add(MwType::Type1)?;
        let mut key = mw.key();
        for _ in 0..300 {
            let next = u32::from((key as u8).wrapping_add(1));
            // The other bits remain those of the window.
            assert_eq!(fix.bind(&to_nothing(key, next | 0xdead_be00)), Ok(()));
            assert_eq!(mw.key(), key & !0xff | next);
            assert_eq!(fix.bind(&to_nothing(key, 0)), Err(MrError::Invalid));
            key = mw.key();
        }
        Ok(())
    }

    #[test]
    fn what_cannot_be_bound() -> Result {
        let fix = Fixture::new()?;
        let (one, two) = (fix.add(MwType::Type1)?, fix.add(MwType::Type2)?);
        assert_eq!(
            fix.bind(&to_nothing(two.key(), 0)),
            Err(MrError::OutOfRange)
        );
        let zero_based = BindInfo {
            access: Access::ZERO_BASED.bits(),
            ..to_nothing(one.key(), 0)
        };
        assert_eq!(fix.bind(&zero_based), Err(MrError::NoAccess));
        let rights = BindInfo {
            access: u32::MAX,
            length: 1,
            ..to_nothing(two.key(), 0)
        };
        assert_eq!(fix.bind(&rights), Err(MrError::NoAccess));
        let region = BindInfo {
            mr_lkey: 1 << 8,
            length: 1,
            ..to_nothing(two.key(), 0)
        };
        assert_eq!(fix.bind(&region), Err(MrError::Invalid));
        let binder = fix.binder;
        let other = fix
            .mws
            .bind(&fix.mrs, &to_nothing(one.key(), 0), PdId::new(), binder);
        assert_eq!(other, Err(MrError::WrongPd));
        Ok(())
    }

    #[test]
    fn only_the_second_type_is_invalidated() -> Result {
        let fix = Fixture::new()?;
        let (one, two) = (fix.add(MwType::Type1)?, fix.add(MwType::Type2)?);
        assert_eq!(fix.invalidate(one.key()), Some(Err(MrError::Invalid)));
        assert_eq!(fix.invalidate(two.key() ^ 1), Some(Err(MrError::Invalid)));
        assert_eq!(fix.invalidate(two.key()), Some(Ok(())));
        let other = fix.mws.invalidate(two.key(), PdId::new(), fix.binder);
        assert_eq!(other, Some(Err(MrError::WrongPd)));
        Ok(())
    }
}
