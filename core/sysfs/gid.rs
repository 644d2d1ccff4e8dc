// SPDX-License-Identifier: GPL-2.0

//! The files of a port's GID table: for each entry its GID, net device and type.
//!
//! C header: `include/rdma/ib_sysfs.h`.

use core::fmt::Write;

use kernel::{prelude::*, sync::rcu};
use kernel_ext::sysfs::{Name, Text};
use rdma::{
    core::{
        gid::GidRef,
        sysfs::{AttrContext, Behaviour, PortGroup, Show},
    },
    MaySleep,
};

use crate::gid as table;

/// `gids/N`, for a table of `length` entries.
pub(super) fn gids(length: u32) -> Result<PortGroup> {
    group(c"gids", length, gid)
}

/// `gid_attrs/ndevs/N`.
pub(super) fn ndevs(length: u32) -> Result<PortGroup> {
    group(c"ndevs", length, ndev)
}

/// `gid_attrs/types/N`.
pub(super) fn types(length: u32) -> Result<PortGroup> {
    group(c"types", length, gid_type)
}

fn group(name: &'static CStr, length: u32, show: Show) -> Result<PortGroup> {
    let files = (0..length).map(|nth| Behaviour::numbered(Name::number(nth), show, nth));
    PortGroup::new(Some(name), files)
}

/// The GID table entry of a file.
///
/// # Errors
///
/// `EINVAL` if there is no entry; user space relies on this error code.
fn entry(of: &AttrContext<'_>) -> Result<GidRef> {
    let index = i32::try_from(of.index).map_err(|_| EINVAL)?;
    table::get(of.device, of.port, index).map_err(|_| EINVAL)
}

/// An index without an entry is shown as the zero GID: tools read the whole table.
fn gid(of: &AttrContext<'_>, text: &mut Text<'_>, _sleep: &MaySleep) -> Result {
    let gid = entry(of).map_or([0; 16], |entry| entry.gid().0);
    for (nth, part) in gid.chunks_exact(2).enumerate() {
        let separator = if nth == 0 { "" } else { ":" };
        write!(text, "{separator}")?;
        for byte in part {
            write!(text, "{byte:02x}")?;
        }
    }
    text.append(b"\n");
    Ok(())
}

fn ndev(of: &AttrContext<'_>, text: &mut Text<'_>, _sleep: &MaySleep) -> Result {
    let entry = entry(of)?;
    let guard = rcu::read_lock();
    let name = entry.ndev(&guard).ok_or(EINVAL)?.name();
    text.append(name.as_bytes());
    text.append(b"\n");
    Ok(())
}

fn gid_type(of: &AttrContext<'_>, text: &mut Text<'_>, _sleep: &MaySleep) -> Result {
    text.append(table::type_name(entry(of)?.gid_type().as_raw()).to_bytes());
    text.append(b"\n");
    Ok(())
}
