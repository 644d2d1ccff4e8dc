// SPDX-License-Identifier: GPL-2.0

//! Protocol properties of a queue pair: service, state and attributes; completions and events.
//!
//! Everything here is plain data. Numbers of the kernel or user ABI (completion statuses) have the values of
//! `<rdma/ib_verbs.h>`.

use crate::mtu::Mtu;
use crate::opcode::{self, Opcode};
use crate::pkey::Pkey;
use crate::psn::Psn;
use crate::timer::{AckTimeout, RnrTimer};
use crate::wire::Qpn;

/// Transport service of a queue pair (IBTA volume 1, 9.2.1 and annex A14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliable connected: every message arrives once, in order, or an error completes.
    Rc,
    /// The initiator of an extended reliable connection: reliable, and a requester only. Each request names a shared receive queue
    /// at the peer.
    XrcIni,
    /// The target of an extended reliable connection: reliable, and a responder only, which takes receives from the shared receive
    /// queue that a request names.
    XrcTgt,
    /// Unreliable connected: a message arrives whole or not at all.
    Uc,
    /// Unreliable datagram: single-packet messages to any peer. QP1 (GSI) behaves like this.
    Ud,
}

impl Service {
    /// Whether requests are acknowledged, and sent again after a loss.
    #[inline]
    pub const fn is_reliable(self) -> bool {
        matches!(self, Self::Rc | Self::XrcIni | Self::XrcTgt)
    }

    /// Whether it is an end of an extended reliable connection.
    #[inline]
    pub const fn is_xrc(self) -> bool {
        matches!(self, Self::XrcIni | Self::XrcTgt)
    }

    /// Whether a queue pair of the service takes packets with an opcode: those of the service, and of an extended reliable connection
    /// those of the other end.
    #[inline]
    pub fn takes(self, opcode: Opcode) -> bool {
        opcode.service() == self.into()
            && match self {
                Self::XrcIni => opcode.is_response(),
                Self::XrcTgt => opcode.is_request(),
                Self::Rc | Self::Uc | Self::Ud => true,
            }
    }
}

impl From<Service> for opcode::Service {
    #[inline]
    fn from(service: Service) -> Self {
        match service {
            Service::Rc => Self::Rc,
            Service::Uc => Self::Uc,
            Service::Ud => Self::Ud,
            Service::XrcIni | Service::XrcTgt => Self::Xrc,
        }
    }
}

/// State of a queue pair (IBTA volume 1, 10.3.1; `enum ib_qp_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Created or reset. Nothing is processed, received packets are dropped.
    Reset,
    /// Receives may be posted, but nothing is processed.
    Init,
    /// The responder is active.
    Rtr,
    /// Responder and requester are active.
    Rts,
    /// The send queue is draining or drained; the responder is active.
    Sqd,
    /// The send queue of a UC or UD queue pair was stopped by an error; the responder is active.
    Sqe,
    /// All posted requests complete with [`WcStatus::WrFlushErr`].
    Err,
}

impl State {
    /// Whether the responder receives packets in this state.
    #[inline]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
    }

    /// Whether the requester handles responses (and retries) in this state.
    #[inline]
    pub const fn sends(self) -> bool {
        matches!(self, Self::Rts | Self::Sqd)
    }
}

/// A point in time: nanoseconds of a monotonic clock with an arbitrary zero.
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

    /// This time plus `ns` nanoseconds, saturating.
    #[inline]
    pub const fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

/// Maximum length of a message on a connected service, in bytes: 2 GiB (IBTA volume 1, 9.3.3: DMA length).
pub const MAX_MESSAGE: u32 = 1 << 31;

/// Size of the global routing header's area in every UD receive buffer, in bytes.
pub const GRH_LEN: u32 = 40;

/// The value of `rnr_retry` for unlimited retries.
pub const RNR_RETRY_INFINITE: u8 = 7;

/// Default of the maximum number of outstanding packets of a requester.
pub const DEFAULT_WINDOW: u32 = 1024;

/// Attributes of the requester. See `ib_modify_qp(3)` for the meaning of each.
#[derive(Clone, Copy, Debug)]
pub struct SendAttr {
    /// The transport service.
    pub service: Service,
    /// Path MTU (UD: the port's MTU).
    pub mtu: Mtu,
    /// The queue pair's own number, which is the source of UD packets.
    pub qpn: Qpn,
    /// The peer's queue pair number. Unused for UD.
    pub dest_qpn: Qpn,
    /// PSN of the first packet.
    pub sq_psn: Psn,
    /// Partition key of sent packets.
    pub pkey: Pkey,
    /// Queue key: sent in place of a work request's with the high bit set (a "controlled" key, IBTA volume 1, 3.5.3).
    /// UD only.
    pub qkey: u32,
    /// Whether every work request is signaled (`sq_sig_all`).
    pub signal_all: bool,
    /// Timeout for a response. RC and XRC only.
    pub ack_timeout: AckTimeout,
    /// Retries (0..=7) after a timeout or a lost packet before RETRY_EXC_ERR. RC and XRC only.
    pub retry_cnt: u8,
    /// Retries (0..=6) after RNR NAKs before RNR_RETRY_EXC_ERR; 7: no limit. RC and XRC only.
    pub rnr_retry: u8,
    /// Maximum number of outstanding READ and ATOMIC requests. RC and XRC only.
    pub max_rd_atomic: u8,
    /// Maximum number of unacknowledged packets, including READ responses (1..=2^22; a single READ may exceed it,
    /// alone). RC and XRC only. See [`DEFAULT_WINDOW`].
    pub window: u32,
}

/// Attributes of the responder. See `ib_modify_qp(3)` for the meaning of each.
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
    /// Partition key of responses.
    pub pkey: Pkey,
    /// Queue key that received packets must have. UD only.
    pub qkey: u32,
    /// Maximum number of outstanding READ and ATOMIC requests of the peer. RC and XRC only. Limited to the number of responder
    /// resources.
    pub max_dest_rd_atomic: u8,
    /// The delay in RNR NAKs. RC and XRC only.
    pub min_rnr_timer: RnrTimer,
    /// Access flags of the peer.
    pub access: RemoteAccess,
}

/// Access flags of a peer (`IB_ACCESS_REMOTE_*` of `qp_access_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteAccess {
    /// RDMA WRITE.
    pub write: bool,
    /// RDMA READ.
    pub read: bool,
    /// Atomic operations.
    pub atomic: bool,
}

/// The kind of access of a remote request.
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
    /// Success.
    Success = 0,
    /// A receive buffer was too short, or a UD message longer than the MTU.
    LocLenErr = 1,
    /// The work request is invalid: wrong opcode for the service, malformed element.
    LocQpOpErr = 2,
    /// An end-to-end context could not execute the operation: of services that this protocol lacks, as numbers 14 to 18.
    LocEecOpErr = 3,
    /// A local scatter/gather element does not allow the access.
    LocProtErr = 4,
    /// Not executed: the queue pair was in the error state.
    WrFlushErr = 5,
    /// Binding a memory window failed.
    MwBindErr = 6,
    /// The peer's response is invalid.
    BadRespErr = 7,
    /// Local memory of a remote request (WRITE with immediate) does not allow the access.
    LocAccessErr = 8,
    /// The peer found the request invalid.
    RemInvReqErr = 9,
    /// The peer refused access to its memory.
    RemAccessErr = 10,
    /// The peer failed during the request.
    RemOpErr = 11,
    /// The peer did not respond within `retry_cnt` retries.
    RetryExcErr = 12,
    /// The peer had no receive posted within `rnr_retry` retries.
    RnrRetryExcErr = 13,
    /// The reliable datagram domain does not match.
    LocRddViolErr = 14,
    /// The peer found a reliable datagram invalid.
    RemInvRdReqErr = 15,
    /// The peer has aborted the operation.
    RemAbortErr = 16,
    /// The number of the end-to-end context is invalid.
    InvEecnErr = 17,
    /// The state of the end-to-end context is wrong.
    InvEecStateErr = 18,
    /// The device has failed.
    FatalErr = 19,
    /// The peer did not respond to a management datagram in time.
    RespTimeoutErr = 20,
    /// Another transport error.
    GeneralErr = 21,
}

impl WcStatus {
    /// All of them, by number.
    const ALL: [Self; 22] = [
        Self::Success,
        Self::LocLenErr,
        Self::LocQpOpErr,
        Self::LocEecOpErr,
        Self::LocProtErr,
        Self::WrFlushErr,
        Self::MwBindErr,
        Self::BadRespErr,
        Self::LocAccessErr,
        Self::RemInvReqErr,
        Self::RemAccessErr,
        Self::RemOpErr,
        Self::RetryExcErr,
        Self::RnrRetryExcErr,
        Self::LocRddViolErr,
        Self::RemInvRdReqErr,
        Self::RemAbortErr,
        Self::InvEecnErr,
        Self::InvEecStateErr,
        Self::FatalErr,
        Self::RespTimeoutErr,
        Self::GeneralErr,
    ];

    /// The status with a number in `enum ib_wc_status`; `None` beyond it.
    pub fn from_ib(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The number in `enum ib_wc_status` (and `enum ibv_wc_status`).
    #[inline]
    pub const fn to_ib(self) -> u32 {
        self as u32
    }
}

/// Operation of a completed send request; the driver maps it to `enum ib_wc_opcode`.
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

/// Completion of a send work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The status.
    pub status: WcStatus,
    /// The operation; `None` for an invalid work request.
    pub opcode: Option<WcOpcode>,
    /// Number of bytes: the length of READs (8 for atomics) and of sent data.
    pub byte_len: u32,
    /// Whether a completion queue entry is generated: it is signaled, or has failed. Otherwise the work request is only
    /// retired.
    pub report: bool,
}

/// Operation of a completed receive request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvOpcode {
    /// A SEND: `IB_WC_RECV`.
    Recv,
    /// A WRITE with immediate: `IB_WC_RECV_RDMA_WITH_IMM`.
    RecvRdmaWithImm,
}

/// Completion of a receive work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvCompletion {
    /// The status. If it is not `Success`, the other fields are undefined.
    pub status: WcStatus,
    /// The operation.
    pub opcode: RecvOpcode,
    /// Number of bytes; for UD including the 40 bytes of the GRH area.
    pub byte_len: u32,
    /// Immediate data as a number (big-endian on the wire and in `struct ib_wc`).
    pub imm: Option<u32>,
    /// The key that the peer's SEND invalidated (`IB_WC_WITH_INVALIDATE`).
    pub invalidated_rkey: Option<u32>,
    /// Whether the sender requested a solicited event.
    pub solicited: bool,
    /// The sender's queue pair: for UD from the packet, else the connected peer.
    pub src_qpn: Qpn,
}

/// An affiliated asynchronous event of the queue pair (`enum ib_event_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpEvent {
    /// The first packet has arrived in RTR.
    CommEst,
    /// The send queue has drained.
    SqDrained,
    /// A request of the peer violated memory protection or its limits.
    AccessErr,
    /// A request of the peer was invalid.
    ReqErr,
    /// A queue pair with a shared receive queue will take no more receives from it.
    LastWqeReached,
    /// Packets take the alternate path.
    PathMigrated,
    /// The peer's request to migrate does not fit the alternate path.
    PathMigrationErr,
}

/// Counters, named after the C driver's `hw_counters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// `duplicate_request`: a duplicate of an executed request was received.
    DuplicateRequest,
    /// `out_of_seq_request`: a request beyond the expected PSN was received.
    OutOfSeqRequest,
    /// `rcvd_rnr_err`: an RNR NAK was received.
    RcvdRnr,
    /// `send_rnr_err`: an RNR NAK was sent.
    SentRnr,
    /// `rcvd_seq_err`: a NAK for a sequence error was received.
    RcvdSeqErr,
    /// `retry_exceeded_err`: a work request failed with RETRY_EXC_ERR.
    RetryExceeded,
    /// `retry_rnr_exceeded_err`: a work request failed with RNR_RETRY_EXC_ERR.
    RnrRetryExceeded,
    /// `completer_retry_err`: the requester went back to retry.
    CompleterRetry,
    /// `send_err`: a packet could not be transmitted.
    SendErr,
    /// `rdma_sends`: a SEND message was sent.
    RdmaSend,
    /// `rdma_recvs`: a SEND message was received.
    RdmaRecv,
    /// `qkey_viol_cntr`: a datagram had a wrong queue key.
    QkeyViolation,
}

/// Result of a call with a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The packet was handled, or ignored.
    Done,
    /// Memory that the packet needs is not present. It is to be passed again, before all later packets.
    Absent,
}

/// Result of an engine's `run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Nothing to do before a new event (a post, a packet, the deadline).
    Idle,
    /// The budget is used up: run again soon.
    More,
    /// The send queue is full, [`QueueFull`](crate::memory::TransmitError::QueueFull).
    Blocked,
}
