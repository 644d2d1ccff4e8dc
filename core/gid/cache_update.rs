// SPDX-License-Identifier: GPL-2.0

//! Updating the caches of a device: at registration, and before events about changes.
//!
//! C header: `include/rdma/ib_cache.h`.

use kernel::prelude::*;
use rdma::{
    core::{gid::NewGid, Device},
    Gid, GidType, MaySleep,
};

use super::{cache, port_cache::PortAttrs, roce_gid};
use crate::registry::{event::Event, netdev, port, printk};
use kernel_ext::bindings as c;

/// The tables to read. The state, the LMC and the subnet prefix are always read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    gids: bool,
    pkeys: bool,
}

/// Creates the caches of a device that is being registered.
///
/// # Errors
///
/// `ENOMEM`, and errors of the driver when ports and tables are queried.
pub(crate) fn set_up(device: &Device, sleep: &MaySleep) -> Result {
    fill(device, sleep).inspect_err(|_| clean_up(device, sleep))
}

fn fill(device: &Device, sleep: &MaySleep) -> Result {
    for port in device.ports() {
        cache::make_table(device, port, roce_gid::type_mask(device, port), sleep)?;
    }
    roce_gid::follow(device, sleep);
    let all = Parts {
        gids: true,
        pkeys: true,
    };
    for port in device.ports() {
        update(device, port, all, sleep)?;
    }
    Ok(())
}

/// Deletes the GIDs of a device that is being unregistered, with calls of the driver's `del_gid`.
pub(crate) fn clean_up(device: &Device, sleep: &MaySleep) {
    roce_gid::unfollow(device, sleep);
    for port in device.ports() {
        if let Some(caches) = cache::of(device, port) {
            caches.gids.close(device, sleep);
        }
    }
}

/// The tables to read after an event; `None` if it affects no cache.
fn parts_of(event: u32) -> Option<Parts> {
    let (gids, pkeys) = match event {
        c::IB_EVENT_PORT_ERR | c::IB_EVENT_PORT_ACTIVE | c::IB_EVENT_LID_CHANGE => (false, false),
        c::IB_EVENT_PKEY_CHANGE => (false, true),
        c::IB_EVENT_CLIENT_REREGISTER | c::IB_EVENT_GID_CHANGE => (true, false),
        _ => return None,
    };
    Some(Parts { gids, pkeys })
}

/// Updates a port's caches before an event is delivered.
///
/// # Errors
///
/// Errors of the driver; the event is then not delivered.
pub(crate) fn before_event(device: &Device, event: &Event, sleep: &MaySleep) -> Result {
    match parts_of(event.kind()) {
        Some(parts) => update(device, event.port(), parts, sleep),
        None => Ok(()),
    }
}

fn update(device: &Device, port: u32, parts: Parts, sleep: &MaySleep) -> Result {
    let caches = cache::of(device, port).ok_or(EINVAL)?;
    let mut attr = port::query(device, port, sleep)?;
    if parts.gids && !device.is_roce(port) {
        read_gids(device, port, &mut attr, sleep)?;
    }
    let pkeys = if parts.pkeys && attr.pkey_tbl_len != 0 {
        Some(read_pkeys(device, port, attr.pkey_tbl_len, sleep)?)
    } else {
        None
    };
    let before = caches.known.update(PortAttrs {
        pkeys,
        lmc: attr.lmc,
        state: attr.state,
        subnet_prefix: attr.subnet_prefix,
    });
    if before != c::IB_PORT_NOP && before != attr.state {
        printk::info(
            device,
            fmt!("Port: {port} Link {}\n", port::state_name(attr.state)),
        );
    }
    Ok(())
}

fn read_pkeys(device: &Device, port: u32, length: u16, sleep: &MaySleep) -> Result<KVec<u16>> {
    let mut pkeys = KVec::with_capacity(length.into(), GFP_KERNEL)?;
    for index in 0..length {
        let pkey = port::query_pkey(device, port, index, sleep).inspect_err(|error| {
            dev_warn!(device.dev(), "no P_Key at index {index}: {error:?}\n");
        })?;
        pkeys.push(pkey, GFP_KERNEL)?;
    }
    Ok(pkeys)
}

/// Reads the GID table of a port whose driver maintains it.
fn read_gids(device: &Device, port: u32, attr: &mut c::ib_port_attr, sleep: &MaySleep) -> Result {
    let caches = cache::of(device, port).ok_or(EINVAL)?;
    let ndev = device.is_iwarp(port).then(|| netdev::of(device, port));
    for index in 0..u16::try_from(attr.gid_tbl_len).unwrap_or(u16::MAX) {
        let Some(gid) = device.driver_query_gid(port, index.into(), sleep) else {
            break;
        };
        let gid = gid.inspect_err(|error| {
            dev_warn!(device.dev(), "no GID at index {index}: {error:?}\n");
        })?;
        // An iWARP port without a net device has no GIDs.
        if matches!(ndev, Some(None)) {
            continue;
        }
        let gid = Gid::from(gid);
        attr.subnet_prefix = gid.subnet_prefix();
        let new = NewGid {
            gid,
            gid_type: GidType::Ib,
            port_num: port,
            index,
            ndev: ndev.as_ref().and_then(Option::as_deref),
        };
        // Entries beyond the table are dropped.
        let _ = caches.gids.replace(device, &new, sleep);
    }
    Ok(())
}
