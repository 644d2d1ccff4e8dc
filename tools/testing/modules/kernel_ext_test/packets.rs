// SPDX-License-Identifier: GPL-2.0

//! Packets over the loopback device: built, sent, received by a tunnel's socket, and accounted for.

use super::*;
use core::num::NonZeroU16;
use kernel::page::PAGE_SIZE;
use kernel_ext::{
    error::EADDRINUSE,
    gfp::Gfp,
    net::{
        device::NetDevice,
        header::{Be16, IpHeader, Ipv4Header, Ipv6Header, UdpHeader, IPPROTO_UDP, IP_DF},
        notifier,
        ns::NetNamespace,
        packet_pages::PacketPages,
        route::{Flow4, Flow6, Route4, Route6},
        segments::PagedSkb,
        skb::{InFlight, SkBuff},
        skb_list::SkbList,
        udp_tunnel::{self, IpVersion, Receive, UdpSocket},
        xmit::{ip4_local_out, ip6_local_out},
    },
    room::Room,
};

const PORT: u16 = 4791;
const SOURCE_PORT: u16 = 50_000;
const LOCAL4: [u8; 4] = [127, 0, 0, 1];
const LOCAL6: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const PAYLOAD: &[u8] = b"a payload";
const UDP_LEN: u16 = (size_of::<UdpHeader>() + PAYLOAD.len()) as u16;

static RECEIVED: AtomicUsize = AtomicUsize::new(0);
static RELEASED: AtomicUsize = AtomicUsize::new(0);
/// Packets of several datagrams that the receiver was offered, and did not take.
static WHOLE: AtomicUsize = AtomicUsize::new(0);
static EVENTS: AtomicUsize = AtomicUsize::new(0);

/// Counts the packets that arrive unchanged.
struct Receiver;

impl Receive for Receiver {
    fn receive(_this: &Self, packet: SkBuff, device: &NetDevice) {
        if is_intact(&packet) && device.is_loopback() {
            RECEIVED.fetch_add(1, SeqCst);
        }
        packet.consume();
    }

    fn takes_whole(_this: &Self, packet: &SkBuff, payload: usize) -> bool {
        let mut copied = [0; PAYLOAD.len()];
        let begins = packet.copy_bits(payload, &mut copied).is_ok() && copied == PAYLOAD;
        WHOLE.fetch_add(usize::from(begins), SeqCst);
        false
    }
}

fn is_intact(packet: &SkBuff) -> bool {
    let addresses_fit = match packet.ip_header() {
        Some(IpHeader::V4(ip)) => (ip.source, ip.destination, ip.tos) == (LOCAL4, LOCAL4, 0x20),
        Some(IpHeader::V6(ip)) => ip.destination == LOCAL6 && ip.traffic_class() == 0x20,
        None => false,
    };
    let udp = packet.udp_header().unwrap_or_default();
    let (mut copied, mut walked, mut at) = ([0; PAYLOAD.len()], [0; PAYLOAD.len()], 0);
    let mut is_copied = true;
    let is_read = packet
        .copy_bits(size_of::<UdpHeader>(), &mut copied)
        .is_ok()
        && packet
            .for_each_piece(size_of::<UdpHeader>(), PAYLOAD.len(), |bytes| {
                let end = bytes.len().saturating_add(at);
                if let Some(place) = walked.get_mut(at..end) {
                    is_copied &= bytes.copy_to(place).is_ok();
                }
                at = end;
            })
            .is_ok();
    addresses_fit
        && is_read
        && (udp.source.get(), udp.destination.get(), udp.length.get())
            == (SOURCE_PORT, PORT, UDP_LEN)
        && copied == PAYLOAD
        && is_copied
        && walked == PAYLOAD
        && packet.copy_bits(packet.len(), &mut copied) == Err(EINVAL)
}

impl InFlight for Object {
    fn released(_this: Arc<Self>, segments: u32) {
        RELEASED.fetch_add(segments as usize, SeqCst);
    }
}

struct Listener;

impl notifier::Listener for Listener {
    fn event(&self, _device: &NetDevice, _event: notifier::Event, _may_sleep: &MaySleep) {
        EVENTS.fetch_add(1, SeqCst);
    }
}

/// Puts a UDP header in front of a payload.
fn push_udp(packet: &mut SkBuff) -> Result {
    let udp = UdpHeader {
        source: Be16::new(SOURCE_PORT),
        destination: Be16::new(PORT),
        length: Be16::new((size_of::<UdpHeader>() + packet.len()) as u16),
        checksum: Be16::default(),
    };
    packet.push_header(&udp).ok_or(ENOMEM)?;
    packet.set_transport_header();
    Ok(())
}

/// Puts an IPv4 header in front of a packet of UDP.
fn push_ip4(packet: &mut SkBuff) -> Result {
    let ip = Ipv4Header {
        version_ihl: Ipv4Header::VERSION_IHL,
        tos: 0x20,
        fragment: Be16::new(IP_DF),
        ttl: 64,
        protocol: IPPROTO_UDP,
        source: LOCAL4,
        destination: LOCAL4,
        ..Ipv4Header::default()
    };
    packet.push_header(&ip).ok_or(ENOMEM)?;
    packet.set_network_header();
    Ok(())
}

/// Puts an IPv6 header in front of a packet of UDP.
fn push_ip6(packet: &mut SkBuff) -> Result {
    let ip = Ipv6Header {
        version_class_flow: Ipv6Header::first_word(0x20, 0),
        next_header: IPPROTO_UDP,
        hop_limit: 64,
        source: LOCAL6,
        destination: LOCAL6,
        ..Ipv6Header::default()
    };
    packet.push_header(&ip).ok_or(ENOMEM)?;
    packet.set_network_header();
    Ok(())
}

/// Returns a packet of UDP without an IP header.
fn udp_packet() -> Result<SkBuff> {
    let mut packet = SkBuff::alloc(128, 64, Gfp::ATOMIC)?;
    packet.put_slice(PAYLOAD).ok_or(ENOMEM)?;
    push_udp(&mut packet)?;
    Ok(packet)
}

fn packet4() -> Result<SkBuff> {
    let mut packet = udp_packet()?;
    push_ip4(&mut packet)?;
    Ok(packet)
}

fn packet6() -> Result<SkBuff> {
    let mut packet = udp_packet()?;
    push_ip6(&mut packet)?;
    Ok(packet)
}

fn routes(net: &NetNamespace, device: u32) -> Result<(Route4, Route6)> {
    let four = Flow4 {
        device,
        source: LOCAL4,
        destination: LOCAL4,
        tos: 0x20,
        source_port: SOURCE_PORT,
        destination_port: PORT,
    };
    let six = Flow6 {
        device,
        source: LOCAL6,
        destination: LOCAL6,
        traffic_class: 0x20,
        source_port: SOURCE_PORT,
        destination_port: PORT,
    };
    Ok((Route4::lookup(net, &four)?, Route6::lookup(net, &six)?))
}

/// The operations that a packet rejects.
fn limits() -> Result {
    let mut packet = packet4()?;
    check!(packet.append(1 << 20, |_| ()).is_none() && packet.push_slice(&[0; 256]).is_none());
    check!(packet.append(8, |room| room.write(&[0; 9])) == Some(Err(EINVAL)));
    let len = packet.len();
    check!(packet.append(8, |room| room.write(&[1; 3])) == Some(Ok(())) && packet.len() == len + 3);
    check!(packet
        .append(8, |room| *room = Room::new(&mut []))
        .is_none());
    check!(packet.pull(packet.len() + 1).is_none() && packet.ensure_linear(1 << 16).is_err());
    check!(SkBuff::alloc(usize::MAX, 1, Gfp::ATOMIC).is_err());
    let copy = packet.try_clone(Gfp::ATOMIC)?;
    check!(!copy.is_writable() && packet.push_slice(&[0]).is_none() && packet.data_mut().is_none());
    check!(packet.set_owner(Object::new(0)?) == Err(EBUSY));
    drop(copy);
    check!(packet.is_writable() && packet.data_mut().is_some());

    let len = packet.len();
    let mut list = SkbList::new();
    list.push_back(packet);
    list.push_back(packet6()?);
    check!(list.len() == 2);
    check!(list.pop_front().map(|packet| packet.len()) == Some(len));
    list.push_back(packet4()?);
    check!(list.pop_front().map(|packet| packet.len()) == Some(40 + usize::from(UDP_LEN)));
    check!(list.len() == 1 && !list.is_empty());
    check!(list.pop_front().map(|packet| packet.len()) == Some(20 + usize::from(UDP_LEN)));
    check!(list.pop_front().is_none() && list.is_empty());
    Ok(())
}

/// Puts the payload three times into pages.
fn three_payloads(pages: &PacketPages) -> Result<SkBuff> {
    const LEN: usize = PAYLOAD.len();
    let gfp = Gfp::ATOMIC;
    let mut packet = PagedSkb::alloc(128, 2 * LEN, gfp)?;
    check!(packet.is_empty());
    let lacking = |room: &mut Room<'_>| room.write(&PAYLOAD[1..]);
    let failing = |_: &mut Room<'_>| Err(EIO);
    for count in 0..3 {
        check!(packet.len() == count * LEN);
        // Nothing is added where not all bytes are written.
        check!(packet.append(LEN, pages, gfp, lacking).is_none());
        check!(packet.append(LEN, pages, gfp, failing) == Some(Err(EIO)));
        let written = packet.append(LEN, pages, gfp, |room| room.write(PAYLOAD));
        check!(written == Some(Ok(())));
    }
    check!(packet.append(0, pages, gfp, |_| Ok::<(), Error>(())) == Some(Ok(())));
    Ok(packet.finish())
}

/// A packet with so many pieces of `LEN` bytes, all of one value.
fn pieces<const LEN: usize>(pages: &PacketPages, value: u8, count: usize) -> Result<SkBuff> {
    let mut packet = PagedSkb::alloc(0, 1, Gfp::ATOMIC)?;
    for _ in 0..count {
        let written = packet.append(LEN, pages, Gfp::ATOMIC, |room| {
            while room.left() != 0 {
                let bytes = [value; 64];
                room.write(bytes.get(..room.left()).unwrap_or(&bytes))?;
            }
            Ok::<(), Error>(())
        });
        written.ok_or(EINVAL)??;
    }
    check!(packet.len() == count * LEN);
    Ok(packet.finish())
}

/// The address of the first byte of a packet in pages.
fn address(packet: &SkBuff) -> Result<*const u8> {
    let mut address = core::ptr::null();
    packet.for_each_piece(0, 1, |bytes| address = bytes.as_ptr())?;
    Ok(address)
}

/// Whether all bytes of a packet have a value.
fn has_only(packet: &SkBuff, value: u8) -> bool {
    let mut copy = [0; 64];
    (0..packet.len()).step_by(copy.len()).all(|at| {
        let len = packet.len().wrapping_sub(at).min(copy.len());
        let Some(copy) = copy.get_mut(..len) else {
            return false;
        };
        packet.copy_bits(at, copy).is_ok() && copy.iter().all(|byte| *byte == value)
    })
}

/// Pages are used again when no packet refers to them any more, and only then.
fn pages() -> Result {
    const LEN: usize = 3000;
    const BLOCK: usize = PAGE_SIZE << 3;
    let pages = PacketPages::new()?;
    let first = pieces::<LEN>(&pages, 1, 20)?;
    let place = address(&first)?;
    let mut held = KVec::new();
    for value in 2..=60 {
        held.push(pieces::<LEN>(&pages, value, 10)?, GFP_KERNEL)?;
    }
    // Not what is in use, also by a clone.
    let copy = first.try_clone(Gfp::ATOMIC)?;
    drop(first);
    check!(has_only(&copy, 1));
    for (packet, value) in held.iter().zip(2..) {
        check!(has_only(packet, value));
        check!(address(packet)? != place);
    }
    drop(held);
    drop(copy);
    // One packet after the other has the same places.
    let again = |value| {
        let packet = pieces::<BLOCK>(&pages, value, 1)?;
        check!(has_only(&packet, value));
        address(&packet)
    };
    let mut places = KVec::new();
    for value in 100..132 {
        let place = again(value)?;
        if !places.contains(&place) {
            places.push(place, GFP_KERNEL)?;
        }
    }
    // Each CPU has its own.
    check!(places.len() <= kernel::cpu::nr_cpu_ids() as usize);
    // More than a block, and more fragments than a packet may have.
    check!(pieces::<{ BLOCK / 2 + 1 }>(&pages, 1, 16).is_ok());
    check!(pieces::<{ BLOCK / 2 + 1 }>(&pages, 1, 18).is_err());
    let mut packet = PagedSkb::alloc(0, 1, Gfp::ATOMIC)?;
    let long = packet.append(BLOCK + 1, &pages, Gfp::ATOMIC, |_| Ok::<(), Error>(()));
    check!(long.is_none() && packet.finish().is_empty());
    Ok(())
}

/// Waits until as many packets have arrived and been freed, and a little longer: more would be wrong.
fn arrive(count: usize, may_sleep: &MaySleep) -> Result {
    for _ in 0..50 {
        pause(100, may_sleep)?;
        if RECEIVED.load(SeqCst) >= count && LIVE.load(SeqCst) == 0 {
            break;
        }
    }
    Ok(())
}

/// Sends three datagrams in one packet, by IPv4 and IPv6.
fn segmented(route4: &Route4, route6: &Route6) -> Result {
    const SIZE: NonZeroU16 = NonZeroU16::new(PAYLOAD.len() as u16).unwrap();
    let pages = PacketPages::new()?;
    for six in [false, true] {
        let mut packet = three_payloads(&pages)?;
        check!(packet.segment_udp(SIZE) == Err(EINVAL));
        push_udp(&mut packet)?;
        if six {
            push_ip6(&mut packet)?;
        } else {
            push_ip4(&mut packet)?;
        }
        check!(packet.segments() == 1 && packet.segment_size().is_none());
        check!(packet.segment_udp(NonZeroU16::MAX) == Err(EINVAL));
        packet.segment_udp(SIZE)?;
        check!(packet.segments() == 3 && packet.segment_size() == Some(SIZE));
        packet.set_owner(Object::new(0)?)?;
        if six {
            ip6_local_out(packet, route6)?;
        } else {
            ip4_local_out(packet, route4)?;
        }
    }
    Ok(())
}

pub(super) fn test(may_sleep: &MaySleep) -> Result {
    let net = NetNamespace::init();
    let _sockets = udp_tunnel::Registration::new(may_sleep)?;
    let listener = notifier::Registration::new(Listener, may_sleep)?;
    // The registration reports the loopback device as registered and as up.
    check!(EVENTS.load(SeqCst) >= 2);
    let lo = NetDevice::by_name(net, c"lo").ok_or(ENODEV)?;
    let receiver = Arc::new(Receiver, GFP_KERNEL)?;
    let open = |version| UdpSocket::open(net, version, PORT, true, receiver.clone(), may_sleep);
    let (v4, v6) = (open(IpVersion::V4)?, open(IpVersion::V6)?);
    check!(open(IpVersion::V6).err() == Some(EADDRINUSE));

    let (route4, route6) = routes(net, lo.index())?;
    check!(route4.is_valid() && route6.is_valid());
    for _ in 0..10 {
        let (mut four, mut six, owner) = (packet4()?, packet6()?, Object::new(0)?);
        four.set_owner(owner.clone())?;
        six.set_owner(owner)?;
        ip4_local_out(four, &route4)?;
        ip6_local_out(six, &route6)?;
    }
    check!(ip4_local_out(packet6()?, &route4) == Err(EINVAL));
    limits()?;
    pages()?;
    arrive(20, may_sleep)?;
    check!(RECEIVED.load(SeqCst) == 20 && RELEASED.load(SeqCst) == 20 && LIVE.load(SeqCst) == 0);
    segmented(&route4, &route6)?;
    arrive(26, may_sleep)?;
    // Each of the two was offered whole, and came as three datagrams.
    check!(WHOLE.load(SeqCst) == 2 && RECEIVED.load(SeqCst) == 26);
    check!(RELEASED.load(SeqCst) == 26 && LIVE.load(SeqCst) == 0);

    drop((v4, v6, route4, route6, lo, listener));
    check!(Arc::into_unique_or_drop(receiver).is_some());
    Ok(())
}
