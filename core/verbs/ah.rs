// SPDX-License-Identifier: GPL-2.0

//! Address handles, and how the address vector of a reply is made from a completion.
//!
//! An address handle has a reference to its source, the entry of a GID table. Callers give the entry, or its index:
//! then [`with_source`] finds the entry, and the caller's address vector is as it was afterwards.
//!
//! These verbs may be called in any context where the flags do not say that they may sleep.

use kernel::prelude::*;
use kernel_ext::{
    bindings as c,
    door::Const,
    error::{EOPNOTSUPP, EPROTOTYPE},
    export::export,
};
use rdma::{
    view::{
        ah::{AhContext, GrhView},
        ah_attr::{AhPlace, AhVector, Route},
        cq::WcView,
        gid::GidRef,
        network_header::NetworkHeader,
        object::{Failed, Fresh, Made, Owned, UdataView},
        Ah, Device, Pd,
    },
    Gid, MaySleep,
};

use crate::{
    addr,
    gid::{self, table::GidFilter},
    verbs::{ah_attr, lag},
};

/// Checks that an address vector is one for a port of the device.
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
    let fits = |source: &rdma::view::gid::GidEntry| {
        source.index() == u16::from(raw.grh.sgid_index) && source.port_num() == raw.port_num
    };
    if vector.sgid().is_some_and(|source| !fits(source.entry())) {
        return Err(EINVAL);
    }
    Ok(())
}

/// Calls `f` while an address vector of `owner` names the entry of its source, if it has a global route.
///
/// # Errors
///
/// `EINVAL` for an address vector that the device cannot have; that of a missing source; and what `f` fails with.
pub(super) fn with_source<O: ?Sized, R>(
    device: &Device,
    owner: &mut O,
    vector: fn(&mut O) -> &mut AhVector,
    f: impl FnOnce(&mut O) -> Result<R>,
) -> Result<R> {
    let given = vector(owner);
    check(device, given)?;
    let missing = given.has_route() && given.sgid().is_none();
    if missing {
        let raw = given.raw();
        let source = gid::get(device, raw.port_num, raw.grh.sgid_index.into())?;
        given.set_sgid(source);
    }
    let result = f(owner);
    if missing {
        drop(vector(owner).take_sgid());
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

/// The Ethernet address in a link-local GID, which was made from it (RFC 4291, appendix A). `None` for another GID.
fn link_local_mac(gid: Gid) -> Option<[u8; 6]> {
    let [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, _, _, d, e, f] = gid.0 else {
        return None;
    };
    Some([a ^ 2, b, c, d, e, f])
}

/// Finds the Ethernet address of the next hop to a unicast destination, and the hop limit. The source is filled in.
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

/// Finds the Ethernet address of the next hop, and the hop limit. The source is filled in.
pub(super) fn resolve(vector: &mut AhVector, sleep: &MaySleep) -> Result {
    let destination = vector.dgid();
    if !destination.is_multicast() {
        return resolve_unicast(vector, sleep);
    }
    vector.set_dmac(multicast_mac(destination));
    Ok(())
}

/// Lets go of what a handle has that the driver has not made.
fn discard(failed: Failed<Fresh<Ah>>) -> Error {
    failed.object.set_source(None);
    failed.error
}

fn create(pd: &Pd, vector: &mut AhVector, context: &AhContext<'_>) -> Result<Owned<Ah>> {
    let device = pd.device();
    with_source(
        device,
        vector,
        |vector| vector,
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
        |vector| vector,
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

/// Makes an address handle for a client in the kernel, from an address vector that is complete. Sleeps only if `flags`
/// (`enum rdma_create_ah_flags`) says so.
///
/// # Errors
///
/// `EINVAL` for an address vector that the device cannot have, `EOPNOTSUPP`, `ENOMEM`, and what the driver answers.
#[export]
fn rdma_create_ah(pd: &Pd, ah_attr: &mut AhVector, flags: AhContext<'_>) -> Made<Ah> {
    Made(create(pd, ah_attr, &flags))
}

/// Makes an address handle for user space, or for a client in the kernel if there is no `udata`. Finds the Ethernet
/// address of the next hop. Process context.
///
/// # Errors
///
/// As for `rdma_create_ah`; `ETIMEDOUT`, `EHOSTUNREACH` … where the destination cannot be reached.
#[export]
fn rdma_create_user_ah(
    pd: &Pd,
    ah_attr: &mut AhVector,
    udata: Option<&UdataView>,
    sleep: &MaySleep,
) -> Made<Ah> {
    let context = AhContext::sleepable(sleep);
    Made(create_user(pd, ah_attr, udata, &context, sleep))
}

/// Changes an address handle to another address vector of its kind. Any context.
///
/// # Errors
///
/// `EINVAL` for one of another kind, or one that the device cannot have; `EOPNOTSUPP`, and what the driver answers: then the
/// handle is as it was.
#[export]
fn rdma_modify_ah(ah: &Ah, ah_attr: &mut AhVector) -> Result {
    if ah.kind() != ah_attr.raw().type_ {
        return Err(EINVAL);
    }
    with_source(
        ah.device(),
        ah_attr,
        |vector| vector,
        |vector| {
            ah.driver_modify(vector)?;
            ah.set_source(vector.route_source());
            Ok(())
        },
    )
}

/// Asks for the address vector of a handle, which has no reference to the source. Any context.
///
/// # Errors
///
/// `EOPNOTSUPP`, and what the driver answers.
#[export]
fn rdma_query_ah(ah: &Ah, ah_attr: &mut c::rdma_ah_attr) -> Result {
    ah_attr.grh.sgid_attr = core::ptr::null();
    ah.driver_query(ah_attr)
}

/// Destroys an address handle. Sleeps only if `flags` (`enum rdma_destroy_ah_flags`) says so.
///
/// # Errors
///
/// What the driver answers: then the handle stays.
#[export]
fn rdma_destroy_ah_user(ah: Owned<Ah>, flags: AhContext<'_>, _udata: Option<&UdataView>) -> Result {
    let ah = ah.driver_destroy(&flags).map_err(Failed::keep)?;
    // SAFETY: The handle, which was counted when it was made, is destroyed.
    unsafe { ah.pd().uses().dec() };
    ah.set_source(None);
    Ok(())
}

/// The kind of address vectors of a port.
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

/// The next header of a datagram of RoCE version 2.
const IPPROTO_UDP: u8 = 17;

/// The kind of network that a datagram came over: `enum rdma_network_type`.
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

/// The type of the GIDs of a kind of network.
fn gid_type_of(network: u32) -> u32 {
    match network {
        c::RDMA_NETWORK_ROCE_V1 => c::IB_GID_TYPE_ROCE,
        c::RDMA_NETWORK_IPV4 | c::RDMA_NETWORK_IPV6 => c::IB_GID_TYPE_ROCE_UDP_ENCAP,
        _ => c::IB_GID_TYPE_IB,
    }
}

/// The GUID that the subnet administrator is reached by at any port: GIDs with it are in no table.
const SA_WELL_KNOWN_GUID: u64 = (1 << 57) | 2;

/// The entry that a datagram over Ethernet was sent to.
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

/// The entry that a datagram over InfiniBand was sent to.
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

/// The address vector that a reply to a received datagram is sent with.
fn reply_to(
    device: &Device,
    port: u32,
    wc: &c::ib_wc,
    header: &NetworkHeader,
    sleep: &MaySleep,
) -> Result<AhVector> {
    let network = network_of(device, port, wc, header);
    // The sender is where the reply goes.
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

/// Makes the address vector that a reply to a received datagram is sent with. The caller lets go of it
/// (`rdma_destroy_ah_attr`). Process context.
///
/// # Errors
///
/// `EPROTOTYPE` for a datagram over Ethernet without a global route; `EINVAL` for a header that is none; that of a missing
/// source; `ETIMEDOUT`, `EHOSTUNREACH` … where the sender cannot be reached.
#[export]
fn ib_init_ah_attr_from_wc(
    device: &Device,
    port_num: u32,
    wc: Const<'_, WcView>,
    grh: Const<'_, GrhView>,
    place: AhPlace<'_>,
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

/// Makes the address handle that a reply to a received datagram is sent with. Process context.
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
) -> Made<Ah> {
    let vector = reply_to(pd.device(), port_num, &wc.get(), &grh.header(), sleep);
    let context = AhContext::sleepable(sleep);
    Made(vector.and_then(|mut vector| create(pd, &mut vector, &context)))
}
