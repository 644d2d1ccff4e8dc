// SPDX-License-Identifier: GPL-2.0

//! Memory regions for fast registration: `ib_alloc_mr`, `ib_map_mr_sg`, and the work requests that register and
//! invalidate.
//!
//! | state | next |
//! |---|---|
//! | free | [`Mr::map`] maps pages, and sets a new key |
//! | mapped | posting `RegMr` makes it registered; [`Mr::map`] maps other pages |
//! | registered | remote peers may access the pages with the key. The completion of a `LocalInv`, or of a message that has invalidated the key ([`Mr::note_invalidated`]), makes it free |
//! | free | from when that was completed |
//!
//! The client passes the result of [`Mr::remote`] to peers after the completion of `RegMr`:
//!
//! ```
//! use kernel::prelude::*;
//! use rdma::{
//!     abi::wr::Remote,
//!     client::{
//!         dma::{Bidirectional, Pages},
//!         op::RcOp,
//!         qp::{QpRef, Rc, Rts},
//!         work::Handler,
//!         Mr, Pd, Work,
//!     },
//!     Access, MaySleep,
//! };
//!
//! /// Lets the peer write to 64 KiB of memory.
//! fn expose<'d, H: Handler<'d>>(
//!     qp: &QpRef<'d, Rc, Rts>,
//!     pd: &Pd<'d>,
//!     handler: H,
//!     sleep: &MaySleep,
//! ) -> Result<(Mr<'d>, Remote)> {
//!     let pages = Pages::<Bidirectional>::new(pd.device(), 65536, sleep)?;
//!     let mr = Mr::new(pd, 16, sleep)?;
//!     mr.map(&pages, sleep)?;
//!     let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
//!     let work = Work::new(pd.device(), 0, handler, sleep)?;
//!     qp.post_send(work, RcOp::RegMr { mr: &mr, access })?;
//!     let remote = mr.remote(0)?;
//!     Ok((mr, remote))
//! }
//! ```
//!
//! The pages stay mapped as long as the region refers to them. A region that is dropped is destroyed later, after the last
//! request that uses it. Its key becomes invalid then.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Mr::use` | the state of a region, and what is mapped to it | any, interrupts off | nothing |
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    marker::PhantomData,
    ptr::{null_mut, NonNull},
};

use kernel::{error::to_result, page::PAGE_SIZE, prelude::*, sync::Arc};
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use rdma_bindings::{self as bindings, ib_mr};

use super::{
    deferred::{Deferred, Object, UninitObject},
    device::{made, Brand},
    dma::{Direction, Pages},
    DropsAnywhere, Pd,
};
use crate::{abi::wr::Remote, Access, MaySleep};

/// A memory region for fast registration. It may be dropped in any context, and is destroyed later.
pub struct Mr<'d>(Shared<'d>);

/// A request's reference to a region.
pub(super) type Shared<'d> = Deferred<Inner<'d>>;

/// # Invariants
///
/// `self` owns the region. `use_` owns the pages that are mapped to it.
pub(super) struct Inner<'d> {
    raw: NonNull<ib_mr>,
    use_: Pin<KBox<SpinLockIrq<Use<'d>>>>,
    _pd: Pd<'d>,
}

/// The use of a region: its state and its pages.
struct Use<'d> {
    state: State,
    /// Whether the device may write to the pages.
    is_written: bool,
    /// The pages.
    _pages: Option<Arc<dyn Send + Sync + DropsAnywhere + 'd>>,
}

/// The state of a region: see the table of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The key permits no access.
    Free,
    /// Pages are being mapped.
    Mapping,
    /// Pages are mapped.
    Mapped,
    /// Registration was posted.
    Registered,
    /// Invalidation was posted.
    Invalidating,
}

// SAFETY: Memory regions may be used from any thread; the lock protects `use_`.
unsafe impl Send for Inner<'_> {}
// SAFETY: Memory regions may be used from any thread; the lock protects `use_`.
unsafe impl Sync for Inner<'_> {}

impl<'d> Mr<'d> {
    /// Creates a region for up to `max_pages` pages, at most the device's `max_fast_reg_page_list_len`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too many pages, `EOPNOTSUPP` for a device without fast registration, `ENOMEM`, and those of the driver.
    pub fn new(pd: &Pd<'d>, max_pages: u32, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        let init = Use {
            state: State::Free,
            is_written: false,
            _pages: None,
        };
        let blank = UninitObject::new(GFP_KERNEL)?;
        let use_ = KBox::pin_init(new_spinlock_irq!(init, "Mr::use"), GFP_KERNEL)?;
        // SAFETY: The protection domain is valid.
        let raw = made(unsafe {
            bindings::ib_alloc_mr(pd.as_raw(), bindings::IB_MR_TYPE_MEM_REG, max_pages)
        })?;
        // INVARIANT: The region was just created.
        let inner = Inner {
            raw,
            use_,
            _pd: pd.clone(),
        };
        Ok(Self(blank.deferred(pd.device(), inner)))
    }

    /// Maps pages to a region that is not registered, in place of the former ones, and sets a new key.
    ///
    /// # Errors
    ///
    /// `EBUSY` for a registered region, `EINVAL` for too many pages, and those of the driver.
    pub fn map<D: Direction>(&self, pages: &Arc<Pages<'d, D>>, sleep: &MaySleep) -> Result {
        sleep.check();
        let before = self.0.pass(|state| match state {
            State::Free | State::Mapped => Some(State::Mapping),
            _ => None,
        })?;
        let mapped = self.map_now(pages);
        let mut use_ = self.0.use_.lock();
        use_.state = match mapped {
            Ok(()) => State::Mapped,
            Err(_) if before == State::Free => before,
            // The former pages are not mapped any more.
            Err(_) => State::Free,
        };
        use_.is_written = D::IS_WRITTEN;
        let kept: Arc<dyn Send + Sync + DropsAnywhere + 'd> = pages.clone();
        let old = use_._pages.replace(kept);
        drop(use_);
        drop(old);
        mapped
    }

    fn map_now<D: Direction>(&self, pages: &Pages<'d, D>) -> Result {
        let (list, count) = pages.list();
        let raw = self.0.raw.as_ptr();
        let wanted = i32::try_from(count).map_err(|_| EINVAL)?;
        // SAFETY: By the type invariants; by the lifetime the list is mapped for this device, and the state `Mapping` excludes
        // other changes of the region.
        let mapped = unsafe {
            let page_size = PAGE_SIZE as u32;
            bindings::ib_map_mr_sg(raw, list, wanted, null_mut(), page_size)
        };
        to_result(mapped)?;
        if mapped != wanted {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariants; the state `Mapping` excludes other changes of the region.
        unsafe { bindings::ib_update_fast_reg_key(raw, next_key((*raw).rkey)) };
        Ok(())
    }

    /// The current state of the region.
    pub fn state(&self) -> State {
        self.0.use_.lock().state
    }

    /// The remote key.
    pub fn rkey(&self) -> u32 {
        // SAFETY: By the type invariants; any value is valid, and a concurrent writer uses a single store.
        unsafe { (&raw const (*self.0.raw.as_ptr()).rkey).read_volatile() }
    }

    /// The number of mapped bytes.
    pub fn length(&self) -> u64 {
        // SAFETY: By the type invariants; any value is valid, and a concurrent writer uses a single store.
        unsafe { (&raw const (*self.0.raw.as_ptr()).length).read_volatile() }
    }

    /// The remote address and key of the byte at `offset`, which a peer needs for RDMA READ, WRITE and atomics.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an offset outside the region.
    pub fn remote(&self, offset: u64) -> Result<Remote> {
        if offset >= self.length() {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariants; any value is valid, and a concurrent writer uses a single store.
        let start = unsafe { (&raw const (*self.0.raw.as_ptr()).iova).read_volatile() };
        Ok(Remote {
            addr: start.wrapping_add(offset),
            rkey: self.rkey(),
        })
    }

    /// Handles a remote invalidation, which a [completion](super::work::Completion::invalidated) reports. Returns whether it
    /// concerns this region, which is free then. Any context.
    pub fn note_invalidated(&self, invalidated: Invalidated<'_, 'd>) -> bool {
        let mut use_ = self.0.use_.lock();
        let is_this = invalidated.key() == self.rkey() && use_.state == State::Registered;
        if is_this {
            use_.state = State::Free;
        }
        is_this
    }

    pub(super) fn shared(&self) -> Shared<'d> {
        self.0.clone()
    }
}

/// The proof that a message of a peer has invalidated a region. Only a completion makes it.
pub struct Invalidated<'a, 'd> {
    key: u32,
    _completion: PhantomData<&'a ()>,
    _device: Brand<'d>,
}

impl Invalidated<'_, '_> {
    /// Creates the proof, for a completion that reports the invalidation.
    pub(super) fn new(key: u32) -> Self {
        Self {
            key,
            _completion: PhantomData,
            _device: PhantomData,
        }
    }

    /// The key of the region.
    pub fn key(&self) -> u32 {
        self.key
    }
}

/// The low byte of the next key: `ib_inc_rkey`.
fn next_key(rkey: u32) -> u8 {
    let [low, ..] = rkey.to_le_bytes();
    low.wrapping_add(1)
}

impl Inner<'_> {
    pub(super) fn as_raw(&self) -> *mut ib_mr {
        self.raw.as_ptr()
    }

    /// Changes the state to the one that `next` returns. Returns the former state.
    fn pass(&self, next: impl FnOnce(State) -> Option<State>) -> Result<State> {
        let mut use_ = self.use_.lock();
        let before = use_.state;
        use_.state = next(before).ok_or(EBUSY)?;
        Ok(before)
    }

    fn set(&self, state: State) {
        self.use_.lock().state = state;
    }

    /// Begins the registration, before its request is posted. Returns the key.
    pub(super) fn begin_register(&self, access: Access) -> Result<u32> {
        let mut use_ = self.use_.lock();
        if use_.state != State::Mapped {
            return Err(EBUSY);
        }
        if access.is_writable() && !use_.is_written {
            return Err(EINVAL);
        }
        use_.state = State::Registered;
        // SAFETY: By the type invariants; the state excludes changes of the key.
        Ok(unsafe { (*self.as_raw()).rkey })
    }

    /// Reverts [`Self::begin_register`].
    pub(super) fn undo_register(&self) {
        self.set(State::Mapped);
    }

    /// Begins the invalidation, before its request is posted. Returns the key.
    pub(super) fn begin_invalidate(&self) -> Result<u32> {
        self.pass(|state| (state == State::Registered).then_some(State::Invalidating))?;
        // SAFETY: By the type invariants; the state excludes changes of the key.
        Ok(unsafe { (*self.as_raw()).rkey })
    }

    /// Ends the invalidation, which was executed if `is_done`.
    pub(super) fn end_invalidate(&self, is_done: bool) {
        self.set(match is_done {
            true => State::Free,
            false => State::Registered,
        });
    }
}

impl Object for Inner<'_> {
    const WHAT: &'static str = "a memory region";

    fn destroy(&self, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants `self` owns the region; requests hold references to it, so none is left. The pages are
        // freed afterwards.
        to_result(unsafe { bindings::ib_dereg_mr_user(self.as_raw(), null_mut()) })
    }
}
