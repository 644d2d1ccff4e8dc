// SPDX-License-Identifier: GPL-2.0

//! Several requests in one call of `ib_post_send`, linked by `ib_send_wr.next`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::null;

use kernel::{error::to_result, prelude::*};
use rdma_bindings::{self as bindings, ib_recv_wr, ib_send_wr};

use super::{
    qp::{
        shared::QpRef,
        state::{CanReceive, CanSend},
        transport::Transport,
    },
    request::{ReceiveSlot, SendSlot},
    work::{Handler, PostError, Posted, Work},
};

/// The works of a chain that were not posted, in order.
pub type Rest<'d, H, const N: usize> = [Option<Pin<KBox<Work<'d, H>>>>; N];

/// The error of posting a chain, of which all or some requests were not posted.
pub struct ChainError<'d, H, const N: usize> {
    /// The error.
    pub error: Error,
    /// The works that were not posted. All earlier ones were posted.
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
        /// The chain takes about 200 bytes of stack per request.
        pub struct $name<'q, 'd, T: Transport, S: $state, H: Handler<'d>, const N: usize> {
            qp: &'q QpRef<'d, T, S>,
            slots: [Option<($slot, Posted<'d, H>)>; N],
            count: usize,
        }

        impl<'q, 'd, T: Transport, S: $state, H: Handler<'d>, const N: usize>
            $name<'q, 'd, T, S, H, N>
        {
            fn new(qp: &'q QpRef<'d, T, S>) -> Self {
                Self {
                    qp,
                    slots: [const { None }; N],
                    count: 0,
                }
            }

            /// The number of requests.
            pub fn len(&self) -> usize {
                self.count
            }

            /// Whether there are no requests.
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

            /// Posts the requests, in order. Any context.
            ///
            /// # Errors
            ///
            /// As for one request; the requests before the failed one are posted.
            pub fn post(mut self) -> Result<(), ChainError<'d, H, N>> {
                let first = self.link();
                if first.is_null() {
                    return Ok(());
                }
                let mut bad = null();
                let posted = self.qp.guarded(|raw| {
                    // SAFETY: The queue pair is valid; the driver copies the requests; the works are valid until
                    // they are completed.
                    to_result(unsafe { bindings::$post(raw, first, &mut bad) })
                });
                let Err(error) = posted else {
                    // The queue pair owns the works now.
                    self.slots = [const { None }; N];
                    return Ok(());
                };
                let rest = self.rest(bad);
                Err(ChainError { error, rest })
            }

            /// Takes back the works that were not posted: from the request `bad` on, or all.
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
                    // SAFETY: The works that are still in `slots` were not posted.
                    drop(unsafe { posted.take_back(false) });
                }
            }
        }
    };
}

chain! {
    /// Up to `N` send requests that are posted in one call: made by [`QpRef::send_chain`].
    SendChain, CanSend, SendSlot<'d>, ib_send_wr, ib_post_send
}

chain! {
    /// Up to `N` receive requests that are posted in one call: made by [`QpRef::receive_chain`].
    ReceiveChain, CanReceive, ReceiveSlot, ib_recv_wr, ib_post_recv
}

/// The error for a full chain.
fn full<'d, H>(work: Pin<KBox<Work<'d, H>>>) -> PostError<'d, H> {
    let error = ENOSPC;
    PostError { error, work }
}

impl<'d, T: Transport, S: CanSend, H: Handler<'d>, const N: usize> SendChain<'_, 'd, T, S, H, N> {
    /// Adds a request.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the chain is full, and as for [`QpRef::post_send`].
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
    /// `ENOSPC` if the chain is full, `ENOMEM` if the completion queue has no free entry.
    pub fn push(&mut self, work: Pin<KBox<Work<'d, H>>>) -> Result<(), PostError<'d, H>> {
        if self.count >= N {
            return Err(full(work));
        }
        let (slot, posted) = self.qp.prepare_receive(work)?;
        self.put(slot, posted);
        Ok(())
    }
}

impl<'d, T: Transport, S: CanSend> QpRef<'d, T, S> {
    /// An empty chain of up to `N` send requests.
    pub fn send_chain<H: Handler<'d>, const N: usize>(&self) -> SendChain<'_, 'd, T, S, H, N> {
        SendChain::new(self)
    }
}

impl<'d, T: Transport, S: CanReceive> QpRef<'d, T, S> {
    /// An empty chain of up to `N` receive requests.
    pub fn receive_chain<H: Handler<'d>, const N: usize>(
        &self,
    ) -> ReceiveChain<'_, 'd, T, S, H, N> {
        ReceiveChain::new(self)
    }
}
