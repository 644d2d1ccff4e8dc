// SPDX-License-Identifier: GPL-2.0

//! Looking up GIDs: entries of the ports' GID tables by index and by content.
//!
//! Everything here may be called in any context.
//!
//! Files by level; a file imports only from those below it:
//!
//! | file | what |
//! |---|---|
//! | [`cache_update`] | updating the caches: at registration, before events |
//! | [`roce_gid`] | GIDs of RoCE ports, derived from the addresses of net devices |
//! | this one, [`pkey_cache`] | reading the caches |
//! | [`cache`] | the caches of a port |
//! | [`table`], [`port_cache`] | the GID table; P_Keys and attributes of a port |
//! | [`state`] | data of a device and of a port |
//!
//! C headers: `include/rdma/ib_cache.h`, `include/rdma/ib_verbs.h`.

use core::mem::MaybeUninit;

use kernel::{
    ffi::{c_char, c_int, c_void},
    prelude::*,
    str::CStrExt,
    sync::rcu,
};
use kernel_ext::{
    bindings as c,
    entry::{ErrPtr, Out, SliceOut},
    error::ENODATA,
    export::{export, Exported},
    net::device::NetDevice,
};
use rdma::{
    core::{
        gid::{BorrowedGid, GidArgument, GidEntry, GidRef, GidResult, MacOut},
        Device,
    },
    Gid,
};

pub(crate) mod cache;
pub(crate) mod cache_update;
mod pkey_cache;
mod port_cache;
pub(crate) mod roce_gid;
pub(crate) mod state;
pub(crate) mod table;

use table::GidFilter;

/// The VLAN ID for "no VLAN".
const NO_VLAN: u16 = 0xffff;

/// The zero GID.
#[export]
static zgid: Exported<c::ib_gid> = Exported(c::ib_gid { raw: [0; 16] });

/// Returns whether a GID is the zero GID.
#[export]
fn rdma_is_zero_gid(gid: Gid) -> bool {
    gid.is_zero()
}

/// Names of the GID types, by `enum ib_gid_type`. User space does not distinguish the first two.
const TYPE_NAMES: [&CStr; 3] = [c"IB/RoCE v1", c"IB/RoCE v1", c"RoCE v2"];

/// Returns the sysfs name of a GID type.
#[export]
fn ib_cache_gid_type_str(gid_type: c::ib_gid_type) -> *const c_char {
    type_name(gid_type).as_char_ptr()
}

/// Returns the sysfs name of a GID type.
pub(crate) fn type_name(gid_type: u32) -> &'static CStr {
    let name = TYPE_NAMES.get(gid_type as usize);
    name.copied().unwrap_or(c"Invalid GID type")
}

/// Returns the first GID type with a name; a trailing newline is allowed.
///
/// # Errors
///
/// `EINVAL`.
#[export]
fn ib_cache_gid_parse_type_str(name: &CStr) -> c_int {
    let name = name.to_bytes();
    let name = name.strip_suffix(b"\n").unwrap_or(name);
    let mut names = TYPE_NAMES.iter();
    match names.position(|known| known.to_bytes() == name) {
        Some(gid_type) => gid_type as c_int,
        None => EINVAL.to_errno(),
    }
}

/// Returns the entry at an index of a port's table.
///
/// # Errors
///
/// `EINVAL` for an invalid port or index, `ENODATA` if there is no entry.
pub(crate) fn get(device: &Device, port: u32, index: i32) -> Result<GidRef> {
    cache::of(device, port).ok_or(EINVAL)?.gids.at(index)
}

/// Returns the first entry of a port's table that matches.
///
/// # Errors
///
/// `ENOENT`, also for an invalid port.
pub(crate) fn find(device: &Device, port: u32, wanted: &GidFilter<'_>) -> Result<GidRef> {
    let port = cache::of(device, port).ok_or(ENOENT)?;
    port.gids.find(wanted).ok_or(ENOENT)
}

/// Returns the first entry of a port's table that `filter` accepts. `filter` must not drop a reference to an entry.
///
/// # Errors
///
/// `EINVAL` for an invalid port, `ENOENT`.
pub(crate) fn find_by(
    device: &Device,
    port: u32,
    filter: impl FnMut(&GidEntry) -> bool,
) -> Result<GidRef> {
    let port = cache::of(device, port).ok_or(EINVAL)?;
    port.gids.find_by(filter).ok_or(ENOENT)
}

/// Fields of the Ethernet header of packets from an entry.
pub(crate) struct L2Fields {
    /// The VLAN ID, 0 to 4095.
    pub(crate) vlan: Option<u16>,
    /// The source MAC address.
    pub(crate) source: [u8; 6],
}

/// Returns the Ethernet header fields of an entry.
///
/// # Errors
///
/// `ENODEV` if the entry has no net device, or is being deleted.
pub(crate) fn l2_fields(entry: &GidEntry) -> Result<L2Fields> {
    let guard = rcu::read_lock();
    let ndev = entry.ndev(&guard).ok_or(ENODEV)?;
    // A device such as a macvlan may have a VLAN as its lower device.
    let vlan = ndev.vlan_id().or_else(|| ndev.lower_vlan_id(&guard));
    Ok(L2Fields {
        vlan,
        source: ndev.address(),
    })
}

/// Returns a reference to the entry at an index of a port's table. It is released by `rdma_put_gid_attr`.
///
/// # Errors
///
/// `EINVAL` for an invalid port or index, `ENODATA` if there is no entry.
#[export]
fn rdma_get_gid_attr(device: &Device, port: u32, index: c_int) -> GidResult {
    GidResult(get(device, port, index))
}

/// Takes one more reference to an entry.
#[export]
fn rdma_hold_gid_attr(entry: BorrowedGid<'_>) {
    // Released by `rdma_put_gid_attr`.
    let _ = entry.hold().into_raw();
}

/// Releases a reference.
#[export]
fn rdma_put_gid_attr(entry: GidRef) {
    drop(entry);
}

/// Returns the GID at an index of a port's table.
///
/// # Errors
///
/// `EINVAL` for an invalid port or index, `ENOENT` if there is no entry.
#[export]
fn rdma_query_gid(device: &Device, port: u32, index: c_int, gid: Out<'_, c::ib_gid>) -> Result {
    let entry = get(device, port, index).map_err(|error| match error {
        ENODATA => ENOENT,
        other => other,
    })?;
    gid.set(c::ib_gid { raw: entry.gid().0 });
    Ok(())
}

/// Returns a reference to the first entry of any port with a GID, a type and, if given, a net device.
///
/// # Errors
///
/// `ENOENT`.
#[export]
fn rdma_find_gid(
    device: &Device,
    gid: Gid,
    gid_type: c::ib_gid_type,
    ndev: Option<&NetDevice>,
) -> GidResult {
    let wanted = GidFilter::exactly(gid, gid_type, ndev);
    let mut ports = device.ports();
    GidResult(
        ports
            .find_map(|port| find(device, port, &wanted).ok())
            .ok_or(ENOENT),
    )
}

/// Returns a reference to the first entry of a port with a GID, a type and, if given, a net device.
///
/// # Errors
///
/// `ENOENT`.
#[export]
fn rdma_find_gid_by_port(
    device: &Device,
    gid: Gid,
    gid_type: c::ib_gid_type,
    port: u32,
    ndev: Option<&NetDevice>,
) -> GidResult {
    let wanted = GidFilter::exactly(gid, gid_type, ndev);
    GidResult(find(device, port, &wanted))
}

/// Finds a GID on the InfiniBand ports of a device: its port and index.
///
/// # Errors
///
/// `ENOENT`.
#[export]
fn ib_find_gid(
    device: &Device,
    gid: GidArgument,
    port_num: Out<'_, u32>,
    index: Option<Out<'_, u16>>,
) -> Result {
    let wanted = GidFilter {
        gid: Some(gid.0.ok_or(EINVAL)?),
        ..GidFilter::default()
    };
    let mut ports = device.ports().filter(|port| device.is_ib(*port));
    let entry = ports.find_map(|port| find(device, port, &wanted).ok());
    let entry = entry.ok_or(ENOENT)?;
    port_num.set(entry.port_num());
    if let Some(index) = index {
        index.set(entry.index());
    }
    Ok(())
}

/// Returns the net device of an entry. The caller holds the RCU read lock.
///
/// # Errors
///
/// `EINVAL` if the entry has been deleted, `ENODEV` if it has no net device.
#[export]
fn rdma_read_gid_attr_ndev_rcu(entry: BorrowedGid<'_>) -> ErrPtr<c::net_device> {
    let guard = rcu::read_lock();
    if !entry.is_valid() {
        return ErrPtr(Err(EINVAL));
    }
    ErrPtr(entry.ndev(&guard).map(NetDevice::as_raw).ok_or(ENODEV))
}

/// Returns the VLAN ID, 0xffff for none, and the source MAC address of packets from an entry.
///
/// # Errors
///
/// `ENODEV` if the entry has no net device, or is being deleted.
#[export]
fn rdma_read_gid_l2_fields(
    entry: BorrowedGid<'_>,
    vlan_id: Option<Out<'_, u16>>,
    source: MacOut<'_>,
) -> Result {
    let fields = l2_fields(entry.entry())?;
    source.set(fields.source);
    if let Some(place) = vlan_id {
        place.set(fields.vlan.unwrap_or(NO_VLAN));
    }
    Ok(())
}

/// Returns the driver's context of an entry.
#[export]
fn rdma_read_gid_hw_context(entry: BorrowedGid<'_>) -> *mut c_void {
    entry.context()
}

/// Fills `room` with the entries of all ports; returns their number.
///
/// # Errors
///
/// `EINVAL` if there are more than fit.
fn entries(device: &Device, room: &mut [MaybeUninit<c::ib_uverbs_gid_entry>]) -> Result<usize> {
    let mut count = 0;
    for port in device.ports() {
        let Some(port) = cache::of(device, port) else {
            continue;
        };
        port.gids.for_each(|entry| {
            let place = room.get_mut(count).ok_or(EINVAL)?;
            place.write(describe(entry));
            count += 1;
            Ok(())
        })?;
    }
    Ok(count)
}

/// Converts an entry to the format of user space.
fn describe(entry: &GidEntry) -> c::ib_uverbs_gid_entry {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = entry.gid().0;
    let guard = rcu::read_lock();
    c::ib_uverbs_gid_entry {
        gid: [
            u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            u64::from_ne_bytes([i, j, k, l, m, n, o, p]),
        ],
        gid_index: entry.index().into(),
        port_num: entry.port_num(),
        gid_type: entry.gid_type().as_raw(),
        netdev_ifindex: entry.ndev(&guard).map_or(0, NetDevice::index),
    }
}

/// Writes the entries of all ports; returns their number.
///
/// # Errors
///
/// `EINVAL` if there are more than `max_entries`.
#[export]
fn rdma_query_gid_table(device: &Device, room: SliceOut<'_, c::ib_uverbs_gid_entry>) -> isize {
    match entries(device, room.0) {
        Ok(count) => count as isize,
        Err(error) => error.to_errno() as isize,
    }
}

#[kernel::prelude::kunit_tests(ib_core_gid_names)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types() {
        assert_eq!(type_name(c::IB_GID_TYPE_ROCE_UDP_ENCAP), c"RoCE v2");
        assert_eq!(type_name(u32::MAX), c"Invalid GID type");
        assert_eq!(ib_cache_gid_parse_type_str(c"RoCE v2"), 2);
        assert_eq!(ib_cache_gid_parse_type_str(c"RoCE v2\n"), 2);
        assert_eq!(ib_cache_gid_parse_type_str(c"IB/RoCE v1\n"), 0);
    }

    #[test]
    fn no_name_of_a_type() {
        for name in [c"", c"\n", c"RoCE", c"RoCE v2\n\n", c"roce v2"] {
            assert_eq!(ib_cache_gid_parse_type_str(name), EINVAL.to_errno());
        }
    }

    #[test]
    fn gids() {
        let mapped = Gid::from_ipv4([224, 0, 0, 1]);
        assert!(mapped.is_multicast());
        assert_eq!(mapped.ipv4(), Some([224, 0, 0, 1]));
        assert!(!Gid::from_ipv4([10, 0, 0, 1]).is_multicast());
        assert!(Gid([0xff; 16]).is_multicast());
        assert!(rdma_is_zero_gid(Gid([0; 16])));
        assert!(!rdma_is_zero_gid(Gid::from_ipv4([0; 4])));
    }
}
