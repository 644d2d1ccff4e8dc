// SPDX-License-Identifier: GPL-2.0

//! IP addresses and ports: `struct sockaddr_in`, `struct sockaddr_in6`.
//!
//! C headers: `include/uapi/linux/in.h`, `include/uapi/linux/in6.h`.

use rdma::{
    bindings::{self, sockaddr_in, sockaddr_in6},
    Gid,
};

/// An IP address, and a port of the connection manager's TCP port space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// IPv4; the address is in wire order.
    V4([u8; 4], u16),
    /// IPv6; the address is in wire order. The last number is the interface index of a link-local
    /// address.
    V6([u8; 16], u16, u32),
}

/// The C structure of an address.
#[repr(C)]
pub(crate) union Raw {
    v4: sockaddr_in,
    v6: sockaddr_in6,
}

impl Address {
    /// The address that a GID of RoCE stands for, with a port.
    pub fn of_gid(gid: Gid, port: u16) -> Self {
        match gid.ipv4() {
            Some(address) => Self::V4(address, port),
            None => Self::V6(gid.0, port, 0),
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        match self {
            Self::V4(_, port) | Self::V6(_, port, _) => *port,
        }
    }

    pub(crate) fn to_raw(self) -> Raw {
        match self {
            Self::V4(address, port) => {
                let mut raw: sockaddr_in = pin_init::zeroed();
                raw.sin_family = bindings::AF_INET as u16;
                raw.sin_port = port.to_be();
                raw.sin_addr.s_addr = u32::from_ne_bytes(address);
                Raw { v4: raw }
            }
            Self::V6(address, port, scope) => {
                let mut raw: sockaddr_in6 = pin_init::zeroed();
                raw.sin6_family = bindings::AF_INET6 as u16;
                raw.sin6_port = port.to_be();
                raw.sin6_addr.in6_u.u6_addr8 = address;
                raw.sin6_scope_id = scope;
                Raw { v6: raw }
            }
        }
    }
}
