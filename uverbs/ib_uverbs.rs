// SPDX-License-Identifier: GPL-2.0

//! `ib_uverbs`: verbs for user space, `/dev/infiniband/uverbsN`.
//!
//! From the roof down; an import goes down only:
//!
//! | file | what |
//! |---|---|
//! | `device` | the RDMA devices that come and go, and their nodes |
//! | `sysfs` | what a node says of itself in `/sys/class/infiniband_verbs` |
//! | `file` | open files: opening, closing, what the kernel calls for them |
//! | `mmap` | mappings of device memory, and how they are taken away |
//! | `write`, `ioctl` | the two doors through which commands come |
//! | `tree` | what a device's commands are, as its driver and this module describe them |
//! | `objects` | the ioctl methods of each kind of object, and how it is destroyed |
//! | `commands` | the commands, one implementation behind both doors |
//! | `events` | completion channels and asynchronous events |
//! | `marshall` | structures of the core as user space has them, for other modules |
//!
//! Objects, handles and tables are the crate `rdma_uverbs`.

use kernel::prelude::*;
use kernel_ext::chrdev::ClassRegistration;
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

module! {
    type: IbUverbs,
    name: "ib_uverbs",
    authors: ["Ferroband"],
    description: "InfiniBand userspace verbs access",
    license: "Dual BSD/GPL",
    alias: ["rdma-client-uverbs"],
    imports_ns: ["rdma_core", "DMA_BUF"],
}

/// The module: what it has for all devices.
///
/// Fields are dropped in this order, and made in the reverse one.
struct IbUverbs {
    _client: rdma::client::registration::Registration<device::Uverbs>,
    _class: ClassRegistration<sysfs::Verbs>,
    _numbers: device::Registration,
}

impl kernel::Module for IbUverbs {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // SAFETY: Modules are loaded in process context.
        let sleep = &unsafe { MaySleep::assume() };
        commands::xrcd::init();
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
