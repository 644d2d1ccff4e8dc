// SPDX-License-Identifier: GPL-2.0

//! One attempt to resolve an address: a route lookup, and the hardware address of the next hop.
//!
//! C header: `include/rdma/ib_addr.h`.

use kernel::{ffi::c_int, prelude::*, sync::rcu};
use kernel_ext::{
    bindings as c,
    error::{EADDRNOTAVAIL, ENODATA},
    gfp::Gfp,
    net::{
        address::IpAddress,
        device::{LinkType, NetDevice},
        netlink::Message,
        ns::{NetNamespace, NetRef},
        resolve::Path,
    },
};
use rdma::{core::addr::SourceL2, MaySleep};

use super::state::{Egress, Query, Route};
use crate::netlink;

impl Egress {
    /// The namespace and the index of the egress device.
    fn net_and_index(&self) -> Result<(NetRef, c_int)> {
        match self {
            Self::Net(net, index) => Ok((net.clone(), *index)),
            Self::Gid(gid) => {
                let guard = rcu::read_lock();
                if !gid.is_valid() {
                    return Err(EINVAL);
                }
                let ndev = gid.ndev(&guard).ok_or(ENODEV)?;
                let net = ndev.namespace().ok_or(ENODEV)?;
                Ok((net, ndev.index() as c_int))
            }
        }
    }
}

/// The egress device of a source address: the one with the index, or the one that has the address.
pub(super) fn device_of<'g>(
    net: &NetNamespace,
    index: c_int,
    address: &IpAddress,
    guard: &'g rcu::Guard,
) -> Result<&'g NetDevice> {
    if index != 0 {
        return NetDevice::by_index_rcu(net, index.unsigned_abs(), guard).ok_or(ENODEV);
    }
    NetDevice::by_address_rcu(net, address, guard).ok_or(EADDRNOTAVAIL)
}

/// The network type of a route through `ndev`, and the attributes of the source device.
fn source_of(
    path: &Path,
    net: &NetNamespace,
    index: c_int,
    destination: &IpAddress,
) -> Result<(SourceL2, c::rdma_network_type)> {
    let guard = rcu::read_lock();
    let leaves_by = path.device(&guard);
    // A route to a local address leads over the loopback device, which has no RDMA: the device that has the address is
    // used.
    let (owner, source) = if path.is_local() {
        let owner = leaves_by.with_namespace(|net| {
            NetDevice::by_address_rcu(net, destination, &guard).ok_or(ENODEV)
        });
        let source = device_of(net, index, destination, &guard);
        (owner.ok_or(ENODEV)??, source?)
    } else {
        (leaves_by, leaves_by)
    };
    let routed = path.has_gateway() && owner.link_type() != LinkType::INFINIBAND;
    let network = match destination {
        _ if !routed => c::RDMA_NETWORK_IB,
        IpAddress::V4(_) => c::RDMA_NETWORK_IPV4,
        IpAddress::V6(_) => c::RDMA_NETWORK_IPV6,
    };
    Ok((SourceL2::of(source), network))
}

impl Query {
    /// Looks the route up.
    ///
    /// # Errors
    ///
    /// Routing errors; `ENODEV`, `EADDRNOTAVAIL` if no device has the source address.
    fn look_up(&self) -> Result<(Path, Route)> {
        let (net, index) = self.egress.net_and_index()?;
        let (path, source) = Path::lookup(&net, index, self.source, self.destination)?;
        let (l2, network) = source_of(&path, &net, index, &self.destination)?;
        let hop_limit = path.hop_limit();
        let route = Route {
            source,
            l2,
            network,
            hop_limit,
            next_hop: Err(ENODATA),
        };
        Ok((path, route))
    }

    /// Whether packets pass an IP router.
    ///
    /// # Errors
    ///
    /// As for [`Self::resolve`].
    pub(super) fn is_routed(&self) -> Result<bool> {
        let (_, route) = self.look_up()?;
        Ok(route.network != c::RDMA_NETWORK_IB)
    }

    /// Makes one attempt.
    ///
    /// # Errors
    ///
    /// Routing errors; `ENODEV`, `EADDRNOTAVAIL` if no device has the source address.
    pub(super) fn resolve(&self, sleep: &MaySleep) -> Result<Route> {
        let (path, mut route) = self.look_up()?;
        route.next_hop = if path.is_local() {
            Ok(route.l2.address)
        } else if path.has_gateway() && route.network == c::RDMA_NETWORK_IB {
            // The next hop behind an IB router is not a neighbour.
            Err(self.request_from_user_space(route.l2.ifindex, sleep))
        } else {
            path.next_hop_address(sleep)
        };
        Ok(route)
    }

    /// Sends a request for the GID of a destination behind an IB router to user space. Returns `ENODATA`: the response
    /// is pending; or `EADDRNOTAVAIL`: there is no listener.
    fn request_from_user_space(&self, ifindex: u32, sleep: &MaySleep) -> Error {
        if !netlink::has_listeners(c::RDMA_NL_GROUP_LS) {
            return EADDRNOTAVAIL;
        }
        let (kind, address) = match &self.destination {
            IpAddress::V4(address) => (c::LS_NLA_TYPE_IPV4, address.as_slice()),
            IpAddress::V6(address) => (c::LS_NLA_TYPE_IPV6, address.as_slice()),
        };
        let message = netlink::message_kind(c::RDMA_NL_LS, c::RDMA_NL_LS_OP_IP_RESOLVE);
        let request = Message::request(message, self.seq, Gfp::kernel(sleep), |writer| {
            writer.header(&ifindex.to_ne_bytes())?;
            writer.bytes(kind | c::RDMA_NLA_F_MANDATORY, address)
        });
        // The request is retried until it is answered.
        let init = NetNamespace::init();
        let _ = request.and_then(|it| netlink::multicast(init, it, c::RDMA_NL_GROUP_LS, sleep));
        ENODATA
    }
}
