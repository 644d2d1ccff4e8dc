// SPDX-License-Identifier: GPL-2.0

//! The caches of a port.
//!
//! C header: `include/rdma/ib_cache.h`.

use kernel::{prelude::*, sync::Arc};
use rdma::{core::Device, MaySleep};

use super::{port_cache::PortCache, state::GidTable};
use crate::private::DeviceExt;

/// The caches of a port.
#[derive(Clone, Copy)]
pub(crate) struct Caches<'a> {
    /// The GID table.
    pub(crate) gids: &'a Arc<GidTable>,
    /// P_Keys and attributes.
    pub(crate) known: &'a PortCache,
}

/// Returns the caches of a port. Any context.
///
/// `None` for an invalid port, or a device that has never been registered.
pub(crate) fn of(device: &Device, port: u32) -> Option<Caches<'_>> {
    let state = &device.core_port(port)?.cache;
    Some(Caches {
        gids: state.gids.as_ref()?,
        known: &state.known,
    })
}

/// Creates the GID table of a port, or opens the existing one.
///
/// # Errors
///
/// `ENOMEM`, `EINVAL` for an invalid port.
pub(crate) fn make_table(device: &Device, port: u32, types: u32, sleep: &MaySleep) -> Result {
    if let Some(caches) = of(device, port) {
        caches.gids.open(sleep);
        return Ok(());
    }
    let state = &device.core_port(port).ok_or(EINVAL)?.cache;
    // No race: a device is registered by one thread at a time.
    state
        .gids
        .populate(GidTable::new(device, port, types, sleep)?);
    Ok(())
}
