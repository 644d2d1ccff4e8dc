// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: `struct ib_srq` of `<rdma/ib_verbs.h>`.
//!
//! QPs take receives from an SRQ in the order of posting, each under its engine's lock. Posting, taking and changing
//! the queue hold the SRQ's own lock, in any context; no other lock is taken inside.
//!
//! An SRQ for extended reliable connections (IBTA volume 1, annex A14) is found by its number, which requests name, by the targets
//! of its XRC domain, and has the CQ of its completions.
//!
//! User requests are in the ring already; those of a kernel consumer are copied. Resizing creates a new queue, moves
//! the posted requests, and frees the old queue without the lock.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Srq::state` | the posted requests and the limit | any, interrupts off | nothing |

use core::sync::atomic::{AtomicBool, Ordering};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::uaccess::{UserPtr, UserSlice};
use kernel_ext::error::EOPNOTSUPP;
use kernel_ext::gfp::Gfp;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use kernel_ext::xarray::Table;
use rdma::{
    abi::srq::{SrqAttr, SrqAttrMask, SrqType},
    provider::srq::SrqInitAttr,
};
use rdma::{MaySleep, ProviderData, RecvWrs, SrqEvent, SrqHandle};

use crate::cq::Cq;
use crate::ids::{PdId, XrcdId};
use crate::limits;
use crate::ring::{Consumer, Mappings, MmapInfo, UserCommand};
use crate::wqe::{self, Inbox, RecvWqe};

/// Size of `struct rxe_create_srq_resp`: ring, number, padding.
const RESPONSE: usize = MmapInfo::SIZE + 8;

/// The posted requests.
enum Posted {
    /// Of user space: its ring.
    User(Consumer),
    /// Of a kernel consumer.
    Kernel {
        inbox: Inbox<RecvWqe>,
        capacity: u32,
    },
}

impl Posted {
    /// Creates an empty queue for at least `max_wr` requests. Sleeps.
    fn new(
        mappings: Option<&Arc<Mappings>>,
        max_wr: u32,
        max_sge: u32,
        ctx: &MaySleep,
    ) -> Result<Self> {
        let list = max_sge as usize * limits::SGE;
        if let Some(mappings) = mappings {
            let element = limits::RECV_WQE + list;
            return Ok(Self::User(Consumer::new(mappings, max_wr, element, ctx)?));
        }
        Ok(Self::Kernel {
            inbox: Inbox::new(max_wr, list)?,
            capacity: max_wr,
        })
    }

    fn capacity(&self) -> u32 {
        match self {
            Self::User(ring) => ring.capacity(),
            Self::Kernel { capacity, .. } => *capacity,
        }
    }

    fn len(&self) -> u32 {
        match self {
            Self::User(ring) => ring.available(),
            Self::Kernel { inbox, .. } => inbox.len(),
        }
    }

    /// Takes the oldest request, and copies its list to the start of `list`.
    /// Whether nothing can be taken from it any more.
    fn is_broken(&self) -> bool {
        match self {
            Self::User(ring) => ring.is_broken(),
            Self::Kernel { .. } => false,
        }
    }

    fn take(&mut self, max_sge: u32, list: &mut [u8]) -> Option<RecvWqe> {
        match self {
            Self::User(ring) => wqe::take_recv(ring, max_sge, list),
            Self::Kernel { inbox, .. } => inbox.take(list),
        }
    }

    /// Moves all requests to an empty queue for requests of the same size.
    ///
    /// # Errors
    ///
    /// `EINVAL` where there are too many of them; they then remain here.
    fn move_to(&mut self, other: &mut Self) -> Result {
        if self.len() > other.capacity() {
            return Err(EINVAL);
        }
        match (self, other) {
            (Self::User(from), Self::User(to)) => from.move_to(to).map_err(|_| EINVAL),
            (Self::Kernel { inbox: from, .. }, Self::Kernel { inbox: to, .. }) => {
                from.move_all(to);
                Ok(())
            }
            _ => Err(EINVAL),
        }
    }
}

struct State {
    posted: Posted,
    /// An event is raised when fewer requests than this are left; 0: disarmed.
    limit: u32,
}

/// A shared receive queue is in error, and so are its queue pairs (IBTA volume 1, section 11.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// What an SRQ for extended reliable connections has besides.
struct Xrc {
    domain: XrcdId,
    /// The CQ of its completions.
    cq: Arc<Cq>,
}

impl Xrc {
    /// # Errors
    ///
    /// `EINVAL` without a domain or a CQ.
    fn of<P>(init: &SrqInitAttr<'_, P>) -> Result<Self>
    where
        P: ProviderData<Xrcd = XrcdId, Cq = Arc<Cq>>,
    {
        Ok(Self {
            domain: *init.xrcd().ok_or(EINVAL)?.data(),
            cq: init.cq().ok_or(EINVAL)?.data().clone(),
        })
    }
}

/// A shared receive queue.
#[pin_data]
pub(crate) struct Srq {
    number: u32,
    pd: PdId,
    xrc: Option<Xrc>,
    max_sge: u32,
    user: bool,
    /// Whether its requests could not be taken.
    broken: AtomicBool,
    events: Arc<SrqHandle>,
    /// Taken in any context, also inside of an engine's lock; nothing is locked inside.
    #[pin]
    state: SpinLockIrq<State>,
}

/// Checks the requested number of requests.
fn check_max_wr(max_wr: u32) -> Result {
    if max_wr == 0 || max_wr > limits::MAX_SRQ_WR {
        return Err(EINVAL);
    }
    Ok(())
}

impl Srq {
    /// Creates an SRQ: `create_srq`.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for an unsupported type, `EINVAL` for sizes beyond the limits, without the objects that the type has, and where
    /// user space has no room for the response, `ENOMEM`, `EFAULT`.
    pub(crate) fn create<P>(
        table: &Table<Self>,
        pd: PdId,
        init: &mut SrqInitAttr<'_, P>,
        events: Arc<SrqHandle>,
        user: Option<UserCommand<'_>>,
        ctx: &MaySleep,
    ) -> Result<Arc<Self>>
    where
        P: ProviderData<Xrcd = XrcdId, Cq = Arc<Cq>>,
    {
        if user.is_some_and(|user| user.udata.outlen() < RESPONSE) {
            return Err(EINVAL);
        }
        let xrc = match init.srq_type() {
            Some(SrqType::Basic) => None,
            Some(SrqType::Xrc) => Some(Xrc::of(init)?),
            Some(SrqType::Tm) | None => return Err(EOPNOTSUPP),
        };
        let attr = init.attr();
        check_max_wr(attr.max_wr)?;
        if attr.max_sge > limits::MAX_SRQ_SGE {
            return Err(EINVAL);
        }
        attr.max_sge = attr.max_sge.max(1);
        let mappings = user.map(|user| user.mappings);
        let posted = Posted::new(mappings, attr.max_wr, attr.max_sge, ctx)?;
        attr.max_wr = posted.capacity();
        let place = table.reserve(Gfp::kernel(ctx))?;
        let number = place.index();
        if let (Some(user), Posted::User(ring)) = (user, &posted) {
            user.udata
                .respond_all(&response(ring.mmap_info(), number))?;
        }
        let state = State {
            posted,
            limit: attr.srq_limit,
        };
        let srq = Arc::pin_init(
            pin_init!(Self {
                number,
                pd,
                xrc,
                max_sge: attr.max_sge,
                user: user.is_some(),
                broken: AtomicBool::new(false),
                events,
                state <- new_spinlock_irq!(state, "Srq::state"),
            }),
            GFP_KERNEL,
        )?;
        place.publish(srq.clone());
        Ok(srq)
    }

    /// The SRQ number, as used by the peer of an XRC connection.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The CQ of its completions, if it is for extended reliable connections; else they go to that of the QP.
    pub(crate) fn cq(&self) -> Option<&Arc<Cq>> {
        self.xrc.as_ref().map(|xrc| &xrc.cq)
    }

    /// Whether the targets of an XRC domain may take requests.
    pub(crate) fn is_of(&self, domain: XrcdId) -> bool {
        self.xrc.as_ref().is_some_and(|xrc| xrc.domain == domain)
    }

    /// Whether it belongs to user space.
    pub(crate) fn is_user(&self) -> bool {
        self.user
    }

    /// The protection domain of the requests.
    pub(crate) fn pd(&self) -> PdId {
        self.pd
    }

    /// Takes the oldest request, and copies its list to the start of `list`. Any context.
    ///
    /// When fewer requests than the limit are left, an event is raised, once.
    ///
    /// # Errors
    ///
    /// [`Broken`]: the program has broken the queue. The first time, `IB_EVENT_SRQ_ERR` is raised.
    pub(crate) fn take(&self, list: &mut [u8]) -> Result<Option<RecvWqe>, Broken> {
        let mut state = self.state.lock();
        if state.posted.is_broken() || self.is_broken() {
            drop(state);
            if !self.broken.swap(true, Ordering::AcqRel) {
                self.events.raise(SrqEvent::Err);
            }
            return Err(Broken);
        }
        let Some(wqe) = state.posted.take(self.max_sge, list) else {
            return Ok(None);
        };
        let low = state.posted.len() < state.limit;
        if low {
            state.limit = 0;
        }
        drop(state);
        if low {
            self.events.raise(SrqEvent::LimitReached);
        }
        Ok(Some(wqe))
    }

    /// Whether the queue is in error.
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Posts requests of a kernel consumer, or of a uverbs command: `post_srq_recv`. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a list that is too long, `ENOMEM` when the queue is full. All requests before the failing one are
    /// then posted.
    pub(crate) fn post(&self, wrs: &mut RecvWrs<'_>) -> Result {
        let mut state = self.state.lock();
        for wr in wrs {
            match &mut state.posted {
                Posted::User(ring) => wqe::post_recv(&wr, self.max_sge, ring)?,
                Posted::Kernel { inbox, capacity } => {
                    if inbox.len() >= *capacity {
                        return Err(ENOMEM);
                    }
                    inbox.push(|place, data| {
                        *place = Some(wqe::recv_from_kernel(&wr, self.max_sge, data)?);
                        Ok(())
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Changes the number of requests, or the limit: `modify_srq`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for sizes beyond the device's limits, a size below the limit or a limit above the size, and where the
    /// posted requests do not fit; `ENOMEM`, `EFAULT`. The SRQ is then unchanged.
    pub(crate) fn modify(
        &self,
        attr: &SrqAttr,
        mask: SrqAttrMask,
        user: Option<UserCommand<'_>>,
        ctx: &MaySleep,
    ) -> Result {
        let answer_at = match user {
            Some(user) => user.udata.read::<u64>(size_of::<u64>())?,
            None => 0,
        };
        let resized = mask.contains(SrqAttrMask::MAX_WR);
        let limited = mask.contains(SrqAttrMask::LIMIT);
        let now = self.query();
        if resized {
            check_max_wr(attr.max_wr)?;
        }
        let below_limit = resized && attr.max_wr < now.srq_limit;
        if below_limit || limited && attr.srq_limit > now.max_wr {
            return Err(EINVAL);
        }
        if resized {
            self.resize(attr.max_wr, user, answer_at, ctx)?;
        }
        if limited {
            self.state.lock().limit = attr.srq_limit;
        }
        Ok(())
    }

    /// Replaces the queue by one for `max_wr` requests, and writes the location of a user ring to `answer_at`.
    fn resize(
        &self,
        max_wr: u32,
        user: Option<UserCommand<'_>>,
        answer_at: u64,
        ctx: &MaySleep,
    ) -> Result {
        let mappings = user.map(|user| user.mappings);
        if mappings.is_some() != self.user {
            return Err(EINVAL);
        }
        let mut other = Posted::new(mappings, max_wr, self.max_sge, ctx)?;
        if let Posted::User(ring) = &other {
            let at = usize::try_from(answer_at).map_err(|_| EFAULT)?;
            let mut answer = UserSlice::new(UserPtr::from_addr(at), MmapInfo::SIZE).writer();
            answer.write_slice(&ring.mmap_info().to_bytes())?;
        }
        let mut state = self.state.lock();
        let moved = state.posted.move_to(&mut other);
        if moved.is_ok() {
            core::mem::swap(&mut state.posted, &mut other);
        }
        // Unlock first: freeing the old queue may sleep.
        drop(state);
        drop(other);
        moved
    }

    /// Returns the sizes and the limit: `query_srq`.
    pub(crate) fn query(&self) -> SrqAttr {
        let state = self.state.lock();
        SrqAttr {
            max_wr: state.posted.capacity(),
            max_sge: self.max_sge,
            srq_limit: state.limit,
        }
    }
}

/// Response of `create_srq` to user space.
fn response(ring: MmapInfo, number: u32) -> [u8; RESPONSE] {
    let mut bytes = [0; RESPONSE];
    bytes[..MmapInfo::SIZE].copy_from_slice(&ring.to_bytes());
    bytes[MmapInfo::SIZE..MmapInfo::SIZE + 4].copy_from_slice(&number.to_ne_bytes());
    bytes
}

const _: () = assert!(RESPONSE == size_of::<kernel_ext::bindings::rxe_create_srq_resp>());
