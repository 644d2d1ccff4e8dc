// SPDX-License-Identifier: GPL-2.0

//! Validating packets for a queue pair (IBTA volume 1, section 9.6; annex A17). A packet is parsed once, by
//! [`roce::wire::Packet::parse`], and its ICRC is checked over the socket buffer. Invalid packets are dropped.

use crate::backlog::{Origin, Waiting};
use crate::buffer::Buffer;
use crate::counters::{Counter, Counters};
use crate::device::Rxe;
use crate::icrc::{is_intact, Prefixes};
use crate::packet::Incoming;
use crate::path::AddressPair;
use crate::pkeys::Partition;
use crate::port_id::{Ingress, PortId};
use core::net::IpAddr;
use kernel_ext::net::header::{IpHeader, Ipv4Header, UdpHeader, IPPROTO_UDP};
use kernel_ext::net::skb::SkBuff;
use roce::icrc;
use roce::opcode::Opcode;
use roce::state::Service;
use roce::wire::{Bth, Packet, MAX_HEADERS};

/// Validates a packet for a QP of a service and a partition, and counts it, unless it is for a multicast group.
#[inline]
pub(crate) fn accept<Q: Send + Sync>(
    rxe: &Rxe<Q>,
    counters: &Counters,
    (service, partition): (Service, Partition),
    packet: Waiting,
    prefixes: &mut Prefixes,
) -> Option<Incoming> {
    let Waiting { skb, origin } = packet;
    let incoming = match origin {
        Origin::Wire(at) => count(counters, parse(skb, at, Some(prefixes))?),
        Origin::Own(port) => {
            let at = Ingress {
                port,
                vlan_id: None,
            };
            count(counters, parse(without_ip_header(skb)?, at, None)?)
        }
        Origin::Group(at) => parse(skb, at, None)?,
    };
    let group = matches!(origin, Origin::Group(_));
    let taken = has_address_for(rxe, (service, partition), &incoming, group)
        && suits(rxe, service, partition, (incoming.packet().bth(), 1));
    taken.then_some(incoming)
}

/// Validates and counts a packet of the network for a multicast group. The partition is checked for each member.
pub(crate) fn accept_for_group<Q: Send + Sync>(
    rxe: &Rxe<Q>,
    skb: SkBuff,
    at: Ingress,
) -> Option<Incoming> {
    let incoming = parse(skb, at, Some(&mut Prefixes::default()))?;
    if !is_for_many(incoming.destination()) {
        return None;
    }
    let incoming = count(rxe.port(at.port).counters.own(), incoming);
    is_of(Service::Ud, incoming.packet().bth()).then_some(incoming)
}

fn count(counters: &Counters, incoming: Incoming) -> Incoming {
    counters.received(1, incoming.length() as u64);
    incoming
}

/// Whether one of the packets in a GRO buffer is for a QP of a connected service and a partition.
#[inline]
pub(crate) fn accepts_part<Q: Send + Sync>(
    rxe: &Rxe<Q>,
    (service, partition): (Service, Partition),
    buffer: &Buffer,
    packet: &Packet,
) -> bool {
    let single = service != Service::Ud && !is_for_many(buffer.destination());
    single && suits(rxe, service, partition, (packet.bth(), 1))
}

fn without_ip_header(mut skb: SkBuff) -> Option<SkBuff> {
    match skb.data().first() {
        Some(&Ipv4Header::VERSION_IHL) => skb.pull(icrc::IPV4_LEN)?,
        _ => skb.pull(icrc::IPV6_LEN)?,
    }
    Some(skb)
}

/// Validates a packet that begins with its UDP header, and parses its headers. With `sealed`, the packet has an ICRC, which must be
/// correct.
#[inline]
fn parse(mut skb: SkBuff, at: Ingress, sealed: Option<&mut Prefixes>) -> Option<Incoming> {
    const UDP: usize = size_of::<UdpHeader>();
    let ip = skb.ip_header()?;
    let directly_behind = match &ip {
        IpHeader::V4(ip) => ip.version_ihl == Ipv4Header::VERSION_IHL,
        IpHeader::V6(ip) => ip.next_header == IPPROTO_UDP,
    };
    let udp = skb.udp_header()?;
    let whole = usize::from(udp.length.get()) == skb.len();
    if !directly_behind || !whole {
        return None;
    }
    skb.ensure_linear(skb.len().min(UDP + MAX_HEADERS)).ok()?;
    skb.pull(UDP)?;
    let packet = Packet::parse(skb.data(), skb.len()).ok()?;
    if let Some(prefixes) = sealed {
        let prefix = prefixes.of(&ip, &udp)?;
        let congestion = *skb.data().get(icrc::CONGESTION)?;
        if !is_intact(&skb, 0..skb.len(), congestion, prefix) {
            return None;
        }
    }
    Some(Incoming::new(skb, ip, packet, at))
}

/// Whether an address is multicast or broadcast. The destination QP of such a packet is
/// [`Qpn::MULTICAST`](roce::wire::Qpn::MULTICAST) (IBTA volume 1, section 10.5.2), never a single QP.
fn is_for_many(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_broadcast() || address.is_multicast(),
        IpAddr::V6(address) => address.is_multicast(),
    }
}

/// Whether the address of a packet is one for a QP of a service and a partition. A packet to a multicast address is not for a single
/// QP, a datagram to an address that is not the port's is for no QP, and one of another port is for none of this port.
#[inline]
fn has_address_for<Q: Send + Sync>(
    rxe: &Rxe<Q>,
    (service, partition): (Service, Partition),
    incoming: &Incoming,
    group: bool,
) -> bool {
    match (service, group) {
        (Service::Ud, true) => partition.port() == incoming.port(),
        (Service::Ud, false) => takes_datagram(rxe, partition, incoming.addresses()),
        (_, group) => group || !is_for_many(incoming.destination()),
    }
}

/// Whether a datagram with these addresses, which is for one QP, is for a QP of a partition.
#[inline]
pub(crate) fn takes_datagram<Q: Send + Sync>(
    rxe: &Rxe<Q>,
    partition: Partition,
    addresses: AddressPair,
) -> bool {
    let port = addresses.port;
    let own = || {
        let own = &rxe.port(port).addresses;
        own.contains(addresses.destination_gid())
    };
    partition.port() == port && !is_for_many(addresses.destination) && own()
}

/// Whether a packet is one for a queue pair of a service.
#[inline]
fn is_of(service: Service, bth: &Bth) -> bool {
    service.takes(bth.opcode)
}

/// Whether a packet is a congestion notification for a connected QP. Others are ignored, and counted.
#[cold]
fn takes_notification<Q: Send + Sync>(
    rxe: &Rxe<Q>,
    service: Service,
    (bth, port): (&Bth, PortId),
) -> bool {
    if service == Service::Ud {
        ignore_notification(rxe, bth, port);
    }
    bth.opcode == Opcode::Cnp && service != Service::Ud
}

/// Counts a packet that is for nobody, if it is a congestion notification, for a port.
#[cold]
pub(crate) fn ignore_notification<Q: Send + Sync>(rxe: &Rxe<Q>, bth: &Bth, port: PortId) {
    if bth.opcode == Opcode::Cnp {
        rxe.port(port).counters.own().add(Counter::CnpIgnored, 1);
    }
}

/// Counts a packet of the network that is for no QP, if it is a valid congestion notification.
#[cold]
pub(crate) fn ignore<Q: Send + Sync>(rxe: &Rxe<Q>, skb: SkBuff, at: Ingress) {
    if let Some(incoming) = parse(skb, at, Some(&mut Prefixes::default())) {
        ignore_notification(rxe, incoming.packet().bth(), at.port);
    }
}

/// Whether a number of packets with such a header are of a QP's service, and of its partition. Those of another partition are
/// counted.
#[inline]
pub(crate) fn suits<Q: Send + Sync>(
    rxe: &Rxe<Q>,
    service: Service,
    partition: Partition,
    (bth, count): (&Bth, u32),
) -> bool {
    let port = partition.port();
    if !is_of(service, bth) && !takes_notification(rxe, service, (bth, port)) {
        return false;
    }
    let admitted = rxe.admits(partition, bth.pkey);
    if !admitted {
        rxe.port(port).count_bad_pkeys(count);
    }
    admitted
}
