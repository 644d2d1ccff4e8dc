// SPDX-License-Identifier: GPL-2.0

//! `rdma_rxe`: RoCE version 2 in software, on any Ethernet device.
//!
//! From the roof down:
//!
//! | file | what |
//! |---|---|
//! | [`newlink`] | `rdma link add` and `del`, events of net devices |
//! | [`verbs`] | the methods that the core calls |
//! | [`rx`] | packets in |
//! | [`link`] | the links of a network namespace, the UDP port |
//! | [`qp`] | queue pairs: their state, their engines, their timers |
//! | [`device`] | what the parts share of a device: tables of its objects, its port |
//! | [`mcast`], [`srq`] | multicast groups, shared receive queues |
//! | [`wqe`] | snapshots of work requests |
//! | [`mw`], [`mr`] | memory windows and regions |
//! | [`cq`], [`tx`] | completion queues, packets out |
//! | [`ah`], [`backlog`] | address vectors, packets to the device itself |
//! | [`packet`], [`icrc`] | packets that came in, the checksum of packets |
//! | [`ring`] | memory shared with user space |
//! | [`mad`], [`counters`] | what is counted, and how it is asked for |
//! | [`limits`], [`ids`] | how much there may be, and numbers that name things |
//!
//! The protocol is the crate `roce`, which knows nothing of the kernel: a packet goes from `rx` to `qp`
//! to `roce`, and from there to `mr`, `cq` and `tx`.

use kernel::prelude::*;
use kernel_ext::net::ns::PernetRegistration;
use kernel_ext::net::{notifier, udp_tunnel};
use rdma::MaySleep;

mod ah;
mod backlog;
mod counters;
mod cq;
mod device;
mod icrc;
mod ids;
mod limits;
mod link;
mod mad;
mod mcast;
mod mr;
mod mw;
mod newlink;
mod packet;
mod qp;
mod ring;
mod rx;
mod srq;
mod tx;
mod verbs;
mod wqe;

module! {
    type: RdmaRxe,
    name: "rdma_rxe",
    authors: ["Ferroband"],
    description: "Soft RDMA transport",
    license: "GPL",
    alias: ["rdma-link-rxe"],
}

/// The module. Opens no port: that is what links do.
struct RdmaRxe {
    /// Dropped first, so that no link is made any more.
    link: Option<rdma::link::Registration>,
    // Dropped when no device is left.
    _watch: Pin<KBox<notifier::Registration<newlink::NetdevEvents>>>,
    _links: PernetRegistration<link::Links>,
    _sockets: udp_tunnel::Registration,
}

impl kernel::Module for RdmaRxe {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // SAFETY: Modules are loaded in process context.
        let ctx = unsafe { MaySleep::assume() };
        let _sockets = udp_tunnel::Registration::new(&ctx)?;
        let _links = PernetRegistration::new(&ctx)?;
        let _watch = notifier::Registration::new(newlink::NetdevEvents, &ctx)?;
        let link = Some(newlink::RXE_LINK.register()?);
        pr_info!("loaded\n");
        Ok(Self {
            link,
            _watch,
            _links,
            _sockets,
        })
    }
}

impl Drop for RdmaRxe {
    fn drop(&mut self) {
        // SAFETY: Modules are unloaded in process context.
        let ctx = unsafe { MaySleep::assume() };
        drop(self.link.take());
        rdma::device::unregister_driver::<verbs::Driver>(&ctx);
        tx::wait_for_packets(&ctx);
        pr_info!("unloaded\n");
    }
}
