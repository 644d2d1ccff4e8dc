// SPDX-License-Identifier: GPL-2.0

//! The end of an identifier: its peer hears of it, and nobody finds it any more.
//!
//! C header: `include/rdma/ib_cm.h`.

use ib_cm_protocol::{messages::Attribute, reject::Reason, states::State};
use kernel::sync::Arc;
use kernel_ext::sleepable;
use rdma::MaySleep;

use crate::{
    id::{listens, CmId, Entry},
    seek::seek,
    send::With,
    tables,
};

/// Ends an identifier that its client has given up. An event that is being told is not waited for. `false` if other clients share it.
pub(crate) fn end(id: &Arc<CmId>, no_memory: bool, sleep: &MaySleep) -> bool {
    let ends = id.with(sleep, |inner| {
        let device = id.body.device();
        if listens(&inner.connection) {
            let service = inner.connection.service_id;
            if !tables::with(|tables| Ok(tables.unlisten(device, service))).unwrap_or(true) {
                return false;
            }
        }
        let guid = device.node_guid();
        let reason = inner.connection.reason_to_destroy();
        let info: &[u8] = match reason {
            Reason::Timeout => &guid,
            _ => &[],
        };
        let with = With {
            refusal: Some((reason as u16, info)),
            ..With::default()
        };
        let input = inner.connection.destroy(no_memory);
        // A message that cannot be sent is one that is lost.
        let _ = inner.drive(id, input, &with, sleep);
        debug_assert!(inner.connection.state() == State::Idle);
        inner.pending = None;
        // Others may have the identifier for longer than the device may be needed.
        inner.av = None;
        inner.alternate = None;
        true
    });
    if ends {
        let freed = tables::with(|tables| Ok(tables.free_number(id.number())));
        drop(freed);
        let (first, others) = id.close();
        for entry in first.into_iter().chain(others) {
            pass_on(entry, sleep);
        }
    }
    ends
}

/// What has come for an identifier that ends: a peer that disconnects hears that there is no connection.
pub(crate) fn pass_on(entry: Entry, sleep: &MaySleep) {
    if let Entry::Message(Attribute::Dreq, received, port) = entry {
        seek(&port, received, sleep);
    }
}

/// Destroys an identifier, of which the client gives its reference up. Its handler is not called any more.
pub(crate) fn destroy(id: Arc<CmId>, sleep: &MaySleep) {
    if end(&id, false, sleep) {
        // Nobody queues it any more.
        sleepable::cancel_sync(&id, sleep);
        // Peers that have asked before: the handler and its context are the listener's.
        id.uses.end(sleep);
    }
}
