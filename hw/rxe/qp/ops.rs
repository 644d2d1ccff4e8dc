// SPDX-License-Identifier: GPL-2.0

//! The engine's interfaces to the driver, [`SendOps`](roce::memory::SendOps) and [`RecvOps`](roce::memory::RecvOps): the queues and
//! paths of a queue pair during one call of the engine.

use super::recv_queue::RecvQueue;
use super::send_queue::SendQueue;
use super::types::{Clock, Qp, Queues};
use crate::ah::Av;
use crate::backlog::Next;
use crate::counters::Counters;
use crate::icrc::Prefixes;
use crate::packet::Arrival;
use crate::path::Path;
use crate::pkeys::{Partition, PkeyIndex};
use crate::port_id::PortId;
use crate::segments::{self, Batch};
use crate::tx;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::compat::module_param;
use kernel_ext::room::Room;
use rdma::Access;
use roce::congestion::Congestion;
use roce::migration::Migration;
use roce::mtu::Mtu;
use roce::run::{PacketRun, Slice};

/// The maximum number of bytes that are copied at a time, with softirqs disabled.
const LONGEST_COPY: u32 = 1 << 16;

/// Whether messages between queue pairs of one device are [copied](super::direct).
fn direct_copy() -> bool {
    module_param::value(&crate::module_parameters::direct_copy) != 0
}

/// Whether several packets are sent in [one buffer](crate::segments).
fn segmentation() -> bool {
    module_param::value(&crate::module_parameters::segmentation) != 0
}

/// Whether acknowledgements carry the number of posted receives.
pub(super) fn flow_control() -> bool {
    module_param::value(&crate::module_parameters::flow_control) != 0
}

/// The implementation of `SendOps` and `RecvOps` during one call of the engine.
pub(crate) struct QpOps<'p> {
    pub(super) qp: &'p Qp,
    pub(super) queues: &'p mut Queues,
    /// The arrival of the message that is being received, if any.
    pub(super) arrival: Option<Arrival<'p>>,
}

impl Queues {
    /// Initialises queues without paths in place.
    pub(super) fn init(
        (send, recv): (SendQueue, RecvQueue),
        congestion: Option<KBox<Congestion>>,
        counters: Arc<Counters>,
        port: PortId,
    ) -> impl Init<Self> {
        let entry = Partition::Entry(PkeyIndex { port, index: 0 });
        init!(Self {
            send,
            recv,
            path: None,
            alternate: None,
            migration: Migration::new(),
            took_alternate: false,
            datagram_path: None,
            prefixes: Prefixes::default(),
            congestion,
            counters,
            access: Access::empty(),
            partition: entry,
            admitted: entry,
            moved: None,
            batch: None,
            sent: 0,
            clock: Clock::default(),
            within_copy: false,
            next: Next::default(),
            overflowed: false,
        })
    }

    /// Whether the peer of a connected QP is a QP of the same device.
    #[inline]
    pub(super) fn loops_back(&self) -> bool {
        self.path.as_ref().is_some_and(Path::loops_back)
    }

    /// Whether messages are [copied](super::direct) to the peer.
    #[inline]
    pub(super) fn copies(&self) -> bool {
        self.may_copy() && self.loops_back()
    }

    /// Whether messages are copied to QPs of this device.
    #[inline]
    pub(super) fn may_copy(&self) -> bool {
        !self.within_copy && direct_copy()
    }

    /// Drops the path of the last datagram, so that the QP references no GID and no route of its address vector; which keeps the
    /// route, if `keep` says so.
    #[inline]
    pub(super) fn end_datagrams(&mut self, keep: bool) {
        if let Some(path) = self.datagram_path.take().filter(|_| keep) {
            path.keep_route();
        }
    }

    /// Drops the cached route to the peer.
    pub(super) fn forget_route(&mut self) {
        self.path.iter_mut().for_each(Path::forget_route);
    }

    /// Drops all requests and paths.
    pub(super) fn reset(&mut self) {
        self.send.reset();
        self.recv.reset();
        self.path = None;
        self.alternate = None;
        self.migration = Migration::new();
        self.took_alternate = false;
        self.datagram_path = None;
        self.moved = None;
        self.batch = None;
        self.overflowed = false;
        if let Some(congestion) = &mut self.congestion {
            congestion.reset();
        }
    }
}

/// The path to `av`, which becomes that of the last datagram, or to the peer of a connected QP.
#[inline]
pub(super) fn path_to<'a>(
    qp: &Qp,
    (path, datagram_path): (&'a mut Option<Path>, &'a mut Option<Path>),
    av: Option<&Arc<Av>>,
) -> Option<&'a mut Path> {
    let Some(av) = av else {
        return path.as_mut();
    };
    let known = matches!(datagram_path, Some(path) if path.is_to(av));
    if !known {
        *datagram_path = Some(Path::for_datagrams(av.clone(), qp.number()));
    }
    datagram_path.as_mut()
}

impl QpOps<'_> {
    /// The number of packets that may be sent at a time.
    #[inline]
    pub(super) fn longest(&self, mtu: Mtu) -> u32 {
        if self.queues.copies() {
            return LONGEST_COPY >> mtu.shift();
        }
        let longest = match &self.queues.path {
            Some(path) if !path.loops_back() && segmentation() => segments::MAX_PACKETS,
            _ => 1,
        };
        match &self.queues.congestion {
            Some(congestion) => congestion.longest_run(mtu, longest),
            None => longest,
        }
    }

    /// Sends a packet: to `av`, or to the peer of a connected QP.
    ///
    /// If that fails, it is lost, as on the wire.
    pub(super) fn send(&mut self, packet: tx::Packet, av: Option<Arc<Av>>) {
        let Queues {
            path,
            datagram_path,
            next,
            counters,
            ..
        } = &mut *self.queues;
        if let Some(path) = path_to(self.qp, (path, datagram_path), av.as_ref()) {
            let Qp { rxe, flight, .. } = self.qp;
            packet.send(path, flight, counters, |port, qpn, skb| {
                rxe.loop_back(port, qpn, skb, next);
            });
        }
    }

    /// Sends the packets of the batch.
    #[inline]
    pub(super) fn flush(&mut self) {
        let batch = self.queues.batch.take();
        if let Some(packet) = batch.and_then(Batch::finish) {
            self.send(packet, None);
        }
    }

    /// Sends the packets of a run: to `av`, or to the peer of a connected QP. `fill` writes the payload from an offset in the run
    /// on. `more`: further packets may follow, so the last ones are kept in the batch to be sent with them.
    ///
    /// If that fails, or memory is short, packets are lost, as on the wire.
    ///
    /// # Errors
    ///
    /// Errors of `fill`.
    pub(super) fn send_run<E>(
        &mut self,
        run: &PacketRun,
        av: Option<Arc<Av>>,
        more: bool,
        mut fill: impl FnMut(&SendQueue, u32, u32, &mut Room<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let several = run.count() > 1 || more || self.queues.batch.is_some();
        let several = several || run.payload_len() >= segments::LONG;
        let batches = several && av.is_none() && !self.queues.loops_back() && segmentation();
        let mut slices = run.slices();
        while let Some((slice, left)) = slices.advance() {
            let Slice { offset, len, .. } = *slice;
            self.queues.sent = self.queues.sent.wrapping_add(1);
            if batches && self.add_to_batch(slice, left, more, &mut fill)? {
                continue;
            }
            let send = &self.queues.send;
            let packet =
                tx::Packet::build(&slice.headers, len, |room| fill(send, offset, len, room))?;
            self.send(packet, av.clone());
        }
        if !more {
            self.flush();
        }
        Ok(())
    }

    /// Adds a packet of a run, of which `left` packets follow, to the batch; returns false if the packet must be sent alone. A
    /// batch that cannot take the packet is sent first.
    fn add_to_batch<E>(
        &mut self,
        slice: &Slice,
        left: u32,
        more: bool,
        fill: &mut impl FnMut(&SendQueue, u32, u32, &mut Room<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        if !matches!(&self.queues.batch, Some(batch) if batch.takes(slice)) {
            self.flush();
            let alone = left == 0 && !more;
            if alone && slice.len < segments::LONG {
                return Ok(false);
            }
            // The packets that follow one with extension headers are shorter than it, so at most one of them can be added.
            let follow = match (alone, slice.has_extensions()) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => left.max(1),
            };
            let count = follow.min(segments::MAX_PACKETS).saturating_add(1) as usize;
            let expected = slice.udp_payload_len().saturating_mul(count);
            let path = self.queues.path.as_ref();
            self.queues.batch = path.and_then(|path| Batch::new(path, slice, expected));
        }
        let Queues {
            send, path, batch, ..
        } = &mut *self.queues;
        let (Some(path), Some(batch)) = (path, batch) else {
            return Ok(false);
        };
        let pages = &self.qp.rxe.pages;
        let added = batch.add(path, pages, slice, |room| {
            fill(send, slice.offset, slice.len, room)
        });
        if !matches!(added, Ok(true)) {
            self.flush();
        }
        added
    }
}
