// SPDX-License-Identifier: GPL-2.0

//! Links of a network namespace: which device is on which net device, and UDP port 4791 (annex A17 of IBTA volume 1).
//!
//! The port is open, for IPv4 and IPv6, as long as there is a link on one of the namespace's net devices, and not
//! longer: a program may have it otherwise. Closing waits for the packets that are just being received.
//! [`Links`] is what the receive path looks up; it has nothing to do with the core's device, which may
//! still be there for a while when its link is gone.

use core::sync::atomic::{AtomicBool, Ordering};
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel_ext::error::EAFNOSUPPORT;
use kernel_ext::gfp::Gfp;
use kernel_ext::net::device::NetDevice;
use kernel_ext::net::ns::{self, impl_has_pernet_slot, NetNamespace, PerNamespace};
use kernel_ext::net::udp_tunnel::{IpVersion, UdpSocket};
use kernel_ext::xarray::Table;
use rdma::MaySleep;

use crate::device::Rxe;
use crate::ids::UDP_PORT;
use crate::qp::Qp;

/// The links of a network namespace by the number of their net device.
#[pin_data]
pub(crate) struct Links {
    #[pin]
    by_ifindex: Table<Rxe<Qp>>,
    /// The port, open while there are links. Taken in process context, also with RTNL held, while links
    /// come and go; inside are the network's own locks but not RTNL.
    #[pin]
    socket: Mutex<Option<Socket>>,
}

impl Links {
    /// The link on a net device: for a VLAN, on the device below. Any context.
    #[inline]
    pub(crate) fn by_ifindex(&self, ifindex: u32) -> Option<Arc<Rxe<Qp>>> {
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

/// The port of a namespace, open for as long as this is there. Dropping it may sleep.
struct Socket {
    _v4: UdpSocket<Links>,
    /// None where the kernel has no IPv6.
    _v6: Option<UdpSocket<Links>>,
}

/// Opens the port of `net`; its packets go to `links`.
///
/// # Errors
///
/// `EADDRINUSE` where somebody else has the port, and what sockets say.
fn attach(net: &NetNamespace, links: &Arc<Links>, sleep: &MaySleep) -> Result<Socket> {
    let open = |version| UdpSocket::open(net, version, UDP_PORT, links.clone(), sleep);
    let v4 = open(IpVersion::V4)?;
    let v6 = match open(IpVersion::V6) {
        Ok(socket) => Some(socket),
        Err(error) if error == EAFNOSUPPORT => None,
        Err(error) => return Err(error),
    };
    Ok(Socket { _v4: v4, _v6: v6 })
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
    pub(crate) fn new(net: &NetNamespace, ndev: &NetDevice) -> Result<Self> {
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
    pub(crate) fn open(&self, net: &NetNamespace, rxe: &Arc<Rxe<Qp>>, ctx: &MaySleep) -> Result {
        let links = &self.links;
        let mut socket = links.socket.lock();
        if socket.is_none() {
            *socket = Some(attach(net, links, ctx)?);
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
