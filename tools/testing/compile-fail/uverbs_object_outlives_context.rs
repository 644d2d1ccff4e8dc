// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs
// error: cannot move out of `context` because it is borrowed

//! A new context that is freed before an object that was begun in it.

use kernel::prelude::*;
use rdma_uverbs::{context::NewContext, event::AsyncEvents, request::Call};

/// Begins an object, and frees its context.
pub fn free(call: &Call<'_>) -> Result<u32> {
    let context = NewContext::new(*call)?;
    let object = context.begin::<AsyncEvents>()?;
    drop(context);
    Ok(object.id())
}
