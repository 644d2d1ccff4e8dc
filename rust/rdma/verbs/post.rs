// SPDX-License-Identifier: GPL-2.0

//! What is asked of the peer, and chains of requests.

use core::ptr::null;

use kernel::{error::to_result, prelude::*};
use rdma_bindings::{self as bindings, ib_recv_wr, ib_send_wr};

use super::{
    ah::Ah,
    mr::Mr,
    qp::{CanReceive, CanSend, QpRef, Transport},
    request::{Fill, Filled, Held, ReceiveSlot, SendSlot},
    work::{Handler, PostError, Posted, Work},
};
use crate::{wr::Remote, Access};

/// What a reliable connection asks of the peer, or of the device.
#[derive(Clone, Copy)]
pub enum RcOp<'a, 'd> {
    /// A message.
    Send,
    /// A message, and immediate data in the order of the wire.
    SendImm([u8; 4]),
    /// A message, and a region of the peer's with this key is invalidated.
    SendInv(u32),
    /// The bytes are written to the peer's memory.
    Write(Remote),
    /// So they are, and immediate data tells the peer, who must have posted a request to receive.
    WriteImm(Remote, [u8; 4]),
    /// The peer's memory is read into that of the work.
    Read(Remote),
    /// Eight bytes of the peer's memory are read, and `swap` written there if they are `compare`. Bytes are in the order of
    /// the machine.
    CompareSwap {
        /// Where: a multiple of 8.
        remote: Remote,
        /// What must be there.
        compare: u64,
        /// What to put there.
        swap: u64,
    },
    /// Eight bytes of the peer's memory are read, and `add` is added there.
    FetchAdd {
        /// Where: a multiple of 8.
        remote: Remote,
        /// How much.
        add: u64,
    },
    /// A region is registered, so that it can be reached. The work's memory has no part in it.
    RegMr {
        /// The region, to which pages are mapped.
        mr: &'a Mr<'d>,
        /// What may be done with it.
        access: Access,
    },
    /// A region that is registered is invalidated. The work's memory has no part in it.
    LocalInv(&'a Mr<'d>),
}

/// What an unreliable connection asks of the peer, or of the device: see [`RcOp`].
#[derive(Clone, Copy)]
pub enum UcOp<'a, 'd> {
    /// A message.
    Send,
    /// A message, and immediate data.
    SendImm([u8; 4]),
    /// The bytes are written to the peer's memory.
    Write(Remote),
    /// So they are, and immediate data tells the peer.
    WriteImm(Remote, [u8; 4]),
    /// A region is registered.
    RegMr {
        /// The region.
        mr: &'a Mr<'d>,
        /// What may be done with it.
        access: Access,
    },
    /// A region is invalidated.
    LocalInv(&'a Mr<'d>),
}

/// A datagram.
#[derive(Clone, Copy)]
pub struct UdOp<'a, 'd> {
    /// Where it goes.
    pub ah: &'a Ah<'d>,
    /// The number of the peer's queue pair.
    pub qp_num: u32,
    /// Its Q_Key; with the high bit set, the own queue pair's is used.
    pub qkey: u32,
    /// Immediate data, in the order of the wire.
    pub immediate: Option<[u8; 4]>,
}

impl<'d> Fill<'d> for RcOp<'_, 'd> {
    #[inline]
    fn fill(self, request: &mut Filled<'d>) -> Result<Held<'d>> {
        match self {
            Self::Send => request.opcode(bindings::IB_WR_SEND),
            Self::SendImm(data) => {
                request.opcode(bindings::IB_WR_SEND_WITH_IMM);
                request.immediate(data);
            }
            Self::SendInv(key) => {
                request.opcode(bindings::IB_WR_SEND_WITH_INV);
                request.invalidate(key);
            }
            Self::Write(to) => {
                request.opcode(bindings::IB_WR_RDMA_WRITE);
                request.remote(to);
            }
            Self::WriteImm(to, data) => {
                request.opcode(bindings::IB_WR_RDMA_WRITE_WITH_IMM);
                request.remote(to);
                request.immediate(data);
            }
            Self::Read(from) => {
                request.opcode(bindings::IB_WR_RDMA_READ);
                request.remote(from);
            }
            Self::CompareSwap {
                remote,
                compare,
                swap,
            } => {
                request.opcode(bindings::IB_WR_ATOMIC_CMP_AND_SWP);
                request.atomic(remote, compare, swap);
            }
            Self::FetchAdd { remote, add } => {
                request.opcode(bindings::IB_WR_ATOMIC_FETCH_AND_ADD);
                request.atomic(remote, add, 0);
            }
            Self::RegMr { mr, access } => return register(request, mr, access),
            Self::LocalInv(mr) => return invalidate(request, mr),
        }
        Ok(Held::Nothing)
    }
}

/// A request to register a region, whose state says so from now on.
fn register<'d>(request: &mut Filled<'d>, mr: &Mr<'d>, access: Access) -> Result<Held<'d>> {
    request.opcode(bindings::IB_WR_REG_MR);
    request.has_memory = false;
    let mr = mr.shared();
    let key = mr.begin_register(access)?;
    // SAFETY: As for `remote`.
    let reg = unsafe { &mut *request.wr.reg };
    reg.mr = mr.as_raw();
    reg.key = key;
    reg.access = access.bits() as i32;
    Ok(Held::Register(mr))
}

/// A request to invalidate a region, whose state says so from now on.
fn invalidate<'d>(request: &mut Filled<'d>, mr: &Mr<'d>) -> Result<Held<'d>> {
    request.opcode(bindings::IB_WR_LOCAL_INV);
    request.has_memory = false;
    let mr = mr.shared();
    request.invalidate(mr.begin_invalidate()?);
    Ok(Held::Invalidate(mr))
}

impl<'d> Fill<'d> for UcOp<'_, 'd> {
    #[inline]
    fn fill(self, request: &mut Filled<'d>) -> Result<Held<'d>> {
        let same = match self {
            Self::Send => RcOp::Send,
            Self::SendImm(data) => RcOp::SendImm(data),
            Self::Write(to) => RcOp::Write(to),
            Self::WriteImm(to, data) => RcOp::WriteImm(to, data),
            Self::RegMr { mr, access } => RcOp::RegMr { mr, access },
            Self::LocalInv(mr) => RcOp::LocalInv(mr),
        };
        same.fill(request)
    }
}

impl<'d> Fill<'d> for UdOp<'_, 'd> {
    #[inline]
    fn fill(self, request: &mut Filled<'d>) -> Result<Held<'d>> {
        match self.immediate {
            None => request.opcode(bindings::IB_WR_SEND),
            Some(data) => {
                request.opcode(bindings::IB_WR_SEND_WITH_IMM);
                request.immediate(data);
            }
        }
        // SAFETY: As for `remote`.
        let ud = unsafe { &mut *request.wr.ud };
        ud.ah = self.ah.as_raw();
        ud.remote_qpn = self.qp_num;
        ud.remote_qkey = self.qkey;
        let _ah = self.ah.clone();
        Ok(Held::Address { _ah })
    }
}

/// Works of a chain that were not posted, in their order.
pub type Rest<'d, H, const N: usize> = [Option<Pin<KBox<Work<'d, H>>>>; N];

/// A chain that was not posted, or not all of it.
pub struct ChainError<'d, H, const N: usize> {
    /// Why.
    pub error: Error,
    /// What was not posted. All that was before it has been.
    pub rest: Rest<'d, H, N>,
}

impl<'d, H, const N: usize> From<ChainError<'d, H, N>> for Error {
    fn from(failed: ChainError<'d, H, N>) -> Self {
        failed.error
    }
}

macro_rules! chain {
    ($(#[$meta:meta])* $name:ident, $state:ident, $slot:ty, $raw:ident, $post:ident) => {
        $(#[$meta])*
        ///
        /// It lies on the stack, and takes some 200 bytes for each request.
        pub struct $name<'q, 'd, T: Transport, S: $state, H: Handler<'d>, const N: usize> {
            qp: &'q QpRef<'d, T, S>,
            slots: [Option<($slot, Posted<'d, H>)>; N],
            count: usize,
        }

        impl<'q, 'd, T: Transport, S: $state, H: Handler<'d>, const N: usize>
            $name<'q, 'd, T, S, H, N>
        {
            pub(super) fn new(qp: &'q QpRef<'d, T, S>) -> Self {
                Self {
                    qp,
                    slots: [const { None }; N],
                    count: 0,
                }
            }

            /// How many requests there are.
            pub fn len(&self) -> usize {
                self.count
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.count == 0
            }

            fn put(&mut self, slot: $slot, posted: Posted<'d, H>) {
                if let Some(place) = self.slots.get_mut(self.count) {
                    *place = Some((slot, posted));
                    self.count = self.count.saturating_add(1);
                }
            }

            /// Links the requests. Returns the first.
            fn link(&mut self) -> *const $raw {
                let mut next = null();
                for (slot, _) in self.slots.iter_mut().rev().flatten() {
                    next = slot.link(next);
                }
                next
            }

            /// Posts the requests, in their order. Any context.
            ///
            /// # Errors
            ///
            /// As for one request; those before the one that failed are posted.
            pub fn post(mut self) -> Result<(), ChainError<'d, H, N>> {
                let first = self.link();
                if first.is_null() {
                    return Ok(());
                }
                let mut bad = null();
                let posted = self.qp.guarded(|raw| {
                    // SAFETY: The queue pair is there; the driver copies the requests; the works stay until they are
                    // completed.
                    to_result(unsafe { bindings::$post(raw, first, &mut bad) })
                });
                let Err(error) = posted else {
                    // They are the device's now.
                    self.slots = [const { None }; N];
                    return Ok(());
                };
                let rest = self.rest(bad);
                Err(ChainError { error, rest })
            }

            /// Takes back what was not posted: from the request `bad` on, or all.
            fn rest(&mut self, bad: *const $raw) -> Rest<'d, H, N> {
                let is_bad = |(slot, _): &($slot, _)| core::ptr::eq(slot.address(), bad);
                let posted = self.slots.iter().flatten().position(is_bad).unwrap_or(0);
                let mut rest = [const { None }; N];
                let taken = self.slots.iter_mut().map_while(Option::take);
                for (place, (_, posted)) in rest.iter_mut().zip(taken.skip(posted)) {
                    // SAFETY: The driver has not taken the request.
                    *place = Some(unsafe { posted.take_back(false) }.0);
                }
                rest
            }
        }

        impl<'d, T: Transport, S: $state, H: Handler<'d>, const N: usize> Drop
            for $name<'_, 'd, T, S, H, N>
        {
            fn drop(&mut self) {
                for (_, posted) in self.slots.iter_mut().filter_map(Option::take) {
                    // SAFETY: What is still here was not posted.
                    drop(unsafe { posted.take_back(false) });
                }
            }
        }
    };
}

chain! {
    /// Requests to send that are posted at once, up to `N`: made by [`QpRef::send_chain`].
    SendChain, CanSend, SendSlot<'d>, ib_send_wr, ib_post_send
}

chain! {
    /// Requests to receive that are posted at once, up to `N`: made by [`QpRef::receive_chain`].
    ReceiveChain, CanReceive, ReceiveSlot, ib_recv_wr, ib_post_recv
}

/// There is no room.
fn full<'d, H>(work: Pin<KBox<Work<'d, H>>>) -> PostError<'d, H> {
    let error = ENOSPC;
    PostError { error, work }
}

impl<'d, T: Transport, S: CanSend, H: Handler<'d>, const N: usize> SendChain<'_, 'd, T, S, H, N> {
    /// Adds a request.
    ///
    /// # Errors
    ///
    /// `ENOSPC` where there is no room for another, and as for [`QpRef::post_send`].
    pub fn push(
        &mut self,
        work: Pin<KBox<Work<'d, H>>>,
        op: T::Op<'_, 'd>,
    ) -> Result<(), PostError<'d, H>> {
        if self.count >= N {
            return Err(full(work));
        }
        let mut slot = SendSlot::new();
        let posted = self.qp.prepare_send(&mut slot, work, op)?;
        self.put(slot, posted);
        Ok(())
    }
}

impl<'d, T: Transport, S: CanReceive, H: Handler<'d>, const N: usize>
    ReceiveChain<'_, 'd, T, S, H, N>
{
    /// Adds a request.
    ///
    /// # Errors
    ///
    /// `ENOSPC` where there is no room for another, `ENOMEM` where there is none for its completion.
    pub fn push(&mut self, work: Pin<KBox<Work<'d, H>>>) -> Result<(), PostError<'d, H>> {
        if self.count >= N {
            return Err(full(work));
        }
        let (slot, posted) = self.qp.prepare_receive(work)?;
        self.put(slot, posted);
        Ok(())
    }
}
