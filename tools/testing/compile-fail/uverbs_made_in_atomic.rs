// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs
// error: this function takes 2 arguments but 1 argument was supplied

//! An object that is begun where one may not sleep.

use kernel::prelude::*;
use rdma::core::{AttrBundle, Pd};
use rdma_uverbs::new::NewObject;

/// Makes an object.
pub fn make(command: &AttrBundle) -> Result {
    drop(NewObject::<Pd>::begin(command)?);
    Ok(())
}
