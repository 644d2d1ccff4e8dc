// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs
// error: AttrBundle>::set_context` is unsafe

//! A command in a context that need not stay as long.

use rdma::core::{AttrBundle, Ucontext};

/// Sets the context.
pub fn set(command: &AttrBundle, context: &Ucontext) {
    command.set_context(Some(context));
}
