// SPDX-License-Identifier: GPL-2.0

//! Commands about devices and their ports: `rdma dev`, `rdma link`.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `DELETING` | deletion of links, one at a time | process context | what drivers take |
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use kernel::prelude::*;
use kernel_ext::{
    bindings as c,
    net::{
        device::NetDevice,
        netlink::{Dump, Text, Writer},
        ns::{NetNamespace, NetRef},
    },
    static_lock::static_lock,
};
use rdma::{
    core::{client::ClientRequest, device::Registered, Device},
    MaySleep,
};

use super::command::{kind_of, Command, Query};
use crate::{
    device::{self, link, namespace, subdevice},
    registry::{self, client, netdev, netns, port, DeviceFilter},
};

/// The commands. Replies to PORT_GET have the command GET, as in the C core.
pub(super) const COMMANDS: &[Command] = &[
    Command::get_and_dump(c::RDMA_NLDEV_CMD_GET, get, list),
    Command::get_and_dump(c::RDMA_NLDEV_CMD_PORT_GET, get_port, list_ports)
        .answered_as(c::RDMA_NLDEV_CMD_GET),
    Command::get(c::RDMA_NLDEV_CMD_GET_CHARDEV, get_chardev),
    Command::set(c::RDMA_NLDEV_CMD_SET, set),
    Command::set(c::RDMA_NLDEV_CMD_NEWLINK, new_link),
    Command::set(c::RDMA_NLDEV_CMD_DELLINK, delete_link),
    Command::set(c::RDMA_NLDEV_CMD_NEWDEV, new_device),
    Command::set(c::RDMA_NLDEV_CMD_DELDEV, delete_device),
];

const PAD: u32 = c::RDMA_NLDEV_ATTR_PAD;
const NAME_SIZE: usize = c::IB_DEVICE_NAME_MAX as usize;
const IFNAME_SIZE: usize = c::IFNAMSIZ as usize;
const CHARDEV_TYPE_SIZE: usize = c::RDMA_NLDEV_ATTR_CHARDEV_TYPE_SIZE as usize;

static_lock! {
    /// Serializes the deletion of links.
    static DELETING: Mutex<()> = ();
}

/// Adds the index and the name of a device.
pub(super) fn handle_of(device: &Device, writer: &mut Writer<'_>) -> Result {
    writer.u32(c::RDMA_NLDEV_ATTR_DEV_INDEX, device.index())?;
    writer.text(c::RDMA_NLDEV_ATTR_DEV_NAME, &device.name())
}

/// The protocol of a device: that of its first port.
fn protocol(device: &Device) -> Option<&'static CStr> {
    let caps = device.port_caps(*device.ports().start());
    let roce = c::RDMA_CORE_CAP_PROT_ROCE | c::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP;
    let names = [
        (c::RDMA_CORE_CAP_OPA_MAD, c"opa"),
        (c::RDMA_CORE_CAP_PROT_IB, c"ib"),
        (c::RDMA_CORE_CAP_PROT_IWARP, c"iw"),
        (roce, c"roce"),
        (c::RDMA_CORE_CAP_PROT_USNIC, c"usnic"),
    ];
    let found = names.iter().find(|(flags, _)| caps & flags != 0);
    found.map(|(_, name)| *name)
}

fn fill(device: &Registered, writer: &mut Writer<'_>) -> Result {
    handle_of(device, writer)?;
    let attrs = device.attrs();
    writer.u32(c::RDMA_NLDEV_ATTR_PORT_INDEX, *device.ports().end())?;
    writer.u64(c::RDMA_NLDEV_ATTR_CAP_FLAGS, attrs.device_cap_flags, PAD)?;
    let version = port::fw_text(device);
    let version = CStr::from_bytes_until_nul(&version).unwrap_or(c"");
    if !version.to_bytes().is_empty() {
        writer.text(c::RDMA_NLDEV_ATTR_FW_VERSION, version)?;
    }
    let guid = u64::from_be_bytes(device.node_guid());
    writer.u64(c::RDMA_NLDEV_ATTR_NODE_GUID, guid, PAD)?;
    let guid = u64::from_be(attrs.sys_image_guid);
    writer.u64(c::RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, guid, PAD)?;
    writer.u8(c::RDMA_NLDEV_ATTR_DEV_NODE_TYPE, device.node_type() as u8)?;
    writer.u8(c::RDMA_NLDEV_ATTR_DEV_DIM, device.uses_dim().into())?;
    if device.sub_type() != 0 {
        writer.u8(c::RDMA_NLDEV_ATTR_DEV_TYPE, device.sub_type() as u8)?;
    }
    if let Some(parent) = device.parent() {
        writer.text(c::RDMA_NLDEV_ATTR_PARENT_NAME, &parent.name())?;
    }
    let assigned = device.name_assign_type() as u8;
    writer.u8(c::RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE, assigned)?;
    match protocol(device) {
        Some(protocol) => writer.text(c::RDMA_NLDEV_ATTR_DEV_PROTOCOL, protocol),
        None => Ok(()),
    }
}

fn get(query: &Query<'_>, writer: &mut Writer<'_>) -> Result {
    fill(&query.device()?, writer)
}

/// Adds a message for each registered device that the sender may access, starting where the last packet ended.
pub(super) fn for_each_device(
    query: &Query<'_>,
    dump: &mut Dump<'_>,
    op: u32,
    fill: impl Fn(&Registered, &mut Writer<'_>) -> Result,
) -> Result {
    for device in registry::devices(DeviceFilter::Registered) {
        let index = u64::from(device.index());
        if index < dump.position() || !netns::may_access(&device, query.net) {
            continue;
        }
        let Some(device) = device.try_get() else {
            continue;
        };
        // One that does not fit is the first of the next packet.
        if dump
            .message(kind_of(op), |writer| fill(&device, writer))
            .is_err()
        {
            return Ok(());
        }
        dump.set_position(index + 1);
    }
    Ok(())
}

fn list(query: &Query<'_>, dump: &mut Dump<'_>) -> Result {
    for_each_device(query, dump, c::RDMA_NLDEV_CMD_GET, fill)
}

/// Whether the net device of a port is in another namespace than the device.
pub(super) fn is_elsewhere(device: &Device, port: u32) -> bool {
    netdev::of(device, port).is_some_and(|ndev| !is_with(&ndev, device))
}

/// Whether a net device is in the namespace of a device.
fn is_with(ndev: &NetDevice, device: &Device) -> bool {
    ndev.with_namespace(|net| device.is_in(net)) == Some(true)
}

/// Adds the net device of a port, if it is in the namespace of the device.
pub(super) fn own_netdev_of(device: &Device, port: u32, writer: &mut Writer<'_>) -> Result {
    match netdev::of(device, port) {
        Some(ndev) if is_with(&ndev, device) => put_netdev(&ndev, writer),
        _ => Ok(()),
    }
}

/// Adds the net device of a port, if it is in the network namespace.
pub(super) fn netdev_of(
    device: &Device,
    port: u32,
    net: &NetNamespace,
    writer: &mut Writer<'_>,
) -> Result {
    match netdev::of(device, port) {
        Some(ndev) if ndev.with_namespace(|of_ndev| of_ndev == net) == Some(true) => {
            put_netdev(&ndev, writer)
        }
        _ => Ok(()),
    }
}

fn put_netdev(ndev: &NetDevice, writer: &mut Writer<'_>) -> Result {
    writer.u32(c::RDMA_NLDEV_ATTR_NDEV_INDEX, ndev.index())?;
    let mut name = [0; IFNAME_SIZE + 1];
    for (to, from) in name.iter_mut().zip(ndev.name().as_bytes()) {
        *to = *from;
    }
    let name = CStr::from_bytes_until_nul(&name).unwrap_or(c"");
    writer.text(c::RDMA_NLDEV_ATTR_NDEV_NAME, name)
}

fn fill_port(
    device: &Device,
    port: u32,
    net: &NetNamespace,
    writer: &mut Writer<'_>,
    sleep: &MaySleep,
) -> Result {
    handle_of(device, writer)?;
    writer.u32(c::RDMA_NLDEV_ATTR_PORT_INDEX, port)?;
    let attr = port::query(device, port, sleep)?;
    if device.is_ib(port) {
        let more = u64::from(attr.port_cap_flags2) << 32;
        let flags = u64::from(attr.port_cap_flags) | more;
        writer.u64(c::RDMA_NLDEV_ATTR_CAP_FLAGS, flags, PAD)?;
        writer.u64(c::RDMA_NLDEV_ATTR_SUBNET_PREFIX, attr.subnet_prefix, PAD)?;
        writer.u32(c::RDMA_NLDEV_ATTR_LID, attr.lid)?;
        writer.u32(c::RDMA_NLDEV_ATTR_SM_LID, attr.sm_lid)?;
        writer.u8(c::RDMA_NLDEV_ATTR_LMC, attr.lmc)?;
    }
    writer.u8(c::RDMA_NLDEV_ATTR_PORT_STATE, attr.state as u8)?;
    writer.u8(c::RDMA_NLDEV_ATTR_PORT_PHYS_STATE, attr.phys_state)?;
    netdev_of(device, port, net, writer)
}

fn get_port(query: &Query<'_>, writer: &mut Writer<'_>) -> Result {
    let asked = query.attrs.has(c::RDMA_NLDEV_ATTR_PORT_INDEX);
    if !asked {
        return Err(EINVAL);
    }
    let device = query.device()?;
    let port = query.port(&device)?.ok_or(EINVAL)?;
    fill_port(&device, port, query.net, writer, query.sleep)
}

fn list_ports(query: &Query<'_>, dump: &mut Dump<'_>) -> Result {
    let device = query.device()?;
    for (nth, port) in (0..).zip(device.ports()) {
        if nth < dump.position() {
            continue;
        }
        let filled = dump.message(kind_of(c::RDMA_NLDEV_CMD_PORT_GET), |writer| {
            fill_port(&device, port, query.net, writer, query.sleep)
        });
        if filled.is_err() {
            return Ok(());
        }
        dump.set_position(nth + 1);
    }
    Ok(())
}

fn get_chardev(query: &Query<'_>, writer: &mut Writer<'_>) -> Result {
    let attrs = &query.attrs;
    let kind: Text<CHARDEV_TYPE_SIZE> =
        attrs.text(c::RDMA_NLDEV_ATTR_CHARDEV_TYPE).ok_or(EINVAL)?;
    let device = match attrs.has(c::RDMA_NLDEV_ATTR_DEV_INDEX) {
        true => Some(query.device()?),
        false if attrs.has(c::RDMA_NLDEV_ATTR_PORT_INDEX) => return Err(EINVAL),
        false => None,
    };
    // Without a port, the value is -1; without a device, 0.
    let port = match &device {
        Some(device) => query.port(device)?.unwrap_or(u32::MAX),
        None => 0,
    };
    // SAFETY: `writer` is borrowed mutably, so its message is being written, and only through the request until that is answered.
    let request = unsafe { ClientRequest::new(writer.as_raw(), port) };
    let info = client::nl_info(device.as_deref(), &kind, &request, query.sleep)?;
    let number = rdma::core::client::chardev_number(&info.cdev);
    writer.u64(c::RDMA_NLDEV_ATTR_CHARDEV, number, PAD)?;
    writer.u64(c::RDMA_NLDEV_ATTR_CHARDEV_ABI, info.abi, PAD)?;
    writer.text(c::RDMA_NLDEV_ATTR_CHARDEV_NAME, info.cdev.name())
}

fn set(query: &Query<'_>) -> Result {
    let device = query.device()?;
    let attrs = &query.attrs;
    let name = attrs.text::<NAME_SIZE>(c::RDMA_NLDEV_ATTR_DEV_NAME);
    if name.as_ref().is_some_and(|name| name.to_bytes().is_empty()) {
        return Err(EINVAL);
    }
    if let Some(fd) = attrs.u32(c::RDMA_NLDEV_NET_NS_FD) {
        return move_to(query, device, fd, name.as_deref());
    }
    if let Some(name) = name {
        return device::rename(&device, &name, query.sleep);
    }
    match attrs.u8(c::RDMA_NLDEV_ATTR_DEV_DIM) {
        Some(on @ 0..=1) => device.set_dim(on != 0),
        Some(_) => return Err(EINVAL),
        None => {}
    }
    Ok(())
}

/// Moves a device to the network namespace of the sender's file descriptor, where it may get a new name.
fn move_to(query: &Query<'_>, device: Registered, fd: u32, name: Option<&CStr>) -> Result {
    let to = NetRef::of_fd(fd)?;
    if !query.request.may_admin_net(&to) {
        return Err(EPERM);
    }
    namespace::move_to(device, query.net, (&to, name), query.sleep)
}

fn new_link(query: &Query<'_>) -> Result {
    let attrs = &query.attrs;
    let name = attrs.text::<NAME_SIZE>(c::RDMA_NLDEV_ATTR_DEV_NAME);
    let kind = attrs.text::<IFNAME_SIZE>(c::RDMA_NLDEV_ATTR_LINK_TYPE);
    let ndev = attrs.text::<IFNAME_SIZE>(c::RDMA_NLDEV_ATTR_NDEV_NAME);
    let (Some(name), Some(kind), Some(ndev)) = (name, kind, ndev) else {
        return Err(EINVAL);
    };
    if name.to_bytes().is_empty() || name.to_bytes().contains(&b'%') {
        return Err(EINVAL);
    }
    let ndev = NetDevice::by_name(query.net, &ndev).ok_or(ENODEV)?;
    link::make(&kind, &name, &ndev, query.sleep)
}

fn delete_link(query: &Query<'_>) -> Result {
    let device = query.device()?;
    let flags = device.attrs().kernel_cap_flags;
    if flags & u64::from(c::IBK_ALLOW_USER_UNREG) == 0 {
        return Err(EINVAL);
    }
    let deleting = DELETING.lock();
    let device = device.dellink(query.sleep)?;
    drop(deleting);
    device::unregister_and_put(device, query.sleep);
    Ok(())
}

fn new_device(query: &Query<'_>) -> Result {
    let attrs = &query.attrs;
    let name = attrs.text::<IFNAME_SIZE>(c::RDMA_NLDEV_ATTR_DEV_NAME);
    let kind = attrs.u8(c::RDMA_NLDEV_ATTR_DEV_TYPE);
    let (Some(name), Some(kind)) = (name, kind) else {
        return Err(EINVAL);
    };
    let parent = query.device()?;
    subdevice::add(&parent, kind.into(), &name, query.sleep)
}

fn delete_device(query: &Query<'_>) -> Result {
    subdevice::delete(query.device()?, query.sleep)
}
