// SPDX-License-Identifier: GPL-2.0

//! Packets in.
//!
//! A packet comes from the UDP socket of a namespace, or from a device's own [`Backlog`]. It is looked at
//! once, by [`roce::wire::Packet::parse`], its ICRC is checked over the buffer as it lies in memory, and
//! it is handed to the engine of the QP that it names, all of it inside one RCU read-side critical section,
//! so no reference is counted. Whatever is wrong with it, it is dropped and counted, and nothing else.

use crate::counters::Counter;
use crate::device::Rxe;
use crate::link::Links;
use crate::qp::attr::PKEY;
use crate::ring::Queue;
use crate::tx::KernelCrc;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use kernel::prelude::*;
use kernel::sync::{rcu, Arc};
use kernel::transmute::AsBytes;
use kernel::workqueue::{self, WorkItem};
use kernel_ext::bindings;
use kernel_ext::net::device::NetDevice;
use kernel_ext::net::header::{IpHeader, Ipv4Header, UdpHeader, IPPROTO_UDP};
use kernel_ext::net::skb::SkBuff;
use kernel_ext::net::udp_tunnel::Receive;
use kernel_ext::sync::{new_spinlock_bh, SpinLockBh};
use kernel_ext::work;
use rdma::{Gid, MaySleep};
use roce::icrc::{self, Icrc};
use roce::state::Service;
use roce::wire::{Packet, Qpn, MAX_HEADERS};

/// A packet that was found to be one, for a device.
pub(crate) struct Incoming<'a> {
    skb: &'a SkBuff,
    ip: IpHeader,
    packet: Packet,
    vlan_id: Option<u16>,
}

impl Incoming<'_> {
    /// The headers, and how long the payload is.
    pub(crate) fn packet(&self) -> &Packet {
        &self.packet
    }

    /// The payload, where it lies.
    pub(crate) fn payload(&self) -> Payload<'_> {
        Payload::Packet {
            skb: self.skb,
            offset: self.packet.payload_offset(),
            len: self.packet.payload_len(),
        }
    }

    /// The 40 bytes in front of a datagram: an IPv6 header, or 20 zeroes and an IPv4 header.
    pub(crate) fn grh(&self) -> [u8; 40] {
        let mut area = [0; 40];
        let header = match &self.ip {
            IpHeader::V4(ip) => ip.as_bytes(),
            IpHeader::V6(ip) => ip.as_bytes(),
        };
        if let Some(place) = area
            .len()
            .checked_sub(header.len())
            .and_then(|at| area.get_mut(at..))
        {
            place.copy_from_slice(header);
        }
        area
    }

    /// Which header that is: `enum rdma_network_type`.
    pub(crate) fn network_type(&self) -> u8 {
        let network = match &self.ip {
            IpHeader::V4(_) => bindings::RDMA_NETWORK_IPV4,
            IpHeader::V6(_) => bindings::RDMA_NETWORK_IPV6,
        };
        network as u8
    }

    /// The address that it came from.
    pub(crate) fn source(&self) -> IpAddr {
        match &self.ip {
            IpHeader::V4(ip) => IpAddr::V4(Ipv4Addr::from(ip.source)),
            IpHeader::V6(ip) => IpAddr::V6(Ipv6Addr::from(ip.source)),
        }
    }

    /// The address that it was sent to.
    pub(crate) fn destination(&self) -> IpAddr {
        match &self.ip {
            IpHeader::V4(ip) => IpAddr::V4(Ipv4Addr::from(ip.destination)),
            IpHeader::V6(ip) => IpAddr::V6(Ipv6Addr::from(ip.destination)),
        }
    }

    /// The VLAN that it came through.
    pub(crate) fn vlan_id(&self) -> Option<u16> {
        self.vlan_id
    }
}

/// What the engines hand through to where data is stored.
pub(crate) enum Payload<'a> {
    /// A part of a packet, which may lie in several pieces.
    Packet {
        /// The packet.
        skb: &'a SkBuff,
        /// Where the part begins.
        offset: usize,
        /// How long it is.
        len: u32,
    },
    /// Bytes that were made here.
    Bytes(&'a [u8]),
}

impl Payload<'_> {
    /// The length in bytes.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::Packet { len, .. } => *len,
            Self::Bytes(bytes) => bytes.len() as u32,
        }
    }

    /// Hands bytes `from..from + len` to `put`, in pieces and with where each begins, counted from `from`, until
    /// it says no.
    ///
    /// # Errors
    ///
    /// `EFAULT` where `put` said no, `EINVAL` where there are not as many bytes.
    #[inline]
    pub(crate) fn copy(
        &self,
        from: u32,
        len: u32,
        mut put: impl FnMut(u32, &[u8]) -> bool,
    ) -> Result {
        let end = from
            .checked_add(len)
            .filter(|&end| end <= self.len())
            .ok_or(EINVAL)?;
        let (mut at, mut stored) = (0u32, true);
        let mut piece = |bytes: &[u8]| {
            stored = stored && put(at, bytes);
            at = at.saturating_add(bytes.len() as u32);
        };
        match self {
            Self::Packet { skb, offset, .. } => {
                skb.for_each_slice(offset.saturating_add(from as usize), len as usize, piece)?;
            }
            Self::Bytes(bytes) => piece(bytes.get(from as usize..end as usize).ok_or(EINVAL)?),
        }
        if stored {
            Ok(())
        } else {
            Err(EFAULT)
        }
    }
}

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
fn receive(rxe: &Rxe, mut skb: SkBuff, vlan_id: Option<u16>, trust: Trust) {
    let Some((ip, packet)) = parse(&mut skb, trust) else {
        return;
    };
    rxe.counters.add(Counter::ReceivedPackets, 1);
    rxe.counters.add(
        Counter::ReceivedBytes,
        (ip_len(&ip) + size_of::<UdpHeader>() + skb.len()) as u64,
    );
    let incoming = Incoming {
        skb: &skb,
        ip,
        packet,
        vlan_id,
    };
    deliver(rxe, &incoming);
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

/// Whether the ICRC is right.
fn is_intact(skb: &SkBuff, ip: &IpHeader, udp: &UdpHeader) -> bool {
    computed_icrc(skb, ip, udp).is_some_and(|computed| {
        let mut carried = [0; icrc::LEN];
        let at = skb.len().saturating_sub(icrc::LEN);
        skb.copy_bits(at, &mut carried).is_ok() && carried == computed
    })
}

fn computed_icrc(skb: &SkBuff, ip: &IpHeader, udp: &UdpHeader) -> Option<[u8; icrc::LEN]> {
    let bth = skb.data().first_chunk()?;
    let udp = udp.as_bytes().try_into().ok()?;
    let mut icrc = match ip {
        IpHeader::V4(ip) => Icrc::<KernelCrc>::ipv4(ip.as_bytes().try_into().ok()?, udp, bth),
        IpHeader::V6(ip) => Icrc::<KernelCrc>::ipv6(ip.as_bytes().try_into().ok()?, udp, bth),
    };
    let covered = skb.len().checked_sub(icrc::BTH_LEN + icrc::LEN)?;
    skb.for_each_slice(icrc::BTH_LEN, covered, |bytes| icrc.update(bytes))
        .ok()?;
    Some(icrc.finish())
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
fn deliver(rxe: &Rxe, incoming: &Incoming<'_>) {
    let qpn = incoming.packet().bth().dest_qpn;
    match (qpn == Qpn::MULTICAST, is_for_many(incoming.destination())) {
        (true, true) => deliver_to_group(rxe, incoming),
        (false, false) if qpn != Qpn::SMI => deliver_to_one(rxe, qpn, incoming),
        _ => {}
    }
}

fn deliver_to_one(rxe: &Rxe, qpn: Qpn, incoming: &Incoming<'_>) {
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
    qp.receive(incoming);
}

fn deliver_to_group(rxe: &Rxe, incoming: &Incoming<'_>) {
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

/// Packets from a device to itself, which wait for softirq: receiving never happens inside sending.
#[pin_data]
pub(crate) struct Backlog {
    #[pin]
    queue: SpinLockBh<Queue<SkBuff>>,
}

/// Packets that a backlog holds at most; more are lost, as on the wire. Twice what a QP has under way.
const BACKLOG: u32 = 4096;

/// Packets that one run of the work item takes.
const BACKLOG_BUDGET: u32 = 64;

impl Backlog {
    /// An empty backlog.
    pub(crate) fn new() -> Result<impl PinInit<Self>> {
        let queue = Queue::new(BACKLOG)?;
        Ok(pin_init!(Self {
            queue <- new_spinlock_bh!(queue, "rxe_backlog::queue"),
        }))
    }

    /// Adds a packet that begins with its IP header. Softirq or process context.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` where the backlog is full; the packet is lost then.
    pub(crate) fn push(&self, rxe: &Arc<Rxe>, skb: SkBuff) -> Result {
        self.queue
            .lock()
            .push(skb)
            .map_err(|_| kernel_ext::error::ENOBUFS)?;
        work::enqueue(workqueue::system_bh(), rxe);
        Ok(())
    }

    /// Stops the delivery for good and drops what waits. After the last QP is gone.
    pub(crate) fn stop(rxe: &Arc<Rxe>, sleep: &MaySleep) {
        work::cancel_sync(rxe, sleep);
        while let Some(skb) = rxe.backlog.pop() {
            drop(skb);
        }
    }

    fn pop(&self) -> Option<SkBuff> {
        self.queue.lock().pop()
    }
}

impl WorkItem for Rxe {
    type Pointer = Arc<Self>;

    /// Delivers what waits in the backlog.
    fn run(this: Arc<Self>) {
        for _ in 0..BACKLOG_BUDGET {
            let Some(mut skb) = this.backlog.pop() else {
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
        work::enqueue(workqueue::system_bh(), &this);
    }
}
