// SPDX-License-Identifier: GPL-2.0

//! The end of an identifier: what its state asks for, and what it has had.
//!
//! C header: `include/rdma/iw_cm.h`.

use kernel::sync::Arc;
use kernel_ext::bindings::IB_QPS_ERR;
use rdma::{
    core::{
        connection::PrivateData,
        iw::{
            event::{Event, Kind},
            verbs,
        },
    },
    MaySleep,
};

use crate::{id::CmId, states::Action};

/// Ends an identifier that its client has given up. The driver tells it nothing any more; an event that is being told is not waited
/// for.
pub(crate) fn end(id: &Arc<CmId>, sleep: &MaySleep) {
    let Ok(mut remains) = id.end(sleep) else {
        return;
    };
    // The client cannot be told that the driver has failed.
    let _ = match (remains.action, &remains.qp) {
        (Action::StopListening, _) => verbs::stop_listening(id, sleep),
        (Action::Refuse, _) => verbs::reject(id, &PrivateData::NONE, sleep),
        (Action::Abort, Some(qp)) => qp.modify(IB_QPS_ERR, sleep),
        _ => Ok(()),
    };
    while let Some(event) = remains.backlog.pop() {
        if event.kind == Kind::ConnectRequest {
            refuse(id, &event, sleep);
        }
    }
    if let Some(mapping) = remains.mapping.take() {
        mapping.remove(sleep);
    }
}

/// Refuses a peer whose listener has gone.
pub(crate) fn refuse(listener: &CmId, event: &Event, sleep: &MaySleep) {
    if let Ok(id) = listener.for_request(event) {
        // The peer may have gone.
        let _ = verbs::reject(&id, &PrivateData::NONE, sleep);
    }
}
