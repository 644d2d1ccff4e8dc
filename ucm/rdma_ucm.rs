// SPDX-License-Identifier: GPL-2.0

//! `rdma_ucm`: the connection manager for programs, `/dev/infiniband/rdma_cm`.
//!
//! | file | contents |
//! |---|---|
//! | `file` | the device and its file operations |
//! | `commands` | the commands as a table, and below it what each does |
//! | `call` | a command while it is executed |
//! | `layout` | the structures of commands |
//! | `handler` | what is done when the connection manager tells an event |
//! | `context` | the identifiers of programs by number, and their end |
//! | `recipient` | who is told of the events of an identifier; its multicast groups; events on their way |
//! | `queue` | the events that the reader of a file has not taken |
//! | `numbers` | objects by number |
//! | `backlog` | how many requests may wait |
//! | `netlink` | how programs find the device |
//!
//! A file imports only from those below it.
//!
//! There is one order of locks: an identifier's calls or its end (`rust/ucm`), the handler lock of `rdma_cm`, a file's queue, the table of
//! identifiers, where an identifier belongs to. Handlers, which `rdma_cm` calls with the handler lock held, take the last three.
//!
//! C headers: `include/uapi/rdma/rdma_user_cm.h`, `include/rdma/rdma_cm.h`.

use kernel::prelude::*;
use kernel_ext::{
    misc::MiscRegistration,
    module::{process_module, ProcessModule},
    sysctl,
    work::InstalledQueue,
};
use rdma::{client::global::GlobalRegistration, MaySleep};

mod backlog;
mod call;
mod commands;
mod context;
mod file;
mod handler;
mod layout;
mod netlink;
mod numbers;
mod queue;
mod recipient;

process_module! {
    type: RdmaUcm,
    name: "rdma_ucm",
    authors: ["Ferroband"],
    description: "RDMA Userspace Connection Manager Access",
    license: "Dual BSD/GPL",
    alias: ["rdma-client-rdma_cm"],
}

/// The module.
///
/// Fields are dropped in this order, and created in the reverse order.
struct RdmaUcm {
    _client: GlobalRegistration<netlink::Client>,
    _backlog: sysctl::Registration,
    _device: MiscRegistration,
    _closing: InstalledQueue,
    _groups: recipient::Groups,
    _contexts: context::Contexts,
}

impl ProcessModule for RdmaUcm {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let _contexts = context::Contexts::new();
        let _groups = recipient::Groups::new();
        let _closing = rdma_user_cm::closing_queue(sleep)?;
        let _device = file::DEVICE.register(sleep)?;
        let (path, name) = (c"net/rdma_ucm", c"max_backlog");
        let _backlog = sysctl::Registration::new(path, name, &backlog::MAX, sleep)?;
        let _client = netlink::TABLE.register(_device.dev(), sleep)?;
        Ok(Self {
            _client,
            _backlog,
            _device,
            _closing,
            _groups,
            _contexts,
        })
    }
}
