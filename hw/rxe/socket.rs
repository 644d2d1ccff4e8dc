// SPDX-License-Identifier: GPL-2.0

//! UDP port 4791 of a network namespace.
//!
//! The port is open, for IPv4 and IPv6, while the namespace has a link, and not longer: a program may
//! have it otherwise. Closing waits for the packets that are just being received.

use crate::link::Links;
use crate::tx::UDP_PORT;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::error::EAFNOSUPPORT;
use kernel_ext::net::ns::NetNamespace;
use kernel_ext::net::udp_tunnel::{IpVersion, UdpSocket};
use rdma::MaySleep;

/// The port of a namespace, open for as long as this is there. Dropping it may sleep.
pub(crate) struct Socket {
    _v4: UdpSocket<Links>,
    /// None where the kernel has no IPv6.
    _v6: Option<UdpSocket<Links>>,
}

/// Opens the port of `net`; its packets go to `links`.
///
/// # Errors
///
/// `EADDRINUSE` where somebody else has the port, and what sockets say.
pub(crate) fn attach(
    net: &NetNamespace,
    links: Arc<Links>,
    sleep: &MaySleep,
) -> Result<Arc<Socket>> {
    let open = |version| UdpSocket::open(net, version, UDP_PORT, links.clone(), sleep);
    let v4 = open(IpVersion::V4)?;
    let v6 = match open(IpVersion::V6) {
        Ok(socket) => Some(socket),
        Err(error) if error == EAFNOSUPPORT => None,
        Err(error) => return Err(error),
    };
    Ok(Arc::new(Socket { _v4: v4, _v6: v6 }, GFP_KERNEL)?)
}
