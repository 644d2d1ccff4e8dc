// SPDX-License-Identifier: GPL-2.0

//! Congestion control of a connected queue pair: the driver's part of [`roce::congestion`] (IBTA volume 1, annex A17.9).
//!
//! Packets that queues may mark, what marks and notifications lead to, and packets that wait for their time.
//!
//! The module parameter `congestion_control=1` enables it, for the queue pairs that are created then. Without it there is a null
//! pointer in its place. Messages that are [copied](super::direct) pass no queue, and are not delayed.

use super::ops::QpOps;
use super::types::{Engine, Qp, Queues};
use crate::counters::Counter;
use crate::packet::Incoming;
use crate::path::Path;
use crate::tx;
use kernel::prelude::*;
use kernel_ext::compat::module_param;
use kernel_ext::timer::now_ns;
use roce::congestion::{Congestion, Ecn, Parameters, NOTIFICATION_LEN};
use roce::run::PacketRun;
use roce::state::{Service, Time};
use roce::wire::Packet;

fn is_enabled() -> bool {
    module_param::value(&crate::module_parameters::congestion_control) != 0
}

/// The congestion control of a new queue pair, if it has one. Sleeps.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn of(service: Service) -> Result<Option<KBox<Congestion>>> {
    if !is_enabled() || service == Service::Ud {
        return Ok(None);
    }
    let congestion = KBox::new(Congestion::new(&Parameters::SOFTWARE), GFP_KERNEL)?;
    Ok(Some(congestion))
}

impl Queues {
    /// Sets the path of a connected queue pair.
    pub(super) fn set_path(&mut self, path: Option<Path>) {
        self.path = path;
        if let (Some(path), Some(_)) = (&mut self.path, &self.congestion) {
            path.set_ecn(Ecn::CAPABLE);
        }
    }

    /// Whether packets with data may be sent now. If not, the timer runs the engine.
    #[inline]
    pub(super) fn may_send(&mut self) -> bool {
        match &mut self.congestion {
            Some(congestion) => congestion.may_send(),
            None => true,
        }
    }

    /// Notes packets with data that were sent.
    #[inline]
    pub(super) fn note_sent(&mut self, run: &PacketRun) {
        if let (Some(congestion), Some(path)) = (&mut self.congestion, &self.path) {
            congestion.sent(path.bytes_of(run));
        }
    }
}

impl QpOps<'_> {
    /// Sends a congestion notification, which no queue marks.
    fn send_notification(&mut self, packet: &Packet) {
        let zeroes =
            |room: &mut kernel_ext::room::Room<'_>| room.write_zeros(NOTIFICATION_LEN as usize);
        let Ok(built) = tx::Packet::build(packet.headers(), NOTIFICATION_LEN, zeroes) else {
            return;
        };
        self.set_ecn(Ecn::NOT_CAPABLE);
        self.send(built, None);
        self.set_ecn(Ecn::CAPABLE);
        self.queues.counters.add(Counter::CnpSent, 1);
    }

    fn set_ecn(&mut self, ecn: Ecn) {
        if let Some(path) = &mut self.queues.path {
            path.set_ecn(ecn);
        }
    }
}

impl Engine {
    /// When the engine must run if nothing else happens.
    #[inline]
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let answer = self.requester.next_deadline();
        match &self.queues.congestion {
            Some(congestion) => [answer, congestion.next_deadline()]
                .into_iter()
                .flatten()
                .min(),
            None => answer,
        }
    }

    /// Begins a run of requester and responder: notifies the peer, if that is due.
    #[inline]
    pub(super) fn begin(&mut self, qp: &Qp, now: Time) {
        if self.queues.congestion.is_some() {
            self.begin_congestion(qp, now);
        }
    }

    fn begin_congestion(&mut self, qp: &Qp, now: Time) {
        let Some(congestion) = &mut self.queues.congestion else {
            return;
        };
        congestion.begin(now);
        self.requester.set_paced(congestion.limit().is_some());
        if !congestion.is_due() || !qp.flight.has_room() {
            return;
        }
        let attr = self.responder.attr();
        let notification = congestion.notification(attr.dest_qpn, attr.pkey);
        let (_, _, mut ops) = self.split(qp, None);
        if let Some(packet) = notification {
            ops.send_notification(&packet);
        }
    }

    /// Notes whether a packet was marked, if it comes from the peer.
    pub(super) fn note_packet(&mut self, incoming: &Incoming) {
        let path = self.queues.path.as_ref();
        if path.is_some_and(|path| path.is_from_peer(incoming.addresses())) {
            self.note_marks(incoming.traffic_class(), 1);
        }
    }

    /// Notes packets from the peer with this traffic class, which has the marks.
    pub(super) fn note_marks(&mut self, traffic_class: u8, packets: u64) {
        if !Ecn::is_marked(traffic_class) || packets == 0 {
            return;
        }
        self.queues.counters.add(Counter::EcnMarked, packets);
        if let Some(congestion) = &mut self.queues.congestion {
            congestion.marked(Time::from_ns(now_ns()));
        }
    }

    /// Handles a congestion notification of the peer.
    #[cold]
    pub(super) fn take_notification(&mut self) {
        let connected = self.responder.state().receives();
        let congestion = self.queues.congestion.as_mut().filter(|_| connected);
        let heeded =
            congestion.is_some_and(|congestion| congestion.notified(Time::from_ns(now_ns())));
        let counter = match heeded {
            true => Counter::CnpHandled,
            false => Counter::CnpIgnored,
        };
        self.queues.counters.add(counter, 1);
    }
}
