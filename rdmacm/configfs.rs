// SPDX-License-Identifier: GPL-2.0

//! The defaults of ports in configfs: the kind of GIDs and the type of service of identifiers that say nothing else.
//!
//! C headers: `include/linux/configfs.h`, `include/rdma/ib_cache.h`.

use core::{fmt::Write, num::IntErrorKind};

use cm_rules::path::{GidType, GidTypes};
use kernel::{prelude::*, sync::Arc};
use rdma::{
    core::{cma::device::gid_types, Device},
    MaySleep,
};
use rdma_cma::configfs::{self, File, Table};

use crate::{devices::Dev, tables};

/// The folder.
pub(crate) static TABLE: Table = Table {
    name: c"rdma_cm",
    ports,
    files: [
        File {
            name: c"default_roce_mode",
            show: show_mode,
            store: store_mode,
        },
        File {
            name: c"default_roce_tos",
            show: show_tos,
            store: store_tos,
        },
    ],
};

/// The folder, until it is dropped.
pub(crate) type Registration = configfs::Registration;

/// The names of the kinds of GIDs, of which the first two have one: `ib_cache_gid_type_str()`.
const FIRST: &str = "IB/RoCE v1";
/// See [`FIRST`].
const ROCE_V2: &str = "RoCE v2";

/// What was written, without the end of the line.
fn line(bytes: &[u8]) -> &[u8] {
    match bytes {
        [line @ .., b'\n'] => line,
        line => line,
    }
}

/// A number of 8 bits: octal behind `0`, hexadecimal behind `0x`, else decimal, as `kstrtou8()` reads it.
///
/// # Errors
///
/// `EINVAL` for what is no number, `ERANGE` for one above 255.
fn number(text: &[u8]) -> Result<u8> {
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let (digits, radix) = match text {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        [b'0', digits @ ..] if !digits.is_empty() => (digits, 8),
        digits => (digits, 10),
    };
    let digits = core::str::from_utf8(digits).map_err(|_| EINVAL)?;
    // Only one sign may be in front of it.
    if digits.starts_with('+') {
        return Err(EINVAL);
    }
    let value = u64::from_str_radix(digits, radix).map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow => ERANGE,
        _ => EINVAL,
    })?;
    u8::try_from(value).map_err(|_| ERANGE)
}

/// Calls `f` with a device, by its name.
fn with<R>(
    name: &CStr,
    sleep: &MaySleep,
    f: impl FnOnce(&Device, &Arc<Dev>) -> Result<R>,
) -> Result<R> {
    let tables = tables::lock(sleep);
    let mut entries = tables.devices.iter();
    let wanted = name.to_bytes();
    let entry = entries.find(|entry| entry.device.name().to_bytes() == wanted);
    let entry = entry.ok_or(ENODEV)?;
    f(&entry.device, &entry.dev)
}

/// Calls `f` with a device that has a port.
fn with_port<R>(
    name: &CStr,
    port: u32,
    sleep: &MaySleep,
    f: impl FnOnce(&Device, &Arc<Dev>) -> Result<R>,
) -> Result<R> {
    with(name, sleep, |device, dev| {
        match device.is_port_valid(port) {
            true => f(device, dev),
            false => Err(EINVAL),
        }
    })
}

fn ports(name: &CStr, sleep: &MaySleep) -> Result<u32> {
    with(name, sleep, |device, _| Ok(device.phys_port_cnt()))
}

fn show_mode(name: &CStr, port: u32, text: &mut dyn Write, sleep: &MaySleep) -> Result {
    let kind = with_port(name, port, sleep, |_, dev| Ok(dev.gid_type(port)))?;
    let shown = match kind {
        GidType::RoceV2 => ROCE_V2,
        GidType::Ib | GidType::RoceV1 => FIRST,
    };
    writeln!(text, "{shown}").map_err(|_| EINVAL)
}

fn store_mode(name: &CStr, port: u32, bytes: &[u8], sleep: &MaySleep) -> Result {
    with_port(name, port, sleep, |device, dev| {
        let wanted = line(bytes);
        let mut kind = match () {
            () if wanted == FIRST.as_bytes() => GidType::Ib,
            () if wanted == ROCE_V2.as_bytes() => GidType::RoceV2,
            () => return Err(EINVAL),
        };
        let kinds = GidTypes(gid_types(device, port));
        // On Ethernet the name of both first kinds is the same.
        if kind == GidType::Ib && kinds.has(GidType::RoceV1) {
            kind = GidType::RoceV1;
        }
        if !kinds.has(kind) {
            return Err(EINVAL);
        }
        dev.set_gid_type(port, kind);
        Ok(())
    })
}

fn show_tos(name: &CStr, port: u32, text: &mut dyn Write, sleep: &MaySleep) -> Result {
    let tos = with_port(name, port, sleep, |_, dev| Ok(dev.tos(port)))?;
    writeln!(text, "{tos}").map_err(|_| EINVAL)
}

fn store_tos(name: &CStr, port: u32, bytes: &[u8], sleep: &MaySleep) -> Result {
    let tos = number(line(bytes))?;
    with_port(name, port, sleep, |_, dev| {
        dev.set_tos(port, tos);
        Ok(())
    })
}
