// SPDX-License-Identifier: GPL-2.0

//! The driver's side of the engine: its queues and paths, as [`SendOps`](roce::memory::SendOps) and
//! [`RecvOps`](roce::memory::RecvOps) of one call.

use super::recv_queue::RecvQueue;
use super::send_queue::SendQueue;
use super::Qp;
use crate::ah::Av;
use crate::backlog::Next;
use crate::packet::Arrival;
use crate::path::Path;
use crate::segments;
use crate::tx;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::Access;
use roce::mtu::Mtu;
use roce::state::State;

/// Most bytes that are copied at a time, with softirqs disabled.
const LONGEST_COPY: u32 = 1 << 16;

/// The path of a connected queue pair to one of the same device, if messages may be [copied](super::direct).
#[inline]
pub(super) fn direct_path(path: Option<&Path>) -> Option<&Path> {
    let enabled = *crate::module_parameters::direct_copy.value() != 0;
    path.filter(|path| enabled && path.loops_back())
}

/// Whether several packets are sent as [one buffer](crate::segments).
fn segmentation() -> bool {
    *crate::module_parameters::segmentation.value() != 0
}

/// Queues and paths of requester and responder.
pub(crate) struct Queues {
    pub(super) send: SendQueue,
    pub(super) recv: RecvQueue,
    /// The path of a connected QP.
    pub(super) path: Option<Path>,
    /// The path of the last datagram.
    datagram_path: Option<Path>,
    /// Access flags of the peer: `qp_access_flags`.
    pub(super) access: Access,
    /// The state that an engine has changed to by itself.
    pub(super) moved: Option<State>,
    /// Packets sent in this run.
    pub(super) sent: u32,
    /// A QP of the device that was given packets.
    pub(super) next: Next,
    /// A completion was lost because the CQ was full.
    pub(super) overflowed: bool,
}

/// The implementation of `SendOps` and `RecvOps` during one call of the engine.
pub(crate) struct QpOps<'p> {
    pub(super) qp: &'p Qp,
    pub(super) queues: &'p mut Queues,
    /// How the message has come that is being received, if any.
    pub(super) arrival: Option<Arrival<'p>>,
}

impl Queues {
    /// Initialises queues without paths in place.
    pub(super) fn init(send: SendQueue, recv: RecvQueue) -> impl Init<Self> {
        init!(Self {
            send,
            recv,
            path: None,
            datagram_path: None,
            access: Access::empty(),
            moved: None,
            sent: 0,
            next: Next::default(),
            overflowed: false,
        })
    }

    /// Whether the peer of a connected QP is a QP of the same device.
    #[inline]
    pub(super) fn loops_back(&self) -> bool {
        self.path.as_ref().is_some_and(Path::loops_back)
    }

    /// See [`Path::forget_route`].
    pub(super) fn forget_routes(&mut self) {
        let paths = [&mut self.path, &mut self.datagram_path];
        paths.into_iter().flatten().for_each(Path::forget_route);
    }

    /// Drops all requests and paths.
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
    /// The number of packets that may be sent at a time.
    #[inline]
    pub(super) fn longest(&self, mtu: Mtu) -> u32 {
        let path = self.queues.path.as_ref();
        match path.map(Path::loops_back) {
            Some(true) if direct_path(path).is_some() => LONGEST_COPY >> mtu.shift(),
            Some(false) if segmentation() => segments::MOST,
            _ => 1,
        }
    }

    /// Sends a packet: to `av`, or to the peer of a connected QP.
    ///
    /// If that fails, the packet is lost, as on the wire.
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
            let next = &mut self.queues.next;
            self.queues.sent = self.queues.sent.wrapping_add(1);
            packet.send(path, flight, &rxe.counters, |qpn, skb| {
                rxe.loop_back(qpn, skb, next);
            });
        }
    }
}
