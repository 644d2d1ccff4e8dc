// SPDX-License-Identifier: GPL-2.0

//! Data of a device that all parts of the driver share: tables of its objects, and its ports. It is generic over the queue pairs,
//! which refer to it.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use kernel::prelude::*;
use kernel::sync::{rcu, Arc};
use kernel_ext::deferred_drop::DeferredDrop;
use kernel_ext::net::device::NetDevice;
use kernel_ext::net::packet_pages::PacketPages;
use kernel_ext::net::skb::SkBuff;
use kernel_ext::xarray::Table;
use rdma::abi::ah::AhFields;
use rdma::MaySleep;
use roce::pkey::Pkey;

use crate::ah::{Ahs, Av};
use crate::backlog::{Next, Origin, Waiting};
use crate::dm::Pool;
use crate::fault_inject::FaultInject;
use crate::ids::place;
use crate::limits;
use crate::mcast::Member;
use crate::mr::{Mrs, Prefetches};
use crate::mw::Mws;
use crate::pkeys::{Partition, PkeyIndex};
use crate::port::Port;
use crate::port_id::PortId;
use crate::srq::Srq;

/// Data of a device that all parts of the driver share.
///
/// It is reference counted, so that the receive path uses it independently of the lifetime of `struct ib_device`, which
/// it never accesses.
#[pin_data]
pub(crate) struct Rxe<Q: Send + Sync + 'static> {
    /// QPs, by their [place].
    #[pin]
    pub(crate) qps: Table<Q>,
    /// Destroyed QPs that packets may still refer to.
    pub(crate) old_qps: Arc<DeferredDrop<Q>>,
    /// SRQs, by number.
    #[pin]
    pub(crate) srqs: Table<Srq>,
    /// Memory regions.
    #[pin]
    pub(crate) mrs: Mrs,
    /// Memory of the device that programs may allocate.
    pub(crate) memory: Arc<Pool>,
    /// Advice about them that is not executed yet.
    pub(crate) prefetches: Arc<Prefetches>,
    /// Memory windows.
    #[pin]
    pub(crate) mws: Mws,
    /// User address handles.
    #[pin]
    pub(crate) ahs: Ahs,
    /// Memory for packets that are sent in one buffer.
    pub(crate) pages: PacketPages,
    /// The number of the counter for queue pairs that was made last.
    pub(crate) last_counter: AtomicU32,
    /// The fault that is injected into send requests.
    #[pin]
    pub(crate) fault_inject: FaultInject,
    keeps_routes: AtomicBool,
    sys_image_guid: AtomicU64,
    guid: [u8; 8],
    #[pin]
    first: Port<Q>,
    second: Option<Arc<Port<Q>>>,
    /// The index of the second port's net device; 0 without a second port.
    second_ifindex: u32,
}

impl<Q: Member + Send + Sync + 'static> Rxe<Q> {
    /// Creates the data of a device with a port on `ndev`, and another one on `second`, if there is that.
    pub(crate) fn new(ndev: &NetDevice, second: Option<&NetDevice>) -> Result<Arc<Self>> {
        let guid = guid_of(ndev);
        let second_ifindex = second.map_or(0, NetDevice::index);
        let second = second.map(|ndev| Arc::pin_init(Port::new(ndev), GFP_KERNEL));
        let second = second.transpose()?;
        let old_qps = DeferredDrop::new()?;
        let memory = Pool::new()?;
        let prefetches = Prefetches::new()?;
        let pages = PacketPages::new()?;
        Arc::pin_init(
            try_pin_init!(Self {
                qps <- Table::new(limits::QP_NUMBERS),
                old_qps,
                srqs <- Table::new(limits::SRQ_NUMBERS),
                mrs <- Mrs::new(),
                memory,
                prefetches,
                mws <- Mws::new(),
                ahs <- Ahs::new(),
                pages,
                last_counter: AtomicU32::new(0),
                fault_inject <- FaultInject::new(),
                keeps_routes: AtomicBool::new(true),
                sys_image_guid: AtomicU64::new(u64::from_ne_bytes(guid)),
                guid,
                first <- Port::new(ndev),
                second,
                second_ifindex,
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a packet that stays within a port to the backlog of its destination QP, which runs in its work item, or as `next`.
    /// Softirq or process context, also with locks of the sender held.
    pub(crate) fn loop_back(&self, port: PortId, qpn: u32, skb: SkBuff, next: &mut Next) {
        let guard = rcu::read_lock();
        if let Some(qp) = self.qps.get(place(qpn, port), &guard) {
            let origin = Origin::Own(port);
            Q::enqueue(qp, Waiting { skb, origin }, Some(next));
        }
    }

    /// Waits until the destroyed QPs are freed, and for work items. Called after the last object was destroyed.
    pub(crate) fn stop(&self, sleep: &MaySleep) {
        Prefetches::stop(&self.prefetches, sleep);
        DeferredDrop::flush(&self.old_qps, sleep);
    }
}

impl<Q: Send + Sync + 'static> Rxe<Q> {
    /// The node GUID, in network byte order.
    pub(crate) fn guid(&self) -> [u8; 8] {
        self.guid
    }

    /// A port; the first one, if the device has no other.
    #[inline]
    pub(crate) fn port(&self, id: PortId) -> &Port<Q> {
        match (id, &self.second) {
            (PortId::Second, Some(second)) => second,
            _ => &self.first,
        }
    }

    /// The port with a number; `None` if the device has none.
    #[inline]
    pub(crate) fn port_id(&self, number: u32) -> Option<PortId> {
        PortId::of(number).filter(|&id| id == PortId::First || self.second.is_some())
    }

    /// The ports of the device.
    pub(crate) fn ports(&self) -> &'static [PortId] {
        match self.second {
            Some(_) => &PortId::ALL,
            None => &[PortId::First],
        }
    }

    /// The port of a net device of this device, by its index.
    #[inline]
    pub(crate) fn port_on(&self, ifindex: u32) -> PortId {
        match ifindex == self.second_ifindex {
            true => PortId::Second,
            false => PortId::First,
        }
    }

    /// The entry of a P_Key table; `None` beyond it.
    #[inline]
    fn pkey(&self, place: PkeyIndex) -> Option<Pkey> {
        self.port(place.port).pkeys.get(place.index)
    }

    /// The P_Key of packets that a queue pair of a partition sends.
    #[inline]
    pub(crate) fn pkey_of(&self, partition: Partition) -> Pkey {
        let place = match partition {
            Partition::Entry(place) | Partition::Either(place, _) => place,
            Partition::Any(port) => PkeyIndex { port, index: 0 },
        };
        self.pkey(place).unwrap_or_default()
    }

    /// Whether a queue pair of a partition takes packets with a P_Key.
    #[inline]
    pub(crate) fn admits(&self, partition: Partition, pkey: Pkey) -> bool {
        let admits = |place| self.pkey(place).is_some_and(|own| own.admits(pkey));
        match partition {
            Partition::Entry(place) => admits(place),
            Partition::Either(one, other) => admits(one) || admits(other),
            Partition::Any(port) => self.port(port).pkeys.index_of(pkey).is_some(),
        }
    }

    /// Whether QPs may keep the routes to their peers.
    #[inline]
    pub(crate) fn keeps_routes(&self) -> bool {
        self.keeps_routes.load(Ordering::Relaxed)
    }

    /// From now on, QPs may not keep routes.
    pub(crate) fn stop_keeping_routes(&self) {
        self.keeps_routes.store(false, Ordering::Relaxed);
    }

    /// The system image GUID, in network byte order.
    pub(crate) fn sys_image_guid(&self) -> u64 {
        self.sys_image_guid.load(Ordering::Relaxed)
    }

    /// Sets the system image GUID.
    pub(crate) fn set_sys_image_guid(&self, guid: u64) {
        self.sys_image_guid.store(guid, Ordering::Relaxed);
    }

    /// The address vector of a datagram whose work request has the destination instead of an address handle. `None` for a
    /// port that there is not, a source that is not in the GID table, or if memory is short. Softirq or process context.
    pub(crate) fn av(&self, fields: AhFields) -> Option<Arc<Av>> {
        let port = self.port(self.port_id(fields.port_num)?);
        let source = port.addresses.entry(fields.grh?.sgid_index.into())?;
        Av::between(source, fields).ok()
    }
}

/// A GUID from the MAC address (EUI-64, RFC 4291, appendix A), or a random one without a MAC address.
fn guid_of(ndev: &NetDevice) -> [u8; 8] {
    let mut mac = ndev.address();
    if mac == [0; 6] && !ndev.is_loopback() {
        kernel_ext::random::fill(&mut mac);
        // Locally administered, not a multicast address.
        mac[0] = mac[0] & 0xfe | 0x02;
    }
    let [a, b, c, d, e, f] = mac;
    [a ^ 0x02, b, c, 0xff, 0xfe, d, e, f]
}
