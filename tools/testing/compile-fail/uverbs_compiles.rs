// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs

//! Objects of user space: what the others do wrong, done well.

use kernel::prelude::*;
use rdma::{
    core::{AttrBundle, Pd},
    MaySleep,
};
use rdma_uverbs::{
    held::{Held, Removed},
    new::NewObject,
};

/// An object that is complete. One that is dropped before is gone.
pub fn make(command: &AttrBundle, wanted: bool, sleep: &MaySleep) -> Result {
    let new = NewObject::<Pd>::begin(command, sleep)?;
    if !wanted {
        return Err(EINVAL);
    }
    new.finish();
    Ok(())
}

/// An object that is looked up during the command.
pub fn look_up(command: &AttrBundle, handle: u32, sleep: &MaySleep) -> Result<u64> {
    let held = Held::<Pd>::read(command, handle, sleep)?;
    Ok(held.uobject().user_handle())
}

/// An object that is destroyed.
pub fn destroy(command: &AttrBundle, handle: u32, sleep: &MaySleep) -> Result {
    Removed::<Pd>::destroy(command, handle, sleep).map(drop)
}
