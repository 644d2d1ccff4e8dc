// SPDX-License-Identifier: GPL-2.0

//! The device: tables of its objects, its counters, the attributes of its port. All parts of the driver share it, and it
//! is generic over the queue pairs, which refer to it.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicU8, Ordering};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::{self, impl_has_work, new_work, Work, WorkItem};
use kernel_ext::deferred_drop::DeferredDrop;
use kernel_ext::net::device::NetDevice;
use kernel_ext::net::skb::SkBuff;
use kernel_ext::work;
use kernel_ext::xarray::Table;
use rdma::MaySleep;
use roce::mtu::Mtu;

use crate::ah::Ahs;
use crate::backlog::Backlog;
use crate::counters::Counters;
use crate::limits;
use crate::mcast::{Groups, Member};
use crate::mr::Mrs;
use crate::mw::Mws;
use crate::srq::Srq;

/// What the parts of the driver share of a device.
///
/// It lives as long as anyone uses it, so that the receive path finds it and works on it without
/// regard to the core's device, which it never touches.
#[pin_data]
pub(crate) struct Rxe<Q: Send + Sync + 'static> {
    /// QPs by number.
    #[pin]
    pub(crate) qps: Table<Q>,
    /// QPs that were destroyed, and that packets may still look at.
    pub(crate) old_qps: Arc<DeferredDrop<Q>>,
    /// SRQs by number.
    #[pin]
    pub(crate) srqs: Table<Srq>,
    /// Multicast groups.
    #[pin]
    pub(crate) groups: Groups<Q>,
    /// Memory regions.
    #[pin]
    pub(crate) mrs: Mrs,
    /// Memory windows.
    #[pin]
    pub(crate) mws: Mws,
    /// Address handles of user space.
    #[pin]
    pub(crate) ahs: Ahs,
    /// The port's counters.
    pub(crate) counters: Counters,
    mtu: AtomicU8,
    /// Packets to itself.
    #[pin]
    backlog: Backlog,
    /// Delivers them.
    #[pin]
    work: Work<Self>,
    bad_pkeys: AtomicU32,
    qkey_violations: AtomicU32,
    sys_image_guid: AtomicU64,
    guid: [u8; 8],
}

impl_has_work! { impl{Q: Send + Sync + 'static} HasWork<Self> for Rxe<Q> { self.work } }

impl<Q: Member + Send + Sync + 'static> Rxe<Q>
where
    Self: WorkItem<Pointer = Arc<Self>>,
{
    /// What a device on `ndev` is made of.
    pub(crate) fn new(ndev: &NetDevice) -> Result<Arc<Self>> {
        let guid = guid_of(ndev);
        let backlog = Backlog::new()?;
        let old_qps = DeferredDrop::new()?;
        Arc::pin_init(
            pin_init!(Self {
                qps <- Table::new(limits::QP_NUMBERS),
                old_qps,
                srqs <- Table::new(limits::SRQ_NUMBERS),
                groups <- Groups::new(),
                mrs <- Mrs::new(),
                mws <- Mws::new(),
                ahs <- Ahs::new(),
                counters: Counters::default(),
                mtu: AtomicU8::new(mtu_of(ndev) as u8),
                backlog <- backlog,
                work <- new_work!("Rxe::work"),
                bad_pkeys: AtomicU32::new(0),
                qkey_violations: AtomicU32::new(0),
                sys_image_guid: AtomicU64::new(u64::from_ne_bytes(guid)),
                guid,
            }),
            GFP_KERNEL,
        )
    }

    /// Lets the device receive a packet that it has sent to itself, which begins with its IP header. Softirq or
    /// process context.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` where too many wait already; the packet is lost then.
    pub(crate) fn loop_back(this: &Arc<Self>, skb: SkBuff) -> Result {
        this.backlog.push(skb)?;
        Self::deliver_soon(this);
        Ok(())
    }

    /// Lets the work item run, which delivers what was looped back. Any context.
    pub(crate) fn deliver_soon(this: &Arc<Self>) {
        work::enqueue(workqueue::system_bh(), this);
    }

    /// Stops the delivery for good and drops what waits. After the last QP was destroyed.
    pub(crate) fn stop(this: &Arc<Self>, sleep: &MaySleep) {
        DeferredDrop::flush(&this.old_qps, sleep);
        work::cancel_sync(this, sleep);
        while let Some(skb) = this.looped_back() {
            drop(skb);
        }
    }
}

impl<Q: Send + Sync + 'static> Rxe<Q> {
    /// The oldest packet that was looped back and not delivered yet.
    pub(crate) fn looped_back(&self) -> Option<SkBuff> {
        self.backlog.pop()
    }

    /// The node's GUID in the order of the wire.
    pub(crate) fn guid(&self) -> [u8; 8] {
        self.guid
    }

    /// The port's MTU, which follows the net device's. Any context.
    #[inline]
    pub(crate) fn mtu(&self) -> Mtu {
        Mtu::from_ib(self.mtu.load(Ordering::Relaxed).into()).unwrap_or(Mtu::Mtu256)
    }

    /// Takes over the MTU of the net device.
    pub(crate) fn set_mtu_of(&self, ndev: &NetDevice) {
        self.mtu.store(mtu_of(ndev) as u8, Ordering::Relaxed);
    }

    /// The system image's GUID in the order of the wire.
    pub(crate) fn sys_image_guid(&self) -> u64 {
        self.sys_image_guid.load(Ordering::Relaxed)
    }

    /// Changes the system image's GUID.
    pub(crate) fn set_sys_image_guid(&self, guid: u64) {
        self.sys_image_guid.store(guid, Ordering::Relaxed);
    }

    /// How many packets had a P_Key of another partition.
    pub(crate) fn bad_pkeys(&self) -> u32 {
        self.bad_pkeys.load(Ordering::Relaxed)
    }

    /// How many datagrams had a wrong Q_Key.
    pub(crate) fn qkey_violations(&self) -> u32 {
        self.qkey_violations.load(Ordering::Relaxed)
    }

    /// Counts them from zero again.
    pub(crate) fn reset_qkey_violations(&self) {
        self.qkey_violations.store(0, Ordering::Relaxed);
    }

    /// A datagram came with a wrong Q_Key. The counter stops at its largest value.
    pub(crate) fn count_qkey_violation(&self) {
        count(&self.qkey_violations);
    }

    /// A packet came with a P_Key of another partition. The counter stops at its largest value.
    pub(crate) fn count_bad_pkey(&self) {
        count(&self.bad_pkeys);
    }
}

/// Counts up to the largest value of a port's counter, 16 bits (IBTA vol. 1, 14.2.5.6).
fn count(counter: &AtomicU32) {
    let more = |n: u32| (n < u16::MAX.into()).then_some(n.wrapping_add(1));
    let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
}

/// The MTU that a net device's leaves when all headers have room.
fn mtu_of(ndev: &NetDevice) -> Mtu {
    Mtu::fitting(ndev.mtu().saturating_sub(limits::MAX_HEADERS)).unwrap_or(Mtu::Mtu256)
}

/// A GUID from the hardware address (EUI-64, RFC 4291, appendix A), or a random one where there is no
/// address.
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
