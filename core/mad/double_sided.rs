// SPDX-License-Identifier: GPL-2.0

//! Double-sided RMPP transfers: the initial window of the response comes with the last ACK of the request.
//!
//! IBTA specification, volume 1, section 13.6.6.3.

use kernel::sync::Arc;
use rdma::core::mad::{recv::RecvMad, send::PostedBody};

use super::{
    header::{method, Header},
    matching,
    state::{Agent, Origin, Reassembly, Table, Transaction},
};

impl Transaction {
    /// The transaction of a received packet.
    pub(super) fn of(agent: &Agent, header: &Header, mad: &RecvMad) -> Self {
        let source = matching::source(agent, mad);
        Self {
            source,
            tid: header.tid,
            src_qp: mad.wc().src_qp,
            // The GID identifies the sender already.
            slid: if source.is_some() { 0 } else { mad.wc().slid },
            mgmt_class: header.mgmt_class,
            class_version: header.class_version,
            method: header.method,
        }
    }
}

/// The reassembly of a transaction.
pub(super) fn find(table: &Table, wanted: &Transaction) -> Option<Arc<Reassembly>> {
    let mut all = table.reassemblies.iter();
    all.find(|one| one.transaction == *wanted).cloned()
}

/// Sets the window for the response of a message.
pub(super) fn set_answer_window(table: &Table, answered: &Transaction, window: u32) {
    if let Some(this) = find(table, answered) {
        let mut received = this.received.lock();
        if received.complete {
            received.answer_window = window;
        }
    }
}

/// The initial window of a response: what the requester has given, else one segment.
pub(super) fn first_window(response: &Origin) -> u32 {
    let send = response.send();
    let header = send.header();
    if header.method & method::RESP == 0 {
        return 1;
    }
    let Some(sent_to) = response.posted().and_then(PostedBody::destination) else {
        return 1;
    };
    // The GID identifies the requester already.
    let requester = match sent_to.gid {
        Some(gid) => (Some(gid), 0),
        None => (None, sent_to.lid),
    };
    let is_request = |one: &&Arc<Reassembly>| {
        let of = &one.transaction;
        (of.tid, of.mgmt_class, of.class_version)
            == (header.tid, header.mgmt_class, header.class_version)
            && of.method & method::RESP == 0
            && (of.source, of.slid) == requester
    };
    let table = send.agent.table.lock();
    let request = table.reassemblies.iter().find(is_request);
    request.map_or(1, |request| request.received.lock().answer_window)
}
