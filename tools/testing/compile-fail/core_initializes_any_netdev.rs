// SPDX-License-Identifier: GPL-2.0
// error: mismatched types
// error: expected `NewNetdev<'_>`, found `&NetDevice`

//! A driver initialises its part of a net device that it has not asked for.

use kernel::prelude::*;
use kernel_ext::net::device::NetDevice;
use rdma::{core::driver::netdev::NetdevFor, MaySleep};

/// Initialises it.
pub fn initialize(what: NetdevFor<'_>, ndev: &NetDevice, sleep: &MaySleep) -> Result {
    what.initialize(ndev, sleep)
}
