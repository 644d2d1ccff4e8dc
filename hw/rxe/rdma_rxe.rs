// SPDX-License-Identifier: GPL-2.0

//! `rdma_rxe`: RoCE version 2 in software, on any Ethernet device.
//!
//! From the roof down:
//!
//! | file | what |
//! |---|---|
//! | [`link`] | `rdma link add` and `del`, events of net devices |
//! | [`device`] | the methods that the core calls; what the device can |
//! | [`rxe`] | what the parts below share of a device |
//! | [`qp`] | queue pairs: their state, their engines, their timers |
//! | [`rx`], [`tx`], [`socket`] | packets in, packets out, the UDP port |
//! | [`wqe`] | snapshots of work requests |
//! | [`mr`], [`cq`], [`ah`] | memory regions, completion queues, address vectors |
//! | [`ring`] | memory shared with user space |
//! | [`counters`], [`mad`], [`limits`] | what is counted, how it is asked for, how much there may be |
//!
//! The protocol is the crate `roce`, which knows nothing of the kernel: a packet goes from `rx` to `qp`
//! to `roce`, and from there to `mr`, `cq` and `tx`.

use kernel::prelude::*;
use kernel_ext::net::ns::PernetRegistration;
use kernel_ext::net::{notifier, udp_tunnel};
use rdma::MaySleep;

mod ah;
mod counters;
mod cq;
mod device;
mod limits;
mod link;
mod mad;
mod mcast;
mod mr;
mod mw;
mod qp;
mod ring;
mod rx;
mod rxe;
mod socket;
mod srq;
mod tx;
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
    _watch: Pin<KBox<notifier::Registration<link::Watch>>>,
    _links: PernetRegistration<link::Links>,
    _sockets: udp_tunnel::Registration,
}

impl kernel::Module for RdmaRxe {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // SAFETY: Modules are loaded in process context.
        let ctx = unsafe { MaySleep::assume() };
        let _sockets = udp_tunnel::Registration::new(&ctx)?;
        let _links = PernetRegistration::new(&ctx)?;
        let _watch = notifier::Registration::new(link::Watch, &ctx)?;
        let link = Some(link::RXE_LINK.register()?);
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
        rdma::device::unregister_driver::<device::Driver>(&ctx);
        tx::wait_for_packets(&ctx);
        pr_info!("unloaded\n");
    }
}
