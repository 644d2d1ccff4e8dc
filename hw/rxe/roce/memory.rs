// SPDX-License-Identifier: GPL-2.0

//! Interfaces of the engines to the driver: work requests, memory, transmission, completions. The driver implements
//! both traits once; the host tests implement them with plain vectors. The engines are generic over them, so that the
//! calls are inlined.
//!
//! # Calling rules
//!
//! * The engines of one queue pair are called under one lock, which the driver holds during the whole call; the methods
//!   of both traits are called from inside, so they may not sleep, and they may not call an engine of the same queue
//!   pair.
//! * Work requests in the send queue are identified by `index`: the first one posted after a reset is 0, and the index
//!   wraps at 2^32.
//! * The driver keeps the data. The engines refer to it as bytes `offset..offset + len` of work request `index`, of the
//!   current receive, or of a [`RecvOps::Region`].
//! * `offset + len` never exceeds the length that the driver has given for the object, so it does not overflow. `len`
//!   may be 0.
//! * Memory may be absent for some time (on-demand paging). An engine that finds it so changes nothing: the driver passes
//!   the packet again ([`Received::Absent`](crate::state::Received)), or runs the engine again, when the memory is present.

use crate::migration::PathAttr;
use crate::mtu::Mtu;
use crate::opcode::Opcode;
use crate::pkey::Pkey;
use crate::run::PacketRun;
use crate::state::{
    Access, Completion, Counter, QpEvent, RecvCompletion, State, WcOpcode, WcStatus,
};
use crate::wire::{Feth, NakCode, Qpn, Reth, Srqn};

/// A send work request, as read once by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWr {
    /// The operation.
    pub op: SendOp,
    /// Length of its data: the sum over its scatter/gather list or inline data; 8 for atomics, the range for FLUSH;
    /// ignored for local operations.
    pub length: u32,
    /// Report the completion (`IB_SEND_SIGNALED`).
    pub signaled: bool,
    /// Raise a solicited event at the peer (`IB_SEND_SOLICITED`); for SEND and WRITE with immediate.
    pub solicited: bool,
    /// Wait for all READs and ATOMICs before it (`IB_SEND_FENCE`). RC and XRC only.
    pub fence: bool,
    /// The shared receive queue of the peer that it is for. XRC only.
    pub srqn: Srqn,
}

/// The operation of a send work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// SEND on a connected queue pair.
    Send {
        /// The addition to the data.
        extra: SendExtra,
    },
    /// SEND on a UD queue pair.
    SendUd {
        /// Immediate data, as a number.
        imm: Option<u32>,
        /// The destination. The driver keeps the address handle.
        dest: UdDest,
    },
    /// RDMA WRITE.
    Write {
        /// Address at the peer.
        va: u64,
        /// Key of the peer's memory.
        rkey: u32,
        /// Immediate data, as a number; takes a receive at the peer.
        imm: Option<u32>,
    },
    /// RDMA READ.
    Read {
        /// Address at the peer.
        va: u64,
        /// Key of the peer's memory.
        rkey: u32,
        /// Whether [`SendOps::local`] is called when the data has arrived (READ with invalidate).
        invalidate: bool,
    },
    /// An atomic operation on 8 bytes at the peer.
    Atomic {
        /// Address at the peer.
        va: u64,
        /// Key of the peer's memory.
        rkey: u32,
        /// The operation.
        op: AtomicOp,
    },
    /// Write 8 bytes atomically: its data, to an aligned address (IBTA annex A19). RC and XRC only.
    AtomicWrite {
        /// Address at the peer.
        va: u64,
        /// Key of the peer's memory.
        rkey: u32,
    },
    /// Make earlier WRITEs to `length` bytes visible or persistent (IBTA annex A19), without data. RC and XRC only.
    Flush {
        /// Address at the peer.
        va: u64,
        /// Key of the peer's memory.
        rkey: u32,
        /// Placement type and selectivity.
        feth: Feth,
    },
    /// A local operation, executed by [`SendOps::local`].
    Local {
        /// The opcode of its completion.
        opcode: WcOpcode,
        /// Whether it waits until all requests before it have completed. Local invalidation does (IBTA volume 1,
        /// 10.6.5.1).
        wait_all: bool,
    },
    /// An invalid work request; it fails with this status.
    Invalid(WcStatus),
}

/// Addition to a SEND; the wire format does not allow both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendExtra {
    /// Nothing.
    None,
    /// Immediate data, as a number.
    Imm(u32),
    /// The peer's key to be invalidated. RC and XRC only.
    Invalidate(u32),
}

/// Destination of a UD message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdDest {
    /// The peer's queue pair number.
    pub qpn: Qpn,
    /// Queue key; if its high bit is set, the queue pair's own is sent.
    pub qkey: u32,
    /// Partition key in place of the queue pair's (from a GSI work request's index).
    pub pkey: Option<Pkey>,
}

/// An atomic operation on a 64-bit number, native-endian in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Store `swap` if the number is `compare`.
    CmpSwap {
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Add, wrapping.
    FetchAdd {
        /// The addend.
        add: u64,
    },
}

impl AtomicOp {
    /// The new value for the old value `old`.
    #[inline]
    pub const fn apply(self, old: u64) -> u64 {
        match self {
            Self::CmpSwap { compare, swap } if old == compare => swap,
            Self::CmpSwap { .. } => old,
            Self::FetchAdd { add } => old.wrapping_add(add),
        }
    }

    /// Opcode, "swap or add" field and "compare" field of the request packet.
    #[inline]
    pub(crate) const fn on_wire(self) -> (Opcode, u64, u64) {
        match self {
            Self::CmpSwap { compare, swap } => (Opcode::RcCompareSwap, swap, compare),
            Self::FetchAdd { add } => (Opcode::RcFetchAdd, add, 0),
        }
    }
}

/// Why a packet was not transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransmitError {
    /// The send queue of the network is full (back-pressure). The engine does not advance, and its `run` returns
    /// [`Run::Blocked`](crate::state::Run::Blocked); the driver runs it again when there is room.
    QueueFull,
    /// Some of the data is not present. The engine does not advance, as for [`Self::QueueFull`]; some packets of the run
    /// may have been sent.
    Absent,
    /// The packet is lost, as on the wire (no route, no memory for an skb).
    Dropped,
    /// The work request cannot be sent: `LocProtErr` for an invalid local element. It fails with this status.
    Fault(WcStatus),
}

/// Why a response was not transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RespondError {
    /// As [`TransmitError::QueueFull`].
    QueueFull,
    /// As [`TransmitError::Absent`].
    Absent,
    /// As [`TransmitError::Dropped`].
    Dropped,
    /// The region cannot be read any more: the READ fails with this NAK.
    Nak(RemoteFault),
}

/// Why memory was not accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessError<E> {
    /// Some of it is not present; some of it may have been accessed. The access will be repeated.
    Absent,
    /// The access fails with this error.
    Failed(E),
}

impl<E> From<E> for AccessError<E> {
    #[inline]
    fn from(error: E) -> Self {
        Self::Failed(error)
    }
}

impl From<AccessError<WcStatus>> for TransmitError {
    fn from(error: AccessError<WcStatus>) -> Self {
        match error {
            AccessError::Absent => Self::Absent,
            AccessError::Failed(status) => Self::Fault(status),
        }
    }
}

impl From<AccessError<RemoteFault>> for RespondError {
    fn from(error: AccessError<RemoteFault>) -> Self {
        match error {
            AccessError::Absent => Self::Absent,
            AccessError::Failed(fault) => Self::Nak(fault),
        }
    }
}

/// Why a remote request fails (IBTA volume 1, 9.7.5.2): the fatal NAK codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteFault {
    /// The request is malformed or not allowed: REM_INV_REQ_ERR at the peer.
    InvalidRequest,
    /// The key, the range or the access flags do not match: REM_ACCESS_ERR at the peer.
    Access,
    /// The responder failed: REM_OP_ERR at the peer.
    Operational,
}

impl From<RemoteFault> for NakCode {
    #[inline]
    fn from(fault: RemoteFault) -> Self {
        match fault {
            RemoteFault::InvalidRequest => Self::InvalidRequest,
            RemoteFault::Access => Self::RemoteAccess,
            RemoteFault::Operational => Self::RemoteOperational,
        }
    }
}

/// The driver's side of the requester.
pub trait SendOps {
    /// A packet's payload, which the engine only passes through (an skb with an offset; bytes in tests).
    type Payload: ?Sized;

    /// Work request number `index`, or `None` where it is not posted yet.
    ///
    /// The driver reads its ring once per work request and returns that copy until the engine has
    /// [completed](Self::complete) the request: the engine may call this repeatedly, for any `index` from the oldest
    /// incomplete request to the first one that is not posted.
    fn wr(&mut self, index: u32) -> Option<SendWr>;

    /// The number of packets, at least 1, that the next call of [`transmit`](Self::transmit) may take, on a path with this MTU.
    #[inline]
    fn longest_run(&mut self, _mtu: Mtu) -> u32 {
        1
    }

    /// Sends a run of packets: each with its headers, its part of the bytes from `offset` on of work request `index`, the pad
    /// ([`pad_len`](crate::wire::pad_len)) and the ICRC.
    ///
    /// READ and ATOMIC requests have no payload; the driver should check here whether the local memory is writable, so
    /// that a fault occurs before the effect at the peer.
    ///
    /// `more`: another request follows in the same call of the requester, if it can be sent, so that packets may be held back to be
    /// sent together. When that call has returned, all packets must be sent.
    ///
    /// # Errors
    /// See [`TransmitError`]; they concern the whole run.
    fn transmit(
        &mut self,
        index: u32,
        run: &PacketRun,
        offset: u32,
        more: bool,
    ) -> Result<(), TransmitError>;

    /// Copies the payload of a READ response to `offset` of the data of work request `index`.
    ///
    /// # Errors
    /// [`AccessError::Absent`], or the status that the work request fails with, usually `LocProtErr`.
    fn scatter(
        &mut self,
        index: u32,
        offset: u32,
        payload: &Self::Payload,
    ) -> Result<(), AccessError<WcStatus>>;

    /// Stores the native-endian result of an atomic operation in the data of work request `index`.
    ///
    /// # Errors
    /// As [`scatter`](Self::scatter).
    fn scatter_atomic(&mut self, index: u32, value: u64) -> Result<(), AccessError<WcStatus>>;

    /// Executes the local part of work request `index`: all of a [`SendOp::Local`], or the
    /// invalidation of a READ with invalidate. Called once per work request.
    ///
    /// # Errors
    /// The status that the work request fails with: `MwBindErr`, `LocQpOpErr`, …
    fn local(&mut self, index: u32) -> Result<(), WcStatus>;

    /// Completes work request `index`; the engine will not read it again. Called once for each, in order.
    fn complete(&mut self, index: u32, completion: Completion);

    /// The engine has changed to [`State::Err`] (RC) or [`State::Sqe`] (UC, UD) by itself. On `Err` the driver records
    /// it and calls `Responder::error` when the engine has returned.
    fn moved(&mut self, state: State);

    /// An asynchronous event of the queue pair.
    fn event(&mut self, event: QpEvent);

    /// Whether packets are sent with MigReq set: [`Migration::has_migrated`](crate::migration::Migration::has_migrated).
    #[inline]
    fn has_migrated(&self) -> bool {
        true
    }

    /// The retries of a request are exhausted. Where the connection migrates, packets take its alternate path from now on, whose
    /// attributes are the result; otherwise the request fails.
    #[inline]
    fn migrate(&mut self) -> Option<PathAttr> {
        None
    }

    /// Increments a counter.
    #[inline]
    fn count(&mut self, _counter: Counter) {}
}

/// Result of [`RecvOps::next_recv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRecv {
    /// There is a current receive; its buffers have `length` bytes in total (UD: including the 40 bytes of the GRH
    /// area).
    Ready {
        /// Total length of its scatter/gather list.
        length: u32,
    },
    /// No receive is posted.
    Empty,
    /// The current receive is invalid; it fails with this status.
    Invalid(WcStatus),
}

/// The driver's side of the responder.
pub trait RecvOps {
    /// A packet's payload, which the engine only passes through.
    type Payload: ?Sized;

    /// A validated range of memory of a remote request. The responder owns it as long as necessary: it keeps the memory
    /// in place (a counted reference to the region).
    type Region;

    /// The request that is handled next names a shared receive queue: [`next_recv`](Self::next_recv) takes receives from it, and the
    /// keys of the request are those of its protection domain (annex A14). Called for each request of an extended reliable
    /// connection; of a message, all packets name the same one.
    ///
    /// # Errors
    /// `Access` where there is no such queue in the XRC domain of this queue pair.
    fn name_srq(&mut self, _srqn: Srqn) -> Result<(), RemoteFault> {
        Err(RemoteFault::Access)
    }

    /// Takes the next receive from the receive queue or the shared one and makes it the current one of this queue pair.
    /// Called only when there is no current one.
    fn next_recv(&mut self) -> NextRecv;

    /// The number of receives that are posted besides the current one, if the peer is to be told of them: end-to-end flow control
    /// (IBTA volume 1, 9.7.7.2). When it grows from 0, the responder should [run](crate::responder::Responder::run).
    #[inline]
    fn receives(&mut self) -> Option<u32> {
        None
    }

    /// Copies a payload to `offset` of the current receive.
    ///
    /// For UD, `offset` is 40: the first 40 bytes are the [GRH area](Self::recv_header). Not called for an empty payload.
    ///
    /// # Errors
    /// [`AccessError::Absent`], or the status that the receive fails with, usually `LocProtErr`.
    fn recv_scatter(
        &mut self,
        offset: u32,
        payload: &Self::Payload,
    ) -> Result<(), AccessError<WcStatus>>;

    /// Fills in the GRH area of the current receive, its first 40 bytes, for a datagram.
    ///
    /// # Errors
    /// As [`recv_scatter`](Self::recv_scatter).
    #[inline]
    fn recv_header(&mut self) -> Result<(), AccessError<WcStatus>> {
        Ok(())
    }

    /// Completes the current receive; afterwards there is none.
    fn complete_recv(&mut self, completion: RecvCompletion);

    /// Checks that the peer may access `len` (never 0) bytes at `va` by `rkey`, and returns the range.
    ///
    /// # Errors
    /// [`RemoteFault::Access`] where the key, the protection domain, the range or the access flags do not match.
    fn remote(
        &mut self,
        rkey: u32,
        va: u64,
        len: u32,
        access: Access,
    ) -> Result<Self::Region, RemoteFault>;

    /// Copies a payload to `offset` of a region checked for [`Access::Write`].
    ///
    /// # Errors
    /// [`AccessError::Absent`]; `Access` where the region was invalidated meanwhile, `Operational` where the copy failed.
    fn write(
        &mut self,
        region: &Self::Region,
        offset: u32,
        payload: &Self::Payload,
    ) -> Result<(), AccessError<RemoteFault>>;

    /// Executes an atomic operation at the start of a region of 8 aligned bytes checked for [`Access::Atomic`]; returns
    /// the old value.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn atomic(
        &mut self,
        region: &Self::Region,
        op: AtomicOp,
    ) -> Result<u64, AccessError<RemoteFault>>;

    /// Writes the 8 bytes of `payload` atomically to the start of a region of 8 aligned bytes checked for
    /// [`Access::Write`] (ATOMIC WRITE).
    ///
    /// # Errors
    /// As [`write`](Self::write); `InvalidRequest` where the device does not support the operation.
    fn atomic_write(
        &mut self,
        _region: &Self::Region,
        _payload: &Self::Payload,
    ) -> Result<(), AccessError<RemoteFault>> {
        Err(RemoteFault::InvalidRequest.into())
    }

    /// Executes a FLUSH request.
    ///
    /// # Errors
    /// `Access` where the range or the flush type is not allowed; `InvalidRequest` where the device does not support
    /// the operation.
    fn flush(&mut self, _feth: Feth, _reth: Reth) -> Result<(), RemoteFault> {
        Err(RemoteFault::InvalidRequest)
    }

    /// Invalidates `rkey` for a SEND with invalidate.
    ///
    /// # Errors
    /// `Access` where the peer may not invalidate the key.
    fn invalidate(&mut self, rkey: u32) -> Result<(), RemoteFault>;

    /// As [`SendOps::longest_run`], for [`respond`](Self::respond).
    #[inline]
    fn longest_run(&mut self, _mtu: Mtu) -> u32 {
        1
    }

    /// Sends a run of response packets: each with its headers, for READ responses its part of the bytes from `data.offset` on of
    /// a region checked for [`Access::Read`], the pad and the ICRC.
    ///
    /// # Errors
    /// See [`RespondError`]; they concern the whole run.
    fn respond(
        &mut self,
        run: &PacketRun,
        data: Option<RegionPart<'_, Self::Region>>,
    ) -> Result<(), RespondError>;

    /// The engine has changed to [`State::Err`] by itself. The driver records it and calls `Requester::error` when the
    /// engine has returned.
    fn moved(&mut self, state: State);

    /// An asynchronous event of the queue pair.
    fn event(&mut self, event: QpEvent);

    /// As [`SendOps::has_migrated`].
    #[inline]
    fn has_migrated(&self) -> bool {
        true
    }

    /// Increments a counter.
    #[inline]
    fn count(&mut self, _counter: Counter) {}
}

/// The bytes of a region from an offset on, as many as the payload has.
#[derive(Debug)]
pub struct RegionPart<'a, R> {
    /// The region.
    pub region: &'a R,
    /// Offset of the part.
    pub offset: u32,
}
