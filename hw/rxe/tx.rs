// SPDX-License-Identifier: GPL-2.0

//! Transmitting packets: from headers and payload to the IP stack (annex A17 of IBTA volume 1).
//!
//! A packet is one linear buffer: room for the link-layer header, IP, UDP, the headers of [`roce::wire`], the payload
//! (copied once), pad bytes and ICRC. It is sent by the IP stack of the net device's namespace. A packet to a GID of
//! the same device is added to the [backlog](crate::backlog) of its QP, without ICRC.
//!
//! [`Flight`] counts the packets of a QP in flight: above a limit the QP stops sending, and when enough packets have
//! left, its work item runs again. Net devices and their backlogs preserve the order of packets only per CPU, so a QP
//! changes its CPU only when all its packets have left.

use crate::ah::Av;
use crate::counters::{Counter, Counters};
use crate::icrc::{seal_v4, seal_v6};
use crate::ids::UDP_PORT;
use crate::packet::{network_type, Incoming};
use core::net::IpAddr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::{rcu, Arc};
use kernel::time::{delay::fsleep, Delta};
use kernel::transmute::AsBytes;
use kernel_ext::gfp::Gfp;
use kernel_ext::net::header::{Be16, Ipv4Header, Ipv6Header, UdpHeader, IPPROTO_UDP, IP_DF};
use kernel_ext::net::route::{Flow4, Flow6, Route4, Route6};
use kernel_ext::net::skb::{InFlight, SkBuff};
use kernel_ext::net::xmit::{ip4_local_out, ip6_local_out};
use kernel_ext::room::Room;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use rdma::MaySleep;
use roce::icrc;
use roce::run::PacketRun;
use roce::wire::{pad_len, Bth, Headers, Qpn, MAX_HEADERS};

/// The first source port (annex A17 of IBTA volume 1 does not define it; as the kernel's
/// `IB_ROCE_UDP_ENCAP_VALID_PORT_MIN`).
const FIRST_SOURCE_PORT: u16 = 0xc000;

/// Room for the link-layer header; for a device that needs more, the packet is reallocated.
const LINK_ROOM: usize = 64;

/// Limit of packets of a QP in flight.
const HIGH_WATER: u32 = 64;

/// A QP resumes when fewer of its packets than that are in flight.
const LOW_WATER: u32 = 17;

/// The value for no CPU.
const NO_CPU: u32 = u32::MAX;

/// Number of flights: while there are some, skb destructors may call into the module.
static FLIGHTS: AtomicUsize = AtomicUsize::new(0);

/// Waits until no packet is in flight. Called on module exit, without QPs.
pub(crate) fn wait_for_packets(sleep: &MaySleep) {
    const PAUSE: Delta = Delta::from_millis(1);
    const PAUSES_PER_LINE: u32 = 10_000;
    let mut pauses = 0u32;
    while FLIGHTS.load(Ordering::Acquire) != 0 {
        fsleep(PAUSE);
        pauses = pauses.wrapping_add(1);
        if pauses % PAUSES_PER_LINE == 0 {
            pr_warn!("waiting for packets that a net device holds\n");
        }
    }
    // The last destructor may not have returned yet, possibly in a preempted task.
    kernel_ext::sync::rcu::synchronize_tasks(sleep);
}

/// A sender that waits while too many of its packets are in flight: a QP.
pub(crate) trait Waiter: Send + Sync + 'static {
    /// Resumes sending. Any context, with the flight's lock held.
    fn wake(this: &Arc<Self>);
}

/// Counts the packets of a QP in flight.
///
/// Packets may outlive the QP, so they refer to this, which refers to the QP only until [`Self::detach`].
#[pin_data(PinnedDrop)]
pub(crate) struct Flight<W> {
    count: AtomicU32,
    /// The CPU that sent the last packet, or [`NO_CPU`]. Written with the engine's lock held.
    cpu: AtomicU32,
    /// The QP waits until fewer packets than that are in flight; 0 when it does not wait.
    waiting: AtomicU32,
    /// Taken in any context; only the work item is queued inside.
    #[pin]
    waiter: SpinLockIrq<Option<Arc<W>>>,
}

impl<W> Flight<W> {
    /// Creates a count without a QP.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let flight = Arc::pin_init(
            pin_init!(Self {
                count: AtomicU32::new(0),
                cpu: AtomicU32::new(NO_CPU),
                waiting: AtomicU32::new(0),
                waiter <- new_spinlock_irq!(None, "rxe_flight::waiter"),
            }),
            GFP_KERNEL,
        )?;
        FLIGHTS.fetch_add(1, Ordering::Relaxed);
        Ok(flight)
    }

    /// Sets the QP whose work item resumes sending.
    pub(crate) fn attach(&self, qp: &Arc<W>) {
        *self.waiter.lock() = Some(qp.clone());
    }

    /// Clears the QP: its work item is not queued from here any more.
    pub(crate) fn detach(&self) {
        let qp = self.waiter.lock().take();
        drop(qp);
    }

    /// Whether one more packet may be sent; if not, the QP's work item is queued when it may. With the engine's lock
    /// held, so that the CPU does not change.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        let cpu = self.cpu.load(Ordering::Relaxed);
        let stays = cpu == NO_CPU || cpu == CpuId::current().as_u32();
        let (below, resume_below) = if stays {
            (HIGH_WATER, LOW_WATER)
        } else {
            (1, 1)
        };
        if self.count.load(Ordering::Relaxed) < below {
            return true;
        }
        self.waiting.store(resume_below, Ordering::SeqCst);
        // Packets that left before the store above did not see it.
        if self.count.load(Ordering::SeqCst) >= resume_below {
            return false;
        }
        self.waiting.store(0, Ordering::SeqCst);
        true
    }

    /// Counts a packet that is sent, by a net device or loopback.
    fn count_sent(&self, through_net_device: bool) {
        if through_net_device {
            self.cpu.store(CpuId::current().as_u32(), Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::SeqCst);
    }
}

#[pinned_drop]
impl<W> PinnedDrop for Flight<W> {
    fn drop(self: Pin<&mut Self>) {
        FLIGHTS.fetch_sub(1, Ordering::Release);
    }
}

impl<W: Waiter> InFlight for Flight<W> {
    fn released(this: Arc<Self>) {
        let left = this.count.fetch_sub(1, Ordering::SeqCst).saturating_sub(1);
        let ready = left < this.waiting.load(Ordering::SeqCst);
        if ready && this.waiting.swap(0, Ordering::SeqCst) != 0 {
            if let Some(qp) = &*this.waiter.lock() {
                W::wake(qp);
            }
        }
    }
}

/// A cached route.
enum Route {
    V4(Route4),
    V6(Route6),
}

impl Route {
    fn is_valid(&self) -> bool {
        match self {
            Self::V4(route) => route.is_valid(),
            Self::V6(route) => route.is_valid(),
        }
    }
}

/// The path of packets: an address vector and the route to it.
pub(crate) struct Path {
    av: Arc<Av>,
    source: IpAddr,
    source_port: u16,
    /// Whether the destination is the same device.
    loopback: bool,
    route: Option<Route>,
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
        let source_port = source_port(av.route().flow_label, qpn, dest_qpn);
        Self {
            av,
            source,
            source_port,
            loopback,
            route: None,
        }
    }

    /// Drops the cached route.
    ///
    /// A route keeps its namespace alive. User QPs may keep theirs, since user space exits first; but QPs of kernel
    /// consumers are destroyed only when their namespace is deleted.
    pub(crate) fn forget_route(&mut self) {
        self.route = None;
    }

    /// Whether the destination is the same device.
    #[inline]
    pub(crate) fn loops_back(&self) -> bool {
        self.loopback
    }

    /// Whether this is the path for `av`.
    pub(crate) fn is_to(&self, av: &Arc<Av>) -> bool {
        Arc::ptr_eq(&self.av, av)
    }

    /// Whether a packet was sent from this path's destination to its source.
    pub(crate) fn is_from_peer(&self, incoming: &Incoming) -> bool {
        incoming.destination() == self.source && incoming.source() == self.av.destination
    }

    /// Whether `other` is the path in the opposite direction.
    #[inline]
    pub(crate) fn is_reverse_of(&self, other: &Self) -> bool {
        other.av.destination == self.source && other.source == self.av.destination
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
        let more = (ip + size_of::<UdpHeader>() + Bth::LEN + icrc::LEN) as u64;
        let packet = run.packet();
        let extra = packet
            .udp_payload_len()
            .saturating_sub(Bth::LEN + icrc::LEN);
        more.saturating_mul(run.count().into())
            .saturating_add(extra as u64)
    }

    /// Looks up a route, if there is no valid one.
    ///
    /// A multicast route depends on whether the host has joined the group, so it is looked up for each packet.
    fn find_route(&mut self) -> Result<&Route> {
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

/// A packet without IP and UDP headers.
pub(crate) struct Packet {
    /// `None` where memory was short.
    skb: Option<SkBuff>,
    dest_qpn: Qpn,
}

impl Packet {
    /// Makes a packet of `headers` and `len` bytes, which `fill` writes.
    ///
    /// # Errors
    ///
    /// Errors of `fill`. If memory is short the packet is lost.
    #[inline]
    pub(crate) fn build<E>(
        headers: &Headers,
        len: u32,
        fill: impl FnOnce(&mut Room<'_>) -> Result<(), E>,
    ) -> Result<Self, E> {
        const BELOW: usize = LINK_ROOM + size_of::<Ipv6Header>() + size_of::<UdpHeader>();
        let pad = pad_len(len);
        let mut head = [0; MAX_HEADERS];
        let head_len = headers.write(len, &mut head);
        let total = head_len + len as usize + pad + icrc::LEN;
        let dest_qpn = headers.bth().dest_qpn;
        let lost = Self {
            skb: None,
            dest_qpn,
        };
        let Ok(mut skb) = SkBuff::alloc(BELOW, total, Gfp::ATOMIC) else {
            return Ok(lost);
        };
        let filled = skb.append(total, |room| {
            // What finds no room is missing below.
            let _ = room.write(&head[..head_len]);
            fill(room)?;
            let _ = room.write_zeros(pad + icrc::LEN);
            Ok(())
        });
        filled.unwrap_or(Ok(()))?;
        if skb.len() != total {
            return Ok(lost);
        }
        Ok(Self {
            skb: Some(skb),
            dest_qpn,
        })
    }

    /// Sends the packet, and counts it in `flight`; loopback packets are passed to `loop_back`.
    ///
    /// If that fails, the packet is lost.
    pub(crate) fn send<W: Waiter>(
        self,
        path: &mut Path,
        flight: &Arc<Flight<W>>,
        counters: &Counters,
        loop_back: impl FnOnce(u32, SkBuff),
    ) {
        let sent = self.try_send(path, flight, loop_back);
        match sent {
            Ok(bytes) => {
                counters.add(Counter::SentPackets, 1);
                counters.add(Counter::SentBytes, bytes as u64);
            }
            Err(_) => counters.add(Counter::SendError, 1),
        }
    }

    fn try_send<W: Waiter>(
        self,
        path: &mut Path,
        flight: &Arc<Flight<W>>,
        loop_back: impl FnOnce(u32, SkBuff),
    ) -> Result<usize> {
        let mut skb = self.skb.ok_or(ENOMEM)?;
        push_headers(&mut skb, path).ok_or(ENOBUFS)?;
        let bytes = skb.len();
        skb.set_owner(flight.clone())?;
        flight.count_sent(!path.loopback);
        if path.loopback {
            loop_back(self.dest_qpn.get(), skb);
            return Ok(bytes);
        }
        match path.find_route()? {
            Route::V4(route) => ip4_local_out(skb, route)?,
            Route::V6(route) => ip6_local_out(skb, route)?,
        }
        Ok(bytes)
    }
}

/// `ENOBUFS`.
const ENOBUFS: Error = kernel_ext::error::ENOBUFS;

/// Adds the UDP and IP headers, and sets the ICRC, which covers them.
fn push_headers(skb: &mut SkBuff, path: &Path) -> Option<()> {
    let length = u16::try_from(skb.len().checked_add(size_of::<UdpHeader>())?).ok()?;
    let udp = UdpHeader {
        source: Be16::new(path.source_port),
        destination: Be16::new(UDP_PORT),
        length: Be16::new(length),
        checksum: Be16::new(0),
    };
    let route = path.av.route();
    match (path.source, path.av.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let ip = Ipv4Header {
                version_ihl: Ipv4Header::VERSION_IHL,
                tos: route.traffic_class,
                total_length: Be16::new(length.checked_add(size_of::<Ipv4Header>() as u16)?),
                // An unfragmented packet needs no identification (RFC 6864).
                identification: Be16::new(0),
                fragment: Be16::new(IP_DF),
                ttl: route.hop_limit,
                protocol: IPPROTO_UDP,
                checksum: Be16::new(0),
                source: source.octets(),
                destination: destination.octets(),
            };
            if !path.loopback {
                seal_v4(skb, &ip, &udp)?;
            }
            push(skb, &udp, &ip)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let ip = Ipv6Header {
                version_class_flow: Ipv6Header::first_word(route.traffic_class, 0),
                payload_length: Be16::new(length),
                next_header: IPPROTO_UDP,
                hop_limit: route.hop_limit,
                source: source.octets(),
                destination: destination.octets(),
            };
            if !path.loopback {
                seal_v6(skb, &ip, &udp)?;
            }
            push(skb, &udp, &ip)
        }
        _ => None,
    }
}

fn push<T: AsBytes>(skb: &mut SkBuff, udp: &UdpHeader, ip: &T) -> Option<()> {
    skb.push_header(udp)?;
    skb.set_transport_header();
    skb.push_header(ip)?;
    skb.set_network_header();
    Some(())
}
