// SPDX-License-Identifier: GPL-2.0

//! Addresses as C has them, `struct sockaddr_in` and so on, and errors of the rules as errnos.
//!
//! C headers: `include/uapi/linux/in.h`, `include/uapi/linux/in6.h`, `include/rdma/ib.h`.

use cm_rules::{
    address::{Address, Family, Ib, Ip, Ip4, Ip6},
    errno::Errno,
};
use kernel::prelude::*;
use kernel_ext::bindings::{AF_IB, AF_INET, AF_INET6};
use rdma::{
    core::iw::address::{SockAddr, SIZE},
    Gid,
};

/// The error of an errno.
pub(crate) fn error(errno: Errno) -> Error {
    Error::from_errno(errno.to_return())
}

/// A part of an address.
fn part<const N: usize>(bytes: &[u8; SIZE], at: usize) -> [u8; N] {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().unwrap_or([0; N])
}

/// The address that C has passed. `None` for other families.
pub(crate) fn parse(raw: &SockAddr) -> Option<Address> {
    let bytes = raw.as_bytes();
    Some(match raw.family() {
        AF_INET => Address::Ip4(Ip4 {
            port: u16::from_be_bytes(part(bytes, 2)),
            addr: part(bytes, 4),
        }),
        AF_INET6 => Address::Ip6(Ip6 {
            port: u16::from_be_bytes(part(bytes, 2)),
            flow_info: u32::from_be_bytes(part(bytes, 4)),
            addr: part(bytes, 8),
            scope_id: u32::from_ne_bytes(part(bytes, 24)),
        }),
        AF_IB => Address::Ib(Ib {
            pkey: u16::from_be_bytes(part(bytes, 2)),
            flow_info: u32::from_be_bytes(part(bytes, 4)),
            addr: part(bytes, 8),
            sid: u64::from_be_bytes(part(bytes, 24)),
            sid_mask: u64::from_be_bytes(part(bytes, 32)),
            scope_id: u64::from_ne_bytes(part(bytes, 40)),
        }),
        _ => return None,
    })
}

/// The number of a family.
pub(crate) fn family(family: Family) -> u32 {
    match family {
        Family::Ip4 => AF_INET,
        Family::Ip6 => AF_INET6,
        Family::Ib => AF_IB,
    }
}

/// The address for C.
pub(crate) fn to_raw(address: &Address) -> SockAddr {
    let mut bytes = [0; SIZE];
    let mut put = |at: usize, part: &[u8]| {
        for (to, from) in bytes.iter_mut().skip(at).zip(part) {
            *to = *from;
        }
    };
    put(0, &(family(address.family()) as u16).to_ne_bytes());
    match address {
        Address::Ip4(ip) => {
            put(2, &ip.port.to_be_bytes());
            put(4, &ip.addr);
        }
        Address::Ip6(ip) => {
            put(2, &ip.port.to_be_bytes());
            put(4, &ip.flow_info.to_be_bytes());
            put(8, &ip.addr);
            put(24, &ip.scope_id.to_ne_bytes());
        }
        Address::Ib(ib) => {
            put(2, &ib.pkey.to_be_bytes());
            put(4, &ib.flow_info.to_be_bytes());
            put(8, &ib.addr);
            put(24, &ib.sid.to_be_bytes());
            put(32, &ib.sid_mask.to_be_bytes());
            put(40, &ib.scope_id.to_ne_bytes());
        }
    }
    SockAddr::from_bytes(bytes)
}

/// The GID that an IP address is over Ethernet.
pub(crate) fn gid_of(address: &Address) -> Option<Gid> {
    Some(match address.ip()? {
        Ip::V4(addr) => Gid::from_ipv4(addr),
        Ip::V6(addr) => Gid(addr),
    })
}
