// SPDX-License-Identifier: GPL-2.0

//! The caches of a port: which there are, and how they are brought up to date.
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
    /// What is remembered of the rest.
    pub(crate) known: &'a PortCache,
}

/// Returns the caches of a port. Any context.
///
/// `None` if there is no such port, or the device has never been registered.
pub(crate) fn of(device: &Device, port: u32) -> Option<Caches<'_>> {
    let state = &device.core_port(port)?.cache;
    Some(Caches {
        gids: state.gids.as_ref()?,
        known: &state.known,
    })
}

/// Makes the GID table of a port, or opens the one that there is.
///
/// # Errors
///
/// `ENOMEM`, `EINVAL` for a port that there is not.
pub(crate) fn make_table(device: &Device, port: u32, types: u32, sleep: &MaySleep) -> Result {
    if let Some(caches) = of(device, port) {
        caches.gids.open(sleep);
        return Ok(());
    }
    let state = &device.core_port(port).ok_or(EINVAL)?.cache;
    // Nobody else makes one: a device is registered by one thread at a time.
    state
        .gids
        .populate(GidTable::new(device, port, types, sleep)?);
    Ok(())
}
