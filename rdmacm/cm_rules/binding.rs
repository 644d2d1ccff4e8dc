// SPDX-License-Identifier: GPL-2.0

//! Which identifiers may have the same port of a port space in a namespace, and which port one takes that names none.

use crate::address::{Address, Family};
use crate::errno::Errno;

/// Ports below this one are for who has `CAP_NET_BIND_SERVICE`: `PROT_SOCK`.
const FIRST_UNPRIVILEGED: u16 = 1024;

/// An identifier, as far as others want its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its source.
    pub src: Address,
    /// Its destination; the wildcard address if there is none.
    pub dst: Address,
    /// Whether others that say so too may have the same address.
    pub reuse: bool,
    /// Whether a wildcard address is of its family alone.
    pub family_only: bool,
}

/// Checks the privilege for a port that an identifier names.
///
/// # Errors
///
/// `EACCES`.
pub const fn check_privilege(port: u16, privileged: bool) -> Result<(), Errno> {
    match port < FIRST_UNPRIVILEGED && !privileged {
        true => Err(Errno::Access),
        false => Ok(()),
    }
}

/// Whether a wildcard address is of its family alone, if the client has not said: always for IPv4, and for IPv6 as the
/// namespace's `bindv6only` has it.
pub const fn default_family_only(family: Family, v6_only: bool) -> bool {
    match family {
        Family::Ip4 => true,
        Family::Ip6 => v6_only,
        Family::Ib => false,
    }
}

impl Owner {
    /// Checks whether `self` may have the port that it names beside `other`, which has it.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL` if the address of one is a wildcard, `EADDRINUSE` if both are the same.
    pub fn may_share_with(&self, other: &Self) -> Result<(), Errno> {
        if self.reuse && other.reuse {
            return Ok(());
        }
        if self.family_only && other.family_only && self.src.family() != other.src.family() {
            return Ok(());
        }
        if self.src.is_any() || other.src.is_any() {
            return Err(Errno::AddressNotAvailable);
        }
        match self.src.is_same_host(&other.src) {
            true => Err(Errno::AddressInUse),
            false => Ok(()),
        }
    }

    /// Checks whether `self` may listen at its port beside `other`: reuse ends with listening.
    ///
    /// # Errors
    ///
    /// As of [`Self::may_share_with`].
    pub fn may_listen_beside(&self, other: &Self) -> Result<(), Errno> {
        let alone = Self {
            reuse: false,
            ..*self
        };
        alone.may_share_with(other)
    }

    /// Whether `self`, which names no port, may take that of `other`: if their connections cannot be the same.
    pub fn differs_from(&self, other: &Self) -> bool {
        let ports = (self.dst.port(), other.dst.port());
        let hosts_differ =
            |a: &Address, b: &Address| !a.is_any() && !b.is_any() && !a.is_same_host(b);
        (ports.0 != 0 && ports.1 != 0 && ports.0 != ports.1)
            || hosts_differ(&self.src, &other.src)
            || hosts_differ(&self.dst, &other.dst)
    }
}

/// The ports that an identifier tries which names none: all of a range, in ascending order from a random one, but not the
/// one that was taken last.
#[derive(Clone, Debug)]
pub struct Ephemeral {
    low: u16,
    high: u16,
    next: u16,
    left: u32,
    last: Option<u16>,
}

impl Ephemeral {
    /// Of the range `low..=high`; `random` chooses the first one, `last` was taken last.
    pub fn new(low: u16, high: u16, random: u32, last: Option<u16>) -> Self {
        let high = high.max(low);
        let count = u32::from(high.saturating_sub(low)).saturating_add(1);
        let offset = random.checked_rem(count).unwrap_or(0);
        let first = u16::try_from(u32::from(low).saturating_add(offset));
        Self {
            low,
            high,
            next: first.unwrap_or(low),
            left: count,
            last,
        }
    }
}

impl Iterator for Ephemeral {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        loop {
            self.left = self.left.checked_sub(1)?;
            let port = self.next;
            self.next = match port >= self.high {
                true => self.low,
                false => port.saturating_add(1),
            };
            if self.last != Some(port) {
                return Some(port);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Ip4, Ip6};
    use Errno::{AddressInUse, AddressNotAvailable};

    const PORT: u16 = 7174;

    fn v4(addr: [u8; 4]) -> Owner {
        owner(Address::Ip4(Ip4 { addr, port: PORT }))
    }

    fn v6(last: u8) -> Owner {
        let mut addr = [0; 16];
        addr[15] = last;
        addr[0] = if last == 0 { 0 } else { 0xfd };
        owner(Address::Ip6(Ip6 {
            addr,
            port: PORT,
            flow_info: 0,
            scope_id: 0,
        }))
    }

    fn owner(src: Address) -> Owner {
        Owner {
            src,
            dst: Address::any(src.family()),
            reuse: false,
            family_only: default_family_only(src.family(), false),
        }
    }

    fn both(a: Owner, b: Owner) -> Result<(), Errno> {
        let result = a.may_share_with(&b);
        assert_eq!(result, b.may_share_with(&a), "sharing is mutual");
        result
    }

    /// The cases of a socket's programmer, one a line.
    #[test]
    fn sharing() {
        let (any4, one, two, any6) = (v4([0; 4]), v4([10, 0, 0, 1]), v4([10, 0, 0, 2]), v6(0));
        let reused = |owner: Owner| Owner {
            reuse: true,
            ..owner
        };
        let alone = |owner: Owner| Owner {
            family_only: true,
            ..owner
        };
        let cases = [
            (one, two, Ok(())),
            (one, one, Err(AddressInUse)),
            (any4, any4, Err(AddressNotAvailable)),
            (any4, one, Err(AddressNotAvailable)),
            // 127.0.0.1 is no address of a device.
            (v4([127, 0, 0, 1]), one, Err(AddressNotAvailable)),
            (reused(one), reused(one), Ok(())),
            (reused(one), one, Err(AddressInUse)),
            (reused(any4), reused(one), Ok(())),
            // `::` takes IPv4 too, unless it says otherwise.
            (any6, any4, Err(AddressNotAvailable)),
            (any6, one, Err(AddressNotAvailable)),
            (alone(any6), any4, Ok(())),
            (alone(any6), one, Ok(())),
            (alone(any6), v6(1), Err(AddressNotAvailable)),
            (v6(1), one, Ok(())),
            (v6(1), v6(1), Err(AddressInUse)),
            (v6(1), any4, Err(AddressNotAvailable)),
        ];
        for (number, (a, b, wanted)) in cases.into_iter().enumerate() {
            assert_eq!(both(a, b), wanted, "case {number}");
        }
        assert_eq!(
            reused(one).may_listen_beside(&reused(one)),
            Err(AddressInUse)
        );
    }

    #[test]
    fn a_port_that_nobody_named_may_have_several_connections() {
        let to = |owner: Owner, addr: [u8; 4], port| Owner {
            dst: Address::Ip4(Ip4 { addr, port }),
            ..owner
        };
        let (one, two) = (v4([10, 0, 0, 1]), v4([10, 0, 0, 2]));
        assert!(one.differs_from(&two));
        assert!(!one.differs_from(&one));
        assert!(!one.differs_from(&v4([0; 4])));
        let peer = [10, 0, 0, 9];
        assert!(to(one, peer, 1).differs_from(&to(one, peer, 2)));
        assert!(!to(one, peer, 1).differs_from(&to(one, peer, 1)));
        assert!(!to(one, peer, 1).differs_from(&to(one, peer, 0)));
        assert!(to(one, peer, 1).differs_from(&to(one, [10, 0, 0, 8], 1)));
    }

    #[test]
    fn privileged_ports() {
        assert_eq!(check_privilege(1023, false), Err(Errno::Access));
        assert_eq!(check_privilege(1023, true), Ok(()));
        assert_eq!(check_privilege(1024, false), Ok(()));
    }

    #[test]
    fn ephemeral_ports_are_tried_once_each() {
        let tried: Vec<u16> = Ephemeral::new(10, 14, 3, Some(11)).collect();
        assert_eq!(tried, [13, 14, 10, 12]);
        assert_eq!(Ephemeral::new(10, 10, 77, None).collect::<Vec<_>>(), [10]);
        assert_eq!(Ephemeral::new(10, 10, 77, Some(10)).count(), 0);
        assert_eq!(Ephemeral::new(0, u16::MAX, u32::MAX, None).count(), 1 << 16);
        assert_eq!(Ephemeral::new(9, 3, 5, None).collect::<Vec<_>>(), [9]);
    }
}
