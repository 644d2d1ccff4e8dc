// SPDX-License-Identifier: GPL-2.0

//! The client of ib_core: devices that come are listened on, and identifiers of devices that go are told.
//!
//! C header: `include/rdma/ib_verbs.h`.

use cm_rules::state::Input;
use kernel::{prelude::*, rbtree::RBTree, sync::Arc};
use kernel_ext::{bindings::RDMA_CM_EVENT_DEVICE_REMOVAL, error::EOPNOTSUPP};
use rdma::{
    client::attachment::{Attached, Client, Table},
    core::cma::{event::Event, handler::tell, trace},
    MaySleep,
};

use crate::{
    devices::{manager, Dev},
    end::{cancel, destroy, end, end_handling},
    id::CmId,
    listen::listen_on,
    tables::{self, Entry},
};

/// The client.
pub(crate) struct Cma;

/// Its registration.
pub(crate) static TABLE: Table<Cma> = Table::new();

impl Client for Cma {
    type Data = Arc<Dev>;

    const NAME: &'static CStr = c"cma";

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn add(device: &Attached, sleep: &MaySleep) -> Result<Self::Data> {
        if device.ports().all(|port| manager(device, port).is_none()) {
            return Err(EOPNOTSUPP);
        }
        let dev = Dev::new(device)?;
        let entry = Entry {
            dev: dev.clone(),
            device: device.another().ok_or(ENODEV)?,
            ids: RBTree::new(),
            count: 0,
            is_leaving: false,
        };
        let listening = {
            let mut tables = tables::lock(sleep);
            tables.devices.push(entry, GFP_KERNEL)?;
            listen_for_all(&mut tables, sleep)
        };
        match listening {
            Ok(()) => {
                trace::cm_add_one(device);
                Ok(dev)
            }
            Err(error) => {
                leave(&dev, sleep);
                Err(error)
            }
        }
    }

    fn remove(dev: &Self::Data, sleep: &MaySleep) {
        if let Some(entry) = tables::lock(sleep).entry(dev) {
            trace::cm_remove_one(&entry.device);
        }
        leave(dev, sleep);
    }
}

/// Lets all listeners without a device listen on the newest one.
fn listen_for_all(tables: &mut tables::Tables, sleep: &MaySleep) -> Result {
    let Some(entry) = tables.devices.last_mut() else {
        return Ok(());
    };
    for anywhere in tables.anywhere.iter_mut() {
        anywhere.children.reserve(1, GFP_KERNEL)?;
        // What is left is on the device, which is left then.
        let (made, _left) = listen_on(&anywhere.id, entry, sleep);
        if let Some(made) = made? {
            anywhere.children.push(made, GFP_KERNEL)?;
        }
    }
    Ok(())
}

/// Tells all identifiers of a device that it goes.
fn leave(dev: &Arc<Dev>, sleep: &MaySleep) {
    loop {
        let mut tables = tables::lock(sleep);
        let next = tables.entry(dev).and_then(|entry| {
            entry.is_leaving = true;
            let cursor = entry.ids.cursor_front_mut()?;
            let (_, node) = cursor.remove_current();
            Some(node.to_key_value().1)
        });
        let Some(id) = next else {
            let at = tables
                .devices
                .iter()
                .position(|entry| Arc::ptr_eq(&entry.dev, dev));
            let entry = at.and_then(|at| tables.devices.remove(at).ok());
            drop(tables);
            drop(entry);
            return;
        };
        let is_ours = id.parent.is_none() || take_from_parent(&mut tables, &id);
        drop(tables);
        match id.parent.is_some() {
            true if is_ours => destroy(&id, sleep),
            true => {}
            false => removed(&id, sleep),
        }
    }
}

/// Takes a listener from those of the one that it listens for. `false` if somebody else destroys it.
fn take_from_parent(tables: &mut tables::Tables, id: &Arc<CmId>) -> bool {
    let mut all = tables.anywhere.iter_mut();
    let siblings = all.find_map(|anywhere| {
        let at = anywhere
            .children
            .iter()
            .position(|child| Arc::ptr_eq(child, id))?;
        anywhere.children.remove(at).ok()
    });
    // One that could not listen was in no list.
    siblings.is_some() || id.state() == cm_rules::state::State::AddrBound
}

/// Tells an identifier that its device goes.
fn removed(id: &Arc<CmId>, sleep: &MaySleep) {
    let handling = id.body.handling(sleep);
    let Some(step) = id.happen(Input::Remove) else {
        return;
    };
    let mut event = Event::plain(RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
    match tell(id, &mut event, &handling, sleep) {
        Some(given_up) => {
            id.begin_end(&handling);
            drop(handling);
            trace::cm_id_destroy(&id.body);
            end(id, step.old, sleep);
            drop(given_up);
        }
        None => {
            drop(handling);
            cancel(id, step.old, sleep);
        }
    }
}

/// Destroys an identifier that a client gives up.
pub(crate) fn destroy_id(id: Arc<CmId>, sleep: &MaySleep) {
    let handling = id.body.handling(sleep);
    end_handling(&id, handling, sleep);
}
