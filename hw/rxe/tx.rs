// SPDX-License-Identifier: GPL-2.0

//! Packets out: from headers and payload to the IP stack (annex A17 of IBTA volume 1).
//!
//! A packet is one linear buffer: room for the link's header, IP, UDP, what [`roce::wire`] writes, the
//! payload (copied from where it lies, once), pad bytes and ICRC. It leaves through the IP stack of the net
//! device's namespace. What is for a GID of the same device takes the short way: into the device's
//! [backlog](crate::backlog), without ICRC, since nothing can have changed it.
//!
//! How many packets of a QP are under way is counted by its [`Flight`]: beyond a mark the network has
//! no room, and when enough of them have left, the QP's work item runs again. Net devices and their
//! backlogs keep an order for each CPU only, so a QP moves to another CPU when all of its packets have left.

use crate::ah::Av;
use crate::counters::{Counter, Counters};
use crate::icrc::{seal_v4, seal_v6};
use crate::ids::UDP_PORT;
use crate::packet::Incoming;
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
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use rdma::MaySleep;
use roce::icrc;
use roce::wire::{pad_len, Headers, MAX_HEADERS};

/// The first of the source ports (annex A17 of IBTA volume 1 leaves them open; as in the kernel's
/// `IB_ROCE_UDP_ENCAP_VALID_PORT_MIN`).
const FIRST_SOURCE_PORT: u16 = 0xc000;

/// Room for the header of the link; a device that needs more moves the packet.
const LINK_ROOM: usize = 64;

/// Packets of a QP under way at which the network has no more room for it.
const HIGH_WATER: u32 = 64;

/// There is room again when fewer packets of a QP than that are under way.
const LOW_WATER: u32 = 17;

/// No CPU's number.
const NO_CPU: u32 = u32::MAX;

/// The flights that exist: while there are some, packets may call back into the module.
static FLIGHTS: AtomicUsize = AtomicUsize::new(0);

/// Waits until no packet is under way any more. For the end of the module, when all QPs are gone.
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
    // The last callback may not have returned yet. It may be anywhere, in a task that was preempted too.
    kernel_ext::sync::rcu::synchronize_tasks(sleep);
}

/// Who sends packets, and waits when too many of them are under way: a QP.
pub(crate) trait Waiter: Send + Sync + 'static {
    /// There is room again. Any context, with the flight's lock held.
    fn wake(this: &Arc<Self>);
}

/// Counts the packets of a QP that are under way.
///
/// Packets may outlive the QP, so they refer to this, and it refers to the QP only until [`Self::detach`].
#[pin_data(PinnedDrop)]
pub(crate) struct Flight<W> {
    count: AtomicU32,
    /// The CPU that sent the last packet, or [`NO_CPU`]. Written with the engine's lock held.
    cpu: AtomicU32,
    /// The QP waits until there are fewer packets than that; 0 when it does not wait.
    waiting: AtomicU32,
    /// Taken in any context; only the work item is queued inside.
    #[pin]
    waiter: SpinLockIrq<Option<Arc<W>>>,
}

impl<W> Flight<W> {
    /// Makes a count without a QP.
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

    /// Tells whose work item is to run when there is room.
    pub(crate) fn attach(&self, qp: &Arc<W>) {
        *self.waiter.lock() = Some(qp.clone());
    }

    /// Forgets the QP: its work item is not queued from here any more.
    pub(crate) fn detach(&self) {
        let qp = self.waiter.lock().take();
        drop(qp);
    }

    /// Whether one more packet may be sent; if not, the QP's work item runs when it may. With the engine's
    /// lock held, which keeps the CPU.
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
        // Packets that left before the line above did not see it.
        if self.count.load(Ordering::SeqCst) >= resume_below {
            return false;
        }
        self.waiting.store(0, Ordering::SeqCst);
        true
    }

    /// One more packet is on its way, through a net device or not.
    fn departs(&self, through_net_device: bool) {
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

/// Where packets go: an address vector and what was found out about it.
pub(crate) struct Path {
    av: Arc<Av>,
    source: IpAddr,
    source_port: u16,
    /// The destination is the same device.
    loopback: bool,
    route: Option<Route>,
}

/// The source port that spreads flows: from the flow label, or else from both QPs' numbers, so that
/// both directions of a connection have the same (`rdma_get_udp_sport`).
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
    /// Makes the path that `av` names, for packets from one QP to another. Any context.
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

    /// Lets go of the route that was found.
    ///
    /// A route keeps its namespace from going away. A program's QPs may keep theirs, since the program goes
    /// first; but those of kernel consumers end only when their namespace does.
    pub(crate) fn forget_route(&mut self) {
        self.route = None;
    }

    /// Whether this is the path of `av`.
    pub(crate) fn is_to(&self, av: &Arc<Av>) -> bool {
        Arc::ptr_eq(&self.av, av)
    }

    /// Whether a packet has come from this path's destination to its source.
    pub(crate) fn is_from_peer(&self, incoming: &Incoming<'_>) -> bool {
        incoming.destination() == self.source && incoming.source() == self.av.destination
    }

    /// Makes sure that there is a valid route, if one can be found.
    ///
    /// A multicast route tells whether the host has joined the group, so it is found anew for each packet.
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

/// A packet without IP and UDP headers; `None` where there was no memory for it.
pub(crate) struct Packet(Option<SkBuff>);

impl Packet {
    /// Makes a packet of `headers` and `len` bytes that `fill` writes.
    ///
    /// # Errors
    ///
    /// What `fill` says. Without memory the packet is lost.
    #[inline]
    pub(crate) fn build<E>(
        headers: &Headers,
        len: u32,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        const BELOW: usize = LINK_ROOM + size_of::<Ipv6Header>() + size_of::<UdpHeader>();
        let pad = pad_len(len);
        let mut head = [0; MAX_HEADERS];
        let head_len = headers.write(len, &mut head);
        let total = head_len + len as usize + pad + icrc::LEN;
        let Ok(mut skb) = SkBuff::alloc(BELOW, total, Gfp::ATOMIC) else {
            return Ok(Self(None));
        };
        let Some(bytes) = skb.put(total) else {
            return Ok(Self(None));
        };
        let (front, rest) = bytes.split_at_mut(head_len);
        let (payload, tail) = rest.split_at_mut(len as usize);
        front.copy_from_slice(&head[..head_len]);
        fill(payload)?;
        tail.fill(0);
        Ok(Self(Some(skb)))
    }

    /// Sends the packet, and counts it as one of `flight`; what is for the device itself goes to `loop_back`.
    ///
    /// One that cannot be sent is lost.
    pub(crate) fn send<W: Waiter>(
        self,
        path: &mut Path,
        flight: &Arc<Flight<W>>,
        counters: &Counters,
        loop_back: impl FnOnce(SkBuff) -> Result,
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
        loop_back: impl FnOnce(SkBuff) -> Result,
    ) -> Result<usize> {
        let mut skb = self.0.ok_or(ENOMEM)?;
        push_headers(&mut skb, path).ok_or(ENOBUFS)?;
        let bytes = skb.len();
        skb.set_owner(flight.clone())?;
        flight.departs(!path.loopback);
        if path.loopback {
            loop_back(skb)?;
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

/// Puts UDP and IP header before a packet, and fills in its ICRC, which covers them.
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
                // What is not fragmented needs no identification (RFC 6864).
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
