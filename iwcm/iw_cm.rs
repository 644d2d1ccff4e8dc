// SPDX-License-Identifier: GPL-2.0

//! `iw_cm`: the connection manager of iWARP, between a driver and `rdma_cm`.
//!
//! | file | contents |
//! |---|---|
//! | `exports` | the functions that C calls |
//! | `calls` | what a client asks for |
//! | `deliver` | events, one after the other |
//! | `end` | the end of an identifier |
//! | `id` | an identifier: references, lock, work item |
//! | `backlog` | events that wait |
//! | `states` | the table of states |
//! | `portmap` | the mapping of ports, by a program that is asked by netlink |
//!
//! A file imports only from those below it.
//!
//! C headers: `include/rdma/iw_cm.h`, `include/rdma/iw_portmap.h`.

use kernel::prelude::*;
use kernel_ext::{
    module::{process_module, ProcessModule},
    sysctl,
    work::{InstalledQueue, OwnedQueue, QueueFlags},
};
use rdma::{client::netlink, MaySleep};

mod backlog;
mod calls;
mod deliver;
mod end;
mod exports;
mod id;
mod portmap;
mod states;

process_module! {
    type: IwCm,
    name: "iw_cm",
    authors: ["Ferroband"],
    description: "iWARP CM",
    license: "Dual BSD/GPL",
    alias: ["rdma-netlink-subsys-2"],
}

/// The module.
///
/// Fields are dropped in this order, and created in the reverse order.
struct IwCm {
    _netlink: netlink::Registration,
    _backlog: sysctl::Registration,
    _queue: InstalledQueue,
    _portmap: portmap::Registration,
}

impl ProcessModule for IwCm {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let _portmap = portmap::start();
        let flags = QueueFlags::UNBOUND | QueueFlags::ORDERED | QueueFlags::MEM_RECLAIM;
        let queue = OwnedQueue::new(c"iw_cm_wq", flags, 1, sleep)?;
        let _queue = id::QUEUE.install(queue);
        let setting = &calls::DEFAULT_BACKLOG;
        let _backlog = sysctl::Registration::new(c"net/iw_cm", c"default_backlog", setting, sleep)?;
        let _netlink = portmap::COMMANDS.register();
        Ok(Self {
            _netlink,
            _backlog,
            _queue,
            _portmap,
        })
    }

    fn exit(self, sleep: &MaySleep) {
        id::wait_for_all(sleep);
        drop(self);
    }
}
