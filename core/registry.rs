// SPDX-License-Identifier: GPL-2.0

//! The table of all devices, by index, name and net device.
//!
//! A device is in the table from the assignment of its name until it is deallocated. An entry is marked while the
//! device is registered; `try_get` takes a reference that keeps it registered.
//!
//! Iteration holds no lock: each step looks up the next index. So the loop body may sleep and call any function.
//!
//! Files by level; a file imports only from those below it:
//!
//! | file | what |
//! |---|---|
//! | [`client`], [`event`] | clients of devices; event handlers |
//! | [`port`] | attributes of ports and devices |
//! | [`netdev`] | the net device of a port |
//! | this one | the table of devices, and their names |
//! | [`netns`] | access by network namespaces, shared or exclusive |
//! | [`notify`], [`printk`] | netlink notifications; messages with the device's name |
//! | [`state`] | data of a device and of a port |
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `TABLE` | the table and its marks | any context | `PortNetdev` |
//! | `PortNetdev::ndev` | the net device of a port | any context | nothing |
//! | `NAMES` | the names of all devices: each is unique | process context | `Lifecycle::model`, locks of the driver model, `TABLE` |
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::{
    alloc::kvec::KVec,
    prelude::*,
    str::{BStr, CString},
    sync::{aref::ARef, GlobalGuard},
};
use kernel_ext::{
    net::{device::NetDevice, ns::NetNamespace},
    static_lock::static_lock,
};
use rdma::{
    core::{
        class::{Class, Registering},
        device::Registered,
        DeviceMemory,
    },
    MaySleep,
};

pub(crate) mod client;
pub(crate) mod event;
pub(crate) mod netdev;
pub(crate) mod netns;
pub(crate) mod notify;
pub(crate) mod port;
pub(crate) mod printk;
pub(crate) mod state;

use crate::private::{DeviceExt, Private};
use state::PortNetdev;

/// The class of all devices.
pub(crate) static CLASS: Class<Private> = Class::new();

/// An entry of the table.
struct Entry {
    device: ARef<DeviceMemory>,
    /// Whether the device is registered: new clients get it.
    registered: bool,
    /// Whether its GID tables are updated by events of net devices.
    gid_updates: bool,
}

/// The devices in ascending order of their indices.
struct Table {
    entries: KVec<Entry>,
    /// The next index to try.
    next: u32,
}

/// The largest index.
const MAX_INDEX: u32 = i32::MAX as u32;

static_lock! {
    static TABLE: SpinLockIrq<Table> = Table {
        entries: KVec::new(),
        next: 0,
    };
}

static_lock! {
    static NAMES: Mutex<()> = ();
}

/// Keeps the table until it is dropped.
pub(crate) struct Registration(());

/// The owner of the table. Made once when the module is loaded.
pub(crate) fn start() -> Registration {
    Registration(())
}

impl Drop for Registration {
    fn drop(&mut self) {
        let entries = core::mem::take(&mut TABLE.lock().entries);
        if !entries.is_empty() {
            pr_err!("{} devices are left\n", entries.len());
            // Their drivers are unloaded: dropping a device would call into freed code.
            core::mem::forget(entries);
        }
    }
}

impl Table {
    /// The position of the device with an index, or where it would be.
    fn position(&self, index: u32) -> core::result::Result<usize, usize> {
        self.entries
            .binary_search_by_key(&index, |entry| entry.device.index())
    }

    fn entry(&mut self, device: &DeviceMemory) -> Option<&mut Entry> {
        let at = self.position(device.index()).ok()?;
        let entry = self.entries.get_mut(at)?;
        core::ptr::eq(&*entry.device, device).then_some(entry)
    }

    /// The next unused index, cyclically, and its position.
    fn free_index(&self) -> Option<(u32, usize)> {
        let mut index = self.next;
        for _ in 0..=self.entries.len() {
            match self.position(index) {
                Err(at) => return Some((index, at)),
                Ok(_) => index = if index >= MAX_INDEX { 0 } else { index + 1 },
            }
        }
        None
    }
}

/// Selection of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceFilter {
    /// All that have a name.
    All,
    /// Those that are registered.
    Registered,
    /// Those with automatic GIDs.
    GidUpdates,
}

impl DeviceFilter {
    fn fits(self, entry: &Entry) -> bool {
        match self {
            Self::All => true,
            Self::Registered => entry.registered,
            Self::GidUpdates => entry.gid_updates,
        }
    }
}

/// Iterates over references to the devices in ascending order of their indices. Devices that are added or removed
/// meanwhile may be missed.
pub(crate) fn devices(filter: DeviceFilter) -> impl Iterator<Item = ARef<DeviceMemory>> {
    let mut from = Some(0);
    core::iter::from_fn(move || {
        let start = from?;
        let table = TABLE.lock();
        let at = table.position(start).unwrap_or_else(|at| at);
        let rest = table.entries.get(at..)?;
        let found = rest.iter().find(|entry| filter.fits(entry))?;
        let device = found.device.clone();
        drop(table);
        from = device.index().checked_add(1);
        Some(device)
    })
}

/// The device with an index, registered or not.
pub(crate) fn find(index: u32) -> Option<ARef<DeviceMemory>> {
    let table = TABLE.lock();
    let at = table.position(index).ok()?;
    Some(table.entries.get(at)?.device.clone())
}

/// A registered device that has this net device on one of its ports; `driver` may be `RDMA_DRIVER_UNKNOWN` for any
/// driver. Any context.
pub(crate) fn by_netdev(ndev: &NetDevice, driver: u32) -> Option<Registered> {
    let any = driver == kernel_ext::bindings::RDMA_DRIVER_UNKNOWN;
    let table = TABLE.lock();
    table
        .entries
        .iter()
        .map(|entry| &*entry.device)
        .filter(|device| any || device.driver_id() == driver)
        .filter(|device| has_netdev(device, ndev))
        .find_map(DeviceMemory::try_get)
}

fn has_netdev(device: &DeviceMemory, ndev: &NetDevice) -> bool {
    let mut ports = device.ports().map_while(|port| device.core_port(port));
    ports.any(|port| port.netdev.is(ndev))
}

/// Marks a device as registered or not.
pub(crate) fn mark_registered(device: &DeviceMemory, registered: bool) {
    if let Some(entry) = TABLE.lock().entry(device) {
        entry.registered = registered;
    }
}

/// Marks a device as having automatic GIDs or not.
pub(crate) fn mark_gid_updates(device: &DeviceMemory, follow: bool) {
    if let Some(entry) = TABLE.lock().entry(device) {
        entry.gid_updates = follow;
    }
}

/// Whether a device is in the table.
pub(crate) fn contains(device: &DeviceMemory) -> bool {
    TABLE.lock().entry(device).is_some()
}

/// Adds a device to the table, with a new index.
fn insert(device: &DeviceMemory) -> Result {
    let held = device.hold();
    let mut spare = KVec::new();
    loop {
        let mut table = TABLE.lock();
        let len = table.entries.len();
        if len < table.entries.capacity() {
            let (index, at) = table.free_index().ok_or(EBUSY)?;
            device.set_index(index);
            table.next = if index >= MAX_INDEX { 0 } else { index + 1 };
            let entry = Entry {
                device: held,
                registered: false,
                gid_updates: false,
            };
            // Cannot fail: capacity was checked.
            return table
                .entries
                .insert_within_capacity(at, entry)
                .map_err(|_| ENOMEM);
        }
        if len < spare.capacity() {
            // Moves the entries to the larger buffer; the old one is freed without the lock.
            for entry in table.entries.drain_all() {
                spare.push_within_capacity(entry).map_err(|_| ENOMEM)?;
            }
            core::mem::swap(&mut table.entries, &mut spare);
            continue;
        }
        drop(table);
        spare = KVec::with_capacity(len.saturating_mul(2).max(8), GFP_KERNEL)?;
    }
}

/// Removes a device from the table.
pub(crate) fn remove(device: &DeviceMemory) {
    let mut table = TABLE.lock();
    if table.entry(device).is_none() {
        return;
    }
    let removed = match table.position(device.index()) {
        Ok(at) => table.entries.remove(at).ok(),
        Err(_) => None,
    };
    drop(table);
    // A reference must not be dropped under a spinlock.
    drop(removed);
}

/// The lock of device names, which are unique among the devices that a namespace has access to.
pub(crate) struct Names(#[expect(dead_code, reason = "it is a lock")] GlobalGuard<NAMES>);

impl Names {
    /// Takes the lock.
    pub(crate) fn lock(_sleep: &MaySleep) -> Self {
        Self(NAMES.lock())
    }

    /// Whether another device than `device` that the namespace with this cookie has access to has this name.
    pub(crate) fn is_taken(&self, name: &CStr, device: &DeviceMemory, net: u64) -> bool {
        let accessible = |other: &DeviceMemory| {
            netns::is_shared() || other.with_namespace(NetNamespace::cookie) == net
        };
        devices(DeviceFilter::All).any(|other| {
            *other.name() == *name && !core::ptr::eq(&*other, device) && accessible(&other)
        })
    }

    /// The name that a device gets in the namespace with this cookie: its own, or `ibdev` with its index or with another number, where another
    /// device there has that name.
    ///
    /// # Errors
    ///
    /// `ENFILE`, `ENOMEM`.
    pub(crate) fn free_in(&self, net: u64, device: &DeviceMemory) -> Result<CString> {
        let own = device.name();
        if !self.is_taken(&own, device, net) {
            return Ok(CString::try_from(&*own)?);
        }
        let numbers = Iterator::chain(core::iter::once(device.index()), 0..=MAX_INDEX);
        self.numbered((b"ibdev", b""), numbers, device, net)
    }

    /// The first unused name of these with a number between two parts.
    fn numbered(
        &self,
        (before, after): (&[u8], &[u8]),
        numbers: impl Iterator<Item = u32>,
        device: &DeviceMemory,
        net: u64,
    ) -> Result<CString> {
        let (before, after) = (BStr::from_bytes(before), BStr::from_bytes(after));
        for number in numbers {
            let name = CString::try_from_fmt(fmt!("{before}{number}{after}"))?;
            if !self.is_taken(&name, device, net) {
                return Ok(name);
            }
        }
        Err(ENFILE)
    }

    /// Assigns a new device its index and its name, in which `%d` stands for the smallest unused number.
    ///
    /// # Errors
    ///
    /// `ENFILE` where the name is in use, `EINVAL` for another `%` than one `%d`, `ENOMEM`.
    pub(crate) fn assign(
        &self,
        device: &mut Registering<'_>,
        pattern: &CStr,
        sleep: &MaySleep,
    ) -> Result {
        let pattern = pattern.to_bytes();
        match pattern.iter().position(|&byte| byte == b'%') {
            None => self.assign_plain(device, pattern, sleep),
            Some(at) => {
                let (before, after) = pattern.split_at(at);
                let after = after.strip_prefix(b"%d").ok_or(EINVAL)?;
                if after.contains(&b'%') {
                    return Err(EINVAL);
                }
                self.assign_numbered(device, before, after, sleep)
            }
        }
    }

    fn assign_plain(&self, device: &mut Registering<'_>, name: &[u8], sleep: &MaySleep) -> Result {
        let name = CString::try_from_fmt(fmt!("{}", BStr::from_bytes(name)))?;
        if self.is_taken(&name, device, device.with_namespace(NetNamespace::cookie)) {
            return Err(ENFILE);
        }
        self.give(device, &name, sleep)?;
        insert(device)
    }

    fn assign_numbered(
        &self,
        device: &mut Registering<'_>,
        before: &[u8],
        after: &[u8],
        sleep: &MaySleep,
    ) -> Result {
        let net = device.with_namespace(NetNamespace::cookie);
        let name = self.numbered((before, after), 0..=MAX_INDEX, device, net)?;
        self.give(device, &name, sleep)?;
        insert(device)
    }

    /// Assigns a device an unused name.
    fn give(&self, device: &mut Registering<'_>, name: &CStr, sleep: &MaySleep) -> Result {
        device.set_name_in_model(name, sleep)?;
        device.set_name_field(name);
        Ok(())
    }
}

impl PortNetdev {
    /// The net device. Any context.
    pub(crate) fn get(&self) -> Option<ARef<NetDevice>> {
        self.ndev.lock().clone()
    }

    /// Whether the port has this net device. Any context.
    pub(crate) fn is(&self, ndev: &NetDevice) -> bool {
        let held = self.ndev.lock();
        held.as_ref()
            .is_some_and(|held| core::ptr::eq(&**held, ndev))
    }

    /// Sets the net device; returns whether it has changed. Any context.
    pub(crate) fn set(&self, ndev: Option<&NetDevice>) -> bool {
        let new = ndev.map(ARef::from);
        let mut held = self.ndev.lock();
        let same = match (&*held, ndev) {
            (Some(held), Some(new)) => core::ptr::eq(&**held, new),
            (None, None) => true,
            _ => false,
        };
        if same {
            return false;
        }
        let old = core::mem::replace(&mut *held, new);
        drop(held);
        drop(old);
        true
    }
}
