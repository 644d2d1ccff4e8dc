// SPDX-License-Identifier: GPL-2.0

//! Addresses of identifiers: IPv4, IPv6 and `AF_IB`, with the port.
//!
//! C headers: `<linux/in.h>`, `<linux/in6.h>`, `include/rdma/ib.h`.

/// The family of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `AF_INET`.
    Ip4,
    /// `AF_INET6`.
    Ip6,
    /// `AF_IB`.
    Ib,
}

/// An IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ip {
    /// IPv4, in network order.
    V4([u8; 4]),
    /// IPv6, in network order.
    V6([u8; 16]),
}

/// `struct sockaddr_in`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ip4 {
    /// The address, in network order.
    pub addr: [u8; 4],
    /// The port; 0: none yet.
    pub port: u16,
}

/// `struct sockaddr_in6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ip6 {
    /// The address, in network order.
    pub addr: [u8; 16],
    /// The port; 0: none yet.
    pub port: u16,
    /// Flow label (20 bits) and traffic class.
    pub flow_info: u32,
    /// The index of the net device, for link-local addresses.
    pub scope_id: u32,
}

/// `struct sockaddr_ib`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ib {
    /// The GID.
    pub addr: [u8; 16],
    /// The partition key.
    pub pkey: u16,
    /// Flow label (20 bits) and traffic class.
    pub flow_info: u32,
    /// The service ID: the port space, and in its lowest 16 bits the port.
    pub sid: u64,
    /// Which bits of the service ID are meant.
    pub sid_mask: u64,
    /// The scope.
    pub scope_id: u64,
}

/// An address with its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// IPv4.
    Ip4(Ip4),
    /// IPv6.
    Ip6(Ip6),
    /// A GID with a service ID.
    Ib(Ib),
}

const UNSPECIFIED: [u8; 16] = [0; 16];
const LOOPBACK: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// Whether an IPv6 address is meaningful on one link only: `fe80::/10`, or multicast of that scope.
pub const fn is_link_local(addr: &[u8; 16]) -> bool {
    match addr {
        [0xfe, second, ..] => *second & 0xc0 == 0x80,
        [0xff, second, ..] => *second & 0x0f == 0x02,
        _ => false,
    }
}

impl Address {
    /// The wildcard address of a family, without a port.
    pub const fn any(family: Family) -> Self {
        match family {
            Family::Ip4 => Self::Ip4(Ip4 {
                addr: [0; 4],
                port: 0,
            }),
            Family::Ip6 => Self::Ip6(Ip6 {
                addr: UNSPECIFIED,
                port: 0,
                flow_info: 0,
                scope_id: 0,
            }),
            Family::Ib => Self::Ib(Ib {
                addr: UNSPECIFIED,
                pkey: 0,
                flow_info: 0,
                sid: 0,
                sid_mask: 0,
                scope_id: 0,
            }),
        }
    }

    /// The source of an identifier that is not bound and resolves `self`: the wildcard address, on the same link, in the
    /// same partition.
    pub const fn any_source(&self) -> Self {
        match (self, Self::any(self.family())) {
            (Self::Ip6(to), Self::Ip6(any)) => Self::Ip6(Ip6 {
                scope_id: to.scope_id,
                ..any
            }),
            (Self::Ib(to), Self::Ib(any)) => Self::Ib(Ib {
                pkey: to.pkey,
                ..any
            }),
            (_, any) => any,
        }
    }

    /// The family.
    pub const fn family(&self) -> Family {
        match self {
            Self::Ip4(_) => Family::Ip4,
            Self::Ip6(_) => Family::Ip6,
            Self::Ib(_) => Family::Ib,
        }
    }

    /// The IP address; `None` for `AF_IB`.
    pub const fn ip(&self) -> Option<Ip> {
        match self {
            Self::Ip4(ip) => Some(Ip::V4(ip.addr)),
            Self::Ip6(ip) => Some(Ip::V6(ip.addr)),
            Self::Ib(_) => None,
        }
    }

    /// Whether it is no address: `0.0.0.0`, `::`, or a GID of zeroes.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Ip4(ip) => ip.addr == [0; 4],
            Self::Ip6(Ip6 { addr, .. }) | Self::Ib(Ib { addr, .. }) => *addr == UNSPECIFIED,
        }
    }

    /// Whether it is of the loopback device: `127.0.0.0/8`, `::1`, or the GID `::1`.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Ip4(ip) => matches!(ip.addr, [127, ..]),
            Self::Ip6(Ip6 { addr, .. }) | Self::Ib(Ib { addr, .. }) => *addr == LOOPBACK,
        }
    }

    /// Whether it leaves the device open. No RDMA device has the loopback addresses, so they do too.
    pub fn is_any(&self) -> bool {
        self.is_zero() || self.is_loopback()
    }

    /// Whether it is an IPv6 address of one link only.
    pub const fn is_link_local(&self) -> bool {
        match self {
            Self::Ip6(ip) => is_link_local(&ip.addr),
            _ => false,
        }
    }

    /// Whether both are the same address, whatever the port; link-local ones on the same link.
    pub fn is_same_host(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ip4(a), Self::Ip4(b)) => a.addr == b.addr,
            (Self::Ip6(a), Self::Ip6(b)) => {
                a.addr == b.addr && (!is_link_local(&b.addr) || a.scope_id == b.scope_id)
            }
            (Self::Ib(a), Self::Ib(b)) => a.addr == b.addr,
            _ => false,
        }
    }

    /// The port; 0: none.
    pub const fn port(&self) -> u16 {
        match self {
            Self::Ip4(ip) => ip.port,
            Self::Ip6(ip) => ip.port,
            Self::Ib(ib) => low_16(ib.sid & ib.sid_mask),
        }
    }

    /// The address with the port that it has been given. A service ID is whole then.
    pub const fn with_port(self, port: u16) -> Self {
        match self {
            Self::Ip4(ip) => Self::Ip4(Ip4 { port, ..ip }),
            Self::Ip6(ip) => Self::Ip6(Ip6 { port, ..ip }),
            Self::Ib(ib) => Self::Ib(Ib {
                sid: (ib.sid & ib.sid_mask) | port as u64,
                sid_mask: u64::MAX,
                ..ib
            }),
        }
    }

    /// The loopback address of the same family: what a wildcard source becomes when the peer is the host itself.
    pub const fn with_loopback(self) -> Self {
        match self {
            Self::Ip4(ip) => Self::Ip4(Ip4 {
                addr: [127, 0, 0, 1],
                ..ip
            }),
            Self::Ip6(ip) => Self::Ip6(Ip6 {
                addr: LOOPBACK,
                ..ip
            }),
            Self::Ib(ib) => Self::Ib(Ib {
                addr: LOOPBACK,
                ..ib
            }),
        }
    }

    /// The flow label of 20 bits; none for IPv4.
    pub const fn flow_label(&self) -> u32 {
        self.flow_info() & 0x000f_ffff
    }

    /// The traffic class of the flow information; none for IPv4.
    pub const fn traffic_class(&self) -> u8 {
        let [.., class] = (self.flow_info() >> 20).to_be_bytes();
        class
    }

    const fn flow_info(&self) -> u32 {
        match self {
            Self::Ip4(_) => 0,
            Self::Ip6(ip) => ip.flow_info,
            Self::Ib(ib) => ib.flow_info,
        }
    }
}

/// The lowest 16 bits.
pub(crate) const fn low_16(value: u64) -> u16 {
    let [.., high, low] = value.to_be_bytes();
    u16::from_be_bytes([high, low])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip4(addr: [u8; 4]) -> Address {
        Address::Ip4(Ip4 { addr, port: 7 })
    }

    fn ip6(addr: [u8; 16], scope_id: u32) -> Address {
        Address::Ip6(Ip6 {
            addr,
            port: 7,
            flow_info: 0x0abc_def1,
            scope_id,
        })
    }

    const LINK_LOCAL: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];

    #[test]
    fn wildcards() {
        assert!(ip4([0; 4]).is_zero());
        assert!(!ip4([0, 1, 2, 3]).is_any());
        assert!(ip4([127, 9, 9, 9]).is_loopback());
        assert!(!ip4([10, 0, 0, 1]).is_any());
        assert!(ip6(LOOPBACK, 0).is_loopback() && !ip6(LOOPBACK, 0).is_zero());
        for family in [Family::Ip4, Family::Ip6, Family::Ib] {
            let any = Address::any(family);
            assert!(any.is_zero() && any.is_any() && !any.is_loopback());
            assert!(any.with_loopback().is_loopback() && any.with_loopback().is_any());
            assert_eq!((any.family(), any.port()), (family, 0));
        }
    }

    #[test]
    fn link_local_addresses_are_of_a_link() {
        assert!(ip6(LINK_LOCAL, 1).is_same_host(&ip6(LINK_LOCAL, 1)));
        assert!(!ip6(LINK_LOCAL, 1).is_same_host(&ip6(LINK_LOCAL, 2)));
        assert!(ip6([0x20; 16], 1).is_same_host(&ip6([0x20; 16], 2)));
        assert!(is_link_local(&[
            0xfe, 0xbf, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        ]));
        assert!(!is_link_local(&[
            0xfe, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        ]));
        assert!(is_link_local(&[
            0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        ]));
        assert!(!is_link_local(&[
            0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        ]));
        assert!(!ip4([169, 254, 0, 1]).is_link_local());
    }

    #[test]
    fn families_are_never_the_same_host() {
        let all = [Family::Ip4, Family::Ip6, Family::Ib].map(Address::any);
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                assert_eq!(a.is_same_host(b), i == j);
            }
        }
    }

    #[test]
    fn a_port_is_the_low_part_of_a_service_id() {
        let ib = |sid, sid_mask| {
            Address::Ib(Ib {
                addr: [1; 16],
                pkey: 0xffff,
                flow_info: 0,
                sid,
                sid_mask,
                scope_id: 0,
            })
        };
        assert_eq!(ib(0x0106_1234, 0xffff).port(), 0x1234);
        assert_eq!(ib(0x0106_1234, 0xff).port(), 0x34);
        assert_eq!(ib(0x0106_1234, 0).port(), 0);
        let bound = ib(0x0106_1200, !0xffff).with_port(0x4321);
        assert_eq!(bound, ib(0x0106_4321, u64::MAX));
        assert_eq!(ip4([1; 4]).with_port(9).port(), 9);
        assert_eq!(ip6([1; 16], 0).with_port(9).port(), 9);
    }

    #[test]
    fn flow_information() {
        let address = ip6([1; 16], 0);
        assert_eq!(address.flow_label(), 0xc_def1);
        assert_eq!(address.traffic_class(), 0xab);
        assert_eq!(ip4([1; 4]).flow_label(), 0);
        assert_eq!(address.ip(), Some(Ip::V6([1; 16])));
        assert_eq!(Address::any(Family::Ib).ip(), None);
    }

    #[test]
    fn an_unbound_source_is_of_the_link_and_partition_of_its_peer() {
        assert_eq!(
            ip6(LINK_LOCAL, 3).any_source(),
            Address::Ip6(Ip6 {
                addr: UNSPECIFIED,
                port: 0,
                flow_info: 0,
                scope_id: 3
            })
        );
        assert_eq!(ip4([9; 4]).any_source(), Address::any(Family::Ip4));
    }
}
