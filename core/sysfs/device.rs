// SPDX-License-Identifier: GPL-2.0

//! The attribute files of a device.
//!
//! C header: `include/rdma/ib_sysfs.h`.

use core::fmt::Write;

use kernel::{ffi::c_char, prelude::*};
use kernel_ext::{
    bindings,
    sysfs::{Name, Text},
};
use rdma::{
    core::sysfs::{AttrContext, Behaviour, DeviceGroup, Show},
    MaySleep,
};

use crate::registry::port;

/// Read-only attributes.
const FILES: [(&CStr, Show); 4] = [
    (c"node_type", node_type),
    (c"node_guid", node_guid),
    (c"sys_image_guid", sys_image_guid),
    (c"fw_ver", fw_ver),
];

/// The attribute group of all devices.
pub(super) fn group() -> Result<DeviceGroup> {
    let read = FILES.map(|(name, show)| Behaviour::read(Name::text(name), show));
    let desc = Behaviour::read_write(Name::text(c"node_desc"), node_desc, set_node_desc);
    DeviceGroup::new(None, Iterator::chain(read.into_iter(), [desc]))
}

/// The bytes of a text up to its NUL, if it has one.
fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or(&[])
}

fn node_type(of: &AttrContext<'_>, text: &mut Text<'_>, _sleep: &MaySleep) -> Result {
    let node_type = of.device.node_type();
    let name = match node_type {
        bindings::RDMA_NODE_IB_CA => "CA",
        bindings::RDMA_NODE_IB_SWITCH => "switch",
        bindings::RDMA_NODE_IB_ROUTER => "router",
        bindings::RDMA_NODE_RNIC => "RNIC",
        bindings::RDMA_NODE_USNIC => "usNIC",
        bindings::RDMA_NODE_USNIC_UDP => "usNIC UDP",
        bindings::RDMA_NODE_UNSPECIFIED => "unspecified",
        _ => "<unknown>",
    };
    Ok(writeln!(text, "{node_type}: {name}")?)
}

/// Prints a GUID in network byte order.
fn guid(bytes: [u8; 8], text: &mut Text<'_>) -> Result {
    let [a, b, c, d, e, f, g, h] = bytes;
    let parts = [[a, b], [c, d], [e, f], [g, h]].map(u16::from_be_bytes);
    let [a, b, c, d] = parts;
    Ok(writeln!(text, "{a:04x}:{b:04x}:{c:04x}:{d:04x}")?)
}

fn node_guid(of: &AttrContext<'_>, text: &mut Text<'_>, _sleep: &MaySleep) -> Result {
    guid(of.device.node_guid(), text)
}

fn sys_image_guid(of: &AttrContext<'_>, text: &mut Text<'_>, _sleep: &MaySleep) -> Result {
    guid(of.device.attrs().sys_image_guid.to_ne_bytes(), text)
}

fn fw_ver(of: &AttrContext<'_>, text: &mut Text<'_>, _sleep: &MaySleep) -> Result {
    text.append(until_nul(&port::fw_text(of.device)));
    text.append(b"\n");
    Ok(())
}

fn node_desc(of: &AttrContext<'_>, text: &mut Text<'_>, _sleep: &MaySleep) -> Result {
    text.append(until_nul(&of.device.node_desc()));
    text.append(b"\n");
    Ok(())
}

/// Sets the node description, at most 64 bytes; a newline is not removed.
fn set_node_desc(of: &AttrContext<'_>, written: &[u8], sleep: &MaySleep) -> Result {
    let mut wanted: bindings::ib_device_modify = pin_init::zeroed();
    for (to, from) in wanted.node_desc.iter_mut().zip(written) {
        *to = *from as c_char;
    }
    let mask = bindings::IB_DEVICE_MODIFY_NODE_DESC as i32;
    of.device.driver_modify_device(mask, &mut wanted, sleep)
}
