// SPDX-License-Identifier: GPL-2.0
// error: lifetime may not live long enough

//! A client keeps an object where it outlives the device.

use kernel::prelude::*;
use rdma::{
    client::{Device, Pd},
    MaySleep,
};

/// Keeps a protection domain for ever.
pub fn keep(device: &Device<'_>, sleep: &MaySleep) -> Result<Pd<'static>> {
    Pd::new(device, sleep)
}
