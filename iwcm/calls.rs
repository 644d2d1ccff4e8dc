// SPDX-License-Identifier: GPL-2.0

//! What a client asks for: listening, connecting, answering a peer, disconnecting.
//!
//! C header: `include/rdma/iw_cm.h`.

use kernel::{ffi::c_int, prelude::*, sync::Arc};
use kernel_ext::{
    bindings::{IB_QPS_ERR, IB_QPS_SQD},
    sleepable,
    sysctl::Setting,
};
use rdma::{
    core::{
        connection::PrivateData,
        iw::verbs::{self, ConnParam, ConnQp},
    },
    MaySleep,
};

use crate::{
    backlog::Room,
    end::end,
    id::{CmId, ACTIVE_EVENTS},
    portmap::{self, Side},
    states::Input,
};

/// The number of peers that may wait for a listener whose client does not say how many: `net/iw_cm/default_backlog`.
pub(crate) static DEFAULT_BACKLOG: Setting = Setting::new(256, 0, c_int::MAX);

/// The most events of a listener that memory is allocated for. A peer that is one more is refused.
const MOST_EVENTS: usize = 4096;

/// Begins what a client has asked for, and takes it back if `f` fails.
fn attempt(id: &Arc<CmId>, f: impl FnOnce() -> Result) -> Result {
    f().inspect_err(|_| {
        id.advance(Input::Failed);
    })
}

/// Lets the port mapper map the ends.
fn map(id: &Arc<CmId>, side: Side, sleep: &MaySleep) -> Result {
    let mapping = portmap::map(&id.body, side, sleep)?;
    // An identifier that has failed before may have had one.
    if let Some(old) = mapping.and_then(|mapping| id.set_mapping(mapping)) {
        old.remove(sleep);
    }
    Ok(())
}

/// Listens. `backlog` peers may wait; 0 is the default.
///
/// # Errors
///
/// `EINVAL` for a negative number and unless the identifier is new, `ENOMEM`, those of the driver.
pub(crate) fn listen(id: &Arc<CmId>, backlog: c_int, sleep: &MaySleep) -> Result {
    let backlog = match backlog {
        0 => DEFAULT_BACKLOG.get(),
        backlog => backlog,
    };
    let events = usize::try_from(backlog).map_err(|_| EINVAL)?;
    let room = Room::new(events.min(MOST_EVENTS))?;
    id.begin(Input::Listen, Some(room), None)?;
    attempt(id, || {
        map(id, Side::Passive, sleep)?;
        verbs::listen(id, backlog, sleep)
    })?;
    id.advance(Input::Done);
    Ok(())
}

/// Asks a peer for a connection. The reply is an event.
///
/// # Errors
///
/// `EINVAL` without the queue pair, and unless the identifier is new; `ENOMEM`, those of the driver.
pub(crate) fn connect(id: &Arc<CmId>, param: &ConnParam<'_>, sleep: &MaySleep) -> Result {
    let room = Room::new(ACTIVE_EVENTS)?;
    let qp = ConnQp::get(id.body.device(), param.qpn(), sleep)?;
    id.begin(Input::Connect, Some(room), Some(qp))?;
    attempt(id, || {
        map(id, Side::Active, sleep)?;
        verbs::connect(id, param, sleep)
    })
}

/// Accepts a peer. That the connection is there is an event.
///
/// # Errors
///
/// `EINVAL` without the queue pair, and if there is no peer; those of the driver.
pub(crate) fn accept(id: &Arc<CmId>, param: &ConnParam<'_>, sleep: &MaySleep) -> Result {
    let qp = ConnQp::get(id.body.device(), param.qpn(), sleep)?;
    id.begin(Input::Accept, None, Some(qp))?;
    attempt(id, || verbs::accept(id, param, sleep))
}

/// Refuses a peer.
///
/// # Errors
///
/// `EINVAL` if there is none, and those of the driver; the peer is not there any more then either.
pub(crate) fn reject(id: &Arc<CmId>, data: &PrivateData<'_>, sleep: &MaySleep) -> Result {
    id.begin(Input::Reject, None, None)?;
    let refused = verbs::reject(id, data, sleep);
    id.advance(Input::Done);
    refused
}

/// Disconnects, at once or in order. That the connection has ended is an event.
///
/// # Errors
///
/// `EINVAL` for a listener.
pub(crate) fn disconnect(id: &CmId, abrupt: bool, sleep: &MaySleep) -> Result {
    let state = match abrupt {
        true => IB_QPS_ERR,
        false => IB_QPS_SQD,
    };
    // The queue pair may be in one of these states already, if both sides disconnect.
    id.disconnect(sleep, |qp| {
        let _ = qp.modify(state, sleep);
    })
}

/// Destroys an identifier, of which the client gives its reference up. Its handler is not called any more.
pub(crate) fn destroy(id: Arc<CmId>, sleep: &MaySleep) {
    end(&id, sleep);
    // Nobody queues it any more.
    sleepable::cancel_sync(&id, sleep);
}
