// SPDX-License-Identifier: GPL-2.0

//! What the parts of the driver share of a device: its tables and its counters.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicU8, Ordering};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::{impl_has_work, new_work, Work};
use kernel_ext::net::device::NetDevice;
use kernel_ext::xarray::Table;
use roce::mtu::Mtu;

use crate::ah::Ahs;
use crate::counters::Counters;
use crate::limits;
use crate::mcast::Groups;
use crate::mr::Mrs;
use crate::mw::Mws;
use crate::qp;
use crate::rx::Backlog;
use crate::srq::Srq;

/// Which protection domain: equal for equal ones, and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdId(u64);

impl PdId {
    /// The number.
    pub(crate) fn into_raw(self) -> u64 {
        self.0
    }

    /// The protection domain of a number that [`Self::into_raw`] gave.
    pub(crate) fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Another one.
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }
}

/// What the parts of the driver share of a device.
///
/// It lives as long as anyone uses it, so that the receive path finds it and works on it without
/// regard to the core's device, which it never touches.
#[pin_data]
pub(crate) struct Rxe {
    /// QPs by number.
    #[pin]
    pub(crate) qps: Table<qp::Qp>,
    /// SRQs by number.
    #[pin]
    pub(crate) srqs: Table<Srq>,
    /// Multicast groups.
    #[pin]
    pub(crate) groups: Groups,
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
    pub(crate) backlog: Backlog,
    /// Delivers them.
    #[pin]
    work: Work<Self>,
    bad_pkeys: AtomicU32,
    qkey_violations: AtomicU32,
    sys_image_guid: AtomicU64,
    guid: [u8; 8],
}

impl_has_work! { impl HasWork<Self> for Rxe { self.work } }

impl Rxe {
    /// What a device on `ndev` is made of.
    pub(crate) fn new(ndev: &NetDevice) -> Result<Arc<Self>> {
        let guid = guid_of(ndev);
        let backlog = Backlog::new()?;
        Arc::pin_init(
            pin_init!(Self {
                qps <- Table::new(limits::QP_NUMBERS),
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
