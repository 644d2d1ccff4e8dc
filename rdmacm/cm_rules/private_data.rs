// SPDX-License-Identifier: GPL-2.0

//! The header in front of a request's private data, which tells the listener the IP addresses (IBTA volume 1, A11.4.2).
//!
//! ```text
//!  byte 0            1                 2..4           4..20            20..36
//!  version (0)       IP version << 4   source port    source address   destination address
//! ```
//!
//! An IPv4 address is in the last four bytes of its field.

use crate::address::{Address, Family, Ip, Ip4, Ip6};
use crate::errno::Errno;

/// The size of the header, in bytes: `struct cma_hdr`.
pub const HEADER_SIZE: usize = 36;

/// The version of the header: `CMA_VERSION`.
const VERSION: u8 = 0;

/// How many bytes of private data a message of `ib_cm` has room for, `include/rdma/ib_cm.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Room {
    /// `IB_CM_REQ_PRIVATE_DATA_SIZE`.
    Req = 92,
    /// `IB_CM_REJ_PRIVATE_DATA_SIZE`.
    Rej = 148,
    /// `IB_CM_REP_PRIVATE_DATA_SIZE`.
    Rep = 196,
    /// `IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE`.
    SidrReq = 216,
    /// `IB_CM_SIDR_REP_PRIVATE_DATA_SIZE`.
    SidrRep = 136,
}

/// Where the client's own private data begins in a request: an identifier of `AF_IB` has no header.
pub const fn client_offset(family: Family) -> u8 {
    match family {
        Family::Ib => 0,
        Family::Ip4 | Family::Ip6 => HEADER_SIZE as u8,
    }
}

/// How many bytes a request of `room` tells a client of: it does not say how many were sent.
pub const fn client_length(room: Room, family: Family) -> u8 {
    (room as u8).saturating_sub(client_offset(family))
}

/// How many bytes a request carries for a client that sends `length` of its own. `ib_cm` refuses what is too much for the message.
///
/// # Errors
///
/// `EINVAL` if no byte has that number.
pub const fn sent_length(family: Family, length: u8) -> Result<u8, Errno> {
    match length.checked_add(client_offset(family)) {
        Some(all) => Ok(all),
        None => Err(Errno::Invalid),
    }
}

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The source port.
    pub port: u16,
    /// Source and destination.
    pub ips: Ips,
}

/// The IP addresses of a header, which are of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ips {
    /// IPv4.
    V4 {
        /// The source.
        src: [u8; 4],
        /// The destination.
        dst: [u8; 4],
    },
    /// IPv6.
    V6 {
        /// The source.
        src: [u8; 16],
        /// The destination.
        dst: [u8; 16],
    },
}

/// The addresses of a request, as its listener sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The listener's.
    pub local: Address,
    /// The peer's.
    pub remote: Address,
}

/// What the private data of a request says of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// It has a header.
    Ip(Header),
    /// It has none: the request is of `AF_IB`.
    NotIp,
}

impl Header {
    /// The header of an identifier's request. `None` if both addresses are not IP addresses of one version.
    pub fn new(src: &Address, dst: &Address) -> Option<Self> {
        let ips = match (src.ip()?, dst.ip()?) {
            (Ip::V4(src), Ip::V4(dst)) => Ips::V4 { src, dst },
            (Ip::V6(src), Ip::V6(dst)) => Ips::V6 { src, dst },
            _ => return None,
        };
        Some(Self {
            port: src.port(),
            ips,
        })
    }

    /// Reads the header of a request's private data.
    ///
    /// # Errors
    ///
    /// `EINVAL` for another version, or too few bytes.
    pub fn parse(bytes: &[u8]) -> Result<Parsed, Errno> {
        let header: &[u8; HEADER_SIZE] = bytes.first_chunk().ok_or(Errno::Invalid)?;
        let [VERSION, versions, port_high, port_low, addresses @ ..] = header else {
            return Err(Errno::Invalid);
        };
        let (src, dst) = addresses.split_at(16);
        let ips = match versions >> 4 {
            4 => Ips::V4 {
                src: *src.last_chunk().ok_or(Errno::Invalid)?,
                dst: *dst.last_chunk().ok_or(Errno::Invalid)?,
            },
            6 => Ips::V6 {
                src: *src.first_chunk().ok_or(Errno::Invalid)?,
                dst: *dst.first_chunk().ok_or(Errno::Invalid)?,
            },
            _ => return Ok(Parsed::NotIp),
        };
        let port = u16::from_be_bytes([*port_high, *port_low]);
        Ok(Parsed::Ip(Self { port, ips }))
    }

    /// The bytes of the header.
    pub fn to_bytes(self) -> [u8; HEADER_SIZE] {
        let (version, src, dst) = match self.ips {
            Ips::V4 { src, dst } => (4, right_of_zeroes(src), right_of_zeroes(dst)),
            Ips::V6 { src, dst } => (6, src, dst),
        };
        let mut bytes = [0; HEADER_SIZE];
        let [high, low] = self.port.to_be_bytes();
        let fields = [VERSION, version << 4, high, low].into_iter();
        for (byte, value) in bytes.iter_mut().zip(fields.chain(src).chain(dst)) {
            *byte = value;
        }
        bytes
    }

    /// The destination.
    pub const fn destination(&self) -> Ip {
        match self.ips {
            Ips::V4 { dst, .. } => Ip::V4(dst),
            Ips::V6 { dst, .. } => Ip::V6(dst),
        }
    }

    /// The addresses of the new identifier: the destination is its own, with the port of the service ID.
    pub const fn ends(&self, local_port: u16) -> Ends {
        let remote_port = self.port;
        let (local, remote) = match self.ips {
            Ips::V4 { src, dst } => (ip4(dst, local_port), ip4(src, remote_port)),
            Ips::V6 { src, dst } => (ip6(dst, local_port), ip6(src, remote_port)),
        };
        Ends { local, remote }
    }
}

const fn ip4(addr: [u8; 4], port: u16) -> Address {
    Address::Ip4(Ip4 { addr, port })
}

const fn ip6(addr: [u8; 16], port: u16) -> Address {
    Address::Ip6(Ip6 {
        addr,
        port,
        flow_info: 0,
        scope_id: 0,
    })
}

pub(crate) const fn right_of_zeroes([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
}

/// Writes what the connection manager adds to the private data of a request, at its beginning.
///
/// A request of `AF_IB` has no header, but a receiver looks for one: its first byte, which is the client's, is the version
/// nevertheless, as stock sends it.
pub fn write(private_data: &mut [u8], src: &Address, dst: &Address) {
    let Some(header) = Header::new(src, dst) else {
        if let Some(first) = private_data.first_mut() {
            *first = VERSION;
        }
        return;
    };
    for (byte, value) in private_data.iter_mut().zip(header.to_bytes()) {
        *byte = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_ipv4_byte_by_byte() {
        let header = Header::new(&ip4([10, 0, 0, 1], 0x1234), &ip4([10, 0, 0, 2], 7174)).unwrap();
        let mut bytes = [0; HEADER_SIZE];
        bytes[1] = 0x40;
        bytes[2..4].copy_from_slice(&[0x12, 0x34]);
        bytes[16..20].copy_from_slice(&[10, 0, 0, 1]);
        bytes[32..36].copy_from_slice(&[10, 0, 0, 2]);
        assert_eq!(header.to_bytes(), bytes);
        let ends = header.ends(7174);
        assert_eq!(ends.local, ip4([10, 0, 0, 2], 7174));
        assert_eq!(ends.remote, ip4([10, 0, 0, 1], 0x1234));
    }

    #[test]
    fn a_header_of_ipv6_byte_by_byte() {
        let header = Header::new(&ip6([0x20; 16], 0x1234), &ip6([0xfd; 16], 1)).unwrap();
        let bytes = header.to_bytes();
        assert_eq!(bytes[..4], [0, 0x60, 0x12, 0x34]);
        assert_eq!(bytes[4..20], [0x20; 16]);
        assert_eq!(bytes[20..], [0xfd; 16]);
    }

    #[test]
    fn what_is_no_header() {
        let mut bytes = [0; HEADER_SIZE];
        assert_eq!(Header::parse(&bytes), Ok(Parsed::NotIp));
        bytes[1] = 0x50;
        assert_eq!(Header::parse(&bytes), Ok(Parsed::NotIp));
        bytes[1] = 0x4f;
        assert!(matches!(Header::parse(&bytes), Ok(Parsed::Ip(_))));
        assert_eq!(Header::parse(&bytes[1..]), Err(Errno::Invalid));
        bytes[0] = 1;
        assert_eq!(Header::parse(&bytes), Err(Errno::Invalid));
        assert_eq!(Header::new(&ip4([1; 4], 1), &ip6([1; 16], 1)), None);
    }

    #[test]
    fn lengths() {
        assert_eq!(client_length(Room::Req, Family::Ip4), 56);
        assert_eq!(client_length(Room::Req, Family::Ib), 92);
        assert_eq!(client_length(Room::SidrReq, Family::Ip6), 180);
        assert_eq!(sent_length(Family::Ip4, 219), Ok(255));
        assert_eq!(sent_length(Family::Ip4, 220), Err(Errno::Invalid));
        assert_eq!(sent_length(Family::Ib, 255), Ok(255));
    }

    #[test]
    fn the_first_byte_of_a_request_of_ib_is_the_version() {
        let mut bytes = [9, 8, 7];
        let ib = Address::any(Family::Ib);
        write(&mut bytes, &ib, &ib);
        assert_eq!(bytes, [0, 8, 7]);
        write(&mut [], &ib, &ib);
        let mut bytes = [9; 40];
        write(&mut bytes, &ip4([1; 4], 2), &ip4([3; 4], 4));
        assert_eq!(bytes[36..], [9; 4]);
        assert!(matches!(Header::parse(&bytes), Ok(Parsed::Ip(_))));
    }
}
