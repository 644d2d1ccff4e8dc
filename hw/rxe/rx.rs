// SPDX-License-Identifier: GPL-2.0

//! Receiving packets: from UDP to the destination queue pair or multicast group (IBTA volume 1, section 9.6; annex
//! A17).
//!
//! A packet is received from the UDP socket of a namespace, or from a device's own [backlog](crate::backlog). It is
//! parsed once, by [`roce::wire::Packet::parse`], its ICRC is checked over the socket buffer, and it is passed to the
//! engine of the destination QP, within one RCU read-side critical section, so that no reference is counted. Invalid
//! packets are dropped and counted.

use crate::backlog::Waiting;
use crate::counters::Counter;
use crate::device::Rxe;
use crate::icrc::is_intact;
use crate::ids::PKEY;
use crate::link::Links;
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
            let packet = accept(&rxe, packet, vlan_id, Trust::Wire);
            receive(&rxe, packet, &mut || None);
        }
    }
}

/// Origin of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The network: the ICRC is checked.
    Wire,
    /// This device.
    Own,
}

/// Handles a packet that begins with its UDP header, and those that `more` gives for the same QP. Softirq context.
fn receive(rxe: &Rxe<Qp>, first: Option<Incoming>, more: &mut dyn FnMut() -> Option<SkBuff>) {
    let Some(incoming) = first else {
        return;
    };
    let qpn = incoming.packet().bth().dest_qpn;
    match (qpn == Qpn::MULTICAST, is_for_many(incoming.destination())) {
        (true, true) => deliver_to_group(rxe, incoming),
        (false, false) if qpn != Qpn::SMI => deliver_to_one(rxe, qpn, incoming, more),
        _ => {}
    }
}

/// Validates and counts a packet that begins with its UDP header.
fn accept(rxe: &Rxe<Qp>, mut skb: SkBuff, vlan_id: Option<u16>, trust: Trust) -> Option<Incoming> {
    let (ip, packet) = parse(&mut skb, trust)?;
    rxe.counters.add(Counter::ReceivedPackets, 1);
    rxe.counters.add(
        Counter::ReceivedBytes,
        (ip_len(&ip) + size_of::<UdpHeader>() + skb.len()) as u64,
    );
    Some(Incoming::new(skb, ip, packet, vlan_id))
}

/// Validates and counts a packet of the device to itself, which begins with its IP header.
fn accept_own(rxe: &Rxe<Qp>, mut skb: SkBuff) -> Option<Incoming> {
    match skb.data().first() {
        Some(&Ipv4Header::VERSION_IHL) => skb.pull(icrc::IPV4_LEN)?,
        _ => skb.pull(icrc::IPV6_LEN)?,
    }
    accept(rxe, skb, None, Trust::Own)
}

/// The length of an IP header: those with options or extensions were rejected.
fn ip_len(ip: &IpHeader) -> usize {
    match ip {
        IpHeader::V4(_) => icrc::IPV4_LEN,
        IpHeader::V6(_) => icrc::IPV6_LEN,
    }
}

/// Validates a packet and parses its headers. Removes the UDP header from `skb`.
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

/// Whether two P_Keys belong to the same partition, at least one of them with full membership (IBTA volume 1, section
/// 10.9.3).
fn same_partition(a: u16, b: u16) -> bool {
    const FULL: u16 = 0x8000;
    a & !FULL == b & !FULL && (a | b) & FULL != 0
}

/// Whether an address is multicast or broadcast. The destination QP of such a packet is [`Qpn::MULTICAST`] (IBTA volume
/// 1, section 10.5.2), never a single QP.
fn is_for_many(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_broadcast() || address.is_multicast(),
        IpAddr::V6(address) => address.is_multicast(),
    }
}

/// Whether a packet is of a QP's service, and of its partition. One to a multicast address is for no single QP, and a
/// datagram to an address that is not the device's for none.
fn is_for(rxe: &Rxe<Qp>, qp: &Qp, incoming: &Incoming) -> bool {
    let bth = incoming.packet().bth();
    if bth.opcode.service() != qp.service().into() || is_for_many(incoming.destination()) {
        return false;
    }
    if qp.service() == Service::Ud && !rxe.addresses.contains(incoming.destination_gid()) {
        return false;
    }
    if !same_partition(bth.pkey, PKEY) {
        rxe.count_bad_pkey();
        return false;
    }
    true
}

/// Delivers a packet, and `more` of the device to itself, to one QP.
fn deliver_to_one(
    rxe: &Rxe<Qp>,
    qpn: Qpn,
    first: Incoming,
    more: &mut dyn FnMut() -> Option<SkBuff>,
) {
    let guard = rcu::read_lock();
    let Some(qp) = rxe.qps.get(qpn.get(), &guard) else {
        return;
    };
    let mut more = || loop {
        let incoming = accept_own(rxe, more()?);
        if let Some(next) = incoming.filter(|next| is_for(rxe, &qp, next)) {
            return Some(next);
        }
    };
    let first = Some(first).filter(|first| is_for(rxe, &qp, first));
    if let Some(first) = first.or_else(&mut more) {
        Qp::receive_all(qp, first, &mut more);
    }
}

fn deliver_to_group(rxe: &Rxe<Qp>, incoming: Incoming) {
    let bth = incoming.packet().bth();
    if bth.opcode.service() != Service::Ud.into() {
        return;
    }
    if !same_partition(bth.pkey, PKEY) {
        rxe.count_bad_pkey();
        return;
    }
    rxe.groups.deliver(incoming.destination_gid(), &incoming);
    incoming.consume();
}

/// Maximum number of packets in one run of the work item.
const BACKLOG_BUDGET: u32 = 64;

impl WorkItem for Rxe<Qp> {
    type Pointer = Arc<Self>;

    /// Delivers the packets in the backlog, those for one QP together.
    fn run(this: Arc<Self>) {
        let mut left = BACKLOG_BUDGET;
        while left > 0 {
            let Some(Waiting { skb, qpn }) = this.backlog.pop() else {
                return;
            };
            left = left.saturating_sub(1);
            let mut more = || {
                left = left.checked_sub(1)?;
                this.backlog.pop_for(qpn).map(|next| next.skb)
            };
            receive(&this, accept_own(&this, skb), &mut more);
        }
        Self::schedule_delivery(&this);
    }
}
