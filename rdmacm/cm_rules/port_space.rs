// SPDX-License-Identifier: GPL-2.0

//! Port spaces, and the service IDs that they are on the wire (IBTA volume 1, A11.2).
//!
//! C headers: `include/uapi/rdma/rdma_user_cm.h`, `include/rdma/rdma_cm.h`.

use crate::address::{low_16, Address, Ib};
use crate::errno::Errno;

/// A port space: `enum rdma_ucm_port_space`. A port is taken in one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum PortSpace {
    /// `RDMA_PS_IPOIB`.
    IpOib = 0x0002,
    /// `RDMA_PS_TCP`.
    Tcp = 0x0106,
    /// `RDMA_PS_UDP`.
    Udp = 0x0111,
    /// `RDMA_PS_IB`.
    Ib = 0x013f,
}

/// The bits of a service ID that are not the port: `RDMA_IB_IP_PS_MASK`.
pub const PREFIX_MASK: u64 = !0xffff;

/// The port spaces that an address of `AF_IB` may name, and those of the identifiers that may do so. The first line that
/// fits counts.
const BY_SERVICE_ID: [(PortSpace, &[PortSpace]); 3] = [
    (PortSpace::Ib, &[PortSpace::Ib]),
    (PortSpace::Tcp, &[PortSpace::Ib, PortSpace::Tcp]),
    (PortSpace::Udp, &[PortSpace::Ib, PortSpace::Udp]),
];

impl PortSpace {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::IpOib, Self::Tcp, Self::Udp, Self::Ib];

    /// The port space of a value of `enum rdma_ucm_port_space`.
    pub const fn from_raw(value: u32) -> Option<Self> {
        match value {
            0x0002 => Some(Self::IpOib),
            0x0106 => Some(Self::Tcp),
            0x0111 => Some(Self::Udp),
            0x013f => Some(Self::Ib),
            _ => None,
        }
    }

    /// The port space of a service ID's third and fourth last byte.
    pub const fn from_service_id(service_id: u64) -> Option<Self> {
        Self::from_raw(low_16(service_id >> 16) as u32)
    }

    /// The service ID of its port 0: `RDMA_IB_IP_PS_TCP` and so on.
    pub const fn prefix(self) -> u64 {
        (self as u64) << 16
    }

    /// The port space in which an identifier takes its port, and the address that it then has: of `AF_IB` the service ID says it,
    /// as far as its mask goes.
    ///
    /// # Errors
    ///
    /// `EPROTONOSUPPORT` if there is none.
    pub fn select(raw: u32, address: Address) -> Result<(Self, Address), Errno> {
        let own = Self::from_raw(raw).ok_or(Errno::ProtocolNotSupported)?;
        let Address::Ib(ib) = address else {
            return Ok((own, address));
        };
        let mask = ib.sid_mask & PREFIX_MASK;
        let fits = |line: &&(Self, &[Self])| {
            line.1.contains(&own) && ib.sid & mask == line.0.prefix() & mask
        };
        let found = BY_SERVICE_ID.iter().find(fits);
        let space = found.ok_or(Errno::ProtocolNotSupported)?.0;
        let address = Address::Ib(Ib {
            sid: space.prefix() | u64::from(address.port()),
            sid_mask: PREFIX_MASK | ib.sid_mask,
            ..ib
        });
        Ok((space, address))
    }
}

/// The service ID of an address in a port space, which may be any number; of `AF_IB` it is in the address.
pub const fn service_id(raw: u32, address: &Address) -> u64 {
    match address {
        Address::Ib(ib) => ib.sid,
        _ => ((raw as u64) << 16).wrapping_add(address.port() as u64),
    }
}

/// The port of a service ID.
pub const fn port_of(service_id: u64) -> u16 {
    low_16(service_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Family, Ip4};

    fn ib(sid: u64, sid_mask: u64) -> Address {
        Address::Ib(Ib {
            addr: [9; 16],
            pkey: 0xffff,
            flow_info: 0,
            sid,
            sid_mask,
            scope_id: 0,
        })
    }

    #[test]
    fn prefixes_are_those_of_the_header() {
        assert_eq!(PortSpace::Tcp.prefix(), 0x0106_0000);
        assert_eq!(PortSpace::Udp.prefix(), 0x0111_0000);
        assert_eq!(PortSpace::Ib.prefix(), 0x013f_0000);
        assert_eq!(PREFIX_MASK, 0xffff_ffff_ffff_0000);
    }

    #[test]
    fn service_ids_and_back() {
        for space in PortSpace::ALL {
            let address = Address::Ip4(Ip4 {
                addr: [10, 0, 0, 1],
                port: 0xabcd,
            });
            let id = service_id(space as u32, &address);
            assert_eq!(id, space.prefix() | 0xabcd);
            assert_eq!(PortSpace::from_service_id(id), Some(space));
            assert_eq!(port_of(id), 0xabcd);
            assert_eq!(PortSpace::from_raw(space as u32), Some(space));
        }
        assert_eq!(PortSpace::from_raw(0), None);
        assert_eq!(PortSpace::from_service_id(0x0107_0001), None);
        assert_eq!(
            service_id(0x106, &ib(0x1234_5678_9abc, 0)),
            0x1234_5678_9abc
        );
        // Whatever else the service ID has: stock looks at these 16 bits alone.
        assert_eq!(
            PortSpace::from_service_id(0xff00_0106_0001),
            Some(PortSpace::Tcp)
        );
    }

    #[test]
    fn an_ip_address_is_bound_in_the_identifiers_port_space() {
        let address = Address::any(Family::Ip6);
        for space in PortSpace::ALL {
            assert_eq!(
                PortSpace::select(space as u32, address),
                Ok((space, address))
            );
        }
        assert_eq!(
            PortSpace::select(0x107, address),
            Err(Errno::ProtocolNotSupported)
        );
    }

    #[test]
    fn a_service_id_chooses_the_port_space() {
        let tcp = ib(0x0106_0007, u64::MAX);
        for space in [PortSpace::Tcp, PortSpace::Ib] {
            assert_eq!(
                PortSpace::select(space as u32, tcp),
                Ok((PortSpace::Tcp, tcp))
            );
        }
        for space in [PortSpace::Udp, PortSpace::IpOib] {
            let refused = Err(Errno::ProtocolNotSupported);
            assert_eq!(PortSpace::select(space as u32, tcp), refused);
        }
        // A prefix that no bit is asked of fits the first one that may be.
        let open = |space: PortSpace| PortSpace::select(space as u32, ib(0x7777_0001, 0xffff));
        assert_eq!(
            open(PortSpace::Ib),
            Ok((PortSpace::Ib, ib(0x013f_0001, u64::MAX)))
        );
        assert_eq!(
            open(PortSpace::Udp),
            Ok((PortSpace::Udp, ib(0x0111_0001, u64::MAX)))
        );
        assert_eq!(open(PortSpace::IpOib), Err(Errno::ProtocolNotSupported));
    }
}
