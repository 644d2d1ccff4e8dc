// SPDX-License-Identifier: GPL-2.0

//! `ib_core`: devices, their clients and events, verbs, caches, netlink and sysfs of the RDMA stack.
//!
//! Areas by level; an area imports only from those below it. The data that an area keeps for each device is defined in
//! its `state` module. [`private`] combines the data of all areas: it imports each `state`, and the areas import it.
//!
//! | area | what |
//! |---|---|
//! | [`nldev`] | the netlink interface of the `rdma` tool |
//! | [`sa`] | the client of the subnet administrator: path and service records, multicast groups |
//! | [`mad`] | management datagrams: agents, RMPP |
//! | [`device`] | device lifecycle: allocation, registration, event dispatch, network namespaces, unregistration |
//! | [`sysfs`] | `/sys/class/infiniband`: the files of devices and ports |
//! | [`verbs`] | protection domains, address handles, queue pairs, memory regions; helpers for clients |
//! | [`cq`] | completion queues: polling, sharing |
//! | [`counters`] | counters that queue pairs are bound to |
//! | [`memory`] | user memory for devices, device memory for user space, FRMR pools |
//! | [`gid`] | the caches of a port: GIDs and P_Keys |
//! | [`addr`] | resolving IP addresses to hardware addresses |
//! | [`restrack`] | resource tracking: the objects of each device |
//! | [`registry`] | all devices, their clients and event handlers; ports and their net devices |
//! | [`private`] | the data that areas keep for each device and port |
//! | [`netlink`] | the RDMA netlink sockets and their clients |
//! | `kunit` | a device for tests |
//!
//! Exported functions stand at the end of their area's file.
//!
//! C headers: `include/rdma/*.h`.

use kernel::prelude::*;
use kernel_ext::{
    bindings,
    module::{process_module, ProcessModule},
    rcu_box,
    work::InstalledQueue,
};
use rdma::{core::class::ClassRegistration, MaySleep};

#[cfg(CONFIG_SECURITY_INFINIBAND)]
compile_error!(
    "CONFIG_SECURITY_INFINIBAND: queue pairs do not ask security modules which P_Keys they may use"
);

mod addr;
mod counters;
mod cq;
mod device;
mod gid;
#[cfg(CONFIG_KUNIT = "y")]
mod kunit;
mod mad;
mod memory;
mod netlink;
mod nldev;
mod private;
mod registry;
mod restrack;
mod sa;
mod sysfs;
mod verbs;

process_module! {
    type: IbCore,
    name: "ib_core",
    authors: ["Ferroband"],
    description: "core kernel InfiniBand API",
    license: "Dual BSD/GPL",
    alias: ["rdma-netlink-subsys-4", "rdma-netlink-subsys-5", "net-pf-16-proto-20"],
    imports_ns: ["DMA_BUF"],
}

/// The module's resources that all devices share.
///
/// Fields are dropped in this order, and made in the reverse one.
struct IbCore {
    _sa: sa::Parts,
    _mad: mad::Ports,
    _roce_gids: gid::roce_gid::events::Registration,
    _addr: addr::Registration,
    _netdev_events: device::port_event::Registration,
    _netlink: netlink::Registration,
    _netns: device::namespace::Registration,
    _class: ClassRegistration<private::Private>,
    _unregister_queue: InstalledQueue,
    _pollers: cq::poll::Queues,
    _queue: InstalledQueue,
    _registry: registry::Registration,
}

impl ProcessModule for IbCore {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        Self::start(sleep).inspect_err(|_| rcu_box::barrier(sleep))
    }

    fn exit(self, sleep: &MaySleep) {
        drop(self);
        // RCU callbacks are code of the module.
        rcu_box::barrier(sleep);
    }
}

impl IbCore {
    /// Initialises and starts all areas.
    fn start(sleep: &MaySleep) -> Result<Self> {
        let _registry = registry::start();
        netlink::init(&[
            (bindings::RDMA_NL_NLDEV, nldev::handle),
            (bindings::RDMA_NL_LS, addr::ls::handle),
        ]);
        nldev::init();
        let _queue = device::queue::init(sleep)?;
        let _pollers = cq::poll::init(sleep)?;
        let _unregister_queue = device::init_queue(sleep)?;
        let _class = registry::CLASS.register(sleep)?;
        let _netns = device::namespace::register(sleep)?;
        let _netlink = netlink::register(sleep)?;
        let _netdev_events = device::port_event::register(sleep)?;
        let _addr = addr::start(sleep)?;
        let _roce_gids = gid::roce_gid::events::start(sleep)?;
        let _mad = mad::start(sleep)?;
        let _sa = sa::start(sleep)?;
        Ok(Self {
            _sa,
            _mad,
            _roce_gids,
            _addr,
            _netdev_events,
            _netlink,
            _netns,
            _class,
            _unregister_queue,
            _pollers,
            _queue,
            _registry,
        })
    }
}
