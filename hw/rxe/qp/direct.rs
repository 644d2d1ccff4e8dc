// SPDX-License-Identifier: GPL-2.0

//! Messages between two connected queue pairs of one device without packets: they are copied from memory to memory.
//!
//! The sender's engine calls the receiver's, with the receiver's lock held too. It only tries to take it, so two queue pairs that
//! send to each other at the same time do not wait for each other. Where it cannot have the lock, or packets wait for the receiver
//! that it cannot handle first, or the memory can only be accessed with a lock held, the message goes in packets, which wait for
//! the receiver in its [backlog](crate::backlog); so the order is kept in any case. Both engines apply the rules of packets, and
//! the receiver answers when the sender is done.
//!
//! The module's parameter `direct_copy=0` has all messages go in packets.

use super::engine::Engine;
use super::Qp;
use crate::backlog::Next;
use crate::check;
use crate::counters::{Counter, Counters};
use crate::packet::{Arrival, Payload};
use crate::path::Path;
use crate::source::Source;
use kernel::sync::rcu;
use roce::run::PacketRun;

/// Gives a run of packets with its payload to the peer, which becomes the `next` queue pair to be handled. Returns whether it did; a
/// queue pair that there is not loses the packets, as on the wire.
pub(super) fn hand_over(
    qp: &Qp,
    path: &Path,
    run: &PacketRun,
    source: &Source<'_>,
    next: &mut Next,
) -> bool {
    let counters = &qp.rxe.counters;
    let guard = rcu::read_lock();
    let Some(peer) = qp.rxe.qps.get(run.packet().bth().dest_qpn.get(), &guard) else {
        count_sent(counters, path, run);
        return true;
    };
    let Some(mut engine) = peer.engine.try_lock() else {
        return false;
    };
    if !engine.dead {
        let (_, more) = engine.receive_all(&peer);
        if more {
            return false;
        }
        engine.take_copy(&peer, path, run, source);
    }
    drop(engine);
    count_sent(counters, path, run);
    if !next.claim(peer.number()) {
        peer.backlog.wake(|| Qp::schedule(&peer.into()));
    }
    true
}

fn count_sent(counters: &Counters, path: &Path, run: &PacketRun) {
    counters.add(Counter::SentPackets, run.count().into());
    counters.add(Counter::SentBytes, path.bytes_of(run));
}

impl Engine {
    /// Handles a run of packets that comes over `path` without being sent.
    fn take_copy(&mut self, qp: &Qp, path: &Path, run: &PacketRun, source: &Source<'_>) {
        let counters = &qp.rxe.counters;
        counters.add(Counter::ReceivedPackets, run.count().into());
        counters.add(Counter::ReceivedBytes, path.bytes_of(run));
        let own = self.queues.path.as_ref();
        let from_peer = own.is_some_and(|own| own.is_reverse_of(path));
        if !from_peer || !check::suits(&qp.rxe, qp.service, run.packet().bth()) {
            return;
        }
        let arrival = Arrival::Other {
            network_type: path.network_type(),
            vlan_id: None,
        };
        let payload = |offset, len| Payload::Memory {
            source,
            offset,
            len,
        };
        self.take_run(qp, run, payload, arrival);
    }
}
