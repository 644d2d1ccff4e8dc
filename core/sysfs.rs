// SPDX-License-Identifier: GPL-2.0

//! `/sys/class/infiniband`: the files of devices and ports.
//!
//! A device has the attribute groups of the core and of its driver, and `ports/N/` for each port. A compat device in
//! another network namespace has the same, except for counters, driver groups and client groups of ports.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `DeviceState::trees` | the port directories of the device, for each namespace | process context | locks of sysfs |
//!
//! It is not taken by `show` and `store`: removing files waits for these.
//!
//! C header: `include/rdma/ib_sysfs.h`.

use kernel::{prelude::*, str::CString, sync::Arc};
use kernel_ext::{
    bindings,
    entry::Out,
    export::export,
    sysfs::{Directory, RawGroups},
};
use rdma::{
    core::{
        class::Registering,
        stats::DeviceCounters,
        sysfs::{PortDirectory, PortGroup, PortKobject},
        CoreDevice, Device,
    },
    MaySleep,
};

use crate::{
    private::DeviceExt,
    registry::{port as attributes, printk},
};

mod counters;
mod device;
mod gid;
mod hw_stats;
mod pkey;
mod port;
pub(crate) mod state;

use state::{Port, Tree};

fn address(seen_as: &CoreDevice) -> usize {
    core::ptr::from_ref(seen_as).addr()
}

/// Sets the attribute groups of a device before it is added to the driver core.
pub(crate) fn set_up_device(device: &mut Registering<'_>, sleep: &MaySleep) -> Result {
    let counters = hw_stats::counters(device, None, sleep)?;
    let counters = counters.as_ref().map(hw_stats::group).transpose()?;
    device.set_files(device::group()?, counters)
}

/// The hardware counters of a port, which only the device's own namespace has.
fn hw_counters(
    device: &Device,
    seen_as: &CoreDevice,
    port: u32,
    sleep: &MaySleep,
) -> Result<Option<Arc<DeviceCounters>>> {
    // On a device with port 0, its counters are those of the device.
    if !seen_as.is_own() || port == 0 {
        return Ok(None);
    }
    match hw_stats::counters(device, Some(port), sleep) {
        Err(kernel_ext::error::EOPNOTSUPP) => Ok(None),
        counters => counters,
    }
}

/// The attribute groups of a port.
fn groups(
    device: &Device,
    seen_as: &CoreDevice,
    port: u32,
    attr: &rdma::PortAttr,
    counters: Option<&Arc<DeviceCounters>>,
    sleep: &MaySleep,
) -> Result<KVec<PortGroup>> {
    let mut groups = KVec::new();
    groups.push(port::group()?, GFP_KERNEL)?;
    groups.push(gid::gids(table_length(attr))?, GFP_KERNEL)?;
    if attr.pkey_tbl_len != 0 {
        groups.push(pkey::group(attr.pkey_tbl_len)?, GFP_KERNEL)?;
    }
    if !seen_as.is_own() {
        return Ok(groups);
    }
    if let Some(counters) = counters {
        groups.push(hw_stats::group(counters)?, GFP_KERNEL)?;
    }
    if device.has_process_mad() {
        groups.push(counters::group(device, port, sleep)?, GFP_KERNEL)?;
    }
    Ok(groups)
}

/// Length of a port's GID table.
fn table_length(attr: &rdma::PortAttr) -> u32 {
    u32::try_from(attr.gid_tbl_len).unwrap_or(0)
}

/// Creates the directories of a port.
fn make_port(
    top: &Directory,
    device: &Device,
    seen_as: &CoreDevice,
    number: u32,
    sleep: &MaySleep,
) -> Result<Port> {
    let attr = attributes::query(device, number, sleep)?;
    let counters = hw_counters(device, seen_as, number, sleep)?;
    let groups = groups(device, seen_as, number, &attr, counters.as_ref(), sleep)?;
    let name = CString::try_from_fmt(fmt!("{number}"))?;
    let length = table_length(&attr);
    let mut tables = KVec::with_capacity(2, GFP_KERNEL)?;
    tables.push(gid::ndevs(length)?, GFP_KERNEL)?;
    tables.push(gid::types(length)?, GFP_KERNEL)?;
    // SAFETY: `clean_up_ports` drops them, a clean-up of unregistration and of compat devices, which the driver waits for.
    let (own, _gid_attrs) = unsafe {
        let own = PortDirectory::new(top, &name, device, number, groups, sleep)?;
        let (parent, name) = (own.kobject(), c"gid_attrs");
        let attrs = PortDirectory::new(parent, name, device, number, tables, sleep)?;
        (own, attrs)
    };
    if seen_as.is_own() {
        own.add_groups(device.driver_port_groups(), sleep)?;
    }
    Ok(Port {
        _gid_attrs,
        own,
        counters,
    })
}

/// Creates `ports/` of a device or compat device.
///
/// # Errors
///
/// `EINVAL` where `seen_as` is of another device, `ENOMEM`, errors of the driver.
pub(crate) fn set_up_ports(device: &Device, seen_as: &CoreDevice, sleep: &MaySleep) -> Result {
    if !core::ptr::eq(seen_as.owner(), &**device) {
        return Err(EINVAL);
    }
    let mut tree = Tree {
        seen_as: address(seen_as),
        drivers: seen_as.is_own().then(|| device.driver_port_groups()),
        ports: KVec::new(),
        _top: Directory::new(seen_as.kobject(), c"ports", sleep)?,
    };
    let made = device.ports().try_for_each(|number| {
        // Capacity for the port is reserved before it is created, so that it can be recorded for removal.
        tree.ports.reserve(1, GFP_KERNEL)?;
        let port = make_port(&tree._top, device, seen_as, number, sleep)?;
        Ok(tree.ports.push(port, GFP_KERNEL)?)
    });
    let mut trees = device.core().sysfs.trees.lock();
    if let Err(error) = made.and_then(|()| Ok(trees.reserve(1, GFP_KERNEL)?)) {
        drop(trees);
        printk::warn(device, fmt!("no ports in sysfs: {error:?}\n"));
        remove(tree, sleep);
        return Err(error);
    }
    Ok(trees.push(tree, GFP_KERNEL)?)
}

/// Removes `ports/` of a device or compat device.
pub(crate) fn clean_up_ports(seen_as: &CoreDevice, sleep: &MaySleep) {
    let device = seen_as.owner();
    let mut trees = device.core().sysfs.trees.lock();
    let nth = trees
        .iter()
        .position(|tree| tree.seen_as == address(seen_as));
    let tree = nth.and_then(|nth| trees.remove(nth).ok());
    drop(trees);
    if let Some(tree) = tree {
        remove(tree, sleep);
    }
}

fn remove(tree: Tree, sleep: &MaySleep) {
    if let Some(drivers) = tree.drivers {
        for port in tree.ports.iter() {
            port.own.remove_groups(drivers, sleep);
        }
    }
    drop(tree);
}

/// Calls `f` with a port of the device's own namespace. `None` if it does not exist.
fn with_port<R>(device: &Device, port: u32, f: impl FnOnce(&Port) -> R) -> Option<R> {
    let trees = device.core().sysfs.trees.lock();
    let tree = trees.iter().find(|tree| tree.drivers.is_some())?;
    let found = tree.ports.iter().find(|found| found.own.port() == port)?;
    Some(f(found))
}

/// The hardware counters of a port, if it has any.
pub(crate) fn counters_of(device: &Device, port: u32) -> Option<Arc<DeviceCounters>> {
    with_port(device, port, |port| port.counters.clone())?
}

/// Adds a client's attribute groups to the directory of a port: `groups` is a null-terminated list of groups of `struct
/// ib_port_attribute`. Process context.
///
/// # Errors
///
/// `EINVAL` for an invalid port, `ENOMEM`, `EEXIST`.
#[export]
fn ib_port_register_client_groups(
    ibdev: &Device,
    port_num: u32,
    groups: RawGroups,
    sleep: &MaySleep,
) -> Result {
    with_port(ibdev, port_num, |port| port.own.add_groups(groups, sleep)).ok_or(EINVAL)?
}

/// Removes a client's attribute groups from the directory of a port. Process context.
#[export]
fn ib_port_unregister_client_groups(
    ibdev: &Device,
    port_num: u32,
    groups: RawGroups,
    sleep: &MaySleep,
) {
    // An invalid port has no groups.
    let _ = with_port(ibdev, port_num, |port| {
        port.own.remove_groups(groups, sleep)
    });
}

/// Returns the device and the number of a port's directory.
#[export]
fn ib_port_sysfs_get_ibdev_kobj(
    kobj: PortKobject<'_>,
    port_num: Out<'_, u32>,
) -> *mut bindings::ib_device {
    port_num.set(kobj.port());
    kobj.device().as_raw()
}
