// SPDX-License-Identifier: GPL-2.0

//! Listening: on the device of an identifier, or by an identifier of its own on each device.
//!
//! C header: `include/rdma/rdma_cm.h`.

use cm_rules::{
    address::{Address, Family},
    state::{Input, State},
};
use kernel::{ffi::c_int, prelude::*, sync::Arc};
use kernel_ext::{error::ENOSYS, uses::Use};
use rdma::{core::cma::id::Owner, MaySleep};
use rdma_cma::{
    ib::IbListener,
    iw::{IwCm, Setting},
    lower::Lower,
};

use crate::{
    address::to_raw,
    attach::{self, attach},
    bind::bind,
    devices::{manager, Manager},
    end::{destroy, stop_listening_anywhere},
    id::{CmId, New},
    ports,
    resolve::service_of,
    tables::{self, Anywhere, Entry},
};

/// Listens. `backlog` peers may wait.
///
/// # Errors
///
/// `EINVAL` in a wrong state, `EADDRINUSE`, `EADDRNOTAVAIL`, those of binding and of the managers below.
pub(crate) fn listen(id: &Arc<CmId>, backlog: c_int, sleep: &MaySleep) -> Result {
    let step = match id.call(Input::Listen) {
        Ok(step) => step,
        Err(_) => {
            bind(id, Address::any(Family::Ip4), None, sleep)?;
            id.call(Input::Listen)?
        }
    };
    let begun = ports::stop_sharing(id, sleep).and_then(|()| {
        id.with(|inner| inner.backlog = backlog);
        match id.bound() {
            Some(_) => here(id, backlog, sleep),
            None => anywhere(id, sleep),
        }
    });
    if begun.is_err() {
        id.with(|inner| inner.backlog = 0);
        id.undo(&step);
    }
    begun
}

/// Listens on the device of an identifier.
fn here(id: &Arc<CmId>, backlog: c_int, sleep: &MaySleep) -> Result {
    let bound = id.device()?;
    let address = id.ends().0.ok_or(EINVAL)?;
    let first = *bound.device.ports().start();
    let lower = match manager(&bound.device, first) {
        Some(Manager::Ib) => {
            let service = service_of(id, &address).to_be();
            Lower::IbListener(IbListener::new::<CmId>(&bound.device, service, sleep)?)
        }
        Some(Manager::Iw) => {
            let settings = id.settings();
            let setting = Setting {
                local: to_raw(&address),
                remote: None,
                tos: settings.tos,
                family_only: settings.family_only,
            };
            Lower::Iw(IwCm::listen(&bound.device, id, &setting, backlog, sleep)?)
        }
        None => return Err(ENOSYS),
    };
    drop(id.lower.put(lower, sleep));
    Ok(())
}

/// Makes the identifier that listens for `id` on a device, which is not listed yet. `None` where it does not listen.
fn child(id: &Arc<CmId>, entry: &mut Entry, sleep: &MaySleep) -> Result<Option<Arc<CmId>>> {
    let address = id.ends().0.ok_or(EINVAL)?;
    let first = *entry.device.ports().start();
    let has_ib_cm = manager(&entry.device, first) == Some(Manager::Ib);
    if (address.family() == Family::Ib && !has_ib_cm) || !attach::is_allowed(id, &entry.device) {
        return Ok(None);
    }
    let child = CmId::new(New {
        net: id.body.net().clone(),
        client: &id.body.client(),
        space: id.body.space(),
        qp_type: id.body.qp_type(),
        owner: Owner::Of(&id.body),
        parent: Some(Use::new(id).ok_or(ENODEV)?),
        state: State::AddrBound,
    })?;
    child.set_ends(Some(address), None);
    let settings = id.settings();
    child.with(|inner| {
        inner.settings.family_only = settings.family_only;
        inner.settings.tos = settings.tos;
        inner.settings.node_type = settings.node_type;
    });
    attach(entry, &child, 0, sleep)?;
    child.body.track(sleep);
    Ok(Some(child))
}

/// Lets a listener without a device listen on one. The second result is what is to be destroyed without the lock of the tables.
pub(crate) fn listen_on(
    id: &Arc<CmId>,
    entry: &mut Entry,
    sleep: &MaySleep,
) -> (Result<Option<Arc<CmId>>>, Option<Arc<CmId>>) {
    let made = match child(id, entry, sleep) {
        Ok(Some(made)) => made,
        Ok(None) => return (Ok(None), None),
        Err(error) => return (Err(error), None),
    };
    let backlog = id.with(|inner| inner.backlog);
    match listen(&made, backlog, sleep) {
        Ok(()) => (Ok(Some(made)), None),
        Err(error) => {
            pr_warn!("a device cannot listen: error {}\n", error.to_errno());
            (Err(error), Some(made))
        }
    }
}

/// Listens on each device, and on those that come.
fn anywhere(id: &Arc<CmId>, sleep: &MaySleep) -> Result {
    let mut tables = tables::lock(sleep);
    let tables_now = &mut *tables;
    let mut children = KVec::with_capacity(tables_now.devices.len(), GFP_KERNEL)?;
    tables_now.anywhere.reserve(1, GFP_KERNEL)?;
    let mut failed = Ok(());
    let mut left = None;
    let here = tables_now.devices.iter_mut();
    for entry in here.filter(|entry| !entry.is_leaving) {
        let (made, to_destroy) = listen_on(id, entry, sleep);
        // It is destroyed here alone, even if its device goes meanwhile.
        let listed = to_destroy
            .as_ref()
            .and_then(|left| entry.ids.remove(&left.number()?));
        drop(listed);
        left = to_destroy;
        match made {
            Ok(Some(made)) => children.push(made, GFP_KERNEL)?,
            Ok(None) => {}
            Err(error) => {
                failed = Err(error);
                break;
            }
        }
    }
    let listed = Anywhere {
        id: id.clone(),
        children,
    };
    tables_now.anywhere.push(listed, GFP_KERNEL)?;
    drop(tables);
    if failed.is_err() {
        stop_listening_anywhere(id, sleep);
    }
    if let Some(left) = left {
        destroy(&left, sleep);
    }
    failed
}
