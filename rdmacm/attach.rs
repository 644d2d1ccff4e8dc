// SPDX-License-Identifier: GPL-2.0

//! Which device, port and GID an identifier has for its address.
//!
//! C headers: `include/rdma/ib_verbs.h`, `include/rdma/ib_cache.h`.

use cm_rules::path::GidType;
use kernel::{
    prelude::*,
    rbtree::RBTreeNode,
    sync::{aref::ARef, rcu, Arc},
};
use kernel_ext::{
    bindings::{RDMA_DRIVER_RXE, RDMA_PS_IPOIB},
    net::device::NetDevice,
};
use rdma::{
    core::{
        cma::{
            device::{find_gid, gid_entry},
            id::may_use,
            trace,
        },
        Device,
    },
    Gid, GidAttr, MaySleep,
};

use crate::{
    address::gid_of,
    devices::Dev,
    id::{Bound, CmId},
    tables::{self, Entry, Tables},
};

/// `ARPHRD_ETHER`.
pub(crate) const ETHERNET: u16 = 1;
/// `ARPHRD_INFINIBAND`.
pub(crate) const INFINIBAND: u16 = 32;
/// `ARPHRD_NONE`.
const NO_LINK: u16 = 0xfffe;

/// Gives an identifier a device. A port of 0 is any.
///
/// # Errors
///
/// `ENODEV` if the device is going, `EBUSY` if the identifier is in the list of another one, `ENOMEM`.
pub(crate) fn attach(entry: &mut Entry, id: &Arc<CmId>, port: u32, sleep: &MaySleep) -> Result {
    let registered = entry.device.try_get().ok_or(ENODEV)?;
    let device = entry.device.another().ok_or(ENODEV)?;
    let number = entry.count;
    let node = RBTreeNode::new(number, id.clone(), GFP_KERNEL)?;
    let replaced = id.body.set_device(registered, sleep)?;
    entry.ids.insert(node);
    entry.count = number.wrapping_add(1);
    let bound = Bound {
        dev: entry.dev.clone(),
        device,
        port,
        number,
    };
    let old = id.with(|inner| {
        inner.gid_type = entry.dev.gid_type(port);
        inner.bound.replace(bound)
    });
    let again = old
        .as_ref()
        .filter(|old| Arc::ptr_eq(&old.dev, &entry.dev))
        .and_then(|old| entry.ids.remove(&old.number));
    id.body.set_port(port);
    trace::cm_id_attach(&id.body, &entry.device);
    drop((again, old, replaced));
    Ok(())
}

/// Takes the device from an identifier.
pub(crate) fn release(id: &Arc<CmId>, sleep: &MaySleep) {
    let mut tables = tables::lock(sleep);
    let Some(bound) = id.with(|inner| inner.bound.take()) else {
        return;
    };
    let listed = tables
        .entry(&bound.dev)
        .and_then(|entry| entry.ids.remove(&bound.number));
    let device = id.body.take_device(sleep);
    let sgid = id.body.set_sgid(None);
    drop(tables);
    drop((listed, sgid, device, bound));
}

/// The net device that an identifier is bound to.
pub(crate) fn net_device(id: &CmId) -> Option<ARef<NetDevice>> {
    match id.body.net_device().unsigned_abs() {
        0 => None,
        index => NetDevice::by_index(id.body.net(), index),
    }
}

/// Whether the GID of an iWARP port is on the net device of an identifier, or on one that is a VLAN of the other.
fn is_on_net_device(id: &CmId, attr: &GidAttr) -> Result<bool> {
    let guard = rcu::read_lock();
    let ndev = attr.ndev(&guard)?;
    let net = id.body.net();
    let bound = id.body.net_device().unsigned_abs();
    let real = |ndev: &NetDevice| ndev.vlan_real_device().map(|real| real.index());
    let same = ndev.index() == bound
        || real(ndev) == Some(bound)
        || NetDevice::by_index_rcu(net, bound, &guard).and_then(real) == Some(ndev.index());
    let same_namespace = ndev.with_namespace(|other| *other == **net);
    Ok(same && same_namespace == Some(true))
}

/// The GID entry of a port for an identifier.
///
/// # Errors
///
/// `ENODEV`, `ENOENT` if it has none.
fn gid_on(id: &CmId, device: &Device, port: u32, kind: GidType, gid: Gid) -> Result<ARef<GidAttr>> {
    let link = id.body.link_type();
    if !may_use(device, id.body.net()) || (link == INFINIBAND) != device.is_ib(port) {
        return Err(ENODEV);
    }
    if device.is_iwarp(port) {
        let attr = gid_entry(device, port, 0)?;
        return match is_on_net_device(id, &attr)? {
            true => Ok(attr),
            false => Err(ENODEV),
        };
    }
    let is_rxe = device.driver_id() == RDMA_DRIVER_RXE;
    let is_ethernet = link == ETHERNET || (is_rxe && link == NO_LINK);
    if is_ethernet && device.is_roce(port) {
        let index = id.body.net_device().unsigned_abs();
        let ndev = NetDevice::by_index(id.body.net(), index).ok_or(ENODEV)?;
        return find_gid(device, port, gid, kind as u32, Some(&ndev));
    }
    let kind = match is_rxe {
        true => kind,
        false => GidType::Ib,
    };
    find_gid(device, port, gid, kind as u32, None)
}

fn check_space(id: &CmId) -> Result {
    match id.body.link_type() != INFINIBAND && id.body.space() == RDMA_PS_IPOIB {
        true => Err(EINVAL),
        false => Ok(()),
    }
}

/// The GID of the address of an identifier on a port.
fn gid_for(id: &CmId, device: &Device, port: u32) -> Gid {
    let by_address = id.ends().0.as_ref().and_then(gid_of);
    match by_address {
        Some(gid) if device.is_roce(port) => gid,
        _ => id.body.gids().0,
    }
}

/// Whether an identifier may have a device of this type.
pub(crate) fn is_allowed(id: &CmId, device: &Device) -> bool {
    let wanted = id.settings().node_type;
    wanted.is_none_or(|wanted| wanted == device.node_type())
}

/// Gives an identifier the device that has its address.
///
/// # Errors
///
/// `EINVAL` for a port space that the net device does not have, `ENODEV`, `ENOMEM`.
pub(crate) fn by_source(id: &Arc<CmId>, sleep: &MaySleep) -> Result {
    check_space(id)?;
    let mut tables = tables::lock(sleep);
    for entry in tables.devices.iter_mut().filter(|entry| !entry.is_leaving) {
        if !is_allowed(id, &entry.device) {
            continue;
        }
        for port in entry.device.ports() {
            let kind = entry.dev.gid_type(port);
            let gid = gid_for(id, &entry.device, port);
            if let Ok(sgid) = gid_on(id, &entry.device, port, kind, gid) {
                let old = id.body.set_sgid(Some(sgid));
                attach(entry, id, port, sleep)?;
                drop(tables);
                drop(old);
                return Ok(());
            }
        }
    }
    Err(ENODEV)
}

/// Gives the identifier of a peer the device and the port to which its request has come.
///
/// # Errors
///
/// As for [`by_source`].
pub(crate) fn by_request(
    id: &Arc<CmId>,
    dev: &Arc<Dev>,
    device: &Device,
    port: u32,
    sleep: &MaySleep,
) -> Result {
    check_space(id)?;
    let gid = match device.is_roce(port) {
        true => id.ends().0.as_ref().and_then(gid_of).unwrap_or_default(),
        false => id.body.gids().0,
    };
    let sgid = gid_on(id, device, port, dev.gid_type(port), gid)?;
    let old = id.body.set_sgid(Some(sgid));
    drop(old);
    let mut tables = tables::lock(sleep);
    attach(tables.entry(dev).ok_or(ENODEV)?, id, port, sleep)?;
    drop(tables);
    id.body.track(sleep);
    Ok(())
}

/// Gives the identifier of a peer the device of its listener, or any other one that has its address.
///
/// # Errors
///
/// As for [`by_source`].
pub(crate) fn by_listener(id: &Arc<CmId>, listener: &CmId, sleep: &MaySleep) -> Result {
    check_space(id)?;
    let gid = id.body.gids().0;
    let own = listener.device()?;
    let mut tables = tables::lock(sleep);
    let at = |tables: &mut Tables, dev: &Arc<Dev>, port: u32, kind: GidType| -> Result {
        let entry = tables.entry(dev).ok_or(ENODEV)?;
        let sgid = gid_on(id, &entry.device, port, kind, gid)?;
        drop(id.body.set_sgid(Some(sgid)));
        attach(entry, id, port, sleep)
    };
    let own_kind = listener.with(|inner| inner.gid_type);
    let mut found = at(&mut tables, &own.dev, own.port, own_kind);
    if found.is_err() {
        let mut places = KVec::new();
        for entry in tables.devices.iter().filter(|entry| !entry.is_leaving) {
            for port in entry.device.ports() {
                if !Arc::ptr_eq(&entry.dev, &own.dev) || port != own.port {
                    places.push((entry.dev.clone(), port), GFP_KERNEL)?;
                }
            }
        }
        for (dev, port) in places {
            found = at(&mut tables, &dev, port, dev.gid_type(port));
            if found.is_ok() {
                break;
            }
        }
    }
    drop(tables);
    found.map_err(|_| ENODEV)?;
    id.body.track(sleep);
    Ok(())
}
