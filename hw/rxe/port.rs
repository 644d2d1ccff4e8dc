// SPDX-License-Identifier: GPL-2.0

//! A port of a device: its tables, counters and attributes (`struct ib_port_attr`). It is that of one net device.

use core::sync::atomic::{AtomicU32, AtomicU8, Ordering};
use kernel::prelude::*;
use kernel_ext::bindings::IB_PORT_CM_SUP;
use kernel_ext::net::device::NetDevice;
use roce::mtu::Mtu;

use crate::addresses::Addresses;
use crate::counters::PortCounters;
use crate::limits;
use crate::mcast::{Groups, Member};
use crate::pkeys::Pkeys;

/// The data of a port. It is generic over the queue pairs, which refer to its device.
#[pin_data]
pub(crate) struct Port<Q> {
    /// Multicast groups.
    #[pin]
    pub(crate) groups: Groups<Q>,
    /// The addresses that datagrams are accepted for.
    #[pin]
    pub(crate) addresses: Addresses,
    /// The P_Key table.
    pub(crate) pkeys: Pkeys,
    /// Hardware counters.
    #[pin]
    pub(crate) counters: PortCounters,
    mtu: AtomicU8,
    bad_pkeys: AtomicU32,
    qkey_violations: AtomicU32,
    capabilities: AtomicU32,
}

impl<Q: Member> Port<Q> {
    /// The data of a port on `ndev`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(ndev: &NetDevice) -> impl PinInit<Self, Error> {
        let mtu = mtu_of(ndev);
        try_pin_init!(Self {
            groups <- Groups::new(),
            addresses <- Addresses::new(),
            pkeys: Pkeys::new(),
            counters <- PortCounters::new(),
            mtu: AtomicU8::new(mtu as u8),
            bad_pkeys: AtomicU32::new(0),
            qkey_violations: AtomicU32::new(0),
            capabilities: AtomicU32::new(IB_PORT_CM_SUP),
        })
    }
}

impl<Q> Port<Q> {
    /// The MTU, derived from the net device's. Any context.
    #[inline]
    pub(crate) fn mtu(&self) -> Mtu {
        Mtu::from_ib(self.mtu.load(Ordering::Relaxed).into()).unwrap_or(Mtu::Mtu256)
    }

    /// Updates the MTU from the net device.
    pub(crate) fn set_mtu_of(&self, ndev: &NetDevice) {
        self.mtu.store(mtu_of(ndev) as u8, Ordering::Relaxed);
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
