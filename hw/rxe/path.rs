// SPDX-License-Identifier: GPL-2.0

//! The path of packets: an address vector, the UDP source port, and the route (annex A17 of IBTA volume 1).

use crate::ah::Av;
use crate::grh::Grh;
use crate::icrc::prefix_of;
use crate::ids::{network_type, UDP_PORT};
use crate::pkeys::PkeyIndex;
use crate::port_id::PortId;
use crate::route::Route;
use core::cell::Cell;
use core::net::IpAddr;
use kernel::prelude::*;
use kernel::sync::{rcu, Arc};
use kernel::transmute::AsBytes;
use kernel_ext::net::header::{
    Be16, IpHeader, Ipv4Header, Ipv6Header, UdpHeader, IPPROTO_UDP, IP_DF,
};
use kernel_ext::net::route::{priority_of, Flow4, Flow6, Route4, Route6};
use kernel_ext::net::skb::SkBuff;
use rdma::{AhFields, Gid};
use roce::congestion::Ecn;
use roce::icrc::{self, Prefix};
use roce::run::PacketRun;
use roce::timer::AckTimeout;

/// The first source port (annex A17 of IBTA volume 1 does not define it; as the kernel's
/// `IB_ROCE_UDP_ENCAP_VALID_PORT_MIN`).
const FIRST_SOURCE_PORT: u16 = 0xc000;

/// The addresses of a packet, and the port of the device that it leaves or comes in by.
#[derive(Clone, Copy)]
pub(crate) struct AddressPair {
    pub(crate) port: PortId,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
}

impl AddressPair {
    /// Whether packets with these addresses go the other way than those with `other`, by the same port.
    #[inline]
    fn is_reverse_of(self, other: Self) -> bool {
        self.destination == other.source
            && self.source == other.destination
            && self.port == other.port
    }

    /// The destination address as a GID.
    pub(crate) fn destination_gid(self) -> Gid {
        match self.destination {
            IpAddr::V4(address) => Gid::from_ipv4(address.octets()),
            IpAddr::V6(address) => Gid(address.octets()),
        }
    }
}

/// The path of packets: an address vector and the route to it.
pub(crate) struct Path {
    av: Arc<Av>,
    port: PortId,
    source: IpAddr,
    source_port: u16,
    /// That of the address vector, but for the bits of congestion notification.
    traffic_class: u8,
    /// For queueing disciplines.
    priority: u32,
    /// Whether the destination is the same device.
    loopback: bool,
    route: Option<Route>,
    /// The parts of the ICRC of the last headers with two lengths of their payload, and these lengths.
    prefixes: [Cell<Option<(usize, Prefix)>>; 2],
}

/// The path that a connection takes when it migrates.
pub(crate) struct Alternate {
    pub(crate) av: Arc<Av>,
    /// The peer's queue pair.
    pub(crate) dest_qpn: u32,
    pub(crate) pkey_index: u16,
    pub(crate) ack_timeout: AckTimeout,
}

impl Alternate {
    /// The entry of the P_Key table that packets on the path have.
    pub(crate) fn pkey(&self) -> PkeyIndex {
        PkeyIndex {
            port: self.av.port(),
            index: self.pkey_index,
        }
    }

    /// As [`Path::is_from_peer`].
    pub(crate) fn is_from_peer(&self, addresses: AddressPair) -> bool {
        addresses.is_reverse_of(AddressPair {
            port: self.av.port(),
            source: self.av.source_address(),
            destination: self.av.destination,
        })
    }
}

/// The source port that spreads flows: from the flow label, or else from the numbers of both QPs, so that both
/// directions of a connection use the same (`rdma_get_udp_sport`).
fn source_port(flow_label: u32, qpn: u32, dest_qpn: u32) -> u16 {
    let label = if flow_label != 0 {
        flow_label
    } else {
        let mut product = u64::from(qpn).wrapping_mul(u64::from(dest_qpn));
        product ^= product >> 20;
        product ^= product >> 40;
        (product & 0xf_ffff) as u32
    };
    let folded = (label & 0x3fff) ^ ((label & 0xf_c000) >> 14);
    FIRST_SOURCE_PORT | folded as u16
}

/// The number of service levels.
const SERVICE_LEVELS: u8 = 16;

/// The priority of packets for queueing disciplines: that of their traffic class, as a socket's with `IP_TOS`, from which the
/// service level follows too in a path of `rdma_cm` (`iboe_tos_to_sl`). The service level of other paths is their priority where
/// the traffic class says best effort.
fn priority(fields: &AhFields, traffic_class: u8) -> u32 {
    match priority_of(traffic_class) {
        0 => u32::from(fields.sl & (SERVICE_LEVELS - 1)),
        priority => priority,
    }
}

impl Path {
    /// Makes the path for `av`, for packets from one QP to another. Any context.
    pub(crate) fn new(av: Arc<Av>, qpn: u32, dest_qpn: u32) -> Self {
        let source = av.source_address();
        let guard = rcu::read_lock();
        let own_mac = av
            .source
            .ndev(&guard)
            .is_ok_and(|ndev| ndev.address() == av.fields.dmac);
        let loopback = own_mac || source == av.destination;
        drop(guard);
        let route = av.route();
        let source_port = source_port(route.flow_label, qpn, dest_qpn);
        let priority = priority(&av.fields, route.traffic_class);
        Self {
            port: av.port(),
            av,
            source,
            source_port,
            traffic_class: route.traffic_class,
            priority,
            loopback,
            route: None,
            prefixes: [const { Cell::new(None) }; 2],
        }
    }

    /// Makes the path for `av`, for datagrams of a QP to any others, with the route that `av` keeps. Any context.
    pub(crate) fn for_datagrams(av: Arc<Av>, qpn: u32) -> Self {
        let route = av.take_route();
        Self {
            route,
            // Their source port depends on the sender only, so that those of several QPs are several flows.
            ..Self::new(av, qpn, 1)
        }
    }

    /// Lets the address vector keep the route, for the next path to it.
    pub(crate) fn keep_route(self) {
        self.av.keep_route(self.route);
    }

    /// Drops the cached route.
    pub(crate) fn forget_route(&mut self) {
        self.route = None;
    }

    /// The port that packets leave by.
    #[inline]
    pub(crate) fn port(&self) -> PortId {
        self.port
    }

    /// Whether the destination is the same device.
    #[inline]
    pub(crate) fn loops_back(&self) -> bool {
        self.loopback
    }

    /// The priority of its packets, for queueing disciplines.
    #[inline]
    pub(crate) fn priority(&self) -> u32 {
        self.priority
    }

    /// Sets what queues do with its packets when they fill.
    pub(crate) fn set_ecn(&mut self, ecn: Ecn) {
        self.traffic_class = ecn.applied_to(self.traffic_class);
    }

    /// Whether this is the path for `av`.
    pub(crate) fn is_to(&self, av: &Arc<Av>) -> bool {
        Arc::ptr_eq(&self.av, av)
    }

    /// Whether a packet between these addresses was sent from this path's destination to its source, and came in by its port.
    #[inline]
    pub(crate) fn is_from_peer(&self, addresses: AddressPair) -> bool {
        addresses.is_reverse_of(self.addresses())
    }

    /// The addresses of the packets that it sends, and its port.
    #[inline]
    pub(crate) fn addresses(&self) -> AddressPair {
        AddressPair {
            port: self.port,
            source: self.source,
            destination: self.av.destination,
        }
    }

    /// The type of its packets: `enum rdma_network_type`.
    pub(crate) fn network_type(&self) -> u8 {
        network_type(self.source)
    }

    /// The length of all packets of a run on this path, from the IP header on.
    pub(crate) fn bytes_of(&self, run: &PacketRun) -> u64 {
        let ip = match self.source {
            IpAddr::V4(_) => icrc::IPV4_LEN,
            IpAddr::V6(_) => icrc::IPV6_LEN,
        };
        let packet = run.packet();
        let base = packet.bth().opcode.base_len() + icrc::LEN;
        let more = (ip + size_of::<UdpHeader>() + base) as u64;
        let extra = packet.udp_payload_len().saturating_sub(base);
        more.saturating_mul(run.count().into())
            .saturating_add(extra as u64)
    }

    /// Looks up a route, if there is no valid one.
    ///
    /// A multicast route depends on whether the host has joined the group, so it is looked up for each packet.
    pub(crate) fn find_route(&mut self) -> Result<&Route> {
        let keeps = !self.av.destination.is_multicast();
        if !(keeps && self.route.as_ref().is_some_and(Route::is_valid)) {
            self.route = None;
            self.route = Some(self.lookup()?);
        }
        self.route.as_ref().ok_or(ENOENT)
    }

    fn lookup(&self) -> Result<Route> {
        let guard = rcu::read_lock();
        let ndev = self.av.source.ndev(&guard)?;
        let traffic_class = self.av.route().traffic_class;
        ndev.with_namespace(|net| match (self.source, self.av.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let flow = Flow4 {
                    device: ndev.index(),
                    source: source.octets(),
                    destination: destination.octets(),
                    tos: traffic_class,
                    source_port: self.source_port,
                    destination_port: UDP_PORT,
                };
                Route4::lookup(net, &flow).map(Route::V4)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let flow = Flow6 {
                    device: ndev.index(),
                    source: source.octets(),
                    destination: destination.octets(),
                    traffic_class,
                    source_port: self.source_port,
                    destination_port: UDP_PORT,
                };
                Route6::lookup(net, &flow).map(Route::V6)
            }
            _ => Err(EINVAL),
        })
        .ok_or(ENODEV)?
    }
}

/// The IP and UDP headers of a datagram.
pub(crate) enum Network {
    V4(Ipv4Header, UdpHeader),
    V6(Ipv6Header, UdpHeader),
}

impl Path {
    /// The headers of a datagram with `len` bytes of payload. `identification` is that of IPv4. `None` if it is too long.
    #[inline]
    pub(crate) fn network(&self, len: usize, identification: u16) -> Option<Network> {
        let length = u16::try_from(len.checked_add(size_of::<UdpHeader>())?).ok()?;
        let udp = UdpHeader {
            source: Be16::new(self.source_port),
            destination: Be16::new(UDP_PORT),
            length: Be16::new(length),
            checksum: Be16::new(0),
        };
        let route = self.av.route();
        match (self.source, self.av.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let ip = Ipv4Header {
                    version_ihl: Ipv4Header::VERSION_IHL,
                    tos: self.traffic_class,
                    total_length: Be16::new(length.checked_add(size_of::<Ipv4Header>() as u16)?),
                    identification: Be16::new(identification),
                    fragment: Be16::new(IP_DF),
                    ttl: route.hop_limit,
                    protocol: IPPROTO_UDP,
                    checksum: Be16::new(0),
                    source: source.octets(),
                    destination: destination.octets(),
                };
                Some(Network::V4(ip, udp))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let ip = Ipv6Header {
                    version_class_flow: Ipv6Header::first_word(self.traffic_class, 0),
                    payload_length: Be16::new(length),
                    next_header: IPPROTO_UDP,
                    hop_limit: route.hop_limit,
                    source: source.octets(),
                    destination: destination.octets(),
                };
                Some(Network::V6(ip, udp))
            }
            _ => None,
        }
    }
}

impl Path {
    /// What the headers of a datagram with `len` bytes of payload, and 0 as the identification of IPv4, contribute to the ICRC. `None`
    /// if it is too long.
    ///
    /// Most packets have the length of the one before them, and those of large messages one of two lengths. What may change on a path,
    /// traffic class and hop limit, the ICRC does not cover.
    #[inline]
    pub(crate) fn prefix(&self, len: usize) -> Option<Prefix> {
        let known =
            |place: &Cell<Option<(usize, Prefix)>>| place.get().filter(|&(known, _)| known == len);
        let [last, other] = &self.prefixes;
        if let Some((_, prefix)) = known(last) {
            return Some(prefix);
        }
        let prefix = match known(other) {
            Some((_, prefix)) => prefix,
            None => self.new_prefix(len)?,
        };
        other.set(last.replace(Some((len, prefix))));
        Some(prefix)
    }

    fn new_prefix(&self, len: usize) -> Option<Prefix> {
        match self.network(len, 0)? {
            Network::V4(ip, udp) => prefix_of(&IpHeader::V4(ip), &udp),
            Network::V6(ip, udp) => prefix_of(&IpHeader::V6(ip), &udp),
        }
    }
}

impl Network {
    /// The length of the headers, in bytes.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        let ip = match self {
            Self::V4(..) => icrc::IPV4_LEN,
            Self::V6(..) => icrc::IPV6_LEN,
        };
        ip + size_of::<UdpHeader>()
    }

    /// The 40 bytes in front of a datagram with these headers, in its receive.
    pub(crate) fn grh(&self) -> Grh {
        match self {
            Self::V4(ip, _) => Grh::of(ip.as_bytes()),
            Self::V6(ip, _) => Grh::of(ip.as_bytes()),
        }
    }

    /// Adds the headers to a packet. `None` where there is no room for them.
    #[inline]
    pub(crate) fn push(&self, skb: &mut SkBuff) -> Option<()> {
        match self {
            Self::V4(ip, udp) => push(skb, udp, ip),
            Self::V6(ip, udp) => push(skb, udp, ip),
        }
    }
}

#[inline]
fn push<T: AsBytes>(skb: &mut SkBuff, udp: &UdpHeader, ip: &T) -> Option<()> {
    skb.push_header(udp)?;
    skb.set_transport_header();
    skb.push_header(ip)?;
    skb.set_network_header();
    Some(())
}
