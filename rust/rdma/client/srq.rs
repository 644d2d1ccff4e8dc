// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: `struct ib_srq`.
//!
//! Queue pairs share it by their [`Config::srq`](super::qp::Config::srq). An event tells its owner when it runs low:
//!
//! ```
//! use kernel::{prelude::*, sync::Arc};
//! use rdma::{
//!     client::{
//!         srq::{Config, OnSrqEvent},
//!         work::Handler,
//!         Pd, Srq, Work,
//!     },
//!     MaySleep, SrqEvent,
//! };
//!
//! struct Low;
//!
//! impl OnSrqEvent for Low {
//!     fn srq_event(&self, event: SrqEvent) {
//!         pr_info!("{event:?}\n");
//!     }
//! }
//!
//! fn share<'d, H: Handler<'d>>(pd: &Pd<'d>, handler: H, sleep: &MaySleep) -> Result<Arc<Srq<'d>>> {
//!     let config = Config {
//!         max_receives: 64,
//!         max_pieces: 1,
//!         events: Some(Arc::new(Low, GFP_KERNEL)?),
//!     };
//!     let srq = Srq::new(pd, config, sleep)?;
//!     srq.post_receive(Work::new(pd.device(), 4096, handler, sleep)?)?;
//!     srq.arm_limit(16, sleep)?;
//!     Ok(srq)
//! }
//! ```
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    marker::PhantomData,
    ops::Deref,
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicBool, Ordering},
};

use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*,
    sync::{rcu::read_lock, Arc, UniqueArc},
};
use kernel_ext::{error::ESHUTDOWN, sync::rcu};
use rdma_bindings::{self as bindings, ib_event, ib_srq, ib_srq_attr, ib_srq_init_attr, ib_wc};

use super::{
    deferred::{Object, Owned, UninitObject},
    device::{made, Brand},
    request::ReceiveSlot,
    resources::Resources,
    slots::Slots,
    work::{Handler, PostError, Work},
    DropsAnywhere, Pd,
};
use crate::{MaySleep, SrqEvent};

/// A listener to an SRQ's events.
pub trait OnSrqEvent: Send + Sync {
    /// Handles an event. Any context.
    fn srq_event(&self, event: SrqEvent);
}

/// The attributes of a new SRQ.
pub struct Config<'d> {
    /// The capacity in requests.
    pub max_receives: u32,
    /// The maximum number of memory pieces of a request, up to [`MAX_PIECES`](super::work::MAX_PIECES).
    pub max_pieces: u32,
    /// The listener to its events.
    pub events: Option<Arc<dyn OnSrqEvent + 'd>>,
}

/// A shared receive queue for posting, in any context. Borrowed from the [`Srq`], or from a [`SrqHandle`].
///
/// # Invariants
///
/// `raw` is the queue. It is used only in RCU read-side critical sections that begin before `closing` is set.
pub struct SrqRef<'d> {
    raw: NonNull<ib_srq>,
    /// Whether the queue is about to be destroyed.
    closing: AtomicBool,
    lkey: u32,
    slots: Arc<Slots>,
    _brand: Brand<'d>,
}

/// A shared receive queue. Dropping it, in process context, returns the requests that no queue pair has taken to their handlers.
pub struct Srq<'d>(Owned<SrqInner<'d>>);

/// A shared receive queue with its ownership.
///
/// # Invariants
///
/// `self` owns the queue.
struct SrqInner<'d> {
    shared: Arc<SrqRef<'d>>,
    /// The listener, which is the context of the C queue, if there is one.
    _events: Option<KBox<Arc<dyn OnSrqEvent + 'd>>>,
    _pd: Pd<'d>,
}

/// A counted handle of a shared receive queue, for posting in any context, also in the handlers of its requests. It does not keep
/// the queue: after that is destroyed, posting fails. It may be dropped in any context.
#[derive(Clone)]
pub struct SrqHandle<'d>(Arc<SrqRef<'d>>);

impl !DropsAnywhere for Srq<'_> {}

// SAFETY: Shared receive queues may be used from any thread.
unsafe impl Send for SrqRef<'_> {}
// SAFETY: Shared receive queues may be used from any thread.
unsafe impl Sync for SrqRef<'_> {}

impl<'d> Deref for Srq<'d> {
    type Target = SrqRef<'d>;

    fn deref(&self) -> &SrqRef<'d> {
        &self.0.shared
    }
}

impl<'d> Deref for SrqHandle<'d> {
    type Target = SrqRef<'d>;

    fn deref(&self) -> &SrqRef<'d> {
        &self.0
    }
}

impl<'d> Srq<'d> {
    /// Creates a shared receive queue.
    ///
    /// # Errors
    ///
    /// `EINVAL` for sizes that exceed the device's limits, `EOPNOTSUPP` for a device without SRQs, `ENOMEM`, and those of the
    /// driver.
    pub fn new(pd: &Pd<'d>, config: Config<'d>, sleep: &MaySleep) -> Result<Arc<Self>> {
        sleep.check();
        let slots = Slots::new(config.max_receives)?;
        let events = match config.events {
            Some(events) => Some(KBox::new(events, GFP_KERNEL)?),
            None => None,
        };
        let (blank, shared) = (
            UninitObject::new(GFP_KERNEL)?,
            UniqueArc::new_uninit(GFP_KERNEL)?,
        );
        let srq = UniqueArc::new_uninit(GFP_KERNEL)?;
        let mut init: ib_srq_init_attr = pin_init::zeroed();
        if let Some(events) = &events {
            init.event_handler = Some(srq_event);
            init.srq_context = core::ptr::from_ref(&**events).cast_mut().cast();
        }
        init.attr.max_wr = config.max_receives;
        init.attr.max_sge = config.max_pieces;
        init.srq_type = bindings::IB_SRQT_BASIC;
        // SAFETY: The protection domain is valid, and the context is valid until the queue is destroyed.
        let raw = made(unsafe {
            bindings::ib_create_srq_user(pd.as_raw(), &mut init, null_mut(), null_mut())
        })?;
        let shared = shared.write(SrqRef {
            raw,
            closing: AtomicBool::new(false),
            lkey: pd.lkey(),
            slots,
            _brand: PhantomData,
        });
        // INVARIANT: The queue was just created.
        let inner = SrqInner {
            shared: shared.into(),
            _events: events,
            _pd: pd.clone(),
        };
        Ok(srq.write(Self(blank.owned(pd.device(), inner))).into())
    }

    /// Creates a handle for posting.
    pub fn handle(&self) -> SrqHandle<'d> {
        SrqHandle(self.0.shared.clone())
    }

    /// The capacity in requests.
    pub(super) fn max_receives(&self) -> usize {
        self.slots.len()
    }

    /// Arms the limit: an event is raised once when fewer requests than `limit` are left. 0 disarms it.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a limit that exceeds the capacity, and those of the driver.
    pub fn arm_limit(&self, limit: u32, sleep: &MaySleep) -> Result {
        sleep.check();
        let mut attr = ib_srq_attr {
            srq_limit: limit,
            ..pin_init::zeroed()
        };
        // SAFETY: By the type invariants the queue is valid.
        to_result(unsafe {
            bindings::ib_modify_srq(self.as_raw(), &mut attr, bindings::IB_SRQ_LIMIT)
        })
    }

    /// Queries the armed limit; 0 for none.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn limit(&self, sleep: &MaySleep) -> Result<u32> {
        sleep.check();
        let mut attr: ib_srq_attr = pin_init::zeroed();
        // SAFETY: By the type invariants; `attr` is valid for writes.
        to_result(unsafe { bindings::ib_query_srq(self.as_raw(), &mut attr) })?;
        Ok(attr.srq_limit)
    }
}

impl<'d> SrqRef<'d> {
    pub(super) fn as_raw(&self) -> *mut ib_srq {
        self.raw.as_ptr()
    }

    /// Posts a receive request for the work's memory. Any context.
    ///
    /// # Errors
    ///
    /// `ESHUTDOWN` while the queue is being destroyed, `ENOMEM` if the queue is full, and those of the driver.
    pub fn post_receive<H: Handler<'d>>(
        &self,
        work: Pin<KBox<Work<'d, H>>>,
    ) -> Result<(), PostError<'d, H>> {
        let Some(slot) = self.slots.take() else {
            let error = ENOMEM;
            return Err(PostError { error, work });
        };
        let nth = slot.nth();
        let posted = work.hand_over(Resources::Srq(slot), None, None);
        self.slots.set(nth, posted.cqe());
        let mut request = ReceiveSlot::new(&posted, self.lkey);
        let _inside = read_lock();
        if self.closing.load(Ordering::SeqCst) {
            return posted.outcome(Err(ESHUTDOWN));
        }
        // SAFETY: By the type invariants. The driver copies the request; the work is valid until its completion.
        let ret = unsafe { bindings::ib_post_srq_recv(self.as_raw(), request.raw(), null_mut()) };
        posted.outcome(to_result(ret))
    }
}

impl Object for SrqInner<'_> {
    const WHAT: &'static str = "a shared receive queue";

    fn destroy(&self, sleep: &MaySleep) -> Result {
        let srq = &self.shared;
        srq.closing.store(true, Ordering::SeqCst);
        rcu::synchronize_expedited(sleep);
        // SAFETY: By the type invariants `self` owns the queue; its queue pairs hold references, so none is left.
        to_result(unsafe { bindings::ib_destroy_srq_user(srq.as_raw(), null_mut()) })?;
        while let Some(cqe) = srq.slots.any() {
            let mut wc = ib_wc {
                status: bindings::IB_WC_WR_FLUSH_ERR,
                opcode: bindings::IB_WC_RECV,
                ..pin_init::zeroed()
            };
            wc.__bindgen_anon_1.wr_cqe = cqe;
            // SAFETY: The request was posted. The queue and its queue pairs are destroyed, and their completions are handled, so
            // that the request is completed here alone. It frees its slot.
            unsafe {
                if let Some(done) = (*cqe).done {
                    done(null_mut(), &mut wc);
                }
            }
        }
        Ok(())
    }
}

/// The C entry point of events of a shared receive queue.
///
/// # Safety
///
/// The core calls it with an event and the context of a queue that is not destroyed yet.
unsafe extern "C" fn srq_event(event: *mut ib_event, context: *mut c_void) {
    // SAFETY: By the safety requirements the context is the listener that `Srq::new` has set.
    let (event, listener) = unsafe { ((*event).event, &*context.cast::<Arc<dyn OnSrqEvent>>()) };
    if let Ok(event) = SrqEvent::try_from(event) {
        listener.srq_event(event);
    }
}
