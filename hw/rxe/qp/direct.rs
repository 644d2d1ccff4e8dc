// SPDX-License-Identifier: GPL-2.0

//! Direct copy: messages between two queue pairs of one device are copied from memory to memory, without packets. Those to multicast
//! groups are not.
//!
//! The sender's engine calls the receiver's, with both locks held. It uses a trylock for the receiver's, so two queue pairs that
//! send to each other do not deadlock. If the lock is taken, if the receiver has a backlog that it cannot empty first, or if the
//! memory can only be accessed with a lock held, the message is sent in packets, which are added to the receiver's
//! [backlog](crate::backlog); so the order is kept. Both engines apply the rules of packets, and the receiver responds when the
//! sender's run has ended. While the receiver handles its backlog within the sender's call, it sends packets: direct copies do not
//! nest, however many queue pairs a chain of connections has.
//!
//! The module parameter `direct_copy=0` disables direct copies.

use super::types::{Engine, Qp};
use crate::backlog::Next;
use crate::check;
use crate::counters::Counters;
use crate::ids::place;
use crate::packet::{Arrival, Payload};
use crate::path::Path;
use crate::source::Source;
use kernel::sync::rcu;
use roce::run::PacketRun;
use roce::state::{Received, Service};

/// Passes a run of packets with its payload to the peer, which becomes the `next` queue pair to run. Returns false if the packets
/// must be sent instead. Packets for an unknown QP are counted as sent and lost.
pub(super) fn hand_over(
    qp: &Qp,
    (path, counters): (&Path, &Counters),
    run: &PacketRun,
    source: &Source<'_>,
    next: &mut Next,
) -> bool {
    let guard = rcu::read_lock();
    let peer = place(run.packet().bth().dest_qpn.get(), path.port());
    let Some(peer) = qp.rxe.qps.get(peer, &guard) else {
        count_sent(counters, path, run);
        return true;
    };
    let Some(mut engine) = peer.engine.try_lock() else {
        return false;
    };
    if !engine.dead && !engine.take_in_order(&peer, path, run, source) {
        return false;
    }
    drop(engine);
    count_sent(counters, path, run);
    if !next.claim(peer.number()) {
        peer.backlog.wake(|| Qp::schedule(&peer.into()));
    }
    true
}

fn count_sent(counters: &Counters, path: &Path, run: &PacketRun) {
    counters.sent(run.count().into(), path.bytes_of(run));
}

impl Engine {
    /// Handles the backlog, and then a run of packets of a direct copy. Returns false if the backlog is too long, or memory is absent.
    fn take_in_order(
        &mut self,
        qp: &Qp,
        path: &Path,
        run: &PacketRun,
        source: &Source<'_>,
    ) -> bool {
        self.queues.within_copy = true;
        self.queues.clock.restart();
        let (_, more) = self.receive_all(qp);
        let ready = !more && self.held.is_none();
        let taken = ready && self.take_copy(qp, path, run, source) == Received::Done;
        self.queues.within_copy = false;
        taken
    }

    /// Whether the packets of a run are of the QP's service and partition.
    fn takes(&self, qp: &Qp, run: &PacketRun) -> bool {
        let packets = (run.packet().bth(), run.count());
        check::suits(&qp.rxe, qp.service, self.queues.admitted, packets)
    }

    /// The arrival of a run of packets with the headers of `path`. `None` if they are not for this QP.
    fn arrival_of(&mut self, qp: &Qp, path: &Path, run: &PacketRun) -> Option<Arrival<'static>> {
        let packet = run.packet();
        let (bth, network_type) = (packet.bth(), path.network_type());
        if qp.service != Service::Ud {
            let taken = self.takes(qp, run) && self.is_from_peer(qp, bth, path.addresses());
            return taken.then_some(Arrival::Other {
                network_type,
                vlan_id: None,
            });
        }
        let admitted = self.queues.admitted;
        if !check::takes_datagram(&qp.rxe, admitted, path.addresses()) || !self.takes(qp, run) {
            return None;
        }
        Some(Arrival::Datagram {
            grh: path.network(packet.udp_payload_len(), 0)?.grh(),
            pkey: bth.pkey,
            network_type,
        })
    }

    /// Handles a run of packets of a direct copy, which have the headers of `path`.
    fn take_copy(
        &mut self,
        qp: &Qp,
        path: &Path,
        run: &PacketRun,
        source: &Source<'_>,
    ) -> Received {
        let packets = u64::from(run.count());
        let bytes = path.bytes_of(run);
        self.queues.counters.received(packets, bytes);
        let Some(arrival) = self.arrival_of(qp, path, run) else {
            return Received::Done;
        };
        let payload = |offset, len| Payload::Memory {
            source,
            offset,
            len,
        };
        let received = self.take_run(qp, run, payload, arrival);
        if received == Received::Absent {
            // They are counted when they arrive as packets.
            let counters = &self.queues.counters;
            counters.received(packets.wrapping_neg(), bytes.wrapping_neg());
        }
        received
    }
}
