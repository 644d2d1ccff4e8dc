// SPDX-License-Identifier: GPL-2.0

//! Creating devices by `rdma link add NAME type rxe netdev DEV`, and events of their net devices: `struct
//! rdma_link_ops` of `<rdma/rdma_netlink.h>`.

use kernel::prelude::*;
use kernel_ext::net::device::NetDevice;
use kernel_ext::net::notifier::{Event, Listener};
use rdma::abi::port::{state_of, PortState};
use rdma::{
    abi::device::{uverbs_cmd, NODE_IB_CA},
    provider::{
        device::{Device, DeviceRef},
        register::{DeviceInfo, NewDevice},
    },
};
use rdma::{LinkOps, MaySleep};

use crate::counters::Counter;
use crate::device::Rxe;
use crate::ids::PORT;
use crate::link::Link;
use crate::qp::Qp;
use crate::verbs::Driver;

/// Prepares a device on a net device, without registering it. Not inlined, so that its stack is free again when
/// `register` calls the core and its clients.
#[inline(never)]
fn prepare(ndev: &NetDevice, ctx: &MaySleep) -> Result<NewDevice<Driver>> {
    let net = ndev.namespace().ok_or(ENODEV)?;
    let driver = Driver {
        rxe: Rxe::new(ndev)?,
        link: Link::new(&net, ndev)?,
    };
    let mut dev = Device::alloc(driver, None, ctx)?;
    dev.link.open(&net, &dev.rxe, ctx)?;
    dev.describe(&DeviceInfo {
        node_type: NODE_IB_CA,
        phys_port_cnt: PORT,
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
    dev.set_link(&RXE_LINK);
    dev.set_netdev(ndev, PORT, ctx)?;
    Ok(dev)
}

/// The link type `rxe`.
pub(crate) struct RxeLink;

/// The registered link type.
pub(crate) static RXE_LINK: rdma::provider::link::Link<RxeLink> = rdma::provider::link::Link::new();

#[vtable]
impl LinkOps for RxeLink {
    const TYPE: &'static CStr = c"rxe";
    type Device = Driver;

    fn newlink(name: &CStr, ndev: &NetDevice, ctx: &MaySleep) -> Result {
        if ndev.is_vlan() {
            pr_err!("{}: a link needs a real device\n", ndev.name());
            return Err(EPERM);
        }
        prepare(ndev, ctx)?.register(name, ctx)
    }

    fn dellink(dev: &Device<Driver>, ctx: &MaySleep) -> Result {
        dev.link.close(ctx);
        Ok(())
    }
}

/// The netdevice notifier.
pub(crate) struct NetdevEvents;

impl Listener for NetdevEvents {
    fn event(&self, ndev: &NetDevice, event: Event, ctx: &MaySleep) {
        let Some(dev) = DeviceRef::<Driver>::by_netdev(ndev) else {
            return;
        };
        match event {
            Event::Unregister => {
                dev.link.close(ctx);
                Qp::forget_routes(&dev.rxe);
                dev.unregister_queued();
            }
            Event::ChangeMtu => dev.rxe.set_mtu_of(ndev),
            // The core dispatches the port event.
            Event::Down | Event::Change if state_of(ndev) == PortState::Down => {
                dev.rxe.counters.own().add(Counter::LinkDowned, 1);
            }
            _ => {}
        }
    }
}
