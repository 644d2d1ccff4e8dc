// SPDX-License-Identifier: GPL-2.0

//! Path migration of a connected queue pair: the driver's part of [`roce::migration`] (IBTA volume 1, 17.2.8).
//!
//! The alternate path is one of the same device, by its other port, from another source GID, or to another address of the peer. It is
//! in [`Queues`] beside the path that packets take. The [attributes](Attr) that `query_qp` returns are behind a lock that sleeps, so they
//! are [told](Queues::tell_migration) of a migration later, before they are read or modified.

use super::attr::Attr;
use super::types::{Engine, Qp, Queues};
use crate::path::{AddressPair, Alternate, Path};
use crate::pkeys::Partition;
use crate::port_id::PortId;
use kernel::sync::Arc;
use rdma::abi::qp::MigState;
use roce::migration::{Migration, Origin, PathAttr, PathState, Verdict, Wanted};
use roce::opcode::Opcode;
use roce::state::QpEvent;
use roce::wire::Bth;

/// The state as `query_qp` returns it.
pub(super) fn state_of(queues: &Queues) -> MigState {
    match queues.migration.state() {
        PathState::Migrated => MigState::Migrated,
        PathState::Rearm => MigState::Rearm,
        PathState::Armed => MigState::Armed,
    }
}

impl Queues {
    /// The state of path migration, and whether an alternate path was loaded.
    pub(super) fn migration(&self) -> (Migration, bool) {
        (self.migration, self.alternate.is_some())
    }

    /// Makes the alternate path the primary one of the attributes, if it was taken.
    pub(super) fn tell_migration(&mut self, attr: &mut Attr) {
        if core::mem::take(&mut self.took_alternate) {
            attr.take_alternate();
        }
    }

    /// Sets the port and the P_Key of the path.
    pub(super) fn set_partition(&mut self, qp: &Qp, partition: Partition) {
        let (before, port) = (self.partition.port(), partition.port());
        self.partition = partition;
        if before != port {
            self.count_for_port(qp, before, port);
        }
        self.admitted = match (partition, &self.alternate) {
            (Partition::Entry(own), Some(other)) if !self.migration.has_migrated() => {
                Partition::Either(own, other.pkey())
            }
            _ => partition,
        };
    }

    /// What was counted for a port is counted for another one. What is counted for a counter stays there.
    #[cold]
    fn count_for_port(&mut self, qp: &Qp, before: PortId, port: PortId) {
        if Arc::ptr_eq(&self.counters, qp.rxe.port(before).counters.own()) {
            self.counters = qp.rxe.port(port).counters.own().clone();
        }
    }

    /// Packets take the alternate path from now on; tells the user. Returns what that changes for the requester.
    #[cold]
    pub(super) fn take_alternate(&mut self, qp: &Qp) -> Option<PathAttr> {
        let alternate = self.alternate.as_ref()?;
        let path = Path::new(alternate.av.clone(), qp.number(), alternate.dest_qpn);
        let ack_timeout = alternate.ack_timeout;
        let partition = Partition::Entry(alternate.pkey());
        self.set_path(Some(path));
        self.set_partition(qp, partition);
        self.took_alternate = true;
        qp.raise(QpEvent::PathMigrated);
        Some(PathAttr {
            pkey: qp.rxe.pkey_of(partition),
            ack_timeout,
        })
    }

    /// The paths that a packet may have come by: its addresses are theirs, and so is its P_Key.
    fn origin(&self, qp: &Qp, bth: &Bth, addresses: AddressPair) -> Origin {
        let admits = |partition| qp.rxe.admits(partition, bth.pkey);
        Origin {
            primary: self
                .path
                .as_ref()
                .is_some_and(|path| path.is_from_peer(addresses) && admits(self.partition)),
            alternate: self.alternate.as_ref().is_some_and(|path| {
                path.is_from_peer(addresses) && admits(Partition::Entry(path.pkey()))
            }),
        }
    }
}

impl Engine {
    /// Loads an alternate path, and changes to the state that the user wants. Both were validated.
    pub(super) fn change_migration(
        &mut self,
        qp: &Qp,
        alternate: Option<Alternate>,
        wanted: Option<Wanted>,
    ) {
        if alternate.is_some() {
            self.queues.alternate = alternate;
        }
        if wanted.is_some_and(|wanted| self.queues.migration.ask(wanted)) {
            self.migrate(qp);
        }
    }

    fn migrate(&mut self, qp: &Qp) {
        if let Some(path) = self.queues.take_alternate(qp) {
            self.requester.take_path(path);
        }
    }

    /// Whether a packet between two addresses is from the peer of a connected QP. If the peer has migrated, so does the QP.
    #[inline]
    pub(super) fn is_from_peer(&mut self, qp: &Qp, bth: &Bth, addresses: AddressPair) -> bool {
        if !self.queues.migration.has_migrated() {
            return self.judge(qp, bth, addresses);
        }
        let path = self.queues.path.as_ref();
        path.is_some_and(|path| path.is_from_peer(addresses))
    }

    #[cold]
    fn judge(&mut self, qp: &Qp, bth: &Bth, addresses: AddressPair) -> bool {
        let origin = self.queues.origin(qp, bth, addresses);
        if bth.opcode == Opcode::Cnp {
            // Its bit says nothing.
            return origin.primary;
        }
        match self.queues.migration.judge(origin, bth.migrated) {
            Verdict::Take => true,
            Verdict::Follow => {
                self.migrate(qp);
                true
            }
            Verdict::Drop => false,
            Verdict::Refuse => {
                qp.raise(QpEvent::PathMigrationErr);
                false
            }
        }
    }
}
