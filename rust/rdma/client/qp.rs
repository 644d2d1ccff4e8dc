// SPDX-License-Identifier: GPL-2.0

//! Queue pairs whose transport and state are part of their type: `struct ib_qp`.
//!
//! | state | requests that may be posted | next |
//! |---|---|---|
//! | [`Reset`] | nothing | [`into_init`](Qp::into_init) |
//! | [`Init`] | receive requests | [`into_rtr`](Qp::into_rtr) |
//! | [`Rtr`] | receive requests | [`into_rts`](Qp::into_rts) |
//! | [`Rts`] | all requests | [`into_sqd`](Qp::into_sqd) |
//! | [`Sqd`] | all; send requests wait | [`resume`](Qp::resume) |
//! | [`Err`](struct@Err) | all; they are flushed | [`into_reset`](Qp::into_reset) |
//!
//! Each state may change to [`Err`](struct@Err). The device may do that by itself too: then requests are flushed, and the
//! type does not change. Peers exchange their numbers and addresses by their own protocol, or by the connection manager
//! (crate `rdma_cm`):
//!
//! ```
//! use kernel::{prelude::*, sync::Arc};
//! use rdma::{
//!     client::{
//!         op::RcOp,
//!         qp::{Config, ConnectedInit, Peer, Rc, Rts, Sending},
//!         work::Handler,
//!         Cq, Pd, Qp, Work,
//!     },
//!     Access, AhFields, MaySleep, Mtu,
//! };
//!
//! /// Connects to queue pair `qp_num` at the end of a path, and sends a message.
//! fn connect<'d, H: Handler<'d>>(
//!     pd: &Pd<'d>,
//!     cq: &Arc<Cq<'d>>,
//!     (path, qp_num): (AhFields, u32),
//!     message: Pin<KBox<Work<'d, H>>>,
//!     sleep: &MaySleep,
//! ) -> Result<Qp<'d, Rc, Rts>> {
//!     let config = Config {
//!         send_cq: cq,
//!         recv_cq: cq,
//!         max_sends: 16,
//!         max_receives: 16,
//!         max_pieces: 1,
//!         srq: None,
//!         events: None,
//!     };
//!     let init = ConnectedInit {
//!         port: 1,
//!         pkey_index: 0,
//!         access: Access::LOCAL_WRITE,
//!     };
//!     let peer = Peer {
//!         path,
//!         mtu: Mtu::B1024,
//!         qp_num,
//!         psn: 0,
//!         reads: 1,
//!         rnr_timer: 12,
//!     };
//!     let sending = Sending {
//!         psn: 0,
//!         reads: 1,
//!         timeout: 14,
//!         retries: 7,
//!         rnr_retries: 7,
//!     };
//!     let qp = Qp::<Rc, _>::new(pd, config, sleep)?.into_init(&init, sleep)?;
//!     // From here on it may receive, from the last line on it may send: before, `post_send` does not compile.
//!     let qp = qp.into_rtr(&peer, sleep)?.into_rts(&sending, sleep)?;
//!     qp.post_send(message, RcOp::Send)?;
//!     Ok(qp)
//! }
//! ```
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    marker::PhantomData,
    ops::Deref,
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering},
};

use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    prelude::*,
    sync::Arc,
};
use rdma_bindings::{self as bindings, ib_event, ib_qp, ib_qp_attr, ib_qp_init_attr};

use super::{
    credit::{Queue, Reserved, DRAIN_REQUESTS},
    deferred::{Owned, UninitObject},
    device::made,
    event::OnQpEvent,
    Cq, DropsAnywhere, Pd, Srq,
};
use crate::{abi::qp::QpAttrMask, MaySleep, QpEvent, QpState};

mod drain;
mod drain_cqe;
mod post;
pub(super) mod shared;
pub(super) mod state;
pub(super) mod transport;

use drain_cqe::Drain;
use shared::Shared;

pub use shared::QpRef;
pub use state::{CanReceive, CanSend, Err, Init, Reset, Rtr, Rts, Sqd, State};
pub use transport::{
    ConnectedInit, DatagramInit, Peer, Rc, Sending, Transport, Uc, UcPeer, UcSending, Ud, UdSending,
};

/// The attributes of a new queue pair.
pub struct Config<'a, 'd> {
    /// The completion queue of send requests.
    pub send_cq: &'a Arc<Cq<'d>>,
    /// The completion queue of receive requests.
    pub recv_cq: &'a Arc<Cq<'d>>,
    /// The capacity of the send queue in requests.
    pub max_sends: u32,
    /// The capacity of the receive queue in requests.
    pub max_receives: u32,
    /// The maximum number of memory pieces of a request, up to [`MAX_PIECES`](super::work::MAX_PIECES).
    pub max_pieces: u32,
    /// The shared receive queue, in place of a receive queue.
    pub srq: Option<&'a Arc<Srq<'d>>>,
    /// The listener to its events.
    pub events: Option<Arc<dyn OnQpEvent + 'd>>,
}

/// A queue pair with its ownership. It is the context of the C queue pair.
///
/// # Invariants
///
/// `self` owns the queue pair after the address in `shared` is set. Completions only use `shared`, which is at the
/// beginning.
#[repr(C)]
pub(super) struct Owner<'d> {
    shared: Arc<Shared<'d>>,
    /// Whether it has left the reset state, so that requests may have been posted.
    used: AtomicBool,
    pd: Pd<'d>,
    send_cq: Arc<Cq<'d>>,
    recv_cq: Arc<Cq<'d>>,
    srq: Option<Arc<Srq<'d>>>,
    events: Option<Arc<dyn OnQpEvent + 'd>>,
    drain: Pin<KBox<Drain>>,
    _reserved: [Reserved; 2],
}

/// A queue pair. Dropping it, in process context, waits until all posted requests are handled.
pub struct Qp<'d, T: Transport, S: State> {
    owner: Owned<Owner<'d>>,
    _type: PhantomData<(T, S)>,
}

impl<T: Transport, S: State> !DropsAnywhere for Qp<'_, T, S> {}

/// A counted handle of a queue pair, for posting in any context. It does not keep the queue pair: after that is destroyed or
/// reset, posting fails. It may be dropped in any context.
pub struct QpHandle<'d, T: Transport, S: State> {
    shared: Arc<Shared<'d>>,
    _type: PhantomData<(T, S)>,
}

/// The error of a state change, with the queue pair. The queue pair is unchanged, or the device has moved it to the error
/// state.
pub struct Failed<'d, T: Transport, S: State> {
    /// The error.
    pub error: Error,
    /// The queue pair.
    pub qp: Qp<'d, T, S>,
}

impl<T: Transport, S: State> From<Failed<'_, T, S>> for Error {
    /// Destroys the queue pair.
    fn from(failed: Failed<'_, T, S>) -> Self {
        failed.error
    }
}

impl<'d, T: Transport, S: State> Deref for Qp<'d, T, S> {
    type Target = QpRef<'d, T, S>;

    fn deref(&self) -> &QpRef<'d, T, S> {
        QpRef::cast(&self.owner.shared)
    }
}

impl<'d, T: Transport, S: State> Deref for QpHandle<'d, T, S> {
    type Target = QpRef<'d, T, S>;

    fn deref(&self) -> &QpRef<'d, T, S> {
        QpRef::cast(&self.shared)
    }
}

impl<T: Transport, S: State> Clone for QpHandle<'_, T, S> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            _type: PhantomData,
        }
    }
}

impl<'d, T: Transport> Qp<'d, T, Reset> {
    /// Creates a queue pair.
    ///
    /// # Errors
    ///
    /// `EINVAL` for attributes that the device does not support; `ENOMEM`, also where a completion queue has no free entries
    /// for draining a queue, or for all requests of an SRQ; and those of the driver.
    pub fn new(pd: &Pd<'d>, config: Config<'_, 'd>, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        let reserved = [
            Reserved::drain(config.send_cq.free_entries())?,
            match config.srq {
                Some(srq) => {
                    let address = srq.as_raw().addr();
                    Reserved::srq(config.recv_cq.free_entries(), address, srq.max_receives())?
                }
                None => Reserved::drain(config.recv_cq.free_entries())?,
            },
        ];
        let shared = Shared {
            raw: AtomicPtr::new(null_mut()),
            number: AtomicU32::new(0),
            qp_type: T::TYPE.as_raw(),
            lkey: pd.lkey(),
            closing: AtomicBool::new(false),
            can_send: AtomicBool::new(false),
            outstanding: AtomicUsize::new(0),
            sends: Queue::new(config.max_sends, config.send_cq.free_entries()),
            receives: Queue::new(config.max_receives, config.recv_cq.free_entries()),
            _brand: PhantomData,
        };
        let owner = Owner {
            shared: Arc::new(shared, GFP_KERNEL)?,
            used: AtomicBool::new(false),
            pd: pd.clone(),
            send_cq: config.send_cq.clone(),
            recv_cq: config.recv_cq.clone(),
            srq: config.srq.cloned(),
            events: config.events,
            drain: Drain::new()?,
            _reserved: reserved,
        };
        let owner = UninitObject::new(GFP_KERNEL)?.owned(pd.device(), owner);
        let mut init: ib_qp_init_attr = pin_init::zeroed();
        init.event_handler = Some(qp_event);
        init.qp_context = core::ptr::from_ref(&*owner).cast_mut().cast();
        init.send_cq = owner.send_cq.as_raw();
        init.recv_cq = owner.recv_cq.as_raw();
        init.cap.max_send_wr = config.max_sends.saturating_add(DRAIN_REQUESTS);
        init.cap.max_send_sge = config.max_pieces;
        match &owner.srq {
            Some(srq) => init.srq = srq.as_raw(),
            None => {
                init.cap.max_recv_wr = config.max_receives.saturating_add(DRAIN_REQUESTS);
                init.cap.max_recv_sge = config.max_pieces;
            }
        }
        init.sq_sig_type = bindings::IB_SIGNAL_REQ_WR;
        init.qp_type = T::TYPE.as_raw();
        // SAFETY: The queue pair holds references to the objects that it uses; its context is valid until it is destroyed.
        let raw = made(unsafe {
            let name = pd.device().owner().as_char_ptr();
            bindings::ib_create_qp_kernel(pd.as_raw(), &mut init, name)
        })?;
        // SAFETY: The queue pair was just created; the number is constant.
        let number = unsafe { raw.as_ref() }.qp_num;
        owner.shared.number.store(number, Ordering::Relaxed);
        // INVARIANT: The queue pair was just created.
        owner.shared.raw.store(raw.as_ptr(), Ordering::Release);
        Ok(Self {
            owner,
            _type: PhantomData,
        })
    }

    /// Initialises the queue pair, for a port.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown port, and those of the driver.
    pub fn into_init(
        self,
        init: &T::Init,
        sleep: &MaySleep,
    ) -> Result<Qp<'d, T, Init>, Failed<'d, T, Reset>> {
        self.become_with(|attr| T::fill_init(init, attr), sleep)
    }
}

impl<'d, T: Transport> Qp<'d, T, Init> {
    /// Moves the queue pair to the ready-to-receive state, connected to the peer if the transport has one.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid path, and those of the driver.
    pub fn into_rtr(
        self,
        peer: &T::Peer,
        sleep: &MaySleep,
    ) -> Result<Qp<'d, T, Rtr>, Failed<'d, T, Init>> {
        self.become_with(|attr| T::fill_peer(peer, attr), sleep)
    }
}

impl<'d, T: Transport> Qp<'d, T, Rtr> {
    /// Moves the queue pair to the ready-to-send state.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn into_rts(
        self,
        sending: &T::Sending,
        sleep: &MaySleep,
    ) -> Result<Qp<'d, T, Rts>, Failed<'d, T, Rtr>> {
        self.become_with(|attr| T::fill_sending(sending, attr), sleep)
    }
}

impl<'d, T: Transport> Qp<'d, T, Rts> {
    /// Moves the queue pair to the send-queue-drain state, in which it starts no send requests. When those under way have
    /// ended, the event [`QpEvent::SqDrained`] is raised.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn into_sqd(self, sleep: &MaySleep) -> Result<Qp<'d, T, Sqd>, Failed<'d, T, Rts>> {
        let fill = |attr: &mut ib_qp_attr| {
            attr.en_sqd_async_notify = 1;
            QpAttrMask::EN_SQD_ASYNC_NOTIFY
        };
        self.become_with(fill, sleep)
    }
}

impl<'d, T: Transport> Qp<'d, T, Sqd> {
    /// Moves the queue pair back to the ready-to-send state.
    ///
    /// # Errors
    ///
    /// Those of the driver: requests may still be under way.
    pub fn resume(self, sleep: &MaySleep) -> Result<Qp<'d, T, Rts>, Failed<'d, T, Sqd>> {
        self.become_with(|_| QpAttrMask::empty(), sleep)
    }
}

impl<'d, T: Transport> Qp<'d, T, Err> {
    /// Resets the queue pair, after all posted requests are handled.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn into_reset(self, sleep: &MaySleep) -> Result<Qp<'d, T, Reset>, Failed<'d, T, Err>> {
        if let Result::Err(error) = self.owner.drain(sleep) {
            self.owner.shared.closing.store(false, Ordering::SeqCst);
            return Result::Err(Failed { error, qp: self });
        }
        self.owner.shared.can_send.store(false, Ordering::Release);
        let reset = self.become_with(|_| QpAttrMask::empty(), sleep);
        let owner = match &reset {
            Ok(qp) => &qp.owner,
            Result::Err(failed) => &failed.qp.owner,
        };
        owner.used.store(reset.is_err(), Ordering::Release);
        if reset.is_ok() {
            owner.drain.reset();
        }
        owner.shared.closing.store(false, Ordering::SeqCst);
        reset
    }
}

impl<'d, T: Transport, S: State> Qp<'d, T, S> {
    /// Changes the state.
    fn become_with<N: State>(
        self,
        fill: impl FnOnce(&mut ib_qp_attr) -> QpAttrMask,
        sleep: &MaySleep,
    ) -> Result<Qp<'d, T, N>, Failed<'d, T, S>> {
        let mut attr: ib_qp_attr = pin_init::zeroed();
        let mask = fill(&mut attr) | QpAttrMask::STATE;
        attr.qp_state = N::STATE.as_raw();
        // SAFETY: The attributes in the mask are filled in.
        unsafe { self.become_raw(&mut attr, mask, sleep) }
    }

    /// Changes the state with the attributes of a connection manager.
    ///
    /// # Errors
    ///
    /// Those of the driver; `EINVAL` for another state than `N`, and for an unknown port.
    ///
    /// # Safety
    ///
    /// The attributes in the mask are filled in.
    pub unsafe fn become_raw<N: State>(
        self,
        attr: &mut ib_qp_attr,
        mask: QpAttrMask,
        sleep: &MaySleep,
    ) -> Result<Qp<'d, T, N>, Failed<'d, T, S>> {
        sleep.check();
        // The stock core does not check the port.
        let device = self.owner.pd.device();
        let no_port =
            mask.contains(QpAttrMask::PORT) && !device.scope.device.is_port_valid(attr.port_num);
        if attr.qp_state != N::STATE.as_raw() || no_port {
            let (error, qp) = (EINVAL, self);
            return Result::Err(Failed { error, qp });
        }
        self.owner.used.store(true, Ordering::Release);
        let raw = self.owner.shared.raw.load(Ordering::Acquire);
        let bits = mask.bits() as c_int;
        // SAFETY: By the type invariants and the safety requirements.
        let ret = to_result(unsafe { bindings::ib_modify_qp(raw, attr, bits) });
        if let Result::Err(error) = ret {
            return Result::Err(Failed { error, qp: self });
        }
        if N::STATE == QpState::Rtr {
            self.owner.drain.begin_receiving();
        }
        if N::STATE == QpState::Rts {
            self.owner.shared.can_send.store(true, Ordering::Release);
        }
        Ok(Qp {
            owner: self.owner,
            _type: PhantomData,
        })
    }

    /// Moves the queue pair to the error state, which flushes all requests.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn into_err(self, sleep: &MaySleep) -> Result<Qp<'d, T, Err>, Failed<'d, T, S>> {
        self.become_with(|_| QpAttrMask::empty(), sleep)
    }

    /// Queries the actual state from the device, which may have moved the queue pair to the error state.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn query_state(&self, sleep: &MaySleep) -> Result<QpState> {
        sleep.check();
        let mut attr: ib_qp_attr = pin_init::zeroed();
        let mut init: ib_qp_init_attr = pin_init::zeroed();
        let mask = QpAttrMask::STATE.bits() as c_int;
        // SAFETY: By the type invariants; the results are valid for writes.
        to_result(unsafe { bindings::ib_query_qp(self.as_raw(), &mut attr, mask, &mut init) })?;
        QpState::try_from(attr.qp_state)
    }

    /// Creates a handle for posting.
    pub fn handle(&self) -> QpHandle<'d, T, S> {
        QpHandle {
            shared: self.owner.shared.clone(),
            _type: PhantomData,
        }
    }

    /// The protection domain.
    pub fn pd(&self) -> &Pd<'d> {
        &self.owner.pd
    }

    /// Whether receive requests come from an SRQ.
    pub fn has_srq(&self) -> bool {
        self.owner.srq.is_some()
    }

    /// The C structure, which is valid as long as `self`, for a connection manager.
    pub fn as_raw(&self) -> *mut ib_qp {
        self.owner.shared.raw.load(Ordering::Acquire)
    }
}

/// The C entry point of events of a queue pair.
///
/// # Safety
///
/// The core calls it with an event and the context of a queue pair that is not destroyed yet.
unsafe extern "C" fn qp_event(event: *mut ib_event, context: *mut c_void) {
    // SAFETY: By the safety requirements the context is the `Owner` that `Qp::new` has set.
    let (event, owner) = unsafe { ((*event).event, &*context.cast::<Owner<'_>>()) };
    let Ok(event) = QpEvent::try_from(event) else {
        return;
    };
    if let Some(listener) = &owner.events {
        listener.qp_event(event);
    }
    // After the listener: a queue pair that was drained has delivered its events.
    if event == QpEvent::LastWqeReached {
        owner.drain.last_wqe_reached();
    }
}
