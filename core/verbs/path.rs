// SPDX-License-Identifier: GPL-2.0

//! Address vectors from path records and multicast member records.
//!
//! C header: `include/rdma/ib_sa.h`.

use kernel::prelude::*;
use kernel_ext::{bindings as c, export::export, net::device::NetDevice};
use rdma::{
    core::{
        ah_attr::{AhAttrOut, AhVector, Route},
        gid::{BorrowedGid, BorrowedGidArgument, GidRef},
        path::{member_gids, Path, PathKind},
        Device,
    },
    MaySleep,
};

use crate::{
    addr,
    gid::{self, cache, table::GidFilter},
    verbs::ah,
};

/// The path bits of a LID, where the LMC of the port is not known.
const PATH_BITS: u8 = 0x7f;

/// The permissive LID (IBTA, volume 1, section 4.1.3).
const PERMISSIVE_LID: u32 = 0xffff;

/// The path bits of a port's LID.
fn path_bits_mask(device: &Device, port: u32) -> u8 {
    let lmc = cache::of(device, port).map(|port| port.known.with(|known| known.lmc));
    // The LMC has three bits.
    lmc.map_or(PATH_BITS, |lmc| {
        (1u8 << (lmc & 7)).wrapping_sub(1) & PATH_BITS
    })
}

/// Checks the route to the destination of a RoCE path.
///
/// # Errors
///
/// `EINVAL` for an IPv4 and an IPv6 address, a source without a net device, or a RoCE v1 path through a router; routing
/// errors such as `EHOSTUNREACH`.
fn resolve_route(path: &mut Path, source: Option<BorrowedGid<'_>>, sleep: &MaySleep) -> Result {
    if path.is_resolved() {
        return Ok(());
    }
    let source = source.ok_or(EINVAL)?;
    let is_routed = addr::is_routed(source, (path.sgid(), path.dgid()), sleep)?;
    if is_routed && path.kind() != PathKind::RoceV2 {
        return Err(EINVAL);
    }
    path.set_resolved();
    Ok(())
}

/// The GRH of a path, and its source entry.
fn route_of(
    device: &Device,
    port: u32,
    path: &Path,
    source: Option<BorrowedGid<'_>>,
) -> Result<(Route, GidRef)> {
    let source = match source {
        Some(source) => source.hold(),
        None => {
            let wanted = GidFilter {
                gid: Some(path.sgid()),
                gid_type: Some(path.kind().gid_type()),
                ndev: None,
                default: None,
            };
            gid::find(device, port, &wanted)?
        }
    };
    let raw = path.raw();
    let route = Route {
        dgid: Some(path.dgid()),
        flow_label: u32::from_be(raw.flow_label),
        hop_limit: raw.hop_limit,
        traffic_class: raw.traffic_class,
    };
    Ok((route, source))
}

/// Initialises an address vector from a path.
fn fill(
    vector: &mut AhVector,
    (device, port): (&Device, u32),
    path: &mut Path,
    source: Option<BorrowedGid<'_>>,
    sleep: &MaySleep,
) -> Result {
    let is_roce = path.kind().is_roce();
    *vector = AhVector::new(ah::kind_of(device, port), port, path.raw().sl);
    vector.modify(|raw| raw.static_rate = path.raw().rate);
    if is_roce {
        resolve_route(path, source, sleep)?;
    }
    match path.dmac() {
        Some(dmac) => vector.set_dmac(dmac),
        None => {
            let (slid, dlid) = path.lids();
            vector.set_lids(dlid, slid as u8 & path_bits_mask(device, port));
            if path.kind() == PathKind::Opa && dlid == PERMISSIVE_LID {
                vector.make_globally_routed();
            }
        }
    }
    if is_roce || path.raw().hop_limit > 0 {
        let (route, source) = route_of(device, port, path, source)?;
        vector.set_route(&route, source);
    }
    Ok(())
}

/// Initialises an address vector from a path record. On RoCE the caller passes the source entry; otherwise it is looked
/// up if it is required and not passed. Process context.
///
/// # Errors
///
/// `ENOENT` if the port does not have the source GID; on RoCE `EINVAL` without a source, and routing errors.
#[export]
fn ib_init_ah_attr_from_path(
    device: &Device,
    port_num: u32,
    path: &mut Path,
    ah_attr: AhAttrOut<'_>,
    sgid_attr: BorrowedGidArgument<'_>,
    sleep: &MaySleep,
) -> Result {
    let mut vector = AhVector::zeroed();
    let filled = fill(&mut vector, (device, port_num), path, sgid_attr.0, sleep);
    ah_attr.set(vector);
    filled
}

/// Initialises an address vector for a multicast group, from a port's member record. Any context.
///
/// # Errors
///
/// `EINVAL` for a port that is neither InfiniBand nor RoCE, `ENOENT` if it does not have the member's GID on the net
/// device.
#[export]
fn ib_init_ah_from_mcmember(
    device: &Device,
    port_num: u32,
    member: &mut c::ib_sa_mcmember_rec,
    ndev: Option<&NetDevice>,
    gid_type: c::ib_gid_type,
    ah_attr: AhAttrOut<'_>,
) -> Result {
    if !device.is_ib(port_num) && !device.is_roce(port_num) {
        return Err(EINVAL);
    }
    let (group, own) = member_gids(member);
    let wanted = GidFilter {
        gid: Some(own),
        gid_type: Some(gid_type),
        // InfiniBand GIDs have no net device.
        ndev: ndev.filter(|_| !device.is_ib(port_num)),
        default: None,
    };
    let source = gid::find(device, port_num, &wanted)?;
    let mut vector = AhVector::new(ah::kind_of(device, port_num), port_num, member.sl);
    vector.modify(|raw| raw.static_rate = member.rate);
    vector.set_lids(u16::from_be(member.mlid).into(), 0);
    let route = Route {
        dgid: Some(group),
        flow_label: u32::from_be(member.flow_label),
        hop_limit: member.hop_limit,
        traffic_class: member.traffic_class,
    };
    vector.set_route(&route, source);
    ah_attr.set(vector);
    Ok(())
}
