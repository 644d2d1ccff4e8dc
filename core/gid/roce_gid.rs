// SPDX-License-Identifier: GPL-2.0

//! GIDs of RoCE ports, derived from the addresses of net devices.
//!
//! For each GID type that it supports, a port has:
//!
//! * a *default GID*, the link-local IPv6 address made from the MAC address: of the port's net device, or of the bond
//!   that it is a port of;
//! * a GID for each IPv4 and IPv6 address of the port's net device and of its upper devices (VLANs, macvlans, bridges
//!   …); of a bond only while the port's net device is the active one.
//!
//! Events of net devices and addresses are handled by work items, one at a time, in the order of their occurrence.
//!
//! # Locks
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `RoceGids::follows` | whether GIDs of a device are updated; held during an update, so that `unfollow` waits for it | process | `GidTable::change`, event handlers |
//!
//! C headers: `include/rdma/ib_cache.h`, `include/rdma/ib_addr.h`.

pub(crate) mod events;

use core::cell::Cell;

use kernel::{ffi::c_ulong, pr_warn_once, prelude::*, sync::rcu};
use kernel_ext::{
    bindings as c,
    export::export,
    net::{address::IpAddress, device::NetDevice},
};
use rdma::{
    core::{Device, DeviceMemory},
    Gid, GidType, MaySleep,
};

use super::{cache, table::Change};
use crate::{
    private::DeviceExt,
    registry::{
        self,
        event::{self, Event},
        netdev, DeviceFilter,
    },
};

/// The GID types of RoCE, and the port capability that each requires.
const TYPES: [(GidType, u32); 2] = [
    (GidType::RoceV1, c::RDMA_CORE_CAP_PROT_ROCE),
    (GidType::RoceV2, c::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP),
];

/// Returns the types of GIDs of a RoCE port.
fn types(device: &Device, port: u32) -> impl Iterator<Item = GidType> {
    let caps = device.port_caps(port);
    let spoken = TYPES.iter().filter(move |(_, cap)| caps & cap != 0);
    spoken.map(|(gid_type, _)| *gid_type)
}

/// Returns the GID types of a port, as a mask of `enum ib_gid_type`.
pub(crate) fn type_mask(device: &Device, port: u32) -> u32 {
    if !device.is_roce(port) {
        return 1 << GidType::Ib.as_raw();
    }
    types(device, port).fold(0, |mask, gid_type| mask | 1 << gid_type.as_raw())
}

/// The default GID of a net device: its link-local address.
///
/// Reference: RFC 4291, 2.5.6.
fn default_gid(ndev: &NetDevice) -> Gid {
    let mut gid = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let (_, id) = gid.split_at_mut(8);
    // A device with addresses of another length has an interface ID of zero.
    id.copy_from_slice(&ndev.interface_id().unwrap_or_default());
    Gid(gid)
}

/// The GID of an IP address.
fn gid_of(address: IpAddress) -> Gid {
    match address {
        IpAddress::V4(address) => Gid::from_ipv4(address),
        IpAddress::V6(address) => Gid(address),
    }
}

/// A RoCE port whose GIDs are updated.
pub(crate) struct Port<'a> {
    device: &'a Device,
    port: u32,
    sleep: &'a MaySleep,
    /// Number of changes that were not reported to event handlers yet.
    changes: &'a Cell<u32>,
}

impl Port<'_> {
    fn changed(&self) {
        self.changes.set(self.changes.get().saturating_add(1));
    }

    /// Calls `f` for a GID of each type.
    fn each_type(&self, gid: Gid, ndev: &NetDevice, default: bool, mut f: impl FnMut(&Change<'_>)) {
        for gid_type in types(self.device, self.port) {
            f(&Change {
                gid,
                gid_type,
                ndev,
                default,
            });
        }
    }

    fn add(&self, gid: Gid, ndev: &NetDevice, default: bool) {
        let Some(caches) = cache::of(self.device, self.port) else {
            return;
        };
        self.each_type(gid, ndev, default, |change| {
            match caches.gids.add(self.device, self.port, change, self.sleep) {
                Ok(true) => self.changed(),
                Ok(false) => {}
                // A net device may have more addresses than the table has entries.
                Err(ENOSPC) => pr_warn_once!("a GID table is full\n"),
                Err(error) => dev_dbg!(
                    self.device.dev(),
                    "port {}: cannot add a GID: {error:?}\n",
                    self.port
                ),
            }
        });
    }

    fn delete(&self, gid: Gid, ndev: &NetDevice, default: bool) {
        let Some(caches) = cache::of(self.device, self.port) else {
            return;
        };
        self.each_type(gid, ndev, default, |change| {
            if caches.gids.delete(self.device, change, self.sleep) {
                self.changed();
            }
        });
    }

    /// Deletes all GIDs of a net device.
    pub(crate) fn delete_all_of(&self, ndev: &NetDevice) {
        let Some(caches) = cache::of(self.device, self.port) else {
            return;
        };
        let on = |entry: &rdma::core::gid::GidEntry| entry.is_on(ndev);
        if caches.gids.delete_all(self.device, on, self.sleep) {
            self.changed();
        }
    }

    fn add_default(&self, ndev: &NetDevice) {
        self.add(default_gid(ndev), ndev, true);
    }

    fn delete_default(&self, ndev: &NetDevice) {
        self.delete(Gid::default(), ndev, true);
    }

    /// Adds a GID for each IP address of a net device.
    fn add_addresses(&self, ndev: &NetDevice) {
        if !ndev.is_registered() {
            return;
        }
        for addresses in [ndev.ipv4_addresses(), ndev.ipv6_addresses()] {
            for address in addresses.unwrap_or_default() {
                self.add(gid_of(address), ndev, false);
            }
        }
    }

    /// Calls `f` for a net device and all its upper devices.
    fn with_uppers(&self, ndev: &NetDevice, f: impl Fn(&Self, &NetDevice)) {
        let uppers = ndev.uppers().unwrap_or_default();
        f(self, ndev);
        for upper in uppers {
            f(self, &upper);
        }
    }

    /// Adds all GIDs of the port, by the addresses of all net devices.
    fn scan(&self, own: &NetDevice) {
        NetDevice::for_each(
            |ndev| {
                if Relation::Default.holds(Some(own), ndev) {
                    self.add_default(ndev);
                }
                if Relation::Addresses.holds(Some(own), ndev) {
                    self.add_addresses(ndev);
                }
            },
            self.sleep,
        );
    }
}

/// Role of a net device in a bond.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BondState {
    Active,
    Inactive,
    /// It has no bond, or the bond has no known active port.
    NotAsked,
}

impl BondState {
    fn of(ndev: &NetDevice, bond: &NetDevice, guard: &rcu::Guard) -> Self {
        match bond.bond_active_port(guard) {
            Some(active) if active == ndev => Self::Active,
            Some(_) => Self::Inactive,
            None => Self::NotAsked,
        }
    }
}

/// Relation of a net device to the net device of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// Any, even if the port has no net device.
    Any,
    /// Its addresses are GIDs of the port.
    Addresses,
    /// It is the port's net device, or an upper device of it.
    Upper,
    /// Its MAC address is used for default GIDs of the port.
    Default,
    /// It is a bond above the port's net device.
    Bond,
}

impl Relation {
    fn holds(self, own: Option<&NetDevice>, ndev: &NetDevice) -> bool {
        let Some(own) = own else {
            return self == Self::Any;
        };
        let guard = rcu::read_lock();
        match self {
            Self::Any => true,
            Self::Upper => own == ndev || own.has_upper(ndev, &guard),
            Self::Bond => ndev.is_bond() && own.has_upper(ndev, &guard),
            Self::Default if own == ndev && !own.is_bond_port() => true,
            Self::Default => ndev.is_bond() && own.has_upper(ndev, &guard),
            Self::Addresses => {
                let real = ndev.vlan_real_device();
                let real = real.as_deref().unwrap_or(ndev);
                real == own
                    || own.has_upper(ndev, &guard)
                        && BondState::of(own, real, &guard) != BondState::Inactive
            }
        }
    }
}

/// Calls `f` for a port, then dispatches an event for each change that it has made.
fn with_port(device: &Device, port: u32, sleep: &MaySleep, f: impl FnOnce(&Port<'_>)) {
    report_changes(device, port, sleep, |changes| {
        f(&Port {
            device,
            port,
            sleep,
            changes,
        });
    });
}

/// Calls `f`, then dispatches an event for each change of a port that it has counted. No lock is held then: an event handler may
/// wait for RTNL.
fn report_changes(device: &DeviceMemory, port: u32, sleep: &MaySleep, f: impl FnOnce(&Cell<u32>)) {
    let changes = Cell::new(0);
    f(&changes);
    for _ in 0..changes.get() {
        event::deliver(
            device,
            &Event::of_port(c::IB_EVENT_GID_CHANGE, device, port),
            sleep,
        );
    }
}

/// Calls `f` for each RoCE port, of a device with automatic GIDs, whose net device has the relation to `ndev`.
fn for_each_port(relation: Relation, ndev: &NetDevice, sleep: &MaySleep, f: impl Fn(&Port<'_>)) {
    for device in registry::devices(DeviceFilter::GidUpdates) {
        for port in device.ports().filter(|port| device.is_roce(*port)) {
            report_changes(&device, port, sleep, |changes| {
                let follows = device.core().roce_gid.follows.lock();
                if !*follows {
                    return;
                }
                // SAFETY: The device is followed. Unregistration, which the driver waits for, calls `unfollow`, and that takes the
                // lock.
                let device = unsafe { device.with_driver() };
                let own = netdev::of(device, port);
                if relation.holds(own.as_deref(), ndev) {
                    f(&Port {
                        device,
                        port,
                        sleep,
                        changes,
                    });
                }
            });
        }
    }
}

/// Enables automatic GIDs of a device whose GID tables exist.
pub(crate) fn follow(device: &Device, sleep: &MaySleep) {
    *device.core().roce_gid.follows.lock() = true;
    registry::mark_gid_updates(device, true);
    rescan(device, sleep);
}

/// Disables automatic GIDs; when this returns, no update is running.
pub(crate) fn unfollow(device: &Device, _sleep: &MaySleep) {
    registry::mark_gid_updates(device, false);
    *device.core().roce_gid.follows.lock() = false;
}

/// Adds the missing GIDs of a port.
fn rescan_port(device: &Device, port: u32, sleep: &MaySleep) {
    let Some(own) = netdev::of(device, port) else {
        return;
    };
    with_port(device, port, sleep, |port| port.scan(&own));
}

/// Adds the missing GIDs of a device's RoCE ports.
fn rescan(device: &Device, sleep: &MaySleep) {
    for port in device.ports().filter(|port| device.is_roce(*port)) {
        rescan_port(device, port, sleep);
    }
}

/// Adds the missing GIDs of a device's RoCE ports. Takes RTNL.
#[export]
fn rdma_roce_rescan_device(device: &Device, sleep: &MaySleep) {
    rescan(device, sleep);
}

/// Adds the missing GIDs of a port, if it is a RoCE port. Takes RTNL.
#[export]
fn rdma_roce_rescan_port(device: &Device, port: u32, sleep: &MaySleep) {
    if device.is_roce(port) {
        rescan_port(device, port, sleep);
    }
}

/// Deletes all GIDs of a port that belong to a net device.
#[export]
fn roce_del_all_netdev_gids(device: &Device, port: u32, ndev: &NetDevice, sleep: &MaySleep) {
    with_port(device, port, sleep, |port| port.delete_all_of(ndev));
}

/// Returns the GID types of a port, as a mask of `enum ib_gid_type`. Any context.
#[export]
fn roce_gid_type_mask_support(device: &Device, port: u32) -> c_ulong {
    type_mask(device, port) as c_ulong
}
