// SPDX-License-Identifier: GPL-2.0

//! `rdma_rxe`: RoCE v2 (IBTA volume 1, annex A17) in software, on any Ethernet device.
//!
//! Files by level; a file imports only from those below it:
//!
//! | file | what |
//! |---|---|
//! | [`newlink`] | creating and deleting links, events of net devices |
//! | [`verbs`] | the driver's methods |
//! | [`rx`] | receiving packets |
//! | [`link`] | the links of a network namespace, the UDP port |
//! | [`qp`] | queue pairs: their state, their engines, their timers |
//! | [`check`] | validating packets for a queue pair |
//! | [`device`] | the data of a device: tables of its objects, its ports |
//! | [`port`] | the data of a port |
//! | [`mcast`], [`srq`] | multicast groups, shared receive queues |
//! | [`wqe`] | parsing work requests |
//! | [`mw`] | memory windows |
//! | [`cq`], [`segments`] | completion queues, GSO buffers |
//! | [`tx`] | transmitting packets |
//! | [`path`], [`flight`] | paths of packets, packets in flight |
//! | [`addresses`], [`ah`], [`backlog`] | addresses of a device, address vectors, backlogs of queue pairs |
//! | [`packet`], [`doorbell`] | received packets, deferred doorbells |
//! | [`buffer`] | received GRO buffers |
//! | [`icrc`], [`grh`] | the ICRC, headers in front of datagrams |
//! | [`source`], [`mr`] | source buffers of direct copies, memory regions |
//! | [`dm`] | memory of a device |
//! | [`ring`] | rings in memory shared with user space |
//! | [`mad`], [`counters`] | performance MADs, hardware counters |
//! | [`pkeys`], [`fault_inject`] | the P_Key table of a port, injection of faults |
//! | [`limits`], [`ids`] | limits of a device, identifiers |
//! | [`port_id`] | the ports of a device |
//!
//! The protocol is the crate `roce`, which is independent of the kernel: a packet passes from `rx` through `qp` to
//! `roce`, and from there to `mr`, `cq` and `tx`.

use kernel::prelude::*;
use kernel_ext::{
    module::{process_module, ProcessModule},
    net::{notifier, ns::PernetRegistration, udp_tunnel},
};
use rdma::MaySleep;

mod addresses;
mod ah;
mod backlog;
mod buffer;
mod check;
mod counters;
mod cq;
mod device;
mod dm;
mod doorbell;
mod fault_inject;
mod flight;
mod grh;
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
mod path;
mod pkeys;
mod port;
mod port_id;
mod qp;
mod ring;
mod route;
mod rx;
mod segments;
mod source;
mod srq;
mod sync;
mod tx;
mod verbs;
mod wqe;

process_module! {
    type: RdmaRxe,
    name: "rdma_rxe",
    authors: ["Ferroband"],
    description: "Soft RDMA transport",
    license: "GPL",
    alias: ["rdma-link-rxe", "rdma-link-rxe_port"],
    imports_ns: ["DMA_BUF"],
    params: {
        direct_copy: u8 {
            default: 1,
            description: "Copy messages between queue pairs of a device without packets (0: always in packets)",
        },
        segmentation: u8 {
            default: 1,
            description: "Send and take packets of a message together, by UDP segmentation offload (0: one by one)",
        },
        flow_control: u8 {
            default: 0,
            description: "Tell the peers of RC queue pairs how many receives are posted (0: no end-to-end flow control)",
        },
        congestion_control: u8 {
            default: 0,
            description: "Notify the peers of RC and UC queue pairs of packets with ECN marks, and send more slowly when notified (0: no congestion control)",
        },
        pkeys: u16 {
            default: 1,
            description: "Entries of the P_Key table of a device, 1 to 64; more than one can be set by the file set_pkey of the device",
        },
        device_memory: u16 {
            default: 0,
            description: "KiB of memory of a device that programs can allocate (ALLOC_DM; 0: none)",
        },
        fault_inject: u8 {
            default: 0,
            description: "Let send requests fail as the file fault_inject of a device says, to test programs (0: no such file)",
        },
    },
}

/// The module. UDP ports are opened by links.
struct RdmaRxe {
    /// Dropped first, so that no new links are created.
    links: [rdma::provider::link::Registration; 2],
    // Dropped when no device is left.
    _watch: Pin<KBox<notifier::Registration<newlink::NetdevEvents>>>,
    _links: PernetRegistration<link::Links>,
    _sockets: udp_tunnel::Registration,
}

impl ProcessModule for RdmaRxe {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        pkeys::check_length()?;
        let _sockets = udp_tunnel::Registration::new(sleep)?;
        let _links = PernetRegistration::new(sleep)?;
        let _watch = notifier::Registration::new(newlink::NetdevEvents, sleep)?;
        let links = newlink::register()?;
        pr_info!("loaded\n");
        Ok(Self {
            links,
            _watch,
            _links,
            _sockets,
        })
    }

    fn exit(self, sleep: &MaySleep) {
        drop(self.links);
        rdma::provider::register::unregister_driver::<verbs::Driver>(sleep);
        flight::wait_for_packets(sleep);
        pr_info!("unloaded\n");
    }
}
