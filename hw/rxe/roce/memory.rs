// SPDX-License-Identifier: GPL-2.0

//! What the engines need of the world: work requests, memory, a way to transmit, a place to put
//! completions. The driver implements both traits once; the host tests implement them over plain
//! vectors. The engines are generic over them, so that the calls are inlined.
//!
//! # Calling rules
//!
//! * The engines of one queue pair are called under one lock, which the driver holds for the whole
//!   call; a port's methods are called from inside, so they may not sleep, and they may not call
//!   an engine of the same queue pair again.
//! * Work requests on the send queue are named by `index`: the first one posted after a reset
//!   is 0, and the count wraps at 2^32.
//! * Data stays with the driver. The engines only name it: bytes `offset..offset + len` of work
//!   request `index`, of the current receive, or of a [`RecvOps::Region`].
//! * `offset + len` never exceeds the length that the driver gave for the object, so it never
//!   overflows. `len` may be 0.

use crate::opcode::Opcode;
use crate::state::{
    Access, Completion, Counter, QpEvent, RecvCompletion, State, WcOpcode, WcStatus,
};
use crate::wire::{Feth, Headers, NakCode, Qpn, Reth};

/// A send work request, as the driver read it once from its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWr {
    /// What to do.
    pub op: SendOp,
    /// Bytes of its data: the sum over its scatter/gather list or its inline data.
    /// 8 for atomics, the range for FLUSH; not looked at for local operations.
    pub length: u32,
    /// Report the completion (`IB_SEND_SIGNALED`).
    pub signaled: bool,
    /// Raise a solicited event at the peer (`IB_SEND_SOLICITED`); for SEND and WRITE with immediate.
    pub solicited: bool,
    /// Wait for all READs and ATOMICs before it (`IB_SEND_FENCE`). RC only.
    pub fence: bool,
}

/// What a send work request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// SEND on a connected queue pair.
    Send {
        /// What goes with it.
        extra: SendExtra,
    },
    /// SEND on a UD queue pair.
    SendUd {
        /// Immediate data, as a number.
        imm: Option<u32>,
        /// Where to. The address handle stays with the driver.
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
        /// Call [`SendOps::local`] when the data is in (READ with invalidate).
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
    /// Write 8 bytes at once: its data, to an aligned address (IBTA annex A19). RC only.
    AtomicWrite {
        /// Address at the peer.
        va: u64,
        /// Key of the peer's memory.
        rkey: u32,
    },
    /// Make earlier WRITEs to `length` bytes visible or persistent (IBTA annex A19). Carries no
    /// data. RC only.
    Flush {
        /// Address at the peer.
        va: u64,
        /// Key of the peer's memory.
        rkey: u32,
        /// How far, and of what.
        feth: Feth,
    },
    /// An operation that stays at home; [`SendOps::local`] executes it.
    Local {
        /// How its completion is called.
        opcode: WcOpcode,
        /// It waits until everything before it has completed. Local invalidation does
        /// (IBTA volume 1, 10.6.5.1).
        wait_all: bool,
    },
    /// A work request that the driver could not make sense of; it fails with this status.
    Invalid(WcStatus),
}

/// What goes with a SEND; both at once do not exist on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendExtra {
    /// Nothing.
    None,
    /// Immediate data, as a number.
    Imm(u32),
    /// The peer's key to invalidate. RC only.
    Invalidate(u32),
}

/// Destination of a UD message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdDest {
    /// The peer's queue pair number.
    pub qpn: Qpn,
    /// Queue key; with the high bit set the queue pair's own is sent.
    pub qkey: u32,
    /// Partition key in place of the queue pair's (a GSI work request names its own index).
    pub pkey: Option<u16>,
}

/// An atomic operation on a big-endian-on-the-wire, native-in-memory 64-bit number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Store `swap` if the memory holds `compare`.
    CmpSwap {
        /// What the memory must hold.
        compare: u64,
        /// What it holds then.
        swap: u64,
    },
    /// Add, wrapping.
    FetchAdd {
        /// What to add.
        add: u64,
    },
}

impl AtomicOp {
    /// What the memory holds after the operation, where it held `old` before.
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
    /// No room now (back-pressure). The engine keeps its place and its `run` returns
    /// [`Run::Blocked`](crate::state::Run::Blocked); the driver runs it again when there is room.
    QueueFull,
    /// The packet is gone, as if lost on the wire (no route, no memory for an skb).
    Dropped,
    /// The work request cannot be sent: `LocProtErr` where a local element is bad. It fails
    /// with this status.
    Fault(WcStatus),
}

/// Why a response was not transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RespondError {
    /// As [`TransmitError::QueueFull`].
    QueueFull,
    /// As [`TransmitError::Dropped`].
    Dropped,
    /// The region can no longer be read: the READ fails with this NAK.
    Nak(RemoteFault),
}

/// Why a remote request fails (IBTA volume 1, 9.7.5.2): the fatal NAK codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteFault {
    /// The request is malformed or not allowed: REM_INV_REQ_ERR at the peer.
    InvalidRequest,
    /// The key, the range or the rights do not fit: REM_ACCESS_ERR at the peer.
    Access,
    /// We failed: REM_OP_ERR at the peer.
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

/// The world as the send side sees it.
pub trait SendOps {
    /// A packet's payload, handed through untouched (an skb with an offset; bytes in tests).
    type Payload: ?Sized;

    /// Work request number `index`, or `None` where it is not posted yet.
    ///
    /// The driver reads its ring once per work request and answers from that snapshot until the
    /// engine has [completed](Self::complete) the request: the engine may ask several times, and
    /// for any `index` from the oldest not completed to the first not posted.
    fn wr(&mut self, index: u32) -> Option<SendWr>;

    /// Sends a packet: `headers`, then bytes `offset..offset + len` of work request `index`, the
    /// pad ([`pad_len`](crate::wire::pad_len) of `len`) and the ICRC.
    ///
    /// For READ and ATOMIC requests `len` is 0; the driver should find out here whether the local
    /// memory may be written, so that the fault precedes the effect at the peer.
    ///
    /// # Errors
    /// See [`TransmitError`].
    fn transmit(
        &mut self,
        index: u32,
        headers: &Headers,
        offset: u32,
        len: u32,
    ) -> Result<(), TransmitError>;

    /// Puts the payload of a READ response at `offset` of the data of work request `index`.
    ///
    /// # Errors
    /// The status that the work request fails with: `LocProtErr`, in general.
    fn scatter(&mut self, index: u32, offset: u32, payload: &Self::Payload)
        -> Result<(), WcStatus>;

    /// Puts the result of an atomic operation, in native order, in the data of work
    /// request `index`.
    ///
    /// # Errors
    /// As [`scatter`](Self::scatter).
    fn scatter_atomic(&mut self, index: u32, value: u64) -> Result<(), WcStatus>;

    /// Executes the local part of work request `index`: all of a [`SendOp::Local`], or the
    /// invalidation of a READ with invalidate. Called once per work request.
    ///
    /// # Errors
    /// The status that the work request fails with: `MwBindErr`, `LocQpOpErr`, …
    fn local(&mut self, index: u32) -> Result<(), WcStatus>;

    /// Work request `index` is done; the engine will not ask for it again. Called once for each,
    /// in order.
    fn complete(&mut self, index: u32, completion: Completion);

    /// The engine went by itself to [`State::Err`] (RC) or [`State::Sqe`] (UC, UD). On `Err` the
    /// driver notes it and, when the engine has returned, calls `Responder::error`.
    fn moved(&mut self, state: State);

    /// An asynchronous event of the queue pair.
    fn event(&mut self, event: QpEvent);

    /// Something worth counting happened.
    #[inline]
    fn count(&mut self, _counter: Counter) {}
}

/// The answer to [`RecvOps::next_recv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRecv {
    /// A receive is now current; its buffers hold `length` bytes in all (UD: with the 40 bytes
    /// of the GRH area).
    Ready {
        /// Total length of its scatter/gather list.
        length: u32,
    },
    /// None is posted.
    Empty,
    /// The next one is current but makes no sense; it fails with this status.
    Invalid(WcStatus),
}

/// The world as the receive side sees it.
pub trait RecvOps {
    /// A packet's payload, handed through untouched.
    type Payload: ?Sized;

    /// A checked range of memory that a remote request named. Owned by the responder while it
    /// needs it: it keeps the memory in place (a counted reference to the region).
    type Region;

    /// Takes the next receive from the receive queue or the shared one and makes it the current
    /// one of this queue pair. Called only when none is current.
    fn next_recv(&mut self) -> NextRecv;

    /// Puts a payload at `offset` of the current receive.
    ///
    /// For UD, `offset` is 40: the first 40 bytes are the GRH area, which the driver fills when
    /// the receive completes with success. Not called for an empty payload.
    ///
    /// # Errors
    /// The status that the receive fails with: `LocProtErr`, in general.
    fn recv_scatter(&mut self, offset: u32, payload: &Self::Payload) -> Result<(), WcStatus>;

    /// The current receive is done; there is no current one afterwards.
    fn complete_recv(&mut self, completion: RecvCompletion);

    /// Checks that the peer may access `len` (never 0) bytes at `va` through `rkey`, and holds them.
    ///
    /// # Errors
    /// [`RemoteFault::Access`] where the key, the protection domain, the range or the rights do
    /// not fit.
    fn remote(
        &mut self,
        rkey: u32,
        va: u64,
        len: u32,
        access: Access,
    ) -> Result<Self::Region, RemoteFault>;

    /// Writes a payload at `offset` of a region checked for [`Access::Write`].
    ///
    /// # Errors
    /// `Access` where the region was invalidated meanwhile, `Operational` where the copy failed.
    fn write(
        &mut self,
        region: &Self::Region,
        offset: u32,
        payload: &Self::Payload,
    ) -> Result<(), RemoteFault>;

    /// Executes an atomic operation at the start of a region of 8 aligned bytes checked for
    /// [`Access::Atomic`]; returns the value before.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn atomic(&mut self, region: &Self::Region, op: AtomicOp) -> Result<u64, RemoteFault>;

    /// Writes the 8 bytes of `payload` at once at the start of a region of 8 aligned bytes checked
    /// for [`Access::Write`] (ATOMIC WRITE).
    ///
    /// # Errors
    /// As [`write`](Self::write); `InvalidRequest` where the device has no such operation.
    fn atomic_write(
        &mut self,
        _region: &Self::Region,
        _payload: &Self::Payload,
    ) -> Result<(), RemoteFault> {
        Err(RemoteFault::InvalidRequest)
    }

    /// Flushes memory as a FLUSH request asks for.
    ///
    /// # Errors
    /// `Access` where the memory or the kind of flush is not allowed; `InvalidRequest` where the
    /// device has no such operation.
    fn flush(&mut self, _feth: Feth, _reth: Reth) -> Result<(), RemoteFault> {
        Err(RemoteFault::InvalidRequest)
    }

    /// Invalidates `rkey` for a SEND with invalidate.
    ///
    /// # Errors
    /// `Access` where the key is not one that the peer may invalidate.
    fn invalidate(&mut self, rkey: u32) -> Result<(), RemoteFault>;

    /// Sends a response: `headers`, then, for READ responses, bytes `offset..offset + len` of a
    /// region checked for [`Access::Read`], the pad and the ICRC.
    ///
    /// # Errors
    /// See [`RespondError`].
    fn respond(
        &mut self,
        headers: &Headers,
        data: Option<RegionPart<'_, Self::Region>>,
    ) -> Result<(), RespondError>;

    /// The engine went by itself to [`State::Err`]. The driver notes it and, when the engine has
    /// returned, calls `Requester::error`.
    fn moved(&mut self, state: State);

    /// An asynchronous event of the queue pair.
    fn event(&mut self, event: QpEvent);

    /// Something worth counting happened.
    #[inline]
    fn count(&mut self, _counter: Counter) {}
}

/// Bytes `offset..offset + len` of a region.
#[derive(Debug)]
pub struct RegionPart<'a, R> {
    /// The region.
    pub region: &'a R,
    /// Where the part begins in it.
    pub offset: u32,
    /// How long the part is.
    pub len: u32,
}
