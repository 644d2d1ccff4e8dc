// SPDX-License-Identifier: GPL-2.0

//! What user space is told as it happens: `rdma monitor`.

use kernel::prelude::*;
use kernel_ext::{
    bindings as c,
    net::netlink::{Reply, Writer},
};
use rdma::{core::Device, MaySleep};

use super::{command::kind_of, dev};
use crate::{
    netlink,
    registry::{notice::Notice, printk},
};

/// What the header calls it, which port it is about, and how it is named in a warning.
fn describe(notice: Notice) -> (u32, Option<u32>, &'static str) {
    match notice {
        Notice::Registered => (c::RDMA_REGISTER_EVENT, None, "register device"),
        Notice::Unregistered => (c::RDMA_UNREGISTER_EVENT, None, "unregister device"),
        Notice::Renamed => (c::RDMA_RENAME_EVENT, None, "rename device"),
        Notice::NetdevAttached(port) => (c::RDMA_NETDEV_ATTACH_EVENT, Some(port), "netdev attach"),
        Notice::NetdevDetached(port) => (c::RDMA_NETDEV_DETACH_EVENT, Some(port), "netdev detach"),
        Notice::NetdevRenamed(port) => (c::RDMA_NETDEV_RENAME_EVENT, Some(port), "netdev rename"),
    }
}

/// Tells who listens in the device's namespace.
pub(crate) fn tell(device: &Device, notice: Notice, sleep: &MaySleep) {
    let (event, _, name) = describe(notice);
    let command = kind_of(c::RDMA_NLDEV_CMD_MONITOR);
    let sent = Reply::notice(command, sleep, |writer| {
        fill(device, notice, writer)?;
        writer.u8(c::RDMA_NLDEV_ATTR_EVENT_TYPE, event as u8)
    })
    .and_then(|reply| netlink::tell(device.net(), reply, c::RDMA_NL_GROUP_NOTIFY, sleep));
    if sent.is_err() {
        printk::warn(device, fmt!("Failed to send RDMA monitor {name} event\n"));
    }
}

fn fill(device: &Device, notice: Notice, writer: &mut Writer<'_>) -> Result {
    let (_, port, _) = describe(notice);
    let Some(port) = port else {
        return dev::handle_of(device, writer);
    };
    if matches!(notice, Notice::NetdevRenamed(_)) {
        return dev::netdev_of(device, port, device.net(), writer);
    }
    if dev::is_elsewhere(device, port) {
        return Ok(());
    }
    dev::handle_of(device, writer)?;
    writer.u32(c::RDMA_NLDEV_ATTR_PORT_INDEX, port)?;
    dev::netdev_of(device, port, device.net(), writer)
}
