// SPDX-License-Identifier: GPL-2.0

//! The path of a connection over Ethernet, which no subnet manager tells.
//!
//! C headers: `include/rdma/ib_addr.h`, `include/rdma/ib_verbs.h`.

use crate::address::{Address, Family};

/// What may stand between the headers of IP and a packet's payload at most, and behind it: GRH 40, UDP 8, BTH 12, XRC 4,
/// AtomicETH 28, ICRC 4 bytes.
const OVERHEAD: u32 = 96;

/// The lifetime of a packet if the client has set no ACK timeout: 4.096 µs times 2 to this power.
const LIFETIME: u8 = 16;

/// A kind of GID: `enum ib_gid_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum GidType {
    /// `IB_GID_TYPE_IB`.
    Ib,
    /// `IB_GID_TYPE_ROCE`: version 1, without IP.
    RoceV1,
    /// `IB_GID_TYPE_ROCE_UDP_ENCAP`: version 2.
    RoceV2,
}

/// The kinds of GIDs that a port has: a mask of `1 << GidType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidTypes(pub u32);

impl GidTypes {
    /// Whether it has this one.
    pub const fn has(self, kind: GidType) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    /// The one that a port's identifiers have if nobody says otherwise: RoCE v2, or else the first one.
    pub fn preferred(self) -> Option<GidType> {
        let order = [GidType::RoceV2, GidType::Ib, GidType::RoceV1];
        order.into_iter().find(|kind| self.has(*kind))
    }
}

/// The kind of GID of a route; `own` is the identifier's, `ip_kind` that of a route over IP (`ib_network_to_gid_type()`).
pub fn route_gid_type(over_ip: bool, port: GidTypes, own: GidType, ip_kind: GidType) -> GidType {
    let wanted = match over_ip && port.has(GidType::RoceV2) {
        true => GidType::RoceV2,
        false => own,
    };
    wanted.max(ip_kind)
}

/// The path MTU over a net device, as a value of `enum ib_mtu` from 1 (256 bytes) to 5 (4096 bytes); `None` if it is too
/// small for any.
pub const fn mtu(net_device: u32) -> Option<u8> {
    match net_device.saturating_sub(OVERHEAD) {
        0..=255 => None,
        256..=511 => Some(1),
        512..=1023 => Some(2),
        1024..=2047 => Some(3),
        2048..=4095 => Some(4),
        _ => Some(5),
    }
}

/// The lifetime of a packet. The local ACK timeout is twice as long (IBTA volume 1, 12.7.34), if the client has set one: 0 means
/// that there is none.
pub const fn packet_lifetime(ack_timeout: Option<u8>) -> u8 {
    match ack_timeout {
        Some(timeout @ 1..) => timeout.saturating_sub(1),
        _ => LIFETIME,
    }
}

/// The type of service, which is the traffic class of the path: the client's, or else the port's.
pub fn service_type(client: Option<u8>, port: u8) -> u8 {
    client.unwrap_or(port)
}

/// The hop limit of the path: that of the route over IP, or 1 within a subnet.
pub fn hop_limit(family: Family, route: u8) -> u8 {
    match family {
        Family::Ib => 1,
        Family::Ip4 | Family::Ip6 => route,
    }
}

/// The flow label of the path, from which the source port of RoCE v2 follows: the client's in an IPv6 address, or else a
/// hash of the ports, so that connections take different ways.
pub const fn flow_label(src: &Address, dst: &Address) -> u32 {
    let named = match src.family() {
        Family::Ip6 => src.flow_label(),
        _ => 0,
    };
    match named {
        0 => {
            let hash = (src.port() as u32).wrapping_mul(31);
            hash.wrapping_add(dst.port() as u32) & 0x000f_ffff
        }
        label => label,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Ip6;

    #[test]
    fn mtus_of_net_devices() {
        let cases = [
            (0, None),
            (351, None),
            (352, Some(1)),
            (1500, Some(3)),
            (2144, Some(4)),
            (4191, Some(4)),
            (4192, Some(5)),
            (9000, Some(5)),
            (u32::MAX, Some(5)),
        ];
        for (device, wanted) in cases {
            assert_eq!(mtu(device), wanted, "{device}");
        }
    }

    #[test]
    fn lifetimes() {
        assert_eq!(packet_lifetime(None), 16);
        assert_eq!(packet_lifetime(Some(0)), 16);
        assert_eq!(packet_lifetime(Some(1)), 0);
        assert_eq!(packet_lifetime(Some(19)), 18);
        assert_eq!(service_type(Some(0), 9), 0);
        assert_eq!(service_type(None, 9), 9);
        assert_eq!(hop_limit(Family::Ib, 64), 1);
        assert_eq!(hop_limit(Family::Ip6, 64), 64);
    }

    #[test]
    fn flow_labels() {
        let ip6 = |port, flow_info| {
            Address::Ip6(Ip6 {
                addr: [1; 16],
                port,
                flow_info,
                scope_id: 0,
            })
        };
        assert_eq!(flow_label(&ip6(2, 0xfff1_2345), &ip6(3, 0)), 0x1_2345);
        assert_eq!(flow_label(&ip6(2, 0xfff0_0000), &ip6(3, 0)), 65);
        assert_eq!(flow_label(&ip6(u16::MAX, 0), &ip6(u16::MAX, 0)), 0xf_ffe0);
    }

    #[test]
    fn kinds_of_gids() {
        let both = GidTypes(0b110);
        assert_eq!(both.preferred(), Some(GidType::RoceV2));
        assert_eq!(GidTypes(0b10).preferred(), Some(GidType::RoceV1));
        assert_eq!(GidTypes(1).preferred(), Some(GidType::Ib));
        assert_eq!(GidTypes(0).preferred(), None);
        let route = |over_ip, port, own, ip| route_gid_type(over_ip, GidTypes(port), own, ip);
        use GidType::{Ib, RoceV1, RoceV2};
        assert_eq!(route(true, 0b110, RoceV1, RoceV2), RoceV2);
        assert_eq!(route(false, 0b110, RoceV1, Ib), RoceV1);
        assert_eq!(route(true, 0b10, RoceV1, RoceV2), RoceV2);
        assert_eq!(route(false, 0b110, RoceV2, Ib), RoceV2);
    }
}
