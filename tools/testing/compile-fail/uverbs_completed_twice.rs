// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs
// error: use of moved value: `new`

//! An object that is committed twice.

use kernel::prelude::*;
use rdma::{
    core::{AttrBundle, Pd},
    MaySleep,
};
use rdma_uverbs::new::NewObject;

/// Makes an object.
pub fn make(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let new = NewObject::<Pd>::begin(command, sleep)?;
    new.finish();
    new.finish();
    Ok(())
}
