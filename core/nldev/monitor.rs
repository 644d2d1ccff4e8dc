// SPDX-License-Identifier: GPL-2.0

//! Notifications to user space: `rdma monitor`.
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use kernel::prelude::*;
use kernel_ext::{
    bindings as c,
    net::netlink::{Message, Writer},
};
use rdma::{core::Device, MaySleep};

use super::{command::kind_of, dev};
use crate::{
    netlink,
    registry::{notify::NotifyEvent, printk},
};

/// The `enum rdma_nl_notify_event_type`, the port, and the name for a warning.
fn describe(event: NotifyEvent) -> (u32, Option<u32>, &'static str) {
    match event {
        NotifyEvent::Registered => (c::RDMA_REGISTER_EVENT, None, "register device"),
        NotifyEvent::Unregistered => (c::RDMA_UNREGISTER_EVENT, None, "unregister device"),
        NotifyEvent::Renamed => (c::RDMA_RENAME_EVENT, None, "rename device"),
        NotifyEvent::NetdevAttached(port) => {
            (c::RDMA_NETDEV_ATTACH_EVENT, Some(port), "netdev attach")
        }
        NotifyEvent::NetdevDetached(port) => {
            (c::RDMA_NETDEV_DETACH_EVENT, Some(port), "netdev detach")
        }
        NotifyEvent::NetdevRenamed(port) => {
            (c::RDMA_NETDEV_RENAME_EVENT, Some(port), "netdev rename")
        }
    }
}

/// Notifies the listeners in the device's network namespace. A namespace that is being deleted has none.
pub(crate) fn notify(device: &Device, event: NotifyEvent, sleep: &MaySleep) {
    let Some(net) = device.namespace() else {
        return;
    };
    let (kind, _, name) = describe(event);
    let command = kind_of(c::RDMA_NLDEV_CMD_MONITOR);
    let sent = Message::notification(command, sleep, |writer| {
        fill(device, event, writer)?;
        writer.u8(c::RDMA_NLDEV_ATTR_EVENT_TYPE, kind as u8)
    })
    .and_then(|reply| netlink::multicast(&net, reply, c::RDMA_NL_GROUP_NOTIFY, sleep));
    if sent.is_err() {
        printk::warn(device, fmt!("Failed to send RDMA monitor {name} event\n"));
    }
}

fn fill(device: &Device, event: NotifyEvent, writer: &mut Writer<'_>) -> Result {
    let (_, port, _) = describe(event);
    let Some(port) = port else {
        return dev::handle_of(device, writer);
    };
    if matches!(event, NotifyEvent::NetdevRenamed(_)) {
        return dev::own_netdev_of(device, port, writer);
    }
    if dev::is_elsewhere(device, port) {
        return Ok(());
    }
    dev::handle_of(device, writer)?;
    writer.u32(c::RDMA_NLDEV_ATTR_PORT_INDEX, port)?;
    dev::own_netdev_of(device, port, writer)
}
