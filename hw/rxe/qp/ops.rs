// SPDX-License-Identifier: GPL-2.0

//! What the engine's two halves work on: the queues, the paths, the packet that a call is about.

use super::recv_queue::RecvQueue;
use super::send_queue::SendQueue;
use super::Qp;
use crate::ah::Av;
use crate::device::Rxe;
use crate::packet::Incoming;
use crate::tx::{self, Path};
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::Access;
use roce::state::State;

/// What the requester and the responder work on.
pub(crate) struct Queues {
    pub(super) send: SendQueue,
    pub(super) recv: RecvQueue,
    /// Where a connected QP's packets go.
    pub(super) path: Option<Path>,
    /// Where the last datagram went.
    datagram_path: Option<Path>,
    /// What the peer may do: `qp_access_flags`.
    pub(super) access: Access,
    /// The state that an engine went to by itself.
    pub(super) moved: Option<State>,
    /// A completion found no room.
    pub(super) overflowed: bool,
}

/// The world as the engines see it during one call.
pub(crate) struct QpOps<'p> {
    pub(super) qp: &'p Qp,
    pub(super) queues: &'p mut Queues,
    /// The packet that the call is about.
    pub(super) incoming: Option<&'p Incoming<'p>>,
}

impl Queues {
    /// Makes queues without a path, where they will be.
    pub(super) fn init(send: SendQueue, recv: RecvQueue) -> impl Init<Self> {
        init!(Self {
            send,
            recv,
            path: None,
            datagram_path: None,
            access: Access::empty(),
            moved: None,
            overflowed: false,
        })
    }

    /// See [`Path::forget_route`].
    pub(super) fn forget_routes(&mut self) {
        let paths = [&mut self.path, &mut self.datagram_path];
        paths.into_iter().flatten().for_each(Path::forget_route);
    }

    /// Forgets all requests and paths.
    pub(super) fn reset(&mut self) {
        self.send.reset();
        self.recv.reset();
        self.path = None;
        self.datagram_path = None;
        self.moved = None;
        self.overflowed = false;
    }
}

impl QpOps<'_> {
    /// Sends a packet: to `av`, or to the peer of a connected QP.
    ///
    /// A packet that cannot be sent is lost, as on the wire.
    pub(super) fn send(&mut self, packet: tx::Packet, av: Option<Arc<Av>>) {
        let path = match av {
            None => self.queues.path.as_mut(),
            Some(av) => {
                let known = matches!(&self.queues.datagram_path, Some(path) if path.is_to(&av));
                if !known {
                    self.queues.datagram_path = Some(Path::new(av, self.qp.number(), 0));
                }
                self.queues.datagram_path.as_mut()
            }
        };
        if let Some(path) = path {
            let Qp { rxe, flight, .. } = self.qp;
            packet.send(path, flight, &rxe.counters, |skb| Rxe::loop_back(rxe, skb));
        }
    }
}
