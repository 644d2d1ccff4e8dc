// SPDX-License-Identifier: GPL-2.0

//! The files of a port's P_Key table.
//!
//! C header: `include/rdma/ib_sysfs.h`.

use core::fmt::Write;

use kernel::prelude::*;
use kernel_ext::sysfs::{Name, Text};
use rdma::{
    core::sysfs::{AttrContext, Behaviour, PortGroup},
    MaySleep,
};

use crate::registry::port;

/// `pkeys/N`, for a table of `length` entries.
pub(super) fn group(length: u16) -> Result<PortGroup> {
    let files = (0..u32::from(length)).map(|nth| Behaviour::numbered(Name::number(nth), show, nth));
    PortGroup::new(Some(c"pkeys"), files)
}

fn show(of: &AttrContext<'_>, text: &mut Text<'_>, sleep: &MaySleep) -> Result {
    let index = u16::try_from(of.index).map_err(|_| EINVAL)?;
    let pkey = port::query_pkey(of.device, of.port, index, sleep)?;
    Ok(writeln!(text, "{pkey:#06x}")?)
}
