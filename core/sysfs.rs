// SPDX-License-Identifier: GPL-2.0

//! `/sys/class/infiniband`: the files of devices and of their ports.
//!
//! A device has the files of the core and of its driver, and `ports/N/` for each port. Where other namespaces see the
//! device they see the same, without counters and without files of the driver and of clients in the ports.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `DeviceState::files` | the files of the device | process context | nothing |
//! | `DeviceState::trees` | the ports of the device, for each namespace | process context | locks of sysfs |
//!
//! Neither is taken by who reads or writes a file: taking files out waits for these.
//!
//! C header: `include/rdma/ib_sysfs.h`.

use kernel::{prelude::*, str::CString, sync::Arc};
use kernel_ext::{
    bindings,
    door::Out,
    export::export,
    sysfs::{Directory, RawGroups},
};
use rdma::{
    core::{
        stats::HwCounters,
        sysfs::{DeviceFiles, PortDirectory, PortGroup, PortKobject},
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

/// Says which files the device is to have when it is put into the driver model.
pub(crate) fn set_up_device(device: &Device, sleep: &MaySleep) -> Result {
    let counters = hw_stats::counters(device, None, sleep)?;
    let counters = counters.as_ref().map(hw_stats::group).transpose()?;
    // SAFETY: The device is about to be put into the driver model; `clean_up_device` runs when it is out of it.
    let files = unsafe { DeviceFiles::publish(device, device::group()?, counters) };
    *device.core().sysfs.files.lock() = Some(files);
    Ok(())
}

/// Gives the files of a device up, which is not in the driver model any more.
pub(crate) fn clean_up_device(device: &Device, _sleep: &MaySleep) {
    let files = device.core().sysfs.files.lock().take();
    drop(files);
}

/// The hardware's counters of a port, which the device's own namespace sees.
fn hw_counters(
    seen_as: &CoreDevice,
    port: u32,
    sleep: &MaySleep,
) -> Result<Option<Arc<HwCounters>>> {
    // Where port 0 is, the counters are the device's.
    if !seen_as.is_own() || port == 0 {
        return Ok(None);
    }
    match hw_stats::counters(seen_as.owner(), Some(port), sleep) {
        Err(kernel_ext::error::EOPNOTSUPP) => Ok(None),
        counters => counters,
    }
}

/// The groups of files of a port.
fn groups(
    seen_as: &CoreDevice,
    port: u32,
    attr: &rdma::PortAttr,
    counters: Option<&Arc<HwCounters>>,
    sleep: &MaySleep,
) -> Result<KVec<PortGroup>> {
    let device = seen_as.owner();
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

/// How many entries a port's GID table has.
fn table_length(attr: &rdma::PortAttr) -> u32 {
    u32::try_from(attr.gid_tbl_len).unwrap_or(0)
}

/// Makes the directories of a port.
fn make_port(top: &Directory, seen_as: &CoreDevice, number: u32, sleep: &MaySleep) -> Result<Port> {
    let device = seen_as.owner();
    let attr = attributes::query(device, number, sleep)?;
    let counters = hw_counters(seen_as, number, sleep)?;
    let groups = groups(seen_as, number, &attr, counters.as_ref(), sleep)?;
    let name = CString::try_from_fmt(fmt!("{number}"))?;
    let own = PortDirectory::new(top, &name, device, number, groups, sleep)?;
    let length = table_length(&attr);
    let mut tables = KVec::with_capacity(2, GFP_KERNEL)?;
    tables.push(gid::ndevs(length)?, GFP_KERNEL)?;
    tables.push(gid::types(length)?, GFP_KERNEL)?;
    let _gid_attrs =
        PortDirectory::new(own.kobject(), c"gid_attrs", device, number, tables, sleep)?;
    if seen_as.is_own() {
        own.add_groups(device.driver_port_groups(), sleep)?;
    }
    Ok(Port {
        _gid_attrs,
        own,
        counters,
    })
}

/// Makes `ports/` of a device as a namespace sees it.
pub(crate) fn set_up_ports(seen_as: &CoreDevice, sleep: &MaySleep) -> Result {
    let device = seen_as.owner();
    let mut tree = Tree {
        seen_as: address(seen_as),
        is_own: seen_as.is_own(),
        ports: KVec::new(),
        _top: Directory::new(seen_as.kobject(), c"ports", sleep)?,
    };
    let made = device.ports().try_for_each(|number| {
        // A port that is made must be among those that `remove` knows.
        tree.ports.reserve(1, GFP_KERNEL)?;
        let port = make_port(&tree._top, seen_as, number, sleep)?;
        Ok(tree.ports.push(port, GFP_KERNEL)?)
    });
    let mut trees = device.core().sysfs.trees.lock();
    if let Err(error) = made.and_then(|()| Ok(trees.reserve(1, GFP_KERNEL)?)) {
        drop(trees);
        printk::warn(device, fmt!("no ports in sysfs: {error:?}\n"));
        remove(device, tree, sleep);
        return Err(error);
    }
    Ok(trees.push(tree, GFP_KERNEL)?)
}

/// Takes `ports/` of a device as a namespace sees it out of sysfs.
pub(crate) fn clean_up_ports(seen_as: &CoreDevice, sleep: &MaySleep) {
    let device = seen_as.owner();
    let mut trees = device.core().sysfs.trees.lock();
    let nth = trees
        .iter()
        .position(|tree| tree.seen_as == address(seen_as));
    let tree = nth.and_then(|nth| trees.remove(nth).ok());
    drop(trees);
    if let Some(tree) = tree {
        remove(device, tree, sleep);
    }
}

fn remove(device: &Device, tree: Tree, sleep: &MaySleep) {
    if tree.is_own {
        for port in tree.ports.iter() {
            port.own.remove_groups(device.driver_port_groups(), sleep);
        }
    }
    drop(tree);
}

/// Does something with a port as the device's own namespace sees it. `None` where there is none.
fn with_port<R>(device: &Device, port: u32, f: impl FnOnce(&Port) -> R) -> Option<R> {
    let trees = device.core().sysfs.trees.lock();
    let tree = trees.iter().find(|tree| tree.is_own)?;
    let found = tree.ports.iter().find(|found| found.own.port() == port)?;
    Some(f(found))
}

/// The hardware's counters of a port. `None` where there are none.
pub(crate) fn counters_of(device: &Device, port: u32) -> Option<Arc<HwCounters>> {
    with_port(device, port, |port| port.counters.clone())?
}

/// Puts files of a client into the directory of a port: `groups` is a list of groups of `struct ib_port_attribute`, which
/// ends with null. Process context.
///
/// # Errors
///
/// `EINVAL` for a port that is not there, `ENOMEM`, `EEXIST`.
#[export]
fn ib_port_register_client_groups(
    ibdev: &Device,
    port_num: u32,
    groups: RawGroups,
    sleep: &MaySleep,
) -> Result {
    with_port(ibdev, port_num, |port| port.own.add_groups(groups, sleep)).ok_or(EINVAL)?
}

/// Takes files of a client out of the directory of a port. Process context.
#[export]
fn ib_port_unregister_client_groups(
    ibdev: &Device,
    port_num: u32,
    groups: RawGroups,
    sleep: &MaySleep,
) {
    // A port that is not there has no files.
    let _ = with_port(ibdev, port_num, |port| {
        port.own.remove_groups(groups, sleep)
    });
}

/// Returns the device of a port's directory, and the port's number.
#[export]
fn ib_port_sysfs_get_ibdev_kobj(
    kobj: PortKobject<'_>,
    port_num: Out<'_, u32>,
) -> *mut bindings::ib_device {
    port_num.set(kobj.port());
    kobj.device().as_raw()
}
