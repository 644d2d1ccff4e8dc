// SPDX-License-Identifier: GPL-2.0

//! Addresses and ports: `struct sockaddr_in`, `struct sockaddr_in6`, `struct sockaddr_ib`.
//!
//! C headers: `include/uapi/linux/in.h`, `include/uapi/linux/in6.h`, `include/rdma/ib.h`.

use rdma::{
    bindings::{self, sockaddr_ib, sockaddr_in, sockaddr_in6},
    Gid,
};

/// An address, and a port of the port space of its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// IPv4; the address is in wire order.
    V4([u8; 4], u16),
    /// IPv6; the address is in wire order. The last number is the interface index of a link-local
    /// address.
    V6([u8; 16], u16, u32),
    /// A GID of an InfiniBand port, without IP; the last number is the P_Key. On RoCE nobody has such an address.
    Ib(Gid, u16, u16),
}

/// The C structure of an address.
#[repr(C)]
pub(crate) union Raw {
    v4: sockaddr_in,
    v6: sockaddr_in6,
    ib: sockaddr_ib,
}

impl Address {
    /// All addresses of all devices in a network namespace, of IPv6 and of IPv4: the wildcard.
    pub const fn any(port: u16) -> Self {
        Self::V6([0; 16], port, 0)
    }

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
            Self::V4(_, port) | Self::V6(_, port, _) | Self::Ib(_, port, _) => *port,
        }
    }

    /// For an identifier of a port space, whose services begin at an ID.
    pub(crate) fn to_raw(self, services: u64) -> Raw {
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
            Self::Ib(gid, port, pkey) => {
                let mut raw: sockaddr_ib = pin_init::zeroed();
                raw.sib_family = bindings::AF_IB as u16;
                raw.sib_pkey = pkey.to_be();
                raw.sib_addr.ib_u.uib_addr8 = gid.0;
                raw.sib_sid = (services | u64::from(port)).to_be();
                raw.sib_sid_mask = u64::MAX;
                Raw { ib: raw }
            }
        }
    }
}
