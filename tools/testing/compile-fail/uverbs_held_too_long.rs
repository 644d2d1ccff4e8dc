// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs
// error: lifetime may not live long enough

//! An object that stays looked up after its command.

use kernel::prelude::*;
use rdma::{
    core::{AttrBundle, Pd},
    MaySleep,
};
use rdma_uverbs::lookup::ReadLocked;

/// Looks an object up.
pub fn keep(
    command: &AttrBundle,
    handle: u32,
    sleep: &MaySleep,
) -> Result<ReadLocked<'static, Pd>> {
    ReadLocked::get(command, handle, sleep)
}
