// SPDX-License-Identifier: GPL-2.0

//! The ports of namespaces: who may have which, and whose listener a request is for.
//!
//! C headers: `include/rdma/rdma_cm.h`, `include/net/ip.h`.

use cm_rules::{
    address::Address,
    binding::{check_privilege, Ephemeral},
    errno::Errno,
    listener::{Listener, Place as ListenerPlace},
    port_space::{port_of, PortSpace},
    private_data::Parsed,
};
use kernel::{prelude::*, sync::Arc};
use kernel_ext::{error::EADDRNOTAVAIL, random};
use rdma::{
    core::cma::param::{may_bind_service, port_range},
    MaySleep,
};

use crate::{
    address::error,
    id::CmId,
    tables::{self, place, Place, Tables},
};

/// Takes the port that the address of an identifier names, or any.
///
/// # Errors
///
/// `EPROTONOSUPPORT`, `EACCES`, `EADDRINUSE`, `EADDRNOTAVAIL`, `ENOMEM`.
pub(crate) fn take(id: &Arc<CmId>, sleep: &MaySleep) -> Result {
    let source = id.ends().0.ok_or(EINVAL)?;
    let (space, address) = PortSpace::select(id.body.space(), source).map_err(error)?;
    id.set_ends(Some(address), None);
    let mut tables = tables::lock(sleep);
    match address.port() {
        0 => take_any(&mut tables, id, space, address),
        port => {
            check_privilege(port, may_bind_service()).map_err(error)?;
            check(&tables, id, space, port, false)?;
            put(&mut tables, id, space, port, address)
        }
    }
}

fn take_any(tables: &mut Tables, id: &Arc<CmId>, space: PortSpace, address: Address) -> Result {
    let own = id.as_owner().ok_or(EINVAL)?;
    let (low, high) = port_range(id.body.net());
    for port in Ephemeral::new(low, high, random::number(), tables.last_port) {
        let others = tables.owners(&place_of(id, space, port));
        let is_free = others.is_none_or(|others| {
            let mut owners = others.iter().filter_map(|other| other.as_owner());
            owners.all(|other| own.differs_from(&other))
        });
        if is_free {
            put(tables, id, space, port, address)?;
            tables.last_port = Some(port);
            return Ok(());
        }
    }
    Err(EADDRNOTAVAIL)
}

fn place_of(id: &CmId, space: PortSpace, port: u16) -> Place {
    place(id.body.net().cookie(), space, port)
}

/// Checks whether an identifier may have a port, or listen there, beside those that have it.
fn check(tables: &Tables, id: &Arc<CmId>, space: PortSpace, port: u16, listens: bool) -> Result {
    let own = id.as_owner().ok_or(EINVAL)?;
    let Some(others) = tables.owners(&place_of(id, space, port)) else {
        return Ok(());
    };
    let others = others.iter().rev().filter(|other| !Arc::ptr_eq(other, id));
    for other in others.filter_map(|other| other.as_owner()) {
        let allowed: Result<(), Errno> = match listens {
            true => own.may_listen_beside(&other),
            false => own.may_share_with(&other),
        };
        allowed.map_err(error)?;
    }
    Ok(())
}

fn put(
    tables: &mut Tables,
    id: &Arc<CmId>,
    space: PortSpace,
    port: u16,
    address: Address,
) -> Result {
    let place = place_of(id, space, port);
    match tables.ports().get_mut(&place) {
        Some(owners) => owners.push(id.clone(), GFP_KERNEL)?,
        None => {
            let mut owners = KVec::new();
            owners.push(id.clone(), GFP_KERNEL)?;
            tables
                .ports()
                .try_create_and_insert(place, owners, GFP_KERNEL)?;
        }
    }
    id.with(|inner| inner.place = Some((space, port)));
    id.set_ends(Some(address.with_port(port)), None);
    Ok(())
}

/// Ends the sharing of a port whose owner wants to listen.
///
/// # Errors
///
/// As for [`take`].
pub(crate) fn stop_sharing(id: &Arc<CmId>, sleep: &MaySleep) -> Result {
    if !id.settings().reuse {
        return Ok(());
    }
    let tables = tables::lock(sleep);
    if let Some((space, port)) = id.with(|inner| inner.place) {
        check(&tables, id, space, port, true)?;
    }
    id.with(|inner| inner.settings.reuse = false);
    Ok(())
}

/// Gives the port up.
pub(crate) fn release(id: &Arc<CmId>, sleep: &MaySleep) {
    let Some((space, port)) = id.with(|inner| inner.place.take()) else {
        return;
    };
    let place = place_of(id, space, port);
    let mut tables = tables::lock(sleep);
    let mut is_empty = false;
    let mut removed = None;
    if let Some(owners) = tables.ports().get_mut(&place) {
        if let Some(at) = owners.iter().position(|other| Arc::ptr_eq(other, id)) {
            removed = owners.remove(at).ok();
        }
        is_empty = owners.is_empty();
    }
    let freed = is_empty.then(|| tables.ports().remove(&place));
    drop(tables);
    drop((removed, freed));
}

/// Where a request has come in.
pub(crate) struct Arrival<'a> {
    /// The cookie of the namespace in which listeners are looked for.
    pub(crate) namespace: u64,
    /// The service, in host order.
    pub(crate) service_id: u64,
    /// The header of its private data.
    pub(crate) header: &'a Parsed,
    /// The port and the net device.
    pub(crate) place: ListenerPlace,
}

/// The listener that a request is for, among those on a device.
pub(crate) fn find_listener(
    tables: &Tables,
    arrival: &Arrival<'_>,
    is_there: impl Fn(&CmId) -> bool,
) -> Option<Arc<CmId>> {
    let space = PortSpace::from_service_id(arrival.service_id)?;
    let place = place(arrival.namespace, space, port_of(arrival.service_id));
    let takes_here = |id: &CmId, listener: &Listener| {
        let own = ListenerPlace {
            port_num: id.body.port(),
            net_device: id.body.net_device().unsigned_abs(),
        };
        let same_namespace = id.body.net().cookie() == arrival.namespace;
        is_there(id) && listener.takes_at(own, arrival.header, arrival.place, same_namespace)
    };
    for id in tables.owners(&place)?.iter().rev() {
        let Some(owner) = id.as_owner() else { continue };
        let listener = Listener {
            address: owner.src,
            family_only: owner.family_only,
        };
        if !listener.takes(arrival.header) {
            continue;
        }
        if takes_here(id, &listener) {
            return Some(id.clone());
        }
        let mut children = tables.children(id).iter();
        if let Some(child) = children.find(|child| takes_here(child, &listener)) {
            return Some(child.clone());
        }
    }
    None
}
