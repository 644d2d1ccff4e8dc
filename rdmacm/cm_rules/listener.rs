// SPDX-License-Identifier: GPL-2.0

//! Which listener an incoming request is for.
//!
//! A request is for the first listener of its port that takes the address which its header says, and listens on the
//! device on which it has come; a wildcard listener listens on each device by an identifier of its own.

use crate::address::{is_link_local, Address, Family, Ip};
use crate::private_data::Parsed;

/// A listener, as far as its address goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address at which it listens.
    pub address: Address,
    /// Whether a wildcard address is of its family alone.
    pub family_only: bool,
}

/// Where a listener listens, and where a request has come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The port of the device; 0: all of a listener's.
    pub port_num: u32,
    /// The net device, by its index; 0: all of a listener's.
    pub net_device: u32,
}

impl Listener {
    /// Whether it takes a request with this header.
    pub fn takes(&self, header: &Parsed) -> bool {
        if self.address.is_any() && !self.family_only {
            return true;
        }
        let destination = match header {
            Parsed::Ip(header) => Some(header.destination()),
            Parsed::NotIp => None,
        };
        match (self.address.ip(), destination) {
            // Of AF_IB: the service ID was the right one.
            (None, _) => true,
            (Some(Ip::V4(own)), Some(Ip::V4(wanted))) => self.address.is_any() || own == wanted,
            (Some(Ip::V6(own)), Some(Ip::V6(wanted))) => self.address.is_any() || own == wanted,
            _ => false,
        }
    }

    /// Whether it takes a request that came in at `request` of its device. `same_namespace`: of the net device.
    pub fn takes_at(
        &self,
        own: Place,
        header: &Parsed,
        request: Place,
        same_namespace: bool,
    ) -> bool {
        match header {
            Parsed::NotIp => {
                (own.port_num == 0 || own.port_num == request.port_num)
                    && self.address.family() == Family::Ib
            }
            // A link-local address means something on its link alone; any other one is the host's.
            Parsed::Ip(header) => match header.destination() {
                Ip::V6(addr) if is_link_local(&addr) => {
                    same_namespace && (own.net_device == 0 || own.net_device == request.net_device)
                }
                _ => true,
            },
        }
    }
}

/// Whether a request may have come from `remote` to `local` over the wire, as far as the addresses alone say: those of IPv4
/// are no wildcards, loopback, multicast (the source) or broadcast addresses. The route back says the rest.
pub const fn may_be_routed(local: &Address, remote: &Address) -> bool {
    match (local, remote) {
        (Address::Ip4(local), Address::Ip4(remote)) => {
            !is_never_an_end(local.addr)
                && !is_never_an_end(remote.addr)
                && !matches!(remote.addr, [224..=239, ..])
        }
        (Address::Ip6(_), Address::Ip6(_)) => true,
        _ => false,
    }
}

const fn is_never_an_end(addr: [u8; 4]) -> bool {
    matches!(addr, [0 | 127, ..] | [255, 255, 255, 255])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Ip4, Ip6};
    use crate::private_data::Header;

    fn ip4(addr: [u8; 4]) -> Address {
        Address::Ip4(Ip4 { addr, port: 1 })
    }

    fn ip6(addr: [u8; 16]) -> Address {
        Address::Ip6(Ip6 {
            addr,
            port: 1,
            flow_info: 0,
            scope_id: 0,
        })
    }

    fn to(dst: Address) -> Parsed {
        Parsed::Ip(Header::new(&Address::any(dst.family()), &dst).unwrap())
    }

    fn at(address: Address, family_only: bool) -> Listener {
        Listener {
            address,
            family_only,
        }
    }

    #[test]
    fn addresses() {
        let (one, two, six) = (ip4([10, 0, 0, 1]), ip4([10, 0, 0, 2]), ip6([0xfd; 16]));
        let (any4, any6) = (Address::any(Family::Ip4), Address::any(Family::Ip6));
        let ib = Address::any(Family::Ib);
        let cases = [
            (at(one, true), to(one), true),
            (at(one, true), to(two), false),
            (at(one, true), to(six), false),
            (at(one, true), Parsed::NotIp, false),
            (at(any4, true), to(two), true),
            (at(any4, true), to(six), false),
            (at(any4, false), to(six), true),
            (at(any6, true), to(one), false),
            (at(any6, true), to(six), true),
            (at(any6, false), to(one), true),
            (at(six, false), to(six), true),
            (at(six, false), to(ip6([0xfc; 16])), false),
            (at(ib, true), Parsed::NotIp, true),
            (at(ib, true), to(one), true),
        ];
        for (number, (listener, header, wanted)) in cases.into_iter().enumerate() {
            assert_eq!(listener.takes(&header), wanted, "case {number}");
        }
    }

    #[test]
    fn places() {
        let place = |port_num, net_device| Place {
            port_num,
            net_device,
        };
        let ib = at(Address::any(Family::Ib), false);
        assert!(ib.takes_at(place(0, 0), &Parsed::NotIp, place(2, 0), false));
        assert!(ib.takes_at(place(2, 0), &Parsed::NotIp, place(2, 0), false));
        assert!(!ib.takes_at(place(1, 0), &Parsed::NotIp, place(2, 0), true));
        let any = at(Address::any(Family::Ip6), false);
        assert!(!any.takes_at(place(0, 0), &Parsed::NotIp, place(1, 0), true));
        assert!(any.takes_at(place(1, 5), &to(ip4([9; 4])), place(2, 6), false));
        let mut link_local = [0; 16];
        (link_local[0], link_local[1]) = (0xfe, 0x80);
        let header = to(ip6(link_local));
        assert!(any.takes_at(place(0, 0), &header, place(1, 6), true));
        assert!(any.takes_at(place(0, 6), &header, place(1, 6), true));
        assert!(!any.takes_at(place(0, 5), &header, place(1, 6), true));
        assert!(!any.takes_at(place(0, 6), &header, place(1, 6), false));
    }

    #[test]
    fn addresses_that_no_request_has() {
        let (one, two) = (ip4([10, 0, 0, 1]), ip4([10, 0, 0, 2]));
        assert!(may_be_routed(&one, &two));
        for bad in [[0, 0, 0, 9], [127, 0, 0, 1], [255; 4]] {
            assert!(!may_be_routed(&one, &ip4(bad)));
            assert!(!may_be_routed(&ip4(bad), &one));
        }
        assert!(!may_be_routed(&one, &ip4([239, 1, 1, 1])));
        assert!(may_be_routed(&ip4([239, 1, 1, 1]), &one));
        assert!(!may_be_routed(&one, &ip6([1; 16])));
        assert!(may_be_routed(&ip6([2; 16]), &ip6([1; 16])));
    }
}
