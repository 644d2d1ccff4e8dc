// SPDX-License-Identifier: GPL-2.0

//! What a queue pair is to the protocol: its service, state and attributes, the work requests it is
//! given and the completions and events it gives back.
//!
//! Everything here is plain data. Numbers that are part of the kernel's or user space's ABI
//! (completion statuses) carry the values of `<rdma/ib_verbs.h>`.

use crate::mtu::Mtu;
use crate::opcode;
use crate::psn::Psn;
use crate::timer::{AckTimeout, RnrTimer};
use crate::wire::Qpn;

/// Transport service of a queue pair (IBTA volume 1, 9.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliable connected: every message arrives once, in order, or an error completes.
    Rc,
    /// Unreliable connected: a message arrives whole or not at all.
    Uc,
    /// Unreliable datagram: single-packet messages to any peer. QP1 (GSI) behaves like this.
    Ud,
}

impl From<Service> for opcode::Service {
    #[inline]
    fn from(service: Service) -> Self {
        match service {
            Service::Rc => Self::Rc,
            Service::Uc => Self::Uc,
            Service::Ud => Self::Ud,
        }
    }
}

/// State of a queue pair (IBTA volume 1, 10.3.1; `enum ib_qp_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Created or reset. Nothing is processed, arriving packets are dropped.
    Reset,
    /// Receives may be posted, but nothing is processed.
    Init,
    /// The receive side works.
    Rtr,
    /// Both sides work.
    Rts,
    /// The send queue drains or is drained; the receive side works.
    Sqd,
    /// The send queue of a UC or UD queue pair stopped by an error; the receive side works.
    Sqe,
    /// Everything that is or gets posted completes with [`WcStatus::WrFlushErr`].
    Err,
}

impl State {
    /// Does the receive side take packets in this state?
    #[inline]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
    }

    /// Does the send side take responses (and send again) in this state?
    #[inline]
    pub const fn sends(self) -> bool {
        matches!(self, Self::Rts | Self::Sqd)
    }
}

/// A point in time: nanoseconds of a monotonic clock whose zero does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(u64);

impl Time {
    /// The time `ns` nanoseconds after the clock's zero.
    #[inline]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the clock's zero.
    #[inline]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// This time plus `ns` nanoseconds, or the end of time.
    #[inline]
    pub const fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

/// The longest message of a connected service, in bytes: 2 GiB (IBTA volume 1, 9.3.3: DMA length).
pub const MAX_MESSAGE: u32 = 1 << 31;

/// Bytes that every UD receive buffer sets aside for the global routing header.
pub const GRH_LEN: u32 = 40;

/// `rnr_retry` of this value means that the requester tries for ever.
pub const RNR_RETRY_INFINITE: u8 = 7;

/// Outstanding packets that a requester allows itself where the driver knows no better number.
pub const DEFAULT_WINDOW: u32 = 1024;

/// Attributes of the send side. See `ib_modify_qp(3)` for the meaning of each.
#[derive(Clone, Copy, Debug)]
pub struct SendAttr {
    /// The transport service.
    pub service: Service,
    /// Path MTU (UD: the port's MTU).
    pub mtu: Mtu,
    /// Our own queue pair number, which UD packets carry as their source.
    pub qpn: Qpn,
    /// The peer's queue pair number. Unused for UD.
    pub dest_qpn: Qpn,
    /// PSN of the first packet.
    pub sq_psn: Psn,
    /// Partition key that packets carry.
    pub pkey: u16,
    /// Queue key: sent in place of a work request's where that has its high bit set
    /// (a "controlled" key, IBTA volume 1, 3.5.3). UD only.
    pub qkey: u32,
    /// Every work request reports its completion (`sq_sig_all`).
    pub signal_all: bool,
    /// How long to wait for an answer. RC only.
    pub ack_timeout: AckTimeout,
    /// Repetitions (0..=7) after a timeout or a lost packet before RETRY_EXC_ERR. RC only.
    pub retry_cnt: u8,
    /// Repetitions (0..=6) after RNR NAKs before RNR_RETRY_EXC_ERR; 7: no limit. RC only.
    pub rnr_retry: u8,
    /// READ and ATOMIC requests that may be outstanding at once. RC only.
    pub max_rd_atomic: u8,
    /// Unacknowledged packets that may be outstanding at once, READ responses included
    /// (1..=2^22; a single READ may exceed it, alone). RC only. See [`DEFAULT_WINDOW`].
    pub window: u32,
}

/// Attributes of the receive side. See `ib_modify_qp(3)` for the meaning of each.
#[derive(Clone, Copy, Debug)]
pub struct RecvAttr {
    /// The transport service.
    pub service: Service,
    /// Path MTU (UD: the port's MTU).
    pub mtu: Mtu,
    /// The peer's queue pair number, the destination of responses. Unused for UD.
    pub dest_qpn: Qpn,
    /// PSN of the first packet expected.
    pub rq_psn: Psn,
    /// Partition key that responses carry.
    pub pkey: u16,
    /// Queue key that arriving packets must carry. UD only.
    pub qkey: u32,
    /// READ and ATOMIC requests that the peer may have outstanding. RC only. At most the
    /// responder's capacity; more counts as that.
    pub max_dest_rd_atomic: u8,
    /// The time that RNR NAKs ask for. RC only.
    pub min_rnr_timer: RnrTimer,
    /// What the peer may do to our memory.
    pub access: RemoteAccess,
}

/// What a peer may do (`IB_ACCESS_REMOTE_*` of `qp_access_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteAccess {
    /// RDMA WRITE.
    pub write: bool,
    /// RDMA READ.
    pub read: bool,
    /// Atomic operations.
    pub atomic: bool,
}

/// The kind of access that a remote request needs of the memory it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// CmpSwap and FetchAdd.
    Atomic,
}

/// Status of a completion; the numbers are those of `enum ib_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WcStatus {
    /// Done.
    Success = 0,
    /// A receive buffer was too short, or a UD message longer than the MTU.
    LocLenErr = 1,
    /// The work request makes no sense: bad opcode for the service, malformed element.
    LocQpOpErr = 2,
    /// A local scatter/gather element names memory that may not be used so.
    LocProtErr = 4,
    /// Not done: the queue pair was in the error state.
    WrFlushErr = 5,
    /// Binding a memory window failed.
    MwBindErr = 6,
    /// The peer's response makes no sense.
    BadRespErr = 7,
    /// Local memory that a remote request needed (WRITE with immediate) may not be used so.
    LocAccessErr = 8,
    /// The peer called the request invalid.
    RemInvReqErr = 9,
    /// The peer refused access to the memory named.
    RemAccessErr = 10,
    /// The peer failed while it served the request.
    RemOpErr = 11,
    /// The peer did not answer within `retry_cnt` repetitions.
    RetryExcErr = 12,
    /// The peer had no receive posted within `rnr_retry` repetitions.
    RnrRetryExcErr = 13,
    /// The device broke down.
    FatalErr = 19,
    /// Some other failure of the transport.
    GeneralErr = 21,
}

impl WcStatus {
    /// The number in `enum ib_wc_status` (and `enum ibv_wc_status`).
    #[inline]
    pub const fn to_ib(self) -> u32 {
        self as u32
    }
}

/// What completed on the send queue; the driver maps it to `enum ib_wc_opcode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WcOpcode {
    /// SEND, with or without immediate or invalidation.
    Send,
    /// RDMA WRITE, with or without immediate.
    RdmaWrite,
    /// RDMA READ.
    RdmaRead,
    /// Compare and swap.
    CompSwap,
    /// Fetch and add.
    FetchAdd,
    /// ATOMIC WRITE.
    AtomicWrite,
    /// FLUSH.
    Flush,
    /// Memory window bind.
    BindMw,
    /// Local invalidation of a key.
    LocalInv,
    /// Fast registration.
    RegMr,
}

/// The end of a work request on the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// How it went.
    pub status: WcStatus,
    /// What it was; `None` where the work request was not legible.
    pub opcode: Option<WcOpcode>,
    /// Bytes moved: the length of READs (8 for atomics) and of what was sent.
    pub byte_len: u32,
    /// Make a completion queue entry: it was signalled, or it failed. Where this is false the
    /// work request just retires.
    pub report: bool,
}

/// What completed on the receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvOpcode {
    /// A SEND: `IB_WC_RECV`.
    Recv,
    /// A WRITE with immediate: `IB_WC_RECV_RDMA_WITH_IMM`.
    RecvRdmaWithImm,
}

/// The end of a receive work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvCompletion {
    /// How it went. Where it is not `Success` only this field has a meaning.
    pub status: WcStatus,
    /// What arrived.
    pub opcode: RecvOpcode,
    /// Bytes that arrived; for UD this counts the 40 bytes of the GRH area.
    pub byte_len: u32,
    /// Immediate data as a number (the wire and `struct ib_wc` hold it big-endian).
    pub imm: Option<u32>,
    /// The key that the peer's SEND invalidated (`IB_WC_WITH_INVALIDATE`).
    pub invalidated_rkey: Option<u32>,
    /// The peer asked for a solicited event.
    pub solicited: bool,
    /// The sender's queue pair: for UD from the packet, else the connected peer.
    pub src_qpn: Qpn,
}

/// An affiliated asynchronous event of the queue pair (`enum ib_event_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpEvent {
    /// The first packet came while the queue pair was in RTR.
    CommEst,
    /// The send queue has drained.
    SqDrained,
    /// The peer's request violated memory protection or its limits.
    AccessErr,
    /// The peer's request was not valid.
    ReqErr,
    /// A queue pair with a shared receive queue will take no more receives from it.
    LastWqeReached,
}

/// What the driver's counters count. Names after rxe's `hw_counters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// `duplicate_request`: a request that had been executed arrived again.
    DuplicateRequest,
    /// `out_of_seq_request`: a request arrived beyond the expected PSN.
    OutOfSeqRequest,
    /// `rcvd_rnr_err`: an RNR NAK arrived.
    RcvdRnr,
    /// `send_rnr_err`: an RNR NAK was sent.
    SentRnr,
    /// `rcvd_seq_err`: a NAK for a sequence error arrived.
    RcvdSeqErr,
    /// `retry_exceeded_err`: a work request failed with RETRY_EXC_ERR.
    RetryExceeded,
    /// `retry_rnr_exceeded_err`: a work request failed with RNR_RETRY_EXC_ERR.
    RnrRetryExceeded,
    /// `completer_retry_err`: the requester went back to send again.
    CompleterRetry,
    /// `send_err`: the transmission of a packet failed for good.
    SendErr,
    /// `rdma_sends`: a SEND message was sent.
    RdmaSend,
    /// `rdma_recvs`: a SEND message was received.
    RdmaRecv,
    /// `qkey_viol_cntr`: a datagram carried the wrong queue key.
    QkeyViolation,
}

/// Where a `run` of an engine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Nothing to do before something new happens (a post, a packet, the deadline).
    Idle,
    /// The budget is used up: run again soon.
    More,
    /// The send queue is full, [`QueueFull`](crate::memory::TransmitError::QueueFull).
    Blocked,
}
