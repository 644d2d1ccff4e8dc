// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs

//! Objects of user space: what the others do wrong, done well.

use kernel::prelude::*;
use rdma::{
    core::{object::Owned, AttrBundle, Pd},
    MaySleep,
};
use rdma_uverbs::{
    lookup::{Destroyed, ReadLocked},
    new::NewObject,
};

/// An object that is complete. One that is dropped before is gone.
pub fn make(command: &AttrBundle, pd: Option<Owned<Pd>>, sleep: &MaySleep) -> Result {
    let new = NewObject::<Pd>::begin(command, sleep)?;
    new.complete(pd.ok_or(EINVAL)?);
    Ok(())
}

/// An object that is looked up during the command.
pub fn look_up(command: &AttrBundle, handle: u32, sleep: &MaySleep) -> Result<u64> {
    let held = ReadLocked::<Pd>::get(command, handle, sleep)?;
    Ok(held.uobject().user_handle())
}

/// An object that is destroyed.
pub fn destroy(command: &AttrBundle, handle: u32, sleep: &MaySleep) -> Result {
    Destroyed::<Pd>::get(command, handle, sleep).map(drop)
}
