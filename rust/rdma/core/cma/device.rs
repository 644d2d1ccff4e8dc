// SPDX-License-Identifier: GPL-2.0

//! What a device tells of its ports, by the exported functions of the core.
//!
//! C headers: `include/rdma/ib_verbs.h`, `include/rdma/ib_cache.h`.

use core::ptr::null_mut;

use kernel::{error::to_result, ffi::c_int, prelude::*, sync::aref::ARef};
use kernel_ext::net::device::NetDevice;
use rdma_bindings as bindings;

use crate::{
    abi::gid::{owned_gid_attr, GidAttr},
    core::{address_vector::AddressVector, iw::address::SockAddr, Device},
    Gid, MaySleep,
};

/// The kinds of GIDs that a port supports: a mask of `1 << enum ib_gid_type`.
pub fn gid_types(device: &Device, port: u32) -> u32 {
    if !device.is_port_valid(port) {
        return 0;
    }
    // SAFETY: The device is valid, and the function checks nothing but its port's immutable data, which is there.
    unsafe { bindings::roce_gid_type_mask_support(device.as_raw(), port) as u32 }
}

/// The first GID entry of a port that has this GID, with its type, of a net device if one is named.
///
/// # Errors
///
/// `ENOENT`.
pub fn find_gid(
    device: &Device,
    port: u32,
    gid: Gid,
    gid_type: u32,
    ndev: Option<&NetDevice>,
) -> Result<ARef<GidAttr>> {
    let ndev = ndev.map_or(null_mut(), |ndev| ndev.as_raw());
    // SAFETY: All are valid during the call; the result is a counted reference, or an errno.
    unsafe {
        owned_gid_attr(bindings::rdma_find_gid_by_port(
            device.as_raw(),
            &gid.to_raw(),
            gid_type,
            port,
            ndev.cast(),
        ))
    }
}

/// The first GID entry of a port.
///
/// # Errors
///
/// `EINVAL`, `ENODATA`.
pub fn gid_entry(device: &Device, port: u32, index: c_int) -> Result<ARef<GidAttr>> {
    // SAFETY: The device is valid; the result is a counted reference, or an errno.
    unsafe { owned_gid_attr(bindings::rdma_get_gid_attr(device.as_raw(), port, index)) }
}

/// The GID at an index of a port.
pub fn gid_at(device: &Device, port: u32, index: c_int) -> Result<Gid> {
    let mut gid: bindings::ib_gid = pin_init::zeroed();
    // SAFETY: The device is registered during the call, by its type.
    to_result(unsafe { bindings::rdma_query_gid(device.as_raw(), port, index, &mut gid) })?;
    Ok(Gid::from_raw(&gid))
}

/// Whether a port is active, as far as the cache knows.
pub fn is_active(device: &Device, port: u32) -> bool {
    let mut state = 0;
    // SAFETY: The device is registered during the call, by its type.
    let ret = unsafe { bindings::ib_get_cached_port_state(device.as_raw(), port, &mut state) };
    ret == 0 && state == bindings::IB_PORT_ACTIVE
}

/// The net device that an InfiniBand port has for a partition, a GID and an address.
pub fn net_device(
    device: &Device,
    port: u32,
    pkey: u16,
    gid: Option<Gid>,
    address: &SockAddr,
) -> Option<ARef<NetDevice>> {
    let gid = gid.map(Gid::to_raw);
    let gid = gid.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let raw = address.to_raw();
    device.check_port(port).ok()?;
    // SAFETY: All are valid during the call, and the device has the port; the result is null, or a counted reference.
    unsafe {
        let found = bindings::ib_get_net_dev_by_params(
            device.as_raw(),
            port,
            pkey,
            gid,
            (&raw const raw).cast(),
        );
        let found = core::ptr::NonNull::new(found)?;
        Some(ARef::from_raw(found.cast()))
    }
}

/// The service level that a net device gives to a type of service.
pub fn service_level(ndev: &NetDevice, tos: u8) -> u8 {
    // SAFETY: The net device is valid.
    let level = unsafe { bindings::netdev_service_level(ndev.as_raw().cast(), tos.into()) };
    u8::try_from(level).unwrap_or(0)
}

/// Whether packets to `remote` from `local` would leave by the net device: both of IPv4.
pub fn routes4(ndev: &NetDevice, remote: [u8; 4], local: [u8; 4]) -> bool {
    let (to, from) = (u32::from_ne_bytes(remote), u32::from_ne_bytes(local));
    // SAFETY: The net device is valid.
    unsafe { bindings::netdev_routes4(ndev.as_raw().cast(), to, from) }
}

/// Whether packets to `remote` from `local` would leave by the net device: both of IPv6.
pub fn routes6(ndev: &NetDevice, remote: [u8; 16], local: [u8; 16]) -> bool {
    let address = |bytes| bindings::in6_addr {
        in6_u: bindings::in6_addr__bindgen_ty_1 { u6_addr8: bytes },
    };
    // SAFETY: All are valid during the call.
    unsafe { bindings::netdev_routes6(ndev.as_raw().cast(), &address(remote), &address(local)) }
}

/// Joins a group of IPv4 with a net device, or leaves it. Whether it has IPv4.
pub fn igmp(ndev: &NetDevice, group: [u8; 4], join: bool, _sleep: &MaySleep) -> bool {
    // SAFETY: The net device is valid, and the token proves that the context may sleep.
    unsafe { bindings::netdev_igmp(ndev.as_raw().cast(), u32::from_ne_bytes(group), join) }
}

/// The address of datagrams to a group over Ethernet, or on InfiniBand as far as its record says.
///
/// # Errors
///
/// `EINVAL`, `ENOENT` without a source GID.
pub fn group_address(
    device: &Device,
    port: u32,
    member: &mut bindings::ib_sa_mcmember_rec,
    ndev: Option<&NetDevice>,
    gid_type: u32,
) -> Result<AddressVector> {
    let ndev = ndev.map_or(null_mut(), |ndev| ndev.as_raw());
    device.check_port(port)?;
    // SAFETY: All are valid during the call, and the device has the port; it fills the address in.
    unsafe {
        AddressVector::with(|vector| {
            to_result(bindings::ib_init_ah_from_mcmember(
                device.as_raw(),
                port,
                member,
                ndev.cast(),
                gid_type,
                vector,
            ))
        })
    }
}
