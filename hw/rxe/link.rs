// SPDX-License-Identifier: GPL-2.0

//! Links: `rdma link add NAME type rxe netdev DEV`, and what becomes of them when the net device
//! changes or goes.
//!
//! A network namespace has UDP port 4791 open as long as there is a link on one of its net devices.
//! [`Links`] is what the receive path looks up; it has nothing to do with the core's device, which may
//! still be there for a while when its link is gone.

use core::sync::atomic::{AtomicBool, Ordering};
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel_ext::gfp::Gfp;
use kernel_ext::net::device::NetDevice;
use kernel_ext::net::notifier::{Event, Listener};
use kernel_ext::net::ns::{self, impl_has_pernet_slot, NetNamespace, PerNamespace};
use kernel_ext::xarray::Table;
use rdma::device::{uverbs_cmd, Device, DeviceInfo, DeviceRef, NewDevice, NODE_IB_CA};
use rdma::port::{state_of, PortState};
use rdma::{LinkOps, MaySleep};

use crate::counters::Counter;
use crate::device::{Driver, Rxe, PORT};
use crate::socket::{self, Socket};

/// The links of a network namespace by the number of their net device.
#[pin_data]
pub(crate) struct Links {
    #[pin]
    by_ifindex: Table<Rxe>,
    /// The port, open while there are links. Taken in process context, also with RTNL held, while links
    /// come and go; inside are the network's own locks but not RTNL.
    #[pin]
    socket: Mutex<Option<Arc<Socket>>>,
}

impl Links {
    /// The link on a net device: for a VLAN, on the device below. Any context.
    #[inline]
    pub(crate) fn by_ifindex(&self, ifindex: u32) -> Option<Arc<Rxe>> {
        self.by_ifindex.find(ifindex)
    }
}

impl_has_pernet_slot! { impl HasPernetSlot for Links }

impl PerNamespace for Links {
    fn new(_net: &NetNamespace, _ctx: &MaySleep) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                by_ifindex <- Table::new(1..=u32::MAX),
                socket <- new_mutex!(None, "Links::socket"),
            }),
            GFP_KERNEL,
        )
    }

    fn exit(_this: Arc<Self>, _ctx: &MaySleep) {
        // Links go with their net devices or with the module, both of which come first.
    }
}

/// A device's place among the links.
pub(crate) struct Link {
    links: Arc<Links>,
    ifindex: u32,
    open: AtomicBool,
}

impl Link {
    /// The place of a device on `ndev`, not taken yet.
    ///
    /// # Errors
    ///
    /// `ENODEV` where the namespace is going down.
    fn new(net: &NetNamespace, ndev: &NetDevice) -> Result<Self> {
        let links = ns::of(net).ok_or(ENODEV)?;
        Ok(Self {
            links,
            ifindex: ndev.index(),
            open: AtomicBool::new(false),
        })
    }

    /// Takes the place: from now on packets find `rxe`.
    ///
    /// # Errors
    ///
    /// `EEXIST` where the net device has a link; what opening the port fails with; `ENOMEM`.
    fn open(&self, net: &NetNamespace, rxe: &Arc<Rxe>, ctx: &MaySleep) -> Result {
        let links = &self.links;
        let mut socket = links.socket.lock();
        if socket.is_none() {
            *socket = Some(socket::attach(net, links.clone(), ctx)?);
        }
        let inserted = links
            .by_ifindex
            .insert_at(self.ifindex, rxe.clone(), Gfp::kernel(ctx));
        if links.by_ifindex.is_empty() {
            *socket = None;
        }
        self.open.store(inserted.is_ok(), Ordering::Relaxed);
        inserted.map_err(|error| if error == EBUSY { EEXIST } else { error })
    }

    /// Leaves the place: packets do not find the device any more, and the port closes if this was the
    /// last link of the namespace. May be called again, and with RTNL held.
    pub(crate) fn close(&self, ctx: &MaySleep) {
        let mut socket = self.links.socket.lock();
        if self.open.swap(false, Ordering::Relaxed) {
            drop(self.links.by_ifindex.remove(self.ifindex, ctx));
        }
        if self.links.by_ifindex.is_empty() {
            *socket = None;
        }
    }
}

/// A device on a net device, that nobody knows yet. By itself, so that what it needs of the stack is free again when
/// the core and its clients need much of it: in `register`.
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

/// Links of type `rxe`.
pub(crate) struct RxeLink;

/// The links' type, as the core knows it.
pub(crate) static RXE_LINK: rdma::link::Link<RxeLink> = rdma::link::Link::new();

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

/// Follows the net devices.
pub(crate) struct Watch;

impl Listener for Watch {
    fn event(&self, ndev: &NetDevice, event: Event, ctx: &MaySleep) {
        let Some(dev) = DeviceRef::<Driver>::by_netdev(ndev) else {
            return;
        };
        match event {
            Event::Unregister => {
                dev.link.close(ctx);
                dev.unregister_queued();
            }
            Event::ChangeMtu => dev.rxe.set_mtu_of(ndev),
            // The core reports the state of the port.
            Event::Down | Event::Change if state_of(ndev) == PortState::Down => {
                dev.rxe.counters.add(Counter::LinkDowned, 1);
            }
            _ => {}
        }
    }
}
