// SPDX-License-Identifier: GPL-2.0
// error: this method takes 2 arguments but 1 argument was supplied

//! A core destroys a memory region in a handler, which has no token.

use rdma::core::{object::Owned, Mr};

/// What a handler of completions would do.
pub fn done(mr: Owned<Mr>) {
    let _ = mr.driver_dereg(None);
}
