// SPDX-License-Identifier: GPL-2.0

//! Packets in: from UDP to the queue pair or the multicast group that they are for (IBTA volume 1, section 9.6; annex A17).
//!
//! A packet comes from the UDP socket of a namespace, or from a device's own [backlog](crate::backlog). It is looked at
//! once, by [`roce::wire::Packet::parse`], its ICRC is checked over the buffer as it lies in memory, and
//! it is handed to the engine of the QP that it names, all of it inside one RCU read-side critical section,
//! so no reference is counted. Whatever is wrong with it, it is dropped and counted, and nothing else.

use crate::counters::Counter;
use crate::device::Rxe;
use crate::icrc::is_intact;
use crate::ids::PKEY;
use crate::link::Links;
use crate::mcast::Member;
use crate::packet::Incoming;
use crate::qp::Qp;
use core::net::IpAddr;
use kernel::prelude::*;
use kernel::sync::{rcu, Arc};
use kernel::workqueue::WorkItem;
use kernel_ext::net::device::NetDevice;
use kernel_ext::net::header::{IpHeader, Ipv4Header, UdpHeader, IPPROTO_UDP};
use kernel_ext::net::skb::SkBuff;
use kernel_ext::net::udp_tunnel::Receive;
use rdma::Gid;
use roce::icrc;
use roce::state::Service;
use roce::wire::{Packet, Qpn, MAX_HEADERS};

impl Receive for Links {
    fn receive(this: &Self, packet: SkBuff, device: &NetDevice) {
        let vlan_id = device.vlan_id();
        let found = match vlan_id {
            Some(_) => this.by_ifindex(device.index()).or_else(|| {
                device
                    .vlan_real_device()
                    .and_then(|real| this.by_ifindex(real.index()))
            }),
            None => this.by_ifindex(device.index()),
        };
        if let Some(rxe) = found {
            receive(&rxe, packet, vlan_id, Trust::Wire);
        }
    }
}

/// Where a packet comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// From the network: its ICRC tells whether it is whole.
    Wire,
    /// From this device.
    Own,
}

/// Takes a packet that begins with its UDP header. In softirq.
fn receive(rxe: &Rxe<Qp>, mut skb: SkBuff, vlan_id: Option<u16>, trust: Trust) {
    let Some((ip, packet)) = parse(&mut skb, trust) else {
        return;
    };
    rxe.counters.add(Counter::ReceivedPackets, 1);
    rxe.counters.add(
        Counter::ReceivedBytes,
        (ip_len(&ip) + size_of::<UdpHeader>() + skb.len()) as u64,
    );
    deliver(rxe, &Incoming::new(&skb, ip, packet, vlan_id));
    skb.consume();
}

/// The length of an IP header: options and extensions have been refused.
fn ip_len(ip: &IpHeader) -> usize {
    match ip {
        IpHeader::V4(_) => icrc::IPV4_LEN,
        IpHeader::V6(_) => icrc::IPV6_LEN,
    }
}

/// Looks at a packet: the only look at its headers. Leaves `skb` without the UDP header.
fn parse(skb: &mut SkBuff, trust: Trust) -> Option<(IpHeader, Packet)> {
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
    if trust == Trust::Wire && !is_intact(skb, &ip, &udp) {
        return None;
    }
    Some((ip, packet))
}

/// Whether two P_Keys belong to the same partition, at least one of them as a full member (IBTA volume 1,
/// section 10.9.3).
fn same_partition(a: u16, b: u16) -> bool {
    const FULL: u16 = 0x8000;
    a & !FULL == b & !FULL && (a | b) & FULL != 0
}

/// Whether an address is that of many hosts. The QP of a packet to many is [`Qpn::MULTICAST`] (IBTA volume 1,
/// section 10.5.2), so such a packet is for none of those that a number names.
fn is_for_many(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_broadcast() || address.is_multicast(),
        IpAddr::V6(address) => address.is_multicast(),
    }
}

/// Hands a packet to the QP that it names, or to the members of a multicast group.
fn deliver(rxe: &Rxe<Qp>, incoming: &Incoming<'_>) {
    let qpn = incoming.packet().bth().dest_qpn;
    match (qpn == Qpn::MULTICAST, is_for_many(incoming.destination())) {
        (true, true) => deliver_to_group(rxe, incoming),
        (false, false) if qpn != Qpn::SMI => deliver_to_one(rxe, qpn, incoming),
        _ => {}
    }
}

fn deliver_to_one(rxe: &Rxe<Qp>, qpn: Qpn, incoming: &Incoming<'_>) {
    let bth = incoming.packet().bth();
    let guard = rcu::read_lock();
    let Some(qp) = rxe.qps.get(qpn.get(), &guard) else {
        return;
    };
    if bth.opcode.service() != qp.service().into() {
        return;
    }
    if !same_partition(bth.pkey, PKEY) {
        rxe.count_bad_pkey();
        return;
    }
    Qp::receive(qp, incoming);
}

fn deliver_to_group(rxe: &Rxe<Qp>, incoming: &Incoming<'_>) {
    let bth = incoming.packet().bth();
    if bth.opcode.service() != Service::Ud.into() {
        return;
    }
    if !same_partition(bth.pkey, PKEY) {
        rxe.count_bad_pkey();
        return;
    }
    let group = match incoming.destination() {
        IpAddr::V4(address) => Gid::from_ipv4(address.octets()),
        IpAddr::V6(address) => Gid(address.octets()),
    };
    rxe.groups.deliver(group, incoming);
}

/// Packets that one run of the work item takes.
const BACKLOG_BUDGET: u32 = 64;

impl WorkItem for Rxe<Qp> {
    type Pointer = Arc<Self>;

    /// Delivers what waits in the backlog.
    fn run(this: Arc<Self>) {
        for _ in 0..BACKLOG_BUDGET {
            let Some(mut skb) = this.looped_back() else {
                return;
            };
            let pulled = match skb.data().first() {
                Some(0x45) => skb.pull(icrc::IPV4_LEN),
                _ => skb.pull(icrc::IPV6_LEN),
            };
            if pulled.is_some() {
                receive(&this, skb, None, Trust::Own);
            }
        }
        Self::deliver_soon(&this);
    }
}
