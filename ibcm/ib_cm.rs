// SPDX-License-Identifier: GPL-2.0

//! `ib_cm`: the connection manager of InfiniBand and RoCE, between the layer of management datagrams and `rdma_cm`.
//!
//! | file | contents |
//! |---|---|
//! | `exports` | the functions that C calls |
//! | `calls` | what a client asks for |
//! | `client` | the client of ib_core |
//! | `deliver` | what has come for an identifier, one after the other |
//! | `receive` | messages that come |
//! | `end` | the end of an identifier |
//! | `send` | messages that are sent; what the protocol wants done |
//! | `address` | addresses of peers by paths and messages |
//! | `timewait` | peers of connections that have ended |
//! | `tables` | where identifiers are found |
//! | `id` | an identifier: locks, inbox, work item |
//! | `port` | agents and counters of a port |
//! | `requests` | messages that wait for the addresses of their senders |
//! | `protocol/` | the protocol without the kernel: crate `ib_cm_protocol` |
//!
//! A file imports only from those below it.
//!
//! C header: `include/rdma/ib_cm.h`.

use kernel::prelude::*;
use kernel_ext::{
    module::{process_module, ProcessModule},
    work::{InstalledQueue, OwnedQueue, QueueFlags},
};
use rdma::{client::attachment, MaySleep};

mod address;
mod calls;
mod client;
mod deliver;
mod end;
mod exports;
mod id;
mod port;
mod receive;
mod requests;
mod seek;
mod send;
mod tables;
mod timewait;

process_module! {
    type: IbCm,
    name: "ib_cm",
    authors: ["Ferroband"],
    description: "InfiniBand CM",
    license: "Dual BSD/GPL",
}

/// The module.
///
/// Fields are dropped in this order, and created in the reverse order.
struct IbCm {
    client: attachment::Registration<client::Cm>,
    queue: InstalledQueue,
    tables: tables::Installed,
}

impl ProcessModule for IbCm {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let tables = tables::install();
        let queue = OwnedQueue::new(
            c"ib_cm",
            QueueFlags::UNBOUND | QueueFlags::MEM_RECLAIM,
            0,
            sleep,
        )?;
        let queue = id::QUEUE.install(queue);
        let client = client::TABLE.register(sleep)?;
        Ok(Self {
            client,
            queue,
            tables,
        })
    }

    fn exit(self, sleep: &MaySleep) {
        // No message comes any more; then no work that is left begins a wait; the queue waits for that work.
        drop(self.client);
        timewait::end_all(sleep);
        drop(self.queue);
        drop(self.tables);
    }
}
