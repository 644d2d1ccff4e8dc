// SPDX-License-Identifier: GPL-2.0

//! The end of an identifier: nothing is told any more, and what it has is given up.
//!
//! C header: `include/rdma/rdma_cm.h`.

use cm_rules::state::{State, UnderWay};
use kernel::{prelude::*, sync::Arc};
use rdma::{
    core::cma::{
        event::Event,
        handler::{tell, Handling},
        resolve, trace,
    },
    MaySleep,
};

use crate::{attach, id::CmId, neighbours, ports, tables};

/// Cancels what was under way in a state. Not with the handler lock.
pub(crate) fn cancel(id: &Arc<CmId>, state: State, sleep: &MaySleep) {
    match state.under_way() {
        UnderWay::Nothing => {}
        UnderWay::Address => resolve::cancel(id, sleep),
        UnderWay::Route => {
            if let Some(query) = id.with(|inner| inner.query.take()) {
                query.cancel();
            }
        }
        UnderWay::Listening => stop_listening_anywhere(id, sleep),
    }
}

/// Ends the listening of a listener without a device.
pub(crate) fn stop_listening_anywhere(id: &Arc<CmId>, sleep: &MaySleep) {
    loop {
        let mut tables = tables::lock(sleep);
        let at = tables
            .anywhere
            .iter()
            .position(|anywhere| Arc::ptr_eq(&anywhere.id, id));
        let Some(at) = at else { return };
        let child = tables
            .anywhere
            .get_mut(at)
            .and_then(|anywhere| anywhere.children.pop());
        let Some(child) = child else {
            let removed = tables.anywhere.remove(at);
            drop(tables);
            drop(removed);
            return;
        };
        drop(tables);
        destroy(&child, sleep);
    }
}

/// Ends an identifier, which was in this state when its end began. Not with the handler lock.
pub(crate) fn end(id: &Arc<CmId>, before: State, sleep: &MaySleep) {
    cancel(id, before, sleep);
    // Those whose device goes are destroyed elsewhere.
    id.children.end(sleep);
    id.body.untrack(sleep);
    neighbours::forget(id);
    drop(id.lower.take(sleep));
    let groups = core::mem::replace(&mut *id.groups.lock(), KVec::new());
    for group in groups.iter() {
        group.joined.leave(id, sleep);
    }
    drop(groups);
    attach::release(id, sleep);
    ports::release(id, sleep);
}

/// Destroys an identifier. Its handler is not called any more when this returns.
pub(crate) fn destroy(id: &Arc<CmId>, sleep: &MaySleep) {
    let handling = id.body.handling(sleep);
    end_handling(id, handling, sleep);
}

/// Destroys an identifier whose handler lock is held.
pub(crate) fn end_handling(id: &Arc<CmId>, handling: Handling<'_>, sleep: &MaySleep) {
    trace::cm_id_destroy(&id.body);
    let before = id.begin_end(&handling);
    drop(handling);
    end(id, before, sleep);
}

/// Tells an event to a client, and destroys the identifier if it is given up.
pub(crate) fn tell_or_end(
    id: &Arc<CmId>,
    event: &mut Event<'_>,
    handling: Handling<'_>,
    sleep: &MaySleep,
) {
    if let Some(given_up) = tell(id, event, &handling, sleep) {
        end_handling(id, handling, sleep);
        drop(given_up);
    }
}
