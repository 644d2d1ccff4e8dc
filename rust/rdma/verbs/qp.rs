// SPDX-License-Identifier: GPL-2.0

//! Queue pairs of clients.

use core::{
    ops::Deref,
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};

use kernel::{
    error::to_result,
    ffi::{c_int, c_void},
    prelude::*,
    sync::Arc,
};
use rdma_bindings::{
    self as bindings, ib_event, ib_qp, ib_qp_attr, ib_qp_init_attr, ib_rdma_wr, ib_recv_wr,
    rdma_ah_attr,
};

use super::{
    event::OnQpEvent,
    made,
    work::{outcome, Handler, PostError, Work},
    Cq, Pd,
};
use crate::{
    qp::QpAttrMask, wr::Remote, Access, AhFields, MaySleep, Mtu, QpEvent, QpState, QpType,
};

/// What a queue pair is to be like.
pub struct Config<'a> {
    /// The transport service.
    pub qp_type: QpType,
    /// Where requests to send are completed.
    pub send_cq: &'a Arc<Cq>,
    /// Where requests to receive are completed.
    pub recv_cq: &'a Arc<Cq>,
    /// How many requests to send may be posted.
    pub max_sends: u32,
    /// How many requests to receive may be posted.
    pub max_receives: u32,
    /// Who is told of its events.
    pub events: Option<Arc<dyn OnQpEvent>>,
}

/// A queue pair, as its handlers see it: requests can be posted.
///
/// # Invariants
///
/// `raw` is the queue pair from its creation on.
pub struct QpRef {
    raw: AtomicPtr<ib_qp>,
    /// It has left the reset state, so requests may have been posted.
    used: AtomicBool,
    /// It is about to be destroyed.
    closing: AtomicBool,
    pd: Arc<Pd>,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
    events: Option<Arc<dyn OnQpEvent>>,
}

/// A queue pair. Dropping it, not in a handler of it, waits until all that is posted has been handled.
///
/// # Invariants
///
/// The queue pair is ours, and its context is the `QpRef`, which stays until it is destroyed.
pub struct Qp(NonNull<QpRef>);

// SAFETY: Queue pairs may be used from any thread.
unsafe impl Send for Qp {}
// SAFETY: As above.
unsafe impl Sync for Qp {}

impl Deref for Qp {
    type Target = QpRef;

    fn deref(&self) -> &QpRef {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
    }
}

/// What a queue is drained with takes room for a request.
const DRAIN_REQUESTS: u32 = 1;

impl Qp {
    /// Makes a queue pair.
    ///
    /// # Errors
    ///
    /// `EINVAL` for what the device has not, and for completion queues of another device; `ENOMEM`, and what the driver answers.
    pub fn new(pd: &Arc<Pd>, config: Config<'_>, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        let device = pd.device().as_raw();
        let is_elsewhere = |cq: &Cq| cq.device().as_raw() != device;
        if is_elsewhere(config.send_cq) || is_elsewhere(config.recv_cq) {
            return Err(EINVAL);
        }
        let shared = KBox::new(
            QpRef {
                raw: AtomicPtr::new(null_mut()),
                used: AtomicBool::new(false),
                closing: AtomicBool::new(false),
                pd: pd.clone(),
                send_cq: config.send_cq.clone(),
                recv_cq: config.recv_cq.clone(),
                events: config.events,
            },
            GFP_KERNEL,
        )?;
        let mut init: ib_qp_init_attr = pin_init::zeroed();
        init.event_handler = Some(qp_event);
        init.qp_context = core::ptr::from_ref(&*shared).cast_mut().cast();
        init.send_cq = shared.send_cq.as_raw();
        init.recv_cq = shared.recv_cq.as_raw();
        init.cap.max_send_wr = config.max_sends.saturating_add(DRAIN_REQUESTS);
        init.cap.max_recv_wr = config.max_receives.saturating_add(DRAIN_REQUESTS);
        init.cap.max_send_sge = 1;
        init.cap.max_recv_sge = 1;
        init.sq_sig_type = bindings::IB_SIGNAL_REQ_WR;
        init.qp_type = config.qp_type.as_raw();
        // SAFETY: The queue pair has references to what it uses; its context stays until it is destroyed.
        let raw = made(unsafe {
            let owner = pd.device().owner.as_char_ptr();
            bindings::ib_create_qp_kernel(pd.as_raw(), &mut init, owner)
        })?;
        shared.raw.store(raw.as_ptr(), Ordering::Release);
        // INVARIANT: It was just made.
        Ok(Self(NonNull::from(KBox::leak(shared))))
    }

    /// Changes the queue pair.
    ///
    /// # Errors
    ///
    /// `EINVAL` where that cannot be in its state, and what the driver answers.
    pub fn modify(&self, mut change: Change, sleep: &MaySleep) -> Result {
        sleep.check();
        self.used.store(true, Ordering::Release);
        let mask = change.mask.bits() as c_int;
        // SAFETY: By the type invariants; the mask says what is filled in.
        to_result(unsafe { bindings::ib_modify_qp(self.as_raw(), &mut change.attr, mask) })
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        if self.used.load(Ordering::Acquire) {
            let drain = || {
                // SAFETY: By the type invariants. Handlers that were running when `closing` was set may have posted, and
                // have returned after the first time; the second one flushes that.
                unsafe {
                    bindings::ib_drain_qp(self.as_raw());
                    bindings::ib_drain_qp(self.as_raw());
                }
            };
            if Arc::ptr_eq(&self.send_cq, &self.recv_cq) {
                self.send_cq.while_not_polled(drain);
            } else {
                self.send_cq
                    .while_not_polled(|| self.recv_cq.while_not_polled(drain));
            }
        }
        // SAFETY: By the type invariants.
        let ret = unsafe { bindings::ib_destroy_qp_user(self.as_raw(), null_mut()) };
        if ret != 0 {
            let owner = self.pd.device().owner;
            pr_warn!("a queue pair of {owner} cannot be destroyed: {ret}\n");
            return;
        }
        // SAFETY: The queue pair is gone, and so is who used its context.
        drop(unsafe { KBox::from_raw(self.0.as_ptr()) });
    }
}

/// What is asked of the peer, or is to go to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// A message.
    Message,
    /// A message, and immediate data.
    MessageWithImmediate([u8; 4]),
    /// The bytes are written to the peer's memory.
    Write(Remote),
    /// So they are, and immediate data tells the peer.
    WriteWithImmediate(Remote, [u8; 4]),
    /// The peer's memory is read.
    Read(Remote),
}

impl SendOp {
    /// The opcode, immediate data, and the place in the peer's memory.
    fn parts(self) -> (u32, Option<[u8; 4]>, Remote) {
        let none = Remote::default();
        match self {
            Self::Message => (bindings::IB_WR_SEND, None, none),
            Self::MessageWithImmediate(data) => (bindings::IB_WR_SEND_WITH_IMM, Some(data), none),
            Self::Write(remote) => (bindings::IB_WR_RDMA_WRITE, None, remote),
            Self::WriteWithImmediate(remote, data) => {
                (bindings::IB_WR_RDMA_WRITE_WITH_IMM, Some(data), remote)
            }
            Self::Read(remote) => (bindings::IB_WR_RDMA_READ, None, remote),
        }
    }
}

impl QpRef {
    fn as_raw(&self) -> *mut ib_qp {
        self.raw.load(Ordering::Acquire)
    }

    /// The number of the queue pair.
    pub fn number(&self) -> u32 {
        // SAFETY: By the type invariants; the member is constant.
        unsafe { (*self.as_raw()).qp_num }
    }

    /// Fails while the queue pair is being destroyed, and for memory that is mapped for another device.
    fn check<H: Handler>(
        &self,
        work: Pin<KBox<Work<H>>>,
    ) -> Result<Pin<KBox<Work<H>>>, PostError<H>> {
        if self.closing.load(Ordering::SeqCst) {
            let error = Error::from_errno(-(bindings::ESHUTDOWN as c_int));
            return Err(PostError { error, work });
        }
        if !work.is_for(self.pd.device()) {
            let error = EINVAL;
            return Err(PostError { error, work });
        }
        Ok(work)
    }

    /// Posts a request to send up to `length` bytes of the work's memory, or to read into them. Any context.
    ///
    /// # Errors
    ///
    /// `ESHUTDOWN` while the queue pair is being destroyed, `ENOMEM` where there is no room, `EINVAL` in its state, and for
    /// memory that is mapped for another device.
    pub fn post_send<H: Handler>(
        &self,
        work: Pin<KBox<Work<H>>>,
        op: SendOp,
        length: u32,
    ) -> Result<(), PostError<H>> {
        let posted = self.check(work)?.hand_over();
        outcome(posted, |posted| {
            let mut sge = posted.sge(length, self.pd.lkey());
            let (opcode, immediate, remote) = op.parts();
            let mut request: ib_rdma_wr = pin_init::zeroed();
            request.wr.__bindgen_anon_1.wr_cqe = posted.cqe();
            request.wr.sg_list = &mut sge;
            request.wr.num_sge = 1;
            request.wr.opcode = opcode;
            request.wr.send_flags = bindings::IB_SEND_SIGNALED as c_int;
            if let Some(data) = immediate {
                request.wr.ex.imm_data = u32::from_ne_bytes(data);
            }
            request.remote_addr = remote.addr;
            request.rkey = remote.rkey;
            // SAFETY: By the type invariants. The driver copies the request; the work stays until it is completed.
            unsafe { bindings::ib_post_send(self.as_raw(), &request.wr, null_mut()) }
        })
    }

    /// Posts a request to receive into the work's memory. Any context.
    ///
    /// # Errors
    ///
    /// As for [`Self::post_send`].
    pub fn post_receive<H: Handler>(&self, work: Pin<KBox<Work<H>>>) -> Result<(), PostError<H>> {
        let posted = self.check(work)?.hand_over();
        outcome(posted, |posted| {
            let mut sge = posted.sge(u32::MAX, self.pd.lkey());
            let mut request: ib_recv_wr = pin_init::zeroed();
            request.__bindgen_anon_1.wr_cqe = posted.cqe();
            request.sg_list = &mut sge;
            request.num_sge = 1;
            // SAFETY: As for sending.
            unsafe { bindings::ib_post_recv(self.as_raw(), &request, null_mut()) }
        })
    }
}

/// A door: an event of a queue pair.
///
/// # Safety
///
/// The core calls it with an event and the context of a queue pair that is not destroyed yet.
unsafe extern "C" fn qp_event(event: *mut ib_event, context: *mut c_void) {
    // SAFETY: By the safety requirements; the context is set in `Qp::new`.
    let (event, qp) = unsafe { ((*event).event, &*context.cast::<QpRef>()) };
    if let (Some(listener), Ok(event)) = (&qp.events, QpEvent::try_from(event)) {
        listener.qp_event(event);
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The path to it, for RoCE.
    pub path: AhFields,
    /// The MTU of the path.
    pub mtu: Mtu,
    /// The number of its queue pair.
    pub qp_num: u32,
    /// The number of the first packet that it sends.
    pub psn: u32,
    /// How many of its RDMA READs and atomic operations may be under way.
    pub reads: u8,
    /// How long it waits when there is no request to receive: `enum ib_rnr_timeout`.
    pub rnr_timer: u8,
}

/// How a queue pair sends.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// The number of the first packet.
    pub psn: u32,
    /// How many RDMA READs and atomic operations may be under way.
    pub reads: u8,
    /// How long an acknowledgement is waited for: 4.096 microseconds times two to the power of this; 0: for ever.
    pub timeout: u8,
    /// How often a packet is sent again that is not acknowledged, up to 7.
    pub retries: u8,
    /// How often one is for which the peer was not ready, up to 6; 7: for ever.
    pub rnr_retries: u8,
}

/// A change of a queue pair: `struct ib_qp_attr`, and which members of it.
pub struct Change {
    attr: ib_qp_attr,
    mask: QpAttrMask,
}

impl Change {
    fn to_state(state: QpState, mask: QpAttrMask, fill: impl FnOnce(&mut ib_qp_attr)) -> Self {
        let mut attr: ib_qp_attr = pin_init::zeroed();
        attr.qp_state = state.as_raw();
        fill(&mut attr);
        Self {
            attr,
            mask: mask | QpAttrMask::STATE,
        }
    }

    /// Initialises a queue pair of a connection, for a port, with what the peer may do with memory.
    pub fn initialise(port: u32, access: Access) -> Self {
        let mask = QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS;
        Self::to_state(QpState::Init, mask, |attr| {
            attr.port_num = port;
            attr.qp_access_flags = access.bits() as c_int;
        })
    }

    /// Lets a reliable connection receive.
    pub fn receive(peer: &Peer) -> Self {
        let mask = QpAttrMask::AV
            | QpAttrMask::PATH_MTU
            | QpAttrMask::DEST_QPN
            | QpAttrMask::RQ_PSN
            | QpAttrMask::MAX_DEST_RD_ATOMIC
            | QpAttrMask::MIN_RNR_TIMER;
        Self::to_state(QpState::Rtr, mask, |attr| {
            fill_path(&mut attr.ah_attr, &peer.path);
            attr.path_mtu = peer.mtu.as_raw();
            attr.dest_qp_num = peer.qp_num;
            attr.rq_psn = peer.psn;
            attr.max_dest_rd_atomic = peer.reads;
            attr.min_rnr_timer = peer.rnr_timer;
        })
    }

    /// Lets a reliable connection send.
    pub fn send(sending: &Sending) -> Self {
        let mask = QpAttrMask::SQ_PSN
            | QpAttrMask::MAX_QP_RD_ATOMIC
            | QpAttrMask::TIMEOUT
            | QpAttrMask::RETRY_CNT
            | QpAttrMask::RNR_RETRY;
        Self::to_state(QpState::Rts, mask, |attr| {
            attr.sq_psn = sending.psn;
            attr.max_rd_atomic = sending.reads;
            attr.timeout = sending.timeout;
            attr.retry_cnt = sending.retries;
            attr.rnr_retry = sending.rnr_retries;
        })
    }

    /// Ends all requests with an error.
    pub fn error() -> Self {
        Self::to_state(QpState::Err, QpAttrMask::STATE, |_| {})
    }
}

/// Fills in an address vector of RoCE. It has no reference to its source: the core finds that by its index.
fn fill_path(attr: &mut rdma_ah_attr, path: &AhFields) {
    attr.type_ = bindings::RDMA_AH_ATTR_TYPE_ROCE;
    attr.sl = path.sl;
    attr.static_rate = path.static_rate;
    attr.port_num = path.port_num;
    attr.__bindgen_anon_1.roce = bindings::roce_ah_attr { dmac: path.dmac };
    let Some(route) = path.grh else {
        return;
    };
    attr.ah_flags = bindings::IB_AH_GRH as u8;
    attr.grh.dgid = route.dgid.to_raw();
    attr.grh.flow_label = route.flow_label;
    attr.grh.sgid_index = route.sgid_index;
    attr.grh.hop_limit = route.hop_limit;
    attr.grh.traffic_class = route.traffic_class;
}
