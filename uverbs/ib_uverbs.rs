// SPDX-License-Identifier: GPL-2.0

//! `ib_uverbs`: verbs for user space, `/dev/infiniband/uverbsN`.
//!
//! | file | contents |
//! |---|---|
//! | `device` | the client of ib_core: a node for each RDMA device |
//! | `mmap` | zapping the mappings of a device |
//! | `sysfs` | `/sys/class/infiniband_verbs` |
//! | `file` | the file operations of nodes |
//! | `write`, `ioctl`, `attr` | parsing and dispatch of commands |
//! | `tree` | building the uverbs API of a device |
//! | `objects` | the object classes and their ioctl methods |
//! | `commands` | the write commands |
//! | `events` | the file operations of completion channels and async event files |
//! | `marshall` | conversion of structures of ib_core to those of user space, for other modules |
//!
//! A file imports only from those below it. The types of objects, files and tables are in the crate `rdma_uverbs`.
//!
//! C headers: `include/uapi/rdma/ib_user_verbs.h`, `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use kernel::prelude::*;
use kernel_ext::{
    chrdev::ClassRegistration,
    module::{process_module, ProcessModule},
};
use rdma::MaySleep;

mod attr;
mod commands;
mod device;
mod events;
mod file;
mod ioctl;
mod marshall;
mod mmap;
mod objects;
mod sysfs;
mod tree;
mod write;

process_module! {
    type: IbUverbs,
    name: "ib_uverbs",
    authors: ["Ferroband"],
    description: "InfiniBand userspace verbs access",
    license: "Dual BSD/GPL",
    alias: ["rdma-client-uverbs"],
    imports_ns: ["rdma_core", "DMA_BUF"],
}

/// The module.
///
/// Fields are dropped in this order, and created in the reverse order.
struct IbUverbs {
    _client: rdma::client::registration::Registration<device::Uverbs>,
    _class: ClassRegistration<sysfs::Verbs>,
    _numbers: device::Registration,
}

impl ProcessModule for IbUverbs {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let _numbers = device::register(sleep)?;
        let _class = sysfs::CLASS.register(&sysfs::CLASS_ABI, sleep)?;
        let _client = device::CLIENT.register(sleep)?;
        Ok(Self {
            _client,
            _class,
            _numbers,
        })
    }
}
