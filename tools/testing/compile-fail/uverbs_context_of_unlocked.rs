// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs
// error: call to unsafe function `uobject::<impl Uobject>::context` is unsafe

//! The context of an object that is not locked, and that may be destroyed.

use rdma::core::{Ucontext, Uobject};

/// Takes the context.
pub fn context(object: &Uobject) -> Option<&Ucontext> {
    object.context()
}
