// SPDX-License-Identifier: GPL-2.0

//! `ib_core`: devices, their clients and events, verbs, caches, netlink and sysfs of the RDMA stack.
//!
//! From the roof down; an import goes down only:
//!
//! | file | what |
//! |---|---|
//! | [`stages`] | in which order the areas take part in a device's life |
//! | [`sa`] | the client of the subnet administrator: paths, services, multicast groups |
//! | [`mad`] | management datagrams: agents, RMPP |
//! | [`device`] | allocation, registration, names, unregistration; [`port`]: what is asked of a port |
//! | [`verbs`] | the verbs; [`cq_poll`], [`cq_pool`], [`drain`], [`rw`], [`mr_pool`] for clients; [`qp_state`]: the table |
//! | [`netdev`] | the net device of a port, and its events; [`rdma_netdev`]: net devices that drivers have a hand in |
//! | [`netns`] | who sees a device: network namespaces, shared or exclusive |
//! | [`sysfs`] | `/sys/class/infiniband`: the files of devices and ports |
//! | [`dispatch`] | events on their way: from any context to process context, in order, after the caches |
//! | [`netlink`] | what user space asks and changes; [`notice`]: what it is told as it happens |
//! | [`cache_update`] | the caches brought up to date: at registration, before events |
//! | [`roce_gid`] | GIDs of RoCE ports, which follow the addresses of net devices |
//! | [`gid`], [`pkey_cache`] | what is asked of the caches; [`ah_attr`]: address vectors |
//! | [`path`] | from paths through the fabric, and multicast groups, to address vectors |
//! | [`addr`] | from IP addresses to hardware addresses |
//! | [`cache`] | which caches a port has: [`gid_cache`], [`port_cache`] |
//! | [`rate`] | rates, speeds, names of numbers |
//! | [`client`], [`event`] | who is told of devices, who is told of events |
//! | [`subdevice`], [`link`] | devices of devices; kinds of links |
//! | [`umem`], [`user_mmap`], [`block_iter`] | memory of user space for devices, memory of devices for user space |
//! | [`pack`], [`ud_header`] | packed headers |
//! | [`counters`] | counters that queue pairs are bound to; [`frmr_pools`]: handles of fast registration |
//! | [`udata`] | what user space sends along with commands |
//! | [`cgroup`], [`printk`], [`dma`] | accounting; messages with the device's name; DMA of devices that have none |
//! | [`private`] | what the areas keep of each device and port |
//! | [`restrack`] | the objects of each device, as they are listed |
//! | [`registry`] | all devices |
//! | `kunit` | a device for tests |
//!
//! Doors, the functions that C calls, stand at the end of their concept's file.

use kernel::prelude::*;
use kernel_ext::work::InstalledQueue;
use rdma::{view::class::ClassRegistration, MaySleep};

#[cfg(CONFIG_SECURITY_INFINIBAND)]
compile_error!(
    "CONFIG_SECURITY_INFINIBAND: queue pairs do not ask security modules which P_Keys they may use"
);

mod addr;
mod ah_attr;
mod block_iter;
mod cache;
mod cache_update;
mod cgroup;
mod client;
mod counters;
mod cq_poll;
mod cq_pool;
mod device;
mod dispatch;
mod dma;
mod drain;
mod event;
mod frmr_pools;
mod gid;
mod gid_cache;
#[cfg(CONFIG_KUNIT = "y")]
mod kunit;
mod lag;
mod link;
mod mad;
mod mr_pool;
mod netdev;
mod netlink;
mod netns;
mod notice;
mod pack;
mod path;
mod pkey_cache;
mod port;
mod port_cache;
mod printk;
mod private;
mod qp_state;
mod queue;
mod rate;
mod rdma_netdev;
mod registry;
mod restrack;
mod roce_gid;
mod rw;
mod sa;
mod stages;
mod subdevice;
mod sysfs;
mod ud_header;
mod udata;
mod umem;
mod user_mmap;
mod verbs;

module! {
    type: IbCore,
    name: "ib_core",
    authors: ["Ferroband"],
    description: "core kernel InfiniBand API",
    license: "Dual BSD/GPL",
    alias: ["rdma-netlink-subsys-4", "rdma-netlink-subsys-5", "net-pf-16-proto-20"],
    imports_ns: ["DMA_BUF"],
}

/// The module: what it has for all devices.
///
/// Fields are dropped in this order, and made in the reverse one.
struct IbCore {
    _sa: sa::Parts,
    _mad: mad::Ports,
    _roce_gids: roce_gid::events::Registration,
    _addr: addr::Registration,
    _netdev_events: netdev::Registration,
    _netlink: netlink::socket::Registration,
    _netns: netns::Registration,
    _class: ClassRegistration<private::Private>,
    _unregister_queue: InstalledQueue,
    _pollers: cq_poll::Queues,
    _queue: InstalledQueue,
    _registry: registry::Registration,
}

impl kernel::Module for IbCore {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // SAFETY: Modules are loaded in process context.
        let sleep = &unsafe { MaySleep::assume() };
        let _registry = registry::init();
        client::init();
        netns::init();
        link::init();
        addr::init();
        netlink::init();
        mad::init();
        sa::init();
        let _queue = queue::init(sleep)?;
        let _pollers = cq_poll::init(sleep)?;
        let _unregister_queue = device::init_queue(sleep)?;
        let _class = device::CLASS.register(sleep)?;
        let _netns = netns::register(sleep)?;
        let _netlink = netlink::socket::register(sleep)?;
        let _netdev_events = netdev::register(sleep)?;
        let _addr = addr::start(sleep)?;
        let _roce_gids = roce_gid::events::start(sleep)?;
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
