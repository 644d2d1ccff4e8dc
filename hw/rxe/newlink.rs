// SPDX-License-Identifier: GPL-2.0

//! Creating devices by `rdma link add NAME type rxe netdev DEV`, and events of their net devices: `struct
//! rdma_link_ops` of `<rdma/rdma_netlink.h>`.
//!
//! `rdma link add NAME type rxe_port netdev DEV` makes no device: it says that the device NAME to come gets a second port, on DEV.

use kernel::prelude::*;
use kernel::sync::{aref::ARef, Arc};
use kernel_ext::net::device::NetDevice;
use kernel_ext::net::notifier::{Event, Listener};
use kernel_ext::net::ns;
use rdma::abi::port::{state_of, PortState};
use rdma::{
    abi::device::{uverbs_cmd, NODE_IB_CA},
    provider::{
        device::{Device, DeviceRef},
        link::Registration,
        register::{DeviceInfo, NewDevice},
    },
};
use rdma::{LinkOps, MaySleep};

use crate::counters::Counter;
use crate::device::Rxe;
use crate::link::{Link, Links};
use crate::port_id::PortId;
use crate::qp::Qp;
use crate::verbs::Driver;

/// The links of a net device's namespace.
///
/// # Errors
///
/// `ENODEV` where the namespace is being deleted.
fn links_of(ndev: &NetDevice) -> Result<Arc<Links>> {
    let links = ndev.with_namespace(ns::of::<Links>).flatten();
    links.ok_or(ENODEV)
}

/// Prepares a device with a port on each of one or two net devices, without registering it. Not inlined, so that its stack is free
/// again when `register` calls the core and its clients.
#[inline(never)]
fn prepare(
    ndev: &NetDevice,
    second: Option<&NetDevice>,
    ctx: &MaySleep,
) -> Result<NewDevice<Driver>> {
    let net = ndev.namespace().ok_or(ENODEV)?;
    let driver = Driver {
        rxe: Rxe::new(ndev, second)?,
        link: Link::new(&net, ndev)?,
        second: second.map(|ndev| Link::new(&net, ndev)).transpose()?,
    };
    let mut dev = Device::alloc(driver, None, ctx)?;
    for link in dev.links() {
        link.open(&net, &dev.rxe, ctx)?;
    }
    dev.describe(&DeviceInfo {
        node_type: NODE_IB_CA,
        phys_port_cnt: dev.rxe.ports().len() as u32,
        num_comp_vectors: kernel::cpu::nr_cpu_ids(),
        node_guid: dev.rxe.guid(),
        node_desc: b"rxe",
        local_dma_lkey: 0,
        uverbs_cmd_mask: uverbs_cmd::POST_SEND
            | uverbs_cmd::POST_RECV
            | uverbs_cmd::POST_SRQ_RECV
            | uverbs_cmd::POLL_CQ
            | uverbs_cmd::REQ_NOTIFY_CQ,
    });
    if dev.rxe.memory.size() != 0 {
        dev.offer_device_memory();
    }
    dev.set_link(&RXE_LINK);
    dev.set_netdev(ndev, PortId::First.number(), ctx)?;
    if let Some(second) = second {
        dev.set_netdev(second, PortId::Second.number(), ctx)?;
    }
    Ok(dev)
}

/// Checks that a net device may have a link.
///
/// # Errors
///
/// `EPERM` for a VLAN.
fn check_real(ndev: &NetDevice) -> Result {
    if ndev.is_vlan() {
        pr_err!("{}: a link needs a real device\n", ndev.name());
        return Err(EPERM);
    }
    Ok(())
}

/// The link type `rxe`.
pub(crate) struct RxeLink;

/// The registered link type.
static RXE_LINK: rdma::provider::link::Link<RxeLink> = rdma::provider::link::Link::new();

#[vtable]
impl LinkOps for RxeLink {
    const TYPE: &'static CStr = c"rxe";
    type Device = Driver;

    fn newlink(name: &CStr, ndev: &NetDevice, ctx: &MaySleep) -> Result {
        check_real(ndev)?;
        let links = links_of(ndev)?;
        let Some(ifindex) = links.second(name) else {
            return prepare(ndev, None, ctx)?.register(name, ctx);
        };
        let second = second_of(ndev, ifindex)?;
        prepare(ndev, Some(&second), ctx)?.register(name, ctx)?;
        links.forget_second(ifindex);
        Ok(())
    }

    fn dellink(dev: &Device<Driver>, ctx: &MaySleep) -> Result {
        dev.close(ctx);
        Ok(())
    }
}

/// The net device of a second port beside `first`, by its index in the same namespace.
///
/// # Errors
///
/// `EINVAL` where it is the first one; `ENODEV`.
fn second_of(first: &NetDevice, ifindex: u32) -> Result<ARef<NetDevice>> {
    if first.index() == ifindex {
        return Err(EINVAL);
    }
    let found = first.with_namespace(|net| NetDevice::by_index(net, ifindex));
    found.flatten().ok_or(ENODEV)
}

/// The link type `rxe_port`, which is no link: the second port of one to come.
pub(crate) struct PortLink;

/// The registered link type.
static PORT_LINK: rdma::provider::link::Link<PortLink> = rdma::provider::link::Link::new();

#[vtable]
impl LinkOps for PortLink {
    const TYPE: &'static CStr = c"rxe_port";
    type Device = Driver;

    fn newlink(name: &CStr, ndev: &NetDevice, _ctx: &MaySleep) -> Result {
        check_real(ndev)?;
        links_of(ndev)?.set_second(name, ndev)
    }
}

/// Registers the link types, until the results are dropped.
///
/// # Errors
///
/// `EBUSY` if they are registered already.
pub(crate) fn register() -> Result<[Registration; 2]> {
    Ok([RXE_LINK.register()?, PORT_LINK.register()?])
}

/// The netdevice notifier.
pub(crate) struct NetdevEvents;

impl Listener for NetdevEvents {
    fn event(&self, ndev: &NetDevice, event: Event, ctx: &MaySleep) {
        if let (Event::Unregister, Ok(links)) = (event, links_of(ndev)) {
            links.forget_second(ndev.index());
        }
        let Some(dev) = DeviceRef::<Driver>::by_netdev(ndev) else {
            return;
        };
        let port = dev.rxe.port_on(ndev.index());
        match event {
            Event::Unregister => unplug(&dev, port, ctx),
            Event::ChangeMtu => dev.rxe.port(port).set_mtu_of(ndev),
            // The core dispatches the port event.
            Event::Down | Event::Change if state_of(ndev) == PortState::Down => {
                let counters = dev.rxe.port(port).counters.own();
                counters.add(Counter::LinkDowned, 1);
            }
            _ => {}
        }
    }
}

/// The net device of a port goes. With that of the first port the device goes; the second port stays, without a net device: it is
/// down, as it has been told.
fn unplug(dev: &DeviceRef<Driver>, port: PortId, ctx: &MaySleep) {
    match (port, &dev.second) {
        (PortId::Second, Some(link)) => {
            link.close(ctx);
            dev.clear_netdev(port.number(), ctx);
        }
        _ => {
            dev.close(ctx);
            Qp::forget_routes(&dev.rxe);
            dev.unregister_queued();
        }
    }
}
