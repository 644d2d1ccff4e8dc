// SPDX-License-Identifier: GPL-2.0

//! Binding an identifier to an address: its device, if it has one, and its port.
//!
//! C header: `include/rdma/rdma_cm.h`.

use cm_rules::{
    address::{Address, Family},
    binding::default_family_only,
    state::Input,
};
use kernel::{prelude::*, sync::Arc};
use rdma::{
    core::cma::{device::gid_at, param::is_v6_only},
    Gid, MaySleep,
};

use crate::{
    address::to_raw,
    attach::{self, attach, INFINIBAND},
    devices::{has_af_ib, manager, Manager},
    id::CmId,
    ports, tables,
};

/// Binds an identifier. `to` is the destination of an identifier that is bound since it resolves an address, and the index of its net
/// device, if the address has one.
///
/// # Errors
///
/// `EINVAL` unless it is new; those of finding a device and of taking a port.
pub(crate) fn bind(
    id: &Arc<CmId>,
    source: Address,
    to: Option<(Address, Option<u32>)>,
    sleep: &MaySleep,
) -> Result {
    let step = id.call(Input::Bind)?;
    let net_device = id.body.net_device();
    if let Some((_, Some(index))) = to {
        id.body.set_net_device(index as i32);
    }
    let bound = try_bind(id, source, to.map(|(destination, _)| destination), sleep);
    if bound.is_err() {
        // The next address may be one of another.
        id.body.set_net_device(net_device);
        id.undo(&step);
    }
    bound
}

fn try_bind(
    id: &Arc<CmId>,
    source: Address,
    destination: Option<Address>,
    sleep: &MaySleep,
) -> Result {
    if let (Address::Ip6(ip), true) = (&source, source.is_link_local()) {
        if ip.scope_id == 0 {
            return Err(EINVAL);
        }
        id.body.set_net_device(ip.scope_id as i32);
    }
    id.set_ends(Some(source), None);
    if !source.is_any() {
        translate(id, &source, sleep)?;
        attach::by_source(id, sleep)?;
    }
    id.with(|inner| {
        if !inner.settings.has_said_family_only {
            let v6_only = source.family() == Family::Ip6 && is_v6_only(id.body.net());
            inner.settings.family_only = default_family_only(source.family(), v6_only);
        }
    });
    // One that is left of an attempt before may be of another family.
    let left = id.ends().1.filter(|left| left.family() == source.family());
    let destination = destination.or(left);
    let destination = destination.unwrap_or(Address::any(source.family()));
    id.set_ends(None, Some(destination));
    let taken = ports::take(id, sleep);
    match taken {
        Ok(()) => id.body.track(sleep),
        Err(_) => attach::release(id, sleep),
    }
    taken
}

/// The link-layer address of an address: that of its net device, or on InfiniBand the GID itself.
///
/// # Errors
///
/// `ENODEV`, `EADDRNOTAVAIL` if no net device has it.
pub(crate) fn translate(id: &CmId, address: &Address, sleep: &MaySleep) -> Result {
    match address {
        Address::Ib(ib) => {
            id.body.set_link_type(INFINIBAND);
            id.body.set_source_gid(Gid(ib.addr));
            id.body.set_pkey(ib.pkey);
            Ok(())
        }
        _ => id.body.translate(&to_raw(address), sleep),
    }
}

/// Binds an identifier that connects to the host itself to any device with an active port, or the first one.
///
/// # Errors
///
/// `ENODEV`, and those of the device.
pub(crate) fn bind_loopback(id: &Arc<CmId>, source: Address, sleep: &MaySleep) -> Result {
    let needs_ib = source.family() == Family::Ib;
    let mut tables = tables::lock(sleep);
    let mut chosen = None;
    for entry in tables.devices.iter().filter(|entry| !entry.is_leaving) {
        let first = *entry.device.ports().start();
        if needs_ib && manager(&entry.device, first) != Some(Manager::Ib) {
            continue;
        }
        let mut ports = entry.device.ports();
        let active = ports.find(|port| rdma::core::cma::device::is_active(&entry.device, *port));
        if let Some(port) = active {
            chosen = Some((entry.dev.clone(), port));
            break;
        }
        chosen = chosen.or(Some((entry.dev.clone(), 1)));
    }
    let (dev, port) = chosen.ok_or(ENODEV)?;
    let entry = tables.entry(&dev).ok_or(ENODEV)?;
    let gid = gid_at(&entry.device, port, 0)?;
    let pkey = rdma::core::address_vector::pkey_at(&entry.device, port, 0)?;
    id.body.set_link_type(match entry.device.is_ib(port) {
        true => INFINIBAND,
        false => attach::ETHERNET,
    });
    id.body.set_source_gid(gid);
    id.body.set_pkey(pkey);
    attach(entry, id, port, sleep)?;
    drop(tables);
    id.body.track(sleep);
    id.set_ends(Some(source.with_loopback()), None);
    Ok(())
}

/// Binds an identifier that connects to a GID to the device that has it, or one of the same subnet.
///
/// # Errors
///
/// `ENODEV`.
pub(crate) fn bind_ib(
    id: &Arc<CmId>,
    source: Address,
    destination: &Address,
    sleep: &MaySleep,
) -> Result {
    let (Address::Ib(from), Address::Ib(to)) = (source, destination) else {
        return Err(EINVAL);
    };
    let mut tables = tables::lock(sleep);
    let mut found = None;
    'search: for entry in tables.devices.iter().filter(|entry| !entry.is_leaving) {
        let device = &entry.device;
        for port in device.ports().filter(|&port| has_af_ib(device, port)) {
            if rdma::core::address_vector::pkey_index(device, port, to.pkey).is_err() {
                continue;
            }
            let is_active = rdma::core::cma::device::is_active(device, port);
            let length = device.immutable(port).map_or(0, |data| data.gid_tbl_len);
            for index in 0..length {
                let Ok(gid) = gid_at(device, port, index) else {
                    continue;
                };
                let same_subnet = gid.0.first_chunk::<8>() == to.addr.first_chunk::<8>();
                if gid.0 == to.addr || (same_subnet && is_active) {
                    found = Some((entry.dev.clone(), port, gid));
                    break 'search;
                }
            }
        }
    }
    let (dev, port, gid) = found.ok_or(ENODEV)?;
    attach(tables.entry(&dev).ok_or(ENODEV)?, id, port, sleep)?;
    drop(tables);
    id.body.track(sleep);
    let source = Address::Ib(cm_rules::address::Ib {
        addr: gid.0,
        ..from
    });
    id.set_ends(Some(source), None);
    translate(id, &source, sleep)
}
