// SPDX-License-Identifier: GPL-2.0

//! Links of a network namespace: the devices by net device, and UDP port 4791 (annex A17 of IBTA volume 1).
//!
//! The UDP port is open, for IPv4 and IPv6, only while a net device of the namespace has a link, so that it is
//! available to applications otherwise. Closing waits for packets in the receive path.
//! The receive path looks up devices in [`Links`], independently of `struct ib_device`, which may outlive its link.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Links::seconds` | the net devices that links to come get for their second ports | process, also with RTNL held | the allocator |
//! | `Links::socket` | UDP port 4791 of a namespace against links that come and go | process, also with RTNL held | the network's own, but not RTNL |

use core::sync::atomic::{AtomicBool, Ordering};
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel_ext::compat::module_param;
use kernel_ext::error::EAFNOSUPPORT;
use kernel_ext::gfp::Gfp;
use kernel_ext::net::device::NetDevice;
use kernel_ext::net::ns::{self, impl_has_pernet_slot, NetNamespace, PerNamespace};
use kernel_ext::net::udp_tunnel::{IpVersion, UdpSocket};
use kernel_ext::xarray::Table;
use rdma::MaySleep;

use crate::device::Rxe;
use crate::ids::UDP_PORT;
use crate::port_id::PortId;
use crate::qp::Qp;

/// The links of a network namespace, by the index of their net device.
#[pin_data]
pub(crate) struct Links {
    #[pin]
    by_ifindex: Table<Rxe<Qp>>,
    /// The net devices that links to come get for their second ports. Each one is there once, and so is each name.
    #[pin]
    seconds: Mutex<KVec<Second>>,
    /// The UDP sockets, open while there are links. Taken in process context, also under RTNL, when links are added and
    /// removed; the network stack's locks are taken inside, but not RTNL.
    #[pin]
    socket: Mutex<Option<Socket>>,
}

/// The second port of a link that does not exist yet.
struct Second {
    /// The name of the link's device.
    name: CString,
    /// The index of the net device, which is registered.
    ifindex: u32,
}

impl Links {
    /// The device on a net device, by its index, and the port there. Any context.
    #[inline]
    pub(crate) fn by_ifindex(&self, ifindex: u32) -> Option<(Arc<Rxe<Qp>>, PortId)> {
        let rxe = self.by_ifindex.find(ifindex)?;
        let port = rxe.port_on(ifindex);
        Some((rxe, port))
    }

    /// The device of a link to come, by its name, gets a second port on a net device, in place of another one that it was to get.
    ///
    /// # Errors
    ///
    /// `EEXIST` where the net device has a link, `EBUSY` where it is that of another link to come; `ENOMEM`.
    pub(crate) fn set_second(&self, name: &CStr, ndev: &NetDevice) -> Result {
        let second = Second {
            name: CString::try_from(name)?,
            ifindex: ndev.index(),
        };
        let mut seconds = self.seconds.lock();
        if self.by_ifindex.find(second.ifindex).is_some() {
            return Err(EEXIST);
        }
        let is_other =
            |it: &Second| it.ifindex == second.ifindex && it.name.to_bytes() != name.to_bytes();
        if seconds.iter().any(is_other) {
            return Err(EBUSY);
        }
        seconds.reserve(1, GFP_KERNEL)?;
        seconds.retain(|it| it.name.to_bytes() != name.to_bytes());
        // One that is being unregistered has been forgotten, or will be.
        if !ndev.is_registered() {
            return Err(ENODEV);
        }
        Ok(seconds.push(second, GFP_KERNEL)?)
    }

    /// The index of the net device for the second port of a link to come, if it gets one.
    pub(crate) fn second(&self, name: &CStr) -> Option<u32> {
        let seconds = self.seconds.lock();
        let mut wanted = seconds.iter();
        let it = wanted.find(|it| it.name.to_bytes() == name.to_bytes())?;
        Some(it.ifindex)
    }

    /// A net device is no second port of a link to come: it goes, or the link has come.
    pub(crate) fn forget_second(&self, ifindex: u32) {
        self.seconds.lock().retain(|it| it.ifindex != ifindex);
    }
}

impl_has_pernet_slot! { impl HasPernetSlot for Links }

impl PerNamespace for Links {
    fn new(_net: &NetNamespace, _ctx: &MaySleep) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                by_ifindex <- Table::new(1..=u32::MAX),
                seconds <- new_mutex!(KVec::new(), "Links::seconds"),
                socket <- new_mutex!(None, "Links::socket"),
            }),
            GFP_KERNEL,
        )
    }

    fn exit(_this: Arc<Self>, _ctx: &MaySleep) {
        // Links are removed with their net devices or with the module, both of which precede this.
    }
}

/// The open UDP port of a namespace. Dropping it may sleep.
struct Socket {
    _v4: UdpSocket<Links>,
    /// None on a kernel without IPv6.
    _v6: Option<UdpSocket<Links>>,
}

/// Opens the UDP port in `net`; received packets are passed to `links`.
///
/// # Errors
///
/// `EADDRINUSE` where the port is in use, and errors of sockets.
fn attach(net: &NetNamespace, links: &Arc<Links>, sleep: &MaySleep) -> Result<Socket> {
    let whole = module_param::value(&crate::module_parameters::segmentation) != 0;
    let open = |version| UdpSocket::open(net, version, UDP_PORT, whole, links.clone(), sleep);
    let v4 = open(IpVersion::V4)?;
    let v6 = match open(IpVersion::V6) {
        Ok(socket) => Some(socket),
        Err(error) if error == EAFNOSUPPORT => None,
        Err(error) => return Err(error),
    };
    Ok(Socket { _v4: v4, _v6: v6 })
}

/// The link of a port of a device on its net device.
pub(crate) struct Link {
    links: Arc<Links>,
    ifindex: u32,
    open: AtomicBool,
}

impl Link {
    /// A link on `ndev`, not added yet.
    ///
    /// # Errors
    ///
    /// `ENODEV` where the namespace is being deleted.
    pub(crate) fn new(net: &NetNamespace, ndev: &NetDevice) -> Result<Self> {
        let links = ns::of(net).ok_or(ENODEV)?;
        Ok(Self {
            links,
            ifindex: ndev.index(),
            open: AtomicBool::new(false),
        })
    }

    /// Adds the link: from now on packets are delivered to `rxe`.
    ///
    /// # Errors
    ///
    /// `EEXIST` where the net device has a link already; errors of opening the UDP port; `ENOMEM`.
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

    /// Removes the link: packets are not delivered to the device any more, and the UDP port is closed with the last
    /// link of the namespace. May be called repeatedly, and under RTNL.
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
