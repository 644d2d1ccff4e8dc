// SPDX-License-Identifier: GPL-2.0

//! Multicast groups: the GID of an address, and what may be joined.
//!
//! References: RFC 4391, section 4 (groups of IPoIB); `<net/ip.h>`, `<net/if_inet6.h>`.

use crate::address::{Address, Family};
use crate::errno::Errno;
use crate::path::GidType;
use crate::port_space::PortSpace;

/// A GID, in network order.
pub type Gid = [u8; 16];

/// The bit of `SENDONLY_FULLMEMBER_JOIN` in the state of a join.
const SEND_ONLY: u8 = 1 << 3;
/// The hop limit of IP.
const IP_HOPS: u8 = 64;

/// The signatures of groups of IPoIB, and the one of the connection manager's own.
const SIGNATURE_IP4: u8 = 0x40;
const SIGNATURE_IP6: u8 = 0x60;
const SIGNATURE_CM: u8 = 0x01;

/// The GID of a group over Ethernet.
pub fn roce_gid(address: &Address, kind: GidType) -> Gid {
    if address.is_any() {
        return [0; 16];
    }
    match address {
        Address::Ip6(ip) => ip.addr,
        Address::Ib(ib) => ib.addr,
        Address::Ip4(ip) => {
            let [a, b, c, d] = ip.addr;
            let (first, second) = match kind {
                GidType::RoceV2 => (0, 0),
                GidType::RoceV1 | GidType::Ib => (0xff, 0x0e),
            };
            [
                first, second, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d,
            ]
        }
    }
}

/// The broadcast group of an IPoIB device, as far as the GIDs of its groups have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broadcast {
    /// The scope, 4 bits.
    pub scope: u8,
    /// The partition key, in network order.
    pub pkey: [u8; 2],
}

impl Broadcast {
    /// From its hardware address, of 20 bytes.
    pub const fn from_hardware(address: &[u8; 20]) -> Self {
        let [_, _, _, _, _, flags_scope, _, _, high, low, ..] = *address;
        Self {
            scope: flags_scope & 0x0f,
            pkey: [high, low],
        }
    }
}

/// The GID of a group on InfiniBand. `space`: the identifier's port space.
pub fn ib_gid(address: &Address, space: Option<PortSpace>, on: &Broadcast) -> Gid {
    if address.is_any() {
        return [0; 16];
    }
    let second = match space {
        Some(PortSpace::Udp) => SIGNATURE_CM,
        _ => 0x1b,
    };
    let start = |signature| [0xff, 0x10 | (on.scope & 0x0f), signature, second];
    let [high, low] = on.pkey;
    match address {
        Address::Ib(ib) => ib.addr,
        Address::Ip6(ip) => match ip.addr {
            // A GID that the subnet administrator has assigned.
            [0xff, flags_scope, 0xa0, 0x1b, ..] if flags_scope & 0xf0 == 0x10 => ip.addr,
            [_, _, _, _, _, _, a, b, c, d, e, f, g, h, i, j] => {
                let [w, x, y, z] = start(SIGNATURE_IP6);
                [w, x, y, z, high, low, a, b, c, d, e, f, g, h, i, j]
            }
        },
        Address::Ip4(ip) => {
            let ([w, x, y, z], [a, b, c, d]) = (start(SIGNATURE_IP4), ip.addr);
            [w, x, y, z, high, low, 0, 0, 0, 0, 0, 0, a & 0x0f, b, c, d]
        }
    }
}

/// How a group over Ethernet is joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoceJoin {
    /// Its GID.
    pub gid: Gid,
    /// The hop limit of what is sent to it.
    pub hop_limit: u8,
    /// Whether the net device joins the group of IPv4, by IGMP.
    pub igmp: bool,
}

impl RoceJoin {
    /// How a client joins `address`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no address, `ENOTSUPP` for IPv6 over RoCE v2.
    pub fn new(address: &Address, join_state: u8, kind: GidType) -> Result<Self, Errno> {
        if address.is_zero() {
            return Err(Errno::Invalid);
        }
        let v2 = kind == GidType::RoceV2;
        let v4 = address.family() == Family::Ip4;
        if v2 && !v4 {
            return Err(Errno::NotSupported);
        }
        Ok(Self {
            gid: roce_gid(address, kind),
            hop_limit: match v2 {
                true => IP_HOPS,
                false => 1,
            },
            igmp: v2 && join_state != SEND_ONLY,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Ip4, Ip6};

    fn ip4(addr: [u8; 4]) -> Address {
        Address::Ip4(Ip4 { addr, port: 0 })
    }

    fn ip6(addr: [u8; 16]) -> Address {
        Address::Ip6(Ip6 {
            addr,
            port: 0,
            flow_info: 0,
            scope_id: 0,
        })
    }

    const GROUP6: [u8; 16] = [0xff, 0x15, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

    #[test]
    fn over_ethernet() {
        let group = ip4([239, 1, 2, 3]);
        let end = [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3];
        assert_eq!(roce_gid(&group, GidType::RoceV2)[..2], [0, 0]);
        assert_eq!(roce_gid(&group, GidType::RoceV1)[..2], [0xff, 0x0e]);
        assert_eq!(roce_gid(&group, GidType::RoceV1)[2..], end);
        assert_eq!(roce_gid(&ip6(GROUP6), GidType::RoceV1), GROUP6);
        assert_eq!(roce_gid(&ip4([127, 0, 0, 1]), GidType::RoceV1), [0; 16]);
    }

    #[test]
    fn over_infiniband() {
        let mut hardware = [0; 20];
        (hardware[5], hardware[8], hardware[9]) = (0x12, 0x81, 0x02);
        let on = Broadcast::from_hardware(&hardware);
        let group = ip4([239, 1, 2, 3]);
        let gid = ib_gid(&group, Some(PortSpace::IpOib), &on);
        assert_eq!(
            gid,
            [0xff, 0x12, 0x40, 0x1b, 0x81, 2, 0, 0, 0, 0, 0, 0, 15, 1, 2, 3]
        );
        assert_eq!(ib_gid(&group, Some(PortSpace::Udp), &on)[3], 0x01);
        let gid = ib_gid(&ip6(GROUP6), None, &on);
        assert_eq!(gid[..6], [0xff, 0x12, 0x60, 0x1b, 0x81, 2]);
        assert_eq!(gid[6..], GROUP6[6..]);
        let mut assigned = GROUP6;
        (assigned[1], assigned[2], assigned[3]) = (0x1e, 0xa0, 0x1b);
        assert_eq!(ib_gid(&ip6(assigned), Some(PortSpace::Udp), &on), assigned);
        assert_eq!(ib_gid(&Address::any(Family::Ip6), None, &on), [0; 16]);
    }

    #[test]
    fn joins() {
        let group = ip4([239, 1, 2, 3]);
        let join = |address: &Address, state, kind| RoceJoin::new(address, state, kind);
        let full = join(&group, 1, GidType::RoceV2).unwrap();
        assert!(full.igmp && full.hop_limit == 64);
        let send_only = join(&group, 8, GidType::RoceV2).unwrap();
        assert!(!send_only.igmp && send_only.gid == full.gid);
        let v1 = join(&group, 1, GidType::RoceV1).unwrap();
        assert!(!v1.igmp && v1.hop_limit == 1);
        let any = Address::any(Family::Ip4);
        assert_eq!(join(&any, 1, GidType::RoceV2), Err(Errno::Invalid));
        let over_v2 = join(&ip6(GROUP6), 1, GidType::RoceV2);
        assert_eq!(over_v2, Err(Errno::NotSupported));
        assert!(join(&ip6(GROUP6), 1, GidType::RoceV1).is_ok());
    }
}
