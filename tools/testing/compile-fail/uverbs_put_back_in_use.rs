// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs
// error: cannot move out of `held` because it is borrowed

//! An object that is put back while the driver's object is in use.

use kernel::prelude::*;
use rdma::{
    core::{AttrBundle, Pd},
    MaySleep,
};
use rdma_uverbs::lookup::ReadLocked;

/// Looks an object up.
pub fn put_back(command: &AttrBundle, handle: u32, sleep: &MaySleep) -> Result<*const Pd> {
    let held = ReadLocked::<Pd>::get(command, handle, sleep)?;
    let pd: &Pd = &held;
    drop(held);
    Ok(core::ptr::from_ref(pd))
}
