// SPDX-License-Identifier: GPL-2.0

//! Address handles, and the address vector of a reply to a completion.
//!
//! An address handle has a reference to its source GID's table entry. Callers pass the entry or its index; by the index
//! [`with_source`] looks up the entry, and restores the caller's address vector afterwards.
//!
//! These verbs may be called in any context unless the flags allow sleeping.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_ah`).

use kernel::prelude::*;
use kernel_ext::{
    bindings as c,
    entry::Const,
    error::{EOPNOTSUPP, EPROTOTYPE},
    export::export,
};
use rdma::{
    core::{
        ah::{AhContext, GrhView, IdleAh},
        ah_attr::{AhAttrOut, AhVector, Route},
        cq::WcView,
        gid::GidRef,
        network_header::NetworkHeader,
        object::{Failed, Fresh, Owned, OwnedOrErr, UdataView},
        Ah, Device, Pd,
    },
    Gid, MaySleep,
};

use crate::{
    addr,
    gid::{self, table::GidFilter},
    verbs::{ah_attr, lag},
};

/// Checks that an address vector is valid for the device.
fn check(device: &Device, vector: &AhVector) -> Result {
    let raw = vector.raw();
    if !device.is_port_valid(raw.port_num) {
        return Err(EINVAL);
    }
    let needs_route = device.port_caps(raw.port_num) & c::RDMA_CORE_PORT_IB_GRH_REQUIRED != 0
        || raw.type_ == c::RDMA_AH_ATTR_TYPE_ROCE;
    if needs_route && !vector.has_route() {
        return Err(EINVAL);
    }
    let fits = |source: &rdma::core::gid::GidEntry| {
        source.index() == u16::from(raw.grh.sgid_index) && source.port_num() == raw.port_num
    };
    if vector.sgid().is_some_and(|source| !fits(source.entry())) {
        return Err(EINVAL);
    }
    Ok(())
}

/// Calls `f` with the source entry set in the address vector of `owner`, if there is a vector and it has a GRH.
///
/// # Errors
///
/// `EINVAL` for an address vector that is invalid for the device; the error of looking up the source entry; and errors
/// of `f`.
pub(super) fn with_source<O: ?Sized, R>(
    device: &Device,
    owner: &mut O,
    vector: fn(&mut O) -> Option<&mut AhVector>,
    f: impl FnOnce(&mut O) -> Result<R>,
) -> Result<R> {
    let Some(given) = vector(owner) else {
        return f(owner);
    };
    check(device, given)?;
    let missing = given.has_route() && given.sgid().is_none();
    if missing {
        let raw = given.raw();
        let source = gid::get(device, raw.port_num, raw.grh.sgid_index.into())?;
        given.set_sgid(source);
    }
    let result = f(owner);
    if missing {
        drop(vector(owner).and_then(AhVector::take_sgid));
    }
    result
}

/// The Ethernet address of a multicast group (RFC 1112, RFC 2464).
fn multicast_mac(group: Gid) -> [u8; 6] {
    let [.., a, b, c, d] = group.0;
    match group.ipv4() {
        Some(_) => [0x01, 0x00, 0x5e, b & 0x7f, c, d],
        None => [0x33, 0x33, a, b, c, d],
    }
}

/// The Ethernet address that a link-local GID was made from (RFC 4291, appendix A). `None` for another GID.
fn link_local_mac(gid: Gid) -> Option<[u8; 6]> {
    let [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, _, _, d, e, f] = gid.0 else {
        return None;
    };
    Some([a ^ 2, b, c, d, e, f])
}

/// Resolves the Ethernet address of the next hop to a unicast destination, and the hop limit. The source entry is set.
fn resolve_unicast(vector: &mut AhVector, sleep: &MaySleep) -> Result {
    let source = vector.sgid().ok_or(EINVAL)?;
    let destination = vector.dgid();
    if source.gid_type().as_raw() == c::IB_GID_TYPE_ROCE {
        if let Some(mac) = link_local_mac(destination) {
            vector.set_dmac(mac);
            return Ok(());
        }
    }
    let (mac, hop_limit) = addr::resolve_gid(source, destination, sleep)?;
    vector.set_dmac(mac);
    vector.set_hop_limit(hop_limit as u8);
    Ok(())
}

/// Resolves the Ethernet address of the next hop, and the hop limit. The source entry is set.
pub(super) fn resolve(vector: &mut AhVector, sleep: &MaySleep) -> Result {
    let destination = vector.dgid();
    if !destination.is_multicast() {
        return resolve_unicast(vector, sleep);
    }
    vector.set_dmac(multicast_mac(destination));
    Ok(())
}

/// Releases the references of a handle that the driver has failed to create.
fn discard(mut failed: Failed<Fresh<Ah>>) -> Error {
    failed.object.set_source(None);
    failed.error
}

fn create(pd: &Pd, vector: &mut AhVector, context: &AhContext<'_>) -> Result<Owned<Ah>> {
    let device = pd.device();
    with_source(
        device,
        vector,
        |vector| Some(vector),
        |vector| {
            let slave = lag::slave_for(device, vector, context.sleep())?;
            if !device.has_create_ah() {
                return Err(EOPNOTSUPP);
            }
            let ah = Fresh::new_ah(pd, vector, context.sleep())?;
            let ah = ah.driver_create(vector, context, slave.as_ref());
            let ah = ah.map_err(discard)?;
            pd.uses().inc();
            Ok(ah)
        },
    )
}

fn create_user(
    pd: &Pd,
    vector: &mut AhVector,
    udata: Option<&UdataView>,
    context: &AhContext<'_>,
    sleep: &MaySleep,
) -> Result<Owned<Ah>> {
    with_source(
        pd.device(),
        vector,
        |vector| Some(vector),
        |vector| {
            if vector.raw().type_ == c::RDMA_AH_ATTR_TYPE_ROCE {
                resolve(vector, sleep)?;
            }
            if udata.is_none() && !pd.device().has_create_ah() {
                return Err(EOPNOTSUPP);
            }
            let ah = Fresh::new_ah(pd, vector, Some(sleep))?;
            let ah = match udata {
                Some(udata) => ah.driver_create_user(vector, context, udata),
                None => ah.driver_create(vector, context, None),
            };
            let ah = ah.map_err(discard)?;
            pd.uses().inc();
            Ok(ah)
        },
    )
}

/// Creates an address handle for a kernel client from a complete address vector. Sleeps only if `flags` (`enum
/// rdma_create_ah_flags`) allows it.
///
/// # Errors
///
/// `EINVAL` for an address vector that is invalid for the device, `EOPNOTSUPP`, `ENOMEM`, and errors of the driver.
#[export]
fn rdma_create_ah(pd: &Pd, ah_attr: &mut AhVector, flags: AhContext<'_>) -> OwnedOrErr<Ah> {
    OwnedOrErr(create(pd, ah_attr, &flags))
}

/// Creates an address handle for user space, or for a kernel client if `udata` is null. Resolves the Ethernet address
/// of the next hop. Process context.
///
/// # Errors
///
/// As for `rdma_create_ah`; `ETIMEDOUT`, or routing errors such as `EHOSTUNREACH`.
#[export]
fn rdma_create_user_ah(
    pd: &Pd,
    ah_attr: &mut AhVector,
    udata: Option<&UdataView>,
    sleep: &MaySleep,
) -> OwnedOrErr<Ah> {
    let context = AhContext::sleepable(sleep);
    OwnedOrErr(create_user(pd, ah_attr, udata, &context, sleep))
}

/// Changes the address vector of an address handle; its type must be the same. Any context.
///
/// # Errors
///
/// `EINVAL` for another type, or an address vector that is invalid for the device; `EOPNOTSUPP`, and errors of the
/// driver: the handle is then unchanged.
#[export]
fn rdma_modify_ah(ah: IdleAh<'_>, ah_attr: &mut AhVector) -> Result {
    if ah.kind() != ah_attr.raw().type_ {
        return Err(EINVAL);
    }
    with_source(
        ah.device(),
        ah_attr,
        |vector| Some(vector),
        |vector| {
            ah.driver_modify(vector)?;
            ah.set_source(vector.route_source());
            Ok(())
        },
    )
}

/// Queries the address vector of a handle, without a reference to the source entry. Any context.
///
/// # Errors
///
/// `EOPNOTSUPP`, and errors of the driver.
#[export]
fn rdma_query_ah(ah: &Ah, ah_attr: &mut c::rdma_ah_attr) -> Result {
    ah_attr.grh.sgid_attr = core::ptr::null();
    ah.driver_query(ah_attr)
}

/// Destroys an address handle. Sleeps only if `flags` (`enum rdma_destroy_ah_flags`) allows it.
///
/// # Errors
///
/// Errors of the driver: the handle is then not destroyed.
#[export]
fn rdma_destroy_ah_user(ah: Owned<Ah>, flags: AhContext<'_>, _udata: Option<&UdataView>) -> Result {
    let mut ah = ah.driver_destroy(&flags).map_err(Failed::keep)?;
    // SAFETY: The handle, which was counted when it was made, is destroyed.
    unsafe { ah.pd().uses().dec() };
    ah.set_source(None);
    Ok(())
}

/// The type of a port's address vectors.
pub(crate) fn kind_of(device: &Device, port: u32) -> u32 {
    if device.is_roce(port) {
        c::RDMA_AH_ATTR_TYPE_ROCE
    } else if device.is_ib(port) && device.port_caps(port) & c::RDMA_CORE_CAP_OPA_AH != 0 {
        c::RDMA_AH_ATTR_TYPE_OPA
    } else if device.is_ib(port) || device.sub_type() == c::RDMA_DEVICE_TYPE_SMI {
        c::RDMA_AH_ATTR_TYPE_IB
    } else {
        c::RDMA_AH_ATTR_TYPE_UNDEFINED
    }
}

/// The next header value of a RoCE v2 datagram.
const IPPROTO_UDP: u8 = 17;

/// The network type of a received datagram, `enum rdma_network_type`.
pub(crate) fn network_of(device: &Device, port: u32, wc: &c::ib_wc, header: &NetworkHeader) -> u32 {
    if device.port_caps(port) & c::RDMA_CORE_CAP_ETH_AH == 0 {
        return c::RDMA_NETWORK_IB;
    }
    if wc.wc_flags as u32 & c::IB_WC_WITH_NETWORK_HDR_TYPE != 0 {
        return wc.network_hdr_type.into();
    }
    if device.is_ib(port) {
        return c::RDMA_NETWORK_IB;
    }
    let [_, _, _, _, _, _, next_header, ..] = *header.bytes();
    if ah_attr::version(header) == 4 {
        c::RDMA_NETWORK_IPV4
    } else if next_header == IPPROTO_UDP {
        c::RDMA_NETWORK_IPV6
    } else {
        c::RDMA_NETWORK_ROCE_V1
    }
}

/// The GID type of a network type.
fn gid_type_of(network: u32) -> u32 {
    match network {
        c::RDMA_NETWORK_ROCE_V1 => c::IB_GID_TYPE_ROCE,
        c::RDMA_NETWORK_IPV4 | c::RDMA_NETWORK_IPV6 => c::IB_GID_TYPE_ROCE_UDP_ENCAP,
        _ => c::IB_GID_TYPE_IB,
    }
}

/// The well-known GUID of the subnet administrator: GIDs with it are in no table.
const SA_WELL_KNOWN_GUID: u64 = (1 << 57) | 2;

/// The entry of the destination GID of a datagram over Ethernet.
fn find_ethernet(
    device: &Device,
    port: u32,
    to: Gid,
    gid_type: u32,
    wc: &c::ib_wc,
) -> Result<GidRef> {
    let tagged = wc.wc_flags as u32 & c::IB_WC_WITH_VLAN != 0;
    let vlan = tagged.then_some(wc.vlan_id).filter(|&vlan| vlan != 0xffff);
    gid::find_by(device, port, |entry| {
        entry.gid() == to
            && entry.gid_type().as_raw() == gid_type
            && gid::l2_fields(entry).is_ok_and(|fields| fields.vlan == vlan)
    })
}

/// The entry of the destination GID of a datagram over InfiniBand.
fn find_infiniband(device: &Device, port: u32, to: Gid) -> Result<GidRef> {
    let [.., a, b, c, d, e, f, g, h] = to.0;
    if u64::from_be_bytes([a, b, c, d, e, f, g, h]) == SA_WELL_KNOWN_GUID {
        return gid::get(device, port, 0);
    }
    let wanted = GidFilter {
        gid: Some(to),
        gid_type: Some(c::IB_GID_TYPE_IB),
        ..GidFilter::default()
    };
    gid::find(device, port, &wanted)
}

/// The address vector for a reply to a received datagram.
fn reply_to(
    device: &Device,
    port: u32,
    wc: &c::ib_wc,
    header: &NetworkHeader,
    sleep: &MaySleep,
) -> Result<AhVector> {
    let network = network_of(device, port, wc, header);
    // Source and destination are exchanged.
    let (sender, receiver) = ah_attr::gids(header, network)?;
    let mut vector = AhVector::new(kind_of(device, port), port, wc.sl);
    let has_route = wc.wc_flags as u32 & c::IB_WC_GRH != 0;
    let is_roce = device.is_roce(port);
    if !is_roce {
        vector.set_lids(wc.slid, wc.dlid_path_bits);
    }
    let source = match (is_roce, has_route) {
        (true, false) => return Err(EPROTOTYPE),
        (false, false) => return Ok(vector),
        (true, true) => find_ethernet(device, port, receiver, gid_type_of(network), wc)?,
        (false, true) => find_infiniband(device, port, receiver)?,
    };
    let [a, b, c, d, ..] = *header.bytes();
    let flow = u32::from_be_bytes([a, b, c, d]);
    let route = Route {
        dgid: Some(sender),
        flow_label: flow & 0xf_ffff,
        hop_limit: 0xff,
        traffic_class: (flow >> 20) as u8,
    };
    vector.set_route(&route, source);
    if is_roce {
        vector.set_hop_limit(0xff);
        resolve_unicast(&mut vector, sleep)?;
    }
    Ok(vector)
}

/// Initialises the address vector for a reply to a received datagram. The caller releases it with
/// `rdma_destroy_ah_attr`. Process context.
///
/// # Errors
///
/// `EPROTOTYPE` for a datagram over Ethernet without a GRH; `EINVAL` for an invalid header; the error of looking up the
/// source entry; `ETIMEDOUT`, or routing errors such as `EHOSTUNREACH`.
#[export]
fn ib_init_ah_attr_from_wc(
    device: &Device,
    port_num: u32,
    wc: Const<'_, WcView>,
    grh: Const<'_, GrhView>,
    place: AhAttrOut<'_>,
    sleep: &MaySleep,
) -> Result {
    let vector = reply_to(device, port_num, &wc.get(), &grh.header(), sleep);
    match vector {
        Ok(vector) => {
            place.set(vector);
            Ok(())
        }
        Err(error) => {
            place.set(AhVector::zeroed());
            Err(error)
        }
    }
}

/// Creates the address handle for a reply to a received datagram. Process context.
///
/// # Errors
///
/// As for `ib_init_ah_attr_from_wc` and `rdma_create_ah`.
#[export]
fn ib_create_ah_from_wc(
    pd: &Pd,
    wc: Const<'_, WcView>,
    grh: Const<'_, GrhView>,
    port_num: u32,
    sleep: &MaySleep,
) -> OwnedOrErr<Ah> {
    let vector = reply_to(pd.device(), port_num, &wc.get(), &grh.header(), sleep);
    let context = AhContext::sleepable(sleep);
    OwnedOrErr(vector.and_then(|mut vector| create(pd, &mut vector, &context)))
}
