// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs
// error: use of moved value: `new`

//! An object that is committed twice.

use kernel::prelude::*;
use rdma::{
    core::{object::Owned, AttrBundle, Pd},
    MaySleep,
};
use rdma_uverbs::new::NewObject;

/// Makes an object.
pub fn make(command: &AttrBundle, pds: [Owned<Pd>; 2], sleep: &MaySleep) -> Result {
    let new = NewObject::<Pd>::begin(command, sleep)?;
    for pd in pds {
        new.complete(pd);
    }
    Ok(())
}
