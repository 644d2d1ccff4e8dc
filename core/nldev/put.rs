// SPDX-License-Identifier: GPL-2.0

//! Attributes that drivers add to messages about their objects, each a name and a value.
//!
//! C header: `include/rdma/restrack.h` (`rdma_nl_put_driver_u32`).

use kernel::prelude::*;
use kernel_ext::{
    bindings,
    export::export,
    net::netlink::{Nested, Writer},
};

/// Adds the name of a value, and whether it is printed in hexadecimal.
fn name(writer: &mut Writer<'_>, name: &CStr, hex: bool) -> Result {
    writer.text(bindings::RDMA_NLDEV_ATTR_DRIVER_STRING, name)?;
    if hex {
        let shape = bindings::RDMA_NLDEV_PRINT_TYPE_HEX as u8;
        writer.u8(bindings::RDMA_NLDEV_ATTR_DRIVER_PRINT_TYPE, shape)?;
    }
    Ok(())
}

fn put_u32(mut writer: Writer<'_>, text: &CStr, hex: bool, value: u32) -> Result {
    name(&mut writer, text, hex)?;
    writer.u32(bindings::RDMA_NLDEV_ATTR_DRIVER_U32, value)
}

fn put_u64(mut writer: Writer<'_>, text: &CStr, hex: bool, value: u64) -> Result {
    name(&mut writer, text, hex)?;
    let pad = bindings::RDMA_NLDEV_ATTR_PAD;
    writer.u64(bindings::RDMA_NLDEV_ATTR_DRIVER_U64, value, pad)
}

/// Adds a named 32-bit value. Returns `EMSGSIZE` where there is no room, as do the functions below.
///
/// C header: `include/rdma/restrack.h`.
#[export]
fn rdma_nl_put_driver_u32(msg: Writer<'_>, name: &CStr, value: u32) -> Result {
    put_u32(msg, name, false, value)
}

/// Adds a named 32-bit value to be printed in hexadecimal.
#[export]
fn rdma_nl_put_driver_u32_hex(msg: Writer<'_>, name: &CStr, value: u32) -> Result {
    put_u32(msg, name, true, value)
}

/// Adds a named 64-bit value.
#[export]
fn rdma_nl_put_driver_u64(msg: Writer<'_>, name: &CStr, value: u64) -> Result {
    put_u64(msg, name, false, value)
}

/// Adds a named 64-bit value to be printed in hexadecimal.
#[export]
fn rdma_nl_put_driver_u64_hex(msg: Writer<'_>, name: &CStr, value: u64) -> Result {
    put_u64(msg, name, true, value)
}

/// Adds a named string.
#[export]
fn rdma_nl_put_driver_string(mut msg: Writer<'_>, text: &CStr, value: &CStr) -> Result {
    name(&mut msg, text, false)?;
    msg.text(bindings::RDMA_NLDEV_ATTR_DRIVER_STRING, value)
}

/// Adds a hardware counter: name and value.
pub(super) fn hw_counter(writer: &mut Writer<'_>, name: &CStr, value: u64) -> Result {
    let entry = bindings::RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY;
    writer.nest(entry, Nested::Flagged, |writer| {
        writer.text(bindings::RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name)?;
        let attr = bindings::RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE;
        writer.u64(attr, value, bindings::RDMA_NLDEV_ATTR_PAD)
    })
}

/// Adds a hardware counter: name and value.
#[export]
fn rdma_nl_stat_hwcounter_entry(mut msg: Writer<'_>, name: &CStr, value: u64) -> Result {
    hw_counter(&mut msg, name, value)
}
