// SPDX-License-Identifier: GPL-2.0

//! Data of a device that all parts of the driver share: tables of its objects, counters, attributes of its port. It is
//! generic over the queue pairs, which refer to it.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};
use kernel::prelude::*;
use kernel::sync::{rcu, Arc};
use kernel_ext::bindings::IB_PORT_CM_SUP;
use kernel_ext::deferred_drop::DeferredDrop;
use kernel_ext::net::device::NetDevice;
use kernel_ext::net::packet_pages::PacketPages;
use kernel_ext::net::skb::SkBuff;
use kernel_ext::xarray::Table;
use rdma::abi::ah::AhFields;
use rdma::MaySleep;
use roce::mtu::Mtu;

use crate::addresses::Addresses;
use crate::ah::{Ahs, Av};
use crate::backlog::{Next, Origin, Waiting};
use crate::counters::PortCounters;
use crate::ids::PORT;
use crate::limits;
use crate::mcast::{Groups, Member};
use crate::mr::{Mrs, Prefetches};
use crate::mw::Mws;
use crate::pkeys::Pkeys;
use crate::srq::Srq;

/// Data of a device that all parts of the driver share.
///
/// It is reference counted, so that the receive path uses it independently of the lifetime of `struct ib_device`, which
/// it never accesses.
#[pin_data]
pub(crate) struct Rxe<Q: Send + Sync + 'static> {
    /// QPs, by number.
    #[pin]
    pub(crate) qps: Table<Q>,
    /// Destroyed QPs that packets may still refer to.
    pub(crate) old_qps: Arc<DeferredDrop<Q>>,
    /// SRQs, by number.
    #[pin]
    pub(crate) srqs: Table<Srq>,
    /// Multicast groups.
    #[pin]
    pub(crate) groups: Groups<Q>,
    /// Memory regions.
    #[pin]
    pub(crate) mrs: Mrs,
    /// Advice about them that is not executed yet.
    pub(crate) prefetches: Arc<Prefetches>,
    /// Memory windows.
    #[pin]
    pub(crate) mws: Mws,
    /// User address handles.
    #[pin]
    pub(crate) ahs: Ahs,
    /// The addresses that datagrams are accepted for.
    #[pin]
    pub(crate) addresses: Addresses,
    /// The P_Key table of the port.
    pub(crate) pkeys: Pkeys,
    /// Hardware counters of the port.
    #[pin]
    pub(crate) counters: PortCounters,
    /// Memory for packets that are sent in one buffer.
    pub(crate) pages: PacketPages,
    mtu: AtomicU8,
    keeps_routes: AtomicBool,
    bad_pkeys: AtomicU32,
    qkey_violations: AtomicU32,
    capabilities: AtomicU32,
    sys_image_guid: AtomicU64,
    guid: [u8; 8],
}

impl<Q: Member + Send + Sync + 'static> Rxe<Q> {
    /// Creates the data of a device on `ndev`.
    pub(crate) fn new(ndev: &NetDevice) -> Result<Arc<Self>> {
        let guid = guid_of(ndev);
        let old_qps = DeferredDrop::new()?;
        let prefetches = Prefetches::new()?;
        let pages = PacketPages::new()?;
        Arc::pin_init(
            try_pin_init!(Self {
                qps <- Table::new(limits::QP_NUMBERS),
                old_qps,
                srqs <- Table::new(limits::SRQ_NUMBERS),
                groups <- Groups::new(),
                mrs <- Mrs::new(),
                prefetches,
                mws <- Mws::new(),
                ahs <- Ahs::new(),
                addresses <- Addresses::new(),
                pkeys: Pkeys::new(),
                counters <- PortCounters::new(),
                pages,
                mtu: AtomicU8::new(mtu_of(ndev) as u8),
                keeps_routes: AtomicBool::new(true),
                bad_pkeys: AtomicU32::new(0),
                qkey_violations: AtomicU32::new(0),
                capabilities: AtomicU32::new(IB_PORT_CM_SUP),
                sys_image_guid: AtomicU64::new(u64::from_ne_bytes(guid)),
                guid,
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a packet of the device to the backlog of its destination QP of the device, which runs in its work item, or as `next`.
    /// Softirq or process context, also with locks of the sender held.
    pub(crate) fn loop_back(&self, qpn: u32, skb: SkBuff, next: &mut Next) {
        let guard = rcu::read_lock();
        if let Some(qp) = self.qps.get(qpn, &guard) {
            let origin = Origin::Own;
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

    /// The port's MTU, derived from the net device's. Any context.
    #[inline]
    pub(crate) fn mtu(&self) -> Mtu {
        Mtu::from_ib(self.mtu.load(Ordering::Relaxed).into()).unwrap_or(Mtu::Mtu256)
    }

    /// Updates the MTU from the net device.
    pub(crate) fn set_mtu_of(&self, ndev: &NetDevice) {
        self.mtu.store(mtu_of(ndev) as u8, Ordering::Relaxed);
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

    /// The address vector of a datagram whose work request has the destination instead of an address handle. `None` for another
    /// port, a source that is not in the GID table, or if memory is short. Softirq or process context.
    pub(crate) fn av(&self, fields: AhFields) -> Option<Arc<Av>> {
        let route = fields.grh.filter(|_| fields.port_num == PORT)?;
        let source = self.addresses.entry(route.sgid_index.into())?;
        Av::between(source, fields).ok()
    }

    /// Number of packets with a wrong P_Key.
    pub(crate) fn bad_pkeys(&self) -> u32 {
        self.bad_pkeys.load(Ordering::Relaxed)
    }

    /// What the port announces: `enum ib_port_capability_mask_bits`.
    pub(crate) fn capabilities(&self) -> u32 {
        self.capabilities.load(Ordering::Relaxed)
    }

    /// Announces some more capabilities, and some no more.
    pub(crate) fn announce(&self, set: u32, clear: u32) {
        self.capabilities.fetch_or(set, Ordering::Relaxed);
        self.capabilities.fetch_and(!clear, Ordering::Relaxed);
    }

    /// Number of datagrams with a wrong Q_Key.
    pub(crate) fn qkey_violations(&self) -> u32 {
        self.qkey_violations.load(Ordering::Relaxed)
    }

    /// Resets the counter of datagrams with a wrong Q_Key.
    pub(crate) fn reset_qkey_violations(&self) {
        self.qkey_violations.store(0, Ordering::Relaxed);
    }

    /// Counts a datagram with a wrong Q_Key. The counter saturates.
    pub(crate) fn count_qkey_violation(&self) {
        count(&self.qkey_violations, 1);
    }

    /// Counts packets with a wrong P_Key. The counter saturates.
    #[cold]
    pub(crate) fn count_bad_pkeys(&self, n: u32) {
        count(&self.bad_pkeys, n);
    }
}

/// Adds to a 16-bit port counter, which saturates (IBTA vol. 1, 14.2.5.6).
fn count(counter: &AtomicU32, by: u32) {
    let more = |n: u32| Some(n.saturating_add(by).min(u16::MAX.into()));
    let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
}

/// The largest MTU that fits into a net device's MTU with all headers.
fn mtu_of(ndev: &NetDevice) -> Mtu {
    Mtu::fitting(ndev.mtu().saturating_sub(limits::MAX_HEADERS)).unwrap_or(Mtu::Mtu256)
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
