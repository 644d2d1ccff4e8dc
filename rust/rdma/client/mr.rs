// SPDX-License-Identifier: GPL-2.0

//! Memory regions for fast registration: `ib_alloc_mr`, `ib_map_mr_sg`, and the work requests that register and
//! invalidate.
//!
//! | state | what may come next |
//! |---|---|
//! | free | [`Mr::map`] gives it pages and a new key |
//! | mapped | `RegMr` is posted: from then on it is registered; or other pages are mapped |
//! | registered | peers may reach the pages with the key. `LocalInv` is posted; or a peer sends with invalidation, of which the completion tells: [`Mr::note_invalidated`] |
//! | free | from when that was completed |
//!
//! Peers get what [`Mr::remote`] returns, as soon as the request is completed:
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
//! The pages stay mapped as long as they are the region's. A region that is dropped is destroyed later, when no request
//! needs it any more; then its key is no more.
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

/// A memory region for fast registration. Any context may drop it: it is destroyed later.
pub struct Mr<'d>(Shared<'d>);

/// A region, as a request keeps it.
pub(super) type Shared<'d> = Deferred<Inner<'d>>;

/// # Invariants
///
/// The region is ours. What is mapped to it is in `use_`.
pub(super) struct Inner<'d> {
    raw: NonNull<ib_mr>,
    use_: Pin<KBox<SpinLockIrq<Use<'d>>>>,
    _pd: Pd<'d>,
}

/// What a region is used for.
struct Use<'d> {
    state: State,
    /// The device may write to the pages.
    is_written: bool,
    /// The pages.
    _pages: Option<Arc<dyn Send + Sync + DropsAnywhere + 'd>>,
}

/// See the table of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody reaches memory with it.
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

// SAFETY: Memory regions may be used from any thread.
unsafe impl Send for Inner<'_> {}
// SAFETY: As above.
unsafe impl Sync for Inner<'_> {}

impl<'d> Mr<'d> {
    /// Makes a region that `max_pages` pages can be mapped to, not more than the device's `max_fast_reg_page_list_len`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too many pages, `EOPNOTSUPP` for a device without fast registration, `ENOMEM`, and what the driver
    /// answers.
    pub fn new(pd: &Pd<'d>, max_pages: u32, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        let init = Use {
            state: State::Free,
            is_written: false,
            _pages: None,
        };
        let blank = UninitObject::new(GFP_KERNEL)?;
        let use_ = KBox::pin_init(new_spinlock_irq!(init, "Mr::use"), GFP_KERNEL)?;
        // SAFETY: The protection domain is there.
        let raw = made(unsafe {
            bindings::ib_alloc_mr(pd.as_raw(), bindings::IB_MR_TYPE_MEM_REG, max_pages)
        })?;
        // INVARIANT: It was just made.
        let inner = Inner {
            raw,
            use_,
            _pd: pd.clone(),
        };
        Ok(Self(blank.deferred(pd.device(), inner)))
    }

    /// Maps pages to a region that is free, in place of those that were; it gets a new key.
    ///
    /// # Errors
    ///
    /// `EBUSY` for a region that is registered, `EINVAL` for more pages than it has room for, and what the driver answers.
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
            // What was mapped before is no more.
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
        // SAFETY: By the type invariants; the list is mapped for the device, as the lifetime says, and the state says that
        // nobody else changes the region.
        let mapped = unsafe {
            let page_size = PAGE_SIZE as u32;
            bindings::ib_map_mr_sg(raw, list, wanted, null_mut(), page_size)
        };
        to_result(mapped)?;
        if mapped != wanted {
            return Err(EINVAL);
        }
        // SAFETY: As above.
        unsafe { bindings::ib_update_fast_reg_key(raw, next_key((*raw).rkey)) };
        Ok(())
    }

    /// What the region is used for now.
    pub fn state(&self) -> State {
        self.0.use_.lock().state
    }

    /// Its key for peers.
    pub fn rkey(&self) -> u32 {
        // SAFETY: By the type invariants; the member is written whole.
        unsafe { (&raw const (*self.0.raw.as_ptr()).rkey).read_volatile() }
    }

    /// How many bytes are mapped to it.
    pub fn length(&self) -> u64 {
        // SAFETY: As above.
        unsafe { (&raw const (*self.0.raw.as_ptr()).length).read_volatile() }
    }

    /// Where a peer finds byte `offset` of it: what it is told, for reads, writes and atomics.
    ///
    /// # Errors
    ///
    /// `EINVAL` for one that there is not.
    pub fn remote(&self, offset: u64) -> Result<Remote> {
        if offset >= self.length() {
            return Err(EINVAL);
        }
        // SAFETY: As above.
        let start = unsafe { (&raw const (*self.0.raw.as_ptr()).iova).read_volatile() };
        Ok(Remote {
            addr: start.wrapping_add(offset),
            rkey: self.rkey(),
        })
    }

    /// Takes note of what a [completion](super::work::Completion::invalidated) says: if it is this region that the peer has
    /// invalidated, it is free now, and the answer is yes. Any context.
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

/// That a peer has invalidated a region with a message, as its completion says. Nobody else can: it is what a region is freed on.
pub struct Invalidated<'a, 'd> {
    key: u32,
    _completion: PhantomData<&'a ()>,
    _device: Brand<'d>,
}

impl Invalidated<'_, '_> {
    /// For a completion that says so.
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

    /// Goes from a state to the one that `next` says. Returns the former.
    fn pass(&self, next: impl FnOnce(State) -> Option<State>) -> Result<State> {
        let mut use_ = self.use_.lock();
        let before = use_.state;
        use_.state = next(before).ok_or(EBUSY)?;
        Ok(before)
    }

    fn set(&self, state: State) {
        self.use_.lock().state = state;
    }

    /// Registration is about to be posted. Returns the key.
    pub(super) fn begin_register(&self, access: Access) -> Result<u32> {
        let mut use_ = self.use_.lock();
        if use_.state != State::Mapped {
            return Err(EBUSY);
        }
        if access.is_writable() && !use_.is_written {
            return Err(EINVAL);
        }
        use_.state = State::Registered;
        // SAFETY: By the type invariants; nobody changes it now.
        Ok(unsafe { (*self.as_raw()).rkey })
    }

    /// Registration was not done.
    pub(super) fn undo_register(&self) {
        self.set(State::Mapped);
    }

    /// Invalidation is about to be posted. Returns the key.
    pub(super) fn begin_invalidate(&self) -> Result<u32> {
        self.pass(|state| (state == State::Registered).then_some(State::Invalidating))?;
        // SAFETY: By the type invariants; nobody changes it now.
        Ok(unsafe { (*self.as_raw()).rkey })
    }

    /// Invalidation was done, or was not.
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
        // SAFETY: By the type invariants; requests have a reference to this. The pages go later.
        to_result(unsafe { bindings::ib_dereg_mr_user(self.as_raw(), null_mut()) })
    }
}
