// SPDX-License-Identifier: GPL-2.0

//! `ib_umad`: management datagrams (MADs) for user space, `/dev/infiniband/umadN` and `/dev/infiniband/issmN`.
//!
//! | file | contents |
//! |---|---|
//! | `device` | the client of ib_core that has a node `umadN` for each port |
//! | `issm` | the client that has a node `issmN` for each InfiniBand port: its holder is the port's subnet manager |
//! | `nodes` | the nodes of one kind that a device has |
//! | `port` | a port, and the files that are open |
//! | `file` | the file operations of `umadN` |
//! | `agents` | the agents of a file, and the ioctls that register them |
//! | `post` | what `write()` sends |
//! | `inbox` | what `read()` takes |
//! | `under_way` | the messages of a file that have been sent and have not ended |
//! | `header` | the header of a MAD in user space, in two layouts |
//! | `numbers` | the numbers of the nodes |
//! | `sysfs` | `/sys/class/infiniband_mad` |
//! | `bytes` | parts of structures of user space |
//!
//! A file imports only from those below it.
//!
//! C headers: `include/uapi/rdma/ib_user_mad.h`, `include/rdma/ib_mad.h`.

use kernel::prelude::*;
use kernel_ext::{
    chrdev::ClassRegistration,
    module::{process_module, ProcessModule},
};
use rdma::{client::attachment::Registration, MaySleep};

mod agents;
mod bytes;
mod device;
mod file;
mod header;
mod inbox;
mod issm;
mod nodes;
mod numbers;
mod port;
mod post;
mod sysfs;
mod under_way;

process_module! {
    type: IbUmad,
    name: "ib_umad",
    authors: ["Ferroband"],
    description: "InfiniBand userspace MAD packet access",
    license: "Dual BSD/GPL",
    alias: ["rdma-client-umad", "rdma-client-issm"],
}

/// The module.
///
/// Fields are dropped in this order, and created in the reverse order.
struct IbUmad {
    _issm: Registration<issm::Issm>,
    _umad: Registration<device::Umad>,
    _class: ClassRegistration<sysfs::Mads>,
    _numbers: numbers::Registration,
}

impl ProcessModule for IbUmad {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let _numbers = numbers::register(sleep)?;
        let _class = sysfs::CLASS.register(&sysfs::CLASS_ABI, sleep)?;
        let _umad = device::TABLE.register(sleep)?;
        let _issm = issm::TABLE.register(sleep)?;
        Ok(Self {
            _issm,
            _umad,
            _class,
            _numbers,
        })
    }
}
