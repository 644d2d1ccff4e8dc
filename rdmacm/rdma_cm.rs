// SPDX-License-Identifier: GPL-2.0

//! `rdma_cm`: the RDMA connection manager, by IP addresses, over `ib_cm` and `iw_cm`.
//!
//! | file | contents |
//! |---|---|
//! | `exports` | the functions that C calls |
//! | `client` | the client of ib_core: devices that come and go |
//! | `configfs` | the defaults of ports, in configfs |
//! | `netdev` | net devices and neighbours whose hardware address changes |
//! | `receive` | requests of peers, and what becomes of connections |
//! | `connect` | connecting, accepting, refusing, disconnecting |
//! | `mcast` | multicast groups |
//! | `listen` | listening, on one device or on all |
//! | `resolve` | addresses, routes and services |
//! | `bind` | binding to an address, a device and a port |
//! | `options` | what a client may set |
//! | `qp` | queue pairs and their attributes |
//! | `end` | the end of an identifier |
//! | `jobs` | what is told from a work item |
//! | `attach` | the device of an identifier |
//! | `neighbours` | identifiers by their next hop |
//! | `ports` | the ports of namespaces, and who listens there |
//! | `tables` | the lock of all tables |
//! | `id` | an identifier |
//! | `devices` | a device, and the defaults of its ports |
//! | `address` | addresses as C has them |
//! | `cm_rules/` | the rules without the kernel: crate `cm_rules` |
//!
//! A file imports only from those below it.
//!
//! C header: `include/rdma/rdma_cm.h`.

use kernel::prelude::*;
use kernel_ext::{
    module::{process_module, ProcessModule},
    work::{InstalledQueue, OwnedQueue, QueueFlags},
};
use rdma::{client::attachment, MaySleep};

mod address;
mod attach;
mod bind;
mod client;
mod configfs;
mod connect;
mod devices;
mod end;
mod exports;
mod id;
mod jobs;
mod listen;
mod mcast;
mod neighbours;
mod netdev;
mod options;
mod ports;
mod qp;
mod receive;
mod resolve;
mod tables;

process_module! {
    type: RdmaCm,
    name: "rdma_cm",
    authors: ["Ferroband"],
    description: "Generic RDMA CM Agent",
    license: "Dual BSD/GPL",
}

/// The module.
///
/// Fields are dropped in this order, and created in the reverse order.
struct RdmaCm {
    _configfs: configfs::Registration,
    _client: attachment::Registration<client::Cma>,
    _netdev: netdev::Registration,
    _sa: tables::InstalledSa,
    _queue: InstalledQueue,
}

impl ProcessModule for RdmaCm {
    fn init(module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let flags = QueueFlags::UNBOUND | QueueFlags::ORDERED | QueueFlags::MEM_RECLAIM;
        let queue = OwnedQueue::new(c"rdma_cm", flags, 1, sleep)?;
        let _queue = jobs::QUEUE.install(queue);
        let _sa = tables::install_sa(sleep)?;
        let _netdev = netdev::register(sleep)?;
        let _client = client::TABLE.register(sleep)?;
        let _configfs = configfs::Registration::new(module, &configfs::TABLE, sleep)?;
        Ok(Self {
            _configfs,
            _client,
            _netdev,
            _sa,
            _queue,
        })
    }

    fn exit(self, _sleep: &MaySleep) {
        drop(self);
    }
}
